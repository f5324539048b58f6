// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "evd.hpp"

#include "adapter.hpp"
#include "dapl_debug.hpp"
#include "osd_thread.hpp"
#include "queue_owner.hpp"
#include "timer.hpp"

#include <algorithm>
#include <climits>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------------ life of an EVD

namespace {

bool may_keep_claims()
{
    return claims.lockless_dequeue && osd::can_fence_all_threads();
}

} // namespace

status make_evd(adapter &ia, DAT_COUNT qlen, DAT_EVD_FLAGS streams, evd *&out)
{
    if (qlen > ia.attr.max_cq_depth)
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
    out = ia.make<evd>(streams);
    if (out == nullptr)
        return out_of_memory;
    const status allocated = out->allocate(qlen);
    dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: %s for %d events, streams 0x%x", to_handle(out),
             allocated.ok() ? "created" : "not created", qlen, static_cast<unsigned>(streams));
    if (!allocated.ok())
        ia.destroy(*out);
    return allocated;
}

status evd::allocate(DAT_COUNT qlen)
{
    ia->count_in_sum(counters);
    if (may_keep_claims())
        state_.fetch_or(consumer_claim::keepable);
    if (merges(streams())) {
        order_.reset(new (std::nothrow) event_order(*this, *this));
        if (order_ == nullptr || !order_->allocate(qlen))
            return out_of_memory;
    }
    return event_queue::allocate(ia->hca, *this, qlen);
}

status evd::resize(DAT_COUNT qlen)
{
    if (!claim_.take(state_, row_))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
    const status answer = qlen == this->qlen() ? success : resize_all(qlen);
    dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: resize to %d: 0x%x", to_handle(this), qlen, answer.code());
    claim_.give_up();
    return answer;
}

status evd::resize_all(DAT_COUNT qlen)
{
    event_ring<DAT_EVENT> ends;
    if (order_ != nullptr && !ends.allocate(qlen))
        return out_of_memory;
    const status resized = resize_claimed(qlen);
    if (resized.ok() && order_ != nullptr)
        order_->take_storage_of(ends);
    return resized;
}

void evd::release()
{
    const bool had_cq = close_cq();
    osd::wait_while([this] { return passing_references_.load() != 0; });
    if (cno *polling = notifier.target())
        polling->await_poll();
    if (had_cq)
        return_shared_receives();
    if (std::exchange(cq_open_, false))
        transport::dapls_ib_cq_free(cq_);
    dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: freed", to_handle(this));
    set_cno(nullptr); // follows the last callback that could have triggered the CNO
}

/// Gives receives back to their SRQ that freed endpoints took and whose completions were not
/// polled.
void evd::return_shared_receives()
{
    if (!claims.srq || (state_.load() & orphaned) == 0)
        return;
    drop_staged_orphans();
    for (completion done; transport::dapls_ib_completion_poll(cq_, done);)
        if (done.wr->queue->shared)
            retire(done);
}

// -------------------------------------------------------------------------------------- dequeue

struct evd::waiting_once_merged : waiting_once {
    static bool disturbed(const evd &e);
    /// event_order stages all that the CQ holds, so it is asked last.
    static OSD_NOINLINE bool take(evd &e, DAT_EVENT &event)
    {
        return ((e.state_.load() & ~of_claim) == ordered &&
                e.take_plain<waiting_once_merged>(event)) ||
               e.order_->take(event);
    }
};

bool evd::take(DAT_EVENT &event)
{
    const std::uint32_t state = state_.load() & ~of_claim;
    if ((state & ordered) != 0)
        return waiting_once_merged::take(*this, event);
    return (state & ~orphaned) != 0 ? take_unordered(event) : take_completion(event);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::contended(evd &e, DAT_EVENT &event)
{
    if (!e.claim_.contend(consumer_claim::taking, e.state_, e.row_))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER).code();
    return dequeuing<by_claim>::claimed(e, event, e.state_.load());
}

