// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a completion means: the DAT_EVENT that reports it, and which queue and endpoint it is of.
#pragma once

#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// A success that brought nothing but bytes. Of a receive from a shared queue, `wr->queue` has no
/// owner, so that fill_plain_event refuses it.
OSD_ALWAYS_INLINE bool is_plain(const completion &done)
{
    if constexpr (claims.immediate_data)
        if (done.has_immediate)
            return false;
    if constexpr (claims.send_invalidate)
        if (done.invalidated != 0)
            return false;
    return done.status == DAT_DTO_SUCCESS;
}

/// The event of a plain success; `owner` is the owner of the request's queue. False, with the event
/// untouched, for an extended operation, a bind, or a queue without an owner.
OSD_ALWAYS_INLINE bool fill_plain_event(const work_request &done, endpoint *owner,
                                        DAT_UINT32 length, DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    const opcode operation = done.operation;
    if (operation != opcode::receive) {
        if ((claims.immediate_data || claims.atomics || claims.memory_windows ||
             claims.read_to_rmr || claims.datagrams) &&
            operation > opcode::receive) [[unlikely]]
            return false;
        length = done.length;
    }
    if (owner == nullptr) [[unlikely]]
        return false;
    auto &dto = event.event_data.dto_completion_event_data;
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = evd;
    dto.ep_handle = owner;
    dto.user_cookie = done.cookie;
    dto.status = DAT_DTO_SUCCESS;
    dto.operation = static_cast<DAT_DTOS>(operation);
    dto.transfered_length = length;
    dto.rmr_context = 0;
    return true;
}

/// The event of any completion whose endpoint still exists.
void fill_event(const completion &done, endpoint &owner, DAT_EVD_HANDLE evd, DAT_EVENT &event);

/// The queue of the endpoint that the operation was posted on or, for a receive from a shared
/// queue, that consumed it. Null when that queue is gone.
work_queue *queue_of(const completion &done);
/// Returns null when the endpoint is gone; the completion is dropped then.
endpoint *owner_of(const completion &done);
/// Releases the work request, and with it those before it whose success was suppressed.
void retire(const completion &done);

} // namespace dapl::DAPL_TRANSPORT::core
