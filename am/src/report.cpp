// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace am {

namespace {

std::atomic<int> reporting_rank{0};

} // namespace

void report_as(int rank)
{
    reporting_rank = rank;
}

void report(const char *format, ...)
{
    char line[512];
    constexpr int most = static_cast<int>(sizeof line) - 2; // leaves room for the end of the line
    int length = std::snprintf(line, sizeof line, "dapl-am: rank %d: ", reporting_rank.load());
    va_list values;
    va_start(values, format);
    const int more = std::vsnprintf(line + length, sizeof line - 1 - static_cast<unsigned>(length),
                                    format, values);
    va_end(values);
    length = length + more <= most ? length + more : most;
    line[length++] = '\n';
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, line, static_cast<std::size_t>(length));
}

bool report_failed(const char *call, DAT_RETURN code)
{
    if (code == DAT_SUCCESS)
        return false;
    report("%s: %s", call, dat_text(code));
    return true;
}

const char *dat_text(DAT_RETURN code)
{
    const char *major = "unknown error";
    const char *minor = "";
    (void)dat_strerror(code, &major, &minor);
    return major;
}

} // namespace am
