// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Translates events of DAT 2.0 to events of DAT 1.2.
#pragma once

#include "object.hpp"

namespace dat12 {

/// All but completions of transfers. False: the event is nothing to a consumer of DAT 1.2, and the
/// next one is to be taken.
bool translate_other(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one);

inline v1::DAT_DTO_COMPLETION_STATUS dto_status_to_one(DAT_DTO_COMPLETION_STATUS two)
{
    return two <= DAT_RMR_OPERATION_FAILED ? static_cast<v1::DAT_DTO_COMPLETION_STATUS>(two)
                                           : v1::DAT_DTO_ERR_LOCAL_PROTECTION;
}

/// A completion, in constant time. An endpoint that was freed since is named by its old handle.
OSD_ALWAYS_INLINE void translate_dto(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one)
{
    const DAT_DTO_COMPLETION_EVENT_DATA &from = two.event_data.dto_completion_event_data;
    v1::DAT_DTO_COMPLETION_EVENT_DATA &to = one.event_data.dto_completion_event_data;
    object *endpoint = found_quickly(from.ep_handle);
    to.ep_handle = handle_of(endpoint != nullptr ? endpoint : found_with_lock(from.ep_handle));
    one.event_number = v1::DAT_DTO_COMPLETION_EVENT;
    one.evd_handle = evd.vector;
    to.user_cookie = from.user_cookie;
    to.status = dto_status_to_one(from.status);
    to.transfered_length = from.transfered_length;
}

/// Returns false as above.
OSD_ALWAYS_INLINE bool translate_event(object &evd, const DAT_EVENT &two, v1::DAT_EVENT &one)
{
    if (two.event_number != DAT_DTO_COMPLETION_EVENT) [[unlikely]]
        return translate_other(evd, two, one);
    translate_dto(evd, two, one);
    return true;
}

} // namespace dat12
