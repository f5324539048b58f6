// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_cno_* calls: their arguments are checked here, their work is done in cno.cpp.
#include "dapl_api.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

status make_cno(DAT_IA_HANDLE ia_handle, const DAT_OS_WAIT_PROXY_AGENT &agent, DAT_CNO_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia->make(ia->cnos, agent);
    if (made == nullptr)
        return out_of_memory;
    *out = to_handle(made);
    return success;
}

status make_polled_cno(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (fd == nullptr)
        return invalid_parameter(2);
    if (out == nullptr)
        return invalid_parameter(3);
    cno *made = ia->make(ia->cnos, DAT_OS_WAIT_PROXY_AGENT{});
    if (made == nullptr)
        return out_of_memory;
    const status opened = made->open_descriptor();
    if (!opened.ok()) {
        ia->destroy(ia->cnos, *made);
        return opened;
    }
    *fd = made->descriptor();
    *out = to_handle(made);
    return success;
}

} // namespace

DAT_RETURN dapl_cno_fd_create(DAT_IA_HANDLE ia, DAT_FD *fd, DAT_CNO_HANDLE *out)
{
    return make_polled_cno(ia, fd, out).code();
}

DAT_RETURN dapl_cno_trigger(DAT_CNO_HANDLE handle, DAT_EVD_HANDLE *triggered_by)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (triggered_by == nullptr)
        return invalid_parameter(2).code();
    return c->take_trigger(triggered_by).code();
}

DAT_RETURN dapl_cno_create(DAT_IA_HANDLE ia, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE *out)
{
    return make_cno(ia, agent, out).code();
}

DAT_RETURN dapl_cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    c->modify_agent(agent);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM *param)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (has_unknown_bits(mask, 0x7))
        return invalid_parameter(2).code();
    if (param == nullptr)
        return invalid_parameter(3).code();
    c->fill(*param);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_free(DAT_CNO_HANDLE handle)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (in_use(*c) || c->has_waiters())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE).code();
    if (!c->condemn())
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    c->await_unpinned();
    c->ia->destroy(c->ia->cnos, *c);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *triggered_by)
{
    cno *c = from_handle<cno>(handle);
    if (c == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CNO).code();
    if (triggered_by == nullptr)
        return invalid_parameter(3).code();
    return c->wait(timeout, triggered_by).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
