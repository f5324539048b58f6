// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Looking for a moment before going to sleep.
#include "dapl_spin.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

namespace {

using dapl::programmable::spinner;

constexpr osd::deadline never = osd::deadline::never();

/// Counts waits that do not look, between the last and the next wait that does.
int skipped(spinner &spin)
{
    for (int waits = 0;; ++waits) {
        bool looked = false;
        (void)spin.find(0, never, [&] { return looked = true; });
        if (looked)
            return waits;
    }
}

bool in_vain()
{
    return false;
}

} // namespace

TEST_SUITE_BEGIN("spin");

TEST_CASE("what is there is found at the first look, and what comes at a later one")
{
    spinner spin;
    for (int needed : {1, 2, 1000}) {
        int looks = 0;
        CHECK(spin.find(60'000'000, never, [&] { return ++looks == needed; }));
        CHECK_EQ(looks, needed);
    }
}

TEST_CASE("it looks as long as it was told, and not beyond the deadline")
{
    spinner spin;
    const std::int64_t before = osd::now_ns();
    CHECK_FALSE(spin.find(3000, never, in_vain));
    CHECK(osd::now_ns() - before >= 3'000'000);
    spinner other;
    int looks = 0;
    CHECK_FALSE(other.find(60'000'000, osd::deadline::passed(), [&] { return ++looks > 1; }));
    CHECK_EQ(looks, 1);
    CHECK_FALSE(other.find(60'000'000, osd::deadline::after_us(2000), in_vain));
}

TEST_CASE("the oftener in vain, the more waits go to sleep at once")
{
    for (int failures = 1; failures <= 9; ++failures) {
        spinner spin;
        for (int i = 0; i < failures; ++i) {
            bool looked = false;
            while (!looked)
                CHECK_FALSE(spin.find(0, never, [&] {
                    looked = true;
                    return false;
                }));
        }
        CHECK_EQ(skipped(spin), failures < 6 ? (1 << failures) - 1 : 63);
        CHECK_EQ(skipped(spin), 0); // that one found something
    }
}

TEST_CASE("a wait that had less time says nothing of the next")
{
    spinner spin;
    CHECK_FALSE(spin.find(60'000'000, osd::deadline::passed(), in_vain));
    CHECK_EQ(skipped(spin), 0);
}

TEST_SUITE_END();
