// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory_table.hpp"

#include "net/net.hpp"
#include "osd_thread.hpp"

#include <new>

namespace soft_hca {

memory_table::~memory_table()
{
    for (table *each = now_.load(); each != nullptr;) {
        table *older = each->older;
        delete each;
        each = older;
    }
}

memory_table::table *memory_table::make(std::uint32_t slots)
{
    auto *made = new (std::nothrow) table;
    if (made == nullptr)
        return nullptr;
    made->slots.reset(new (std::nothrow) slot[slots]);
    made->mask = slots - 1;
    if (made->slots != nullptr)
        return made;
    delete made;
    return nullptr;
}

bool memory_table::open(std::uint32_t slots)
{
    now_.store(make(slots));
    return now_.load() != nullptr;
}

/// Keys that differ in the low bits of the old size differ in the low bits of the new size.
bool memory_table::grow()
{
    table *old = now_.load(std::memory_order_relaxed);
    table *larger = make(2 * (old->mask + 1));
    if (larger == nullptr)
        return false;
    for (std::uint32_t i = 0; i <= old->mask; ++i) {
        memory_region *region = old->slots[i].region.load(std::memory_order_relaxed);
        const std::uint32_t reserved = old->slots[i].reserved;
        if (region == nullptr && reserved == 0)
            continue;
        const std::uint32_t key =
            region == nullptr ? reserved : region->key.load(std::memory_order_relaxed);
        slot &to = larger->slots[key & larger->mask];
        to.region.store(region, std::memory_order_relaxed);
        to.reserved = reserved;
        to.used = true;
        to.generation = old->slots[i].generation;
    }
    larger->used = old->used;
    larger->older = old;
    now_.store(larger, std::memory_order_release);
    return true;
}

memory_table::slot &memory_table::at(std::uint32_t key)
{
    const table *now = now_.load(std::memory_order_relaxed);
    return now->slots[key & now->mask];
}

std::uint32_t memory_table::insert(memory_region &region)
{
    const std::uint32_t key = reserve();
    if (key != 0)
        use(key, region);
    return key;
}

std::uint32_t memory_table::reserve()
{
    osd::lock_guard hold(lock_);
    const table *now = now_.load(std::memory_order_relaxed);
    if (now->used > now->mask / 2 && !grow())
        return 0;
    for (;;) {
        std::uint32_t key = 0;
        if (!random_bytes(&key, sizeof key))
            return 0;
        slot &place = at(key);
        if (place.region.load(std::memory_order_relaxed) != nullptr || place.reserved != 0)
            continue;
        // The generation changes: a slot that was used before does not give an old key again soon.
        if (place.used)
            key = (key & 0x00ffffff) | static_cast<std::uint32_t>(place.generation + 1) << 24;
        if (key == 0)
            continue;
        place.used = true;
        place.generation = static_cast<std::uint8_t>(key >> 24);
        place.reserved = key;
        ++now_.load(std::memory_order_relaxed)->used;
        return key;
    }
}

void memory_table::use(std::uint32_t key, memory_region &region)
{
    osd::lock_guard hold(lock_);
    slot &place = at(key);
    place.reserved = 0;
    region.key.store(key, std::memory_order_release);
    place.region.store(&region, std::memory_order_release);
}

void memory_table::give_back(std::uint32_t key)
{
    osd::lock_guard hold(lock_);
    at(key).reserved = 0;
    --now_.load(std::memory_order_relaxed)->used;
}

bool memory_table::remove(memory_region &region)
{
    if (!forget(region))
        return false;
    // Each copies or sends some packets, and waits for nothing.
    osd::wait_while([&region] { return region.users.load() != 0; });
    return true;
}

bool memory_table::forget(memory_region &region)
{
    osd::lock_guard hold(lock_);
    const std::uint32_t key = region.key.exchange(0);
    if (key == 0)
        return false;
    for (table *each = now_.load(std::memory_order_relaxed); each != nullptr; each = each->older) {
        slot &place = each->slots[key & each->mask];
        if (place.region.load(std::memory_order_relaxed) == &region)
            place.region.store(nullptr, std::memory_order_release);
    }
    --now_.load(std::memory_order_relaxed)->used;
    return true;
}

} // namespace soft_hca
