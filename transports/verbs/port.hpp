// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The verbs port: reliable connections of libibverbs, set up by librdmacm or over TCP.
//
// Locks
//   hca::lock      connection management: event channel, connections, phases, lists of the hca
//   qp::lock       posting after the connection ended
//   cq::lock       deferred completions; taken by all but a consumer on the fast path
// They are taken in this order. None is held during an upcall, none is taken on the fast paths:
// those pass doors (osd_fence.hpp), which slow paths shut to exclude them.
#pragma once

#include "connection_service.hpp"
#include "counters.hpp"
#include "dapl_chain.hpp"
#include "dapl_spin.hpp"
#include "dapls_ib.hpp"
#include "deferred_completions.hpp"
#include "named_attributes.hpp"
#include "osd_annotations.hpp"
#include "osd_descriptor.hpp"
#include "osd_fence.hpp"
#include "osd_sync.hpp"
#include "params.hpp"
#include "port_features.hpp"
#include "tcp_cm.hpp"
#include "vectors.hpp"

#include <infiniband/verbs.h>
#include <memory>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <utility>

static_assert(DAPLS_IB_VERSION == 5, "the verbs port was written for version 5");

namespace dapl::verbs::vrb {

struct callback_domain;
struct cq;
struct hca;
struct pd;
struct qp;
struct srq;
class tcp_side;

/// Scatter/gather entries of one operation, whatever more a device has.
inline constexpr DAT_COUNT max_iov = 32;

// A DAT triplet has the layout of a scatter/gather entry, so that none need be built.
static_assert(sizeof(DAT_LMR_TRIPLET) == sizeof(ibv_sge));
static_assert(offsetof(DAT_LMR_TRIPLET, virtual_address) == offsetof(ibv_sge, addr));
static_assert(offsetof(DAT_LMR_TRIPLET, segment_length) == offsetof(ibv_sge, length));
static_assert(offsetof(DAT_LMR_TRIPLET, lmr_context) == offsetof(ibv_sge, lkey));
static_assert(sizeof(ibv_sge::addr) == sizeof(DAT_LMR_TRIPLET::virtual_address));
static_assert(sizeof(ibv_sge::length) == sizeof(DAT_LMR_TRIPLET::segment_length));

struct wr : work_request {
    bool finished = true; ///< taken from the device, or never posted
    bool plain = true;    ///< neither the port's own, nor a shared receive, nor suppressed
    /// [nth_signal] Suppressed, and known to have succeeded. Set by who takes it from the device.
    std::atomic<bool> succeeded{false};
    srq *shared = nullptr; ///< where it was posted, if it is a shared receive
    ibv_recv_wr recv{};    ///< prepared request of a receive with one segment, all but its place

    // Members in use while its completion is deferred: finished but not polled. With siw they put
    // it in order.
    wr *next;
    completion done;
    ibv_wc_status kept_status;
    std::uint32_t kept_length;
    std::uint32_t kept_by; ///< number of its queue pair
    bool kept = false;     ///< its completion waits in a list of poll_in_order()

    wr() : work_request{}
    {
        recv.wr_id = reinterpret_cast<std::uint64_t>(this);
        recv.num_sge = 1;
    }
};

/// Tells a ring which of an object's links is its own.
struct all_link : list_link {};
struct drawing_link : list_link {};
struct bound_link : list_link {};

struct cq final : all_link, deferred_completions<wr> {
    // The consumer's, inside the door.
    ibv_cq *handle = nullptr;
    int (*poll)(ibv_cq *, int, ibv_wc *) = nullptr; ///< what ibv_poll_cq calls
    static constexpr int batch = own_features.batched_poll ? 16 : 1;
    ibv_wc taken[batch];
    const ibv_wc *next = taken; ///< first entry of `taken` that is left
    int left = 0;               ///< how many of them there are
    fifo<wr> behind_read;       ///< by poll_in_order(), which have overtaken a read
    fifo<wr> ready;             ///< requests that poll_in_order() may give now

