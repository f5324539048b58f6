// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The checksum, by table and by instruction, and packets sent with it.
#include "rig.hpp"
#include "seal/checked_sender.hpp"
#include "wire/crc32c.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace checksum_suite {

using namespace soft_hca;

namespace {

using bytes = std::vector<std::uint8_t>;
using function = std::uint32_t (*)(const void *, std::size_t, std::uint32_t);

/// The functions that this processor can run.
std::vector<function> ways()
{
    std::vector<function> all{crc32c, crc32c_by_table};
    if (has_crc32c_instruction())
        all.push_back(crc32c_by_instruction);
    else
        MESSAGE("this processor has no instruction for it");
    return all;
}

bytes counting(bool down)
{
    bytes out(32);
    std::iota(out.begin(), out.end(), std::uint8_t{0});
    return down ? bytes(out.rbegin(), out.rend()) : out;
}

/// An iSCSI read command, from the RFC's table of examples.
const bytes read_command = {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                            0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
                            0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
                            0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};

} // namespace

TEST_SUITE_BEGIN("checksum");

TEST_CASE("the examples of RFC 3720, B.4")
{
    for (const function way : ways()) {
        const auto of = [way](const bytes &what) { return way(what.data(), what.size(), 0); };
        CHECK(of(bytes(32, 0)) == 0x8a9136aa);
        CHECK(of(bytes(32, 0xff)) == 0x62a8ab43);
        CHECK(of(counting(false)) == 0x46dd794e);
        CHECK(of(counting(true)) == 0x113fdb5c);
        CHECK(of(read_command) == 0xd9963a56);
        CHECK(way("123456789", 9, 0) == 0xe3069283); // the check value of the catalogues
        CHECK(way(nullptr, 0, 0) == 0);
    }
}

TEST_CASE("every length, place and division into pieces gives the same")
{
    std::mt19937 random(20261125);
    bytes data(600);
    for (std::uint8_t &each : data)
        each = static_cast<std::uint8_t>(random());
    for (std::size_t from = 0; from < 9; ++from)
        for (std::size_t size = 0; size < 80; ++size) {
            const std::uint32_t whole = crc32c_by_table(data.data() + from, size);
            for (const function way : ways()) {
                CHECK(way(data.data() + from, size, 0) == whole);
                const std::size_t first = size == 0 ? 0 : random() % size;
                const std::uint32_t begun = way(data.data() + from, first, 0);
                CHECK(way(data.data() + from + first, size - first, begun) == whole);
            }
        }
    const std::uint32_t right = crc32c(data.data(), data.size());
    for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
        data[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
        CHECK(crc32c(data.data(), data.size()) != right);
        data[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    }
}

namespace {

/// A network that changes the memory of which packets are made before it takes them, as a peer or
/// another thread may do.
class changing_io final : public packet_io {
public:
    explicit changing_io(bytes &memory) : memory_(memory) {}
    const net_address &address() const override { return address_; }
    send_result send(const net_address &, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override
    {
        std::fill(memory_.begin(), memory_.end(), std::uint8_t{0xaa});
        for (done = 0; done < count; ++done)
            sent.push_back(rig::flattened(packets[done]));
        return send_result::sent;
    }
    std::uint32_t receive(in_packets *, std::uint32_t) override { return 0; }
    bool take_icmp_error(icmp_error &) override { return false; }
    waitable descriptor() const override { return -1; }
    std::vector<bytes> sent;

private:
    bytes &memory_;
    net_address address_;
};

/// A data packet with two pieces of memory.
void make_packet(out_packet &out, const bytes &memory, std::uint32_t psn, std::size_t size)
{
    base_header base;
    base.version = checked_version;
    base.psn = psn;
    ddp_segment segment;
    segment.opcode = rdmap::write;
    segment.last = true;
    out.begin();
    const std::size_t start = write_base(out.header, base);
    out.add(out.header, start + write_segment(out.header + start, segment));
    out.add(memory.data(), 1);
    out.add(memory.data() + 1, size - 1);
}

} // namespace

TEST_CASE("memory that changes while it is sent: what goes has the checksum that goes with it")
{
    bytes memory(1400);
    std::iota(memory.begin(), memory.end(), std::uint8_t{0});
    const bytes original = memory;
    changing_io network(memory);
    checked_sender sender;
    sender.open(1472);
    out_packet packets[checked_sender::most];
    for (std::uint32_t i = 0; i < checked_sender::most; ++i)
        make_packet(packets[i], memory, i, 1400 - i);
    std::uint32_t done = 0;
    CHECK(sender.send(network, {}, packets, checked_sender::most, done) == send_result::sent);
    REQUIRE(done == checked_sender::most);
    for (std::uint32_t i = 0; i < done; ++i) {
        CAPTURE(i);
        const bytes &datagram = network.sent[i];
        CHECK(datagram.size() == packets[i].size + checksum_size);
        packet p;
        REQUIRE(parse(datagram.data(), datagram.size(), p));
        CHECK(p.base.psn == i);
        REQUIRE(p.segment.payload_size == 1400 - i);
        CHECK(std::equal(original.begin(), original.end() - i, p.segment.payload));
    }
}

TEST_SUITE_END();

} // namespace checksum_suite
