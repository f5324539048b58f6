// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "early_packets.hpp"

#include "wire/serial.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace soft_hca {

void early_packets::end_holding::operator()(holding *over) const
{
    {
        early_packets &budget = over->budget;
        osd::lock_guard hold(budget.lock_);
        for (packet_copy *each : over->at)
            std::free(each);
        budget.change(*over, 0);
    }
    delete over;
}

void early_packets::limit_to(std::size_t bytes)
{
    osd::lock_guard hold(lock_);
    limit_ = bytes;
}

early_packets::owned_holding early_packets::begin()
{
    return owned_holding(new (std::nothrow) holding(*this));
}

// ------------------------------------------------------------------------------------ the budget

std::uint32_t early_packets::class_of(std::size_t bytes)
{
    return std::min<std::uint32_t>(static_cast<std::uint32_t>(std::bit_width(bytes)), classes - 1);
}

/// Moves it to the list of its new size.
void early_packets::change(holding &which, std::size_t bytes)
{
    counted_.bytes += bytes - which.bytes;
    if (which.link != nullptr) {
        *which.link = which.next;
        if (which.next != nullptr)
            which.next->link = which.link;
        which.link = nullptr;
    }
    which.bytes = bytes;
    if (bytes == 0)
        return;
    holding *&first = by_size_[class_of(bytes)];
    which.next = first;
    which.link = &first;
    if (first != nullptr)
        first->link = &which.next;
    first = &which;
}

early_packets::packet_copy *early_packets::remove(holding &from, std::uint32_t psn)
{
    packet_copy *&place = from.at[psn % capacity];
    packet_copy *const copy = place;
    if (copy == nullptr || copy->psn != psn)
        return nullptr;
    place = nullptr;
    from.held.fetch_sub(1, std::memory_order_relaxed);
    change(from, from.bytes - cost_of(copy->size));
    return copy;
}

void early_packets::evict_furthest(holding &from)
{
    for (std::uint32_t ahead = capacity; ahead-- != 0;)
        if (packet_copy *const copy = remove(from, from.next_psn + ahead)) {
            std::free(copy);
            ++counted_.evicted;
            return;
        }
}

/// Returns false when who asks for it keeps as much as any other.
bool early_packets::make_room(const holding &for_whom, std::size_t cost)
{
    const std::uint32_t wanted = class_of(for_whom.bytes + cost);
    std::uint32_t largest = classes - 1;
    while (counted_.bytes + cost > limit_) {
        while (largest > wanted && by_size_[largest] == nullptr)
            --largest;
        if (largest <= wanted)
            return false;
        evict_furthest(*by_size_[largest]);
    }
    return true;
}

// --------------------------------------------------------------------------------- a connection

bool early_packets::keep(holding &in, std::uint32_t next_psn, std::uint32_t psn,
                         const std::uint8_t *bytes, std::size_t size, std::uint32_t numbers)
{
    osd::lock_guard hold(lock_);
    packet_copy *&place = in.at[psn % capacity];
    if (place != nullptr)
        return false;
    if (!make_room(in, cost_of(size))) {
        ++counted_.refused;
        return false;
    }
    void *const memory = std::malloc(cost_of(size));
    if (memory == nullptr)
        return false;
    place = new (memory) packet_copy{psn, numbers, size};
    std::memcpy(place->bytes(), bytes, size);
    in.next_psn = next_psn;
    in.held.fetch_add(1, std::memory_order_relaxed);
    change(in, in.bytes + cost_of(size));
    return true;
}

early_packets::owned_copy early_packets::take(holding &in, std::uint32_t psn)
{
    osd::lock_guard hold(lock_);
    return owned_copy(remove(in, psn));
}

void early_packets::advance(holding &in, std::uint32_t psn)
{
    osd::lock_guard hold(lock_);
    std::free(remove(in, psn - 1));
    in.next_psn = psn;
}

std::uint32_t early_packets::describe(const holding &in, std::uint32_t after, std::uint32_t *words,
                                      std::uint32_t max_words)
{
    osd::lock_guard hold(lock_);
    std::uint32_t used = 0;
    std::uint32_t end = after; // the numbers before it have been found
    for (std::uint32_t psn = after; psn - after <= max_words * 32 && psn - after < capacity;
         ++psn) {
        const packet_copy *const copy = in.at[psn % capacity];
        if (copy != nullptr && copy->psn == psn && before(end, psn + copy->numbers))
            end = psn + copy->numbers;
        if (psn == after || !before(psn, end))
            continue;
        const std::uint32_t i = psn - after - 1;
        words[i / 32] |= 1u << (i % 32);
        used = i / 32 + 1;
    }
    return used;
}

early_packets::counts early_packets::counted()
{
    osd::lock_guard hold(lock_);
    return counted_;
}

} // namespace soft_hca
