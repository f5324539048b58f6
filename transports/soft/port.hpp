// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The port of the software HCA: its types and its hot path. The slow operations are in the .cpp
// files.
//
// The device is in engine/ and knows nothing of DAT. It has what a vendor's device library has:
// objects to be made and freed, queues to post to and to poll, and upcalls. What a port does is
// here: name the device's objects, translate requests and completions, and hand upcalls on.
#pragma once

#include "dapls_ib.hpp"
#include "named_attributes.hpp"
#include "params.hpp"
#include "port_features.hpp"

#include "device/device.hpp"
#include "net/observed_io.hpp"

#include <cstddef>
#include <memory>

static_assert(DAPLS_IB_VERSION == 5, "the soft port was written for version 5");

namespace dapl::soft {

/// The engine keeps a request in place while it is posted, so it lies in the work request. Requests
/// of threads that post at once share no cache line.
struct alignas(64) soft_wr : work_request {
    soft_hca::request request{};

    /// A receive of a shared receive queue has no place in a ring.
    bool is_shared() const { return before == nullptr; }

    soft_wr() : work_request{}
    {
        request.context = this;
        request.place = &ring_place;
    }
};

/// What each object of the contract is here.
struct types {
    struct hca {
        std::unique_ptr<soft_hca::packet_observer> capture; ///< null, or outlives the device
        soft_hca::device device;
        adapter *owner = nullptr;
        adapter_params params;
        soft_hca::interface_info interface;
        char datagram[16] = {};
        char direct[96] = {};
        named_attributes names;
        long process = 0; ///< that opened it; in a forked child everything is left alone

        bool foreign() const;
    };
    /// Every object of an HCA names it.
    struct child {
        hca *parent = nullptr;
    };
    struct pd : child {
        soft_hca::protection_domain domain;
    };
    struct mr : child {
        soft_hca::memory_region region;
    };
    struct mw : child {
        soft_hca::memory_region *window = nullptr;
    };
    struct cq : child {
        soft_hca::completion_queue queue;
    };
    struct qp : child {
        soft_hca::queue_pair pair;
    };
    struct srq : child {
        soft_hca::shared_receives queue;
    };
    struct listener : child {
        soft_hca::listener at;
        service_point *owner = nullptr;
    };
    /// A connection request on its way from upcall to answer.
    struct cr : child {
        soft_hca::inbound_request *request = nullptr;
    };
    /// Addresses go in front of the private data of a handshake between queue pairs that are made
    /// for it.
    struct exchange : child {
        std::unique_ptr<soft_hca::queue_pair> pair; ///< until the exchange has ended
        soft_hca::datagram_address peer;
        datagram_peer *owner = nullptr;
        bool calls = false;
    };
    using wr = soft_wr;
};

/// How an operation ended, in the words of DAT.
DAT_DTO_COMPLETION_STATUS dto_status(soft_hca::work_status status) OSD_COLD;

struct transport : dapls_ib<types> {
    static constexpr features claims = port_features; // read from port.toml

    // HCA: hca.cpp
    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);
    static void dapls_ib_read_counters(hca &, device_counters &);

