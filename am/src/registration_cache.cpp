// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "registration_cache.hpp"

#include "dapl_am.h"
#include "service_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_WRITE // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace am {

namespace {

using phase = registration::phase;

std::uint64_t page_size()
{
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

} // namespace

/// Ends the watch of what lies in the range. Where other memory is there now, which may not be
/// watched, the kernel refuses the whole: then its halves are tried, down to parts of some size.
void registration_cache::release(std::uint64_t begin, std::uint64_t end, int halvings) const
{
    uffdio_range range{begin, end - begin};
    if (ioctl(watch_, UFFDIO_UNREGISTER, &range) == 0 || halvings == 0 ||
        end - begin <= page_size())
        return;
    const std::uint64_t middle = begin + (end - begin) / page_size() / 2 * page_size();
    release(begin, middle, halvings - 1);
    release(middle, end, halvings - 1);
}

/// Ends the watch of memory, except where other registrations cover it. What stays
/// watched stays a mapping of its own, and the kernel limits the mappings of a process.
void registration_cache::unwatch(std::uint64_t begin, std::uint64_t end)
{
    if (begin >= end)
        return;
    for (const registration &r : all_) {
        if (!r.watched || !r.overlaps(begin, end))
            continue;
        unwatch(begin, std::max(begin, r.begin));
        return unwatch(std::min(end, r.end), end);
    }
    release(begin, end);
}

/// Makes the registrations of memory stale that was emptied, or is gone: then another one or none
/// is in its place, and the kernel has ended the watch. Ends the watch of the rest of them.
void registration_cache::note_change(std::uint64_t begin, std::uint64_t end, bool gone)
{
    for (registration &r : all_) {
        if (r.state == phase::none || !r.overlaps(begin, end))
            continue;
        r.changed = true;
        if (r.state != phase::ready)
            continue;
        r.state = phase::stale;
        r.watched = false;
        unwatch(r.begin, gone ? begin : r.end);
        unwatch(gone ? end : r.end, r.end);
    }
}

void registration_cache::take_message(const uffd_msg &message)
{
    const auto &moved = message.arg.remap;
    switch (message.event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        return note_change(message.arg.remove.start, message.arg.remove.end,
                           message.event == UFFD_EVENT_UNMAP);
    case UFFD_EVENT_REMAP:
        note_change(moved.from, moved.from + moved.len, true);
        note_change(moved.to, moved.to + moved.len, true);
        unwatch(moved.to, moved.to + moved.len); // the watch has moved along
    }
}

/// Reads what the kernel tells, with the lock held. The call that unmaps returns then, so no thread
/// looks a registration up between that and the change to it.
void registration_cache::take_messages()
{
    uffd_msg message;
    while (read(watch_, &message, sizeof message) == static_cast<ssize_t>(sizeof message))
        take_message(message);
}

void *registration_cache::run_watch(void *self)
{
    registration_cache &cache = *static_cast<registration_cache *>(self);
    for (;;) {
        pollfd wait{cache.watch_, POLLIN, 0};
        (void)poll(&wait, 1, -1);
        const osd::lock_guard guard(cache.lock_);
        cache.take_messages();
    }
    return nullptr;
}

/// Returns EAGAIN while a call that changes watched memory is between that change and the end of
/// its message, when other threads may have got the same addresses already; else 0. No page is
/// protected.
int registration_cache::test_for_changes() const
{
    uffdio_writeprotect none{};
    none.range = {reinterpret_cast<std::uint64_t>(probe_), page_size()};
    return ioctl(watch_, UFFDIO_WRITEPROTECT, &none) == 0 ? 0 : errno;
}

registration_cache::settled_lock::settled_lock(registration_cache &cache) : lock_(cache.lock_)
{
    for (;;) {
        cache.lock_.lock();
        cache.take_messages();
        if (cache.test_for_changes() != EAGAIN)
            return;
        cache.lock_.unlock();
        sched_yield();
    }
}

/// Has the kernel watch memory. It refuses memory that is shared or belongs to a file.
bool registration_cache::watch(std::uint64_t begin, std::uint64_t end) const
{
    uffdio_register range{};
    range.range = {begin, end - begin};
    range.mode = UFFDIO_REGISTER_MODE_WP; // nothing is protected, so no access faults
    return ioctl(watch_, UFFDIO_REGISTER, &range) == 0;
}

/// Watches the memory of a registration, after it has had the first page touched. Memory first
/// touched while it is watched can never be joined again with the mapping around it, and the kernel
/// limits the mappings of a process. The first watch tells whether the memory may be touched: none
/// of a file is.
bool registration_cache::watch_touched(registration &r)
{
    if (!watch(r.begin, r.end))
        return false;
    {
        const osd::lock_guard guard(lock_);
        r.watched = false;
        unwatch(r.begin, r.end);
        r.watched = true;
    }
    (void)madvise(reinterpret_cast<void *>(r.begin), page_size(), MADV_POPULATE_WRITE);
    return watch(r.begin, r.end);
}

bool registration_cache::make_probe()
{
    probe_ = mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto begin = reinterpret_cast<std::uint64_t>(probe_);
    return probe_ != MAP_FAILED && watch(begin, begin + page_size()) && test_for_changes() == 0;
}

registration *registration_cache::find(std::uint64_t begin, std::uint64_t end)
{
    for (registration &r : all_)
        if (r.state == phase::ready && r.covers(begin, end))
            return &r;
    return nullptr;
}

/// Claims a registration to be ended: a stale one, or if there is need, the least recently used.
registration *registration_cache::claim_victim(bool need)
{
    const osd::lock_guard guard(lock_);
    registration *victim = nullptr;
    for (registration &r : all_) {
        if (!r.is_idle() || (r.state != phase::stale && !(need && r.state == phase::ready)))
            continue;
        if (victim == nullptr || r.state == phase::stale || r.last_used < victim->last_used)
            victim = &r;
        if (victim->state == phase::stale)
            break;
    }
    if (victim != nullptr)
        victim->state = phase::changing;
    return victim;
}

/// Gives the place of a registration back, and ends the watch unless a change has ended it.
void registration_cache::give_up(registration &r)
{
    bytes_ -= r.end - r.begin;
    r.state = phase::none;
    if (std::exchange(r.watched, false))
        unwatch(r.begin, r.end);
}

/// Deregisters the victim of claim_victim(). False when there is none.
bool registration_cache::drop_one(bool need)
{
    registration *victim = claim_victim(need);
    if (victim == nullptr)
        return false;
    (void)dat_lmr_free(victim->lmr);
    const osd::lock_guard guard(lock_);
    give_up(*victim);
    return true;
}

/// Claims a place for a registration with one user; null when there is none.
registration *registration_cache::claim_free(std::uint64_t begin, std::uint64_t end)
{
    const osd::lock_guard guard(lock_);
    if (bytes_ + (end - begin) > most_bytes)
        return nullptr;
    for (registration &r : all_) {
        if (r.state != phase::none)
            continue;
        r.begin = begin;
        r.end = end;
        r.changed = false;
        r.watched = true;
        r.users.store(1, std::memory_order_relaxed);
        r.last_used = ++clock_;
        r.state = phase::changing;
        bytes_ += end - begin;
        return &r;
    }
    return nullptr;
}

bool registration_cache::enter_adapter(registration &r) const
{
    DAT_REGION_DESCRIPTION region{};
    region.for_va = reinterpret_cast<void *>(r.begin);
    // What a read goes into needs remote write rights on some transports.
    return dat_lmr_create(job_.ia, DAT_MEM_TYPE_VIRTUAL, region, r.end - r.begin, job_.pz,
                          DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &r.lmr, &r.context, nullptr,
                          nullptr, nullptr) == DAT_SUCCESS;
}

/// Registers again and again while others can be given up for it.
bool registration_cache::enter_or_make_room(registration &r)
{
    bool entered = enter_adapter(r);
    while (!entered && drop_one(true))
        entered = enter_adapter(r);
    return entered;
}

registration *registration_cache::make(std::uint64_t begin, std::uint64_t end)
{
    while (drop_one(false)) {
    }
    registration *r = claim_free(begin, end);
    while (r == nullptr && end - begin <= most_bytes && drop_one(true))
        r = claim_free(begin, end);
    if (r == nullptr)
        return nullptr;
    const bool entered = watch_touched(*r) && enter_or_make_room(*r);
    const osd::lock_guard guard(lock_);
    if (entered) {
        r->state = r->changed ? phase::stale : phase::ready;
        made_.fetch_add(1, std::memory_order_relaxed);
        return r;
    }
    r->users.store(0, std::memory_order_relaxed);
    give_up(*r);
    return nullptr;
}

int registration_cache::open()
{
    if (!job_.set.registration_cache)
        return DAPL_AM_OK;
    const long opened = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (opened < 0)
        return DAPL_AM_OK;
    watch_ = static_cast<int>(opened);
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP |
                   UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;
    if (ioctl(watch_, UFFDIO_API, &api) != 0 || !make_probe()) {
        close(std::exchange(watch_, -1));
        return DAPL_AM_OK;
    }
    return start_service_thread(run_watch, this) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

registration *registration_cache::take(const void *memory, std::size_t size)
{
    if (watch_ < 0)
        return nullptr;
    const std::uint64_t page = page_size(), address = reinterpret_cast<std::uint64_t>(memory);
    const std::uint64_t begin = address & ~(page - 1);
    const std::uint64_t end = (address + size + page - 1) & ~(page - 1);
    {
        const settled_lock guard(*this);
        if (registration *r = find(begin, end)) {
            r->share();
            r->last_used = ++clock_;
            hits_.fetch_add(1, std::memory_order_relaxed);
            return r;
        }
    }
    return make(begin, end);
}

} // namespace am
