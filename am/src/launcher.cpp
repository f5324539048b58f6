// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "launcher.hpp"

#include "dapl_am.h"
#include "ending.hpp"
#include "job.hpp"
#include "report.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <unistd.h>

namespace am {

namespace {

pmix_proc_t own_process;

pmix_proc_t process(pmix_rank_t rank)
{
    pmix_proc_t result = own_process;
    result.rank = rank;
    return result;
}

/// An exit meanwhile leaves PMIx, and then its calls fail.
int pmix_failed(const char *call, pmix_status_t status)
{
    ending::stand_if_begun();
    report("%s: %s", call, PMIx_Error_string(status));
    return DAPL_AM_ERR_LAUNCHER;
}

/// A count the launcher knows about the job.
bool job_number(const char *key, int &value)
{
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_value_t *found = nullptr;
    if (PMIx_Get(&all, key, nullptr, 0, &found) != PMIX_SUCCESS)
        return false;
    value = int(found->data.uint32);
    PMIX_VALUE_RELEASE(found);
    return value > 0;
}

/// A job of one rank that was meant to be one of many: launchers of other kinds leave traces.
void tell_of_others()
{
    struct trace {
        const char *count;
        const char *also;
    };
    for (const trace &t :
         {trace{"PMI_SIZE", nullptr}, trace{"SLURM_NTASKS", "SLURM_STEP_ID"},
          trace{"FLUX_JOB_SIZE", nullptr}, trace{"OMPI_COMM_WORLD_SIZE", nullptr}}) {
        const char *text = secure_getenv(t.count);
        const long count = text ? std::strtol(text, nullptr, 10) : 0;
        if (count < 2 || (t.also && !secure_getenv(t.also)))
            continue;
        return report(
            "a launcher has started %ld processes (%s), but serves no PMIx: this is a job of "
            "one rank; srun needs --mpi=pmix",
            count, t.count);
    }
    for (const char *half : {"PMIX_RANK", "PMIX_NAMESPACE"})
        if (secure_getenv(half))
            report(
                "the environment has %s, but not all that a launcher with PMIx sets: this is a job "
                "of one rank",
                half);
}

/// The outcome of the last exchange.
std::atomic<pmix_status_t> exchanged{PMIX_SUCCESS};

} // namespace

int launcher::start()
{
    if (secure_getenv("PMIX_NAMESPACE") == nullptr || secure_getenv("PMIX_RANK") == nullptr) {
        tell_of_others();
        return DAPL_AM_OK;
    }
    PMIX_PROC_CONSTRUCT(&own_process);
    if (const pmix_status_t status = PMIx_Init(&own_process, nullptr, 0); status != PMIX_SUCCESS)
        return pmix_failed("PMIx_Init", status);
    present_ = true;
    rank_ = int(own_process.rank);
    if (!watch_server())
        return DAPL_AM_ERR_LAUNCHER;
    if (!job_number(PMIX_JOB_SIZE, size_)) {
        report("the launcher does not tell the size of the job (PMIX_JOB_SIZE)");
        return DAPL_AM_ERR_LAUNCHER;
    }
    if (!job_number(PMIX_LOCAL_SIZE, local_size_))
        local_size_ = size_;
    return DAPL_AM_OK;
}

/// PMIx's own thread calls what is registered here.
bool launcher::watch_server()
{
    static std::atomic<bool> *lost = nullptr;
    lost = &lost_;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    const pmix_status_t status = PMIx_Register_event_handler(
        &code, 1, nullptr, 0,
        [](std::size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, std::size_t,
           pmix_info_t *, std::size_t, pmix_event_notification_cbfunc_fn_t done, void *context) {
            if (!lost->exchange(true)) {
                report("the launcher has ended, or has closed its connection to this rank");
                ending::launcher_lost();
            }
            if (done)
                done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
        },
        nullptr, nullptr);
    return status >= 0 || pmix_failed("PMIx_Register_event_handler", status) == DAPL_AM_OK;
}

/// Waits for ever if the job ends.
void launcher::enter()
{
    for (turn now = turn::free; !turn_.compare_exchange_strong(now, turn::set_up); now = turn::free)
        ending::stand_if_begun();
}

void launcher::exit()
{
    turn now = turn::set_up;
    (void)turn_.compare_exchange_strong(now, turn::free);
}

/// A thread that stands in a signal handler may never give its turn back.
void launcher::take_over()
{
    turn now = turn::free;
    for (int i = 0; i < 2000 && !turn_.compare_exchange_strong(now, turn::ending); ++i) {
        now = turn::free;
        usleep(1000);
    }
    turn_ = turn::ending;
}

int launcher::publish(const char *key, const void *data, std::size_t size)
{
    if (!present_)
        return DAPL_AM_OK;
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = static_cast<char *>(const_cast<void *>(data));
    value.data.bo.size = size;
    enter();
    const pmix_status_t put = PMIx_Put(PMIX_GLOBAL, key, &value);
    const pmix_status_t committed = put == PMIX_SUCCESS ? PMIx_Commit() : PMIX_SUCCESS;
    exit();
    if (put != PMIX_SUCCESS)
        return pmix_failed("PMIx_Put", put);
    return committed == PMIX_SUCCESS ? DAPL_AM_OK : pmix_failed("PMIx_Commit", committed);
}

bool launcher::begin_exchange()
{
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_info_t info;
    bool collect = true;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    exchanged = PMIX_OPERATION_IN_PROGRESS;
    ++exchanges_;
    pmix_status_t status = PMIx_Fence_nb(
        &all, 1, &info, 1, [](pmix_status_t done, void *) { exchanged = done; }, nullptr);
    if (status == PMIX_OPERATION_SUCCEEDED)
        exchanged = status = PMIX_SUCCESS;
    return status == PMIX_SUCCESS;
}

/// A rank that has come has published something, which the server may know before the exchange is
/// over: at least that of ranks on this host.
void launcher::name_missing(const char *key, unsigned milliseconds)
{
    constexpr int most = 8;
    pmix_info_t at_once;
    bool yes = true;
    PMIX_INFO_CONSTRUCT(&at_once);
    PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    int missing = 0;
    enter();
    for (int rank = 0; rank < size_ && !lost_; ++rank) {
        const pmix_proc_t who = process(pmix_rank_t(rank));
        pmix_value_t *found = nullptr;
        if (rank == rank_)
            continue;
        if (PMIx_Get(&who, key, &at_once, 1, &found) == PMIX_SUCCESS)
            PMIX_VALUE_RELEASE(found);
        else if (++missing <= most)
            report("rank %d has not joined within %u ms", rank, milliseconds);
    }
    exit();
    if (missing > most)
        report("%d more ranks have not joined within %u ms", missing - most, milliseconds);
    else if (missing == 0)
        report("the ranks have not all come together within %u ms", milliseconds);
}

/// The thread that waits stays out of PMIx, which an exit meanwhile has to leave.
int launcher::exchange(const char *key, unsigned milliseconds, void (*idle)())
{
    if (!present_)
        return DAPL_AM_OK;
    enter();
    const bool good = begin_exchange();
    exit();
    if (!good)
        return pmix_failed("PMIx_Fence_nb", PMIX_ERROR);
    const std::int64_t until = now() + std::int64_t{milliseconds} * 1000;
    while (exchanged == PMIX_OPERATION_IN_PROGRESS && !lost_ && now() < until)
        idle();
    if (lost_)
        return DAPL_AM_ERR_LAUNCHER;
    if (exchanged == PMIX_OPERATION_IN_PROGRESS) {
        name_missing(key, milliseconds);
        return DAPL_AM_ERR_LAUNCHER;
    }
    return exchanged == PMIX_SUCCESS ? DAPL_AM_OK : pmix_failed("PMIx_Fence_nb", exchanged);
}

int launcher::lookup(int rank, const char *key, void *data, std::size_t size)
{
    const pmix_proc_t who = process(pmix_rank_t(rank));
    pmix_value_t *found = nullptr;
    enter();
    const pmix_status_t status = PMIx_Get(&who, key, nullptr, 0, &found);
    exit();
    if (status != PMIX_SUCCESS)
        return pmix_failed("PMIx_Get", status);
    const bool good = found->type == PMIX_BYTE_OBJECT && found->data.bo.size == size;
    if (good)
        std::memcpy(data, found->data.bo.bytes, size);
    else
        report("%s of rank %d is not as expected: another version of libdapl-am there?", key, rank);
    PMIX_VALUE_RELEASE(found);
    return good ? DAPL_AM_OK : DAPL_AM_ERR_LAUNCHER;
}

/// A job that ends during its set-up completes the exchanges that some ranks have begun: launchers
/// may hang otherwise.
void launcher::leave()
{
    if (!present_ || lost_)
        return;
    take_over();
    if (size_ > 1 && exchanges_ < set_up_exchanges)
        (void)begin_exchange();
    for (int i = 0; i < 2000 && exchanged == PMIX_OPERATION_IN_PROGRESS && !lost_; ++i)
        usleep(1000);
    // PMIx counts its users: another library here may not get to leave any more.
    while (!lost_ && PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS && PMIx_Initialized() != 0) {
    }
}

void launcher::abort(int code, const char *message)
{
    if (present_ && !lost_)
        (void)PMIx_Abort(code, message, nullptr, 0);
}

} // namespace am
