// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the system says of one datagram does no harm to others. ICMP errors can be forged by anybody
// who knows a port.
#include "intercepted.hpp"
#include "raw_peer.hpp"

#include <cerrno>
#include <doctest/doctest.h>
#include <optional>

namespace icmp_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

struct loopback_pair {
    host here{on_loopback()};
    host there{on_loopback()};
    end a{here};
    end b{there};
};

struct socket_pair {
    socket_pair()
    {
        REQUIRE(from.open(on_loopback().address, true) == 0);
        REQUIRE(to.open(on_loopback().address, true) == 0);
    }
    /// Four datagrams that make a super-packet, where there are such. How many arrive.
    std::size_t send()
    {
        constexpr std::uint32_t count = 4;
        out_packet packets[count];
        for (out_packet &each : packets) {
            each.begin();
            each.add(each.header, 100);
        }
        std::uint32_t done = 0;
        CHECK(from.send(to.address(), packets, count, done) == send_result::sent);
        CHECK(done == count);
        std::size_t bytes = 0;
        in_packets got[4];
        CHECK(becomes_true([&] {
            for (std::uint32_t i = to.receive(got, 4); i-- != 0;)
                bytes += got[i].size;
            return bytes == count * 100;
        }));
        return bytes / 100;
    }
    udp_io from;
    udp_io to;
};

} // namespace

TEST_SUITE_BEGIN("icmp");

