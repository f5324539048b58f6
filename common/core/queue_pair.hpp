// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The queue pair of an endpoint: its two queues of posted operations, and posting to them.
//
// Posting tests no state. While the endpoint is not connected, open_sends_ refers to a ring that is
// always empty; a post that finds no request there goes to post_slowly, which checks everything and
// returns the specific error. open_recvs_ is the same for receives while there is no queue pair.
//
// While the queues are replaced, posts are kept out by the gates that lie ahead of the endpoint in
// its slot and outlive it: a thread may still wait there when another has freed the endpoint. On a
// thread-safe adapter every post holds the lock of its gate; where the port claims threadsafe_post,
// it only enters, beside others. Behind the gate a freed endpoint answers as one without a queue
// pair. The functions that replace queues are called with the endpoint's control lock held.
#pragma once

#include "evd.hpp"
#include "post_gates.hpp"
#include "pz.hpp"
#include "shared_recv_queue.hpp"
#include "thread_safety.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// The objects an endpoint works with. Null is allowed until it connects.
struct ep_objects {
    pz *zone = nullptr;
    evd *recv = nullptr;
    evd *request = nullptr;
    evd *connect = nullptr;
    shared_recv_queue *shared = nullptr; ///< SRQ from which it takes receives; never changes
};

/// Whether an endpoint with these attributes is for datagrams.
inline bool is_for_datagrams(const DAT_EP_ATTR &attr)
{
    return claims.datagrams &&
           static_cast<int>(attr.service_type) == static_cast<int>(DAT_IB_SERVICE_TYPE_UD);
}

class alignas(post_gates) queue_pair : public object {
public:
    using enduring = post_gates;

    /// Calls `visit` with the gate, queue and EVD of each direction, and the name of what is posted
    /// there. Queue and EVD are read, and stay, while the lock of the gate is held, which `visit`
    /// takes.
    template <class Visit>
    void visit_queues(Visit visit)
    {
        visit(gates_of(*this).sends, send_queue_, request_evd_, "requests");
        visit(gates_of(*this).recvs, recv_queue_, recv_evd_, "receives");
    }
    bool recv_idle() const { return recv_queue_ == nullptr || recv_queue_->idle(); }
    bool request_idle() const { return send_queue_ == nullptr || send_queue_->idle(); }
    DAT_EP_STATE state() const { return state_.load(std::memory_order_acquire); }
    /// The error of a call that this state does not allow.
    status state_error() const;

    // --- posting ---

    // These return the bare code, as evd::dequeue does.
    template <class Safety, opcode operation>
    DAT_RETURN post_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                            const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                            DAT_COMPLETION_FLAGS flags);
    template <class Safety>
    DAT_RETURN post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                         DAT_COMPLETION_FLAGS flags);
    /// Posts what has an operation of its own in the port. Arguments are checked even if the port
    /// has none.
    template <class Safety>
    status post_extended(opcode operation, const extended_request &wanted, DAT_DTO_COOKIE cookie)
    {
        const post_turn<Safety> hold(gates_of(*this).sends);
        return post_checked(operation, wanted, cookie);
    }
    /// Stores in `posted` where it was posted.
    status post_bind(binding &posted, transport::mw &window, const pz &zone, DAT_RMR_COOKIE cookie,
                     DAT_COMPLETION_FLAGS flags);

