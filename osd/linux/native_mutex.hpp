// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

namespace osd::native {

class mutex {
public:
    ~mutex() { pthread_mutex_destroy(&handle_); }

    void lock() { pthread_mutex_lock(&handle_); }
    void unlock() { pthread_mutex_unlock(&handle_); }
    bool try_lock() { return pthread_mutex_trylock(&handle_) == 0; }

private:
    pthread_mutex_t handle_ = PTHREAD_MUTEX_INITIALIZER;
};

} // namespace osd::native
