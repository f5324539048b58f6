// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress_watch.hpp"

#include "eventually.hpp"
#include "osd_cancellation.hpp"
#include "until_signalled.hpp"

#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

using namespace dapl::DAPL_TRANSPORT;
using ms = std::chrono::milliseconds;

namespace {

/// Data for any of several CQs.
struct shared_data {
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::atomic<int> moved{0};

    ~shared_data() { close(fd); }
    void arrive() const { eventfd_write(fd, 1); }
    void move()
    {
        eventfd_t value;
        if (eventfd_read(fd, &value) == 0)
            ++moved;
    }
    bool is_readable() const
    {
        pollfd look{fd, POLLIN, 0};
        return poll(&look, 1, 0) == 1;
    }
};

/// A CQ whose traffic arrives at a descriptor, and completes when progress is made.
struct counting_cq final : progress_target {
    std::atomic<int> progressed{0};
    std::atomic<int> completions{0}; ///< completions not yet polled
    std::atomic<int> signals{0};
    std::atomic<int> callbacks{0};
    std::atomic<std::thread::id> caller{}; ///< thread that made the last callback
    std::atomic<std::thread::id> served_by{};
    std::atomic<int> served{0}; ///< completions that this thread made
    std::atomic<bool> takes_long{false};
    std::atomic<bool> blocks{false};   ///< blocks visits as long as it is set
    std::atomic<int> inside{0};        ///< threads that visit it
    std::atomic<bool> overlaps{false}; ///< they were several
    std::atomic<shared_data *> shared{nullptr};
    std::atomic<int> aside{0}; ///< completions that put_aside() took
    std::atomic<bool> polled{false};
    std::atomic<bool> always_polled{false};
    std::atomic<bool> stuck{false};        ///< something is there, and stays there
    std::atomic<bool> known_to_move{true}; ///< something else moves meanwhile

    counting_cq() { wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
    ~counting_cq() { close(wait_fd); }

    std::atomic<int> ahead{0};  ///< messages in the socket that reset_signal() takes from there
    std::atomic<int> staged{0}; ///< messages taken from the socket already
    std::atomic<int> receives{1 << 30};
    std::atomic<bool> deferred{false}; ///< a completion that only the port knows of
    /// What other threads do while reset_signal() runs, once.
    std::atomic<const std::function<void()> *> at_reset{nullptr};

    void arrive() const { eventfd_write(wait_fd, 1); }
    /// The consumer polls.
    void take()
    {
        move();
        completions = 0;
    }
    /// The consumer posts a receive, as a port does it.
    void post_receive()
    {
        ++receives;
        if (sleepers != 0)
            (void)progress();
    }
    /// A request of the consumer completes, and it polls a moment later.
    void complete_own()
    {
        arrive();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        take();
    }

private:
    void move()
    {
        eventfd_t value;
        if (!stuck && eventfd_read(wait_fd, &value) == 0) {
            ++completions;
            served += served_by.load() == std::this_thread::get_id() ? 1 : 0;
        }
        while (staged > 0 && receives > 0) {
            --staged;
            --receives;
            ++completions;
        }
    }
    bool progress() override
    {
        ++progressed;
        overlaps = overlaps || inside.fetch_add(1) != 0;
        if (takes_long)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        while (blocks)
            std::this_thread::yield();
        move();
        if (shared_data *all = shared)
            all->move();
        --inside;
        return completions != 0;
    }
    bool has_completion_now() override { return progress() || deferred; }
    bool reset_signal() override
    {
        if (const auto *meanwhile = at_reset.exchange(nullptr))
            (*meanwhile)();
        const bool quiet = completions == 0 && staged == 0;
        staged += ahead.exchange(0);
        return quiet;
    }
    void signal() override { ++signals; }
    bool take_polled() override { return polled.exchange(false) || always_polled.load(); }
    void call_back() override
    {
        caller = std::this_thread::get_id();
        ++callbacks;
    }
    void put_aside() override { aside += completions.exchange(0); }
    std::uint64_t moved_so_far() override
    {
        return known_to_move ? static_cast<std::uint64_t>(progressed) : 0;
    }
};

struct progress_rig : connection_service {
    progress_watch watch;
    std::atomic<int> wakeups{0}; ///< wake-ups of the service thread

