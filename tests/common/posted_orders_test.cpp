// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks the ring of posted events in all orders of the steps of a few threads.
#include "../all_orders.hpp"
#include "core/posted_ring.hpp"
#include "fixture.hpp"

#include <algorithm>

using namespace test;

namespace {

using orders::all_orders;
using orders::weak_threads;
using weak_element = orders::plain<int>;

/// A ring as an EVD uses it: the owner's bits count what is there.
template <class T, class Threads>
struct counted_ring {
    using storage = typename posted_ring<T, Threads>::storage;

    explicit counted_ring(std::uint32_t length) { resize(length); }

    bool resize(std::uint32_t length)
    {
        storage other;
        REQUIRE(other.allocate(length));
        return ring.exchange_storage(other);
    }
    bool take(T &element)
    {
        if (word.load() == 0)
            return false;
        element = ring.front();
        ring.drop_front();
        word.fetch_sub(1);
        return true;
    }

    event_word<Threads> word{0};
    posted_ring<T, Threads> ring{word};
};
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

} // namespace

TEST_SUITE_BEGIN("posted_orders");

TEST_CASE("who has posted finds its element, also behind one that is being filled")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    record seen;
    int missed = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(2);
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { (void)r->ring.post(weak_element(1)); },
                [&] {
                    (void)r->ring.post(weak_element(2));
                    seen.take_all(*r);
                    missed += seen.place_of(2) == std::ssize(seen.taken) ? 1 : 0;
                }};
        },
        [&] {
            seen.take_all(*r);
            missed += seen.taken.size() == 2 && seen.place_of(1) != 2 ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(missed, 0);
    CHECK(orders.runs > 50);
}

TEST_CASE("two threads post beside one that takes, and a full ring is full")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(2);
            (void)r->ring.post(weak_element(0));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] {
                    seen.posted[1] = r->ring.post(weak_element(1));
                    seen.posted[2] = r->ring.post(weak_element(2));
                },
                [&] { seen.posted[3] = r->ring.post(weak_element(3)); },
                [&] { seen.take_one(*r); }};
        },
        [&] {
            seen.take_all(*r);
            const int posted = seen.posted[1] + seen.posted[2] + seen.posted[3];
            wrong += std::ssize(seen.taken) == posted + 1 && seen.taken[0] == 0 ? 0 : 1;
            wrong += posted >= 1 && posted <= 2 && (seen.posted[1] || seen.posted[3]) ? 0 : 1;
            wrong += !seen.posted[1] || seen.place_of(1) <= seen.place_of(2) ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 1000);
}

TEST_CASE("a post before a resize or after it, so that never more is there than fits")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    record seen;
    bool longer = false;
    bool shorter = false;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(3);
            (void)r->ring.post(weak_element(0));
            (void)r->ring.post(weak_element(1));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[2] = r->ring.post(weak_element(2)); },
                [&] {
                    longer = r->resize(4);
                    shorter = r->resize(2);
                }};
        },
        [&] {
            wrong += longer && shorter != seen.posted[2] ? 0 : 1;
            seen.take_all(*r);
            wrong += std::ssize(seen.taken) == 2 + seen.posted[2] ? 0 : 1;
            wrong += std::is_sorted(seen.taken.begin(), seen.taken.end()) ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_CASE("a resize that is refused lets no post find the ring full")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(4);
            for (int i = 0; i < 3; ++i)
                (void)r->ring.post(weak_element(i));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[3] = r->ring.post(weak_element(3)); },
                [&] {
                    wrong += r->resize(5) ? 0 : 1;
                    wrong += r->resize(1) ? 1 : 0;
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.posted[3] && seen.taken == std::vector{0, 1, 2, 3} ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_CASE("two threads post beside resizes that leave room for all")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(3);
            (void)r->ring.post(weak_element(0), true);
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[1] = r->ring.post(weak_element(1), true); },
                [&] { seen.posted[2] = r->ring.post(weak_element(2)); },
                [&] {
                    seen.posted[3] = r->resize(4);
                    seen.take_one(*r);
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.posted[1] && seen.posted[2] && seen.posted[3] ? 0 : 1;
            wrong += seen.taken.size() == 3 && seen.taken[0] == 0 ? 0 : 1;
            wrong += seen.place_of(1) < 3 && seen.place_of(2) < 3 ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 1000);
}

TEST_CASE("a marked element is changed before it is taken, or not at all")
{
    all_orders orders;
    std::unique_ptr<weak_ring> r;
    std::unique_ptr<weak_threads::atomic<std::uint32_t>> lock;
    const auto with_lock = [&](auto what) {
        weak_threads::wait_while([&] { return lock->fetch_or(1) != 0; });
        what();
        lock->store(0);
    };
    bool changed = false;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<weak_ring>(1);
            lock = std::make_unique<weak_threads::atomic<std::uint32_t>>(0);
            seen = {};
            changed = false;
            (void)r->ring.post(weak_element(1), true);
            return std::vector<std::function<void()>>{
                [&] { seen.posted[2] = r->ring.post(weak_element(2), true); },
                [&] {
                    with_lock([&] {
                        changed = r->ring.change_marked([](weak_element &element) {
                            return element.get() == 1 && (element.set(5), true);
                        });
                    });
                },
                [&] {
                    if (r->ring.is_front_marked())
                        with_lock([&] { seen.take_one(*r); });
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.taken[0] == (changed ? 5 : 1) ? 0 : 1;
            wrong += std::ssize(seen.taken) == 1 + seen.posted[2] ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(orders.races, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_SUITE_END();
