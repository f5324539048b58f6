// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows. A window for a zone is of type 1: its key is good through every queue pair, and
// no message of a peer can close it. A window for the peer of one connection is of type 2: it
// belongs to the queue pair that bound it, has to be closed before it is bound again, and a peer's
// message can close it.
#include "internal.hpp"

#include <cerrno>

namespace dapl::verbs {

using namespace vrb;

namespace {

list<mw, bound_link> &bucket_of(bound_windows &table, std::uint32_t key) OSD_REQUIRES(table.lock)
{
    constexpr unsigned key_bits = 8; // of a key, which the library counts up; the rest is a number
    return table.by_key[(key >> key_bits) % bound_windows::buckets];
}

void forget(mw &window)
{
    static_cast<bound_link &>(window).unlink();
    window.through = nullptr;
}

void free_handle(mw &window)
{
    if (window.handle != nullptr)
        log_failure(*window.device, "ibv_dealloc_mw", ibv_dealloc_mw(window.handle));
    window.handle = nullptr;
}

/// Takes another window of the device in place of one that is of the other type or bound on another
/// queue pair, which cannot be closed from here by a request. An errno, with all as it was; or 0.
int replace_handle(mw &window, ibv_mw_type type)
{
    ibv_mw *made = ibv_alloc_mw(window.zone->handle, type);
    if (made == nullptr)
        return errno;
    forget(window);
    free_handle(window);
    window.handle = made;
    return 0;
}

/// The requests that bind a window of type 2, or close it.
struct chain {
    ibv_send_wr requests[2];
    int count = 0;

    void add(const ibv_send_wr &request, std::uint64_t id, unsigned flags)
    {
        ibv_send_wr &last = requests[count++] = request;
        last.wr_id = id;
        // A failure completes in any case. A fence holds back what comes behind it, too.
        last.send_flags = count == 1 ? flags : flags & IBV_SEND_SIGNALED;
        if (count == 2) {
            requests[0].next = &last;
            requests[0].send_flags &= ~unsigned{IBV_SEND_SIGNALED};
        }
    }
};

ibv_send_wr closing_of(const mw &window)
{
    ibv_send_wr request = with_opcode(IBV_WR_LOCAL_INV);
    request.invalidate_rkey = window.handle->rkey;
    return request;
}

ibv_send_wr binding_of(const mw &window, const ibv_mw_bind_info &part)
{
    ibv_send_wr request = with_opcode(IBV_WR_BIND_MW);
    request.bind_mw.mw = window.handle;
    request.bind_mw.rkey = ibv_inc_rkey(window.handle->rkey);
    request.bind_mw.bind_info = part;
    return request;
}

/// Posts the bind of a window of type 2; without a part the window is closed. An errno, or 0.
int bind_for_peer(qp &q, ibv_qp *through, mw &window, const ibv_mw_bind_info *part,
                  std::uint64_t id, unsigned flags)
{
    bound_windows &table = window.device->bound;
    osd::lock_guard hold(table.lock);
    const bool usable = window.handle != nullptr && window.handle->type == IBV_MW_TYPE_2 &&
                        (window.through == nullptr || window.through == &q);
    if (!usable)
        if (const int error = replace_handle(window, IBV_MW_TYPE_2); error != 0)
            return error;
    chain posted;
    const bool closes = window.through != nullptr;
    if (closes)
        posted.add(closing_of(window), id, flags);
    if (part != nullptr)
        posted.add(binding_of(window, *part), id, flags);
    else if (!closes)
        posted.add(with_opcode(IBV_WR_RDMA_WRITE), id, flags); // writes nothing, and completes
    ibv_send_wr *bad = nullptr;
    const int error = q.post(through, posted.requests, &bad);
    if (closes && bad != &posted.requests[0])
        forget(window);
    if (error != 0 || part == nullptr)
        return error;
    window.handle->rkey = posted.requests[posted.count - 1].bind_mw.rkey;
    window.closed.store(0);
    window.through = &q;
    bucket_of(table, window.handle->rkey).push(window);
    return 0;
}

int bind_for_zone(ibv_qp *through, mw &window, const ibv_mw_bind_info *part, std::uint64_t id,
                  unsigned flags)
{
    ibv_mw_bind bind{};
    bind.wr_id = id;
    bind.send_flags = flags;
    // Some libraries refuse a bind without a region: so a byte without rights stands for no region.
    bind.bind_info = {window.nothing, reinterpret_cast<std::uintptr_t>(window.nothing->addr), 1, 0};
    if (part != nullptr)
        bind.bind_info = *part;
    return ibv_bind_mw(through, window.handle, &bind);
}

} // namespace

void vrb::note_closed(hca &device, std::uint32_t key)
{
    bound_windows &table = device.bound;
    osd::lock_guard hold(table.lock);
    auto &bucket = bucket_of(table, key);
    mw *window = bucket.front();
    while (window != nullptr && window->handle->rkey != key)
        window = bucket.after(*window);
    if (window == nullptr)
        return;
    window->closed.store(key);
    forget(*window);
}

/// A device does not destroy a queue pair to whose peer a window is open.
void vrb::close_windows(const qp &q)
{
    bound_windows &table = q.device->bound;
    osd::lock_guard hold(table.lock);
    for (auto &bucket : table.by_key)
        for (mw *window = bucket.front(); window != nullptr;) {
            mw *const next = bucket.after(*window);
            if (window->through == &q) {
                forget(*window);
                free_handle(*window);
            }
            window = next;
        }
}

status transport::dapls_ib_mw_alloc(pd &domain, mw &window)
{
    constexpr int no_right = IBV_ACCESS_MW_BIND;
    window.device = domain.device;
    window.zone = &domain;
    {
        osd::lock_guard hold(domain.device->lock);
        if (domain.nothing == nullptr)
            domain.nothing = ibv_reg_mr(domain.handle, &domain, 1, no_right);
        window.nothing = domain.nothing;
    }
    if (window.nothing != nullptr) // type 1: its key is known when the bind is posted
        window.handle = ibv_alloc_mw(domain.handle, IBV_MW_TYPE_1);
    return window.handle != nullptr ? success
                                    : call_failed(window.device->name, "ibv_alloc_mw", errno);
}

void transport::dapls_ib_mw_free(mw &window)
{
    if (window.device->foreign())
        return;
    osd::lock_guard hold(window.device->bound.lock);
    forget(window);
    free_handle(window);
}

status transport::dapls_ib_mw_bind(qp &q, wr &w, mw &window, mr *region, const mw_params &range,
                                   DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT &key)
{
    const unsigned carried = send_flags(q, w, flags) & (IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    const auto id = reinterpret_cast<std::uint64_t>(&w);
    ibv_mw_bind_info part{};
    if (region != nullptr)
        part = {region->handle, range.address, range.length, remote_access(range.privileges)};
    const ibv_mw_bind_info *const opened = region != nullptr ? &part : nullptr;
    key = 0;
    return post_slow(q, *q.send_cq, q.last_send, w, [&](ibv_qp *handle) {
        const int error = range.one_connection
                              ? bind_for_peer(q, handle, window, opened, id, carried)
                              : bind_for_zone(handle, window, opened, id, carried);
        if (error == 0 && region != nullptr)
            key = window.handle->rkey;
        return error;
    });
}

} // namespace dapl::verbs
