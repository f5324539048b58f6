// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "endpoint.hpp"

#include "adapter.hpp"
#include "async_events.hpp"
#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "osd_system.hpp"
#include "queue_owner.hpp"
#include "timer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Why the attempt of this endpoint to connect has failed; null if it has not, or if the peer's
/// consumer wanted that.
const char *why_unconnected(DAT_EVENT_NUMBER event)
{
    switch (event) {
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return "nobody listens there, or the provider there refuses";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return "there is no way to it from this adapter's address";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return "there is no answer in time";
    default:
        return nullptr;
    }
}

void log_unconnected(endpoint &ep, const osd::address &to, DAT_CONN_QUAL qualifier,
                     DAT_EVENT_NUMBER event)
{
    const char *const why = why_unconnected(event);
    std::uint32_t left_out = 0;
    if (why == nullptr || !shows(DAPL_DBG_TYPE_ERR) ||
        !ep.ia->unconnected_lines.allows(osd::now_ns(), left_out))
        return;
    char more[64] = "";
    if (left_out != 0)
        std::snprintf(more, sizeof more, "; %u more such lines were left out", left_out);
    dapl_log(DAPL_DBG_TYPE_ERR, "EP %p: no connection to %s: %s (%s)%s", to_handle(&ep),
             osd::address_text(to.get(), qualifier).get(), why, dat::event_name(event), more);
}

/// A port that refuses an address, since it is of another family, says no more than that.
void log_refused_address(endpoint &ep, const DAT_SOCK_ADDR *to)
{
    const auto name = [](int family) {
        return family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "neither IPv4 nor IPv6";
    };
    const DAT_SOCK_ADDR *const own = ep.ia->attr.address;
    if (own != nullptr && own->sa_family != to->sa_family)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "EP %p: an address that is %s is refused, this adapter is %s; the option family "
                 "in its line of dat.conf decides that",
                 to_handle(&ep), name(to->sa_family), name(own->sa_family));
}

/// What the device gave to an endpoint that asked for these attributes.
qp_attr ask_device(transport::qp &qp, const DAT_EP_ATTR &asked)
{
    qp_attr out;
    out.max_recv = asked.max_recv_dtos;
    out.max_send = asked.max_request_dtos;
    out.max_recv_iov = asked.max_recv_iov;
    out.max_send_iov = asked.max_request_iov;
    out.max_rdma_read_in = asked.max_rdma_read_in;
    out.max_rdma_read_out = asked.max_rdma_read_out;
    out.qos = asked.qos;
    transport::dapls_ib_qp_query(qp, out);
    return out;
}

void show_agreed(transport::qp &qp, DAT_EP_ATTR &attr)
{
    const qp_attr device = ask_device(qp, attr);
    attr.max_rdma_read_in = device.max_rdma_read_in;
    attr.max_rdma_read_out = device.max_rdma_read_out;
    attr.qos = device.qos;
}

void log_established(endpoint &ep, transport::qp &qp, const DAT_EP_ATTR &asked)
{
    if (!claims.qp_query || !shows(DAPL_DBG_TYPE_EP))
        return;
    const qp_attr device = ask_device(qp, asked);
    dapl_log(DAPL_DBG_TYPE_EP,
             "EP %p: queue pair 0x%x has %d receives of %d segments, %d requests of %d, %u bytes "
             "inline; RDMA reads: %d in, %d out; quality of service 0x%x",
             to_handle(&ep), device.number, device.max_recv, device.max_recv_iov, device.max_send,
             device.max_send_iov, device.max_inline, device.max_rdma_read_in,
             device.max_rdma_read_out, static_cast<unsigned>(device.qos));
}

} // namespace

endpoint::endpoint(const DAT_PROVIDER *vector, adapter &owner, const DAT_EP_ATTR &attr,
                   const ep_objects &objects, DAT_EP_STATE first)
    : queue_pair(vector, owner, *this, attr, objects, first), connect_evd_(objects.connect)
{
    owner.count_in_sum(counters);
    if (attr.srq_soft_hw > 0)
        soft_watermark_ = attr.srq_soft_hw;
    connect_timeout_.ep = failure_.ep = this;
    connect_timeout_.expired = [](timer_record &record) {
        return static_cast<timer &>(record).ep->connect_timed_out();
    };
    failure_.expired = [](timer_record &record) {
        return static_cast<timer &>(record).ep->report_failure();
    };
}

