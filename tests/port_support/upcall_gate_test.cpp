// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "upcall_gate.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using dapl::port_support::upcall_gate;

namespace {

struct gate_rig {
    osd::mutex lock;
    upcall_gate gate;

    template <class Upcall>
    void upcall(const void *object, Upcall made)
    {
        osd::lock_guard hold(lock);
        gate.run(lock, object, made);
    }
    void fence(const void *object)
    {
        osd::lock_guard hold(lock);
        gate.wait_quiet(lock, object);
    }
};

void wait_for(const std::atomic<bool> &flag)
{
    while (!flag.load())
        std::this_thread::yield();
}

} // namespace

TEST_SUITE("upcall_gate")
{
    TEST_CASE("an upcall runs without the lock")
    {
        gate_rig rig;
        bool was_free = false;
        rig.upcall(&rig, [&] {
            if (rig.lock.try_lock()) {
                was_free = true;
                rig.lock.unlock();
            }
        });
        CHECK(was_free);
    }

    TEST_CASE("a fence waits for an upcall for its object, and for no other")
    {
        gate_rig rig;
        int object = 0;
        int other = 0;
        std::atomic<bool> inside{false};
        std::atomic<bool> go_on{false};
        std::atomic<bool> returned{false};
        std::thread caller([&] {
            rig.upcall(&object, [&] {
                inside = true;
                wait_for(go_on);
                returned = true;
            });
        });
        wait_for(inside);
        rig.fence(&other);
        CHECK_FALSE(returned.load());
        std::thread release([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            go_on = true;
        });
        rig.fence(&object);
        CHECK(returned.load());
        caller.join();
        release.join();
    }

    TEST_CASE("an upcall may lead to another on the same thread")
    {
        gate_rig rig;
        int outer = 0;
        int inner = 0;
        int made = 0;
        rig.upcall(&outer, [&] { rig.upcall(&inner, [&] { ++made; }); });
        CHECK(made == 1);
        rig.fence(&outer);
        rig.fence(&inner);
    }

    TEST_CASE("objects are freed behind a fence while threads make upcalls for them")
    {
        gate_rig rig;
        auto *object = new std::atomic<int>(0); // guarded by rig.lock
        std::atomic<bool> stop{false};
        const auto make_upcalls = [&] {
            while (!stop.load()) {
                osd::lock_guard hold(rig.lock);
                std::atomic<int> *found = object;
                if (found != nullptr)
                    rig.gate.run(rig.lock, found, [found] { ++*found; });
            }
        };
        std::vector<std::thread> callers;
        for (int i = 0; i < 3; ++i)
            callers.emplace_back(make_upcalls);
        for (int round = 0; round < 300; ++round) {
            osd::lock_guard hold(rig.lock);
            std::atomic<int> *old = object;
            object = nullptr;
            rig.gate.wait_quiet(rig.lock, old);
            delete old;
            object = new std::atomic<int>(0);
        }
        stop = true;
        for (std::thread &caller : callers)
            caller.join();
        delete object;
    }
}
