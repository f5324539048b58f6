// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_queue.hpp"

#include "adapter.hpp"
#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "osd_thread.hpp"
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

bool event_queue::reserve(DAT_COUNT qlen, event_ring<DAT_EVENT> &posted,
                          event_ring<completion> &staged) const
{
    return ((streams_ & ~completion_streams) == 0 || posted.allocate(qlen)) &&
           (!has_completions() || staged.allocate(qlen));
}

status event_queue::allocate(transport::hca &hca, evd &self, DAT_COUNT qlen)
{
    qlen_.store(qlen, std::memory_order_relaxed);
    if (!reserve(qlen, posted_, staged_))
        return out_of_memory;
    if (!has_completions() && !claims.evd_wait)
        return success;
    const status opened = open_cq(hca, self, has_completions() ? qlen : 0);
    if (opened.ok() && has_completions())
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
    event_ring<DAT_EVENT> posted;
    event_ring<completion> staged;
    if (!reserve(qlen, posted, staged))
        return out_of_memory;
    const bool shrinks = qlen < this->qlen();
    if (shrinks && (count_up_to(qlen + 1) > qlen || !replace_posted(posted)))
        return status::error(DAT_INVALID_STATE);
    DAT_COUNT depth = qlen;
    const status resized = has_cq() ? transport::dapls_ib_cq_resize(cq_, depth) : success;
    if (shrinks != resized.ok())
        (void)replace_posted(posted); // returns to the longer ring, in which everything fits
    if (!resized.ok())
        return resized;
    staged_.take_storage_of(staged);
    qlen_.store(qlen, std::memory_order_relaxed);
    return success;
}

/// Returns false when more is in it than fits.
bool event_queue::replace_posted(event_ring<DAT_EVENT> &ring)
{
    osd::lock_guard hold(producers_);
    if (posted_.size() > ring.length())
        return false;
    posted_.take_storage_of(ring);
    return true;
}

bool event_queue::store_posted(const DAT_EVENT &event)
{
    osd::lock_guard hold(producers_);
    if (!posted_.push(event))
        return false;
    state_.fetch_add(1); // ordered before the producer's test for a waiter
    return true;
}

bool consumer_claim::contend(std::uint32_t wanted)
{
    osd::backoff pauses;
    for (std::uint32_t seen = 0; !word_.compare_exchange_weak(seen, wanted); seen = 0) {
        if ((seen & waiting) != 0)
            return false;
        if (seen != 0)
            pauses.pause();
    }
    return true;
}

// ------------------------------------------------------------------------------------- staging

DAT_COUNT event_queue::count_up_to(DAT_COUNT wanted)
{
    if ((state_.load() & orphaned) != 0) [[unlikely]]
        drop_staged_orphans();
    completion done;
    while (pending() < wanted && has_cq() && staged_.room() != 0 &&
           transport::dapls_ib_completion_poll(cq_, done))
        stage(done);
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

void event_queue::stage(const completion &done)
{
    if (owner_of(done) == nullptr) {
        // Retires in post order: a queue with its last request retired may be deleted.
        drop_staged_orphans();
        retire(done);
        return;
    }
    staged_.push(done);
    state_.fetch_add(1);
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
    stage({done, length, DAT_DTO_SUCCESS, false, 0, nullptr});
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
    state_.fetch_sub(1);
}

// -------------------------------------------------------------------------------------- taking

namespace {

/// The number of an event in a ring, for atomic access. Only BROKEN changes, with producers_ held.
std::atomic_ref<DAT_EVENT_NUMBER> number_of(DAT_EVENT &event)
{
    return std::atomic_ref<DAT_EVENT_NUMBER>(event.event_number);
}

/// Changes the last event of these that ends a connection of the endpoint, if it is BROKEN. False
/// when there is none.
bool end_in(event_ring<DAT_EVENT> &events, DAT_EP_HANDLE ep)
{
    const std::uint32_t head = events.head(); // a consumer may move it past `at`
    for (std::uint32_t at = events.tail(); at != head; --at) {
        DAT_EVENT &event = events.at(at - 1);
        if (!ends_connection(event) || event.event_data.connect_event_data.ep_handle != ep)
            continue;
        if (event.event_number == DAT_CONNECTION_EVENT_BROKEN)
            number_of(event).store(DAT_CONNECTION_EVENT_DISCONNECTED, std::memory_order_release);
        return true;
    }
    return false;
}

} // namespace

void event_queue::end_as_asked(DAT_EP_HANDLE ep)
{
    osd::lock_guard hold(producers_);
    if (!end_in(posted_, ep) && ends_ != nullptr)
        (void)end_in(*ends_, ep);
}

bool event_queue::pop_posted(DAT_EVENT &event)
{
    if (posted_.empty())
        return false;
    DAT_EVENT &next = posted_.at(posted_.head());
    if (number_of(next).load(std::memory_order_acquire) != DAT_CONNECTION_EVENT_BROKEN)
        return posted_.pop(event);
    osd::lock_guard hold(producers_);
    return posted_.pop(event);
}

/// An event that its producer has not counted yet is left alone: taking it would remove a staged
/// completion from the count, and a later one would be taken from the CQ before that.
bool event_queue::take_unordered(DAT_EVENT &event)
{
    if (pending() > static_cast<DAT_COUNT>(staged_.size()) && pop_posted(event)) {
        state_.fetch_sub(1);
        posted_taken();
        return true;
    }
    completion done;
    while (staged_.pop(done)) {
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
            const DAT_DTOS operation = done.wr->operation;
            fill_event(done, *ep, handle(), event);
            retire(done);
            if (done.status != DAT_DTO_SUCCESS && done.status != DAT_DTO_ERR_FLUSHED) {
                dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "EP %p: %s failed: %s",
                         static_cast<void *>(ep), dat::operation_name(operation),
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
