// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Bad networks: every operation is accounted for, and every byte is right.
#include "rig.hpp"

#include <doctest/doctest.h>

namespace network_suite {

using namespace rig;

namespace {

settings bad(settings how, std::uint64_t seed)
{
    how.bad_network = {20, 20, 10, 0, seed}; // 2 % lost, 2 % out of order, 1 % twice
    return how;
}

} // namespace

TEST_SUITE_BEGIN("network");

TEST_CASE("several seeds of loss, reordering and duplication, inside the process")
{
    for (std::uint64_t seed = 1; seed <= rounds(10); ++seed) {
        CAPTURE(seed);
        inproc_network network;
        host here(bad(inside(network), seed));
        host there(bad(inside(network), seed + 100));
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, 40);
        CHECK(a.resent() + b.resent() > 0);
    }
}

TEST_CASE("several seeds of loss, reordering and duplication, over UDP")
{
    for (std::uint64_t seed = 1; seed <= rounds(10); ++seed) {
        CAPTURE(seed);
        settings how = on_loopback();
        how.datagram = 1472;
        host here(bad(how, seed));
        host there(bad(how, seed + 100));
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, 40);
        CHECK(a.resent() + b.resent() > 0);
    }
}

TEST_CASE("F14: with checksums a network that inverts bits delivers what was sent")
{
    for (const bool over_udp : {false, true})
        for (std::uint64_t seed = 1; seed <= rounds(4); ++seed) {
            CAPTURE(over_udp);
            CAPTURE(seed);
            inproc_network network;
            settings how = over_udp ? on_loopback() : inside(network);
            how.datagram = 1472;
            how.checksum = true;
            how = bad(how, seed);
            how.bad_network.corrupt = 20;
            host here(how);
            how.bad_network.seed += 100;
            host there(how);
            end a(here);
            end b(there);
            REQUIRE(establish(a, b));
            exercise(a, b, rounds(40));
            CHECK(a.counts().corrupt + b.counts().corrupt > 0);
            CHECK(a.resent() + b.resent() > 0);
        }
}

TEST_CASE("B4: numbers wrap in the middle, on a bad network")
{
    for (std::uint32_t first : {0xfffffff0u, 0xffffff00u, 0x7ffffff0u}) {
        CAPTURE(first);
        inproc_network network;
        settings how = bad(inside(network), 3);
        how.fixed_start = true;
        how.first_number = first;
        host here(how);
        host there(how);
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, rounds(60));
    }
}

TEST_CASE("connections come up and go down on a very bad network")
{
    inproc_network network;
    settings how = inside(network);
    how.bad_network = {200, 100, 100, 0, 5};
    host here(how);
    how.bad_network.seed = 6;
    host there(how);
    for (int round = 0; round < 20; ++round) {
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        REQUIRE(b.receive(0, 5000));
        REQUIRE(a.send(0, 5000));
        CHECK(b.received()->status == work_status::success);
        a.pair.disconnect(true);
        CHECK(is(a.next(), connection_event::disconnected));
        CHECK(is(b.next(), connection_event::disconnected));
        CHECK(a.sent()->status == work_status::success);
    }
}

TEST_CASE("B10: a link that is dead for 100 ms and more costs no connection")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    for (int pause : {100, 400}) {
        a.buffer.fill(0, 100000, 7);
        // Its socket is not read for a while.
        b.pair.enter();
        REQUIRE(a.write(0, 100000, b.buffer.remote(0, 100000)));
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
        b.pair.leave();
        const auto done = a.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == work_status::success);
        CHECK(b.buffer.holds(0, 100000, 7));
    }
}

namespace {

/// Gives up soon, but for the impatience of each side alone.
settings impatient(inproc_network &network)
{
    settings how = inside(network);
    how.retries = 6; // 635 ms: longer than the silence after which the peer is heard of
    how.keepalive_ms = 50;
    return how;
}

constexpr std::chrono::seconds soon{5};

} // namespace

