// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connection requests: their attributes, and accept, reject and handoff.
#include "harness/support.hpp"

#include <algorithm>

namespace conformance {
namespace {

/// Requests for a qualifier, one more than its EVD has room for.
std::vector<std::unique_ptr<test_endpoint>> overfill(adapter &ia, DAT_EVD_HANDLE evd,
                                                     DAT_CONN_QUAL qualifier)
{
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
    std::vector<std::unique_ptr<test_endpoint>> ends;
    for (DAT_COUNT i = 0; i <= param.evd_qlen; ++i) {
        ends.push_back(std::make_unique<test_endpoint>(ia));
        MUST(ends.back()->connect(ia.address(), qualifier));
    }
    return ends;
}

/// A request that waits for its answer.
struct pending_request {
    explicit pending_request(adapter &ia, const std::string &data = {}) : from(ia), to(ia), at(ia)
    {
        MUST(from.connect(ia.address(), at.qualifier, connect_timeout(), data));
        request = at.next_request();
    }
    DAT_RETURN accept(const std::string &data = {})
    {
        return dat_cr_accept(request, to.ep, static_cast<DAT_COUNT>(data.size()),
                             data.empty() ? nullptr : const_cast<char *>(data.data()));
    }

    test_endpoint from;
    test_endpoint to;
    listener at;
    DAT_CR_HANDLE request = DAT_HANDLE_NULL;
};

std::string too_much(const adapter &ia)
{
    return std::string(static_cast<std::size_t>(ia.provider.max_private_data_size) + 1, 'x');
}

} // namespace

TEST_CASE("CR-01: query returns the peer's address, the private data and no endpoint" *
          hint("leave out the remote address, or the private data"))
{
    adapter ia;
    pending_request pending(ia, "who asks");
    DAT_CR_PARAM param{};
    CHECK(same_code(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS));
    REQUIRE(param.remote_ia_address_ptr != nullptr);
    CHECK(param.remote_ia_address_ptr->sa_family == ia.address()->sa_family);
    CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
    CHECK(begins_with(param.private_data, param.private_data_size, "who asks"));
    CHECK(same_code(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_cr_query(pending.request, static_cast<DAT_CR_PARAM_MASK>(0x20), &param),
                    bad_arg(2)));
}

TEST_CASE("CR-02: the private data can be edited in place and handed to accept" *
          hint("hand out private data in read-only or shared memory"))
{
    adapter ia;
    pending_request pending(ia, "question");
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &param));
    std::memcpy(param.private_data, "answered", 8);
    MUST(dat_cr_accept(pending.request, pending.to.ep, 8, param.private_data));
    const auto event = next_connection(pending.from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK(begins_with(event.private_data, event.private_data_size, "answered"));
}

