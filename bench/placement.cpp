// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "placement.hpp"

#include "program/failure.hpp"

#include <sched.h>
#include <sys/mman.h>

namespace bench {

namespace {

constexpr unsigned crossings = 2000;                  // even number: each side makes half of them
constexpr std::chrono::milliseconds probe_limit{200}; // limit for all crossings: one CPU may run
                                                      // both

} // namespace

struct line_probe::shared_line {
    alignas(64) std::atomic<unsigned> turn;

    /// Waits for `value`; false when it is `end` and the other side did not come.
    bool await(unsigned value, clock::time_point end) const
    {
        for (unsigned n = 1; turn.load(std::memory_order_acquire) != value; ++n)
            if (n % 16384 == 0 && clock::now() > end)
                return false;
        return true;
    }
};

line_probe::line_probe()
{
    void *memory = mmap(nullptr, sizeof(shared_line), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw program::failure("out of memory");
    line_ = new (memory) shared_line{};
}

line_probe::~line_probe()
{
    munmap(line_, sizeof(shared_line));
}

double line_probe::lead()
{
    const auto end = clock::now() + probe_limit;
    line_->turn = 1; // calls the follower
    if (!line_->await(2, end))
        return 0;
    const auto start = clock::now();
    for (unsigned n = 2; n < 2 + crossings; n += 2) {
        line_->turn.store(n + 1, std::memory_order_release);
        if (!line_->await(n + 2, end))
            return 0;
    }
    return seconds(clock::now() - start).count() * 1e9 / crossings;
}

void line_probe::follow()
{
    const auto end = clock::now() + probe_limit;
    for (unsigned n = 1; n <= 1 + crossings; n += 2) {
        if (!line_->await(n, end))
            return;
        line_->turn.store(n + 1, std::memory_order_release);
    }
}

std::optional<std::pair<int, int>> two_cpus()
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return {};
    int first = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        if (first >= 0)
            return std::pair{first, cpu};
        first = cpu;
    }
    return {};
}

void pin_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

} // namespace bench
