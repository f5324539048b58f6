// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The events of an EVD, between their producers and the one thread that consumes them.
//
//   posted_   events of upcalls and of dat_evd_post_se
//   staged_   completions that the consumer took from the CQ in order to count them
//   CQ        all other completions
//
// They are delivered in this order; where streams are merged, event_order decides. A completion is
// converted into a DAT_EVENT when it is delivered, because its endpoint may have been freed by then
// and its completions are dropped in that case.
//
// One thread at a time consumes: the holder of the claim. A waiter holds it from entry to
// return, by which a concurrent dequeue is recognised. No other thread touches staged_ or polls the
// CQ.
//
// The bits of state_ are in the word by which events are posted, so that the fast path needs one
// test:
//
//   bits       set                                   cleared
//   count      +1 per event posted or held,          when the event is taken
//              a post counts with its place;
//              +1 while completions are staged       when the last one is taken
//   ordered    at construction, streams are merged   never
//   no_cq      at construction; by close_cq          when the CQ is allocated
//   orphaned   adopt: a queue lost its endpoint      drop_orphans: the CQ was drained
//   keepable, kept    the claim's: consumer_claim.hpp
//
// Where `ordered` is the only bit, the CQ holds all that there is. A completion from it goes past
// event_order unless evd::dequeuing_merged::disturbed() says otherwise once it was taken.
#pragma once

#include "completion_event.hpp"
#include "consumer_claim.hpp"
#include "event_ring.hpp"
#include "notification.hpp"
#include "object.hpp"
#include "osd_poll_pause.hpp"
#include "posted_ring.hpp"

#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

