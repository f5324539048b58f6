// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks the asymmetric gate in all orders of the steps of its two sides.
#include "../all_orders.hpp"
#include "osd_fence.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

using orders::all_orders;
using orders::weak_threads;

namespace {

/// A gate and what it guards.
struct gated {
    /// The hot path: uses the guarded object unless the gate is closed.
    void pass()
    {
        door.enter();
        if (closed.load(std::memory_order_acquire) == 0)
            object.set(object.get() + 1);
        door.leave();
    }
    /// The slow path, whose fence a test may leave out.
    void close(bool with_fence)
    {
        closed.store(1);
        if (with_fence)
            weak_threads::fence_all_threads();
        door.wait_until_empty();
        object.set(object.get() + 10);
        closed.store(0, std::memory_order_release);
    }

    osd::plain_door<weak_threads> door;
    weak_threads::atomic<int> closed{0};
    orders::plain<int> object;
};

/// Runs both sides in all orders. Returns the number of races.
int races_of(bool with_fence)
{
    all_orders all;
    std::unique_ptr<gated> g;
    int wrong = 0;
    all.run(
        [&] {
            g = std::make_unique<gated>();
            return std::vector<std::function<void()>>{[&] {
                                                          g->pass();
                                                          g->pass();
                                                          g->pass();
                                                      },
                                                      [&] { g->close(with_fence); }};
        },
        [&] { wrong += g->object.get() >= 10 && g->object.get() <= 13 ? 0 : 1; });
    CHECK(all.stuck == 0);
    CHECK(wrong == 0);
    CHECK(all.runs > 100);
    return all.races;
}

} // namespace

TEST_SUITE_BEGIN("door");

TEST_CASE("the slow side has the guarded object to itself, though the hot path has plain stores")
{
    CHECK(races_of(true) == 0);
}

TEST_CASE("without the fence both sides are in at once, and the checker sees it")
{
    CHECK(races_of(false) != 0);
}

TEST_SUITE_END();
