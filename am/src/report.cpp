// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include "dapl_am.h"

#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace am {

void report(const char *format, ...)
{
    char line[512];
    int length = std::snprintf(line, sizeof line, "dapl-am: rank %d: ", dapl_am_rank());
    va_list values;
    va_start(values, format);
    const int more = std::vsnprintf(line + length, sizeof line - 1 - length, format, values);
    va_end(values);
    length = length + more < int(sizeof line) - 1 ? length + more : int(sizeof line) - 2;
    line[length++] = '\n';
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length);
}

const char *dat_text(DAT_RETURN code)
{
    const char *major = "unknown error";
    const char *minor = "";
    (void)dat_strerror(code, &major, &minor);
    return major;
}

} // namespace am

const char *dapl_am_strerror(int status)
{
    switch (status) {
    case DAPL_AM_OK:
        return "success";
    case DAPL_AM_NOT_READY:
        return "not ready";
    case DAPL_AM_BARRIER_MISMATCH:
        return "the ranks disagree about the barrier";
    case DAPL_AM_ERR_ARGUMENT:
        return "a value is out of its range";
    case DAPL_AM_ERR_RANK:
        return "no such rank";
    case DAPL_AM_ERR_RANGE:
        return "not inside the segment of the rank";
    case DAPL_AM_ERR_STATE:
        return "not possible in this state of the job";
    case DAPL_AM_ERR_CONTEXT:
        return "not allowed from this handler";
    case DAPL_AM_ERR_RESOURCES:
        return "out of resources";
    case DAPL_AM_ERR_ADAPTER:
        return "the adapter does not open";
    case DAPL_AM_ERR_LAUNCHER:
        return "the launcher's PMIx server failed";
    default:
        return "unknown status";
    }
}
