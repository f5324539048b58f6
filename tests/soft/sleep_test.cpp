// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The device's thread sleeps when there is nothing to do, whatever woke it before.
#include "rig.hpp"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

using namespace rig;

namespace {

std::atomic<bool> raising_takes_long{false};

} // namespace

extern "C" int __real_eventfd_write(int descriptor, eventfd_t value);
extern "C" int __wrap_eventfd_write(int descriptor, eventfd_t value)
{
    if (raising_takes_long.load())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return __real_eventfd_write(descriptor, value);
}

TEST_SUITE_BEGIN("sleep");

TEST_CASE("a thread that somebody is about to wake when it wakes up by itself sleeps again")
{
    host here(on_loopback());
    host there(on_loopback());
    end called(here);
    packet_io &network = there.hca.shard_at(0).io();
    const net_address to = called.pair.home->io().address();
    out_packet noise;
    noise.begin();
    noise.add(noise.header, 1);
    raising_takes_long.store(true);
    std::atomic<bool> enough{false};
    std::thread caller([&] {
        while (!enough.load())
            called.pair.home->kick();
    });
    for (int i = 0; i < 200; ++i) {
        std::uint32_t done = 0;
        (void)network.send(to, &noise, 1, done);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    enough.store(true);
    caller.join();
    raising_takes_long.store(false);
    CHECK(idle_share(std::chrono::milliseconds(300)) < 0.1);
}

TEST_SUITE_END();
