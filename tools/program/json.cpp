// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/json.hpp"

#include "program/failure.hpp"
#include "program/origin.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace program {
namespace {

/// Rounds all fractions to nine digits, of which no measurement has more.
void round_off(json &value)
{
    if (value.is_number_float()) {
        char text[32];
        std::snprintf(text, sizeof text, "%.9g", value.get<double>());
        value = std::strtod(text, nullptr);
    }
    if (value.is_structured())
        for (json &each : value)
            round_off(each);
}

} // namespace

json origin_json()
{
    const origin &made = this_origin();
    return {
        {"program", made.program},
        {"arguments", made.arguments},
        {"date", made.date},
        {"host", made.host},
        {"kernel", made.kernel},
        {"processor", made.processor},
        {"processors", made.processors},
        {"load", made.load},
    };
}

void write_json(const std::string &path, json value)
{
    struct closer {
        void operator()(std::FILE *f) const
        {
            if (f != stdout)
                std::fclose(f);
        }
    };
    std::unique_ptr<std::FILE, closer> file(path == "-" ? stdout : std::fopen(path.c_str(), "w"));
    round_off(value);
    const std::string text = value.dump(2, ' ', false, json::error_handler_t::replace);
    if (!file || std::fprintf(file.get(), "%s\n", text.c_str()) < 0 || std::fflush(file.get()) != 0)
        throw failure(path + ": " + std::strerror(errno));
}

} // namespace program
