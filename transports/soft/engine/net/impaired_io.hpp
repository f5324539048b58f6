// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A bad network around a good one: loses, repeats, reorders, alters and delays received datagrams,
// by numbers that follow from a seed.
#pragma once

#include "osd_sync.hpp"
#include "wrapped_io.hpp"

#include <atomic>

namespace soft_hca {

/// Probabilities in parts of a thousand.
struct impairment {
    std::uint32_t loss = 0;
    std::uint32_t reorder = 0; ///< goes behind some that come after it
    std::uint32_t duplicate = 0;
    std::uint32_t delay_us = 0; ///< delay of every datagram
    std::uint64_t seed = 1;
    std::uint32_t largest = 0; ///< bytes of a datagram that gets through; 0: all do

    std::uint32_t kbytes_per_s = 0; ///< rate of a bottleneck; 0: none
    std::uint32_t queue = 0;        ///< bytes that wait for it at most
    std::uint32_t corrupt = 0;      ///< have a wrong bit

    bool stops(std::size_t datagram) const { return largest != 0 && datagram > largest; }
    bool any() const
    {
        return (loss | reorder | duplicate | delay_us | largest | kbytes_per_s | corrupt) != 0;
    }
};

class impaired_io final : public wrapped_io {
public:
    /// Takes over `inner`, made by new.
    impaired_io(packet_io *inner, const impairment &how)
        : wrapped_io(inner), impairment_(how), state_(how.seed)
    {}
    ~impaired_io() override;

    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override;
    std::int64_t due_ns() const override;

    struct counts {
        std::atomic<std::uint64_t> seen{0}, lost{0}, reordered{0}, duplicated{0}, corrupted{0};
    };
    const counts &counted() const { return counts_; }

private:
    struct held {
        held *next = nullptr;
        net_address from;
        std::size_t size = 0;
        std::int64_t due_ns = 0;
        std::uint32_t overtakers = 0; ///< how many may still pass it
        std::uint8_t *bytes() { return reinterpret_cast<std::uint8_t *>(this + 1); }
    };
    static constexpr std::uint32_t batch = 32;
    static constexpr std::int64_t longest_hold_ns = 2'000'000;

    std::uint32_t roll();
    bool passes_bottleneck(std::size_t size);
    void take_in(const in_packets &group);
    void judge(const net_address &from, const std::uint8_t *bytes, std::size_t size);
    void keep(const net_address &from, const std::uint8_t *bytes, std::size_t size,
              std::uint32_t overtakers);
    held *take_due(std::int64_t now);
    void corrupt(held &item);
    static void release(held *list);

    const impairment impairment_;
    std::uint64_t state_;
    counts counts_;
    std::int64_t busy_until_ns_ = 0; ///< the bottleneck
    held *waiting_ = nullptr;        ///< list in order of arrival
    held *lent_ = nullptr;
    in_packets groups_[batch]; ///< used by receive(), which one thread calls at a time
};

} // namespace soft_hca
