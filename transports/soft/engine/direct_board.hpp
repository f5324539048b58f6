// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory of a device that its peers map: it says which memory of the process they may access.
//
// A board is written by its device and mapped read-only by others. It has
//   regions   by key, the memory regions that peers may access: what memory_table has of them
//   gates     one per connection to such a peer: a token while the peer may access, and the zone
//   claims    one per gate: the key by which this device is accessing the memory of that peer
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

#include "memory_table.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

/// The memory of a peer that a request wants to access.
struct direct_target {
    std::uint32_t key;
    std::uint32_t rights;
    std::uint64_t address;
    std::uint64_t length;
};

class direct_board {
public:
    static constexpr std::uint32_t gates = 1024;
    static constexpr std::uint64_t closed = 0;

    // --- by the owner

    void begin() { made_for_.store(edition, std::memory_order_release); }
    /// Enters a region. False if its places are taken: it is accessed over the network then. `zone`
    /// is not 0.
    bool show(std::uint32_t key, std::uint64_t zone, const memory_region &region);
    /// Removes a region: no access by its key begins any more. False if it was not entered.
    bool withdraw(std::uint32_t key);
    /// `token` is not `closed`; a peer that knows it may access.
    void open_gate(std::uint32_t gate, std::uint64_t token, std::uint64_t zone);
    void close_gate(std::uint32_t gate);
    void claim(std::uint32_t gate, std::uint32_t key);
    void end_claim(std::uint32_t gate);

    // --- by others

    bool is_board() const { return made_for_.load(std::memory_order_acquire) == edition; }
    /// Whether the owner permits an access. The initiator has stored its claim before.
    bool permits(std::uint32_t gate, std::uint64_t token, const direct_target &to) const;
    /// Holds the token while the gate is open.
    const std::atomic<std::uint64_t> &gate_word(std::uint32_t gate) const
    {
        return gate_lines_[gate].token;
    }
    /// The key by which the owner is accessing the peer's memory; 0 if it is not.
    std::uint32_t claimed(std::uint32_t gate) const;

private:
    static constexpr std::uint64_t edition = 0x736f'6674'0001'0001; ///< of this layout
    static constexpr std::uint32_t places = 8192;
    static constexpr std::uint32_t key_bits_apart = 13; ///< shift for the second place

    struct alignas(64) gate_line {
        std::atomic<std::uint64_t> token;
        std::atomic<std::uint64_t> zone;
    };
    struct alignas(64) claim_line {
        std::atomic<std::uint32_t> key;
    };
    struct region_entry {
        std::atomic<std::uint32_t> key;
        std::atomic<std::uint32_t> rights;
        std::atomic<std::uint64_t> address;
        std::atomic<std::uint64_t> length;
        std::atomic<std::uint64_t> zone;
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

    static std::uint32_t place_of(std::uint32_t key, std::uint32_t which)
    {
        return (which == 0 ? key : key >> key_bits_apart) & (places - 1);
    }
    const region_entry *find(std::uint32_t key) const;

    std::atomic<std::uint64_t> made_for_;
    gate_line gate_lines_[gates];
    claim_line claim_lines_[gates];
    region_entry regions_[places];
};

static_assert(sizeof(direct_board) == 64 + direct_board::gates * 128 + 8192 * 32,
              "another layout is another edition");

} // namespace soft_hca
