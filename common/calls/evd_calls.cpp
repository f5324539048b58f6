// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_evd_* calls: their arguments are checked here, their work is done in core/evd.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/cr.hpp"
#include "core/evd.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

constexpr unsigned known_streams = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG |
                                   DAT_EVD_CONNECTION_FLAG | DAT_EVD_RMR_BIND_FLAG |
                                   DAT_EVD_ASYNC_FLAG;

/// Streams that may share an EVD: what stream_merging in adapter_calls.cpp promises. Completions of
/// extended operations come with the others, asked for or not.
bool mergeable(unsigned streams)
{
    if constexpr (claims.immediate_data || claims.atomics)
        streams &= ~unsigned{DAT_IB_EVD_EXTENSION_FLAG};
    if (streams == 0 || has_unknown_bits(streams, known_streams))
        return false;
    return (streams & DAT_EVD_ASYNC_FLAG) == 0 || streams == DAT_EVD_ASYNC_FLAG;
}

/// A request whose event is dropped with its EVD can no longer be answered, nor can an endpoint be
/// freed that waits for the answer.
void refuse_unseen_requests(evd &victim)
{
    if (!victim.takes(DAT_EVD_CR_FLAG))
        return;
    for (DAT_EVENT event; victim.dequeue(event) == DAT_SUCCESS;) {
        if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
            continue;
        cr *request = from_handle<cr>(event.event_data.cr_arrival_event_data.cr_handle);
        if (request != nullptr && request->condemn()) {
            request->refuse();
            victim.ia->destroy(*request);
        }
    }
}

/// Null stays null; anything else has to be a CNO of this adapter.
bool find_cno(const adapter &ia, DAT_CNO_HANDLE handle, cno *&out)
{
    out = from_handle<cno>(handle);
    return handle == DAT_HANDLE_NULL || (out != nullptr && out->ia == &ia);
}

} // namespace

status dapl_evd_create(adapter &ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle,
                       DAT_EVD_FLAGS streams, DAT_EVD_HANDLE *out)
{
    cno *target = nullptr;
    if (!find_cno(ia, cno_handle, target))
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (qlen <= 0)
        return invalid_parameter(2);
    if (!mergeable(streams))
        return invalid_parameter(4);
    if (out == nullptr)
        return invalid_parameter(5);
    if (ia.has_most<evd>(ia.attr.max_cqs))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
    evd *made = nullptr;
    const status answer = make_evd(ia, qlen, streams, made);
    if (!answer.ok())
        return answer;
    made->set_cno(target);
    *out = to_handle(made);
    return success;
}

void dapl_evd_query(evd &e, DAT_EVD_PARAM &out)
{
    out = {};
    out.ia_handle = e.ia->consumer_handle();
    out.evd_qlen = e.qlen();
    out.evd_state = e.state();
    out.cno_handle =
        e.notifier.target() == nullptr ? DAT_HANDLE_NULL : to_handle(e.notifier.target());
    out.evd_flags = e.streams();
}

status dapl_evd_modify_cno(evd &e, DAT_CNO_HANDLE cno_handle)
{
    cno *target = nullptr;
    if (!find_cno(*e.ia, cno_handle, target))
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    e.set_cno(target);
    return success;
}

status dapl_evd_enable(evd &e)
{
    e.set_enabled(true);
    return success;
}

status dapl_evd_disable(evd &e)
{
    e.set_enabled(false);
    return success;
}

status dapl_evd_set_unwaitable(evd &e)
{
    e.set_waitable(false);
    return success;
}

status dapl_evd_clear_unwaitable(evd &e)
{
    e.set_waitable(true);
    return success;
}

status dapl_evd_post_se(evd &target, const DAT_EVENT *event)
{
    if (!target.takes(DAT_EVD_SOFTWARE_FLAG))
        return invalid_parameter(1);
    if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
        return invalid_parameter(2);
    DAT_EVENT stored = *event;
    stored.evd_handle = to_handle(&target);
    return target.post(stored) ? success : status::error(DAT_QUEUE_FULL);
}

status dapl_evd_resize(evd &e, DAT_COUNT qlen)
{
    const bool fits = qlen > 0 && qlen <= e.ia->attr.max_cq_depth;
    return fits ? e.resize(qlen) : invalid_parameter(2);
}

status dapl_evd_free(evd &victim)
{
    if (in_use(victim) || victim.has_waiter())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE);
    if (!victim.condemn())
        return status::error(DAT_INVALID_HANDLE);
    refuse_unseen_requests(victim);
    victim.release();
    victim.ia->destroy(victim);
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::core
