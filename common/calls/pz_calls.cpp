// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_pz_* calls: their arguments are checked here; the work is the port's.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/pz.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

status create_pz(adapter &ia, DAT_PZ_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(2);
    pz *made = ia.make<pz>();
    if (made == nullptr)
        return out_of_memory;
    const status opened = transport::dapls_ib_pd_alloc(ia.hca, made->pd);
    if (!opened.ok())
        ia.destroy(*made);
    else
        *out = to_handle(made);
    return opened;
}

status free_pz(pz &victim)
{
    if (in_use(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    transport::dapls_ib_pd_free(victim.pd);
    victim.ia->destroy(victim);
    return success;
}

} // namespace

DAT_RETURN dapl_pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *out)
{
    return on_object<adapter>(ia, DAT_INVALID_HANDLE_IA,
                              [out](adapter &on) { return create_pz(on, out); });
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
    return on_object<pz>(handle, DAT_INVALID_HANDLE_PZ, free_pz);
}

} // namespace dapl::DAPL_TRANSPORT::core
