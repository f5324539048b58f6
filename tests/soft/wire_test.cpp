// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser takes the documented packets, byte for byte, and nothing else.
#include "../rounds.hpp"
#include "wire/crc32c.hpp"
#include "wire/wire.hpp"
#include "written_again.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace wire_suite {

using namespace soft_hca;
using test_run::rounds;

namespace {

base_header sample_base(packet_kind kind)
{
    return {kind, 0, 0x01020304, 0x11121314, 0x21222324, 0x31323334, 0x41424344, 0x51525354};
}

bytes with_base(packet_kind kind, std::uint16_t flags = 0)
{
    bytes out(base_size);
    base_header base = sample_base(kind);
    base.flags = flags;
    CHECK(write_base(out.data(), base) == base_size);
    return out;
}

bytes data_packet(const ddp_segment &s, std::size_t payload = 0)
{
    bytes out = with_base(packet_kind::data);
    std::uint8_t header[max_header_size];
    const std::size_t size = write_segment(header, s);
    CHECK(size == header_size(s.opcode));
    out.insert(out.end(), header, header + size);
    for (std::size_t i = 0; i < payload; ++i)
        out.push_back(static_cast<std::uint8_t>(i));
    return out;
}

ddp_segment sample_segment(rdmap opcode)
{
    ddp_segment s;
    s.opcode = opcode;
    s.last = true;
    s.stag = 0xa1a2a3a4;
    s.offset = 0xb1b2b3b4b5b6b7b8;
    s.msn = 0xc1c2c3c4;
    s.invalidate = 0xd1d2d3d4;
    s.sink_stag = 1;
    s.sink_offset = 2;
    s.read_size = 3;
    s.source_stag = 4;
    s.source_offset = 5;
    s.request_id = 6;
    s.swap_or_add = 7;
    s.swap_or_add_mask = 8;
    s.compare = 9;
    s.compare_mask = 10;
    s.original = 11;
    s.immediate = 12;
    return s;
}

bool parses(const bytes &in)
{
    packet p;
    return parse(in.data(), in.size(), p);
}

bytes retry_naming(version_set versions)
{
    base_header base = sample_base(packet_kind::retry);
    base.ack = versions;
    bytes out(base_size);
    CHECK(write_retry(out.data(), base) == base_size);
    return out;
}

std::vector<bytes> one_of_each()
{
    std::vector<bytes> all;
    for (rdmap opcode : all_opcodes) {
        const bool has_payload = header_size(opcode) <= untagged_size;
        all.push_back(data_packet(sample_segment(opcode), has_payload ? 20 : 0));
    }
    for (packet_kind kind : {packet_kind::probe, packet_kind::close_ack, packet_kind::reset})
        all.push_back(with_base(kind));
    all.push_back(retry_naming(set_of(1) | set_of(5)));
    const auto add = [&all](packet_kind kind, const std::uint8_t *body, std::size_t size) {
        bytes out = with_base(kind);
        out.insert(out.end(), body, body + size);
        all.push_back(out);
    };
    std::uint8_t body[512];
    const std::uint32_t words[] = {0x5, 0x80000000};
    add(packet_kind::ack, body, write_sack(body, words, 2));
    handshake hello;
    hello.qualifier = 0x1122334455667788;
    hello.id = 0x21222324;
    hello.max_datagram = 1472;
    add(packet_kind::request, body, write_request(body, hello, "abc", 3));
    add(packet_kind::accept, body, write_accept(body, hello, "abcd", 4));
    add(packet_kind::reject, body, write_reject(body, reject_code::consumer, "xy", 2));
    add(packet_kind::close, body,
        write_close(body, {close_code::terminate, fault::base_or_bounds, 77}));
    for (packet_kind kind : {packet_kind::challenge, packet_kind::response})
        add(kind, body, write_token(body, 0x1122334455667788));
    return all;
}

/// Some bytes or bits of it changed, or its length.
void mutate(bytes &in, std::mt19937 &random)
{
    for (unsigned changes = random() % 4; changes-- != 0;) {
        std::uint8_t &at = in[random() % in.size()];
        at = random() % 2 != 0 ? static_cast<std::uint8_t>(random())
                               : static_cast<std::uint8_t>(at ^ 1u << random() % 8);
    }
    if (random() % 4 == 0)
        in.resize(random() % (in.size() + 8));
}

/// `at`: where the datagram is, if that is another place.
void expect_inside(const packet &p, const bytes &in, const std::uint8_t *at = nullptr)
{
    at = at != nullptr ? at : in.data();
    if (p.base.kind == packet_kind::data) {
        CHECK(p.segment.payload + p.segment.payload_size == at + in.size());
        CHECK(p.segment.payload_size <= in.size());
    }
    CHECK(p.private_size <= max_private_data);
    CHECK(p.sack_words <= max_sack_words);
}

} // namespace

