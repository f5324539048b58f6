// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CNO: a trigger sticks until one wait consumed it.
#include "fixture.hpp"

#include <memory>

using namespace test;

namespace {

struct notified {
    explicit notified(line which = line::nonthreadsafe)
        : c(which), cno(c.make_cno()), e(c.make_evd(DAT_EVD_SOFTWARE_FLAG, 64, cno))
    {}
    DAT_RETURN wait(DAT_TIMEOUT timeout, DAT_EVD_HANDLE *by)
    {
        return c.v.cno_wait_func(cno, timeout, by);
    }
    void await_waiter() const
    {
        while (!from_handle<dapl::programmable::core::cno>(cno)->has_waiters())
            std::this_thread::yield();
    }

    consumer c;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE e;
};

} // namespace

TEST_SUITE_BEGIN("cno");

TEST_CASE("a trigger before the wait is kept, and several count as one")
{
    notified n;
    must(n.c.post_se(n.e));
    must(n.c.post_se(n.e));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
    CHECK_EQ(by, n.e);
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
    CHECK_EQ(by, DAT_HANDLE_NULL);
}

TEST_CASE("the EVD told is the first that triggered since the last wait")
{
    notified n;
    const DAT_EVD_HANDLE second = n.c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, n.cno);
    must(n.c.post_se(second));
    must(n.c.post_se(n.e));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    must(n.wait(0, &by));
    CHECK_EQ(by, second);
}

TEST_CASE("a direct waiter has precedence over the CNO")
{
    notified n;
    auto waiter =
        std::async(std::launch::async, [&] { return n.c.wait(n.e, DAT_TIMEOUT_INFINITE).code; });
    while (!from_handle<evd>(n.e)->has_waiter())
        std::this_thread::yield();
    must(n.c.post_se(n.e));
    CHECK_EQ(waiter.get(), DAT_SUCCESS);
    DAT_EVD_HANDLE by;
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
}

TEST_CASE("events that a direct waiter counted do not trigger the CNO")
{
    notified n;
    DAT_EVD_HANDLE by;
    for (const DAT_COUNT posted : {3, 2}) { // enough for its threshold, or too few
        auto waiter = std::async(std::launch::async, [&] { return n.c.wait(n.e, 1'000'000, 3); });
        while (!from_handle<evd>(n.e)->has_waiter())
            std::this_thread::yield();
        for (DAT_COUNT i = 0; i < posted; ++i)
            must(n.c.post_se(n.e));
        const wait_answer got = waiter.get();
        CHECK_EQ(got.code, posted == 3 ? DAT_SUCCESS : DAT_TIMEOUT_EXPIRED);
        CHECK_EQ(got.nmore, 2);
        CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
        CHECK_EQ(n.c.drain(n.e).size(), 2);
    }
}

TEST_CASE("a producer that notifies after a direct waiter has counted its event triggers nothing")
{
    notified n;
    evd &e = *from_handle<evd>(n.e);
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    auto waiter = std::async(std::launch::async, [&] { return n.c.wait(n.e, 20'000'000, 3); });
    while (!e.has_waiter())
        std::this_thread::yield();
    for (int i = 0; i < 3; ++i)
        REQUIRE(e.store(event));
    e.notify();
    const wait_answer got = waiter.get();
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 2);
    e.notify();
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
    must(n.c.post_se(n.e));
    CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
    CHECK_EQ(n.c.drain(n.e).size(), 3);
}

TEST_CASE("events that a direct waiter left behind without counting them trigger the CNO")
{
    notified n;
    auto waiter =
        std::async(std::launch::async, [&] { return n.c.wait(n.e, DAT_TIMEOUT_INFINITE, 3).code; });
    while (!from_handle<evd>(n.e)->has_waiter())
        std::this_thread::yield();
    must(n.c.post_se(n.e));
    must(n.c.v.evd_set_unwaitable_func(n.e));
    CHECK_EQ(DAT_GET_TYPE(waiter.get()), DAT_INVALID_STATE);
    DAT_EVD_HANDLE by;
    CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
    CHECK_EQ(by, n.e);
}

