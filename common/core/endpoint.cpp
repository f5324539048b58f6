// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "endpoint.hpp"

#include "adapter.hpp"
#include "async_events.hpp"
#include "dapl_debug.hpp"
#include "deadline.hpp"
#include "names.hpp"
#include "queue_owner.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------- queue pair and queues

endpoint::endpoint(const DAT_PROVIDER *vector, adapter &owner, const DAT_EP_ATTR &attr,
                   const ep_objects &objects, DAT_EP_STATE first)
    : object(vector, mark::ep, owner), state_(first), attr_(attr), zone_(objects.zone),
      recv_evd_(objects.recv), request_evd_(objects.request), connect_evd_(objects.connect),
      shared_(objects.shared)
{
    qp_.holder = this;
    connect_timeout_.ep = failure_.ep = this;
    connect_timeout_.expired = [](timer_record &record) {
        return static_cast<timer &>(record).ep->connect_timed_out();
    };
    failure_.expired = [](timer_record &record) {
        return static_cast<timer &>(record).ep->announce_failure();
    };
    add_notify_overrides(1);
}

/// Flags that leave it to the consumer which completions notify exclude thresholds.
void endpoint::add_notify_overrides(int change)
{
    const auto sends = static_cast<DAT_COMPLETION_FLAGS>(
        attr_.request_completion_flags & ~DAT_COMPLETION_SOLICITED_WAIT_FLAG); // is of the peer
    if (recv_evd_)
        recv_evd_->overrides.add(attr_.recv_completion_flags, change);
    if (request_evd_)
        request_evd_->overrides.add(sends, change);
}

status endpoint::set_up()
{
    osd::lock_guard hold(control_);
    return attach_qp();
}

/// A queue pair needs a protection domain, so an endpoint without a PZ has none yet.
status endpoint::attach_qp()
{
    osd::lock_guard no_sends(send_lock_);
    osd::lock_guard no_recvs(recv_lock_);
    if (!zone_)
        return success;
    send_queue_ = request_evd_ ? work_queue::create(this, attr_.max_request_dtos) : nullptr;
    if (shared_)
        recv_queue_ = work_queue::create_drawing(this, *shared_->receives());
    else
        recv_queue_ = recv_evd_ ? work_queue::create(this, attr_.max_recv_dtos) : nullptr;
    const bool complete =
        (send_queue_ != nullptr || !request_evd_) && (recv_queue_ != nullptr || !recv_evd_);
    const status answer = complete ? alloc_qp() : out_of_memory;
    has_qp_ = answer.ok();
    if (!has_qp_) {
        for (work_queue **queue : {&send_queue_, &recv_queue_})
            if (work_queue *unused = std::exchange(*queue, nullptr); unused != nullptr)
                unused->let_go();
        return answer;
    }
    if (send_queue_ != nullptr)
        max_request_iov_ = static_cast<std::uint32_t>(attr_.max_request_iov);
    if (recv_queue_ != nullptr)
        max_recv_iov_ = static_cast<std::uint32_t>(attr_.max_recv_iov);
    open_recvs();
    return success;
}

status endpoint::alloc_qp()
{
    const bool own_recvs = recv_evd_ && !shared_;
    const qp_params params{this,
                           own_recvs ? attr_.max_recv_dtos : 0,
                           request_evd_ ? attr_.max_request_dtos : 0,
                           attr_.max_recv_iov,
                           attr_.max_request_iov,
                           attr_.max_rdma_read_in,
                           attr_.max_rdma_read_out,
                           shared_ ? recv_queue_ : nullptr};
    transport::cq *recv_cq = recv_evd_ ? recv_evd_->cq() : nullptr;
    transport::cq *send_cq = request_evd_ ? request_evd_->cq() : nullptr;
    if (shared_)
        return transport::dapls_ib_qp_alloc_srq(zone_->pd, qp_, shared_->port_srq, recv_cq, send_cq,
                                                params);
    return transport::dapls_ib_qp_alloc(zone_->pd, qp_, recv_cq, send_cq, params);
}

