// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The libfabric port: FI_EP_MSG endpoints, as the tcp provider has them on any network interface.
//
// Locks
//   hca::lock      connection management: event queue, passive endpoints, phases, lists of the hca
//   qp::lock       the way of a posted operation that cannot go straight to libfabric
//   cq::lock       deferred completions; taken by all but a consumer on the fast path
// They are taken in this order. None is held during an upcall, none is taken on the fast paths:
// those pass doors (osd_fence.hpp), which slow paths shut to exclude them.
#pragma once

#include "connection_service.hpp"
#include "dapl_chain.hpp"
#include "dapl_spin.hpp"
#include "dapls_ib.hpp"
#include "deferred_completions.hpp"
#include "epoll_members.hpp"
#include "local_interface.hpp"
#include "named_attributes.hpp"
#include "osd_annotations.hpp"
#include "osd_fence.hpp"
#include "osd_sync.hpp"
#include "params.hpp"
#include "port_features.hpp"
#include "progress_watch.hpp"
#include "unanswered_requests.hpp"

#include <memory>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <utility>

static_assert(DAPLS_IB_VERSION == 5, "the libfabric port was written for version 5");

namespace dapl::libfabric::ofi {

struct cq;
struct hca;
struct qp;
struct passive;

inline constexpr DAT_COUNT max_iov = 4;

/// Order of completion: the number of RDMA reads posted before this operation. libfabric finishes a
/// send when the socket took it, which may be long before the data of an earlier read are back.
inline constexpr std::uint32_t order_mask = 0x7fffffff;
/// This one is not for the fast path, whatever its order.
inline constexpr std::uint32_t order_special = 0x80000000;

/// Says who has an operation: libfabric does not look at local keys, so the port must know whose
/// memory is in use.
enum class where : std::uint8_t {
    elsewhere, ///< it was not posted, or has completed
    posted,    ///< libfabric has it
    withdrawn, ///< libfabric had this receive until it was cancelled
    kept,      ///< libfabric has this request, whose segments and keys are set
    silent,    ///< libfabric has it or had it, and says nothing of its success
};

/// The place of a request in its queue pair.
struct place {
    std::uint32_t order;
    where is : 8;              ///< lies where recv_place has it
    std::uint32_t number : 24; ///< number in post order
};
static_assert(sizeof(place) == 8);

/// A receive, and the state of its memory.
struct recv_place {
    DAT_LMR_CONTEXT key; ///< key of its segment, unless it is kept
    where is;
    bool kept;  ///< segments, iov and keys are set
    bool freed; ///< some memory of it was freed: it has no segments any more
    bool cut;   ///< a message was coming into freed memory
};

struct wr : work_request {
    qp *pair;
    union {
        place position;  ///< valid in a request
        recv_place recv; ///< valid in a receive
    };
    union {
        /// What announces a write with immediate data, and is found in the receive it takes.
        std::uint64_t remote_data;
        DAT_VADDR address;      ///< address of a receive's segment, unless it is kept
        DAT_LMR_CONTEXT source; ///< key of a request's only segment, if it is posted, not kept
    };

    // Members of an operation that is kept: not yet posted to libfabric, or finished but not
    // polled.
    wr *next;
    completion done;
    bool suppressed; ///< only set by send_slow, which every read passes
    bool lost;       ///< memory of this request was freed while libfabric had it
    bool fence;      ///< posted with DAT_COMPLETION_BARRIER_FENCE_FLAG
    std::uint8_t segments;
    iovec iov[max_iov];
    DAT_LMR_CONTEXT keys[max_iov];
    fi_rma_iov remote;
};

/// Tells a ring which of an object's links is its own.
struct all_link : list_link {};

struct cq final : deferred_completions<wr>, progress_target {
    // The consumer's, inside the door.
    fid_cq *fid = nullptr;
    static constexpr std::uint32_t batch = own_features.batched_poll ? 8 : 1; ///< taken at a time
    fi_cq_data_entry taken[batch];
    const fi_cq_data_entry *next = taken; ///< first entry of `taken` that is left
    ssize_t left = 0;                     ///< how many of them there are

    std::atomic<std::uint32_t> woken{0}; ///< cq_wakeup was called
    spinner spin;
    hca *device = nullptr;
    evd *owner = nullptr;
    const qp *withdraws OSD_GUARDED_BY(lock) = nullptr; ///< it cancels receives that complete here

