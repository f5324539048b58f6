// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory regions and windows, found by their keys.
//
// A key is random and never 0; 8 bits of it count the uses of its slot from a random start. The
// table grows; readers never wait.
//
// Revoking a key waits for its users to drain. A region is used under the lock of a queue pair, so
// freeing it cycles all these locks. Windows are rebound by holders of such a lock, which cannot
// wait for others: a window has a reference count of its users instead.
#pragma once

#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

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
    std::atomic<std::uint32_t> key{0}; ///< 0 while it cannot be found
    std::uint32_t rights = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    const protection_domain *domain = nullptr;
    memory_region *window_of = nullptr;    ///< a window: the region it is bound to, if any
    std::uint64_t connection = 0;          ///< a window: number of its connection; 0: open to all
    std::atomic<std::uint32_t> windows{0}; ///< bound to this region
    bool is_window = false;
    std::atomic<std::uint32_t> users{0}; ///< a window: grants; it is rebound when there are none
    bool freed = false;                  ///< a window: released by its owner
    std::atomic<std::uint32_t> holders{
        1}; ///< a window: references of its owner and of posted binds
};

enum class access_fault { none, no_such_key, other_domain, no_right, out_of_bounds, wraps };

/// Permission to use a part of a region or window, which does not change until the grant ends. A
/// thread that holds one must not bind or free windows.
class grant {
public:
    explicit grant(access_fault refusal, memory_region *window = nullptr)
        : window_(window), fault_(refusal)
    {}
    grant(grant &&other) noexcept
        : window_(std::exchange(other.window_, nullptr)), fault_(other.fault_)
    {}
    grant &operator=(grant &&) = delete;
    ~grant() { end(window_); }
    explicit operator bool() const { return fault_ == access_fault::none; }
    access_fault fault() const { return fault_; }
    /// Detaches without ending. The result, if not null, has to be passed to end().
    memory_region *keep() { return std::exchange(window_, nullptr); }
    static void end(memory_region *window)
    {
        if (window != nullptr)
            window->users.fetch_sub(1, std::memory_order_release);
    }

private:
    memory_region *window_;
    access_fault fault_;
};

class memory_table {
public:
    ~memory_table();
    bool open(std::uint32_t slots = 1024);

    /// Gives the region a new key; 0 when out of memory or of random numbers.
    std::uint32_t insert(memory_region &region);
    /// Inserts a region in two steps. A reserved key is not found until it is used.
    std::uint32_t reserve();
    void use(std::uint32_t key, memory_region &region);
    void give_back(std::uint32_t key);
    /// Revokes the key; false when it had none. On return no thread uses it if it is a window.
    bool remove(memory_region &region);

    /// Grants access if the region with this key allows `rights` to [address, address + length), to
    /// who asks by this connection.
    grant check_access(std::uint32_t key, const protection_domain *domain, std::uint32_t rights,
                       std::uint64_t address, std::uint64_t length,
                       std::uint64_t connection = 0) const
    {
        const table *now = now_.load(std::memory_order_acquire);
        memory_region *region = now->slots[key & now->mask].region.load(std::memory_order_acquire);
        if (region == nullptr)
            return grant(access_fault::no_such_key);
        if (!region->is_window) [[likely]]
            return grant(check(*region, key, domain, rights, address, length));
        region->users.fetch_add(1); // counted before the check: remove() waits for users
        const access_fault fault = check(*region, key, domain, rights, address, length);
        const bool others = fault == access_fault::none && !is_open_to(*region, connection);
        return grant(others ? access_fault::other_domain : fault, region);
    }

    static bool is_open_to(const memory_region &window, std::uint64_t connection)
    {
        return window.connection == 0 || window.connection == connection;
    }

    /// The region or window with this key, or null.
    memory_region *by_key(std::uint32_t key) const
    {
        const table *now = now_.load(std::memory_order_acquire);
        memory_region *region = now->slots[key & now->mask].region.load(std::memory_order_acquire);
        return region != nullptr && key != 0 && region->key.load() == key ? region : nullptr;
    }

private:
    struct slot {
        std::atomic<memory_region *> region{nullptr};
        std::uint32_t reserved = 0; ///< key of a region that will be stored here
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
        if (region.key.load() != key || key == 0)
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
    bool forget(memory_region &region);
    slot &at(std::uint32_t key) OSD_REQUIRES(lock_);

    std::atomic<table *> now_{nullptr};
    osd::mutex lock_;
};

} // namespace soft_hca
