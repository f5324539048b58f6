// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "evd.hpp"

#include "dapl_api.hpp"
#include "dapl_debug.hpp"
#include "endpoint.hpp"
#include "osd_cancellation.hpp"
#include "osd_thread.hpp"

#include <climits>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------------ life of an EVD

namespace {

constexpr unsigned completion_streams = DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG;

} // namespace

/// Storage of this length for what the streams bring. False when out of memory.
bool evd::reserve(DAT_COUNT qlen, event_ring<DAT_EVENT> &posted, event_ring<DAT_EVENT> &ended,
                  event_ring<completion> &staged) const
{
    return ((streams_ & ~completion_streams) == 0 || posted.allocate(qlen)) &&
           (!merges(streams_) || ended.allocate(qlen)) &&
           ((streams_ & completion_streams) == 0 || staged.allocate(qlen));
}

status evd::allocate(DAT_COUNT qlen)
{
    qlen_.store(qlen, std::memory_order_relaxed);
    if (!reserve(qlen, posted_, ended_, staged_))
        return out_of_memory;
    if ((streams_ & completion_streams) == 0)
        return success;
    DAT_COUNT depth = qlen;
    const status opened = transport::dapls_ib_cq_alloc(ia->hca, cq_, *this, depth);
    if (opened.ok())
        stored_.fetch_and(~no_cq);
    return opened;
}

status evd::resize(DAT_COUNT qlen)
{
    if (!claim_for_dequeue())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
    const status answer = qlen == this->qlen() ? success : resize_claimed(qlen);
    give_up_claim();
    return answer;
}

/// Nobody takes events meanwhile, but some may come. What holds the limit of the producers changes
/// first when it shrinks, and last when it grows: so it can be taken back if the CQ does not
/// follow.
status evd::resize_claimed(DAT_COUNT qlen)
{
    if (has_cq() && !claims.cq_resize)
        return not_supported;
    event_ring<DAT_EVENT> posted;
    event_ring<DAT_EVENT> ended;
    event_ring<completion> staged;
    if (!reserve(qlen, posted, ended, staged))
        return out_of_memory;
    const bool shrinks = qlen < this->qlen();
    if (shrinks && (count_up_to(qlen + 1) > qlen || !replace_posted(posted)))
        return status::error(DAT_INVALID_STATE);
    DAT_COUNT depth = qlen;
    const status resized = has_cq() ? transport::dapls_ib_cq_resize(cq_, depth) : success;
    if (shrinks != resized.ok())
        (void)replace_posted(posted); // by a longer one, so all has room
    if (!resized.ok())
        return resized;
    ended_.take_storage_of(ended);
    staged_.take_storage_of(staged);
    qlen_.store(qlen, std::memory_order_relaxed);
    return success;
}

/// False when too much is in it.
bool evd::replace_posted(event_ring<DAT_EVENT> &with)
{
    osd::lock_guard hold(producers_);
    if (posted_.size() > with.length())
        return false;
    posted_.take_storage_of(with);
    return true;
}

void evd::release()
{
    while (pins_.load(std::memory_order_acquire) != 0)
        osd::yield();
    const bool had_cq = (stored_.fetch_or(no_cq) & no_cq) == 0;
    if (cno *looking = notified_cno())
        looking->await_look();
    if (had_cq)
        transport::dapls_ib_cq_free(cq_);
    set_cno(nullptr); // after the last callback that could have triggered it
}

evd::~evd()
{
    for (work_queue *queue = orphans_.load(); queue != nullptr;)
        std::exchange(queue, queue->next_orphan)->let_go();
}

// ------------------------------------------------------------------------------------ taking

/// An event that its producer has not counted yet waits: if it were taken, stored_ would forget
/// what is staged, and a later completion be taken from the CQ before that.
bool evd::has_posted() const
{
    return stored() > static_cast<DAT_COUNT>(staged_.size() + ended_.size());
}

bool evd::take_stored(DAT_EVENT &event)
{
    if ((stored_.load() & ordered) != 0)
        return take_in_order(event);
    if (has_posted() && posted_.pop(event)) {
        stored_.fetch_sub(1);
        return true;
    }
    completion done;
    while (staged_.pop(done)) {
        stored_.fetch_sub(1);
        if (convert(done, event))
            return true;
    }
    return false;
}

bool evd::take(DAT_EVENT &event)
{
    if ((stored_.load() & ~orphaned) != 0)
        return take_stored(event);
    return take_completion(event);
}

