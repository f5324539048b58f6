// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CSP, and connecting to one: socket addresses in the place of qualifiers. The qualifier of a CSP
// is the port of its address, so that every transport has them.
#include "dapl_api.hpp"

namespace dapl::DAPL_TRANSPORT::core {

status check_common_address(const DAT_SOCK_ADDR *given, int position)
{
    if (given == nullptr)
        return invalid_parameter(position);
    if (osd::address::size_of(given) == 0)
        return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
    return osd::address::port_of(given) == 0 ? invalid_parameter(position) : success;
}

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
