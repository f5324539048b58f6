// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of dapl_am.h about the job as a whole.
#include "current_job.hpp"
#include "dapl_am.h"
#include "job.hpp"
#include "pmix_launcher.hpp"
#include "report.hpp"

#include <cstddef>
#include <new>

namespace am {

namespace {

struct process {
    ending end;
    pmix_launcher starter{end};
    job own{end, starter};
};

job *make_job()
{
    alignas(process) static std::byte memory[sizeof(process)];
    return &(new (memory) process)->own;
}

} // namespace

job *const current_job = make_job();

} // namespace am

using am::current_job;

int dapl_am_init(const DAPL_AM_OPTIONS *options)
{
    static std::atomic<bool> called;
    if (called.exchange(true)) {
        am::report("dapl_am_init: called before");
        return DAPL_AM_ERR_STATE;
    }
    int status = current_job->open(options);
    if (status == DAPL_AM_OK)
        status = current_job->end_with_process();
    // Others may ask this rank to end, or to talk, as soon as it serves.
    return status == DAPL_AM_OK ? current_job->serve() : status;
}

int dapl_am_rank(void)
{
    return current_job->context().rank();
}

int dapl_am_size(void)
{
    return current_job->context().size();
}

const char *dapl_am_adapter(void)
{
    return current_job->context().adapter;
}

int dapl_am_attach(DAPL_AM_HANDLER *handlers, int count, size_t segment_size)
{
    return current_job->attach(handlers, count, segment_size);
}

int dapl_am_segment(int rank, void **address, size_t *size)
{
    am::job_context &context = current_job->context();
    if (context.stage != am::job_stage::attached)
        return DAPL_AM_ERR_STATE;
    if (!context.has_rank(rank))
        return DAPL_AM_ERR_RANK;
    if (address == nullptr || size == nullptr)
        return DAPL_AM_ERR_ARGUMENT;
    const am::segment &memory = context.peer_of_rank(rank).memory;
    *address = memory.size > 0 ? reinterpret_cast<void *>(memory.base) : nullptr;
    *size = memory.size;
    return DAPL_AM_OK;
}

void dapl_am_get_counters(DAPL_AM_COUNTERS *counters)
{
    if (counters != nullptr)
        current_job->fill(*counters);
}

void dapl_am_exit(int code)
{
    current_job->context().end.exit(code);
}

const char *dapl_am_strerror(int status)
{
    switch (status) {
    case DAPL_AM_OK:
        return "success";
    case DAPL_AM_NOT_READY:
        return "not ready";
    case DAPL_AM_BARRIER_MISMATCH:
        return "the ranks disagree about the barrier";
    case DAPL_AM_ERR_ARGUMENT:
        return "a value is out of its range";
    case DAPL_AM_ERR_RANK:
        return "no such rank";
    case DAPL_AM_ERR_RANGE:
        return "not inside the segment of the rank";
    case DAPL_AM_ERR_STATE:
        return "not possible in this state of the job";
    case DAPL_AM_ERR_CONTEXT:
        return "not allowed from this handler";
    case DAPL_AM_ERR_RESOURCES:
        return "out of resources";
    case DAPL_AM_ERR_ADAPTER:
        return "the adapter does not open";
    case DAPL_AM_ERR_LAUNCHER:
        return "the launcher's PMIx server failed";
    default:
        return "unknown status";
    }
}
