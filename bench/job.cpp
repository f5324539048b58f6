// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "job.hpp"

#include "program/failure.hpp"

#include <cstdlib>

#ifdef BENCH_PMIX
#include <pmix.h>
#endif

namespace bench {

#ifdef BENCH_PMIX

namespace {

pmix_proc_t self;

pmix_proc_t process(pmix_rank_t rank)
{
    pmix_proc_t result = self;
    result.rank = rank;
    return result;
}

void must(const char *call, pmix_status_t status)
{
    if (status != PMIX_SUCCESS)
        throw program::failure(std::string(call) + ": " + PMIx_Error_string(status));
}

} // namespace

job::job()
{
    if (std::getenv("PMIX_RANK") == nullptr)
        throw program::failure("this process is not part of a job with PMIx\n"
                               "  start it by a launcher: mpirun -n 4, or srun --mpi=pmix -n 4");
    PMIX_PROC_CONSTRUCT(&self);
    must("PMIx_Init", PMIx_Init(&self, nullptr, 0));
    rank_ = int(self.rank);
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_value_t *found = nullptr;
    must("PMIx_Get of the size of the job", PMIx_Get(&all, PMIX_JOB_SIZE, nullptr, 0, &found));
    size_ = int(found->data.uint32);
    PMIX_VALUE_RELEASE(found);
}

job::~job()
{
    (void)PMIx_Finalize(nullptr, 0);
}

void job::tell(const std::string &key, const std::string &value)
{
    pmix_value_t said;
    PMIX_VALUE_CONSTRUCT(&said);
    said.type = PMIX_STRING;
    said.data.string = const_cast<char *>(value.c_str());
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key.c_str(), &said));
    must("PMIx_Commit", PMIx_Commit());
}

void job::meet()
{
    const pmix_proc_t all = process(PMIX_RANK_WILDCARD);
    pmix_info_t info;
    bool collect = true;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    must("PMIx_Fence", PMIx_Fence(&all, 1, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

std::string job::told_by(int rank, const std::string &key)
{
    const pmix_proc_t who = process(pmix_rank_t(rank));
    pmix_value_t *found = nullptr;
    must("PMIx_Get", PMIx_Get(&who, key.c_str(), nullptr, 0, &found));
    std::string value(found->type == PMIX_STRING ? found->data.string : "");
    PMIX_VALUE_RELEASE(found);
    return value;
}

#else

job::job()
{
    throw program::failure("this build has no PMIx, by which launchers start jobs\n"
                           "  install its library (Debian: libpmix-dev) and build again");
}
job::~job() = default;
void job::tell(const std::string &, const std::string &) {}
void job::meet() {}
std::string job::told_by(int, const std::string &)
{
    return {};
}

#endif

} // namespace bench
