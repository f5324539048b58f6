// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Why a connection ended, as the device tells it: before the event, and only where no consumer has
// closed it.
#include "raw_peer.hpp"

#include <doctest/doctest.h>

namespace ends_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

struct fixture {
    fixture() : here(inside(network)), there(inside(network)), a(here), b(there)
    {
        REQUIRE(establish(a, b));
    }
    inproc_network network;
    host here;
    host there;
    end a;
    end b;
};

/// The device's report on a connection, which comes before this event.
connection_end end_of(end &of, end_cause cause, const std::optional<told> &event)
{
    const bool by_reset = cause == end_cause::reset;
    CHECK(is(event, by_reset ? connection_event::disconnected : connection_event::broken));
    const std::optional<connection_end> how = of.ended();
    REQUIRE(how.has_value());
    CHECK(how->cause == cause);
    CHECK(how->lived_ns > 0);
    CHECK(how->silent_ns >= 0);
    CHECK(how->silent_ns <= how->lived_ns);
    return *how;
}
connection_end end_of(end &of, end_cause cause)
{
    return end_of(of, cause, of.next());
}

/// It was with this peer.
void check_peer(const connection_end &how, const end &of, const end &peer)
{
    CHECK(how.peer == peer.pair.shard->io().address());
    CHECK(how.id == of.pair.identity.id);
    CHECK(how.peer_id == peer.pair.identity.id);
}

} // namespace

TEST_SUITE_BEGIN("ends");

TEST_CASE_FIXTURE(fixture, "a connection that a consumer has closed leaves no record of its end")
{
    SUBCASE("after all that was posted")
    {
        a.pair.disconnect(true);
    }
    SUBCASE("at once")
    {
        a.pair.disconnect(false);
    }
    SUBCASE("without an event")
    {
        a.pair.abandon();
    }
    SUBCASE("by the end of its queue pair")
    {
        here.hca.free_pair(a.pair);
        a.alive = false;
    }
    CHECK(is(b.next(), connection_event::disconnected));
    CHECK(!b.ended().has_value());
    (void)a.next(50ms);
    CHECK(!a.ended().has_value());
}

TEST_CASE("a packet that is not acknowledged, however often it is sent")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 4;
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    expect(a.sent(), work_status::success);
    b.pair.enter(); // a thread that reads its packets waits
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    const auto event = a.next();
    b.pair.leave();
    const connection_end told = end_of(a, end_cause::no_acknowledgement, event);
    check_peer(told, a, b);
    CHECK(told.unanswered_ns > 30'000'000); // the sum of 5, 10, 20 and 40 ms, less a margin
    CHECK(told.unanswered_ns <= told.silent_ns);
    CHECK(told.retransmissions == how.retries); // what probes the tail is none
    CHECK(told.counts.timeouts == 5);
    CHECK(told.counts.packets_resent >= 4);
    CHECK(told.counts.packets_in >= 1);
    CHECK(told.counts.gave_up == 1);
}

TEST_CASE_FIXTURE(fixture, "a port that is closed")
{
    network.detach(static_cast<inproc_io &>(b.pair.shard->io())); // no close is sent
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    check_peer(end_of(a, end_cause::port_closed), a, b);
}

TEST_CASE_FIXTURE(fixture, "a port that is closed, where errors come for probes only")
{
    network.report_to_probes_only();
    network.detach(static_cast<inproc_io &>(b.pair.shard->io()));
    SUBCASE("below a request")
    {
        REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    }
    SUBCASE("below a message that waits for a receive")
    {
        REQUIRE(a.send(0, 16));
    }
    const connection_end told = end_of(a, end_cause::port_closed);
    check_peer(told, a, b);
    CHECK(told.retransmissions < 8);
}

TEST_CASE("a peer that does not know the connection")
{
    inproc_network network;
    host there(inside(network));
    end b(there);
    raw_peer peer(network, b);
    peer.send_reset();
    CHECK(end_of(b, end_cause::reset).peer == peer.address());
}

