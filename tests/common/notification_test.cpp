// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion flags decide which completions wake a waiter and trigger a CNO.
#include "fixture.hpp"

using namespace test;

namespace {

constexpr DAT_TIMEOUT soon = 20'000;
constexpr DAT_TIMEOUT late = 20'000'000;

/// How often waits in an EVD have slept.
struct sleeps_of {
    explicit sleeps_of(DAT_EVD_HANDLE e) : of(*from_handle<evd>(e)) {}
    DAT_UINT64 operator()() const { return of.counters.read(DCNT_EVD_WAIT_BLOCKED, false); }
    evd &of;
};

DAT_RETURN set_recv_flags(station &s, DAT_COMPLETION_FLAGS flags)
{
    DAT_EP_PARAM param{};
    must(s.c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &param));
    param.ep_attr.recv_completion_flags = flags;
    return s.c.v.ep_modify_func(s.ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param);
}

/// An endpoint with these completion flags, connected, its EVDs on a CNO if wanted.
struct flagged {
    flagged(DAT_COMPLETION_FLAGS recv, DAT_COMPLETION_FLAGS request)
    {
        DAT_EP_PARAM param{};
        must(c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &param));
        param.ep_attr.recv_completion_flags = recv;
        param.ep_attr.request_completion_flags = request;
        param.ep_attr.max_request_dtos = 64;
        must(c.v.ep_modify_func(s.ep,
                                DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS |
                                    DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS |
                                    DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                                &param));
        s.connect_by_hand();
    }
    void send(DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG,
              DAT_DTO_COMPLETION_STATUS how = DAT_DTO_SUCCESS)
    {
        must(c.post_send(s.ep, cookie, flags));
        REQUIRE(complete_send(s.port(), how));
    }
    void receive(DAT_UINT64 cookie, bool solicited = false)
    {
        must(c.post_recv(s.ep, cookie));
        REQUIRE((solicited ? complete_recv_solicited(s.port()) : complete_recv(s.port())));
    }
    /// A thread that waits once; its answer when `event` has happened while it slept.
    template <class Event>
    wait_answer during_wait(DAT_EVD_HANDLE e, DAT_TIMEOUT timeout, Event event)
    {
        const sleep_of_waiter asleep(e);
        auto waiter = std::async(std::launch::async, [&] { return c.wait(e, timeout); });
        asleep.await();
        event();
        return waiter.get();
    }
    bool is_triggered(DAT_CNO_HANDLE cno)
    {
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        return c.v.cno_wait_func(cno, 0, &by) == DAT_SUCCESS;
    }

    consumer c;
    station s{c};
};

constexpr auto no_flags = DAT_COMPLETION_DEFAULT_FLAG;
constexpr auto unsignalled = DAT_COMPLETION_UNSIGNALLED_FLAG;
constexpr auto solicited = DAT_COMPLETION_SOLICITED_WAIT_FLAG;

} // namespace

TEST_SUITE_BEGIN("notification");

TEST_CASE("an unsignalled completion wakes no waiter, and counts for the next that does")
{
    flagged f(no_flags, no_flags);
    bool early = false;
    const wait_answer got = f.during_wait(f.s.request, late, [&] {
        f.send(1, unsignalled);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        early = !from_handle<evd>(f.s.request)->has_waiter();
        f.send(2);
    });
    CHECK_FALSE(early);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(got.event), 1);
    CHECK_EQ(got.nmore, 1);
}

TEST_CASE("what is there when a wait begins satisfies it, signalled or not")
{
    flagged f(no_flags, unsignalled);
    f.send(1);
    const wait_answer got = f.c.wait(f.s.request, 0);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(got.event), 1);
}

TEST_CASE("a wait that expires delivers an event that did not wake it")
{
    flagged f(no_flags, unsignalled);
    const wait_answer got = f.during_wait(f.s.request, 1'000'000, [&] { f.send(7); });
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(got.event), 7);
    CHECK_EQ(f.c.wait(f.s.request, soon).code, DAT_TIMEOUT_EXPIRED);
}

TEST_CASE("a failure notifies whatever the flags are")
{
    flagged f(unsignalled, unsignalled);
    const wait_answer got = f.during_wait(f.s.request, late, [&] {
        f.send(1);
        f.send(2, unsignalled, DAT_DTO_ERR_FLUSHED);
    });
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(got.event), 1);
    CHECK_EQ(got.nmore, 1);
}