    hca *device = nullptr;
    evd *owner = nullptr;
    ibv_comp_channel *channel = nullptr;
    std::uint32_t vector = 0;                       ///< completion vector of the device
    std::atomic<callback_domain *> domain{nullptr}; ///< null until a callback is wanted
    osd::event_descriptor wake;                     ///< ends cq_wait
    bool failed = false;                            ///< overrun, and the error was delivered
    bool event_left = false;                        ///< the waiter armed the CQ and did not sleep
    spinner spin;
    std::atomic<bool> waiting{false};        ///< the consumer is inside cq_wait
    std::atomic<bool> woken{false};          ///< cq_wakeup was called, and `wake` is raised
    std::atomic<bool> notify{false};         ///< a dapl_evd_dto_callback is wanted
    std::atomic<bool> announced{false};      ///< completions were deferred while `notify` was set
    std::atomic<bool> mute{false};           ///< arming it failed, and that was logged
    std::atomic<std::uint32_t> per_event{1}; ///< completions of an event; see moderate()
    osd::mutex moderation;                   ///< the last lock
    bool moderates OSD_GUARDED_BY(moderation) = true; ///< the device has not refused it
    std::atomic<std::uint32_t> unacked{0};            ///< events taken from the channel
    std::atomic<std::uint32_t> signallers{0}; ///< queue pairs that have a part of signalled_room
    std::atomic<bool> flushed{false};         ///< the device flushed by itself; see note_flush()

    void wake_sleepers() override;
};

using phase = connection_phase;

/// Objects that were let go and wait for an answer to be destroyed: a queue pair, or none, and the
/// objects that verbs does not free before it.
struct deferred_destruction {
    struct need {
        void *handle;
        void (*destroy)(const hca &, void *handle);
    };
    ibv_qp *qp = nullptr;
    need needs[5]; ///< at most two CQs, an SRQ, and the PDs of that and of the queue pair
    int count = 0;
};

/// An rdma_cm identifier that stands, or is to stand, for a connection.
struct connection : all_link {
    hca *device = nullptr;
    rdma_cm_id *id = nullptr;
    qp *pair = nullptr; ///< null before a request is answered, and when the qp let go of this
    std::uint8_t peer_reads_in = 0; ///< RDMA reads that we may have outstanding at the peer
    std::uint8_t peer_reads_out = 0;
    std::uint32_t retries = 0; ///< retries of the question for address or route
    /// The service thread is in rdma_connect; or, with iWARP, the request was sent or accepted and
    /// no event has said how that ended.
    bool unanswered = false;
    bool tells_ready = false;  ///< [siw] the peer that asks will tell when it has the answer
    bool gone = false;         ///< an event has told of its end
    bool leaving = false;      ///< let go by us; stays until its event
    deferred_destruction rest; ///< goes with it
};

inline ibv_send_wr with_opcode(ibv_wr_opcode opcode)
{
    ibv_send_wr made{};
    made.opcode = opcode;
    return made;
}

struct qp : all_link, tcp_connection, drawing_link {
    // The sending thread's, inside its door. A null pointer: take the slow path, under the lock.
    osd::door send_door;
    std::atomic<ibv_qp *> fast_qp{nullptr};
    /// What ibv_post_send calls; for siw, with SIGPIPE blocked around it.
    int (*post)(ibv_qp *, ibv_send_wr *, ibv_send_wr **) = nullptr;
    wr *last_send = nullptr;
    // [nth_signal] Every nth suppressed success is signalled all the same; 0: none.
    std::uint32_t nth = 0;
    std::uint32_t suppressed = 0;    ///< suppressed successes since the last such signal
    ibv_send_wr *bad_send = nullptr; ///< null but after a post that the device refused
    /// Bytes that may travel inside a request; 0 once the zone has memory that only devices read.
    std::atomic<std::uint32_t> max_inline{0};
    unsigned read_fence = IBV_SEND_FENCE; ///< what a fenced read has
    bool signals_reads = false;           ///< signals suppressed reads, too: poll_in_order() needs
                                          ///< them
    // Prepared but for what changes.
    ibv_send_wr send = with_opcode(IBV_WR_SEND);
    ibv_send_wr write = with_opcode(IBV_WR_RDMA_WRITE);
    ibv_send_wr read = with_opcode(IBV_WR_RDMA_READ);