void endpoint::detach_qp()
{
    if (!has_qp_)
        return;
    osd::lock_guard no_sends(send_lock_);
    osd::lock_guard no_recvs(recv_lock_);
    max_request_iov_ = max_recv_iov_ = 0;
    open_recvs_ = &closed_ring;
    quiesce();
    transport::dapls_ib_qp_free(qp_);
    ia->timers.cancel(failure_); // a last upcall may have armed it
    has_qp_ = false;
    trace_queues();
    orphan(send_queue_, request_evd_.get());
    orphan(recv_queue_, recv_evd_.get());
}

status endpoint::reset_qp()
{
    if (shared_) { // what it took from the SRQ and is not polled yet shall name nobody
        detach_qp();
        return attach_qp();
    }
    if (!has_qp_)
        return success;
    osd::lock_guard no_sends(send_lock_);
    osd::lock_guard no_recvs(recv_lock_);
    quiesce();
    spare_queue sends;
    spare_queue recvs;
    // Memory first: nothing undoes the port's reset.
    status answer = out_of_memory;
    if (prepare(sends, send_queue_) && prepare(recvs, recv_queue_))
        answer = transport::dapls_ib_qp_reset(qp_);
    ia->timers.cancel(failure_);
    if (answer.ok()) {
        trace_queues();
        renew(send_queue_, request_evd_.get(), std::move(sends));
        renew(recv_queue_, recv_evd_.get(), std::move(recvs));
        open_recvs();
    }
    own_queues(this);
    return answer;
}

/// Before a fence: no completion that fails and no timeout acts on the queue pair any more.
void endpoint::quiesce()
{
    own_queues(nullptr);
    ia->timers.cancel(connect_timeout_);
    ia->timers.cancel(failure_);
}

/// The completions of a queue without an owner are dropped.
void endpoint::own_queues(endpoint *owner)
{
    for (work_queue *queue : {send_queue_, recv_queue_}) {
        if (queue == nullptr)
            continue;
        osd::lock_guard hold(queue->owner_lock);
        queue->owner.store(owner);
    }
}

namespace {

/// What was posted last to a queue that is given up before all of it is known to be done.
void trace(endpoint &ep, const char *name, const work_queue *queue)
{
    constexpr DAT_COUNT most = 16;
    if (queue == nullptr || queue->idle())
        return;
    dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR,
             "EP %p: %s: %llu outstanding; the last that were posted:", to_handle(&ep), name,
             static_cast<unsigned long long>(queue->under_way()));
    const work_request *request = queue->next.load(std::memory_order_relaxed);
    for (DAT_COUNT left = std::min(most, queue->limit()); left != 0; --left)
        request = request->before;
    for (DAT_COUNT left = std::min(most, queue->limit()); left != 0; --left) {
        if (request->operation != never_posted)
            dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "EP %p: %s, %u bytes, cookie 0x%llx, %s",
                     to_handle(&ep), name_of(request->operation), request->length,
                     static_cast<unsigned long long>(request->cookie.as_64),
                     queue->is_under_way(*request) ? "not known to be done" : "done");
        request = request->after;
    }
}

/// A count only: the thread that posts may be at work on the requests themselves.
void trace_count(endpoint &ep, const char *name, const work_queue *queue, const evd &there)
{
    if (queue->idle())
        return;
    dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "a wait on EVD %p expired; EP %p: %s: %llu outstanding",
             static_cast<const void *>(&there), to_handle(&ep), name,
             static_cast<unsigned long long>(queue->under_way()));
}

} // namespace

/// Whose queues are being exchanged is left out: nothing of it is under way.
void endpoint::trace_outstanding(const evd &there)
{
    if (send_lock_.try_lock()) {
        if (send_queue_ != nullptr && request_evd_.get() == &there)
            trace_count(*this, "requests", send_queue_, there);
        send_lock_.unlock();
    }
    if (recv_lock_.try_lock()) {
        if (recv_queue_ != nullptr && recv_evd_.get() == &there)
            trace_count(*this, "receives", recv_queue_, there);
        recv_lock_.unlock();
    }
}

/// A queue to take the place of this one, if it is not idle. False when out of memory.
bool endpoint::prepare(spare_queue &spare, const work_queue *queue)
{
    if (queue == nullptr || queue->idle())
        return true;
    spare.reset(work_queue::create(nullptr, queue->limit()));
    return spare != nullptr;
}

