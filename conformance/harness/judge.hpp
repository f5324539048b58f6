// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the running case reports to the process that judges it: that it does not apply, that it needs
// more time, the call it makes, and why it cannot go on.
#pragma once

#include <doctest/doctest.h>

#include <dat2/udat.h>

#include <atomic>
#include <string>

namespace conformance {

/// What a typical port that fails this case does; shown when it fails.
using hint = doctest::description;
/// What the case needs, in words separated by spaces. Of a capability that the adapter does not
/// claim, the case checks the refusal, and says NOT_CLAIMED. The word `alone` is for the runner: no
/// other case runs beside this one.
using needs = doctest::test_suite;

/// Who watches the running case from outside; there is nobody when it runs in-process.
struct judge {
    virtual void not_claimed(const std::string &what) = 0;
    /// Ends the case, by an exception: a call that it cannot do without is not supported.
    [[noreturn]] virtual void decline(const std::string &call) = 0;
    virtual void allow_seconds(unsigned seconds) = 0;

protected:
    ~judge() = default;
};
void set_judge(judge *watching);

/// Ends the case: the adapter does not have this, and said so properly.
#define NOT_CLAIMED(what)                                                                          \
    do {                                                                                           \
        ::conformance::tell_not_claimed(what);                                                     \
        return;                                                                                    \
    } while (false)
void tell_not_claimed(const std::string &what);

/// Gives the running case this many seconds in all before it counts as hanging.
void allow_seconds(unsigned seconds);

/// A call that a case is about to make.
struct step {
    const char *call;
    const char *file;
    int line;
};
using last_step = std::atomic<const step *>;
/// Steps are noted there from now on: in memory that outlives a crash.
void note_steps_in(last_step *place);
void note(const step &next);

/// Ends the case, or the process if it is a peer.
[[noreturn]] void give_up(const std::string &why, const char *file, int line);
void must_succeed(DAT_RETURN code, const step &at);

/// For calls that prepare what a case is about. Where one is not supported, the case is not
/// claimed.
#define MUST(...)                                                                                  \
    do {                                                                                           \
        static constexpr ::conformance::step must_step{#__VA_ARGS__, __FILE__, __LINE__};          \
        ::conformance::note(must_step);                                                            \
        ::conformance::must_succeed((__VA_ARGS__), must_step);                                     \
    } while (false)
#define GIVE_UP(why) ::conformance::give_up((why), __FILE__, __LINE__)

/// Peers have no doctest to report to.
void this_is_a_peer();

} // namespace conformance
