// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pz.hpp"

#include "dapl_api.hpp"

namespace dapl::DAPL_TRANSPORT::core {

DAT_RETURN dapl_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *out)
{
    adapter *ia = from_handle<adapter>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA).code();
    if (out == nullptr)
        return invalid_parameter(2).code();
    pz *made = ia->make(ia->pzs);
    if (made == nullptr)
        return out_of_memory.code();
    const status opened = transport::dapls_ib_pd_alloc(ia->hca, made->pd);
    if (!opened.ok())
        ia->destroy(ia->pzs, *made);
    else
        *out = to_handle(made);
    return opened.code();
}

DAT_RETURN dapl_pz_query(DAT_PZ_HANDLE handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param)
{
    pz *found = from_handle<pz>(handle);
    const status checked = check_query(found, DAT_INVALID_HANDLE_PZ, mask, DAT_PZ_FIELD_ALL, param);
    if (checked.ok())
        param->ia_handle = found->ia->consumer_handle();
    return checked.code();
}

DAT_RETURN dapl_pz_free(DAT_PZ_HANDLE handle)
{
    pz *victim = from_handle<pz>(handle);
    if (victim == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ).code();
    if (in_use(*victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE).code();
    if (!victim->condemn())
        return invalid_handle(DAT_INVALID_HANDLE_PZ).code();
    transport::dapls_ib_pd_free(victim->pd);
    victim->ia->destroy(victim->ia->pzs, *victim);
    return DAT_SUCCESS;
}

} // namespace dapl::DAPL_TRANSPORT::core
