// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "object.hpp"

#include "immortal.hpp"
#include "osd_sync.hpp"
#include "vector.hpp"

#include <cstdlib>
#include <new>

namespace dat12 {

constinit std::atomic<object *> chains_by_two[1u << hash_bits] = {};

namespace {

constexpr unsigned slots_at_once = 128;
constexpr unsigned contexts = 4096;

/// The slots of the process. One lock for all: objects come and go on the slow path.
class pool {
public:
    object *reserve() OSD_EXCLUDES(lock_);
    object *publish(object &reserved, DAT_HANDLE_TYPE type, void *two, object *ia)
        OSD_EXCLUDES(lock_);
    void discard(object &reserved) OSD_EXCLUDES(lock_);
    void retire(object &gone) OSD_EXCLUDES(lock_);
    void retire_adapter(object &ia) OSD_EXCLUDES(lock_);
    void publish_context(object &lmr, DAT_LMR_CONTEXT context) OSD_EXCLUDES(lock_);

    object *find(void *two) OSD_EXCLUDES(lock_);
    object *find_or_make(void *two, DAT_HANDLE_TYPE type, object *ia) OSD_EXCLUDES(lock_);
    object *find_context(object *ia, DAT_LMR_CONTEXT context) OSD_EXCLUDES(lock_);
    object *find_number(DAT_IA_HANDLE number) OSD_EXCLUDES(lock_);

private:
    bool grow() OSD_REQUIRES(lock_);
    object *take() OSD_REQUIRES(lock_);
    void give_back(object &unused) OSD_REQUIRES(lock_);
    void insert(object &made, DAT_HANDLE_TYPE type, void *two, object *ia) OSD_REQUIRES(lock_);
    void link(object &made, object *ia) OSD_REQUIRES(lock_);
    void unlink(object &gone) OSD_REQUIRES(lock_);
    void unhash(object &gone) OSD_REQUIRES(lock_);
    void forget_context(object &lmr) OSD_REQUIRES(lock_);
    void end(object &gone) OSD_REQUIRES(lock_);

