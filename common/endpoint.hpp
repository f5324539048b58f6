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
#include "shared_recv_queue.hpp"
#include "timer.hpp"

namespace dapl::DAPL_TRANSPORT {

inline constexpr std::size_t private_data_limit = 256; ///< bytes kept of what a peer sends

class cr;

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
    static bool is_kind(mark kind) { return kind == mark::ep; }

    endpoint(const DAT_PROVIDER *vector, adapter &owner, const DAT_EP_ATTR &attr,
             const ep_objects &objects, DAT_EP_STATE first);
    ~endpoint() { count_choosers(-1); }

    // --- the consumer's slow calls ---

    status set_up() OSD_EXCLUDES(control_);
    status modify(const DAT_EP_ATTR &attr, const ep_objects &objects, bool zone_changes)
        OSD_EXCLUDES(control_, lock_);
    status connect(const connect_request &wanted) OSD_EXCLUDES(control_, lock_);
    status connect_like(endpoint &model, DAT_TIMEOUT timeout_us, const private_data &data)
        OSD_EXCLUDES(control_, lock_);
    status accept(cr &request, const private_data &data) OSD_EXCLUDES(control_, lock_);
    status disconnect(DAT_CLOSE_FLAGS how) OSD_EXCLUDES(control_, lock_);
    status reset() OSD_EXCLUDES(control_, lock_);
    /// Ends everything; the slot may be given back afterwards.
    void shut_down() OSD_EXCLUDES(control_, lock_);
    void fill(DAT_EP_PARAM &out) OSD_EXCLUDES(control_, lock_);
    /// Logs how many operations are under way that complete there.
    void trace_unfinished(const evd &there) OSD_EXCLUDES(send_lock_, recv_lock_);
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
    /// This EVD will be told how the attempt that is under way ends.
    bool shall_tell(const evd &events) OSD_EXCLUDES(lock_);

    // --- posting ---

    template <class Safety, DAT_DTOS operation>
    status post_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                        const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                        DAT_COMPLETION_FLAGS flags) OSD_UNCHECKED;
    template <class Safety>
    status post_extended(const extended_request &wanted) OSD_UNCHECKED;
    /// Notes in `posted` where it went.
    status post_bind(binding &posted, transport::mw &window, const pz &zone, DAT_RMR_COOKIE cookie,
                     DAT_COMPLETION_FLAGS flags);
    template <class Safety>
    status post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie,
                     DAT_COMPLETION_FLAGS flags) OSD_UNCHECKED;

    // --- from below ---

    void connection_changed(DAT_EVENT_NUMBER event, const private_data &data) OSD_EXCLUDES(lock_);
    /// A posted operation failed by itself: the connection is broken. Who waits for the event is
    /// told by the timer thread, because the caller is taking events: the consumer's code cannot
    /// run here.
    void operation_failed() OSD_EXCLUDES(lock_);

private:
    struct news;
    bool note(DAT_EVENT_NUMBER event, const private_data &data, news &made) OSD_EXCLUDES(lock_);
    bool end_from_above(DAT_EVENT_NUMBER event, news &made) OSD_EXCLUDES(lock_);
    void tell(const news &noted) OSD_EXCLUDES(lock_);
    status begin_connect(const connect_request &wanted, news &outcome)
        OSD_EXCLUDES(control_, lock_);
    status part(DAT_CLOSE_FLAGS how, news &outcome) OSD_EXCLUDES(control_, lock_);
    status flush_receives() OSD_REQUIRES(control_);
    evd *failure_to_announce() OSD_EXCLUDES(lock_);
    evd *connect_timed_out() OSD_EXCLUDES(lock_);
    evd *to_notify(user_of<evd> &&target, bool stored);
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
    void count_choosers(int change);
    void note_peer(const DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier) OSD_REQUIRES(lock_);
    void start_timer(osd::deadline until);
    template <bool rdma>
    status check_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                         const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
                         int flags_position);
    transport::wr *next_request(DAT_COUNT segments, DAT_DTOS operation, DAT_UINT64 length,
                                DAT_DTO_COOKIE cookie);
    template <DAT_DTOS operation>
    status post_segments(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                         const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                         DAT_COMPLETION_FLAGS flags);
    status post_recv_segments(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                              DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags);
    status post_recv_none_or_many(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) OSD_COLD;
    template <DAT_DTOS operation>
    status post_none_or_many(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                             const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                             DAT_COMPLETION_FLAGS flags);
    static status settle(work_queue &queue, status posted);
    status unfit_or(status seen) const OSD_COLD;
    status unfit_for_recvs_or(status seen) const OSD_COLD;
    status alloc_qp();
    void last_receive_taken();

    // What posting reads comes first.
    std::atomic<DAT_EP_STATE> state_;
    work_queue *send_queue_ = nullptr;
    work_queue *recv_queue_ = nullptr;
    std::uint32_t max_request_iov_ = 0;
    std::uint32_t max_recv_iov_ = 0;
    transport::qp qp_;
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

