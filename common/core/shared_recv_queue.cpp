// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_recv_queue.hpp"

#include "adapter.hpp"
#include "async_events.hpp"

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
        std::exchange(receives_, nullptr)->release();
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
    std::exchange(receives_, nullptr)->release();
}

// --------------------------------------------------------------------------------------- its use

status shared_recv_queue::refused(status why, bool by_port) const
{
    return refuse({.kind = "SRQ",
                   .object = this,
                   .state = nullptr,
                   .operation = opcode::receive,
                   .outstanding = static_cast<std::uint64_t>(receives_->outstanding()),
                   .limit = attr_.max_recv_dtos,
                   .by_port = by_port},
                  why);
}

/// The queue grows before the port's does, so that there is a request for every receive that the
/// port takes. Posts are kept out meanwhile: the port never gets a depth below the number of posted
/// receives.
status shared_recv_queue::resize(DAT_COUNT max_recv)
{
    osd::lock_guard hold(lock_);
    if (max_recv <= 0 || max_recv > ia->attr.max_recv_per_srq)
        return invalid_parameter(2);
    if (!receives_->reserve(max_recv))
        return out_of_memory;
    osd::lock_guard keep_out(post_lock_);
    if (max_recv < attr_.low_watermark || max_recv < receives_->outstanding())
        return status::error(DAT_INVALID_STATE);
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
    async_error(*ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, to_handle(this),
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

} // namespace dapl::DAPL_TRANSPORT::core
