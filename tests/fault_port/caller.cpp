// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "caller.hpp"

#include <bit>
#include <cstdio>
#include <cstdlib>

namespace dapl::DAPL_TRANSPORT::faults {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

const char *name_of(subject what)
{
    return facts_of_subjects[static_cast<int>(what)].name;
}

} // namespace

void breaks_contract(const place &at, const char *rule, const char *also)
{
    if (at.object != nullptr)
        std::fprintf(stderr, "contract broken by the caller of %s: %s %p %s%s\n", name_of(at.what),
                     at.kind, at.object, rule, also);
    else
        std::fprintf(stderr, "contract broken by the caller of %s: %s%s\n", name_of(at.what), rule,
                     also);
    std::abort();
}

void usage::enter(const place &at)
{
    inside_.fetch_add(1, relaxed);
    operations_.fetch_or(bit(at.what), relaxed);
    if (life_.load(relaxed) == life::being_freed)
        breaks_contract(at, "is being freed");
    enter_beside_fence(at);
}

void usage::enter_beside_fence(const place &at)
{
    switch (life_.load(relaxed)) {
    case life::unmade:
        breaks_contract(at, "was not made");
    case life::freed:
        breaks_contract(at, "was freed before");
    default:
        break;
    }
}

void usage::begin_making(const place &at)
{
    if (life_.load(relaxed) == life::made)
        breaks_contract(at, "is in use, and made again");
    life_.store(life::being_made, relaxed);
}

void usage::begin_freeing(const place &at)
{
    life_.store(life::being_freed, relaxed);
    if (inside_.load(relaxed) > 1)
        breaks_contract(at, "is freed while another operation uses it: ", another_than(at.what));
}

/// Where the thread is that is in one, too.
const char *usage::another_than(subject what) const
{
    const std::uint64_t others = operations_.load(relaxed) & ~bit(what);
    return others != 0 ? name_of(static_cast<subject>(std::countr_zero(others))) : name_of(what);
}

void usage::take(lane on, bool shared, const place &at)
{
    const auto place_of_lane = static_cast<std::size_t>(on);
    std::atomic<int> &threads = threads_[place_of_lane];
    std::atomic<subject> &latest = latest_[place_of_lane];
    int now = threads.load(relaxed);
    do {
        if (now != 0 && (!shared || now == alone))
            breaks_contract(at, "is used by one thread at a time, and another is in ",
                            name_of(latest.load(relaxed)));
    } while (!threads.compare_exchange_weak(now, shared ? now + 1 : alone, relaxed));
    latest.store(at.what, relaxed);
}

void usage::give(lane on, bool shared)
{
    std::atomic<int> &threads = threads_[static_cast<std::size_t>(on)];
    if (shared)
        threads.fetch_sub(1, relaxed);
    else
        threads.store(0, relaxed);
}

} // namespace dapl::DAPL_TRANSPORT::faults
