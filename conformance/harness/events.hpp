// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waiting for events: each wait ends after a time.
#pragma once

#include "harness/judge.hpp"
#include "harness/settings.hpp"

#include <dat2/udat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace conformance {

/// Waits for an event; after a signal it waits on for the rest of the time.
DAT_RETURN wait_event(DAT_EVD_HANDLE evd, DAT_EVENT &event, milliseconds time = patience);
/// Whether an event came, and woke this wait for it.
bool is_woken(DAT_EVD_HANDLE evd, DAT_EVENT &event);
/// The case ends if none arrives, or if nothing wakes the wait for a completion.
DAT_EVENT next_event(DAT_EVD_HANDLE evd, const place &where = place::current());
/// Waits for an event. `awaited` names it in the message if it does not come.
DAT_EVENT next_event(DAT_EVD_HANDLE evd, const std::string &awaited,
                     const place &where = place::current());
DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected,
                     const place &where = place::current());
DAT_EVENT next_request_at(DAT_EVD_HANDLE evd, DAT_CONN_QUAL qualifier, const place &where);
/// Whether it is DISCONNECTED or BROKEN.
bool ends_connection(DAT_EVENT_NUMBER number);
DAT_CONNECTION_EVENT_DATA next_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected,
                                          const place &where = place::current());
DAT_DTO_COMPLETION_EVENT_DATA next_dto(DAT_EVD_HANDLE evd, const place &where = place::current());
/// Takes a completion like next_dto, by dat_evd_dequeue().
DAT_DTO_COMPLETION_EVENT_DATA poll_dto(DAT_EVD_HANDLE evd, const place &where = place::current());
/// Whether private data begin with `expected`; CONN-04 tests their length.
bool begins_with(const void *data, DAT_COUNT size, const std::string &expected);
/// Returns true if no event arrives for `time`.
bool stays_empty(DAT_EVD_HANDLE evd, milliseconds time = a_while);
/// Takes all events, until none has arrived for `silence`.
std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE evd, milliseconds silence = a_while);
/// Takes events until none arrives for a while; waits longer while there are less than `number`.
std::vector<DAT_EVENT> collect(DAT_EVD_HANDLE evd, std::size_t number);

DAT_EVENT software_event(void *pointer);
DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number = 0);

/// Calls of the agent of a CNO, {&calls, count_call}.
struct agent_calls {
    std::atomic<int> number{0};
    std::atomic<DAT_EVD_HANDLE> by{DAT_HANDLE_NULL};
};
void count_call(DAT_PVOID calls, DAT_EVD_HANDLE evd);

/// Returns false on timeout.
bool becomes_true(const std::function<bool()> &condition, milliseconds time = patience);

} // namespace conformance
