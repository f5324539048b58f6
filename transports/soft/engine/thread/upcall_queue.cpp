// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "upcall_queue.hpp"

#include "sleeper.hpp"

#include <bit>

namespace soft_hca {

void upcall_queue::append(upcall_source &from)
{
    list &to = list_of(from.priority_);
    from.queued_ = true;
    from.next_ = nullptr;
    (to.first == nullptr ? to.first : to.last->next_) = &from;
    to.last = &from;
}

upcall_source *upcall_queue::pop_from(list &each)
{
    upcall_source *const oldest = each.first;
    if (oldest != nullptr) {
        each.first = oldest->next_;
        oldest->queued_ = false;
    }
    return oldest;
}

upcall_source *upcall_queue::pop(bool with_callbacks)
{
    const list *const callbacks = &list_of(upcall_source::priority::completion);
    for (list &each : lists_)
        if (with_callbacks || &each != callbacks)
            if (upcall_source *const oldest = pop_from(each); oldest != nullptr)
                return oldest;
    return nullptr;
}

void upcall_queue::unlink(upcall_source &from)
{
    from.pending_ = 0;
    if (!from.queued_)
        return;
    from.queued_ = false;
    list &in = list_of(from.priority_);
    upcall_source *previous = nullptr;
    for (upcall_source *each = in.first; each != &from; each = each->next_)
        previous = each;
    (previous == nullptr ? in.first : previous->next_) = from.next_;
    if (in.last == &from)
        in.last = previous;
}

void upcall_queue::post(upcall_source &from, std::uint32_t event)
{
    {
        osd::lock_guard hold(lock_);
        from.pending_ |= 1u << event;
        if (!from.queued_)
            append(from);
    }
    if (from.priority_ == upcall_source::priority::completion && waiter_->takes_over())
        return;
    any_.store(true);
    if (takers_.load() == 0)
        thread_->kick(); // does nothing while the thread is awake, as when it posts itself
}

void upcall_queue::cancel(upcall_source &from)
{
    osd::lock_guard hold(lock_);
    unlink(from);
}

bool upcall_queue::is_busy(const upcall_source &with) const
{
    return busy_[thread] == &with || busy_[waiter] == &with;
}

void upcall_queue::cancel_and_wait(upcall_source &from)
{
    osd::lock_guard hold(lock_);
    unlink(from);
    while (is_busy(from))
        (void)idle_.wait(lock_, osd::deadline::never());
}

void upcall_queue::deliver_one(upcall_source &from, deliverer by)
{
    const auto event = static_cast<std::uint32_t>(std::countr_zero(from.pending_));
    from.pending_ &= from.pending_ - 1;
    if (from.pending_ != 0)
        append(from);
    busy_[by] = &from;
    lock_.unlock();
    from.make_upcall(*table_, event);
    lock_.lock();
    busy_[by] = nullptr;
    idle_.broadcast();
}

/// One thread at a time, so that the events of an object stay in order. It takes events that others
/// find and leave to it, as it looks again under the lock. any_ marks events that are left.
bool upcall_queue::deliver_up_to(unsigned most)
{
    if (!any_.exchange(false))
        return false;
    osd::lock_guard hold(lock_);
    if (delivering_)
        return false;
    delivering_ = true;
    upcall_source *oldest = nullptr;
    unsigned made = 0;
    for (; made != most && (oldest = pop(!waiter_->present())) != nullptr; ++made)
        deliver_one(*oldest, thread);
    delivering_ = false;
    if (made == most)
        any_.store(true);
    return true;
}

/// Makes a bounded number of upcalls: the thread has more to do, though consumers that post from
/// their callbacks bring ever new upcalls.
bool upcall_queue::deliver()
{
    constexpr unsigned most = 64;
    return deliver_up_to(most);
}

/// A consumer waits for something else than most upcalls are about.
void upcall_queue::end_taking()
{
    constexpr unsigned most = 16;
    (void)deliver_up_to(most);
    takers_.fetch_sub(1);
    if (any_.load())
        thread_->kick();
}

// --------------------------------------------------------------------------- the callback waiter

bool upcall_queue::has_callbacks()
{
    osd::lock_guard hold(lock_);
    return list_of(upcall_source::priority::completion).first != nullptr;
}

/// Makes a bounded number of upcalls: the waiter leaves though callbacks bring ever new upcalls,
/// since its CNO may be triggered, or its time be up.
bool upcall_queue::deliver_callbacks()
{
    constexpr unsigned most = 64;
    unsigned made = 0;
    osd::lock_guard hold(lock_);
    list &callbacks = list_of(upcall_source::priority::completion);
    for (; made != most && callbacks.first != nullptr; ++made)
        deliver_one(*pop_from(callbacks), waiter);
    return made != 0;
}

void upcall_queue::return_callbacks()
{
    if (!has_callbacks())
        return;
    any_.store(true);
    thread_->kick();
}

} // namespace soft_hca
