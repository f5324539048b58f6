// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair_table.hpp"

#include <cstdlib>

namespace soft_hca {

bool pair_table::open()
{
    pairs_ = static_cast<std::atomic<queue_pair *> *>(
        std::calloc(capacity, sizeof(std::atomic<queue_pair *>)));
    receivers_ = static_cast<named_receiver *>(std::calloc(capacity, sizeof(named_receiver)));
    return pairs_ != nullptr && receivers_ != nullptr;
}

void pair_table::close()
{
    std::free(pairs_);
    std::free(receivers_);
    pairs_ = nullptr;
    receivers_ = nullptr;
}

void pair_table::put(std::uint32_t slot, queue_pair &pair)
{
    pair.receives.shared_held = &receivers_[slot].shared_held;
    receivers_[slot].shared_held.start(pair.identity.id);
    receivers_[slot].receiver.store(pair.params.receiver, std::memory_order_relaxed);
    receivers_[slot].id.store(pair.identity.id, std::memory_order_release);
    pairs_[slot].store(&pair, std::memory_order_release);
    if (used_.load(std::memory_order_relaxed) <= slot)
        used_.store(slot + 1, std::memory_order_release);
    count_.fetch_add(1);
}

bool pair_table::add(queue_pair &pair)
{
    std::uint16_t random = 0;
    if (!random_bytes(&random, sizeof random))
        return false;
    osd::lock_guard hold(lock_);
    for (std::uint32_t slot = 0; slot < capacity; ++slot) {
        if (pairs_[slot].load(std::memory_order_relaxed) != nullptr)
            continue;
        pair.identify(slot, static_cast<std::uint32_t>(random) << 16 | slot);
        put(slot, pair);
        return true;
    }
    return false;
}

void pair_table::remove(const queue_pair &pair)
{
    osd::lock_guard hold(lock_);
    receivers_[pair.identity.slot].receiver.store(nullptr, std::memory_order_release);
    pairs_[pair.identity.slot].store(nullptr, std::memory_order_release);
    count_.fetch_sub(1);
}

void *pair_table::end_receive(std::uint32_t id)
{
    named_receiver &named = receivers_[id & (capacity - 1)];
    named.shared_held.end_one(id);
    if (named.id.load(std::memory_order_acquire) != id)
        return nullptr;
    return named.receiver.load(std::memory_order_acquire);
}

void pair_table::keep_counts(const queue_pair &removed)
{
    osd::lock_guard hold(lock_);
    removed_ += removed.record.counts;
}

pair_counts pair_table::counts()
{
    osd::lock_guard hold(lock_);
    pair_counts all = removed_;
    for (std::uint32_t slot = 0; slot < end(); ++slot)
        if (queue_pair *pair = pairs_[slot].load(std::memory_order_relaxed)) {
            pair->enter();
            all += pair->record.counts;
            pair->leave();
        }
    return all;
}

void pair_table::cycle_locks()
{
    osd::lock_guard hold(lock_);
    for (std::uint32_t slot = 0; slot < end(); ++slot)
        if (queue_pair *pair = pairs_[slot].load(std::memory_order_relaxed)) {
            pair->enter();
            pair->leave();
        }
}

} // namespace soft_hca
