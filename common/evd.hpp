// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EVD: the queue a consumer takes its events from.
//
// Completions stay in the CQ until a consumer takes them. Events of callbacks and of
// dat_evd_post_se go to a ring of the EVD, `posted_`. A consumer that has to count (a threshold,
// nmore) moves completions to a second ring, `staged_`. The order of delivery is posted_, staged_,
// CQ. What a completion means is decided when it is delivered: its endpoint may be gone by then.
//
// One thread at a time takes events: the one that owns the consumer claim. A waiter owns it from
// entry to exit, which is how a dequeue beside a wait is told. No other thread touches staged_ or
// polls the CQ.
//
// Where DTO and connection streams share the EVD, more is needed to keep a connection's events in
// order: its ESTABLISHED before all completions, its end behind those that were not flushed. Such
// an EVD has the flag `ordered` in stored_ for ever, and all that is about it is in slow paths.
#pragma once

#include "cno.hpp"
#include "counters.hpp"
#include "event_ring.hpp"
#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class evd : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static bool is_kind(mark kind) { return kind == mark::evd; }

    evd(const DAT_PROVIDER *vector, adapter &owner, DAT_EVD_FLAGS streams)
        : object(vector, mark::evd, owner), stored_(no_cq | (merges(streams) ? ordered : 0)),
          streams_(streams)
    {}
    ~evd();

    status allocate(DAT_COUNT qlen);
    /// What is in it stays, in its order, while more may come.
    status resize(DAT_COUNT qlen);
    /// Frees the CQ; a fence for its callbacks. Nothing feeds the EVD any more.
    void release();

    // --- the consumer's side ---

    template <class Safety>
    DAT_RETURN dequeue(DAT_EVENT &event) OSD_UNCHECKED;
    status wait(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event, DAT_COUNT &nmore);
    void set_waitable(bool waitable);
    void set_enabled(bool enabled);
    void set_cno(cno *target);
    bool has_waiter() const { return (claim_.load(std::memory_order_acquire) & waiting) != 0; }
    /// Ends the wait with DAT_ABORT and returns when the waiter has left, or until then.
    departure abort_waiter(osd::deadline until);

    // --- the producers' side ---

    /// Stores an event and tells who is waiting. False when the ring is full.
    bool post(const DAT_EVENT &event) { return store(event) && (notify(), true); }
    /// The two halves of post, for callers that hold a lock while they store.
    bool store(const DAT_EVENT &event) OSD_EXCLUDES(producers_);
    /// Wakes the waiter, or triggers the CNO. No lock held: the CNO's agent is consumer code.
    void notify();
    /// Keeps it for a notify() that comes after its event can be taken. The consumer may free it
    /// meanwhile: that waits.
    void pin() { pins_.fetch_add(1, std::memory_order_relaxed); }
    void unpin() { pins_.fetch_sub(1, std::memory_order_release); }
    /// The port's callback: a completion came after the CQ was armed.
    void completion_arrived();
    /// The CQ lost completions: nobody can wait here any more.
    void overflowed();

    /// Takes over a queue whose endpoint is gone, until its completions can no longer be polled.
    void adopt(work_queue *orphan);
    // --- for a CNO that looks, with its lock held ---

    /// Whether completions have come since the CNO was told last, while no trigger of this EVD is
    /// pending. `if_busy` is the answer while a thread takes events.
    bool has_news_for(const cno &who, bool if_busy);
    /// The consumer takes the trigger: has the CQ armed. True when there is more to tell already.
    bool has_more_news();
    /// The CQ need not be armed: the CNO looks.
    void leave_unarmed() { unarmed_.store(true); }
    void leave_armed() { unarmed_.store(false); }
    /// False when it was not left unarmed.
    bool arm_if_left_unarmed();

    /// Whether the consumer has something to take; true also while a thread takes events.
    bool has_events();
    /// The place in the CNO's list of triggers.
    struct trigger_link {
        evd *next = nullptr;
        bool pending = false;      ///< in the list
        bool agent_called = false; ///< for it, since it is in the list
    };
    trigger_link link; ///< guarded by the lock of notified_cno()

    /// One endpoint more, or less, with these flags completes here.
    void count_choosers(DAT_COMPLETION_FLAGS flags, int change);

    bool takes(DAT_EVD_FLAGS stream) const { return (streams_ & stream) != 0; }
    transport::cq *cq() { return has_cq() ? &cq_ : nullptr; }
    DAT_COUNT qlen() const { return qlen_.load(std::memory_order_relaxed); }
    DAT_EVD_FLAGS streams() const { return streams_; }
    DAT_EVD_STATE state() const;
    cno *notified_cno() const { return cno_.load(std::memory_order_acquire); }

