// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The registry's own messages: DAT_DBG_TYPE says which, DAT_DBG_DEST says where.
#pragma once

#include "osd_annotations.hpp"

namespace dat {

/// The bits of DAT_DBG_TYPE.
enum class topic : unsigned {
    error = 0x01, ///< needs action by the administrator; enabled by default
    general = 0x02,
    config = 0x04,       ///< dat.conf: lines that are read, and lines that are ignored, with the
                         ///< reason
    providers = 0x08,    ///< libraries that are loaded, registered, unloaded
    provider_api = 0x10, ///< calls of providers
    consumer_api = 0x20, ///< calls of consumers
};

bool logging(topic about);

/// One line, whole, to standard error or to where DAT_DBG_DEST points.
void log(topic about, const char *format, ...) OSD_PRINTF(2, 3);

} // namespace dat