    bool progress() override { return fi_cq_read(fid, nullptr, 0) != -FI_EAGAIN; }
    bool has_completion_now() override { return is_slow() || progress(); }
    bool reset_signal() override;
    void wake_sleepers() override;
    void signal() override { (void)fi_cq_signal(fid); }
    bool take_polled() override { return consumer.take_use(); }
    void call_back() override { dapl_evd_dto_callback(*owner); }
    void put_aside() override;
    std::uint64_t moved_so_far() override OSD_UNCHECKED; // called with the lock of its device
};

using phase = connection_phase;

struct qp : all_link, connection_state {
    // Read by both posting threads. Null: take the slow path, under the lock.
    std::atomic<fid_ep *> ep{nullptr};
    cq *send_cq = nullptr;
    cq *recv_cq = nullptr;

    // The sending thread's, inside its door. The messages are prepared but for what changes.
    osd::door send_door;
    place next{0, where::posted, 0};         ///< for the request that is posted next
    std::atomic<std::uint64_t> send_keys{0}; ///< key_bit() of all keys that requests may use
    iovec send_iov{};
    fi_msg send_msg{};
    fi_rma_iov remote_iov[2]{}; ///< all but the last byte, and that one
    fi_msg_rma rma_msg{};

    // Members of the thread that posts receives.
    osd::door recv_door;
    wr *last_recv = nullptr; ///< last receive that libfabric has; their ring has the others
    std::atomic<std::uint64_t> recv_keys{0}; ///< key_bit() of all that they may use

    // Members of the thread that takes completions from send_cq.
    std::atomic<std::uint32_t> reads_done{0};
    fifo<wr> behind_read; ///< finished before an earlier read, in post order

    osd::mutex lock;
    fid_ep *fid OSD_GUARDED_BY(lock) = nullptr; ///< the endpoint, in every phase that has one
    bool closing_marker_posted OSD_GUARDED_BY(lock) = false;
    int socket OSD_GUARDED_BY(lock) = -1;        ///< below fid, once connected
    fifo<wr> pending_recvs OSD_GUARDED_BY(lock); ///< posted before the connection
    fifo<wr> fenced_sends OSD_GUARDED_BY(lock);  ///< sends behind a barrier: wait for reads_done
    std::atomic<bool> fenced{false};             ///< fenced_sends is not empty

    hca *device = nullptr;
    DAT_COUNT max_recv = 0;
    DAT_COUNT max_send = 0;
    bool counted_attempt = false;    ///< progress_watch knows that its connection is being made
    std::int64_t hung_up_ns = 0;     ///< time at which the peer was first seen gone
    std::atomic<bool> broken{false}; ///< an operation failed otherwise than by being flushed
    std::atomic<bool> closing_marker_completed{false};
    wr closing_marker{}; ///< completes, in phase closing, when the peer has all earlier data
};

struct pd {
    hca *device = nullptr;
};

struct mr {
    fid_mr *fid = nullptr;
    hca *device = nullptr;
    DAT_LMR_CONTEXT key = 0;
};

/// A passive endpoint. It outlives its listener as long as requests that came in are unanswered.
struct passive : all_link {
    hca *device = nullptr;
    fid_pep *fid = nullptr;
    sockaddr_storage address{};     ///< the address that it listens at
    service_point *owner = nullptr; ///< null once the listener is gone
    DAT_CONN_QUAL qualifier = 0;
    std::int64_t retired_ns = 0;
    std::uint32_t requests = 0;
    bool listens = false; ///< libfabric accepts connections there
};

struct listener {
    passive *pep = nullptr;
};

/// A connection request without an answer.
struct request : unanswered_request {
    passive *from = nullptr;
    fi_info *info = nullptr;
    int socket = -1;   ///< its socket, if it is known: `senders` watches it
    bool gone = false; ///< its sender has gone, and libfabric has forgotten it
};

/// A connection on which no request has come.
struct silent_socket {
    std::uint64_t inode;   ///< no other open socket has it
    std::uint64_t owner;   ///< owner of the peer's address
    std::int64_t since_ns; ///< time of the connection
    int fd;
};

struct silent_sockets {
    static constexpr std::size_t most = 6144; ///< the next look finds the others
    silent_socket all[most];
    std::size_t count = 0;
};

/// What the port knows of connections on which no request has come. libfabric accepts them, which
/// takes a descriptor each, and waits without a limit.
struct silent_watch {
    epoll_members sockets; ///< sockets that libfabric watches, also other ones
    /// Those that the last look left, in the order of their inodes; null if there were none.
    std::unique_ptr<silent_sockets> known;
    std::uint32_t listeners = 0;     ///< how many passive endpoints listen
    std::uint32_t perhaps = 0;       ///< connections that may have come since the last look
    std::uint32_t enough = 0;        ///< more than that, and it is time to look again
    std::int64_t due_ns = INT64_MAX; ///< time of the next look
};

/// A request on its way from upcall to answer.
struct cr {
    request *pending = nullptr;
};

struct hca : connection_service {
    adapter_params params;
    local_interface interface;
    named_attributes names;
    adapter *owner = nullptr;