bool evd::take_completion(DAT_EVENT &event)
{
    completion done;
    while (transport::dapls_ib_completion_poll(cq_, done))
        if (convert(done, event))
            return true;
    if ((stored_.load() & orphaned) == 0)
        return false;
    drop_orphans();
    return take_stored(event);
}

DAT_RETURN evd::dequeue_contended(DAT_EVENT &event)
{
    if (!contend(taking))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER).code();
    return dequeue_claimed(event);
}

/// The rest of a dequeue that is not a matter of the CQ alone.
DAT_RETURN evd::dequeue_stored(DAT_EVENT &event)
{
    const bool taken = take(event);
    give_up_claim();
    return taken ? DAT_SUCCESS : DAT_QUEUE_EMPTY;
}

/// The rest of one for which no completion was at hand.
DAT_RETURN evd::dequeue_rest(DAT_EVENT &event)
{
    completion done;
    if (transport::dapls_ib_completion_poll(cq_, done))
        return dequeue_found(done, event);
    return dequeue_nothing();
}

DAT_RETURN evd::dequeue_found(const completion &done, DAT_EVENT &event)
{
    const bool taken = convert(done, event) || take_completion(event);
    give_up_claim();
    return taken ? DAT_SUCCESS : DAT_QUEUE_EMPTY;
}

/// The rest of one that found a success which convert_plain did not take.
DAT_RETURN evd::dequeue_unusual(work_request *done, DAT_UINT32 length, DAT_EVENT &event)
{
    return dequeue_found({done, length, DAT_DTO_SUCCESS, false, 0, nullptr}, event);
}

bool evd::convert(const completion &done, DAT_EVENT &event)
{
    return convert_plain(done, event) || convert_unusual(done, event);
}

/// The queue that stands for the endpoint: of a shared receive, that of who took it. Null when it
/// is gone.
work_queue *evd::queue_of(const completion &done)
{
    if constexpr (claims.srq)
        if (done.wr->queue->shared)
            return done.receiver;
    return done.wr->queue;
}

/// The work request may be used again.
void evd::retire(const completion &done)
{
    if (claims.memory_windows && done.wr->operation == DAT_DTO_BIND_MW) {
        binding *bound = done.wr->queue->take_binding(*done.wr);
        if (done.status != DAT_DTO_SUCCESS)
            bound->failed.store(true, std::memory_order_release);
        bound->let_go();
    }
    if (done.wr->queue->shared)
        static_cast<shared_work_queue *>(done.wr->queue)->give_back(*done.wr);
    else
        done.wr->queue->retire(*done.wr);
}

/// Null when the endpoint is gone, and its completions are to be dropped.
endpoint *evd::owner_of(const completion &done)
{
    const work_queue *queue = queue_of(done);
    return queue == nullptr ? nullptr : queue->owner.load(std::memory_order_relaxed);
}

/// What was staged of an endpoint that is gone since does not count.
void evd::drop_staged_orphans()
{
    completion done;
    for (std::uint32_t at = staged_.head(); at != staged_.tail(); ++at) {
        if (owner_of(staged_.at(at)) != nullptr)
            continue;
        take_staged(at, done);
        retire(done);
    }
}

/// What was staged before it moves up by one place, and the barrier with it.
void evd::take_staged(std::uint32_t position, completion &done)
{
    if (has_barrier_ && static_cast<std::int32_t>(position - barrier_) >= 0)
        ++barrier_;
    staged_.take(position, done);
    stored_.fetch_sub(1);
}

/// Counts what is there, moving completions to staged_ until `wanted` is reached.
DAT_COUNT evd::count_up_to(DAT_COUNT wanted)
{
    if ((stored_.load() & orphaned) != 0) [[unlikely]]
        drop_staged_orphans();
    completion done;
    while (stored() < wanted && has_cq() && staged_.room() != 0 &&
           transport::dapls_ib_completion_poll(cq_, done))
        stage(done);
    return stored();
}

void evd::stage(const completion &done)
{
    if (owner_of(done) == nullptr) {
        // In post order: a queue with its last one retired may be deleted.
        drop_staged_orphans();
        retire(done);
        return;
    }
    staged_.push(done);
    stored_.fetch_add(1);
}

/// All that is there, where it is likely that nothing is.
OSD_ALWAYS_INLINE DAT_COUNT evd::count_rest()
{
    if (stored_.load() != 0) [[unlikely]]
        return count_up_to(INT_MAX);
    completion done;
    if (!transport::dapls_ib_completion_poll(cq_, done)) [[likely]]
        return 0;
    const completion found = done;
    return count_staging(found);
}

DAT_COUNT evd::count_staging(const completion &done)
{
    stage(done);
    return count_up_to(INT_MAX);
}

