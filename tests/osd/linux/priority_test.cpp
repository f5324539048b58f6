// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The priority of service threads.
#include "osd_thread.hpp"
#include "real_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sched.h>
#include <sys/resource.h>

namespace {

int current_nice()
{
    return getpriority(PRIO_PROCESS, static_cast<id_t>(osd::thread_id()));
}

struct nice_values {
    int policy = SCHED_OTHER;
    unsigned steps = 0;
    bool raised = false;
    int before = 0;
    int after = 0;
    int child = 0;
};

void read_nice(void *nice)
{
    *static_cast<int *>(nice) = current_nice();
}

void raise(void *argument)
{
    auto &r = *static_cast<nice_values *>(argument);
    const sched_param unused{};
    REQUIRE_EQ(sched_setscheduler(0, r.policy, &unused), 0);
    r.before = current_nice();
    r.raised = osd::raise_priority(r.steps);
    r.after = current_nice();
    osd::thread child;
    REQUIRE(child.start("child", read_nice, &r.child));
    child.join();
}

nice_values in_a_thread(int policy, unsigned steps)
{
    nice_values r;
    r.policy = policy;
    r.steps = steps;
    osd::thread t;
    REQUIRE(t.start("raised", raise, &r));
    t.join();
    return r;
}

} // namespace

TEST_SUITE_BEGIN("priority");

TEST_CASE("a thread raises its own priority where it may, and its children are not above others")
{
    const nice_values r = in_a_thread(SCHED_OTHER, 7);
    if (!r.raised)
        MESSAGE("this process may not raise priorities");
    CHECK_EQ(r.after, r.raised ? r.before - 7 : r.before);
    CHECK_EQ(r.child, r.raised ? std::max(r.after, 0) : r.before);
    CHECK_EQ(current_nice(), r.before); // another thread keeps its priority
}

TEST_CASE("a raised priority stays within the system's range")
{
    const nice_values r = in_a_thread(SCHED_OTHER, 1000);
    CHECK_EQ(r.after, r.raised ? -20 : r.before);
}

TEST_CASE("a thread with a policy of the program's choice is left alone")
{
    const nice_values r = in_a_thread(SCHED_BATCH, 7);
    CHECK_FALSE(r.raised);
    CHECK_EQ(r.after, r.before);
}

TEST_CASE("a thread of real-time priority that waits for another of its processor lets it run")
{
    std::atomic<bool> asked{false};
    bool permitted = false;
    CHECK(real_time::share_a_processor(
        100, [&asked] { asked.store(false); },
        [&asked] {
            asked.store(true);
            osd::wait_while([&asked] { return asked.load(); });
        },
        permitted));
    if (!permitted)
        MESSAGE("this process may not have threads of real-time priority");
}

TEST_SUITE_END();
