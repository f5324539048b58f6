// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_cno_* calls: their arguments are checked here, their work is done in core/cno.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/cno.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

status dapl_cno_create(adapter &ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia.make<cno>(agent);
    if (made == nullptr)
        return out_of_memory;
    *out = to_handle(made);
    return success;
}

status dapl_cno_fd_create(adapter &ia, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    if (fd == nullptr)
        return invalid_parameter(2);
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia.make<cno>(DAT_OS_WAIT_PROXY_AGENT{});
    if (made == nullptr)
        return out_of_memory;
    const status opened = made->open_descriptor();
    if (!opened.ok()) {
        ia.destroy(*made);
        return opened;
    }
    *fd = made->descriptor();
    *out = to_handle(made);
    return success;
}

status dapl_cno_trigger(cno &c, DAT_EVD_HANDLE *triggered_by)
{
    if (!osd::event_descriptor::exists) // the call is for the owners of descriptors
        return not_supported;
    return triggered_by == nullptr ? invalid_parameter(2) : c.take_trigger(triggered_by);
}

status dapl_cno_modify_agent(cno &c, DAT_OS_WAIT_PROXY_AGENT agent)
{
    c.modify_agent(agent);
    return success;
}

void dapl_cno_query(cno &c, DAT_CNO_PARAM &out)
{
    c.fill(out);
}

status dapl_cno_free(cno &victim)
{
    if (in_use(victim) || victim.has_waiters())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    victim.await_unreferenced();
    victim.ia->destroy(victim);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