private:
    /// Of claim_: somebody takes events; a waiter does.
    enum : std::uint32_t { taking = 1, waiting = 2 };

    /// What wakes a waiter: one of the CONFIG values of DAT_EVD_STATE.
    DAT_EVD_STATE config() const;
    bool try_claim();
    bool try_claim_for_wait();
    bool contend(std::uint32_t wanted) OSD_COLD;
    bool claim_for_dequeue() { return try_claim() || contend(taking); }
    void give_up_claim() { claim_.store(0, std::memory_order_release); }

    static bool merges(unsigned streams)
    {
        constexpr unsigned both = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG;
        return (streams & both) == both;
    }
    bool reserve(DAT_COUNT qlen, event_ring<DAT_EVENT> &posted, event_ring<DAT_EVENT> &ended,
                 event_ring<completion> &staged) const;
    status resize_claimed(DAT_COUNT qlen);
    bool replace_posted(event_ring<DAT_EVENT> &with) OSD_EXCLUDES(producers_);
    bool has_cq() const { return (stored_.load(std::memory_order_relaxed) & no_cq) == 0; }
    DAT_COUNT stored() const
    {
        return static_cast<DAT_COUNT>(stored_.load() & ~(ordered | no_cq | orphaned));
    }
    DAT_RETURN dequeue_unclaimed(DAT_EVENT &event);
    DAT_RETURN dequeue_claimed(DAT_EVENT &event);
    DAT_RETURN dequeue_polling(DAT_EVENT &event);
    DAT_RETURN dequeue_nothing();
    DAT_RETURN dequeue_rest(DAT_EVENT &event) OSD_NOINLINE;
    DAT_RETURN dequeue_contended(DAT_EVENT &event) OSD_COLD;
    DAT_RETURN dequeue_stored(DAT_EVENT &event) OSD_COLD;
    DAT_RETURN dequeue_found(const completion &done, DAT_EVENT &event) OSD_NOINLINE;
    DAT_RETURN dequeue_unusual(work_request *done, DAT_UINT32 length, DAT_EVENT &event) OSD_COLD;
    bool take(DAT_EVENT &event);
    bool take_at_once(DAT_EVENT &event);
    bool take_completion(DAT_EVENT &event);
    bool has_posted() const;
    bool take_stored(DAT_EVENT &event) OSD_COLD;
    bool take_in_order(DAT_EVENT &event);
    bool take_posted(DAT_EVENT &event);
    bool take_earlier_end(const DAT_EVENT &next, DAT_EVENT &event);
    bool take_end(DAT_EVENT &event);
    bool completes_before(std::uint32_t position, DAT_EP_HANDLE ep) const;
    std::uint32_t first_ripe() const;
    bool is_early(const completion &done) const;
    bool stage_more();
    bool convert(const completion &done, DAT_EVENT &event);
    bool convert_plain(const completion &done, DAT_EVENT &event);
    bool convert_plain(work_request &done, DAT_UINT32 length, DAT_EVENT &event);
    static bool is_plain(const completion &done);
    bool convert_unusual(const completion &done, DAT_EVENT &event) OSD_COLD;
    void convert_owned(const completion &done, endpoint &ep, DAT_EVENT &event);
    static work_queue *queue_of(const completion &done);
    static void retire(const completion &done);
    static endpoint *owner_of(const completion &done);
    DAT_COUNT count_up_to(DAT_COUNT wanted);
    DAT_COUNT count_rest();
    DAT_COUNT count_staging(const completion &done) OSD_COLD;
    void stage(const completion &done) OSD_COLD;
    void stage_success(work_request *done, DAT_UINT32 length) OSD_COLD;
    status check_threshold(DAT_COUNT threshold) const;
    status wait_contended(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                          DAT_COUNT &nmore) OSD_COLD;
    status wait_slowly(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                       DAT_COUNT &nmore) OSD_NOINLINE;
    status wait_claimed(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                        DAT_COUNT &nmore);
    status leave_wait(status answer, DAT_COUNT counted);
    void leave_wait_notifying(DAT_COUNT counted) OSD_COLD;
    osd::wait_result sleep(osd::deadline until);
    osd::wait_result sleep_where_woken(osd::deadline until);
    void wake();
    bool has_untold(bool if_busy);
    void stage_one();
    void leave_cno() OSD_REQUIRES(config_);
    void arm();
    void arm_cq();
    void trigger_if_pending();
    void drop_orphans() OSD_COLD;
    void drop_staged_orphans() OSD_COLD;
    void take_staged(std::uint32_t position, completion &done);

    // What the hot path reads comes first.
    std::atomic<std::uint32_t> claim_{0};
    /// Events in posted_, ended_ and staged_ together; `ordered`; `no_cq`; and `orphaned`, when
    /// there may be orphans. Not zero: the consumer does not go straight to the CQ.
    std::atomic<std::uint32_t> stored_;
    static constexpr std::uint32_t ordered = 0x40000000;
    static constexpr std::uint32_t no_cq = 0x20000000;
    static constexpr std::uint32_t orphaned = 0x10000000;
    std::atomic<work_queue *> orphans_{nullptr};
    transport::cq cq_;

    const DAT_EVD_FLAGS streams_;
    std::atomic<DAT_COUNT> qlen_{0}; ///< changes with the claim held
    event_ring<DAT_EVENT> posted_;
    event_ring<completion> staged_;
    // Of the consumer, where streams are merged.
    event_ring<DAT_EVENT> ended_; ///< ends of connections that may have completions before them
    std::uint32_t told_ = 0;      ///< the CNO knows what is staged up to here
    std::uint32_t barrier_ = 0;   ///< what is staged from here on came after the first of them
    bool has_barrier_ = false;    ///< there is one

    osd::mutex producers_; ///< of posted_
    osd::mutex dequeuers_; ///< lines up dequeuing threads of a thread-safe adapter
    osd::mutex config_;    ///< of the CNO association
    user_of<cno> cno_user_ OSD_GUARDED_BY(config_);
    std::atomic<cno *> cno_{nullptr};
    /// When the consumer takes the trigger: there may be completions that it was not told of; and
    /// the CQ has called back and is not armed.
    enum : unsigned { look_again = 1, arm_again = 2 };
    std::atomic<unsigned> to_do_when_told_{0};
    std::atomic<bool> unarmed_{false};
    std::atomic<std::uint32_t> pins_{0};
    std::atomic<bool> enabled_{true};
    std::atomic<bool> waitable_{true};
    std::atomic<bool> aborted_{false};
    std::atomic<bool> overflowed_{false};
    // Endpoints that choose by flags which of their completions here notify.
    std::atomic<int> unsignalled_{0};
    std::atomic<int> solicited_{0};
    osd::wait_object sleeper_; ///< where the waiter sleeps, unless it sleeps in the CQ