TEST_CASE("users of the engine need not be told")
{
    upcalls few = upcall_table;
    few.ended = nullptr;
    few.trouble = nullptr;
    host here(on_loopback(), few), there(on_loopback(), few);
    end a(here), b(there);
    REQUIRE(establish(a, b));
    remote_segment beyond = b.buffer.remote(0, 8);
    beyond.key ^= 1;
    REQUIRE(a.write(0, 8, beyond));
    expect(a.sent(), work_status::remote_access);
    CHECK(is(a.next(), connection_event::broken));
    CHECK(is(b.next(), connection_event::broken));
}

TEST_CASE("a consumer that leaves at the first failed completion is told, too")
{
    static std::atomic<bool> busy; // the thread that makes the upcalls
    busy = false;
    upcalls slow = upcall_table;
    slow.connection = [](void *owner, connection_event what, const void *data, std::size_t size) {
        upcall_table.connection(owner, what, data, size);
        while (what == connection_event::disconnected && busy)
            std::this_thread::yield();
    };
    inproc_network network;
    host here(inside(network), slow), there(inside(network));
    end a(here), b(there), c(here), d(there);
    REQUIRE(establish(a, b));
    REQUIRE(establish(c, d));
    busy = true;
    d.pair.disconnect(false);
    CHECK(is(c.next(), connection_event::disconnected));
    remote_segment beyond = b.buffer.remote(0, 8);
    beyond.address += b.buffer.bytes.size();
    REQUIRE(a.write(0, 8, beyond));
    expect(a.sent(), work_status::remote_access);
    SUBCASE("frees")
    {
        here.hca.free_pair(a.pair);
        a.alive = false;
    }
    SUBCASE("abandons")
    {
        a.pair.abandon();
    }
    busy = false;
    const std::optional<connection_end> how = a.ended();
    REQUIRE(how.has_value());
    CHECK(how->cause == end_cause::failed_at_peer);
}

TEST_CASE_FIXTURE(fixture, "an access that is refused, on both sides")
{
    remote_segment wrong = b.buffer.remote(0, 16);
    wrong.address += b.buffer.bytes.size();
    REQUIRE(a.write(0, 16, wrong));
    const connection_end at_initiator = end_of(a, end_cause::failed_at_peer);
    const connection_end at_target = end_of(b, end_cause::refused_here);
    check_peer(at_initiator, a, b);
    check_peer(at_target, b, a);
    CHECK(at_initiator.found == fault::base_or_bounds);
    CHECK(at_target.found == fault::base_or_bounds);
    CHECK(at_initiator.status == work_status::remote_access);
    CHECK(at_target.status == work_status::success);
    CHECK(at_initiator.counts.refused_by_peer == 1);
    CHECK(at_target.counts.refused == 1);
}

TEST_CASE("a peer that breaks the rules")
{
    inproc_network network;
    host there(inside(network));
    end b(there);
    raw_peer peer(network, b);
    REQUIRE(b.receive(0, 64));
    peer.send_message(peer.first_psn, 7); // the first is 1
    const connection_end told = end_of(b, end_cause::refused_here);
    CHECK(told.found == fault::invalid_msn);
    CHECK(told.counts.rules_broken == 1);
}

TEST_CASE_FIXTURE(fixture, "a request that may not use its own memory")
{
    request &r = a.fresh(work::write);
    r.segments = 1;
    r.local[0] = a.buffer.local(0, 16);
    r.local[0].key += 1;
    r.length = 16;
    r.remote = b.buffer.remote(0, 16);
    REQUIRE(a.post(r));
    const connection_end told = end_of(a, end_cause::request_failed);
    CHECK(told.status == work_status::local_protection);
    const connection_end at_peer = end_of(b, end_cause::failed_at_peer);
    CHECK(at_peer.found == fault::local_catastrophic);
    CHECK(at_peer.status == work_status::success); // none of its own
}

