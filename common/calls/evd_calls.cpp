// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The dat_evd_* calls: their arguments are checked here, their work is done in core/evd.cpp.
#include "checks.hpp"
#include "core/adapter.hpp"
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

status create_evd(adapter *ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS streams,
                  DAT_EVD_HANDLE *out)
{
    cno *target = from_handle<cno>(cno_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (cno_handle != DAT_HANDLE_NULL && (target == nullptr || target->ia != ia))
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (qlen <= 0)
        return invalid_parameter(2);
    if (!mergeable(streams))
        return invalid_parameter(4);
    if (out == nullptr)
        return invalid_parameter(5);
    evd *made = nullptr;
    const status answer = make_evd(*ia, qlen, streams, made);
    if (!answer.ok())
        return answer;
    made->set_cno(target);
    *out = to_handle(made);
    return success;
}

status free_evd(evd &victim)
{
    if (in_use(victim) || victim.has_waiter())
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE);
    if (!victim.condemn())
        return status::error(DAT_INVALID_HANDLE);
    victim.release();
    victim.ia->destroy(victim);
    return success;
}

status post_software_event(evd &target, const DAT_EVENT *event)
{
    if (!target.takes(DAT_EVD_SOFTWARE_FLAG))
        return invalid_parameter(1);
    if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
        return invalid_parameter(2);
    DAT_EVENT stored = *event;
    stored.evd_handle = to_handle(&target);
    return target.post(stored) ? success : status::error(DAT_QUEUE_FULL);
}

} // namespace

DAT_RETURN dapl_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
                           DAT_EVD_FLAGS streams, DAT_EVD_HANDLE *out)
{
    return create_evd(from_handle<adapter>(ia), qlen, cno, streams, out).code();
}

DAT_RETURN dapl_evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK mask, DAT_EVD_PARAM *param)
{
    evd *e = from_handle<evd>(handle);
    const status checked = check_query(e, DAT_NO_SUBTYPE, mask, DAT_EVD_FIELD_ALL, param);
    if (!checked.ok())
        return checked.code();
    *param = {};
    param->ia_handle = e->ia->consumer_handle();
    param->evd_qlen = e->qlen();
    param->evd_state = e->state();
    param->cno_handle =
        e->notifier.target() == nullptr ? DAT_HANDLE_NULL : to_handle(e->notifier.target());
    param->evd_flags = e->streams();
    return DAT_SUCCESS;
}

DAT_RETURN dapl_evd_modify_cno(DAT_EVD_HANDLE handle, DAT_CNO_HANDLE cno_handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE, [cno_handle](evd &e) {
        cno *target = from_handle<cno>(cno_handle);
        if (cno_handle != DAT_HANDLE_NULL && (target == nullptr || target->ia != e.ia))
            return invalid_handle(DAT_INVALID_HANDLE_CNO);
        e.set_cno(target);
        return success;
    });
}

DAT_RETURN dapl_evd_enable(DAT_EVD_HANDLE handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE,
                          [](evd &e) { return e.set_enabled(true), success; });
}

DAT_RETURN dapl_evd_disable(DAT_EVD_HANDLE handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE,
                          [](evd &e) { return e.set_enabled(false), success; });
}

DAT_RETURN dapl_evd_set_unwaitable(DAT_EVD_HANDLE handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE,
                          [](evd &e) { return e.set_waitable(false), success; });
}

DAT_RETURN dapl_evd_clear_unwaitable(DAT_EVD_HANDLE handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE,
                          [](evd &e) { return e.set_waitable(true), success; });
}

DAT_RETURN dapl_evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                         DAT_EVENT *event, DAT_COUNT *nmore)
{
    evd *e = from_handle<evd>(handle);
    if (e == nullptr)
        return status::error(DAT_INVALID_HANDLE).code();
    if (event == nullptr)
        return invalid_parameter(4).code();
    if (nmore == nullptr)
        return invalid_parameter(5).code();
    return e->wait(timeout, threshold, *event, *nmore).code();
}

template <class Safety>
DAT_RETURN dapl_evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
    evd *e = from_dispatched<evd>(handle);
    if (e == nullptr) [[unlikely]]
        return status::error(DAT_INVALID_HANDLE).code();
    if (event == nullptr) [[unlikely]]
        return invalid_parameter(2).code();
    return e->dequeue<Safety>(*event);
}
template DAT_RETURN dapl_evd_dequeue<one_thread_per_object>(DAT_EVD_HANDLE, DAT_EVENT *);
template DAT_RETURN dapl_evd_dequeue<any_thread>(DAT_EVD_HANDLE, DAT_EVENT *);

DAT_RETURN dapl_evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT *event)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE,
                          [event](evd &e) { return post_software_event(e, event); });
}

DAT_RETURN dapl_evd_resize(DAT_EVD_HANDLE handle, DAT_COUNT qlen)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE, [qlen](evd &e) {
        const bool fits = qlen > 0 && qlen <= e.ia->attr.max_cq_depth;
        return fits ? e.resize(qlen) : invalid_parameter(2);
    });
}

DAT_RETURN dapl_evd_free(DAT_EVD_HANDLE handle)
{
    return on_object<evd>(handle, DAT_NO_SUBTYPE, free_evd);
}

} // namespace dapl::DAPL_TRANSPORT::core