    fi_info *info = nullptr;
    fid_fabric *fabric = nullptr;
    fid_domain *domain = nullptr;
    fid_eq *eq = nullptr;
    std::size_t max_recv = 0;
    std::size_t max_send = 0;
    std::size_t max_tx_size = 0; ///< what libfabric takes for a limit, though it may not be one
    std::size_t max_private_data = 0;
    bool immediate_data = false; ///< messages can carry the 8 bytes that we need for it
    bool provider_keys = false;  ///< the provider makes the keys of regions, not we

    // Descriptors near which the next socket of that kind is likely found.
    int connected_hint OSD_GUARDED_BY(lock) = 0;
    int accepted_hint OSD_GUARDED_BY(lock) = 0;

    /// The domain's epoll set, of all its sockets, where the descriptor of each CQ and of the event
    /// queue would be another set around that one, as in libfabric 2.x. The kernel allows 500 such
    /// sets, and 100 within a third set; and each message would wake whoever watches the event
    /// queue. So the domain's set is taken out of the others, and watched for itself.
    int shared_fd = -1;
    progress_watch progress;                        ///< watch of the CQs
    bool some_hung_up OSD_GUARDED_BY(lock) = false; ///< the peer of some qp may be gone
    list<qp, all_link> qps OSD_GUARDED_BY(lock);
    list<passive, all_link> passives OSD_GUARDED_BY(lock);
    unanswered_requests requests OSD_GUARDED_BY(lock){name};
    silent_watch silent OSD_GUARDED_BY(lock);
    port_support::epoll_set senders; ///< sockets of these requests: reports senders that go
    cq spare; ///< stands in for queue pairs that lack a CQ; libfabric wants two

    std::atomic<bool> fences_fell{false}; ///< some qp's fenced sends may go
    std::atomic<bool> some_broken{false}; ///< an operation of some qp failed
};

// Slow halves of the hot operations.
bool poll_slow(cq &, completion &) OSD_COLD;
status send_slow(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *, const DAT_RMR_TRIPLET *,
                 DAT_COMPLETION_FLAGS);
status recv_slow(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *);
status post_write_immediate(qp &, wr &, const extended_request &);
status refused_post(ssize_t error) OSD_COLD;
status refused_recv(qp &, wr &, DAT_COUNT, const DAT_LMR_TRIPLET *, ssize_t error) OSD_COLD;
status open_cq(hca &, cq &, evd *owner, DAT_COUNT depth);
/// Sets hca::shared_fd. Called before the first CQ is opened.
void find_shared_descriptor(hca &);
void notify_cq(cq &);
osd::wait_result wait_for_cq(cq &, osd::deadline);
void wake_cq(cq &);
/// cq::progress() on other threads than the consumer. It clears the signal on which the consumer
/// may sleep, and so gives it again.
void progress_and_signal(cq &) OSD_COLD;

inline void *pointer(DAT_VADDR address)
{
    return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
}

/// Splits a write in two, since a consumer may spin on its last byte. One copy of a processor or
/// kernel stores its bytes in any order, two copies do not change places: so the last byte is a
/// segment of its own. Returns the number of segments.
OSD_ALWAYS_INLINE std::size_t split_write(fi_rma_iov *out, const DAT_RMR_TRIPLET &remote,
                                          std::size_t length)
{
    const std::size_t body = length > 1 ? length - 1 : length;
    out[0] = {remote.virtual_address, body, remote.rmr_context};
    out[1] = {remote.virtual_address + body, 1, remote.rmr_context};
    return length > 1 ? 2 : 1;
}

/// Keys are random, or count up: few keys in use share a bit.
constexpr std::uint64_t key_bit(DAT_LMR_CONTEXT key)
{
    return std::uint64_t{1} << (key % 64);
}

OSD_ALWAYS_INLINE void note_key(std::atomic<std::uint64_t> &keys, DAT_LMR_CONTEXT key)
{
    const std::uint64_t known = keys.load(std::memory_order_relaxed);
    if ((known & key_bit(key)) == 0) [[unlikely]]
        keys.store(known | key_bit(key), std::memory_order_relaxed);
}

struct types {
    using hca = ofi::hca;
    using pd = ofi::pd;
    using mr = ofi::mr;
    using cq = ofi::cq;
    using qp = ofi::qp;
    using wr = ofi::wr;
    using cr = ofi::cr;
    using listener = ofi::listener;
};

} // namespace dapl::libfabric::ofi

