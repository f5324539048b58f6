// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EP: one end of a reliable connection.
//
// Two locks. `control_` lines up the consumer's slow calls on this endpoint and is held while the
// port works. `lock_` guards the state against upcalls and is held for a few instructions only,
// never while the port or the consumer is called. Posting takes neither on an adapter whose
// consumer promised one thread per object.
#pragma once

#include "binding.hpp"
#include "evd.hpp"
#include "osd_address.hpp"
#include "pz.hpp"
#include "segments.hpp"
#include "shared_recv_queue.hpp"
#include "timer.hpp"

namespace dapl::DAPL_TRANSPORT::core {

inline constexpr std::size_t private_data_limit = 256; ///< bytes kept of what a peer sends

/// What a connect asks for, as the consumer gave it.
struct connect_request {
    const DAT_SOCK_ADDR *address;
    DAT_CONN_QUAL qualifier;
    DAT_TIMEOUT timeout_us;
    private_data data;
};

/// An operation of the IB extension, as the consumer gave it.
struct extended_request {
    DAT_IB_DTOS operation;
    DAT_COUNT segments;
    const DAT_LMR_TRIPLET *local;
    const DAT_RMR_TRIPLET *remote;
    extended_operands operands;
    DAT_DTO_COOKIE cookie;
    DAT_COMPLETION_FLAGS flags;
};

/// A connection request to accept.
struct incoming_request {
    transport::cr &port_cr;
    const DAT_SOCK_ADDR *peer;
    DAT_PORT_QUAL peer_port;
    bool reserves_endpoint; ///< the endpoint came with it, and waits for it in a state of its own
};

/// The objects an endpoint works with. Null is allowed until it connects.
struct ep_objects {
    pz *zone = nullptr;
    evd *recv = nullptr;
    evd *request = nullptr;
    evd *connect = nullptr;
    shared_recv_queue *shared = nullptr; ///< where its receives come from; never changes
};

class endpoint : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::ep;
    static bool is_kind(mark kind) { return kind == mark::ep; }

    endpoint(const DAT_PROVIDER *vector, adapter &owner, const DAT_EP_ATTR &attr,
             const ep_objects &objects, DAT_EP_STATE first);
    ~endpoint() { add_notify_overrides(-1); }

    // --- the consumer's slow calls ---

    status set_up() OSD_EXCLUDES(control_);
    status modify(const DAT_EP_ATTR &attr, const ep_objects &objects, bool zone_changes)
        OSD_EXCLUDES(control_, lock_);
    status connect(const connect_request &wanted) OSD_EXCLUDES(control_, lock_);
    status connect_like(endpoint &model, DAT_TIMEOUT timeout_us, const private_data &data)
        OSD_EXCLUDES(control_, lock_);
    status accept(const incoming_request &request, const private_data &data)
        OSD_EXCLUDES(control_, lock_);
    status disconnect(DAT_CLOSE_FLAGS how) OSD_EXCLUDES(control_, lock_);
    status reset() OSD_EXCLUDES(control_, lock_);
    /// Ends everything; the slot may be given back afterwards.
    void shut_down() OSD_EXCLUDES(control_, lock_);
    void fill(DAT_EP_PARAM &out) OSD_EXCLUDES(control_, lock_);
    /// Logs how many operations are outstanding that complete there.
    void trace_outstanding(const evd &there) OSD_EXCLUDES(send_lock_, recv_lock_);
    bool recv_idle() const { return recv_queue_ == nullptr || recv_queue_->idle(); }
    bool request_idle() const { return send_queue_ == nullptr || send_queue_->idle(); }

    /// Moves from one state to another, for service points. False when it is in neither.
    bool change_state(DAT_EP_STATE from, DAT_EP_STATE to) OSD_EXCLUDES(lock_);
    DAT_EP_STATE state() const { return state_.load(std::memory_order_acquire); }
    status state_error() const;
    const DAT_EP_ATTR &attr() const { return attr_; }
    ep_objects objects() OSD_EXCLUDES(lock_);
    /// The adapter that owns our connect EVD closes: connection events have no place to go any
    /// more.
    void forget_connect_evd_of(const adapter &closing) OSD_EXCLUDES(lock_);
    /// See queue_owner.hpp.
    bool awaits_establish_on(const evd &events) OSD_EXCLUDES(lock_);

