// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A thread that consumes alone keeps the claim of its EVD between calls, until another comes.
#include "fixture.hpp"

#include <algorithm>

using namespace test;

namespace {

/// An EVD of completions that come by hand.
struct polled {
    explicit polled(line which = line::threadsafe) : c(which), s(c) { s.connect_by_hand(); }

    void complete(DAT_UINT64 cookie)
    {
        must(c.post_send(s.ep, cookie));
        REQUIRE(complete_send(s.port()));
    }
    evd &events() { return *from_handle<evd>(s.request); }
    /// Polls until the calling thread keeps the claim. False when it does not.
    bool poll_alone()
    {
        DAT_EVENT event;
        for (std::uint32_t i = 0; i < 2 * consumer_claim::last_row && !events().is_kept(); ++i)
            (void)c.dequeue(s.request, event);
        return events().is_kept();
    }
    static void on_another_thread(std::function<void()> what) { std::thread(what).join(); }

    consumer c;
    station s;
};

const bool without_flag = !port_features.lockless_dequeue;

} // namespace

TEST_SUITE_BEGIN("kept");

TEST_CASE("a thread keeps the claim after some dequeues or waits in a row" *
          doctest::skip(without_flag))
{
    polled p;
    DAT_EVENT event;
    SUBCASE("that find nothing")
    {
        for (std::uint32_t i = 0; i <= consumer_claim::first_row; ++i)
            CHECK_EQ(p.c.dequeue(p.s.request, event), DAT_QUEUE_EMPTY);
    }
    SUBCASE("that take an event")
    {
        for (std::uint32_t i = 0; i <= consumer_claim::first_row; ++i) {
            p.complete(i);
            CHECK_EQ(p.c.dequeue(p.s.request, event), DAT_SUCCESS);
            CHECK_EQ(cookie_of(event), i);
        }
    }
    SUBCASE("that wait, and find an event")
    {
        for (std::uint32_t i = 0; i <= consumer_claim::first_row; ++i) {
            p.complete(i);
            CHECK_EQ(cookie_of(p.c.wait(p.s.request, DAT_TIMEOUT_INFINITE).event), i);
        }
    }
    REQUIRE(p.events().is_kept());
    for (DAT_UINT64 i = 0; i < 8; ++i) {
        p.complete(i);
        if (i % 2 == 0)
            CHECK_EQ(p.c.dequeue(p.s.request, event), DAT_SUCCESS);
        else
            event = p.c.wait(p.s.request, DAT_TIMEOUT_INFINITE).event;
        CHECK_EQ(cookie_of(event), i);
        CHECK_EQ(p.c.dequeue(p.s.request, event), DAT_QUEUE_EMPTY);
    }
    CHECK(p.events().is_kept());
}

TEST_CASE("a wait that finds several events says how many are left, and the claim stays kept" *
          doctest::skip(without_flag))
{
    polled p;
    REQUIRE(p.poll_alone());
    for (DAT_UINT64 i = 0; i < 3; ++i)
        p.complete(i);
    CHECK_EQ(p.c.wait(p.s.request, DAT_TIMEOUT_INFINITE).nmore, 2);
    CHECK(p.events().is_kept());
    CHECK_EQ(p.c.drain(p.s.request).size(), 2);
}

TEST_CASE("no claim is kept where a CNO is attached, nor after it came" *
          doctest::skip(without_flag))
{
    polled p;
    REQUIRE(p.poll_alone());
    const DAT_CNO_HANDLE cno = p.c.make_cno();
    must(p.c.v.evd_modify_cno_func(p.s.request, cno));
    CHECK(!p.events().is_kept());
    CHECK(!p.poll_alone());
    p.complete(1);
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    CHECK_EQ(p.c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by), DAT_SUCCESS);
    CHECK_EQ(by, p.s.request);
    must(p.c.v.evd_modify_cno_func(p.s.request, DAT_HANDLE_NULL));
    CHECK(p.poll_alone());
}

TEST_CASE("whoever comes second gets the claim: to dequeue, to wait, to resize" *
          doctest::skip(without_flag))
{
    polled p;
    REQUIRE(p.poll_alone());
    p.complete(7);
    DAT_EVENT event{};
    SUBCASE("dequeue")
    {
        p.on_another_thread([&] { must(p.c.dequeue(p.s.request, event)); });
    }
    SUBCASE("wait")
    {
        p.on_another_thread([&] { event = p.c.wait(p.s.request, DAT_TIMEOUT_INFINITE).event; });
    }
    SUBCASE("resize")
    {
        p.on_another_thread([&] { must(p.c.v.evd_resize_func(p.s.request, 100)); });
        must(p.c.dequeue(p.s.request, event));
    }
    SUBCASE("resize, by the keeper")
    {
        must(p.c.v.evd_resize_func(p.s.request, 100));
        must(p.c.dequeue(p.s.request, event));
    }
    CHECK_EQ(cookie_of(event), 7);
    CHECK(!p.events().is_kept());
    CHECK_EQ(p.c.dequeue(p.s.request, event), DAT_QUEUE_EMPTY);
    CHECK(p.poll_alone());
}

TEST_CASE("a thread keeps no claim of which another is the keeper, until that resigns" *
          doctest::skip(without_flag))
{
    polled p;
    REQUIRE(p.poll_alone());
    DAT_EVENT event;
    p.on_another_thread([&] {
        for (std::uint32_t i = 0; i < 2 * consumer_claim::first_row; ++i)
            (void)p.c.dequeue(p.s.request, event);
        CHECK(!p.events().is_kept());
    });
    (void)p.c.dequeue(p.s.request, event);
    p.on_another_thread([&] { CHECK(p.poll_alone()); });
}

