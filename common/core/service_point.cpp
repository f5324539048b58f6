// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "service_point.hpp"

#include "adapter.hpp"
#include "async_events.hpp"
#include "cr.hpp"
#include "dapl_debug.hpp"

#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

status service_point::listen(DAT_CONN_QUAL &where)
{
    const user_of<service_point> stay(this); // the consumer may free it on the first request event
    const status begun = transport::dapls_ib_setup_conn_listener(ia->hca, listener_, *this, where);
    cr *early = nullptr;
    {
        osd::lock_guard hold(lock_);
        listening_ = begun.ok();
        qualifier_ = where;
        early = std::exchange(first_early_, nullptr);
    }
    announce_early(early, begun.ok());
    return begun;
}

/// Stops listening. On return no request arrives any more; earlier requests stay valid. An endpoint
/// still reserved goes back to its consumer.
void service_point::stop_listening()
{
    bool listens = false;
    {
        osd::lock_guard hold(lock_);
        listens = listening_;
    }
    if (listens)
        transport::dapls_ib_remove_conn_listener(listener_);
    if (endpoint *unused = take_reserved())
        unused->change_state(DAT_EP_STATE_RESERVED, DAT_EP_STATE_UNCONNECTED);
}

DAT_CONN_QUAL service_point::qualifier()
{
    osd::lock_guard hold(lock_);
    return qualifier_;
}

bool service_point::serves(DAT_CONN_QUAL wanted)
{
    osd::lock_guard hold(lock_);
    return listening_ && qualifier_ == wanted && (!is_reserved || reserved_ != nullptr);
}

endpoint *service_point::reserved()
{
    osd::lock_guard hold(lock_);
    return reserved_;
}

endpoint *service_point::take_reserved()
{
    osd::lock_guard hold(lock_);
    return std::exchange(reserved_, nullptr);
}

// ------------------------------------------------------------------------------------- arrival

/// Finds the endpoint of a request: the reserved endpoint, once; a new one if the PSP makes
/// endpoints; otherwise none.
bool service_point::endpoint_for_request(endpoint *&ep)
{
    ep = nullptr;
    if (is_reserved) {
        ep = take_reserved();
        return ep != nullptr &&
               ep->change_state(DAT_EP_STATE_RESERVED, DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    }
    if (flags == DAT_PSP_CONSUMER_FLAG)
        return true;
    ep = ia->make<endpoint>(default_ep_attr(ia->attr), ep_objects{},
                            DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    return ep != nullptr;
}

void service_point::give_back(endpoint *ep)
{
    if (ep == nullptr)
        return;
    if (!is_reserved) {
        ia->destroy(*ep);
        return;
    }
    ep->change_state(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_EP_STATE_RESERVED);
    osd::lock_guard hold(lock_);
    reserved_ = ep;
}

namespace {

/// Such a request has an event number of its own.
void add_datagrams(DAT_EVENT &event)
{
    event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_REQUEST_EVENT);
    DAT_IB_EXTENSION_EVENT_DATA more{};
    more.type = DAT_IB_UD_CONNECT_REQUEST;
    std::memcpy(event.event_extension_data, &more, sizeof more);
}

/// The endpoints that service points bring are for connections.
bool takes(const service_point &at, const cr_params &params)
{
    return !params.datagrams || (at.ia->attr.max_datagram_size != 0 && !at.is_reserved &&
                                 at.flags == DAT_PSP_CONSUMER_FLAG);
}

} // namespace

DAT_EVENT service_point::arrival_event(cr &request)
{
    DAT_EVENT event{};
    event.event_number = DAT_CONNECTION_REQUEST_EVENT;
    event.evd_handle = to_handle(requests_.get());
    auto &arrival = event.event_data.cr_arrival_event_data;
    arrival.sp_handle.psp_handle = to_handle(this);
    arrival.local_ia_address_ptr = const_cast<DAT_SOCK_ADDR *>(ia->attr.address);
    arrival.conn_qual = qualifier();
    arrival.cr_handle = to_handle(&request);
    if (request.for_datagrams)
        add_datagrams(event);
    return event;
}

/// A port may make upcalls for requests before setup_conn_listener has returned: their events are
/// posted when it has.
bool service_point::keep_early(cr &request)
{
    osd::lock_guard hold(lock_);
    if (listening_)
        return false;
    (first_early_ == nullptr ? first_early_ : last_early_->next_early) = &request;
    last_early_ = &request;
    return true;
}

void service_point::announce_early(cr *first, bool listening)
{
    while (first != nullptr) {
        cr &request = *std::exchange(first, first->next_early);
        if (listening && announce(request))
            continue; // it is the consumer's, and may be gone
        transport::dapls_ib_reject_connection(request.port_cr, reject_reason::non_consumer, {});
        drop(request);
    }
}

/// Returns false when the EVD is full. The first of such requests is reported on the async EVD:
/// strangers who send them could fill that and the log.
bool service_point::announce(cr &request)
{
    if (requests_->store(arrival_event(request))) {
        overflowed_.store(false, std::memory_order_relaxed);
        requests_->notify();
        return true;
    }
    if (overflowed_.exchange(true, std::memory_order_relaxed))
        return false;
    dapl_log(DAPL_DBG_TYPE_WARN,
             "a connection request for qualifier %llu is refused: EVD %p is full",
             static_cast<unsigned long long>(qualifier()), to_handle(requests_.get()));
    async_overflow(*ia, *requests_.get());
    return false;
}

/// The consumer has not seen it: its endpoint returns to its former state.
void service_point::drop(cr &request)
{
    give_back(request.ep);
    ia->destroy(request);
}

bool service_point::request_arrived(transport::cr &port_cr, const cr_params &params)
{
    endpoint *ep = nullptr;
    if (!takes(*this, params) || !endpoint_for_request(ep))
        return false;
    cr *request = ia->make<cr>(std::move(port_cr), params, ep);
    if (request == nullptr) {
        give_back(ep);
        return false;
    }
    if (keep_early(*request) || announce(*request))
        return true;
    port_cr = std::move(request->port_cr);
    drop(*request);
    return false;
}

} // namespace dapl::DAPL_TRANSPORT::core