    // The receiving thread's.
    osd::door recv_door;
    wr *last_recv = nullptr;
    ibv_recv_wr *bad_recv = nullptr;

    osd::mutex lock;
    ibv_qp *
        handle OSD_GUARDED_BY(lock) = nullptr; ///< what `fast_qp` is while posts take the fast path
    hca *device = nullptr;
    pd *zone = nullptr;
    cq *send_cq = nullptr;
    cq *recv_cq = nullptr;
    srq *shared = nullptr;    ///< where receives come from, if not from a queue of its own
    std::uint32_t number = 0; ///< the device's number of the queue pair, with `shared`
    qp_params params{};
    DAT_QOS qos = DAT_QOS_BEST_EFFORT; ///< what its connect asked for
    std::uint32_t first_psn = 0;       ///< [cm=tcp] number of the first packet that it sends
    connection *link_up = nullptr;
    /// [iWARP] Of the device's queue pair, when that cannot be destroyed yet.
    connection *heir = nullptr;
    // The timer of connection_state: in phase accepting the connection is established, ESTABLISHED
    // not yet delivered; in phase live it has ended, and the service thread delivers that.
    std::int64_t settled_at_ns = 0;  ///< latest time to be established, in phase accepting
    std::int64_t close_after_ns = 0; ///< earliest time to close, in phase closing
    bool broken = false;             ///< an operation failed otherwise than by the disconnect
    bool closing_marker_posted = false;
    bool asks_to_close = false; ///< [siw] the closing marker is a read, which the peer answers
    std::uint8_t reads_out = 0; ///< [siw] RDMA reads that the peer lets us have outstanding
    wr ready_marker{};          ///< [siw] tells the peer that its answer was read
    /// [siw] Word that the peer writes when it has read our answer; null without.
    std::atomic<std::uint64_t> *ready = nullptr;
    wr closing_marker{}; ///< completes, in phase closing, after everything posted before
};

struct pd {
    hca *device = nullptr;
    ibv_pd *handle = nullptr;
    ibv_mr *nothing = nullptr; ///< what windows are bound to that open nothing, once there are any
    struct ready_words *ready = nullptr; ///< [siw] see ready.cpp; guarded by hca::lock
    bool only_devices_read = false;      ///< some memory here; guarded by hca::lock
};

struct mr {
    hca *device = nullptr;
    ibv_mr *handle = nullptr;
};

struct mw : bound_link {
    hca *device = nullptr;
    pd *zone = nullptr;
    ibv_mr *nothing = nullptr; ///< region without rights in its pd
    /// Null after a connection ended that it was open to; guarded by bound_windows::lock.
    ibv_mw *handle = nullptr;
    qp *through = nullptr; ///< [ep_windows] queue pair to whose peer it is open; guarded likewise
    std::atomic<std::uint32_t> closed{0}; ///< [send_invalidate] key that a peer's message closed
};

/// The windows that are open to the peer of one queue pair. A message names one by its key.
struct bound_windows {
    static constexpr std::uint32_t buckets = 64;

    osd::mutex lock; ///< taken below all others
    list<mw, bound_link> by_key[buckets] OSD_GUARDED_BY(lock);
};

/// Receives that several queue pairs draw from. A completion names the queue pair that took one by
/// its number: so this keeps a list of them by number.
struct srq {
    static constexpr std::uint32_t buckets = 64;