DAT_UINT64 sum_of_lengths(DAT_COUNT segments, const DAT_LMR_TRIPLET *local) OSD_COLD;

OSD_ALWAYS_INLINE DAT_UINT64 total_length(DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    return segments == 1 ? local->segment_length : sum_of_lengths(segments, local);
}

/// What is wrong with a request, by the positions in the DAT calls: segments 2, local 3, remote 5
/// for RDMA, flags last.
template <bool rdma>
OSD_ALWAYS_INLINE status endpoint::check_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                 const DAT_RMR_TRIPLET *remote,
                                                 DAT_COMPLETION_FLAGS flags, int flags_position)
{
    if (static_cast<std::uint32_t>(segments) > max_request_iov_) [[unlikely]]
        return unfit_or(invalid_parameter(2));
    if (local == nullptr && segments != 0) [[unlikely]]
        return invalid_parameter(3);
    if (rdma && remote == nullptr) [[unlikely]]
        return invalid_parameter(5);
    if ((static_cast<unsigned>(flags) & ~request_flags) != 0) [[unlikely]]
        return invalid_parameter(flags_position);
    const DAT_EP_STATE now = state_.load(std::memory_order_acquire);
    if (now != DAT_EP_STATE_CONNECTED) [[unlikely]] {
        if (now != DAT_EP_STATE_DISCONNECTED || !has_qp_)
            return state_error();
    }
    return success;
}

/// A filled work request, or null when as many as there are have been posted.
OSD_ALWAYS_INLINE transport::wr *endpoint::next_request(DAT_COUNT segments, DAT_DTOS operation,
                                                        DAT_UINT64 length, DAT_DTO_COOKIE cookie)
{
    if (segments == 0 && send_queue_ == nullptr) // without a queue, max_request_iov_ is 0
        return nullptr;
    transport::wr *wr = send_queue_->take();
    if (wr == nullptr) [[unlikely]]
        return nullptr;
    wr->cookie = cookie;
    wr->length = static_cast<DAT_UINT32>(length);
    wr->operation = operation;
    return wr;
}

/// What the port said of a work request; one that it refused is free again.
OSD_ALWAYS_INLINE status endpoint::settle(work_queue &queue, status posted)
{
    if (!posted.ok()) [[unlikely]]
        queue.put_back();
    return posted;
}

template <DAT_DTOS operation>
OSD_ALWAYS_INLINE status endpoint::post_segments(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                 const DAT_RMR_TRIPLET *remote,
                                                 DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    constexpr bool rdma = operation != DAT_DTO_SEND;
    const status checked = check_request<rdma>(segments, local, remote, flags, rdma ? 6 : 5);
    if (!checked.ok()) [[unlikely]]
        return checked;
    const DAT_UINT64 length = total_length(segments, local);
    const DAT_UINT64 most = operation == DAT_DTO_RDMA_WRITE ? remote->segment_length : 0xffffffff;
    const DAT_UINT64 least = operation == DAT_DTO_RDMA_READ ? remote->segment_length : 0;
    if (length > most || length < least) [[unlikely]]
        return status::error(DAT_LENGTH_ERROR);
    transport::wr *wr = next_request(segments, operation, length, cookie);
    if (wr == nullptr) [[unlikely]]
        return out_of_memory;
    return settle(*send_queue_, transport::dapls_ib_post_send(qp_, *wr, segments, local,
                                                              rdma ? remote : nullptr, flags));
}

