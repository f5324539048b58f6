// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "service_point.hpp"

#include "dapl_api.hpp"
#include "dapl_debug.hpp"

namespace dapl::DAPL_TRANSPORT::core {

status service_point::listen(DAT_CONN_QUAL &where)
{
    const user_of<service_point> stay(this); // whoever is told of a request may free us
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

/// On return no request arrives any more; those that did stay valid. An endpoint still reserved
/// goes back to its consumer.
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

/// The endpoint that comes with a request: the reserved one, once; a new one of a PSP that makes
/// them; otherwise none.
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
    ep = ia->make(ia->eps, default_ep_attr(ia->attr), ep_objects{},
                  DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    return ep != nullptr;
}

void service_point::give_back(endpoint *ep)
{
    if (ep == nullptr)
        return;
    if (!is_reserved) {
        ia->destroy(ia->eps, *ep);
        return;
    }
    ep->change_state(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, DAT_EP_STATE_RESERVED);
    osd::lock_guard hold(lock_);
    reserved_ = ep;
}

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
    return event;
}

/// A port may hand up requests before it has said that it listens, and where: they are announced
/// when it has.
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

/// False when the EVD is full; that is told.
bool service_point::announce(cr &request)
{
    if (requests_->store(arrival_event(request))) {
        requests_->notify();
        return true;
    }
    dapl_log(DAPL_DBG_TYPE_WARN,
             "a connection request for qualifier %llu is refused: EVD %p is full",
             static_cast<unsigned long long>(qualifier()), to_handle(requests_.get()));
    ia->async_error(DAT_ASYNC_ERROR_EVD_OVERFLOW, to_handle(requests_.get()),
                    DAT_EVD_OVERFLOW_ERROR);
    return false;
}

/// Nobody was told of it: its endpoint is what it was before.
void service_point::drop(cr &request)
{
    give_back(request.ep);
    ia->destroy(ia->crs, request);
}

bool service_point::request_arrived(transport::cr &port_cr, const cr_params &params)
{
    endpoint *ep = nullptr;
    if (!endpoint_for_request(ep))
        return false;
    cr *request = ia->make(ia->crs, std::move(port_cr), params, ep);
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

// ---------------------------------------------------------------------------- making and freeing

status create_sp(adapter &ia, const sp_request &wanted, DAT_CONN_QUAL &qualifier,
                 service_point *&out)
{
    evd *requests = from_handle<evd>(wanted.evd_handle);
    if (requests == nullptr || requests->ia != &ia || !requests->takes(DAT_EVD_CR_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CR);
    out = ia.make(ia.sps, wanted.kind, *requests, wanted.flags, wanted.reserved, wanted.common);
    if (out == nullptr)
        return out_of_memory;
    const status begun = out->listen(qualifier);
    if (!begun.ok())
        ia.destroy(ia.sps, *out);
    return begun;
}

service_point *sp_of(DAT_HANDLE handle, mark kind)
{
    auto *found = from_handle<service_point>(handle);
    return found != nullptr && found->kind() == kind ? found : nullptr;
}

status free_sp(service_point *victim, DAT_RETURN_SUBTYPE kind)
{
    if (victim == nullptr || !victim->condemn())
        return invalid_handle(kind);
    victim->stop_listening();
    victim->ia->await_unused(*victim);
    victim->ia->destroy(victim->ia->sps, *victim);
    return success;
}

// --------------------------------------------------------------------------------- entry points

namespace {

status check_psp(const adapter *ia, DAT_PSP_FLAGS flags, const void *out)
{
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
        return invalid_parameter(4);
    return out == nullptr ? invalid_parameter(5) : success;
}

status create_psp(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL &qualifier, DAT_EVD_HANDLE evd_handle,
                  DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (const status checked = check_psp(ia, flags, out); !checked.ok())
        return checked;
    service_point *made = nullptr;
    const status created = create_sp(*ia, {mark::psp, evd_handle, flags}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    return created;
}

status create_rsp(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                  DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (qualifier == 0)
        return invalid_parameter(2);
    endpoint *ep = from_handle<endpoint>(ep_handle);
    if (ep == nullptr || ep->ia != ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (out == nullptr)
        return invalid_parameter(5);
    if (!ep->change_state(DAT_EP_STATE_UNCONNECTED, DAT_EP_STATE_RESERVED))
        return ep->state_error();
    service_point *made = nullptr;
    const status created =
        create_sp(*ia, {mark::rsp, evd_handle, DAT_PSP_CONSUMER_FLAG, ep}, qualifier, made);
    if (created.ok())
        *out = to_handle(made);
    else
        ep->change_state(DAT_EP_STATE_RESERVED, DAT_EP_STATE_UNCONNECTED);
    return created;
}

} // namespace

DAT_RETURN dapl_psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
                           DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (qualifier == 0)
        return invalid_parameter(2).code();
    return create_psp(ia, qualifier, evd, flags, out).code();
}

DAT_RETURN dapl_psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL *qualifier, DAT_EVD_HANDLE evd,
                               DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *out)
{
    if (qualifier == nullptr)
        return invalid_parameter(2).code();
    DAT_CONN_QUAL found = 0;
    status created = create_psp(ia, found, evd, flags, out);
    if (created.ok())
        *qualifier = found;
    if (created.type() == DAT_CONN_QUAL_IN_USE) // nothing is free
        created = status::error(DAT_CONN_QUAL_UNAVAILABLE);
    return created.code();
}

DAT_RETURN dapl_psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM *param)
{
    service_point *sp = sp_of(handle, mark::psp);
    const status checked = check_query(sp, DAT_INVALID_HANDLE_PSP, mask, DAT_PSP_FIELD_ALL, param);
    if (checked.ok())
        *param = {sp->ia->consumer_handle(), sp->qualifier(), to_handle(&sp->requests()),
                  sp->flags};
    return checked.code();
}

DAT_RETURN dapl_psp_free(DAT_PSP_HANDLE handle)
{
    return free_sp(sp_of(handle, mark::psp), DAT_INVALID_HANDLE_PSP).code();
}

DAT_RETURN dapl_rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep,
                           DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *out)
{
    return create_rsp(ia, qualifier, ep, evd, out).code();
}

DAT_RETURN dapl_rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM *param)
{
    service_point *sp = sp_of(handle, mark::rsp);
    const status checked = check_query(sp, DAT_INVALID_HANDLE_RSP, mask, DAT_RSP_FIELD_ALL, param);
    if (checked.ok())
        *param = {sp->ia->consumer_handle(), sp->qualifier(), to_handle(&sp->requests()),
                  sp->reserved()};
    return checked.code();
}

DAT_RETURN dapl_rsp_free(DAT_RSP_HANDLE handle)
{
    return free_sp(sp_of(handle, mark::rsp), DAT_INVALID_HANDLE_RSP).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
