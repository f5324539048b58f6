// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace dapl::soft {

namespace {

struct option {
    const char *name;
    std::uint32_t adapter_params::*value;
    std::uint32_t least;
    std::uint32_t most;
};

constexpr option options[] = {
    {"family", &adapter_params::family, 4, 6},
    {"datagram", &adapter_params::datagram, 512, 65507},
    {"threads", &adapter_params::threads, 1, 16},
    {"spin_us", &adapter_params::spin_us, 0, 1'000'000},
    {"connect_retry_ms", &adapter_params::connect_retry_ms, 0, INT_MAX},
    {"linger_ms", &adapter_params::linger_ms, 0, INT_MAX},
    {"keepalive_ms", &adapter_params::keepalive_ms, 1, INT_MAX},
    {"retries", &adapter_params::retries, 1, 100},
    {"loss", &adapter_params::loss, 0, 1000},
    {"reorder", &adapter_params::reorder, 0, 1000},
    {"duplicate", &adapter_params::duplicate, 0, 1000},
    {"delay_us", &adapter_params::delay_us, 0, 10'000'000},
    {"seed", &adapter_params::seed, 0, INT_MAX},
};

constexpr const char *blanks = " \t";

/// Copies the word at `at` and moves on. False when there is none, or it does not fit.
bool next_word(const char *&at, char *word, std::size_t size)
{
    at += std::strspn(at, blanks);
    const std::size_t length = std::strcspn(at, blanks);
    if (length == 0 || length >= size)
        return false;
    std::memcpy(word, at, length);
    word[length] = '\0';
    at += length;
    return true;
}

bool is_number(const char *text)
{
    return *text != '\0' && text[std::strspn(text, "0123456789")] == '\0';
}

bool read_number(const char *text, const option &o, adapter_params &params)
{
    if (!is_number(text))
        return false;
    errno = 0;
    const unsigned long long read = std::strtoull(text, nullptr, 10);
    if (errno != 0 || read < o.least || read > o.most)
        return false;
    params.*o.value = static_cast<std::uint32_t>(read);
    return true;
}

/// key=value
bool read_option(char *word, adapter_params &params)
{
    char *equals = std::strchr(word, '=');
    if (equals == nullptr)
        return false;
    *equals = '\0';
    for (const option &o : options)
        if (std::strcmp(word, o.name) == 0)
            return read_number(equals + 1, o, params);
    return false;
}

status wrong(const char *text, const char *why)
{
    dapl_log(DAPL_DBG_TYPE_ERR,
             "ia_params \"%s\": %s; wanted: <interface or address> [key=value ...]", text, why);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    const char *rest = text;
    if (!next_word(rest, params.interface, sizeof params.interface))
        return wrong(text, "no interface is named, or its name is too long");
    char word[64];
    while (next_word(rest, word, sizeof word))
        if (!is_number(word) && !read_option(word, params)) // a number: "<device> <port>" of old
            return wrong(text, "an option is not understood");
    if (rest[std::strspn(rest, blanks)] != '\0')
        return wrong(text, "a word is too long");
    if (params.family == 5)
        return wrong(text, "family is 4 or 6");
    return success;
}

} // namespace dapl::soft