    hca *device = nullptr;
    shared_recv_queue *owner = nullptr;
    ibv_srq *handle = nullptr;
    osd::mutex lock;
    list<qp, drawing_link> drawing[buckets] OSD_GUARDED_BY(lock);
};

/// The listening side of a service point. Requests that came in live without it.
struct listener : tcp_listener {
    hca *device = nullptr;
    rdma_cm_id *id = nullptr; ///< null with cm=tcp
};

/// A connection request on its way from upcall to answer; one of the members is used.
struct cr {
    connection *from = nullptr;
    tcp_request by_tcp{};
};

/// The CQs for which one thread makes the callbacks: the service thread for the first domain, a
/// thread of its own for any other.
struct callback_domain {
    hca *device = nullptr;
    port_support::event_thread own;
    port_support::event_thread *thread = nullptr; ///< thread that watches `channels`
    port_support::epoll_set channels;             ///< channels of the CQs
    std::atomic<bool> announcing{false};          ///< some CQ's `announced` is set
};

struct hca : connection_service {
    adapter_params params;
    sockaddr_storage address{};
    char interface[64] = {};
    char vendor[32] = {};
    char mtu[16] = {};
    char port[8] = {};
    named_attributes names;
    adapter *owner = nullptr;

    ibv_context *verbs = nullptr;
    tcp_side *tcp = nullptr; ///< [cm=tcp] in place of the channel and the anchor; see close_tcp()
    rdma_event_channel *channel = nullptr;
    rdma_cm_id *anchor = nullptr; ///< bound to the address: gets the event of device removal
    ibv_device_attr limits{};
    ibv_port_attr port_limits{};
    ibv_cq_moderation_caps moderation{}; ///< all 0: the device has none
    std::uint8_t port_number = 1;
    bool iwarp = false;
    bool siw = false;
    bool fixed_cqs = false;           ///< the device does not resize CQs
    bool windows = false;             ///< regions are registered so that windows can be bound
    bool peer_windows = false;        ///< it has windows of type 2, and messages that close them
    bool read_sink_is_remote = false; ///< the target of a read shall be open to remote writes
    std::size_t max_private_data = 0;
    completion_vectors vectors;
    port_counters counters;
    bound_windows bound;
    cq spare; ///< stands in for queue pairs that lack a CQ; verbs wants two

    // The service thread watches the channel, the async events, and the first domain. A consumer in
    // cno_wait sleeps on `notifying`, which are all domains, in place of their threads.
    std::unique_ptr<callback_domain[]> domains;
    std::uint32_t domain_count = 0;
    std::atomic<std::uint32_t> next_domain{0}; ///< domain of the next CQ that wants callbacks
    port_support::epoll_set notifying;
    osd::event_descriptor wake;       ///< ends cno_wait
    std::atomic<bool> awake{false};   ///< the consumer in cno_wait makes upcalls, and then returns
    std::atomic<bool> flushed{false}; ///< some CQ's `flushed` is set