namespace dapl::libfabric {

struct transport : dapls_ib<ofi::types> {
    static constexpr features claims = port_features;
    static constexpr bool has_cancellation_points = true; ///< the sockets of libfabric's tcp

    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);

    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &) {}

    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);

    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);
    static status dapls_ib_cq_resize(cq &, DAT_COUNT & /*depth*/);
    static bool dapls_ib_completion_poll(cq &, completion &);
    static take_result dapls_ib_completion_take(cq &, work_request *&, DAT_UINT32 &);
    static void dapls_ib_completion_notify(cq &c, notify_on) { ofi::notify_cq(c); }
    static osd::wait_result dapls_ib_cq_wait(cq &c, notify_on, DAT_COUNT, osd::deadline until)
    {
        return ofi::wait_for_cq(c, until);
    }
    static void dapls_ib_cq_wakeup(cq &c) { ofi::wake_cq(c); }
    static osd::wait_result dapls_ib_cno_wait(hca &device, osd::deadline until)
    {
        return device.progress.wait_for_callback(device, until);
    }
    static void dapls_ib_cno_wakeup(hca &device) { device.progress.wake_waiter(); }

    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *, const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);

    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS);
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local);

    static status dapls_ib_post_extended(qp &q, wr &w, const extended_request &wanted)
    {
        return ofi::post_write_immediate(q, w, wanted);
    }

    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &, DAT_CONN_QUAL &);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);

private:
    static bool plain(const fi_cq_data_entry &);
    static take_result look(cq &, work_request *&, DAT_UINT32 &);
    static bool poll_slow(cq &, completion &);
    static ssize_t post(qp &, fid_ep *, wr &, opcode operation, const DAT_LMR_TRIPLET &,
                        const DAT_RMR_TRIPLET *, std::uint64_t fi_flags);
};

/// Returns true for a completion that may be given to the consumer as it is.
OSD_ALWAYS_INLINE bool transport::plain(const fi_cq_data_entry &entry)
{
    if ((entry.flags & FI_RECV) != 0)
        return (entry.flags & FI_REMOTE_CQ_DATA) == 0;
    const auto *request = static_cast<const wr *>(entry.op_context);
    return request != nullptr && // remote operations of a peer complete without a context
           request->position.order == request->pair->reads_done.load(std::memory_order_relaxed);
}

OSD_ALWAYS_INLINE take_result transport::look(cq &c, work_request *&request, DAT_UINT32 &length)
{
    if (c.is_slow()) [[unlikely]]
        return take_result::other;
    const fi_cq_data_entry *entry = c.taken;
    ssize_t left = c.left;
    if (left != 0) {
        entry = c.next;
    } else {
        left = fi_cq_read(c.fid, c.taken, ofi::cq::batch);
        if (left <= 0)
            return left == -FI_EAGAIN ? take_result::empty : take_result::other;
    }
    if (!plain(*entry)) [[unlikely]] {
        c.next = entry;
        c.left = left;
        return take_result::other;
    }
    c.next = entry + 1;
    c.left = left - 1;
    auto *done = static_cast<wr *>(entry->op_context);
    done->recv.is = ofi::where::elsewhere; // a request needs its place no more
    request = done;
    length = static_cast<DAT_UINT32>(entry->len);
    return take_result::taken;
}

