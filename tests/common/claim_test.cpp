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
using weak_number = orders::plain<int>;

/// Threads whose revocation of a kept claim lacks the fence.
struct unfenced_threads : weak_threads {
    static void fence_all_threads() {}
};

/// Threads that withdraw no right: a kept claim stays kept.
struct deaf_threads : weak_threads {
    template <class V>
    struct atomic : weak_threads::atomic<V> {
        using weak_threads::atomic<V>::atomic;
        V fetch_and(V) { return this->load(); }
    };
};

/// An EVD as far as the claim and posted events go.
template <class Threads>
struct evd_of {
    using claims = claim_word<Threads>;
    using posted = posted_ring<weak_number, Threads>;

    evd_of()
    {
        typename posted::storage room;
        REQUIRE(room.allocate(2));
        REQUIRE(ring.exchange_storage(room));
    }
    /// Returns false beside a wait.
    bool dequeue()
    {
        if (claim.is_keeper()) {
            if ((claim.enter(claims::in_dequeue, word) & claims::kept) != 0) {
                consume();
                claim.leave();
                return true;
            }
            claim.leave();
            claim.resign();
        }
        if (!claim.take(word, row))
            return false;
        consume();
        claim.give_up();
        return true;
    }
    /// A dequeue after which its thread keeps the claim. Whether it does.
    bool dequeue_and_keep()
    {
        if (!claim.take(word, row))
            return false;
        const bool keeps = claim.keep(claims::in_dequeue, word, row);
        consume();
        if (keeps)
            claim.leave();
        else
            claim.give_up();
        return keeps;
    }
    /// The keeper waits. Returns false if another thread has the claim.
    bool wait_as_keeper()
    {
        if ((claim.enter(claims::in_wait, word) & claims::kept) == 0 ||
            !claim.leave_for_wait(word)) {
            claim.leave();
            return false;
        }
        consume();
        claim.end_wait();
        claim.give_up();
        return true;
    }
    void consume() { consumed.set(consumed.get() + 1); }
    bool take_event()
    {
        consume();
        if ((word.load() & ~claims::keepable) == 0)
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

    claims claim;
    weak_number consumed{0}; ///< the holder of the claim changes it
    event_word<Threads> word{claims::keepable};
    typename claims::row row;
    posted ring{word};
};
using weak_evd = evd_of<weak_threads>;
using bodies = std::vector<std::function<void()>>;

template <class Threads>
struct checked_with {
    using evd_type = evd_of<Threads>;

    void explore(const std::function<bodies(evd_type &)> &begin,
                 const std::function<bool(evd_type &)> &is_right)
    {
        all.run(
            [&] {
                evd = std::make_unique<evd_type>();
                return begin(*evd);
            },
            [&] { wrong += is_right(*evd) ? 0 : 1; });
        CHECK(all.runs > 20);
    }
    void run(const std::function<bodies(evd_type &)> &begin,
             const std::function<bool(evd_type &)> &is_right)
    {
        explore(begin, is_right);
        CHECK_EQ(all.stuck, 0);
        CHECK_EQ(all.races, 0);
        CHECK_EQ(wrong, 0);
    }

    all_orders all;
    int wrong = 0;
    std::unique_ptr<evd_type> evd;
};
using checked = checked_with<weak_threads>;

/// A keeper and a thread that comes second. Returns how often both consume at once.
template <class Threads>
int meetings()
{
    checked_with<Threads> c;
    c.explore(
        [](evd_of<Threads> &e) {
            return bodies{[&e] {
                              (void)e.dequeue_and_keep();
                              (void)e.dequeue();
                              (void)e.dequeue();
                          },
                          [&e] { (void)e.dequeue(); }};
        },
        [](evd_of<Threads> &e) { return e.consumed.get() == 4; });
    CHECK_EQ(c.all.stuck, 0);
    return c.all.races + c.wrong;
}

} // namespace

TEST_SUITE_BEGIN("claim");

