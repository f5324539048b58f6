// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads that are cancelled while they wait, and not elsewhere.
#include "osd_cancellation.hpp"
#include "osd_sync.hpp"
#include "osd_thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <unistd.h>

namespace {

/// A thread whose end tells whether it was cancelled.
class cancelled_thread {
public:
    cancelled_thread(void *(*body)(void *), void *argument)
    {
        REQUIRE(pthread_create(&id_, nullptr, body, argument) == 0);
    }
    void cancel() const { REQUIRE(pthread_cancel(id_) == 0); }
    void signal(int number) const { REQUIRE(pthread_kill(id_, number) == 0); }
    /// Returns true when it was cancelled, or ended with pthread_exit(PTHREAD_CANCELED).
    bool join() const
    {
        void *result = nullptr;
        REQUIRE(pthread_join(id_, &result) == 0);
        return result == PTHREAD_CANCELED;
    }

private:
    pthread_t id_{};
};

struct waiting {
    int type = PTHREAD_CANCEL_DEFERRED;
    int state = PTHREAD_CANCEL_ENABLE;
    osd::wait_object object;
    std::atomic<bool> begun{false};
    std::atomic<int> undone{0};
};

void *wait_cancellably(void *argument)
{
    auto &w = *static_cast<waiting *>(argument);
    pthread_setcancelstate(w.state, nullptr);
    pthread_setcanceltype(w.type, nullptr);
    const osd::cancellable_wait held;
    osd::undo_if_cancelled(
        [&w] {
            w.begun = true;
            (void)w.object.wait(osd::deadline::after_us(300'000));
        },
        [&w] { ++w.undone; });
    return nullptr;
}

void await(const std::atomic<bool> &flag)
{
    while (!flag)
        osd::yield();
    usleep(20'000);
}

} // namespace

TEST_SUITE_BEGIN("cancellation");

TEST_CASE("a thread that sleeps in a wait is cancelled, and its undo runs once")
{
    for (const int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS}) {
        waiting w;
        w.type = type;
        const cancelled_thread t(wait_cancellably, &w);
        await(w.begun);
        t.cancel();
        CHECK(t.join());
        CHECK(w.undone == 1);
        w.object.wake(); // the object is as before the wait
        CHECK(w.object.wait(osd::deadline::passed()) == osd::wait_result::woken);
        CHECK(w.object.wait(osd::deadline::passed()) == osd::wait_result::timed_out);
    }
}

TEST_CASE("a thread that is to be cancelled before it sleeps does not sleep")
{
    waiting w;
    w.type = PTHREAD_CANCEL_DEFERRED;
    const cancelled_thread t(
        [](void *argument) -> void * {
            pthread_cancel(pthread_self());
            return wait_cancellably(argument);
        },
        &w);
    CHECK(t.join());
    CHECK(w.undone == 1);
}

TEST_CASE("who has cancellation disabled waits to the end")
{
    waiting w;
    w.state = PTHREAD_CANCEL_DISABLE;
    const cancelled_thread t(wait_cancellably, &w);
    await(w.begun);
    t.cancel();
    CHECK_FALSE(t.join());
    CHECK(w.undone == 0);
}

TEST_CASE("a thread that leaves by pthread_exit in a signal handler is undone as well")
{
    struct sigaction action {};
    action.sa_handler = [](int) { pthread_exit(nullptr); };
    REQUIRE(sigaction(SIGUSR2, &action, nullptr) == 0);
    for (const int state : {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE}) {
        waiting w;
        w.state = state;
        const cancelled_thread t(wait_cancellably, &w);
        await(w.begun);
        t.signal(SIGUSR2);
        CHECK_FALSE(t.join());
        CHECK(w.undone == 1);
    }
}

TEST_CASE("a condition gives the mutex back to who is cancelled, and the others go on")
{
    struct both {
        osd::mutex lock;
        osd::condition changed;
        std::atomic<bool> begun{false};
        bool go = false;
        int left = 0;
    } b;
    const auto body = [](void *argument) -> void * {
        auto &mine = *static_cast<both *>(argument);
        const osd::cancellable_wait held;
        osd::undo_if_cancelled(
            [&mine] {
                mine.lock.lock();
                mine.begun = true;
                while (!mine.go)
                    (void)mine.changed.wait(mine.lock, osd::deadline::never());
                mine.lock.unlock();
            },
            [&mine]() OSD_UNCHECKED {
                ++mine.left;
                mine.lock.unlock();
            });
        return nullptr;
    };
    const cancelled_thread one(body, &b);
    const cancelled_thread two(body, &b);
    await(b.begun);
    one.cancel();
    CHECK(one.join());
    b.lock.lock();
    CHECK(b.left == 1);
    b.go = true;
    b.changed.broadcast();
    b.lock.unlock();
    CHECK_FALSE(two.join());
}

TEST_CASE("a call that holds cancellation back is cancelled behind its end")
{
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
    struct flags {
        std::atomic<bool> &begun;
        std::atomic<bool> &ended;
    } both{begun, ended};
    const cancelled_thread t(
        [](void *argument) -> void * {
            auto &mine = *static_cast<flags *>(argument);
            {
                const osd::cancellation_hold held;
                mine.begun = true;
                usleep(100'000); // a cancellation point
                mine.ended = true;
            }
            pause();
            return nullptr;
        },
        &both);
    await(begun);
    t.cancel();
    CHECK(t.join());
    CHECK(ended);
}

TEST_SUITE_END();
