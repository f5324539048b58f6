// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_thread.hpp"

#include "descriptors.hpp"
#include "eventually.hpp"

#include <doctest/doctest.h>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using dapl::port_support::event_thread;

namespace {

/// An event thread, and counts of its callbacks.
struct event_rig {
    osd::mutex lock;
    event_thread events;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::atomic<int> rounds{0};
    std::atomic<int> ready{0};
    std::atomic<std::int64_t> due_ns{event_thread::never};

    event_rig()
    {
        REQUIRE(events.open());
        REQUIRE(events.start("rig", &run, this));
    }
    ~event_rig()
    {
        events.stop(lock);
        close(fd);
    }

    static void run(void *self) { static_cast<event_rig *>(self)->loop(); }
    void loop()
    {
        osd::lock_guard hold(lock);
        while (!events.is_stopping(lock)) {
            ++rounds;
            for (void *tag : events.wait(lock, due_ns.exchange(event_thread::never)))
                if (tag == &fd)
                    take();
        }
    }
    void take()
    {
        eventfd_t value;
        (void)eventfd_read(fd, &value);
        ++ready;
    }
};

} // namespace

TEST_SUITE("event_thread")
{
    TEST_CASE("it sleeps until it is kicked")
    {
        event_rig rig;
        REQUIRE(eventually([&] { return rig.rounds == 1; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(rig.rounds == 1);
        rig.events.kick();
        CHECK(eventually([&] { return rig.rounds == 2; }));
        CHECK(rig.ready == 0);
    }

    TEST_CASE("it wakes for a descriptor, and no more once that was removed")
    {
        event_rig rig;
        REQUIRE(rig.events.add(rig.fd, EPOLLIN, &rig.fd));
        eventfd_write(rig.fd, 1);
        CHECK(eventually([&] { return rig.ready == 1; }));
        {
            osd::lock_guard hold(rig.lock);
            rig.events.remove(rig.fd);
            eventfd_write(rig.fd, 1);
        }
        rig.events.kick();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(rig.ready == 1);
    }

    TEST_CASE("a descriptor that was armed once is reported once until it is armed again")
    {
        event_rig rig;
        REQUIRE(rig.events.add(rig.fd, event_thread::once, &rig.fd));
        eventfd_write(rig.fd, 1);
        REQUIRE(eventually([&] { return rig.ready == 1; }));
        eventfd_write(rig.fd, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(rig.ready == 1);
        REQUIRE(rig.events.modify(rig.fd, event_thread::once, &rig.fd));
        CHECK(eventually([&] { return rig.ready == 2; }));
    }

    TEST_CASE("it wakes at a deadline")
    {
        event_rig rig;
        REQUIRE(eventually([&] { return rig.rounds == 1; }));
        rig.due_ns = osd::now_ns() + 10'000'000;
        rig.events.kick(); // takes the new deadline
        CHECK(eventually([&] { return rig.rounds == 3; }));
    }

    TEST_CASE("many threads kick, and none of their kicks is lost")
    {
        event_rig rig;
        std::vector<std::thread> kickers;
        for (int i = 0; i < 3; ++i)
            kickers.emplace_back([&] {
                for (int k = 0; k < 200; ++k) {
                    const int before = rig.rounds;
                    rig.events.kick();
                    if (!eventually([&] { return rig.rounds != before; }))
                        return;
                }
                ++rig.ready;
            });
        for (std::thread &kicker : kickers)
            kicker.join();
        CHECK(rig.ready == 3);
    }

    TEST_CASE("it ends, and keeps no processor busy, where the program has closed its descriptors")
    {
        const std::set<int> others = descriptors();
        event_rig rig;
        REQUIRE(eventually([&] { return rig.rounds == 1; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // it sleeps
        for (const int fd : descriptors())
            if (!others.contains(fd))
                close(fd);
        CHECK(eventually([&] { return rig.rounds > 1; }));
        const int before = rig.rounds;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(rig.rounds - before <= 51);
    }

    TEST_CASE("it can be stopped before it was started, and opened again")
    {
        osd::mutex lock;
        event_thread events;
        events.stop(lock);
        REQUIRE(events.open());
        events.stop(lock);
        REQUIRE(events.open());
        CHECK(events.is_current() == false);
    }
}
