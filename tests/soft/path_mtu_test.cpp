// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams are as large as the path carries, which the handshake finds out.
#include "handshake/path_probe.hpp"
#include "raw_peer.hpp"

#include <doctest/doctest.h>
#include <thread>
#include <utility>
#include <vector>

namespace path_mtu_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

settings probing(inproc_network &network, datagrams kind = datagrams::plain)
{
    settings how = inside(network, kind);
    how.path_mtu = true;
    return how;
}

std::uint32_t datagram_of(end &of)
{
    of.pair.enter();
    const std::uint32_t size = of.pair.connection().path().datagram();
    of.pair.leave();
    return size;
}

/// Moves data in both directions, in requests and in answers.
void expect_data(end &a, end &b)
{
    for (end *from : {&a, &b}) {
        end &to = from == &a ? b : a;
        from->buffer.fill(0, 50'000, 1);
        REQUIRE(from->write(0, 50'000, to.buffer.remote(100'000, 50'000)));
        expect(from->sent(), work_status::success);
        CHECK(to.buffer.holds(100'000, 50'000, 1));
        REQUIRE(from->read(200'000, 50'000, to.buffer.remote(100'000, 50'000)));
        expect(from->sent(), work_status::success);
        CHECK(from->buffer.holds(200'000, 50'000, 1));
    }
}

/// The largest datagrams in each direction; 0: all.
struct carried {
    std::uint32_t to_listener;
    std::uint32_t to_caller;
};

/// Whichever of the two calls.
void expect_of_both(const settings &one, const settings &other, std::uint32_t datagram)
{
    host here(one), there(other);
    for (const bool calls : {true, false}) {
        CAPTURE(calls);
        end a(here), b(there);
        REQUIRE((calls ? establish(a, b) : establish(b, a)));
        CHECK(datagram_of(a) == datagram);
        CHECK(datagram_of(b) == datagram);
    }
}

} // namespace

TEST_SUITE_BEGIN("path_mtu");

TEST_CASE("sizes that are tried")
{
    const auto tried = [](std::uint32_t largest) {
        path_probe probe;
        CHECK(probe.begin(largest));
        std::vector<std::uint32_t> sizes;
        for (unsigned i = 0; i < 8; ++i)
            sizes.push_back(probe.next(2));
        return sizes;
    };
    using sizes = std::vector<std::uint32_t>;
    CHECK((tried(1472) == sizes{1472, 1472, 1372, 1372, 1200, 1200, 1200, 1200}));
    CHECK((tried(8972) == sizes{8972, 8972, 1472, 1472, 1372, 1372, 1200, 1200}));
    CHECK((tried(1452) == sizes{1452, 1452, 1372, 1372, 1200, 1200, 1200, 1200}));
    CHECK((tried(1200) == sizes(8, 0)));
    CHECK((tried(512) == sizes(8, 0)));
}

TEST_CASE("an attempt that begins anew goes on where it was")
{
    path_probe probe;
    CHECK(probe.next(1) == 0);
    CHECK(probe.begin(1472));
    CHECK(probe.next(1) == 1472);
    CHECK(probe.next(1) == 1372);
    probe.pause();
    CHECK(probe.next(1) == 0);
    CHECK(probe.largest() == 0);
    CHECK(!probe.begin(1472));
    CHECK(probe.next(1) == 1200);
    CHECK(probe.largest() == 1472);
}

TEST_CASE("a path that carries what the interfaces do")
{
    for (const datagrams kind : all_kinds) {
        CAPTURE(static_cast<int>(kind));
        inproc_network network;
        host here(probing(network, kind)), there(probing(network, kind));
        end a(here), b(there);
        REQUIRE(establish(a, b));
        CHECK(datagram_of(a) == 1472);
        CHECK(datagram_of(b) == 1472);
        expect_data(a, b);
    }
}

TEST_CASE("a path that carries less, in one direction or in both")
{
    for (const datagrams kind : all_kinds)
        for (const carried &by :
             {carried{1400, 0}, {0, 1400}, {1400, 1250}, {1210, 1210}, {1250, 1400}}) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(by.to_listener);
            CAPTURE(by.to_caller);
            inproc_network network;
            settings how = probing(network, kind);
            how.bad_network.largest = by.to_caller;
            host here(how);
            how.bad_network.largest = by.to_listener;
            host there(how);
            end a(here), b(there);
            REQUIRE(establish(a, b));
            for (end *each : {&a, &b})
                CHECK(datagram_of(*each) >= path_probe::base);
            if (by.to_listener != 0)
                CHECK(datagram_of(a) <= by.to_listener);
            if (by.to_caller != 0)
                CHECK(datagram_of(b) <= by.to_caller);
            else
                CHECK(datagram_of(b) == datagram_of(a)); // nothing larger has come
            expect_data(a, b);
        }
}

TEST_CASE("large frames, on a path that has them and on one that does not")
{
    for (const std::uint32_t carries : {0u, 1472u, 9000u}) {
        CAPTURE(carries);
        inproc_network network;
        settings how = probing(network, datagrams::checked);
        how.datagram = 8972;
        how.bad_network.largest = carries;
        host here(how), there(how);
        end a(here), b(there);
        REQUIRE(establish(a, b));
        for (end *each : {&a, &b})
            CHECK(datagram_of(*each) == (carries == 1472 ? 1472 : 8972));
        expect_data(a, b);
    }
}

TEST_CASE("one side takes smaller datagrams than the other")
{
    inproc_network network;
    settings smaller = probing(network);
    smaller.datagram = 1300;
    expect_of_both(probing(network), smaller, 1300);
}

TEST_CASE("datagrams that are small anyway are not padded")
{
    inproc_network network;
    settings how = probing(network);
    how.datagram = 1200;
    how.bad_network.largest = 1000;
    host here(how), there(how);
    end a(here), b(there);
    REQUIRE(establish(a, b));
    CHECK(datagram_of(a) == 1200);
    CHECK(datagram_of(b) == 1200);
}

TEST_CASE("both sides have to pad")
{
    inproc_network network;
    settings silent = inside(network);
    silent.bad_network.largest = 1300; // no padded request gets through
    expect_of_both(probing(network), silent, 1472);
}

TEST_CASE("a stranger's padding does not make datagrams smaller than any path carries")
{
    inproc_network network;
    host here(probing(network));
    door at(here);
    inproc_io stranger;
    REQUIRE(stranger.open(network, here.hca.settings().address));
    for (const std::uint32_t size : {600u, 1199u, 1300u}) {
        CAPTURE(size);
        handshake hello;
        hello.qualifier = at.number;
        hello.id = size;
        hello.max_datagram = 1472;
        request_packet asks(hello, {.flags = flag_padded});
        const std::vector<std::uint8_t> zeros(size - asks.out.size);
        asks.out.add(zeros.data(), zeros.size());
        REQUIRE(network.deliver(stranger.address(), at.socket->io->address(), asks.out));
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        CHECK(request->carried == (size < path_probe::base ? 0 : size));
        here.hca.listening.reject(*request, reject_code::consumer, nullptr, 0);
    }
}

TEST_CASE("a consumer that takes its time, and round trips that do")
{
    inproc_network network;
    settings how = probing(network);
    SUBCASE("to accept") {}
    SUBCASE("on the way")
    {
        how.bad_network.delay_us = 40'000;
    }
    host here(how), there(how);
    end a(here), b(there);
    door at(there);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    if (how.bad_network.delay_us == 0)
        std::this_thread::sleep_for(400ms); // the request is repeated, and gets smaller
    REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::established));
    CHECK(is(b.next(), connection_event::established));
    CHECK(datagram_of(a) == 1472);
    CHECK(datagram_of(b) == 1472);
    expect_data(a, b);
}

TEST_SUITE_END();

} // namespace path_mtu_suite
