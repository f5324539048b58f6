// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets from senders that are not the peer.
#include "rig.hpp"

#include <doctest/doctest.h>

#include <iterator>
#include <random>

namespace hostile_suite {

using namespace rig;

namespace {

/// A connection, and a third party that can send to its sockets.
struct fixture {
    fixture() : here(inside(network)), there(inside(network)), a(here), b(there)
    {
        REQUIRE(establish(a, b));
        REQUIRE(stranger.open(network, here.hca.settings().address));
        REQUIRE(b.receive(0, 64));
    }
    /// Sends to b, from the stranger or, forging the address, from a.
    void send(const base_header &base, const std::uint8_t *body, std::size_t size,
              bool as_peer = false)
    {
        out_packet out;
        out.begin();
        out.add(out.header, write_base(out.header, base));
        out.add(body, size);
        const net_address &from = as_peer ? a.pair.shard->io().address() : stranger.address();
        REQUIRE(network.deliver(from, b.pair.shard->io().address(), out));
    }
    /// The connection stands and works.
    void expect_unharmed()
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(!a.next(std::chrono::milliseconds(0)).has_value());
        CHECK(!b.next(std::chrono::milliseconds(0)).has_value());
        a.buffer.fill(0, 64, 1);
        REQUIRE(a.send(0, 64));
        const auto got = b.received();
        REQUIRE(got.has_value());
        CHECK(got->status == work_status::success);
        CHECK(b.buffer.holds(0, 64, 1));
    }
    base_header forged(packet_kind kind)
    {
        base_header base;
        base.kind = kind;
        base.to = b.pair.identity.id;
        base.from = a.pair.identity.id;
        base.tag = 0x12345678;
        return base;
    }
    inproc_network network;
    host here;
    host there;
    inproc_io stranger;
    end a;
    end b;
};

constexpr packet_kind kinds[] = {packet_kind::data,      packet_kind::ack,    packet_kind::probe,
                                 packet_kind::accept,    packet_kind::reject, packet_kind::close,
                                 packet_kind::close_ack, packet_kind::reset,  packet_kind::retry};

std::size_t body_of(packet_kind kind, std::uint8_t *body, end &to)
{
    ddp_segment write;
    write.opcode = rdmap::write;
    write.last = true;
    write.stag = to.buffer.key; // even who knows the key is not the peer
    write.offset = to.buffer.remote(0, 1).address;
    std::size_t size = 0;
    switch (kind) {
    case packet_kind::data:
        size = write_segment(body, write);
        body[size] = 0xbb;
        return size + 1;
    case packet_kind::ack:
        return write_sack(body, nullptr, 0);
    case packet_kind::accept: {
        handshake h;
        h.max_datagram = 1472;
        return write_accept(body, h, nullptr, 0);
    }
    case packet_kind::reject:
        return write_reject(body, reject_code::no_listener, nullptr, 0);
    case packet_kind::close:
        return write_close(body, {});
    default:
        return 0;
    }
}

} // namespace

TEST_SUITE_BEGIN("hostile");

TEST_CASE_FIXTURE(fixture, "B7, B13: from another address nothing is taken, whatever it knows")
{
    std::uint8_t body[256];
    for (packet_kind kind : kinds) {
        const std::size_t size = body_of(kind, body, b);
        b.buffer.bytes[0] = 0;
        send(forged(kind), body, size);
    }
    expect_unharmed();
}

TEST_CASE_FIXTURE(fixture, "B13: with a forged address and guessed numbers nothing is taken either")
{
    std::mt19937 random(7);
    std::uint8_t body[256];
    for (int round = 0; round < 300; ++round)
        for (packet_kind kind : kinds) {
            base_header base = forged(kind);
            base.tag = static_cast<std::uint32_t>(random());
            base.psn = static_cast<std::uint32_t>(random());
            base.ack = static_cast<std::uint32_t>(random());
            send(base, body, body_of(kind, body, b), true);
        }
    CHECK(becomes_true([&] { return b.counts().dropped > 1000; }));
    expect_unharmed();
}

TEST_CASE_FIXTURE(fixture, "B13: start numbers, ids, tags and keys of connections differ")
{
    end c(here);
    end d(there);
    REQUIRE(establish(c, d));
    CHECK((a.pair.identity.id >> 16) != (c.pair.identity.id >> 16));
    CHECK(a.buffer.key != c.buffer.key);
}

TEST_CASE_FIXTURE(fixture, "noise of every length is dropped")
{
    std::mt19937 random(11);
    for (int round = 0; round < 3000; ++round) {
        std::uint8_t noise[200];
        const std::size_t size = random() % sizeof noise;
        for (std::size_t i = 0; i < size; ++i)
            noise[i] = static_cast<std::uint8_t>(random());
        if (size > 2 && round % 2 == 0) {
            noise[0] = wire_version;
            noise[1] = static_cast<std::uint8_t>(1 + random() % 9);
        }
        out_packet out;
        out.begin();
        out.add(noise, size == 0 ? 1 : size);
        CHECK(network.deliver(a.pair.shard->io().address(), b.pair.shard->io().address(), out));
    }
    expect_unharmed();
}

