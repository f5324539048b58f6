// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/events.hpp"

#include "dat_names.hpp"
#include "harness/codes.hpp"
#include "harness/judge.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace conformance {

DAT_RETURN wait_event(DAT_EVD_HANDLE evd, DAT_EVENT &event, milliseconds time)
{
    const auto expiry = std::chrono::steady_clock::now() + time;
    DAT_COUNT more = 0;
    DAT_RETURN code = dat_evd_wait(evd, microseconds(time), 1, &event, &more);
    while (DAT_GET_TYPE(code) == DAT_INTERRUPTED_CALL) {
        const auto left =
            std::chrono::ceil<milliseconds>(expiry - std::chrono::steady_clock::now());
        code = dat_evd_wait(evd, microseconds(std::max(left, milliseconds(0))), 1, &event, &more);
    }
    return code;
}

namespace {

/// `woken`: before the wait expired, at whose end an event is taken as well.
DAT_RETURN wait_woken(DAT_EVD_HANDLE evd, DAT_EVENT &event, bool &woken)
{
    const auto expiry = std::chrono::steady_clock::now() + patience;
    const DAT_RETURN code = wait_event(evd, event);
    woken = std::chrono::steady_clock::now() < expiry;
    return code;
}

/// Expects that a wait found an event; `code` is the wait's.
void expect_some(DAT_RETURN code, DAT_RETURN_TYPE none, const std::string &awaited,
                 const place &where)
{
    if (DAT_GET_TYPE(code) == none)
        give_up("no " + awaited + " within " + std::to_string(patience.count() / 1000) + " s",
                where);
    must_succeed(code, {"dat_evd_wait()", where.file, where.line});
}

DAT_EVENT await_event(DAT_EVD_HANDLE evd, const std::string &awaited, const place &where)
{
    static constexpr step wait{"dat_evd_wait()", __FILE__, __LINE__};
    note(wait);
    DAT_EVENT event{};
    bool woken = false;
    expect_some(wait_woken(evd, event, woken), DAT_TIMEOUT_EXPIRED, awaited, where);
    if (!woken)
        give_up("nothing woke the waiter for " + awaited + ", but " +
                    dat::event_name(event.event_number) +
                    " was there when its wait expired: a notification is lost",
                where);
    return event;
}

void expect_number(const DAT_EVENT &event, DAT_EVENT_NUMBER expected, const place &where)
{
    if (event.event_number != expected)
        give_up(same_event(event.event_number, expected).text, where);
}

} // namespace

bool is_woken(DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    bool woken = false;
    return wait_woken(evd, event, woken) == DAT_SUCCESS && woken;
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd, const place &where)
{
    return await_event(evd, "event", where);
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd, const std::string &awaited, const place &where)
{
    return await_event(evd, awaited, where);
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected, const place &where)
{
    const DAT_EVENT event = await_event(evd, dat::event_name(expected), where);
    expect_number(event, expected, where);
    return event;
}

DAT_EVENT next_request_at(DAT_EVD_HANDLE evd, DAT_CONN_QUAL qualifier, const place &where)
{
    const DAT_EVENT event =
        await_event(evd, "connection request at qualifier " + std::to_string(qualifier), where);
    expect_number(event, DAT_CONNECTION_REQUEST_EVENT, where);
    return event;
}

bool ends_connection(DAT_EVENT_NUMBER number)
{
    return number == DAT_CONNECTION_EVENT_DISCONNECTED || number == DAT_CONNECTION_EVENT_BROKEN;
}

DAT_CONNECTION_EVENT_DATA next_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected,
                                          const place &where)
{
    return next_event(evd, expected, where).event_data.connect_event_data;
}

DAT_DTO_COMPLETION_EVENT_DATA next_dto(DAT_EVD_HANDLE evd, const place &where)
{
    return next_event(evd, DAT_DTO_COMPLETION_EVENT, where).event_data.dto_completion_event_data;
}

DAT_DTO_COMPLETION_EVENT_DATA poll_dto(DAT_EVD_HANDLE evd, const place &where)
{
    DAT_EVENT event{};
    DAT_RETURN code = DAT_SUCCESS;
    becomes_true(
        [&] { return DAT_GET_TYPE(code = dat_evd_dequeue(evd, &event)) != DAT_QUEUE_EMPTY; });
    expect_some(code, DAT_QUEUE_EMPTY, dat::event_name(DAT_DTO_COMPLETION_EVENT), where);
    expect_number(event, DAT_DTO_COMPLETION_EVENT, where);
    return event.event_data.dto_completion_event_data;
}

bool begins_with(const void *data, DAT_COUNT size, const std::string &expected)
{
    return size >= 0 && static_cast<std::size_t>(size) >= expected.size() &&
           (expected.empty() ||
            (data != nullptr && std::memcmp(data, expected.data(), expected.size()) == 0));
}

bool stays_empty(DAT_EVD_HANDLE evd, milliseconds time)
{
    DAT_EVENT event{};
    return DAT_GET_TYPE(wait_event(evd, event, time)) == DAT_TIMEOUT_EXPIRED; // EVD-07: bare
}

std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE evd, milliseconds silence)
{
    std::vector<DAT_EVENT> events;
    DAT_EVENT event{};
    while (wait_event(evd, event, silence) == DAT_SUCCESS)
        events.push_back(event);
    return events;
}

std::vector<DAT_EVENT> collect(DAT_EVD_HANDLE evd, std::size_t number)
{
    std::vector<DAT_EVENT> events;
    DAT_EVENT event{};
    while (wait_event(evd, event, events.size() < number ? milliseconds(3000) : a_while) ==
           DAT_SUCCESS)
        events.push_back(event);
    return events;
}

DAT_EVENT software_event(void *pointer)
{
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = pointer;
    return event;
}

DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number)
{
    const DAT_EVENT event = software_event(reinterpret_cast<void *>(number));
    return dat_evd_post_se(evd, &event);
}

void count_call(DAT_PVOID calls, DAT_EVD_HANDLE evd)
{
    static_cast<agent_calls *>(calls)->by = evd;
    ++static_cast<agent_calls *>(calls)->number;
}

bool becomes_true(const std::function<bool()> &condition, milliseconds time)
{
    const auto until = std::chrono::steady_clock::now() + time;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until)
            return false;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
}

} // namespace conformance
