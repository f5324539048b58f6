// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_board.hpp"

namespace soft_hca {

// -------------------------------------------------------------------------------------- the owner

bool direct_board::show(std::uint32_t key, std::uint64_t zone, const memory_region &region)
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        region_entry &to = regions_[place_of(key, which)];
        if (to.key.load(std::memory_order_relaxed) != 0)
            continue;
        to.rights.store(region.rights, std::memory_order_release);
        to.address.store(region.address, std::memory_order_release);
        to.length.store(region.length, std::memory_order_release);
        to.zone.store(zone, std::memory_order_release);
        to.key.store(key, std::memory_order_release);
        return true;
    }
    return false;
}

bool direct_board::withdraw(std::uint32_t key)
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        region_entry &of = regions_[place_of(key, which)];
        if (of.key.load(std::memory_order_relaxed) != key)
            continue;
        of.key.store(0);
        return true;
    }
    return false;
}

void direct_board::open_gate(std::uint32_t gate, std::uint64_t token, std::uint64_t zone)
{
    gate_lines_[gate].zone.store(zone, std::memory_order_release);
    gate_lines_[gate].token.store(token, std::memory_order_release);
}

void direct_board::close_gate(std::uint32_t gate)
{
    gate_lines_[gate].token.store(closed);
}

void direct_board::claim(std::uint32_t gate, std::uint32_t key)
{
    claim_lines_[gate].key.store(key);
}

void direct_board::end_claim(std::uint32_t gate)
{
    claim_lines_[gate].key.store(0, std::memory_order_release);
}

// ----------------------------------------------------------------------------------------- others

std::uint32_t direct_board::claimed(std::uint32_t gate) const
{
    return claim_lines_[gate].key.load();
}

const direct_board::region_entry *direct_board::find(std::uint32_t key) const
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        const region_entry &each = regions_[place_of(key, which)];
        if (each.key.load() == key)
            return &each;
    }
    return nullptr;
}

bool direct_board::permits(std::uint32_t gate, std::uint64_t token, const direct_target &to) const
{
    const gate_line &through = gate_lines_[gate];
    if (to.key == 0 || through.token.load() != token)
        return false;
    const region_entry *const found = find(to.key);
    if (found == nullptr)
        return false;
    const std::uint64_t zone = through.zone.load(std::memory_order_acquire);
    const bool same_zone = found->zone.load(std::memory_order_acquire) == zone;
    const std::uint32_t rights = found->rights.load(std::memory_order_acquire);
    const std::uint64_t address = found->address.load(std::memory_order_acquire);
    const std::uint64_t length = found->length.load(std::memory_order_acquire);
    // The entry was not reused for another key while it was read, and the gate is still open.
    if (found->key.load(std::memory_order_acquire) != to.key ||
        through.token.load(std::memory_order_acquire) != token)
        return false;
    // As in memory_table::check(): neither side of a comparison can overflow.
    const std::uint64_t offset = to.address - address;
    return same_zone && (rights & to.rights) == to.rights && to.address + to.length >= to.address &&
           to.address >= address && offset <= length && to.length <= length - offset;
}

} // namespace soft_hca
