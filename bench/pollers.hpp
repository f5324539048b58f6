// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Groups of processes that exchange messages, all with all, and poll for them. The process that
// measures has a channel to each; a group that it does not measure sleeps.
#pragma once

#include "channel.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// How long its rounds took a process, in seconds.
using round_times = std::vector<double>;

/// Measures rounds as often as the other end of the channel asks for them, until it asks for none.
template <class Round>
void serve_rounds(channel &leader, seconds limit, Round once)
{
    while (const auto rounds = leader.receive<std::uint32_t>(limit)) {
        round_times times(rounds);
        for (double &each : times) {
            const auto start = clock::now();
            once();
            each = seconds(clock::now() - start).count();
        }
        leader.send_bytes(times.data(), times.size() * sizeof times[0]);
    }
}

/// What a rank of MPI says first.
constexpr char mpi_word = 'm';

/// A rank of MPI, started by mpirun, which answers to the port of the process that measures.
void be_mpi_rank(const std::string &port, seconds limit);

} // namespace bench
