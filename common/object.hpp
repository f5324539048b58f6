// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What every DAT object begins with, and how a handle becomes an object again.
#pragma once

#include "dapl_status.hpp"
#include "osd_annotations.hpp"

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

class adapter;

/// Marks of live objects, by type; a freed slot carries `dead`. Odd patterns, unlikely in memory
/// that never was an object.
enum class mark : std::uint32_t {
    dead = 0xdeadda91,
    ia = 0xda91a101,
    ep = 0xda91e902,
    evd = 0xda91ed03,
    cno = 0xda91c004,
    pz = 0xda91b205,
    lmr = 0xda911206,
    rmr = 0xda913207,
    psp = 0xda915908,
    rsp = 0xda913509,
    cr = 0xda91c30a,
    srq = 0xda91530b,
};

/// First in every object: the provider word must be the first word of what a handle points to,
/// because the registry dispatches through it.
struct object {
    object(const DAT_PROVIDER *vector, mark kind, adapter &owner)
        : provider(vector), alive(kind), ia(&owner)
    {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    mark kind() const { return alive.load(std::memory_order_relaxed); }
    /// Ends the life of the handle. Of several threads that free one object, one gets true.
    bool condemn()
    {
        mark now = kind();
        return now != mark::dead && alive.compare_exchange_strong(now, mark::dead);
    }

    const DAT_PROVIDER *provider;
    std::atomic<mark> alive;
    std::atomic<std::uint32_t> users{0}; ///< other objects that refer to this one
    adapter *ia;
    std::atomic<DAT_UINT64> context{0}; ///< the consumer's
};

/// Holds a reference on another object, which then cannot be freed by the consumer.
template <class T>
class user_of {
public:
    user_of() = default;
    explicit user_of(T *used) : used_(used)
    {
        if (used_ != nullptr)
            used_->users.fetch_add(1, std::memory_order_relaxed);
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
            used_->users.fetch_sub(1, std::memory_order_release);
    }

    T *get() const { return used_; }
    T *operator->() const { return used_; }
    explicit operator bool() const { return used_ != nullptr; }

private:
    T *used_ = nullptr;
};

inline bool in_use(const object &o)
{
    return o.users.load(std::memory_order_acquire) != 0;
}

/// False for what cannot be an object: null, small integers, odd addresses. An arbitrary address
/// cannot be told from a handle.
inline bool could_be_handle(const void *handle)
{
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    return address >= 0x10000 && (address & 7) == 0;
}

/// The same for the handle that a call is dispatched by: the registry has read the provider word
/// through it, so it is an address of ours.
template <class T> OSD_ALWAYS_INLINE T *from_dispatched(DAT_HANDLE handle)
{
    auto *found = static_cast<object *>(handle);
    return T::is_kind(found->kind()) ? static_cast<T *>(found) : nullptr;
}

/// The live object behind a handle, or null.
template <class T> T *from_handle(DAT_HANDLE handle)
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
    {mark::srq, DAT_HANDLE_TYPE_SRQ},
};

/// Null for a mark that is none.
constexpr const handle_kind *find_kind(mark kind)
{
    for (const handle_kind &known : handle_kinds)
        if (known.kind == kind)
            return &known;
    return nullptr;
}

template <class T>
DAT_HANDLE to_handle(T *object)
{
    return static_cast<DAT_HANDLE>(object);
}

} // namespace dapl::DAPL_TRANSPORT