    explicit progress_rig(int shared_fd = -1)
    {
        std::strcpy(name, "test");
        REQUIRE(events.open());
        REQUIRE(watch.open(*this, true, shared_fd));
        REQUIRE(events.start("test", &run, this));
    }
    ~progress_rig()
    {
        events.stop(lock);
        watch.close();
    }

    static void run(void *self) { static_cast<progress_rig *>(self)->loop(); }
    void loop()
    {
        osd::lock_guard hold(lock);
        while (!events.is_stopping(lock)) {
            (void)watch.answer_calls(*this);
            for (void *tag : events.wait(lock, watch.visit_due(*this)))
                watch.set_ready(*this, tag);
            ++wakeups;
        }
    }
    osd::wait_result wait_for_callback(DAT_TIMEOUT us)
    {
        return watch.wait_for_callback(*this, osd::deadline::after_us(us));
    }
};

constexpr int many = 50;
constexpr DAT_TIMEOUT patience_us = 5'000'000;

/// A machine that is busy may take many milliseconds between two waits, and the thread comes
/// then.
template <class Rounds>
bool leave_the_thread_asleep(progress_rig &rig, Rounds rounds, int fewer_than = many / 2)
{
    for (int attempt = 0; attempt < 10; ++attempt) {
        const int before = rig.wakeups;
        rounds();
        if (rig.wakeups - before < fewer_than)
            return true;
    }
    return false;
}

/// Whether a counter stays as it is for a while, at last.
template <class Counter>
bool comes_to_rest(Counter counter)
{
    return eventually([&] {
        const int before = counter();
        std::this_thread::sleep_for(ms(50));
        return counter() == before;
    });
}

/// A CQ at which a queue pair receives.
struct watched_cq {
    progress_rig &rig;
    counting_cq cq;

