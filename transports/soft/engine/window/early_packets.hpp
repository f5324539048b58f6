// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The packets that a device keeps because they came early: all its connections share one budget.
//
// When it is used up, the connections that keep the most lose the packets that are furthest ahead
// to a connection that keeps less; so a peer that leaves holes on purpose takes nothing from the
// others beyond an equal share. Equal means within a factor of two: connections are sorted by the
// logarithm of the bytes that they keep.
#pragma once

#include "osd_sync.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace soft_hca {

class early_packets {
public:
    /// Packets of a connection: limit on how far ahead they may be.
    static constexpr std::uint32_t capacity = 256;

    /// A copy of a packet.
    struct packet_copy {
        std::uint32_t psn;
        std::uint32_t numbers; ///< that it takes, from psn on
        std::size_t size;
        std::uint8_t *bytes() { return reinterpret_cast<std::uint8_t *>(this + 1); }
    };
    struct free_copy {
        void operator()(packet_copy *copy) const { std::free(copy); }
    };
    using owned_copy = std::unique_ptr<packet_copy, free_copy>;

    /// The packets of one connection. All but `held` is used with the lock of their budget.
    struct holding {
        explicit holding(early_packets &from) : budget(from) {}
        early_packets &budget;
        packet_copy *at[capacity] = {};
        holding *next = nullptr; ///< next holding of this size class, while it holds any
        holding **link = nullptr;
        std::size_t bytes = 0;
        std::uint32_t next_psn = 0; ///< all that it holds are this one or later
        std::atomic<std::uint32_t> held{0};
    };
    struct end_holding {
        void operator()(holding *over) const;
    };
    using owned_holding = std::unique_ptr<holding, end_holding>;

    early_packets() = default;
    early_packets(const early_packets &) = delete;
    early_packets &operator=(const early_packets &) = delete;
    /// Bytes that are kept at most. Before the first is kept.
    void limit_to(std::size_t bytes);

    /// Returns null when out of memory.
    owned_holding begin();
    /// Keeps a copy. False when it is there already, out of memory, or the share is used up.
    bool keep(holding &in, std::uint32_t next_psn, std::uint32_t psn, const std::uint8_t *bytes,
              std::size_t size, std::uint32_t numbers = 1);
    /// Takes it out; null when it is not there.
    owned_copy take(holding &in, std::uint32_t psn);
    /// Its owner waits for `psn` next.
    void advance(holding &in, std::uint32_t psn);
    /// Bit i of word w stands for the packet after + 1 + 32 * w + i. Returns the number of words
    /// that are not all zero.
    std::uint32_t describe(const holding &in, std::uint32_t after, std::uint32_t *words,
                           std::uint32_t max_words);

    struct counts {
        std::uint64_t refused = 0; ///< packets that were not kept, since the share was used up
        std::uint64_t evicted = 0; ///< packets that gave way to packets of others
        std::size_t bytes = 0;     ///< that are kept now
    };
    counts counted();

private:
    static constexpr std::uint32_t classes = 40;

    static std::uint32_t class_of(std::size_t bytes);
    static std::size_t cost_of(std::size_t size) { return sizeof(packet_copy) + size; }
    bool make_room(const holding &for_whom, std::size_t cost) OSD_REQUIRES(lock_);
    void evict_furthest(holding &from) OSD_REQUIRES(lock_);
    packet_copy *remove(holding &from, std::uint32_t psn) OSD_REQUIRES(lock_);
    void change(holding &which, std::size_t bytes) OSD_REQUIRES(lock_);

    osd::mutex lock_;
    std::size_t limit_ OSD_GUARDED_BY(lock_) = 16 << 20;
    holding *by_size_[classes] OSD_GUARDED_BY(lock_) = {};
    counts counted_ OSD_GUARDED_BY(lock_);
};

} // namespace soft_hca
