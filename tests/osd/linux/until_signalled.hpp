// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "osd_sync.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <thread>

/// SIGUSR1 interrupts system calls and does nothing else.
struct interrupting_signal {
    interrupting_signal()
    {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        sigaction(SIGUSR1, &action, &before);
    }
    ~interrupting_signal() { sigaction(SIGUSR1, &before, nullptr); }
    struct sigaction before {};
};

/// Runs a wait on a thread of its own and sends it signals until it returns: the first may come
/// before the wait begins.
template <class Wait>
osd::wait_result until_signalled(Wait &&wait)
{
    std::atomic<bool> done{false};
    osd::wait_result result{};
    std::thread waiter([&] {
        result = wait();
        done = true;
    });
    while (!done) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        pthread_kill(waiter.native_handle(), SIGUSR1);
    }
    waiter.join();
    return result;
}
