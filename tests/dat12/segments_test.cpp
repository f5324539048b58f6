// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Translates segments of DAT 1.2 to segments of DAT 2.0: more of them than the tested adapters
// take.
#include "segments.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace {

using namespace dat12;

std::vector<v1::DAT_LMR_TRIPLET> numbered(DAT_COUNT count)
{
    std::vector<v1::DAT_LMR_TRIPLET> list;
    for (DAT_COUNT i = 0; i < count; ++i) {
        const auto n = static_cast<DAT_UINT32>(i + 1);
        list.push_back({0xc0000000u + n, 0x55555555u, 0xa00000000000u + n, 0xfffff000u + n});
    }
    return list;
}

void check_translated(const std::vector<DAT_LMR_TRIPLET> &two, DAT_COUNT count)
{
    for (DAT_COUNT i = 0; i < count; ++i) {
        const auto n = static_cast<DAT_UINT32>(i + 1);
        CAPTURE(i);
        const DAT_LMR_TRIPLET &one = two[static_cast<std::size_t>(i)];
        CHECK(one.lmr_context == 0xc0000000u + n);
        CHECK(one.virtual_address == 0xa00000000000u + n);
        CHECK(one.segment_length == 0xfffff000u + n);
    }
    const DAT_LMR_TRIPLET &behind = two[static_cast<std::size_t>(count)];
    CHECK((behind.lmr_context == 0 && behind.virtual_address == 0 && behind.segment_length == 0));
}

} // namespace

TEST_CASE("one to eight segments are translated at once, each of them")
{
    for (DAT_COUNT count = 1; count <= most_at_once; ++count) {
        CAPTURE(count);
        std::vector<DAT_LMR_TRIPLET> two(most_at_once + 1);
        std::uint32_t high = 0;
        REQUIRE(to_two(numbered(count).data(), count, two.data(), high));
        CHECK(high == 0);
        check_translated(two, count);
    }
}

TEST_CASE("no segment, less than none and more than eight are not")
{
    std::vector<DAT_LMR_TRIPLET> two(most_at_once + 1);
    std::uint32_t high = 0;
    for (DAT_COUNT count : {0, -1, most_at_once + 1, most_segments})
        CHECK_FALSE(to_two(numbered(most_segments).data(), count, two.data(), high));
}

TEST_CASE("any number of segments is translated")
{
    for (DAT_COUNT count : {0, 1, 9, 40, most_segments}) {
        CAPTURE(count);
        std::vector<DAT_LMR_TRIPLET> two(most_segments + 1);
        REQUIRE(all_to_two(numbered(count).data(), count, two.data()));
        check_translated(two, count);
    }
}

TEST_CASE("one length over 32 bits is found, wherever it is")
{
    for (DAT_COUNT count = 1; count <= 12; ++count)
        for (DAT_COUNT at = 0; at < count; ++at) {
            CAPTURE(count);
            CAPTURE(at);
            std::vector<DAT_LMR_TRIPLET> two(most_segments);
            auto one = numbered(count);
            one[static_cast<std::size_t>(at)].segment_length += DAT_VLEN{1} << 32;
            CHECK_FALSE(all_to_two(one.data(), count, two.data()));
            std::uint32_t high = 0;
            if (to_two(one.data(), count, two.data(), high))
                CHECK(high == 1);
            else
                CHECK(count > most_at_once);
        }
}
