// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The hash with a key: the values are the reference's and OpenSSL's.
#include "osd_siphash.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>

namespace {

constexpr osd::siphash_key key{0x0706050403020100, 0x0f0e0d0c0b0a0908};

struct counting_input {
    std::array<std::uint8_t, 40> bytes{};

    counting_input() { std::iota(bytes.begin(), bytes.end(), std::uint8_t{0}); }
};

} // namespace

TEST_SUITE_BEGIN("siphash");

TEST_CASE_FIXTURE(counting_input, "SipHash-2-4 of the reference's input is the reference's output")
{
    CHECK(osd::siphash(key).of(bytes.data(), 15) == 0xa129ca6149be45e5);
}

TEST_CASE_FIXTURE(counting_input, "SipHash-2-4 of 128 bits is that of OpenSSL, for any length")
{
    using tag = std::array<std::uint64_t, 2>;
    CHECK(osd::siphash(key).wide(bytes.data(), 0) == tag{0xe6a825ba047f81a3, 0x930255c71472f66d});
    CHECK(osd::siphash(key).wide(bytes.data(), 15) == tag{0x11a8b03399e99354, 0xd9c3cf970fec087e});
    CHECK(osd::siphash(key).wide(bytes.data(), 40) == tag{0xad5dc9951e306adf, 0xd83b91c6c80cae97});
}
