// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams, and what strangers may send to queue pairs of datagrams and of exchanges.
#include "rig.hpp"

#include <doctest/doctest.h>

namespace datagrams_suite {

using namespace rig;

namespace {

constexpr end_options for_datagrams{.use = pair_use::datagrams};

bool send_datagram(end &from, const datagram_address &to, std::size_t size, std::uint8_t flags = 0)
{
    request &r = from.fresh(work::datagram);
    r.segments = 1;
    r.local[0] = from.buffer.local(0, size);
    r.length = static_cast<std::uint32_t>(size);
    r.flags = flags;
    r.remote.address = reinterpret_cast<std::uintptr_t>(&to);
    return from.pair.post_datagram(r);
}

struct fixture {
    explicit fixture(datagrams kind = datagrams::plain)
        : here(inside(network, kind)), there(inside(network, kind)), a(here, for_datagrams),
          b(there, for_datagrams), to_b(b.pair.address())
    {
        REQUIRE(stranger.open(network, here.hca.settings().address));
    }
    /// From a stranger to b.
    void forge(const base_header &base, const std::uint8_t *body, std::size_t size)
    {
        out_packet out;
        out.begin();
        out.add(out.header, write_base(out.header, base));
        out.add(body, size);
        REQUIRE(network.deliver(stranger.address(), to_b.at, out));
    }
    base_header right_header() const
    {
        base_header base;
        base.kind = packet_kind::datagram;
        base.to = to_b.id;
        base.tag = to_b.tag;
        return base;
    }
    bool is_answered()
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        in_packets got[4];
        return stranger.receive(got, 4) != 0;
    }
    inproc_network network;
    host here;
    host there;
    end a;
    end b;
    const datagram_address to_b;
    inproc_io stranger;
};

constexpr auto soon = std::chrono::milliseconds(20);

} // namespace

TEST_SUITE_BEGIN("datagrams");

TEST_CASE("a datagram completes at once, and arrives behind a header with both addresses")
{
    for (const datagrams kind : {datagrams::plain, datagrams::checked}) {
        fixture f(kind);
        REQUIRE(f.b.receive(100, 240));
        f.a.buffer.fill(0, 200, 3);
        REQUIRE(send_datagram(f.a, f.to_b, 200, request_solicited));
        expect(f.a.sent(), work_status::success);
        const auto got = f.b.received();
        expect(got, work_status::success);
        CHECK(got->length == 240);
        CHECK(got->extra == brought::sender);
        CHECK(got->immediate == f.a.pair.identity.id);
        CHECK(got->solicited);
        CHECK(f.b.buffer.holds(140, 200, 3));
        const std::uint8_t *const header = f.b.buffer.bytes.data() + 100;
        CHECK(header[0] == 0x60);
        CHECK(header[5] == 200);
        std::uint8_t sender[16] = {};
        f.a.pair.address().at.copy_host(sender);
        CHECK(std::memcmp(header + 8 + 12, sender, 4) == 0);
    }
}

TEST_CASE("strangers without the tag reach no receive, and get no answer")
{
    fixture f;
    REQUIRE(f.b.receive(0, 240));
    const std::uint8_t body[8] = {};
    base_header wrong = f.right_header();
    SUBCASE("another tag")
    {
        ++wrong.tag;
    }
    SUBCASE("another queue pair")
    {
        wrong.to ^= 0x10000;
    }
    SUBCASE("a number where none belongs")
    {
        wrong.psn = 1;
    }
    SUBCASE("an unknown flag")
    {
        wrong.flags = 1;
    }
    SUBCASE("a message of a connection")
    {
        wrong.kind = packet_kind::data;
    }
    f.forge(wrong, body, sizeof body);
    CHECK(!f.b.received(soon).has_value());
    if (wrong.to == f.to_b.id)
        CHECK(!f.is_answered());
    f.forge(f.right_header(), body, sizeof body);
    expect(f.b.received(), work_status::success);
}

