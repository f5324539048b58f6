// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_recv_queue.hpp"

#include "dapl_api.hpp"
#include "dapl_debug.hpp"

namespace dapl::DAPL_TRANSPORT::core {

// -------------------------------------------------------------------------------------- its life

status shared_recv_queue::set_up()
{
    receives_ = shared_work_queue::create(attr_.max_recv_dtos);
    if (receives_ == nullptr)
        return out_of_memory;
    const srq_params params{this, attr_.max_recv_dtos, attr_.max_recv_iov};
    const status made = transport::dapls_ib_srq_alloc(zone_->pd, port_srq, params);
    if (!made.ok()) {
        std::exchange(receives_, nullptr)->let_go();
        return made;
    }
    if (attr_.low_watermark == DAT_SRQ_LW_DEFAULT)
        return success;
    const status armed = transport::dapls_ib_srq_set_limit(port_srq, attr_.low_watermark);
    if (!armed.ok())
        release();
    return armed;
}

void shared_recv_queue::release()
{
    transport::dapls_ib_srq_free(port_srq);
    std::exchange(receives_, nullptr)->let_go();
}

// --------------------------------------------------------------------------------------- its use

template <class Safety>
status shared_recv_queue::post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                    DAT_DTO_COOKIE cookie)
{
    post_guard<Safety> hold(post_lock_);
    if (segments < 0 || segments > attr_.max_recv_iov)
        return invalid_parameter(2);
    if (local == nullptr && segments != 0)
        return invalid_parameter(3);
    transport::wr *wr = receives_->take_any();
    if (wr == nullptr)
        return out_of_memory;
    wr->cookie = cookie;
    wr->operation = DAT_DTO_RECEIVE;
    wr->length = static_cast<DAT_UINT32>(total_length(segments, local));
    const status posted = transport::dapls_ib_post_srq_recv(port_srq, *wr, segments, local);
    if (!posted.ok())
        receives_->give_back(*wr);
    return posted;
}

/// The queue grows before the port's does, so that there is a request for all that the port takes.
status shared_recv_queue::resize(DAT_COUNT max_recv)
{
    osd::lock_guard hold(lock_);
    if (max_recv <= 0 || max_recv > ia->attr.max_recv_per_srq)
        return invalid_parameter(2);
    if (max_recv < attr_.low_watermark || max_recv < receives_->outstanding())
        return status::error(DAT_INVALID_STATE);
    if (!receives_->reserve(max_recv))
        return out_of_memory;
    if (const status resized = transport::dapls_ib_srq_resize(port_srq, max_recv); !resized.ok())
        return resized;
    receives_->set_limit(max_recv);
    attr_.max_recv_dtos = max_recv;
    return success;
}

status shared_recv_queue::set_low_watermark(DAT_COUNT low)
{
    osd::lock_guard hold(lock_);
    if (low < 0 || low > attr_.max_recv_dtos)
        return invalid_parameter(2);
    const status armed = transport::dapls_ib_srq_set_limit(port_srq, low);
    if (armed.ok())
        attr_.low_watermark = low;
    return armed;
}

/// DAT has a reason for this event, but no number of its own.
void shared_recv_queue::limit_reached()
{
    ia->async_error(DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, to_handle(this),
                    DAT_SRQ_LOW_WATERMARK_EVENT);
}

void shared_recv_queue::fill(DAT_SRQ_PARAM &out)
{
    osd::lock_guard hold(lock_);
    out = {};
    out.ia_handle = ia->consumer_handle();
    out.srq_state = DAT_SRQ_STATE_OPERATIONAL;
    out.pz_handle = to_handle(zone_.get());
    out.max_recv_dtos = attr_.max_recv_dtos;
    out.max_recv_iov = attr_.max_recv_iov;
    out.low_watermark = attr_.low_watermark;
    out.available_dto_count = DAT_VALUE_UNKNOWN; // the device knows which it has taken
    out.outstanding_dto_count = receives_->outstanding();
}

