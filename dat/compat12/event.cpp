// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event.hpp"

#include "calls.hpp"

#include <dat2/dat_ib_extensions.h>

namespace dat12 {
namespace {

/// The service point may just be coming into being; see `listening`.
object *service_point(void *two)
{
    object *found = found_by_two(two);
    if (found != nullptr)
        return found;
    listening until_published;
    return found_by_two(two);
}

/// Translates a connection request. Without memory for its handle it is rejected: the peer gets an
/// answer.
bool translate_request(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one)
{
    const DAT_CR_ARRIVAL_EVENT_DATA &from = two.event_data.cr_arrival_event_data;
    v1::DAT_CR_ARRIVAL_EVENT_DATA &to = one.event_data.cr_arrival_event_data;
    object *request = reserve();
    if (request == nullptr) {
        (void)dat::call<&DAT_PROVIDER::cr_reject_func, DAT_NO_SUBTYPE>(
            from.cr_handle, DAT_COUNT{0}, static_cast<DAT_PVOID>(nullptr));
        return false;
    }
    to.sp_handle.psp_handle = handle_of(service_point(from.sp_handle.psp_handle));
    to.local_ia_address_ptr = from.local_ia_address_ptr;
    to.conn_qual = from.conn_qual;
    to.cr_handle = handle_of(publish(*request, DAT_HANDLE_TYPE_CR, from.cr_handle, evd.ia));
    return true;
}

/// What an asynchronous error is about: an adapter is a number of libdat2's.
DAT_HANDLE affected(DAT_HANDLE two)
{
    const bool is_adapter = reinterpret_cast<std::uintptr_t>(two) < dat::ia_handle_limit;
    return handle_of(is_adapter ? found_by_number(two) : found_by_two(two));
}

bool is_connection_event(DAT_EVENT_NUMBER number)
{
    return number >= DAT_CONNECTION_EVENT_ESTABLISHED && number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

bool is_async_error(DAT_EVENT_NUMBER number)
{
    return number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
           number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR;
}

void translate_bind(const DAT_EVENT_DATA &two, v1::DAT_EVENT_DATA &one)
{
    one.rmr_completion_event_data = two.rmr_completion_event_data;
    one.rmr_completion_event_data.rmr_handle = one_of(two.rmr_completion_event_data.rmr_handle);
}

void translate_connection(const DAT_EVENT_DATA &two, v1::DAT_EVENT_DATA &one)
{
    one.connect_event_data = two.connect_event_data;
    one.connect_event_data.ep_handle = one_of(two.connect_event_data.ep_handle);
}

void translate_async(const DAT_EVENT_DATA &two, v1::DAT_EVENT_DATA &one)
{
    one.asynch_error_event_data = two.asynch_error_event_data;
    one.asynch_error_event_data.dat_handle = affected(two.asynch_error_event_data.dat_handle);
}

bool translate_data(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one)
{
    if (two.event_number == DAT_CONNECTION_REQUEST_EVENT)
        return translate_request(evd, two, one);
    if (two.event_number == DAT_RMR_BIND_COMPLETION_EVENT)
        translate_bind(two.event_data, one.event_data);
    else if (is_connection_event(two.event_number))
        translate_connection(two.event_data, one.event_data);
    else if (is_async_error(two.event_number))
        translate_async(two.event_data, one.event_data);
    else if (two.event_number == DAT_SOFTWARE_EVENT)
        one.event_data.software_event_data = two.event_data.software_event_data;
    else
        return false;
    return true;
}

} // namespace

bool translate_other(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one)
{
    // A peer of DAT 2.0 may send immediate data: to DAT 1.2 that is a receive like others.
    if (static_cast<int>(two.event_number) == static_cast<int>(DAT_IB_DTO_EVENT)) {
        translate_dto(evd, two, one);
        return true;
    }
    one.event_number = static_cast<v1::DAT_EVENT_NUMBER>(two.event_number);
    one.evd_handle = handle_of(&evd);
    return translate_data(evd, two, one);
}

} // namespace dat12
