// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "adapter.hpp"

#include "dapl_api.hpp"
#include "dapl_debug.hpp"
#include "names.hpp"
#include "osd_thread.hpp"
#include "queue_owner.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

// Adapters may share an async EVD. It belongs to one of them, so the others must notice when that
// one closes.
osd::mutex open_adapters_lock;
adapter *open_adapters OSD_GUARDED_BY(open_adapters_lock) = nullptr;

} // namespace

// ------------------------------------------------------------------------------------- opening

status adapter::open(DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd)
{
    const hca_open_params params{line.info.ia_name, line.params, this};
    const status opened = transport::dapls_ib_open_hca(hca, params);
    if (!opened.ok())
        return opened;
    hca_open_ = true;
    transport::dapls_ib_query_hca(hca, attr);

    const status attached = attach_async_evd(async_qlen, async_evd);
    if (!attached.ok())
        close_hca();
    return attached;
}

status adapter::attach_async_evd(DAT_COUNT qlen, DAT_EVD_HANDLE *handle)
{
    evd *events = nullptr;
    owns_async_evd_ = *handle == DAT_HANDLE_NULL;
    if (owns_async_evd_) {
        const status made = make_evd(qlen, DAT_EVD_ASYNC_FLAG, events);
        if (!made.ok())
            return made;
        *handle = to_handle(events);
    } else {
        events = from_handle<evd>(*handle);
    }
    events->users.fetch_add(1, std::memory_order_relaxed);

    osd::lock_guard hold(open_adapters_lock);
    async_evd_ = events;
    next_open_ = open_adapters;
    open_adapters = this;
    return success;
}

status adapter::make_evd(DAT_COUNT qlen, DAT_EVD_FLAGS streams, evd *&out)
{
    if (qlen > attr.max_cq_depth)
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
    out = make(evds, streams);
    if (out == nullptr)
        return out_of_memory;
    const status allocated = out->allocate(qlen);
    if (!allocated.ok())
        destroy(evds, *out);
    return allocated;
}

void adapter::await_unused(const object &condemned)
{
    {
        osd::lock_guard hold(lock_); // whoever is just finding it, has it then
    }
    while (in_use(condemned))
        osd::yield();
}

status open_adapter(const provider_line &line, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                    DAT_IA_HANDLE *out)
{
    if (async_evd == nullptr)
        return invalid_parameter(3);
    if (out == nullptr)
        return invalid_parameter(4);
    if (*async_evd == DAT_HANDLE_NULL) {
        if (async_qlen <= 0)
            return invalid_parameter(2);
    } else if (evd *shared = from_handle<evd>(*async_evd);
               shared == nullptr || !shared->takes(DAT_EVD_ASYNC_FLAG)) {
        return invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }

    auto *ia = new (std::nothrow) adapter(line);
    if (ia == nullptr)
        return out_of_memory;
    const status opened = ia->open(async_qlen, async_evd);
    if (!opened.ok())
        delete ia;
    else
        *out = to_handle(ia);
    return opened;
}

// ------------------------------------------------------------------------------------- closing

adapter::~adapter() = default;

void adapter::close_hca()
{
    if (hca_open_)
        transport::dapls_ib_close_hca(hca);
    hca_open_ = false;
}

bool adapter::consumer_objects_left()
{
    osd::lock_guard hold(lock_);
    const std::size_t own_evds = owns_async_evd_ ? 1 : 0;
    return pzs.live() + lmrs.live() + rmrs.live() + cnos.live() + srqs.live() + eps.live() +
               sps.live() + crs.live() + evds.live() >
           own_evds;
}