    // --- posting ---

    // They return the bare code, as evd::dequeue does.
    template <class Safety, DAT_DTOS operation>
    DAT_RETURN post_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                            const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                            DAT_COMPLETION_FLAGS flags) OSD_UNCHECKED;
    template <class Safety>
    DAT_RETURN post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                         DAT_COMPLETION_FLAGS flags) OSD_UNCHECKED;
    template <class Safety>
    status post_extended(const extended_request &wanted) OSD_UNCHECKED;
    /// Notes in `posted` where it went.
    status post_bind(binding &posted, transport::mw &window, const pz &zone, DAT_RMR_COOKIE cookie,
                     DAT_COMPLETION_FLAGS flags);

    // --- from below ---

    void connection_changed(DAT_EVENT_NUMBER event, const private_data &data) OSD_EXCLUDES(lock_);
    /// A posted operation failed by itself: the connection is broken. The caller consumes events,
    /// so that no consumer code may run here: the timer thread notifies the connect EVD.
    void operation_failed() OSD_EXCLUDES(lock_);

private:
    struct owned_qp : transport::qp {
        endpoint *holder;
    };
    struct news;
    bool note(DAT_EVENT_NUMBER event, const private_data &data, news &made) OSD_EXCLUDES(lock_);
    bool end_from_above(DAT_EVENT_NUMBER event, news &made) OSD_EXCLUDES(lock_);
    void tell(const news &noted) OSD_EXCLUDES(lock_);
    status begin_connect(const connect_request &wanted, news &outcome)
        OSD_EXCLUDES(control_, lock_);
    status part(DAT_CLOSE_FLAGS how, news &outcome) OSD_EXCLUDES(control_, lock_);
    status flush_receives() OSD_REQUIRES(control_);
    deferred_call announce_failure() OSD_EXCLUDES(lock_);
    deferred_call connect_timed_out() OSD_EXCLUDES(lock_);
    deferred_call notify_later(user_of<evd> &&target, bool stored);
    status attach_qp();
    void detach_qp();
    status reset_qp();
    struct queue_release {
        void operator()(work_queue *unused) const { unused->let_go(); }
    };
    using spare_queue = std::unique_ptr<work_queue, queue_release>;
    static bool prepare(spare_queue &spare, const work_queue *queue);
    static void renew(work_queue *&queue, evd *completions, spare_queue &&spare);
    void own_queues(endpoint *owner);
    void trace_queues();
    void quiesce();
    status ready_to_connect() OSD_EXCLUDES(lock_);
    static void orphan(work_queue *&queue, evd *completions);
    void announce(evd *target, bool stored);
    bool enter_state_after(DAT_EVENT_NUMBER event, const private_data &data) OSD_REQUIRES(lock_);
    bool store_event(evd *target, DAT_EVENT_NUMBER event, const private_data &data)
        OSD_REQUIRES(lock_);
    bool has_connect_evd() OSD_EXCLUDES(lock_);
    void add_notify_overrides(int change);
    void note_peer(const DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier) OSD_REQUIRES(lock_);
    void start_timer(osd::deadline until);
    void set_state(DAT_EP_STATE next) OSD_REQUIRES(lock_);
    void open_recvs();
    status check_request(bool rdma, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                         const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
                         int flags_position);
    template <DAT_DTOS operation>
    DAT_RETURN post_filled(transport::wr &request, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                           const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags);
    DAT_RETURN post_filled_recv(transport::wr &request, DAT_COUNT segments,
                                const DAT_LMR_TRIPLET *local);
    template <DAT_DTOS operation>
    DAT_RETURN post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                           const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                           DAT_COMPLETION_FLAGS flags) OSD_COLD;
    DAT_RETURN post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) OSD_COLD;
    static void fill(transport::wr &request, DAT_DTOS operation, DAT_UINT64 length,
                     DAT_DTO_COOKIE cookie);
    transport::wr *next_request(DAT_DTOS operation, DAT_UINT64 length, DAT_DTO_COOKIE cookie);
    static DAT_RETURN refused_request(owned_qp &q, status answer) OSD_COLD;
    static DAT_RETURN refused_recv(owned_qp &q, status answer) OSD_COLD;
    status unfit_or(status seen) const OSD_COLD;
    status unfit_for_recvs_or(status seen) const OSD_COLD;
    status alloc_qp();
    void last_receive_taken();

    // What posting reads comes first.
    /// The queue of requests while connected, otherwise closed.
    std::atomic<post_ring *> open_sends_{&closed_ring};
    post_ring *open_recvs_ = &closed_ring; ///< that of receives, if there is one
    owned_qp qp_;
    std::atomic<DAT_EP_STATE> state_;
    work_queue *send_queue_ = nullptr;
    work_queue *recv_queue_ = nullptr;
    std::uint32_t max_request_iov_ = 0;
    std::uint32_t max_recv_iov_ = 0;
    bool has_qp_ = false;

    osd::mutex send_lock_;
    osd::mutex recv_lock_;
    osd::mutex control_;
    osd::mutex lock_;
    DAT_EP_ATTR attr_;
    user_of<pz> zone_;
    user_of<evd> recv_evd_;
    user_of<evd> request_evd_;
    user_of<evd> connect_evd_ OSD_GUARDED_BY(lock_); ///< possibly of another open adapter
    const user_of<shared_recv_queue> shared_;

    struct timer : timer_record {
        endpoint *ep;
    };
    timer connect_timeout_;
    timer failure_; ///< due at once
    bool failure_stored_ OSD_GUARDED_BY(lock_) = false;

    osd::address remote_address_ OSD_GUARDED_BY(lock_);
    DAT_CONN_QUAL remote_qualifier_ OSD_GUARDED_BY(lock_) = 0;
    bool peer_known_ OSD_GUARDED_BY(lock_) = false;
    std::uint8_t peer_data_[private_data_limit]; ///< valid until reset or free

