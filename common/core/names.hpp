// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The words for codes in log lines.
#pragma once

#include <dat2/udat.h>

namespace dapl::DAPL_TRANSPORT::core {

const char *name_of(DAT_DTOS operation);
const char *name_of(DAT_DTO_COMPLETION_STATUS status);
const char *name_of(DAT_EP_STATE state);
const char *name_of(DAT_EVENT_NUMBER event);

} // namespace dapl::DAPL_TRANSPORT::core
