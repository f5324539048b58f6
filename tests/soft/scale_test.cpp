// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many queue pairs in one process, and what they cost while they are idle.
#include "rig.hpp"

#include <doctest/doctest.h>

#include <ctime>

using namespace rig;

namespace {

double processor_seconds()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

} // namespace

TEST_SUITE_BEGIN("scale");

TEST_CASE("many connections work, and idle they use next to no processor time")
{
    settings how = on_loopback();
    how.keepalive_ms = 1000;
    host here(how);
    host there(how);
    std::deque<end> ends;
    const unsigned pairs = rounds(100);
    for (unsigned i = 0; i < 2 * pairs; ++i)
        ends.emplace_back(i % 2 == 0 ? here : there,
                          end_options{.depth = 8, .queue_depth = 16, .bytes = 4096});
    for (std::size_t i = 0; i < ends.size(); i += 2)
        REQUIRE(establish(ends[i], ends[i + 1]));
    for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < ends.size(); i += 2) {
            REQUIRE(ends[i + 1].receive(0, 64));
            REQUIRE(ends[i].send(0, 64));
            REQUIRE(ends[i + 1].received()->status == work_status::success);
            REQUIRE(ends[i].sent()->status == work_status::success);
        }
    // The system may charge us with what was done before, or with work of its own: not every time.
    double used = 1;
    for (int looks = 0; used >= 0.2 && looks < 5; ++looks) {
        const double before = processor_seconds();
        std::this_thread::sleep_for(std::chrono::seconds(2));
        used = processor_seconds() - before;
        MESSAGE("processor time in 2 s with ", pairs, " idle connections: ", used * 1000, " ms");
    }
#ifdef _WIN32
    WARN(used < 0.2); // by Wine it is 0 to 0.8 s from run to run; it is not known whose they are
#else
    CHECK(used < 0.2);
#endif
    for (end &each : ends)
        CHECK(!each.next(std::chrono::milliseconds(0)).has_value());
}

TEST_SUITE_END();
