// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The text of dat.conf: reading ends, lines come in order, and their fields lie inside the text.
#include "config_reader.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

bool lies_inside(const char *text, const std::vector<char> &all)
{
    if (text == nullptr || text < all.data() || text >= all.data() + all.size())
        return false;
    const auto left = static_cast<std::size_t>(all.data() + all.size() - text);
    return std::memchr(text, '\0', left) != nullptr;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *input, std::size_t size)
{
    std::vector<char> text(input, input + size);
    text.push_back('\0');
    dat::config_reader reader(text.data(), size);
    dat::config_line line{};
    dat::config_problem problem{};
    unsigned last = 0;
    for (;;) {
        const dat::config_reader::result found = reader.next(line, problem);
        if (found == dat::config_reader::result::end)
            return 0;
        const bool good = found == dat::config_reader::result::line;
        const unsigned number = good ? line.number : problem.number;
        if (number <= last)
            std::abort();
        last = number;
        if (!good && std::memchr(problem.reason, '\0', sizeof problem.reason) == nullptr)
            std::abort();
        if (!good)
            continue;
        for (const char *part :
             {line.name, line.library, line.provider_version, line.ia_params, line.platform_params})
            if (*part != '\0' && !lies_inside(part, text)) // an absent one is a constant
                std::abort();
    }
}