TEST_SUITE_BEGIN("wire");

TEST_CASE("the base header is big-endian, as documented")
{
    const bytes out = with_base(packet_kind::probe);
    const bytes wanted = {1,    3,    0,    0,    0x01, 0x02, 0x03, 0x04, 0x11, 0x12,
                          0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34,
                          0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 0x53, 0x54};
    CHECK(out == wanted);
}

TEST_CASE("a write segment has the layout of RFC 5041 and 5040")
{
    const bytes out = data_packet(sample_segment(rdmap::write));
    const bytes wanted = {0xc1, 0x40, 0xa1, 0xa2, 0xa3, 0xa4, 0xb1,
                          0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8};
    CHECK(bytes(out.begin() + base_size, out.end()) == wanted);
}

TEST_CASE("a send segment has the layout of RFC 5041 and 5040")
{
    ddp_segment s = sample_segment(rdmap::send_invalidate);
    s.message_offset = 0x00010203;
    const bytes out = data_packet(s);
    const bytes wanted = {0x41, 0x44, 0xd1, 0xd2, 0xd3, 0xd4, 0,    0,    0,
                          0,    0xc1, 0xc2, 0xc3, 0xc4, 0x00, 0x01, 0x02, 0x03};
    CHECK(bytes(out.begin() + base_size, out.end()) == wanted);
}

