// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory of a device that its peers map: it says which memory of the process they may access.
//
// A board is written by its device and mapped read-only by others. It has
//   regions   the memory regions that peers may access: what memory_table has of them
//   gates     one per connection to such a peer: a token while the peer may access
//   claims    one per gate: the name of the region of that peer which this device is accessing, or
//             that it fetches the payload of a send
//   life      the system notes there that the process has ended, or executed another program
//
// All peers of the device read the board, and none shall learn keys from it that it was not given.
// So regions have no keys here but names, which are made from key and zone by a secret of the zone;
// the rest of an entry is masked likewise. A peer is told the secret of the zone that its
// connection is in: who knows a key finds its region, and the entries of other zones are noise.
//
// The initiator of an access stores a claim on its own board, reads gate and region on the board of
// the target, copies, and clears the claim. The target closes a gate or withdraws a region first,
// and then waits until the initiator's board has no claim for it. These stores and loads are
// sequentially consistent: so either the initiator finds the gate or region gone, or the target
// finds the claim and waits.
//
// A device does not trust the board of another: it compares the words with a request, and uses none
// of them as an index or a pointer.
#pragma once

#include "memory/memory_table.hpp"
#include "net/net_local.hpp"

#include "osd_siphash.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

/// How the entry of a region is named, and masked, on a board.
struct board_name {
    /// `zone`: the secret of the zone. `key` is not 0.
    static board_name of(const osd::siphash_key &zone, std::uint32_t key);

    std::uint64_t name = 0; ///< never 0 for a key
    std::uint64_t address_mask = 0;
    std::uint64_t length_mask = 0;
    std::uint64_t rights_mask = 0;
};

/// A secret for each zone of a device. Not its address, which another zone may have later.
class zone_secrets {
public:
    [[nodiscard]] bool open();
    osd::siphash_key of(const protection_domain *zone) const;

private:
    osd::siphash_key seed_;
};

/// The memory of a peer that a request wants to access.
struct direct_target {
    std::uint32_t rights;
    std::uint64_t address;
    std::uint64_t length;
};

class direct_board {
public:
    static constexpr std::uint32_t gates = 1024;
    static constexpr std::uint64_t closed = 0;
    /// Claim of a device that fetches the payload of a send; names of regions are odd.
    static constexpr std::uint64_t fetching = 2;

    // --- by the owner

    void begin() { made_for_.store(edition, std::memory_order_release); }
    /// Enters a region. False if its places are taken: it is accessed over the network then.
    bool show(const board_name &as, const memory_region &region);
    /// Removes a region: no access by its key begins any more. False if it was not entered.
    bool withdraw(const board_name &as);
    /// `token` is not `closed`; a peer that knows it may access.
    void open_gate(std::uint32_t gate, std::uint64_t token);
    void close_gate(std::uint32_t gate);
    void claim(std::uint32_t gate, std::uint64_t name);
    void end_claim(std::uint32_t gate);
    life_mark &life() { return life_; }

    // --- by others

    /// Whether the owner runs, and has executed no other program. False where that is not known.
    bool shows_life() const { return life_.is_held(); }
    bool is_board() const { return made_for_.load(std::memory_order_acquire) == edition; }
    /// Whether the owner permits an access. The initiator has stored its claim before.
    bool permits(std::uint32_t gate, std::uint64_t token, const board_name &as,
                 const direct_target &to) const;
    /// Whether the gate is open to who knows the token. The caller has stored its claim before.
    bool is_open(std::uint32_t gate, std::uint64_t token) const
    {
        return gate_lines_[gate].token.load() == token;
    }
    /// Holds the token while the gate is open.
    const std::atomic<std::uint64_t> &gate_word(std::uint32_t gate) const
    {
        return gate_lines_[gate].token;
    }
    /// The name of the peer's region that the owner is accessing; 0 if it is not.
    std::uint64_t claimed(std::uint32_t gate) const;

private:
    static constexpr std::uint64_t edition = 0x736f'6674'0001'0003; ///< number of this layout
    static constexpr std::uint32_t places = 8192;
    static constexpr unsigned name_bits_apart = 32; ///< shift for the second place

    struct alignas(64) gate_line {
        std::atomic<std::uint64_t> token;
    };
    struct alignas(64) claim_line {
        std::atomic<std::uint64_t> name;
    };
    struct region_entry {
        std::atomic<std::uint64_t> name;
        std::atomic<std::uint64_t> address; // this and the next two are masked
        std::atomic<std::uint64_t> length;
        std::atomic<std::uint64_t> rights;
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

    static std::uint32_t place_of(std::uint64_t name, std::uint32_t which)
    {
        return (which == 0 ? name : name >> name_bits_apart) & (places - 1);
    }
    const region_entry *find(std::uint64_t name) const;

    std::atomic<std::uint64_t> made_for_;
    gate_line gate_lines_[gates];
    claim_line claim_lines_[gates];
    region_entry regions_[places];
    life_mark life_;
};

static_assert(sizeof(direct_board) == 64 + direct_board::gates * 128 + 8192 * 32 + 64,
              "another layout is another edition");

} // namespace soft_hca
