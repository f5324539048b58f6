// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_pz_* calls: their arguments are checked here; the work is the port's.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/pz.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

status dapl_pz_create(adapter &ia, DAT_PZ_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(2);
    if (ia.has_most<pz>(ia.attr.max_pds))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN);
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

void dapl_pz_query(pz &zone, DAT_PZ_PARAM &out)
{
    out.ia_handle = zone.ia->consumer_handle();
}

status dapl_pz_free(pz &victim)
{
    if (in_use(victim))
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    transport::dapls_ib_pd_free(victim.pd);
    victim.ia->destroy(victim);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