TEST_CASE("B8: an atomic request has the layout of RFC 7306, in 64-bit big-endian words")
{
    ddp_segment s = sample_segment(rdmap::atomic_request);
    s.atomic = atomic_code::compare_swap;
    s.swap_or_add = 0x0102030405060708;
    s.compare = 0x1112131415161718;
    const bytes out = data_packet(s);
    REQUIRE(out.size() == base_size + 70);
    const std::uint8_t *rdmap_part = out.data() + base_size + untagged_size;
    CHECK(rdmap_part[3] == 2); // CmpSwap
    const std::uint8_t swap[] = {1, 2, 3, 4, 5, 6, 7, 8};
    CHECK(std::memcmp(rdmap_part + 20, swap, 8) == 0);
    const std::uint8_t compare[] = {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
    CHECK(std::memcmp(rdmap_part + 36, compare, 8) == 0);
}

TEST_CASE("what is written is read again, field for field")
{
    for (rdmap opcode : all_opcodes) {
        CAPTURE(static_cast<int>(opcode));
        const ddp_segment s = sample_segment(opcode);
        const bool has_payload = header_size(opcode) <= untagged_size;
        const bytes in = data_packet(s, has_payload ? 20 : 0);
        packet p;
        REQUIRE(parse(in.data(), in.size(), p));
        CHECK(p.base.to == 0x01020304);
        CHECK(p.base.credit == 0x51525354);
        CHECK(p.segment.opcode == opcode);
        CHECK(p.segment.last);
        CHECK(p.segment.payload_size == (has_payload ? 20 : 0));
        CHECK(p.segment.stag == (s.tagged() ? s.stag : 0));
        CHECK(p.segment.msn == (s.tagged() ? 0 : s.msn));
        if (opcode == rdmap::read_request) {
            CHECK(p.segment.sink_offset == 2);
            CHECK(p.segment.source_offset == 5);
        }
        if (opcode == rdmap::atomic_request) {
            CHECK(p.segment.swap_or_add == 7);
            CHECK(p.segment.swap_or_add_mask == 8);
            CHECK(p.segment.compare == 9);
            CHECK(p.segment.compare_mask == 10);
        }
        if (opcode == rdmap::atomic_response)
            CHECK(p.segment.original == 11);
    }
}

TEST_CASE("selective acknowledgements carry several blocks")
{
    const std::uint32_t words[] = {0xf0f0f0f0, 0, 1};
    bytes in = with_base(packet_kind::ack, flag_receiver_not_ready);
    std::uint8_t body[64];
    const std::size_t size = write_sack(body, words, 3);
    in.insert(in.end(), body, body + size);
    packet p;
    REQUIRE(parse(in.data(), in.size(), p));
    CHECK(p.sack_words == 3);
    CHECK(p.sack[0] == 0xf0f0f0f0);
    CHECK(p.sack[2] == 1);
    CHECK(p.base.flags == flag_receiver_not_ready);
}

TEST_CASE("B6: no packet is taken whose length does not fit, shorter or longer")
{
    for (const bytes &whole : one_of_each()) {
        REQUIRE(parses(whole));
        packet p;
        REQUIRE(parse(whole.data(), whole.size(), p));
        const bool open_ended =
            p.base.kind == packet_kind::data && header_size(p.segment.opcode) <= untagged_size;
        const std::size_t least =
            open_ended ? base_size + header_size(p.segment.opcode) : whole.size();
        for (std::size_t size = 0; size < least; ++size) {
            // Exactly as large as it claims, so that a sanitizer sees each byte read beyond it.
            const bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            CHECK(!parses(cut));
        }
        bytes longer = whole;
        longer.push_back(0);
        CHECK(parses(longer) == open_ended);
    }
}

TEST_CASE("a padded request or accept has zeros at its end, and says so")
{
    for (const packet_kind kind : {packet_kind::request, packet_kind::accept}) {
        bytes in = with_base(kind, flag_padded);
        std::uint8_t body[512];
        handshake hello;
        hello.id = 0x21222324;
        hello.max_datagram = 1472;
        const std::size_t size = kind == packet_kind::request ? write_request(body, hello, "abc", 3)
                                                              : write_accept(body, hello, "abc", 3);
        in.insert(in.end(), body, body + size);
        CHECK(parses(in)); // there may be none
        const std::size_t behind = in.size();
        in.resize(1472);
        packet p;
        REQUIRE(parse(in.data(), in.size(), p));
        CHECK(p.private_size == 3);
        CHECK(std::memcmp(p.private_data, "abc", 3) == 0);
        CHECK(p.padding == 1472 - behind);
        CHECK(written_again(p, in.size()) == in);
        for (const std::size_t at : {behind, in.size() - 1}) {
            bytes wrong = in;
            wrong[at] = 1;
            CHECK(!parses(wrong));
        }
        in.resize(behind - 1); // cuts off a byte of the private data
        CHECK(!parses(in));
    }
}

TEST_CASE("a padded rejection is none")
{
    bytes in = with_base(packet_kind::reject, flag_padded);
    std::uint8_t body[64];
    const std::size_t size = write_reject(body, reject_code::consumer, "xy", 2);
    in.insert(in.end(), body, body + size);
    CHECK(!parses(in));
}

TEST_CASE("every unknown version, kind, flag, opcode and reserved bit is refused")
{
    bytes in = data_packet(sample_segment(rdmap::send), 4);
    const auto changed = [&in](std::size_t at, std::uint8_t value) {
        bytes out = in;
        out[at] = value;
        return out;
    };
    REQUIRE(parses(in));
    CHECK(!parses(changed(0, 2)));
    CHECK(!parses(changed(0, 0)));
    for (unsigned kind : {0u, 13u, 255u})
        CHECK(!parses(changed(1, static_cast<std::uint8_t>(kind))));
    for (unsigned bit = 0; bit < 16; ++bit) {
        CAPTURE(bit);
        const std::uint16_t flags = static_cast<std::uint16_t>(1u << bit);
        const bool known = flags == flag_late_ack;
        CHECK(parses(changed(bit < 8 ? 3 : 2, static_cast<std::uint8_t>(1u << bit % 8))) == known);
    }
    for (unsigned bit = 0; bit < 8; ++bit) {
        const bool last_flag = bit == 6;
        CAPTURE(bit);
        // The last flag may be missing, because there is a payload.
        CHECK(parses(changed(base_size, static_cast<std::uint8_t>(0x41 ^ 1u << bit))) == last_flag);
    }
    for (unsigned opcode : {7u, 12u, 15u})
        CHECK(!parses(changed(base_size + 1, static_cast<std::uint8_t>(0x40 | opcode))));
    CHECK(!parses(changed(base_size + 1, 0x03))); // RDMAP version 0
    CHECK(!parses(changed(base_size + 9, 1)));    // queue number
    CHECK(!parses(changed(base_size + 5, 1)));    // an STag to invalidate, in a plain send
}

namespace {

/// Turns a datagram into version 2.
bytes with_checksum(bytes in)
{
    in[0] = checked_version;
    if (in[1] == static_cast<std::uint8_t>(packet_kind::request))
        in[23] = understands_retry, in[20] = in[21] = in[22] = 0;
    std::uint8_t end[checksum_size];
    CHECK(write_checksum(end, crc32c(in.data(), in.size())) == checksum_size);
    in.insert(in.end(), std::begin(end), std::end(end));
    return in;
}

} // namespace

TEST_CASE("version 2 is version 1 with a checksum at the end, which sees every wrong bit")
{
    for (const bytes &plain : one_of_each()) {
        CAPTURE(static_cast<int>(plain[1]));
        const bytes whole = with_checksum(plain);
        packet p;
        const bool wanted = plain[1] != static_cast<std::uint8_t>(packet_kind::retry);
        REQUIRE(parse(whole.data(), whole.size(), p) == wanted);
        if (!wanted)
            continue;
        CHECK(p.base.version == checked_version);
        expect_inside(p, bytes(whole.begin(), whole.end() - checksum_size), whole.data());
        CHECK(with_checksum(written_again(p)) == whole);
        for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
            CAPTURE(bit);
            bytes wrong = whole;
            wrong[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
            CHECK(!parses(wrong));
        }
        for (std::size_t size = 0; size < whole.size(); ++size)
            CHECK(!parses(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))));
    }
}

