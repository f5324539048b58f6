// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The checksum, by table and by instruction.
#include "crc32c.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace checksum_suite {

using namespace soft_hca;

namespace {

using bytes = std::vector<std::uint8_t>;
using function = std::uint32_t (*)(const void *, std::size_t, std::uint32_t);

/// What can be used here.
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

/// An iSCSI read command, from the same table.
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

TEST_SUITE_END();

} // namespace checksum_suite