void endpoint::trace_queues()
{
    if ((debug_mask & DAPL_DBG_TYPE_DTO_COMP_ERR) == 0)
        return;
    trace(*this, "requests", send_queue_);
    trace(*this, "receives", recv_queue_);
}

/// After a reset no completion of earlier operations may surface.
void endpoint::renew(work_queue *&queue, evd *completions, spare_queue &&spare)
{
    if (spare == nullptr)
        return;
    orphan(queue, completions);
    queue = spare.release();
}

/// The EVD may still poll completions of this queue: it takes the memory over.
void endpoint::orphan(work_queue *&queue, evd *completions)
{
    if (queue == nullptr)
        return;
    if (queue->is_named())
        completions->adopt(queue);
    else
        queue->let_go();
    queue = nullptr;
}

status endpoint::post_bind(binding &posted, transport::mw &window, const pz &zone,
                           DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    osd::lock_guard hold(send_lock_);
    const status checked = check_request(false, 0, nullptr, nullptr, flags, 8);
    if (!checked.ok())
        return checked;
    if (zone_.get() != &zone)
        return status::error(DAT_PROTECTION_VIOLATION);
    if (!request_evd_ || !request_evd_->takes(DAT_EVD_RMR_BIND_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    transport::wr *wr =
        send_queue_->make_room_for_bindings() ? next_request(DAT_DTO_BIND_MW, 0, cookie) : nullptr;
    if (wr == nullptr)
        return out_of_memory;
    posted.queue = send_queue_;
    posted.request = wr;
    send_queue_->hold();
    send_queue_->note_binding(*wr, &posted);
    const mw_params what{posted.part.virtual_address, posted.part.segment_length,
                         posted.privileges};
    transport::mr *region = posted.region ? &posted.region->mr : nullptr;
    const status answer =
        transport::dapls_ib_mw_bind(qp_, *wr, window, region, what, flags, posted.context);
    if (answer.ok())
        return success;
    (void)send_queue_->take_binding(*wr);
    send_queue_->let_go();
    return status(refused_request(qp_, answer));
}

// -------------------------------------------------------------------------------------- states

status endpoint::state_error() const
{
    static constexpr DAT_RETURN_SUBTYPE subtypes[] = {
        DAT_INVALID_STATE_EP_UNCONNECTED,     DAT_INVALID_STATE_EP_UNCONFIGURED,
        DAT_INVALID_STATE_EP_RESERVED,        DAT_INVALID_STATE_EP_UNCONFRESERVED,
        DAT_INVALID_STATE_EP_PASSCONNPENDING, DAT_INVALID_STATE_EP_UNCONFPASSIVE,
        DAT_INVALID_STATE_EP_ACTCONNPENDING,  DAT_INVALID_STATE_EP_TENTCONNPENDING,
        DAT_INVALID_STATE_EP_UNCONFTENTATIVE, DAT_INVALID_STATE_EP_CONNECTED,
        DAT_INVALID_STATE_EP_DISCPENDING,     DAT_INVALID_STATE_EP_DISCONNECTED,
        DAT_INVALID_STATE_EP_COMPLPENDING,
    };
    return status::error(DAT_INVALID_STATE, subtypes[state()]);
}

/// What else may be in the way of a request than what was seen: there is no queue pair, or no EVD
/// for requests.
status endpoint::unfit_or(status seen) const
{
    if (!has_qp_)
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY);
    return send_queue_ == nullptr ? out_of_memory : seen;
}

/// Or the endpoint has no receives of its own.
status endpoint::unfit_for_recvs_or(status seen) const
{
    if (shared_)
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    if (has_qp_)
        return recv_queue_ == nullptr ? out_of_memory : seen;
    return unfit_or(seen);
}

/// The ring that a receive goes to, if all is well.
void endpoint::open_recvs()
{
    open_recvs_ = max_recv_iov_ != 0 && !shared_ ? recv_queue_ : &closed_ring;
}

/// A request on its way finds its ring here or there.
void endpoint::set_state(DAT_EP_STATE next)
{
    const bool open = next == DAT_EP_STATE_CONNECTED && max_request_iov_ != 0;
    open_sends_.store(open ? send_queue_ : &closed_ring, std::memory_order_release);
    state_.store(next, std::memory_order_release);
}

/// What is wrong with a request, by the positions in the DAT calls: segments 2, local 3, remote 5
/// for RDMA, flags last.
status endpoint::check_request(bool rdma, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                               const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
                               int flags_position)
{
    if (static_cast<std::uint32_t>(segments) > max_request_iov_)
        return unfit_or(invalid_parameter(2));
    if (local == nullptr && segments != 0)
        return invalid_parameter(3);
    if (rdma && remote == nullptr)
        return invalid_parameter(5);
    if (has_unknown_flags(flags, request_flags))
        return invalid_parameter(flags_position);
    const DAT_EP_STATE now = state();
    const bool fit = now == DAT_EP_STATE_CONNECTED || (now == DAT_EP_STATE_DISCONNECTED && has_qp_);
    return fit ? success : state_error();
}

/// A filled work request, or null when as many as there are have been posted.
transport::wr *endpoint::next_request(DAT_DTOS operation, DAT_UINT64 length, DAT_DTO_COOKIE cookie)
{
    transport::wr *request = send_queue_ == nullptr ? nullptr : send_queue_->take_slowly();
    if (request != nullptr)
        fill(*request, operation, length, cookie);
    return request;
}

/// What the port said of a request; it is free again.
DAT_RETURN endpoint::refused_request(owned_qp &q, status answer)
{
    q.holder->send_queue_->put_back();
    return answer.code();
}

DAT_RETURN endpoint::refused_recv(owned_qp &q, status answer)
{
    q.holder->recv_queue_->put_back();
    return answer.code();
}

template <DAT_DTOS operation>
DAT_RETURN endpoint::post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                 const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                 DAT_COMPLETION_FLAGS flags)
{
    constexpr bool rdma = operation != DAT_DTO_SEND;
    const status checked = check_request(rdma, segments, local, remote, flags, rdma ? 6 : 5);
    if (!checked.ok())
        return checked.code();
    const DAT_UINT64 length = total_length(segments, local);
    if (length > UINT32_MAX || !fits<operation>(length, remote))
        return status::error(DAT_LENGTH_ERROR).code();
    transport::wr *request = next_request(operation, length, cookie);
    if (request == nullptr)
        return out_of_memory.code();
    return post_filled<operation>(*request, segments, local, remote, flags);
}

