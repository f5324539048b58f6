// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace dapl::libfabric::ofi {

namespace {

/// The words of a text, one after the other.
class words {
public:
    explicit words(const char *text) : at_(text) {}

    /// False when there is no other, or it does not fit.
    bool next(char *word, std::size_t size)
    {
        at_ += std::strspn(at_, blanks);
        const std::size_t length = std::strcspn(at_, blanks);
        fits_ = length < size;
        if (length == 0 || !fits_)
            return false;
        std::memcpy(word, at_, length);
        word[length] = '\0';
        at_ += length;
        return true;
    }
    bool fits() const { return fits_; }

private:
    static constexpr const char *blanks = " \t";
    const char *at_;
    bool fits_ = true;
};

bool is_number(const char *text)
{
    return *text != '\0' && text[std::strspn(text, "0123456789")] == '\0';
}

bool read_number(const char *text, std::uint32_t &value)
{
    if (!is_number(text))
        return false;
    errno = 0;
    const unsigned long long read = std::strtoull(text, nullptr, 10);
    value = static_cast<std::uint32_t>(read);
    return errno == 0 && read <= INT_MAX;
}

struct option {
    const char *name;
    std::uint32_t adapter_params::*value;
};

constexpr option options[] = {
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"spin_us", &adapter_params::spin_us},
    {"family", &adapter_params::family},
};

/// key=value
bool read_option(char *word, adapter_params &params)
{
    char *equals = std::strchr(word, '=');
    if (equals == nullptr)
        return false;
    *equals = '\0';
    for (const option &o : options)
        if (std::strcmp(word, o.name) == 0)
            return read_number(equals + 1, params.*o.value);
    return false;
}

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
    words rest(text);
    bool found = rest.next(word, sizeof(word));
    if (found && is_provider(word)) {
        std::strcpy(params.provider, word);
        found = rest.next(word, sizeof(word));
    }
    if (!found)
        return wrong(text, rest.fits() ? "no interface is named" : "a word is too long");
    std::strcpy(params.interface, word);
    while (rest.next(word, sizeof(word)))
        if (!is_number(word) && !read_option(word, params)) // a number: "<device> <port>" of old
            return wrong(text, "an option is not understood");
    if (!rest.fits())
        return wrong(text, "a word is too long");
    if (params.family != 4 && params.family != 6)
        return wrong(text, "family is 4 or 6");
    return success;
}

} // namespace dapl::libfabric::ofi
