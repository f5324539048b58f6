// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The acme port of Acme Networks: its types and its hot path. The slow operations are in the .cpp
// files. Made by dapl-port; it is yours.
//
// An operation that begins with TODO(port) is still a skeleton; delete that line when it is not.
#pragma once

#include "dapls_ib.hpp"
#include "port_features.hpp"

static_assert(DAPLS_IB_VERSION == 2, "the acme port was written for version 2");

namespace dapl::acme {

/// What each object of the contract is here. They live inside the common layer's objects, are
/// default-constructed, and stay at their address from alloc to free.
struct types {
    struct cq {};
    struct cr {};
    struct hca {
        adapter *owner = nullptr; ///< for upcalls
        DAT_SOCK_ADDR address{};  ///< what peers connect to
    };
    struct listener {};
    struct mr {};
    struct pd {};
    struct qp {};
    using wr = work_request; // or a struct derived from it, with what a posted operation needs
};

struct transport : dapls_ib<types> {
    static constexpr features claims = port_features; // from port.toml
    // Posting and polling make system calls through the C library, as by sendmsg:
    static constexpr bool has_cancellation_points = false;

    // HCA: hca.cpp
    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);

    // protection domain: memory.cpp
    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &);

    // memory region: memory.cpp
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);

    // completion queue: cq.cpp
    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);

    // queue pair: qp.cpp
    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);

    // connection: cm.cpp
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &owner,
                                               DAT_CONN_QUAL &qualifier);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);

    // The hot path: shall not block, allocate, log or make an upcall.

    // TODO(port) dapls_ib_completion_poll: take the oldest completion
    // Takes the oldest completion; false when there is none. Completions of one queue of one qp
    // come in post order. Every posted operation comes back exactly once, failures always, and
    // successes unless they were posted with DAT_COMPLETION_SUPPRESS_FLAG. Hot. One thread at a
    // time per cq.
    // (hot, does not block; shown by DTO-01, DTO-02, DTO-12, DTO-13, EVD-24)
    static bool dapls_ib_completion_poll(cq &, completion &) { return false; }

    // TODO(port) dapls_ib_completion_notify: ask for a callback after the next completion
    // Asks for one dapl_evd_dto_callback after the next completion is added. Whether it also fires
    // for completions already there is up to the port: the caller polls again after it. Hot
    // (system calls are allowed: it comes before sleeping). Any thread.
    // (hot, does not block; shown by EVD-15, EVD-16, CNO-16, CNO-17)
    static void dapls_ib_completion_notify(cq &) {}

    // TODO(port) dapls_ib_post_send: post a send, an RDMA write or an RDMA read
    // Posts wr.operation: send, RDMA write or RDMA read; `remote` is null for a send. `segments`
    // may be 0. The arrays are the caller's and valid during the call. One thread at a time per
    // qp, concurrently with one in post_recv. The qp is or was connected: after a disconnect the
    // operation completes as flushed. Hot. DAT_INSUFFICIENT_RESOURCES when the device's queue is
    // full.
    // (hot, does not block; shown by DTO-01, DTO-03, DTO-04, DTO-05, DTO-08, DTO-09, DTO-12,
    // DTO-15, DTO-26, DTO-36, DTO-37)
    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT /*segments*/,
                                     const DAT_LMR_TRIPLET * /*local*/,
                                     const DAT_RMR_TRIPLET * /*remote*/,
                                     DAT_COMPLETION_FLAGS /*flags*/)
    {
        return not_supported;
    }

    // TODO(port) dapls_ib_post_recv: post a receive
    // In every state of the qp. Otherwise as post_send.
    // (hot, does not block; shown by DTO-01, DTO-04, DTO-14, DTO-16, DTO-28, EP-22, EP-26)
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT /*segments*/,
                                     const DAT_LMR_TRIPLET * /*local*/)
    {
        return not_supported;
    }
};

} // namespace dapl::acme
