// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rmr.hpp"

#include "dapl_api.hpp"

namespace dapl::DAPL_TRANSPORT {

DAT_RETURN dapl_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *out)
{
    pz *zone = from_handle<pz>(pz_handle);
    if (zone == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ).code();
    if (out == nullptr)
        return invalid_parameter(2).code();
    rmr *made = zone->ia->make(zone->ia->rmrs, *zone);
    if (made == nullptr)
        return out_of_memory.code();
    *out = to_handle(made);
    return DAT_SUCCESS;
}

DAT_RETURN dapl_rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
    rmr *found = from_handle<rmr>(handle);
    const status checked =
        check_query(found, DAT_INVALID_HANDLE_RMR, mask, DAT_RMR_FIELD_ALL, param);
    if (!checked.ok())
        return checked.code();
    if ((mask & DAT_RMR_FIELD_LMR_TRIPLET) != 0)
        return invalid_parameter(2).code(); // it is bound to nothing
    *param = {};                            // unbound: no privileges, no context
    param->ia_handle = found->ia->consumer_handle();
    param->pz_handle = to_handle(&found->zone());
    param->rmr_scope = DAT_RMR_SCOPE_PZ;
    param->va_type = DAT_VA_TYPE_VA;
    return DAT_SUCCESS;
}

DAT_RETURN dapl_rmr_free(DAT_RMR_HANDLE handle)
{
    rmr *victim = from_handle<rmr>(handle);
    if (victim == nullptr || !victim->condemn())
        return invalid_handle(DAT_INVALID_HANDLE_RMR).code();
    victim->ia->destroy(victim->ia->rmrs, *victim);
    return DAT_SUCCESS;
}

} // namespace dapl::DAPL_TRANSPORT
