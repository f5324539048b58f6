// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads that are cancelled while they wait, and threads that do not come back.
#include "fixture.hpp"

#include <csignal>
#include <pthread.h>

using namespace test;

namespace {

/// A thread in a wait of the consumer's. It holds no object: it may be cancelled.
class waiting_thread {
public:
    template <class Wait>
    waiting_thread(const Wait &wait, int cancel_type) : type_(cancel_type)
    {
        wait_ = [](void *of) { (*static_cast<const Wait *>(of))(); };
        of_ = const_cast<Wait *>(&wait);
        REQUIRE_EQ(pthread_create(&id_, nullptr, run, this), 0);
    }
    ~waiting_thread()
    {
        if (!joined_)
            pthread_join(id_, nullptr);
    }
    bool cancel()
    {
        void *result = nullptr;
        REQUIRE_EQ(pthread_cancel(id_), 0);
        timespec limit{};
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 20;
        joined_ = pthread_timedjoin_np(id_, &result, &limit) == 0;
        return joined_ && result == PTHREAD_CANCELED;
    }
    void signal(int number) const { REQUIRE_EQ(pthread_kill(id_, number), 0); }

private:
    static void *run(void *self)
    {
        auto *me = static_cast<waiting_thread *>(self);
        pthread_setcanceltype(me->type_, nullptr);
        me->wait_(me->of_);
        return nullptr;
    }

    int type_;
    void (*wait_)(void *) = nullptr;
    void *of_ = nullptr;
    pthread_t id_{};
    bool joined_ = false;
};

void await_sleeping_waiter(DAT_EVD_HANDLE e)
{
    while (!from_handle<evd>(e)->has_waiter())
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void await_cno_waiter(DAT_CNO_HANDLE cno)
{
    while (!from_handle<dapl::programmable::core::cno>(cno)->has_waiters())
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

constexpr int cancel_types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};

} // namespace

TEST_SUITE_BEGIN("cancel");

TEST_CASE("a cancelled waiter leaves its EVD: it can be waited in, emptied and freed")
{
    for (const int type : cancel_types)
        for (const unsigned streams : {unsigned{DAT_EVD_SOFTWARE_FLAG}, merged}) {
            consumer c;
            const DAT_EVD_HANDLE e = c.make_evd(streams);
            const auto wait = [&] { (void)c.wait(e, DAT_TIMEOUT_INFINITE, 3); };
            waiting_thread waiter(wait, type);
            await_sleeping_waiter(e);
            must(c.post_se(e, 1));
            REQUIRE(waiter.cancel());
            CHECK_EQ(c.wait(e, 0).code, DAT_SUCCESS);
            CHECK_EQ(c.wait(e, 1000).code, DAT_TIMEOUT_EXPIRED);
            CHECK_EQ(c.v.evd_free_func(e), DAT_SUCCESS);
        }
}

TEST_CASE("events that a cancelled waiter kept from the CNO trigger it")
{
    for (const unsigned streams : {unsigned{DAT_EVD_SOFTWARE_FLAG}, merged}) {
        consumer c;
        const DAT_CNO_HANDLE cno = c.make_cno();
        const DAT_EVD_HANDLE e = c.make_evd(streams, 16, cno);
        const auto wait = [&] { (void)c.wait(e, DAT_TIMEOUT_INFINITE, 3); };
        waiting_thread waiter(wait, PTHREAD_CANCEL_DEFERRED);
        await_sleeping_waiter(e);
        must(c.post_se(e));
        REQUIRE(waiter.cancel());
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        CHECK_EQ(c.v.cno_wait_func(cno, 0, &by), DAT_SUCCESS);
        CHECK_EQ(by, e);
    }
}

TEST_CASE("a cancelled waiter leaves its CNO, and other waiters their triggers")
{
    for (const int type : cancel_types) {
        consumer c;
        const DAT_CNO_HANDLE cno = c.make_cno();
        const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        const auto wait = [&] {
            DAT_EVD_HANDLE told = DAT_HANDLE_NULL;
            (void)c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &told);
        };
        std::atomic<int> woken{0};
        waiting_thread first(wait, type);
        await_cno_waiter(cno);
        std::thread second([&] {
            DAT_EVD_HANDLE told = DAT_HANDLE_NULL;
            woken += c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &told) == DAT_SUCCESS;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        REQUIRE(first.cancel());
        must(c.post_se(e));
        second.join();
        CHECK_EQ(woken, 1);
        CHECK_EQ(c.v.cno_wait_func(cno, 0, &by), DAT_QUEUE_EMPTY);
        must(c.v.evd_free_func(e));
        CHECK_EQ(c.v.cno_free_func(cno), DAT_SUCCESS);
    }
}

TEST_CASE("a cancellation races with a trigger: one of the two waiters returns the EVD")
{
    consumer c;
    const DAT_CNO_HANDLE cno = c.make_cno();
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);
    int lost = 0;
    for (int round = 0; round < rounds(300); ++round) {
        std::atomic<int> told{0};
        const auto wait = [&] {
            DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
            told += c.v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by) == DAT_SUCCESS;
        };
        waiting_thread first(wait, PTHREAD_CANCEL_DEFERRED);
        while (!from_handle<dapl::programmable::core::cno>(cno)->has_waiters())
            std::this_thread::yield();
        std::thread second([&] {
            DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
            told += c.v.cno_wait_func(cno, 5'000'000, &by) == DAT_SUCCESS;
        });
        std::thread poster([&] { (void)c.post_se(e); });
        (void)first.cancel();
        poster.join();
        if (told != 0) // the first was faster: something for the second
            must(c.post_se(e));
        second.join();
        lost += told == 0;
        (void)c.drain(e);
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        while (c.v.cno_wait_func(cno, 0, &by) == DAT_SUCCESS) {
        }
    }
    CHECK_EQ(lost, 0);
}

