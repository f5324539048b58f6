// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory regions and windows, found by their keys.
//
// A key is random and never 0; 8 bits of it count the uses of its slot from a random start. The
// table grows; readers never wait. Who uses what find() gave keeps it valid by the lock of a queue
// pair: see device::retire_key.
#pragma once

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace soft_hca {

struct protection_domain;

enum access : std::uint32_t {
    local_read = 1,
    local_write = 2,
    remote_read = 4,
    remote_write = 8,
    remote_atomic = 16,
};

struct memory_region {
    std::atomic<std::uint32_t> key{0}; ///< 0 while it is not to be found
    std::uint32_t rights = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const protection_domain *domain = nullptr;
    memory_region *window_of = nullptr;    ///< a window: the region it is bound to, if any
    std::atomic<std::uint32_t> windows{0}; ///< bound to this region
    bool is_window = false;
    bool freed = false;                    ///< a window: its owner is done with it
    std::atomic<std::uint32_t> holders{1}; ///< a window: its owner, and each posted bind
};

enum class access_fault { none, no_such_key, other_domain, no_right, out_of_bounds, wraps };

class memory_table {
public:
    ~memory_table();
    bool open(std::uint32_t slots = 1024);

    /// Gives the region a new key; 0 when out of memory or of random numbers.
    std::uint32_t insert(memory_region &region);
    /// The same in two steps. A key that is reserved leads nowhere until it is used.
    std::uint32_t reserve();
    void use(std::uint32_t key, memory_region &region);
    void give_back(std::uint32_t key);
    /// Its key is no more; false when it had none.
    bool remove(memory_region &region);

    /// The region with this key if it allows `rights` to all of [address, address + length).
    memory_region *find(std::uint32_t key, const protection_domain *domain, std::uint32_t rights,
                        std::uint64_t address, std::uint64_t length, access_fault &fault) const
    {
        const table *now = now_.load(std::memory_order_acquire);
        memory_region *region = now->slots[key & now->mask].region.load(std::memory_order_acquire);
        fault = region == nullptr ? access_fault::no_such_key
                                  : check(*region, key, domain, rights, address, length);
        return fault == access_fault::none ? region : nullptr;
    }

    /// Whatever has this key, or null.
    memory_region *by_key(std::uint32_t key) const
    {
        const table *now = now_.load(std::memory_order_acquire);
        memory_region *region = now->slots[key & now->mask].region.load(std::memory_order_acquire);
        return region != nullptr && key != 0 && region->key.load() == key ? region : nullptr;
    }

private:
    struct slot {
        std::atomic<memory_region *> region{nullptr};
        std::uint32_t reserved = 0; ///< a key for what is to come here
        bool used = false;
        std::uint8_t generation = 0;
    };
    struct table {
        std::unique_ptr<slot[]> slots;
        std::uint32_t mask = 0;
        std::uint32_t used = 0;
        table *older = nullptr; ///< readers may still look into it
    };

    static access_fault check(const memory_region &region, std::uint32_t key,
                              const protection_domain *domain, std::uint32_t rights,
                              std::uint64_t address, std::uint64_t length)
    {
        if (region.key.load(std::memory_order_acquire) != key || key == 0)
            return access_fault::no_such_key;
        if (region.domain != domain)
            return access_fault::other_domain;
        if ((region.rights & rights) != rights)
            return access_fault::no_right;
        if (address + length < address)
            return access_fault::wraps;
        // Neither side of a comparison can overflow (B6).
        const std::uint64_t offset = address - region.address;
        return address >= region.address && offset <= region.length &&
                       length <= region.length - offset
                   ? access_fault::none
                   : access_fault::out_of_bounds;
    }
    static table *make(std::uint32_t slots);
    bool grow() OSD_REQUIRES(lock_);
    slot &at(std::uint32_t key) OSD_REQUIRES(lock_);

    std::atomic<table *> now_{nullptr};
    osd::mutex lock_;
};

} // namespace soft_hca
