// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Calls without a place for their results, or without arguments that they need.
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using namespace ranks;

TEST_CASE("a missing place for a result, or a missing source, is refused")
{
    REQUIRE(barrier());
    void *address = nullptr;
    std::size_t bytes = 0;
    CHECK(dapl_am_segment(me(), &address, nullptr) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_segment(me(), nullptr, &bytes) == DAPL_AM_ERR_ARGUMENT);
    for (const int rank : {me(), next()}) {
        std::byte *there = segment_of(rank);
        const auto refused = [](int status) { return status == DAPL_AM_ERR_ARGUMENT; };
        CHECK(refused(dapl_am_put(rank, there, nullptr, 8)));
        CHECK(refused(dapl_am_put_bulk(rank, there, nullptr, 100'000)));
        CHECK(refused(dapl_am_put_nbi(rank, there, nullptr, 8)));
        CHECK(refused(dapl_am_put_nbi_bulk(rank, there, nullptr, 100'000)));
        CHECK(refused(dapl_am_get(rank, nullptr, there, 8)));
        CHECK(refused(dapl_am_get_bulk(rank, nullptr, there, 100'000)));
        CHECK(refused(dapl_am_get_nbi(rank, nullptr, there, 8)));
        CHECK(refused(dapl_am_get_nbi_bulk(rank, nullptr, there, 8)));
        CHECK(refused(dapl_am_put_nb(rank, there, mine(), 8, nullptr)));
        CHECK(refused(dapl_am_put_nb_bulk(rank, there, mine(), 8, nullptr)));
        CHECK(refused(dapl_am_put_nb_val(rank, there, 1, 8, nullptr)));
        CHECK(refused(dapl_am_get_nb(rank, mine(), there, 8, nullptr)));
        CHECK(refused(dapl_am_get_nb_bulk(rank, mine(), there, 8, nullptr)));
        CHECK(refused(dapl_am_memset_nb(rank, there, 0, 8, nullptr)));
        CHECK(refused(dapl_am_get_val(rank, there, 8, nullptr)));
        CHECK(refused(dapl_am_get_nb_val(rank, there, 8, nullptr)));
        CHECK(refused(dapl_am_request_short(rank, threads_request, 1, nullptr, 0)));
        CHECK(refused(dapl_am_request_medium(rank, threads_request, nullptr, 8, 0, nullptr, 0)));
        CHECK(
            refused(dapl_am_request_long(rank, threads_request, nullptr, 8, there, 0, nullptr, 0)));
        CHECK(dapl_am_put(rank, nullptr, mine(), 8) == DAPL_AM_ERR_RANGE);
        CHECK(dapl_am_request_long(rank, threads_request, mine(), 8, nullptr, 0, nullptr, 0) ==
              DAPL_AM_ERR_RANGE);
        CHECK(dapl_am_put(rank, nullptr, nullptr, 0) == DAPL_AM_OK);
    }
    CHECK(dapl_am_try_all(nullptr, 1) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_try_some(nullptr, 1) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_try_all(nullptr, 0) == DAPL_AM_OK);
    REQUIRE(dapl_am_begin_region() == DAPL_AM_OK);
    CHECK(dapl_am_end_region(nullptr) == DAPL_AM_ERR_ARGUMENT);
    dapl_am_handle handle = DAPL_AM_DONE;
    CHECK(dapl_am_end_region(&handle) == DAPL_AM_OK);
    dapl_am_wait(handle);
    CHECK(dapl_am_reply_short(nullptr, echo_reply, 0, nullptr) == DAPL_AM_ERR_CONTEXT);
    CHECK(dapl_am_token_rank(nullptr) == -1);
    CHECK(dapl_am_strerror(-1) != nullptr);
    // These return nothing, and do nothing.
    dapl_am_wait(nullptr);
    CHECK(dapl_am_try(nullptr) == DAPL_AM_OK);
    CHECK(dapl_am_wait_val(nullptr) == 0);
    dapl_am_wait_all(nullptr, 1);
    dapl_am_wait_some(nullptr, 1);
    dapl_am_get_counters(nullptr);
    REQUIRE(barrier());
}

#ifdef INTERPOSE // the memory of a sanitizer is larger than any limit
TEST_CASE("without memory a call says so, and works again when there is some")
{
    REQUIRE(barrier());
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    const rlimit scarce{pages * rlim_t(sysconf(_SC_PAGESIZE)) + (16 << 20), before.rlim_max};
    std::vector<dapl_am_value_handle> all(2'000'000);
    std::size_t count = 0;
    REQUIRE(setrlimit(RLIMIT_AS, &scarce) == 0);
    int status = DAPL_AM_OK;
    while (count < all.size() &&
           (status = dapl_am_get_nb_val(me(), mine(), 8, &all[count])) == DAPL_AM_OK)
        ++count;
    setrlimit(RLIMIT_AS, &before);
    CHECK(status == DAPL_AM_ERR_RESOURCES);
    for (std::size_t i = 0; i < count; ++i)
        (void)dapl_am_wait_val(all[i]);
    dapl_am_value_handle handle = nullptr;
    CHECK(dapl_am_get_nb_val(me(), mine(), 8, &handle) == DAPL_AM_OK);
    (void)dapl_am_wait_val(handle);
    REQUIRE(barrier());
}
#endif