public:
    endpoint_counters counters; // last: far from what is hot
};

/// Values for a consumer that gives no attributes; within what the adapter can do.
DAT_EP_ATTR default_ep_attr(const hca_attr &limits);

// ------------------------------------------------------------------------------------ hot path

inline constexpr unsigned request_flags =
    DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
    DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |
    DAT_COMPLETION_EVD_THRESHOLD_FLAG | DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG;
inline constexpr unsigned recv_flags =
    DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG;

inline bool has_unknown_flags(DAT_COMPLETION_FLAGS flags, unsigned known)
{
    return (static_cast<unsigned>(flags) & ~known) != 0;
}

OSD_ALWAYS_INLINE void endpoint::fill(transport::wr &request, DAT_DTOS operation, DAT_UINT64 length,
                                      DAT_DTO_COOKIE cookie)
{
    request.cookie = cookie;
    request.length = static_cast<DAT_UINT32>(length);
    request.operation = operation;
}

template <DAT_DTOS operation>
OSD_ALWAYS_INLINE DAT_RETURN endpoint::post_filled(transport::wr &request, DAT_COUNT segments,
                                                   const DAT_LMR_TRIPLET *local,
                                                   const DAT_RMR_TRIPLET *remote,
                                                   DAT_COMPLETION_FLAGS flags)
{
    owned_qp *q = &qp_;
    OSD_OPAQUE(q); // all that is needed behind the call, not `this` as well
    const status answer = transport::dapls_ib_post_send(
        *q, request, segments, local, operation == DAT_DTO_SEND ? nullptr : remote, flags);
    if (!answer.ok()) [[unlikely]]
        return refused_request(*q, answer);
    return fresh_success();
}

OSD_ALWAYS_INLINE DAT_RETURN endpoint::post_filled_recv(transport::wr &request, DAT_COUNT segments,
                                                        const DAT_LMR_TRIPLET *local)
{
    owned_qp *q = &qp_;
    OSD_OPAQUE(q);
    const status answer = transport::dapls_ib_post_recv(*q, request, segments, local);
    if (!answer.ok()) [[unlikely]]
        return refused_recv(*q, answer);
    return fresh_success();
}