OSD_ALWAYS_INLINE take_result transport::dapls_ib_completion_take(cq &c, work_request *&request,
                                                                  DAT_UINT32 &length)
{
    c.consumer.enter();
    const take_result result = look(c, request, length);
    c.consumer.leave();
    return result;
}

OSD_ALWAYS_INLINE bool transport::dapls_ib_completion_poll(cq &c, completion &done)
{
    work_request *request;
    DAT_UINT32 length;
    const take_result result = dapls_ib_completion_take(c, request, length);
    if (result == take_result::other) [[unlikely]]
        return poll_slow(c, done);
    if (result == take_result::taken)
        done = completion_of(*request, length);
    return result == take_result::taken;
}

OSD_ALWAYS_INLINE bool transport::poll_slow(cq &c, completion &done)
{
    completion found; // `done` shall stay in registers
    if (!ofi::poll_slow(c, found))
        return false;
    done = found;
    return true;
}

OSD_ALWAYS_INLINE ssize_t transport::post(qp &q, fid_ep *ep, wr &w, opcode operation,
                                          const DAT_LMR_TRIPLET &local,
                                          const DAT_RMR_TRIPLET *remote, std::uint64_t fi_flags)
{
    w.pair = &q;
    w.position = q.next;
    ++q.next.number;
    if (fi_flags == 0)
        w.position.is = ofi::where::silent;
    w.source = local.lmr_context;
    ofi::note_key(q.send_keys, local.lmr_context);
    q.send_iov.iov_base = ofi::pointer(local.virtual_address);
    q.send_iov.iov_len = local.segment_length;
    if (operation == opcode::send) {
        q.send_msg.context = &w;
        return fi_sendmsg(ep, &q.send_msg, fi_flags);
    }
    q.rma_msg.rma_iov_count = ofi::split_write(q.remote_iov, *remote, local.segment_length);
    q.rma_msg.context = &w;
    return fi_writemsg(ep, &q.rma_msg, fi_flags);
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_send(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local,
                                                       const DAT_RMR_TRIPLET *remote,
                                                       DAT_COMPLETION_FLAGS flags)
{
    const opcode operation = w.operation; // known to the compiler, before the door
    q.send_door.enter();
    fid_ep *ep = q.ep.load(std::memory_order_acquire);
    if (ep == nullptr || segments != 1 || operation == opcode::rdma_read ||
        (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0) [[unlikely]] {
        q.send_door.leave();
        return ofi::send_slow(q, w, segments, local, remote, flags);
    }
    q.recv_cq->posting.store(1, std::memory_order_relaxed);
    const std::uint64_t wanted = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 ? 0 : FI_COMPLETION;
    const ssize_t error = post(q, ep, w, operation, *local, remote, wanted);
    if (error != 0) [[unlikely]]
        w.position.is = ofi::where::silent;
    q.send_door.leave();
    return error == 0 ? success : ofi::refused_post(error);
}

OSD_ALWAYS_INLINE status transport::dapls_ib_post_recv(qp &q, wr &w, DAT_COUNT segments,
                                                       const DAT_LMR_TRIPLET *local)
{
    q.recv_door.enter();
    fid_ep *ep = q.ep.load(std::memory_order_acquire);
    if (ep == nullptr || segments != 1) [[unlikely]] {
        q.recv_door.leave();
        return ofi::recv_slow(q, w, segments, local);
    }
    w.pair = &q;
    w.recv = {local->lmr_context, ofi::where::posted, false, false, false};
    w.address = local->virtual_address;
    q.last_recv = &w;
    ofi::note_key(q.recv_keys, local->lmr_context);
    const ssize_t error = fi_recv(ep, ofi::pointer(local->virtual_address), local->segment_length,
                                  nullptr, FI_ADDR_UNSPEC, &w);
    // A message that waited for this receive does not wake who sleeps on this CQ.
    if (q.recv_cq->sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
        ofi::progress_and_signal(*q.recv_cq);
    if (error != 0) [[unlikely]] {
        w.recv.is = ofi::where::elsewhere;
        q.last_recv = static_cast<wr *>(w.before);
    }
    q.recv_door.leave();
    return error == 0 ? success : ofi::refused_recv(q, w, segments, local, error);
}

} // namespace dapl::libfabric