TEST_CASE("an event that comes after a waiter has counted triggers the CNO")
{
    notified n;
    int untold = 0;
    for (int i = 0; i < rounds(3000); ++i) {
        auto waiter = std::async(std::launch::async, [&] { return n.c.wait(n.e, 5'000'000, 1); });
        must(n.c.post_se(n.e));
        must(n.c.post_se(n.e));
        const wait_answer got = waiter.get();
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        untold += got.code != DAT_SUCCESS;
        untold += got.nmore == 0 && n.wait(0, &by) != DAT_SUCCESS;
        (void)n.c.drain(n.e);
        (void)n.wait(0, &by); // maybe both came before the wait
    }
    CHECK_EQ(untold, 0);
}

TEST_CASE("EVDs whose triggers were merged are told one after the other")
{
    notified n;
    const DAT_EVD_HANDLE second = n.c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, n.cno);
    const DAT_EVD_HANDLE third = n.c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, n.cno);
    for (const DAT_EVD_HANDLE each : {n.e, second, third, second})
        must(n.c.post_se(each));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    for (const DAT_EVD_HANDLE expected : {n.e, second, third}) {
        CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
        CHECK_EQ(by, expected);
    }
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
}

TEST_CASE("an EVD that was merged and emptied meanwhile is not told")
{
    notified n;
    const DAT_EVD_HANDLE second = n.c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, n.cno);
    for (const DAT_EVD_HANDLE each : {n.e, second})
        must(n.c.post_se(each));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    must(n.wait(0, &by));
    for (const DAT_EVD_HANDLE each : {n.e, second})
        CHECK_EQ(n.c.drain(each).size(), 1);
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
}

TEST_CASE("one waiter is released per trigger")
{
    notified n;
    std::atomic<int> released{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i)
        waiters.emplace_back([&] {
            DAT_EVD_HANDLE by;
            released += n.wait(DAT_TIMEOUT_INFINITE, &by) == DAT_SUCCESS;
        });
    n.await_waiter();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 1; i <= 3; ++i) {
        must(n.c.post_se(n.e));
        for (int spin = 0; spin < 2000 && released < i; ++spin)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        CHECK_EQ(released.load(), i);
    }
    for (std::thread &t : waiters)
        t.join();
}

