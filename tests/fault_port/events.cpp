// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "events.hpp"

#include "plan.hpp"
#include "spoil_dat.hpp"

#include <dat2/dat_ib_extensions.h>
#include <mutex>

namespace dapl::DAPL_TRANSPORT::faults {

namespace {

struct held_event {
    DAT_EVD_HANDLE evd = nullptr;
    DAT_EVENT event{};
};
constexpr int most_held = 64; // more come once
std::mutex held_lock;
held_event held[most_held];

void hold_event(DAT_EVD_HANDLE evd, const DAT_EVENT &event)
{
    const std::lock_guard hold(held_lock);
    for (held_event &each : held)
        if (each.evd == nullptr) {
            each = {evd, event};
            return;
        }
}

subject kind_of(DAT_EVENT_NUMBER number)
{
    switch (static_cast<int>(number) & ~0xfff) {
    case 0:
        return subject::dto_event;
    case DAT_RMR_BIND_COMPLETION_EVENT & ~0xfff:
        return subject::rmr_event;
    case DAT_CONNECTION_REQUEST_EVENT & ~0xfff:
        return subject::cr_event;
    case DAT_CONNECTION_EVENT_ESTABLISHED & ~0xfff:
        return subject::connection_event;
    case DAT_ASYNC_ERROR_EVD_OVERFLOW & ~0xfff:
        return subject::async_event;
    case DAT_SOFTWARE_EVENT & ~0xfff:
        return subject::software_event;
    default:
        return subject::extension_event;
    }
}

void change_dto(DAT_DTO_COMPLETION_EVENT_DATA &done, const fault &due)
{
    switch (due.does) {
    case action::object:
        return spoil(done.ep_handle);
    case action::cookie:
        return spoil(done.user_cookie);
    case action::status:
        done.status = static_cast<DAT_DTO_COMPLETION_STATUS>(due.amount);
        return;
    case action::length:
        done.transfered_length += static_cast<DAT_SEG_LENGTH>(due.amount);
        return;
    case action::operation:
        done.operation = done.operation == DAT_DTO_SEND ? DAT_DTO_RDMA_WRITE : DAT_DTO_SEND;
        return;
    case action::private_data:
        return spoil(done.rmr_context);
    default:
        return;
    }
}

void change_rmr(DAT_RMR_BIND_COMPLETION_EVENT_DATA &done, const fault &due)
{
    if (due.does == action::object)
        spoil(done.rmr_handle);
    if (due.does == action::cookie)
        spoil(done.user_cookie);
    if (due.does == action::status)
        done.status = static_cast<DAT_DTO_COMPLETION_STATUS>(due.amount);
}

void change_cr(DAT_CR_ARRIVAL_EVENT_DATA &request, const fault &due)
{
    if (due.does == action::object)
        spoil(request.sp_handle.psp_handle);
    if (due.does == action::cookie)
        spoil(request.conn_qual);
    if (due.does == action::private_data)
        request.local_ia_address_ptr = nullptr;
}

void change_connection(DAT_CONNECTION_EVENT_DATA &connection, const fault &due)
{
    if (due.does == action::object)
        spoil(connection.ep_handle);
    if (due.does == action::private_data)
        connection = {connection.ep_handle, 0, nullptr};
}

void change_async(DAT_ASYNCH_ERROR_EVENT_DATA &what, const fault &due)
{
    if (due.does == action::object)
        spoil(what.dat_handle);
    if (due.does == action::cookie)
        ++what.reason;
}

void change_extension(DAT_EVENT &event, const fault &due)
{
    auto &data = *reinterpret_cast<DAT_IB_EXTENSION_EVENT_DATA *>(event.event_extension_data);
    change_dto(event.event_data.dto_completion_event_data, due);
    if (due.does == action::private_data)
        data.val.immed.data ^= 1;
}

void change(DAT_EVENT &event, subject kind, const fault &due)
{
    if (due.does == action::event)
        event.event_number = static_cast<DAT_EVENT_NUMBER>(due.amount);
    if (due.does == action::evd)
        spoil(event.evd_handle);
    DAT_EVENT_DATA &data = event.event_data;
    switch (kind) {
    case subject::dto_event:
        return change_dto(data.dto_completion_event_data, due);
    case subject::rmr_event:
        return change_rmr(data.rmr_completion_event_data, due);
    case subject::cr_event:
        return change_cr(data.cr_arrival_event_data, due);
    case subject::connection_event:
        return change_connection(data.connect_event_data, due);
    case subject::async_event:
        return change_async(data.asynch_error_event_data, due);
    case subject::software_event:
        if (due.does == action::cookie)
            spoil(data.software_event_data.pointer);
        return;
    default:
        return change_extension(event, due);
    }
}

} // namespace

bool take_held_event(DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    const std::lock_guard hold(held_lock);
    for (held_event &each : held)
        if (each.evd == evd && evd != nullptr) {
            event = each.event;
            each.evd = nullptr;
            return true;
        }
    return false;
}

bool pass_event(DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    const subject kind = kind_of(event.event_number);
    const fault *const due = the_plan().due(kind);
    if (due == nullptr)
        return true;
    if (due->does == action::never)
        return false;
    if (due->does == action::twice)
        hold_event(evd, event);
    if (due->does == action::swap) {
        DAT_EVENT next;
        if (dequeue_next(evd, next) == DAT_SUCCESS) {
            hold_event(evd, event);
            event = next;
        }
    }
    change(event, kind, *due);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT::faults
