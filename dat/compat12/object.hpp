// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The objects that consumers of DAT 1.2 hold handles of: each stands for one object of DAT 2.0.
#pragma once

#include "dat12_types.hpp"
#include "osd_annotations.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

namespace dat12 {

/// The kind of a live object; a freed one has `dead`. Large numbers, so that no handle of another
/// library passes for one of ours.
enum class mark : std::uint32_t { dead = 0, first = 0xda712000 };

constexpr mark mark_of(DAT_HANDLE_TYPE type)
{
    return static_cast<mark>(static_cast<std::uint32_t>(mark::first) + type);
}

/// Objects are type-stable: their memory is never returned, and a freed slot keeps its vector and
/// is dead. So a stale handle can be looked at, and its answer is DAT_INVALID_HANDLE.
///
/// A handle is the address of `vector`, to which DAT 1.2 programs reach through. That is 4 bytes
/// behind a multiple of 8, where no object of DAT 2.0 begins: libdat2 turns our handles away by its
/// check of alignment, at no cost to its data path, and we turn away DAT 2.0 handles.
struct object {
    std::uint32_t reserved;
    std::uint32_t vector[2];
    mark kind;               ///< read as it is: who has a handle has it from behind publish()
    std::atomic<void *> two; ///< the object of DAT 2.0; of an adapter the provider's pointer
    object *ia;              ///< the adapter it belongs to
    std::atomic<object *> same_hash; ///< the next one in the chain of found_by_two()
    object *next_of_ia;
    object *previous_of_ia;
    DAT_CONTEXT context; ///< value of dat_set_consumer_context()

    // Members of some kinds only. The chain is walked without a lock, so its members never have
    // another use.
    std::atomic<object *> same_context; ///< LMR: the next one in the chain of found_by_context()
    std::atomic<DAT_LMR_CONTEXT> lmr_context; ///< LMR
    union {
        DAT_OS_WAIT_PROXY_AGENT agent; ///< CNO
        object *cr_endpoint;           ///< CR: the endpoint that the provider made for it, or null
        DAT_IA_HANDLE number;          ///< IA: libdat2's number
    };
    object *first_of_ia; ///< IA: its objects
    object *next_free;   ///< link of the list of free slots
    bool hashed;         ///< is in the chain of `two`
};

static_assert(offsetof(object, vector) == 4 && offsetof(object, kind) == 12);

inline DAT_HANDLE handle_of(object *of)
{
    return of == nullptr ? nullptr : of->vector;
}

/// Whether one of our objects may lie there: turns away null, small numbers, handles of DAT 2.0 and
/// what no process can map, with one comparison; see dat::could_be_object().
OSD_ALWAYS_INLINE bool could_be_ours(DAT_HANDLE handle)
{
    const auto distance = reinterpret_cast<std::uintptr_t>(handle) - (65536 + 4);
    return std::rotr(distance, 3) >> (57 - 3) == 0;
}

OSD_ALWAYS_INLINE object *unchecked(DAT_HANDLE handle)
{
    return reinterpret_cast<object *>(static_cast<char *>(handle) - offsetof(object, vector));
}

/// The live object of that kind behind a handle, or null.
template <DAT_HANDLE_TYPE Type>
OSD_ALWAYS_INLINE object *object_of(DAT_HANDLE handle)
{
    if (!could_be_ours(handle)) [[unlikely]]
        return nullptr;
    object *found = unchecked(handle);
    if (found->kind != mark_of(Type)) [[unlikely]]
        return nullptr;
    return found;
}

/// The live object of any kind behind a handle, or null.
object *any_object_of(DAT_HANDLE handle);

/// What providers of DAT 2.0 refuse as a handle: small, and not aligned.
inline const DAT_HANDLE never_a_handle = reinterpret_cast<DAT_HANDLE>(std::uintptr_t{3});

/// The DAT 2.0 object behind a handle that is not the first argument of a call. Whether there has
/// to be one is the provider's decision: null stays null, and a bad handle becomes a handle that it
/// refuses.
template <DAT_HANDLE_TYPE Type>
DAT_HANDLE two_of(DAT_HANDLE handle)
{
    if (handle == nullptr)
        return nullptr;
    object *found = object_of<Type>(handle);
    return found != nullptr ? found->two.load(std::memory_order_relaxed) : never_a_handle;
}

// --- Making and ending
// -----------------------------------------------------------------------------

/// A slot for an object, dead as yet; null when there is no memory. Ends in
/// publish() or discard().
object *reserve();
/// The slot becomes the object of `two`.
object *publish(object &reserved, DAT_HANDLE_TYPE type, void *two, object *ia);
void discard(object &reserved);
/// The object is gone. Until the slot is used again, found_by_two() still leads to it, for events
/// that name it late.
void retire(object &gone);
/// The adapter and all that belongs to it are gone.
void retire_adapter(object &ia);
/// A region can be found by its context from here on; see found_by_context().
void publish_context(object &lmr, DAT_LMR_CONTEXT context);

// --- Finding
// ----------------------------------------------------------------------------------------

/// The object of a DAT 2.0 object: no lock unless there is none. Null for null.
object *found_by_two(void *two);
/// The object of a DAT 2.0 object, made if there is none; for objects that the provider makes by
/// itself.
object *found_or_made(void *two, DAT_HANDLE_TYPE type, object *ia);
/// The region of the adapter that has this context, or null.
object *found_by_context(object *ia, DAT_LMR_CONTEXT context);
/// The adapter with that number of libdat2's, or null.
object *found_by_number(DAT_IA_HANDLE number);

/// Threads that make a service point have it published before they let go of this, so that no
/// request arrives at a service point that is unknown yet.
class listening {
public:
    listening();
    ~listening();
    listening(const listening &) = delete;
    listening &operator=(const listening &) = delete;
};

constexpr unsigned hash_bits = 14;

OSD_ALWAYS_INLINE std::size_t hash_of(std::uint64_t key)
{
    return (key >> 4) * 0x9e3779b97f4a7c15u >> (64 - hash_bits);
}

[[gnu::visibility("hidden")]] extern std::atomic<object *> chains_by_two[1u << hash_bits];
object *found_with_lock(void *two);

OSD_ALWAYS_INLINE object *found_quickly(void *two)
{
    object *at = chains_by_two[hash_of(reinterpret_cast<std::uintptr_t>(two))].load(
        std::memory_order_acquire);
    while (at != nullptr && at->two.load(std::memory_order_relaxed) != two)
        [[unlikely]] at = at->same_hash.load(std::memory_order_acquire);
    return at;
}

} // namespace dat12
