// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_event.hpp"

#include "binding.hpp"

#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

bool is_receive(opcode operation)
{
    return operation == opcode::receive || operation == opcode::receive_datagram;
}

/// The type of the extended event that reports the end of a request.
DAT_IB_EXT_TYPE extension_type(opcode operation)
{
    switch (operation) {
    case opcode::fetch_add:
        return DAT_IB_FETCH_AND_ADD;
    case opcode::compare_swap:
        return DAT_IB_CMP_AND_SWAP;
    case opcode::send_datagram:
        return DAT_IB_UD_SEND;
    case opcode::receive_datagram:
        return DAT_IB_UD_RECV;
    default:
        return DAT_IB_RDMA_WRITE_IMMED;
    }
}

/// An extended operation, and a receive that a write with immediate data consumed, are reported by
/// an extended event: it has a type, a status of its own, and the immediate data.
void add_extension(const completion &done, DAT_EVENT &event)
{
    auto &dto = event.event_data.dto_completion_event_data;
    const bool received = claims.immediate_data && dto.operation == DAT_DTO_RECEIVE &&
                          done.status == DAT_DTO_SUCCESS && done.has_immediate;
    if (dto.operation <= DAT_DTO_RECEIVE && !received)
        return;
    DAT_IB_EXTENSION_EVENT_DATA more{};
    if (received) {
        dto.operation = static_cast<DAT_DTOS>(DAT_IB_DTO_RECV_IMMED);
        more.type = DAT_IB_RDMA_WRITE_IMMED_DATA;
        more.val.immed.data = done.immediate;
    } else {
        more.type = extension_type(done.wr->operation);
        if (more.type == DAT_IB_UD_RECV && done.status == DAT_DTO_SUCCESS)
            more.remote_ah.qpn = done.immediate;
    }
    more.status = done.status == DAT_DTO_SUCCESS ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    static_assert(sizeof more == sizeof event.event_extension_data);
    std::memcpy(event.event_extension_data, &more, sizeof more);
}

void fill_transfer(const completion &done, endpoint &owner, DAT_EVENT &event)
{
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    auto &dto = event.event_data.dto_completion_event_data;
    dto.ep_handle = &owner;
    dto.user_cookie = done.wr->cookie;
    dto.status = done.status;
    dto.operation = dto_of(done.wr->operation);
    dto.transfered_length = 0;
    if (done.status == DAT_DTO_SUCCESS)
        dto.transfered_length = is_receive(done.wr->operation) ? done.length : done.wr->length;
    dto.rmr_context = 0;
    if (claims.send_invalidate && dto.operation == DAT_DTO_RECEIVE &&
        done.status == DAT_DTO_SUCCESS && done.invalidated != 0) {
        dto.operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
        dto.rmr_context = done.invalidated;
        return;
    }
    add_extension(done, event);
}

void fill_bind(const completion &done, DAT_EVENT &event)
{
    event.event_number = DAT_RMR_BIND_COMPLETION_EVENT;
    auto &bound = event.event_data.rmr_completion_event_data;
    bound.rmr_handle = done.wr->queue->binding_at(*done.wr)->bound_rmr;
    bound.user_cookie = done.wr->cookie;
    bound.status = done.status;
}

bool is_bind(const completion &done)
{
    return claims.memory_windows && done.wr->operation == opcode::bind;
}

} // namespace

void fill_event(const completion &done, endpoint &owner, DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    event.evd_handle = evd;
    if (is_bind(done))
        fill_bind(done, event);
    else
        fill_transfer(done, owner, event);
}

work_queue *queue_of(const completion &done)
{
    if constexpr (claims.srq)
        if (done.wr->queue->shared)
            return done.receiver;
    return done.wr->queue;
}

endpoint *owner_of(const completion &done)
{
    const work_queue *queue = queue_of(done);
    return queue == nullptr ? nullptr : queue->owner.load(std::memory_order_relaxed);
}

void retire(const completion &done)
{
    if (is_bind(done)) {
        binding *bound = done.wr->queue->take_binding(*done.wr);
        if (done.status != DAT_DTO_SUCCESS)
            bound->failed.store(true, std::memory_order_release);
        bound->release();
    }
    if (done.wr->queue->shared)
        static_cast<shared_work_queue *>(done.wr->queue)->give_back(*done.wr);
    else
        done.wr->queue->retire(*done.wr);
}

} // namespace dapl::DAPL_TRANSPORT::core