namespace {

/// What an extended operation tells besides: which it was, how it went, and immediate data. The
/// end of the operation that took a receive is an extended event of its own kind.
void add_extension(const completion &done, DAT_EVENT &event)
{
    auto &dto = event.event_data.dto_completion_event_data;
    const bool received = claims.immediate_data && dto.operation == DAT_DTO_RECEIVE &&
                          done.status == DAT_DTO_SUCCESS && done.has_immediate;
    if (dto.operation <= DAT_DTO_RECEIVE && !received)
        return;
    DAT_IB_EXTENSION_EVENT_DATA more{};
    if (received) {
        dto.operation = static_cast<DAT_DTOS>(DAT_IB_DTO_RECV_IMMED);
        more.type = DAT_IB_RDMA_WRITE_IMMED_DATA;
        more.val.immed.data = done.immediate;
    } else {
        const auto which = static_cast<int>(dto.operation);
        more.type = which == DAT_IB_DTO_FETCH_ADD  ? DAT_IB_FETCH_AND_ADD
                    : which == DAT_IB_DTO_CMP_SWAP ? DAT_IB_CMP_AND_SWAP
                                                   : DAT_IB_RDMA_WRITE_IMMED;
    }
    more.status = done.status == DAT_DTO_SUCCESS ? DAT_OP_SUCCESS : DAT_IB_OP_ERR;
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    static_assert(sizeof more == sizeof event.event_extension_data);
    std::memcpy(event.event_extension_data, &more, sizeof more);
}

void tell_of_transfer(const completion &done, endpoint &ep, DAT_EVENT &event)
{
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    auto &dto = event.event_data.dto_completion_event_data;
    dto.ep_handle = to_handle(&ep);
    dto.user_cookie = done.wr->cookie;
    dto.status = done.status;
    dto.operation = done.wr->operation;
    dto.transfered_length = 0;
    if (done.status == DAT_DTO_SUCCESS)
        dto.transfered_length = dto.operation == DAT_DTO_RECEIVE ? done.length : done.wr->length;
    dto.rmr_context = 0;
    add_extension(done, event);
}

void tell_of_bind(const completion &done, DAT_EVENT &event)
{
    event.event_number = DAT_RMR_BIND_COMPLETION_EVENT;
    auto &bound = event.event_data.rmr_completion_event_data;
    bound.rmr_handle = to_handle(done.wr->queue->binding_at(*done.wr)->of);
    bound.user_cookie = done.wr->cookie;
    bound.status = done.status;
}

} // namespace

/// A completion that is no plain success: of an orphan, which is dropped; an extended one; or a
/// failure, which also breaks a connection that still stands.
bool evd::convert_unusual(const completion &done, DAT_EVENT &event)
{
    if (work_queue *queue = queue_of(done); queue != nullptr) {
        osd::lock_guard hold(queue->owner_lock);
        if (endpoint *ep = queue->owner.load(std::memory_order_relaxed); ep != nullptr) {
            convert_owned(done, *ep, event);
            return true;
        }
    }
    // Not under the lock: whoever frees the endpoint deletes a queue that is idle, and its lock.
    retire(done);
    return false;
}

/// The endpoint stays as long as the caller holds its queue's owner_lock.
void evd::convert_owned(const completion &done, endpoint &ep, DAT_EVENT &event)
{
    event.evd_handle = to_handle(this);
    const DAT_DTOS operation = done.wr->operation;
    if (claims.memory_windows && operation == DAT_DTO_BIND_MW)
        tell_of_bind(done, event);
    else
        tell_of_transfer(done, ep, event);
    retire(done);
    if (done.status != DAT_DTO_SUCCESS && done.status != DAT_DTO_ERR_FLUSHED) {
        dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "EP %p: operation %d failed, DTO status %d",
                 to_handle(&ep), operation, done.status);
        ep.operation_failed();
    }
}