    explicit watched_cq(progress_rig &r, bool always_polled = false) : rig(r)
    {
        cq.always_polled = always_polled; // the thread visits an added target at once
        osd::lock_guard hold(rig.lock);
        REQUIRE(rig.watch.add(rig, cq));
        rig.watch.add_receiver(rig, cq, cq);
    }
    ~watched_cq()
    {
        osd::lock_guard hold(rig.lock);
        rig.watch.remove_receiver(rig, cq);
        rig.watch.remove(rig, cq);
    }
};

} // namespace

TEST_SUITE("progress_watch")
{
    TEST_CASE("what arrives is moved while the consumer is away, and then the thread sleeps")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const int before = watched.cq.progressed;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(watched.cq.progressed == before);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.completions == 2; }));
    }

    TEST_CASE("completions that nobody takes are put aside, and then the thread sleeps")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.puts_aside = true;
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.aside == 1; }));
        CHECK(comes_to_rest([&] { return watched.cq.progressed.load(); }));
    }

    TEST_CASE("what the device has taken from a socket is moved once there is a receive for it")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.puts_aside = true;
        watched.cq.receives = 0;
        SUBCASE("")
        {
            watched.cq.staged = 2;
        }
        SUBCASE("also if it was taken by the last look")
        {
            watched.cq.ahead = 2;
        }
        SUBCASE("also behind completions that nobody takes")
        {
            watched.cq.completions = 1;
            watched.cq.staged = 2;
        }
        const int before = watched.cq.completions;
        watched.cq.arrive(); // the last that the descriptor tells
        CHECK(eventually([&] { return watched.cq.aside == before + 1; }));
        CHECK(comes_to_rest([&] { return watched.cq.progressed.load(); }));
        watched.cq.post_receive();
        CHECK(eventually([&] { return watched.cq.staged == 1; }));
        watched.cq.post_receive();
        CHECK(eventually([&] { return watched.cq.staged == 0; }));
        CHECK(comes_to_rest([&] { return watched.cq.progressed.load(); }));
    }

    TEST_CASE("a busy consumer makes no progress with its receives")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
        CHECK(comes_to_rest([&] { return watched.cq.progressed.load(); }));
        CHECK(watched.cq.sleepers != 0);
        watched.cq.always_polled = true;
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.sleepers == 0; }));
    }

    TEST_CASE("where requests complete elsewhere, these are put aside, too")
    {
        progress_rig rig;
        counting_cq sends;
        sends.puts_aside = true;
        sends.completions = 1;
        counting_cq recvs;
        {
            osd::lock_guard hold(rig.lock);
            REQUIRE(rig.watch.add(rig, sends));
            REQUIRE(rig.watch.add(rig, recvs));
            rig.watch.add_receiver(rig, recvs, sends);
        }
        recvs.arrive();
        CHECK(eventually([&] { return sends.aside == 1; }));
        CHECK(recvs.aside == 0);
        osd::lock_guard hold(rig.lock);
        rig.watch.remove_receiver(rig, recvs);
        rig.watch.remove(rig, recvs);
        rig.watch.remove(rig, sends);
    }

    TEST_CASE(
        "where all share a descriptor, one is visited for the data of all, and then the thread "
        "sleeps")
    {
        shared_data shared;
        progress_rig rig(shared.fd);
        watched_cq one(rig), two(rig), polled(rig, true);
        for (watched_cq *each : {&one, &two, &polled})
            each->cq.shared = &shared;
        SUBCASE("") {}
        SUBCASE("also one that wants a callback")
        {
            rig.watch.request_callback(rig, two.cq);
        }
        for (int round = 1; round <= 20; ++round) {
            shared.arrive();
            REQUIRE(eventually([&] { return shared.moved == round; }));
        }
        CHECK(comes_to_rest([&] { return one.cq.progressed + two.cq.progressed; }));
        two.cq.arrive(); // a completion signals
        CHECK(eventually([&] { return two.cq.completions == 1; }));
    }

    TEST_CASE("where all share a descriptor, it wakes the thread while a connection is being made")
    {
        shared_data shared;
        progress_rig rig(shared.fd); // no target is armed
        rig.watch.count_attempt(rig, true);
        for (int round = 0; round < 5; ++round) {
            const int before = rig.wakeups;
            shared.arrive();
            REQUIRE(eventually([&] { return rig.wakeups > before; }));
            shared.move();
            REQUIRE(comes_to_rest([&] { return rig.wakeups.load(); }));
        }
        rig.watch.count_attempt(rig, false);
        shared.arrive(); // wakes it once more, at most
        CHECK(comes_to_rest([&] { return rig.wakeups.load(); }));
        CHECK(shared.is_readable());
        const int before = rig.wakeups;
        shared.arrive();
        CHECK(comes_to_rest([&] { return rig.wakeups.load(); }));
        CHECK(rig.wakeups == before);
    }

    TEST_CASE("where all share a descriptor, a consumer that waits disarms it")
    {
        shared_data shared;
        progress_rig rig(shared.fd);
        watched_cq watched(rig);
        watched.cq.shared = &shared;
        const auto rounds = [&] {
            rig.watch.begin_wait(rig, watched.cq);
            for (int i = 0; i < many; ++i) {
                shared.arrive();
                std::this_thread::sleep_for(std::chrono::microseconds(100));
                shared.move();
            }
            rig.watch.end_wait(rig, watched.cq);
            std::this_thread::sleep_for(ms(20)); // the thread comes back, and arms it
        };
        CHECK(leave_the_thread_asleep(rig, rounds));
        shared.arrive();
        CHECK(eventually([&] { return shared.moved != 0 && !shared.is_readable(); }));
    }

    TEST_CASE("a target that the kernel does not watch is refused")
    {
        progress_rig rig;
        counting_cq cq;
        const int own = std::exchange(cq.wait_fd, -1);
        {
            osd::lock_guard hold(rig.lock);
            CHECK_FALSE(rig.watch.add(rig, cq));
        }
        cq.wait_fd = own;
    }

    TEST_CASE("completions of a consumer that polls are left to it")
    {
        progress_rig rig;
        watched_cq watched(rig, true);
        watched.cq.puts_aside = true;
        watched.cq.arrive();
        std::this_thread::sleep_for(ms(100));
        CHECK(watched.cq.aside == 0);
        watched.cq.always_polled = false;
        CHECK(eventually([&] { return watched.cq.aside == 1; }));
    }

    TEST_CASE("what cannot be moved is looked at rarely, though each look takes long")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.takes_long = true;
        watched.cq.stuck = true;
        SUBCASE("") {}
        SUBCASE("also where a callback was asked for")
        {
            rig.watch.request_callback(rig, watched.cq);
        }
        watched.cq.arrive();
        REQUIRE(eventually([&] { return watched.cq.progressed > 500; })); // 200 us each
        watched.cq.known_to_move = false;
        std::this_thread::sleep_for(ms(200));
        const int before = watched.cq.progressed;
        std::this_thread::sleep_for(ms(500));
        CHECK(watched.cq.progressed - before < 800); // 8 of 200 us, then 10 ms
        watched.cq.stuck = false;
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
    }

    TEST_CASE("a callback that was asked for comes once, with the completion")
    {
        progress_rig rig;
        watched_cq watched(rig);
        rig.watch.request_callback(rig, watched.cq);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(watched.cq.callbacks == 0);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.callbacks == 1; }));
        watched.cq.arrive();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(watched.cq.callbacks == 1);
    }

    // The consumer asks, and a receive that it posts to a connection that has ended is flushed at
    // once, whose signal is reset.
    TEST_CASE("a callback is made for what was deferred while the signal was reset")
    {
        progress_rig rig;
        watched_cq watched(rig);
        const std::function<void()> ask_and_defer = [&] {
            watched.cq.completions = 0;
            rig.watch.request_callback(rig, watched.cq);
            watched.cq.deferred = true;
        };
        watched.cq.at_reset = &ask_and_defer;
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.callbacks == 1; }));
    }

    TEST_CASE("a target is left alone while its consumer polls, and served when it stops")
    {
        progress_rig rig;
        // A thread that is preempted while it looks takes the consumer for gone: that may happen.
        bool left_alone = false;
        for (int attempt = 0; attempt < 10 && !left_alone; ++attempt) {
            watched_cq watched(rig, true);
            watched.cq.arrive();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            left_alone = watched.cq.progressed == 0;
            watched.cq.always_polled = false;
            CHECK(eventually([&] { return watched.cq.completions == 1; }));
        }
        CHECK(left_alone);
    }

    TEST_CASE("a target is left alone while its consumer waits in it")
    {
        progress_rig rig;
        watched_cq watched(rig);
        std::this_thread::sleep_for(ms(20));
        const int before = rig.wakeups;
        rig.watch.begin_wait(rig, watched.cq);
        watched.cq.arrive();
        std::this_thread::sleep_for(ms(50));
        CHECK(watched.cq.completions == 0);
        CHECK(rig.wakeups == before);
        rig.watch.end_wait(rig, watched.cq);
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
    }

    TEST_CASE("waits, one after the other, neither begin nor end with a wake-up of the thread")
    {
        progress_rig rig;
        watched_cq watched(rig);
        CHECK(leave_the_thread_asleep(rig, [&] {
            for (int i = 0; i < many; ++i) {
                rig.watch.begin_wait(rig, watched.cq);
                std::this_thread::sleep_for(ms(2));
                watched.cq.arrive();
                watched.cq.take();
                rig.watch.end_wait(rig, watched.cq);
                watched.cq.complete_own();
            }
        }));
        CHECK(leave_the_thread_asleep(
            rig,
            [&] {
                for (int i = 0; i < 5; ++i) {
                    rig.watch.begin_wait(rig, watched.cq);
                    std::this_thread::sleep_for(ms(15));
                    rig.watch.end_wait(rig, watched.cq);
                }
            },
            3));             // the first long wait may wake it
        watched.cq.arrive(); // the consumer does not come back
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
    }

    TEST_CASE("a consumer that waits again and again does not keep the thread from another target")
    {
        progress_rig rig;
        watched_cq left(rig), busy(rig);
        rig.watch.begin_wait(rig, left.cq);
        rig.watch.end_wait(rig, left.cq);
        left.cq.arrive();
        int rounds = 0; // rounds of a millisecond
        CHECK(eventually([&] {
            ++rounds;
            rig.watch.begin_wait(rig, busy.cq);
            rig.watch.end_wait(rig, busy.cq);
            return left.cq.completions == 1;
        }));
        CHECK(rounds < 30);
    }

    TEST_CASE("asking for a callback does not wake the thread")
    {
        progress_rig rig;
        watched_cq watched(rig);
        std::this_thread::sleep_for(ms(20));
        const int before = rig.wakeups;
        rig.watch.request_callback(rig, watched.cq);
        std::this_thread::sleep_for(ms(20));
        CHECK(rig.wakeups == before);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.callbacks == 1; }));
    }

    TEST_CASE("who waits for a callback makes it, and the thread sleeps on")
    {
        progress_rig rig;
        watched_cq watched(rig);
        int own = 0;
        CHECK(leave_the_thread_asleep(rig, [&] {
            own = 0;
            for (int i = 0; i < many; ++i) {
                rig.watch.request_callback(rig, watched.cq);
                const int before = watched.cq.callbacks;
                std::thread peer([&] {
                    std::this_thread::sleep_for(ms(2));
                    watched.cq.arrive();
                });
                while (watched.cq.callbacks == before)
                    REQUIRE(rig.wait_for_callback(patience_us) == osd::wait_result::woken);
                peer.join();
                CHECK(watched.cq.callbacks == before + 1);
                own += watched.cq.caller.load() == std::this_thread::get_id() ? 1 : 0;
                watched.cq.take();
                watched.cq.complete_own();
            }
        }));
        CHECK(own > many / 2);                       // the thread wakes up by itself now and then
        rig.watch.request_callback(rig, watched.cq); // the waiter does not come back
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.caller.load() != std::this_thread::get_id(); }));
    }

    TEST_CASE("who waits for a callback makes progress, which does not end the wait")
    {
        progress_rig rig;
        watched_cq watched(rig);
        rig.watch.request_callback(rig, watched.cq);
        watched.cq.arrive();
        CHECK(eventually([&] { return watched.cq.callbacks == 1; }));
        watched.cq.take();
        int moved_here = 0;
        const int before = rig.wakeups;
        std::thread waiter([&] {
            watched.cq.served_by = std::this_thread::get_id();
            CHECK(rig.wait_for_callback(200'000) == osd::wait_result::timed_out);
            moved_here = watched.cq.served;
        });
        for (int i = 1; i <= 10; ++i) {
            std::this_thread::sleep_for(ms(5));
            watched.cq.arrive();
            CHECK(eventually([&] { return watched.cq.completions == i; }));
        }
        waiter.join();
        CHECK(moved_here >= 8); // the first may come before the wait
        CHECK(rig.wakeups - before < 5);
        CHECK(watched.cq.callbacks == 1);
    }

    TEST_CASE("what ends a wait for callbacks")
    {
        progress_rig rig;
        watched_cq watched(rig);
        rig.watch.request_callback(rig, watched.cq);
        SUBCASE("its deadline")
        {
            const osd::deadline soon = osd::deadline::after_us(5000);
            CHECK(rig.watch.wait_for_callback(rig, soon) == osd::wait_result::timed_out);
            CHECK(soon.has_passed());
        }
        SUBCASE("a wake-up, also one before it")
        {
            rig.watch.wake_waiter();
            CHECK(rig.wait_for_callback(patience_us) == osd::wait_result::woken);
            (void)rig.wait_for_callback(0); // takes what the wake-up left
            std::thread other([&] {
                std::this_thread::sleep_for(ms(10));
                rig.watch.wake_waiter();
            });
            CHECK(rig.wait_for_callback(patience_us) == osd::wait_result::woken);
            other.join();
        }
        SUBCASE("a signal")
        {
            const interrupting_signal installed;
            CHECK(until_signalled([&] { return rig.wait_for_callback(patience_us); }) ==
                  osd::wait_result::interrupted);
        }
        SUBCASE("cancellation: the service thread makes the callbacks again")
        {
            std::atomic<bool> waits{false};
            std::thread waiter([&] {
                const osd::cancellable_wait held;
                waits = true;
                (void)rig.watch.wait_for_callback(rig, osd::deadline::never());
            });
            CHECK(eventually([&] { return waits.load(); }));
            std::this_thread::sleep_for(ms(5));
            pthread_cancel(waiter.native_handle());
            waiter.join();
            watched.cq.arrive();
            CHECK(eventually([&] { return watched.cq.callbacks == 1; }));
        }
    }

    TEST_CASE("each request brings one callback, though a waiter and the thread compete for it")
    {
        progress_rig rig;
        watched_cq watched(rig);
        std::atomic<bool> stop{false};
        std::thread waiter([&] {
            while (!stop)
                (void)rig.wait_for_callback(50);
        });
        for (int i = 0; i < 1000; ++i) {
            rig.watch.request_callback(rig, watched.cq);
            watched.cq.arrive();
            REQUIRE(eventually([&] { return watched.cq.callbacks != i; }));
            CHECK(watched.cq.callbacks == i + 1);
            watched.cq.take();
        }
        stop = true;
        waiter.join();
    }

    TEST_CASE("a waiter and the thread do not visit a target at the same time")
    {
        progress_rig rig;
        watched_cq watched(rig);
        watched.cq.takes_long = true;
        std::atomic<bool> stop{false};
        std::thread waiter([&] {
            while (!stop) {
                (void)rig.wait_for_callback(200);
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
        });
        for (int i = 0; i < 500; ++i) {
            rig.watch.request_callback(rig, watched.cq);
            watched.cq.arrive();
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
        stop = true;
        waiter.join();
        CHECK_FALSE(watched.cq.overlaps);
    }

    TEST_CASE("the thread sleeps while a waiter visits a target, though it is called meanwhile")
    {
        progress_rig rig;
        watched_cq watched(rig);
        rig.watch.request_callback(rig, watched.cq);
        std::thread waiter(
            [&] { CHECK(rig.wait_for_callback(patience_us) == osd::wait_result::woken); });
        std::this_thread::sleep_for(ms(20)); // lets it fall asleep
        watched.cq.blocks = true;
        watched.cq.arrive();
        REQUIRE(eventually([&] { return watched.cq.inside == 1; }));
        const int before = rig.wakeups;
        rig.watch.call(rig);
        std::this_thread::sleep_for(ms(20));
        CHECK(rig.wakeups - before < 5);
        watched.cq.blocks = false;
        waiter.join();
        CHECK(watched.cq.callbacks == 1);
    }

    TEST_CASE("targets come and go while their traffic arrives")
    {
        progress_rig rig;
        std::atomic<bool> stop{false};
        std::thread waiter;
        SUBCASE("") {}
        SUBCASE("beside a consumer that waits for callbacks")
        {
            waiter = std::thread([&] {
                while (!stop)
                    (void)rig.wait_for_callback(1000);
            });
        }
        for (int round = 0; round < 200; ++round) {
            watched_cq watched(rig);
            watched.cq.arrive();
            if (round % 2 == 0)
                rig.watch.request_callback(rig, watched.cq);
            if (round % 8 == 0)
                CHECK(eventually([&] { return watched.cq.completions != 0; }));
        }
        stop = true;
        if (waiter.joinable())
            waiter.join();
    }
}