TEST_CASE("a software event wakes a waiter among unsignalled completions")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 64);
    station s(c, e, c.make_evd(DAT_EVD_CONNECTION_FLAG));
    s.connect_by_hand();
    auto waiter = std::async(std::launch::async, [&] { return c.wait(e, late); });
    while (!from_handle<evd>(e)->has_waiter())
        std::this_thread::yield();
    must(c.post_send(s.ep, 1, unsignalled));
    REQUIRE(complete_send(s.port()));
    must(c.post_se(e));
    CHECK_EQ(waiter.get().code, DAT_SUCCESS);
    CHECK_EQ(c.drain(e).size(), 1);
}

TEST_CASE("unsignalled completions trigger no CNO, and are there with the next that does")
{
    flagged f(no_flags, no_flags);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.request, cno));
    for (DAT_UINT64 i = 0; i < 3; ++i) {
        f.send(i, unsignalled);
        CHECK_FALSE(f.is_triggered(cno));
    }
    f.send(3);
    CHECK(f.is_triggered(cno));
    CHECK_EQ(f.c.drain(f.s.request).size(), 4);
    f.send(4, unsignalled);
    CHECK_FALSE(f.is_triggered(cno));
    f.send(5, no_flags);
    CHECK(f.is_triggered(cno));
}

TEST_CASE("a signalled request takes the place of an unsignalled one, and notifies")
{
    flagged f(no_flags, no_flags);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.request, cno));
    for (DAT_UINT64 i = 0; i < 70; ++i) { // more than there are places
        f.send(i, unsignalled);
        CHECK_EQ(f.c.drain(f.s.request).size(), 1);
    }
    CHECK_FALSE(f.is_triggered(cno));
    lab::fail(lab::op::post_send, DAT_INSUFFICIENT_RESOURCES);
    CHECK_NE(f.c.post_send(f.s.ep, 0, unsignalled), DAT_SUCCESS);
    for (DAT_UINT64 i = 0; i < 70; ++i) {
        f.send(i);
        CHECK(f.is_triggered(cno));
        CHECK_EQ(f.c.drain(f.s.request).size(), 1);
    }
}

TEST_CASE("a CNO is triggered for what an EVD held when it joined, signalled or not")
{
    flagged f(no_flags, unsignalled);
    f.send(1);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.request, cno));
    CHECK(f.is_triggered(cno));
}

TEST_CASE("unsignalled completions that came during a wait do not trigger the CNO after it")
{
    flagged f(no_flags, no_flags);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.request, cno));
    const wait_answer got = f.during_wait(f.s.request, 1'000'000, [&] { f.send(1, unsignalled); });
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_FALSE(f.is_triggered(cno));
}

TEST_CASE("solicited receives wake, others do not")
{
    if (!port_features.solicited_wait)
        return;
    for (const auto request : {no_flags, unsignalled}) { // the CQ of receives is a CQ of its own
        flagged f(solicited, request);
        CHECK_EQ(static_cast<int>(from_handle<evd>(f.s.recv)->overrides.arming()),
                 static_cast<int>(dapl::programmable::notify_on::solicited));
        bool early = false;
        const wait_answer got = f.during_wait(f.s.recv, late, [&] {
            f.receive(1);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            early = !from_handle<evd>(f.s.recv)->has_waiter();
            f.receive(2, true);
        });
        CHECK_FALSE(early);
        CHECK_EQ(got.code, DAT_SUCCESS);
        CHECK_EQ(cookie_of(got.event), 1);
        CHECK_EQ(got.nmore, 1);
    }
}

TEST_CASE("solicited receives trigger the CNO, others do not")
{
    if (!port_features.solicited_wait)
        return;
    flagged f(solicited, no_flags);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.recv, cno));
    f.receive(1);
    CHECK_FALSE(f.is_triggered(cno));
    f.receive(2, true);
    CHECK(f.is_triggered(cno));
    CHECK_EQ(f.c.drain(f.s.recv).size(), 2);
}