status endpoint::set_up()
{
    osd::lock_guard hold(control_);
    const status attached = attach();
    dapl_log(DAPL_DBG_TYPE_EP, "EP %p: %s in state %s; EVDs: recv %p, request %p, connect %p",
             to_handle(this), attached.ok() ? "created" : "not created",
             dat::ep_state_name(state()), to_handle(objects().recv), to_handle(objects().request),
             to_handle(objects().connect));
    return attached;
}

void endpoint::set_state(DAT_EP_STATE next)
{
    dapl_log(DAPL_DBG_TYPE_EP, "EP %p: %s, was %s", to_handle(this), dat::ep_state_name(next),
             dat::ep_state_name(state()));
    enter_state(next);
}

bool endpoint::change_state(DAT_EP_STATE from, DAT_EP_STATE to)
{
    osd::lock_guard hold(lock_);
    if (state() != from)
        return false;
    set_state(to);
    attempt_.end();
    return true;
}

void endpoint::remember_peer(const DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier)
{
    peer_known_ = remote_address_.assign(address);
    remote_qualifier_ = qualifier;
}

// ---------------------------------------------------------------------------------- connecting

status endpoint::ready_to_connect()
{
    const bool complete = has_qp_ && objects().connect != nullptr &&
                          (recv_evd_ || attr_.max_recv_dtos == 0) &&
                          (request_evd_ || attr_.max_request_dtos == 0);
    return complete ? success : status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY);
}

/// An event that was stored and is to be delivered when no lock is held.
struct endpoint::pending_event {
    user_of<evd> target; ///< a reference of its own: the consumer may change connect_evd_
    bool stored = false;
    bool connection_ended = false;
};

status endpoint::connect(const connect_request &wanted)
{
    if (objects().connect == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    pending_event outcome;
    const status begun = begin_connect(wanted, outcome);
    deliver(outcome);
    return begun;
}

status endpoint::begin_connect(const connect_request &wanted, pending_event &outcome)
{
    osd::lock_guard hold(control_);
    if (state() != DAT_EP_STATE_UNCONNECTED)
        return state_error();
    if (const status ready = ready_to_connect(); !ready.ok())
        return ready;
    const osd::deadline until = deadline_of(wanted.timeout_us);
    if (!until.is_never() && !ia->timers.start()) {
        dapl_log(DAPL_DBG_TYPE_ERR, "EP %p: no thread for the connect timeout%s", to_handle(this),
                 osd::limit_text(EAGAIN).text);
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    }
    {
        osd::lock_guard state_hold(lock_);
        remember_peer(wanted.address, wanted.qualifier);
        if (!peer_known_) {
            log_refused_address(*this, wanted.address);
            return status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED);
        }
        attempt_.begin(connect_evd_ ? &connect_evd_->establishing : nullptr);
        set_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    }
    const connect_params params{wanted.address, wanted.qualifier, wanted.timeout_us, wanted.data,
                                wanted.qos};
    const status begun = transport::dapls_ib_connect(qp_, params);
    if (begun.ok()) {
        start_timer(until);
        return success;
    }
    if (begun == status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
        transport::dapls_ib_disconnect_clean(qp_);
        (void)transition(DAT_CONNECTION_EVENT_UNREACHABLE, {}, outcome);
        return success; // remote outcomes come as events
    }
    if (begun.type() == DAT_INVALID_ADDRESS)
        log_refused_address(*this, wanted.address);
    change_state(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, DAT_EP_STATE_UNCONNECTED);
    return begun;
}

/// Called when the port has begun the attempt, which may be over by now: a timeout must find the
/// attempt there.
void endpoint::start_timer(osd::deadline until)
{
    if (until.is_never())
        return;
    (void)ia->timers.arm(connect_timeout_, until); // its thread runs
    if (state() != DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
        ia->timers.disarm(connect_timeout_);
}

status endpoint::connect_like(endpoint &model, DAT_TIMEOUT timeout_us, const private_data &data,
                              DAT_QOS qos)
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
    return connect({address.get(), qualifier, timeout_us, data, qos});
}