void evd::adopt(work_queue *orphan)
{
    orphan->next_orphan = orphans_.load(std::memory_order_relaxed);
    while (!orphans_.compare_exchange_weak(orphan->next_orphan, orphan, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
    stored_.fetch_or(orphaned);
}

/// The CQ ran empty with orphans about. Those that were here before the CQ is found empty once
/// more have no completion left in it.
void evd::drop_orphans()
{
    stored_.fetch_and(~orphaned); // first: who adopts one now says so behind that
    work_queue *list = orphans_.exchange(nullptr, std::memory_order_acquire);
    drop_staged_orphans();
    (void)count_up_to(INT_MAX);
    const bool drained = staged_.room() != 0;
    while (list != nullptr) {
        work_queue *queue = std::exchange(list, list->next_orphan);
        if (drained)
            queue->let_go();
        else
            adopt(queue);
    }
}

// --------------------------------------------------------------------- where streams are merged

namespace {

bool is_about_connection(const DAT_EVENT &event)
{
    return event.event_number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
           event.event_number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

bool ends_connection(const DAT_EVENT &event)
{
    return is_about_connection(event) && event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED;
}

DAT_EP_HANDLE endpoint_in(const DAT_EVENT &event)
{
    return event.event_data.connect_event_data.ep_handle;
}

} // namespace

/// First what callbacks posted, less the ends of connections; then ends that have no completion
/// before them any more; then the first completion whose connection has been told of.
bool evd::take_in_order(DAT_EVENT &event)
{
    for (;;) {
        if (take_posted(event) || take_end(event))
            return true;
        const std::uint32_t place = first_ripe();
        const bool found = place != staged_.tail();
        if (!found && stage_more())
            continue;
        if (has_posted())
            continue; // maybe it was not ripe before that came
        if (!found)
            return false;
        completion done;
        take_staged(place, done);
        if (convert(done, event))
            return true;
    }
}

/// The next of posted_. Ends go to ended_, unless there are more of them than the EVD is long.
bool evd::take_posted(DAT_EVENT &event)
{
    while (has_posted()) {
        const DAT_EVENT *next = posted_.front();
        if (take_earlier_end(*next, event))
            return true;
        if (ends_connection(*next) && ended_.push(*next)) {
            posted_.drop_front();
            continue;
        }
        (void)posted_.pop(event);
        stored_.fetch_sub(1);
        return true;
    }
    return false;
}

/// An endpoint of which there is news had an earlier connection. Its completions were dropped by
/// the reset, so that its end need not wait.
bool evd::take_earlier_end(const DAT_EVENT &next, DAT_EVENT &event)
{
    if (!is_about_connection(next))
        return false;
    for (std::uint32_t at = ended_.head(); at != ended_.tail(); ++at) {
        if (endpoint_in(ended_.at(at)) != endpoint_in(next))
            continue;
        has_barrier_ = has_barrier_ && at != ended_.head();
        ended_.take(at, event);
        stored_.fetch_sub(1);
        return true;
    }
    return false;
}

/// What came before the end was in the CQ when that was posted, and the CQ found empty since.
bool evd::take_end(DAT_EVENT &event)
{
    const DAT_EVENT *end = ended_.front();
    if (end == nullptr)
        return false;
    if (!has_barrier_) {
        (void)stage_more();
        has_barrier_ = staged_.room() != 0;
        barrier_ = staged_.tail();
    }
    if (!has_barrier_ || completes_before(barrier_, endpoint_in(*end)))
        return false;
    has_barrier_ = false;
    (void)ended_.pop(event);
    stored_.fetch_sub(1);
    return true;
}

/// Completions that were flushed may follow the end.
bool evd::completes_before(std::uint32_t position, DAT_EP_HANDLE ep) const
{
    for (std::uint32_t at = staged_.head(); static_cast<std::int32_t>(position - at) > 0; ++at) {
        const completion &done = staged_.at(at);
        if (done.status != DAT_DTO_ERR_FLUSHED && to_handle(owner_of(done)) == ep)
            return true;
    }
    return false;
}

/// The place of the first staged completion that may be delivered; the end if there is none. Those
/// of one endpoint stay in order.
std::uint32_t evd::first_ripe() const
{
    std::uint32_t at = staged_.head();
    while (at != staged_.tail() && is_early(staged_.at(at)))
        ++at;
    return at;
}

/// Its connection stands, but the word of that has yet to come.
bool evd::is_early(const completion &done) const
{
    work_queue *queue = queue_of(done);
    if (queue == nullptr)
        return false;
    osd::lock_guard hold(queue->owner_lock); // the endpoint stays meanwhile
    endpoint *ep = queue->owner.load(std::memory_order_relaxed);
    return ep != nullptr && ep->shall_tell(*this);
}

/// True when completions came from the CQ.
bool evd::stage_more()
{
    const std::uint32_t before = staged_.tail();
    (void)count_up_to(INT_MAX);
    if (staged_.empty() && (stored_.load() & orphaned) != 0)
        drop_orphans();
    return staged_.tail() != before;
}

// ------------------------------------------------------------------------------------ waiting

/// Only a waiter keeps others out; a dequeue is a few instructions long.
bool evd::contend(std::uint32_t wanted)
{
    for (std::uint32_t seen = 0; !claim_.compare_exchange_weak(seen, wanted); seen = 0) {
        if ((seen & waiting) != 0)
            return false;
        if (seen != 0)
            osd::yield();
    }
    return true;
}

inline bool evd::try_claim_for_wait()
{
    std::uint32_t seen = 0;
    return claim_.compare_exchange_strong(seen, taking | waiting);
}

namespace {

/// Holds cancellation back for the whole of a wait, where already its first look has cancellation
/// points in it; elsewhere from when the wait may sleep.
struct no_hold {};
using hold_from_first_look =
    std::conditional_t<transport::has_cancellation_points, osd::cancellable_wait, no_hold>;

/// Whether nmore is defined by the answer: only then the consumer knows of what it counts.
bool gives_nmore(status answer)
{
    return answer.ok() || answer == timeout_expired;
}

} // namespace

/// An adapter that closes waits until we are out: `users` says that we are in.
OSD_ALWAYS_INLINE status evd::wait(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                                   DAT_COUNT &nmore)
{
    [[maybe_unused]] const hold_from_first_look held;
    users.fetch_add(1, std::memory_order_relaxed);
    if (!try_claim_for_wait()) [[unlikely]]
        return wait_contended(timeout_us, threshold, event, nmore);
    if (threshold != 1 || !take_at_once(event))
        return wait_slowly(timeout_us, threshold, event, nmore);
    nmore = count_rest();
    return leave_wait(success, nmore);
}

status evd::wait_contended(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                           DAT_COUNT &nmore)
{
    if (contend(taking | waiting))
        return wait_slowly(timeout_us, threshold, event, nmore);
    users.fetch_sub(1, std::memory_order_release);
    return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
}

status evd::wait_slowly(DAT_TIMEOUT timeout_us, DAT_COUNT threshold, DAT_EVENT &event,
                        DAT_COUNT &nmore)
{
    const osd::cancellable_wait held;
    status answer = threshold == 1 ? success : check_threshold(threshold);
    if (answer.ok())
        answer = wait_claimed(timeout_us, threshold, event, nmore);
    return leave_wait(answer, gives_nmore(answer) ? nmore : 0);
}

/// `counted` events are left that the consumer knows of.
OSD_ALWAYS_INLINE status evd::leave_wait(status answer, DAT_COUNT counted)
{
    if (notified_cno() != nullptr) [[unlikely]]
        leave_wait_notifying(counted);
    else
        give_up_claim();
    users.fetch_sub(1, std::memory_order_release);
    return answer;
}

/// Events that came during the wait have spared the CNO. It is triggered now if there are more of
/// them than the consumer knows of; those that come from now on trigger it themselves.
void evd::leave_wait_notifying(DAT_COUNT counted)
{
    claim_.store(taking);
    arm();
    const bool more = count_up_to(counted + 1) > counted;
    told_ = staged_.tail();
    give_up_claim();
    if (more)
        notify();
}

/// A waiter's first look, at the CQ alone. What it cannot take is left for the second.
OSD_ALWAYS_INLINE bool evd::take_at_once(DAT_EVENT &event)
{
    if (stored_.load() != 0 || !waitable_.load(std::memory_order_acquire) ||
        overflowed_.load(std::memory_order_acquire)) [[unlikely]]
        return false;
    if constexpr (claims.direct_event) {
        work_request *done;
        DAT_UINT32 length;
        if (transport::dapls_ib_completion_take(cq_, done, length) != take_result::taken)
            return false;
        if (!convert_plain(*done, length, event)) [[unlikely]]
            return stage_success(done, length), false;
    } else {
        completion done;
        if (!transport::dapls_ib_completion_poll(cq_, done))
            return false;
        if (!convert_plain(done, event)) [[unlikely]] {
            const completion unusual = done;
            return stage(unusual), false;
        }
    }
    return true;
}

void evd::stage_success(work_request *done, DAT_UINT32 length)
{
    stage({done, length, DAT_DTO_SUCCESS, false, 0, nullptr});
}

/// The length cannot change while the claim is held.
status evd::check_threshold(DAT_COUNT threshold) const
{
    if (threshold <= 0 || threshold > qlen())
        return invalid_parameter(3);
    switch (config()) {
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
    osd::deadline until = osd::deadline::passed();
    bool clock_runs = false;
    bool armed = false;
    for (;;) {
        if (!waitable_.load(std::memory_order_acquire))
            return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE);
        if (overflowed_.load(std::memory_order_acquire))
            return status::error(DAT_INVALID_STATE);
        const bool enough = threshold == 1 || count_up_to(threshold) >= threshold;
        if (enough && take(event)) {
            nmore = count_up_to(INT_MAX);
            return success;
        }
        if (aborted_.load(std::memory_order_acquire))
            return status::error(DAT_ABORT);
        if (!std::exchange(clock_runs, true))
            until = deadline_of(timeout_us);
        if (timeout_us == 0 || until.has_passed()) {
            if (timeout_us != 0 && (debug_mask & DAPL_DBG_TYPE_DTO_COMP_ERR) != 0)
                ia->trace_unfinished(*this);
            nmore = count_up_to(INT_MAX);
            return timeout_expired;
        }
        if (has_cq() && !claims.cq_wait && !std::exchange(armed, true)) {
            transport::dapls_ib_completion_notify(cq_);
            continue; // look again: it may have come before the CQ was armed
        }
        if (sleep(until) == osd::wait_result::interrupted) {
            nmore = count_up_to(INT_MAX);
            return interrupted_call;
        }
        armed = false;
    }
}

osd::wait_result evd::sleep(osd::deadline until)
{
    osd::wait_result result{};
    counters.add(DCNT_EVD_WAIT_BLOCKED);
    osd::undo_if_cancelled([&] { result = sleep_where_woken(until); },
                           [this] { (void)leave_wait(success, 0); });
    return result;
}

osd::wait_result evd::sleep_where_woken(osd::deadline until)
{
    if constexpr (claims.cq_wait)
        if (has_cq())
            return transport::dapls_ib_cq_wait(cq_, until);
    return sleeper_.wait(until);
}

void evd::wake()
{
    if constexpr (claims.cq_wait)
        if (has_cq())
            return transport::dapls_ib_cq_wakeup(cq_);
    sleeper_.wake();
}

void evd::set_waitable(bool waitable)
{
    waitable_.store(waitable);
    if (!waitable && has_waiter())
        wake();
}

departure evd::abort_waiter(osd::deadline until)
{
    aborted_.store(true);
    if (!has_waiter())
        return departure::none;
    for (; has_waiter(); osd::yield()) {
        if (until.has_passed())
            return departure::overdue;
        wake();
    }
    return departure::left;
}

// ----------------------------------------------------------------------------------- producing

namespace {

/// Those of requests, and those of connections.
constexpr unsigned connection_classes = 0x6000;

} // namespace

bool evd::store(const DAT_EVENT &event)
{
    if ((event.event_number & connection_classes) != 0)
        counters.add(DCNT_EVD_CONN_CALLBACK);
    osd::lock_guard hold(producers_);
    if (!posted_.push(event))
        return false;
    stored_.fetch_add(1); // ordered before the look at the claim in notify
    return true;
}

void evd::notify()
{
    if ((claim_.load() & waiting) != 0) {
        wake();
        return;
    }
    if (!enabled_.load(std::memory_order_acquire) || notified_cno() == nullptr)
        return;
    cno *target = nullptr;
    {
        osd::lock_guard hold(config_);
        target = cno_user_.get();
        if (target != nullptr)
            target->pin();
    }
    if (target == nullptr)
        return;
    target->trigger(*this);
    target->unpin();
}

/// The CQ is armed again when the consumer takes the trigger: until then it would only repeat what
/// the CNO knows. A waiter arms it for itself.
void evd::completion_arrived()
{
    counters.add(DCNT_EVD_DTO_CALLBACK);
    if (has_waiter() || notified_cno() == nullptr)
        return notify();
    to_do_when_told_.fetch_or(arm_again);
    if (has_untold(true) || (arm(), has_untold(true))) // a look was faster; perhaps there is more
        notify();
}

bool evd::has_events()
{
    if (stored() != 0 || !try_claim())
        return true;
    const bool any = count_up_to(1) != 0;
    give_up_claim();
    return any;
}

/// Completions since the CNO was told last; they count as told now. A thread that takes events may
/// have found the CQ empty before they came: `if_busy` is the answer then.
bool evd::has_untold(bool if_busy)
{
    if (!has_cq())
        return false;
    if (!try_claim())
        return if_busy;
    if (staged_.empty() || staged_.tail() == told_)
        stage_one();
    const bool untold = !staged_.empty() && staged_.tail() != told_;
    told_ = staged_.tail();
    if (untold)
        to_do_when_told_.fetch_or(look_again); // there may be more in the CQ
    give_up_claim();
    return untold;
}

void evd::stage_one()
{
    completion done;
    for (const std::uint32_t before = staged_.tail();
         staged_.tail() == before && staged_.room() != 0 &&
         transport::dapls_ib_completion_poll(cq_, done);)
        stage(done);
}

bool evd::has_news_for(const cno &who, bool if_busy)
{
    return !link.pending && notified_cno() == &who && enabled_.load(std::memory_order_acquire) &&
           !has_waiter() && has_untold(if_busy);
}

bool evd::has_more_news()
{
    const unsigned to_do = to_do_when_told_.exchange(0);
    if (to_do == 0 || unarmed_.load())
        return false;
    if ((to_do & arm_again) != 0)
        arm_cq();
    return has_untold(true);
}

bool evd::arm_if_left_unarmed()
{
    if (!unarmed_.exchange(false))
        return false;
    arm_cq();
    return true;
}

/// Keeps completions coming to the CNO.
void evd::arm()
{
    to_do_when_told_.fetch_and(~arm_again);
    if (!unarmed_.load())
        arm_cq();
}

void evd::arm_cq()
{
    if (has_cq() && notified_cno() != nullptr && enabled_.load(std::memory_order_acquire))
        transport::dapls_ib_completion_notify(cq_);
}

void evd::set_enabled(bool enabled)
{
    enabled_.store(enabled);
    if (enabled)
        trigger_if_pending();
}

/// Before it joins another, for it has one place in a list of triggers.
void evd::leave_cno()
{
    cno *const left = cno_user_.get();
    if (left == nullptr)
        return;
    cno_.store(nullptr);
    left->pin();
    cno_user_ = {};
    left->forget(*this);
    left->unpin();
}

void evd::set_cno(cno *target)
{
    {
        osd::lock_guard hold(config_);
        leave_cno();
        cno_user_ = user_of<cno>(target);
        cno_.store(target, std::memory_order_release);
    }
    if (target != nullptr)
        trigger_if_pending();
}

/// Arms the CQ for the CNO; what came before triggers it now.
void evd::trigger_if_pending()
{
    arm();
    bool pending = stored() != 0;
    if (!pending && claim_for_dequeue()) {
        pending = count_up_to(1) != 0;
        give_up_claim();
    }
    if (pending)
        notify();
}

DAT_EVD_STATE evd::state() const
{
    const bool enabled = enabled_.load(std::memory_order_acquire);
    const bool waitable = waitable_.load(std::memory_order_acquire);
    return static_cast<DAT_EVD_STATE>(
        (enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
        (waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE) | config());
}

void evd::count_choosers(DAT_COMPLETION_FLAGS flags, int change)
{
    if ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0)
        unsignalled_.fetch_add(change, std::memory_order_relaxed);
    if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0)
        solicited_.fetch_add(change, std::memory_order_relaxed);
}

DAT_EVD_STATE evd::config() const
{
    if (solicited_.load(std::memory_order_relaxed) != 0)
        return DAT_EVD_STATE_CONFIG_SOLICITED;
    if (unsignalled_.load(std::memory_order_relaxed) != 0)
        return DAT_EVD_STATE_CONFIG_NOTIFY;
    return DAT_EVD_STATE_CONFIG_THRESHOLD;
}

void evd::overflowed()
{
    overflowed_.store(true);
    if (has_waiter())
        wake();
}

// --------------------------------------------------------------------------------- entry points

namespace {

constexpr unsigned known_streams = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG |
                                   DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG |
                                   DAT_EVD_ASYNC_FLAG;

/// Streams that may share an EVD, as adapter::stream_merging tells the consumer. Completions of
/// extended operations come with the others, asked for or not.
bool mergeable(unsigned streams)
{
    if constexpr (claims.immediate_data || claims.atomics)
        streams &= ~unsigned{DAT_IB_EVD_EXTENSION_FLAG};
    if (streams == 0 || has_unknown_bits(streams, known_streams))
        return false;
    return (streams & DAT_EVD_ASYNC_FLAG) == 0 || streams == DAT_EVD_ASYNC_FLAG;
}

status create_evd(adapter *ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS streams,
                  DAT_EVD_HANDLE *out)
{
    cno *target = from_handle<cno>(cno_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (cno_handle != DAT_HANDLE_NULL && (target == nullptr || target->ia != ia))
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (qlen <= 0)
        return invalid_parameter(2);
    if (!mergeable(streams))
        return invalid_parameter(4);
    if (out == nullptr)
        return invalid_parameter(5);
    evd *made = nullptr;
    const status answer = ia->make_evd(qlen, streams, made);
    if (!answer.ok())
        return answer;
    made->set_cno(target);
    *out = to_handle(made);
    return success;
}

status free_evd(evd &victim)
{
    if (in_use(victim) || victim.has_waiter())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE);
    if (!victim.condemn())
        return status::error(DAT_INVALID_HANDLE);
    victim.release();
    victim.ia->destroy(victim.ia->evds, victim);
    return success;
}

status post_software_event(evd &target, const DAT_EVENT *event)
{
    if (!target.takes(DAT_EVD_SOFTWARE_FLAG))
        return invalid_parameter(1);
    if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
        return invalid_parameter(2);
    DAT_EVENT stored = *event;
    stored.evd_handle = to_handle(&target);
    return target.post(stored) ? success : status::error(DAT_QUEUE_FULL);
}

template <class Call>
DAT_RETURN on_evd(DAT_EVD_HANDLE handle, Call &&call)
{
    evd *found = from_handle<evd>(handle);
    return found == nullptr ? status::error(DAT_INVALID_HANDLE).code() : call(*found).code();
}

} // namespace

DAT_RETURN dapl_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
                           DAT_EVD_FLAGS streams, DAT_EVD_HANDLE *out)
{
    return create_evd(from_handle<adapter>(ia), qlen, cno, streams, out).code();
}

DAT_RETURN dapl_evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param)
{
    evd *e = from_handle<evd>(handle);
    const status checked = check_query(e, DAT_NO_SUBTYPE, mask, DAT_EVD_FIELD_ALL, param);
    if (!checked.ok())
        return checked.code();
    *param = {};
    param->ia_handle = e->ia->consumer_handle();
    param->evd_qlen = e->qlen();
    param->evd_state = e->state();
    param->cno_handle =
        e->notified_cno() == nullptr ? DAT_HANDLE_NULL : to_handle(e->notified_cno());
    param->evd_flags = e->streams();
    return DAT_SUCCESS;
}

