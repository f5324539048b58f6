// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of dapl_am.h about barriers.
#include "current_job.hpp"
#include "dapl_am.h"
#include "job.hpp"

using am::current_job;

namespace {

int check_call(unsigned flags)
{
    if (const int status = current_job->context().check_call(); status != DAPL_AM_OK)
        return status;
    return (flags & ~unsigned{DAPL_AM_ANONYMOUS | DAPL_AM_MISMATCH}) != 0 ? DAPL_AM_ERR_ARGUMENT
                                                                          : DAPL_AM_OK;
}

} // namespace

int dapl_am_barrier_notify(int id, unsigned flags)
{
    const int status = check_call(flags);
    return status == DAPL_AM_OK ? current_job->barriers().notify(id, flags) : status;
}

int dapl_am_barrier_try(int id, unsigned flags)
{
    if (const int status = check_call(flags); status != DAPL_AM_OK)
        return status;
    (void)current_job->progress().poll();
    return current_job->barriers().finish(id, flags);
}

int dapl_am_barrier_wait(int id, unsigned flags)
{
    if (const int status = check_call(flags); status != DAPL_AM_OK)
        return status;
    am::barrier &barriers = current_job->barriers();
    am::idle_wait wait = current_job->context().make_wait();
    int status = barriers.finish(id, flags);
    for (; status == DAPL_AM_NOT_READY; status = barriers.finish(id, flags))
        wait.pause(current_job->progress().poll());
    return status;
}

int dapl_am_barrier(int id, unsigned flags)
{
    const int status = dapl_am_barrier_notify(id, flags);
    return status == DAPL_AM_OK ? dapl_am_barrier_wait(id, flags) : status;
}
