// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_board.hpp"

#include "net/net.hpp"

namespace soft_hca {

board_name board_name::of(const osd::siphash_key &zone, std::uint32_t key)
{
    const auto words = [&](std::uint32_t which) {
        const std::uint32_t input[] = {key, which};
        return osd::siphash(zone).wide(input, sizeof input);
    };
    const auto first = words(0);
    const auto second = words(1);
    return {first[0] | 1, first[1], second[0], second[1]};
}

bool zone_secrets::open()
{
    return random_bytes(&seed_, sizeof seed_);
}

osd::siphash_key zone_secrets::of(const protection_domain *zone) const
{
    const auto words = osd::siphash(seed_).wide(&zone, sizeof zone);
    return {words[0], words[1]};
}

// -------------------------------------------------------------------------------------- the owner

bool direct_board::show(const board_name &as, const memory_region &region)
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        region_entry &to = regions_[place_of(as.name, which)];
        if (to.name.load(std::memory_order_relaxed) != 0)
            continue;
        to.rights.store(region.rights ^ as.rights_mask, std::memory_order_release);
        to.address.store(region.address ^ as.address_mask, std::memory_order_release);
        to.length.store(region.length ^ as.length_mask, std::memory_order_release);
        to.name.store(as.name, std::memory_order_release);
        return true;
    }
    return false;
}

bool direct_board::withdraw(const board_name &as)
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        region_entry &of = regions_[place_of(as.name, which)];
        if (of.name.load(std::memory_order_relaxed) != as.name)
            continue;
        of.name.store(0);
        return true;
    }
    return false;
}

void direct_board::open_gate(std::uint32_t gate, std::uint64_t token)
{
    gate_lines_[gate].token.store(token, std::memory_order_release);
}

void direct_board::close_gate(std::uint32_t gate)
{
    gate_lines_[gate].token.store(closed);
}

void direct_board::claim(std::uint32_t gate, std::uint64_t name)
{
    claim_lines_[gate].name.store(name);
}

void direct_board::end_claim(std::uint32_t gate)
{
    claim_lines_[gate].name.store(0, std::memory_order_release);
}

// ----------------------------------------------------------------------------------------- others

std::uint64_t direct_board::claimed(std::uint32_t gate) const
{
    return claim_lines_[gate].name.load();
}

const direct_board::region_entry *direct_board::find(std::uint64_t name) const
{
    for (std::uint32_t which = 0; which < 2; ++which) {
        const region_entry &each = regions_[place_of(name, which)];
        if (each.name.load() == name)
            return &each;
    }
    return nullptr;
}

bool direct_board::permits(std::uint32_t gate, std::uint64_t token, const board_name &as,
                           const direct_target &to) const
{
    const gate_line &through = gate_lines_[gate];
    if (as.name == 0 || through.token.load() != token)
        return false;
    const region_entry *const found = find(as.name);
    if (found == nullptr)
        return false;
    const std::uint64_t rights = found->rights.load(std::memory_order_acquire) ^ as.rights_mask;
    const std::uint64_t address = found->address.load(std::memory_order_acquire) ^ as.address_mask;
    const std::uint64_t length = found->length.load(std::memory_order_acquire) ^ as.length_mask;
    // The entry was not reused for another key while it was read, and the gate is still open.
    if (found->name.load(std::memory_order_acquire) != as.name ||
        through.token.load(std::memory_order_acquire) != token)
        return false;
    // The bounds are compared as in memory_table::check(): neither side of a comparison can
    // overflow.
    const std::uint64_t offset = to.address - address;
    return (rights & to.rights) == to.rights && to.address + to.length >= to.address &&
           to.address >= address && offset <= length && to.length <= length - offset;
}

} // namespace soft_hca