DAT_RETURN dapl_evd_modify_cno(DAT_EVD_HANDLE handle, DAT_CNO_HANDLE cno_handle)
{
    return on_evd(handle, [cno_handle](evd &e) {
        cno *target = from_handle<cno>(cno_handle);
        if (cno_handle != DAT_HANDLE_NULL && (target == nullptr || target->ia != e.ia))
            return invalid_handle(DAT_INVALID_HANDLE_CNO);
        e.set_cno(target);
        return success;
    });
}

DAT_RETURN dapl_evd_enable(DAT_EVD_HANDLE handle)
{
    return on_evd(handle, [](evd &e) { return e.set_enabled(true), success; });
}

DAT_RETURN dapl_evd_disable(DAT_EVD_HANDLE handle)
{
    return on_evd(handle, [](evd &e) { return e.set_enabled(false), success; });
}

DAT_RETURN dapl_evd_set_unwaitable(DAT_EVD_HANDLE handle)
{
    return on_evd(handle, [](evd &e) { return e.set_waitable(false), success; });
}

DAT_RETURN dapl_evd_clear_unwaitable(DAT_EVD_HANDLE handle)
{
    return on_evd(handle, [](evd &e) { return e.set_waitable(true), success; });
}

DAT_RETURN dapl_evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                         DAT_EVENT *event, DAT_COUNT *nmore)
{
    evd *e = from_handle<evd>(handle);
    if (e == nullptr)
        return status::error(DAT_INVALID_HANDLE).code();
    if (event == nullptr)
        return invalid_parameter(4).code();
    if (nmore == nullptr)
        return invalid_parameter(5).code();
    return e->wait(timeout, threshold, *event, *nmore).code();
}

