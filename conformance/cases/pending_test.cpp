// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints between two states, where a peer that is stopped holds them; and the end of connections
// that it does not answer.
#include "harness/support.hpp"

#include "harness/ep_states.hpp"

namespace conformance {
namespace {

/// What calls answered that a state forbids, but for the last one.
struct answers {
    struct answer {
        const char *call;
        DAT_RETURN code;
    };
    std::vector<answer> forbidden;
    DAT_RETURN recv;
    DAT_EP_STATE queried;
    DAT_EP_STATE state; ///< afterwards
};

answers ask(test_endpoint &own, const DAT_RMR_TRIPLET &there)
{
    answers got{};
    const auto note = [&](const char *call, DAT_RETURN code) {
        got.forbidden.push_back({call, code});
    };
    note("dat_ep_connect", own.connect(own.ia.address(), unused_qualifier(own.ia)));
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    note("dat_rsp_create", dat_rsp_create(own.ia.handle, unused_qualifier(own.ia), own.ep,
                                          make_evd(own.ia, DAT_EVD_CR_FLAG), &rsp));
    note("dat_ep_reset", dat_ep_reset(own.ep));
    DAT_EP_PARAM wanted = ep_param(own.ep);
    note("dat_ep_modify", dat_ep_modify(own.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &wanted));
    note("dat_ep_post_send", own.send(0, 64));
    note("dat_ep_post_rdma_write", own.write(0, 64, there));
    note("dat_ep_post_rdma_read", own.read(0, 64, there));
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (own.ia.attr.max_rmrs != 0 && dat_rmr_create(own.pz, &rmr) == DAT_SUCCESS) {
        const DAT_LMR_TRIPLET part = own.memory.local(0, 64);
        DAT_RMR_CONTEXT context = 0;
        note("dat_rmr_bind",
             dat_rmr_bind(rmr, own.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                          own.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG, &context));
        MUST(dat_rmr_free(rmr));
    }
    got.recv = own.recv(0, 64, 77);
    got.queried = ep_param(own.ep).ep_state;
    got.state = own.state();
    return got;
}

void expect_busy(const answers &got, DAT_EP_STATE state, unsigned subtype)
{
    for (const answers::answer &each : got.forbidden) {
        CAPTURE(std::string(each.call));
        CHECK(same_code(each.code, bad_state(subtype)));
    }
    CHECK(same_code(got.recv, DAT_SUCCESS));
    CHECK(got.queried == state);
    CHECK(got.state == state);
}

/// Where there is nothing to wait for, all of the data has been placed.
bool waits(lingering &on)
{
    if (on.pending())
        return true;
    for (std::uint64_t i = 0; i < lingering::requests; ++i) {
        const auto done = next_dto(on.own.request_evd);
        CHECK(done.user_cookie.as_64 == i);
        CHECK(done.status == DAT_DTO_SUCCESS);
    }
    return false;
}

void expect_end(lingering &on)
{
    next_connection(on.own.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK(on.own.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(collect(on.own.request_evd, lingering::requests).size() == lingering::requests);
    CHECK(stays_empty(on.own.connect_evd, milliseconds(20)));
}

constexpr int guests = 8;

/// A peer that takes all requests, and keeps the connections.
int hospitable(peer_link &link)
{
    adapter ia;
    listener at(ia);
    std::vector<std::unique_ptr<test_endpoint>> own;
    link.send(offer_of(ia, at.qualifier));
    for (int i = 0; i < guests; ++i) {
        own.push_back(std::make_unique<test_endpoint>(ia));
        MUST(dat_cr_accept(at.next_request(), own.back()->ep, 0, nullptr));
        next_connection(own.back()->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    link.send(true);
    (void)link.receive<char>();
    return 0;
}
const role hospitable_role("hospitable", hospitable);

constexpr const char *waiting_accepts = "accepts that wait for the peer";
constexpr const char *waiting_ends = "graceful disconnects that wait for the peer";

} // namespace

TEST_CASE("EP-42: while an accept waits for its peer the endpoint is COMPLETION_PENDING" *
          hint("be connected before the peer knows, or take posts before it is") *
          needs("waiting_accepts"))
{
    accepted_request on;
    if (!on.pending())
        NOT_CLAIMED(waiting_accepts);
    expect_busy(ask(on.own, {}), DAT_EP_STATE_COMPLETION_PENDING,
                DAT_INVALID_STATE_EP_COMPLPENDING);
    test_endpoint from(on.ia); // another request does not get it
    MUST(from.connect(on.ia.address(), on.at.qualifier));
    const DAT_CR_HANDLE request = on.at.next_request();
    CHECK(same_type(dat_cr_accept(request, on.own.ep, 0, nullptr), DAT_INVALID_STATE));
    MUST(dat_cr_reject(request, 0, nullptr));
    on.peer.go_on();
    next_connection(on.own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK(on.own.state() == DAT_EP_STATE_CONNECTED);
}

TEST_CASE("EP-43: an endpoint that accepts can be disconnected, once, whatever the peer says then" *
          hint("refuse it, or report the connection that comes up after all") *
          needs("waiting_accepts"))
{
    for (DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
        CAPTURE(how);
        accepted_request on;
        if (!on.pending())
            NOT_CLAIMED(waiting_accepts);
        MUST(on.own.recv(0, 64, 5));
        CHECK(same_code(on.own.disconnect(how), DAT_SUCCESS));
        next_connection(on.own.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        CHECK(on.own.state() == DAT_EP_STATE_DISCONNECTED);
        CHECK(next_dto(on.own.recv_evd).status == DAT_DTO_ERR_FLUSHED);
        on.peer.go_on();
        CHECK(stays_empty(on.own.connect_evd));
        MUST(dat_ep_reset(on.own.ep));
        test_endpoint other(on.ia);
        establish(other, on.own);
        move_data(other, on.own);
    }
}

TEST_CASE("EP-44: an endpoint that accepts can be freed, and nothing names it afterwards" *
          hint("wait for the peer's answer, or report it to who is gone") *
          needs("waiting_accepts"))
{
    accepted_request on;
    if (!on.pending())
        NOT_CLAIMED(waiting_accepts);
    CHECK(same_code(on.own.free_ep(), DAT_SUCCESS));
    on.peer.go_on();
    CHECK(stays_empty(on.own.connect_evd));
    connected_pair pair(on.ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("EP-45: while a graceful disconnect waits for transfers it is DISCONNECT_PENDING" *
          hint("be disconnected at once, with requests on their way, or take further ones"))
{
    // The wait may end by itself while the calls are made: a slow device places the rest of the
    // data then, or the port has waited long enough. Nothing is seen of the state then.
    for (int attempts_left = 4;; --attempts_left) {
        lingering on;
        if (!waits(on))
            NOT_CLAIMED(waiting_ends);
        const answers got = ask(on.own, on.memory);
        const DAT_RETURN again = on.own.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
        const bool quiet = stays_empty(on.own.connect_evd, milliseconds(20));
        const DAT_EP_STATE state = on.own.state();
        if (state != DAT_EP_STATE_DISCONNECT_PENDING && attempts_left != 0)
            continue;
        expect_busy(got, DAT_EP_STATE_DISCONNECT_PENDING, DAT_INVALID_STATE_EP_DISCPENDING);
        CHECK(same_code(again, DAT_SUCCESS));
        CHECK(quiet);
        CHECK(state == DAT_EP_STATE_DISCONNECT_PENDING);
        on.peer.go_on();
        expect_end(on);
        break;
    }
}

TEST_CASE("EP-46: an abrupt disconnect ends a graceful one that still waits" *
          hint("do nothing, because a disconnect is pending already"))
{
    lingering on;
    if (!waits(on))
        NOT_CLAIMED(waiting_ends);
    CHECK(same_code(on.own.disconnect(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    expect_end(on); // the peer does not run
}

TEST_CASE("EP-47: an endpoint whose graceful disconnect waits can be freed" *
          hint("wait for the peer, or complete requests of an endpoint that is gone"))
{
    lingering on;
    if (!waits(on))
        NOT_CLAIMED(waiting_ends);
    (void)drain(on.own.request_evd); // a device may have placed the data without the peer's process
    CHECK(same_code(on.own.free_ep(), DAT_SUCCESS)); // the peer does not run
    for (const DAT_EVENT &event : drain(on.own.request_evd))
        CHECK(event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS);
    CHECK(stays_empty(on.own.connect_evd, milliseconds(20)));
    on.peer.go_on();
    CHECK(stays_empty(on.own.request_evd));
}

TEST_CASE("CONN-26: a peer that does not run holds up neither a disconnect nor an ep_free" *
          hint("wait for the peer's goodbye without an end"))
{
    for (bool frees : {false, true}) {
        CAPTURE(frees);
        peer_process peer("obedient");
        adapter ia;
        test_endpoint own(ia);
        offer there = peer.link->receive<offer>();
        MUST(own.connect(there.to(), there.qualifier));
        next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        (void)peer.link->receive<bool>();
        for (std::uint64_t i = 0; i < 3; ++i)
            MUST(own.recv(0, 64, i));
        peer.stop();
        for (std::uint64_t i = 0; i < 3; ++i)
            MUST(own.write(0, 4096, there.memory, i));
        const auto began = std::chrono::steady_clock::now();
        if (frees) {
            CHECK(same_code(own.free_ep(), DAT_SUCCESS));
            CHECK(std::chrono::steady_clock::now() - began < patience / 2);
        } else {
            MUST(own.disconnect(DAT_CLOSE_ABRUPT_FLAG));
            CHECK(std::chrono::steady_clock::now() - began < patience / 2);
            next_connection(own.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
            CHECK(collect(own.recv_evd, 3).size() == 3);
            CHECK(collect(own.request_evd, 3).size() == 3);
        }
        connected_pair pair(ia);
        move_data(pair.active, pair.passive);
        peer.go_on();
    }
}

TEST_CASE("CONN-32: many connections to a peer that does not run end together" *
          hint("wait for the goodbye of each before they begin with the next"))
{
    peer_process peer("hospitable");
    adapter ia;
    offer there = peer.link->receive<offer>();
    std::vector<std::unique_ptr<test_endpoint>> own;
    for (int i = 0; i < guests; ++i) {
        own.push_back(std::make_unique<test_endpoint>(ia));
        MUST(own.back()->connect(there.to(), there.qualifier));
        next_connection(own.back()->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    (void)peer.link->receive<bool>();
    peer.stop();
    const auto began = std::chrono::steady_clock::now();
    for (const auto &each : own)
        MUST(each->disconnect(DAT_CLOSE_ABRUPT_FLAG));
    for (const auto &each : own)
        next_connection(each->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK(std::chrono::steady_clock::now() - began < patience / 2);
}

TEST_CASE("CONN-27: private data that came with an event stay readable until a reset" *
          hint("point into a buffer that the next event, or the disconnect, uses again"))
{
    adapter ia;
    listener at(ia);
    test_endpoint from(ia);
    test_endpoint to(ia);
    test_endpoint second(ia);
    std::string answer = "welcome";
    MUST(from.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), to.ep, 7, answer.data()));
    const auto told = next_connection(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_connection(to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    std::string reason = "not now";
    MUST(second.connect(ia.address(), at.qualifier));
    MUST(dat_cr_reject(at.next_request(), 7, reason.data()));
    const auto refusal = next_connection(second.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    answer = reason = "changed";
    move_data(from, to);
    CHECK(begins_with(told.private_data, told.private_data_size, "welcome"));
    MUST(to.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(from, to);
    CHECK(begins_with(told.private_data, told.private_data_size, "welcome"));
    CHECK(begins_with(refusal.private_data, refusal.private_data_size, "not now"));
}

constexpr DAT_QOS qualities[] = {DAT_QOS_HIGH_THROUGHPUT, DAT_QOS_LOW_LATENCY, DAT_QOS_ECONOMY,
                                 DAT_QOS_PREMIUM};

TEST_CASE("CONN-28: dup_connect checks its arguments as connect does" *
          hint("trust what the model was connected with"))
{
    adapter ia;
    connected_pair model(ia);
    test_endpoint own(ia);
    std::string large(static_cast<std::size_t>(ia.provider.max_private_data_size) + 1, 'x');
    const auto dup = [&](DAT_EP_HANDLE like, DAT_COUNT bytes, void *data,
                         DAT_QOS qos = DAT_QOS_BEST_EFFORT) {
        return dat_ep_dup_connect(own.ep, like, 1000, bytes, data, qos);
    };
    const DAT_EP_HANDLE good = model.active.ep;
    CHECK(same_code(dup(good, -1, large.data()), bad_arg(4)));
    CHECK(same_code(dup(good, static_cast<DAT_COUNT>(large.size()), large.data()), bad_arg(4)));
    CHECK(same_code(dup(good, 4, nullptr), bad_arg(5)));
    CHECK(same_code(dup(good, 0, nullptr, static_cast<DAT_QOS>(0x100)), bad_arg(6)));
    for (DAT_QOS each : qualities)
        if ((ia.provider.dat_qos_supported & each) == 0)
            CHECK(same_code(dup(good, 0, nullptr, each), not_supported));
    CHECK(same_code(dat_ep_connect(own.ep, ia.address(), 4711, 1000, 0, nullptr,
                                   static_cast<DAT_QOS>(0x100), DAT_CONNECT_DEFAULT_FLAG),
                    bad_arg(7)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    MUST(model.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(model.active, model.passive);
    CHECK(same_code(dup(good, 0, nullptr), bad_state(DAT_INVALID_STATE_EP_DISCONNECTED)));
    CHECK(
        same_code(dat_ep_dup_connect(good, model.passive.ep, 1000, 0, nullptr, DAT_QOS_BEST_EFFORT),
                  bad_state(DAT_INVALID_STATE_EP_DISCONNECTED)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(stays_empty(own.connect_evd, milliseconds(1)));
}

TEST_CASE("CONN-36: a connection has the quality of service that was asked for, both ways" *
          needs("qos") * hint("offer it to programs, and ask the device for best effort"))
{
    adapter ia;
    if (ia.provider.dat_qos_supported == DAT_QOS_BEST_EFFORT)
        NOT_CLAIMED("other qualities of service");
    listener at(ia);
    const auto shown = [](const test_endpoint &of) { return ep_param(of.ep).ep_attr.qos; };
    for (DAT_QOS each : qualities) {
        if ((ia.provider.dat_qos_supported & each) == 0)
            continue;
        CAPTURE(each);
        test_endpoint from(ia);
        test_endpoint to(ia);
        MUST(dat_ep_connect(from.ep, ia.address(), at.qualifier, 10'000'000, 0, nullptr, each,
                            DAT_CONNECT_DEFAULT_FLAG));
        MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
        (void)next_connection(to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        (void)next_connection(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        CHECK(shown(from) == each);
        for (unsigned i = 0; i < 3; ++i) {
            move_data(from, to, i);
            move_data(to, from, i);
        }
        test_endpoint like(ia);
        MUST(dat_ep_dup_connect(like.ep, from.ep, 10'000'000, 0, nullptr, DAT_QOS_BEST_EFFORT));
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
        (void)next_connection(like.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
}

} // namespace conformance
