// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ranks.hpp"

#include <doctest/doctest.h>

using namespace ranks;

namespace {

int run(int id, unsigned flags)
{
    return dapl_am_barrier(id, flags);
}

} // namespace

TEST_CASE("no rank passes a barrier before all have come")
{
    for (int i = 0; i < 200; ++i) {
        *reinterpret_cast<volatile int *>(mine()) = i + 1;
        REQUIRE(run(i, 0) == DAPL_AM_OK);
        std::uint64_t there = 0;
        const int other = (me() + i) % size();
        REQUIRE(dapl_am_get_val(other, segment_of(other), 4, &there) == DAPL_AM_OK);
        CHECK(there >= std::uint64_t(i + 1));
        REQUIRE(run(i, 0) == DAPL_AM_OK);
    }
}

TEST_CASE("every mix of names, anonymous ones and mismatches has the same outcome on all ranks")
{
    struct half {
        int id;
        unsigned flags;
    };
    constexpr half halves[] = {{1, 0}, {2, 0}, {3, DAPL_AM_ANONYMOUS}, {1, DAPL_AM_MISMATCH}};
    const int digits = size() < 4 ? size() : 4; // ranks above say what the last digit says
    const auto said = [&](int mix, int rank) {
        return halves[mix >> 2 * (rank < digits ? rank : digits - 1) & 3];
    };
    for (int mix = 0; mix < 1 << 2 * digits; ++mix) {
        bool one = false, two = false, forced = false;
        for (int rank = 0; rank < size(); ++rank) {
            const half h = said(mix, rank);
            forced |= h.flags == DAPL_AM_MISMATCH;
            one |= h.flags == 0 && h.id == 1;
            two |= h.flags == 0 && h.id == 2;
        }
        const half mine = said(mix, me());
        CHECK(run(mine.id, mine.flags) ==
              (forced || (one && two) ? DAPL_AM_BARRIER_MISMATCH : DAPL_AM_OK));
    }
}

TEST_CASE("another name in the second half is a mismatch there")
{
    for (int odd = 0; odd < size(); ++odd) {
        REQUIRE(dapl_am_barrier_notify(9, 0) == DAPL_AM_OK);
        const int status = dapl_am_barrier_wait(me() == odd ? 10 : 9, 0);
        CHECK(status == (me() == odd ? DAPL_AM_BARRIER_MISMATCH : DAPL_AM_OK));
    }
}

TEST_CASE("the halves of barriers come in turn")
{
    CHECK(dapl_am_barrier_wait(0, 0) == DAPL_AM_ERR_STATE);
    CHECK(dapl_am_barrier_try(0, 0) == DAPL_AM_ERR_STATE);
    REQUIRE(dapl_am_barrier_notify(1, 0) == DAPL_AM_OK);
    CHECK(dapl_am_barrier_notify(1, 0) == DAPL_AM_ERR_STATE);
    int status;
    while ((status = dapl_am_barrier_try(1, 0)) == DAPL_AM_NOT_READY) {
    }
    CHECK(status == DAPL_AM_OK);
    CHECK(dapl_am_barrier_notify(1, 0x10) == DAPL_AM_ERR_ARGUMENT);
    REQUIRE(barrier());
}
