// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_psp_*, dat_rsp_* and dat_csp_* calls: their arguments are checked here, their work is
// done in core/service_point.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/service_point.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

struct sp_request {
    mark kind;
    DAT_EVD_HANDLE evd_handle;
    DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG;
    endpoint *reserved = nullptr;
    common_address common{};
};

/// `qualifier` is both what is wanted and what came of it.
status create_sp(adapter &ia, const sp_request &wanted, DAT_CONN_QUAL &qualifier,
                 service_point *&out)
{
    evd *requests = from_handle<evd>(wanted.evd_handle);
    if (requests == nullptr || requests->ia != &ia || !requests->takes(DAT_EVD_CR_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CR);
    out = ia.make<service_point>(wanted.kind, *requests, wanted.flags, wanted.reserved,
                                 wanted.common);
    if (out == nullptr)
        return out_of_memory;
    const status begun = out->listen(qualifier);
    if (!begun.ok())
        ia.destroy(*out);
    return begun;
}

/// A handle of exactly this kind of service point, or null.
service_point *sp_of(DAT_HANDLE handle, mark kind)
{
    auto *found = from_handle<service_point>(handle);
    return found != nullptr && found->kind() == kind ? found : nullptr;
}

status free_sp(service_point *victim, DAT_RETURN_SUBTYPE kind)
{
    if (victim == nullptr || !victim->condemn())
        return invalid_handle(kind);
    victim->stop_listening();
    victim->ia->await_unused(*victim);
    victim->ia->destroy(*victim);
    return success;
}

} // namespace

// --------------------------------------------------------------------------------- PSP and RSP

namespace {

status check_psp(const adapter *ia, DAT_PSP_FLAGS flags, const void *out)
{
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
        return invalid_parameter(4);
    return out == nullptr ? invalid_parameter(5) : success;
}

status create_psp(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL &qualifier, DAT_EVD_HANDLE evd_handle,
                  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (const status checked = check_psp(ia, flags, out); !checked.ok())
        return checked;
    service_point *made = nullptr;
    const status created = create_sp(*ia, {mark::psp, evd_handle, flags}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    return created;
}

status create_rsp(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                  DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (qualifier == 0)
        return invalid_parameter(2);
    endpoint *ep = from_handle<endpoint>(ep_handle);
    if (ep == nullptr || ep->ia != ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (out == nullptr)
        return invalid_parameter(5);
    if (!ep->change_state(DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_RESERVED))
        return ep->state_error();
    service_point *made = nullptr;
    const status created =
        create_sp(*ia, {mark::rsp, evd_handle, DAT_PSP_CONSUMER_FLAG, ep}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    else
        ep->change_state(DAT_EP_STATE_RESERVED, DAT_EP_STATE_UNCONNECTED);
    return created;
}

} // namespace

DAT_RETURN dapl_psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
                           DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (qualifier == 0)
        return invalid_parameter(2).code();
    return create_psp(ia, qualifier, evd, flags, out).code();
}

DAT_RETURN dapl_psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE evd,
                               DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (qualifier == nullptr)
        return invalid_parameter(2).code();
    DAT_CONN_QUAL found = 0;
    status created = create_psp(ia, found, evd, flags, out);
    if (created.ok())
        *qualifier = found;
    if (created.type() == DAT_CONN_QUAL_IN_USE) // nothing is free
        created = status::error(DAT_CONN_QUAL_UNAVAILABLE);
    return created.code();
}

DAT_RETURN dapl_psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
    service_point *sp = sp_of(handle, mark::psp);
    const status checked = check_query(sp, DAT_INVALID_HANDLE_PSP, mask, DAT_PSP_FIELD_ALL, param);
    if (checked.ok())
        *param = {sp->ia->consumer_handle(), sp->qualifier(), to_handle(&sp->requests()),
                  sp->flags};
    return checked.code();
}

DAT_RETURN dapl_psp_free(DAT_PSP_HANDLE handle)
{
    return free_sp(sp_of(handle, mark::psp), DAT_INVALID_HANDLE_PSP).code();
}

DAT_RETURN dapl_rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep,
                           DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *out)
{
    return create_rsp(ia, qualifier, ep, evd, out).code();
}

DAT_RETURN dapl_rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param)
{
    service_point *sp = sp_of(handle, mark::rsp);
    const status checked = check_query(sp, DAT_INVALID_HANDLE_RSP, mask, DAT_RSP_FIELD_ALL, param);
    if (checked.ok())
        *param = {sp->ia->consumer_handle(), sp->qualifier(), to_handle(&sp->requests()),
                  sp->reserved()};
    return checked.code();
}

DAT_RETURN dapl_rsp_free(DAT_RSP_HANDLE handle)
{
    return free_sp(sp_of(handle, mark::rsp), DAT_INVALID_HANDLE_RSP).code();
}

// ----------------------------------------------------------------------------------------- CSP
//
// Socket addresses in the place of qualifiers. The qualifier of a CSP is the
// port of its address, so that every transport has them.

namespace {

/// The family of an address, and the kind of socket that is as an endpoint is: connected and
/// reliable.
bool is_ours(const DAT_COMM &comm, const DAT_SOCK_ADDR &address)
{
    return comm.domain == address.sa_family && comm.type == SOCK_STREAM &&
           (comm.protocol == 0 || comm.protocol == IPPROTO_TCP);
}

status check_csp(const adapter *ia, const DAT_COMM *comm, const DAT_SOCK_ADDR *given,
                 const void *out)
{
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (comm == nullptr)
        return invalid_parameter(2);
    if (const status checked = check_common_address(given, 3); !checked.ok())
        return checked;
    if (out == nullptr)
        return invalid_parameter(5);
    if (!is_ours(*comm, *ia->attr.address))
        return status::error(DAT_COMM_NOT_SUPPORTED);
    return osd::address::is_host(ia->attr.address, given)
               ? success
               : status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
}

status create_csp(adapter *ia, const DAT_COMM *comm, const DAT_SOCK_ADDR *given,
                  DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE *out)
{
    if (const status checked = check_csp(ia, comm, given, out); !checked.ok())
        return checked;
    sp_request wanted{mark::csp, evd_handle};
    wanted.common.comm = *comm;
    (void)wanted.common.address.assign(given);
    DAT_CONN_QUAL port = osd::address::port_of(given);
    service_point *made = nullptr;
    const status created = create_sp(*ia, wanted, port, made);
    if (created.ok())
        *out = to_handle(made);
    return created.type() == DAT_CONN_QUAL_IN_USE ? status::error(DAT_PORT_IN_USE) : created;
}

} // namespace

DAT_RETURN dapl_csp_create(DAT_IA_HANDLE ia, DAT_COMM *comm, DAT_IA_ADDRESS_PTR address,
                           DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *out)
{
    return create_csp(from_handle<adapter>(ia), comm, address, evd, out).code();
}

DAT_RETURN dapl_csp_query(DAT_CSP_HANDLE handle, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM *param)
{
    service_point *sp = sp_of(handle, mark::csp);
    const status checked = check_query(sp, DAT_INVALID_HANDLE_CSP, mask, DAT_CSP_FIELD_ALL, param);
    if (checked.ok())
        *param = {sp->ia->consumer_handle(), &sp->made_with.comm, sp->made_with.address.get(),
                  to_handle(&sp->requests())};
    return checked.code();
}

DAT_RETURN dapl_csp_free(DAT_CSP_HANDLE handle)
{
    return free_sp(sp_of(handle, mark::csp), DAT_INVALID_HANDLE_CSP).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