    // Protection domain, memory region, memory window: memory.cpp
    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &) {}
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);
    static status dapls_ib_mw_alloc(pd &, mw &);
    static void dapls_ib_mw_free(mw &);
    static status dapls_ib_mw_bind(qp &, wr &, mw &, mr *, const mw_params &, DAT_COMPLETION_FLAGS,
                                   DAT_RMR_CONTEXT &key);
    static bool dapls_ib_mw_is_bound(mw &m, DAT_RMR_CONTEXT key)
    {
        return m.window->key.load() == key;
    }

    // Completion queue: cq.cpp
    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);
    static status dapls_ib_cq_resize(cq &, DAT_COUNT &depth);
    static osd::wait_result dapls_ib_cq_wait(cq &, notify_on, DAT_COUNT threshold, osd::deadline);
    static void dapls_ib_cq_wakeup(cq &);
    static void dapls_ib_evd_events(cq &c, int change) { c.queue.count_others(change); }
    static osd::wait_result dapls_ib_cno_wait(hca &h, osd::deadline until)
    {
        return h.device.wait_for_callbacks(until);
    }
    static void dapls_ib_cno_wakeup(hca &h) { h.device.waiter.wake(); }

    // Queue pair: qp.cpp
    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);
    static void dapls_ib_read_qp_counters(qp &, qp_counters &);
    static void dapls_ib_qp_query(qp &, qp_attr &);

    // Shared receive queue: srq.cpp
    static status dapls_ib_srq_alloc(pd &, srq &, const srq_params &);
    static void dapls_ib_srq_free(srq &);
    static status dapls_ib_srq_resize(srq &, DAT_COUNT max_recv);
    static status dapls_ib_srq_set_limit(srq &, DAT_COUNT low_watermark);
    static void dapls_ib_qp_set_watermarks(qp &, DAT_COUNT soft, DAT_COUNT hard);
    static DAT_COUNT dapls_ib_qp_recvs_held(const qp &q)
    {
        return static_cast<DAT_COUNT>(q.pair.receives_held());
    }

    // Connection: cm.cpp
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &, DAT_CONN_QUAL &);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);

    // Datagrams: exchange.cpp
    static status dapls_ib_exchange_begin(exchange &, qp &, datagram_peer &,
                                          const connect_params &);
    static status dapls_ib_exchange_accept(exchange &, cr &, qp &, datagram_peer &,
                                           const private_data &);
    static void dapls_ib_exchange_end(exchange &);
    static void dapls_ib_exchange_free(exchange &) {}

    // The hot path: shall not block, allocate, log or make an upcall.

    static bool dapls_ib_completion_poll(cq &, completion &);
    static take_result dapls_ib_completion_take(cq &, work_request *&, DAT_UINT32 &);
    static bool dapls_ib_completion_progress(cq &c)
    {
        return c.queue.progress() && !c.queue.empty(); // packets may be waiting
    }
    static DAT_COUNT dapls_ib_cq_count(cq &c, DAT_COUNT limit)
    {
        return static_cast<DAT_COUNT>(c.queue.count(static_cast<std::uint32_t>(limit)));
    }
    static void dapls_ib_completion_notify(cq &c, notify_on what)
    {
        c.queue.arm(interest_in(what));
    }
    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS);
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local);
    static DAT_COUNT dapls_ib_requests_done(qp &, wr &oldest, DAT_COUNT most);
    static status dapls_ib_post_srq_recv(srq &, wr &, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *local);
    static status dapls_ib_post_extended(qp &, wr &, const extended_request &);
    static status dapls_ib_post_datagram(qp &, wr &, exchange &to, const extended_request &);

private:
    static bool take(cq &, completion &) OSD_NOINLINE;
    static void set_receive(wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local);
    static void set_segments(soft_hca::request &, DAT_COUNT segments, const DAT_LMR_TRIPLET *);
    static void set_remote(soft_hca::request &, const DAT_RMR_TRIPLET &);
    static std::uint8_t flags_of(DAT_COMPLETION_FLAGS);
    static soft_hca::completion_queue::interest interest_in(notify_on what)
    {
        using interest = soft_hca::completion_queue::interest;
        return what == notify_on::solicited ? interest::solicited : interest::any;
    }
};

// A DAT triplet is what the device takes.
static_assert(sizeof(soft_hca::local_segment) == sizeof(DAT_LMR_TRIPLET));
static_assert(offsetof(soft_hca::local_segment, length) ==
              offsetof(DAT_LMR_TRIPLET, segment_length));
static_assert(offsetof(soft_hca::local_segment, key) == offsetof(DAT_LMR_TRIPLET, lmr_context));
static_assert(sizeof(soft_hca::remote_segment) == sizeof(DAT_RMR_TRIPLET));
static_assert(offsetof(soft_hca::remote_segment, key) == offsetof(DAT_RMR_TRIPLET, rmr_context));

OSD_ALWAYS_INLINE void transport::set_segments(soft_hca::request &r, DAT_COUNT segments,
                                               const DAT_LMR_TRIPLET *local)
{
    r.segments = static_cast<std::uint8_t>(segments);
    std::uint32_t length = 0;
    for (DAT_COUNT i = 0; i < segments; ++i) {
        if constexpr (own_features.direct_post)
            __builtin_memcpy(&r.local[i], &local[i], sizeof r.local[i]);
        else
            r.local[i] = {local[i].virtual_address, local[i].segment_length, local[i].lmr_context};
        length += local[i].segment_length;
    }
    r.length = length;
}

OSD_ALWAYS_INLINE void transport::set_remote(soft_hca::request &r, const DAT_RMR_TRIPLET &remote)
{
    if constexpr (own_features.direct_post)
        __builtin_memcpy(&r.remote, &remote, sizeof r.remote);
    else
        r.remote = {remote.virtual_address, remote.segment_length, remote.rmr_context};
}

