// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "progress_engine.hpp"

#include "barrier.hpp"
#include "dapl_am.h"
#include "links.hpp"
#include "messenger.hpp"
#include "posts.hpp"
#include "remote_memory.hpp"
#include "service_thread.hpp"

namespace am {

bool progress_engine::poll()
{
    job_.end.stand_if_begun();
    // Completions of sends are not urgent, and an adapter may make a system call to look.
    constexpr unsigned seldom = 4;
    static thread_local unsigned turn = 0;
    bool any = messages_.poll();
    if (!any && turn++ % seldom == 0)
        any = reap(job_);
    barrier_.progress();
    if (any)
        work_.fetch_add(1, std::memory_order_relaxed);
    return any;
}

bool progress_engine::poll_all()
{
    const bool reaped = reap(job_);
    return (job_.may_poll() && poll()) || reaped;
}

/// Waits in a CNO and not in the EVD, which could not be resized meanwhile. The spare buffers stay
/// with the thread.
void *progress_engine::run_receive_thread(void *self)
{
    progress_engine &own = *static_cast<progress_engine *>(self);
    constexpr DAT_TIMEOUT slice = 100'000;
    spare_buffers spare(own.job_);
    for (;;) {
        DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
        (void)dat_cno_wait(own.job_.receive_cno, slice, &which);
        own.job_.end.stand_if_begun();
        own.messages_.take_all(spare);
        (void)reap(own.job_);
        own.barrier_.progress();
    }
    return nullptr;
}

int progress_engine::start_receive_thread()
{
    return start_service_thread(run_receive_thread, this) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

/// A thread that never has to wait looks for messages as well, so that handlers run although a
/// program only puts; but seldom, since that may take as long as a put.
void progress_engine::await(dapl_am_op &op)
{
    constexpr unsigned seldom = 32;
    static thread_local unsigned unheard = 0;
    memory_.confirm(op);
    const bool polls = job_.may_poll();
    idle_wait wait = job_.make_wait();
    for (unsigned turn = 1; !op.is_done(); ++turn) {
        bool any = reap(job_, &op);
        unheard += any ? 1 : 0;
        if (polls && (unheard >= seldom || (!any && turn % 4 == 0))) {
            unheard = 0;
            any |= poll();
        }
        wait.pause(any);
    }
}

void progress_engine::await_connection(peer &p)
{
    for (idle_wait wait = job_.make_wait(); !links_.ensure(p);)
        wait.pause(poll());
}

bool progress_engine::try_request_twice(peer &p, const message &m)
{
    if (messages_.try_request(p, m))
        return true;
    (void)poll();
    if (messages_.try_request(p, m))
        return true;
    credit_waits_.fetch_add(1, std::memory_order_relaxed);
    return false;
}

void progress_engine::send_request(peer &p, const message &m)
{
    await_connection(p);
    if (try_request_twice(p, m))
        return;
    for (idle_wait wait = job_.make_wait(); !messages_.try_request(p, m);)
        wait.pause(poll());
}

int progress_engine::try_request(peer &p, const message &m)
{
    return links_.ensure(p) && try_request_twice(p, m) ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

} // namespace am
