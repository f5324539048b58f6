// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memsets that peers have been asked for by messages, and that are not done yet.
#pragma once

#include "osd_sync.hpp"
#include "work_pool.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace am {

class fill_table {
public:
    /// What a message calls an operation: not its address, but a place in this table, and how often
    /// the place was used.
    struct name {
        std::uint32_t place;
        std::uint32_t use;
    };

    /// Names an operation. False if no place is free now.
    bool add(const peer &p, dapl_am_op &op, name &given) OSD_EXCLUDES(lock_)
    {
        const osd::lock_guard guard(lock_);
        for (std::uint32_t place = 0; place < all_.size(); ++place) {
            entry &e = all_[place];
            if (e.op != nullptr)
                continue;
            e = {&op, &p, e.use + 1};
            given = {place, e.use};
            return true;
        }
        return false;
    }

    /// Counts a memset as done. False if this peer has been asked for none of that name.
    bool complete(const peer &p, const name &given) OSD_EXCLUDES(lock_)
    {
        dapl_am_op *op = take(p, given);
        if (op != nullptr)
            op->pending.fetch_sub(1, std::memory_order_release);
        return op != nullptr;
    }

private:
    struct entry {
        dapl_am_op *op = nullptr;
        const peer *asked = nullptr;
        std::uint32_t use = 0;
    };

    dapl_am_op *take(const peer &p, const name &given) OSD_EXCLUDES(lock_)
    {
        const osd::lock_guard guard(lock_);
        if (given.place >= all_.size())
            return nullptr;
        entry &e = all_[given.place];
        return e.asked == &p && e.use == given.use ? std::exchange(e.op, nullptr) : nullptr;
    }

    osd::mutex lock_;
    std::array<entry, 256> all_ OSD_GUARDED_BY(lock_);
};

} // namespace am
