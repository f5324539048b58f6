// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The interface adapters the process has open. A consumer holds a small number where the provider
// has a pointer: so no wrong handle is ever taken for an adapter, or an adapter for an object.
#pragma once

#include "osd_annotations.hpp"
#include "osd_sync.hpp"
#include "registry.hpp"

#include <atomic>
#include <cstdint>
#include <dat2/udat.h>

namespace dat {

/// Every smaller value is, or may become, the handle of an adapter, and no object lies below this
/// address: it is what the kernel keeps unmapped.
inline constexpr std::uintptr_t ia_handle_limit = 65536;
inline constexpr std::uintptr_t ia_chunk_size = 64;

/// One open adapter. `ia` is read without a lock by every call; the rest belongs to the table.
struct ia_slot {
    std::atomic<void *> ia{nullptr};
    std::atomic<long> process{0}; ///< that opened it
    binding provider{};
    bool taken = false;
    bool closing = false;
    bool has_extensions = false;
};

struct ia_chunk {
    ia_slot slots[ia_chunk_size];
};

/// The table grows by chunks, and chunks stay where they are, so that readers need no lock.
extern std::atomic<ia_chunk *> ia_chunks[ia_handle_limit / ia_chunk_size];

/// The place of a consumer's handle, or null.
OSD_ALWAYS_INLINE ia_slot *slot_from_handle(DAT_IA_HANDLE handle)
{
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    if (number >= ia_handle_limit) [[unlikely]]
        return nullptr;
    ia_chunk *chunk = ia_chunks[number / ia_chunk_size].load(std::memory_order_acquire);
    if (chunk == nullptr) [[unlikely]]
        return nullptr;
    return &chunk->slots[number % ia_chunk_size];
}

/// The provider's pointer behind a consumer's handle, or null.
OSD_ALWAYS_INLINE void *ia_from_handle(DAT_IA_HANDLE handle)
{
    ia_slot *slot = slot_from_handle(handle);
    return slot == nullptr ? nullptr : slot->ia.load(std::memory_order_acquire);
}

class ia_table {
public:
    /// Gives the adapter a number: the next one after the last given, so that the handle of a
    /// closed adapter is not soon used again. Null when there is none left or no memory.
    [[nodiscard]] DAT_IA_HANDLE insert(void *ia, const binding &provider) OSD_EXCLUDES(lock_);
    /// The number of an open adapter, or null.
    DAT_IA_HANDLE handle_of(void *ia) OSD_EXCLUDES(lock_);

    void announce_extensions(DAT_IA_HANDLE handle) OSD_EXCLUDES(lock_);
    bool any_extensions() const { return extensions_.load(std::memory_order_relaxed) != 0; }

    /// Whether a parent of this process opened the adapter: its locks may be held by threads that
    /// this process has not. Takes none itself.
    static bool is_inherited(DAT_IA_HANDLE handle);
    /// Marks the adapter as about to close and returns its pointer; null when it is not open or
    /// another thread is closing it. Until the end the number still leads to the adapter: the
    /// provider asks for it in the events it has to post.
    void *begin_close(DAT_IA_HANDLE handle) OSD_EXCLUDES(lock_);
    /// The provider refused.
    void cancel_close(DAT_IA_HANDLE handle) OSD_EXCLUDES(lock_);
    /// The provider is done; returns what the adapter held on to.
    binding finish_close(DAT_IA_HANDLE handle) OSD_EXCLUDES(lock_);

    /// An open adapter of that name, or null.
    void *find_named(const char *name) OSD_EXCLUDES(lock_);

private:
    ia_slot *find(std::uintptr_t number) OSD_REQUIRES(lock_);
    std::uintptr_t free_number() OSD_REQUIRES(lock_);
    bool grow() OSD_REQUIRES(lock_);

    osd::mutex lock_;
    std::uintptr_t size_ OSD_GUARDED_BY(lock_) = 0;
    std::uintptr_t last_ OSD_GUARDED_BY(lock_) = 0;
    std::atomic<unsigned> extensions_{0};
};

ia_table &open_adapters();

} // namespace dat
