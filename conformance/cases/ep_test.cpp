// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints: creating, querying and modifying them, and the legal calls in each state.
#include "harness/support.hpp"

#include "harness/ep_states.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace conformance {
namespace {

/// The adapter's default attributes.
DAT_EP_ATTR default_attr(adapter &ia)
{
    test_endpoint own(ia);
    return ep_param(own.ep).ep_attr;
}

bool same_attr(const DAT_EP_ATTR &a, const DAT_EP_ATTR &b)
{
    return a.service_type == b.service_type && a.max_message_size == b.max_message_size &&
           a.max_rdma_size == b.max_rdma_size && a.qos == b.qos &&
           a.recv_completion_flags == b.recv_completion_flags &&
           a.request_completion_flags == b.request_completion_flags &&
           a.max_recv_dtos == b.max_recv_dtos && a.max_request_dtos == b.max_request_dtos &&
           a.max_recv_iov == b.max_recv_iov && a.max_request_iov == b.max_request_iov;
}

template <class... States>
bool one_of(DAT_EP_STATE state, States... states)
{
    return ((state == states) || ...);
}

template <class Body>
void in_every_state(Body &&body)
{
    for (const state_row &row : steady_states) {
        CAPTURE(row.state);
        in_state in(row.state);
        REQUIRE(state_of(in.subject) == row.state);
        body(in, row);
    }
}

/// Whether two addresses differ at most in the port.
bool same_host(const sockaddr *one, const sockaddr *other)
{
    if (one->sa_family != other->sa_family)
        return false;
    if (one->sa_family == AF_INET6)
        return std::memcmp(&reinterpret_cast<const sockaddr_in6 *>(one)->sin6_addr,
                           &reinterpret_cast<const sockaddr_in6 *>(other)->sin6_addr,
                           sizeof(in6_addr)) == 0;
    return reinterpret_cast<const sockaddr_in *>(one)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in *>(other)->sin_addr.s_addr;
}

DAT_RETURN post_send(DAT_EP_HANDLE ep)
{
    return dat_ep_post_send(ep, 0, nullptr, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG);
}

} // namespace

