// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// siw completes requests that were posted behind an RDMA read before that read. A fence would keep
// the order, but can deadlock: while a fenced request waits for our reads, siw answers no read of
// the peer, which may wait for it with a fence, too. So completions that have overtaken a read are
// held back here until the read completes.
#include "internal.hpp"

namespace dapl::verbs::vrb {

namespace {

bool is_read(const wr &w)
{
    return w.operation == opcode::rdma_read;
}

/// Whether a read that was posted before this request is outstanding. The search ends at a request
/// that has completed: the ring of requests always holds one.
bool is_behind_read(const wr &w)
{
    for (auto *at = static_cast<const wr *>(w.before); at != nullptr && !at->finished;
         at = static_cast<const wr *>(at->before))
        if (is_read(*at))
            return true;
    return false;
}

/// Reads complete in order among themselves.
bool has_overtaken_read(const wr &w)
{
    return w.operation != opcode::receive && !is_read(w) && !w.finished && is_behind_read(w);
}

void keep(fifo<wr> &in, const ibv_wc &entry)
{
    wr &w = request_of(entry);
    w.kept_status = entry.status;
    w.kept_length = entry.byte_len;
    w.kept_by = entry.qp_num;
    w.kept = true;
    in.push(w);
}

ibv_wc entry_of(wr &w)
{
    w.kept = false;
    ibv_wc entry{};
    entry.wr_id = reinterpret_cast<std::uint64_t>(&w);
    entry.status = w.kept_status;
    entry.byte_len = w.kept_length;
    entry.qp_num = w.kept_by;
    return entry;
}

/// Puts a completion aside, held back or ready. Drops the second one of a request: siw flushes an
/// RDMA read twice that it was just about to send.
void sort(cq &c, const ibv_wc &entry)
{
    const wr &w = request_of(entry);
    if (!w.finished && !w.kept)
        keep(has_overtaken_read(w) ? c.behind_read : c.ready, entry);
}

/// Takes the first held completion whose read has completed; null without one. A queue pair does
/// not wait for the reads of others.
wr *released(cq &c)
{
    wr *found = nullptr;
    fifo<wr> rest;
    while (wr *w = c.behind_read.pop())
        if (found == nullptr && !has_overtaken_read(*w))
            found = w;
        else
            rest.push(*w);
    c.behind_read = rest;
    return found;
}

bool next_in_order(cq &c, ibv_wc &entry)
{
    wr *next = released(c);
    while (next == nullptr && c.ready.empty() &&
           c.handle->context->ops.poll_cq(c.handle, 1, &entry) > 0)
        sort(c, entry);
    if (next == nullptr)
        next = c.ready.pop();
    if (next != nullptr)
        entry = entry_of(*next);
    return next != nullptr;
}

/// Returns how many completions of a batch can be reported now. The first read is the last of them;
/// a completion that has overtaken a read is not among them. This function puts the others aside;
/// the caller marks the read as finished and polls again for them.
int leading(cq &c, const ibv_wc *entries, int count)
{
    int good = 0;
    bool ends = false;
    while (good < count && !ends) {
        const wr &w = request_of(entries[good]);
        if (has_overtaken_read(w))
            break;
        ends = is_read(w);
        ++good;
    }
    for (int i = good; i < count; ++i)
        if (!ends || entries[i].wr_id != entries[good - 1].wr_id)
            sort(c, entries[i]);
    return good;
}

} // namespace

int poll_in_order(ibv_cq *handle, int most, ibv_wc *entries)
{
    cq &c = *static_cast<cq *>(handle->cq_context);
    int count = 0;
    if (c.behind_read.empty() && c.ready.empty()) {
        count = handle->context->ops.poll_cq(handle, most, entries);
        if (count > 0)
            count = leading(c, entries, count);
    }
    if (count == 0 && !(c.behind_read.empty() && c.ready.empty()))
        count = next_in_order(c, entries[0]) ? 1 : 0;
    return count;
}

void forget_behind_read(cq &c, std::uint32_t qp_num)
{
    osd::lock_guard hold(c.lock);
    c.exclude_consumer();
    fifo<wr> others;
    while (wr *w = c.behind_read.pop())
        if (w->kept_by != qp_num)
            others.push(*w);
        else
            w->kept = false;
    c.behind_read = others;
    c.readmit_consumer();
}

} // namespace dapl::verbs::vrb
