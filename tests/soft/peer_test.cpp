// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer whose packets come in every order, and a peer that breaks the rules.
#include "raw_peer.hpp"

#include <doctest/doctest.h>

#include <set>

namespace peer_suite {

using namespace rig;

namespace {

/// An end with a shared receive queue, and its peer.
struct shared_fixture {
    shared_fixture() : there(inside(network))
    {
        REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 512));
        b = std::make_unique<end>(there, end_options{.shared = &shared, .receiver = &receiver});
        peer = std::make_unique<raw_peer>(network, *b);
    }
    ~shared_fixture()
    {
        there.hca.free_pair(b->pair);
        b->alive = false;
        there.hca.free_shared(shared);
    }
    void post(unsigned count = 1)
    {
        for (; count != 0; --count) {
            request &r = b->fresh(work::receive);
            r.segments = 1;
            r.local[0] = b->buffer.local(0, 100);
            r.length = 100;
            REQUIRE(shared.post(r));
        }
    }
    unsigned received()
    {
        unsigned count = 0;
        for (completion_record done; b->receive_queue.pop(done); ++count)
            CHECK(done.status == work_status::success);
        return count;
    }
    inproc_network network;
    host there;
    inbox owner;
    shared_receives shared;
    int receiver = 0;
    std::unique_ptr<end> b;
    std::unique_ptr<raw_peer> peer;
};

settings with_retries(inproc_network &network, std::uint32_t retries)
{
    settings how = inside(network);
    how.retries = retries;
    how.keepalive_ms = 50;
    return how;
}

/// An end and a peer that answers its questions.
struct asked_fixture {
    explicit asked_fixture(std::uint32_t retries = settings{}.retries)
        : there(with_retries(network, retries)), b(there), peer(network, b)
    {}
    /// Posts a read or an atomic operation; the packet in which it arrives.
    packet ask(bool reading)
    {
        const remote_segment elsewhere{0x1000, 8, 77};
        REQUIRE((reading ? b.read(0, 8, elsewhere) : b.fetch_add(0, elsewhere, 1)));
        const std::optional<packet> question = peer.next_new();
        REQUIRE(question.has_value());
        return *question;
    }
    /// Whether this packet comes; others may come again before it.
    bool comes(std::uint32_t psn)
    {
        std::optional<packet> next = peer.next(packet_kind::data);
        while (next.has_value() && next->base.psn != psn)
            next = peer.next(packet_kind::data);
        return next.has_value();
    }
    void answer(const packet &question, std::uint32_t psn, std::uint32_t ack)
    {
        const ddp_segment &asked = question.segment;
        ddp_segment s;
        s.last = true;
        const bool reading = asked.opcode == rdmap::read_request;
        s.opcode = reading ? rdmap::read_response : rdmap::atomic_response;
        s.stag = asked.sink_stag;
        s.request_id = asked.request_id;
        s.msn = 1;
        peer.send(psn, ack, s, reading ? 8 : 0);
    }
    inproc_network network;
    host there;
    end b;
    raw_peer peer;
};

/// An asked_fixture whose end gives up soon.
struct impatient_fixture : asked_fixture {
    impatient_fixture() : asked_fixture(7) {} // some 1.1 s
};

} // namespace

TEST_SUITE_BEGIN("peer");

TEST_CASE_FIXTURE(shared_fixture, "what waits for a shared receive is taken when one is posted")
{
    const std::uint32_t first = peer->first_psn;
    for (std::uint32_t i = 0; i < 6; ++i)
        peer->send_message(first + i, i + 1);
    CHECK(received() == 0);
    unsigned taken = 0;
    const auto takes = [&](unsigned count) {
        return becomes_true([&] { return (taken += received()) == count; });
    };
    post(); // the peer sends nothing any more from here on
    CHECK(takes(1));
    post(2);
    CHECK(takes(3));
    post(5);
    CHECK(takes(6));
    const auto ack = [&] { return peer->next(packet_kind::ack, std::chrono::milliseconds(500)); };
    std::uint32_t last = 0;
    for (auto told = ack(); told.has_value() && last != first + 6; told = ack())
        last = told->base.ack;
    CHECK(last == first + 6);
    peer->send_message(first + 6, 7);
    CHECK(takes(7));
}

TEST_CASE_FIXTURE(asked_fixture, "a peer that is not ready gets again what it said had arrived")
{
    for (std::size_t i = 0; i < 3; ++i)
        REQUIRE(b.send(0, 8));
    const std::uint32_t first = peer.expected;
    for (std::uint32_t i = 0; i < 3; ++i)
        REQUIRE(comes(first + i));
    peer.acknowledge(first, 0b11); // the second and the third
    peer.acknowledge(first + 1, 0b1, flag_receiver_not_ready);
    CHECK(comes(first + 1));
    peer.acknowledge(first + 2); // the flag was lost this time
    CHECK(comes(first + 2));
    peer.acknowledge(first + 3);
    for (int i = 0; i < 3; ++i)
        CHECK(b.sent()->status == work_status::success);
}

