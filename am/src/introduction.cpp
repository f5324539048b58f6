// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "introduction.hpp"

#include "report.hpp"

#include <cstdio>
#include <cstring>

namespace am {

namespace {

template <typename... Values>
bool must_agree(bool same, bool reports, const char *format, Values... values)
{
    if (!same && reports)
        report(format, values...);
    return same;
}

} // namespace

introduction introduction::make(const job_context &job, const char (&network)[16])
{
    introduction made{};
    made.place = job.peers[static_cast<std::size_t>(job.rank())].place;
    made.key = job.key;
    made.credits = job.set.credits;
    made.put_barrier = job.set.put_barrier ? 1 : 0;
    std::memcpy(made.network, network, sizeof made.network);
    (void)std::snprintf(made.adapter, sizeof made.adapter, "%.47s", job.adapter);
    return made;
}

int introduction::compare(const introduction &other, int rank, int own_rank) const
{
    const bool reports = own_rank == 0 || own_rank == rank;
    bool good = must_agree(credits == other.credits, reports,
                           "rank %d has DAPL_AM_CREDITS %u, rank 0 has %u: they must be the same",
                           rank, other.credits, credits);
    good &= must_agree(put_barrier == other.put_barrier, reports,
                       "rank %d has DAPL_AM_PUT_BARRIER %u, rank 0 has %u: they must be the same",
                       rank, other.put_barrier, put_barrier);
    good &= must_agree(std::strncmp(network, other.network, sizeof network) == 0, reports,
                       "rank %d is on adapter %.48s (network %.16s), rank 0 on %.48s (network "
                       "%.16s): they cannot connect; set DAPL_AM_ADAPTER on all ranks",
                       rank, other.adapter, other.network, adapter, network);
    return good ? DAPL_AM_OK : DAPL_AM_ERR_ARGUMENT;
}

} // namespace am
