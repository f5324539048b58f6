// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Segments: 24 bytes each in DAT 1.2, 16 in DAT 2.0, with a length of 64 bits in DAT 1.2 and 32 in
// DAT 2.0. Posted lists are translated on the stack, so a provider that keeps the list of a post is
// of no use here; dat_ia_openv() refuses it.
#pragma once

#include "dat12_types.hpp"
#include "osd_annotations.hpp"

#include <cstdint>
#include <cstring>

namespace dat12 {

/// More segments than this cannot be posted; dat_ia_query() does not promise more. Devices take
/// about 30 at most, and consumers post on small stacks.
constexpr DAT_COUNT most_segments = 64;

/// A segment in one register. Both generations and both kinds of segment have one layout but for
/// the place of the context.
using vector128 [[gnu::vector_size(16)]] = std::uint32_t;

static_assert(sizeof(v1::DAT_LMR_TRIPLET) == 24 && sizeof(v1::DAT_RMR_TRIPLET) == 24);
static_assert(offsetof(v1::DAT_LMR_TRIPLET, virtual_address) == 8);
static_assert(offsetof(v1::DAT_RMR_TRIPLET, target_address) == 8);
static_assert(offsetof(DAT_LMR_TRIPLET, lmr_context) == 12);
static_assert(offsetof(DAT_RMR_TRIPLET, rmr_context) == 12);

template <typename One>
OSD_ALWAYS_INLINE std::uint32_t upper_half(const One &one)
{
    std::uint32_t high;
    std::memcpy(&high, reinterpret_cast<const char *>(&one) + 20, sizeof high);
    return high;
}

/// Writes one segment, and returns the upper half of its length, which has to be 0.
template <typename Two, typename One>
OSD_ALWAYS_INLINE std::uint32_t convert(const One &one, Two &two)
{
    vector128 rest;
    std::uint32_t context;
    std::memcpy(&rest, reinterpret_cast<const char *>(&one) + 8, sizeof rest);
    std::memcpy(&context, &one, sizeof context);
    // The upper half of a length that fits is 0, so it becomes the context alone.
    const vector128 low = {context, 0, 0, 0};
    rest |= __builtin_shufflevector(low, vector128{}, 4, 4, 4, 0);
    std::memcpy(&two, &rest, sizeof rest);
    return upper_half(one);
}

constexpr DAT_COUNT most_at_once = 8;

/// Converts 1 to most_at_once segments, with six instructions for each and seven more where there
/// are several, and adds the upper halves of their lengths to `high`. False: another number. The
/// empty statements of assembly keep one piece of code for each segment.
OSD_ALWAYS_INLINE bool to_two(const v1::DAT_LMR_TRIPLET *one, DAT_COUNT count, DAT_LMR_TRIPLET *two,
                              std::uint32_t &high)
{
    if (count != 1)
        switch (count) {
        case 8:
            high |= convert(one[7], two[7]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 7:
            high |= convert(one[6], two[6]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 6:
            high |= convert(one[5], two[5]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 5:
            high |= convert(one[4], two[4]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 4:
            high |= convert(one[3], two[3]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 3:
            high |= convert(one[2], two[2]);
            OSD_OPAQUE(high);
            [[fallthrough]];
        case 2:
            high |= convert(one[1], two[1]);
            OSD_OPAQUE(high);
            break;
        default:
            return false;
        }
    high |= convert(*one, *two);
    return true;
}

/// Translates any number of segments. False as above.
inline bool all_to_two(const v1::DAT_LMR_TRIPLET *one, DAT_COUNT count, DAT_LMR_TRIPLET *two)
{
    std::uint32_t high = 0;
    for (DAT_COUNT i = 0; i < count; ++i)
        high |= convert(one[i], two[i]);
    return high == 0;
}

} // namespace dat12
