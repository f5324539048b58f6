// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_rmr_* calls: their arguments are checked here, their work is done in core/rmr.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/endpoint.hpp"
#include "core/rmr.hpp"
#include "counting.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Whether the region has that part, and rights enough to give.
status check_part(const rmr &window, const lmr &region, const bind_request &wanted)
{
    if (!region.covers(wanted.part))
        return invalid_parameter(3);
    if (&region.zone() != &window.zone())
        return status::error(DAT_PROTECTION_VIOLATION);
    return has_unknown_bits(wanted.privileges, region.params.privileges)
               ? status::error(DAT_PRIVILEGES_VIOLATION)
               : success;
}

status check_bind(const adapter &ia, const DAT_LMR_TRIPLET *part, DAT_MEM_PRIV_FLAGS privileges,
                  DAT_VA_TYPE va_type)
{
    if (part == nullptr)
        return invalid_parameter(3);
    if (has_unknown_bits(privileges, known_privileges(ia.attr)))
        return invalid_parameter(4);
    if (va_type != DAT_VA_TYPE_VA && va_type != DAT_VA_TYPE_ZB)
        return invalid_parameter(5);
    const bool can = claims.memory_windows && ia.attr.max_mws != 0 && va_type == DAT_VA_TYPE_VA;
    return can ? success : not_supported;
}

status create(pz &zone, DAT_RMR_SCOPE scope, DAT_RMR_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(2);
    if (scope == DAT_RMR_SCOPE_EP && !zone.ia->attr.ep_windows)
        return not_supported;
    if (zone.ia->has_most<rmr>(zone.ia->attr.max_mws))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    rmr *made = zone.ia->make<rmr>(zone, scope);
    if (made == nullptr)
        return out_of_memory;
    const status allocated = made->allocate();
    if (!allocated.ok())
        zone.ia->destroy(*made);
    else
        *out = to_handle(made);
    return allocated;
}

} // namespace

status dapl_rmr_create(pz &zone, DAT_RMR_HANDLE *out)
{
    return create(zone, DAT_RMR_SCOPE_PZ, out);
}

status dapl_rmr_create_for_ep(pz &zone, DAT_RMR_HANDLE *out)
{
    return create(zone, DAT_RMR_SCOPE_EP, out);
}

status dapl_rmr_query(rmr &window, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *out)
{
    DAT_RMR_PARAM answer;
    if (has_unknown_bits(mask, DAT_RMR_FIELD_ALL))
        return invalid_parameter(2);
    if (out == nullptr)
        return invalid_parameter(3);
    if (!window.fill(answer) && (mask & DAT_RMR_FIELD_LMR_TRIPLET) != 0)
        return invalid_parameter(2);
    *out = answer;
    return success;
}

status dapl_rmr_bind(rmr &window, DAT_LMR_HANDLE lmr_handle, const DAT_LMR_TRIPLET *part,
                     DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle,
                     DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
    endpoint *ep = from_handle<endpoint>(ep_handle);
    if (ep == nullptr || ep->ia != window.ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const auto refused = [ep](status why) { return refuse(*ep, opcode::bind, nullptr, why); };
    if (const status checked = check_bind(*window.ia, part, privileges, va_type); !checked.ok())
        return refused(checked);

    bind_request wanted{nullptr, *part, privileges, cookie, flags};
    DAT_RMR_CONTEXT unused;
    if (part->segment_length != 0) {
        wanted.region = from_handle<lmr>(lmr_handle);
        if (wanted.region == nullptr || wanted.region->ia != window.ia)
            return refused(invalid_handle(DAT_INVALID_HANDLE_LMR));
        if (context == nullptr)
            return refused(invalid_parameter(9));
        if (const status fits = check_part(window, *wanted.region, wanted); !fits.ok())
            return refused(fits);
    }
    const status posted = window.bind(*ep, wanted, context == nullptr ? unused : *context);
    if (posted.ok())
        note_time_of_post(*ep);
    return posted;
}

status dapl_rmr_free(rmr &victim)
{
    if (!victim.condemn())
        return invalid_handle(DAT_INVALID_HANDLE_RMR);
    victim.release();
    victim.ia->destroy(victim);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
