// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// siw completes what is posted behind an RDMA read before that. A fence would keep the order, and
// hang: while a fenced request waits for our reads siw answers none of the peer's, which may wait
// likewise. So completions that have overtaken a read are held back here until it completes.
#include "internal.hpp"

namespace dapl::verbs::vrb {

namespace {

bool is_request(const wr &w)
{
    return w.operation != DAT_DTO_RECEIVE;
}

bool is_read(const wr &w)
{
    return w.operation == DAT_DTO_RDMA_READ;
}

/// Reads complete in order among themselves. The search ends at a request that has come back: its
/// ring always holds one.
bool has_overtaken_read(const wr &w)
{
    if (!is_request(w) || is_read(w) || w.finished)
        return false;
    for (auto *at = static_cast<const wr *>(w.before); at != nullptr && !at->finished;
         at = static_cast<const wr *>(at->before))
        if (is_read(*at))
            return true;
    return false;
}

void hold(cq &c, const ibv_wc &entry)
{
    wr &w = request_of(entry);
    w.held_status = entry.status;
    w.held_by = entry.qp_num;
    c.held.push(w);
}

ibv_wc release(cq &c)
{
    const wr &w = *c.held.pop();
    ibv_wc entry{};
    entry.wr_id = reinterpret_cast<std::uint64_t>(&w);
    entry.status = w.held_status;
    entry.qp_num = w.held_by;
    entry.byte_len = w.length;
    return entry;
}

/// The next of a CQ: one that was held back and needs that no longer, or of the device.
bool next_in_order(cq &c, ibv_wc &entry)
{
    if (!c.held.empty() && !has_overtaken_read(*c.held.front()))
        return entry = release(c), true;
    while (c.handle->context->ops.poll_cq(c.handle, 1, &entry) > 0) {
        if (!has_overtaken_read(request_of(entry)))
            return true;
        hold(c, entry);
    }
    return false;
}

} // namespace

/// A read is the last of its batch: the caller notes that it has come back, and then calls again.
int poll_in_order(ibv_cq *handle, int most, ibv_wc *entries)
{
    cq &c = *static_cast<cq *>(handle->cq_context);
    int count = 0;
    while (count < most && next_in_order(c, entries[count]))
        if (is_read(request_of(entries[count++])))
            break;
    return count;
}

void forget_held(cq &c, std::uint32_t qp_num)
{
    osd::lock_guard hold(c.lock);
    c.exclude_consumer();
    fifo<wr> others;
    while (wr *w = c.held.pop())
        if (w->held_by != qp_num)
            others.push(*w);
    c.held = others;
    c.readmit_consumer();
}

} // namespace dapl::verbs::vrb
