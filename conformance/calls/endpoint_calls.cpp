// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints in each of their states, and the calls that take an endpoint.
#include "calls/answers.hpp"

#include "harness/ep_states.hpp"

#include <dat2/dat_ib_extensions.h>

namespace conformance {
namespace {

/// What calls need beside the endpoint.
struct others {
    explicit others(adapter &ia) : model(ia), at(ia), from(ia) {}

    connected_pair model;
    listener at;
    test_endpoint from;
};

struct endpoint_subject {
    std::shared_ptr<void> kept; ///< objects that hold the endpoint in its state
    adapter &ia;
    test_endpoint &own; ///< endpoint on this adapter: gives its zone, its EVDs and its memory
    DAT_EP_HANDLE ep;
    std::unique_ptr<others> beside{};

    DAT_RMR_TRIPLET remote() const { return own.memory.remote(0, 64); }
    others &more()
    {
        if (beside == nullptr)
            beside = std::make_unique<others>(ia);
        return *beside;
    }
};

using endpoint_entry = std::unique_ptr<endpoint_subject>;

template <class Keeps>
endpoint_entry ep_in(std::shared_ptr<Keeps> kept, adapter &ia, test_endpoint &own, DAT_EP_HANDLE ep)
{
    return endpoint_entry(new endpoint_subject{std::move(kept), ia, own, ep});
}

template <DAT_EP_STATE state>
endpoint_entry steady_ep()
{
    auto in = std::make_shared<in_state>(state);
    return ep_in(in, in->ia, in->ep, in->subject);
}

/// An endpoint without a zone and without EVDs.
endpoint_entry unconfigured_ep()
{
    auto in = std::make_shared<in_state>(DAT_EP_STATE_UNCONNECTED);
    DAT_EP_ATTR attr = ep_param(in->ep.ep).ep_attr;
    attr.max_recv_dtos = attr.max_request_dtos = 0;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    MUST(dat_ep_create(in->ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                       DAT_HANDLE_NULL, &attr, &ep));
    return ep_in(in, in->ia, in->ep, ep);
}

endpoint_entry accepting_ep()
{
    auto on = std::make_shared<accepted_request>();
    return on->pending() ? ep_in(on, on->ia, on->own, on->own.ep) : nullptr;
}

endpoint_entry disconnecting_ep()
{
    auto on = std::make_shared<lingering>();
    return on->pending() ? ep_in(on, on->ia, on->own, on->own.ep) : nullptr;
}

/// A freed endpoint. All other objects are made before it: a later object may get its place.
endpoint_entry freed_ep()
{
    auto in = std::make_shared<in_state>(DAT_EP_STATE_UNCONNECTED);
    endpoint_entry made = ep_in(in, in->ia, in->ep, in->ep.ep);
    (void)made->more();
    MUST(in->ep.free_ep());
    return made;
}

// ----------------------------------------------------------------------------------- attributes

answer query_ep(endpoint_subject &s)
{
    DAT_EP_PARAM param{};
    return dat_ep_query(s.ep, DAT_EP_FIELD_ALL, &param);
}

answer status_of_ep(endpoint_subject &s)
{
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle{}, request_idle{};
    return dat_ep_get_status(s.ep, &state, &recv_idle, &request_idle);
}

template <DAT_EP_PARAM_MASK field>
answer modify_ep(endpoint_subject &s)
{
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = s.own.pz;
    wanted.recv_evd_handle = s.own.recv_evd;
    wanted.request_evd_handle = s.own.request_evd;
    wanted.connect_evd_handle = s.own.connect_evd;
    wanted.ep_attr.max_request_iov = 1;
    return dat_ep_modify(s.ep, field, &wanted);
}

answer query_ep_receives(endpoint_subject &s)
{
    DAT_COUNT buffers = 0;
    DAT_COUNT span = 0;
    return dat_ep_recv_query(s.ep, &buffers, &span);
}

answer query_ep_counters(endpoint_subject &s)
{
    DAT_UINT64 all[DCNT_EP_ALL_COUNTERS];
    return dat_ib_query_counters(s.ep, DCNT_EP_ALL_COUNTERS, all, 0);
}

// ------------------------------------------------------------------------------------ connecting

constexpr DAT_TIMEOUT second = 1'000'000;

answer connect_ep(endpoint_subject &s)
{
    return dat_ep_connect(s.ep, s.ia.address(), unused_qualifier(s.ia), second, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

answer dup_connect_ep(endpoint_subject &s)
{
    return dat_ep_dup_connect(s.ep, s.more().model.active.ep, second, 0, nullptr,
                              DAT_QOS_BEST_EFFORT);
}

answer common_connect_ep(endpoint_subject &s)
{
    socket_address at(s.ia, unused_qualifier(s.ia));
    return IF_THERE(dat_ep_common_connect, s.ep, at.get(), second, 0, nullptr);
}

template <DAT_CLOSE_FLAGS flag>
answer disconnect_ep(endpoint_subject &s)
{
    return dat_ep_disconnect(s.ep, flag);
}

answer reserve_ep(endpoint_subject &s)
{
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    return dat_rsp_create(s.ia.handle, unused_qualifier(s.ia), s.ep,
                          make_evd(s.ia, DAT_EVD_CR_FLAG), &rsp);
}

answer accept_with_ep(endpoint_subject &s)
{
    others &more = s.more();
    MUST(more.from.connect(s.ia.address(), more.at.qualifier));
    return dat_cr_accept(more.at.next_request(), s.ep, 0, nullptr);
}

// --------------------------------------------------------------------------------------- posting

constexpr DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG;

answer send_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    return dat_ep_post_send(s.ep, 1, &local, cookie_of(0), flags);
}

answer send_and_invalidate(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    return IF_THERE(dat_ep_post_send_with_invalidate, s.ep, 1, &local, cookie_of(0), flags,
                    DAT_TRUE, s.own.memory.rmr_context);
}

answer receive_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    return dat_ep_post_recv(s.ep, 1, &local, cookie_of(0), flags);
}

template <decltype(dat_ep_post_rdma_read) *post>
answer transfer_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    const DAT_RMR_TRIPLET remote = s.remote();
    return post(s.ep, 1, &local, cookie_of(0), &remote, flags);
}

answer read_to_rmr_on_ep(endpoint_subject &s)
{
    const DAT_RMR_TRIPLET remote = s.remote();
    return IF_THERE(dat_ep_post_rdma_read_to_rmr, s.ep, &remote, cookie_of(0), &remote, flags);
}

answer fetch_and_add_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(64, 8);
    const DAT_RMR_TRIPLET word = s.own.memory.remote(0, 8);
    return dat_ib_post_fetch_and_add(s.ep, std::uint64_t{1}, &local, cookie_of(0), &word, flags);
}

