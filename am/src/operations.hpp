// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Operations count transfers: one for each handle, and two implicit ones for each thread.
#pragma once

#include "osd_sync.hpp"
#include "work_pool.hpp"

#include <pthread.h>

namespace am {

class operations;

/// What one thread has begun implicitly. Kept for another thread when its own has ended.
struct implicit_ops {
    explicit implicit_ops(operations &its_owner) : owner(its_owner) {}

    operations &owner;
    dapl_am_op puts;
    dapl_am_op gets;
    dapl_am_op *region = nullptr;
    implicit_ops *next = nullptr;
};

class operations {
public:
    operations() = default;
    operations(const operations &) = delete;
    operations &operator=(const operations &) = delete;

    /// Takes an operation for a handle; null without memory.
    dapl_am_op *take() OSD_EXCLUDES(lock_);
    void give(dapl_am_op *op) OSD_EXCLUDES(lock_);

    /// Returns the implicit operations of the calling thread; null if it can have none.
    implicit_ops *of_thread() OSD_EXCLUDES(lock_);

private:
    enum class key_state { none, made, refused };

    static void keep_for_another(void *ops);
    bool make_key() OSD_EXCLUDES(lock_);
    implicit_ops *add_thread() OSD_EXCLUDES(lock_);

    osd::mutex lock_;
    dapl_am_op *free_ops_ OSD_GUARDED_BY(lock_) = nullptr;
    implicit_ops *free_threads_ OSD_GUARDED_BY(lock_) = nullptr;
    pthread_key_t key_{};
    std::atomic<key_state> key_state_{key_state::none};
};

} // namespace am
