// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer whose address changes, and strangers who make it look like that.
#include "connection/address_change.hpp"
#include "net/inproc_io.hpp"
#include "rig.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <mutex>
#include <vector>

namespace moves_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

const net_address &address_of(const end &of)
{
    return of.pair.shard->io().address();
}

net_address at_port(const net_address &of, std::uint16_t port)
{
    net_address other = of;
    other.set_port(port);
    return other;
}

void expect_write(end &from, end &to)
{
    from.buffer.fill(0, 50'000, 3);
    REQUIRE(from.write(0, 50'000, to.buffer.remote(100'000, 50'000)));
    expect(from.sent(), work_status::success);
    CHECK(to.buffer.holds(100'000, 50'000, 3));
}

/// Two connected ends, and what one sends.
struct fixture {
    fixture() : fixture(datagrams::plain) {}
    explicit fixture(datagrams kind)
        : here(inside(network, kind)), there(inside(network, kind)), a(here), b(there)
    {
        REQUIRE(establish(a, b));
        network.listen_in(
            [](void *self, const net_address &from, const net_address &to, const out_packet &p) {
                static_cast<fixture *>(self)->hear(from, to, p);
            },
            this);
    }
    ~fixture() { network.listen_in(nullptr, nullptr); }

    void hear(const net_address &from, const net_address &to, const out_packet &p)
    {
        if (from == address_of(a)) {
            const std::lock_guard hold(lock);
            heard = flattened(p);
        }
        if (to == elsewhere)
            ++sent_elsewhere;
    }
    std::vector<std::uint8_t> latest()
    {
        const std::lock_guard hold(lock);
        return heard;
    }
    /// Delivers a packet as if it came from elsewhere.
    void deliver_from_elsewhere(const std::vector<std::uint8_t> &bytes)
    {
        out_packet packet;
        packet.begin();
        packet.add(bytes.data(), bytes.size());
        CHECK(network.deliver(elsewhere, address_of(b), packet));
    }

    inproc_network network;
    host here, there;
    end a, b;
    const net_address elsewhere = at_port(address_of(a), 40'000);
    std::atomic<int> sent_elsewhere{0};
    std::mutex lock;
    std::vector<std::uint8_t> heard; ///< the latest packet of a
};

} // namespace

TEST_SUITE_BEGIN("moves");

TEST_CASE("a challenge is for one address, and is answered once")
{
    address_change moves;
    const net_address one = at_port(on_loopback().address, 1);
    const net_address two = at_port(one, 2);
    CHECK(!moves.is_answered(one, 0));
    const std::uint64_t token = moves.challenge(one, 1);
    REQUIRE(token != 0);
    CHECK(!moves.is_answered(two, token));
    CHECK(!moves.is_answered(one, token + 1));
    CHECK(!moves.is_answered(one, 0));
    CHECK(moves.is_answered(one, token));
    CHECK(!moves.is_answered(one, token));
    const std::uint64_t next = moves.challenge(one, 2);
    CHECK(next != token);
    const std::uint64_t other = moves.challenge(two, 2);
    CHECK(other != next);
    CHECK(!moves.is_answered(one, next));
    CHECK(moves.is_answered(two, other));
}

TEST_CASE("a challenge is repeated, but not for each packet")
{
    address_change moves;
    const net_address from = at_port(on_loopback().address, 1);
    const std::uint64_t token = moves.challenge(from, 1);
    CHECK(moves.challenge(from, 2) == 0);
    CHECK(moves.challenge(from, 9'000'000) == 0);
    CHECK(moves.challenge(from, 11'000'000) == token);
    CHECK(moves.challenge(from, 12'000'000) == 0);
}

TEST_CASE("a connection goes on when an address changes")
{
    for (const datagrams kind : all_kinds) {
        CAPTURE(static_cast<int>(kind));
        fixture f(kind);
        expect_write(f.a, f.b);
        for (std::uint16_t port = 30'000; port < 30'003; ++port) {
            f.network.translate(address_of(f.a), at_port(address_of(f.a), port));
            expect_write(f.a, f.b);
            expect_write(f.b, f.a);
            expect_write(f.a, f.b);
        }
        CHECK(!f.a.ended().has_value());
        CHECK(!f.b.ended().has_value());
    }
}

TEST_CASE_FIXTURE(fixture, "a peer that is idle is found when it shows that it lives")
{
    network.translate(address_of(a), at_port(address_of(a), 30'000));
    expect_write(b, a); // packets to the former address are lost until then
    expect_write(a, b);
}

TEST_CASE_FIXTURE(fixture, "a packet that is sent again from elsewhere diverts nothing")
{
    expect_write(a, b);
    const std::vector<std::uint8_t> packet = latest();
    const auto begin = osd::now_ns();
    for (unsigned i = 0; i < 500; ++i)
        deliver_from_elsewhere(packet);
    REQUIRE(becomes_true([&] { return sent_elsewhere != 0; }));
    expect_write(b, a);
    expect_write(a, b);
    const auto periods = (osd::now_ns() - begin) / 10'000'000;
    CHECK(sent_elsewhere <= periods + 1);
}

TEST_CASE_FIXTURE(fixture, "nor does an answer that guesses")
{
    expect_write(a, b);
    std::vector<std::uint8_t> packet = latest();
    deliver_from_elsewhere(packet);
    REQUIRE(becomes_true([&] { return sent_elsewhere != 0; }));
    packet.resize(base_size + challenge_size);
    packet[1] = static_cast<std::uint8_t>(packet_kind::response);
    packet[2] = packet[3] = 0; // flags
    for (const std::uint8_t guess : {0, 1, 255}) {
        std::fill(packet.end() - challenge_size, packet.end(), guess);
        deliver_from_elsewhere(packet);
    }
    const int before = sent_elsewhere;
    expect_write(b, a);
    expect_write(a, b);
    CHECK(sent_elsewhere == before);
}

#ifdef SOFT_HCA_KEYS

TEST_CASE("with a key a packet that is sent again does not even draw a challenge")
{
    fixture f(datagrams::sealed);
    expect_write(f.a, f.b);
    f.deliver_from_elsewhere(f.latest());
    expect_write(f.b, f.a);
    expect_write(f.a, f.b);
    CHECK(f.sent_elsewhere == 0);
}

#endif

TEST_SUITE_END();

} // namespace moves_suite
