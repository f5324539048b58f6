// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Options of the command line, and timeouts of the cases.
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
    bool long_rounds = false; ///< stress cases run at full length
    std::string peer_network; ///< network namespace of the peer processes, if not ours
    std::string peer_user;    ///< name or number of the user that they run as, if not ours
    std::string fail_device;  ///< command of the shell that makes the device fail, if there is one
    /// What the transport guarantees beyond DAT: an observation becomes a check.
    std::vector<std::string> promises;

    bool promised(const std::string &what) const;
};
settings &the_settings();

using std::chrono::milliseconds;

/// Marks functions that access memory that devices write: ThreadSanitizer does not know that a
/// completion on one adapter is ordered after the writes of another.
#define DEVICE_MEMORY __attribute__((no_sanitize("thread")))

/// Timeout for an expected event; generous, for slow machines. See --patience.
inline milliseconds patience{20'000};
/// Timeout of a connect that is to succeed: it expires before a wait for its event does.
inline milliseconds connect_timeout()
{
    return patience * 3 / 4;
}
/// How long a case waits to see that no event arrives.
inline constexpr milliseconds a_while{150};

constexpr DAT_TIMEOUT microseconds(milliseconds time)
{
    return static_cast<DAT_TIMEOUT>(time.count() * 1000);
}

/// Whether a sanitizer is at work. Sanitizers have memory and mappings of their own, and report
/// leaks of all libraries at exit. A sanitizer's run time may be there for a provider only,
/// preloaded.
bool instrumented();
/// Whether ThreadSanitizer is at work.
bool thread_sanitized();
/// Whether the handler of a signal runs late. ThreadSanitizer puts it off until the thread makes
/// its next call, which a wait that the system restarts does not.
inline bool puts_handlers_off()
{
    return thread_sanitized();
}

} // namespace conformance
