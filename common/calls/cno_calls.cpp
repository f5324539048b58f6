// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_cno_* calls: their arguments are checked here, their work is done in core/cno.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/cno.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

status make_cno(adapter &ia, const DAT_OS_WAIT_PROXY_AGENT &agent, DAT_CNO_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia.make<cno>(agent);
    if (made == nullptr)
        return out_of_memory;
    *out = to_handle(made);
    return success;
}

status make_polled_cno(adapter &ia, DAT_FD *fd, DAT_CNO_HANDLE *out)
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

status query_cno(cno &c, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
    if (has_unknown_bits(mask, 0x7))
        return invalid_parameter(2);
    if (param == nullptr)
        return invalid_parameter(3);
    c.fill(*param);
    return success;
}

status free_cno(cno &victim)
{
    if (in_use(victim) || victim.has_waiters())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    victim.await_unpinned();
    victim.ia->destroy(victim);
    return success;
}

} // namespace

DAT_RETURN dapl_cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
    return on_object<adapter>(ia, DAT_INVALID_HANDLE_IA,
                              [=](adapter &on) { return make_cno(on, agent, out); });
}

DAT_RETURN dapl_cno_fd_create(DAT_IA_HANDLE ia, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    return on_object<adapter>(ia, DAT_INVALID_HANDLE_IA,
                              [=](adapter &on) { return make_polled_cno(on, fd, out); });
}

DAT_RETURN dapl_cno_trigger(DAT_CNO_HANDLE handle, DAT_EVD_HANDLE *triggered_by)
{
    return on_object<cno>(handle, DAT_INVALID_HANDLE_CNO, [=](cno &c) {
        return triggered_by == nullptr ? invalid_parameter(2) : c.take_trigger(triggered_by);
    });
}

DAT_RETURN dapl_cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
    return on_object<cno>(handle, DAT_INVALID_HANDLE_CNO,
                          [=](cno &c) { return c.modify_agent(agent), success; });
}

DAT_RETURN dapl_cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
    return on_object<cno>(handle, DAT_INVALID_HANDLE_CNO,
                          [=](cno &c) { return query_cno(c, mask, param); });
}

DAT_RETURN dapl_cno_free(DAT_CNO_HANDLE handle)
{
    return on_object<cno>(handle, DAT_INVALID_HANDLE_CNO, free_cno);
}

DAT_RETURN dapl_cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *triggered_by)
{
    return on_object<cno>(handle, DAT_INVALID_HANDLE_CNO, [=](cno &c) {
        return triggered_by == nullptr ? invalid_parameter(3) : c.wait(timeout, triggered_by);
    });
}

} // namespace dapl::DAPL_TRANSPORT::core