    osd::mutex lock_;
    // First in, first out: a stale handle stays stale for as long as possible.
    object *first_free_ OSD_GUARDED_BY(lock_) = nullptr;
    object *last_free_ OSD_GUARDED_BY(lock_) = nullptr;
    object *adapters_ OSD_GUARDED_BY(lock_) = nullptr;
};

constinit dat::immortal<pool> the_pool;
constinit dat::immortal<osd::mutex> listening_lock;
constinit std::atomic<object *> chains_by_context[contexts] = {};

std::atomic<object *> &chain_of(void *two)
{
    return chains_by_two[hash_of(reinterpret_cast<std::uintptr_t>(two))];
}

std::atomic<object *> &chain_of(DAT_LMR_CONTEXT context)
{
    return chains_by_context[(context * 0x9e3779b1u) >> 20];
}
static_assert(contexts == 1u << (32 - 20));

/// The kind of an object that was found through a chain: its slot may be used again just now.
mark kind_of(object &any)
{
    return std::atomic_ref(any.kind).load(std::memory_order_relaxed);
}

void set_kind(object &any, mark kind)
{
    std::atomic_ref(any.kind).store(kind, std::memory_order_release);
}

bool is_alive(object &any)
{
    return kind_of(any) != mark::dead;
}

bool is_lmr(object &any)
{
    return kind_of(any) == mark_of(DAT_HANDLE_TYPE_LMR);
}

bool pool::grow()
{
    auto *slots = static_cast<object *>(std::calloc(slots_at_once, sizeof(object)));
    if (slots == nullptr)
        return false;
    for (object *slot = slots; slot != slots + slots_at_once; ++slot) {
        new (slot) object();
        const void *vector = &provider_vector;
        std::memcpy(slot->vector, &vector, sizeof vector);
        give_back(*slot);
    }
    return true;
}

object *pool::take()
{
    if (first_free_ == nullptr && !grow())
        return nullptr;
    object *taken = first_free_;
    first_free_ = taken->next_free;
    if (first_free_ == nullptr)
        last_free_ = nullptr;
    taken->next_free = nullptr;
    unhash(*taken);
    return taken;
}

void pool::give_back(object &unused)
{
    unused.next_free = nullptr;
    (last_free_ != nullptr ? last_free_->next_free : first_free_) = &unused;
    last_free_ = &unused;
}

void pool::link(object &made, object *ia)
{
    object *&first = ia != nullptr ? ia->first_of_ia : adapters_;
    made.ia = ia != nullptr ? ia : &made;
    made.previous_of_ia = nullptr;
    made.next_of_ia = first;
    if (first != nullptr)
        first->previous_of_ia = &made;
    first = &made;
}

void pool::unlink(object &gone)
{
    object *&first = gone.ia != &gone ? gone.ia->first_of_ia : adapters_;
    (gone.previous_of_ia != nullptr ? gone.previous_of_ia->next_of_ia : first) = gone.next_of_ia;
    if (gone.next_of_ia != nullptr)
        gone.next_of_ia->previous_of_ia = gone.previous_of_ia;
}

void pool::unhash(object &gone)
{
    if (!gone.hashed)
        return;
    std::atomic<object *> *at = &chain_of(gone.two.load(std::memory_order_relaxed));
    while (at->load(std::memory_order_relaxed) != &gone)
        at = &at->load(std::memory_order_relaxed)->same_hash;
    at->store(gone.same_hash.load(std::memory_order_relaxed), std::memory_order_release);
    gone.hashed = false;
}

void pool::insert(object &made, DAT_HANDLE_TYPE type, void *two, object *ia)
{
    std::atomic<object *> &first = chain_of(two);
    made.context.as_64 = 0;
    made.first_of_ia = nullptr;
    made.two.store(two, std::memory_order_relaxed);
    made.same_hash.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    made.hashed = true;
    link(made, ia);
    set_kind(made, mark_of(type));
    first.store(&made, std::memory_order_release);
}

void pool::forget_context(object &lmr)
{
    std::atomic<object *> *at = &chain_of(lmr.lmr_context.load(std::memory_order_relaxed));
    while (object *here = at->load(std::memory_order_relaxed)) {
        if (here == &lmr) {
            at->store(lmr.same_context.load(std::memory_order_relaxed), std::memory_order_release);
            return;
        }
        at = &here->same_context;
    }
}

void pool::end(object &gone)
{
    if (is_lmr(gone))
        forget_context(gone);
    set_kind(gone, mark::dead);
    give_back(gone);
}

object *pool::reserve()
{
    osd::lock_guard guard(lock_);
    object *taken = take();
    if (taken != nullptr)
        std::memset(static_cast<void *>(&taken->agent), 0, sizeof taken->agent);
    return taken;
}

object *pool::publish(object &reserved, DAT_HANDLE_TYPE type, void *two, object *ia)
{
    osd::lock_guard guard(lock_);
    insert(reserved, type, two, ia);
    return &reserved;
}

void pool::discard(object &reserved)
{
    osd::lock_guard guard(lock_);
    give_back(reserved);
}

void pool::retire(object &gone)
{
    osd::lock_guard guard(lock_);
    if (!is_alive(gone))
        return;
    unlink(gone);
    end(gone);
}

void pool::retire_adapter(object &ia)
{
    osd::lock_guard guard(lock_);
    while (object *one = ia.first_of_ia) {
        unlink(*one);
        end(*one);
    }
    unlink(ia);
    end(ia);
}

void pool::publish_context(object &lmr, DAT_LMR_CONTEXT context)
{
    osd::lock_guard guard(lock_);
    std::atomic<object *> &first = chain_of(context);
    lmr.lmr_context.store(context, std::memory_order_relaxed);
    lmr.same_context.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.store(&lmr, std::memory_order_release);
}

object *pool::find(void *two)
{
    osd::lock_guard guard(lock_);
    return found_quickly(two);
}

object *pool::find_or_make(void *two, DAT_HANDLE_TYPE type, object *ia)
{
    osd::lock_guard guard(lock_);
    object *found = found_quickly(two);
    if (found != nullptr && is_alive(*found))
        return found;
    object *made = take();
    if (made == nullptr)
        return nullptr;
    std::memset(static_cast<void *>(&made->agent), 0, sizeof made->agent);
    insert(*made, type, two, ia);
    return made;
}

object *in_chain(object *ia, DAT_LMR_CONTEXT context)
{
    object *at = chain_of(context).load(std::memory_order_acquire);
    while (at != nullptr && (!is_lmr(*at) || at->ia != ia ||
                             at->lmr_context.load(std::memory_order_relaxed) != context))
        at = at->same_context.load(std::memory_order_acquire);
    return at;
}

object *pool::find_context(object *ia, DAT_LMR_CONTEXT context)
{
    osd::lock_guard guard(lock_);
    return in_chain(ia, context);
}

object *pool::find_number(DAT_IA_HANDLE number)
{
    osd::lock_guard guard(lock_);
    object *at = adapters_;
    while (at != nullptr && at->number != number)
        at = at->next_of_ia;
    return at;
}

} // namespace

object *any_object_of(DAT_HANDLE handle)
{
    if (!could_be_ours(handle))
        return nullptr;
    object *found = unchecked(handle);
    const auto kind = static_cast<std::uint32_t>(found->kind);
    return kind - static_cast<std::uint32_t>(mark::first) <= DAT_HANDLE_TYPE_SRQ ? found : nullptr;
}

object *reserve()
{
    return the_pool.value.reserve();
}

object *publish(object &reserved, DAT_HANDLE_TYPE type, void *two, object *ia)
{
    return the_pool.value.publish(reserved, type, two, ia);
}

void discard(object &reserved)
{
    the_pool.value.discard(reserved);
}

void retire(object &gone)
{
    the_pool.value.retire(gone);
}

void retire_adapter(object &ia)
{
    the_pool.value.retire_adapter(ia);
}

void publish_context(object &lmr, DAT_LMR_CONTEXT context)
{
    the_pool.value.publish_context(lmr, context);
}

/// Finds an object with the lock held. Readers without the lock may leave a chain with a slot that
/// is used again just then: an object that they miss is looked for once more.
object *found_with_lock(void *two)
{
    return two != nullptr ? the_pool.value.find(two) : nullptr;
}

object *found_by_two(void *two)
{
    object *found = found_quickly(two);
    return found != nullptr ? found : found_with_lock(two);
}

object *found_or_made(void *two, DAT_HANDLE_TYPE type, object *ia)
{
    if (two == nullptr)
        return nullptr;
    object *found = found_quickly(two);
    return found != nullptr && is_alive(*found) ? found
                                                : the_pool.value.find_or_make(two, type, ia);
}

object *found_by_context(object *ia, DAT_LMR_CONTEXT context)
{
    object *found = in_chain(ia, context);
    return found != nullptr ? found : the_pool.value.find_context(ia, context);
}

object *found_by_number(DAT_IA_HANDLE number)
{
    return the_pool.value.find_number(number);
}

listening::listening()
{
    listening_lock.value.lock();
}

listening::~listening()
{
    listening_lock.value.unlock();
}

} // namespace dat12