template <class Safety>
DAT_RETURN dapl_evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
    evd *e = from_dispatched<evd>(handle);
    if (e == nullptr) [[unlikely]]
        return status::error(DAT_INVALID_HANDLE).code();
    if (event == nullptr) [[unlikely]]
        return invalid_parameter(2).code();
    return e->dequeue<Safety>(*event);
}
template DAT_RETURN dapl_evd_dequeue<one_thread_per_object>(DAT_EVD_HANDLE, DAT_EVENT *);
template DAT_RETURN dapl_evd_dequeue<any_thread>(DAT_EVD_HANDLE, DAT_EVENT *);

DAT_RETURN dapl_evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT *event)
{
    return on_evd(handle, [event](evd &e) { return post_software_event(e, event); });
}

DAT_RETURN dapl_evd_resize(DAT_EVD_HANDLE handle, DAT_COUNT qlen)
{
    return on_evd(handle, [qlen](evd &e) {
        const bool fits = qlen > 0 && qlen <= e.ia->attr.max_cq_depth;
        return fits ? e.resize(qlen) : invalid_parameter(2);
    });
}

DAT_RETURN dapl_evd_free(DAT_EVD_HANDLE handle)
{
    return on_evd(handle, free_evd);
}

} // namespace dapl::DAPL_TRANSPORT::core
