// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads of different priorities at one object.
#include "fixture.hpp"

#include "real_time.hpp"

using namespace test;

TEST_SUITE_BEGIN("priority");

TEST_CASE("a thread of real-time priority dequeues beside another of its processor")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
        const auto dequeue = [&c, e] {
            DAT_EVENT event;
            (void)c.v.evd_dequeue_func(e, &event);
        };
        bool permitted = false;
        CHECK(real_time::share_a_processor(300, dequeue, dequeue, permitted));
        if (!permitted)
            MESSAGE("this process may not have threads of real-time priority");
    }
}

TEST_SUITE_END();
