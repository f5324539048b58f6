// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "job_context.hpp"

#include "report.hpp"

namespace am {

namespace {

thread_local int handlers_running = 0;

} // namespace

handler_scope::handler_scope()
{
    ++handlers_running;
}

handler_scope::~handler_scope()
{
    --handlers_running;
}

int job_context::check_call(int rank) const
{
    if (stage != job_stage::attached)
        return DAPL_AM_ERR_STATE;
    if (handlers_running > 0)
        return DAPL_AM_ERR_CONTEXT;
    return has_rank(rank) ? DAPL_AM_OK : DAPL_AM_ERR_RANK;
}

work_request &job_context::take(work_pool &pool)
{
    work_request *taken = pool.take();
    if (taken == nullptr)
        end.fail();
    return *taken;
}

void job_context::give(work_request &w)
{
    w.next = nullptr;
    (w.data != nullptr ? buffers : bare).give(&w);
}

void job_context::lose(peer &p)
{
    p.lost = true;
    int none = -1;
    if (lost_rank.compare_exchange_strong(none, p.rank))
        lost_at.store(now_us(), std::memory_order_release);
}

void job_context::fail(peer &p, DAT_DTO_COMPLETION_STATUS status)
{
    if (!p.lost && !end.begun())
        report("an operation on rank %d completed with status %d", p.rank,
               static_cast<int>(status));
    lose(p);
}

} // namespace am
