// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The slow operations of shared receive queues.
#include "port.hpp"

namespace dapl::soft {

status transport::dapls_ib_srq_alloc(pd &domain, srq &s, const srq_params &params)
{
    s.parent = domain.parent;
    const bool made = s.parent->device.make_shared(s.queue, params.owner, domain.domain,
                                                   static_cast<std::uint32_t>(params.max_recv));
    return made ? success : out_of_memory;
}

void transport::dapls_ib_srq_free(srq &s)
{
    if (!s.parent->foreign())
        s.parent->device.free_shared(s.queue);
}

status transport::dapls_ib_srq_resize(srq &s, DAT_COUNT max_recv)
{
    return s.queue.resize(static_cast<std::uint32_t>(max_recv)) ? success : out_of_memory;
}

void transport::dapls_ib_qp_set_watermarks(qp &q, DAT_COUNT soft, DAT_COUNT hard)
{
    static_assert(static_cast<std::uint32_t>(DAT_WATERMARK_INFINITE) ==
                  soft_hca::high_watermarks::none);
    q.pair.set_watermarks({static_cast<std::uint32_t>(soft), static_cast<std::uint32_t>(hard)});
}

status transport::dapls_ib_srq_set_limit(srq &s, DAT_COUNT low_watermark)
{
    s.queue.set_limit(static_cast<std::uint32_t>(low_watermark));
    return success;
}

} // namespace dapl::soft
