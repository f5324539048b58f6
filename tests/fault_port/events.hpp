// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of the events that dat_evd_dequeue and dat_evd_wait store.
#pragma once

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::faults {

/// Stores the event that comes twice, for its second time. False if there is none for this EVD.
bool take_held_event(DAT_EVD_HANDLE evd, DAT_EVENT &event);
/// Changes an event as the plan says. False if it is lost.
bool pass_event(DAT_EVD_HANDLE evd, DAT_EVENT &event);
/// Takes the next event of the EVD, without a wait and past the plan.
DAT_RETURN dequeue_next(DAT_EVD_HANDLE evd, DAT_EVENT &event);

template <class Call>
DAT_RETURN take_event(DAT_EVD_HANDLE evd, DAT_EVENT *event, Call call)
{
    if (event != nullptr && take_held_event(evd, *event))
        return DAT_SUCCESS;
    while (true) {
        const DAT_RETURN code = call();
        if (code != DAT_SUCCESS || event == nullptr || pass_event(evd, *event))
            return code;
    }
}

} // namespace dapl::DAPL_TRANSPORT::faults