#define POSTS_SLOWLY(operation)                                                                    \
    template DAT_RETURN endpoint::post_slowly<operation>(DAT_COUNT, const DAT_LMR_TRIPLET *,       \
                                                         const DAT_RMR_TRIPLET *, DAT_DTO_COOKIE,  \
                                                         DAT_COMPLETION_FLAGS);
POSTS_SLOWLY(DAT_DTO_SEND)
POSTS_SLOWLY(DAT_DTO_RDMA_WRITE)
POSTS_SLOWLY(DAT_DTO_RDMA_READ)
#undef POSTS_SLOWLY

DAT_RETURN endpoint::post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                      DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    if (static_cast<std::uint32_t>(segments) > max_recv_iov_)
        return unfit_for_recvs_or(invalid_parameter(2)).code();
    if (local == nullptr && segments != 0)
        return invalid_parameter(3).code();
    if (has_unknown_flags(flags, recv_flags))
        return invalid_parameter(5).code();
    transport::wr *request = recv_queue_ == nullptr ? nullptr : recv_queue_->take_slowly();
    if (request == nullptr)
        return unfit_for_recvs_or(out_of_memory).code();
    fill(*request, DAT_DTO_RECEIVE, total_length(segments, local), cookie);
    return post_filled_recv(*request, segments, local);
}

bool endpoint::change_state(DAT_EP_STATE from, DAT_EP_STATE to)
{
    osd::lock_guard hold(lock_);
    if (state() != from)
        return false;
    set_state(to);
    return true;
}

void endpoint::note_peer(const DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier)
{
    peer_known_ = remote_address_.assign(address);
    remote_qualifier_ = qualifier;
}

// ---------------------------------------------------------------------------------- connecting

bool endpoint::has_connect_evd()
{
    osd::lock_guard hold(lock_);
    return static_cast<bool>(connect_evd_);
}

status endpoint::ready_to_connect()
{
    const bool complete = has_qp_ && has_connect_evd() && (recv_evd_ || attr_.max_recv_dtos == 0) &&
                          (request_evd_ || attr_.max_request_dtos == 0);
    return complete ? success : status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY);
}

