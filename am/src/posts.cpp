// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posts.hpp"

#include "ending.hpp"
#include "links.hpp"
#include "registrations.hpp"
#include "report.hpp"
#include "transfers.hpp"

#include <cstring>

namespace am {

namespace {

DAT_DTO_COOKIE cookie_of(work &w)
{
    DAT_DTO_COOKIE cookie{};
    cookie.as_ptr = &w;
    return cookie;
}

void free_work(work &w)
{
    w.next = nullptr;
    (w.data ? the_job.buffers : the_job.bare).give(&w);
}

void complete(work &w, const DAT_DTO_COMPLETION_EVENT_DATA &data)
{
    peer &p = *w.owner;
    const bool good = data.status == DAT_DTO_SUCCESS;
    if (!good && data.status != DAT_DTO_ERR_FLUSHED)
        links::failed(p, data.status);
    if (good && w.kind == work_kind::read_copy)
        std::memcpy(w.copy_to, w.data, w.length);
    dapl_am_op *op = w.op;
    w.op = nullptr;
    if (w.lent)
        registrations::give(*w.lent);
    w.lent = nullptr;
    free_work(w);
    p.outstanding.fetch_sub(1, std::memory_order_release);
    // An operation of a lost connection never completes: the job is about to end.
    if (op && good)
        op->pending.fetch_sub(1, std::memory_order_release);
}

void check_post(peer &p, DAT_RETURN code, const char *call)
{
    if (code == DAT_SUCCESS) [[likely]]
        return;
    if (DAT_GET_TYPE(code) != DAT_INVALID_STATE)
        report("%s to rank %d: %s", call, p.rank, dat_text(code));
    links::lose(p);
}

template <typename Post>
void post_request(peer &p, work &w, const char *call, Post post)
{
    w.owner = &p;
    p.outstanding.fetch_add(1, std::memory_order_relaxed);
    check_post(p, post(cookie_of(w)), call);
}

} // namespace

bool reap(const dapl_am_op *awaited)
{
    bool any = false;
    held guard(the_job.request_lock, std::try_to_lock);
    if (!guard.owns_lock())
        return false;
    DAT_EVENT event;
    for (int i = 0; i < 32 && !(awaited && is_done(*awaited)); ++i) {
        if (dat_evd_dequeue(the_job.request_evd, &event) != DAT_SUCCESS)
            break;
        any = true;
        const auto &data = event.event_data.dto_completion_event_data;
        complete(*static_cast<work *>(data.user_cookie.as_ptr), data);
    }
    return any;
}

void post_receive(peer &p, work &w)
{
    w.kind = work_kind::receive;
    DAT_LMR_TRIPLET local{reinterpret_cast<DAT_VADDR>(w.data), DAT_SEG_LENGTH(buffer_size),
                          w.context};
    if (the_job.receives == DAT_HANDLE_NULL)
        return check_post(
            p, dat_ep_post_recv(p.ep, 1, &local, cookie_of(w), DAT_COMPLETION_DEFAULT_FLAG),
            "dat_ep_post_recv");
    const std::lock_guard guard(the_job.receives_lock);
    check_post(p, dat_srq_post_recv(the_job.receives, 1, &local, cookie_of(w)),
               "dat_srq_post_recv");
}

bool has_room(const peer &p)
{
    return p.outstanding.load(std::memory_order_acquire) < job::depth;
}

void post_send(peer &p, work &w)
{
    w.kind = work_kind::send;
    DAT_LMR_TRIPLET local{reinterpret_cast<DAT_VADDR>(w.data), w.length, w.context};
    post_request(p, w, "dat_ep_post_send", [&](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_send(p.ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

void post_write(peer &p, work &w, const DAT_LMR_TRIPLET &local, const DAT_RMR_TRIPLET &remote)
{
    w.kind = work_kind::transfer;
    DAT_LMR_TRIPLET from = local;
    DAT_RMR_TRIPLET to = remote;
    post_request(p, w, "dat_ep_post_rdma_write", [&](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_rdma_write(p.ep, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

void post_read(peer &p, work &w, const DAT_LMR_TRIPLET &local, const DAT_RMR_TRIPLET &remote)
{
    DAT_LMR_TRIPLET to = local;
    DAT_RMR_TRIPLET from = remote;
    post_request(p, w, "dat_ep_post_rdma_read", [&](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_rdma_read(p.ep, 1, &to, cookie, &from, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

held lock_with_room(peer &p)
{
    idle_wait wait;
    for (;;) {
        held guard(p.lock);
        if (has_room(p))
            return guard;
        guard.unlock();
        wait.pause(reap());
    }
}

work &take_buffer()
{
    work *taken = the_job.buffers.take();
    if (!taken)
        ending::fail();
    return *taken;
}

work &take_bare()
{
    work *taken = the_job.bare.take();
    if (!taken)
        ending::fail();
    return *taken;
}

} // namespace am
