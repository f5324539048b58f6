// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer process that is killed, at any moment: the survivor gets everything back, and one event.
#include "descriptors.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace kill_suite {

using namespace rig;

namespace {

/// What the two processes tell each other beside the network.
struct offer {
    std::uint64_t qualifier;
    remote_segment memory;
};

void say(int pipe, const offer &what)
{
    if (write(pipe, &what, sizeof what) != sizeof what)
        _exit(1);
}

offer hear(int pipe)
{
    offer what{};
    if (read(pipe, &what, sizeof what) != sizeof what)
        what.qualifier = 0;
    return what;
}

/// Writes and reads, as fast as it gets through, until it is killed or the connection ends.
void keep_busy(end &own, const remote_segment &there)
{
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    for (;;) {
        for (; posted < done + 8; ++posted)
            if (!(posted % 2 == 0 ? own.write(0, 50000, there) : own.read(0, 50000, there)))
                return;
        const auto completion = own.sent();
        if (!completion.has_value() || completion->status != work_status::success)
            return;
        if (++done % 64 == 0)
            own.requests.erase(own.requests.begin(), own.requests.begin() + 32);
    }
}

enum class path {
    network,
    sealed,
    direct, ///< direct access and rings
};

settings settings_of(path by)
{
    static constexpr char key[] = "a key of tests, which is as long as one has to be";
    settings how = on_loopback();
    how.direct = how.rings = by == path::direct;
    if (by == path::sealed) {
        how.key.bytes = key;
        how.key.size = sizeof key;
        how.retries = 4; // an ICMP error is not believed, so all of them pass
    }
    return how;
}

[[noreturn]] void child(bool connects, path by, int from_parent, int to_parent)
{
    host here(settings_of(by));
    end own(here);
    if (connects) {
        const offer parent = hear(from_parent);
        (void)own.pair.connect(here.hca.settings().address, parent.qualifier, nullptr, 0);
        say(to_parent, {1, own.buffer.remote(0, 50000)});
        (void)own.next();
        keep_busy(own, parent.memory);
    } else {
        door at(here);
        say(to_parent, {at.number, own.buffer.remote(0, 50000)});
        inbound_request *request = at.next();
        if (request != nullptr)
            (void)own.pair.accept(*request, nullptr, 0);
        keep_busy(own, hear(from_parent).memory);
    }
    pause();
    _exit(0);
}

struct peer {
    peer(bool connects, path by)
    {
        int down[2];
        int up[2];
        REQUIRE(pipe(down) == 0);
        REQUIRE(pipe(up) == 0);
        id = fork();
        if (id == 0)
            child(connects, by, down[0], up[1]);
        close(down[0]);
        close(up[1]);
        to = down[1];
        from = up[0];
    }
    void kill_now()
    {
        kill(id, SIGKILL);
        waitpid(id, nullptr, 0);
        close(to);
        close(from);
    }
    pid_t id;
    int to;
    int from;
};

/// One round; `connects` says who does.
void survive(bool peer_connects, path by, int moment_us)
{
    peer other(peer_connects, by); // starts before there are threads here
    {
        host here(settings_of(by));
        end own(here);
        for (int i = 0; i < 4; ++i)
            REQUIRE(own.receive(900000, 16));
        offer there{};
        if (peer_connects) {
            door at(here);
            say(other.to, {at.number, own.buffer.remote(0, 50000)});
            there = hear(other.from);
            inbound_request *request = at.next();
            REQUIRE(request != nullptr);
            REQUIRE(own.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        } else {
            there = hear(other.from);
            REQUIRE(own.pair.connect(here.hca.settings().address, there.qualifier, nullptr, 0) ==
                    queue_pair::start::begun);
            say(other.to, {1, own.buffer.remote(0, 50000)});
        }
        REQUIRE(is(own.next(), connection_event::established));
        std::thread killer([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(moment_us));
            other.kill_now();
        });
        std::uint64_t posted = 0;
        std::uint64_t done = 0;
        for (bool failed = false; !failed;) {
            for (; posted < done + 8; ++posted)
                REQUIRE((posted % 2 == 0 ? own.write(0, 50000, there.memory)
                                         : own.read(0, 50000, there.memory)));
            const auto completion = own.sent();
            REQUIRE(completion.has_value());
            ++done;
            failed = completion->status != work_status::success;
        }
        killer.join();
        const auto event = own.next();
        REQUIRE(event.has_value());
        CHECK((event->what == connection_event::broken ||
               event->what == connection_event::disconnected));
        for (; done < posted; ++done)
            CHECK(own.sent()->status == work_status::flushed);
        for (int i = 0; i < 4; ++i)
            CHECK(own.received()->status == work_status::flushed);
        CHECK(!own.sent(std::chrono::milliseconds(1)).has_value());
        CHECK(!own.next(std::chrono::milliseconds(1)).has_value());
    }
}

} // namespace

TEST_SUITE_BEGIN("kill");

TEST_CASE("B11: a peer killed at random moments, of either side")
{
    path by = path::network;
    SUBCASE("over the network") {}
#ifdef SOFT_HCA_KEYS
    SUBCASE("over the network, with a key")
    {
        by = path::sealed;
    }
#endif
    SUBCASE("with direct access")
    {
        by = path::direct;
    }
    const char *asked = std::getenv("SOFT_KILLS"); // rounds on each path
    const int rounds = asked == nullptr ? 20 : std::atoi(asked);
    std::mt19937 random(6);
    const std::size_t before = descriptors().size();
    for (int round = 0; round < rounds; ++round) {
        const int moment_us = static_cast<int>(random() % 30000);
        CAPTURE(round);
        CAPTURE(moment_us);
        survive(round % 2 == 0, by, moment_us);
    }
    CHECK(descriptors().size() == before);
}

TEST_SUITE_END();

} // namespace kill_suite
