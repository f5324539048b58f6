// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace osd {

bool read_number(const char *text, std::uint64_t &number)
{
    if (*text < '0' || *text > '9') // strtoull takes blanks and signs
        return false;
    if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) // C23's strtoull takes binary
        return false;
    char *end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0')
        return false;
    number = value;
    return true;
}

char *copy_text(const char *text)
{
    const std::size_t size = std::strlen(text) + 1;
    auto *copy = static_cast<char *>(std::malloc(size));
    if (copy != nullptr)
        std::memcpy(copy, text, size);
    return copy;
}

std::uint64_t environment_number(const char *name, std::uint64_t fallback)
{
    char *text = environment(name);
    std::uint64_t number = 0;
    const bool is_number = text != nullptr && read_number(text, number);
    std::free(text);
    return is_number ? number : fallback;
}

} // namespace osd
