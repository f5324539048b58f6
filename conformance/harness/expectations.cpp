// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/expectations.hpp"

#include "dat_names.hpp"
#include "harness/codes.hpp"
#include "harness/events.hpp"
#include "harness/holdings.hpp"
#include "harness/judge.hpp"

#include <algorithm>

namespace conformance {

namespace {

std::string outcome_of(const DAT_DTO_COMPLETION_EVENT_DATA &done)
{
    return std::string(dat::dto_status_name(done.status)) + " with " +
           std::to_string(done.transfered_length) + " bytes";
}

} // namespace

void move_data(test_endpoint &from, test_endpoint &to, unsigned seed, const place &where)
{
    constexpr std::size_t size = 1000;
    from.memory.fill(0, size, seed);
    MUST(to.recv(4096, size, seed));
    MUST(from.send(0, size, seed));
    const auto sent = next_dto(from.request_evd, where);
    const auto received = next_dto(to.recv_evd, where);
    std::string wrong;
    if (sent.status != DAT_DTO_SUCCESS || received.status != DAT_DTO_SUCCESS)
        wrong = "failed";
    else if (received.transfered_length != size)
        wrong = "arrived with another length";
    else if (!to.memory.holds(4096, size, seed))
        wrong = "arrived with other data";
    if (!wrong.empty())
        give_up("a message of " + std::to_string(size) + " bytes " + wrong + ": send " +
                    outcome_of(sent) + ", receive " + outcome_of(received),
                where);
}

void expect_disconnected(test_endpoint &one, test_endpoint &other)
{
    for (test_endpoint *side : {&one, &other}) {
        const DAT_EVENT event = next_event(side->connect_evd, "end of the connection");
        CHECK(same_event(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED));
        CHECK(event.event_data.connect_event_data.ep_handle == side->ep);
    }
    for (test_endpoint *side : {&one, &other}) {
        CHECK(stays_empty(side->connect_evd));
        CHECK(side->state() == DAT_EP_STATE_DISCONNECTED);
    }
}

bool acknowledged()
{
    return the_settings().promised("acknowledged");
}

void expect_broken(test_endpoint &failing, test_endpoint &other, bool for_sure)
{
    const DAT_EVENT here =
        next_event(failing.connect_evd, "end of the connection, after its operation failed,");
    if (for_sure)
        CHECK(same_event(here.event_number, DAT_CONNECTION_EVENT_BROKEN));
    CHECK(ends_connection(here.event_number));
    CHECK(ends_connection(
        next_event(other.connect_evd, "end of the connection, after the peer's operation failed,")
            .event_number));
    CHECK(failing.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(other.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(stays_empty(failing.connect_evd, milliseconds(30)));
    CHECK(stays_empty(other.connect_evd, milliseconds(30)));
}

void expect_refused(test_endpoint &by, test_endpoint &there, bool reading, std::uint64_t cookie)
{
    const auto done = next_dto(by.request_evd);
    CHECK(done.user_cookie.as_64 == cookie);
    const bool told = done.status != DAT_DTO_SUCCESS && done.status != DAT_DTO_ERR_FLUSHED;
    if (told || (!acknowledged() && !reading))
        MESSAGE("the request completes with ", std::string(dat::dto_status_name(done.status)));
    else if (acknowledged() || done.status == DAT_DTO_SUCCESS)
        FAIL_CHECK(std::string(reading ? "an RDMA read" : "an RDMA write"),
                   " that has to be refused completes with ", outcome_of(done));
    expect_broken(by, there, told);
    CHECK(stays_empty(by.request_evd, milliseconds(1)));
}

void expect_rest()
{
    constexpr int looks = 50;
    int least = looks;
    for (int round = 0; round < 5 && least >= looks / 5; ++round) {
        // Repeated: earlier work may have to end first.
        least = std::min(least, looks_with_running_threads(looks, milliseconds(5)));
    }
    if (least >= looks / 5)
        FAIL_CHECK("a thread of the provider runs in ", least, " of ", looks,
                   " looks while nothing happens");
}

} // namespace conformance
