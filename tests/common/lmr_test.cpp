// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Regions, and how they are found by their contexts.
#include "fixture.hpp"

#include <algorithm>
#include <chrono>

using namespace test;

TEST_SUITE_BEGIN("lmr");

TEST_CASE("a region is found by its context as fast among many as among few")
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    static char bytes[64];
    std::vector<DAT_LMR_TRIPLET> segments;
    std::vector<DAT_LMR_HANDLE> regions;
    const auto make = [&](std::size_t number) {
        while (regions.size() < number) {
            DAT_REGION_DESCRIPTION where{};
            where.for_va = bytes;
            DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
            DAT_LMR_TRIPLET segment{};
            must(c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof bytes, pz,
                                     DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made,
                                     &segment.lmr_context, nullptr, nullptr,
                                     &segment.virtual_address));
            segment.segment_length = sizeof bytes;
            regions.push_back(made);
            segments.push_back(segment);
        }
    };
    // The best of some, for a busy machine.
    const auto time_of = [&] {
        auto best = std::chrono::steady_clock::duration::max();
        for (int i = 0; i < 20; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            for (std::size_t n = 0; n < 400; ++n)
                must(c.v.lmr_sync_rdma_read_func(c.ia, &segments[n * 7919 % segments.size()], 1));
            best = std::min(best, std::chrono::steady_clock::now() - begin);
        }
        return best;
    };
    make(10);
    const auto few = time_of();
    make(1000);
    CHECK(time_of() < 4 * few); // 100 times as many
    for (std::size_t i = 0; i < regions.size(); i += 2)
        must(c.v.lmr_free_func(regions[i]));
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const DAT_RETURN code = c.v.lmr_sync_rdma_write_func(c.ia, &segments[i], 1);
        CHECK_EQ(DAT_GET_TYPE(code), i % 2 == 0 ? DAT_INVALID_PARAMETER : DAT_SUCCESS);
    }
}

TEST_SUITE_END();
