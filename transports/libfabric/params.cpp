// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "ia_params.hpp"

#include <initializer_list>

namespace dapl::libfabric::ofi {

namespace {

constexpr param_option<adapter_params> options[] = {
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"spin_us", &adapter_params::spin_us},
    {"family", &adapter_params::family},
};

bool is_provider(const char *word)
{
    for (const char *known : {"tcp", "net", "sockets"})
        if (std::strcmp(word, known) == 0)
            return true;
    return false;
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    ia_params words(text, "[tcp|net|sockets] <interface or address> [key=value ...]");
    bool found = words.next(params.interface);
    if (found && is_provider(params.interface)) {
        std::strcpy(params.provider, params.interface);
        found = words.next(params.interface);
    }
    if (!found)
        return words.refuse_word("no interface is named");
    const auto is_number = [](const char *word) { // the old form has a port number
        std::uint32_t ignored;
        return read_number(word, ignored);
    };
    const status read = words.read_options(options, params, is_number);
    if (read.ok() && params.family != 4 && params.family != 6)
        return words.refuse("family is 4 or 6");
    return read;
}

} // namespace dapl::libfabric::ofi