// --------------------------------------------------------------------------------- entry points

namespace {

bool fits(const DAT_SRQ_ATTR &attr, const hca_attr &limits)
{
    return attr.max_recv_dtos > 0 && attr.max_recv_dtos <= limits.max_recv_per_srq &&
           attr.max_recv_iov > 0 && attr.max_recv_iov <= limits.max_iov_per_dto &&
           attr.low_watermark >= 0 && attr.low_watermark <= attr.max_recv_dtos;
}

status create_srq(adapter &ia, pz &zone, const DAT_SRQ_ATTR &attr, DAT_SRQ_HANDLE *out)
{
    if (ia.live(ia.srqs) >= static_cast<std::size_t>(ia.attr.max_srqs))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
    shared_recv_queue *made = ia.make(ia.srqs, zone, attr);
    if (made == nullptr)
        return out_of_memory;
    const status ready = made->set_up();
    if (ready.ok())
        *out = to_handle(made);
    else
        ia.destroy(ia.srqs, *made);
    return ready;
}

template <class Call>
DAT_RETURN on_srq(DAT_SRQ_HANDLE handle, Call &&call)
{
    shared_recv_queue *srq = from_handle<shared_recv_queue>(handle);
    return srq == nullptr ? invalid_handle(DAT_INVALID_HANDLE_SRQ).code() : call(*srq).code();
}

status free_srq(shared_recv_queue &victim)
{
    if (in_use(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    victim.release();
    victim.ia->destroy(victim.ia->srqs, victim);
    return success;
}

} // namespace

DAT_RETURN dapl_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                           DAT_SRQ_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA).code();
    if (!claims.srq || ia->attr.max_srqs == 0)
        return not_supported.code();
    pz *zone = from_handle<pz>(pz_handle);
    if (zone == nullptr || zone->ia != ia)
        return invalid_handle(DAT_INVALID_HANDLE_PZ).code();
    if (attr == nullptr || !fits(*attr, ia->attr))
        return invalid_parameter(3).code();
    if (out == nullptr)
        return invalid_parameter(4).code();
    return create_srq(*ia, *zone, *attr, out).code();
}

DAT_RETURN dapl_srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK mask, DAT_SRQ_PARAM *param)
{
    shared_recv_queue *srq = from_handle<shared_recv_queue>(handle);
    const status checked = check_query(srq, DAT_INVALID_HANDLE_SRQ, mask, DAT_SRQ_FIELD_ALL, param);
    if (checked.ok())
        srq->fill(*param);
    return checked.code();
}

template <class Safety>
DAT_RETURN dapl_srq_post_recv(DAT_SRQ_HANDLE handle, DAT_COUNT segments, DAT_LMR_TRIPLET *local,
                              DAT_DTO_COOKIE cookie)
{
    return on_srq(handle, [=](shared_recv_queue &srq) {
        return srq.post_recv<Safety>(segments, local, cookie);
    });
}
template DAT_RETURN dapl_srq_post_recv<one_thread_per_object>(DAT_SRQ_HANDLE, DAT_COUNT,
                                                              DAT_LMR_TRIPLET *, DAT_DTO_COOKIE);
template DAT_RETURN dapl_srq_post_recv<any_thread>(DAT_SRQ_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *,
                                                   DAT_DTO_COOKIE);

DAT_RETURN dapl_srq_resize(DAT_SRQ_HANDLE handle, DAT_COUNT max_recv)
{
    return on_srq(handle, [=](shared_recv_queue &srq) { return srq.resize(max_recv); });
}

DAT_RETURN dapl_srq_set_lw(DAT_SRQ_HANDLE handle, DAT_COUNT low)
{
    return on_srq(handle, [=](shared_recv_queue &srq) { return srq.set_low_watermark(low); });
}

DAT_RETURN dapl_srq_free(DAT_SRQ_HANDLE handle)
{
    return on_srq(handle, free_srq);
}

} // namespace dapl::DAPL_TRANSPORT::core