TEST_CASE_FIXTURE(fixture, "packets of no connection are counted, and counts outlive a queue pair")
{
    const auto strays = [&] { return there.hca.counts().strays; };
    const auto dropped = [&] { return there.hca.counts().pairs.dropped; };
    const std::uint8_t nothing[] = {0};
    base_header unknown = forged(packet_kind::probe);
    unknown.to ^= 0x10000;
    send(unknown, nothing, 0);
    CHECK(becomes_true([&] { return strays().unknown == 1; }));
    out_packet noise;
    noise.begin();
    noise.add(nothing, 1);
    CHECK(network.deliver(stranger.address(), b.pair.shard->io().address(), noise));
    CHECK(becomes_true([&] { return strays().malformed == 1; }));
    const std::uint64_t before = dropped();
    {
        end c(here);
        end d(there);
        REQUIRE(establish(c, d));
        base_header guessed = forged(packet_kind::probe);
        guessed.to = d.pair.identity.id;
        send(guessed, nothing, 0, true);
        CHECK(becomes_true([&] { return dropped() == before + 1; }));
    }
    CHECK(dropped() > before); // packets after the end of a connection count, too
    expect_unharmed();
}

TEST_CASE("requests of strangers cost little: no answer is longer than the question")
{
    CHECK(base_size + reject_size <= base_size + request_size);
    inproc_network network;
    host there(inside(network));
    inproc_io stranger;
    REQUIRE(stranger.open(network, there.hca.settings().address));
    for (int i = 0; i < 100; ++i) {
        base_header base;
        base.kind = packet_kind::probe;
        base.to = static_cast<std::uint32_t>(i);
        out_packet out;
        out.begin();
        out.add(out.header, write_base(out.header, base));
        CHECK(network.deliver(stranger.address(), there.hca.shard_at(0).io().address(), out));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    in_packets got[64];
    std::uint32_t answers = 0;
    while (const std::uint32_t count = stranger.receive(got, 64)) {
        answers += count;
        for (std::uint32_t i = 0; i < count; ++i)
            CHECK(got[i].size == base_size);
    }
    CHECK(answers < 100); // answers are fewer than questions
}

TEST_CASE("a flood of connection requests is bounded, and honest ones still get through after it")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    inproc_io stranger;
    REQUIRE(stranger.open(network, there.hca.settings().address));
    door at(there);
    at.takes = false;
    for (std::uint32_t i = 0; i < 6000; ++i) {
        handshake hello;
        hello.qualifier = at.number;
        hello.id = i;
        hello.max_datagram = 1472;
        const request_packet asks(hello);
        CHECK(network.deliver(stranger.address(), at.socket->io->address(), asks.out));
    }
    CHECK(becomes_true([&] { return !there.hca.listening.remembers(); }));
    at.takes = true;
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    CHECK(at.next() != nullptr);
}

namespace {

/// Listeners without a device: a test is the thread that serves them.
struct some_listeners {
    some_listeners()
    {
        REQUIRE(stranger.open(network, how.address));
        REQUIRE(all.open(how, tell, nullptr));
        all.reject_from(stranger);
        for (std::size_t i = 0; i < std::size(at); ++i)
            REQUIRE(all.add(at[i], numbers[i], &offered[i]) == 0);
    }
    ~some_listeners()
    {
        for (listener &each : at)
            all.remove(each);
    }
    void ask(std::size_t which, std::uint64_t qualifier, std::uint32_t id)
    {
        handshake hello;
        hello.qualifier = qualifier;
        hello.id = id;
        hello.max_datagram = 1472;
        const request_packet asks(hello);
        REQUIRE(network.deliver(stranger.address(), at[which].socket->io->address(), asks.out));
    }

    inproc_network network;
    settings how = inside(network);
    upcalls tell = [] {
        upcalls table{};
        table.request = [](void *owner, inbound_request &) {
            ++*static_cast<int *>(owner);
            return false;
        };
        return table;
    }();
    inproc_io stranger;
    connections all;
    listener at[2];
    std::uint64_t numbers[2] = {};
    int offered[2] = {};
};

} // namespace

TEST_CASE("a flood at one listener does not keep the others waiting")
{
    some_listeners l;
    std::size_t flooded = 0;
    SUBCASE("at the first")
    {
        flooded = 0;
    }
    SUBCASE("at the last")
    {
        flooded = 1;
    }
    for (std::uint32_t i = 0; i < 1000; ++i)
        l.ask(flooded, l.numbers[flooded] + 0x10000, i);
    l.ask(1 - flooded, l.numbers[1 - flooded], 7);
    l.all.serve();
    CHECK(l.offered[1 - flooded] == 1);
    CHECK(l.offered[flooded] == 0);
    in_packets got[64];
    std::uint32_t answers = 0;
    while (const std::uint32_t count = l.stranger.receive(got, 64))
        answers += count;
    CHECK(answers > 100); // the flooded one had its turn
    CHECK(answers < 300); // the limit holds
}

TEST_SUITE_END();

} // namespace hostile_suite
