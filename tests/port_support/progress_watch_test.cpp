// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress_watch.hpp"

#include "eventually.hpp"

#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace dapl::DAPL_TRANSPORT;

namespace {

/// A CQ whose traffic arrives at a descriptor, and completes when progress is made.
struct counting_cq final : progress_target {
    std::atomic<int> progressed{0};
    std::atomic<int> completions{0}; ///< not yet polled
    std::atomic<int> signals{0};
    std::atomic<int> callbacks{0};
    std::atomic<bool> polled{false};
    std::atomic<bool> always_polled{false};

    counting_cq() { wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
    ~counting_cq() { close(wait_fd); }

    void arrive() const { eventfd_write(wait_fd, 1); }

private:
    bool progress() override
    {
        ++progressed;
        eventfd_t value;
        if (eventfd_read(wait_fd, &value) == 0)
            ++completions;
        return completions != 0;
    }
    bool has_completion_now() override { return progress(); }
    bool reset_signal() override { return completions == 0; }
    void signal() override { ++signals; }
    bool take_polled() override { return polled.exchange(false) || always_polled.load(); }
    void call_back() override { ++callbacks; }
};

struct progress_rig : connection_service {
    progress_watch watch;

    progress_rig()
    {
        std::strcpy(name, "test");
        REQUIRE(events.open());
        REQUIRE(events.start("test", &run, this));
    }
    ~progress_rig() { events.stop(lock); }

    static void run(void *self) { static_cast<progress_rig *>(self)->loop(); }
    void loop()
    {
        osd::lock_guard hold(lock);
        while (!events.is_stopping(lock)) {
            (void)watch.answer_calls(*this);
            for (void *tag : events.wait(lock, watch.visit_due(*this)))
                watch.set_ready(*this, *static_cast<progress_target *>(tag));
        }
    }
};

/// A CQ at which a queue pair receives.
struct watched_cq {
    progress_rig &rig;
    counting_cq cq;

    explicit watched_cq(progress_rig &r, bool always_polled = false) : rig(r)
    {
        cq.always_polled = always_polled; // the thread visits what is added at once
        osd::lock_guard hold(rig.lock);
        rig.watch.add(rig, cq);
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
        rig.watch.begin_wait(watched.cq);
        watched.cq.arrive();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(watched.cq.completions == 0);
        rig.watch.end_wait(rig, watched.cq);
        CHECK(eventually([&] { return watched.cq.completions == 1; }));
    }

    TEST_CASE("targets come and go while their traffic arrives")
    {
        progress_rig rig;
        for (int round = 0; round < 200; ++round) {
            watched_cq watched(rig);
            watched.cq.arrive();
            if (round % 2 == 0)
                rig.watch.request_callback(rig, watched.cq);
            if (round % 8 == 0)
                CHECK(eventually([&] { return watched.cq.completions != 0; }));
        }
    }
}
