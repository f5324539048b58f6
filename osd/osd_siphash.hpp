// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SipHash-2-4 (Aumasson, Bernstein): a hash of short inputs that cannot be predicted without its
// key. It works on all systems; it is here since the engine of the software HCA and libdapl-am both
// use it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace osd {

struct siphash_key {
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;
};

class siphash {
public:
    explicit siphash(const siphash_key &key)
        : v0_(key.k0 ^ 0x736f6d6570736575), v1_(key.k1 ^ 0x646f72616e646f6d),
          v2_(key.k0 ^ 0x6c7967656e657261), v3_(key.k1 ^ 0x7465646279746573)
    {}
    /// Hashes the whole input; called once.
    std::uint64_t of(const void *input, std::size_t size)
    {
        take(input, size);
        return finish(0xff);
    }
    /// The 128-bit variant, called instead of of().
    std::array<std::uint64_t, 2> wide(const void *input, std::size_t size)
    {
        v1_ ^= 0xee;
        take(input, size);
        const std::uint64_t first = finish(0xee);
        v1_ ^= 0xdd;
        return {first, finish(0)};
    }

private:
    void take(const void *input, std::size_t size)
    {
        const auto *at = static_cast<const std::uint8_t *>(input);
        for (std::size_t left = size; left >= 8; left -= 8, at += 8)
            add(little_endian(at, 8));
        add(little_endian(at, size % 8) | std::uint64_t{size} << 56);
    }
    std::uint64_t finish(std::uint64_t mark)
    {
        v2_ ^= mark;
        for (int i = 0; i < 4; ++i)
            round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }
    static std::uint64_t little_endian(const std::uint8_t *at, std::size_t size)
    {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i)
            value |= std::uint64_t{at[i]} << 8 * i;
        return value;
    }
    void add(std::uint64_t word)
    {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
    }
    void round()
    {
        v0_ += v1_;
        v2_ += v3_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v1_;
        v0_ += v3_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ = std::rotl(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
};

} // namespace osd