/// What became of a connection. It is told when no lock is held, because the consumer's code may
/// run then, and may free the endpoint.
struct endpoint::news {
    user_of<evd> target; ///< stays while it is told, whatever becomes of ours
    bool stored = false;
    bool connection_ended = false;
};

status endpoint::connect(const connect_request &wanted)
{
    if (!has_connect_evd())
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    news outcome;
    const status begun = begin_connect(wanted, outcome);
    tell(outcome);
    return begun;
}

status endpoint::begin_connect(const connect_request &wanted, news &outcome)
{
    osd::lock_guard hold(control_);
    if (state() != DAT_EP_STATE_UNCONNECTED)
        return state_error();
    if (const status ready = ready_to_connect(); !ready.ok())
        return ready;
    {
        osd::lock_guard state_hold(lock_);
        note_peer(wanted.address, wanted.qualifier);
        if (!peer_known_)
            return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
        set_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    }
    const osd::deadline until = deadline_of(wanted.timeout_us);
    const connect_params params{wanted.address, wanted.qualifier, wanted.timeout_us, wanted.data};
    const status begun = transport::dapls_ib_connect(qp_, params);
    if (begun.ok()) {
        start_timer(until);
        return success;
    }
    if (begun == status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
        (void)note(DAT_CONNECTION_EVENT_UNREACHABLE, {}, outcome);
        return success; // remote outcomes come as events
    }
    change_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, DAT_EP_STATE_UNCONNECTED);
    return begun;
}

