// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SRQ: a pool of receives that several endpoints draw from.
#pragma once

#include "pz.hpp"
#include "thread_safety.hpp"
#include "work_queue.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class shared_recv_queue : public object {
public:
    static constexpr std::size_t slab_size = 8;
    static constexpr object_type pool = object_type::srq;
    static bool is_kind(mark kind) { return kind == mark::srq; }

    shared_recv_queue(const DAT_PROVIDER *vector, adapter &owner, pz &zone,
                      const DAT_SRQ_ATTR &attr)
        : object(vector, mark::srq, owner), zone_(&zone), attr_(attr)
    {}

    status set_up();
    /// Discards all posted receives. The caller has made sure that no endpoint uses the queue.
    void release();

    template <class Safety>
    status post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local, DAT_DTO_COOKIE cookie);
    status resize(DAT_COUNT max_recv) OSD_EXCLUDES(lock_);
    status set_low_watermark(DAT_COUNT low) OSD_EXCLUDES(lock_);
    void limit_reached();
    void fill(DAT_SRQ_PARAM &out) OSD_EXCLUDES(lock_);

    pz &zone() const { return *zone_.get(); }
    shared_work_queue *receives() const { return receives_; }
    transport::srq port_srq;

private:
    status refused(status why, bool by_port = false) const OSD_COLD;

    shared_work_queue *receives_ = nullptr;
    osd::mutex post_lock_;
    osd::mutex lock_; ///< guards the attributes; lines up slow calls
    user_of<pz> zone_;
    DAT_SRQ_ATTR attr_;
};

template <class Safety>
status shared_recv_queue::post_recv(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                    DAT_DTO_COOKIE cookie)
{
    post_guard<Safety> hold(post_lock_);
    if (segments < 0 || segments > attr_.max_recv_iov)
        return refused(invalid_parameter(2));
    if (local == nullptr && segments != 0)
        return refused(invalid_parameter(3));
    transport::wr *wr = receives_->take_any();
    if (wr == nullptr)
        return refused(out_of_memory);
    wr->cookie = cookie;
    wr->operation = opcode::receive;
    wr->length = static_cast<DAT_UINT32>(total_length(segments, local));
    const status posted = transport::dapls_ib_post_srq_recv(port_srq, *wr, segments, local);
    if (posted.ok())
        return success;
    receives_->give_back(*wr);
    return refused(posted, true);
}

} // namespace dapl::DAPL_TRANSPORT::core