TEST_CASE_FIXTURE(asked_fixture, "an answer that acknowledges its question completes it")
{
    for (const bool reading : {true, false}) {
        CAPTURE(reading);
        const packet question = ask(reading);
        answer(question, peer.first_psn + (reading ? 0 : 1), question.base.psn + 1);
        const auto done = b.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == work_status::success);
    }
    while (peer.next(packet_kind::data, std::chrono::milliseconds(0)).has_value()) {
    } // skips packets sent again before
    CHECK(!peer.next(packet_kind::data, std::chrono::milliseconds(100)).has_value());
}

TEST_CASE_FIXTURE(asked_fixture, "an answer to a question that was not acknowledged is refused")
{
    bool reading = false;
    SUBCASE("read")
    {
        reading = true;
    }
    SUBCASE("atomic") {}
    const packet question = ask(reading);
    answer(question, peer.first_psn, question.base.psn);
    // A success would give the memory back to the consumer while it is still a part of packets sent
    // again.
    const auto done = b.sent();
    REQUIRE(done.has_value());
    CHECK(done->status != work_status::success);
    CHECK(is(b.next(), connection_event::broken));
    const auto why = peer.next(packet_kind::close);
    REQUIRE(why.has_value());
    CHECK(why->closing.code == close_code::terminate);
    b.requests.clear(); // a sanitizer sees who looks at it
    CHECK(!peer.next(packet_kind::data, std::chrono::milliseconds(100)).has_value());
}

TEST_CASE_FIXTURE(shared_fixture, "a kept message that comes again in order is taken once")
{
    const std::uint32_t first = peer->first_psn;
    peer->send_message(first, 1);
    peer->send_message(first + 1, 2); // early, and kept
    post();
    peer->send_message(first, 1);
    post();
    peer->send_message(first + 1, 2); // its selective acknowledgement was lost
    CHECK(received() == 2);
    post(300);
    unsigned count = 2;
    for (; count < 300; ++count) {
        peer->send_message(first + count, count + 1);
        if (const auto event = b->next(std::chrono::milliseconds(0))) {
            CAPTURE(count);
            CHECK(!event.has_value());
            break;
        }
    }
    CHECK(count == 300);
    CHECK(received() == 298);
}

TEST_CASE_FIXTURE(impatient_fixture, "a question that is acknowledged and never answered breaks "
                                     "the connection")
{
    bool reading = false;
    SUBCASE("read")
    {
        reading = true;
    }
    SUBCASE("atomic"){}(void)ask(reading);
    // The peer is there, and takes all that comes.
    const auto begin = std::chrono::steady_clock::now();
    std::optional<told> event;
    while (!event && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
        peer.acknowledge_all();
        event = b.next(std::chrono::milliseconds(20));
    }
    CHECK(is(event, connection_event::broken));
    const auto done = b.sent(std::chrono::milliseconds(100));
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::transport);
}

TEST_CASE_FIXTURE(impatient_fixture, "an answer that comes in slow pieces is waited for")
{
    constexpr std::uint32_t pieces = 12;
    REQUIRE(b.read(0, 8 * pieces, {0x1000, 8 * pieces, 77}));
    const auto question = peer.next(packet_kind::data);
    REQUIRE(question.has_value());
    for (std::uint32_t i = 0; i < pieces; ++i) {
        ddp_segment s;
        s.opcode = rdmap::read_response;
        s.last = i + 1 == pieces;
        s.stag = question->segment.sink_stag;
        s.offset = 8 * i;
        peer.acknowledge_all();
        peer.send(peer.first_psn + i, peer.taken, s, 8);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
    }
    const auto done = b.sent();
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::success);
}

