// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/origin.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace program {
namespace {

std::string now_text()
{
    const std::time_t now = std::time(nullptr);
    char text[64];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", std::localtime(&now));
    return text;
}

/// The value of the first such line of /proc/cpuinfo, whose labels differ by architecture.
std::string processor_model()
{
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos &&
            (line.starts_with("model name") || line.starts_with("cpu model")))
            return line.substr(colon + 2);
    }
    return "";
}

unsigned usable_processors()
{
    cpu_set_t usable;
    return ::sched_getaffinity(0, sizeof usable, &usable) == 0
               ? static_cast<unsigned>(CPU_COUNT(&usable))
               : 1;
}

} // namespace

std::string origin::text() const
{
    std::string all;
    for (const std::string &each : {host, processor, kernel, date})
        all += (all.empty() || each.empty() ? "" : ", ") + each;
    return all;
}

std::string origin::warning() const
{
    char text[160];
    if (load < processors / 2.0)
        return "";
    std::snprintf(text, sizeof text,
                  "this machine is busy: %.1f processes wanted its %u processors in the last "
                  "minute; measure again when it is quiet",
                  load, processors);
    return text;
}

namespace {
origin noted;
}

const origin &this_origin()
{
    return noted;
}

void note_origin(const std::string &program, int argc, const char *const *argv)
{
    origin &made = noted;
    made.program = program + " " + PROGRAM_VERSION;
    made.date = now_text();
    utsname system{};
    if (::uname(&system) == 0) {
        made.host = system.nodename;
        made.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    }
    made.processor = processor_model();
    made.processors = usable_processors();
    (void)::getloadavg(&made.load, 1);
    made.arguments.assign(argv + std::min(argc, 1), argv + argc);
}

} // namespace program