namespace {

/// The EVD to notify: the target if the event found room there, otherwise the async EVD, in which
/// the overflow is stored.
user_of<evd> to_notify(adapter &ia, user_of<evd> &&target, bool stored)
{
    if (target && !stored)
        return store_async_overflow(ia, *target.get());
    return std::move(target);
}

void *referenced(const user_of<evd> &events)
{
    if (events)
        events->begin_reference();
    return events.get();
}

void notify_referenced(void *events)
{
    if (events == nullptr)
        return;
    static_cast<evd *>(events)->notify();
    static_cast<evd *>(events)->end_reference();
}

/// Notifies EVDs in which events are stored, once no lock is held: a proxy agent may run.
deferred_call notify_later(const user_of<evd> &one, const user_of<evd> &other)
{
    return {[](void *first, void *second) {
                notify_referenced(first);
                notify_referenced(second);
            },
            referenced(one), referenced(other)};
}

/// Consumers wait for this event before they free an endpoint that takes receives from an SRQ: it
/// takes no more.
user_of<evd> store_last_receive(endpoint &ep)
{
    return store_async_error(*ep.ia, DAT_ASYNC_ERROR_EP_BROKEN, to_handle(&ep),
                             DAT_EP_TRANSFER_TO_ERROR);
}

} // namespace

deferred_call notify_later(adapter &ia, user_of<evd> &&target, bool stored)
{
    return notify_later(to_notify(ia, std::move(target), stored), {});
}

deferred_call endpoint::connect_timed_out()
{
    pending_event outcome;
    if (!fail_locally(DAT_CONNECTION_EVENT_TIMED_OUT, outcome))
        return {};
    return notify_later(*ia, std::move(outcome.target), outcome.stored);
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
        remember_peer(request.peer, request.peer_port);
        attempt_.begin(connect_evd_ ? &connect_evd_->establishing : nullptr);
        set_state(DAT_EP_STATE_COMPLETION_PENDING);
    }
    const status accepted = transport::dapls_ib_accept_connection(request.port_cr, qp_, data);
    if (!accepted.ok())
        change_state(DAT_EP_STATE_COMPLETION_PENDING, before);
    return accepted;
}

// ------------------------------------------------------------------------------- disconnecting

status endpoint::disconnect(DAT_CLOSE_FLAGS flags)
{
    pending_event outcome;
    const status ended = disconnect_locked(flags, outcome);
    deliver(outcome);
    return ended;
}

/// Programs wait for the answer to their disconnect, and for nothing else. So it is DISCONNECTED
/// also where the connection failed, or has failed without their knowledge. Returns the state
/// before.
DAT_EP_STATE endpoint::ask_for_end()
{
    osd::lock_guard hold(lock_);
    const DAT_EP_STATE before = state();
    if (before == DAT_EP_STATE_CONNECTED)
        set_state(DAT_EP_STATE_DISCONNECT_PENDING);
    end_asked_ |= before == DAT_EP_STATE_CONNECTED || before == DAT_EP_STATE_DISCONNECTED;
    if (std::exchange(broken_stored_, false) && connect_evd_)
        connect_evd_->end_as_asked(to_handle(this));
    return before;
}

status endpoint::disconnect_locked(DAT_CLOSE_FLAGS flags, pending_event &outcome)
{
    osd::lock_guard hold(control_);
    switch (ask_for_end()) {
    case DAT_EP_STATE_UNCONNECTED:
        return flush_unconnected();
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
    case DAT_EP_STATE_COMPLETION_PENDING:
        transport::dapls_ib_disconnect_clean(qp_);
        (void)transition(DAT_CONNECTION_EVENT_DISCONNECTED, {}, outcome);
        return success;
    case DAT_EP_STATE_DISCONNECT_PENDING:
        if (flags == DAT_CLOSE_ABRUPT_FLAG)
            transport::dapls_ib_disconnect(qp_, flags);
        return success;
    case DAT_EP_STATE_CONNECTED:
        transport::dapls_ib_disconnect(qp_, flags);
        return success;
    case DAT_EP_STATE_DISCONNECTED:
        return success;
    default:
        return state_error();
    }
}