template <DAT_DTOS operation>
OSD_COLD status endpoint::post_none_or_many(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                            const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                            DAT_COMPLETION_FLAGS flags)
{
    return post_segments<operation>(segments, local, remote, cookie, flags);
}

/// One segment is what nearly everybody posts: that way is compiled apart.
template <class Safety, DAT_DTOS operation>
OSD_ALWAYS_INLINE status endpoint::post_request(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                const DAT_RMR_TRIPLET *remote,
                                                DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    post_guard<Safety> hold(send_lock_);
    if (segments != 1) [[unlikely]]
        return post_none_or_many<operation>(segments, local, remote, cookie, flags);
    return post_segments<operation>(1, local, remote, cookie, flags);
}

/// Atomics take one local segment of the size of their word, and a word that is aligned.
template <class Safety>
status endpoint::post_extended(const extended_request &wanted)
{
    constexpr DAT_UINT64 word = sizeof(DAT_UINT64);
    const bool write = wanted.operation == DAT_IB_DTO_RDMA_WRITE_IMMED;
    post_guard<Safety> hold(send_lock_);
    const status checked = check_request<true>(wanted.segments, wanted.local, wanted.remote,
                                               wanted.flags, write ? 7 : 6);
    if (!checked.ok())
        return checked;
    const DAT_UINT64 length = total_length(wanted.segments, wanted.local);
    if (write ? length > wanted.remote->segment_length
              : length != word || wanted.remote->segment_length < word)
        return status::error(DAT_LENGTH_ERROR);
    if (!write && wanted.remote->virtual_address % word != 0)
        return invalid_parameter(5);
    transport::wr *wr = next_request(wanted.segments, static_cast<DAT_DTOS>(wanted.operation),
                                     length, wanted.cookie);
    if (wr == nullptr)
        return out_of_memory;
    return settle(*send_queue_,
                  transport::dapls_ib_post_extended(qp_, *wr, wanted.segments, wanted.local,
                                                    wanted.remote, wanted.operands, wanted.flags));
}

OSD_ALWAYS_INLINE status endpoint::post_recv_segments(DAT_COUNT segments,
                                                      const DAT_LMR_TRIPLET *local,
                                                      DAT_DTO_COOKIE cookie,
                                                      DAT_COMPLETION_FLAGS flags)
{
    if (static_cast<std::uint32_t>(segments) > max_recv_iov_) [[unlikely]]
        return unfit_for_recvs_or(invalid_parameter(2));
    if (local == nullptr && segments != 0) [[unlikely]]
        return invalid_parameter(3);
    if ((static_cast<unsigned>(flags) & ~recv_flags) != 0) [[unlikely]]
        return invalid_parameter(5);

    if (segments == 0 && recv_queue_ == nullptr) // without a queue, max_recv_iov_ is 0
        return unfit_for_recvs_or(out_of_memory);
    transport::wr *wr = recv_queue_->take();
    if (wr == nullptr) [[unlikely]]
        return unfit_for_recvs_or(out_of_memory);
    wr->cookie = cookie;
    wr->operation = DAT_DTO_RECEIVE;
    return settle(*recv_queue_, transport::dapls_ib_post_recv(qp_, *wr, segments, local));
}

template <class Safety>
OSD_ALWAYS_INLINE status endpoint::post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                             DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    post_guard<Safety> hold(recv_lock_);
    if (segments != 1) [[unlikely]]
        return post_recv_none_or_many(segments, local, cookie, flags);
    return post_recv_segments(1, local, cookie, flags);
}

} // namespace dapl::DAPL_TRANSPORT
