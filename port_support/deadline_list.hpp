// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a service thread has to look at, and when. Listing allocates nothing.
#pragma once

#include "dapl_chain.hpp"
#include "osd_time.hpp"

#include <algorithm>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

/// Base of an element of a deadline_list; it is in one list at a time.
struct deadline_link : list_link {
    std::int64_t due_ns = 0; ///< on the clock of osd::now_ns(), while it is listed

    bool is_scheduled() const { return !is_unlinked(); }
    void cancel() { unlink(); }
};

/// Few elements at a time: finding the first is linear. Guarded by the owner's lock.
template <class T>
class deadline_list {
public:
    static constexpr std::int64_t never = INT64_MAX;

    /// Adds an element, or replaces its deadline. 0: as soon as possible.
    void schedule(T &item, std::int64_t due_ns)
    {
        deadline_link &place = item;
        place.due_ns = due_ns;
        if (!place.is_scheduled())
            list_.push(item);
    }

    /// Takes out an element whose deadline is `now_ns` or before; null when there is none.
    T *pop_due(std::int64_t now_ns)
    {
        for (T *item = list_.front(); item != nullptr; item = list_.after(*item))
            if (due_of(*item) <= now_ns) {
                static_cast<deadline_link &>(*item).cancel();
                return item;
            }
        return nullptr;
    }

    /// The earliest deadline, or never.
    std::int64_t next_due()
    {
        std::int64_t next = never;
        for (T *item = list_.front(); item != nullptr; item = list_.after(*item))
            next = std::min(next, due_of(*item));
        return next;
    }

private:
    static std::int64_t due_of(const T &item)
    {
        return static_cast<const deadline_link &>(item).due_ns;
    }

    list<T, deadline_link> list_;
};

inline std::int64_t ns_from_now(std::uint32_t ms)
{
    return osd::now_ns() + std::int64_t{ms} * 1'000'000;
}

} // namespace dapl::DAPL_TRANSPORT