TEST_CASE("a way that swallows large datagrams ends the connection, though small ones get through")
{
    inproc_network network;
    settings how = impatient(network);
    host here(how);
    how.bad_network.largest = 1300;
    host there(how);
    end a(here);
    end b(there);
    bool reading = false;
    SUBCASE("of writes and sends") {}
    SUBCASE("of answers")
    {
        reading = true;
    }
    REQUIRE(establish(a, b));
    end &large = a; // its large packets are swallowed
    end &other = reading ? b : a;
    REQUIRE(b.receive(0, 100));
    REQUIRE(a.send(0, 100));
    CHECK(a.sent()->status == work_status::success);
    if (reading)
        REQUIRE(b.read(0, 5000, a.buffer.remote(0, 5000)));
    else
        REQUIRE(a.write(0, 5000, b.buffer.remote(0, 5000)));
    REQUIRE(a.receive(0, 100));
    // Meanwhile both hear of each other: of the probes, and of messages.
    const auto event = large.next(soon);
    REQUIRE(event.has_value());
    CHECK(event->what == connection_event::broken);
    const auto done = other.sent();
    REQUIRE(done.has_value());
    if (reading) // it may have given up, too, or been told that the other side has
        CHECK(done->status != work_status::success);
    else
        CHECK(done->status == work_status::transport);
    CHECK(a.received()->status == work_status::flushed);
    CHECK(b.next(soon).has_value());
}

TEST_CASE(
    "small packets behind one that is swallowed do not keep its connection alive, nor end it early")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 8; // 5 + 10 + … + 320 + 500 + 500 ms
    host here(how);
    how.bad_network.largest = 1300;
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(a.write(0, 5000, b.buffer.remote(0, 5000)));
    std::optional<told> event;
    unsigned behind = 0;
    while (!(event = a.next(std::chrono::milliseconds(10))) &&
           std::chrono::steady_clock::now() - begin < soon) {
        REQUIRE(a.write(0, 8, b.buffer.remote(0, 8)));
        behind += 1;
        a.send_queue.progress();
        if (behind > 60)
            break;
    }
    if (!event)
        event = a.next(soon);
    CHECK(is(event, connection_event::broken));
    CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1000));
    CHECK(a.sent()->status == work_status::transport);
}

TEST_CASE("a network that takes nothing more ends the connection, too")
{
    inproc_network network;
    host here(impatient(network));
    host there(impatient(network));
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    REQUIRE(a.receive(0, 100));
    network.jam(true);
    REQUIRE(a.write(0, 5000, b.buffer.remote(0, 5000)));
    CHECK(is(a.next(soon), connection_event::broken));
    CHECK(a.sent()->status == work_status::transport);
    CHECK(a.received()->status == work_status::flushed);
    network.jam(false);
}

TEST_CASE("a peer that has no receive, or was not ready for long, is not given up")
{
    inproc_network network;
    settings how = impatient(network);
    SUBCASE("on a good network") {}
    SUBCASE("on a bad one")
    {
        how.retries = 12; // one packet may well be lost some times in a row
        how.bad_network = {20, 20, 10, 0, 4};
    }
    host here(how);
    host there(how);
    inbox owner;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    {
        int receiver = 0;
        end a(here);
        end b(there, {.shared = &shared, .receiver = &receiver});
        end c(here);
        end d(there);
        REQUIRE(establish(a, b));
        REQUIRE(establish(c, d));
        for (int i = 0; i < 3; ++i) {
            REQUIRE(a.send(0, 100));
            REQUIRE(c.send(0, 100));
        }
        REQUIRE(b.read(0, 100, a.buffer.remote(0, 100))); // its answer is behind the messages
        const auto quiet = [&] {
            for (end *each : {&a, &b, &c, &d})
                if (each->next(std::chrono::milliseconds(0)).has_value())
                    return false;
            return true;
        };
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        CHECK(quiet());
        for (int i = 0; i < 3; ++i) {
            request &r = b.fresh(work::receive);
            r.segments = 1;
            r.local[0] = b.buffer.local(200, 100);
            r.length = 100;
            REQUIRE(shared.post(r));
            REQUIRE(d.receive(0, 100));
        }
        for (end *each : {&a, &c})
            for (int i = 0; i < 3; ++i) {
                const auto sent = each->sent();
                REQUIRE(sent.has_value());
                CHECK(sent->status == work_status::success);
            }
        CHECK(b.sent()->status == work_status::success);
        CHECK(quiet());
        there.hca.free_pair(b.pair);
        b.alive = false;
    }
    there.hca.free_shared(shared);
}