protected:
    queue_pair(const DAT_PROVIDER *vector, adapter &owner, endpoint &self, const DAT_EP_ATTR &attr,
               const ep_objects &objects, DAT_EP_STATE first);
    ~queue_pair() { add_notify_overrides(-1); }

    // --- the queue pair and its queues ---

    /// A queue pair needs a protection domain: without a PZ this does nothing.
    status attach();
    /// Ends the queue pair; a fence. Completions that were not polled yet are dropped when they
    /// are.
    void detach();
    /// Drops all posted operations; the queue pair is as attach left it.
    status renew();
    /// Completes posted receives as flushed.
    status flush_receives();
    void set_objects(const DAT_EP_ATTR &attr, const ep_objects &objects);
    /// Adds to the numbers that both EVDs keep: how many endpoints have completion flags that
    /// forbid waits with a threshold.
    void add_notify_overrides(int change);
    void set_completion_flags();
    /// Opens or closes the queue of requests.
    void enter_state(DAT_EP_STATE next);

    status alloc_qp();
    void open_sends(bool open);
    void open_recvs();
    void quiesce();
    void own_queues(endpoint *owner);

    // --- posting ---

    struct owned_qp : transport::qp {
        queue_pair *holder;
    };
    /// Returns the first error of the arguments; without one, `next` if that is an error; else
    /// success, or the error of a state that takes no requests.
    status check_request(bool rdma, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                         const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
                         int flags_position, status next = success);
    status check_extended(opcode operation, const extended_request &wanted);
    status post_checked(opcode operation, const extended_request &wanted, DAT_DTO_COOKIE cookie);
    template <opcode operation>
    DAT_RETURN post_filled(transport::wr &request, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                           const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags);
    DAT_RETURN post_filled_recv(transport::wr &request, DAT_COUNT segments,
                                const DAT_LMR_TRIPLET *local);
    template <opcode operation>
    DAT_RETURN post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                           const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                           DAT_COMPLETION_FLAGS flags) OSD_COLD;
    // [threadsafe_post] Posting beside other threads. Rare cases are tail calls, as in a dequeue.
    template <opcode operation>
    DAT_RETURN post_entered(transport::wr &request, const DAT_LMR_TRIPLET *local,
                            const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags);
    template <opcode operation>
    DAT_RETURN post_finding_room(const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
                                 DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) OSD_NOINLINE;
    template <opcode operation>
    DAT_RETURN enter_and_post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                     DAT_COMPLETION_FLAGS flags) OSD_COLD;
    DAT_RETURN enter_and_post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                          DAT_DTO_COOKIE cookie,
                                          DAT_COMPLETION_FLAGS flags) OSD_COLD;
    DAT_RETURN post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) OSD_COLD;
    transport::wr *next_request(opcode operation, DAT_UINT64 length, DAT_DTO_COOKIE cookie,
                                DAT_COMPLETION_FLAGS flags);
    static status refused_request(owned_qp &q, status answer) OSD_COLD;
    static status refused_recv(owned_qp &q, status answer) OSD_COLD;
    status not_ready_or(status seen) const OSD_COLD;
    status no_recvs_or(status seen) const OSD_COLD;

    // What posting reads comes first.
    std::atomic<post_ring *> open_sends_{&closed_ring};
    post_ring *open_recvs_ = &closed_ring;
    owned_qp qp_;
    std::atomic<DAT_EP_STATE> state_;
    work_queue *send_queue_ = nullptr;
    work_queue *recv_queue_ = nullptr;
    std::uint32_t max_request_iov_ = 0;
    std::uint32_t max_recv_iov_ = 0;
    bool has_qp_ = false;
    /// The port takes requests: it executes them, or flushes them. False from the moment when the
    /// qp is new, which the state follows later, until it is connected or its attempt has ended.
    std::atomic<bool> usable_{false};

    endpoint &self_; ///< the endpoint that this is a part of
    DAT_EP_ATTR attr_;
    user_of<pz> zone_;
    user_of<evd> recv_evd_;
    user_of<evd> request_evd_;
    const user_of<shared_recv_queue> shared_;
    std::atomic<DAT_COUNT> soft_watermark_{DAT_WATERMARK_INFINITE}; ///< once passed, infinite
    DAT_COUNT hard_watermark_ = DAT_WATERMARK_INFINITE;
};