TEST_CASE_FIXTURE(fixture, "a receive that is too small, on both sides")
{
    REQUIRE(b.receive(0, 8));
    REQUIRE(a.send(0, 64));
    const connection_end told = end_of(b, end_cause::receive_failed);
    CHECK(told.found == fault::message_too_long);
    CHECK(told.status == work_status::local_length);
    CHECK(end_of(a, end_cause::failed_at_peer).status == work_status::remote_operation);
}

TEST_CASE("a response that finds no memory any more")
{
    inproc_network network;
    host there(inside(network));
    end b(there);
    raw_peer peer(network, b);
    memory gone(there, 64);
    request &r = b.fresh(work::read);
    r.segments = 1;
    r.local[0] = gone.local(0, 8);
    r.length = 8;
    r.remote = {0x1000, 8, 77};
    REQUIRE(b.post(r));
    const auto question = peer.next(packet_kind::data);
    REQUIRE(question.has_value());
    REQUIRE(there.hca.remove_region(gone.region));
    ddp_segment answer;
    answer.opcode = rdmap::read_response;
    answer.last = true;
    answer.stag = question->segment.sink_stag;
    peer.send(peer.first_psn, peer.taken, answer, 8);
    CHECK(end_of(b, end_cause::request_failed).status == work_status::local_protection);
}

TEST_CASE("a response that does not come, though the question was acknowledged")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 7; // some 1.1 s
    how.keepalive_ms = 50;
    host there(how);
    end b(there);
    raw_peer peer(network, b);
    REQUIRE(b.read(0, 8, {0x1000, 8, 77}));
    std::optional<connection_end> told;
    CHECK(becomes_true([&] {
        peer.acknowledge_all();
        told = b.ended();
        return told.has_value();
    }));
    REQUIRE(told.has_value());
    CHECK(told->cause == end_cause::no_response);
    CHECK(told->silent_ns < told->lived_ns / 2); // the peer lives
}

TEST_CASE("more receives of a shared queue than a queue pair may hold")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    inbox owner;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    {
        int receiver = 0;
        end a(here);
        end b(there, {.shared = &shared, .receiver = &receiver});
        REQUIRE(establish(a, b));
        for (int i = 0; i < 4; ++i) {
            request &r = b.fresh(work::receive);
            r.segments = 1;
            r.local[0] = b.buffer.local(0, 64);
            r.length = 64;
            REQUIRE(shared.post(r));
        }
        SUBCASE("when the next message comes")
        {
            b.pair.set_watermarks({.hard = 1});
            for (int i = 0; i < 2; ++i)
                REQUIRE(a.send(0, 8));
        }
        SUBCASE("when that is said")
        {
            for (int i = 0; i < 2; ++i) {
                REQUIRE(a.send(0, 8));
                expect(a.sent(), work_status::success);
            }
            b.pair.set_watermarks({.hard = 1});
        }
        (void)end_of(b, end_cause::watermark);
    }
    there.hca.free_shared(shared);
}

TEST_CASE_FIXTURE(fixture, "each connection of a queue pair has its own cause and counts")
{
    for (int i = 0; i < 50; ++i) {
        REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
        expect(a.sent(), work_status::success);
    }
    remote_segment wrong = b.buffer.remote(0, 16);
    wrong.address += b.buffer.bytes.size();
    REQUIRE(a.write(0, 16, wrong));
    CHECK(end_of(a, end_cause::failed_at_peer).counts.packets_out > 50);
    (void)end_of(b, end_cause::refused_here);
    REQUIRE(here.hca.reset_pair(a.pair));
    REQUIRE(there.hca.reset_pair(b.pair));
    REQUIRE(establish(a, b));
    network.detach(static_cast<inproc_io &>(b.pair.shard->io()));
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    const connection_end told = end_of(a, end_cause::port_closed);
    check_peer(told, a, b);
    CHECK(told.counts.packets_out < 50);
    CHECK(told.counts.refused_by_peer == 0);
    CHECK(told.counts.indirect == 1);
}

TEST_SUITE_END();

} // namespace ends_suite
