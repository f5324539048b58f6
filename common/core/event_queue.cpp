// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_queue.hpp"

#include "adapter.hpp"
#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "queue_owner.hpp"

#include <climits>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------------------- storage

event_queue::event_queue(const DAT_PROVIDER *vector, adapter &owner, DAT_EVD_FLAGS streams)
    : object(vector, mark::evd, owner), overrides(owner.attr.solicited_wait),
      state_(no_cq | (merges(streams) ? ordered : 0)), streams_(streams)
{}

event_queue::~event_queue()
{
    for (work_queue *queue = orphans_.load(); queue != nullptr;)
        std::exchange(queue, queue->next_orphan)->release();
}

bool event_queue::reserve(DAT_COUNT qlen, posted_ring<DAT_EVENT>::storage &posted,
                          event_ring<completion> &staged) const
{
    return ((streams_ & ~completion_streams) == 0 ||
            posted.allocate(static_cast<std::uint32_t>(qlen))) &&
           (!takes(completion_streams) || staged.allocate(qlen));
}

status event_queue::allocate(transport::hca &hca, evd &self, DAT_COUNT qlen)
{
    qlen_.store(qlen, std::memory_order_relaxed);
    posted_ring<DAT_EVENT>::storage posted;
    if (!reserve(qlen, posted, staged_))
        return out_of_memory;
    (void)exchange_posted(posted); // nothing is there yet
    if (!takes(completion_streams) && !claims.evd_wait)
        return success;
    const status opened = open_cq(hca, self, takes(completion_streams) ? qlen : 0);
    if (opened.ok() && takes(completion_streams))
        state_.fetch_and(~no_cq);
    return opened;
}

status event_queue::open_cq(transport::hca &hca, evd &self, DAT_COUNT depth)
{
    const status opened = transport::dapls_ib_cq_alloc(hca, cq_, self, depth);
    cq_open_ = opened.ok();
    return opened;
}

/// posted_ holds the limit of the producers. It is replaced first when it shrinks and last when it
/// grows, so that it can be restored if the CQ cannot be resized.
status event_queue::resize_claimed(DAT_COUNT qlen)
{
    if (has_cq() && !claims.cq_resize)
        return not_supported;
    posted_ring<DAT_EVENT>::storage posted;
    event_ring<completion> staged;
    if (!reserve(qlen, posted, staged))
        return out_of_memory;
    const bool shrinks = qlen < this->qlen();
    if (shrinks && (count_up_to(qlen + 1) > qlen || !exchange_posted(posted)))
        return status::error(DAT_INVALID_STATE);
    DAT_COUNT depth = qlen;
    const status resized = has_cq() ? transport::dapls_ib_cq_resize(cq_, depth) : success;
    if (shrinks != resized.ok())
        (void)exchange_posted(posted); // returns to the longer ring, in which everything fits
    if (!resized.ok())
        return resized;
    staged_.take_storage_of(staged);
    qlen_.store(qlen, std::memory_order_relaxed);
    return success;
}

/// Returns false when more is in it than fits.
bool event_queue::exchange_posted(posted_ring<DAT_EVENT>::storage &other)
{
    osd::lock_guard hold(ends_lock_);
    return posted_.exchange_storage(other);
}

bool event_queue::store_posted(const DAT_EVENT &event)
{
    return posted_.post(event, event.event_number == DAT_CONNECTION_EVENT_BROKEN);
}

// ------------------------------------------------------------------------------------- staging

DAT_COUNT event_queue::count_up_to(DAT_COUNT wanted)
{
    if ((state_.load() & orphaned) != 0) [[unlikely]]
        drop_staged_orphans();
    completion done;
    DAT_COUNT count = pending();
    while (count < wanted && has_cq() && staged_.room() != 0 &&
           transport::dapls_ib_completion_poll(cq_, done))
        count = stage(done) ? count + 1 : pending();
    return pending();
}

DAT_COUNT event_queue::available(DAT_COUNT limit)
{
    if constexpr (claims.cq_count)
        if (has_cq() && (state_.load() & orphaned) == 0)
            return pending() >= limit
                       ? pending()
                       : pending() + transport::dapls_ib_cq_count(cq_, limit - pending());
    return count_up_to(limit);
}

bool event_queue::notifies_since(std::uint32_t position)
{
    (void)count_up_to(INT_MAX);
    if (has_cq() && staged_.room() == 0)
        return true;
    if (static_cast<std::int32_t>(position - staged_.head()) < 0)
        position = staged_.head(); // skips completions that were taken since
    for (std::uint32_t at = position; at != staged_.tail(); ++at)
        if (notifies(staged_.at(at)))
            return true;
    return false;
}

bool event_queue::stage(const completion &done)
{
    if (owner_of(done) == nullptr) {
        // Retires in post order: a queue with its last request retired may be deleted.
        drop_staged_orphans();
        retire(done);
        return false;
    }
    const bool first = staged_.empty();
    staged_.push(done);
    if (first)
        state_.fetch_add(1);
    return true;
}

void event_queue::stage_one()
{
    completion done;
    for (const std::uint32_t before = staged_.tail();
         staged_.tail() == before && staged_.room() != 0 &&
         transport::dapls_ib_completion_poll(cq_, done);)
        stage(done);
}