TEST_CASE("EP-01: create wants EVDs with the right streams" *
          hint("check that an EVD is there but not its stream flags"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&](DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                            DAT_EVD_HANDLE connect) {
        return dat_ep_create(ia.handle, pz, recv, request, connect, nullptr, &ep);
    };
    const DAT_EVD_HANDLE dto = own.recv_evd;
    const DAT_EVD_HANDLE conn = own.connect_evd;
    CHECK(same_code(create(dto, dto, dto, conn), bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(create(own.pz, conn, dto, conn), bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(same_code(create(own.pz, dto, conn, conn), bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST)));
    CHECK(same_code(create(own.pz, dto, dto, dto), bad_handle(DAT_INVALID_HANDLE_EVD_CONN)));
    CHECK(same_code(create(own.pz, own.pz, dto, conn), bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(
        same_code(dat_ep_create(ia.handle, own.pz, dto, dto, conn, nullptr, nullptr), bad_arg(7)));
    CHECK(ep == DAT_HANDLE_NULL);
}

TEST_CASE("EP-02: create refuses attributes that are illegal or above the adapter's limits" *
          hint("clip attributes to the limits silently, or pass illegal ones to the device"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_ATTR attr = default_attr(ia);
    SUBCASE("service type")
    {
        attr.service_type = static_cast<DAT_SERVICE_TYPE>(9);
    }
    SUBCASE("quality of service")
    {
        attr.qos = static_cast<DAT_QOS>(0x100);
    }
    SUBCASE("receives that are suppressed")
    {
        attr.recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
    }
    SUBCASE("receives with a barrier")
    {
        attr.recv_completion_flags = DAT_COMPLETION_BARRIER_FENCE_FLAG;
    }
    SUBCASE("unknown completion flags")
    {
        attr.request_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(0x1000);
    }
    SUBCASE("no receives, but an EVD for them")
    {
        attr.max_recv_dtos = 0;
    }
    SUBCASE("no requests, but an EVD for them")
    {
        attr.max_request_dtos = 0;
    }
    SUBCASE("negative receives")
    {
        attr.max_recv_dtos = -1;
    }
    SUBCASE("receives")
    {
        attr.max_recv_dtos = ia.attr.max_dto_per_ep + 1;
    }
    SUBCASE("requests")
    {
        attr.max_request_dtos = ia.attr.max_dto_per_ep + 1;
    }
    SUBCASE("receive segments")
    {
        attr.max_recv_iov = ia.attr.max_iov_segments_per_dto + 1;
    }
    SUBCASE("request segments")
    {
        attr.max_request_iov = ia.attr.max_iov_segments_per_dto + 1;
    }
    SUBCASE("segments of RDMA reads")
    {
        attr.max_rdma_read_iov = ia.attr.max_iov_segments_per_rdma_read + 1;
    }
    SUBCASE("segments of RDMA writes")
    {
        attr.max_rdma_write_iov = ia.attr.max_iov_segments_per_rdma_write + 1;
    }
    SUBCASE("message size")
    {
        attr.max_message_size = ia.attr.max_message_size + 1;
    }
    SUBCASE("RDMA size")
    {
        attr.max_rdma_size = ia.attr.max_rdma_size + 1;
    }
    SUBCASE("negative requests")
    {
        attr.max_request_dtos = -1;
    }
    SUBCASE("negative receive segments")
    {
        attr.max_recv_iov = -1;
    }
    SUBCASE("negative request segments")
    {
        attr.max_request_iov = -1;
    }
    SUBCASE("datagrams")
    {
        attr.service_type = static_cast<DAT_SERVICE_TYPE>(0x10);
    }
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK(same_code(dat_ep_create(ia.handle, own.pz, own.recv_evd, own.request_evd, own.connect_evd,
                                  &attr, &ep),
                    bad_arg(6)));
    CHECK(ep == DAT_HANDLE_NULL);
}

TEST_CASE("EP-03: posts of a kind without an EVD for it are refused at creation" *
          hint("create the endpoint and crash at the first completion without an EVD"))
{
    adapter ia;
    test_endpoint own(ia);
    const DAT_EP_ATTR attr = default_attr(ia);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK(same_code(dat_ep_create(ia.handle, own.pz, DAT_HANDLE_NULL, own.request_evd,
                                  own.connect_evd, &attr, &ep),
                    bad_arg(6)));
    CHECK(same_code(dat_ep_create(ia.handle, own.pz, own.recv_evd, DAT_HANDLE_NULL, own.connect_evd,
                                  &attr, &ep),
                    bad_arg(6)));
}

TEST_CASE("EP-04: query returns objects, state and addresses of a new endpoint" *
          hint("leave fields uninitialised, or report an address before there is a connection"))
{
    adapter ia;
    test_endpoint own(ia);
    const DAT_EP_PARAM param = ep_param(own.ep);
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.ep_state == DAT_EP_STATE_UNCONNECTED);
    CHECK(param.pz_handle == own.pz);
    CHECK(param.recv_evd_handle == own.recv_evd);
    CHECK(param.request_evd_handle == own.request_evd);
    CHECK(param.connect_evd_handle == own.connect_evd);
    CHECK(param.srq_handle == DAT_HANDLE_NULL);
    REQUIRE(param.local_ia_address_ptr != nullptr);
    CHECK(param.local_ia_address_ptr->sa_family == ia.address()->sa_family);
    CHECK(param.remote_ia_address_ptr == nullptr);
    CHECK(param.remote_port_qual == 0);
}

TEST_CASE("EP-05: query returns attributes at least as large as requested" *
          hint("report what was asked for rather than what was made, or less than asked for"))
{
    adapter ia;
    DAT_EP_ATTR attr = default_attr(ia);
    attr.max_recv_dtos = 7;
    attr.max_request_dtos = 9;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 2;
    attr.max_message_size = 0;
    attr.max_rdma_size = 0x10000;
    endpoint_options options;
    options.attr = &attr;
    test_endpoint own(ia, options);
    const DAT_EP_ATTR actual = ep_param(own.ep).ep_attr;
    CHECK(actual.max_recv_dtos >= 7);
    CHECK(actual.max_request_dtos >= 9);
    CHECK(actual.max_recv_iov >= 1);
    CHECK(actual.max_request_iov >= 2);
    CHECK(actual.max_message_size > 0);
    CHECK(actual.max_rdma_size >= 0x10000);
    CHECK(actual.service_type == DAT_SERVICE_TYPE_RC);
    CHECK(actual.qos == DAT_QOS_BEST_EFFORT);
}

TEST_CASE("EP-06: the default attributes are within the adapter's limits" *
          hint("have defaults of the code that the device cannot keep"))
{
    adapter ia;
    const DAT_EP_ATTR attr = default_attr(ia);
    CHECK(attr.max_recv_dtos > 0);
    CHECK(attr.max_recv_dtos <= ia.attr.max_dto_per_ep);
    CHECK(attr.max_request_dtos > 0);
    CHECK(attr.max_request_dtos <= ia.attr.max_dto_per_ep);
    CHECK(attr.max_request_iov > 0);
    CHECK(attr.max_request_iov <= ia.attr.max_iov_segments_per_dto);
    CHECK(attr.max_rdma_read_in <= ia.attr.max_rdma_read_per_ep_in);
    CHECK(attr.max_rdma_read_out <= ia.attr.max_rdma_read_per_ep_out);
    endpoint_options options;
    options.attr = &attr;
    test_endpoint own(ia, options);
    CHECK(same_attr(ep_param(own.ep).ep_attr, attr));
}

TEST_CASE("EP-07: query refuses unknown bits and a missing structure" *
          hint("ignore unknown mask bits, or dereference the null structure"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_PARAM param{};
    CHECK(same_code(dat_ep_query(own.ep, DAT_EP_FIELD_ALL + 1, &param), bad_arg(2)));
    CHECK(same_code(dat_ep_query(own.ep, DAT_EP_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_ep_query(own.ep, 0, &param), DAT_SUCCESS));
}

TEST_CASE("EP-08: get_status returns the state and whether anything is outstanding" *
          hint("report counts, or the inverse, in the idle flags"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle{};
    DAT_BOOLEAN request_idle{};
    CHECK(same_code(dat_ep_get_status(own.ep, nullptr, nullptr, nullptr), DAT_SUCCESS));
    MUST(dat_ep_get_status(own.ep, &state, &recv_idle, &request_idle));
    CHECK(state == DAT_EP_STATE_UNCONNECTED);
    CHECK(recv_idle == DAT_TRUE);
    CHECK(request_idle == DAT_TRUE);
    MUST(own.recv(0, 64));
    MUST(own.recv(0, 64));
    MUST(dat_ep_get_status(own.ep, nullptr, &recv_idle, &request_idle));
    CHECK(recv_idle == DAT_FALSE);
    CHECK(request_idle == DAT_TRUE);
    test_endpoint peer(ia);
    establish(own, peer);
    MUST(own.write(0, 64, peer.memory.remote(0, 64))); // its completion is not taken
    MUST(dat_ep_get_status(own.ep, &state, nullptr, &request_idle));
    CHECK(state == DAT_EP_STATE_CONNECTED);
    CHECK(request_idle == DAT_FALSE);
    CHECK(next_dto(own.request_evd).status == DAT_DTO_SUCCESS);
    MUST(dat_ep_get_status(own.ep, nullptr, nullptr, &request_idle));
    CHECK(request_idle == DAT_TRUE);
}

TEST_CASE(
    "EP-09: get_status is idle again once the completions were taken" *
    hint("never lower their count of outstanding requests, or do so when staged rather than taken"))
{
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
    DAT_BOOLEAN recv_idle{};
    DAT_BOOLEAN request_idle{};
    MUST(dat_ep_get_status(pair.active.ep, nullptr, &recv_idle, &request_idle));
    CHECK(request_idle == DAT_TRUE);
    MUST(dat_ep_get_status(pair.passive.ep, nullptr, &recv_idle, &request_idle));
    CHECK(recv_idle == DAT_TRUE);
    const std::size_t size = pair.active.memory.bytes.size();
    for (int i = 0; i < 4; ++i) {
        MUST(pair.active.recv(0, 64));
        MUST(pair.active.write(0, size, pair.passive.memory.remote(0, size)));
    }
    MUST(pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    (void)collect(pair.active.request_evd, 4);
    (void)collect(pair.active.recv_evd, 4);
    MUST(dat_ep_get_status(pair.active.ep, nullptr, &recv_idle, &request_idle));
    CHECK(recv_idle == DAT_TRUE);
    CHECK(request_idle == DAT_TRUE);
}

TEST_CASE("EP-10: modify refuses fields that never change, and bad values" *
          hint("check state before field, or change what cannot be changed"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_PARAM param = ep_param(own.ep);
    for (DAT_EP_PARAM_MASK field :
         {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_COMM,
          DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR, DAT_EP_FIELD_LOCAL_PORT_QUAL,
          DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR, DAT_EP_FIELD_REMOTE_PORT_QUAL,
          DAT_EP_FIELD_SRQ_HANDLE, DAT_EP_FIELD_ALL + 1}) {
        CAPTURE(field);
        CHECK(same_code(dat_ep_modify(own.ep, field, &param), bad_arg(2)));
    }
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_EP_ATTR_QOS, nullptr), bad_arg(3)));
    param.ep_attr.max_recv_dtos = ia.attr.max_dto_per_ep + 1;
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param), bad_arg(3)));
    param.ep_attr.service_type = static_cast<DAT_SERVICE_TYPE>(9);
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, &param), bad_arg(3)));
}

