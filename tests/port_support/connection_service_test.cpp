// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection_service.hpp"

#include "eventually.hpp"
#include "one_upcall.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <thread>

namespace dapl::DAPL_TRANSPORT {

void dapl_evd_connection_callback(endpoint &ep, DAT_EVENT_NUMBER event, const private_data &data)
{
    ep.inside = true;
    while (ep.hold.load())
        std::this_thread::yield();
    ep.data.assign(static_cast<const char *>(data.bytes), data.size);
    ep.last = event;
    ++ep.events;
    ep.inside = false;
}

} // namespace dapl::DAPL_TRANSPORT

using namespace dapl::DAPL_TRANSPORT;

namespace {

struct first_base {
    int other = 0;
};
struct test_qp : first_base, connection_state {};

struct test_hca : connection_service {
    test_hca()
    {
        std::strcpy(name, "test");
        REQUIRE(events.open());
        REQUIRE(events.start("test", &run, this));
    }
    ~test_hca() { events.stop(lock); }

    static void run(void *self) { static_cast<test_hca *>(self)->loop(); }
    void loop()
    {
        osd::lock_guard hold(lock);
        while (!events.is_stopping(lock)) {
            (void)events.wait(lock, timers.next_due());
            while (connection_state *due = timers.pop_due(osd::now_ns()))
                (void)deliver_pending(*due);
        }
    }
};

constexpr int rejected = DAT_CONNECTION_EVENT_NON_PEER_REJECTED;

} // namespace

TEST_SUITE("connection_service")
{
    TEST_CASE("an event that is owed is delivered by the service thread, once")
    {
        test_hca hca;
        endpoint ep;
        test_qp q;
        q.owner = &ep;
        {
            osd::lock_guard hold(hca.lock);
            hca.deliver_soon(q, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, {"lost", 4});
            CHECK(ep.events == 0);
        }
        CHECK(eventually([&] { return ep.events == 1; }));
        CHECK(ep.last == rejected);
        CHECK(ep.data.empty());
        osd::lock_guard hold(hca.lock);
        CHECK_FALSE(hca.deliver_pending(q));
    }

    TEST_CASE("an event comes with its data")
    {
        test_hca hca;
        endpoint ep;
        test_qp q;
        q.owner = &ep;
        osd::lock_guard hold(hca.lock);
        hca.deliver(q, DAT_CONNECTION_EVENT_ESTABLISHED, {"hello", 5});
        CHECK(ep.events == 1);
        CHECK(ep.data == "hello");
    }

    TEST_CASE("an event that is no longer owed does not come")
    {
        test_hca hca;
        endpoint ep;
        test_qp q;
        q.owner = &ep;
        {
            osd::lock_guard hold(hca.lock);
            hca.deliver_later(q, DAT_CONNECTION_EVENT_BROKEN);
            q.forget_attempt();
            hca.wait_quiet(&q);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(ep.events == 0);
    }

    TEST_CASE("a fence waits for the upcall of its queue pair, whatever its other bases")
    {
        test_hca hca;
        endpoint ep;
        ep.hold = true;
        test_qp q;
        q.owner = &ep;
        {
            osd::lock_guard hold(hca.lock);
            hca.deliver_later(q, DAT_CONNECTION_EVENT_BROKEN);
        }
        REQUIRE(eventually([&] { return ep.inside.load(); }));
        std::thread release([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            ep.hold = false;
        });
        {
            osd::lock_guard hold(hca.lock);
            q.forget_attempt();
            hca.wait_quiet(&q);
        }
        CHECK(ep.events == 1);
        release.join();
    }

    TEST_CASE("phases")
    {
        connection_state q;
        CHECK(q.phase() == connection_phase::idle);
        CHECK_FALSE(q.is_established());
        q.enter(connection_phase::closing);
        CHECK(q.is_established());
        q.enter(connection_phase::dead);
        CHECK_FALSE(q.is_established());
    }
}

namespace {

connect_attempt::limits up_to(std::uint32_t retry_ms)
{
    return {AF_INET, 240, retry_ms};
}

std::unique_ptr<connect_attempt> attempt_of(const connect_params &params, std::uint32_t retry_ms)
{
    std::unique_ptr<connect_attempt> made;
    REQUIRE(connect_attempt::make(params, up_to(retry_ms), made).ok());
    return made;
}

} // namespace

TEST_SUITE("connect_attempt")
{
    TEST_CASE("it is not made of what the adapter cannot send")
    {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        auto *const address = reinterpret_cast<DAT_SOCK_ADDR *>(&to);
        std::unique_ptr<connect_attempt> made;
        const auto make = [&](const connect_params &params) {
            return connect_attempt::make(params, up_to(0), made);
        };
        const char data[241] = {};
        CHECK(make({address, 0x1'0000, 0, {}}) == invalid_parameter(3));
        CHECK(make({address, 1, 0, {data, 241}}) == invalid_parameter(5));
        CHECK(made == nullptr);
        CHECK(make({address, 1, 0, {data, 240}}).ok());
        to.sin_family = AF_INET6;
        CHECK(make({address, 1, 0, {}}).type() == DAT_INVALID_ADDRESS);
    }

    TEST_CASE("it keeps what a request needs, and names the port by the low bits")
    {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connect_params params{
            reinterpret_cast<DAT_SOCK_ADDR *>(&to), 0x1234'5678, 1'000'000, {"data", 4}};
        const auto attempt = attempt_of(params, 2000);
        REQUIRE(attempt != nullptr);
        const auto *peer = reinterpret_cast<const sockaddr_in *>(attempt->peer());
        CHECK(ntohs(peer->sin_port) == 0x5678);
        CHECK(peer->sin_addr.s_addr == to.sin_addr.s_addr);
        CHECK(attempt->qualifier() == 0x1234'5678);
        CHECK(attempt->data().size == 4);
        CHECK(std::memcmp(attempt->data().bytes, "data", 4) == 0);
    }

    TEST_CASE("it backs off, and gives up at the earlier of the two limits")
    {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        connect_params params{reinterpret_cast<DAT_SOCK_ADDR *>(&to), 1, DAT_TIMEOUT_INFINITE, {}};
        const auto patient = attempt_of(params, 60'000);
        std::int64_t last = 0;
        for (int i = 0; i < 8; ++i) {
            const std::int64_t next = patient->next_try() - osd::now_ns();
            CHECK(next + 1'000'000 > last);
            CHECK(next <= 100'000'000);
            last = next;
        }
        CHECK(last > 90'000'000);
        const auto hasty = attempt_of(params, 0);
        CHECK(hasty->next_try() == connect_attempt::never);
        params.timeout_us = 1000;
        CHECK(attempt_of(params, 60'000)->next_try() == connect_attempt::never);
    }

    TEST_CASE("one that was put off is repeated as long as the caller waits, with longer pauses")
    {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        const connect_params params{reinterpret_cast<DAT_SOCK_ADDR *>(&to), 1, 1000, {}};
        const auto attempt = attempt_of(params, 0);
        std::int64_t next = 0;
        for (int i = 0; i < 10; ++i)
            next = attempt->next_try_later() - osd::now_ns();
        CHECK(next > 400'000'000);
        CHECK(next <= 500'000'000);
        CHECK(attempt->next_try() == connect_attempt::never);
    }
}