/// Once the port has begun the attempt: what abandons it shall find it there. The attempt may be
/// over by now.
void endpoint::start_timer(osd::deadline until)
{
    if (until.is_never())
        return;
    if (!ia->timers.arm(connect_timeout_, until))
        dapl_log(DAPL_DBG_TYPE_WARN, "EP %p: no thread for the connect timeout; it will not expire",
                 to_handle(this));
    if (state() != DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
        ia->timers.disarm(connect_timeout_);
}

status endpoint::connect_like(endpoint &model, DAT_TIMEOUT timeout_us, const private_data &data)
{
    osd::address address;
    DAT_CONN_QUAL qualifier = 0;
    {
        osd::lock_guard hold(model.lock_);
        if (model.state() != DAT_EP_STATE_CONNECTED || !model.peer_known_)
            return model.state_error();
        address = model.remote_address_;
        qualifier = model.remote_qualifier_;
    }
    return connect({address.get(), qualifier, timeout_us, data});
}

deferred_call endpoint::connect_timed_out()
{
    news outcome;
    return end_from_above(DAT_CONNECTION_EVENT_TIMED_OUT, outcome)
               ? notify_later(std::move(outcome.target), outcome.stored)
               : deferred_call{};
}

/// For the timer thread. An event that found no room is reported on the async EVD instead.
deferred_call endpoint::notify_later(user_of<evd> &&target, bool stored)
{
    if (!stored) {
        announce(target.get(), false);
        return {};
    }
    target->pin();
    return {[](void *pinned) {
                evd &events = *static_cast<evd *>(pinned);
                events.notify();
                events.unpin();
            },
            std::exchange(target, {}).get()};
}

status endpoint::accept(const incoming_request &request, const private_data &data)
{
    osd::lock_guard hold(control_);
    const DAT_EP_STATE before = state();
    const bool waits_for_it =
        request.reserves_endpoint && (before == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
                                      before == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    if (!waits_for_it && before != DAT_EP_STATE_UNCONNECTED)
        return state_error();
    if (const status ready = ready_to_connect(); !ready.ok())
        return ready;
    {
        osd::lock_guard state_hold(lock_);
        note_peer(request.peer, request.peer_port);
        set_state(DAT_EP_STATE_COMPLETION_PENDING);
    }
    const status accepted = transport::dapls_ib_accept_connection(request.port_cr, qp_, data);
    if (!accepted.ok())
        change_state(DAT_EP_STATE_COMPLETION_PENDING, before);
    return accepted;
}

// ------------------------------------------------------------------------------- disconnecting

status endpoint::disconnect(DAT_CLOSE_FLAGS how)
{
    news outcome;
    const status parted = part(how, outcome);
    tell(outcome);
    return parted;
}

status endpoint::part(DAT_CLOSE_FLAGS how, news &outcome)
{
    osd::lock_guard hold(control_);
    DAT_EP_STATE before{};
    {
        osd::lock_guard state_hold(lock_);
        before = state();
        if (before == DAT_EP_STATE_CONNECTED)
            set_state(DAT_EP_STATE_DISCONNECT_PENDING);
    }
    switch (before) {
    case DAT_EP_STATE_UNCONNECTED:
        return flush_receives();
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
    case DAT_EP_STATE_COMPLETION_PENDING:
        transport::dapls_ib_disconnect_clean(qp_);
        (void)note(DAT_CONNECTION_EVENT_DISCONNECTED, {}, outcome);
        return success;
    case DAT_EP_STATE_DISCONNECT_PENDING:
        if (how == DAT_CLOSE_ABRUPT_FLAG)
            transport::dapls_ib_disconnect(qp_, how);
        return success;
    case DAT_EP_STATE_CONNECTED:
        transport::dapls_ib_disconnect(qp_, how);
        return success;
    case DAT_EP_STATE_DISCONNECTED:
        return success;
    default:
        return state_error();
    }
}

/// What was posted comes back, and the endpoint is as new.
status endpoint::flush_receives()
{
    if (!has_qp_ || shared_ || recv_idle())
        return success;
    osd::lock_guard no_sends(send_lock_);
    osd::lock_guard no_recvs(recv_lock_);
    transport::dapls_ib_disconnect_clean(qp_);
    const status renewed = transport::dapls_ib_qp_reset(qp_);
    if (!renewed.ok()) // dat_ep_reset tries again
        change_state(DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_DISCONNECTED);
    return renewed;
}

status endpoint::reset()
{
    osd::lock_guard hold(control_);
    if (state() == DAT_EP_STATE_UNCONNECTED)
        return success;
    if (state() != DAT_EP_STATE_DISCONNECTED)
        return state_error();
    if (const status clean = reset_qp(); !clean.ok())
        return clean;
    osd::lock_guard state_hold(lock_);
    peer_known_ = false;
    set_state(DAT_EP_STATE_UNCONNECTED);
    return success;
}

void endpoint::shut_down()
{
    osd::lock_guard hold(control_);
    {
        osd::lock_guard state_hold(lock_);
        set_state(DAT_EP_STATE_DISCONNECTED);
    }
    detach_qp();
}

// ---------------------------------------------------------------------------------- from below

/// Which events end which states. False for one that comes too late to matter.
bool endpoint::enter_state_after(DAT_EVENT_NUMBER event, const private_data &data)
{
    const DAT_EP_STATE now = state();
    const bool connecting = now == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING;
    const bool accepting = now == DAT_EP_STATE_COMPLETION_PENDING;
    const bool connected = now == DAT_EP_STATE_CONNECTED || now == DAT_EP_STATE_DISCONNECT_PENDING;
    bool valid = false;
    DAT_EP_STATE next = DAT_EP_STATE_DISCONNECTED;
    switch (event) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        valid = connecting || accepting;
        next = DAT_EP_STATE_CONNECTED;
        break;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_TIMED_OUT:
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        valid = connecting;
        break;
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
        valid = accepting;
        break;
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        valid = connected || connecting || accepting;
        break;
    case DAT_CONNECTION_EVENT_BROKEN:
        valid = connected;
        break;
    default:
        break;
    }
    if (!valid)
        return false;
    if (data.size != 0)
        std::memcpy(peer_data_, data.bytes, std::min(data.size, sizeof peer_data_));
    set_state(next);
    return true;
}

bool endpoint::store_event(evd *target, DAT_EVENT_NUMBER number, const private_data &data)
{
    if (target == nullptr)
        return false;
    DAT_EVENT event{};
    event.event_number = number;
    event.evd_handle = to_handle(target);
    auto &what = event.event_data.connect_event_data;
    what.ep_handle = to_handle(this);
    what.private_data_size = static_cast<DAT_COUNT>(std::min(data.size, sizeof peer_data_));
    what.private_data = data.size == 0 ? nullptr : peer_data_;
    return target->store(event);
}

/// Changes the state and stores the event; one that comes too late is dropped.
bool endpoint::note(DAT_EVENT_NUMBER event, const private_data &data, news &made)
{
    osd::lock_guard hold(lock_);
    const DAT_EP_STATE before = state();
    if (!enter_state_after(event, data)) {
        dapl_log(DAPL_DBG_TYPE_CM, "EP %p: connection event %s in state %s is dropped",
                 to_handle(this), name_of(event), name_of(before));
        return false;
    }
    made.connection_ended =
        shared_ && (before == DAT_EP_STATE_CONNECTED || before == DAT_EP_STATE_DISCONNECT_PENDING);
    made.target = user_of<evd>(connect_evd_.get());
    made.stored = store_event(made.target.get(), event, data);
    return true;
}

void endpoint::tell(const news &noted)
{
    announce(noted.target.get(), noted.stored);
    if (noted.connection_ended)
        last_receive_taken();
}

/// Consumers wait for this before they free an endpoint that draws from an SRQ: from now on it
/// takes no receive.
void endpoint::last_receive_taken()
{
    async_error(*ia, DAT_ASYNC_ERROR_EP_BROKEN, to_handle(this), DAT_EP_TRANSFER_TO_ERROR);
}

void endpoint::announce(evd *target, bool stored)
{
    if (target == nullptr)
        return;
    if (stored)
        target->notify();
    else
        async_overflow(*ia, *target);
}

void endpoint::forget_connect_evd_of(const adapter &closing)
{
    user_of<evd> gone;
    osd::lock_guard hold(lock_);
    if (connect_evd_ && connect_evd_->ia == &closing)
        std::swap(connect_evd_, gone);
}

bool endpoint::awaits_establish_on(const evd &events)
{
    osd::lock_guard hold(lock_);
    const DAT_EP_STATE now = state();
    return connect_evd_.get() == &events && (now == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING ||
                                             now == DAT_EP_STATE_COMPLETION_PENDING);
}

void endpoint::connection_changed(DAT_EVENT_NUMBER event, const private_data &data)
{
    dapl_log(DAPL_DBG_TYPE_CALLBACK, "EP %p: connection event %s", to_handle(this), name_of(event));
    ia->timers.disarm(connect_timeout_);
    news outcome;
    if (note(event, data, outcome))
        tell(outcome);
}

/// An end that the port has not told of. False when the connection has ended already.
bool endpoint::end_from_above(DAT_EVENT_NUMBER event, news &made)
{
    {
        osd::lock_guard hold(lock_);
        if (!enter_state_after(event, {}))
            return false;
    }
    transport::dapls_ib_disconnect_clean(qp_); // what has come by then comes before the event
    osd::lock_guard hold(lock_);
    made.target = user_of<evd>(connect_evd_.get());
    made.stored = store_event(made.target.get(), event, {});
    return true;
}

void endpoint::operation_failed()
{
    news outcome;
    if (!end_from_above(DAT_CONNECTION_EVENT_BROKEN, outcome))
        return;
    {
        osd::lock_guard hold(lock_);
        failure_stored_ = outcome.stored;
    }
    if (!ia->timers.arm(failure_, osd::deadline::passed()))
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "EP %p: cannot start the timer thread; a waiter on the connect EVD misses BROKEN",
                 to_handle(this));
}

