// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys of 32 bits, which is what DAT has, for what a fabric knows by more.
#pragma once

#include "osd_annotations.hpp"
#include "osd_sync.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dapl::port_support {

/// A table from keys to entries. An entry is a region of the device with its wide key, for a port
/// that answers a peer's question for it, or an address, a length and rights, for a port that
/// checks accesses itself.
///
/// A key is found without a lock, by any thread, while others add and remove keys. At least 1024
/// places are used in turn, each with another key 4095 times: a key that was removed is not found
/// before some four million were added. Keys can be guessed: they protect from mistakes only. 0 is
/// no key.
template <class Entry>
class key_table {
    static_assert(std::is_trivially_copyable_v<Entry>, "it is copied while it may be replaced");

public:
    static constexpr unsigned index_bits = 20;
    static constexpr std::uint32_t max_keys = 1u << index_bits;

    key_table() = default;
    key_table(const key_table &) = delete;
    key_table &operator=(const key_table &) = delete;
    ~key_table()
    {
        for (auto &chunk : chunks_)
            delete[] chunk.load(std::memory_order_relaxed);
    }

    /// A new key for this entry; 0 when there are max_keys already, or no memory. Any thread.
    std::uint32_t add(const Entry &entry) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        const std::uint32_t index = take_place();
        if (index == none)
            return 0;
        place &at = *place_of(index);
        at.generation = at.generation == last_generation ? 1 : at.generation + 1;
        store(at, entry);
        const std::uint32_t key = at.generation << index_bits | index;
        at.key.store(key, std::memory_order_release);
        return key;
    }

    /// Copies the entry of a key; false when there is none. Any thread, without a lock.
    bool find(std::uint32_t key, Entry &out) const
    {
        const place *at = place_of(key & (max_keys - 1));
        if (key == 0 || at == nullptr || at->key.load(std::memory_order_acquire) != key)
            return false;
        const auto copy = load(*at, std::make_index_sequence<words>());
        std::memcpy(&out, copy.data(), sizeof out);
        return at->key.load(std::memory_order_relaxed) == key; // or the entry was replaced
                                                               // meanwhile
    }

    /// Removes a key: on return it is not found any more. False if it is not there. Any thread.
    bool remove(std::uint32_t key) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        const std::uint32_t index = key & (max_keys - 1);
        place *at = place_of(index);
        if (key == 0 || at == nullptr || at->key.load(std::memory_order_relaxed) != key)
            return false;
        at->key.store(0, std::memory_order_release);
        at->next_free = none;
        (first_free_ == none ? first_free_ : place_of(last_free_)->next_free) = index;
        last_free_ = index;
        return true;
    }

private:
    static constexpr std::uint32_t none = UINT32_MAX;
    static constexpr std::uint32_t last_generation = (1u << (32 - index_bits)) - 1;
    static constexpr std::uint32_t chunk_size = 1024;
    static constexpr std::size_t words = (sizeof(Entry) + 7) / 8;

    struct place {
        std::atomic<std::uint32_t> key{0}; ///< 0 while it is free
        std::atomic<std::uint64_t> value[words]{};
        std::uint32_t generation = 0;
        std::uint32_t next_free = none;
    };

    place *place_of(std::uint32_t index) const
    {
        place *chunk = chunks_[index / chunk_size].load(std::memory_order_acquire);
        return chunk == nullptr ? nullptr : chunk + index % chunk_size;
    }

    /// Compilers do not unroll a loop of atomic loads.
    template <std::size_t... Index>
    static std::array<std::uint64_t, words> load(const place &at, std::index_sequence<Index...>)
    {
        return {at.value[Index].load(std::memory_order_acquire)...};
    }

    /// Stores an entry behind the store of its `key`: a reader that has seen a word of it sees that
    /// the old key was gone.
    static void store(place &at, const Entry &entry)
    {
        std::array<std::uint64_t, words> copy{};
        std::memcpy(copy.data(), &entry, sizeof entry);
        for (std::size_t i = 0; i < words; ++i)
            at.value[i].store(copy[i], std::memory_order_release);
    }

    std::uint32_t take_place() OSD_REQUIRES(lock_)
    {
        const bool fresh = used_ < max_keys && (used_ % chunk_size != 0 || first_free_ == none);
        if (fresh && has_place(used_))
            return used_++;
        const std::uint32_t index = first_free_;
        if (index != none)
            first_free_ = place_of(index)->next_free;
        return index;
    }

    bool has_place(std::uint32_t index) OSD_REQUIRES(lock_)
    {
        auto &chunk = chunks_[index / chunk_size];
        if (chunk.load(std::memory_order_relaxed) == nullptr)
            chunk.store(new (std::nothrow) place[chunk_size], std::memory_order_release);
        return chunk.load(std::memory_order_relaxed) != nullptr;
    }

    osd::mutex lock_;
    std::array<std::atomic<place *>, max_keys / chunk_size> chunks_{};
    std::uint32_t used_ OSD_GUARDED_BY(lock_) = 0; ///< places that were ever used
    std::uint32_t first_free_ OSD_GUARDED_BY(lock_) = none;
    std::uint32_t last_free_ OSD_GUARDED_BY(lock_) = none;
};

} // namespace dapl::port_support
