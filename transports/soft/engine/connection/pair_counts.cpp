// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair_counts.hpp"

namespace soft_hca {

namespace {

constexpr std::uint64_t pair_counts::*each_count[] = {
    &pair_counts::packets_out,     &pair_counts::packets_resent, &pair_counts::packets_in,
    &pair_counts::duplicates,      &pair_counts::early,          &pair_counts::timeouts,
    &pair_counts::tail_probes,     &pair_counts::dropped,        &pair_counts::not_ready,
    &pair_counts::corrupt,         &pair_counts::refused,        &pair_counts::rules_broken,
    &pair_counts::refused_by_peer, &pair_counts::failed_at_peer, &pair_counts::gave_up,
    &pair_counts::direct,          &pair_counts::indirect,       &pair_counts::by_ring,
    &pair_counts::fetched,
};
static_assert(sizeof each_count / sizeof each_count[0] ==
              sizeof(pair_counts) / sizeof(std::uint64_t));

} // namespace

pair_counts &pair_counts::operator+=(const pair_counts &other)
{
    for (const auto which : each_count)
        this->*which += other.*which;
    return *this;
}

pair_counts &pair_counts::operator-=(const pair_counts &earlier)
{
    for (const auto which : each_count)
        this->*which -= earlier.*which;
    return *this;
}

} // namespace soft_hca
