// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Endpoints of one process that share their event dispatchers, as those of a rank of a job do.
#pragma once

#include "dat_link.hpp"

#include <algorithm>
#include <vector>

namespace bench {

/// Many endpoints with one EVD per purpose, and a slot of memory for each.
class crowd {
public:
    static constexpr std::uint32_t message_size = 64;
    static constexpr int window = 16;           ///< outstanding messages, over all endpoints
    static constexpr int receives_per_peer = 2; ///< posted on each endpoint

    crowd(dat_adapter &adapter, std::uint32_t count) : adapter_(adapter), bytes_(2 * message_size)
    {
        const auto total = static_cast<DAT_COUNT>(count);
        receives_ = make_evd(total * receives_per_peer, DAT_EVD_DTO_FLAG);
        requests_ = make_evd(total * receives_per_peer + window, DAT_EVD_DTO_FLAG);
        connections_ = make_evd(2 * total, DAT_EVD_CONNECTION_FLAG);
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes_.data();
        DAT_VLEN length = 0;
        DAT_VADDR base = 0;
        DAT_RMR_CONTEXT remote = 0;
        program::must("dat_lmr_create",
                      dat_lmr_create(adapter.ia(), DAT_MEM_TYPE_VIRTUAL, region, bytes_.size(),
                                     adapter.pz(), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr_,
                                     &context_, &remote, &length, &base));
        for (std::uint32_t i = 0; i < count; ++i)
            endpoints_.push_back(make_endpoint());
    }
    ~crowd()
    {
        for (DAT_EP_HANDLE ep : endpoints_)
            dat_ep_free(ep);
        dat_lmr_free(lmr_);
        for (DAT_EVD_HANDLE evd : {receives_, requests_, connections_})
            dat_evd_free(evd);
    }
    crowd(const crowd &) = delete;

    std::size_t size() const { return endpoints_.size(); }

    void connect(std::size_t i, sockaddr_storage to, DAT_CONN_QUAL qualifier, patience &p)
    {
        program::must("dat_ep_connect",
                      dat_ep_connect(endpoints_[i], reinterpret_cast<DAT_IA_ADDRESS_PTR>(&to),
                                     qualifier, 20'000'000, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                     DAT_CONNECT_DEFAULT_FLAG));
        await_established(p);
    }
    void accept(std::size_t i, DAT_CR_HANDLE request, patience &p)
    {
        program::must("dat_cr_accept", dat_cr_accept(request, endpoints_[i], 0, nullptr));
        await_established(p);
    }

    void send(DAT_EP_HANDLE ep)
    {
        DAT_LMR_TRIPLET local = slot(0);
        program::must("dat_ep_post_send",
                      dat_ep_post_send(ep, 1, &local, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    DAT_EP_HANDLE endpoint(std::size_t i) const { return endpoints_[i]; }

    /// The endpoint of the next message, which may take another one now; null if none came.
    DAT_EP_HANDLE take_message()
    {
        DAT_EVENT event;
        if (!take(receives_, event))
            return DAT_HANDLE_NULL;
        DAT_EP_HANDLE ep = event.event_data.dto_completion_event_data.ep_handle;
        post_receive(ep);
        return ep;
    }
    bool take_sent()
    {
        DAT_EVENT event;
        return take(requests_, event);
    }

private:
    DAT_EVD_HANDLE make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags)
    {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        program::must("dat_evd_create", dat_evd_create(adapter_.ia(), std::max(length, 64),
                                                       DAT_HANDLE_NULL, flags, &evd));
        return evd;
    }
    DAT_EP_HANDLE make_endpoint()
    {
        DAT_EP_ATTR attr{};
        attr.service_type = DAT_SERVICE_TYPE_RC;
        attr.max_message_size = attr.max_rdma_size = message_size;
        attr.max_recv_dtos = receives_per_peer;
        attr.max_request_dtos = window;
        attr.max_recv_iov = attr.max_request_iov = 1;
        attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        program::must("dat_ep_create", dat_ep_create(adapter_.ia(), adapter_.pz(), receives_,
                                                     requests_, connections_, &attr, &ep));
        for (int i = 0; i < receives_per_peer; ++i)
            post_receive(ep);
        return ep;
    }
    void post_receive(DAT_EP_HANDLE ep)
    {
        DAT_LMR_TRIPLET local = slot(message_size);
        program::must("dat_ep_post_recv",
                      dat_ep_post_recv(ep, 1, &local, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    DAT_LMR_TRIPLET slot(std::size_t at) const
    {
        return {reinterpret_cast<DAT_VADDR>(bytes_.data() + at), message_size, context_};
    }
    void await_established(patience &p)
    {
        DAT_EVENT event;
        p.progress();
        while (!take(connections_, event))
            p.spin();
        if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
            program::fail_connection(event.event_number);
    }
    static bool take(DAT_EVD_HANDLE evd, DAT_EVENT &event)
    {
        const DAT_RETURN code = dat_evd_dequeue(evd, &event);
        if (code != DAT_SUCCESS && DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY)
            program::fail("dat_evd_dequeue", code);
        if (code == DAT_SUCCESS && event.event_number == DAT_DTO_COMPLETION_EVENT &&
            event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
            throw program::failure("a message failed");
        return code == DAT_SUCCESS;
    }

    dat_adapter &adapter_;
    std::vector<std::byte> bytes_;
    DAT_EVD_HANDLE receives_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections_ = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr_ = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context_ = 0;
    std::vector<DAT_EP_HANDLE> endpoints_;
};

/// Says where a crowd listens.
struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
};

} // namespace bench
