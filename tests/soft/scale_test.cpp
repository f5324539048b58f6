// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many queue pairs in one process, and their cost while they are idle.
#include "rig.hpp"

#include <doctest/doctest.h>

namespace scale_suite {

using namespace rig;

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
    const double used = idle_share(std::chrono::seconds(2));
    MESSAGE("with ", pairs, " idle connections: ", used * 100, " % of a processor");
    CHECK(used < 0.1);
    for (end &each : ends)
        CHECK(!each.next(std::chrono::milliseconds(0)).has_value());
}

TEST_SUITE_END();

} // namespace scale_suite
