// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Waiting for events: each wait ends after a time.
#pragma once

#include "harness/settings.hpp"

#include <dat2/udat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace conformance {

/// Waits, a signal notwithstanding.
DAT_RETURN wait_event(DAT_EVD_HANDLE evd, DAT_EVENT &event, milliseconds time = patience);
DAT_EVENT next_event(DAT_EVD_HANDLE evd);
DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected);
/// One of the two that end a connection.
bool ends_connection(DAT_EVENT_NUMBER number);
DAT_CONNECTION_EVENT_DATA next_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected);
DAT_DTO_COMPLETION_EVENT_DATA next_dto(DAT_EVD_HANDLE evd);
/// Private data that begin so; how long they are, CONN-04 looks at.
bool begins_with(const void *data, DAT_COUNT size, const std::string &expected);
/// Nothing comes for a while.
bool stays_empty(DAT_EVD_HANDLE evd, milliseconds time = a_while);
/// All that is in it, and what comes until it has been silent for a while.
std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE evd, milliseconds silence = a_while);
/// The same where so many are to come: as long as they have not, a longer silence is borne.
std::vector<DAT_EVENT> collect(DAT_EVD_HANDLE evd, std::size_t number);

DAT_EVENT software_event(void *pointer);
DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number = 0);

/// False if it did not become true in time.
bool becomes_true(const std::function<bool()> &condition, milliseconds time = patience);

} // namespace conformance