OSD_ALWAYS_INLINE std::uint8_t transport::flags_of(DAT_COMPLETION_FLAGS flags)
{
    unsigned out = 0;
    if ((flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0)
        out |= soft_hca::request_silent;
    if ((flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0)
        out |= soft_hca::request_fence;
    if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0)
        out |= soft_hca::request_solicited;
    return static_cast<std::uint8_t>(out);
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_send(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local,
                                                       const DAT_RMR_TRIPLET *remote,
                                                       DAT_COMPLETION_FLAGS flags)
{
    soft_hca::request &r = w.request;
    set_segments(r, segments, local);
    r.kind = w.operation == opcode::send         ? soft_hca::work::send
             : w.operation == opcode::rdma_write ? soft_hca::work::write
                                                 : soft_hca::work::read;
    if (remote != nullptr)
        set_remote(r, *remote);
    if (r.kind == soft_hca::work::read) // the local segments may be longer
        r.length = static_cast<std::uint32_t>(remote->segment_length);
    r.flags = flags_of(flags);
    return q.pair.post_send(r) ? success : out_of_memory;
}

/// The kind of work of an operation that is posted as an extended request.
constexpr soft_hca::work extended_kind(opcode operation)
{
    switch (operation) {
    case opcode::write_immediate:
        return soft_hca::work::write_immediate;
    case opcode::fetch_add:
        return soft_hca::work::fetch_add;
    case opcode::compare_swap:
        return soft_hca::work::compare_swap;
    case opcode::read_to_rmr:
        return soft_hca::work::read_to_window;
    default:
        return soft_hca::work::send;
    }
}

inline status transport::dapls_ib_post_extended(qp &q, wr &w, const extended_request &wanted)
{
    soft_hca::request &r = w.request;
    r.kind = extended_kind(w.operation);
    r.flags = flags_of(wanted.flags);
    set_segments(r, wanted.segments, wanted.local);
    if (wanted.remote != nullptr)
        set_remote(r, *wanted.remote);
    if (w.operation == opcode::send_invalidate) {
        r.remote.key = wanted.key;
        r.flags |= soft_hca::request_invalidate;
    } else if (w.operation == opcode::read_to_rmr) {
        r.local[0] = {wanted.to->virtual_address, wanted.to->segment_length,
                      wanted.to->rmr_context};
        r.segments = 1;
        r.length = wanted.remote->segment_length;
    }
    r.immediate = wanted.immediate;
    r.atomic.compare_or_add = wanted.add_or_compare;
    r.atomic.swap = wanted.swap;
    return q.pair.post_send(r) ? success : out_of_memory;
}

inline status transport::dapls_ib_post_datagram(qp &q, wr &w, exchange &to,
                                                const extended_request &wanted)
{
    soft_hca::request &r = w.request;
    set_segments(r, wanted.segments, wanted.local);
    r.kind = soft_hca::work::datagram;
    r.flags = flags_of(wanted.flags);
    r.remote.address = reinterpret_cast<std::uintptr_t>(&to.peer);
    return q.pair.post_datagram(r) ? success : out_of_memory;
}

OSD_ALWAYS_INLINE void transport::set_receive(wr &w, DAT_COUNT segments,
                                              const DAT_LMR_TRIPLET *local)
{
    soft_hca::request &r = w.request;
    set_segments(r, segments, local);
    r.kind = soft_hca::work::receive;
    r.flags = 0;
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_recv(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local)
{
    set_receive(w, segments, local);
    return q.pair.post_receive(w.request) ? success : out_of_memory;
}

inline status transport::dapls_ib_post_srq_recv(srq &s, wr &w, DAT_COUNT segments,
                                                const DAT_LMR_TRIPLET *local)
{
    set_receive(w, segments, local);
    return s.queue.post(w.request) ? success : out_of_memory;
}

OSD_ALWAYS_INLINE bool transport::dapls_ib_completion_poll(cq &c, completion &done)
{
    return (!c.queue.empty() || c.queue.progress()) && take(c, done);
}

OSD_ALWAYS_INLINE take_result transport::dapls_ib_completion_take(cq &c, work_request *&of,
                                                                  DAT_UINT32 &length)
{
    take_result found = claims.split_poll ? take_result::idle : take_result::other;
    (void)c.queue.pop_to([&](const soft_hca::completion_record &record) {
        auto *const request = static_cast<wr *>(record.request->context);
        of = request;
        length = record.length;
        const bool own = !request->is_shared();
        const bool plain = record.plain() & own; // one branch for both
        found = plain ? take_result::taken : take_result::other;
        return plain;
    });
    return found;
}

} // namespace dapl::soft