status endpoint::flush_unconnected()
{
    const status flushed = flush_receives();
    if (!flushed.ok()) // dat_ep_reset tries again
        change_state(DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_DISCONNECTED);
    return flushed;
}

status endpoint::reset()
{
    deferred_call report; // another thread may free the endpoint when the locks are released
    {
        osd::lock_guard hold(control_);
        if (state() == DAT_EP_STATE_UNCONNECTED)
            return success;
        if (state() != DAT_EP_STATE_DISCONNECTED)
            return state_error();
        if (const status clean = renew(); !clean.ok())
            return clean;
        report = report_failure();
        osd::lock_guard state_hold(lock_);
        peer_known_ = end_asked_ = broken_stored_ = false;
        set_state(DAT_EP_STATE_UNCONNECTED);
    }
    report.make();
    return success;
}

void endpoint::shut_down()
{
    osd::lock_guard hold(control_);
    {
        osd::lock_guard state_hold(lock_);
        set_state(DAT_EP_STATE_DISCONNECTED);
        attempt_.end();
    }
    datagrams.end();
    detach();
}

// ---------------------------------------------------------------------------------- from below

/// Enters the state that follows the event. False if the event does not fit the present state: it
/// is late, and is dropped. The port has made the event, or has ended the attempt, if it knows.
bool endpoint::enter_state_after(DAT_EVENT_NUMBER event, const private_data &data, bool port_knows)
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
    if (connecting)
        log_unconnected(*this, remote_address_, remote_qualifier_, event);
    if (next != DAT_EP_STATE_CONNECTED && event != DAT_CONNECTION_EVENT_DISCONNECTED &&
        why_unconnected(event) == nullptr) // what has a reason was an error above
        dapl_log(DAPL_DBG_TYPE_EXCEPTION, "EP %p: %s in state %s", to_handle(this),
                 dat::event_name(event), dat::ep_state_name(now));
    if (data.size != 0)
        std::memcpy(peer_data_, data.bytes, std::min(data.size, sizeof peer_data_));
    if (port_knows)
        usable_ = true;
    set_state(next);
    return true;
}

bool endpoint::store_event(evd *target, DAT_EVENT_NUMBER number, const private_data &data)
{
    if (target == nullptr)
        return false;
    DAT_EVENT event{};
    event.event_number = number == DAT_CONNECTION_EVENT_BROKEN && end_asked_
                             ? DAT_CONNECTION_EVENT_DISCONNECTED
                             : number;
    event.evd_handle = to_handle(target);
    auto &connect_data = event.event_data.connect_event_data;
    connect_data.ep_handle = to_handle(this);
    connect_data.private_data_size = static_cast<DAT_COUNT>(std::min(data.size, sizeof peer_data_));
    connect_data.private_data = data.size == 0 ? nullptr : peer_data_;
    const bool stored = target->store(event);
    if (!stored)
        dapl_log(DAPL_DBG_TYPE_EVD, "EVD %p: %s of EP %p is lost, it is full: %d events",
                 to_handle(target), dat::event_name(event.event_number), to_handle(this),
                 target->qlen());
    broken_stored_ = stored && event.event_number == DAT_CONNECTION_EVENT_BROKEN;
    return stored;
}

/// Changes the state and stores the event. False when the event comes too late and is dropped.
bool endpoint::transition(DAT_EVENT_NUMBER event, const private_data &data, pending_event &made)
{
    osd::lock_guard hold(lock_);
    const DAT_EP_STATE before = state();
    if (!enter_state_after(event, data, true)) {
        dapl_log(DAPL_DBG_TYPE_CM, "EP %p: connection event %s in state %s is dropped",
                 to_handle(this), dat::event_name(event), dat::ep_state_name(before));
        return false;
    }
    made.connection_ended =
        shared_ && (before == DAT_EP_STATE_CONNECTED || before == DAT_EP_STATE_DISCONNECT_PENDING);
    made.target = user_of<evd>(connect_evd_.get());
    made.stored = store_event(made.target.get(), event, data);
    attempt_.end();
    return true;
}

