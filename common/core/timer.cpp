// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "timer.hpp"

#include "dapl_debug.hpp"

namespace dapl::DAPL_TRANSPORT::core {

bool timer_queue::start()
{
    osd::lock_guard hold(lock_);
    return thread_.running() ||
           thread_.start(
               "dapl-timer", [](void *me) { static_cast<timer_queue *>(me)->run(); }, this);
}

bool timer_queue::arm(timer_record &record, osd::deadline due)
{
    if (!start())
        return false;
    osd::lock_guard hold(lock_);
    dapl_log(DAPL_DBG_TYPE_UTIL, "timer %p: armed", static_cast<void *>(&record));
    remove(record);
    record.due = due;
    insert(record);
    if (first_ == &record)
        changed_.broadcast();
    return true;
}

void timer_queue::disarm(timer_record &record)
{
    osd::lock_guard hold(lock_);
    remove(record);
}

void timer_queue::cancel(timer_record &record)
{
    osd::lock_guard hold(lock_);
    remove(record);
    while (running_ == &record)
        (void)changed_.wait(lock_, osd::deadline::never());
}

void timer_queue::stop()
{
    {
        osd::lock_guard hold(lock_);
        stopping_ = true;
        changed_.broadcast();
    }
    thread_.join();
}

/// Timeouts mostly come in the order in which they expire: the search begins at the end.
void timer_queue::insert(timer_record &record)
{
    timer_record *before = last_;
    while (before != nullptr && record.due < before->due)
        before = before->previous;
    record.previous = before;
    record.next = before == nullptr ? first_ : before->next;
    (record.previous == nullptr ? first_ : record.previous->next) = &record;
    (record.next == nullptr ? last_ : record.next->previous) = &record;
    record.queued = true;
}

void timer_queue::remove(timer_record &record)
{
    if (!record.queued)
        return;
    (record.previous == nullptr ? first_ : record.previous->next) = record.next;
    (record.next == nullptr ? last_ : record.next->previous) = record.previous;
    record.queued = false;
}

void timer_queue::expire_first()
{
    timer_record &record = *first_;
    remove(record);
    running_ = &record;
    lock_.unlock();
    dapl_log(DAPL_DBG_TYPE_UTIL, "timer %p: expired", static_cast<void *>(&record));
    const deferred_call after = record.expired(record);
    lock_.lock();
    running_ = nullptr;
    changed_.broadcast();
    if (after.run == nullptr)
        return;
    lock_.unlock();
    after.make();
    lock_.lock();
}

void timer_queue::run()
{
    osd::lock_guard hold(lock_);
    while (!stopping_) {
        if (first_ != nullptr && first_->due.has_passed())
            expire_first();
        else
            (void)changed_.wait(lock_, first_ == nullptr ? osd::deadline::never() : first_->due);
    }
}

} // namespace dapl::DAPL_TRANSPORT::core