TEST_CASE("threads that dequeue take turns, and each finds what the others have done")
{
    checked c;
    c.run(
        [](weak_evd &e) {
            return bodies{[&e] { (void)e.dequeue(); }, [&e] { (void)e.dequeue(); },
                          [&e] { (void)e.post(); }};
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
            return bodies{[&] {
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
            return bodies{[&] {
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
            return bodies{[&] {
                              (void)e.claim.try_take_for_wait();
                              seen = e.claim.is_dismissed();
                              e.claim.end_wait();
                              e.claim.give_up();
                              (void)e.claim.take(e.word, e.row);
                              seen_later = e.claim.is_dismissed();
                              e.claim.give_up();
                          },
                          [&] { dismissed = e.claim.dismiss(); }};
        },
        [&](weak_evd &) { return (dismissed || !seen) && !seen_later; });
}

TEST_CASE("a keeper and a thread that comes second never consume at once")
{
    CHECK_EQ(meetings<weak_threads>(), 0);
}

TEST_CASE("a claim that is revoked without the fence is held by two, and the checker sees it")
{
    CHECK(meetings<unfenced_threads>() != 0);
}

TEST_CASE("a claim that is never revoked is held by two, and the checker sees it")
{
    CHECK(meetings<deaf_threads>() != 0);
}

TEST_CASE("of two threads that revoke a claim each gets it, one after the other")
{
    checked c;
    c.run(
        [](weak_evd &e) {
            return bodies{[&e] {
                              (void)e.dequeue_and_keep();
                              (void)e.dequeue();
                          },
                          [&e] { (void)e.dequeue(); }, [&e] { (void)e.dequeue(); }};
        },
        [](weak_evd &e) { return e.consumed.get() == 4; });
}

TEST_CASE("threads keep the claim in turns: the next one only when the former has resigned")
{
    checked c;
    c.run(
        [](weak_evd &e) {
            const auto keeps = [&e] {
                (void)e.dequeue_and_keep();
                (void)e.dequeue();
                (void)e.dequeue();
            };
            return bodies{keeps, keeps};
        },
        [](weak_evd &e) { return e.consumed.get() == 6; });
}

TEST_CASE("beside a wait of the keeper a dequeue is refused, or comes before it")
{
    checked c;
    bool kept = false;
    bool waited = false;
    bool dequeued = false;
    c.run(
        [&](weak_evd &e) {
            kept = waited = dequeued = false;
            return bodies{[&] {
                              kept = e.dequeue_and_keep();
                              waited = kept && e.wait_as_keeper();
                          },
                          [&] { dequeued = e.dequeue(); }};
        },
        [&](weak_evd &e) {
            return e.consumed.get() == 1 + waited + dequeued && kept && (waited || dequeued);
        });
}

TEST_CASE("where keeping is forbidden nobody keeps the claim, and what is done then is done alone")
{
    checked c;
    c.run(
        [](weak_evd &e) {
            return bodies{[&e] {
                              (void)e.dequeue_and_keep();
                              (void)e.dequeue();
                          },
                          [&e] {
                              e.claim.forbid_keeping(e.word, e.row);
                              REQUIRE(e.claim.take(e.word, e.row));
                              e.consume();
                              e.claim.give_up();
                          }};
        },
        [](weak_evd &e) {
            return e.consumed.get() == 3 && (e.word.load() & weak_evd::claims::kept) == 0;
        });
}

TEST_CASE("a keeper that is shut out begins no wait, and those that it has begun can be awaited")
{
    checked c;
    std::unique_ptr<weak_number> storage;
    c.run(
        [&](weak_evd &e) {
            storage = std::make_unique<weak_number>(1);
            return bodies{[&] {
                              (void)e.dequeue_and_keep();
                              if ((e.claim.enter(weak_evd::claims::in_wait, e.word) &
                                   weak_evd::claims::kept) != 0)
                                  (void)storage->get();
                              e.claim.leave();
                          },
                          [&] {
                              if ((e.word.load() & weak_evd::claims::kept) == 0)
                                  return;
                              e.claim.shut_out_keeper(e.word);
                              weak_threads::wait_while([&] { return e.claim.is_keeper_in_wait(); });
                              storage->set(0);
                          }};
        },
        [](weak_evd &) { return true; });
}

TEST_SUITE_END();
