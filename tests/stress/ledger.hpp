// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Records of posted operations and their completions, shared by threads that post and reap
// concurrently.
//
// The order of two calls that overlap in time is unknown, so a ledger records when each call ran,
// and reports an error only if no order could explain the observation.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stress {

/// Nanoseconds of the monotonic clock. A clock and no counter: a counter that all threads share
/// would order them for a thread sanitizer, which then sees no races.
using instant = std::int64_t;

inline constexpr instant never = std::numeric_limits<instant>::max();

inline instant now()
{
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// The time when a call ran. A call was before another only if it had returned when the other
/// began.
struct span {
    instant began = 0;
    instant ended = never;

    bool before(const span &other) const { return ended < other.began; }
};

/// A description of the error; empty if there is none.
using finding = std::optional<std::string>;

/// Something posted: a transfer, a message, a software event.
struct entry {
    std::uint32_t number = 0; ///< unique in its ledger
    std::uint32_t length = 0;
    int what = 0;            ///< the DAT_DTOS of a transfer
    bool suppressed = false; ///< only its failure is signalled
    int slot = -1;           ///< slot of memory that is in use until it completes
    int target = -1;         ///< slot of the peer's memory, which a write before it has filled
    std::uint32_t target_length = 0;
    unsigned thread = 0; ///< that posted it
    span posted{};
    span taken{};
    enum class state { open, back, implied } now = state::open;
};

/// One queue: each entry completes once, and in order if posted one after the other.
class ledger {
public:
    /// To be called before the post, which may complete before it returns.
    entry &open(const entry &wanted)
    {
        ++open_;
        return entries_.emplace_back(wanted);
    }

    void posted(std::uint32_t number, instant ended)
    {
        if (entry *found = find(number))
            found->posted.ended = ended;
        prune();
    }

    /// The call that was to post it failed.
    void withdraw(std::uint32_t number)
    {
        for (auto at = entries_.begin(); at != entries_.end(); ++at)
            if (at->number == number) {
                open_ -= at->now == entry::state::open ? 1 : 0;
                entries_.erase(at);
                return;
            }
    }

    const entry *look_up(std::uint32_t number) { return find(number); }

    /// Notes a completion. `implied` receives the suppressed successes that this proves.
    template <class Implied>
    finding back(std::uint32_t number, const span &taken, bool success, Implied &&implied)
    {
        entry *const found = find(number);
        if (found == nullptr)
            return "it was never posted, or has completed before";
        if (found->now == entry::state::back)
            return "it completes for the second time";
        if (success && found->suppressed)
            return "its success was to be suppressed";
        if (finding disorder = out_of_order(*found, taken))
            return disorder;
        close(*found, taken, entry::state::back);
        for (entry &each : entries_)
            if (each.now == entry::state::open && each.suppressed &&
                each.posted.before(found->posted)) {
                close(each, taken, entry::state::implied);
                implied(each);
            }
        prune();
        return {};
    }

    /// How many are not back.
    unsigned open_count() const { return open_; }
    /// The time when the oldest entry that must still complete was posted; never if there is none.
    instant oldest() const
    {
        for (const entry &each : entries_)
            if (each.now == entry::state::open && !each.suppressed)
                return each.posted.began;
        return never;
    }

    /// A message that did not come, and a later message that did. Null when all is well.
    std::pair<const entry *, const entry *> overtaken() const
    {
        for (const entry &late : entries_)
            for (const entry &early : entries_)
                if (late.now == entry::state::open && early.now == entry::state::back &&
                    late.posted.before(early.posted))
                    return {&late, &early};
        return {};
    }

    template <class Each>
    void for_open(Each &&each) const
    {
        for (const entry &one : entries_)
            if (one.now == entry::state::open)
                each(one);
    }

private:
    /// Number of missing successes that are remembered: a failure may still be in the hands of a
    /// slow thread.
    static constexpr std::size_t remembered = 256;

    entry *find(std::uint32_t number)
    {
        for (entry &each : entries_)
            if (each.number == number)
                return &each;
        return nullptr;
    }

    finding out_of_order(const entry &late, const span &taken) const
    {
        for (const entry &each : entries_)
            if (each.now != entry::state::open && each.taken.before(taken) &&
                late.posted.before(each.posted))
                return "it was posted before number " + std::to_string(each.number) +
                       ", which came back before it";
        return {};
    }

    void close(entry &done, const span &taken, entry::state how)
    {
        open_ -= done.now == entry::state::open ? 1 : 0;
        done.now = how;
        done.taken = taken;
    }

    /// Forgets the first entries, which nothing can be out of order with any more.
    void prune()
    {
        while (!entries_.empty()) {
            const entry &first = entries_.front();
            const bool settled = first.now != entry::state::open && first.posted.ended != never;
            const bool certain = first.now == entry::state::back || entries_.size() > remembered;
            if (!settled || !certain)
                return;
            entries_.pop_front();
        }
    }

    std::deque<entry> entries_;
    unsigned open_ = 0;
};

} // namespace stress
