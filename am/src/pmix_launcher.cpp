// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pmix_launcher.hpp"

#include "dapl_am.h"
#include "ending.hpp"
#include "idle_wait.hpp"
#include "report.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace am {

namespace {

constexpr unsigned poll_interval_us = 200;

/// Reports launchers without PMIx, which leave traces in the environment: their job would be one of
/// many ranks, and is many jobs of one.
void report_other_launchers()
{
    struct trace {
        const char *count;
        const char *also;
    };
    static constexpr trace traces[] = {{"PMI_SIZE", nullptr},
                                       {"SLURM_NTASKS", "SLURM_STEP_ID"},
                                       {"FLUX_JOB_SIZE", nullptr},
                                       {"OMPI_COMM_WORLD_SIZE", nullptr}};
    static constexpr const char *halves[] = {"PMIX_RANK", "PMIX_NAMESPACE"};
    for (const trace &t : traces) {
        const char *text = secure_getenv(t.count);
        const long count = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
        if (count < 2 || (t.also != nullptr && secure_getenv(t.also) == nullptr))
            continue;
        return report(
            "a launcher has started %ld processes (%s), but serves no PMIx: this is a job of "
            "one rank; srun needs --mpi=pmix",
            count, t.count);
    }
    for (const char *half : halves)
        if (secure_getenv(half) != nullptr)
            report(
                "the environment has %s, but not all that a launcher with PMIx sets: this is a job "
                "of one rank",
                half);
}

} // namespace

int pmix_launcher::start()
{
    if (secure_getenv("PMIX_NAMESPACE") == nullptr || secure_getenv("PMIX_RANK") == nullptr) {
        report_other_launchers();
        return DAPL_AM_OK;
    }
    PMIX_PROC_CONSTRUCT(&own_);
    if (const pmix_status_t status = PMIx_Init(&own_, nullptr, 0); status != PMIX_SUCCESS)
        return report_failure("PMIx_Init", status);
    present_ = true;
    rank_ = static_cast<int>(own_.rank);
    report_as(rank_);
    if (!watch_server())
        return DAPL_AM_ERR_LAUNCHER;
    if (!read_number(PMIX_JOB_SIZE, size_)) {
        report("the launcher does not tell the size of the job (PMIX_JOB_SIZE)");
        return DAPL_AM_ERR_LAUNCHER;
    }
    if (!read_number(PMIX_LOCAL_SIZE, local_size_))
        local_size_ = size_;
    return DAPL_AM_OK;
}

pmix_proc_t pmix_launcher::process(pmix_rank_t rank) const
{
    pmix_proc_t result = own_;
    result.rank = rank;
    return result;
}

/// Stands still if the job ends: an exit has left PMIx then, so its calls fail. They also fail
/// shortly before the end, when a rank has died or a connection is lost: the launcher ends the job
/// with the exit code of that rank if no other one comes first.
int pmix_launcher::report_failure(const char *call, pmix_status_t status) const
{
    constexpr int longest = 2000; // milliseconds
    const bool ends = status == PMIX_ERR_LOST_CONNECTION || status == PMIX_ERR_PARTIAL_SUCCESS;
    for (int i = 0; i < longest && ends && !end_.begun(); ++i)
        usleep(1000);
    end_.stand_if_begun();
    report("%s: %s", call, PMIx_Error_string(status));
    return DAPL_AM_ERR_LAUNCHER;
}

/// Reads a count that the launcher knows of the job.
bool pmix_launcher::read_number(const char *key, int &value) const
{
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_value_t *found = nullptr;
    if (PMIx_Get(&all, key, nullptr, 0, &found) != PMIX_SUCCESS)
        return false;
    value = static_cast<int>(found->data.uint32);
    PMIX_VALUE_RELEASE(found);
    return value > 0;
}

/// Registers what PMIx's own thread calls when its server, mpirun or slurmstepd, has gone. A
/// process has one server, so one launcher is enough.
bool pmix_launcher::watch_server()
{
    static pmix_launcher *watching = nullptr;
    watching = this;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    const pmix_status_t status = PMIx_Register_event_handler(
        &code, 1, nullptr, 0,
        [](std::size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, std::size_t,
           pmix_info_t *, std::size_t, pmix_event_notification_cbfunc_fn_t done, void *context) {
            if (!watching->lost_.exchange(true)) {
                report("the launcher has ended, or has closed its connection to this rank");
                watching->end_.begin_without_launcher();
            }
            if (done != nullptr)
                done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
        },
        nullptr, nullptr);
    return status >= 0 || report_failure("PMIx_Register_event_handler", status) == DAPL_AM_OK;
}

/// Waits for ever if the job ends.
void pmix_launcher::take_turn()
{
    for (turn now = turn::free; !turn_.compare_exchange_strong(now, turn::set_up); now = turn::free)
        end_.stand_if_begun();
}

void pmix_launcher::end_turn()
{
    turn now = turn::set_up;
    (void)turn_.compare_exchange_strong(now, turn::free);
}

/// Takes the turn after some time in any case: a thread that stands in a signal handler may never
/// give it back.
void pmix_launcher::take_last_turn()
{
    turn now = turn::free;
    for (int i = 0; i < 2000 && !turn_.compare_exchange_strong(now, turn::ending); ++i) {
        now = turn::free;
        usleep(1000);
    }
    turn_ = turn::ending;
}

