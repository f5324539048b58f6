// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wraps.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <pthread.h>

namespace {

thread_local wraps::counts counted;
std::atomic<int> skip{-1};
std::atomic<bool> failed{false};

bool fails()
{
    ++counted.allocations;
    if (skip.load() < 0 || skip.fetch_sub(1) != 0)
        return false;
    failed = true;
    return true;
}

} // namespace

namespace wraps {

counts of_this_thread()
{
    return counted;
}

void fail_allocation(int skip_first)
{
    failed = false;
    skip = skip_first;
}

bool allocation_failed()
{
    return failed;
}

} // namespace wraps

extern "C" {

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_sched_yield();
void *__real_malloc(std::size_t size);
void *__real_aligned_alloc(std::size_t alignment, std::size_t size);
void *__real__Znwm(std::size_t size);
void *__real__Znam(std::size_t size);
void *__real__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__real__ZnamRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__real__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t size, std::align_val_t alignment,
                                                const std::nothrow_t &tag);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_sched_yield();
void *__wrap_malloc(std::size_t size);
void *__wrap_aligned_alloc(std::size_t alignment, std::size_t size);
void *__wrap__Znwm(std::size_t size);
void *__wrap__Znam(std::size_t size);
void *__wrap__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__wrap__ZnamRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag);
void *__wrap__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t size, std::align_val_t alignment,
                                                const std::nothrow_t &tag);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    ++counted.mutex_locks;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_sched_yield()
{
    ++counted.yields;
    return __real_sched_yield();
}

void *__wrap_malloc(std::size_t size)
{
    ++counted.allocations;
    return __real_malloc(size);
}

void *__wrap_aligned_alloc(std::size_t alignment, std::size_t size)
{
    return fails() ? nullptr : __real_aligned_alloc(alignment, size);
}

void *__wrap__Znwm(std::size_t size)
{
    ++counted.allocations;
    return __real__Znwm(size);
}

void *__wrap__Znam(std::size_t size)
{
    ++counted.allocations;
    return __real__Znam(size);
}

void *__wrap__ZnwmRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag)
{
    return fails() ? nullptr : __real__ZnwmRKSt9nothrow_t(size, tag);
}

void *__wrap__ZnamRKSt9nothrow_t(std::size_t size, const std::nothrow_t &tag)
{
    return fails() ? nullptr : __real__ZnamRKSt9nothrow_t(size, tag);
}

void *__wrap__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t size, std::align_val_t alignment,
                                                const std::nothrow_t &tag)
{
    return fails() ? nullptr : __real__ZnwmSt11align_val_tRKSt9nothrow_t(size, alignment, tag);
}

} // extern "C"