/// Logs how many operations of an endpoint are outstanding that complete on this EVD.
void trace_outstanding(queue_pair &ep, const evd &there);
/// Notes when the operations of an endpoint were posted that no earlier call has seen.
void note_posts(queue_pair &ep);
/// What is outstanding in one direction of an endpoint.
struct outstanding_posts {
    const char *kind; ///< "requests" or "receives"
    std::size_t count;
    post_times::posted oldest[16]; ///< the oldest first
};
/// Copies what is outstanding in each direction. Posts to the endpoint wait meanwhile.
void copy_outstanding(queue_pair &ep, outstanding_posts (&both)[2]);

/// Logs why a post is refused, and returns the reason. `queue` is null if there is none, or if the
/// call was refused before it was looked at.
status refuse(const queue_pair &ep, opcode operation, const work_queue *queue, status why,
              bool by_port = false) OSD_COLD;

// ------------------------------------------------------------------------------------ hot path

inline constexpr unsigned request_flags =
    DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
    DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |
    DAT_COMPLETION_EVD_THRESHOLD_FLAG | DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG;
inline constexpr unsigned recv_flags =
    DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG;

/// The flags with which a post can take the fast path.
template <opcode operation>
constexpr unsigned usual_flags()
{
    return (operation == opcode::receive ? recv_flags : request_flags) &
           ~unsigned{DAT_COMPLETION_UNSIGNALLED_FLAG};
}

inline bool has_unknown_flags(DAT_COMPLETION_FLAGS flags, unsigned known)
{
    return (static_cast<unsigned>(flags) & ~known) != 0;
}

OSD_ALWAYS_INLINE void fill(transport::wr &request, opcode operation, DAT_UINT64 length,
                            DAT_DTO_COOKIE cookie)
{
    request.cookie = cookie;
    request.length = static_cast<DAT_UINT32>(length);
    request.operation = operation;
}

template <opcode operation>
OSD_ALWAYS_INLINE DAT_RETURN queue_pair::post_filled(transport::wr &request, DAT_COUNT segments,
                                                     const DAT_LMR_TRIPLET *local,
                                                     const DAT_RMR_TRIPLET *remote,
                                                     DAT_COMPLETION_FLAGS flags)
{
    owned_qp *q = &qp_;
    OSD_OPAQUE(q); // all that is needed behind the call, not `this` as well
    const status answer = transport::dapls_ib_post_send(
        *q, request, segments, local, operation == opcode::send ? nullptr : remote, flags);
    if (!answer.ok()) [[unlikely]]
        return refused_request(*q, answer).code();
    return fresh_success();
}

OSD_ALWAYS_INLINE DAT_RETURN queue_pair::post_filled_recv(transport::wr &request,
                                                          DAT_COUNT segments,
                                                          const DAT_LMR_TRIPLET *local)
{
    owned_qp *q = &qp_;
    OSD_OPAQUE(q);
    const status answer = transport::dapls_ib_post_recv(*q, request, segments, local);
    if (!answer.ok()) [[unlikely]]
        return refused_recv(*q, answer).code();
    return fresh_success();
}

/// Whether an RDMA operation of this length stays within what the consumer says of the other side.
template <opcode operation>
OSD_ALWAYS_INLINE bool fits(DAT_UINT64 length, const DAT_RMR_TRIPLET *remote)
{
    if (operation == opcode::rdma_write)
        return length <= remote->segment_length;
    return operation != opcode::rdma_read || length >= remote->segment_length;
}

