// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What every DAT object begins with, and how a handle becomes an object again.
#pragma once

#include "dapl_status.hpp"
#include "osd_annotations.hpp"

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

class adapter;

/// Several libraries of this kind may be loaded, with other layouts behind the same kinds of
/// handle: so each library has tags of its own.
constexpr std::uint32_t library_salt(const char *text = DAPL_PORT_FEATURES)
{
    std::uint32_t hash = 0x811c9dc5;
    for (; *text != '\0'; ++text)
        hash = (hash ^ static_cast<unsigned char>(*text)) * 0x01000193;
    return hash;
}

/// Tags of live objects, by type; a freed slot carries `dead`.
enum class mark : std::uint32_t {
    dead = 0xdeadda91,
    ia = library_salt() ^ 1,
    ep = library_salt() ^ 2,
    evd = library_salt() ^ 3,
    cno = library_salt() ^ 4,
    pz = library_salt() ^ 5,
    lmr = library_salt() ^ 6,
    rmr = library_salt() ^ 7,
    psp = library_salt() ^ 8,
    rsp = library_salt() ^ 9,
    cr = library_salt() ^ 10,
    srq = library_salt() ^ 11,
    csp = library_salt() ^ 12,
    peer = library_salt() ^ 13,
};

/// The pool of the adapter that an object lives in.
enum class object_type { pz, lmr, rmr, cno, evd, srq, ep, sp, cr, peer, count };

/// First in every object: the provider word must be the first word of what a handle points to,
/// because the registry dispatches through it.
struct object {
    object(const DAT_PROVIDER *vector, mark kind, adapter &owner)
        : provider(vector), tag(kind), ia(&owner)
    {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    mark kind() const { return tag.load(std::memory_order_relaxed); }
    /// Ends the life of the handle. Of several threads that free one object, one gets true.
    bool condemn()
    {
        mark now = kind();
        return now != mark::dead && tag.compare_exchange_strong(now, mark::dead);
    }

    const DAT_PROVIDER *provider;
    std::atomic<mark> tag; ///< the type's; `dead` after the handle was freed
    /// References: other objects that use this one, and threads that wait in it.
    std::atomic<std::uint32_t> references{0};
    adapter *ia;
    std::atomic<DAT_UINT64> context{0}; ///< the consumer's
};

/// A reference to another object: while it exists, the consumer cannot free that object.
template <class T>
class user_of {
public:
    user_of() = default;
    explicit user_of(T *used) : used_(used)
    {
        if (used_ != nullptr)
            used_->references.fetch_add(1, std::memory_order_relaxed);
    }
    user_of(const user_of &) = delete;
    user_of &operator=(const user_of &) = delete;
    user_of(user_of &&other) noexcept : used_(other.used_) { other.used_ = nullptr; }
    user_of &operator=(user_of &&other) noexcept
    {
        T *mine = used_;
        used_ = other.used_;
        other.used_ = mine;
        return *this;
    }
    ~user_of()
    {
        if (used_ != nullptr)
            used_->references.fetch_sub(1, std::memory_order_release);
    }

    T *get() const { return used_; }
    T *operator->() const { return used_; }
    explicit operator bool() const { return used_ != nullptr; }

private:
    T *used_ = nullptr;
};

/// What became of the threads that waited in an object when its adapter closed.
enum class departure {
    none,    ///< there were none
    left,    ///< all have returned
    overdue, ///< one has not: it is stopped, or a signal handler does not return to it
};

inline bool in_use(const object &o)
{
    return o.references.load(std::memory_order_acquire) != 0;
}

/// Returns false for what cannot be an object: null, small integers, odd addresses. An arbitrary
/// address cannot be told from a handle.
inline bool could_be_handle(const void *handle)
{
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    return address >= 0x10000 && (address & 7) == 0;
}

/// The object of the handle that a call is dispatched by; null if it has another type. The registry
/// has read the provider word through it, so it is an address of ours.
template <class T>
OSD_ALWAYS_INLINE T *from_dispatched(DAT_HANDLE handle)
{
    auto *found = static_cast<object *>(handle);
    if (found == nullptr)
        __builtin_unreachable(); // spares the test for null behind the cast
    return T::is_kind(found->kind()) ? static_cast<T *>(found) : nullptr;
}

/// The success code of a hot path: a fresh zero. Otherwise the compiler keeps the zero of a check
/// through the whole call.
OSD_ALWAYS_INLINE DAT_RETURN fresh_success()
{
    DAT_RETURN zero = DAT_SUCCESS;
    OSD_OPAQUE(zero);
    return zero;
}

/// The live object behind a handle, or null.
template <class T>
T *from_handle(DAT_HANDLE handle)
{
    return could_be_handle(handle) ? from_dispatched<T>(handle) : nullptr;
}

/// The mark of a live object of any type; `type` is what DAT calls it.
struct handle_kind {
    mark kind;
    DAT_HANDLE_TYPE type;
};
inline constexpr handle_kind handle_kinds[] = {
    {mark::ia, DAT_HANDLE_TYPE_IA},   {mark::ep, DAT_HANDLE_TYPE_EP},
    {mark::evd, DAT_HANDLE_TYPE_EVD}, {mark::cno, DAT_HANDLE_TYPE_CNO},
    {mark::pz, DAT_HANDLE_TYPE_PZ},   {mark::lmr, DAT_HANDLE_TYPE_LMR},
    {mark::rmr, DAT_HANDLE_TYPE_RMR}, {mark::psp, DAT_HANDLE_TYPE_PSP},
    {mark::rsp, DAT_HANDLE_TYPE_RSP}, {mark::cr, DAT_HANDLE_TYPE_CR},
    {mark::srq, DAT_HANDLE_TYPE_SRQ}, {mark::csp, DAT_HANDLE_TYPE_CSP},
};

/// Returns null for an unknown mark.
constexpr const handle_kind *find_kind(mark kind)
{
    for (const handle_kind &known : handle_kinds)
        if (known.kind == kind)
            return &known;
    return nullptr;
}

/// The live object behind a handle, of whatever type, or null.
inline object *any_object(DAT_HANDLE handle)
{
    auto *found = static_cast<object *>(handle);
    return could_be_handle(handle) && find_kind(found->kind()) != nullptr ? found : nullptr;
}

template <class T>
DAT_HANDLE to_handle(T *object)
{
    return static_cast<DAT_HANDLE>(object);
}

} // namespace dapl::DAPL_TRANSPORT::core
