// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"

#include <cerrno>
#include <cstdlib>

namespace osd {
namespace {

bool parse(const char *text, std::uint64_t &number)
{
    if (*text < '0' || *text > '9') // strtoull takes blanks and signs
        return false;
    char *end = nullptr;
    errno = 0;
    number = std::strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

} // namespace

std::uint64_t environment_number(const char *name, std::uint64_t fallback)
{
    char *text = environment(name);
    std::uint64_t number = 0;
    const bool is_number = text != nullptr && parse(text, number);
    std::free(text);
    return is_number ? number : fallback;
}

} // namespace osd