status adapter::close(DAT_CLOSE_FLAGS how)
{
    if (how != DAT_CLOSE_ABRUPT_FLAG && how != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    if (how == DAT_CLOSE_GRACEFUL_FLAG && consumer_objects_left())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    const bool complete = tear_down();
    alive.store(mark::dead);
    if (complete)
        delete this;
    return success;
}

namespace {

/// Waiters that can run return within microseconds. One that has not by then is stopped, or its
/// signal handler goes on or has left by longjmp.
constexpr std::uint64_t waiters_leave_within_us = 2'000'000;

} // namespace

/// Ends all waits.
departure adapter::dismiss_waiters(osd::deadline until)
{
    departure worst = departure::none;
    const auto note = [&worst](departure of) { worst = std::max(worst, of); };
    evds.for_each([&](evd &e) { note(e.abort_waiter(until)); });
    cnos.for_each([&](cno &c) { note(c.kill(until)); });
    return worst;
}

/// Top down: waits end, listeners stop, then everything in the order of its uses. A waiter that
/// does not return keeps what it may still touch: its EVD or CNO, and the device. False then, and
/// this adapter stays in memory.
bool adapter::tear_down()
{
    osd::deadline until = osd::deadline::after_us(waiters_leave_within_us);
    const departure waiters = dismiss_waiters(until);
    if (waiters != departure::none)
        outlive_leaving_threads();
    rmrs.for_each([this](rmr &r) { r.release(), destroy(rmrs, r); });
    sps.for_each([this](service_point &sp) {
        sp.stop_listening();
        destroy(sps, sp);
    });
    crs.for_each([this](cr &request) { request.refuse(), destroy(crs, request); });
    eps.for_each([this](endpoint &ep) { ep.shut_down(), destroy(eps, ep); });
    timers.stop();
    srqs.for_each([this](shared_recv_queue &srq) { srq.release(), destroy(srqs, srq); });
    lmrs.for_each([this](lmr &region) {
        transport::dapls_ib_mr_deregister(region.mr);
        destroy(lmrs, region);
    });
    pzs.for_each([this](pz &zone) {
        transport::dapls_ib_pd_free(zone.pd);
        destroy(pzs, zone);
    });
    detach_async_evd();
    recall_evds();
    bool complete = true;
    if (waiters != departure::overdue)
        until = osd::deadline::after_us(waiters_leave_within_us);
    evds.for_each([&](evd &e) {
        while (in_use(e) && !until.has_passed()) // an async event is being posted
            osd::yield();
        if (in_use(e)) {
            complete = false;
            return;
        }
        e.release();
        destroy(evds, e);
    });
    cnos.for_each([&](cno &c) {
        if (in_use(c) || c.has_waiters()) {
            complete = false;
            return;
        }
        c.await_unpinned();
        destroy(cnos, c);
    });
    if (complete)
        close_hca();
    else
        abandon();
    return complete;
}

void adapter::abandon()
{
    stay_loaded();
    dapl_log(
        DAPL_DBG_TYPE_ERR,
        "%s: closed while a thread that waits in an EVD or CNO does not return; the device stays "
        "open and its memory allocated until the process ends",
        line.info.ia_name);
}

/// Other adapters of this library may post connection events to EVDs of ours.
void adapter::recall_evds()
{
    osd::lock_guard hold(open_adapters_lock);
    for (adapter *other = open_adapters; other != nullptr; other = other->next_open_)
        if (other != this)
            other->forget_evds_of(*this);
}

void adapter::forget_evds_of(const adapter &closing)
{
    osd::lock_guard hold(lock_);
    eps.for_each([&closing](endpoint &ep) { ep.forget_connect_evd_of(closing); });
}

/// Lets go of our async EVD; and of ours every adapter that shares it.
void adapter::detach_async_evd()
{
    osd::lock_guard hold(open_adapters_lock);
    for (adapter **link = &open_adapters; *link != nullptr; link = &(*link)->next_open_) {
        if (*link == this)
            *link = next_open_;
        if (*link == nullptr)
            break;
        if (owns_async_evd_ && (*link)->async_evd_ == async_evd_) {
            (*link)->async_evd_ = nullptr;
            async_evd_->users.fetch_sub(1, std::memory_order_release);
        }
    }
    if (async_evd_ != nullptr)
        async_evd_->users.fetch_sub(1, std::memory_order_release);
    async_evd_ = nullptr;
}

// -------------------------------------------------------------------------------- async errors

evd *adapter::async_evd() const
{
    osd::lock_guard hold(open_adapters_lock);
    return async_evd_;
}

DAT_IA_HANDLE adapter::consumer_handle() const
{
    DAT_IA_HANDLE index = DAT_HANDLE_NULL;
    (void)dats_get_ia_handle(const_cast<adapter *>(this), &index);
    return index;
}

void adapter::trace_outstanding(const evd &there)
{
    osd::lock_guard hold(lock_);
    eps.for_each([&there](endpoint &each) { each.trace_outstanding(there); });
}

void trace_outstanding(adapter &ia, const evd &there)
{
    ia.trace_outstanding(there);
}

void adapter::async_error(DAT_EVENT_NUMBER number, DAT_HANDLE affiliated, DAT_COUNT reason)
{
    counters.add(DCNT_IA_ASYNC_ERROR);
    if (number == DAT_ASYNC_ERROR_EP_BROKEN)
        counters.add(DCNT_IA_ASYNC_QP_ERROR);
    else if (number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
        counters.add(DCNT_IA_ASYNC_CQ_ERROR);
    DAT_EVENT event{};
    event.event_number = number;
    event.event_data.asynch_error_event_data = {affiliated, reason};
    bool stored = false;
    evd *target = nullptr;
    {
        osd::lock_guard hold(open_adapters_lock);
        target = async_evd_;
        if (target != nullptr) {
            target->users.fetch_add(1, std::memory_order_relaxed); // keeps it until notified
            event.evd_handle = to_handle(target);
            stored = target->store(event);
        }
    }
    if (stored)
        target->notify();
    if (target != nullptr)
        target->users.fetch_sub(1, std::memory_order_release);
    if (!stored)
        dapl_log(DAPL_DBG_TYPE_ERR, "async event %s of %p is lost: the async EVD is %s",
                 name_of(number), affiliated, target == nullptr ? "gone" : "full");
}

// ---------------------------------------------------------------------------------- attributes

void adapter::fill(DAT_IA_ATTR &out) const
{
    out = {};
    std::snprintf(out.adapter_name, sizeof out.adapter_name, "%s", attr.hca_name);
    std::snprintf(out.vendor_name, sizeof out.vendor_name, "%s", attr.vendor_name);
    out.hardware_version_major = attr.hardware_version_major;
    out.hardware_version_minor = attr.hardware_version_minor;
    out.firmware_version_major = attr.firmware_version_major;
    out.firmware_version_minor = attr.firmware_version_minor;
    out.ia_address_ptr = const_cast<DAT_SOCK_ADDR *>(attr.address);
    out.max_eps = attr.max_eps;
    out.max_dto_per_ep = attr.max_dto_per_ep;
    out.max_rdma_read_per_ep_in = attr.max_rdma_read_per_ep_in;
    out.max_rdma_read_per_ep_out = attr.max_rdma_read_per_ep_out;
    out.max_evds = attr.max_cqs;
    out.max_evd_qlen = attr.max_cq_depth;
    out.max_iov_segments_per_dto = attr.max_iov_per_dto;
    out.max_lmrs = attr.max_mrs;
    out.max_lmr_block_size = // 32 bits in DAT
        static_cast<DAT_SEG_LENGTH>(attr.max_mr_size < 0xffffffff ? attr.max_mr_size : 0xffffffff);
    out.max_lmr_virtual_address = ~DAT_VADDR{0};
    out.max_pzs = attr.max_pds;
    out.max_message_size = attr.max_message_size;
    out.max_rdma_size = attr.max_rdma_size;
    out.max_rmrs = attr.max_mws;
    out.max_rmr_target_address = ~DAT_VADDR{0};
    out.max_srqs = attr.max_srqs;
    out.max_ep_per_srq = attr.max_srqs == 0 ? 0 : attr.max_eps;
    out.max_recv_per_srq = attr.max_recv_per_srq;
    out.max_iov_segments_per_rdma_read = attr.max_iov_per_rdma_read;
    out.max_iov_segments_per_rdma_write = attr.max_iov_per_rdma_write;
    out.max_rdma_read_in = attr.max_rdma_read_per_ep_in;
    out.max_rdma_read_out = attr.max_rdma_read_per_ep_out;
    out.max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
    out.max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
    const bool extended = attr.has_extension() || counting();
    out.extension_supported = extended ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE;
    out.extension_version = extended ? DAT_IB_EXTENSION_VERSION : 0;
}

namespace {

/// Rows and columns: software, connection request, DTO, connection, RMR bind, async.
constexpr DAT_BOOLEAN stream_merging[6][6] = {
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_TRUE, DAT_FALSE},
    {DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_FALSE, DAT_TRUE},
};

} // namespace

void adapter::fill(DAT_PROVIDER_ATTR &out) const
{
    // The matrix is const in the structure, so the structure cannot be assigned.
    std::memset(static_cast<void *>(&out), 0, sizeof out);
    std::memcpy(const_cast<DAT_BOOLEAN(*)[6]>(out.evd_stream_merging_supported), stream_merging,
                sizeof stream_merging);
    std::snprintf(out.provider_name, sizeof out.provider_name, "%s", line.info.ia_name);
    out.provider_version_major = DAPLS_IB_VERSION;
    out.dapl_version_major = line.info.dapl_version_major;
    out.dapl_version_minor = line.info.dapl_version_minor;
    out.lmr_mem_types_supported =
        static_cast<DAT_MEM_TYPE>(DAT_MEM_TYPE_VIRTUAL | DAT_MEM_TYPE_LMR);
    out.iov_ownership_on_return = DAT_IOV_CONSUMER;
    out.dat_qos_supported = DAT_QOS_BEST_EFFORT;
    out.completion_flags_supported = DAT_COMPLETION_SUPPRESS_FLAG;
    out.is_thread_safe = line.info.is_thread_safe;
    out.max_private_data_size = attr.max_private_data_size;
    out.ep_creator = DAT_PSP_CREATES_EP_IFASKED;
    out.pz_support = DAT_PZ_UNIQUE;
    out.optimal_buffer_alignment = DAT_OPTIMAL_ALIGNMENT;
    out.dto_async_return_guaranteed = DAT_TRUE;
    out.srq_supported = claims.srq && attr.max_srqs != 0 ? DAT_TRUE : DAT_FALSE;
    out.rmr_scope_supported = DAT_RMR_SCOPE_PZ;
    out.ha_loadbalancing = DAT_HA_LB_NONE;
    out.num_provider_specific_attr = attr.num_named_attrs;
    out.provider_specific_attr = const_cast<DAT_NAMED_ATTR *>(attr.named_attrs);
}

// --------------------------------------------------------------------------------- entry points

DAT_RETURN dapl_ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
                         DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                         DAT_PROVIDER_ATTR *provider_attr)
{
    const adapter *ia = from_handle<adapter>(handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA).code();
    if (has_unknown_bits(ia_mask, DAT_IA_FIELD_ALL))
        return invalid_parameter(3).code();
    if (ia_mask != 0 && ia_attr == nullptr)
        return invalid_parameter(4).code();
    if (has_unknown_bits(provider_mask, DAT_PROVIDER_FIELD_ALL))
        return invalid_parameter(5).code();
    if (provider_mask != 0 && provider_attr == nullptr)
        return invalid_parameter(6).code();
    if (async_evd != nullptr) {
        evd *events = ia->async_evd();
        *async_evd = events == nullptr ? DAT_HANDLE_NULL : to_handle(events);
    }
    if (ia_attr != nullptr)
        ia->fill(*ia_attr);
    if (provider_attr != nullptr)
        ia->fill(*provider_attr);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS how)
{
    adapter *ia = from_handle<adapter>(handle);
    return ia == nullptr ? invalid_handle(DAT_INVALID_HANDLE_IA).code() : ia->close(how).code();
}

} // namespace dapl::DAPL_TRANSPORT::core