/// The same ways where streams are merged. They begin with nothing pending, so that a completion
/// which has to be staged is the first, and event_order decides about it.
template <class Hold>
struct evd::dequeuing_merged : dequeuing<Hold> {
    using typename dequeuing<Hold>::answer;
    /// Once a completion was taken from the CQ: whether an event may have to come before it. The
    /// attempt of its endpoint was counted before the port could complete anything, and is counted
    /// until ESTABLISHED is pending: so the attempts are looked at first.
    static bool disturbed(const evd &e)
    {
        return e.establishing.any() || (e.state_.load() & ~of_claim) != ordered;
    }
    static answer idle(evd &e, DAT_EVENT &event)
    {
        if (transport::dapls_ib_completion_progress(e.cq_))
            return other(e, event);
        return dequeuing<Hold>::empty(e);
    }
    static answer other(evd &e, DAT_EVENT &event)
    {
        completion done;
        if (transport::dapls_ib_completion_poll(e.cq_, done))
            return unusual(e, done, event);
        return dequeuing<Hold>::empty(e);
    }
    static answer unusual(evd &e, const completion &done, DAT_EVENT &event) OSD_COLD
    {
        e.stage(done);
        return dequeuing<Hold>::pending(e, event);
    }
    static answer unusual(evd &e, work_request *done, DAT_UINT32 length, DAT_EVENT &event) OSD_COLD
    {
        e.stage_success(done, length);
        return dequeuing<Hold>::pending(e, event);
    }
};

