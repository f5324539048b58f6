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

/// Creates a service point and lets it listen. `qualifier` goes in as the wanted qualifier, and
/// comes back as the qualifier in use.
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

status free_sp(service_point &victim, DAT_RETURN_SUBTYPE kind)
{
    if (!victim.condemn())
        return invalid_handle(kind);
    victim.stop_listening();
    victim.ia->await_unused(victim);
    victim.ia->destroy(victim);
    return success;
}

status create_psp(adapter &ia, DAT_CONN_QUAL &qualifier, DAT_EVD_HANDLE evd_handle,
                  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
        return invalid_parameter(4);
    if (out == nullptr)
        return invalid_parameter(5);
    service_point *made = nullptr;
    const status created = create_sp(ia, {mark::psp, evd_handle, flags}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    return created;
}

} // namespace

// ----------------------------------------------------------------------------------------- PSP

status dapl_psp_create(adapter &ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
                       DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    return qualifier == 0 ? invalid_parameter(2) : create_psp(ia, qualifier, evd, flags, out);
}

status dapl_psp_create_any(adapter &ia, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE evd,
                           DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (qualifier == nullptr)
        return invalid_parameter(2);
    DAT_CONN_QUAL found = 0;
    const status created = create_psp(ia, found, evd, flags, out);
    if (created.ok())
        *qualifier = found;
    // Nothing is free, then.
    return created.type() == DAT_CONN_QUAL_IN_USE ? status::error(DAT_CONN_QUAL_UNAVAILABLE)
                                                  : created;
}

void dapl_psp_query(service_point &sp, DAT_PSP_PARAM &out)
{
    out = {sp.ia->consumer_handle(), sp.qualifier(), to_handle(&sp.requests()), sp.flags};
}

status dapl_psp_free(service_point &victim)
{
    return free_sp(victim, DAT_INVALID_HANDLE_PSP);
}

// ----------------------------------------------------------------------------------------- RSP

status dapl_rsp_create(adapter &ia, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                       DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *out)
{
    if (qualifier == 0)
        return invalid_parameter(2);
    endpoint *ep = from_handle<endpoint>(ep_handle);
    if (ep == nullptr || ep->ia != &ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (out == nullptr)
        return invalid_parameter(5);
    if (ep->datagrams.in_use())
        return not_supported;
    if (!ep->change_state(DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_RESERVED))
        return ep->state_error();
    service_point *made = nullptr;
    const status created =
        create_sp(ia, {mark::rsp, evd_handle, DAT_PSP_CONSUMER_FLAG, ep}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    else
        ep->change_state(DAT_EP_STATE_RESERVED, DAT_EP_STATE_UNCONNECTED);
    return created;
}

void dapl_rsp_query(service_point &sp, DAT_RSP_PARAM &out)
{
    out = {sp.ia->consumer_handle(), sp.qualifier(), to_handle(&sp.requests()), sp.reserved()};
}

status dapl_rsp_free(service_point &victim)
{
    return free_sp(victim, DAT_INVALID_HANDLE_RSP);
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

status check_csp(const adapter &ia, const DAT_COMM *comm, const DAT_SOCK_ADDR *given,
                 const void *out)
{
    if (comm == nullptr)
        return invalid_parameter(2);
    if (const status checked = check_common_address(given, 3); !checked.ok())
        return checked;
    if (out == nullptr)
        return invalid_parameter(5);
    if (!is_ours(*comm, *ia.attr.address))
        return status::error(DAT_COMM_NOT_SUPPORTED);
    return osd::address::is_host(ia.attr.address, given)
               ? success
               : status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
}

} // namespace

status dapl_csp_create(adapter &ia, DAT_COMM *comm, DAT_IA_ADDRESS_PTR given,
                       DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE *out)
{
    if (const status checked = check_csp(ia, comm, given, out); !checked.ok())
        return checked;
    sp_request wanted{mark::csp, evd_handle};
    wanted.common.comm = *comm;
    (void)wanted.common.address.assign(given);
    DAT_CONN_QUAL port = osd::address::port_of(given);
    service_point *made = nullptr;
    const status created = create_sp(ia, wanted, port, made);
    if (created.ok())
        *out = to_handle(made);
    return created.type() == DAT_CONN_QUAL_IN_USE ? status::error(DAT_PORT_IN_USE) : created;
}

void dapl_csp_query(service_point &sp, DAT_CSP_PARAM &out)
{
    out = {sp.ia->consumer_handle(), &sp.made_with.comm, sp.made_with.address.get(),
           to_handle(&sp.requests())};
}

status dapl_csp_free(service_point &victim)
{
    return free_sp(victim, DAT_INVALID_HANDLE_CSP);
}

} // namespace dapl::DAPL_TRANSPORT::core