TEST_CASE_FIXTURE(loopback_pair,
                  "F12: an error of another datagram does not end an attempt to connect")
{
    for (const int error : {EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, EACCES, EPERM, EPROTO}) {
        CAPTURE(error);
        end active(here);
        end passive(there);
        door at(there);
        failing_sends.set(error, 10);
        REQUIRE(active.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        failing_sends.set(error, 10);
        REQUIRE(passive.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        CHECK(is(active.next(), connection_event::established));
        CHECK(is(passive.next(), connection_event::established));
    }
    failing_sends.set(0, 0);
}

TEST_CASE_FIXTURE(loopback_pair, "F12: an address without a route ends the attempt")
{
    net_address nowhere;
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    const std::uint8_t bytes[] = {192, 0, 2, 1}; // cannot be reached from a loopback address
    std::memcpy(&v4.sin_addr, bytes, sizeof bytes);
    REQUIRE(nowhere.assign(reinterpret_cast<sockaddr *>(&v4)));
    REQUIRE(a.pair.connect(nowhere, 4711, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::unreachable));
}

TEST_CASE_FIXTURE(socket_pair, "F12: an ICMP error does not switch super-packets off")
{
    for (const int error :
         {EOPNOTSUPP, EHOSTUNREACH, ECONNREFUSED, EPROTO, ENOPROTOOPT, EMSGSIZE}) {
        CAPTURE(error);
        for (int i = 0; i < 3; ++i) {
            failing_sends.set(error, 1, true);
            CHECK(send() == 4);
            CHECK(from.segments());
        }
    }
}

TEST_CASE_FIXTURE(socket_pair, "F12: super-packets go off when the system refuses two in a row")
{
    for (const int error : {EIO, EINVAL}) {
        from.set_segmentation(true);
        for (int i = 0; i < 3; ++i) { // refuses one batch at a time, like another path
            failing_sends.set(error, 1, true);
            CHECK(send() == 4);
            CHECK(from.segments());
            CHECK(send() == 4);
        }
        failing_sends.set(error, 2, true);
        CHECK(send() == 4);
        CHECK(from.segments());
        CHECK(send() == 4);
        CHECK(!from.segments());
        CHECK(send() == 4);
    }
    failing_sends.set(0, 0);
}

TEST_CASE_FIXTURE(socket_pair,
                  "where a filter refuses calls for several messages, they go and come one by one")
{
    from.set_segmentation(false);
    for (const int error : {ENOSYS, EPERM}) {
        CAPTURE(error);
        batches_refused.store(error);
        CHECK(send() == 4);
        batches_refused.store(0);
    }
}

TEST_CASE_FIXTURE(socket_pair, "a path with a smaller MTU than the interface gets single datagrams")
{
    failing_sends.set(EMSGSIZE, 1000, true); // as Linux says since 6.14, before: EINVAL
    for (int i = 0; i < 3; ++i)
        CHECK(send() == 4);
    CHECK(!from.segments());
    failing_sends.set(0, 0);
}

TEST_CASE_FIXTURE(loopback_pair,
                  "a host that sends no data acknowledges what it receives all the same")
{
    REQUIRE(establish(a, b));
    failing_sends.set(ENOBUFS, 1'000'000, true); // as where a queue is full, of bytes
    REQUIRE(a.write(0, 200'000, b.buffer.remote(0, 200'000)));
    REQUIRE(a.receive(300'000, 16));
    REQUIRE(b.send(0, 16));
    expect(a.received(), work_status::success);
    expect(b.sent(2s), work_status::success);
    failing_sends.set(0, 0);
    expect(a.sent(), work_status::success);
}

TEST_CASE_FIXTURE(loopback_pair, "what the network does not accept is tried ever more rarely")
{
    REQUIRE(establish(a, b));
    REQUIRE(b.receive(0, 64));
    constexpr int many = 1'000'000;
    failing_sends.set(ENETUNREACH, many); // fails like an interface that is down
    REQUIRE(a.send(0, 16));
    bool rarely = false;
    for (int look = 0; look < 8 && !rarely; ++look) { // a busy machine tries in bursts
        const int before = failing_sends.left.load();
        std::this_thread::sleep_for(300ms);
        rarely = before - failing_sends.left.load() < 300; // 900 without a back-off, 3 for each try
    }
    CHECK(rarely);
    failing_sends.set(0, 0);
    expect(a.sent(), work_status::success);
}

TEST_CASE("what a peer has sent before its port was closed counts, though it is read later")
{
    settings how = on_loopback();
    how.direct = how.rings = false;
    host here{how};
    std::optional<host> there{std::in_place, how};
    end a{here};
    std::optional<end> b{std::in_place, *there};
    REQUIRE(establish(a, *b));
    remote_segment beyond = b->buffer.remote(0, 8);
    beyond.address += b->buffer.bytes.size();
    errors_first.store(static_cast<int>(a.pair.shard->io().descriptor()));
    REQUIRE(a.write(0, 8, beyond));
    CHECK(is(b->next(), connection_event::broken));
    b.reset();
    there.reset();
    expect(a.sent(), work_status::remote_access);
    CHECK(errors_first.exchange(-1) == -1);
}

TEST_CASE_FIXTURE(loopback_pair, "F12: a consumer that waits does not spin on ICMP errors")
{
    REQUIRE(establish(a, b));
    REQUIRE(a.receive(0, 64));
    net_address closed_port;
    {
        udp_io gone;
        REQUIRE(gone.open(on_loopback().address, false) == 0);
        closed_port = gone.address();
    }
    int slept = 0;
    const auto began = std::chrono::steady_clock::now();
    std::thread waiter([&] {
        const int before = sleeps_here;
        completion_record done;
        while (!a.receive_queue.pop(done))
            if (a.receive_queue.wait({}, osd::deadline::after_us(20'000'000)) !=
                osd::wait_result::woken)
                break;
        slept = sleeps_here - before;
    });
    constexpr int errors = 20;
    for (int i = 0; i < errors; ++i) {
        out_packet out;
        out.begin();
        out.add(out.header, write_base(out.header, {packet_kind::ack, 0, 1, 2, 3, 4, 0, 0}));
        std::uint32_t done = 0;
        (void)a.pair.shard->io().send(closed_port, &out, 1, done);
        std::this_thread::sleep_for(5ms);
    }
    REQUIRE(b.send(0, 8));
    waiter.join();
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK(slept < 10 * errors + took / 1ms); // a thread that spins comes to thousands
}

TEST_SUITE_END();

} // namespace icmp_suite
