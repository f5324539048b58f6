// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection zones, regions and windows: all but binding.
#include "calls.hpp"
#include "segments.hpp"

#include <algorithm>

using dat12::object;

namespace dat12 {
namespace {

/// DAT 2.0 has the kind of address before the contexts.
constexpr DAT_LMR_PARAM_MASK lmr_mask(DAT_UINT64 one)
{
    const DAT_UINT64 before = v1::DAT_LMR_FIELD_LMR_CONTEXT - 1;
    return static_cast<DAT_LMR_PARAM_MASK>((one & before) | (one & ~before) << 1);
}

static_assert(lmr_mask(v1::DAT_LMR_FIELD_REGISTERED_ADDRESS) == DAT_LMR_FIELD_REGISTERED_ADDRESS);

/// What a region is made of: another region is named by a handle.
DAT_REGION_DESCRIPTION region_to_two(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION one)
{
    if (type == DAT_MEM_TYPE_LMR)
        one.for_lmr_handle = two_of<DAT_HANDLE_TYPE_LMR>(one.for_lmr_handle);
    return one;
}

DAT_REGION_DESCRIPTION region_to_one(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION two)
{
    if (type == DAT_MEM_TYPE_LMR)
        two.for_lmr_handle = one_of(two.for_lmr_handle);
    return two;
}

void lmr_to_one(const object &lmr, const DAT_LMR_PARAM &two, v1::DAT_LMR_PARAM &one)
{
    one.ia_handle = handle_of(lmr.ia);
    one.mem_type = two.mem_type;
    one.region_desc = region_to_one(two.mem_type, two.region_desc);
    one.length = two.length;
    one.pz_handle = one_of(two.pz_handle);
    one.mem_priv = static_cast<v1::DAT_MEM_PRIV_FLAGS>(two.mem_priv);
    one.lmr_context = two.lmr_context;
    one.rmr_context = two.rmr_context;
    one.registered_size = two.registered_size;
    one.registered_address = two.registered_address;
}

v1::DAT_LMR_TRIPLET segment_to_one(const DAT_LMR_TRIPLET &two)
{
    return {two.lmr_context, 0, two.virtual_address, two.segment_length};
}

void rmr_to_one(const object &rmr, const DAT_RMR_PARAM &two, v1::DAT_RMR_PARAM &one)
{
    one.ia_handle = handle_of(rmr.ia);
    one.pz_handle = one_of(two.pz_handle);
    one.lmr_triplet = segment_to_one(two.lmr_triplet);
    one.mem_priv = static_cast<v1::DAT_MEM_PRIV_FLAGS>(two.mem_priv);
    one.rmr_context = two.rmr_context;
}

/// Synchronizes segments, as many at once as fit on the stack.
template <auto Slot>
DAT_RETURN synchronize(DAT_IA_HANDLE handle, const v1::DAT_LMR_TRIPLET *segments, DAT_VLEN count)
{
    object *ia = object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return refused<DAT_HANDLE_TYPE_IA>;
    if (segments == nullptr)
        return call<Slot>(*ia, static_cast<const DAT_LMR_TRIPLET *>(nullptr), count);
    DAT_RETURN status = DAT_SUCCESS;
    do {
        DAT_LMR_TRIPLET two[64];
        const auto now = static_cast<DAT_COUNT>(std::min<DAT_VLEN>(count, 64));
        if (!all_to_two(segments, now, two))
            return too_long;
        status =
            call<Slot>(*ia, static_cast<const DAT_LMR_TRIPLET *>(two), static_cast<DAT_VLEN>(now));
        segments += now;
        count -= static_cast<DAT_VLEN>(now);
    } while (status == DAT_SUCCESS && count != 0);
    return status;
}

} // namespace
} // namespace dat12

// --- Protection zones
// --------------------------------------------------------------------------------

DAT_RETURN dat12_pz_create(DAT_IA_HANDLE handle, DAT_PZ_HANDLE *pz)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    return dat12::create<DAT_HANDLE_TYPE_PZ>(*ia, pz, 2, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::pz_create_func>(*ia, made);
    });
}

