// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_lmr_* calls: their arguments are checked here; the work is the port's.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/lmr.hpp"
#include "core/rmr.hpp"
#include "dat_calls.hpp"
#include "osd_memory.hpp"
#include "osd_sharing.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Finds the memory of a region. A region made from another LMR shares that LMR's memory.
status locate(const adapter &ia, DAT_MEM_TYPE type, const DAT_REGION_DESCRIPTION &region,
              DAT_VLEN length, mr_params &bounds)
{
    switch (type) {
    case DAT_MEM_TYPE_VIRTUAL:
        bounds.address = region.for_va;
        bounds.length = length;
        return success;
    case DAT_MEM_TYPE_LMR: {
        const lmr *source = from_handle<lmr>(region.for_lmr_handle);
        if (source == nullptr || source->ia != &ia)
            return invalid_handle(DAT_INVALID_HANDLE_LMR);
        bounds.address = source->params.address;
        bounds.length = source->params.length;
        return success;
    }
    case DAT_MEM_TYPE_SHARED_VIRTUAL:
        if (!osd::can_share())
            return not_supported;
        if (region.for_shared_memory.shared_memory_id == nullptr)
            return invalid_parameter(3);
        bounds.address = region.for_shared_memory.virtual_address;
        bounds.length = length;
        return success;
    }
    return invalid_parameter(2);
}

status check_bounds(const mr_params &bounds, DAT_VLEN max_size)
{
    if (bounds.length == 0 || bounds.length > max_size)
        return status::error(DAT_LENGTH_ERROR);
    if (bounds.address == nullptr ||
        reinterpret_cast<std::uintptr_t>(bounds.address) + bounds.length < bounds.length)
        return invalid_parameter(3);
    return success;
}

struct lmr_request {
    DAT_MEM_TYPE type;
    const DAT_REGION_DESCRIPTION &region;
    DAT_VLEN length;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_VA_TYPE va_type;
};

status check_request(const adapter &ia, const lmr_request &wanted, mr_params &bounds)
{
    // Programs ask for this right first, and query afterwards which atomic operations there are.
    const unsigned without = ia.attr.atomics ? 0u : unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC};
    if (has_unknown_bits(wanted.privileges, known_privileges(ia.attr)))
        return invalid_parameter(6);
    if (wanted.va_type != DAT_VA_TYPE_VA && wanted.va_type != DAT_VA_TYPE_ZB)
        return invalid_parameter(7);
    bounds.privileges = static_cast<DAT_MEM_PRIV_FLAGS>(wanted.privileges & ~without);
    const status located = locate(ia, wanted.type, wanted.region, wanted.length, bounds);
    if (!located.ok())
        return located;
    const status fits = check_bounds(bounds, ia.attr.max_mr_size);
    return fits.ok() && wanted.va_type == DAT_VA_TYPE_ZB ? not_supported : fits;
}

/// The region's part in memory that has a cookie; of other memory there is none.
status share(const adapter &ia, const lmr_request &wanted, const mr_params &bounds,
             shared_claim &claim)
{
    if (wanted.type != DAT_MEM_TYPE_SHARED_VIRTUAL)
        return success;
    if (!osd::may_be_shared(bounds.address, bounds.length))
        return status::error(DAT_INVALID_STATE);
    return claim.take(ia.line.info.ia_name, *wanted.region.for_shared_memory.shared_memory_id,
                      bounds.length);
}

status create_lmr(adapter &ia, pz &zone, const lmr_request &wanted, lmr *&out)
{
    mr_params bounds{};
    const status checked = check_request(ia, wanted, bounds);
    if (!checked.ok())
        return checked;
    if (ia.has_most<lmr>(ia.attr.max_mrs))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    shared_claim claim;
    const status shared = share(ia, wanted, bounds, claim);
    if (!shared.ok())
        return shared;
    out = ia.make<lmr>(zone, wanted.type, wanted.region, bounds, std::move(claim));
    if (out == nullptr)
        return out_of_memory;
    const status registered = transport::dapls_ib_mr_register(zone.pd, out->mr, bounds, out->keys);
    if (!registered.ok()) {
        ia.destroy(*out);
        return registered;
    }
    out->shared.registered();
    ia.regions.insert(*out);
    return success;
}

template <class T>
void store(T *place, T value)
{
    if (place != nullptr)
        *place = value;
}

/// Whether a window is bound to the region. A later bind of that window to another region releases
/// this region, once that bind is known to be done.
bool is_bound(const lmr &region)
{
    if (!in_use(region))
        return false;
    (void)region.ia->any<rmr>([](rmr &window) {
        window.settle();
        return false;
    });
    return in_use(region);
}

} // namespace

status dapl_lmr_create(adapter &ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                       DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                       DAT_VA_TYPE va_type, DAT_LMR_HANDLE *out, DAT_LMR_CONTEXT *lmr_context,
                       DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_size,
                       DAT_VADDR *registered_address)
{
    pz *zone = from_handle<pz>(pz_handle);
    if (zone == nullptr || zone->ia != &ia)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (out == nullptr)
        return invalid_parameter(8);
    lmr *made = nullptr;
    const status answer = create_lmr(ia, *zone, {type, region, length, privileges, va_type}, made);
    if (!answer.ok())
        return answer;
    *out = to_handle(made);
    store(lmr_context, made->keys.local);
    store(rmr_context, made->keys.remote);
    store(registered_size, made->params.length);
    store(registered_address, made->address());
    return success;
}

void dapl_lmr_query(lmr &region, DAT_LMR_PARAM &out)
{
    out = {};
    out.ia_handle = region.ia->consumer_handle();
    out.mem_type = region.type;
    out.region_desc = region.region;
    if (region.type == DAT_MEM_TYPE_SHARED_VIRTUAL)
        out.region_desc.for_shared_memory.shared_memory_id = region.shared.cookie();
    out.length = region.params.length;
    out.pz_handle = to_handle(&region.zone());
    out.mem_priv = region.params.privileges;
    out.va_type = DAT_VA_TYPE_VA;
    out.lmr_context = region.keys.local;
    out.rmr_context = region.keys.remote;
    out.registered_size = region.params.length;
    out.registered_address = region.address();
}

status dapl_lmr_free(lmr &victim)
{
    if (is_bound(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_LMR);
    victim.ia->regions.remove(victim);
    transport::dapls_ib_mr_deregister(victim.mr);
    victim.ia->destroy(victim);
    return success;
}

/// The regions are coherent: only the arguments are checked.
status dapl_lmr_sync_rdma_read(adapter &ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count)
{
    if (segments == nullptr && count != 0)
        return invalid_parameter(2);
    for (DAT_VLEN i = 0; i < count; ++i)
        if (!ia.regions.covers(segments[i]))
            return invalid_parameter(2);
    return success;
}

status dapl_lmr_sync_rdma_write(adapter &ia, const DAT_LMR_TRIPLET *segments, DAT_VLEN count)
{
    return dapl_lmr_sync_rdma_read(ia, segments, count);
}

} // namespace dapl::DAPL_TRANSPORT::core