TEST_CASE("an EVD that threads take from in turns is kept by none" * doctest::skip(without_flag))
{
    polled p;
    for (std::uint32_t i = 0; i < consumer_claim::most_turns; ++i) {
        DAT_EVENT event;
        (void)p.c.dequeue(p.s.request, event);
        p.on_another_thread([&] { (void)p.c.dequeue(p.s.request, event); });
    }
    CHECK(!p.poll_alone());
}

TEST_CASE("a wait of the keeper sleeps until an event comes, beside a dequeue that is refused" *
          doctest::skip(without_flag))
{
    polled p;
    const sleep_of_waiter sleeps(p.s.request);
    auto waiter = std::async(std::launch::async, [&] {
        REQUIRE(p.poll_alone());
        return p.c.wait(p.s.request, DAT_TIMEOUT_INFINITE);
    });
    sleeps.await();
    DAT_EVENT event;
    CHECK_EQ(p.c.dequeue(p.s.request, event),
             error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER));
    p.complete(3);
    const wait_answer got = waiter.get();
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(got.event), 3);
}

TEST_CASE("the EVD of a keeper that is gone is used, freed and closed as others" *
          doctest::skip(without_flag))
{
    polled p;
    p.on_another_thread([&] { REQUIRE(p.poll_alone()); });
    p.complete(5);
    SUBCASE("used")
    {
        DAT_EVENT event;
        must(p.c.dequeue(p.s.request, event));
        CHECK_EQ(cookie_of(event), 5);
    }
    SUBCASE("freed")
    {
        must(p.c.v.ep_free_func(p.s.ep));
        must(p.c.v.evd_free_func(p.s.request));
    }
    CHECK_EQ(p.c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

TEST_CASE("a keeper that waits again and again goes home with ABORT when the adapter closes" *
          doctest::skip(without_flag))
{
    for (int i = 0; i < rounds(20); ++i) {
        polled p;
        std::atomic<bool> keeps{false};
        std::thread keeper([&] {
            keeps = p.poll_alone();
            while (p.c.wait(p.s.request, 0).code != error_code(DAT_ABORT)) {
            }
        });
        while (!keeps)
            std::this_thread::yield();
        (void)p.events().abort_waiter(osd::deadline::never()); // a close does so
        keeper.join();
    }
}

TEST_CASE("a merged EVD is kept, and its events come in order" * doctest::skip(without_flag))
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
    station s(c, e, e);
    evd &events = *from_handle<evd>(e);
    const auto poll = [&] {
        DAT_EVENT event;
        for (std::uint32_t i = 0; i < 2 * consumer_claim::first_row; ++i)
            CHECK_EQ(c.dequeue(e, event), DAT_QUEUE_EMPTY);
        CHECK(events.is_kept());
    };
    poll();
    s.connect_by_hand();
    poll();
    DAT_EVENT event;
    for (DAT_UINT64 i = 0; i < 4; ++i) {
        must(c.post_send(s.ep, i));
        REQUIRE(complete_send(s.port()));
        must(i % 2 == 0 ? c.dequeue(e, event) : c.wait(e, DAT_TIMEOUT_INFINITE).code);
        CHECK(events.is_kept());
    }
}

TEST_CASE("storm: keepers are revoked again and again, and each event is taken once, in order" *
          doctest::skip(without_flag))
{
    polled p;
    qp &port = p.s.port();
    const auto all = static_cast<DAT_UINT64>(rounds(500));
    std::atomic<DAT_UINT64> taken{0};
    std::atomic<int> disordered{0};
    std::atomic<int> kept{0};
    const auto take = [&](DAT_UINT64 &last, bool waits) {
        DAT_EVENT event;
        if (waits) {
            const wait_answer got = p.c.wait(p.s.request, 0);
            if (got.code != DAT_SUCCESS)
                return;
            event = got.event;
        } else if (p.c.dequeue(p.s.request, event) != DAT_SUCCESS) {
            return;
        }
        disordered += cookie_of(event) > last ? 0 : 1;
        last = cookie_of(event);
        ++taken;
    };
    std::thread poster([&] {
        for (DAT_UINT64 posted = 0; posted != all;) {
            posted += p.c.post_send(p.s.ep, posted + 1) == DAT_SUCCESS ? 1 : 0;
            complete_send(port);
        }
        while (complete_send(port)) {
        }
    });
    std::thread owner([&] {
        for (DAT_UINT64 last = 0, i = 0; taken < all; ++i) {
            take(last, i % 1024 == 0);
            kept += p.events().is_kept() ? 1 : 0;
        }
    });
    std::thread second([&] {
        for (DAT_UINT64 last = 0, i = 0; taken < all; ++i) {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            if (i % 64 == 0) { // a CNO revokes, too
                const DAT_CNO_HANDLE cno = p.c.make_cno();
                must(p.c.v.evd_modify_cno_func(p.s.request, cno));
                must(p.c.v.evd_modify_cno_func(p.s.request, DAT_HANDLE_NULL));
                must(p.c.v.cno_free_func(cno));
            }
            take(last, i % 3 == 0);
        }
    });
    for (std::thread *each : {&poster, &owner, &second})
        each->join();
    CHECK_EQ(disordered.load(), 0);
    CHECK_EQ(taken.load(), all);
    CHECK(kept.load() > 0);
}

TEST_SUITE_END();