TEST_CASE("no trigger is lost between waits with timeouts and several producers")
{
    auto *n = new notified(line::threadsafe);
    const DAT_EVD_HANDLE e = n->c.make_evd(DAT_EVD_SOFTWARE_FLAG, 64, n->cno);
    const int each = rounds(30'000);
    std::vector<std::thread> producers;
    for (const DAT_EVD_HANDLE target : {n->e, e})
        producers.emplace_back([n, target] {
            for (int i = 0; i < each; ++i)
                while (n->c.post_se(target) != DAT_SUCCESS)
                    std::this_thread::yield();
        });
    std::atomic<int> taken{0};
    const auto take_all = [&] {
        for (unsigned turn = 0; taken < 2 * each; ++turn) {
            DAT_EVD_HANDLE by;
            (void)n->wait(turn % 3 == 0 ? turn % 40 : DAT_TIMEOUT_INFINITE, &by);
            for (const DAT_EVD_HANDLE source : {n->e, e})
                taken += static_cast<int>(n->c.drain(source).size());
        }
    };
    REQUIRE_MESSAGE(finishes(take_all, [&] { return taken.load(); }), "hangs after " << taken << " events");
    for (std::thread &t : producers)
        t.join();
    delete n;
}

TEST_CASE("no trigger is lost: completions through a CNO")
{
    auto *c = new consumer;
    const DAT_CNO_HANDLE cno = c->make_cno();
    const DAT_EVD_HANDLE dto = c->make_evd(DAT_EVD_DTO_FLAG, 64, cno);
    auto *s = new station(*c, dto, c->make_evd(DAT_EVD_CONNECTION_FLAG));
    s->connect_by_hand();
    const int total = rounds(60'000);
    std::thread producer([&] {
        qp &port = s->port();
        for (int i = 0; i < total; ++i) {
            while (c->post_send(s->ep) != DAT_SUCCESS)
                std::this_thread::yield();
            complete_send(port);
        }
    });
    std::atomic<int> taken{0};
    const auto take_all = [&] {
        for (unsigned turn = 0; taken < total; ++turn) {
            DAT_EVD_HANDLE by;
            (void)c->v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by);
            if (turn % 5 == 0) { // a direct wait now and then
                const wait_answer got = c->wait(dto, turn % 50, 2);
                taken += got.code == DAT_SUCCESS;
            }
            taken += static_cast<int>(c->drain(dto).size());
        }
    };
    REQUIRE_MESSAGE(finishes(take_all, [&] { return taken.load(); }), "hangs after " << taken << " events");
    producer.join();
    delete s;
    delete c;
}

TEST_CASE("of two CNOs with a waiter each, each reports its own completions")
{
    auto *c = new consumer;
    struct side {
        DAT_CNO_HANDLE cno;
        DAT_EVD_HANDLE dto;
        station *s;
        std::atomic<int> taken{0};
    };
    side sides[2];
    for (side &each : sides) {
        each.cno = c->make_cno();
        each.dto = c->make_evd(DAT_EVD_DTO_FLAG, 64, each.cno);
        each.s = new station(*c, each.dto, c->make_evd(DAT_EVD_CONNECTION_FLAG));
        each.s->connect_by_hand();
    }
    const int total = rounds(20'000);
    std::vector<std::thread> threads;
    for (side &each : sides) {
        threads.emplace_back([&, c] {
            for (int i = 0; i < total; ++i) {
                while (c->post_send(each.s->ep) != DAT_SUCCESS)
                    std::this_thread::yield();
                complete_send(each.s->port());
            }
        });
        threads.emplace_back([&, c] {
            for (unsigned turn = 0; each.taken < total; ++turn) {
                DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
                const DAT_TIMEOUT limit = turn % 7 == 0 ? turn % 50 : DAT_TIMEOUT_INFINITE;
                if (c->v.cno_wait_func(each.cno, limit, &by) == DAT_SUCCESS)
                    CHECK(by == each.dto);
                each.taken += static_cast<int>(c->drain(each.dto).size());
            }
        });
    }
    const auto join_all = [&] {
        for (std::thread &t : threads)
            t.join();
    };
    REQUIRE_MESSAGE(finishes(join_all, [&] { return sides[0].taken + sides[1].taken; }),
                    "hangs after " << sides[0].taken << " and " << sides[1].taken << " events");
    for (side &each : sides)
        delete each.s;
    delete c;
}

namespace {

/// An endpoint whose requests complete to an EVD of a CNO, after the CNO was told of a first
/// completion.
struct told_before {
    explicit told_before(DAT_CNO_HANDLE of, consumer &by)
        : c(by), cno(of), dto(c.make_evd(DAT_EVD_DTO_FLAG, 64, cno)),
          s(c, dto, c.make_evd(DAT_EVD_CONNECTION_FLAG))
    {
        s.connect_by_hand();
        complete();
        REQUIRE_EQ(wait(DAT_TIMEOUT_INFINITE), DAT_SUCCESS);
        REQUIRE_EQ(c.drain(dto).size(), 1);
    }
    void complete()
    {
        must(c.post_send(s.ep));
        REQUIRE(complete_send(s.port()));
    }
    DAT_RETURN wait(DAT_TIMEOUT timeout_us)
    {
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        const DAT_RETURN code = c.v.cno_wait_func(cno, timeout_us, &by);
        CHECK_EQ(by, code == DAT_SUCCESS ? dto : DAT_HANDLE_NULL);
        return code;
    }
    /// Makes a completion without a callback: a look finds it, and leaves the CQ unarmed.
    void complete_for_look()
    {
        armed() = false;
        complete();
        CHECK_EQ(wait(DAT_TIMEOUT_INFINITE), DAT_SUCCESS);
        CHECK_EQ(c.drain(dto).size(), 1);
        REQUIRE_FALSE(armed());
    }
    std::atomic<bool> &armed() { return from_handle<evd>(dto)->cq()->armed; }

    consumer &c;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE dto;
    station s;
};

constexpr bool looks = port_features.cno_wait; ///< the port says so with its features

} // namespace

TEST_CASE("a wait looks where news came from, and the CQ is armed when it goes to sleep" *
          doctest::skip(!looks))
{
    consumer c;
    told_before t(c.make_cno(), c);
    t.complete_for_look();
    t.complete_for_look();
    CHECK_EQ(DAT_GET_TYPE(t.wait(2000)), DAT_QUEUE_EMPTY);
    CHECK(t.armed());
}

TEST_CASE("each completion triggers, whether or not those before it were taken")
{
    consumer c;
    told_before t(c.make_cno(), c);
    for (const bool taken : {true, false, false, true}) {
        t.complete();
        CHECK_EQ(t.wait(DAT_TIMEOUT_INFINITE), DAT_SUCCESS);
        if (taken)
            CHECK_GE(c.drain(t.dto).size(), 1);
    }
    CHECK_EQ(DAT_GET_TYPE(t.wait(2000)), DAT_QUEUE_EMPTY);
    CHECK(t.armed());
}

TEST_CASE("a consumer that takes one event for each trigger gets a trigger for each of several "
          "that came at once")
{
    consumer c;
    told_before t(c.make_cno(), c);
    for (const bool for_look : {false, true}) {
        if (for_look && !looks)
            continue;
        t.armed() = !for_look;
        for (int i = 0; i < 5; ++i)
            t.complete();
        DAT_EVENT event;
        for (int i = 0; i < 5; ++i) {
            CAPTURE(i);
            CHECK_EQ(t.wait(20'000), DAT_SUCCESS);
            must(c.dequeue(t.dto, event));
        }
        CHECK_EQ(DAT_GET_TYPE(t.wait(2000)), DAT_QUEUE_EMPTY);
        CHECK(t.armed());
    }
}

TEST_CASE("completions of an EVD that was merged trigger again, the EVD untouched")
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    told_before t(cno, c);
    const DAT_EVD_HANDLE other = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno);
    must(c.post_se(other));
    t.complete();
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    must(c.v.cno_wait_func(cno, 0, &by));
    CHECK_EQ(by, other);
    for (int i = 0; i < 3; ++i) {
        CHECK_EQ(t.wait(20'000), DAT_SUCCESS);
        CHECK_EQ(DAT_GET_TYPE(t.wait(0)), DAT_QUEUE_EMPTY);
        t.complete();
    }
    CHECK_EQ(c.drain(t.dto).size(), 4);
}

TEST_CASE("a callback that comes after its completion was taken triggers nothing")
{
    consumer c;
    told_before t(c.make_cno(), c);
    t.armed() = false;
    t.complete();
    CHECK_EQ(c.drain(t.dto).size(), 1);
    dapl_evd_dto_callback(*from_handle<evd>(t.dto));
    CHECK_EQ(DAT_GET_TYPE(t.wait(0)), DAT_QUEUE_EMPTY);
    CHECK(t.armed());
}

TEST_CASE("while one waiter sleeps, CQs stay armed behind another that looks" *
          doctest::skip(!looks))
{
    consumer c;
    told_before t(c.make_cno(), c);
    std::atomic<bool> woken{false};
    std::thread sleeper([&] {
        CHECK_EQ(t.wait(DAT_TIMEOUT_INFINITE), DAT_SUCCESS);
        woken = true;
    });
    while (!from_handle<adapter>(c.ia)->cno_sleeper)
        std::this_thread::yield();
    t.armed() = false; // its callback is on the way
    t.complete();
    CHECK_EQ(t.wait(0), DAT_SUCCESS);
    CHECK_EQ(c.drain(t.dto).size(), 1);
    CHECK_FALSE(woken);
    dapl_evd_dto_callback(*from_handle<evd>(t.dto));
    CHECK(t.armed());
    t.complete();
    sleeper.join();
}

TEST_CASE("who sets an agent has the CQs armed, or the agent called at once" *
          doctest::skip(!looks))
{
    for (const bool at_once : {false, true}) {
        CAPTURE(at_once);
        consumer c;
        told_before t(c.make_cno(), c);
        t.complete_for_look();
        if (at_once)
            t.complete();
        agent called;
        must(c.v.cno_modify_agent_func(t.cno, called.value()));
        CHECK(t.armed());
        CHECK_EQ(called.calls, at_once ? 1 : 0);
        if (!at_once)
            t.complete();
        CHECK_EQ(called.calls, 1);
    }
}

TEST_CASE("who sets an agent while a trigger is pending has the CQs armed, too" *
          doctest::skip(!looks))
{
    consumer c;
    told_before t(c.make_cno(), c);
    t.complete_for_look();
    must(c.post_se(c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, t.cno)));
    agent called; // is called at once, for the pending event
    must(c.v.cno_modify_agent_func(t.cno, called.value()));
    CHECK(t.armed());
    CHECK_EQ(called.calls, 1);
    must(c.v.cno_modify_agent_func(t.cno, called.value()));
    CHECK_EQ(called.calls, 1);
    t.complete();
    CHECK_EQ(called.calls, 2);
}

TEST_CASE("an agent that is set again is called for what came meanwhile, of each EVD once")
{
    consumer c;
    agent called;
    const DAT_CNO_HANDLE cno = c.make_cno(called.value());
    const DAT_EVD_HANDLE evds[] = {c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno),
                                   c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno),
                                   c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno)};
    for (const DAT_EVD_HANDLE each : evds)
        must(c.post_se(each));
    CHECK_EQ(called.calls, 1);
    for (const int expected : {2, 3, 3, 3}) {
        must(c.v.cno_modify_agent_func(cno, called.value()));
        CHECK_EQ(called.calls, expected);
    }
}