bool evd::waiting_once_merged::disturbed(const evd &e)
{
    return dequeuing_merged<by_claim>::disturbed(e);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::marked(evd &e, DAT_EVENT &event)
{
    const std::uint32_t state = e.state_.load();
    if constexpr (Hold::keeps) {
        if ((state & consumer_claim::kept) == 0)
            return revoked(e, event);
    } else if (claims.lockless_dequeue && (state & consumer_claim::keepable) != 0) {
        return keepable(e, event);
    }
    if (state == (ordered | Hold::plain))
        return merged(e, event);
    return pending(e, event);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::merged(evd &e, DAT_EVENT &event)
{
    return e.take_plain<dequeuing_merged<Hold>>(event);
}

/// A thread that has the claim for the last call of a row keeps it.
template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::keepable(evd &e, DAT_EVENT &event)
{
    if (e.claim_.ends_row(e.state_, e.row_) &&
        e.claim_.keep(consumer_claim::in_dequeue, e.state_, e.row_))
        return dequeuing<as_keeper>::claimed(e, event, e.state_.load());
    switch (e.state_.load() & ~of_claim) {
    case 0:
        return e.take_plain<dequeuing>(event);
    case ordered:
        return merged(e, event);
    default:
        return pending(e, event);
    }
}

/// The thread takes the claim as others do.
template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::revoked(evd &e, DAT_EVENT &event)
{
    e.claim_.leave();
    e.claim_.resign();
    return contended(e, event);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::pending(evd &e, DAT_EVENT &event)
{
    return e.take(event) ? taken(e) : empty(e);
}

/// Other threads may dequeue during the yield. One that does so when it ends draws the conclusions
/// of its own.
template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::crowded(evd &e)
{
    const std::int64_t now = osd::now_ns();
    const bool yields = e.pause_.begin(now);
    e.begin_reference();
    Hold::leave(e);
    if (yields) {
        const std::int64_t ended = osd::poll_pause::yield();
        if (Hold::take_again(e)) {
            e.pause_.learn(now, ended);
            Hold::leave(e);
        }
    }
    e.end_reference();
    return DAT_QUEUE_EMPTY;
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::idle(evd &e, DAT_EVENT &event)
{
    if (transport::dapls_ib_completion_progress(e.cq_))
        return other(e, event);
    return empty(e);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::other(evd &e, DAT_EVENT &event)
{
    completion done;
    if (transport::dapls_ib_completion_poll(e.cq_, done))
        return unusual(e, done, event);
    return empty(e);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::unusual(evd &e, const completion &done, DAT_EVENT &event)
{
    return e.convert(done, event) || e.take_completion(event) ? taken(e) : empty(e);
}

template <class Hold>
DAT_RETURN evd::dequeuing<Hold>::unusual(evd &e, work_request *done, DAT_UINT32 length,
                                         DAT_EVENT &event)
{
    return unusual(e, completion_of(*done, length), event);
}

template struct evd::dequeuing<evd::by_claim>;
template struct evd::dequeuing<evd::as_keeper>;

// ------------------------------------------------------------------------------------ waiting

bool evd::waiting_once::marked(evd &e, DAT_EVENT &event)
{
    const std::uint32_t state = e.state_.load() & ~of_claim;
    return (state == ordered || (claims.lockless_dequeue && state == 0)) &&
           e.waitable_.load(std::memory_order_acquire) &&
           !e.overflowed_.load(std::memory_order_acquire) &&
           (state == 0 ? e.take_plain<waiting_once>(event)
                       : e.take_plain<waiting_once_merged>(event));
}

namespace {

/// Whether a wait with this answer defines nmore: only then the consumer knows of the events in it.
bool gives_nmore(status answer)
{
    return answer.ok() || answer == timeout_expired;
}

} // namespace

status evd::wait_contended(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                           DAT_COUNT &nmore)
{
    if (claim_.contend(consumer_claim::taking | consumer_claim::waiting, state_, row_))
        return wait_slowly(timeout_us, threshold, event, nmore);
    references.fetch_sub(1, std::memory_order_release);
    return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
}

status evd::wait_slowly(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                        DAT_COUNT &nmore)
{
    const osd::cancellable_wait cancellable;
    const status answer = wait_claimed(timeout_us, threshold, event, nmore);
    return leave_wait(answer, gives_nmore(answer) ? nmore : 0);
}

/// A wait of the keeper that the straight line does not end; it is in the door. Merged streams have
/// a straight line of their own.
status evd::as_keeper::wait(evd &e, DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                            DAT_COUNT &nmore)
{
    constexpr std::uint32_t merged = ordered | plain;
    if (e.state_.load() != merged || threshold != 1 ||
        !waiting_once::if_waitable<waiting_once_merged>(e, event)) [[unlikely]]
        return wait_slowly(e, timeout_us, threshold, event, nmore);
    nmore = e.count_rest(merged);
    e.claim_.leave();
    return success;
}

/// Where it has to sleep it becomes a wait as of others.
status evd::as_keeper::wait_slowly(evd &e, DAT_TIMEOUT timeout_us, DAT_COUNT threshold,
                                   DAT_EVENT &event, DAT_COUNT &nmore)
{
    const bool kept = (e.state_.load() & consumer_claim::kept) != 0;
    if (kept && (timeout_us == 0 || threshold != 1 || (e.state_.load() & ~of_claim) != 0)) {
        const status first = e.wait_claimed(0, threshold, event, nmore);
        if (timeout_us == 0 || first != timeout_expired) {
            e.claim_.leave();
            return first;
        }
    }
    e.references.fetch_add(1, std::memory_order_relaxed);
    if (kept && e.claim_.leave_for_wait(e.state_))
        return e.wait_slowly(timeout_us, threshold, event, nmore);
    e.claim_.leave();
    e.claim_.resign();
    return e.wait_contended(timeout_us, threshold, event, nmore);
}

/// The keeper's wait has the claim as before: nobody else had it meanwhile.
void evd::by_claim::leave_keepable_wait(evd &e)
{
    const bool keeps = e.claim_.is_keeper() || e.claim_.ends_row(e.state_, e.row_);
    if (!keeps || !e.claim_.keep(consumer_claim::outside, e.state_, e.row_))
        e.claim_.give_up();
}

/// Ends a wait. Events that came during the wait did not trigger the CNO. It is triggered now if
/// there are more than the consumer knows of; later events trigger it themselves.
void evd::leave_wait_notifying(DAT_COUNT counted)
{
    claim_.end_wait();
    state_.set_all_known(); // first: a post from now on triggers
    notifier.arm();
    const bool more = has_unknown(counted);
    reported_ = staged_.tail();
    claim_.give_up();
    if (more)
        wake_or_trigger();
}

bool evd::has_unknown(DAT_COUNT counted)
{
    const DAT_COUNT unknown = count_up_to(overrides.any() ? INT_MAX : counted + 1) - counted;
    if (unknown <= 0 || !overrides.any())
        return unknown > 0;
    const auto staged = static_cast<DAT_COUNT>(staged_.size());
    return pending() != staged ||
           notifies_since(staged_.tail() - static_cast<std::uint32_t>(std::min(unknown, staged)));
}

/// The length cannot change while the claim is held.
status evd::check_threshold(DAT_COUNT threshold) const
{
    if (threshold <= 0 || threshold > qlen())
        return invalid_parameter(3);
    switch (overrides.config()) {
    case DAT_EVD_STATE_CONFIG_SOLICITED:
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_CONFIG_SOLICITED);
    case DAT_EVD_STATE_CONFIG_NOTIFY:
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_CONFIG_NOTIFY);
    default:
        return success;
    }
}

status evd::wait_claimed(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                         DAT_COUNT &nmore)
{
    if (const status checked = threshold == 1 ? success : check_threshold(threshold); !checked.ok())
        return checked;
    osd::deadline until = osd::deadline::passed();
    bool clock_runs = false;
    bool armed = false;
    std::uint32_t seen = staged_.tail();
    for (;;) {
        if (!waitable_.load(std::memory_order_acquire) || claim_.is_dismissed())
            return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE);
        if (overflowed_.load(std::memory_order_acquire))
            return status::error(DAT_INVALID_STATE);
        if (may_return(threshold, !clock_runs, seen) && take(event)) {
            nmore = available(INT_MAX);
            return success;
        }
        if (aborted_.load(std::memory_order_acquire))
            return status::error(DAT_ABORT);
        if (!std::exchange(clock_runs, true))
            until = deadline_of(timeout_us);
        if (timeout_us == 0 || until.has_passed()) {
            const bool late = threshold == 1 && overrides.any() && take(event);
            if (!late && timeout_us != 0 && shows(DAPL_DBG_TYPE_DTO_COMP_ERR))
                trace_outstanding(*ia, *this);
            nmore = available(INT_MAX);
            return late ? success : timeout_expired;
        }
        if (has_cq() && !claims.cq_wait && !std::exchange(armed, true)) {
            dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: its CQ is armed", to_handle(this));
            transport::dapls_ib_completion_notify(cq_, overrides.arming());
            continue; // poll again: it may have come before the CQ was armed
        }
        if (sleep(threshold, until) == osd::wait_result::interrupted) {
            nmore = available(INT_MAX);
            return interrupted_call;
        }
        armed = false;
    }
}

/// Whether the wait is satisfied. At the first look any pending events count. Later only an event
/// that notifies does, and with it all events before; `seen` is the position up to which
/// completions were looked at.
bool evd::may_return(DAT_COUNT threshold, bool first_look, std::uint32_t &seen)
{
    if (threshold != 1) {
        // A wait in the CQ for one completion does not sleep while one is there: they are staged.
        constexpr bool sleeps_for_one = claims.cq_wait && !claims.cq_threshold;
        return (sleeps_for_one ? count_up_to(threshold) : available(threshold)) >= threshold;
    }
    if (first_look || !overrides.any())
        return true;
    const bool any = notifies_since(seen) || pending() != static_cast<DAT_COUNT>(staged_.size());
    seen = staged_.tail();
    return any;
}

osd::wait_result evd::sleep(DAT_COUNT threshold, osd::deadline until)
{
    osd::wait_result result{};
    counters.add(DCNT_EVD_WAIT_BLOCKED);
    dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: a wait for %d events sleeps", to_handle(this), threshold);
    osd::undo_if_cancelled([&] { result = sleep_interruptibly(threshold, until); },
                           [this] { (void)leave_wait(success, 0); });
    dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: its wait wakes", to_handle(this));
    return result;
}

namespace {

/// How many completions the port is to wait for: the threshold, less the pending events, of which
/// `kept` cannot be returned yet.
[[maybe_unused]] DAT_COUNT sleeps_for(DAT_COUNT threshold, DAT_COUNT pending, DAT_COUNT kept)
{
    if constexpr (!claims.cq_threshold)
        return 1;
    return std::max(threshold - (claims.evd_wait ? kept : pending), 1);
}

} // namespace

osd::wait_result evd::sleep_interruptibly(DAT_COUNT threshold, osd::deadline until)
{
    if constexpr (claims.cq_wait)
        if (waits_in_port())
            return transport::dapls_ib_cq_wait(
                cq_, overrides.arming(),
                sleeps_for(threshold, pending(),
                           static_cast<DAT_COUNT>(staged_.size()) +
                               (order_ != nullptr ? order_->waiting_ends() : 0)),
                until);
    return sleeper_.wait(until);
}

void evd::wake()
{
    if constexpr (claims.cq_wait)
        if (waits_in_port())
            return transport::dapls_ib_cq_wakeup(cq_);
    sleeper_.wake();
}

void evd::set_waitable(bool waitable)
{
    waitable_.store(waitable);
    if (!waitable && claim_.dismiss()) // the EVD may be waitable again when the waiter wakes
        wake();
}

departure evd::abort_waiter(osd::deadline until)
{
    aborted_.store(true);
    if constexpr (claims.lockless_dequeue)
        claim_.shut_out_keeper(state_);
    const auto waits = [this] {
        return has_waiter() || (claims.lockless_dequeue && claim_.is_keeper_in_wait());
    };
    if (!waits())
        return departure::none;
    for (osd::backoff pauses; waits(); pauses.pause()) {
        wake(); // serves a waiter of another EVD too, if the deadline has passed
        if (until.has_passed())
            return departure::overdue;
    }
    return departure::left;
}

// ----------------------------------------------------------------------------------- producing

namespace {

/// The bits that the numbers of connection requests and connection events have.
constexpr unsigned connection_classes = 0x6000;

} // namespace

bool evd::store(const DAT_EVENT &event)
{
    if ((event.event_number & connection_classes) != 0)
        counters.add(DCNT_EVD_CONN_CALLBACK);
    return store_posted(event);
}

void evd::notify()
{
    if constexpr (claims.evd_wait) {
        transport::dapls_ib_evd_events(cq_, 1);
        if (has_waiter())
            return; // the port wakes it when there are enough
    }
    if (has_waiter() || !state_.are_all_known())
        wake_or_trigger();
}

void evd::wake_or_trigger()
{
    if (has_waiter()) {
        wake();
        return;
    }
    if (!notifier.enabled() || notifier.target() == nullptr)
        return;
    cno *target = nullptr;
    {
        osd::lock_guard hold(config_);
        target = cno_.get();
        if (target != nullptr)
            target->begin_reference();
    }
    if (target == nullptr)
        return;
    target->trigger(notifier);
    target->end_reference();
}

void evd::completion_arrived()
{
    counters.add(DCNT_EVD_DTO_CALLBACK);
    if (has_waiter())
        return wake(); // if it leaves now, it looks at the CQ once more
    begin_reference();
    const bool triggers = notifier.completion_arrived();
    end_reference();
    if (triggers)
        wake_or_trigger();
}

void evd::overflowed()
{
    overflowed_.store(true);
    if (has_waiter())
        wake();
}

// --------------------------------------------------------------------------------- configuration

void evd::set_enabled(bool enabled)
{
    notifier.set_enabled(enabled);
    if (enabled)
        trigger_if_pending();
}

/// Called before the EVD joins another CNO: it has one entry, for the list of one CNO.
void evd::leave_cno()
{
    cno *const left = cno_.get();
    if (left == nullptr)
        return;
    notifier.set_target(nullptr);
    left->begin_reference();
    cno_ = {};
    left->forget(notifier);
    left->end_reference();
}

void evd::set_cno(cno *target)
{
    {
        osd::lock_guard hold(config_);
        if (target != cno_.get()) { // the last EVD that leaves a CNO wakes its waiters
            leave_cno();
            cno_ = user_of<cno>(target);
            // Looks of a CNO and callbacks for it take the claim: there, keeping it does not pay.
            if (claims.lockless_dequeue && target != nullptr)
                claim_.forbid_keeping(state_, row_);
            else if (may_keep_claims())
                state_.fetch_or(consumer_claim::keepable);
            notifier.set_target(target);
        }
    }
    if (target != nullptr)
        trigger_if_pending();
}

/// Arms the CQ for the CNO, which completions that came before trigger now.
void evd::trigger_if_pending()
{
    notifier.arm();
    bool any = counted() != 0;
    if (!any && notifier.target() != nullptr && claim_.take(state_, row_)) {
        any = count_up_to(1) != 0;
        claim_.give_up();
    }
    if (any)
        wake_or_trigger();
}

DAT_EVD_STATE evd::state() const
{
    const bool waitable = waitable_.load(std::memory_order_acquire);
    return static_cast<DAT_EVD_STATE>(
        (notifier.enabled() ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
        (waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE) | overrides.config());
}

/// A CQ that was armed for solicited receives is armed for all when others complete there too.
void evd::add_notify_override(DAT_COMPLETION_FLAGS flags, int change)
{
    const notify_on before = overrides.arming();
    overrides.add(flags, change);
    if (overrides.arming() == before || before == notify_on::any)
        return;
    if (has_waiter())
        wake();
    else
        notifier.arm();
}

} // namespace dapl::DAPL_TRANSPORT::core