public:
    evd_counters counters; // last: far from what is hot
};

// ------------------------------------------------------------------------------------ hot path
//
// What is rare is left to functions that finish the call, and to get there is a jump: they return
// the bare code, and nothing has to be saved for their sake. What may stay in registers is copied
// for them.

OSD_ALWAYS_INLINE bool evd::try_claim()
{
    return (claim_.fetch_or(taking) & taking) == 0; // of one bit, which takes two instructions
}

/// A success without more to tell. Receives of a shared queue are sorted out by its owner: it has
/// none.
OSD_ALWAYS_INLINE bool evd::is_plain(const completion &done)
{
    if constexpr (claims.immediate_data)
        if (done.has_immediate)
            return false;
    return done.status == DAT_DTO_SUCCESS;
}

/// Makes the event of a plain success. False, and nothing has happened, when its operation is an
/// extended one or a bind, or its endpoint is gone.
OSD_ALWAYS_INLINE bool evd::convert_plain(work_request &done, DAT_UINT32 length, DAT_EVENT &event)
{
    work_queue &queue = *done.queue;
    endpoint *ep = queue.owner.load(std::memory_order_relaxed);
    const DAT_DTOS operation = done.operation;
    if (operation != DAT_DTO_RECEIVE) {
        if ((claims.immediate_data || claims.atomics || claims.memory_windows) &&
            operation > DAT_DTO_RECEIVE) [[unlikely]]
            return false;
        length = done.length;
    }
    if (ep == nullptr) [[unlikely]]
        return false;

    auto &dto = event.event_data.dto_completion_event_data;
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = static_cast<object *>(this);
    dto.ep_handle = ep;
    dto.user_cookie = done.cookie;
    dto.status = DAT_DTO_SUCCESS;
    dto.operation = operation;
    dto.transfered_length = length;
    dto.rmr_context = 0;
    queue.retire(done);
    return true;
}

OSD_ALWAYS_INLINE bool evd::convert_plain(const completion &done, DAT_EVENT &event)
{
    return is_plain(done) && convert_plain(*done.wr, done.length, event);
}

OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue_claimed(DAT_EVENT &event)
{
    if (stored_.load() != 0) [[unlikely]]
        return dequeue_stored(event);
    if constexpr (!claims.direct_event)
        return dequeue_polling(event);
    work_request *done;
    DAT_UINT32 length;
    const take_result found = transport::dapls_ib_completion_take(cq_, done, length);
    if (found != take_result::taken)
        return found == take_result::empty ? dequeue_nothing() : dequeue_rest(event);
    if (!convert_plain(*done, length, event)) [[unlikely]]
        return dequeue_unusual(done, length, event);
    give_up_claim();
    return fresh_success();
}

OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue_polling(DAT_EVENT &event)
{
    completion done;
    if (transport::dapls_ib_completion_poll(cq_, done)) {
        if (!convert_plain(done, event)) [[unlikely]] {
            const completion unusual = done;
            return dequeue_found(unusual, event);
        }
        give_up_claim();
        return fresh_success();
    }
    return dequeue_nothing();
}

/// The rest of one that found the CQ empty.
OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue_nothing()
{
    give_up_claim();
    return DAT_QUEUE_EMPTY;
}

OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue_unclaimed(DAT_EVENT &event)
{
    if (!try_claim()) [[unlikely]]
        return dequeue_contended(event);
    return dequeue_claimed(event);
}

template <class Safety>
OSD_ALWAYS_INLINE DAT_RETURN evd::dequeue(DAT_EVENT &event)
{
    if constexpr (Safety::locks) {
        osd::lock_guard in_line(dequeuers_);
        return dequeue_unclaimed(event);
    } else {
        return dequeue_unclaimed(event);
    }
}

} // namespace dapl::DAPL_TRANSPORT::core
