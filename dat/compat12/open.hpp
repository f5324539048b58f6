// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opening adapters by the u1.2 lines of dat.conf.
#pragma once

#include <dat2/udat.h>

namespace dat12 {

/// dat_ia_openv() of DAT 1.2.
DAT_RETURN open(const char *name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safety);

} // namespace dat12
