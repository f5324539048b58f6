// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A port to a small device: what the port runtime leaves to its author.
#pragma once

#include "connection_service.hpp"
#include "device.hpp"
#include "local_interface.hpp"
#include "named_attributes.hpp"
#include "port_features.hpp"
#include "tcp_cm.hpp"

#include <optional>

static_assert(DAPLS_IB_VERSION == 5, "the memory port was written for version 5");

namespace dapl::memory {

struct types {
    struct hca : connection_service, tcp_cm_user {
        bool offer(tcp_listener &, tcp_request &, const cr_params &) override OSD_REQUIRES(lock);
        bool bring_up(tcp_connection &, const tcp_cm_address &) override;
        void tear_down(tcp_connection &) override;
        bool is_drained(tcp_connection &) override;

        adapter *owner = nullptr;
        local_interface interface;
        tcp_cm cm{*this, *this, {}};
        named_attributes attributes;
    };
    struct pd {
        hca *device = nullptr;
    };
    struct mr {
        std::uint64_t device_key = 0;
        std::uint32_t key = 0;
    };
    struct cq : list_link { ///< linked in the list of CQs to report
        std::optional<memory_device::completion_queue> queue;
        hca *device = nullptr;
        evd *owner = nullptr;
    };
    struct wr : work_request {
        memory_device::operation posted;
    };
    struct qp : tcp_connection {
        std::optional<memory_device::queue_pair> pair;
        pd *domain = nullptr;
        cq *recv_cq = nullptr;
        cq *send_cq = nullptr;
        hca *device = nullptr;
    };
    struct cr {
        tcp_request request;
    };
    struct listener : tcp_listener {
        hca *device = nullptr;
    };
};

struct transport : dapls_ib<types> {
    static constexpr features claims = port_features;

    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);
    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &);
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);
    static status dapls_ib_cq_alloc(hca &, cq &, evd &, DAT_COUNT &);
    static void dapls_ib_cq_free(cq &);
    static bool dapls_ib_completion_poll(cq &, completion &);
    static void dapls_ib_completion_notify(cq &, notify_on);
    static status dapls_ib_qp_alloc(pd &, qp &, cq *, cq *, srq *, const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);
    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *,
                                     const DAT_RMR_TRIPLET *, DAT_COMPLETION_FLAGS);
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *);
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &, DAT_CONN_QUAL &);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);
};

} // namespace dapl::memory
