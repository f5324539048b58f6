// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A reset queue pair starts from scratch: nothing that an earlier peer caused affects the next one.
#include "raw_peer.hpp"

#include <doctest/doctest.h>

namespace reset_suite {

using namespace rig;

namespace {

using std::chrono::milliseconds;

settings with_large_datagrams(inproc_network &network)
{
    settings how = inside(network);
    how.datagram = largest_datagram;
    return how;
}

struct fixture {
    fixture() : there(with_large_datagrams(network)), b(there) {}

    /// Ends the connection, if any, resets the queue pair and connects it to a new peer.
    raw_peer &reconnect(std::uint32_t credit = 1 << 20)
    {
        if (peer.has_value())
            REQUIRE(there.hca.reset_pair(b.pair));
        peer.reset();
        peer.emplace(network, b, credit);
        return *peer;
    }
    inproc_network network;
    host there;
    end b;
    std::optional<raw_peer> peer;
};

template <class Action>
milliseconds time_of(Action &&action)
{
    const auto begin = std::chrono::steady_clock::now();
    action();
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
}

/// Whether `attempt` succeeds once in a few times: a busy machine may delay an attempt.
bool succeeds_once(const std::function<bool()> &attempt)
{
    for (int tries = 0; tries < 5; ++tries)
        if (attempt())
            return true;
    return false;
}

} // namespace

TEST_SUITE_BEGIN("reset");

TEST_CASE_FIXTURE(fixture, "receiver-not-ready back-off starts anew")
{
    const auto refuse = [&](raw_peer &from) {
        from.acknowledge(from.expected, 0, flag_receiver_not_ready);
        REQUIRE(from.next(packet_kind::data).has_value());
    };
    CHECK(succeeds_once([&] {
        raw_peer &slow = reconnect();
        REQUIRE(b.send(0, 8));
        REQUIRE(slow.next(packet_kind::data).has_value());
        for (int i = 0; i < 8; ++i)
            refuse(slow); // delays grow up to 20 ms
        raw_peer &fresh = reconnect();
        REQUIRE(b.send(0, 8));
        REQUIRE(fresh.next(packet_kind::data).has_value());
        return time_of([&] { refuse(fresh); }) < milliseconds(10);
    }));
}

TEST_CASE_FIXTURE(fixture, "the interval of credit probes starts anew")
{
    const auto probe = [&] {
        REQUIRE(peer->next(packet_kind::probe).has_value());
        peer->acknowledge_all();
    };
    const auto run_out = [&] {
        reconnect(1); // less than the first message needs
        REQUIRE(b.send(0, 8));
        probe();
    };
    CHECK(succeeds_once([&] {
        run_out();
        for (int i = 0; i < 4; ++i)
            probe(); // the next would come after 320 ms
        run_out();
        return time_of(probe) < milliseconds(100);
    }));
}

TEST_CASE_FIXTURE(fixture, "bytes that an earlier peer sent do not hasten acknowledgements")
{
    const auto write = [&](std::uint32_t number, std::size_t size) {
        ddp_segment s;
        s.opcode = rdmap::write;
        s.last = true;
        s.stag = b.buffer.key;
        s.offset = b.buffer.remote(0, 1).address;
        peer->send(peer->first_psn + number, peer->expected, s, size, flag_late_ack);
    };
    CHECK(succeeds_once([&] {
        reconnect();
        write(0, 60000);
        write(1, 60000);
        peer->send_reset(); // the connection ends before they are acknowledged
        REQUIRE(is(b.next(), connection_event::disconnected));
        reconnect();
        write(0, 20000);
        return !peer->next(packet_kind::ack, milliseconds(0)).has_value();
    }));
}

TEST_CASE_FIXTURE(fixture, "requests and responses take turns from the start")
{
    reconnect();
    REQUIRE(b.send(0, 8)); // makes it the turn of a response
    REQUIRE(peer->next(packet_kind::data).has_value());
    reconnect();
    ddp_segment read;
    read.opcode = rdmap::read_request;
    read.last = true;
    read.msn = 1;
    read.read_size = 8;
    read.source_stag = b.buffer.key;
    read.source_offset = b.buffer.remote(0, 1).address;
    b.pair.enter(); // keeps the choice until both are there
    peer->post(peer->first_psn, peer->expected, read);
    REQUIRE(b.send(0, 8));
    b.pair.lock.unlock(); // unlike leave(), sends nothing
    const auto first = peer->next(packet_kind::data);
    REQUIRE(first.has_value());
    CHECK(first->segment.opcode == rdmap::send);
}

TEST_SUITE_END();

} // namespace reset_suite