int pmix_launcher::publish(const char *key, const void *data, std::size_t size)
{
    if (!present_)
        return DAPL_AM_OK;
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = static_cast<char *>(const_cast<void *>(data));
    value.data.bo.size = size;
    take_turn();
    const pmix_status_t put = PMIx_Put(PMIX_GLOBAL, key, &value);
    const pmix_status_t committed = put == PMIX_SUCCESS ? PMIx_Commit() : PMIX_SUCCESS;
    end_turn();
    if (put != PMIX_SUCCESS)
        return report_failure("PMIx_Put", put);
    return committed == PMIX_SUCCESS ? DAPL_AM_OK : report_failure("PMIx_Commit", committed);
}

bool pmix_launcher::begin_exchange()
{
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_info_t info;
    bool collect = true;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    exchanged_ = PMIX_OPERATION_IN_PROGRESS;
    ++exchanges_;
    pmix_status_t status = PMIx_Fence_nb(
        &all, 1, &info, 1,
        [](pmix_status_t outcome, void *self) {
            static_cast<pmix_launcher *>(self)->exchanged_ = outcome;
        },
        this);
    if (status == PMIX_OPERATION_SUCCEEDED)
        exchanged_ = status = PMIX_SUCCESS;
    return status == PMIX_SUCCESS;
}

/// Reports the ranks that have published nothing. The server may know published values
/// before the exchange is over, at least for ranks on this host.
void pmix_launcher::report_missing(const char *key, unsigned milliseconds)
{
    constexpr int most = 8;
    pmix_info_t at_once;
    bool yes = true;
    PMIX_INFO_CONSTRUCT(&at_once);
    PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    int missing = 0;
    take_turn();
    for (int rank = 0; rank < size_ && !lost_; ++rank) {
        const pmix_proc_t other = process(static_cast<pmix_rank_t>(rank));
        pmix_value_t *found = nullptr;
        if (rank == rank_)
            continue;
        if (PMIx_Get(&other, key, &at_once, 1, &found) == PMIX_SUCCESS)
            PMIX_VALUE_RELEASE(found);
        else if (++missing <= most)
            report("rank %d has not joined within %u ms", rank, milliseconds);
    }
    end_turn();
    if (missing > most)
        report("%d more ranks have not joined within %u ms", missing - most, milliseconds);
    else if (missing == 0)
        report("the ranks have not all come together within %u ms", milliseconds);
}

/// The waiting thread stays out of PMIx, which an exit meanwhile has to leave.
int pmix_launcher::exchange(const char *key, unsigned milliseconds)
{
    if (!present_)
        return DAPL_AM_OK;
    take_turn();
    const bool good = begin_exchange();
    end_turn();
    if (!good)
        return report_failure("PMIx_Fence_nb", PMIX_ERROR);
    const std::int64_t until = now_us() + std::int64_t{milliseconds} * 1000;
    while (exchanged_ == PMIX_OPERATION_IN_PROGRESS && !lost_ && now_us() < until) {
        end_.stand_if_begun();
        usleep(poll_interval_us);
    }
    if (lost_)
        return DAPL_AM_ERR_LAUNCHER;
    if (exchanged_ == PMIX_OPERATION_IN_PROGRESS) {
        report_missing(key, milliseconds);
        return DAPL_AM_ERR_LAUNCHER;
    }
    return exchanged_ == PMIX_SUCCESS ? DAPL_AM_OK : report_failure("PMIx_Fence_nb", exchanged_);
}

/// Waits while a rank has published nothing: it has left during the set-up, so the end of the job
/// is on its way. PMIx waits itself until version 7.
pmix_status_t pmix_launcher::get(int rank, const char *key, unsigned milliseconds,
                                 pmix_value_t *&found)
{
    const pmix_proc_t other = process(static_cast<pmix_rank_t>(rank));
    const std::int64_t until = now_us() + std::int64_t{milliseconds} * 1000;
    for (;;) {
        take_turn();
        const pmix_status_t status = PMIx_Get(&other, key, nullptr, 0, &found);
        end_turn();
        if (status != PMIX_ERR_NOT_FOUND || lost_ || now_us() >= until)
            return status;
        end_.stand_if_begun();
        usleep(poll_interval_us);
    }
}

int pmix_launcher::lookup(int rank, const char *key, void *data, std::size_t size,
                          unsigned milliseconds)
{
    pmix_value_t *found = nullptr;
    const pmix_status_t status = get(rank, key, milliseconds, found);
    if (status != PMIX_SUCCESS)
        return report_failure("PMIx_Get", status);
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
void pmix_launcher::leave()
{
    if (!present_ || lost_)
        return;
    take_last_turn();
    if (size_ > 1 && exchanges_ < set_up_exchanges)
        (void)begin_exchange();
    for (int i = 0; i < 2000 && exchanged_ == PMIX_OPERATION_IN_PROGRESS && !lost_; ++i)
        usleep(1000);
    // PMIx counts its users: another library here may not get to leave any more.
    while (!lost_ && PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS && PMIx_Initialized() != 0) {
    }
}

void pmix_launcher::abort(int code, const char *message)
{
    if (present_ && !lost_)
        (void)PMIx_Abort(code, message, nullptr, 0);
}

} // namespace am
