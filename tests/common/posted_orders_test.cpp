// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks the ring of posted events in all orders of the steps of a few threads.
#include "../all_orders.hpp"
#include "counted_ring.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

using namespace test;

namespace {

using orders::all_orders;
using orders::weak_threads;
using weak_element = orders::plain<int>;

using weak_ring = counted_ring<weak_element, weak_threads>;

/// What the threads of a run did.
struct record {
    void take_one(weak_ring &r)
    {
        if (weak_element got; r.take(got))
            taken.push_back(got.get());
    }
    void take_all(weak_ring &r)
    {
        for (weak_element got; r.take(got);)
            taken.push_back(got.get());
    }
    std::ptrdiff_t place_of(int number) const
    {
        return std::find(taken.begin(), taken.end(), number) - taken.begin();
    }

    std::vector<int> taken;
    std::vector<bool> posted = std::vector<bool>(10);
};

/// Threads that use a ring in all orders of their steps.
struct ring_orders {
    using steps = std::vector<std::function<void()>>;

    /// Each run begins with a ring of this length, in which `before` may put something, and ends
    /// with a judgement, which finds in `seen` all that is left. There are at least so many runs.
    void run(std::uint32_t length, const std::function<void()> &before, const steps &threads,
             const std::function<bool()> &is_right, unsigned least)
    {
        all_orders orders;
        int wrong = 0;
        orders.run(
            [&] {
                ring = std::make_unique<weak_ring>(length);
                seen = {};
                before();
                return threads;
            },
            [&] {
                seen.take_all(*ring);
                wrong += is_right() ? 0 : 1;
            });
        CHECK_EQ(orders.stuck, 0);
        CHECK_EQ(orders.races, 0);
        CHECK_EQ(wrong, 0);
        CHECK(orders.runs >= least);
    }
    bool post(int number, bool marked = false)
    {
        return ring->ring.post(weak_element(number), marked);
    }

    std::unique_ptr<weak_ring> ring;
    record seen;
};

} // namespace

TEST_SUITE_BEGIN("posted_orders");

TEST_CASE_FIXTURE(ring_orders, "who has posted finds its element, also behind one that is being "
                               "filled")
{
    bool found = false;
    run(
        2, [&] { found = false; },
        {[&] { (void)post(1); },
         [&] {
             (void)post(2);
             seen.take_all(*ring);
             found = seen.place_of(2) != std::ssize(seen.taken);
         }},
        [&] { return found && seen.taken.size() == 2 && seen.place_of(1) != 2; }, 50);
}

TEST_CASE_FIXTURE(ring_orders, "two threads post beside one that takes, and a full ring is full")
{
    run(
        2, [&] { (void)post(0); },
        {[&] {
             seen.posted[1] = post(1);
             seen.posted[2] = post(2);
         },
         [&] { seen.posted[3] = post(3); }, [&] { seen.take_one(*ring); }},
        [&] {
            const int posted = seen.posted[1] + seen.posted[2] + seen.posted[3];
            return std::ssize(seen.taken) == posted + 1 && seen.taken[0] == 0 && posted >= 1 &&
                   posted <= 2 && (seen.posted[1] || seen.posted[3]) &&
                   (!seen.posted[1] || seen.place_of(1) <= seen.place_of(2));
        },
        1000);
}

TEST_CASE_FIXTURE(ring_orders, "a post before a resize or after it, so that never more is there "
                               "than fits")
{
    bool longer = false;
    bool shorter = false;
    run(
        3,
        [&] {
            (void)post(0);
            (void)post(1);
        },
        {[&] { seen.posted[2] = post(2); },
         [&] {
             longer = ring->resize(4);
             shorter = ring->resize(2);
         }},
        [&] {
            return longer && shorter != seen.posted[2] &&
                   std::ssize(seen.taken) == 2 + seen.posted[2] &&
                   std::is_sorted(seen.taken.begin(), seen.taken.end());
        },
        100);
}

TEST_CASE_FIXTURE(ring_orders, "a resize that is refused lets no post find the ring full")
{
    bool longer = false;
    bool shorter = false;
    run(
        4,
        [&] {
            for (int i = 0; i < 3; ++i)
                (void)post(i);
        },
        {[&] { seen.posted[3] = post(3); },
         [&] {
             longer = ring->resize(5);
             shorter = ring->resize(1);
         }},
        [&] {
            return longer && !shorter && seen.posted[3] && seen.taken == std::vector{0, 1, 2, 3};
        },
        100);
}

TEST_CASE_FIXTURE(ring_orders, "two threads post beside resizes that leave room for all")
{
    run(
        3, [&] { (void)post(0, true); },
        {[&] { seen.posted[1] = post(1, true); }, [&] { seen.posted[2] = post(2); },
         [&] {
             seen.posted[3] = ring->resize(4);
             seen.take_one(*ring);
         }},
        [&] {
            return seen.posted[1] && seen.posted[2] && seen.posted[3] && seen.taken.size() == 3 &&
                   seen.taken[0] == 0 && seen.place_of(1) < 3 && seen.place_of(2) < 3;
        },
        1000);
}

TEST_CASE_FIXTURE(ring_orders, "a marked element is changed before it is taken, or not at all")
{
    std::unique_ptr<weak_threads::atomic<std::uint32_t>> lock;
    const auto with_lock = [&](auto what) {
        weak_threads::wait_while([&] { return lock->fetch_or(1) != 0; });
        what();
        lock->store(0);
    };
    bool changed = false;
    run(
        1,
        [&] {
            lock = std::make_unique<weak_threads::atomic<std::uint32_t>>(0);
            changed = false;
            (void)post(1, true);
        },
        {[&] { seen.posted[2] = post(2, true); },
         [&] {
             with_lock([&] {
                 changed = ring->ring.change_marked([](weak_element &element) {
                     return element.get() == 1 && (element.set(5), true);
                 });
             });
         },
         [&] {
             if (ring->ring.is_front_marked())
                 with_lock([&] { seen.take_one(*ring); });
         }},
        [&] {
            return seen.taken[0] == (changed ? 5 : 1) &&
                   std::ssize(seen.taken) == 1 + seen.posted[2];
        },
        100);
}

TEST_SUITE_END();
