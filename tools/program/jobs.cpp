// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/jobs.hpp"

namespace program {
namespace {

job *&first_job()
{
    static job *first = nullptr;
    return first;
}

} // namespace

job::job(const char *name_, function work_) : name(name_), work(work_), next(first_job())
{
    first_job() = this;
}

const job *find_job(const std::string &name)
{
    const job *found = first_job();
    while (found != nullptr && name != found->name)
        found = found->next;
    return found;
}

} // namespace program