void event_queue::stage_success(work_request *done, DAT_UINT32 length)
{
    stage(completion_of(*done, length));
}

/// Stages a completion that was polled, and counts all.
DAT_COUNT event_queue::count_staging(const completion &done)
{
    stage(done);
    return count_up_to(INT_MAX);
}

/// Takes a completion out of staged_. Completions before it move up by one position, and so does
/// the barrier if it is later.
void event_queue::take_staged(std::uint32_t position, completion &done)
{
    if (barrier_ != nullptr && static_cast<std::int32_t>(position - *barrier_) >= 0)
        ++*barrier_;
    staged_.take(position, done);
    if (staged_.empty())
        state_.fetch_sub(1);
}

// -------------------------------------------------------------------------------------- taking

namespace {

/// Changes an event if it is the end of a connection of the endpoint, and BROKEN. False when it is
/// no such end.
bool end_in(DAT_EVENT &event, DAT_EP_HANDLE ep)
{
    if (!ends_connection(event) || event.event_data.connect_event_data.ep_handle != ep)
        return false;
    if (event.event_number == DAT_CONNECTION_EVENT_BROKEN)
        event.event_number = DAT_CONNECTION_EVENT_DISCONNECTED;
    return true;
}

} // namespace

void event_queue::end_as_asked(DAT_EP_HANDLE ep)
{
    osd::lock_guard hold(ends_lock_);
    if (posted_.change_marked([ep](DAT_EVENT &event) { return end_in(event, ep); }) ||
        ends_ == nullptr)
        return;
    for (std::uint32_t at = ends_->tail(); at != ends_->head(); --at)
        if (end_in(ends_->at(at - 1), ep))
            return;
}

void event_queue::take_posted(DAT_EVENT &event)
{
    if (!posted_.is_front_marked()) {
        event = posted_.front();
        posted_.drop_front();
        return;
    }
    osd::lock_guard hold(ends_lock_);
    event = posted_.front();
    posted_.drop_front();
}

bool event_queue::take_unordered(DAT_EVENT &event)
{
    if (counted() > (staged_.empty() ? 0 : 1)) {
        take_posted(event);
        state_.fetch_sub(1);
        posted_taken();
        return true;
    }
    completion done;
    while (staged_.pop(done)) {
        if (staged_.empty())
            state_.fetch_sub(1);
        if (convert(done, event))
            return true;
    }
    return false;
}

bool event_queue::take_completion(DAT_EVENT &event)
{
    completion done;
    while (transport::dapls_ib_completion_poll(cq_, done))
        if (convert(done, event))
            return true;
    if ((state_.load() & orphaned) == 0)
        return false;
    drop_orphans();
    return take_unordered(event);
}

bool event_queue::convert(const completion &done, DAT_EVENT &event)
{
    return convert_plain(done, event) || convert_unusual(done, event);
}

/// A completion that is no plain success: of an orphan, which is dropped; an extended one; or a
/// failure, which breaks a connection that is still up. The endpoint stays while its queue's
/// owner_lock is held.
bool event_queue::convert_unusual(const completion &done, DAT_EVENT &event)
{
    if (work_queue *queue = queue_of(done); queue != nullptr) {
        osd::lock_guard hold(queue->owner_lock);
        if (endpoint *ep = queue->owner.load(std::memory_order_relaxed); ep != nullptr) {
            const opcode operation = done.wr->operation;
            fill_event(done, *ep, handle(), event);
            retire(done);
            if (done.status != DAT_DTO_SUCCESS && done.status != DAT_DTO_ERR_FLUSHED) {
                dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "EP %p: %s failed: %s",
                         static_cast<void *>(ep), dat::operation_name(dto_of(operation)),
                         dat::dto_status_name(done.status));
                operation_failed(*ep);
            }
            return true;
        }
    }
    // The lock is not held here: the thread that frees the endpoint deletes an idle queue, and its
    // lock.
    retire(done);
    return false;
}

// ------------------------------------------------------------------------------------- orphans

void event_queue::adopt(work_queue *orphan)
{
    orphan->next_orphan = orphans_.load(std::memory_order_relaxed);
    while (!orphans_.compare_exchange_weak(orphan->next_orphan, orphan, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
    state_.fetch_or(orphaned);
}

/// A staged completion whose endpoint was freed since does not count.
void event_queue::drop_staged_orphans()
{
    completion done;
    for (std::uint32_t at = staged_.head(); at != staged_.tail(); ++at) {
        if (owner_of(staged_.at(at)) != nullptr)
            continue;
        take_staged(at, done);
        retire(done);
    }
}

/// Drops the orphans after the CQ ran empty. Orphans adopted before the CQ is found empty once more
/// have no completion left in it.
void event_queue::drop_orphans()
{
    state_.fetch_and(~orphaned); // first: an adoption from now on sets it again
    work_queue *list = orphans_.exchange(nullptr, std::memory_order_acquire);
    drop_staged_orphans();
    (void)count_up_to(INT_MAX);
    const bool drained = staged_.room() != 0;
    while (list != nullptr) {
        work_queue *queue = std::exchange(list, list->next_orphan);
        if (drained)
            queue->release();
        else
            adopt(queue);
    }
}

} // namespace dapl::DAPL_TRANSPORT::core