TEST_CASE("CR-03: accept checks endpoint and private data, and leaves the request for another try" *
          hint("consume the request although dat_cr_accept failed"))
{
    adapter ia;
    pending_request pending(ia);
    const std::string large = too_much(ia);
    CHECK(same_code(dat_cr_accept(pending.request, DAT_HANDLE_NULL, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_cr_accept(pending.request, pending.to.pz, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(pending.accept(large), bad_arg(3)));
    CHECK(same_code(dat_cr_accept(pending.request, pending.to.ep, -1, nullptr), bad_arg(3)));
    CHECK(same_code(dat_cr_accept(pending.request, pending.to.ep, 4, nullptr), bad_arg(4)));
    CHECK(pending.to.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
    await_established(pending.from, pending.to);
}

TEST_CASE("CR-04: accept with an endpoint in another state is INVALID_STATE, and can be repeated" *
          hint("take any endpoint, or consume the request when its state is refused"))
{
    adapter ia;
    pending_request pending(ia);
    connected_pair busy(ia);
    CHECK(same_type(dat_cr_accept(pending.request, busy.active.ep, 0, nullptr), DAT_INVALID_STATE));
    CHECK(
        same_type(dat_cr_accept(pending.request, pending.from.ep, 0, nullptr), DAT_INVALID_STATE));
    move_data(busy.active, busy.passive);
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
    await_established(pending.from, pending.to);
}

TEST_CASE("CR-05: accept with an endpoint that lacks zone or EVDs is INVALID_STATE" *
          hint("accept on an incomplete endpoint and crash in the first event"))
{
    adapter ia;
    pending_request pending(ia);
    DAT_EP_HANDLE bare = DAT_HANDLE_NULL;
    MUST(dat_ep_create(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                       DAT_HANDLE_NULL, nullptr, &bare));
    CHECK(same_type(dat_cr_accept(pending.request, bare, 0, nullptr), DAT_INVALID_STATE));
    CHECK(state_of(bare) == DAT_EP_STATE_UNCONNECTED);
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
}

TEST_CASE("CR-06: an answered request is no handle any more" *
          hint("free the request at accept without leaving a mark that it is dead"))
{
    adapter ia;
    pending_request pending(ia);
    const DAT_RETURN stale = bad_handle(DAT_INVALID_HANDLE_CR);
    test_endpoint spare(ia);
    MUST(pending.accept());
    CHECK(same_code(dat_cr_accept(pending.request, spare.ep, 0, nullptr), stale));
    CHECK(same_code(dat_cr_reject(pending.request, 0, nullptr), stale));
    DAT_CR_PARAM param{};
    CHECK(same_code(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &param), stale));
    await_established(pending.from, pending.to);
}

TEST_CASE("CR-07: reject checks its private data" *
          hint("pass sizes beyond the limit on to the transport, which cuts them or fails later"))
{
    adapter ia;
    pending_request pending(ia);
    std::string large = too_much(ia);
    CHECK(same_code(
        dat_cr_reject(pending.request, static_cast<DAT_COUNT>(large.size()), large.data()),
        bad_arg(2)));
    CHECK(same_code(dat_cr_reject(pending.request, -1, nullptr), bad_arg(2)));
    CHECK(same_code(dat_cr_reject(pending.request, 4, nullptr), bad_arg(3)));
    CHECK(same_code(dat_cr_reject(pending.request, 0, nullptr), DAT_SUCCESS));
    next_connection(pending.from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

TEST_CASE("CR-08: a request can be handed on, or that is MODEL_NOT_SUPPORTED and leaves it" *
          hint("answer success without handing anything on, or consume the request") *
          needs("cr_handoff"))
{
    adapter ia;
    pending_request pending(ia);
    listener other(ia);
    if (!refused(dat_cr_handoff(pending.request, other.qualifier))) {
        CHECK(same_code(dat_cr_accept(other.next_request(), pending.to.ep, 0, nullptr), success));
        await_established(pending.from, pending.to);
        move_data(pending.from, pending.to);
        return; // more of it from CR-13 on
    }
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
    await_established(pending.from, pending.to);
    NOT_CLAIMED("handing requests on");
}

TEST_CASE("CR-09: a request that finds its EVD full is refused, not by the peer" *
          hint("drop the event silently, so the connecting side waits for its timeout"))
{
    adapter ia;
    listener at(ia, DAT_PSP_CONSUMER_FLAG, 2);
    const auto ends = overfill(ia, at.cr_evd, at.qualifier);
    int refused = 0;
    CHECK(becomes_true([&] {
        DAT_EVENT event{};
        for (const auto &each : ends)
            if (dat_evd_dequeue(each->connect_evd, &event) == DAT_SUCCESS) {
                CHECK(same_event(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED));
                ++refused;
            }
        return refused != 0;
    }));
    CHECK(refused == 1);
    for (std::size_t i = 1; i < ends.size(); ++i)
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    CHECK(stays_empty(at.cr_evd));
}

TEST_CASE("CR-10: an adapter closes with unanswered requests" *
          hint("refuse the close, or leak unanswered requests"))
{
    adapter passive;
    adapter active;
    test_endpoint from(active);
    {
        listener at(passive);
        MUST(from.connect(passive.address(), at.qualifier));
        (void)at.next_request();
    }
    CHECK(
        same_code(passive.close(DAT_CLOSE_GRACEFUL_FLAG), bad_state(DAT_INVALID_STATE_IA_IN_USE)));
    CHECK(same_code(passive.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    const DAT_EVENT event = next_event(from.connect_evd);
    CHECK(same_event(event.event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED));
}

TEST_CASE("CR-11: accept after the peer gave up is a success, then ACCEPT_COMPLETION_ERROR" *
          hint("fail the accept with INTERNAL_ERROR, or never report ACCEPT_COMPLETION_ERROR"))
{
    adapter ia;
    pending_request pending(ia);
    MUST(pending.from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    next_connection(pending.from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    std::this_thread::sleep_for(milliseconds(50));
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
    const auto event =
        next_connection(pending.to.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    CHECK(event.ep_handle == pending.to.ep);
    CHECK(pending.to.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(stays_empty(pending.to.connect_evd));
    MUST(dat_ep_reset(pending.to.ep));
    MUST(dat_ep_reset(pending.from.ep));
    establish(pending.from, pending.to);
}

TEST_CASE("CR-12: reject after the peer gave up is a success" *
          hint("pass the transport's error on when the peer of a rejected request has gone"))
{
    adapter ia;
    pending_request pending(ia);
    MUST(pending.from.free_ep());
    CHECK(same_code(dat_cr_reject(pending.request, 0, nullptr), DAT_SUCCESS));
}

namespace {

/// A request that was handed on to a second service point.
struct handed_on : pending_request {
    explicit handed_on(adapter &ia, const std::string &data = {})
        : pending_request(ia, data), other(ia)
    {
        MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &before));
        const DAT_RETURN code = dat_cr_handoff(request, other.qualifier);
        supported = !refused(code);
        if (supported)
            arrival = other.next_arrival();
        else
            MUST(dat_cr_reject(request, 0, nullptr));
    }

    listener other;
    bool supported = false;
    DAT_CR_PARAM before{}; ///< its pointers are dangling
    DAT_CR_ARRIVAL_EVENT_DATA arrival{};
};

constexpr const char *handing_on = "handing requests on";

} // namespace

TEST_CASE("CR-13: a request that was handed on is no handle any more, and a new one there" *
          hint("leave the old handle alive, or lose private data and address of the peer") *
          needs("cr_handoff"))
{
    adapter ia;
    handed_on moved(ia, "who asks");
    if (!moved.supported)
        NOT_CLAIMED(handing_on);
    const DAT_RETURN stale = bad_handle(DAT_INVALID_HANDLE_CR);
    DAT_CR_PARAM param{};
    CHECK(same_code(dat_cr_query(moved.request, DAT_CR_FIELD_ALL, &param), stale));
    CHECK(same_code(dat_cr_handoff(moved.request, moved.other.qualifier), stale));
    CHECK(same_code(dat_cr_accept(moved.request, moved.to.ep, 0, nullptr), stale));
    CHECK(same_code(dat_cr_reject(moved.request, 0, nullptr), stale));
    CHECK(same_code(dat_cr_handoff(DAT_HANDLE_NULL, moved.other.qualifier), stale));
    CHECK(moved.arrival.sp_handle.psp_handle == moved.other.psp);
    CHECK(moved.arrival.conn_qual == moved.other.qualifier);
    CHECK(moved.arrival.local_ia_address_ptr != nullptr);
    const DAT_CR_HANDLE request = moved.arrival.cr_handle;
    MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
    CHECK(begins_with(param.private_data, param.private_data_size, "who asks"));
    CHECK(param.private_data_size == moved.before.private_data_size);
    CHECK(param.remote_port_qual == moved.before.remote_port_qual);
    REQUIRE(param.remote_ia_address_ptr != nullptr);
    CHECK(param.remote_ia_address_ptr->sa_family == ia.address()->sa_family);
    CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
    std::string answer = "welcome";
    MUST(dat_cr_accept(request, moved.to.ep, 7, answer.data()));
    const auto event = next_connection(moved.from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK(begins_with(event.private_data, event.private_data_size, answer));
    next_connection(moved.to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    move_data(moved.from, moved.to);
    CHECK(stays_empty(moved.at.cr_evd, milliseconds(1)));
}

TEST_CASE("CR-14: a request cannot be handed off to a qualifier without a listener, and stays" *
          hint("consume the request before they look for the service point") * needs("cr_handoff"))
{
    adapter ia;
    adapter other;
    handed_on moved(ia);
    if (!moved.supported)
        NOT_CLAIMED(handing_on);
    const DAT_CR_HANDLE request = moved.arrival.cr_handle;
    CHECK(same_code(dat_cr_handoff(request, unused_qualifier(ia)), bad_arg(2)));
    listener elsewhere(other); // belongs to another instance, which cannot answer for this one
    CHECK(same_code(dat_cr_handoff(request, elsewhere.qualifier), bad_arg(2)));
    CHECK(stays_empty(elsewhere.cr_evd, milliseconds(1)));
    MUST(dat_psp_free(moved.at.psp));
    moved.at.psp = DAT_HANDLE_NULL;
    CHECK(same_code(dat_cr_handoff(request, moved.at.qualifier), bad_arg(2)));
    MUST(dat_cr_accept(request, moved.to.ep, 0, nullptr));
    await_established(moved.from, moved.to);
}

TEST_CASE("CR-15: a request handed to an RSP takes its endpoint, and handed on again leaves it" *
          hint("hand the request on without the endpoint of the RSP, or keep it for ever") *
          needs("cr_handoff"))
{
    adapter ia;
    handed_on moved(ia);
    if (!moved.supported)
        NOT_CLAIMED(handing_on);
    test_endpoint reserved(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    MUST(dat_rsp_create(ia.handle, qualifier, reserved.ep, evd, &rsp));
    MUST(dat_cr_handoff(moved.arrival.cr_handle, qualifier));
    const DAT_CR_HANDLE there = next_event(evd).event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(there, DAT_CR_FIELD_ALL, &param));
    CHECK(param.local_ep_handle == reserved.ep);
    CHECK(reserved.state() == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    CHECK(same_code(dat_cr_handoff(there, qualifier), bad_arg(2))); // it has had its request
    MUST(dat_cr_handoff(there, moved.other.qualifier));
    CHECK(reserved.state() == DAT_EP_STATE_UNCONNECTED);
    MUST(dat_cr_accept(moved.other.next_request(), reserved.ep, 0, nullptr));
    await_established(moved.from, reserved);
    move_data(moved.from, reserved);
    MUST(dat_rsp_free(rsp));
}

TEST_CASE("CR-16: a request handed to where the EVD is full is refused, not by the peer" *
          hint("lose the request, so that the connecting side waits for its timeout") *
          needs("cr_handoff"))
{
    adapter ia;
    handed_on moved(ia);
    if (!moved.supported)
        NOT_CLAIMED(handing_on);
    listener small(ia, DAT_PSP_CONSUMER_FLAG, 1);
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(small.cr_evd, DAT_EVD_FIELD_ALL, &param));
    std::vector<std::unique_ptr<test_endpoint>> ends;
    for (DAT_COUNT i = 0; i < param.evd_qlen; ++i) {
        ends.push_back(std::make_unique<test_endpoint>(ia));
        MUST(ends.back()->connect(ia.address(), moved.at.qualifier));
        MUST(dat_cr_handoff(moved.at.next_request(), small.qualifier));
    }
    CHECK(same_code(dat_cr_handoff(moved.arrival.cr_handle, small.qualifier), success));
    next_connection(moved.from.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK(same_code(dat_cr_reject(moved.arrival.cr_handle, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_CR)));
    for (DAT_COUNT i = 0; i < param.evd_qlen; ++i)
        MUST(dat_cr_reject(small.next_request(), 0, nullptr));
    for (const auto &each : ends)
        next_connection(each->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    CHECK(stays_empty(small.cr_evd, milliseconds(1)));
}

TEST_CASE("CR-17: what a request tells stays while its PSP goes and other requests come" *
          hint("tell addresses of a listener, or of whichever request was the last"))
{
    adapter ia;
    pending_request pending(ia, "the first");
    DAT_CR_PARAM before{};
    MUST(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &before));
    REQUIRE(before.remote_ia_address_ptr != nullptr);
    const std::string address(reinterpret_cast<const char *>(before.remote_ia_address_ptr), 16);
    test_endpoint others[] = {test_endpoint(ia), test_endpoint(ia)};
    for (test_endpoint &each : others) {
        MUST(each.connect(ia.address(), pending.at.qualifier, connect_timeout(), "another"));
        MUST(dat_cr_reject(pending.at.next_request(), 0, nullptr));
        next_connection(each.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    MUST(free_once(dat_psp_free, pending.at.psp));
    DAT_CR_PARAM after{};
    MUST(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &after));
    CHECK(after.remote_port_qual == before.remote_port_qual);
    CHECK(after.private_data_size == before.private_data_size);
    CHECK(begins_with(after.private_data, after.private_data_size, "the first"));
    REQUIRE(after.remote_ia_address_ptr != nullptr);
    CHECK(std::memcmp(after.remote_ia_address_ptr, address.data(), address.size()) == 0);
    MUST(pending.accept());
    await_established(pending.from, pending.to);
}

TEST_CASE("CR-18: accept refuses an endpoint of every state but UNCONNECTED" *
          hint("know some of the states, or take an endpoint that an RSP or a request has"))
{
    adapter ia;
    pending_request pending(ia);
    const auto expect_refused = [&](DAT_EP_HANDLE ep, DAT_EP_STATE state) {
        CAPTURE(state);
        CHECK(state_of(ep) == state);
        CHECK(same_type(dat_cr_accept(pending.request, ep, 0, nullptr), DAT_INVALID_STATE));
        CHECK(state_of(ep) == state);
    };
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    test_endpoint held(ia);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    MUST(dat_rsp_create(ia.handle, qualifier, held.ep, evd, &rsp));
    expect_refused(held.ep, DAT_EP_STATE_RESERVED);
    test_endpoint asking(ia);
    MUST(asking.connect(ia.address(), qualifier));
    const DAT_CR_HANDLE reserved = next_event(evd).event_data.cr_arrival_event_data.cr_handle;
    expect_refused(held.ep, DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    expect_refused(asking.ep, DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    MUST(dat_cr_reject(reserved, 0, nullptr));
    next_connection(asking.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    expect_refused(asking.ep, DAT_EP_STATE_DISCONNECTED);
    MUST(dat_rsp_free(rsp));
    listener maker(ia, DAT_PSP_PROVIDER_FLAG);
    test_endpoint second(ia);
    MUST(second.connect(ia.address(), maker.qualifier));
    const DAT_CR_HANDLE brought = maker.next_request();
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(brought, DAT_CR_FIELD_ALL, &param));
    expect_refused(param.local_ep_handle, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    MUST(dat_cr_reject(brought, 0, nullptr));
    CHECK(same_code(pending.accept(), DAT_SUCCESS));
    await_established(pending.from, pending.to);
    move_data(pending.from, pending.to);
}

TEST_CASE("CR-19: a request is handed off with its private data as they are then" *
          hint("keep the data that came, and hand those on") * needs("cr_handoff"))
{
    adapter ia;
    pending_request pending(ia, "question");
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(pending.request, DAT_CR_FIELD_ALL, &param));
    std::memcpy(param.private_data, "answered", 8);
    listener other(ia);
    if (refused(dat_cr_handoff(pending.request, other.qualifier)))
        NOT_CLAIMED(handing_on);
    const DAT_CR_HANDLE there = other.next_request();
    MUST(dat_cr_query(there, DAT_CR_FIELD_ALL, &param));
    CHECK(begins_with(param.private_data, param.private_data_size, "answered"));
    MUST(dat_cr_accept(there, pending.to.ep, 0, nullptr));
    await_established(pending.from, pending.to);
}

TEST_CASE("CR-20: a request handed to a PSP that makes endpoints is given one there" *
          hint("hand the request on without the endpoint, or leave the one that it had") *
          needs("cr_handoff"))
{
    adapter ia;
    handed_on moved(ia);
    if (!moved.supported)
        NOT_CLAIMED(handing_on);
    listener maker(ia, DAT_PSP_PROVIDER_FLAG);
    MUST(dat_cr_handoff(moved.arrival.cr_handle, maker.qualifier));
    const DAT_CR_HANDLE there = maker.next_request();
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(there, DAT_CR_FIELD_ALL, &param));
    const DAT_EP_HANDLE made = param.local_ep_handle;
    REQUIRE(made != DAT_HANDLE_NULL);
    CHECK(state_of(made) == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    MUST(dat_cr_handoff(there, moved.other.qualifier)); // a service point that makes no endpoints
    CHECK(same_code(dat_ep_get_status(made, nullptr, nullptr, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    const DAT_CR_HANDLE back = moved.other.next_request();
    MUST(dat_cr_query(back, DAT_CR_FIELD_ALL, &param));
    CHECK(param.local_ep_handle == DAT_HANDLE_NULL);
    MUST(dat_cr_accept(back, moved.to.ep, 0, nullptr));
    await_established(moved.from, moved.to);
}

TEST_CASE("CR-21: a request that finds its EVD full raises an asynchronous EVD_OVERFLOW" *
          hint("refuse the request, and tell the consumer nothing"))
{
    adapter ia;
    listener at(ia, DAT_PSP_CONSUMER_FLAG, 1);
    const auto ends = overfill(ia, at.cr_evd, at.qualifier);
    const DAT_EVENT told = next_event(ia.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK(told.event_data.asynch_error_event_data.dat_handle == at.cr_evd);
    CHECK(told.event_data.asynch_error_event_data.reason == DAT_EVD_OVERFLOW_ERROR);
    for (std::size_t i = 1; i < ends.size(); ++i)
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    // It goes on.
    test_endpoint from(ia);
    test_endpoint to(ia);
    establish(from, to, at);
}

TEST_CASE("CR-22: an RSP whose EVD is full keeps its endpoint, and takes the next request" *
          hint("give the endpoint to a request without an event for it"))
{
    adapter ia;
    test_endpoint reserved(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG, 1);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL filling = 0;
    MUST(dat_psp_create_any(ia.handle, &filling, evd, DAT_PSP_CONSUMER_FLAG, &psp));
    const auto ends = overfill(ia, evd, filling);
    const auto one_is_refused = [&] {
        DAT_EVENT event{};
        return std::any_of(ends.begin(), ends.end(), [&](const auto &each) {
            return dat_evd_dequeue(each->connect_evd, &event) == DAT_SUCCESS;
        });
    };
    REQUIRE(becomes_true(one_is_refused)); // tells that the EVD is full
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    MUST(dat_rsp_create(ia.handle, qualifier, reserved.ep, evd, &rsp));
    test_endpoint refused_one(ia);
    MUST(refused_one.connect(ia.address(), qualifier));
    next_connection(refused_one.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK(reserved.state() == DAT_EP_STATE_RESERVED);
    for (std::size_t i = 1; i < ends.size(); ++i)
        MUST(dat_cr_reject(next_event(evd).event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), qualifier));
    MUST(dat_cr_accept(next_event(evd).event_data.cr_arrival_event_data.cr_handle, DAT_HANDLE_NULL,
                       0, nullptr));
    await_established(from, reserved);
    MUST(dat_rsp_free(rsp));
    MUST(dat_psp_free(psp));
}

} // namespace conformance
