// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SRQ: a pool of receives that several endpoints draw from.
#pragma once

#include "pz.hpp"
#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class shared_recv_queue : public object {
public:
    static constexpr std::size_t slab_size = 8;
    static bool is_kind(mark kind) { return kind == mark::srq; }

    shared_recv_queue(const DAT_PROVIDER *vector, adapter &owner, pz &zone,
                      const DAT_SRQ_ATTR &attr)
        : object(vector, mark::srq, owner), zone_(&zone), attr_(attr)
    {}

    status set_up();
    /// What is posted is discarded. No endpoint refers to the queue any more.
    void release();

    template <class Safety>
    status post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                     DAT_DTO_COOKIE cookie) OSD_UNCHECKED;
    status resize(DAT_COUNT max_recv) OSD_EXCLUDES(lock_);
    status set_low_watermark(DAT_COUNT low) OSD_EXCLUDES(lock_);
    void limit_reached();
    void fill(DAT_SRQ_PARAM &out) OSD_EXCLUDES(lock_);

    pz &zone() const { return *zone_.get(); }
    shared_work_queue *receives() const { return receives_; }
    transport::srq port_srq;

private:
    shared_work_queue *receives_ = nullptr;
    osd::mutex post_lock_;
    osd::mutex lock_; ///< of the attributes; lines up slow calls
    user_of<pz> zone_;
    DAT_SRQ_ATTR attr_;
};

} // namespace dapl::DAPL_TRANSPORT::core
