// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the programs that measure libdapl-am have in common.
#pragma once

#include "dapl_am.h"
#include "program/failure.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace bench {

inline void must(int status)
{
    if (status != DAPL_AM_OK)
        throw program::failure(std::string("dapl_am: ") + dapl_am_strerror(status));
}

inline std::byte *segment_of(int rank)
{
    void *address = nullptr;
    std::size_t bytes = 0;
    must(dapl_am_segment(rank, &address, &bytes));
    return static_cast<std::byte *>(address);
}

template <class Work>
double seconds_of(const Work &work)
{
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace bench
