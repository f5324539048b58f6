// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service points, and the requests that arrive at them.
#include "calls.hpp"

using dat12::object;

namespace dat12 {
namespace {

/// Asks for the endpoint that stands behind a request, so that it has a handle before its events
/// come.
void know_endpoint(object &request)
{
    DAT_CR_PARAM param{};
    const DAT_RETURN status =
        call_two<&DAT_PROVIDER::cr_query_func>(request, DAT_CR_FIELD_LOCAL_EP_HANDLE, &param);
    if (status != DAT_SUCCESS || param.local_ep_handle == nullptr)
        return;
    object *known = found_quickly(param.local_ep_handle);
    const bool made =
        known == nullptr || object_of<DAT_HANDLE_TYPE_EP>(handle_of(known)) == nullptr;
    object *endpoint = found_or_made(param.local_ep_handle, DAT_HANDLE_TYPE_EP, request.ia);
    if (made)
        request.cr_endpoint = endpoint;
}

/// An endpoint that the provider made for a request goes with it.
void retire_with_endpoint(object &request)
{
    if (request.cr_endpoint != nullptr)
        retire(*request.cr_endpoint);
    retire(request);
}

/// Translates the parameters of a service point, public or reserved.
template <typename Param>
void point_to_one(const object &point, const Param &two, Param &one)
{
    one = two;
    one.ia_handle = handle_of(point.ia);
    one.evd_handle = one_of(two.evd_handle);
    if constexpr (requires { two.ep_handle; })
        one.ep_handle = one_of(two.ep_handle);
}

} // namespace
} // namespace dat12

// --- Connection requests
// -----------------------------------------------------------------------------

DAT_RETURN dat12_cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_CR, &DAT_PROVIDER::cr_query_func, DAT_CR_PARAM>(
        handle, mask, DAT_CR_FIELD_ALL, mask, param,
        [](object &request, const DAT_CR_PARAM &two, DAT_CR_PARAM &one) {
            if (two.local_ep_handle != nullptr)
                dat12::know_endpoint(request);
            one = two;
            one.local_ep_handle = dat12::one_of(two.local_ep_handle);
        });
}

DAT_RETURN dat12_cr_accept(DAT_CR_HANDLE handle, DAT_EP_HANDLE ep, DAT_COUNT size,
                           const DAT_PVOID data)
{
    object *request = dat12::object_of<DAT_HANDLE_TYPE_CR>(handle);
    if (request == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CR>;
    if (ep == nullptr)
        dat12::know_endpoint(*request);
    const DAT_RETURN status = dat12::call<&DAT_PROVIDER::cr_accept_func>(
        *request, dat12::two_of<DAT_HANDLE_TYPE_EP>(ep), size, data);
    if (status == DAT_SUCCESS)
        dat12::retire(*request);
    return status;
}

DAT_RETURN dat12_cr_reject(DAT_CR_HANDLE handle)
{
    object *request = dat12::object_of<DAT_HANDLE_TYPE_CR>(handle);
    if (request == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CR>;
    const DAT_RETURN status = dat12::call<&DAT_PROVIDER::cr_reject_func>(
        *request, DAT_COUNT{0}, static_cast<DAT_PVOID>(nullptr));
    if (status == DAT_SUCCESS)
        dat12::retire_with_endpoint(*request);
    return status;
}

DAT_RETURN dat12_cr_handoff(DAT_CR_HANDLE handle, DAT_CONN_QUAL qualifier)
{
    object *request = dat12::object_of<DAT_HANDLE_TYPE_CR>(handle);
    if (request == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CR>;
    const DAT_RETURN status = dat12::call<&DAT_PROVIDER::cr_handoff_func>(*request, qualifier);
    if (status == DAT_SUCCESS)
        dat12::retire_with_endpoint(*request);
    return status;
}

// --- Public service points
// ---------------------------------------------------------------------------

DAT_RETURN dat12_psp_create(DAT_IA_HANDLE handle, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
                            DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    dat12::listening until_published;
    return dat12::create<DAT_HANDLE_TYPE_PSP>(*ia, psp, 5, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::psp_create_func>(
            *ia, qualifier, dat12::two_of<DAT_HANDLE_TYPE_EVD>(evd), flags, made);
    });
}

DAT_RETURN dat12_psp_create_any(DAT_IA_HANDLE handle, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE evd,
                                DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    dat12::listening until_published;
    return dat12::create<DAT_HANDLE_TYPE_PSP>(*ia, psp, 5, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::psp_create_any_func>(
            *ia, qualifier, dat12::two_of<DAT_HANDLE_TYPE_EVD>(evd), flags, made);
    });
}

DAT_RETURN dat12_psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_PSP, &DAT_PROVIDER::psp_query_func, DAT_PSP_PARAM>(
        handle, mask, DAT_PSP_FIELD_ALL, mask, param, dat12::point_to_one<DAT_PSP_PARAM>);
}

DAT_RETURN dat12_psp_free(DAT_PSP_HANDLE psp)
{
    return dat12::release<DAT_HANDLE_TYPE_PSP, &DAT_PROVIDER::psp_free_func>(psp);
}

// --- Reserved service points
// -------------------------------------------------------------------------

DAT_RETURN dat12_rsp_create(DAT_IA_HANDLE handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep,
                            DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    dat12::listening until_published;
    return dat12::create<DAT_HANDLE_TYPE_RSP>(*ia, rsp, 5, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::rsp_create_func>(
            *ia, qualifier, dat12::two_of<DAT_HANDLE_TYPE_EP>(ep),
            dat12::two_of<DAT_HANDLE_TYPE_EVD>(evd), made);
    });
}

DAT_RETURN dat12_rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_RSP, &DAT_PROVIDER::rsp_query_func, DAT_RSP_PARAM>(
        handle, mask, DAT_RSP_FIELD_ALL, mask, param, dat12::point_to_one<DAT_RSP_PARAM>);
}

DAT_RETURN dat12_rsp_free(DAT_RSP_HANDLE rsp)
{
    return dat12::release<DAT_HANDLE_TYPE_RSP, &DAT_PROVIDER::rsp_free_func>(rsp);
}
