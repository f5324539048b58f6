// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads of different priorities that share a processor.
#pragma once

#include <atomic>
#include <chrono>
#include <sched.h>
#include <thread>

namespace real_time {

inline bool become()
{
    const sched_param lowest{1};
    return sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

/// Runs `low` again and again in an ordinary thread, and `high` in a thread of real-time priority,
/// some times with pauses, both on one processor. True when it was done in time, or is not
/// permitted.
template <class Low, class High>
bool share_a_processor(int times, Low &&low, High &&high, bool &permitted)
{
    using clock = std::chrono::steady_clock;
    std::atomic<bool> ended{false};
    int done = 0;
    std::thread both([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        permitted = sched_setaffinity(0, sizeof one, &one) == 0;
        std::thread other([&] {
            while (!ended.load())
                low();
        });
        permitted = permitted && become();
        const auto limit = clock::now() + std::chrono::seconds(20);
        for (; done < times && permitted && clock::now() < limit; ++done) {
            std::this_thread::sleep_for(std::chrono::microseconds(300)); // the other runs
            high();
        }
        ended.store(true);
        other.join();
    });
    both.join();
    return !permitted || done == times;
}

} // namespace real_time