TEST_CASE("EP-11: modify changes all that is asked for" *
          hint("accept the call and store only some of the fields"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint other(ia);
    DAT_EP_PARAM wanted = ep_param(own.ep);
    wanted.pz_handle = other.pz;
    wanted.recv_evd_handle = other.recv_evd;
    wanted.request_evd_handle = other.request_evd;
    wanted.connect_evd_handle = other.connect_evd;
    wanted.ep_attr.max_recv_dtos = 5;
    wanted.ep_attr.max_request_iov = 1;
    MUST(dat_ep_modify(own.ep,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE |
                           DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
                           DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
                       &wanted));
    const DAT_EP_PARAM now = ep_param(own.ep);
    CHECK(now.pz_handle == other.pz);
    CHECK(now.recv_evd_handle == other.recv_evd);
    CHECK(now.request_evd_handle == other.request_evd);
    CHECK(now.connect_evd_handle == other.connect_evd);
    CHECK(now.ep_attr.max_recv_dtos >= 5);
    CHECK(now.ep_attr.max_request_iov >= 1);
    // Its former EVDs are free now; its new ones are not.
    CHECK(same_code(free_once(dat_evd_free, own.recv_evd), DAT_SUCCESS));
    CHECK(same_code(free_once(dat_evd_free, own.connect_evd), DAT_SUCCESS));
    MUST(other.free_ep());
    CHECK(same_code(dat_evd_free(other.recv_evd), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
    CHECK(same_code(dat_pz_free(other.pz), bad_state(DAT_INVALID_STATE_PZ_IN_USE)));
    MUST(own.free_ep());
}

TEST_CASE("EP-12: modify that fails in one field changes none" *
          hint("apply fields one after another and stop at the bad one"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint other(ia);
    const DAT_EP_PARAM before = ep_param(own.ep);
    DAT_EP_PARAM wanted = before;
    wanted.recv_evd_handle = other.recv_evd;
    wanted.ep_attr.max_request_dtos = 3;
    constexpr DAT_EP_PARAM_MASK two =
        DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS;
    wanted.connect_evd_handle = other.recv_evd; // no connection stream
    CHECK(same_type(dat_ep_modify(own.ep, two | DAT_EP_FIELD_CONNECT_EVD_HANDLE, &wanted),
                    DAT_INVALID_HANDLE));
    wanted.ep_attr.max_recv_dtos = -1;
    CHECK(same_code(dat_ep_modify(own.ep, two | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &wanted),
                    bad_arg(3)));
    const DAT_EP_PARAM after = ep_param(own.ep);
    CHECK(after.recv_evd_handle == before.recv_evd_handle);
    CHECK(after.connect_evd_handle == before.connect_evd_handle);
    CHECK(same_attr(after.ep_attr, before.ep_attr));
    test_endpoint peer(ia);
    establish(own, peer);
    move_data(own, peer);
    move_data(peer, own);
}

TEST_CASE(
    "EP-13: an endpoint made of nothing becomes complete by modify, and connects" *
    hint("create the queue pair at dat_ep_create only, and never make it complete afterwards"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint parts(ia);
    MUST(own.free_ep());
    MUST(dat_ep_create(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                       DAT_HANDLE_NULL, nullptr, &own.ep));
    listener at(ia);
    CHECK(same_code(own.connect(ia.address(), at.qualifier),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CONN)));
    DAT_EP_PARAM wanted{};
    wanted.connect_evd_handle = own.connect_evd;
    MUST(dat_ep_modify(own.ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &wanted));
    CHECK(same_code(own.connect(ia.address(), at.qualifier),
                    bad_state(DAT_INVALID_STATE_EP_NOTREADY)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    wanted.pz_handle = own.pz;
    wanted.recv_evd_handle = own.recv_evd;
    wanted.request_evd_handle = own.request_evd;
    wanted.ep_attr.max_recv_dtos = 4;
    wanted.ep_attr.max_request_dtos = 4;
    MUST(dat_ep_modify(own.ep,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
                           DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                       &wanted));
    establish(own, parts, at);
    move_data(own, parts);
    move_data(parts, own);
}

TEST_CASE("EP-14: receives posted before a modify of something else stay posted" *
          hint("make a new queue pair on modify and lose the receives posted to the old one"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint peer(ia);
    MUST(own.recv(0, 64, 11));
    DAT_EP_PARAM wanted{};
    wanted.connect_evd_handle = peer.connect_evd;
    const DAT_RETURN code = dat_ep_modify(own.ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &wanted);
    CHECK(same_code(code, DAT_SUCCESS));
    if (code != DAT_SUCCESS)
        return;
    listener at(ia);
    MUST(peer.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), own.ep, 0, nullptr));
    next_connection(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_connection(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(peer.send(0, 64));
    CHECK(next_dto(own.recv_evd).user_cookie.as_64 == 11);
    MUST(own.free_ep());
}

TEST_CASE("EP-15: connect is legal for an unconnected endpoint only" *
          hint("check the state of their queue pair but not of the endpoint"))
{
    in_every_state([](in_state &in, const state_row &row) {
        if (row.state == DAT_EP_STATE_UNCONNECTED)
            return;
        const DAT_CONN_QUAL nowhere = unused_qualifier(in.ia);
        if (row.state != DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING) // that one has no connect EVD
            CHECK(same_code(dat_ep_connect(in.subject, in.ia.address(), nowhere, 1000, 0, nullptr,
                                           DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                            bad_state(row.subtype)));
        CHECK(state_of(in.subject) == row.state);
    });
}

TEST_CASE("EP-16: rsp_create is legal for an unconnected endpoint only, and changes no other" *
          hint("change the state before all arguments are checked"))
{
    in_every_state([](in_state &in, const state_row &row) {
        if (row.state == DAT_EP_STATE_UNCONNECTED)
            return;
        DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
        const DAT_EVD_HANDLE evd = make_evd(in.ia, DAT_EVD_CR_FLAG);
        CHECK(
            same_code(dat_rsp_create(in.ia.handle, unused_qualifier(in.ia), in.subject, evd, &rsp),
                      bad_state(row.subtype)));
        CHECK(rsp == DAT_HANDLE_NULL);
        CHECK(state_of(in.subject) == row.state);
    });
}

TEST_CASE("EP-17: disconnect is INVALID_STATE while an RSP or a request holds the endpoint" *
          hint("take the endpoint away from the RSP or the request that holds it"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal =
            one_of(row.state, DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                   DAT_EP_STATE_CONNECTED, DAT_EP_STATE_DISCONNECTED);
        const DAT_RETURN code = dat_ep_disconnect(in.subject, DAT_CLOSE_ABRUPT_FLAG);
        CHECK(same_code(code, legal ? success : bad_state(row.subtype)));
        if (!legal || row.state == DAT_EP_STATE_UNCONNECTED)
            CHECK(state_of(in.subject) == row.state);
    });
}

TEST_CASE("EP-18: disconnect refuses other flags" * hint("take every other flag as abrupt"))
{
    adapter ia;
    connected_pair pair(ia);
    CHECK(same_code(pair.active.disconnect(static_cast<DAT_CLOSE_FLAGS>(2)), bad_arg(2)));
    CHECK(pair.active.state() == DAT_EP_STATE_CONNECTED);
    move_data(pair.active, pair.passive);
}

TEST_CASE("EP-19: reset is legal for an unconnected or disconnected endpoint only" *
          hint("reset a connected endpoint and cut its connection silently"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal = one_of(row.state, DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_DISCONNECTED);
        CHECK(same_code(dat_ep_reset(in.subject), legal ? success : bad_state(row.subtype)));
        CHECK(state_of(in.subject) == (legal ? DAT_EP_STATE_UNCONNECTED : row.state));
    });
}

TEST_CASE("EP-20: free is INVALID_STATE while an RSP or a request holds the endpoint" *
          hint("free the endpoint below an RSP or a pending request"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool held =
            one_of(row.state, DAT_EP_STATE_RESERVED, DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                   DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
        CHECK(same_code(dat_ep_free(in.subject), held ? bad_state(row.subtype) : success));
        if (held)
            CHECK(state_of(in.subject) == row.state);
        else
            CHECK(same_code(dat_ep_free(in.subject), bad_handle(DAT_INVALID_HANDLE_EP)));
    });
}

TEST_CASE("EP-21: send, write and read are INVALID_STATE unless connected or disconnected" *
          hint("post to a queue pair that is not connected, and answer what the device does"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal = one_of(row.state, DAT_EP_STATE_CONNECTED, DAT_EP_STATE_DISCONNECTED);
        if (legal)
            return;
        const DAT_RMR_TRIPLET remote{};
        const DAT_DTO_COOKIE cookie{};
        CHECK(same_code(post_send(in.subject), bad_state(row.subtype)));
        CHECK(same_code(dat_ep_post_rdma_write(in.subject, 0, nullptr, cookie, &remote,
                                               DAT_COMPLETION_DEFAULT_FLAG),
                        bad_state(row.subtype)));
        CHECK(same_code(dat_ep_post_rdma_read(in.subject, 0, nullptr, cookie, &remote,
                                              DAT_COMPLETION_DEFAULT_FLAG),
                        bad_state(row.subtype)));
    });
}

TEST_CASE("EP-22: receives can be posted in every state" *
          hint("refuse receives before the connection, or after it"))
{
    adapter ia;
    test_endpoint usual(ia);
    MUST(usual.recv(0, 64));
    in_every_state([](in_state &in, const state_row &row) {
        if (row.state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
            return; // has no zone and no EVD yet
        CHECK(same_code(in.ep.recv(0, 64, 3), DAT_SUCCESS));
        if (row.state == DAT_EP_STATE_DISCONNECTED)
            CHECK(next_dto(in.ep.recv_evd).status == DAT_DTO_ERR_FLUSHED);
    });
}

TEST_CASE("EP-23: modify is INVALID_STATE once a connection is asked for" *
          hint("allow changes while the connection uses them"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal = one_of(row.state, DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_RESERVED,
                                  DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                                  DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
        if (row.state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)
            return; // the specification and existing providers differ
        DAT_EP_PARAM wanted{};
        wanted.connect_evd_handle = in.peer.connect_evd;
        CHECK(same_code(dat_ep_modify(in.subject, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &wanted),
                        legal ? success : bad_state(row.subtype)));
    });
}

TEST_CASE("EP-24: the zone can be modified while unconnected or tentative only" *
          hint("allow the zone to change below posted receives or a connection"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal =
            one_of(row.state, DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
        DAT_EP_PARAM wanted{};
        wanted.pz_handle = in.peer.pz;
        CHECK(same_code(dat_ep_modify(in.subject, DAT_EP_FIELD_PZ_HANDLE, &wanted),
                        legal ? success : bad_state(row.subtype)));
    });
}

TEST_CASE("EP-25: query and get_status work in every state" *
          hint("take a lock that is held while connecting, or refuse by state"))
{
    in_every_state([](in_state &in, const state_row &row) {
        CHECK(ep_param(in.subject).ep_state == row.state);
        CHECK(ep_param(in.subject).ia_handle == in.ia.handle);
    });
}

TEST_CASE("EP-26: reset of an unconnected endpoint keeps its posted receives" *
          hint("flush or lose receives on a reset that has nothing to reset"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint peer(ia);
    MUST(own.recv(0, 64, 21));
    MUST(dat_ep_reset(own.ep));
    establish(peer, own);
    MUST(peer.send(0, 64));
    CHECK(next_dto(own.recv_evd).user_cookie.as_64 == 21);
}

TEST_CASE("EP-27: freeing an endpoint drops its receives, and no event names it afterwards" *
          hint("deliver flush completions after the endpoint was freed"))
{
    adapter ia;
    test_endpoint own(ia);
    MUST(own.recv(0, 64));
    MUST(own.recv(0, 64));
    MUST(own.free_ep());
    CHECK(stays_empty(own.recv_evd));
    CHECK(stays_empty(own.connect_evd, milliseconds(1)));
}

TEST_CASE("EP-28: endpoints can be made and freed up to thousands of times" *
          hint("leak device objects, or free them later than they are made"))
{
    adapter ia;
    for (int i = 0; i < 500; ++i)
        test_endpoint own(ia);
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("EP-29: an endpoint can do without receives, or without requests" *
          hint("insist on both directions, or crash when a queue has length 0"))
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    DAT_EP_ATTR attr = default_attr(ia);
    attr.max_recv_dtos = attr.max_recv_iov = 0;
    MUST(from.free_ep());
    MUST(dat_ep_create(ia.handle, from.pz, DAT_HANDLE_NULL, from.request_evd, from.connect_evd,
                       &attr, &from.ep));
    attr = default_attr(ia);
    attr.max_request_dtos = attr.max_request_iov = 0;
    MUST(to.free_ep());
    MUST(dat_ep_create(ia.handle, to.pz, to.recv_evd, DAT_HANDLE_NULL, to.connect_evd, &attr,
                       &to.ep));
    establish(from, to);
    move_data(from, to);
    CHECK((from.recv(0, 64) & DAT_CLASS_ERROR) != 0);
    CHECK((to.send(0, 64) & DAT_CLASS_ERROR) != 0);
    MUST(to.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    expect_disconnected(from, to);
    CHECK((from.recv(0, 64) & DAT_CLASS_ERROR) != 0);
    CHECK((to.send(0, 64) & DAT_CLASS_ERROR) != 0);
    CHECK(same_code(from.free_ep(), DAT_SUCCESS));
    CHECK(same_code(to.free_ep(), DAT_SUCCESS));
}

TEST_CASE("EP-30: disconnecting an unconnected endpoint flushes its receives, and nothing else" *
          hint("refuse it as INVALID_STATE, or leave the endpoint unable to connect afterwards"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint peer(ia);
    for (DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
        CAPTURE(how);
        CHECK(same_code(own.disconnect(how), success)); // there is nothing to flush
        for (std::uint64_t i = 0; i < 4; ++i)
            MUST(own.recv(0, 64, i));
        CHECK(same_code(own.disconnect(how), success));
        CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
        MUST(own.recv(0, 64, 4)); // posted after the reset, so it remains posted
        for (std::uint64_t i = 0; i < 4; ++i) {
            const auto flushed = next_dto(own.recv_evd);
            CHECK(flushed.status == DAT_DTO_ERR_FLUSHED);
            CHECK(flushed.user_cookie.as_64 == i);
            CHECK(flushed.ep_handle == own.ep);
        }
        CHECK(stays_empty(own.recv_evd, milliseconds(20)));
        CHECK(stays_empty(own.connect_evd, milliseconds(1)));
        establish(peer, own);
        MUST(peer.send(0, 64));
        const auto received = next_dto(own.recv_evd);
        CHECK(received.status == DAT_DTO_SUCCESS);
        CHECK(received.user_cookie.as_64 == 4);
        CHECK(next_dto(peer.request_evd).status == DAT_DTO_SUCCESS);
        move_data(own, peer);
        MUST(own.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        expect_disconnected(own, peer);
        MUST(dat_ep_reset(own.ep));
        MUST(dat_ep_reset(peer.ep));
    }
}

namespace {

/// Gives both ends endpoints of this depth. False where the adapter has not the memory for it.
bool deepen(adapter &ia, test_endpoint &one, test_endpoint &other, DAT_COUNT depth)
{
    DAT_EP_ATTR attr = default_attr(ia);
    attr.max_recv_dtos = attr.max_request_dtos = depth;
    attr.max_recv_iov = attr.max_request_iov = 1;
    for (test_endpoint *side : {&one, &other}) {
        if (side->ep != DAT_HANDLE_NULL)
            MUST(side->free_ep());
        const DAT_RETURN made =
            dat_ep_create(ia.handle, side->pz, side->recv_evd, side->request_evd, side->connect_evd,
                          &attr, &side->ep);
        if (made == DAT_SUCCESS)
            continue;
        CHECK(same_type(made, DAT_INSUFFICIENT_RESOURCES));
        return false;
    }
    return true;
}

} // namespace

TEST_CASE("EP-31: an endpoint takes as many requests and receives as it was created for" *
          hint("advertise a depth that their queues, credits or completion queues do not have"))
{
    allow_seconds(60);
    adapter ia;
    DAT_COUNT depth = std::min({ia.attr.max_dto_per_ep, ia.attr.max_evd_qlen, 65536});
    endpoint_options options;
    options.qlen = depth;
    test_endpoint from(ia, options);
    test_endpoint to(ia, options);
    while (!deepen(ia, from, to, depth)) { // all attributes at their limits may be too much
        depth /= 2;
        REQUIRE(depth >= 16);
    }
    CAPTURE(depth);
    for (DAT_COUNT i = 0; i < depth; ++i)
        MUST(to.recv(0, 8, static_cast<std::uint64_t>(i)));
    establish(from, to);
    for (DAT_COUNT i = 0; i < depth; ++i)
        MUST(from.send(0, 8, static_cast<std::uint64_t>(i)));
    DAT_COUNT right = 0; // polled: a wait counts all events that are there
    for (DAT_COUNT i = 0; i < depth; ++i)
        for (DAT_EVD_HANDLE evd : {from.request_evd, to.recv_evd}) {
            const auto done = poll_dto(evd);
            right += done.status == DAT_DTO_SUCCESS &&
                             done.user_cookie.as_64 == static_cast<std::uint64_t>(i)
                         ? 1
                         : 0;
        }
    CHECK(right == 2 * depth);
    // Flushed requests complete with an event too.
    for (DAT_COUNT i = 0; i < depth; ++i)
        MUST(to.recv(0, 8, static_cast<std::uint64_t>(i)));
    MUST(to.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    for (DAT_COUNT i = 0; i < depth; ++i)
        right -= poll_dto(to.recv_evd).user_cookie.as_64 == static_cast<std::uint64_t>(i) ? 1 : 0;
    CHECK(right == depth);
}

namespace {

/// Threads that post to one endpoint and take its completions.
class busy_threads {
public:
    busy_threads(test_endpoint &on, const DAT_RMR_TRIPLET &to) : of_(on), ep_(on.ep), to_(to)
    {
        for (int i = 0; i < 4; ++i)
            threads_.push_back(std::make_unique<helper_thread>([this] { work(); }));
    }
    ~busy_threads() { stop(); }
    void stop()
    {
        stopping_ = true;
        for (auto &each : threads_)
            each->join();
    }

    /// The endpoint is freed, and they go on with its handle.
    void expect_freed() { freed_ = true; }
    void await_turns(unsigned more)
    {
        const unsigned enough = turns_ + more;
        CHECK(becomes_true([&] { return turns_ >= enough; }));
    }

    std::atomic<unsigned> written{0}; ///< writes that succeeded
    std::atomic<unsigned> wrong{0};

private:
    void work()
    {
        while (!stopping_) {
            const std::uint64_t cookie = next_++;
            DAT_LMR_TRIPLET local = of_.memory.local(0, 64);
            DAT_RMR_TRIPLET remote = to_;
            judge(dat_ep_post_rdma_write(ep_, 1, &local, cookie_of(cookie), &remote,
                                         DAT_COMPLETION_DEFAULT_FLAG));
            judge(dat_ep_post_recv(ep_, 1, &local, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG));
            ++turns_;
            DAT_EVENT event{};
            for (DAT_EVD_HANDLE evd : {of_.request_evd, of_.recv_evd})
                if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
                    judge(event.event_data.dto_completion_event_data, evd == of_.request_evd);
        }
    }
    void judge(DAT_RETURN code)
    {
        const DAT_RETURN type = DAT_GET_TYPE(code);
        const bool legal = type == DAT_SUCCESS || type == DAT_INSUFFICIENT_RESOURCES ||
                           type == DAT_INVALID_STATE || (freed_ && type == DAT_INVALID_HANDLE);
        wrong += legal ? 0 : 1;
    }
    void judge(const DAT_DTO_COMPLETION_EVENT_DATA &done, bool request)
    {
        written += request && done.status == DAT_DTO_SUCCESS ? 1 : 0;
        wrong += done.status == DAT_DTO_SUCCESS || done.status == DAT_DTO_ERR_FLUSHED ? 0 : 1;
        std::lock_guard hold(lock_);
        wrong += seen_[request].insert(done.user_cookie.as_64).second ? 0 : 1;
    }

    test_endpoint &of_;
    const DAT_EP_HANDLE ep_;
    std::atomic<bool> freed_{false};
    std::atomic<unsigned> turns_{0};
    const DAT_RMR_TRIPLET to_;
    std::atomic<bool> stopping_{false};
    std::atomic<std::uint64_t> next_{0};
    std::mutex lock_;
    std::set<std::uint64_t> seen_[2];
    std::vector<std::unique_ptr<helper_thread>> threads_;
};

} // namespace

TEST_CASE("EP-32: on a thread-safe adapter an endpoint is reset beside threads that post to it" *
          hint("replace the queues of an endpoint without keeping out the threads that post") *
          needs("threadsafe"))
{
    if (!the_settings().thread_safe)
        NOT_CLAIMED("thread safety on this line of dat.conf; see --threadsafe");
    adapter ia;
    endpoint_options options;
    options.qlen = 1024;
    for (int round = 0; round < 4; ++round) {
        connected_pair pair(ia, options);
        test_endpoint &own = pair.active;
        busy_threads busy(own, pair.passive.memory.remote(0, 64));
        for (int reset = 0; reset < 3; ++reset) {
            const unsigned enough = busy.written + 20; // more writes are to succeed, also after a
                                                       // reset
            CHECK(becomes_true([&] { return busy.written >= enough || busy.wrong != 0; }));
            MUST(own.disconnect(DAT_CLOSE_ABRUPT_FLAG));
            for (test_endpoint *side : {&pair.passive, &own}) {
                next_connection(side->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
                MUST(dat_ep_reset(side->ep));
            }
            establish(own, pair.passive);
        }
        busy.stop();
        CHECK(busy.wrong == 0);
    }
}

TEST_CASE(
    "EP-33: on a thread-safe adapter an endpoint is freed beside threads that post to it" *
    hint("destroy the locks of an endpoint while threads wait there, or queues that they use") *
    needs("threadsafe"))
{
    if (!the_settings().thread_safe)
        NOT_CLAIMED("thread safety on this line of dat.conf; see --threadsafe");
    adapter ia;
    for (int round = 0; round < 16; ++round) {
        connected_pair pair(ia); // only the first of these endpoints is connected
        test_endpoint &own = pair.active;
        for (int freed = 0; freed < 4; ++freed) {
            busy_threads busy(own, pair.passive.memory.remote(0, 64));
            busy.expect_freed();
            busy.await_turns(20);
            MUST(own.free_ep());
            busy.await_turns(8);
            busy.stop();
            CHECK(busy.wrong == 0);
            MUST(dat_ep_create(ia.handle, own.pz, own.recv_evd, own.request_evd, own.connect_evd,
                               nullptr, &own.ep));
        }
    }
}

TEST_CASE("EP-34: the receives that an endpoint holds are counted from post to completion" *
          hint("answer for endpoints with a shared receive queue only"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &to = pair.passive;
    DAT_COUNT buffers = -5;
    DAT_COUNT span = -5;
    const DAT_RETURN code = dat_ep_recv_query(to.ep, &buffers, &span);
    // The attribute is about endpoints with a shared queue, too: without it this one may answer.
    CHECK((refused(code) || code == DAT_SUCCESS));
    if (ia.provider.ep_recv_info_supported != 0)
        CHECK(code == DAT_SUCCESS);
    if (code != DAT_SUCCESS)
        NOT_CLAIMED("counts of receives");
    CHECK(buffers == 0);
    CHECK(span == 0);
    for (std::uint64_t i = 0; i < 3; ++i)
        MUST(to.recv(i * 64, 64, i));
    MUST(dat_ep_recv_query(to.ep, &buffers, &span));
    CHECK(buffers == 3);
    CHECK(span == 3);
    MUST(pair.active.send(0, 64));
    CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
    MUST(dat_ep_recv_query(to.ep, &buffers, nullptr));
    CHECK(buffers == 2);
    MUST(dat_ep_recv_query(to.ep, nullptr, &span));
    CHECK(span == 2);
}

// ------------------------------------------------------------------------------ modify, in depth

namespace {

DAT_EP_PARAM_MASK object_fields[] = {DAT_EP_FIELD_RECV_EVD_HANDLE, DAT_EP_FIELD_REQUEST_EVD_HANDLE,
                                     DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
                                     DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                                     DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE};

/// Posts until the endpoint takes no more.
template <class Post>
DAT_COUNT taken(Post &&post, DAT_COUNT most)
{
    DAT_COUNT number = 0;
    while (number < most && post() == DAT_SUCCESS)
        ++number;
    return number;
}

} // namespace

TEST_CASE("EP-35: EVDs and attributes are modified while unconnected, not once connected" *
          hint("look at the state for some of the fields only"))
{
    in_every_state([](in_state &in, const state_row &row) {
        const bool legal = row.state == DAT_EP_STATE_UNCONNECTED;
        const bool asked = one_of(row.state, DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                                  DAT_EP_STATE_CONNECTED, DAT_EP_STATE_DISCONNECTED);
        if (!legal && !asked)
            return; // EP-23
        for (DAT_EP_PARAM_MASK field : object_fields) {
            CAPTURE(field);
            DAT_EP_PARAM wanted = ep_param(in.subject);
            wanted.recv_evd_handle = in.peer.recv_evd;
            wanted.request_evd_handle = in.peer.request_evd;
            wanted.ep_attr.max_recv_dtos = wanted.ep_attr.max_request_dtos = 3;
            wanted.ep_attr.max_message_size = 4096;
            CHECK(same_code(dat_ep_modify(in.subject, field, &wanted),
                            legal ? success : bad_state(row.subtype)));
        }
    });
}

TEST_CASE("EP-36: an endpoint that was modified takes as much as it now says" *
          hint("store new attributes beside queues of the old length"))
{
    adapter ia;
    connected_pair usual(ia);
    move_data(usual.active, usual.passive);
    for (DAT_COUNT depth : {48, 3}) {
        CAPTURE(depth);
        test_endpoint from(ia);
        test_endpoint to(ia);
        for (test_endpoint *side : {&from, &to}) {
            DAT_EP_PARAM wanted = ep_param(side->ep);
            wanted.ep_attr.max_recv_dtos = wanted.ep_attr.max_request_dtos = depth;
            MUST(dat_ep_modify(side->ep,
                               DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
                                   DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                               &wanted));
        }
        const DAT_EP_ATTR now = ep_param(to.ep).ep_attr;
        CHECK(now.max_recv_dtos >= depth);
        CHECK(now.max_request_dtos >= depth);
        CHECK(taken([&] { return to.recv(0, 64); }, 1000) == now.max_recv_dtos);
        establish(from, to);
        const DAT_RMR_TRIPLET there = to.memory.remote(0, 64);
        CHECK(taken([&] { return from.write(0, 64, there); }, 1000) ==
              ep_param(from.ep).ep_attr.max_request_dtos);
        for (DAT_COUNT i = 0; i < ep_param(from.ep).ep_attr.max_request_dtos; ++i)
            CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
    }
}

TEST_CASE("EP-37: a modify with receives posted keeps them, or is refused and keeps them" *
          hint("make new queues without the receives that were posted to the old ones"))
{
    adapter ia;
    for (DAT_EP_PARAM_MASK field :
         {DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
          DAT_EP_FIELD_RECV_EVD_HANDLE, DAT_EP_FIELD_REQUEST_EVD_HANDLE}) {
        CAPTURE(field);
        test_endpoint own(ia);
        test_endpoint peer(ia);
        const DAT_EVD_HANDLE other_evd = make_evd(ia, DAT_EVD_DTO_FLAG, 256);
        for (std::uint64_t i = 0; i < 3; ++i)
            MUST(own.recv(i * 64, 64, i));
        DAT_EP_PARAM wanted = ep_param(own.ep);
        wanted.ep_attr.max_recv_dtos += 8;
        wanted.ep_attr.max_request_dtos += 8;
        wanted.recv_evd_handle = wanted.request_evd_handle = other_evd;
        const DAT_RETURN code = dat_ep_modify(own.ep, field, &wanted);
        if (code != DAT_SUCCESS)
            CHECK(same_type(code, DAT_INVALID_STATE));
        const DAT_EVD_HANDLE completes = ep_param(own.ep).recv_evd_handle;
        establish(peer, own);
        for (std::uint64_t i = 0; i < 3; ++i)
            MUST(peer.send(0, 64));
        for (std::uint64_t i = 0; i < 3; ++i) {
            const auto got = next_dto(completes);
            CHECK(got.status == DAT_DTO_SUCCESS);
            CHECK(got.user_cookie.as_64 == i);
        }
        MUST(own.free_ep());
    }
}

TEST_CASE("EP-38: an endpoint of the provider's making is completed, and still takes no connect" *
          hint("let a request's endpoint go elsewhere once it is complete"))
{
    in_state in(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = in.ep.pz;
    wanted.recv_evd_handle = in.ep.recv_evd;
    wanted.request_evd_handle = in.ep.request_evd;
    wanted.connect_evd_handle = in.ep.connect_evd;
    MUST(dat_ep_modify(in.subject,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                       &wanted));
    CHECK(same_code(dat_ep_connect(in.subject, in.ia.address(), unused_qualifier(in.ia), 1000, 0,
                                   nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                    bad_state(DAT_INVALID_STATE_EP_TENTCONNPENDING)));
    const DAT_EP_PARAM now = ep_param(in.subject);
    CHECK(now.ep_state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    CHECK(now.pz_handle == in.ep.pz);
    CHECK(now.recv_evd_handle == in.ep.recv_evd);
    CHECK(now.connect_evd_handle == in.ep.connect_evd);
}

TEST_CASE("EP-39: an endpoint without a zone takes no receives and no requests" *
          hint("post to a queue pair that is not there"))
{
    adapter ia;
    test_endpoint own(ia);
    MUST(own.free_ep());
    MUST(dat_ep_create(ia.handle, DAT_HANDLE_NULL, own.recv_evd, own.request_evd, own.connect_evd,
                       nullptr, &own.ep));
    CHECK(same_type(own.recv(0, 64), DAT_INVALID_STATE));
    CHECK(same_type(own.send(0, 64), DAT_INVALID_STATE));
    CHECK(same_code(own.connect(ia.address(), unused_qualifier(ia)),
                    bad_state(DAT_INVALID_STATE_EP_NOTREADY)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = own.pz;
    MUST(dat_ep_modify(own.ep, DAT_EP_FIELD_PZ_HANDLE, &wanted));
    test_endpoint peer(ia);
    establish(peer, own);
    move_data(peer, own);
    CHECK(stays_empty(own.recv_evd, milliseconds(1)));
}

TEST_CASE("EP-40: both sides can query the address of the peer until they reset the endpoint" *
          hint("clear it with the connection, keep it for the next one, or point to what went with "
               "the connection"))
{
    adapter ia;
    listener at(ia);
    test_endpoint from(ia);
    test_endpoint to(ia);
    establish(from, to, at);
    const auto expect_peer = [&](bool known) {
        for (test_endpoint *side : {&from, &to}) {
            const DAT_EP_PARAM param = ep_param(side->ep);
            CHECK((param.remote_ia_address_ptr != nullptr) == known);
            if (param.remote_ia_address_ptr != nullptr)
                CHECK(same_host(param.remote_ia_address_ptr, ia.address()));
            REQUIRE(param.local_ia_address_ptr != nullptr);
            CHECK(same_host(param.local_ia_address_ptr, ia.address()));
        }
    };
    expect_peer(true);
    CHECK(ep_param(from.ep).remote_port_qual == at.qualifier);
    MUST(to.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(from, to);
    expect_peer(true);
    CHECK(ep_param(from.ep).remote_port_qual == at.qualifier);
    MUST(dat_ep_reset(from.ep));
    MUST(dat_ep_reset(to.ep));
    expect_peer(false);
    CHECK(ep_param(from.ep).remote_port_qual == 0);
}

TEST_CASE("EP-41: as many RDMA reads as fit are posted, however few a peer answers at once" *
          hint("refuse the read that is one too many for the wire, or let it fail there"))
{
    adapter ia;
    for (bool few_here : {true, false}) {
        CAPTURE(few_here);
        const auto attr_with = [&](DAT_COUNT reads) {
            DAT_EP_ATTR attr = ep_param(test_endpoint(ia).ep).ep_attr;
            attr.max_rdma_read_in = attr.max_rdma_read_out = reads;
            return attr;
        };
        const DAT_EP_ATTR here = attr_with(few_here ? 1 : 8);
        const DAT_EP_ATTR there = attr_with(few_here ? 8 : 1);
        test_endpoint from(ia, {.attr = &here});
        test_endpoint to(ia, {.attr = &there});
        establish(from, to);
        to.memory.fill(0, 16 * 1024, 3);
        const auto depth = std::min<std::uint64_t>(
            16, static_cast<std::uint64_t>(ep_param(from.ep).ep_attr.max_request_dtos));
        for (int round = 0; round < 4; ++round) {
            from.memory.set_all(0);
            for (std::uint64_t i = 0; i < depth; ++i)
                MUST(from.read(i * 1024, 1024, to.memory.remote(i * 1024, 1024), i));
            for (std::uint64_t i = 0; i < depth; ++i) {
                const auto done = next_dto(from.request_evd);
                CHECK(done.status == DAT_DTO_SUCCESS);
                CHECK(done.user_cookie.as_64 == i);
            }
            CHECK(from.memory.holds(0, depth * 1024, 3));
        }
    }
}

TEST_CASE("EP-48: two sides read, each more at once than the other answers, and all is read" *
          hint("answer no read while one of your own waits for its turn"))
{
    adapter ia;
    DAT_EP_ATTR attr = ep_param(test_endpoint(ia).ep).ep_attr;
    attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
    test_endpoint one(ia, {.attr = &attr});
    test_endpoint other(ia, {.attr = &attr});
    establish(one, other);
    const auto depth = std::min<std::uint64_t>(
        16, static_cast<std::uint64_t>(ep_param(one.ep).ep_attr.max_request_dtos));
    MUST(one.read(0, 1024, other.memory.remote(16 * 1024, 1024), 0));
    expect_success(one.request_evd, 0, 1024);
    constexpr std::uint64_t rounds = 50;
    const auto reads_done = [&](test_endpoint &from, const test_endpoint &to) {
        std::uint64_t done = 0;
        DAT_EVENT event{};
        for (std::uint64_t round = 0; round < rounds && done == round * depth; ++round) {
            for (std::uint64_t i = 0; i < depth; ++i)
                (void)from.read(i * 1024, 1024, to.memory.remote(16 * 1024 + i * 1024, 1024), i);
            while (done < (round + 1) * depth &&
                   wait_event(from.request_evd, event) == DAT_SUCCESS &&
                   event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS)
                ++done;
        }
        return done;
    };
    one.memory.fill(16 * 1024, 16 * 1024, 3);
    other.memory.fill(16 * 1024, 16 * 1024, 4);
    std::uint64_t beside = 0;
    {
        helper_thread thread([&] { beside = reads_done(other, one); });
        const std::uint64_t here = reads_done(one, other);
        thread.join();
        if (here + beside != 2 * rounds * depth)
            FAIL("an RDMA read does not complete while the other side reads, too");
    }
    CHECK(one.memory.holds(0, depth * 1024, 4));
    CHECK(other.memory.holds(0, depth * 1024, 3));
}

TEST_CASE("EP-49: two sides write behind their reads, and all completes in order" *
          hint("answer the peer's reads also while a request waits for one of your own"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &one = pair.active;
    MUST(one.read(0, 1024, pair.passive.memory.remote(16 * 1024, 1024), 0));
    expect_success(one.request_evd, 0, 1024);
    MUST(one.write(16 * 1024, 64, pair.passive.memory.remote(32 * 1024, 64), 1));
    expect_success(one.request_evd, 1, 64);
    constexpr std::uint64_t rounds = 50;
    constexpr std::uint64_t each = 8;
    const auto in_order = [&](test_endpoint &from, const test_endpoint &to) {
        std::uint64_t done = 0;
        DAT_EVENT event{};
        for (std::uint64_t round = 0; round < rounds && done == round * each; ++round) {
            for (std::uint64_t i = 0; i < each; ++i)
                if (i % 2 == 0)
                    (void)from.read(i * 1024, 1024, to.memory.remote(16 * 1024, 1024), i);
                else
                    (void)from.write(16 * 1024, 64, to.memory.remote(32 * 1024, 64), i);
            while (done < (round + 1) * each &&
                   wait_event(from.request_evd, event) == DAT_SUCCESS &&
                   event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS &&
                   event.event_data.dto_completion_event_data.user_cookie.as_64 == done % each)
                ++done;
        }
        return done;
    };
    std::uint64_t beside = 0;
    helper_thread thread([&] { beside = in_order(pair.passive, one); });
    const std::uint64_t here = in_order(one, pair.passive);
    thread.join();
    if (here + beside != 2 * rounds * each)
        FAIL("what is posted behind an RDMA read does not complete in its turn");
}

TEST_CASE("EP-50: a connected endpoint shows the RDMA reads that both sides have agreed on" *
          needs("qp_query") *
          hint("show what this side has asked for, or swap the directions; a device that does not "
               "know them says so by the attribute DAPL_AGREED_READS"))
{
    adapter ia;
    const DAT_EP_ATTR usual = ep_param(test_endpoint(ia).ep).ep_attr;
    const auto attr_with = [&](DAT_COUNT in, DAT_COUNT out) {
        DAT_EP_ATTR attr = usual;
        attr.max_rdma_read_in = in;
        attr.max_rdma_read_out = out;
        return attr;
    };
    const auto shows = [](const test_endpoint &of, DAT_COUNT in, DAT_COUNT out) {
        const DAT_EP_ATTR now = ep_param(of.ep).ep_attr;
        return now.max_rdma_read_in == in && now.max_rdma_read_out == out;
    };
    if (std::min(ia.attr.max_rdma_read_per_ep_in, ia.attr.max_rdma_read_per_ep_out) < 4)
        NOT_CLAIMED("several reads at once");
    const DAT_EP_ATTR here = attr_with(3, 4);
    const DAT_EP_ATTR there = attr_with(2, 1);
    test_endpoint from(ia, {.attr = &here});
    test_endpoint to(ia, {.attr = &there});
    CHECK(shows(from, 3, 4));
    establish(from, to);
    if (!offers(ia.provider, "DAPL_AGREED_READS")) {
        CHECK(shows(from, 3, 4));
        CHECK(shows(to, 2, 1));
        NOT_CLAIMED("the RDMA reads that two sides have agreed on");
    }
    CHECK(shows(from, 1, 2));
    CHECK(shows(to, 2, 1));
    to.memory.fill(0, 64, 3);
    MUST(from.read(0, 64, to.memory.remote(0, 64), 1));
    expect_success(from.request_evd, 1, 64);
    MUST(from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    (void)next_connection(from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK(shows(from, 3, 4)); // until the next peer
}

} // namespace conformance
