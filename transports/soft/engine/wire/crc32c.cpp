// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace soft_hca {

namespace {

/// Row 0 is the usual table of a byte; row n is for a byte that n others follow.
using tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr tables make_tables()
{
    constexpr std::uint32_t polynomial = 0x82f63b78; // reflected
    tables made{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t rest = byte;
        for (int bit = 0; bit < 8; ++bit)
            rest = rest >> 1 ^ (rest % 2 != 0 ? polynomial : 0);
        made[0][byte] = rest;
    }
    for (std::size_t row = 1; row < made.size(); ++row)
        for (std::uint32_t byte = 0; byte < 256; ++byte)
            made[row][byte] = made[row - 1][byte] >> 8 ^ made[0][made[row - 1][byte] & 0xff];
    return made;
}

constexpr tables table = make_tables();

std::uint64_t little_endian_word(const std::uint8_t *at)
{
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    if constexpr (std::endian::native == std::endian::big)
        word = __builtin_bswap64(word);
    return word;
}

} // namespace

std::uint32_t crc32c_by_table(const void *bytes, std::size_t size, std::uint32_t before)
{
    const auto *at = static_cast<const std::uint8_t *>(bytes);
    std::uint32_t crc = ~before;
    for (; size >= 8; size -= 8, at += 8) {
        const std::uint64_t word = little_endian_word(at) ^ crc;
        crc = 0;
        for (std::uint32_t i = 0; i < 8; ++i)
            crc ^= table[7 - i][word >> 8 * i & 0xff];
    }
    for (; size != 0; --size, ++at)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

#ifdef __x86_64__

bool has_crc32c_instruction()
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) std::uint32_t
crc32c_by_instruction(const void *bytes, std::size_t size, std::uint32_t before)
{
    const auto *at = static_cast<const std::uint8_t *>(bytes);
    std::uint64_t crc = ~before;
    for (; size >= 8; size -= 8, at += 8)
        crc = __builtin_ia32_crc32di(crc, little_endian_word(at));
    auto rest = static_cast<std::uint32_t>(crc);
    for (; size != 0; --size, ++at)
        rest = __builtin_ia32_crc32qi(rest, *at);
    return ~rest;
}

#else

bool has_crc32c_instruction()
{
    return false;
}

std::uint32_t crc32c_by_instruction(const void *bytes, std::size_t size, std::uint32_t before)
{
    return crc32c_by_table(bytes, size, before);
}

#endif

std::uint32_t crc32c(const void *bytes, std::size_t size, std::uint32_t before)
{
    return has_crc32c_instruction() ? crc32c_by_instruction(bytes, size, before)
                                    : crc32c_by_table(bytes, size, before);
}

} // namespace soft_hca
