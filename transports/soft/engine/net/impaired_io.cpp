// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "impaired_io.hpp"

#include "osd_time.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace soft_hca {

impaired_io::~impaired_io()
{
    release(waiting_);
    release(lent_);
}

void impaired_io::release(held *list)
{
    while (list != nullptr) {
        held *next = list->next;
        std::free(list);
        list = next;
    }
}

/// 0 … 999; splitmix64.
std::uint32_t impaired_io::roll()
{
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) % 1000);
}

void impaired_io::corrupt(held &item)
{
    ++counts_.corrupted;
    const std::size_t bit = (roll() * std::size_t{1000} + roll()) % (8 * item.size);
    item.bytes()[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
}

void impaired_io::keep(const net_address &from, const std::uint8_t *bytes, std::size_t size,
                       std::uint32_t overtakers)
{
    void *memory = std::malloc(sizeof(held) + size);
    if (memory == nullptr)
        return;
    auto *item = new (memory) held;
    item->from = from;
    item->size = size;
    item->due_ns =
        std::max(osd::now_ns(), busy_until_ns_) + std::int64_t{impairment_.delay_us} * 1000;
    item->overtakers = overtakers;
    std::memcpy(item->bytes(), bytes, size);
    if (impairment_.corrupt != 0 && size != 0 && roll() < impairment_.corrupt)
        corrupt(*item);
    held **end = &waiting_;
    while (*end != nullptr)
        end = &(*end)->next;
    *end = item;
}

/// Adds the time in a bottleneck to a datagram. False when the queue in front of the bottleneck is
/// full.
bool impaired_io::passes_bottleneck(std::size_t size)
{
    if (impairment_.kbytes_per_s == 0)
        return true;
    const auto ns_of = [this](std::size_t bytes) {
        return static_cast<std::int64_t>(bytes * 1'000'000 / impairment_.kbytes_per_s);
    };
    const std::int64_t now = osd::now_ns();
    if (busy_until_ns_ - now > ns_of(impairment_.queue))
        return false;
    busy_until_ns_ = std::max(busy_until_ns_, now) + ns_of(size);
    return true;
}

void impaired_io::judge(const net_address &from, const std::uint8_t *bytes, std::size_t size)
{
    ++counts_.seen;
    if (impairment_.stops(size) || roll() < impairment_.loss || !passes_bottleneck(size)) {
        ++counts_.lost;
        return;
    }
    std::uint32_t overtakers = 0;
    if (roll() < impairment_.reorder) {
        ++counts_.reordered;
        overtakers = 1 + roll() % 8;
    }
    keep(from, bytes, size, overtakers);
    if (roll() < impairment_.duplicate) {
        ++counts_.duplicated;
        keep(from, bytes, size, 1 + roll() % 4);
    }
}

void impaired_io::take_in(const in_packets &group)
{
    for (std::size_t at = 0; at < group.size; at += group.segment) {
        const std::size_t left = group.size - at;
        judge(group.from, group.bytes + at, left < group.segment ? left : group.segment);
    }
}

/// Takes the first datagram that is due and not to be overtaken any more. A datagram that waits to
/// be overtaken is released after a while even without traffic.
impaired_io::held *impaired_io::take_due(std::int64_t now)
{
    for (held **at = &waiting_; *at != nullptr; at = &(*at)->next) {
        held *item = *at;
        if (item->due_ns > now)
            return nullptr;
        if (item->overtakers != 0 && now < item->due_ns + longest_hold_ns)
            continue;
        *at = item->next;
        item->next = nullptr;
        for (held *passed = waiting_; passed != *at; passed = passed->next)
            if (passed->overtakers != 0)
                --passed->overtakers;
        return item;
    }
    return nullptr;
}

std::uint32_t impaired_io::receive(in_packets *into, std::uint32_t capacity)
{
    release(lent_);
    lent_ = nullptr;
    const std::uint32_t got = inner_->receive(groups_, batch);
    for (std::uint32_t i = 0; i < got; ++i)
        take_in(groups_[i]);
    const std::int64_t now = osd::now_ns();
    std::uint32_t count = 0;
    held **end = &lent_;
    while (count < capacity) {
        held *item = take_due(now);
        if (item == nullptr)
            break;
        *end = item;
        end = &item->next;
        into[count++] = {item->from, item->bytes(), item->size, item->size};
    }
    return count;
}

std::int64_t impaired_io::due_ns() const
{
    if (waiting_ == nullptr)
        return INT64_MAX;
    return waiting_->overtakers == 0 ? waiting_->due_ns : waiting_->due_ns + longest_hold_ns;
}

} // namespace soft_hca
