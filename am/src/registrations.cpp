// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "registrations.hpp"

#include "dapl_am.h"
#include "ending.hpp"
#include "job.hpp"
#include "lasting.hpp"

#include <algorithm>
#include <array>
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

namespace am {

enum class use : std::uint8_t {
    none,
    changing, ///< registered or deregistered by a thread, without the lock
    ready,
    stale ///< its memory has changed
};

struct registration {
    std::uint64_t begin = 0, end = 0;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    std::uint64_t last_used = 0;
    std::atomic<int> users{0};
    use state = use::none;
    bool changed = false; ///< its memory, while it was registered
    bool watched = false; ///< its memory; or about to be

    bool covers(std::uint64_t from, std::uint64_t to) const { return begin <= from && to <= end; }
    bool overlaps(std::uint64_t from, std::uint64_t to) const { return begin < to && from < end; }
    bool idle() const { return users.load(std::memory_order_acquire) == 0; }
};

namespace registrations {

namespace {

constexpr std::size_t capacity = 256;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

/// The thread that watches takes the lock, and a thread that unmaps memory waits for that thread:
/// the holder of the lock must not allocate, free, or call the adapter.
struct cache {
    mutex lock;
    std::array<registration, capacity> all;
    std::uint64_t clock = 0;
    std::uint64_t bytes = 0;
    int watch = -1;
    void *probe = nullptr; ///< a page that is watched, for test_for_changes()
    std::atomic<std::uint64_t> made{0}, hits{0};
};

cache &cached = lasting<cache>();

std::uint64_t page_size()
{
    static const auto size = std::uint64_t(sysconf(_SC_PAGESIZE));
    return size;
}

/// The kernel ends the watch of what lies in the range. Where other memory is there now, which may
/// not be watched, it refuses the whole: then its halves, down to parts of some size.
void release(std::uint64_t begin, std::uint64_t end, int halvings = 6)
{
    uffdio_range range{begin, end - begin};
    if (ioctl(cached.watch, UFFDIO_UNREGISTER, &range) == 0 || halvings == 0 ||
        end - begin <= page_size())
        return;
    const std::uint64_t middle = begin + (end - begin) / page_size() / 2 * page_size();
    release(begin, middle, halvings - 1);
    release(middle, end, halvings - 1);
}

/// Ends the watch of memory but for what belongs to other registrations, too. What stays watched
/// stays a mapping of its own, of which a process may have so many. The lock is held.
void unwatch(std::uint64_t begin, std::uint64_t end)
{
    if (begin >= end)
        return;
    for (const registration &r : cached.all) {
        if (!r.watched || !r.overlaps(begin, end))
            continue;
        unwatch(begin, std::max(begin, r.begin));
        return unwatch(std::min(end, r.end), end);
    }
    release(begin, end);
}

/// Memory was emptied, or is another one now or none: `gone`, and the kernel has ended the watch.
/// Nothing of a registration of it is watched from then on.
void changed(std::uint64_t begin, std::uint64_t end, bool gone)
{
    for (registration &r : cached.all) {
        if (r.state == use::none || !r.overlaps(begin, end))
            continue;
        r.changed = true;
        if (r.state != use::ready)
            continue;
        r.state = use::stale;
        r.watched = false;
        unwatch(r.begin, gone ? begin : r.end);
        unwatch(gone ? end : r.end, r.end);
    }
}

void take_message(const uffd_msg &message)
{
    const auto &moved = message.arg.remap;
    switch (message.event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        return changed(message.arg.remove.start, message.arg.remove.end,
                       message.event == UFFD_EVENT_UNMAP);
    case UFFD_EVENT_REMAP:
        changed(moved.from, moved.from + moved.len, true);
        changed(moved.to, moved.to + moved.len, true);
        unwatch(moved.to, moved.to + moved.len); // the watch has moved along
    }
}

/// A call that unmaps returns when its message has been read: with the lock held, so that no thread
/// looks a registration up between that and the change to it.
void take_messages()
{
    uffd_msg message;
    while (read(cached.watch, &message, sizeof message) == ssize_t(sizeof message))
        take_message(message);
}

void *run_watch(void *)
{
    for (;;) {
        pollfd wait{cached.watch, POLLIN, 0};
        (void)poll(&wait, 1, -1);
        const std::lock_guard guard(cached.lock);
        take_messages();
    }
    return nullptr;
}

/// EAGAIN while a call that changes watched memory is between that change and the end of its
/// message, when other threads may have got the same addresses already; else 0. No page is
/// protected.
int test_for_changes()
{
    uffdio_writeprotect none{};
    none.range = {reinterpret_cast<std::uint64_t>(cached.probe), page_size()};
    return ioctl(cached.watch, UFFDIO_WRITEPROTECT, &none) == 0 ? 0 : errno;
}

/// Takes the lock when all that has been unmapped is known.
held settle()
{
    for (;;) {
        held guard(cached.lock);
        take_messages();
        if (test_for_changes() != EAGAIN)
            return guard;
        guard.unlock();
        sched_yield();
    }
}

/// Memory that is shared or belongs to a file may not be watched.
bool watch(std::uint64_t begin, std::uint64_t end)
{
    uffdio_register range{};
    range.range = {begin, end - begin};
    range.mode = UFFDIO_REGISTER_MODE_WP; // and nothing is protected: no access faults for it
    return ioctl(cached.watch, UFFDIO_REGISTER, &range) == 0;
}

bool make_probe()
{
    cached.probe =
        mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto begin = reinterpret_cast<std::uint64_t>(cached.probe);
    return cached.probe != MAP_FAILED && watch(begin, begin + page_size()) &&
           test_for_changes() == 0;
}

/// The lock is held.
registration *find(std::uint64_t begin, std::uint64_t end)
{
    for (registration &r : cached.all)
        if (r.state == use::ready && r.covers(begin, end))
            return &r;
    return nullptr;
}

/// One to be deregistered: stale, or if there is need, the one that was not used for longest.
registration *claim_victim(bool need)
{
    const std::lock_guard guard(cached.lock);
    registration *victim = nullptr;
    for (registration &r : cached.all) {
        if (!r.idle() || (r.state != use::stale && !(need && r.state == use::ready)))
            continue;
        if (!victim || r.state == use::stale || r.last_used < victim->last_used)
            victim = &r;
        if (victim->state == use::stale)
            break;
    }
    if (victim)
        victim->state = use::changing;
    return victim;
}

/// The lock is held; what is known to have changed has been looked at.
void give_up(registration &r)
{
    cached.bytes -= r.end - r.begin;
    r.state = use::none;
    if (std::exchange(r.watched, false))
        unwatch(r.begin, r.end);
}

/// @return whether there was one
bool drop_one(bool need)
{
    registration *victim = claim_victim(need);
    if (!victim)
        return false;
    (void)dat_lmr_free(victim->lmr);
    const std::lock_guard guard(cached.lock);
    give_up(*victim);
    return true;
}

/// A place for a registration with one user, or null.
registration *claim_free(std::uint64_t begin, std::uint64_t end)
{
    const std::lock_guard guard(cached.lock);
    if (cached.bytes + (end - begin) > most_bytes)
        return nullptr;
    for (registration &r : cached.all) {
        if (r.state != use::none)
            continue;
        r.begin = begin;
        r.end = end;
        r.changed = false;
        r.watched = true;
        r.users.store(1, std::memory_order_relaxed);
        r.last_used = ++cached.clock;
        r.state = use::changing;
        cached.bytes += end - begin;
        return &r;
    }
    return nullptr;
}

bool enter_adapter(registration &r)
{
    DAT_REGION_DESCRIPTION region{};
    region.for_va = reinterpret_cast<void *>(r.begin);
    // What a read goes into needs remote write rights on some transports.
    return dat_lmr_create(the_job.ia, DAT_MEM_TYPE_VIRTUAL, region, r.end - r.begin, the_job.pz,
                          DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &r.lmr, &r.context, nullptr,
                          nullptr, nullptr) == DAT_SUCCESS;
}

/// Registers again and again while others can be given up for it.
bool enter_or_make_room(registration &r)
{
    bool entered = enter_adapter(r);
    while (!entered && drop_one(true))
        entered = enter_adapter(r);
    return entered;
}

registration *make(std::uint64_t begin, std::uint64_t end)
{
    while (drop_one(false)) {
    }
    registration *r = claim_free(begin, end);
    while (!r && end - begin <= most_bytes && drop_one(true))
        r = claim_free(begin, end);
    if (!r)
        return nullptr;
    const bool entered = watch(begin, end) && enter_or_make_room(*r);
    const std::lock_guard guard(cached.lock);
    if (entered) {
        r->state = r->changed ? use::stale : use::ready;
        cached.made.fetch_add(1, std::memory_order_relaxed);
        return r;
    }
    r->users.store(0, std::memory_order_relaxed);
    give_up(*r);
    return nullptr;
}

} // namespace

int open()
{
    if (!the_job.set.registration_cache)
        return DAPL_AM_OK;
    const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        return DAPL_AM_OK;
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP |
                   UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;
    if (ioctl(int(fd), UFFDIO_API, &api) != 0) {
        close(int(fd));
        return DAPL_AM_OK;
    }
    cached.watch = int(fd);
    if (!make_probe()) {
        close(std::exchange(cached.watch, -1));
        return DAPL_AM_OK;
    }
    return ending::start_thread(run_watch) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

registration *take(const void *memory, std::size_t size)
{
    if (cached.watch < 0)
        return nullptr;
    const std::uint64_t page = page_size(), at = reinterpret_cast<std::uint64_t>(memory);
    const std::uint64_t begin = at & ~(page - 1), end = (at + size + page - 1) & ~(page - 1);
    {
        const auto guard = settle();
        if (registration *r = find(begin, end)) {
            r->users.fetch_add(1, std::memory_order_relaxed);
            r->last_used = ++cached.clock;
            cached.hits.fetch_add(1, std::memory_order_relaxed);
            return r;
        }
    }
    return make(begin, end);
}

void share(registration &r)
{
    r.users.fetch_add(1, std::memory_order_relaxed);
}

void give(registration &r)
{
    r.users.fetch_sub(1, std::memory_order_release);
}

DAT_LMR_CONTEXT context_of(const registration &r)
{
    return r.context;
}

std::uint64_t made()
{
    return cached.made;
}

std::uint64_t hits()
{
    return cached.hits;
}

} // namespace registrations
} // namespace am
