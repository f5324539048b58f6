// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "posts.hpp"

#include "registration_cache.hpp"
#include "report.hpp"

#include <cstring>
#include <utility>

namespace am {

namespace {

DAT_DTO_COOKIE cookie_of(work_request &w)
{
    DAT_DTO_COOKIE cookie{};
    cookie.as_ptr = &w;
    return cookie;
}

void complete(job_context &job, const DAT_DTO_COMPLETION_EVENT_DATA &data)
{
    work_request &w = *static_cast<work_request *>(data.user_cookie.as_ptr);
    peer &p = *w.owner;
    const bool good = data.status == DAT_DTO_SUCCESS;
    if (!good && data.status != DAT_DTO_ERR_FLUSHED)
        job.fail(p, data.status);
    if (good && w.kind == work_kind::read_copy)
        std::memcpy(w.copy_to, w.data, w.length);
    dapl_am_op *op = std::exchange(w.op, nullptr);
    if (registration *lent = std::exchange(w.lent, nullptr))
        lent->give();
    job.give(w);
    p.outstanding.fetch_sub(1, std::memory_order_release);
    // An operation of a lost connection never completes: the job is about to end.
    if (op != nullptr && good)
        op->pending.fetch_sub(1, std::memory_order_release);
}

bool take_completions(job_context &job, const dapl_am_op *awaited) OSD_REQUIRES(job.request_lock)
{
    constexpr int most = 32;
    bool any = false;
    DAT_EVENT event;
    for (int i = 0; i < most && (awaited == nullptr || !awaited->is_done()); ++i) {
        if (dat_evd_dequeue(job.request_evd, &event) != DAT_SUCCESS)
            break;
        any = true;
        complete(job, event.event_data.dto_completion_event_data);
    }
    return any;
}

void check_post(peer &p, DAT_RETURN code, const char *call)
{
    if (code == DAT_SUCCESS) [[likely]]
        return;
    if (DAT_GET_TYPE(code) != DAT_INVALID_STATE)
        report("%s to rank %d: %s", call, p.rank, dat_text(code));
    p.job->lose(p);
}

template <typename Post>
void post_request(peer &p, work_request &w, const char *call, Post post)
{
    w.owner = &p;
    p.outstanding.fetch_add(1, std::memory_order_relaxed);
    check_post(p, post(cookie_of(w)), call);
}

} // namespace

bool reap(job_context &job, const dapl_am_op *awaited)
{
    if (!job.request_lock.try_lock())
        return false;
    const bool any = take_completions(job, awaited);
    job.request_lock.unlock();
    return any;
}

void post_receive(peer &p, work_request &w)
{
    job_context &job = *p.job;
    w.kind = work_kind::receive;
    DAT_LMR_TRIPLET local = w.segment(buffer_size);
    if (job.receives == DAT_HANDLE_NULL)
        return check_post(
            p, dat_ep_post_recv(p.ep, 1, &local, cookie_of(w), DAT_COMPLETION_DEFAULT_FLAG),
            "dat_ep_post_recv");
    const osd::lock_guard guard(job.receives_lock);
    check_post(p, dat_srq_post_recv(job.receives, 1, &local, cookie_of(w)), "dat_srq_post_recv");
}

void post_send(peer &p, work_request &w)
{
    w.kind = work_kind::send;
    DAT_LMR_TRIPLET local = w.segment(w.length);
    post_request(p, w, "dat_ep_post_send", [&, ep = p.ep](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_send(ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

void post_write(peer &p, work_request &w, const DAT_LMR_TRIPLET &local,
                const DAT_RMR_TRIPLET &remote)
{
    w.kind = work_kind::transfer;
    DAT_LMR_TRIPLET from = local;
    DAT_RMR_TRIPLET to = remote;
    post_request(p, w, "dat_ep_post_rdma_write", [&, ep = p.ep](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_rdma_write(ep, 1, &from, cookie, &to, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

void post_read(peer &p, work_request &w, work_kind kind, const DAT_LMR_TRIPLET &local,
               const DAT_RMR_TRIPLET &remote)
{
    w.kind = kind;
    DAT_LMR_TRIPLET to = local;
    DAT_RMR_TRIPLET from = remote;
    post_request(p, w, "dat_ep_post_rdma_read", [&, ep = p.ep](DAT_DTO_COOKIE cookie) {
        return dat_ep_post_rdma_read(ep, 1, &to, cookie, &from, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

room_lock::room_lock(peer &p) : lock_(p.lock)
{
    idle_wait wait = p.job->make_wait();
    for (;;) {
        p.lock.lock();
        if (has_room(p))
            return;
        p.lock.unlock();
        wait.pause(reap(*p.job));
    }
}

} // namespace am