TEST_CASE("a request of version 2 understands a retry")
{
    bytes in = with_base(packet_kind::request);
    std::uint8_t body[512];
    handshake hello;
    hello.id = 0x21222324;
    hello.max_datagram = 1472;
    const std::size_t size = write_request(body, hello, nullptr, 0);
    in.insert(in.end(), body, body + size);
    in[0] = checked_version;
    const auto parses_with = [&in](std::uint8_t ack) {
        bytes out = in;
        out[20] = out[21] = out[22] = 0;
        out[23] = ack;
        std::uint8_t end[checksum_size];
        (void)write_checksum(end, crc32c(out.data(), out.size()));
        out.insert(out.end(), std::begin(end), std::end(end));
        return parses(out);
    };
    CHECK(parses_with(1));
    CHECK(!parses_with(0));
    CHECK(!parses_with(2));
}

TEST_CASE("a retry names versions under a checksum, or none")
{
    bytes none = with_base(packet_kind::retry);
    CHECK(!parses(none)); // its ack and credit have wrong values
    std::fill(none.begin() + 20, none.end(), std::uint8_t{0});
    CHECK(parses(none));
    const bytes right = retry_naming(set_of(1) | set_of(31));
    packet p;
    REQUIRE(parse(right.data(), right.size(), p));
    CHECK(versions_in(p.base) == 0x80000002);
    CHECK(!parses(retry_naming(set_of(0) | set_of(1))));
    for (std::size_t bit = 0; bit < 8 * right.size(); ++bit) {
        CAPTURE(bit);
        bytes wrong = right;
        wrong[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
        CHECK((!parses(wrong) || wrong[1] != right[1]));
    }
}

TEST_CASE("the newest version of a set")
{
    CHECK(newest_of(0) == 0);
    CHECK(newest_of(set_of(1)) == 1);
    CHECK(newest_of(set_of(1) | set_of(2)) == 2);
    CHECK(newest_of(set_of(1) | set_of(31)) == 31);
}

namespace {

bytes reference_packet(const ddp_segment &s, const far_payload &where)
{
    bytes out(base_size + header_size(s.opcode) + reference_size + where.pieces * far_piece_size);
    std::size_t at = write_base(out.data(), sample_base(packet_kind::reference));
    at += write_segment(out.data() + at, s);
    at += write_far(out.data() + at, where);
    CHECK(at == out.size());
    return out;
}

bool parses_local(const bytes &in)
{
    const bytes exact(in);
    packet p;
    return parse_local(exact.data(), exact.size(), p);
}

} // namespace

TEST_CASE("a reference is a packet of rings only, and says where all of its payload is")
{
    far_payload where;
    where.numbers = 5;
    where.pieces = 3;
    where.piece[0] = {0x1122334455667788, 70'000};
    where.piece[1] = {16, 1};
    where.piece[2] = {UINT64_MAX, UINT32_MAX - 70'001};
    ddp_segment s = sample_segment(rdmap::send_solicited_invalidate);
    const bytes in = reference_packet(s, where);
    CHECK(!parses(in));
    packet p;
    REQUIRE(parse_local(in.data(), in.size(), p));
    CHECK(p.numbers() == 5);
    CHECK(p.segment.payload_size == UINT32_MAX);
    CHECK(p.segment.opcode == s.opcode);
    CHECK(p.segment.msn == s.msn);
    CHECK(p.segment.invalidate == s.invalidate);
    CHECK(p.where.pieces == 3);
    CHECK(p.where.piece[0].address == 0x1122334455667788);
    CHECK(p.where.piece[0].length == 70'000);
    packet again;
    CHECK(parse_again(in.data(), in.size(), again));

    for (std::size_t size = 0; size < in.size(); ++size)
        CHECK(!parses_local(bytes(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size))));
    bytes longer = in;
    longer.push_back(0);
    CHECK(!parses_local(longer));
    constexpr std::size_t at = base_size + untagged_size;
    for (const std::size_t zero : {at + 2, at + 3}) {
        bytes bad = in;
        bad[zero] = 1;
        CHECK(!parses_local(bad));
    }
    for (const unsigned numbers : {0u, 33u, 255u}) {
        bytes bad = in;
        bad[at] = static_cast<std::uint8_t>(numbers);
        CHECK(!parses_local(bad));
    }
    for (const unsigned pieces : {0u, 2u, 4u, 5u, 255u}) {
        bytes bad = in;
        bad[at + 1] = static_cast<std::uint8_t>(pieces);
        CHECK(!parses_local(bad));
    }
    where.piece[1].length = 2; // more than a message can have
    CHECK(!parses_local(reference_packet(s, where)));
    where.piece[1].length = 0;
    CHECK(!parses_local(reference_packet(s, where)));
    where.pieces = 1;
    CHECK(parses_local(reference_packet(s, where)));
    CHECK(!parses_local(reference_packet(sample_segment(rdmap::write), where)));
    CHECK(!parses_local(reference_packet(sample_segment(rdmap::immediate), where)));
    bytes checked = reference_packet(s, where);
    checked[0] = checked_version;
    CHECK(!parses_local(checked));
    CHECK(parses_local(data_packet(s, 4))); // all other packets as from the network
}

TEST_CASE("fuzz: what is parsed stays inside its datagram, and written again is the same bytes")
{
    std::mt19937 random(20261121);
    const std::vector<bytes> seeds = one_of_each();
    std::set<std::pair<int, int>> kinds; // that were taken, and the opcodes of data
    for (unsigned round = 0; round < rounds(400'000); ++round) {
        bytes in = seeds[random() % seeds.size()];
        mutate(in, random);
        const bytes exact(in); // a buffer without slack, for the sanitizer
        packet p;
        if (!parse(exact.data(), exact.size(), p))
            continue;
        expect_inside(p, exact);
        // A bit that the parser does not look at would not survive.
        if (written_again(p) != exact) {
            CAPTURE(static_cast<int>(p.base.kind));
            CAPTURE(static_cast<int>(p.segment.opcode));
            FAIL("a packet was accepted that the writer cannot make");
        }
        const bool data = p.base.kind == packet_kind::data;
        kinds.emplace(static_cast<int>(p.base.kind),
                      data ? static_cast<int>(p.segment.opcode) : -1);
    }
    CHECK(kinds.size() == seeds.size());
}

TEST_CASE("a whole send is read as parse() reads it, and nothing else is one")
{
    std::mt19937 random(20261129);
    const std::vector<bytes> seeds = one_of_each();
    std::set<rdmap> kinds;
    for (unsigned round = 0; round < rounds(400'000); ++round) {
        bytes in = seeds[random() % seeds.size()];
        if (round % 8 != 0)
            mutate(in, random);
        const bytes exact(in); // a buffer without slack, for the sanitizer
        packet p;
        whole_send whole;
        const bool parsed = parse(exact.data(), exact.size(), p);
        const bool read = read_whole_send(exact.data(), exact.size(), whole);
        const bool expected =
            parsed && p.base.version == first_version && p.base.kind == packet_kind::data &&
            p.segment.last && p.segment.opcode >= rdmap::send &&
            p.segment.opcode <= rdmap::send_solicited_invalidate && p.segment.message_offset == 0;
        REQUIRE(read == expected);
        if (!read)
            continue;
        bytes again(max_header_size);
        again.resize(
            write_whole_send(again.data(), whole.base, whole.opcode, whole.invalidate, whole.msn));
        again.insert(again.end(), whole.payload, whole.payload + whole.payload_size);
        REQUIRE(again == exact);
        kinds.insert(whole.opcode);
    }
    CHECK(kinds.size() == 4);
}

TEST_CASE("fuzz: of noise behind a proper beginning, what is taken is written again alike")
{
    std::mt19937 random(20261122);
    for (unsigned round = 0; round < rounds(400'000); ++round) {
        bytes noise(random() % 120);
        for (std::uint8_t &each : noise)
            each = static_cast<std::uint8_t>(random());
        if (noise.size() > base_size + 2 && round % 2 == 0) {
            noise[0] = wire_version;
            noise[1] = static_cast<std::uint8_t>(1 + random() % 9);
            noise[2] = noise[3] = 0;
            noise[base_size] = static_cast<std::uint8_t>(random() % 2 != 0 ? 0x41 : 0xc1);
            noise[base_size + 1] = static_cast<std::uint8_t>(0x40 | random() % 12);
        }
        packet p;
        if (!parse(noise.data(), noise.size(), p))
            continue;
        expect_inside(p, noise);
        REQUIRE(written_again(p) == noise);
    }
}

TEST_SUITE_END();

} // namespace wire_suite
