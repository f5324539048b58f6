// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues: filled, run dry, resized, replaced and freed, while endpoints take from
// them.
#include "world.hpp"

#include "dat_names.hpp"
#include "program/failure.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stress {

namespace {

constexpr DAT_COUNT pool_qlen = 256;

} // namespace

// ------------------------------------------------------------------------------------ the books

int receive_pool::take_slot()
{
    std::lock_guard hold(m);
    const int slot = std::countr_one(in_use);
    if (slot == static_cast<int>(slots))
        return -1;
    in_use |= std::uint64_t{1} << slot;
    ++posts[slot];
    return slot;
}

void receive_pool::give_back(unsigned slot)
{
    std::lock_guard hold(m);
    in_use &= ~(std::uint64_t{1} << slot);
}

bool receive_pool::is_posted(unsigned slot, std::uint32_t post)
{
    std::lock_guard hold(m);
    return (in_use >> slot & 1) != 0 && posts[slot] == post;
}

/// A receive that was taken for an endpoint that was freed before its completion does not come
/// back.
bool receive_pool::is_worn()
{
    std::lock_guard hold(m);
    return std::popcount(in_use) > static_cast<int>(slots) * 3 / 4;
}

bool receive_pool::is_exhausted()
{
    std::lock_guard hold(m);
    return std::popcount(in_use) == static_cast<int>(slots);
}

// --------------------------------------------------------------------------------------- making

std::shared_ptr<receive_pool> world::make_pool(worker &who, DAT_PZ_HANDLE zone)
{
    auto made = std::make_shared<receive_pool>();
    made->memory.resize(receive_pool::slots * std::size_t{slot_size});
    made->evd = make_dispatcher(who, DAT_EVD_DTO_FLAG, pool_qlen);
    made->evd->common = true;
    (void)made->evd->reserve(receive_pool::slots);
    DAT_SRQ_ATTR attr{};
    attr.max_recv_dtos = receive_pool::depth;
    attr.max_recv_iov = 1;
    MUST(who, dat_srq_create, ia_, zone, &attr, &made->srq);
    DAT_REGION_DESCRIPTION region{};
    region.for_va = made->memory.data();
    DAT_RMR_CONTEXT remote = 0;
    MUST(who, dat_lmr_create, ia_, DAT_MEM_TYPE_VIRTUAL, region, made->memory.size(), zone,
         DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_VA_TYPE_VA, &made->lmr, &made->context, &remote,
         nullptr, nullptr);
    who.count(counter::pools);
    std::lock_guard hold(lists_lock_);
    made->number = static_cast<std::uint32_t>(pools_.size());
    pools_.push_back(made);
    return made;
}

/// Picks a pool for an endpoint of that zone. Null if the adapter has no SRQs, or none is wanted.
std::shared_ptr<receive_pool> world::pick_pool(worker &who, zone &of)
{
    if (!has_pools_ || !who.random.one_in(3))
        return nullptr;
    std::lock_guard hold(of.m);
    if (of.pool == nullptr || of.pool->is_worn() || who.random.one_in(16)) {
        std::shared_ptr<receive_pool> old =
            std::exchange(of.pool, make_pool(who, of.handle)); // keeps a user of its own
        of.pool->users.fetch_add(1);
        if (old != nullptr)
            leave_pool(who, *old);
    }
    of.pool->users.fetch_add(1);
    return of.pool;
}

/// The last user frees it.
void world::leave_pool(worker &who, receive_pool &left)
{
    if (left.users.fetch_sub(1) != 1)
        return;
    std::lock_guard alone(left.use);
    MUST(who, dat_srq_free, left.srq);
    MUST(who, dat_lmr_free, left.lmr);
    left.freed = true;
    std::lock_guard hold(lists_lock_);
    retired_.push_back(left.evd);
}

void world::leave_current_pools(worker &who)
{
    for (const auto &each : zones_)
        if (const auto pool = std::exchange(each->pool, nullptr))
            leave_pool(who, *pool);
}

std::shared_ptr<receive_pool> world::pool_numbered(std::uint32_t number)
{
    std::lock_guard hold(lists_lock_);
    return number < pools_.size() ? pools_[number] : nullptr;
}

// ----------------------------------------------------------------------------------------- using

/// Returns false when it is full.
bool world::post_to_pool(worker &who, receive_pool &to)
{
    if (!to.use.try_lock_shared())
        return false;
    std::shared_lock hold(to.use, std::adopt_lock);
    const int slot = to.freed ? -1 : to.take_slot();
    if (slot < 0)
        return false;
    DAT_LMR_TRIPLET segment{reinterpret_cast<DAT_VADDR>(to.slot(slot)), slot_size, to.context};
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = std::uint64_t{pool_bit | to.number} << 32 |
                   (to.posts[slot] << receive_pool::slot_bits | static_cast<unsigned>(slot));
    const DAT_RETURN code = CALL(who, dat_srq_post_recv, to.srq, 1, &segment, cookie);
    if (code == DAT_SUCCESS) {
        who.count(counter::posted);
        return true;
    }
    to.give_back(static_cast<unsigned>(slot));
    if (!is(code, DAT_INSUFFICIENT_RESOURCES))
        run_.must(code, "dat_srq_post_recv");
    return false;
}

