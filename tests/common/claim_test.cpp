// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks the claim of an EVD in all orders of the steps of a few threads.
#include "../all_orders.hpp"
#include "core/consumer_claim.hpp"
#include "core/posted_ring.hpp"
#include "fixture.hpp"

using namespace test;

namespace {

using orders::all_orders;
using orders::weak_threads;
using weak_claim = claim_word<weak_threads>;
using weak_number = orders::plain<int>;
using weak_posted = posted_ring<weak_number, weak_threads>;

/// An EVD as far as the claim and posted events go.
struct weak_evd {
    weak_evd()
    {
        weak_posted::storage room;
        REQUIRE(room.allocate(2));
        REQUIRE(ring.exchange_storage(room));
    }
    /// Returns false beside a wait.
    bool dequeue()
    {
        if (!claim.take())
            return false;
        take_event();
        claim.give_up();
        return true;
    }
    bool take_event()
    {
        consumed.set(consumed.get() + 1);
        if (word.load() == 0)
            return false;
        (void)ring.front().get();
        ring.drop_front();
        word.fetch_sub(1);
        return true;
    }
    /// Returns whether an event is stored that a waiter has to be told of.
    bool post()
    {
        (void)ring.post(weak_number(1));
        return claim.has_waiter();
    }

    weak_claim claim;
    weak_number consumed{0}; ///< the holder of the claim changes it
    event_word<weak_threads> word{0};
    weak_posted ring{word};
};

struct checked {
    void run(const std::function<std::vector<std::function<void()>>(weak_evd &)> &bodies,
             const std::function<bool(weak_evd &)> &is_right)
    {
        int wrong = 0;
        all.run(
            [&] {
                evd = std::make_unique<weak_evd>();
                return bodies(*evd);
            },
            [&] { wrong += is_right(*evd) ? 0 : 1; });
        CHECK_EQ(all.stuck, 0);
        CHECK_EQ(all.races, 0);
        CHECK_EQ(wrong, 0);
        CHECK(all.runs > 20);
    }

    all_orders all;
    std::unique_ptr<weak_evd> evd;
};

} // namespace

TEST_SUITE_BEGIN("claim");

TEST_CASE("threads that dequeue take turns, and each finds what the others have done")
{
    checked c;
    c.run(
        [](weak_evd &e) {
            return std::vector<std::function<void()>>{
                [&e] { (void)e.dequeue(); }, [&e] { (void)e.dequeue(); }, [&e] { (void)e.post(); }};
        },
        [](weak_evd &e) { return e.consumed.get() == 2; });
}

TEST_CASE("beside a wait a dequeue is refused, before and after it is not")
{
    checked c;
    bool waited = false;
    bool dequeued = false;
    c.run(
        [&](weak_evd &e) {
            waited = dequeued = false;
            return std::vector<std::function<void()>>{[&] {
                                                          waited = e.claim.try_take_for_wait();
                                                          if (!waited)
                                                              return;
                                                          (void)e.take_event();
                                                          e.claim.end_wait();
                                                          (void)e.take_event();
                                                          e.claim.give_up();
                                                      },
                                                      [&] { dequeued = e.dequeue(); }};
        },
        [&](weak_evd &e) {
            return e.consumed.get() == 2 * waited + dequeued && (waited || dequeued);
        });
}

TEST_CASE("a waiter finds the event, or is found by the thread that has posted it")
{
    checked c;
    bool found = false;
    bool told = false;
    c.run(
        [&](weak_evd &e) {
            found = told = false;
            return std::vector<std::function<void()>>{[&] {
                                                          (void)e.claim.try_take_for_wait();
                                                          found = e.take_event();
                                                      },
                                                      [&] { told = e.post(); }};
        },
        [&](weak_evd &) { return found || told; });
}

TEST_CASE("a wait is dismissed while it lasts, and no later one")
{
    checked c;
    bool dismissed = false;
    bool seen = false;
    bool seen_later = false;
    c.run(
        [&](weak_evd &e) {
            dismissed = seen = seen_later = false;
            return std::vector<std::function<void()>>{[&] {
                                                          (void)e.claim.try_take_for_wait();
                                                          seen = e.claim.is_dismissed();
                                                          e.claim.end_wait();
                                                          e.claim.give_up();
                                                          (void)e.claim.take();
                                                          seen_later = e.claim.is_dismissed();
                                                          e.claim.give_up();
                                                      },
                                                      [&] { dismissed = e.claim.dismiss(); }};
        },
        [&](weak_evd &) { return (dismissed || !seen) && !seen_later; });
}

TEST_SUITE_END();
