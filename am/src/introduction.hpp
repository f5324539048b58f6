// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a rank tells the others through the launcher before they can connect.
#pragma once

#include "job_context.hpp"

namespace am {

struct introduction {
    location place;
    secret key; ///< the secret of the job; rank 0's counts
    std::uint32_t credits;
    std::uint32_t put_barrier;
    char network[16]; ///< what the adapter connects by, where it tells
    char adapter[48];

    static introduction make(const job_context &job, const char (&network)[16]);

    /// Compares what another rank has said with what rank 0 has said. What differs would let the
    /// ranks wait for each other for ever, or never connect: both ranks report it, and rank 0.
    /// Returns a status.
    int compare(const introduction &other, int rank, int own_rank) const;
};

} // namespace am
