// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A run: its settings, its workers, its counts, and its end when a rule is broken.
#pragma once

#include "ledger.hpp"

#include <dat2/udat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stress {

struct settings {
    std::string ia;
    std::uint32_t threads = 8;
    std::uint32_t links = 12;
    std::uint32_t seconds = 10;
    std::uint32_t worlds = 1;
    std::uint32_t seed = 0;
    std::uint32_t patience = 60;
    std::string keep_loaded;
    std::string json;
    std::string api = "2.0";
    bool skip_unsupported = false; ///< an adapter that lacks what all of this needs is no failure
    bool no_srqs = false;          ///< a connection whose SRQ runs dry breaks
    bool no_windows = false;       ///< no RMR is bound
    bool faults = false;           ///< calls, requests and connections may fail at any time
};

/// Numbers that follow from a seed.
class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed) {}

    std::uint64_t roll()
    {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(roll() % end); }
    bool one_in(std::uint32_t times) { return below(times) == 0; }

private:
    std::uint64_t state_;
};

enum class counter {
    endpoints,
    connects,
    alike,
    made_for,
    reserved,
    handed_on,
    windows,
    pools,
    pooled,
    established,
    refused,
    ended,
    resets,
    posted,
    succeeded,
    flushed,
    failed,
    suppressed,
    dropped,
    software,
    waits,
    expired,
    triggers,
    associations,
    resizes,
    sent_home,
    bytes,
    number_of
};
inline constexpr auto counters = static_cast<std::size_t>(counter::number_of);
extern const std::array<const char *, counters> counter_names;

/// A thread: its dice, its counts, and its present call.
struct worker {
    worker(unsigned index, std::uint64_t seed) : number(index), random(seed) {}

    void count(counter what, std::uint64_t by = 1)
    {
        auto &at = counts[static_cast<std::size_t>(what)];
        at.store(at.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    void enters(const char *name)
    {
        call.store(name, std::memory_order_relaxed);
        since.store(now(), std::memory_order_relaxed);
    }
    DAT_RETURN left(DAT_RETURN code)
    {
        call.store(nullptr, std::memory_order_relaxed);
        calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return code;
    }

    const unsigned number;
    dice random;
    std::atomic<const char *> call{nullptr}; ///< the call in progress
    std::atomic<instant> since{0};           ///< start of that call
    std::atomic<bool> for_good{false};       ///< it waits without a timeout
    std::atomic<bool> at_work{false};        ///< the thread has not ended
    std::atomic<int> thread{0};              ///< its id for the kernel
    std::atomic<std::uint64_t> calls{0};
    std::array<std::atomic<std::uint64_t>, counters> counts{};
};

/// A DAT call that is visible to the monitor while it runs.
#define CALL(who, function, ...) ((who).enters(#function), (who).left(function(__VA_ARGS__)))
/// Makes a DAT call that must succeed, in a member function of world.
#define MUST(who, function, ...)                                                                   \
    run_.insist(#function, [&] { return CALL(who, function, __VA_ARGS__); })

using crew = std::vector<std::unique_ptr<worker>>;

class run {
public:
    explicit run(const settings &wanted);

    /// Ends the program: it is of no use with this adapter.
    [[noreturn]] void skipped(const char *call);
    /// Ends the program: a rule of DAT is broken.
    [[noreturn]] void broken(std::string_view rule, const std::string &what);
    void must(DAT_RETURN code, const char *call);
    /// Makes the call, and repeats it while a fault makes it fail.
    template <class Make>
    void insist(const char *call, Make &&make)
    {
        DAT_RETURN code = make();
        while (is_fault(code))
            code = make();
        must(code, call);
    }
    /// Whether a call may have failed this way, though it did not have to.
    bool is_fault(DAT_RETURN code) const
    {
        return asked.faults && DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES;
    }

    std::uint64_t total(counter what) const;
    std::uint64_t calls() const;
    void progress_line() const;
    void clear_line() const;
    void where_they_are() const;
    void write_result(std::string_view broken_rule) const;
    double seconds() const { return static_cast<double>(now() - began_) / 1e9; }

    const settings asked;
    const instant patience; ///< limit for an event that must come
    crew workers;           ///< the last one is the main thread

private:
    const instant began_;
};

} // namespace stress
