// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The order of events on an EVD that merges the DTO and connection streams: the ESTABLISHED event
// of a connection before all its completions, and the event that ends it after all completions that
// were not flushed. Only such EVDs have one. All functions are for the thread that holds the claim.
//
//   - A completion of a connection whose ESTABLISHED has not been posted yet stays in staged_.
//   - An event that ends a connection moves from posted_ to ends_. A barrier is then set at the end
//     of staged_, once the CQ was found empty: completions that came before the event are staged
//     before the barrier. The event is delivered when no completion of its endpoint is left before
//     it.
#pragma once

#include "event_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class event_order {
public:
    event_order(event_queue &queue, const evd &self) : queue_(queue), self_(self)
    {
        queue_.ends_ = &ends_;
    }
    ~event_order() { clear_barrier(); }

    /// Returns false when out of memory.
    bool allocate(DAT_COUNT qlen) { return ends_.allocate(qlen); }
    /// Moves the held events to a longer ring, for a resize; `longer` is empty and has room for
    /// them.
    void take_storage_of(event_ring<DAT_EVENT> &longer);

    bool take(DAT_EVENT &event);
    /// Events that wait for others to be delivered.
    DAT_COUNT waiting_ends() const { return static_cast<DAT_COUNT>(ends_.size()); }

private:
    bool has_posted() const;
    bool take_posted(DAT_EVENT &event);
    bool take_earlier_end(const DAT_EVENT &next, DAT_EVENT &event);
    bool take_end(DAT_EVENT &event);
    bool completes_before_barrier(DAT_EP_HANDLE ep) const;
    std::uint32_t first_deliverable() const;
    bool precedes_established(const completion &done) const;
    bool stage_more();
    void set_barrier();
    void clear_barrier();

    event_queue &queue_;
    const evd &self_;
    event_ring<DAT_EVENT> ends_; ///< ends of connections that may have completions before them
    std::uint32_t barrier_ = 0;  ///< position in staged_ of the barrier for the first held end
    bool has_barrier_ = false;
};

} // namespace dapl::DAPL_TRANSPORT::core
