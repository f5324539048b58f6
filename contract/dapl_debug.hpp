// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The debug channel of a provider. DAPL_DBG_TYPE is a mask of message types, DAPL_DBG_DEST of
// destinations (1 standard output, 2 syslog, 4 standard error).
#pragma once

#include "osd_annotations.hpp"

#include <atomic>

namespace dapl::DAPL_TRANSPORT {

enum debug_type : unsigned {
    DAPL_DBG_TYPE_ERR = 0x1,
    DAPL_DBG_TYPE_WARN = 0x2,
    DAPL_DBG_TYPE_EVD = 0x4,
    DAPL_DBG_TYPE_CM = 0x8,
    DAPL_DBG_TYPE_EP = 0x10,
    DAPL_DBG_TYPE_UTIL = 0x20,
    DAPL_DBG_TYPE_CALLBACK = 0x40,
    DAPL_DBG_TYPE_DTO_COMP_ERR = 0x80,
    DAPL_DBG_TYPE_API = 0x100,
    DAPL_DBG_TYPE_RTN = 0x200,
    DAPL_DBG_TYPE_EXCEPTION = 0x400,
};

/// Set when an adapter starts, while other adapters of this library may be open.
extern std::atomic<unsigned> debug_mask;

inline bool shows(unsigned types)
{
    return (debug_mask.load(std::memory_order_relaxed) & types) != 0;
}

void debug_init();
void debug_line(const char *format, ...) OSD_COLD OSD_PRINTF(1, 2);

} // namespace dapl::DAPL_TRANSPORT

/// dapl_log(DAPL_DBG_TYPE_CM, "format", …): evaluates its arguments only when the type is shown.
#define dapl_log(type, ...)                                                                        \
    do {                                                                                           \
        if (::dapl::DAPL_TRANSPORT::shows(::dapl::DAPL_TRANSPORT::type)) [[unlikely]]              \
            ::dapl::DAPL_TRANSPORT::debug_line(__VA_ARGS__);                                       \
    } while (false)
