// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What was asked for on the command line, and the times that cases wait.
#pragma once

#include <dat2/udat.h>

#include <chrono>
#include <string>
#include <vector>

namespace conformance {

struct settings {
    std::string ia;
    bool thread_safe = false;
    bool in_process = false;
    bool long_rounds = false; ///< cases that repeat something do it as often as is meant
    std::string peer_network; ///< network namespace of second processes, if not ours
    /// What a transport may promise beyond DAT; an observation becomes a check.
    std::vector<std::string> promises;

    bool promised(const std::string &what) const;
};
settings &the_settings();

using std::chrono::milliseconds;

/// Of a function that looks at memory through which devices move data: ThreadSanitizer does not see
/// that a completion on one adapter orders what another did.
#define DEVICE_MEMORY __attribute__((no_sanitize("thread")))

/// How long a case waits for what must come. Far more than it takes: slow machines run this too.
inline constexpr milliseconds patience{20'000};
/// How long a case waits for what must not come.
inline constexpr milliseconds a_while{150};

constexpr DAT_TIMEOUT microseconds(milliseconds time)
{
    return static_cast<DAT_TIMEOUT>(time.count() * 1000);
}

/// Sanitizers keep memory and mappings of their own, and judge the leaks of every library at exit.
constexpr bool instrumented()
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

} // namespace conformance
