// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a device shows to those of its peers that may access its process's memory themselves.
//
// A board is written by its device and mapped read-only by others. It has
//   regions   which memory is open to peers, by key: what memory_table says, for other processes
//   gates     one for each connection to such a peer: whether it is open, and to which zone
//   claims    at the same place, the key by which this device is accessing that peer's memory
//
// An access announces itself by a claim, looks at the peer's gate and region, and takes the claim
// back when it is over. Who closes a gate or withdraws a region does so first, and then waits for
// the claims. These stores and loads are sequentially consistent: so either the access sees that it
// is refused, or it is waited for.
//
// Whoever reads another process's board reads each word once, and uses none as an index or a
// pointer: it is compared with what a request asks for.
#pragma once

#include "memory_table.hpp"

#include <atomic>
#include <cstdint>

namespace soft_hca {

/// Memory of a peer that is to be accessed.
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
    /// False when there is no room: the region is accessed over the network then. `zone` is not 0.
    bool show(std::uint32_t key, std::uint64_t zone, const memory_region &region);
    /// No access by this key begins any more. False when it was not shown.
    bool withdraw(std::uint32_t key);
    /// `token` is not `closed`; the peer has to know it.
    void open_gate(std::uint32_t gate, std::uint64_t token, std::uint64_t zone);
    void close_gate(std::uint32_t gate);
    void claim(std::uint32_t gate, std::uint32_t key);
    void end_claim(std::uint32_t gate);

    // --- by others

    bool is_board() const { return made_for_.load(std::memory_order_acquire) == edition; }
    /// Whether the access may be made, by who has claimed it.
    bool permits(std::uint32_t gate, std::uint64_t token, const direct_target &to) const;
    /// Holds the token while the gate is open.
    const std::atomic<std::uint64_t> &gate_word(std::uint32_t gate) const
    {
        return gate_lines_[gate].token;
    }
    /// The key that the owner claims; 0 when there is none.
    std::uint32_t claimed(std::uint32_t gate) const;

private:
    static constexpr std::uint64_t edition = 0x736f'6674'0001'0001; ///< of this layout
    static constexpr std::uint32_t places = 8192;
    static constexpr std::uint32_t key_bits_apart = 13; ///< between the two places of a key

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
