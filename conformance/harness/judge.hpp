// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the running case reports to the process that judges it: that an optional feature is missing,
// that it needs more time, the call in progress, and why it cannot continue.
#pragma once

#include <doctest/doctest.h>

#include <dat2/udat.h>

#include <atomic>
#include <cstddef>
#include <string>

namespace conformance {

/// What a typical port does that fails this case; shown when it fails.
using hint = doctest::description;
/// The optional features that the case needs, separated by spaces. If the adapter lacks one, the
/// case checks the refusal and ends with NOT_CLAIMED. The word `alone` is for the runner: no other
/// case runs beside it.
using needs = doctest::test_suite;

/// Receives the reports of the running case. Null when the case runs in-process.
struct judge {
    virtual void not_claimed(const std::string &what) = 0;
    /// Ends the case by an exception: a call that it requires is not supported. `call` is its name,
    /// if that is known.
    [[noreturn]] virtual void decline(const std::string &reason, const std::string &call) = 0;
    virtual void allow_seconds(unsigned seconds) = 0;

protected:
    ~judge() = default;
};
void set_judge(judge *watching);

/// Ends the case: the adapter lacks this feature and refused it with the proper code.
#define NOT_CLAIMED(what)                                                                          \
    do {                                                                                           \
        ::conformance::tell_not_claimed(what);                                                     \
        return;                                                                                    \
    } while (false)
void tell_not_claimed(const std::string &what);

/// Sets the total number of seconds before the running case is considered hung.
void allow_seconds(unsigned seconds);

/// A call that the case is about to make.
struct step {
    const char *call;
    const char *file;
    int line;
};
/// Distance of a step from a place that all processes of this program have; 0 stands for none.
using noted_step = std::atomic<std::ptrdiff_t>;
/// Records further steps in `place`: shared memory that survives a crash.
void note_steps_in(noted_step *place);
/// The step that a process of this program has recorded last, as this process has it; or null.
const step *step_in(const noted_step &place);
void note(const step &next);

/// The place of a failure in a case; a harness function that waits takes its caller's place.
struct place {
    const char *file;
    int line;
    static constexpr place current(const char *of = __builtin_FILE(), int at = __builtin_LINE())
    {
        return {of, at};
    }
};

/// Ends the case, or the process if it is a peer.
[[noreturn]] void give_up(const std::string &why, const char *file, int line);
[[noreturn]] inline void give_up(const std::string &why, const place &where)
{
    give_up(why, where.file, where.line);
}
void must_succeed(DAT_RETURN code, const step &at);
/// Ends the case as not claimed where a peer process has ended with the exit status that stands for
/// a call that it needs and that is not supported.
void decline_with_peer(int status);
/// Whether a process with this exit status ended for such a call.
bool is_decline(int status);

/// Makes a call that sets up a case. If it is not supported, the case is not claimed.
#define MUST(...)                                                                                  \
    do {                                                                                           \
        static constexpr ::conformance::step must_step{#__VA_ARGS__, __FILE__, __LINE__};          \
        ::conformance::note(must_step);                                                            \
        ::conformance::must_succeed((__VA_ARGS__), must_step);                                     \
    } while (false)
#define GIVE_UP(why) ::conformance::give_up((why), __FILE__, __LINE__)

/// Marks this process as a peer: it reports failures by its exit status, not through doctest.
void this_is_a_peer();

} // namespace conformance