void operation_failed(endpoint &ep)
{
    ep.operation_failed();
}

bool awaits_establish_on(endpoint &ep, const evd &events)
{
    return ep.awaits_establish_on(events);
}

deferred_call endpoint::announce_failure()
{
    user_of<evd> target;
    bool stored = false;
    {
        osd::lock_guard hold(lock_);
        target = user_of<evd>(connect_evd_.get());
        stored = failure_stored_;
    }
    if (shared_)
        last_receive_taken();
    return notify_later(std::move(target), stored);
}

// ----------------------------------------------------------------------------------- attributes

ep_objects endpoint::objects()
{
    osd::lock_guard hold(lock_);
    return {zone_.get(), recv_evd_.get(), request_evd_.get(), connect_evd_.get(), shared_.get()};
}

namespace {

/// Whether a queue pair made for the one serves the other.
bool same_qp(const DAT_EP_ATTR &a, const ep_objects &with_a, const DAT_EP_ATTR &b,
             const ep_objects &with_b)
{
    return with_a.zone == with_b.zone && with_a.recv == with_b.recv &&
           with_a.request == with_b.request && a.max_recv_dtos == b.max_recv_dtos &&
           a.max_request_dtos == b.max_request_dtos && a.max_recv_iov == b.max_recv_iov &&
           a.max_request_iov == b.max_request_iov && a.max_rdma_read_in == b.max_rdma_read_in &&
           a.max_rdma_read_out == b.max_rdma_read_out;
}

} // namespace