answer compare_and_swap_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(64, 8);
    const DAT_RMR_TRIPLET word = s.own.memory.remote(0, 8);
    return dat_ib_post_cmp_and_swap(s.ep, std::uint64_t{0}, std::uint64_t{1}, &local, cookie_of(0),
                                    &word, flags);
}

answer write_immediate_on_ep(endpoint_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    const DAT_RMR_TRIPLET remote = s.remote();
    return dat_ib_post_rdma_write_immed(s.ep, 1, &local, cookie_of(0), &remote, DAT_UINT32{1},
                                        flags);
}

answer bind_through_ep(endpoint_subject &s)
{
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (dat_rmr_create(s.own.pz, &rmr) != DAT_SUCCESS)
        return {};
    const DAT_LMR_TRIPLET part = s.own.memory.local(0, 64);
    DAT_RMR_CONTEXT context = 0;
    return dat_rmr_bind(rmr, s.own.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                        s.ep, cookie_of(0), flags, &context);
}

} // namespace

std::vector<probing> endpoint_probings()
{
    return probings_of<endpoint_subject>(
        "EP",
        {{"unconfigured", unconfigured_ep},
         {"unconnected", steady_ep<DAT_EP_STATE_UNCONNECTED>},
         {"reserved", steady_ep<DAT_EP_STATE_RESERVED>},
         {"active connection pending", steady_ep<DAT_EP_STATE_ACTIVE_CONNECTION_PENDING>},
         {"passive connection pending", steady_ep<DAT_EP_STATE_PASSIVE_CONNECTION_PENDING>},
         {"tentative connection pending", steady_ep<DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING>},
         {"completion pending", accepting_ep},
         {"connected", steady_ep<DAT_EP_STATE_CONNECTED>},
         {"disconnect pending", disconnecting_ep},
         {"disconnected", steady_ep<DAT_EP_STATE_DISCONNECTED>},
         {"freed", freed_ep}},
        {
            {"dat_ep_query", "", query_ep},
            {"dat_ep_get_status", "", status_of_ep},
            {"dat_ep_modify", "zone", modify_ep<DAT_EP_FIELD_PZ_HANDLE>},
            {"dat_ep_modify", "receive EVD", modify_ep<DAT_EP_FIELD_RECV_EVD_HANDLE>},
            {"dat_ep_modify", "request EVD", modify_ep<DAT_EP_FIELD_REQUEST_EVD_HANDLE>},
            {"dat_ep_modify", "connect EVD", modify_ep<DAT_EP_FIELD_CONNECT_EVD_HANDLE>},
            {"dat_ep_modify", "attribute", modify_ep<DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV>},
            {"dat_ep_recv_query", "", query_ep_receives},
            {"dat_ep_set_watermark", "",
             [](endpoint_subject &s) { return dat_ep_set_watermark(s.ep, 1, 2); }},
            {"dat_ep_connect", "", connect_ep},
            {"dat_ep_dup_connect", "", dup_connect_ep},
            {"dat_ep_common_connect", "", common_connect_ep},
            {"dat_rsp_create", "for it", reserve_ep},
            {"dat_cr_accept", "with it", accept_with_ep},
            {"dat_ep_disconnect", "graceful", disconnect_ep<DAT_CLOSE_GRACEFUL_FLAG>},
            {"dat_ep_disconnect", "abrupt", disconnect_ep<DAT_CLOSE_ABRUPT_FLAG>},
            {"dat_ep_reset", "", [](endpoint_subject &s) { return dat_ep_reset(s.ep); }},
            {"dat_ep_post_recv", "", receive_on_ep},
            {"dat_ep_post_send", "", send_on_ep},
            {"dat_ep_post_send_with_invalidate", "", send_and_invalidate},
            {"dat_ep_post_rdma_read", "", transfer_on_ep<&dat_ep_post_rdma_read>},
            {"dat_ep_post_rdma_read_to_rmr", "", read_to_rmr_on_ep},
            {"dat_ep_post_rdma_write", "", transfer_on_ep<&dat_ep_post_rdma_write>},
            {"dat_rmr_bind", "through it", bind_through_ep},
            {"dat_extension_op", "write with immediate data", write_immediate_on_ep},
            {"dat_extension_op", "fetch and add", fetch_and_add_on_ep},
            {"dat_extension_op", "compare and swap", compare_and_swap_on_ep},
            {"dat_extension_op", "query counters", query_ep_counters},
            {"dat_ep_free", "", [](endpoint_subject &s) { return dat_ep_free(s.ep); }},
        });
}

} // namespace conformance