DAT_RETURN dat12_pz_query(DAT_PZ_HANDLE handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param)
{
    object *pz = dat12::object_of<DAT_HANDLE_TYPE_PZ>(handle);
    if (pz == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_PZ>;
    const DAT_RETURN status = dat12::check_query(mask, DAT_PZ_FIELD_ALL, param);
    if (status == DAT_SUCCESS)
        param->ia_handle = dat12::handle_of(pz->ia);
    return status;
}

DAT_RETURN dat12_pz_free(DAT_PZ_HANDLE pz)
{
    return dat12::release<DAT_HANDLE_TYPE_PZ, &DAT_PROVIDER::pz_free_func>(pz);
}

// --- Regions
// -----------------------------------------------------------------------------------------

DAT_RETURN dat12_lmr_create(DAT_IA_HANDLE handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                            DAT_VLEN length, DAT_PZ_HANDLE pz, v1::DAT_MEM_PRIV_FLAGS privileges,
                            DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
                            DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                            DAT_VADDR *registered_address)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    DAT_LMR_CONTEXT context = 0;
    object *published = nullptr;
    const DAT_RETURN status = dat12::create<DAT_HANDLE_TYPE_LMR>(
        *ia, lmr, 7,
        [&](DAT_HANDLE *made, object &) {
            return dat12::to_one(dat12::without_position(
                dat12::call_two<&DAT_PROVIDER::lmr_create_func>(
                    *ia, type, dat12::region_to_two(type, region), length,
                    dat12::two_of<DAT_HANDLE_TYPE_PZ>(pz),
                    static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA, made, &context,
                    rmr_context, registered_length, registered_address),
                7));
        },
        &published);
    if (status != DAT_SUCCESS)
        return status;
    dat12::publish_context(*published, context);
    if (lmr_context != nullptr)
        *lmr_context = context;
    return DAT_SUCCESS;
}

DAT_RETURN dat12_lmr_query(DAT_LMR_HANDLE handle, v1::DAT_LMR_PARAM_MASK mask,
                           v1::DAT_LMR_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_LMR, &DAT_PROVIDER::lmr_query_func, DAT_LMR_PARAM>(
        handle, mask, v1::DAT_LMR_FIELD_ALL, dat12::lmr_mask(mask), param, dat12::lmr_to_one);
}

DAT_RETURN dat12_lmr_free(DAT_LMR_HANDLE lmr)
{
    return dat12::release<DAT_HANDLE_TYPE_LMR, &DAT_PROVIDER::lmr_free_func>(lmr);
}

DAT_RETURN dat12_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const v1::DAT_LMR_TRIPLET *segments,
                                    DAT_VLEN count)
{
    return dat12::synchronize<&DAT_PROVIDER::lmr_sync_rdma_read_func>(ia, segments, count);
}

DAT_RETURN dat12_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const v1::DAT_LMR_TRIPLET *segments,
                                     DAT_VLEN count)
{
    return dat12::synchronize<&DAT_PROVIDER::lmr_sync_rdma_write_func>(ia, segments, count);
}

// --- Windows
// -----------------------------------------------------------------------------------------

DAT_RETURN dat12_rmr_create(DAT_PZ_HANDLE handle, DAT_RMR_HANDLE *rmr)
{
    object *pz = dat12::object_of<DAT_HANDLE_TYPE_PZ>(handle);
    if (pz == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_PZ>;
    return dat12::create<DAT_HANDLE_TYPE_RMR>(*pz->ia, rmr, 2, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::rmr_create_func>(*pz, made);
    });
}

DAT_RETURN dat12_rmr_query(DAT_RMR_HANDLE handle, v1::DAT_RMR_PARAM_MASK mask,
                           v1::DAT_RMR_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_RMR, &DAT_PROVIDER::rmr_query_func, DAT_RMR_PARAM>(
        handle, mask, v1::DAT_RMR_FIELD_ALL, static_cast<DAT_RMR_PARAM_MASK>(mask), param,
        dat12::rmr_to_one);
}

DAT_RETURN dat12_rmr_free(DAT_RMR_HANDLE rmr)
{
    return dat12::release<DAT_HANDLE_TYPE_RMR, &DAT_PROVIDER::rmr_free_func>(rmr);
}
