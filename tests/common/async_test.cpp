// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The EVD of asynchronous errors: shared, overflowing, closing.
#include "fixture.hpp"

using namespace test;

namespace {

/// Two adapters, the second on the async EVD of the first.
struct pair {
    pair() : v(provider(line::nonthreadsafe))
    {
        lab::reset();
        char name[] = "programmable-lo";
        must(v.ia_open_func(name, 8, &shared, &first));
        const DAT_EVD_HANDLE before = shared;
        must(v.ia_open_func(name, 0, &shared, &second));
        CHECK_EQ(shared, before);
    }
    bool close(DAT_IA_HANDLE ia)
    {
        return finishes(
            [vector = &v, ia] { (void)vector->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG); });
    }
    DAT_EVD_HANDLE async_of(DAT_IA_HANDLE ia)
    {
        DAT_EVD_HANDLE evd = shared;
        must(v.ia_query_func(ia, &evd, 0, nullptr, 0, nullptr));
        return evd;
    }

    const DAT_PROVIDER &v;
    DAT_EVD_HANDLE shared = DAT_HANDLE_NULL;
    DAT_IA_HANDLE first = DAT_HANDLE_NULL, second = DAT_HANDLE_NULL;
};

void fail_hca(DAT_IA_HANDLE ia)
{
    REQUIRE(fire_hca_error(from_handle<adapter>(ia)->hca));
}

} // namespace

TEST_SUITE_BEGIN("async");

TEST_CASE("the event of a failed HCA carries the consumer's handle of the adapter")
{
    consumer c;
    fail_hca(c.ia);
    DAT_EVENT event;
    must(c.dequeue(c.async, event));
    CHECK_EQ(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    CHECK_EQ(event.event_data.asynch_error_event_data.dat_handle, c.ia);
    CHECK_EQ(event.evd_handle, c.async);
}

TEST_CASE("an async EVD that overflows keeps what it has, and nothing hangs")
{
    consumer c(line::nonthreadsafe, 2);
    REQUIRE(finishes([&] {
        for (int i = 0; i < 50; ++i)
            fire_hca_error(from_handle<adapter>(c.ia)->hca);
    }));
    CHECK_EQ(c.drain(c.async).size(), 2);
    fail_hca(c.ia);
    CHECK_EQ(c.drain(c.async).size(), 1);
}

TEST_CASE("an async event wakes a waiter")
{
    consumer c;
    auto waiter =
        std::async(std::launch::async, [&] { return c.wait(c.async, DAT_TIMEOUT_INFINITE).code; });
    while (!from_handle<evd>(c.async)->has_waiter())
        std::this_thread::yield();
    fail_hca(c.ia);
    CHECK_EQ(waiter.get(), DAT_SUCCESS);
}

TEST_CASE("a handle that is no async EVD cannot be shared")
{
    consumer c;
    char name[] = "programmable-lo";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE wrong = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
    CHECK_EQ(c.v.ia_open_func(name, 8, &wrong, &ia),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_ASYNC));
}

TEST_CASE("the async EVD of another HCA cannot be shared")
{
    consumer c;
    from_handle<adapter>(c.ia)->attr.hca_name = "another";
    char name[] = "programmable-lo";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE of_another = c.async;
    const int open = lab::live_objects;
    CHECK_EQ(c.v.ia_open_func(name, 8, &of_another, &ia),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_ASYNC));
    CHECK_EQ(of_another, c.async);
    CHECK_EQ(ia, DAT_HANDLE_NULL);
    CHECK_EQ(lab::live_objects.load(), open);
}

TEST_CASE("a shared async EVD: the one that shares closes first")
{
    pair p;
    fail_hca(p.first);
    fail_hca(p.second);
    REQUIRE(p.close(p.second));
    DAT_EVENT event;
    must(p.v.evd_dequeue_func(p.shared, &event));
    CHECK_EQ(event.event_data.asynch_error_event_data.dat_handle, p.first);
    must(p.v.evd_dequeue_func(p.shared, &event));
    CHECK_EQ(event.event_data.asynch_error_event_data.dat_handle, p.second);
    fail_hca(p.first);
    must(p.v.evd_dequeue_func(p.shared, &event));
    REQUIRE(p.close(p.first));
    CHECK_EQ(lab::live_objects.load(), 0);
}

TEST_CASE("a shared async EVD: the owner closes first, the other goes on without")
{
    pair p;
    CHECK_EQ(p.async_of(p.second), p.shared);
    REQUIRE_MESSAGE(p.close(p.first), "the owner's close hangs");
    CHECK_EQ(p.async_of(p.second), DAT_HANDLE_NULL);
    fail_hca(p.second); // it has no async EVD any more
    REQUIRE(p.close(p.second));
    CHECK_EQ(lab::live_objects.load(), 0);
}

TEST_CASE("async events of one adapter while the other, whose EVD it is, closes")
{
    for (int i = 0; i < rounds(200); ++i) {
        auto *p = new pair;
        std::atomic<bool> stop{false};
        std::thread device([&] {
            while (!stop)
                fire_hca_error(from_handle<adapter>(p->second)->hca);
        });
        const bool closed = p->close(p->first);
        stop = true;
        device.join();
        REQUIRE_MESSAGE(closed, "the owner's close hangs");
        REQUIRE(p->close(p->second));
        delete p;
    }
}

TEST_SUITE_END();