TEST_CASE("a peer that is stopped for less than the retries take is not given up")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 9; // some 2 s
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    REQUIRE(a.read(0, 5000, b.buffer.remote(0, 5000)));
    CHECK(a.sent()->status == work_status::success);
    b.pair.enter();
    REQUIRE(a.read(0, 5000, b.buffer.remote(0, 5000)));
    REQUIRE(a.write(0, 5000, b.buffer.remote(0, 5000)));
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    b.pair.leave();
    CHECK(a.sent()->status == work_status::success);
    CHECK(a.sent()->status == work_status::success);
}

TEST_CASE("B2: of what is lost little more than that is sent again")
{
    inproc_network network;
    settings how = inside(network);
    host here(how);
    how.bad_network = {20, 0, 0, 0, 9};
    host there(how); // loses packets that it receives
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    constexpr std::size_t size = 1 << 20;
    for (int round = 0; round < 10; ++round) {
        REQUIRE(a.write(0, size, b.buffer.remote(0, size)));
        REQUIRE(a.sent().has_value());
    }
    const auto sent = static_cast<double>(a.counts().packets_out);
    const auto resent = static_cast<double>(a.resent());
    MESSAGE("sent ", sent, ", again ", resent);
    CHECK(resent > 0.01 * sent);
    CHECK(resent < 0.3 * sent); // all behind the hole would be more than all that is sent
}

TEST_CASE("the loss of a message that nothing follows is found before the timeout")
{
    inproc_network network;
    settings how = inside(network);
    host here(how);
    how.bad_network = {50, 0, 0, 0, 3};
    host there(how); // loses packets that it receives
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    for (int i = 0; i < 1000; ++i) {
        REQUIRE(a.write(0, 100, b.buffer.remote(0, 100)));
        REQUIRE(a.sent().has_value());
    }
    const pair_counts counts = a.counts();
    MESSAGE("again ", counts.packets_resent, ", after timeouts ", counts.timeouts);
    CHECK(counts.packets_resent > 20);
    CHECK(counts.timeouts < counts.packets_resent / 3); // the probe may be lost as well
}

namespace {

/// Posts a send at this time, by a thread that has the pair's lock, and returns when the timer of
/// the pair runs then.
std::int64_t due_after_post(end &from, std::int64_t now) OSD_REQUIRES(from.pair.lock)
{
    request &r = from.fresh(work::send);
    r.length = 64;
    r.segments = 1;
    r.local[0] = from.buffer.local(0, 64);
    REQUIRE(from.post(r)); // finds the lock taken
    REQUIRE(from.pair.connection().send_at_once(r, now));
    return from.pair.due_ns.load();
}

} // namespace

TEST_CASE("a timer that runs already serves the next send in time, and no other does")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    for (int n = 0; n < 20; ++n)
        REQUIRE((a.receive(0, 64) && b.receive(0, 64)));
    for (int n = 0; n < 10; ++n) {
        REQUIRE(a.send(0, 64));
        REQUIRE(a.sent().has_value());
    }
    a.pair.enter();
    const std::int64_t now = osd::now_ns() + 1'000'000'000; // the thread finds no timer due
    const std::uint64_t sent_again = a.pair.record.counts.packets_resent;
    std::int64_t early = 0;
    SUBCASE("one that runs out early")
    {
        early = now + 1'000'000;
    }
    SUBCASE("one that runs out late")
    {
        early = now + 5'000'000'000;
    }
    SUBCASE("none")
    {
        early = INT64_MAX;
    }
    a.pair.due_ns.store(early);
    network.lose(1);
    std::int64_t due = due_after_post(a, now);
    CHECK(due < now + 100'000'000);
    std::uint32_t resends = 1; // no further look at what has come
    if (due == early) {
        CHECK(a.pair.connection().on_timer(due, resends));
        CHECK(a.pair.record.counts.packets_resent == sent_again); // it is not time
        due = a.pair.due_ns.load();
        CHECK(due > early);
        CHECK(due < now + 100'000'000);
    }
    CHECK(a.pair.connection().on_timer(due, resends));
    CHECK(a.pair.record.counts.packets_resent == sent_again + 1);
    a.pair.leave();
}