TEST_CASE(
    "F11: peers that leave holes do not take the memory of the device, nor the share of others")
{
    inproc_network network;
    settings how = inside(network);
    how.early_bytes = 1 << 20;
    host there(how);
    std::deque<end> ends;
    std::deque<raw_peer> hoarders;
    ddp_segment segment;
    segment.opcode = rdmap::send;
    segment.last = true;
    segment.msn = 2;
    for (int i = 0; i < 4; ++i) {
        ends.emplace_back(there);
        hoarders.emplace_back(network, ends.back());
        for (std::uint32_t ahead = 1; ahead < 60; ++ahead)
            hoarders.back().send(hoarders.back().first_psn + ahead, hoarders.back().expected,
                                 segment, 20'000);
    }
    CHECK(there.hca.early.counted().bytes <= how.early_bytes);
    CHECK(there.hca.early.counted().bytes > how.early_bytes / 2);
    CHECK(there.hca.early.counted().evicted > 0);
    end b(there);
    raw_peer honest(network, b);
    for (std::uint32_t i = 0; i < 20; ++i)
        REQUIRE(b.receive(0, 100));
    for (std::uint32_t i = 1; i < 20; ++i)
        honest.send_message(honest.first_psn + i, i + 1);
    honest.send_message(honest.first_psn, 1); // all others were kept
    for (std::uint32_t i = 0; i < 20; ++i) {
        const auto got = b.received(std::chrono::seconds(2));
        REQUIRE(got.has_value());
        CHECK(got->status == work_status::success);
    }
    for (end &each : ends) // no end loses its connection by it
        CHECK(!each.next(std::chrono::milliseconds(0)).has_value());
}

TEST_CASE("F16: of the reads that a connection was told, not one more is answered at a time")
{
    inproc_network network;
    host there(inside(network));
    end b(there, end_options{.reads = 3});
    raw_peer peer(network, b);
    ddp_segment read;
    read.opcode = rdmap::read_request;
    read.last = true;
    read.read_size = 8;
    read.source_stag = b.buffer.key;
    read.source_offset = b.buffer.remote(0, 1).address;
    for (read.msn = 1; read.msn <= 3; ++read.msn) {
        peer.send(peer.first_psn + read.msn - 1, peer.expected, read);
        REQUIRE(peer.next_new().has_value());
    }
    CHECK(!b.next(std::chrono::milliseconds(10)).has_value());
    peer.send(peer.first_psn + 3, peer.expected, read); // no answer was acknowledged
    CHECK(peer.next(packet_kind::close, std::chrono::seconds(2)).has_value());
    CHECK(is(b.next(), connection_event::broken));
}

TEST_CASE_FIXTURE(asked_fixture,
                  "F11: what the peer had and has dropped is sent again without a timeout")
{
    constexpr std::uint32_t count = 6;
    for (std::uint32_t i = 0; i < count; ++i)
        REQUIRE(b.send(0, 8));
    const std::uint32_t first = peer.expected;
    for (std::uint32_t i = 0; i < count; ++i)
        REQUIRE(peer.next_new().has_value());
    while (peer.next(packet_kind::data, std::chrono::milliseconds(0)).has_value()) {
    } // what timeouts have brought again on a busy machine
    peer.acknowledge(first, 0b11111);
    REQUIRE(comes(first));
    peer.acknowledge(first + 1);   // keeps none of the others
    std::set<std::uint32_t> again; // by timeouts it would be the oldest, several times
    for (std::uint32_t i = 0; i < 4 * count && again.size() < count - 1; ++i)
        if (const auto next = peer.next(packet_kind::data); next && next->base.psn != first)
            again.insert(next->base.psn);
    for (std::uint32_t i = 1; i < count; ++i)
        CHECK(again.contains(first + i));
    peer.acknowledge(first + count);
    for (std::uint32_t i = 0; i < count; ++i)
        CHECK(b.sent()->status == work_status::success);
}

namespace {

/// The network reports that a packet with this header did not arrive.
void report(end &of, const net_address &to, send_result why, const base_header &quoted)
{
    icmp_error error{};
    error.to = to;
    error.why = why;
    error.size = write_base(error.bytes, quoted);
    of.pair.enter();
    of.pair.connection().on_icmp_error(error, quoted, osd::now_ns());
    of.pair.leave();
}

/// Reports errors that quote nearly the end's packets.
void report_forged(end &of, const net_address &to, const base_header &sent)
{
    for (const send_result why : {send_result::refused, send_result::unreachable}) {
        net_address elsewhere = to;
        elsewhere.set_port(static_cast<std::uint16_t>(to.port() + 1));
        report(of, elsewhere, why, sent);
        base_header quoted = sent;
        quoted.tag ^= 1;
        report(of, to, why, quoted);
        quoted = sent;
        for (const std::uint32_t away : {2u, 5'000u, 0x80000000u, 0xffffe000u}) {
            quoted.psn = sent.psn + away;
            report(of, to, why, quoted);
        }
    }
    CHECK(!of.next(std::chrono::milliseconds(20)).has_value());
}

} // namespace

TEST_CASE_FIXTURE(asked_fixture,
                  "F12: an ICMP error ends a connection if it quotes a packet in flight")
{
    REQUIRE(b.send(0, 8));
    const auto sent = peer.next(packet_kind::data);
    REQUIRE(sent.has_value());
    report_forged(b, peer.address(), sent->base);
    report(b, peer.address(), send_result::unreachable, sent->base); // routes come back
    CHECK(!b.next(std::chrono::milliseconds(20)).has_value());
    report(b, peer.address(), send_result::refused, sent->base);
    CHECK(is(b.next(), connection_event::broken));
}

TEST_CASE("F12: an ICMP error ends an attempt to connect if it quotes the request")
{
    inproc_network network;
    host here(inside(network));
    inproc_io silent;
    REQUIRE(silent.open(network, here.hca.settings().address));
    end a(here);
    REQUIRE(a.pair.connect(silent.address(), silent.address().port(), nullptr, 0) ==
            queue_pair::start::begun);
    in_packets group;
    REQUIRE(becomes_true([&] { return silent.receive(&group, 1) != 0; }));
    packet request;
    REQUIRE(parse(group.bytes, group.size, request));
    report_forged(a, silent.address(), request.base);
    report(a, silent.address(), send_result::unreachable, request.base);
    CHECK(is(a.next(), connection_event::unreachable));
}

TEST_SUITE_END();

} // namespace peer_suite
