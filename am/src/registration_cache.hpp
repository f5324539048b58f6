// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A cache of registrations of memory outside the segment, so that large transfers from and to it
// need no copy.
//
// The kernel tells a thread of the library when memory is unmapped, moved or emptied
// (userfaultfd), before the call that does so returns; registrations of it are not used again.
// Where userfaultfd is not allowed nothing is registered.
#pragma once

#include "job_context.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

struct uffd_msg;

namespace am {

struct registration {
    enum class phase : std::uint8_t {
        none,
        changing, ///< being registered or deregistered by a thread, without the lock
        ready,
        stale ///< its memory has changed
    };

    std::uint64_t begin = 0, end = 0;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    std::uint64_t last_used = 0;
    std::atomic<int> users{0};
    phase state = phase::none;
    bool changed = false; ///< its memory has changed since it is registered
    bool watched = false; ///< its memory is watched, or about to be

    bool covers(std::uint64_t from, std::uint64_t to) const { return begin <= from && to <= end; }
    bool overlaps(std::uint64_t from, std::uint64_t to) const { return begin < to && from < end; }
    bool is_idle() const { return users.load(std::memory_order_acquire) == 0; }

    /// Counts one more user. Each user gives it back.
    void share() { users.fetch_add(1, std::memory_order_relaxed); }
    void give() { users.fetch_sub(1, std::memory_order_release); }
};

/// The thread that watches takes the lock, and a thread that unmaps memory waits for that thread:
/// the holder of the lock must not allocate, free, or call the adapter.
class registration_cache {
public:
    explicit registration_cache(job_context &job) : job_(job) {}

    /// Starts the thread that watches. Without it take() gives nothing. Returns a status.
    int open();

    /// Takes a registration that covers the memory, until give(). Null: the memory has to be
    /// copied.
    registration *take(const void *memory, std::size_t size) OSD_EXCLUDES(lock_);

    std::uint64_t made() const { return made_; }
    std::uint64_t hits() const { return hits_; }

private:
    /// Holds the lock once everything that has been unmapped is known.
    class OSD_SCOPED_CAPABILITY settled_lock {
    public:
        explicit settled_lock(registration_cache &cache) OSD_ACQUIRE(cache.lock_);
        settled_lock(const settled_lock &) = delete;
        settled_lock &operator=(const settled_lock &) = delete;
        ~settled_lock() OSD_RELEASE() { lock_.unlock(); }

    private:
        osd::mutex &lock_;
    };

    static constexpr std::size_t capacity = 256;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

    static void *run_watch(void *self);
    bool watch_touched(registration &r) OSD_EXCLUDES(lock_);
    bool make_probe();
    bool watch(std::uint64_t begin, std::uint64_t end) const;
    void release(std::uint64_t begin, std::uint64_t end, int halvings = 6) const;
    void unwatch(std::uint64_t begin, std::uint64_t end) OSD_REQUIRES(lock_);
    void note_change(std::uint64_t begin, std::uint64_t end, bool gone) OSD_REQUIRES(lock_);
    void take_message(const uffd_msg &message) OSD_REQUIRES(lock_);
    void take_messages() OSD_REQUIRES(lock_);
    int test_for_changes() const;
    registration *find(std::uint64_t begin, std::uint64_t end) OSD_REQUIRES(lock_);
    registration *claim_victim(bool need) OSD_EXCLUDES(lock_);
    registration *claim_free(std::uint64_t begin, std::uint64_t end) OSD_EXCLUDES(lock_);
    void give_up(registration &r) OSD_REQUIRES(lock_);
    bool drop_one(bool need) OSD_EXCLUDES(lock_);
    bool enter_adapter(registration &r) const;
    bool enter_or_make_room(registration &r) OSD_EXCLUDES(lock_);
    registration *make(std::uint64_t begin, std::uint64_t end) OSD_EXCLUDES(lock_);

    job_context &job_;
    osd::mutex lock_;
    std::array<registration, capacity> all_; ///< its states are guarded by the lock
    std::uint64_t clock_ OSD_GUARDED_BY(lock_) = 0;
    std::uint64_t bytes_ OSD_GUARDED_BY(lock_) = 0;
    int watch_ = -1;
    void *probe_ = nullptr; ///< a page that is watched, for test_for_changes()
    std::atomic<std::uint64_t> made_{0}, hits_{0};
};

} // namespace am
