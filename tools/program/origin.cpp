// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/origin.hpp"

#include "program/system.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace program {
namespace {

std::string now_text()
{
    const std::time_t now = std::time(nullptr);
    char text[64];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", std::localtime(&now));
    return text;
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
    const machine here = this_machine();
    made.host = here.host;
    made.kernel = here.kernel;
    made.processor = here.processor;
    made.processors = here.processors;
    made.load = here.load;
    made.arguments.assign(argv + std::min(argc, 1), argv + argc);
}

} // namespace program
