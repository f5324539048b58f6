// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dapl_debug.hpp"

#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <cstdarg>
#include <cstdio>

#define DAPL_STRINGIZE(x) #x
#define DAPL_NAME(x) DAPL_STRINGIZE(x)

namespace dapl::DAPL_TRANSPORT {

namespace {
// Standard output is no default: many a program's data go there.
std::atomic<unsigned> destinations = osd::log_stderr;
} // namespace

std::atomic<unsigned> debug_mask = DAPL_DBG_TYPE_ERR | DAPL_DBG_TYPE_WARN;

void debug_init()
{
    debug_mask = static_cast<unsigned>(osd::environment_number("DAPL_DBG_TYPE", debug_mask));
    destinations = static_cast<unsigned>(osd::environment_number("DAPL_DBG_DEST", destinations));
}

void debug_line(const char *format, ...)
{
    char text[512];
    const int used =
        std::snprintf(text, sizeof text, "%ld.%ld ", osd::process_id(), osd::thread_id());
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text + used, sizeof text - static_cast<unsigned>(used), format, arguments);
    va_end(arguments);
    osd::log_line(destinations, "dapl-" DAPL_NAME(DAPL_TRANSPORT), text);
}

} // namespace dapl::DAPL_TRANSPORT