/// Whether an RDMA operation of this length stays within what the consumer says of the other side.
template <DAT_DTOS operation>
OSD_ALWAYS_INLINE bool fits(DAT_UINT64 length, const DAT_RMR_TRIPLET *remote)
{
    if (operation == DAT_DTO_RDMA_WRITE)
        return length <= remote->segment_length;
    return operation != DAT_DTO_RDMA_READ || length >= remote->segment_length;
}

template <DAT_DTOS operation>
OSD_ALWAYS_INLINE bool is_usual(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
{
    if (segments != 1)
        return false;
    OSD_BRANCHES_APART;
    if (local == nullptr)
        return false;
    OSD_BRANCHES_APART;
    if ((operation == DAT_DTO_RDMA_WRITE || operation == DAT_DTO_RDMA_READ) && remote == nullptr)
        return false;
    OSD_BRANCHES_APART;
    return !has_unknown_flags(flags, operation == DAT_DTO_RECEIVE ? recv_flags : request_flags) &&
           fits<operation>(local->segment_length, remote);
}

/// One segment on a connection, with nothing wrong: that is what nearly everybody posts. Whatever
/// else there may be is found by those that post slowly.
template <class Safety, DAT_DTOS operation>
OSD_ALWAYS_INLINE DAT_RETURN endpoint::post_request(DAT_COUNT segments,
                                                    const DAT_LMR_TRIPLET *local,
                                                    const DAT_RMR_TRIPLET *remote,
                                                    DAT_DTO_COOKIE cookie,
                                                    DAT_COMPLETION_FLAGS flags)
{
    post_guard<Safety> hold(send_lock_);
    if (!is_usual<operation>(segments, local, remote, flags)) [[unlikely]]
        return post_slowly<operation>(segments, local, remote, cookie, flags);
    const DAT_UINT32 length = local->segment_length; // not to be read again behind a store
    transport::wr *request;
    if (!open_sends_.load(std::memory_order_acquire)->take(request)) [[unlikely]]
        return post_slowly<operation>(segments, local, remote, cookie, flags);
    fill(*request, operation, length, cookie);
    return post_filled<operation>(*request, 1, local, remote, flags);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN endpoint::post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                 DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    post_guard<Safety> hold(recv_lock_);
    transport::wr *request;
    if (!is_usual<DAT_DTO_RECEIVE>(segments, local, nullptr, flags) || !open_recvs_->take(request))
        [[unlikely]]
        return post_recv_slowly(segments, local, cookie, flags);
    fill(*request, DAT_DTO_RECEIVE, local->segment_length, cookie);
    return post_filled_recv(*request, 1, local);
}

/// Atomics take one local segment of the size of their word, and a word that is aligned.
template <class Safety>
status endpoint::post_extended(const extended_request &wanted)
{
    constexpr DAT_UINT64 word = sizeof(DAT_UINT64);
    const bool write = wanted.operation == DAT_IB_DTO_RDMA_WRITE_IMMED;
    post_guard<Safety> hold(send_lock_);
    const status checked = check_request(true, wanted.segments, wanted.local, wanted.remote,
                                         wanted.flags, write ? 7 : 6);
    if (!checked.ok())
        return checked;
    const DAT_UINT64 length = total_length(wanted.segments, wanted.local);
    if (write ? length > wanted.remote->segment_length
              : length != word || wanted.remote->segment_length < word)
        return status::error(DAT_LENGTH_ERROR);
    if (!write && wanted.remote->virtual_address % word != 0)
        return invalid_parameter(5);
    transport::wr *wr =
        next_request(static_cast<DAT_DTOS>(wanted.operation), length, wanted.cookie);
    if (wr == nullptr)
        return out_of_memory;
    const status answer = transport::dapls_ib_post_extended(
        qp_, *wr, wanted.segments, wanted.local, wanted.remote, wanted.operands, wanted.flags);
    return answer.ok() ? success : status(refused_request(qp_, answer));
}

} // namespace dapl::DAPL_TRANSPORT::core
