// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_order.hpp"

#include "queue_owner.hpp"

#include <climits>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

DAT_EP_HANDLE endpoint_in(const DAT_EVENT &event)
{
    return event.event_data.connect_event_data.ep_handle;
}

} // namespace

void event_order::take_storage_of(event_ring<DAT_EVENT> &longer)
{
    osd::lock_guard hold(queue_.ends_lock_);
    ends_.take_storage_of(longer);
}

/// Takes the next event: first posted events, except ends of connections; then ends that have no
/// completion before them any more; then the first completion whose connection has been reported.
bool event_order::take(DAT_EVENT &event)
{
    for (;;) {
        if (take_posted(event) || take_end(event))
            return true;
        const std::uint32_t place = first_deliverable();
        const bool found = place != queue_.staged_.tail();
        if (!found && stage_more())
            continue;
        if (has_posted())
            continue; // the completion may not have been deliverable before that was posted
        if (!found)
            return false;
        completion done;
        queue_.take_staged(place, done);
        if (queue_.convert(done, event))
            return true;
    }
}

bool event_order::has_posted() const
{
    return queue_.pending() > static_cast<DAT_COUNT>(queue_.staged_.size() + ends_.size());
}

/// Takes the next posted event. Ends of connections move to ends_, unless that is full.
bool event_order::take_posted(DAT_EVENT &event)
{
    while (has_posted()) {
        bool moved = false;
        {
            osd::lock_guard hold(queue_.ends_lock_);
            const DAT_EVENT &next = queue_.posted_.front();
            if (take_earlier_end(next, event))
                return true;
            moved = ends_connection(next) && ends_.push(next);
            if (!moved)
                event = next;
            queue_.posted_.drop_front();
        }
        if (!moved)
            queue_.state_.fetch_sub(1);
        queue_.posted_taken();
        if (!moved)
            return true;
    }
    return false;
}

/// The end of an earlier connection of the endpoint that `next` is about. The reset dropped its
/// completions, so that it need not wait.
bool event_order::take_earlier_end(const DAT_EVENT &next, DAT_EVENT &event)
{
    if (!is_about_connection(next))
        return false;
    for (std::uint32_t at = ends_.head(); at != ends_.tail(); ++at) {
        if (endpoint_in(ends_.at(at)) != endpoint_in(next))
            continue;
        if (at == ends_.head())
            clear_barrier();
        ends_.take(at, event);
        queue_.state_.fetch_sub(1);
        return true;
    }
    return false;
}

/// Takes an end whose completions are delivered. Every completion before the end was in the CQ when
/// the end was posted, and the CQ was found empty since.
bool event_order::take_end(DAT_EVENT &event)
{
    const DAT_EVENT *end = ends_.front();
    if (end == nullptr)
        return false;
    if (!has_barrier_) {
        (void)stage_more();
        if (queue_.staged_.room() != 0)
            set_barrier();
    }
    if (!has_barrier_ || completes_before_barrier(endpoint_in(*end)))
        return false;
    clear_barrier();
    {
        osd::lock_guard hold(queue_.ends_lock_);
        (void)ends_.pop(event);
    }
    queue_.state_.fetch_sub(1);
    return true;
}

void event_order::set_barrier()
{
    has_barrier_ = true;
    barrier_ = queue_.staged_.tail();
    queue_.barrier_ = &barrier_;
}

void event_order::clear_barrier()
{
    has_barrier_ = false;
    queue_.barrier_ = nullptr;
}

/// Flushed completions may follow the end.
bool event_order::completes_before_barrier(DAT_EP_HANDLE ep) const
{
    const event_ring<completion> &staged = queue_.staged_;
    for (std::uint32_t at = staged.head(); static_cast<std::int32_t>(barrier_ - at) > 0; ++at) {
        const completion &done = staged.at(at);
        if (done.status != DAT_DTO_ERR_FLUSHED && static_cast<void *>(owner_of(done)) == ep)
            return true;
    }
    return false;
}

/// The position of the first staged completion that may be delivered; the end if there is none. The
/// completions of one endpoint stay in order.
std::uint32_t event_order::first_deliverable() const
{
    std::uint32_t at = queue_.staged_.head();
    if (!queue_.establishing.any())
        return at;
    while (at != queue_.staged_.tail() && precedes_established(queue_.staged_.at(at)))
        ++at;
    return at;
}

/// Whether the completion's connection is up, but the ESTABLISHED event has not been posted yet.
bool event_order::precedes_established(const completion &done) const
{
    work_queue *queue = queue_of(done);
    if (queue == nullptr)
        return false;
    osd::lock_guard hold(queue->owner_lock); // keeps the endpoint
    endpoint *ep = queue->owner.load(std::memory_order_relaxed);
    return ep != nullptr && awaits_establish_on(*ep, self_);
}

/// Returns true when completions came from the CQ.
bool event_order::stage_more()
{
    event_ring<completion> &staged = queue_.staged_;
    const std::uint32_t before = staged.tail();
    (void)queue_.count_up_to(INT_MAX);
    if (staged.empty() && (queue_.state_.load() & event_queue::orphaned) != 0)
        queue_.drop_orphans();
    return staged.tail() != before;
}

} // namespace dapl::DAPL_TRANSPORT::core
