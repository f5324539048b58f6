// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Event dispatchers.
#include "calls.hpp"
#include "event.hpp"
#include "qlen.hpp"

using dat12::object;

DAT_RETURN dat12_evd_create(DAT_IA_HANDLE handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
                            v1::DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    return dat12::create<DAT_HANDLE_TYPE_EVD>(*ia, evd, 5, [&](DAT_HANDLE *made, object &) {
        return dat12::call<&DAT_PROVIDER::evd_create_func>(*ia, dat12::least_qlen(qlen),
                                                           dat12::two_of<DAT_HANDLE_TYPE_CNO>(cno),
                                                           static_cast<DAT_EVD_FLAGS>(flags), made);
    });
}

DAT_RETURN dat12_evd_query(DAT_EVD_HANDLE handle, DAT_EVD_PARAM_MASK mask, v1::DAT_EVD_PARAM *param)
{
    return dat12::query<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_query_func, DAT_EVD_PARAM>(
        handle, mask, DAT_EVD_FIELD_ALL, mask, param,
        [](const object &evd, const DAT_EVD_PARAM &two, v1::DAT_EVD_PARAM &one) {
            one.ia_handle = dat12::handle_of(evd.ia);
            one.evd_qlen = two.evd_qlen;
            one.evd_state = two.evd_state;
            one.cno_handle = dat12::one_of(two.cno_handle);
            one.evd_flags = static_cast<v1::DAT_EVD_FLAGS>(two.evd_flags);
        });
}

DAT_RETURN dat12_evd_modify_cno(DAT_EVD_HANDLE evd, DAT_CNO_HANDLE cno)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_modify_cno_func>(
        evd, dat12::two_of<DAT_HANDLE_TYPE_CNO>(cno));
}

DAT_RETURN dat12_evd_enable(DAT_EVD_HANDLE evd)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_enable_func>(evd);
}

DAT_RETURN dat12_evd_disable(DAT_EVD_HANDLE evd)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_disable_func>(evd);
}

DAT_RETURN dat12_evd_set_unwaitable(DAT_EVD_HANDLE evd)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_set_unwaitable_func>(evd);
}

DAT_RETURN dat12_evd_clear_unwaitable(DAT_EVD_HANDLE evd)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_clear_unwaitable_func>(evd);
}

DAT_RETURN dat12_evd_resize(DAT_EVD_HANDLE evd, DAT_COUNT qlen)
{
    return dat12::forward<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_resize_func>(
        evd, dat12::least_qlen(qlen));
}

DAT_RETURN dat12_evd_free(DAT_EVD_HANDLE evd)
{
    return dat12::release<DAT_HANDLE_TYPE_EVD, &DAT_PROVIDER::evd_free_func>(evd);
}

DAT_RETURN dat12_evd_post_se(DAT_EVD_HANDLE handle, const v1::DAT_EVENT *event)
{
    object *evd = dat12::object_of<DAT_HANDLE_TYPE_EVD>(handle);
    if (evd == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_EVD>;
    DAT_EVENT two{};
    if (event != nullptr) {
        two.event_number = static_cast<DAT_EVENT_NUMBER>(event->event_number);
        two.evd_handle = dat12::two(*evd);
        two.event_data.software_event_data = event->event_data.software_event_data;
    }
    return dat12::call<&DAT_PROVIDER::evd_post_se_func>(*evd, event != nullptr ? &two : nullptr);
}

namespace dat12 {
namespace {

/// Dequeues an event that is no transfer's; an event that means nothing to this consumer is
/// dropped, and the next one is taken.
OSD_NOINLINE DAT_RETURN dequeue_other(object &evd, DAT_EVENT &two, v1::DAT_EVENT &one)
{
    while (!translate_event(evd, two, one)) {
        const DAT_RETURN status = call<&DAT_PROVIDER::evd_dequeue_func>(evd, &two);
        if (status != DAT_SUCCESS)
            return status;
    }
    return DAT_SUCCESS;
}

} // namespace
} // namespace dat12

DAT_RETURN dat12_evd_dequeue(DAT_EVD_HANDLE handle, v1::DAT_EVENT *event)
{
    object *evd = dat12::object_of<DAT_HANDLE_TYPE_EVD>(handle);
    if (evd == nullptr) [[unlikely]]
        return dat12::refused<DAT_HANDLE_TYPE_EVD>;
    if (event == nullptr) [[unlikely]]
        return dat12::bad_argument(2);
    DAT_EVENT two;
    DAT_EVENT *place = &two;
    OSD_OPAQUE(place); // keeps the address from taking a register of its own until the end ...
    DAT_RETURN status = dat12::call_at_once<&DAT_PROVIDER::evd_dequeue_func>(*evd, place);
    if (status != DAT_SUCCESS)
        return dat12::translated(status);
    if (two.event_number != DAT_DTO_COMPLETION_EVENT) [[unlikely]]
        return dat12::dequeue_other(*evd, two, *event);
    dat12::translate_dto(*evd, two, *event);
    status = DAT_SUCCESS;
    OSD_OPAQUE(status); // ... and so is the 0 that the provider has answered
    return status;
}

DAT_RETURN dat12_evd_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                          v1::DAT_EVENT *event, DAT_COUNT *more)
{
    object *evd = dat12::object_of<DAT_HANDLE_TYPE_EVD>(handle);
    if (evd == nullptr) [[unlikely]]
        return dat12::refused<DAT_HANDLE_TYPE_EVD>;
    for (;;) {
        DAT_EVENT two;
        const DAT_RETURN status = dat12::call_two<&DAT_PROVIDER::evd_wait_func>(
            *evd, timeout, threshold, event != nullptr ? &two : nullptr, more);
        if (status != DAT_SUCCESS)
            return dat12::to_one(status);
        if (dat12::translate_event(*evd, two, *event)) [[likely]]
            return DAT_SUCCESS;
    }
}