TEST_CASE("where other completions notify too, the port is asked for all, and those are told apart")
{
    if (!port_features.solicited_wait)
        return;
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    station s(c, e, c.make_evd(DAT_EVD_CONNECTION_FLAG));
    must(set_recv_flags(s, solicited));
    s.connect_by_hand();
    CHECK_EQ(static_cast<int>(from_handle<evd>(e)->overrides.arming()),
             static_cast<int>(dapl::programmable::notify_on::any));
    const sleep_of_waiter asleep(e);
    auto waiter = std::async(std::launch::async, [&] { return c.wait(e, late); });
    asleep.await();
    must(c.post_recv(s.ep, 1));
    REQUIRE(complete_recv(s.port()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(from_handle<evd>(e)->has_waiter());
    must(c.post_send(s.ep, 2));
    REQUIRE(complete_send(s.port()));
    const wait_answer got = waiter.get();
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 1);
}

TEST_CASE("a CQ armed for solicited receives is armed for all when an endpoint joins that wants it")
{
    if (!port_features.solicited_wait)
        return;
    flagged f(solicited, no_flags);
    const DAT_CNO_HANDLE cno = f.c.make_cno();
    must(f.c.v.evd_modify_cno_func(f.s.recv, cno));
    station other(f.c);
    other.recv = f.s.recv;
    const DAT_EP_HANDLE ep = other.make_ep();
    must(f.c.v.ep_free_func(std::exchange(other.ep, ep)));
    other.connect_by_hand();
    must(f.c.post_recv(ep, 9));
    REQUIRE(complete_recv(other.port()));
    CHECK(f.is_triggered(cno));
}

TEST_CASE("a port without solicited events refuses the endpoint attribute")
{
    consumer c;
    station s(c);
    CHECK_EQ(DAT_GET_TYPE(set_recv_flags(s, solicited)),
             port_features.solicited_wait ? DAT_SUCCESS : DAT_MODEL_NOT_SUPPORTED);
}

TEST_CASE("a device without solicited events refuses the endpoint attribute, and its CQs are armed "
          "for all")
{
    device_lacks_solicited = true;
    consumer c;
    device_lacks_solicited = false;
    DAT_PROVIDER_ATTR provider{};
    must(c.v.ia_query_func(c.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &provider));
    CHECK_EQ(provider.completion_flags_supported & solicited, 0);
    CHECK_NE(provider.completion_flags_supported & unsignalled, 0);
    station s(c);
    CHECK_EQ(DAT_GET_TYPE(set_recv_flags(s, solicited)), DAT_MODEL_NOT_SUPPORTED);
    must(set_recv_flags(s, unsignalled));
    CHECK_EQ(static_cast<int>(from_handle<evd>(s.recv)->overrides.arming()),
             static_cast<int>(dapl::programmable::notify_on::any));
}

TEST_CASE("with cq_threshold, a wait for 64 completions sleeps once")
{
    if (!port_features.cq_wait || !port_features.cq_threshold)
        return;
    flagged f(no_flags, no_flags);
    auto waiter = std::async(std::launch::async, [&] { return f.c.wait(f.s.request, late, 64); });
    auto &queue = *f.s.port().send_cq;
    while (queue.sleeps == 0)
        std::this_thread::yield();
    for (DAT_UINT64 i = 0; i < 64; ++i) {
        f.send(i);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const wait_answer got = waiter.get();
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 63);
    CHECK_EQ(queue.sleeps, 1);
}

TEST_CASE("with evd_wait, a wait for events of all streams sleeps once")
{
    if (!port_features.evd_wait)
        return;
    consumer c;
    station s(c, c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 256),
              c.make_evd(DAT_EVD_CONNECTION_FLAG));
    s.connect_by_hand();
    const sleeps_of sleeps(s.request);
    auto waiter = std::async(std::launch::async, [&] { return c.wait(s.request, late, 16); });
    while (sleeps() == 0)
        std::this_thread::yield();
    for (DAT_UINT64 i = 0; i < 8; ++i) {
        must(c.post_se(s.request));
        must(c.post_send(s.ep, i));
        REQUIRE(complete_send(s.port()));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const wait_answer got = waiter.get();
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 15);
    CHECK_EQ(sleeps(), 1);
}

TEST_CASE("with evd_wait, a wait for software events sleeps once where nothing completes")
{
    if (!port_features.evd_wait)
        return;
    consumer c;
    DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 16);
    const sleeps_of sleeps(e);
    for (const DAT_UINT64 round : {1, 2}) { // events taken in the first round do not count in the
                                            // second
        auto waiter = std::async(std::launch::async, [&] { return c.wait(e, late, 4); });
        while (sleeps() != round)
            std::this_thread::yield();
        for (int i = 0; i < 4; ++i) {
            must(c.post_se(e));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CHECK_EQ(waiter.get().nmore, 3);
        CHECK_EQ(sleeps(), round);
        CHECK_EQ(c.drain(e).size(), 3);
    }
}

TEST_CASE("with cq_count, what a wait counts stays in the CQ")
{
    flagged f(no_flags, no_flags);
    for (DAT_UINT64 i = 0; i < 5; ++i)
        f.send(i);
    const wait_answer got = f.c.wait(f.s.request, 0, 3);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 4);
    CHECK_EQ(f.s.port().send_cq->size(), port_features.cq_count ? 4 : 0);
}

TEST_SUITE_END();
