// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The slow operations of completion queues.
#include "port.hpp"

namespace dapl::soft {

DAT_DTO_COMPLETION_STATUS dto_status(soft_hca::work_status status)
{
    switch (status) {
    case soft_hca::work_status::success:
        return DAT_DTO_SUCCESS;
    case soft_hca::work_status::flushed:
        return DAT_DTO_ERR_FLUSHED;
    case soft_hca::work_status::local_length:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case soft_hca::work_status::local_protection:
        return DAT_DTO_ERR_LOCAL_PROTECTION;
    case soft_hca::work_status::not_bound:
        return DAT_RMR_OPERATION_FAILED;
    case soft_hca::work_status::remote_access:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    case soft_hca::work_status::remote_operation:
        return DAT_DTO_ERR_REMOTE_RESPONDER;
    case soft_hca::work_status::transport:
        break;
    }
    return DAT_DTO_ERR_TRANSPORT;
}

bool transport::take(cq &c, completion &done)
{
    return c.queue.pop_to([&](const soft_hca::completion_record &record) {
        auto *const request = static_cast<wr *>(record.request->context);
        done.wr = request;
        done.length = record.length;
        done.status = dto_status(record.status);
        done.has_immediate = record.extra == soft_hca::brought::immediate;
        done.immediate = record.immediate;
        done.invalidated = record.extra == soft_hca::brought::invalidation ? record.immediate : 0;
        done.receiver =
            request->is_shared() ? static_cast<work_queue *>(c.queue.end_receive(record)) : nullptr;
        done.solicited = record.solicited;
        return true;
    });
}

status transport::dapls_ib_cq_alloc(hca &h, cq &c, evd &owner, DAT_COUNT &depth)
{
    c.parent = &h;
    if (!h.device.make_queue(c.queue, &owner, static_cast<std::uint32_t>(depth)))
        return out_of_memory;
    depth = static_cast<DAT_COUNT>(c.queue.depth());
    return success;
}

void transport::dapls_ib_cq_free(cq &c)
{
    if (!c.parent->foreign())
        c.parent->device.free_queue(c.queue);
}

status transport::dapls_ib_cq_resize(cq &c, DAT_COUNT &depth)
{
    using outcome = soft_hca::completion_queue::outcome;
    const outcome how = c.parent->device.resize_queue(c.queue, static_cast<std::uint32_t>(depth));
    if (how == outcome::no_memory)
        return out_of_memory;
    if (how == outcome::too_full)
        return status::error(DAT_INVALID_STATE);
    depth = static_cast<DAT_COUNT>(c.queue.depth());
    return success;
}

osd::wait_result transport::dapls_ib_cq_wait(cq &c, notify_on what, DAT_COUNT threshold,
                                             osd::deadline until)
{
    return c.queue.wait({interest_in(what), static_cast<std::uint32_t>(threshold)}, until);
}

void transport::dapls_ib_cq_wakeup(cq &c)
{
    c.queue.wake();
}

} // namespace dapl::soft
