// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Closing an adapter: gracefully only when it is empty, abruptly whatever goes on.
#include "fixture.hpp"

using namespace test;

TEST_SUITE_BEGIN("close");

TEST_CASE("a graceful close is refused while objects are left, and changes nothing")
{
    consumer c;
    station s(c);
    const DAT_RETURN in_use = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), in_use);
    s.connect_by_hand();
    must(c.post_send(s.ep));
    must(c.v.ep_free_func(s.ep));
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), in_use);
    for (const DAT_EVD_HANDLE e : {s.recv, s.request, s.connections})
        must(c.v.evd_free_func(e));
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), in_use);
    must(c.v.pz_free_func(s.pz));
    CHECK_EQ(c.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST_CASE("an unknown close flag is INVALID_PARAMETER/ARG2")
{
    consumer c;
    CHECK_EQ(c.close(static_cast<DAT_CLOSE_FLAGS>(17)),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

TEST_CASE("an abrupt close takes everything down, in an order that the port can bear")
{
    consumer c;
    lab::loopback = true;
    station a(c), b(c), spare(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG, 8, c.make_cno());
    c.make_psp(5, requests, DAT_PSP_PROVIDER_FLAG);
    c.make_psp(6, requests);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    must(c.v.rsp_create_func(c.ia, 7, spare.ep, requests, &rsp));
    must(c.connect(a.ep, 6, 10'000'000));
    DAT_EVENT event;
    must(c.dequeue(requests, event));
    must(c.v.cr_accept_func(event.event_data.cr_arrival_event_data.cr_handle, b.ep, 0, nullptr));
    for (int i = 0; i < 4; ++i) {
        must(c.post_recv(b.ep));
        must(c.post_send(a.ep));
    }
    CHECK(arrive(5));
    CHECK(arrive(6));
    CHECK(arrive(7));
    CHECK_EQ(c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

TEST_CASE("an abrupt close sends a waiter home with ABORT and a CNO waiter with CNO_DEAD")
{
    for (int i = 0; i < rounds(300); ++i) {
        consumer c;
        const DAT_EVD_HANDLE evds[] = {c.make_evd(DAT_EVD_SOFTWARE_FLAG),
                                       c.make_evd(DAT_EVD_DTO_FLAG, 4, c.make_cno())};
        const DAT_CNO_HANDLE cnos[] = {c.make_cno(), c.make_cno()};
        DAT_RETURN codes[4];
        std::vector<std::thread> waiters;
        for (const DAT_EVD_HANDLE e : evds) {
            DAT_RETURN &code = codes[waiters.size()];
            waiters.emplace_back([&c, &code, e] { code = c.wait(e, DAT_TIMEOUT_INFINITE).code; });
            while (!from_handle<evd>(e)->has_waiter())
                std::this_thread::yield();
        }
        for (const DAT_CNO_HANDLE cno : cnos) {
            DAT_RETURN &code = codes[waiters.size()];
            waiters.emplace_back([&c, &code, cno] {
                DAT_EVD_HANDLE by;
                code = c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by);
            });
            while (!from_handle<dapl::programmable::core::cno>(cno)->has_waiters())
                std::this_thread::yield();
        }
        CHECK_EQ(c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        for (std::thread &t : waiters)
            t.join();
        for (const int i : {0, 1})
            CHECK_EQ(codes[i], error_code(DAT_ABORT));
        for (const int i : {2, 3})
            CHECK_EQ(codes[i], error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD));
    }
}

TEST_CASE("an abrupt close sends every waiter of one CNO home")
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    std::atomic<int> begun{0};
    std::atomic<int> dead{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i)
        waiters.emplace_back([&] {
            DAT_EVD_HANDLE by;
            ++begun;
            dead += c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by) ==
                    error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
        });
    while (begun < 4)
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // all of them asleep
    CHECK_EQ(c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    for (std::thread &t : waiters)
        t.join();
    CHECK_EQ(dead.load(), 4);
}

TEST_CASE("an abrupt close while completions, connection events and requests fly")
{
    for (int i = 0; i < rounds(200); ++i) {
        consumer c;
        const DAT_CNO_HANDLE cno = c.make_cno();
        const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG, 4, cno);
        c.make_psp(5, requests, DAT_PSP_PROVIDER_FLAG);
        station s(c, c.make_evd(DAT_EVD_DTO_FLAG, 4, cno),
                  c.make_evd(DAT_EVD_CONNECTION_FLAG, 4, cno));
        must(c.connect(s.ep, 1, 500));
        qp &port = s.port();
        evd &dto = *from_handle<evd>(s.recv);
        const auto port_door = port.door; // outlives its queue pair
        const auto dto_door = dto.cq()->door;
        std::atomic<int> started{0};
        std::atomic<bool> stop{false};
        std::thread requests_fly([&] {
            for (++started; !stop;)
                (void)arrive(5);
        });
        std::thread events_fly([&] {
            fire(port, DAT_CONNECTION_EVENT_ESTABLISHED);
            for (++started; port_door->enter(); port_door->leave())
                dapl_evd_connection_callback(*port.owner, DAT_CONNECTION_EVENT_DISCONNECTED, {});
        });
        std::thread completions_fly([&] {
            for (++started; dto_door->enter(); dto_door->leave())
                dapl_evd_dto_callback(dto);
        });
        while (started < 3)
            std::this_thread::yield();
        if (i % 4 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stop = i % 2 == 0;
        std::thread stopper([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            stop = true;
        });
        CHECK_EQ(c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        requests_fly.join();
        events_fly.join();
        completions_fly.join();
        stopper.join();
    }
}

TEST_CASE("an abrupt close while connect timeouts expire")
{
    for (int i = 0; i < rounds(200); ++i) {
        consumer c;
        station s(c);
        std::vector<DAT_EP_HANDLE> eps{s.ep};
        for (int n = 0; n < 8; ++n)
            eps.push_back(s.make_ep());
        for (std::size_t n = 0; n < eps.size(); ++n)
            must(c.connect(eps[n], 1, static_cast<DAT_TIMEOUT>(100 + 40 * n)));
        const std::int64_t until = osd::now_ns() + i % 10 * 40'000;
        while (osd::now_ns() < until) {
        }
        CHECK_EQ(c.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    }
}

TEST_CASE("an adapter opens and closes any number of times, beside others")
{
    consumer stays;
    const DAT_PROVIDER &v = stays.v;
    for (int i = 0; i < 100; ++i) {
        char name[] = "programmable-lo";
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        must(v.ia_open_func(name, 8, &async, &ia));
        must(v.ia_close_func(ia, i % 2 == 0 ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG));
    }
}

TEST_SUITE_END();
