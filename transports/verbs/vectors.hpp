// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The completion vectors of a device: interrupts, of which each goes to a processor of its own.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>

namespace dapl::verbs::vrb {

using processors = std::bitset<4096>;

/// Reads a list like "0-3,8" of sysfs; what cannot be read is left out.
processors read_processors(const char *list);

/// Spreads CQs over the vectors. Drivers give vectors to processors in order, beginning on the
/// device's node. So a CQ gets a vector whose processor is on the node of the thread that makes the
/// CQ: among the least used vectors the next from the thread's own processor on.
class completion_vectors {
public:
    static constexpr std::uint32_t spread = UINT32_MAX;

    /// Counts the users of `count` vectors. All CQs get the vector `fixed`, unless that is
    /// `spread`. False without memory.
    [[nodiscard]] bool open(std::uint32_t count, std::uint32_t fixed);
    /// Tells which processors there are, and which are on the device's node.
    void place(const processors &online, const processors &near_device);
    /// Reads that for a device of this name below sysfs.
    void look_up(const char *device);

    /// The vector of a CQ made on this processor, until it is given back.
    std::uint32_t take(unsigned processor);
    void give_back(std::uint32_t vector) { --users_[vector]; }

private:
    /// The vectors [first, end) that interrupt the processors of a node, and the place in them.
    struct range {
        std::uint32_t first;
        std::uint32_t end;
        std::uint32_t own;
    };
    range around(unsigned processor) const;

    std::unique_ptr<std::atomic<std::uint32_t>[]> users_;
    std::uint32_t count_ = 0;
    std::uint32_t fixed_ = spread;
    processors near_;
    processors far_;
};

} // namespace dapl::verbs::vrb