void endpoint::deliver(const pending_event &made)
{
    notify_or_report_overflow(made.target.get(), made.stored);
    if (!made.connection_ended)
        return;
    if (const user_of<evd> target = store_last_receive(*this))
        target->notify();
}

void endpoint::notify_or_report_overflow(evd *target, bool stored)
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
    if (connect_evd_ && connect_evd_->ia == &closing) {
        attempt_.end();
        std::swap(connect_evd_, gone);
    }
    if (failure_target_ && failure_target_->ia == &closing)
        failure_target_ = {};
}

bool endpoint::awaits_establish_on(const evd &events)
{
    osd::lock_guard hold(lock_);
    return attempt_.is_counted_in(events.establishing);
}

void endpoint::connection_changed(DAT_EVENT_NUMBER event, const private_data &data)
{
    dapl_log(DAPL_DBG_TYPE_CALLBACK, "EP %p: connection event %s", to_handle(this),
             dat::event_name(event));
    ia->timers.disarm(connect_timeout_);
    if (event == DAT_CONNECTION_EVENT_ESTABLISHED)
        log_established(*this, qp_, attr_);
    pending_event outcome;
    if (transition(event, data, outcome))
        deliver(outcome);
}

/// Ends the connection on behalf of the endpoint, not of the port. False when it has ended already.
bool endpoint::fail_locally(DAT_EVENT_NUMBER event, pending_event &made)
{
    {
        osd::lock_guard hold(lock_);
        if (!enter_state_after(event, {}, false))
            return false;
        attempt_.end(); // what completed need not wait for the end of the connection
        cleaning_ = true;
    }
    transport::dapls_ib_disconnect_clean(qp_); // what completed by then comes before the event
    osd::lock_guard hold(lock_);
    usable_ = true;
    cleaning_ = false;
    cleaned_.broadcast();
    made.target = user_of<evd>(connect_evd_.get());
    made.stored = store_event(made.target.get(), event, {});
    return true;
}

void endpoint::operation_failed()
{
    pending_event outcome;
    if (!fail_locally(DAT_CONNECTION_EVENT_BROKEN, outcome))
        return;
    {
        osd::lock_guard hold(lock_);
        failure_target_ = std::move(outcome.target);
        failure_stored_ = outcome.stored;
        failure_unreported_ = true;
    }
    if (!ia->timers.arm(failure_, osd::deadline::passed()))
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "EP %p: cannot start the timer thread; a waiter on the connect EVD misses BROKEN",
                 to_handle(this));
}

void endpoint::end_failures()
{
    ia->timers.cancel(connect_timeout_);
    ia->timers.cancel(failure_);
    osd::lock_guard hold(lock_);
    while (cleaning_) // a failure is in an upcall of the port
        (void)cleaned_.wait(lock_, osd::deadline::never());
}

void end_failures(endpoint &ep)
{
    ep.end_failures();
}

void operation_failed(endpoint &ep)
{
    ep.operation_failed();
}

bool awaits_establish_on(endpoint &ep, const evd &events)
{
    return ep.awaits_establish_on(events);
}

/// Wakes whoever waits for the event of a failure. The event was stored when the failure was found,
/// by a thread that could not wake anybody.
deferred_call endpoint::report_failure()
{
    user_of<evd> target;
    bool stored = false;
    {
        osd::lock_guard hold(lock_);
        if (!std::exchange(failure_unreported_, false))
            return {};
        target = std::move(failure_target_);
        stored = failure_stored_;
    }
    const user_of<evd> connections = to_notify(*ia, std::move(target), stored);
    return notify_later(connections, shared_ ? store_last_receive(*this) : user_of<evd>());
}

// ----------------------------------------------------------------------------------- attributes

ep_objects endpoint::objects()
{
    osd::lock_guard hold(lock_);
    return {zone_.get(), recv_evd_.get(), request_evd_.get(), connect_evd_.get(), shared_.get()};
}