TEST_CASE("an EVD that leaves a CNO that looked is armed for the next one" * doctest::skip(!looks))
{
    consumer c;
    told_before t(c.make_cno(), c);
    t.complete_for_look();
    agent called;
    must(c.v.evd_modify_cno_func(t.dto, c.make_cno(called.value())));
    CHECK(t.armed());
    t.complete();
    CHECK_EQ(called.calls, 1);
}

TEST_CASE("of many EVDs, none is forgotten by a CNO that looks at a few" * doctest::skip(!looks))
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    std::vector<std::unique_ptr<told_before>> many;
    for (int i = 0; i < 7; ++i)
        many.push_back(std::make_unique<told_before>(cno, c));
    for (int round = 0; round < 3; ++round)
        for (const auto &each : many) {
            each->complete();
            CHECK_EQ(each->wait(DAT_TIMEOUT_INFINITE), DAT_SUCCESS);
            CHECK_EQ(c.drain(each->dto).size(), 1);
        }
}

TEST_CASE("a timeout races with a trigger: the trigger is consumed or still there")
{
    notified n;
    int wrong = 0;
    for (int i = 0; i < rounds(3000); ++i) {
        std::thread poster([&] { (void)n.c.post_se(n.e); });
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        const DAT_RETURN first = n.wait(static_cast<DAT_TIMEOUT>(i % 60), &by);
        poster.join();
        if (first != DAT_SUCCESS)
            wrong += n.wait(0, &by) != DAT_SUCCESS;
        wrong += by != n.e;
        wrong += n.wait(0, &by) != DAT_QUEUE_EMPTY;
        (void)n.c.drain(n.e);
    }
    CHECK_EQ(wrong, 0);
}