inline bool is_about_connection(const DAT_EVENT &event)
{
    return event.event_number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
           event.event_number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

inline bool ends_connection(const DAT_EVENT &event)
{
    return is_about_connection(event) && event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED;
}

/// The attempts of endpoints to connect, or to accept, whose ESTABLISHED is to come to an EVD:
/// while there is one, its completions may be in the CQ before that event is stored.
class attempts {
public:
    /// The load is ordered before the caller's next one: whoever finds no attempt finds their
    /// events stored.
    bool any() const { return count_.load() != 0; }

private:
    friend class attempt;
    std::atomic<std::uint32_t> count_{0};
};

/// The attempt of an endpoint, whose lock guards it.
class attempt {
public:
    /// Before the port is asked, so that no completion of the connection precedes it.
    void begin(attempts *at)
    {
        at_ = at;
        if (at_ != nullptr)
            at_->count_.fetch_add(1);
    }
    /// It has failed, or its ESTABLISHED is stored. Nothing happens where none has begun.
    void end()
    {
        if (attempts *const counted = std::exchange(at_, nullptr))
            counted->count_.fetch_sub(1);
    }
    bool is_counted_in(const attempts &at) const { return at_ == &at; }

private:
    attempts *at_ = nullptr;
};

inline bool merges(unsigned streams)
{
    constexpr unsigned both = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG;
    return (streams & both) == both;
}

class event_queue : public object {
public:
    bool has_waiter() const { return claim_.has_waiter(); }
    /// Whether the calling thread keeps the claim.
    bool is_kept() const
    {
        return claim_.is_keeper() && (state_.load() & consumer_claim::kept) != 0;
    }
    bool takes(DAT_EVD_FLAGS stream) const { return (streams_ & stream) != 0; }
    transport::cq *cq() { return has_cq() ? &cq_ : nullptr; }
    DAT_COUNT qlen() const { return qlen_.load(std::memory_order_relaxed); }
    DAT_EVD_FLAGS streams() const { return streams_; }
    /// Takes over a queue whose endpoint is gone, until its completions can no longer be polled.
    void adopt(work_queue *orphan);
    /// The consumer has asked for the end of a connection that broke before: unless BROKEN was
    /// taken, it becomes DISCONNECTED.
    void end_as_asked(DAT_EP_HANDLE ep) OSD_EXCLUDES(ends_lock_);

    notify_overrides overrides;
    attempts establishing; ///< whose ESTABLISHED comes here

protected:
    friend class cq_notifier;
    friend class event_order;

    event_queue(const DAT_PROVIDER *vector, adapter &owner, DAT_EVD_FLAGS streams);
    ~event_queue();

    DAT_EVD_HANDLE handle() { return static_cast<object *>(this); }

    // --- storage ---

    /// Returns false when out of memory.
    bool reserve(DAT_COUNT qlen, posted_ring<DAT_EVENT>::storage &posted,
                 event_ring<completion> &staged) const;
    status allocate(transport::hca &hca, evd &self, DAT_COUNT qlen);
    status open_cq(transport::hca &hca, evd &self, DAT_COUNT depth);
    /// Events may arrive meanwhile. The claim is held.
    status resize_claimed(DAT_COUNT qlen);
    bool exchange_posted(posted_ring<DAT_EVENT>::storage &other) OSD_EXCLUDES(ends_lock_);
    /// The wait for events is the port's, in cq_wait.
    bool waits_in_port() const { return claims.evd_wait ? cq_open_ : claims.cq_wait && has_cq(); }
    /// An event that was posted is taken from there.
    void posted_taken()
    {
        if constexpr (claims.evd_wait)
            transport::dapls_ib_evd_events(cq_, -1);
    }
    /// Returns true when there was a CQ. A callback that refers to the EVD after this finds none,
    /// and neither does a CNO that is locked after this.
    bool close_cq() { return (state_.fetch_or(no_cq) & no_cq) == 0; }

    // --- counting; the claim is held ---

    bool has_cq() const { return (state_.load() & no_cq) == 0; }
    /// How many events there are outside the CQ.
    DAT_COUNT pending() const
    {
        const auto staged = static_cast<DAT_COUNT>(staged_.size());
        return counted() + (staged != 0 ? staged - 1 : 0);
    }
    /// Any thread may ask for this: completions that are staged count as one together.
    DAT_COUNT counted() const
    {
        return static_cast<DAT_COUNT>(state_.load() & ~(ordered | no_cq | orphaned | of_claim));
    }
    /// Counts events, staging completions until `wanted` is reached.
    DAT_COUNT count_up_to(DAT_COUNT wanted);
    /// How many events there are, counted up to `limit`. Takes completions from the CQ into this
    /// queue only where the port cannot count them in the CQ.
    DAT_COUNT available(DAT_COUNT limit);
    /// Stages what the CQ holds. Whether one of the completions staged from `position` on notifies,
    /// or there is no room left for more.
    bool notifies_since(std::uint32_t position);
    /// False for one that is dropped, and with it others that were staged before.
    bool stage(const completion &done) OSD_COLD;
    void stage_one();
    void stage_success(work_request *done, DAT_UINT32 length) OSD_COLD;
    DAT_COUNT count_staging(const completion &done) OSD_COLD;
    /// Takes from staged_, also from its middle.
    void take_staged(std::uint32_t position, completion &done);

    // --- producing and taking ---

    /// Returns false when the ring is full.
    bool store_posted(const DAT_EVENT &event);
    /// There is one.
    void take_posted(DAT_EVENT &event) OSD_EXCLUDES(ends_lock_);
    bool take_unordered(DAT_EVENT &event) OSD_NOINLINE;
    bool take_completion(DAT_EVENT &event);
    bool convert(const completion &done, DAT_EVENT &event);
    bool convert_plain(const completion &done, DAT_EVENT &event);
    bool convert_plain(work_request &done, DAT_UINT32 length, DAT_EVENT &event);
    bool convert_unusual(const completion &done, DAT_EVENT &event) OSD_COLD;
    void drop_orphans() OSD_COLD;
    void drop_staged_orphans() OSD_COLD;

    static constexpr std::uint32_t ordered = 0x40000000;
    static constexpr std::uint32_t no_cq = 0x20000000;
    static constexpr std::uint32_t orphaned = 0x10000000;
    /// The claim's bits of the state, which say nothing of events.
    static constexpr std::uint32_t of_claim =
        claims.lockless_dequeue ? consumer_claim::keepable | consumer_claim::kept : 0;
    static constexpr auto completion_streams =
        static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);

    // What the hot path reads comes first.
    consumer_claim claim_;
    event_word<> state_;
    osd::poll_pause pause_;
    transport::cq cq_;

    std::atomic<work_queue *> orphans_{nullptr};
    consumer_claim::row row_;

    const DAT_EVD_FLAGS streams_;
    bool cq_open_ = false;                  ///< there is a CQ, be it only for waits: [evd_wait]
    std::atomic<DAT_COUNT> qlen_{0};        ///< changes with the claim held
    posted_ring<DAT_EVENT> posted_{state_}; ///< BROKEN is marked: end_as_asked() may change it
    event_ring<completion> staged_;
    std::uint32_t reported_ = 0;            ///< the CNO was triggered for all staged completions
                                            ///< before it
    std::uint32_t *barrier_ = nullptr;      ///< a position in staged_ that event_order remembers
    event_ring<DAT_EVENT> *ends_ = nullptr; ///< event_order's: moved with ends_lock_ held
    osd::mutex ends_lock_;                  ///< guards the events that end_as_asked() may change:
                                            ///< the marked in posted_, and ends_
};

// ------------------------------------------------------------------------------------ hot path

OSD_ALWAYS_INLINE bool event_queue::convert_plain(work_request &done, DAT_UINT32 length,
                                                  DAT_EVENT &event)
{
    work_queue &queue = *done.queue;
    endpoint *const owner = queue.owner.load(std::memory_order_relaxed);
    if (!fill_plain_event(done, owner, length, handle(), event))
        return false;
    queue.retire(done);
    return true;
}

OSD_ALWAYS_INLINE bool event_queue::convert_plain(const completion &done, DAT_EVENT &event)
{
    return is_plain(done) && convert_plain(*done.wr, done.length, event);
}

} // namespace dapl::DAPL_TRANSPORT::core