namespace {

/// Whether a queue pair made for `a` serves `b`.
bool same_qp(const DAT_EP_ATTR &a, const ep_objects &with_a, const DAT_EP_ATTR &b,
             const ep_objects &with_b)
{
    return is_for_datagrams(a) == is_for_datagrams(b) && with_a.zone == with_b.zone &&
           with_a.recv == with_b.recv && with_a.request == with_b.request &&
           a.max_recv_dtos == b.max_recv_dtos && a.max_request_dtos == b.max_request_dtos &&
           a.max_recv_iov == b.max_recv_iov && a.max_request_iov == b.max_request_iov &&
           a.max_rdma_read_in == b.max_rdma_read_in && a.max_rdma_read_out == b.max_rdma_read_out;
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
        set_objects(attr, objects);
        set_connect_evd(objects.connect);
        return success;
    }
    if (!recv_idle()) // posted receives would be lost with the queue pair
        return state_error();
    user_of<evd> keep_recv(old.recv), keep_request(old.request); // they adopt the old queues
    detach();
    const status modified = attach_with(attr, objects);
    if (!modified.ok() && !attach_with(old_attr, old).ok())
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "EP %p: dat_ep_modify failed, and so did restoring its former queue pair; it has "
                 "none now",
                 to_handle(this));
    return modified;
}

status endpoint::attach_with(const DAT_EP_ATTR &attr, const ep_objects &objects)
{
    set_objects(attr, objects);
    set_connect_evd(objects.connect);
    return attach();
}

void endpoint::set_connect_evd(evd *events)
{
    user_of<evd> old(events);
    osd::lock_guard hold(lock_);
    std::swap(connect_evd_, old);
}

void endpoint::fill(DAT_EP_PARAM &out, bool agreed)
{
    osd::lock_guard steady(control_);
    out = {};
    out.ia_handle = ia->consumer_handle();
    out.local_ia_address_ptr = const_cast<DAT_SOCK_ADDR *>(ia->attr.address);
    out.pz_handle = zone_ ? to_handle(zone_.get()) : DAT_HANDLE_NULL;
    out.recv_evd_handle = recv_evd_ ? to_handle(recv_evd_.get()) : DAT_HANDLE_NULL;
    out.request_evd_handle = request_evd_ ? to_handle(request_evd_.get()) : DAT_HANDLE_NULL;
    out.ep_attr = attr_;
    if (claims.qp_query && agreed && has_qp_ && state() == DAT_EP_STATE_CONNECTED)
        show_agreed(qp_, out.ep_attr);
    out.srq_handle = shared_ ? to_handle(shared_.get()) : DAT_HANDLE_NULL;
    osd::lock_guard hold(lock_);
    out.connect_evd_handle = connect_evd_ ? to_handle(connect_evd_.get()) : DAT_HANDLE_NULL;
    out.ep_state = state();
    if (peer_known_) {
        out.remote_ia_address_ptr = remote_address_.get();
        out.remote_port_qual = remote_qualifier_;
    }
}

// ----------------------------------------------------------------------------------- watermarks

status endpoint::count_receives(DAT_COUNT &count)
{
    osd::lock_guard steady(control_);
    count = 0;
    if (!shared_)
        count = recv_queue_ == nullptr ? 0 : static_cast<DAT_COUNT>(recv_queue_->outstanding());
    else if (!claims.ep_watermarks)
        return not_supported;
    else if (has_qp_)
        count = transport::dapls_ib_qp_recvs_held(qp_);
    return success;
}

status endpoint::set_watermarks(DAT_COUNT soft, DAT_COUNT hard)
{
    if (!claims.ep_watermarks || !shared_)
        return not_supported;
    osd::lock_guard hold(control_);
    attr_.srq_soft_hw = soft;
    soft_watermark_ = soft;
    hard_watermark_ = hard;
    if (has_qp_)
        transport::dapls_ib_qp_set_watermarks(qp_, soft, hard);
    return success;
}

void endpoint::read_device(qp_counters &now)
{
    osd::lock_guard steady(control_);
    if (has_qp_)
        transport::dapls_ib_read_qp_counters(qp_, now);
}

/// Reports the passed watermark as an internal error of the provider whose reason is the watermark:
/// DAT has no event number for it.
void endpoint::watermark_passed()
{
    soft_watermark_ = DAT_WATERMARK_INFINITE;
    async_error(*ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, to_handle(this),
                DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
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