TEST_CASE("an agent fires once, until it is set again")
{
    notified n;
    agent a;
    must(n.c.v.cno_modify_agent_func(n.cno, a.value()));
    for (int i = 0; i < 4; ++i)
        must(n.c.post_se(n.e));
    CHECK_EQ(a.calls.load(), 1);
    DAT_EVD_HANDLE by;
    must(n.wait(0, &by));
    must(n.c.post_se(n.e));
    CHECK_EQ(a.calls.load(), 1);
    must(n.wait(0, &by));
    must(n.c.v.cno_modify_agent_func(n.cno, a.value()));
    must(n.c.post_se(n.e));
    CHECK_EQ(a.calls.load(), 2);
}

TEST_CASE("an agent is called with no lock held: it may use the EVD and the CNO")
{
    notified n;
    agent a;
    std::vector<DAT_RETURN> codes;
    a.what = [&](DAT_EVD_HANDLE by) {
        DAT_EVENT event;
        DAT_EVD_HANDLE triggered;
        codes.push_back(n.c.dequeue(by, event));
        codes.push_back(n.wait(0, &triggered));
        codes.push_back(n.c.v.evd_disable_func(by));
        codes.push_back(n.c.v.evd_enable_func(by));
        codes.push_back(n.c.v.evd_modify_cno_func(by, DAT_HANDLE_NULL));
    };
    must(n.c.v.cno_modify_agent_func(n.cno, a.value()));
    const bool done = finishes([&] { (void)n.c.post_se(n.e); });
    REQUIRE(done);
    REQUIRE_EQ(codes.size(), 5);
    for (const DAT_RETURN code : codes)
        CHECK_EQ(code, DAT_SUCCESS);
}

TEST_CASE("a disabled EVD does not trigger; enabling it with events pending does")
{
    notified n;
    must(n.c.v.evd_disable_func(n.e));
    must(n.c.post_se(n.e));
    DAT_EVD_HANDLE by;
    CHECK_EQ(n.wait(0, &by), DAT_QUEUE_EMPTY);
    must(n.c.v.evd_enable_func(n.e));
    CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
}