    bool failed OSD_GUARDED_BY(lock) = false; ///< the device is gone, and the error was delivered
    list<cq, all_link> cqs OSD_GUARDED_BY(lock);
    list<qp, all_link> qps OSD_GUARDED_BY(lock);
    list<connection, all_link> connections OSD_GUARDED_BY(lock);
};

// Slow halves of the hot operations.
bool poll_slow(cq &, completion &);
status send_slow(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *, const DAT_RMR_TRIPLET *,
                 unsigned flags) OSD_COLD;
status recv_slow(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *) OSD_COLD;
status refused_post(int error) OSD_COLD;
// Answer for the operation that was posted last, which the device refused.
status send_failed(qp &, int error) OSD_COLD;
status recv_failed(qp &, int error) OSD_COLD;
void notify_cq(cq &, notify_on);
osd::wait_result wait_for_cq(cq &, notify_on, DAT_COUNT threshold, osd::deadline);
void wake_cq(cq &);
osd::wait_result wait_for_any_cq(hca &, osd::deadline);
void wake_waiter(hca &);
/// Translates the status of a failure. `polled`, if not null, is the CQ that it was polled from
/// while the port was not ending the connection.
DAT_DTO_COMPLETION_STATUS failure_of(cq *polled, const wr &, ibv_wc_status) OSD_COLD;
/// Stands for the queue pair that took a receive; null when that is gone.
work_queue *receiver_of(srq &, std::uint32_t qp_num);
/// A peer's message has closed the window that has this key.
void note_closed(hca &, std::uint32_t key) OSD_COLD;

inline wr &request_of(const ibv_wc &entry)
{
    return *reinterpret_cast<wr *>(entry.wr_id);
}

/// Completions at hand, taken from the device if need be.
struct batch {
    const ibv_wc *next;
    int left;
};
OSD_ALWAYS_INLINE batch look_into(cq &c)
{
    if (c.left != 0)
        return {c.next, c.left};
    const int got = c.poll(c.handle, cq::batch, c.taken);
    return {c.taken, got > 0 ? got : 0};
}

/// [nth_signal] It completes for the port alone.
inline bool is_suppressed_success(const ibv_wc &entry, const wr &request)
{
    return port_features.nth_signal && !request.plain && request.shared == nullptr &&
           request.queue != nullptr && entry.status == IBV_WC_SUCCESS;
}
inline void note_success(wr &suppressed)
{
    suppressed.finished = true;
    suppressed.succeeded.store(true, std::memory_order_release);
}

inline void keep(cq &c, const batch &rest)
{
    c.next = rest.next;
    c.left = rest.left;
}

/// Returns null when there is none.
inline const ibv_wc *take_entry(cq &c)
{
    const batch found = look_into(c);
    if (found.left == 0)
        return nullptr;
    keep(c, {found.next + 1, found.left - 1});
    return found.next;
}

/// siw flushes the RDMA read that it was just about to send twice.
inline bool came_again(const ibv_wc &entry, const wr &request)
{
    return entry.status == IBV_WC_WR_FLUSH_ERR && request.finished;
}

/// Neither the port's own nor failed, and no more to tell than a length.
OSD_ALWAYS_INLINE bool is_plain(const ibv_wc &entry, const wr &request)
{
    constexpr unsigned with_more = IBV_WC_WITH_IMM | IBV_WC_WITH_INV;
    const unsigned more = entry.status | (entry.wc_flags & with_more); // one branch for both
    return more == 0 && request.plain;
}

/// Translates a CQE; `polled` is for failure_of().
OSD_ALWAYS_INLINE void read_completion([[maybe_unused]] hca &device, cq *polled,
                                       const ibv_wc &entry, wr &request, completion &done)
{
    request.finished = true;
    done.wr = &request;
    done.length = entry.byte_len;
    done.status = entry.status == IBV_WC_SUCCESS ? DAT_DTO_SUCCESS
                                                 : failure_of(polled, request, entry.status);
    if constexpr (port_features.immediate_data) {
        done.has_immediate = (entry.wc_flags & IBV_WC_WITH_IMM) != 0;
        done.immediate = ntohl(entry.imm_data);
    }
    if constexpr (port_features.send_invalidate) {
        done.invalidated = 0;
        if (entry.status == IBV_WC_SUCCESS && (entry.wc_flags & IBV_WC_WITH_INV) != 0)
            [[unlikely]] {
            done.invalidated = entry.invalidated_rkey;
            note_closed(device, done.invalidated);
        }
    }
    if constexpr (port_features.solicited_wait)
        done.solicited = true; // perhaps
    if constexpr (port_features.srq)
        if (request.shared != nullptr) [[unlikely]]
            done.receiver = receiver_of(*request.shared, entry.qp_num);
}

/// The scatter/gather list of an operation; built in `built` where the port may not take the
/// consumer's.
OSD_ALWAYS_INLINE ibv_sge *gather(ibv_sge *built, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    if constexpr (own_features.direct_post)
        return reinterpret_cast<ibv_sge *>(const_cast<DAT_LMR_TRIPLET *>(local));
    for (DAT_COUNT i = 0; i < segments; ++i)
        built[i] = {local[i].virtual_address, local[i].segment_length, local[i].lmr_context};
    return built;
}

inline constexpr std::size_t built_entries = own_features.direct_post ? 1 : max_iov;

struct types {
    using hca = vrb::hca;
    using pd = vrb::pd;
    using mr = vrb::mr;
    using mw = vrb::mw;
    using cq = vrb::cq;
    using qp = vrb::qp;
    using wr = vrb::wr;
    using srq = vrb::srq;
    using cr = vrb::cr;
    using listener = vrb::listener;
};

} // namespace dapl::verbs::vrb