/// Serves a pool that may have endpoints, though new ones do not get it any more.
void world::serve_pool(worker &who)
{
    std::shared_ptr<receive_pool> one;
    {
        std::lock_guard hold(lists_lock_);
        if (pools_.empty())
            return;
        const auto recent = std::min<std::size_t>(pools_.size(), 4 * zones_.size());
        one = pools_[pools_.size() - 1 - who.random.below(static_cast<std::uint32_t>(recent))];
    }
    while (post_to_pool(who, *one) && !who.random.one_in(6)) {
    }
    if (!one->use.try_lock_shared())
        return;
    std::shared_lock hold(one->use, std::adopt_lock);
    if (!one->freed && who.random.one_in(8))
        reconfigure_pool(who, *one);
}

void world::reconfigure_pool(worker &who, receive_pool &which)
{
    if (who.random.one_in(2)) {
        DAT_SRQ_PARAM param{};
        MUST(who, dat_srq_query, which.srq, DAT_SRQ_FIELD_ALL, &param);
        if (param.srq_state != DAT_SRQ_STATE_OPERATIONAL)
            run_.broken("an SRQ is operational until it is freed",
                        "state " + std::to_string(param.srq_state));
        return;
    }
    // Fewer than are outstanding are refused.
    const auto wanted = receive_pool::depth + static_cast<DAT_COUNT>(who.random.below(8));
    const DAT_RETURN code = CALL(who, dat_srq_resize, which.srq, wanted);
    if (code == DAT_SUCCESS)
        who.count(counter::resizes);
    else if (!run_.is_fault(code) && !is(code, DAT_INVALID_STATE) &&
             !is(code, DAT_MODEL_NOT_SUPPORTED) && !is(code, DAT_INSUFFICIENT_RESOURCES))
        run_.broken("an SRQ can be resized to what it holds", program::code_text(code));
}

// ----------------------------------------------------------------------------------------- taking

/// The endpoint that has this handle.
life *world::taker_of(DAT_EP_HANDLE ep)
{
    for (const auto &each : sides_)
        if (each->ep.load(std::memory_order_relaxed) == ep)
            return each->current.load();
    return nullptr;
}

void world::judge_pooled(worker &who, dispatcher &from, const DAT_DTO_COMPLETION_EVENT_DATA &told,
                         const span &taken)
{
    const auto number = static_cast<std::uint32_t>(told.user_cookie.as_64 >> 32) & ~pool_bit;
    const auto post = static_cast<std::uint32_t>(told.user_cookie.as_64);
    const unsigned slot = post % receive_pool::slots;
    const std::shared_ptr<receive_pool> pool = pool_numbered(number);
    const std::string which = "receive " + std::to_string(post >> receive_pool::slot_bits) +
                              " in slot " + std::to_string(slot) + " of SRQ " +
                              std::to_string(number);
    if (pool == nullptr || pool->evd.get() != &from)
        run_.broken("a completion comes in the EVD of its endpoint, and names it", which);
    if (!pool->is_posted(slot, post >> receive_pool::slot_bits))
        run_.broken("each operation completes once", which);
    if (told.operation != DAT_DTO_RECEIVE)
        run_.broken("a completion says which operation it was", which);
    const bool success = told.status == DAT_DTO_SUCCESS;
    who.count(success                              ? counter::succeeded
              : told.status == DAT_DTO_ERR_FLUSHED ? counter::flushed
                                                   : counter::failed);
    if (life *const l = taker_of(told.ep_handle)) {
        std::lock_guard hold(l->m);
        if (l->ep == told.ep_handle && l->pool == pool && l->now_in != phase::dying &&
            l->now_in != phase::gone)
            judge_pooled_for(who, *l, *pool, slot, told, taken);
    }
    pool->give_back(slot);
}

/// The event may be of an earlier endpoint that had the handle, if it was asked for before this one
/// was made.
void world::judge_pooled_for(worker &who, life &l, receive_pool &pool, unsigned slot,
                             const DAT_DTO_COMPLETION_EVENT_DATA &told, const span &taken)
{
    entry done;
    done.what = DAT_DTO_RECEIVE;
    done.length = slot_size;
    done.posted = taken;
    const bool maybe_earlier = taken.began <= l.born;
    if (told.status != DAT_DTO_SUCCESS) {
        if (!maybe_earlier && (!l.meets || !l.meets->excused(taken.ended)))
            run_.broken("nothing fails before the connection is ended",
                        describe(l, done) + ": " + dat::dto_status_name(told.status));
        return;
    }
    if (!l.meets) {
        if (!maybe_earlier)
            run_.broken("nothing is transferred without a connection", describe(l, done));
        return;
    }
    const auto length = static_cast<std::uint32_t>(told.transfered_length);
    header head{};
    std::memcpy(&head, pool.slot(static_cast<int>(slot)), sizeof head);
    if (maybe_earlier && (length < sizeof head || head.encounter != l.meets->number))
        return;
    who.count(counter::bytes, length);
    who.count(counter::pooled);
    judge_message(who, l, done, pool.slot(static_cast<int>(slot)), length, taken);
}

} // namespace stress
