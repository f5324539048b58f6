// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The common parts of the collective test cases. All ranks run these cases in one order.
#pragma once

#include "dapl_am.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace ranks {

constexpr std::size_t segment_size = 16 << 20;

inline int me()
{
    return dapl_am_rank();
}
inline int size()
{
    return dapl_am_size();
}
inline int next()
{
    return (me() + 1) % size();
}
inline int previous()
{
    return (me() + size() - 1) % size();
}

inline std::byte *segment_of(int rank)
{
    void *address = nullptr;
    std::size_t bytes = 0;
    (void)dapl_am_segment(rank, &address, &bytes);
    return static_cast<std::byte *>(address);
}
inline std::byte *mine()
{
    return segment_of(me());
}

inline bool barrier()
{
    return dapl_am_barrier(0, DAPL_AM_ANONYMOUS) == DAPL_AM_OK;
}

/// Polls until it is so.
template <typename Condition>
void until(Condition so)
{
    while (!so())
        if (dapl_am_poll() == DAPL_AM_NOT_READY)
            sched_yield();
}

/// A byte that depends on all of its arguments.
inline std::byte pattern(int rank, std::size_t at, std::uint32_t seed)
{
    std::uint32_t x = seed * 2654435761U + std::uint32_t(at) * 40503U + std::uint32_t(rank) * 97U;
    x ^= x >> 15;
    return std::byte(x * 2246822519U >> 24);
}

inline void fill(std::byte *memory, std::size_t bytes, int rank, std::uint32_t seed)
{
    for (std::size_t i = 0; i < bytes; ++i)
        memory[i] = pattern(rank, i, seed);
}

/// @return the number of bytes that are not as fill() would make them
inline std::size_t wrong(const std::byte *memory, std::size_t bytes, int rank, std::uint32_t seed)
{
    std::size_t result = 0;
    for (std::size_t i = 0; i < bytes; ++i)
        result += memory[i] != pattern(rank, i, seed);
    return result;
}

/// Handlers, in the order of the table in main.cpp.
enum handler : int {
    count_request = 1,   ///< any kind: checks, counts, does not reply
    echo_short_request,  ///< replies with its arguments
    echo_medium_request, ///< replies with arguments and payload
    echo_long_request,   ///< replies to the address in the last two arguments
    echo_reply,          ///< any kind: checks, counts
    misuse_request,      ///< tries what a handler must not
    misuse_reply,
    flood_request,   ///< counts and replies
    threads_request, ///< any kind: counts
};

/// What the handlers have seen.
struct seen {
    std::atomic<int> requests{0};
    std::atomic<int> replies{0};
    std::atomic<int> errors{0};
    std::atomic<int> flood{0};
};
inline seen counted;

/// Arguments that say how the message has to look: seed, then derived from it.
inline void make_args(std::int32_t *args, int count, std::int32_t seed)
{
    for (int i = 0; i < count; ++i)
        args[i] = seed * 31 + i * 7;
}
inline bool check_args(const std::int32_t *args, int count, std::int32_t seed)
{
    for (int i = 0; i < count; ++i)
        if (args[i] != seed * 31 + i * 7)
            return false;
    return true;
}
inline std::atomic<std::int32_t> expected_seed{0};

} // namespace ranks
