// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "notification.hpp"

#include "completion_event.hpp"

namespace dapl::DAPL_TRANSPORT::core {

void notify_overrides::add(DAT_COMPLETION_FLAGS flags, int change)
{
    constexpr unsigned selects =
        DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    queues_.fetch_add(change, std::memory_order_relaxed);
    if ((flags & selects) != 0)
        selective_.fetch_add(change, std::memory_order_relaxed);
    if ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0)
        unsignalled_.fetch_add(change, std::memory_order_relaxed);
    if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0)
        solicited_.fetch_add(change, std::memory_order_relaxed);
}

notify_on notify_overrides::arming() const
{
    if (!claims.solicited_wait || !arms_for_solicited_)
        return notify_on::any;
    const int selective = selective_.load(std::memory_order_relaxed);
    return selective != 0 && selective == queues_.load(std::memory_order_relaxed)
               ? notify_on::solicited
               : notify_on::any;
}

DAT_EVD_STATE notify_overrides::config() const
{
    if (solicited_.load(std::memory_order_relaxed) != 0)
        return DAT_EVD_STATE_CONFIG_SOLICITED;
    if (unsignalled_.load(std::memory_order_relaxed) != 0)
        return DAT_EVD_STATE_CONFIG_NOTIFY;
    return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

bool notifies(const completion &done)
{
    if (done.status != DAT_DTO_SUCCESS)
        return true;
    const work_queue *queue = queue_of(done);
    if (done.wr->unsignalled || queue == nullptr)
        return false;
    const unsigned flags = queue->completion_flags.load(std::memory_order_relaxed);
    if constexpr (claims.solicited_wait)
        if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0 &&
            done.wr->operation == opcode::receive)
            return done.solicited;
    return (flags & DAT_COMPLETION_UNSIGNALLED_FLAG) == 0;
}

} // namespace dapl::DAPL_TRANSPORT::core