TEST_CASE("a flood without receives is counted, and nothing of it is kept")
{
    fixture f;
    const std::uint8_t body[64] = {};
    constexpr std::uint64_t many = 2000;
    for (std::uint64_t i = 0; i < many; ++i)
        f.forge(f.right_header(), body, sizeof body);
    CHECK(becomes_true([&] { return f.b.counts().not_ready == many; }));
    REQUIRE(f.b.receive(0, 40 + 8)); // too short for later datagrams
    f.forge(f.right_header(), body, sizeof body);
    f.forge(f.right_header(), body, 8);
    const auto got = f.b.received();
    expect(got, work_status::success);
    CHECK(got->length == 48);
    CHECK(f.b.counts().dropped == 1);
}

TEST_CASE("a queue pair with a connection takes no datagrams")
{
    fixture f;
    end c(f.here);
    end d(f.there);
    REQUIRE(establish(c, d));
    REQUIRE(d.receive(0, 240));
    REQUIRE(send_datagram(f.a, d.pair.address(), 8));
    CHECK(!d.received(soon).has_value());
    CHECK(d.counts().dropped == 1);
    REQUIRE(c.send(0, 8));
    expect(d.received(), work_status::success);
}

TEST_CASE("what is posted to memory without rights fails alone")
{
    fixture f;
    request &r = f.a.fresh(work::datagram);
    r.segments = 1;
    r.local[0] = f.a.buffer.local(0, 8);
    r.local[0].key ^= 0x5555;
    r.length = 8;
    r.remote.address = reinterpret_cast<std::uintptr_t>(&f.to_b);
    REQUIRE(f.a.pair.post_datagram(r));
    expect(f.a.sent(), work_status::local_protection);
    REQUIRE(f.b.receive(0, 240));
    REQUIRE(send_datagram(f.a, f.to_b, 8));
    expect(f.a.sent(), work_status::success);
    expect(f.b.received(), work_status::success);
}

TEST_CASE("after it was abandoned, posts come back flushed; a reset gives another address")
{
    fixture f;
    REQUIRE(f.b.receive(0, 240));
    f.b.pair.abandon();
    expect(f.b.received(), work_status::flushed);
    const datagram_address to_a = f.a.pair.address();
    REQUIRE(send_datagram(f.b, to_a, 8));
    expect(f.b.sent(), work_status::flushed);
    REQUIRE(f.there.hca.reset_pair(f.b.pair));
    REQUIRE(f.b.receive(0, 240));
    REQUIRE(send_datagram(f.a, f.to_b, 8));
    expect(f.a.sent(), work_status::success);
    CHECK(!f.b.received(soon).has_value());
    const datagram_address again = f.b.pair.address();
    REQUIRE(send_datagram(f.a, again, 8));
    expect(f.b.received(), work_status::success);
}

TEST_CASE("an exchange brings private data both ways, and its connection has ended then")
{
    fixture f;
    end c(f.here, {.use = pair_use::exchange});
    end d(f.there, {.use = pair_use::exchange});
    door at(f.there);
    REQUIRE(c.pair.connect(at.of.hca.settings().address, at.number, "question", 8) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    CHECK(request->exchange);
    CHECK(std::string(reinterpret_cast<const char *>(request->data), request->data_size) ==
          "question");
    REQUIRE(d.pair.accept(*request, "answer", 6) == queue_pair::start::begun);
    const auto told = c.next();
    REQUIRE(is(told, connection_event::established));
    CHECK(told->data == "answer");
    CHECK(is(d.next(), connection_event::established));
    const auto is_over = [](end &each) {
        each.pair.enter();
        const bool dead = each.pair.connection().current().is(connection_state::state::dead);
        each.pair.leave();
        return dead;
    };
    CHECK(becomes_true([&] { return is_over(c) && is_over(d); }));
    CHECK(!c.next(soon).has_value());
    CHECK(!d.next(soon).has_value());
}

TEST_SUITE_END();

} // namespace datagrams_suite
