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

TEST_CASE("named barriers agree, anonymous ones match every name")
{
    CHECK(run(5, 0) == DAPL_AM_OK);
    CHECK(run(0, DAPL_AM_ANONYMOUS) == DAPL_AM_OK);
    for (int odd = 0; odd < size(); ++odd) {
        CHECK(run(7, me() == odd ? unsigned(DAPL_AM_ANONYMOUS) : 0U) == DAPL_AM_OK);
        CHECK(run(me() == odd ? 7 : 8, me() == odd ? 0U : unsigned(DAPL_AM_ANONYMOUS)) ==
              DAPL_AM_OK);
    }
}

TEST_CASE("one other name, or a forced mismatch, is a mismatch on all ranks")
{
    const int alone = size() == 1 ? DAPL_AM_OK : DAPL_AM_BARRIER_MISMATCH;
    for (int odd = 0; odd < size(); ++odd) {
        CHECK(run(me() == odd ? 1 : 2, 0) == alone);
        CHECK(run(3, me() == odd ? unsigned(DAPL_AM_MISMATCH) : 0U) == DAPL_AM_BARRIER_MISMATCH);
        CHECK(run(3, me() == odd ? unsigned(DAPL_AM_MISMATCH) : unsigned(DAPL_AM_ANONYMOUS)) ==
              DAPL_AM_BARRIER_MISMATCH);
        CHECK(run(4, 0) == DAPL_AM_OK); // the next one is as if nothing had been
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