namespace dapl::verbs {

struct transport : dapls_ib<vrb::types> {
    static constexpr features claims = port_features;
    static constexpr bool tells_solicited = false; ///< a CQE does not

    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);
    static void dapls_ib_read_counters(hca &, device_counters &);

    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &);

    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);
    static status dapls_ib_mw_alloc(pd &, mw &);
    static void dapls_ib_mw_free(mw &);
    static status dapls_ib_mw_bind(qp &, wr &, mw &, mr *, const mw_params &, DAT_COMPLETION_FLAGS,
                                   DAT_RMR_CONTEXT &key);
    static bool dapls_ib_mw_is_bound(mw &window, DAT_RMR_CONTEXT key)
    {
        return window.closed.load() != key;
    }

    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);
    static status dapls_ib_cq_resize(cq &, DAT_COUNT &depth);
    static bool dapls_ib_completion_poll(cq &, completion &);
    static take_result dapls_ib_completion_take(cq &, work_request *&, DAT_UINT32 &);
    static void dapls_ib_completion_notify(cq &c, notify_on interest)
    {
        vrb::notify_cq(c, interest);
    }
    static osd::wait_result dapls_ib_cq_wait(cq &c, notify_on interest, DAT_COUNT threshold,
                                             osd::deadline until)
    {
        return vrb::wait_for_cq(c, interest, threshold, until);
    }
    static void dapls_ib_cq_wakeup(cq &c) { vrb::wake_cq(c); }
    static osd::wait_result dapls_ib_cno_wait(hca &device, osd::deadline until)
    {
        return vrb::wait_for_any_cq(device, until);
    }
    static void dapls_ib_cno_wakeup(hca &device) { vrb::wake_waiter(device); }

    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);
    static void dapls_ib_qp_query(qp &, qp_attr &);

    static status dapls_ib_srq_alloc(pd &, srq &, const srq_params &);
    static void dapls_ib_srq_free(srq &);
    static status dapls_ib_srq_resize(srq &, DAT_COUNT max_recv);
    static status dapls_ib_srq_set_limit(srq &, DAT_COUNT low_watermark);
    static status dapls_ib_post_srq_recv(srq &, wr &, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *local);

    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS);
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local);
    static DAT_COUNT dapls_ib_requests_done(qp &, wr &oldest, DAT_COUNT most);
    static status dapls_ib_post_extended(qp &, wr &, const extended_request &);

    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &, DAT_CONN_QUAL &);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);

private:
    static unsigned send_flags(qp &, wr &, DAT_COMPLETION_FLAGS);
    static bool is_nth(qp &);
    static bool poll_slow(cq &, completion &);
};

OSD_ALWAYS_INLINE bool transport::dapls_ib_completion_poll(cq &c, completion &done)
{
    c.consumer.enter();
    if (c.is_slow()) [[unlikely]]
        return poll_slow(c, done);
    const vrb::batch found = vrb::look_into(c);
    if (found.left == 0) {
        c.consumer.leave();
        return false;
    }
    wr &request = vrb::request_of(*found.next);
    if (request.queue == nullptr || vrb::came_again(*found.next, request) ||
        vrb::is_suppressed_success(*found.next, request)) [[unlikely]] {
        vrb::keep(c, found);
        return poll_slow(c, done);
    }
    vrb::keep(c, {found.next + 1, found.left - 1});
    vrb::read_completion(*c.device, &c, *found.next, request, done);
    c.consumer.leave();
    return true;
}

OSD_ALWAYS_INLINE take_result transport::dapls_ib_completion_take(cq &c,
                                                                  work_request *&taken_request,
                                                                  DAT_UINT32 &length)
{
    c.consumer.enter();
    take_result result = take_result::other;
    if (!c.is_slow()) [[likely]] {
        const vrb::batch found = vrb::look_into(c);
        if (found.left == 0) {
            result = take_result::empty;
        } else if (wr &request = vrb::request_of(*found.next); vrb::is_plain(*found.next, request))
            [[likely]] {
            vrb::keep(c, {found.next + 1, found.left - 1});
            length = found.next->byte_len;
            request.finished = true;
            taken_request = &request;
            result = take_result::taken;
        } else {
            vrb::keep(c, found);
        }
    }
    c.consumer.leave();
    return result;
}

