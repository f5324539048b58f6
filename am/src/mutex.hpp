// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A mutex and its guards, which need nothing of the C++ library: that of the standard throws.
#pragma once

#include <mutex> // std::lock_guard, which only locks and unlocks
#include <pthread.h>
#include <utility>

namespace am {

class mutex {
public:
    mutex() = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock() { (void)pthread_mutex_lock(&native_); }
    bool try_lock() { return pthread_mutex_trylock(&native_) == 0; }
    void unlock() { (void)pthread_mutex_unlock(&native_); }

private:
    pthread_mutex_t native_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A guard that can be tried, passed on, and ended early.
class held {
public:
    explicit held(mutex &m) : of_(&m) { m.lock(); }
    held(mutex &m, std::try_to_lock_t) : of_(m.try_lock() ? &m : nullptr) {}
    held(held &&other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    held &operator=(held &&) = delete;
    ~held() { unlock(); }

    bool owns_lock() const { return of_ != nullptr; }
    void unlock()
    {
        if (of_)
            std::exchange(of_, nullptr)->unlock();
    }

private:
    mutex *of_;
};

} // namespace am