TEST_CASE("completions that come while an EVD is disabled do not trigger with one that came before")
{
    consumer c;
    told_before t(c.make_cno(), c);
    t.complete();
    must(c.v.evd_disable_func(t.dto));
    t.complete();
    CHECK_EQ(t.wait(20'000), DAT_SUCCESS);
    CHECK_EQ(DAT_GET_TYPE(t.wait(2000)), DAT_QUEUE_EMPTY);
    must(c.v.evd_enable_func(t.dto));
    CHECK_EQ(t.wait(20'000), DAT_SUCCESS);
    CHECK_EQ(c.drain(t.dto).size(), 2);
    CHECK_EQ(DAT_GET_TYPE(t.wait(2000)), DAT_QUEUE_EMPTY);
    t.complete();
    CHECK_EQ(t.wait(20'000), DAT_SUCCESS);
}

TEST_CASE("attaching a CNO to an EVD with events pending triggers it: software and completions")
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    const DAT_EVD_HANDLE software = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
    const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG);
    station s(c, dto, c.make_evd(DAT_EVD_CONNECTION_FLAG));
    s.connect_by_hand();
    must(c.post_se(software));
    must(c.post_send(s.ep));
    REQUIRE(complete_send(s.port()));
    for (const DAT_EVD_HANDLE e : {software, dto}) {
        must(c.v.evd_modify_cno_func(e, cno));
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        CHECK_EQ(c.v.cno_wait_func(cno, 0, &by), DAT_SUCCESS);
        CHECK_EQ(by, e);
        CHECK_EQ(c.drain(e).size(), 1);
    }
}

TEST_CASE("modify_cno while events flow loses no trigger and uses no dead CNO")
{
    auto *c = new consumer(line::threadsafe);
    const DAT_EVD_HANDLE e = c->make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    std::atomic<bool> stop{false};
    std::thread producer([&] {
        while (!stop)
            if (c->post_se(e) != DAT_SUCCESS)
                std::this_thread::yield();
    });
    int lost = 0;
    for (int i = 0; i < rounds(3000); ++i) {
        const DAT_CNO_HANDLE cno = c->make_cno();
        (void)c->v.evd_modify_cno_func(e, cno);
        (void)c->drain(e);
        DAT_EVD_HANDLE by;
        lost += c->v.cno_wait_func(cno, 5'000'000, &by) != DAT_SUCCESS;
        (void)c->v.evd_modify_cno_func(e, DAT_HANDLE_NULL);
        lost += c->v.cno_free_func(cno) != DAT_SUCCESS;
    }
    stop = true;
    producer.join();
    CHECK_EQ(lost, 0);
    delete c;
}

TEST_CASE("a CNO in use cannot be freed: attached, or waited on")
{
    notified n;
    const DAT_RETURN in_use = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE);
    CHECK_EQ(n.c.v.cno_free_func(n.cno), in_use);
    must(n.c.v.evd_modify_cno_func(n.e, DAT_HANDLE_NULL));
    auto waiter = std::async(std::launch::async, [&] {
        DAT_EVD_HANDLE by;
        return n.wait(DAT_TIMEOUT_INFINITE, &by);
    });
    n.await_waiter();
    CHECK_EQ(n.c.v.cno_free_func(n.cno), in_use);
    must(n.c.v.evd_modify_cno_func(n.e, n.cno));
    must(n.c.post_se(n.e));
    CHECK_EQ(waiter.get(), DAT_SUCCESS);
    must(n.c.v.evd_modify_cno_func(n.e, DAT_HANDLE_NULL));
    CHECK_EQ(n.c.v.cno_free_func(n.cno), DAT_SUCCESS);
}

TEST_CASE("cno_free waits for a running trigger")
{
    notified n;
    lab::latch gate;
    agent a;
    a.what = [&](DAT_EVD_HANDLE) { gate.wait(); };
    must(n.c.v.cno_modify_agent_func(n.cno, a.value()));
    std::thread poster([&] { (void)n.c.post_se(n.e); });
    gate.await_arrival();
    must(n.c.v.evd_modify_cno_func(n.e, DAT_HANDLE_NULL));
    std::atomic<bool> freed{false};
    std::thread frees([&] { freed = n.c.v.cno_free_func(n.cno) == DAT_SUCCESS; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(freed.load());
    gate.open();
    poster.join();
    frees.join();
    CHECK(freed.load());
}

TEST_CASE("freeing the last EVD of a CNO wakes its waiter, which returns no EVD")
{
    notified n;
    std::future<DAT_RETURN> waiter;
    DAT_EVD_HANDLE by = n.e;
    waiter = std::async(std::launch::async, [&] { return n.wait(DAT_TIMEOUT_INFINITE, &by); });
    n.await_waiter();
    must(n.c.v.evd_free_func(n.e));
    CHECK_EQ(waiter.get(), DAT_SUCCESS);
    CHECK_EQ(by, DAT_HANDLE_NULL);
}

TEST_CASE("attaching the CNO that an EVD has already wakes no waiter")
{
    notified n;
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    auto waiter = std::async(std::launch::async, [&] { return n.wait(100'000, &by); });
    n.await_waiter();
    must(n.c.v.evd_modify_cno_func(n.e, n.cno));
    CHECK_EQ(waiter.get(), DAT_QUEUE_EMPTY);
    must(n.c.post_se(n.e));
    must(n.c.v.evd_modify_cno_func(n.e, n.cno));
    CHECK_EQ(n.wait(0, &by), DAT_SUCCESS);
    CHECK_EQ(by, n.e);
}

TEST_CASE("freeing the last two EVDs of a CNO at once wakes its waiter")
{
    auto *c = new consumer;
    const DAT_CNO_HANDLE cno = c->make_cno();
    int lost = 0;
    for (int i = 0; i < rounds(2000) && lost == 0; ++i) {
        const DAT_EVD_HANDLE evds[] = {c->make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno),
                                       c->make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno)};
        std::atomic<DAT_RETURN> code{DAT_QUEUE_EMPTY};
        std::thread waiter([&] {
            DAT_EVD_HANDLE by;
            code = c->v.cno_wait_func(cno, 20'000'000, &by);
        });
        while (!from_handle<dapl::programmable::core::cno>(cno)->has_waiters())
            std::this_thread::yield();
        std::atomic<int> ready{0};
        const auto free_one = [&](DAT_EVD_HANDLE e) {
            ++ready;
            while (ready < 2) {
            }
            (void)c->v.evd_free_func(e);
        };
        std::thread first(free_one, evds[0]), second(free_one, evds[1]);
        first.join();
        second.join();
        waiter.join();
        lost += code != DAT_SUCCESS;
        DAT_EVD_HANDLE by;
        (void)c->v.cno_wait_func(cno, 0, &by);
    }
    CHECK_EQ(lost, 0);
    delete c;
}

TEST_CASE("a CQ is freed after the poll of a callback that is running")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG, 4, c.make_cno());
    evd &target = *from_handle<evd>(e);
    const auto door = target.cq()->door; // outlives the queue
    lab::latch poll;
    lab::poll_gate = &poll;
    std::thread device([&] {
        REQUIRE(door->enter());
        dapl_evd_dto_callback(target);
        door->leave();
    });
    poll.await_arrival();
    std::thread frees([&] { CHECK_EQ(c.v.evd_free_func(e), DAT_SUCCESS); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK_EQ(lab::calls(lab::op::cq_free), 0);
    lab::poll_gate = nullptr;
    poll.open();
    device.join();
    frees.join();
    CHECK_EQ(lab::calls(lab::op::cq_free), 1);
}

TEST_CASE("a CNO never names an EVD that is freed, also when it was triggering meanwhile")
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    int wrong = 0;
    for (int i = 0; i < rounds(3000); ++i) {
        const DAT_EVD_HANDLE e = c.make_evd(merged, 4, cno);
        must(c.post_se(e)); // gives the callback something to tell
        evd &target = *from_handle<evd>(e);
        const auto door = target.cq()->door; // outlives the queue
        std::atomic<bool> stop{false};
        std::thread device([&] {
            while (!stop && door->enter()) {
                dapl_evd_dto_callback(target);
                door->leave();
            }
        });
        DAT_EVD_HANDLE seen;
        while (i % 4 == 0 && c.v.cno_wait_func(cno, 0, &seen) != DAT_SUCCESS) {
        }
        must(c.v.evd_free_func(e));
        stop = true;
        device.join();
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        (void)c.v.cno_wait_func(cno, 0, &by);
        wrong += by != DAT_HANDLE_NULL;
    }
    CHECK_EQ(wrong, 0);
    must(c.v.evd_free_func(connections));
}

TEST_SUITE_END();
