// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What each call answers in each state of the object that it is made on, as observed.
#pragma once

#include "harness/support.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

/// None where the adapter lacks what the call or the state needs.
using answer = std::optional<DAT_RETURN>;

/// The answer of a call that some libdat2 do not export.
template <auto call, class... Args>
answer if_there(const char *name, Args... args)
{
    auto *there = optional_call<std::remove_pointer_t<decltype(call)>>(name);
    return there == nullptr ? answer{} : answer{there(args...)};
}
#define IF_THERE(call, ...) ::conformance::if_there<&call>(#call, __VA_ARGS__)

/// A call, with good arguments; `how` tells ways of calling it apart.
template <class Subject>
struct call_on {
    const char *call;
    const char *how;
    std::function<answer(Subject &)> make;
};

/// `enter` makes an object that is in the state, or null if there is none on this adapter.
template <class Subject>
struct state_of_one {
    const char *name;
    std::unique_ptr<Subject> (*enter)();
};

/// All calls on an object in one state.
struct probing {
    struct row {
        std::string call;
        std::string how;
    };
    struct outcome {
        bool entered; ///< whether the adapter has the state
        answer told;
    };
    std::string object;
    std::string state;
    std::vector<row> calls;
    std::function<outcome(std::size_t call)> make; ///< makes one call on a fresh object
};

template <class Subject>
std::vector<probing> probings_of(const char *object,
                                 const std::vector<state_of_one<Subject>> &states,
                                 const std::vector<call_on<Subject>> &calls)
{
    std::vector<probing> made;
    for (const state_of_one<Subject> &state : states) {
        probing one{object, state.name, {}, [enter = state.enter, calls](std::size_t call) {
                        const std::unique_ptr<Subject> subject = enter();
                        return subject == nullptr
                                   ? probing::outcome{false, {}}
                                   : probing::outcome{true, calls[call].make(*subject)};
                    }};
        for (const call_on<Subject> &each : calls)
            one.calls.push_back({each.call, each.how});
        made.push_back(std::move(one));
    }
    return made;
}

std::vector<probing> library_probings();
std::vector<probing> handle_probings();
std::vector<probing> adapter_probings();
std::vector<probing> evd_probings();
std::vector<probing> cno_probings();
std::vector<probing> endpoint_probings();
std::vector<probing> connection_probings();
std::vector<probing> memory_probings();
std::vector<probing> shared_queue_probings();

/// Makes all calls in all states, each state in a process of its own, and writes the answers to the
/// file, as JSON. False if one of the processes did not come to its end; says why.
bool record_answers(const std::string &file, unsigned jobs, double seconds);

} // namespace conformance
