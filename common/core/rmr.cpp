// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rmr.hpp"

#include "adapter.hpp"
#include "endpoint.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// Whether a bind has completed, and not as a failure.
bool is_done(const binding &b)
{
    return !b.failed.load(std::memory_order_acquire) && b.queue->has_finished(*b.request, &b);
}

/// Whether a bind failed, or its queue has lost its endpoint, so that the outcome will not be
/// known.
bool is_lost(const binding &b)
{
    return b.failed.load(std::memory_order_acquire) || (!is_done(b) && b.queue->owner == nullptr);
}

/// The window cannot be bound like this any more.
void drop(binding &past)
{
    past.region = {};
    past.queue->release();
    past.release();
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

/// Device libraries advance the key of a window when a bind is posted, devices when it is done.
/// After a bind that was lost the two may differ, and no later bind would succeed.
status rmr::prepare_window()
{
    settle_locked();
    if (newest_ != nullptr && is_lost(*newest_))
        release_locked();
    return has_window_ ? success : allocate_locked();
}

status rmr::bind(endpoint &through, const bind_request &wanted, DAT_RMR_CONTEXT &context)
{
    const auto refused = [&through](status why) {
        return refuse(through, opcode::bind, nullptr, why);
    };
    auto *posted = new (std::nothrow)
        binding(*this, wanted.region, wanted.part, wanted.privileges, scope_ == DAT_RMR_SCOPE_EP);
    if (posted == nullptr)
        return refused(out_of_memory);
    osd::lock_guard hold(lock_);
    const status ready = prepare_window();
    const status answer =
        ready.ok() ? through.post_bind(*posted, window_, zone(), wanted.cookie, wanted.flags)
                   : refused(ready);
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
    for (; current != nullptr && !is_done(*current); current = current->older)
        if (current->failed.load(std::memory_order_acquire))
            current->region = {};
    if (current == nullptr)
        return;
    drop_all(std::exchange(current->older, nullptr));
    if (current->region && !transport::dapls_ib_mw_is_bound(window_, current->context))
        current->region = {};
}

bool rmr::fill(DAT_RMR_PARAM &out)
{
    out = {};
    out.ia_handle = ia->consumer_handle();
    out.pz_handle = to_handle(&zone());
    out.rmr_scope = scope_;
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

} // namespace dapl::DAPL_TRANSPORT::core
