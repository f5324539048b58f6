// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ends of programs: connections fail or are closed while much is outstanding.
#include "harness/support.hpp"

#include <algorithm>

namespace conformance {
namespace {

constexpr DAT_CLOSE_FLAGS both_ways[] = {DAT_CLOSE_GRACEFUL_FLAG, DAT_CLOSE_ABRUPT_FLAG};

bool is_about_connection(const DAT_EVENT &event)
{
    return event.event_number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
           event.event_number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

/// The next event about the connection, past completions.
DAT_EVENT next_end(DAT_EVD_HANDLE evd, const place &where = place::current())
{
    DAT_EVENT event = next_event(evd, "end of the connection", where);
    while (!is_about_connection(event))
        event = next_event(evd, "end of the connection", where);
    return event;
}

/// No further event about the connection comes.
void expect_no_further_end(DAT_EVD_HANDLE evd)
{
    const auto rest = drain(evd);
    CHECK(std::none_of(rest.begin(), rest.end(), is_about_connection));
}

/// An endpoint whose completions and connection events are all in one EVD.
void merge(test_endpoint &own)
{
    const DAT_EVD_HANDLE merged = make_evd(own.ia, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    MUST(own.free_ep());
    own.recv_evd = own.request_evd = own.connect_evd = merged;
    MUST(dat_ep_create(own.ia.handle, own.pz, merged, merged, merged, nullptr, &own.ep));
}

bool can_merge(const adapter &ia)
{
    return ia.provider.evd_stream_merging_supported[2][3] != DAT_FALSE;
}

/// A message that is too long for its receive, so that the connection fails.
void fail(test_endpoint &sender, test_endpoint &receiver)
{
    MUST(receiver.recv(0, 64, 1));
    MUST(sender.send(0, 100, 2));
}

/// Waits for a while for the failure to be seen, which a device may show by a completion only.
void await_failure(test_endpoint &failing, bool polls)
{
    if (polls)
        CHECK(next_event(failing.recv_evd, DAT_DTO_COMPLETION_EVENT)
                  .event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS);
    else
        (void)becomes_true([&] { return failing.state() == DAT_EP_STATE_DISCONNECTED; }, a_while);
}

endpoint_options deep_ends(adapter &ia, DAT_EP_ATTR &attr)
{
    const test_endpoint usual(ia);
    attr = ep_param(usual.ep).ep_attr;
    attr.max_request_dtos = std::min<DAT_COUNT>(64, ia.attr.max_dto_per_ep);
    endpoint_options options;
    options.attr = &attr;
    options.bytes = 256 * 1024;
    return options;
}

} // namespace

TEST_CASE("CONN-33: a disconnect is answered by DISCONNECTED, also if the connection has failed" *
          hint("leave BROKEN as the only event: programs that wait for DISCONNECTED never end"))
{
    adapter ia;
    for (bool merged : {false, true})
        for (bool polls : {false, true})
            for (DAT_CLOSE_FLAGS how : both_ways) {
                CAPTURE(merged);
                CAPTURE(polls);
                CAPTURE(how);
                if (merged && !can_merge(ia))
                    continue;
                test_endpoint one(ia);
                test_endpoint other(ia);
                for (test_endpoint *side : {&one, &other})
                    if (merged)
                        merge(*side);
                establish(one, other);
                fail(one, other);
                await_failure(other, polls);
                CHECK(same_code(one.disconnect(how), DAT_SUCCESS));
                CHECK(same_code(other.disconnect(how), DAT_SUCCESS));
                for (test_endpoint *side : {&one, &other}) {
                    const DAT_EVENT end = next_end(side->connect_evd);
                    CHECK(same_event(end.event_number, DAT_CONNECTION_EVENT_DISCONNECTED));
                    CHECK(end.event_data.connect_event_data.ep_handle == side->ep);
                    CHECK(side->state() == DAT_EP_STATE_DISCONNECTED);
                    expect_no_further_end(side->connect_evd);
                }
            }
}

TEST_CASE("CONN-34: a disconnect after the end of the connection was taken brings no other" *
          hint("answer each disconnect with an event, or refuse it"))
{
    adapter ia;
    for (DAT_CLOSE_FLAGS how : both_ways) {
        CAPTURE(how);
        connected_pair pair(ia);
        fail(pair.active, pair.passive);
        (void)next_dto(pair.active.request_evd);
        await_failure(pair.passive, true);
        CHECK(same_event(next_end(pair.passive.connect_evd).event_number,
                         DAT_CONNECTION_EVENT_BROKEN));
        CHECK(ends_connection(next_end(pair.active.connect_evd).event_number));
        for (test_endpoint *side : {&pair.active, &pair.passive}) {
            CHECK(same_code(side->disconnect(how), DAT_SUCCESS));
            CHECK(stays_empty(side->connect_evd));
        }
    }
}

TEST_CASE("CONN-35: a disconnect with much outstanding is answered by DISCONNECTED" *
          hint("report what the disconnect has cut off as a failure of the connection"))
{
    adapter ia;
    constexpr int rounds = 4;
    constexpr std::size_t size = 128 * 1024;
    DAT_EP_ATTR attr{};
    const endpoint_options deep = deep_ends(ia, attr);
    for (int round = 0; round < rounds; ++round)
        for (DAT_CLOSE_FLAGS how : both_ways)
            for (bool receiver : {false, true}) {
                CAPTURE(round);
                CAPTURE(how);
                CAPTURE(receiver); // it disconnects, whom the others write to
                connected_pair pair(ia, deep);
                const auto number = static_cast<std::uint64_t>(attr.max_request_dtos) * 15 / 16;
                const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, size);
                for (std::uint64_t i = 0; i < number; ++i)
                    MUST(pair.active.write(0, size, there, i));
                test_endpoint &closing = receiver ? pair.passive : pair.active;
                test_endpoint &peer = receiver ? pair.active : pair.passive;
                CHECK(same_code(closing.disconnect(how), DAT_SUCCESS));
                for (std::uint64_t i = 0; i < number; ++i)
                    CHECK(poll_dto(pair.active.request_evd).user_cookie.as_64 == i);
                CHECK(same_event(next_end(closing.connect_evd).event_number,
                                 DAT_CONNECTION_EVENT_DISCONNECTED));
                CHECK(ends_connection(next_end(peer.connect_evd).event_number));
                for (test_endpoint *side : {&closing, &peer})
                    CHECK(stays_empty(side->connect_evd, milliseconds(5)));
            }
}

} // namespace conformance