namespace {

/// Connections through one bottleneck of 100 Mbit/s with a queue of 64 kB.
struct bottleneck {
    explicit bottleneck(std::uint32_t delay_us)
    {
        settings how = inside(network);
        how.bad_network.delay_us = delay_us;
        here = std::make_unique<host>(how);
        how.bad_network.kbytes_per_s = 12'500;
        how.bad_network.queue = 64'000;
        there = std::make_unique<host>(how);
    }
    /// Each of the connections writes that much.
    void write(unsigned connections, std::size_t megabytes)
    {
        std::deque<end> from;
        std::deque<end> to;
        for (unsigned i = 0; i < connections; ++i) {
            REQUIRE(establish(from.emplace_back(*here), to.emplace_back(*there)));
            from[i].buffer.fill(0, 1 << 20, i);
        }
        for (unsigned i = 0; i < connections; ++i)
            for (std::size_t n = 0; n < megabytes; ++n)
                REQUIRE(from[i].write(0, 1 << 20, to[i].buffer.remote(0, 1 << 20)));
        for (unsigned i = 0; i < connections; ++i) {
            for (std::size_t n = 0; n < megabytes; ++n) {
                const auto done = from[i].sent();
                REQUIRE(done.has_value());
                CHECK(done->status == work_status::success);
            }
            CHECK(to[i].buffer.holds(0, 1 << 20, i));
        }
    }
    /// The part of the datagrams that the bottleneck threw away.
    double lost() const
    {
        const auto &io = static_cast<const impaired_io &>(there->hca.shard_at(0).io());
        return static_cast<double>(io.counted().lost.load()) /
               static_cast<double>(io.counted().seen.load());
    }
    inproc_network network;
    std::unique_ptr<host> here;
    std::unique_ptr<host> there;
};

} // namespace

TEST_CASE("a connection begins with the round-trip time of its handshake")
{
    inproc_network network;
    settings how = inside(network);
    how.bad_network.delay_us = 20'000; // a round trip is longer than the first timeout
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    REQUIRE(a.write(0, 20'000, b.buffer.remote(0, 20'000)));
    REQUIRE(b.write(0, 20'000, a.buffer.remote(0, 20'000)));
    REQUIRE(a.sent().has_value());
    REQUIRE(b.sent().has_value());
    // Nearly all were sent again, of 14; on a busy host one may be.
    CHECK(a.resent() < 4);
    CHECK(b.resent() < 4);
}

TEST_CASE("F8: what a narrow network cannot carry is not sent to it again and again")
{
    for (const unsigned connections : {1u, 4u}) {
        CAPTURE(connections);
        bottleneck way(5'000);
        const auto begin = std::chrono::steady_clock::now();
        way.write(connections, connections == 1 ? 8 : 3);
        MESSAGE(connections, ": lost ", way.lost(), ", ms ",
                std::chrono::duration_cast<std::chrono::milliseconds>(
                    std::chrono::steady_clock::now() - begin)
                    .count());
        CHECK(way.lost() < 0.1); // a fixed window of 256 loses 40 % and more
    }
}

TEST_CASE("B1: every byte is right with checksums by the system, in super-packets and alone")
{
    for (bool together : {true, false})
        for (std::uint32_t datagram : {512u, 1472u, 9000u, 65507u}) {
            CAPTURE(together);
            CAPTURE(datagram);
            settings how = on_loopback();
            how.datagram = datagram;
            host here(how);
            host there(how);
            end a(here);
            end b(there);
            REQUIRE(establish(a, b));
            static_cast<udp_io &>(a.pair.shard->io()).set_segmentation(together);
            exercise(a, b, 6);
        }
}

TEST_SUITE_END();

} // namespace network_suite