/// Applies the flags of a post that takes the slow path.
inline void apply_flags(transport::wr &request, DAT_COMPLETION_FLAGS flags, work_queue &queue,
                        evd &completes_on)
{
    const bool unsignalled = (flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0;
    queue.set_unsignalled(request, unsignalled);
    if (unsignalled)
        completes_on.overrides.expect_unsignalled();
}

template <opcode operation>
OSD_ALWAYS_INLINE bool is_usual(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
    if (segments != 1)
        return false;
    OSD_BRANCHES_APART;
    if (local == nullptr)
        return false;
    OSD_BRANCHES_APART;
    if ((operation == opcode::rdma_write || operation == opcode::rdma_read) && remote == nullptr)
        return false;
    OSD_BRANCHES_APART;
    return !has_unknown_flags(flags, usual_flags<operation>()) &&
           fits<operation>(local->segment_length, remote);
}

/// The port does not refuse it.
template <opcode operation>
OSD_ALWAYS_INLINE DAT_RETURN queue_pair::post_entered(transport::wr &request,
                                                      const DAT_LMR_TRIPLET *local,
                                                      const DAT_RMR_TRIPLET *remote,
                                                      DAT_COMPLETION_FLAGS flags)
{
    (void)transport::dapls_ib_post_send(qp_, request, 1, local,
                                        operation == opcode::send ? nullptr : remote, flags);
    gates_of(*this).sends.posts.leave();
    return fresh_success();
}

/// The usual post has one segment and no error, on a connection. The slow path handles all others.
template <class Safety, opcode operation>
OSD_ALWAYS_INLINE DAT_RETURN queue_pair::post_request(DAT_COUNT segments,
                                                      const DAT_LMR_TRIPLET *local,
                                                      const DAT_RMR_TRIPLET *remote,
                                                      DAT_DTO_COOKIE cookie,
                                                      DAT_COMPLETION_FLAGS flags)
{
    if constexpr (posts_concurrently<Safety>) {
        if (!is_usual<operation>(segments, local, remote, flags)) [[unlikely]]
            return enter_and_post_slowly<operation>(segments, local, remote, cookie, flags);
        const DAT_UINT32 length = local->segment_length;
        transport::wr *request;
        if (!gates_of(*this).sends.posts.enter(request)) [[unlikely]]
            return post_finding_room<operation>(local, remote, cookie, flags);
        fill(*request, operation, length, cookie);
        return post_entered<operation>(*request, local, remote, flags);
    }
    post_guard<Safety> hold(gates_of(*this).sends.lock);
    if (!is_usual<operation>(segments, local, remote, flags)) [[unlikely]]
        return post_slowly<operation>(segments, local, remote, cookie, flags);
    const DAT_UINT32 length = local->segment_length; // read once: a store below might make the
                                                     // compiler read it again
    transport::wr *request;
    if (!open_sends_.load(std::memory_order_acquire)->take(request)) [[unlikely]]
        return post_slowly<operation>(segments, local, remote, cookie, flags);
    fill(*request, operation, length, cookie);
    return post_filled<operation>(*request, 1, local, remote, flags);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN queue_pair::post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                   DAT_DTO_COOKIE cookie,
                                                   DAT_COMPLETION_FLAGS flags)
{
    if constexpr (posts_concurrently<Safety>) {
        transport::wr *request;
        if (!is_usual<opcode::receive>(segments, local, nullptr, flags)) [[unlikely]]
            return enter_and_post_recv_slowly(segments, local, cookie, flags);
        // Rings of receives are kept full: the usual post has to find room.
        if (!gates_of(*this).recvs.posts.enter_finding_room<false>(request)) [[unlikely]]
            return enter_and_post_recv_slowly(1, local, cookie, flags);
        fill(*request, opcode::receive, local->segment_length, cookie);
        (void)transport::dapls_ib_post_recv(qp_, *request, 1, local);
        gates_of(*this).recvs.posts.leave();
        return fresh_success();
    }
    post_guard<Safety> hold(gates_of(*this).recvs.lock);
    transport::wr *request;
    if (!is_usual<opcode::receive>(segments, local, nullptr, flags) || !open_recvs_->take(request))
        [[unlikely]]
        return post_recv_slowly(segments, local, cookie, flags);
    fill(*request, opcode::receive, local->segment_length, cookie);
    return post_filled_recv(*request, 1, local);
}

} // namespace dapl::DAPL_TRANSPORT::core
