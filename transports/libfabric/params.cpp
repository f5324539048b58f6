// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"
#include "dapl_params.hpp"

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

status wrong(const char *text, const char *why)
{
    dapl_log(
        DAPL_DBG_TYPE_ERR,
        "ia_params \"%s\": %s; wanted: [tcp|net|sockets] <interface or address> [key=value ...]",
        text, why);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    char word[sizeof(params.interface)];
    param_words rest(text);
    bool found = rest.next(word, sizeof(word));
    if (found && is_provider(word)) {
        std::strcpy(params.provider, word);
        found = rest.next(word, sizeof(word));
    }
    if (!found)
        return wrong(text, rest.at_end() ? "no interface is named" : "a word is too long");
    std::strcpy(params.interface, word);
    std::uint32_t old = 0; // "<device> <port>" of old
    while (rest.next(word, sizeof(word)))
        if (!read_number(word, old) && !read_option(word, options, params))
            return wrong(text, "an option is not understood");
    if (!rest.at_end())
        return wrong(text, "a word is too long");
    if (params.family != 4 && params.family != 6)
        return wrong(text, "family is 4 or 6");
    return success;
}

} // namespace dapl::libfabric::ofi
