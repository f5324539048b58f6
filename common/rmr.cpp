// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rmr.hpp"

#include "dapl_api.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Nobody asks any more whether the window is bound so.
void drop(binding &past)
{
    past.region = {};
    past.queue->let_go();
    past.let_go();
}

void drop_all(binding *first)
{
    while (first != nullptr)
        drop(*std::exchange(first, first->older));
}

} // namespace

status rmr::allocate()
{
    if (!claims.memory_windows || ia->attr.max_mws == 0)
        return success; // it exists, and cannot be bound
    osd::lock_guard hold(lock_);
    return allocate_locked();
}

status rmr::allocate_locked()
{
    const status made = transport::dapls_ib_mw_alloc(zone_->pd, window_);
    has_window_ = made.ok();
    return made;
}

void rmr::release()
{
    osd::lock_guard hold(lock_);
    release_locked();
}

void rmr::release_locked()
{
    if (has_window_)
        transport::dapls_ib_mw_free(window_);
    has_window_ = false;
    drop_all(std::exchange(newest_, nullptr));
}

/// Libraries count the keys of a window when a bind is posted, devices when it is done. After one
/// that was lost they may disagree, and no later bind would succeed.
status rmr::prepare_window()
{
    settle_locked();
    if (newest_ != nullptr && newest_->lost())
        release_locked();
    return has_window_ ? success : allocate_locked();
}

status rmr::bind(endpoint &through, const bind_request &wanted, DAT_RMR_CONTEXT &context)
{
    auto *posted = new (std::nothrow) binding(*this, wanted.region, wanted.part, wanted.privileges);
    if (posted == nullptr)
        return out_of_memory;
    osd::lock_guard hold(lock_);
    status answer = prepare_window();
    if (answer.ok())
        answer = through.post_bind(*posted, window_, zone(), wanted.cookie, wanted.flags);
    if (!answer.ok()) {
        delete posted;
        return answer;
    }
    posted->older = std::exchange(newest_, posted);
    context = posted->context;
    return success;
}

void rmr::settle()
{
    osd::lock_guard hold(lock_);
    settle_locked();
}

void rmr::settle_locked()
{
    binding *current = newest_;
    for (; current != nullptr && !current->done(); current = current->older)
        if (current->failed.load(std::memory_order_acquire))
            current->region = {};
    if (current != nullptr)
        drop_all(std::exchange(current->older, nullptr));
}

bool rmr::fill(DAT_RMR_PARAM &out)
{
    out = {};
    out.ia_handle = ia->consumer_handle();
    out.pz_handle = to_handle(&zone());
    out.rmr_scope = DAT_RMR_SCOPE_PZ;
    out.va_type = DAT_VA_TYPE_VA;
    osd::lock_guard hold(lock_);
    settle_locked();
    if (newest_ == nullptr || !newest_->region)
        return false;
    out.lmr_triplet = newest_->part;
    out.mem_priv = newest_->privileges;
    out.rmr_context = newest_->context;
    return true;
}

// --------------------------------------------------------------------------------- entry points

namespace {

status create_rmr(pz &zone, DAT_RMR_HANDLE *out)
{
    if (out == nullptr)
        return invalid_parameter(2);
    rmr *made = zone.ia->make(zone.ia->rmrs, zone);
    if (made == nullptr)
        return out_of_memory;
    const status allocated = made->allocate();
    if (!allocated.ok())
        zone.ia->destroy(zone.ia->rmrs, *made);
    else
        *out = to_handle(made);
    return allocated;
}

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

} // namespace

DAT_RETURN dapl_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *out)
{
    pz *zone = from_handle<pz>(pz_handle);
    return zone == nullptr ? invalid_handle(DAT_INVALID_HANDLE_PZ).code()
                           : create_rmr(*zone, out).code();
}

DAT_RETURN dapl_rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK mask, DAT_RMR_PARAM *param)
{
    rmr *found = from_handle<rmr>(handle);
    const status checked =
        check_query(found, DAT_INVALID_HANDLE_RMR, mask, DAT_RMR_FIELD_ALL, param);
    if (!checked.ok())
        return checked.code();
    DAT_RMR_PARAM answer;
    if (!found->fill(answer) && (mask & DAT_RMR_FIELD_LMR_TRIPLET) != 0)
        return invalid_parameter(2).code();
    *param = answer;
    return DAT_SUCCESS;
}

DAT_RETURN dapl_rmr_bind(DAT_RMR_HANDLE handle, DAT_LMR_HANDLE lmr_handle,
                         const DAT_LMR_TRIPLET *part, DAT_MEM_PRIV_FLAGS privileges,
                         DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
                         DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
    rmr *window = from_handle<rmr>(handle);
    if (window == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_RMR).code();
    endpoint *ep = from_handle<endpoint>(ep_handle);
    if (ep == nullptr || ep->ia != window->ia)
        return invalid_handle(DAT_INVALID_HANDLE_EP).code();
    if (const status checked = check_bind(*window->ia, part, privileges, va_type); !checked.ok())
        return checked.code();

    bind_request wanted{nullptr, *part, privileges, cookie, flags};
    DAT_RMR_CONTEXT unused;
    if (part->segment_length != 0) {
        wanted.region = from_handle<lmr>(lmr_handle);
        if (wanted.region == nullptr || wanted.region->ia != window->ia)
            return invalid_handle(DAT_INVALID_HANDLE_LMR).code();
        if (context == nullptr)
            return invalid_parameter(9).code();
        if (const status fits = check_part(*window, *wanted.region, wanted); !fits.ok())
            return fits.code();
    }
    return window->bind(*ep, wanted, context == nullptr ? unused : *context).code();
}

DAT_RETURN dapl_rmr_free(DAT_RMR_HANDLE handle)
{
    rmr *victim = from_handle<rmr>(handle);
    if (victim == nullptr || !victim->condemn())
        return invalid_handle(DAT_INVALID_HANDLE_RMR).code();
    victim->release();
    victim->ia->destroy(victim->ia->rmrs, *victim);
    return DAT_SUCCESS;
}

} // namespace dapl::DAPL_TRANSPORT::core