OSD_ALWAYS_INLINE bool transport::poll_slow(cq &c, completion &done)
{
    c.consumer.leave();
    completion found; // `done` shall stay in registers
    if (!vrb::poll_slow(c, found))
        return false;
    done = found;
    return true;
}

inline bool transport::is_nth(qp &q)
{
    if (!port_features.nth_signal || ++q.suppressed != q.nth)
        return false;
    q.suppressed = 0;
    return true;
}

/// The device's flags for a request about to be posted; notes whether its success is suppressed.
OSD_ALWAYS_INLINE unsigned transport::send_flags(qp &q, wr &w, DAT_COMPLETION_FLAGS flags)
{
    const opcode operation = w.operation;
    const DAT_UINT32 length = w.length;
    const bool read = operation == opcode::rdma_read;
    unsigned out = IBV_SEND_SIGNALED;
    if (own_features.inline_send && !read &&
        length - 1 < q.max_inline.load(std::memory_order_relaxed)) // no empty message
        out |= IBV_SEND_INLINE;
    bool plain = true;
    if (flags != DAT_COMPLETION_DEFAULT_FLAG) [[unlikely]] {
        if ((flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0) {
            plain = false;
            w.succeeded.store(false, std::memory_order_relaxed);
            if (!is_nth(q) && !(read && q.signals_reads))
                out &= ~unsigned{IBV_SEND_SIGNALED};
        }
        if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0)
            out |= IBV_SEND_SOLICITED;
        if ((flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0)
            out |= read ? q.read_fence : unsigned{IBV_SEND_FENCE};
    }
    if constexpr (port_features.nth_signal)
        w.plain = plain;
    return out;
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_send(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local,
                                                       const DAT_RMR_TRIPLET *remote,
                                                       DAT_COMPLETION_FLAGS flags)
{
    const opcode operation = w.operation; // what the door orders is not read again behind it
    const DAT_UINT32 length = w.length;
    const unsigned carried = send_flags(q, w, flags);
    const bool odd_read = operation == opcode::rdma_read && length != remote->segment_length;
    q.send_door.enter();
    ibv_qp *const handle = q.fast_qp.load(std::memory_order_acquire);
    if (handle == nullptr || odd_read) [[unlikely]] {
        q.send_door.leave();
        return vrb::send_slow(q, w, segments, local, remote, carried & ~unsigned{IBV_SEND_INLINE});
    }
    ibv_sge built[vrb::built_entries];
    ibv_send_wr &request = operation == opcode::send         ? q.send
                           : operation == opcode::rdma_write ? q.write
                                                             : q.read;
    request.wr_id = reinterpret_cast<std::uint64_t>(&w);
    request.sg_list = vrb::gather(built, segments, local);
    request.num_sge = segments;
    request.send_flags = carried;
    if (operation != opcode::send) {
        request.wr.rdma.remote_addr = remote->virtual_address;
        request.wr.rdma.rkey = remote->rmr_context;
    }
    w.finished = false;
    q.last_send = &w;
    const int error = q.post(handle, &request, &q.bad_send);
    if (error != 0) [[unlikely]]
        return vrb::send_failed(q, error);
    q.send_door.leave();
    return success;
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_recv(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local)
{
    q.recv_door.enter();
    ibv_qp *const handle = q.fast_qp.load(std::memory_order_acquire);
    if (handle == nullptr || segments == 0) [[unlikely]] {
        q.recv_door.leave();
        return vrb::recv_slow(q, w, segments, local);
    }
    ibv_sge built[vrb::built_entries];
    w.recv.sg_list = vrb::gather(built, segments, local);
    if (segments != 1)
        w.recv.num_sge = segments;
    w.finished = false;
    q.last_recv = &w;
    const int error = ibv_post_recv(handle, &w.recv, &q.bad_recv);
    if (segments != 1)
        w.recv.num_sge = 1;
    if (error != 0) [[unlikely]]
        return vrb::recv_failed(q, error);
    q.recv_door.leave();
    return success;
}

} // namespace dapl::verbs