TEST_CASE("a wait with cancellation disabled is not cancelled")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
    std::atomic<int> code{-1};
    const auto wait = [&] {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
        code = static_cast<int>(c.wait(e, 100'000).code);
    };
    waiting_thread waiter(wait, PTHREAD_CANCEL_DEFERRED);
    await_sleeping_waiter(e);
    CHECK_FALSE(waiter.cancel());
    CHECK_EQ(code, DAT_TIMEOUT_EXPIRED);
}

namespace {

std::atomic<bool> handler_entered{false};
std::atomic<bool> handler_may_return{false};

void stay_in_handler(int)
{
    handler_entered = true;
    while (!handler_may_return)
        std::this_thread::yield();
}

} // namespace

TEST_CASE("an abrupt close does not wait for ever for a waiter that is held up in a signal handler")
{
    struct sigaction action {};
    action.sa_handler = stay_in_handler;
    REQUIRE_EQ(sigaction(SIGUSR2, &action, nullptr), 0);
    for (const bool in_cno : {false, true}) {
        handler_entered = handler_may_return = false;
        const DAT_PROVIDER &v = provider(line::nonthreadsafe);
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE e = DAT_HANDLE_NULL;
        must(v.ia_open_func(const_cast<char *>(v.device_name), 8, &async, &ia));
        must(v.cno_create_func(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
        must(v.evd_create_func(ia, 8, cno, flags(merged), &e));
        std::atomic<DAT_RETURN> code{DAT_SUCCESS};
        const auto wait = [&] {
            DAT_EVENT event;
            DAT_COUNT more = 0;
            DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
            code = in_cno ? v.cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &by)
                          : v.evd_wait_func(e, DAT_TIMEOUT_INFINITE, 1, &event, &more);
        };
        waiting_thread waiter(wait, PTHREAD_CANCEL_DEFERRED);
        in_cno ? await_cno_waiter(cno) : await_sleeping_waiter(e);
        waiter.signal(SIGUSR2);
        while (!handler_entered)
            std::this_thread::yield();
        const bool closed =
            finishes([&] { CHECK_EQ(v.ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS); });
        CHECK(closed);
        handler_may_return = true; // the code it returns to is still there
        REQUIRE(finishes([&] {
            while (code == DAT_SUCCESS)
                std::this_thread::yield();
        }));
        CHECK_EQ(DAT_GET_TYPE(code.load()),
                 in_cno
                     ? DAT_INVALID_STATE
                     : (DAT_GET_TYPE(code.load()) == DAT_ABORT ? DAT_ABORT : DAT_INTERRUPTED_CALL));
    }
}

TEST_SUITE_END();