status endpoint::modify(const DAT_EP_ATTR &attr, const ep_objects &objects, bool zone_changes)
{
    osd::lock_guard hold(control_);
    const DAT_EP_STATE now = state();
    const bool open = now == DAT_EP_STATE_UNCONNECTED ||
                      now == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
                      (now == DAT_EP_STATE_RESERVED && !zone_changes);
    if (!open)
        return state_error();
    const DAT_EP_ATTR old_attr = attr_;
    const ep_objects old = this->objects();
    if (has_qp_ && same_qp(old_attr, old, attr, objects)) {
        add_notify_overrides(-1);
        osd::lock_guard state_hold(lock_);
        attr_ = attr;
        connect_evd_ = user_of<evd>(objects.connect);
        add_notify_overrides(1);
        return success;
    }
    if (!recv_idle()) // the queue pair is made anew; posted receives would be lost
        return state_error();
    user_of<evd> keep_recv(old.recv),
        keep_request(old.request); // they adopt the old queues
    const auto take_over = [this](const DAT_EP_ATTR &a, const ep_objects &o) {
        add_notify_overrides(-1);
        attr_ = a;
        zone_ = user_of<pz>(o.zone);
        recv_evd_ = user_of<evd>(o.recv);
        request_evd_ = user_of<evd>(o.request);
        add_notify_overrides(1);
        {
            osd::lock_guard state_hold(lock_);
            connect_evd_ = user_of<evd>(o.connect);
        }
        return attach_qp();
    };
    detach_qp();
    const status modified = take_over(attr, objects);
    if (!modified.ok() && !take_over(old_attr, old).ok())
        dapl_log(DAPL_DBG_TYPE_ERR, "EP %p lost its queue pair", to_handle(this));
    return modified;
}

void endpoint::fill(DAT_EP_PARAM &out)
{
    osd::lock_guard steady(control_);
    out = {};
    out.ia_handle = ia->consumer_handle();
    out.local_ia_address_ptr = const_cast<DAT_SOCK_ADDR *>(ia->attr.address);
    out.pz_handle = zone_ ? to_handle(zone_.get()) : DAT_HANDLE_NULL;
    out.recv_evd_handle = recv_evd_ ? to_handle(recv_evd_.get()) : DAT_HANDLE_NULL;
    out.request_evd_handle = request_evd_ ? to_handle(request_evd_.get()) : DAT_HANDLE_NULL;
    out.ep_attr = attr_;
    out.srq_handle = shared_ ? to_handle(shared_.get()) : DAT_HANDLE_NULL;
    osd::lock_guard hold(lock_);
    out.connect_evd_handle = connect_evd_ ? to_handle(connect_evd_.get()) : DAT_HANDLE_NULL;
    out.ep_state = state();
    if (peer_known_) {
        out.remote_ia_address_ptr = remote_address_.get();
        out.remote_port_qual = remote_qualifier_;
    }
}

DAT_EP_ATTR default_ep_attr(const hca_attr &limits)
{
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = limits.max_message_size;
    attr.max_rdma_size = limits.max_rdma_size;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.max_recv_dtos = std::min(16, limits.max_dto_per_ep);
    attr.max_request_dtos = attr.max_recv_dtos;
    attr.max_recv_iov = std::min(4, limits.max_iov_per_dto);
    attr.max_request_iov = attr.max_recv_iov;
    attr.max_rdma_read_in = std::min(4, limits.max_rdma_read_per_ep_in);
    attr.max_rdma_read_out = std::min(4, limits.max_rdma_read_per_ep_out);
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    attr.max_rdma_read_iov = limits.max_iov_per_rdma_read;
    attr.max_rdma_write_iov = limits.max_iov_per_rdma_write;
    return attr;
}

} // namespace dapl::DAPL_TRANSPORT::core
