// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace dapl::verbs::vrb {

namespace {

constexpr std::size_t longest_word = 64;

/// The words of a text, one after the other.
class words {
public:
    explicit words(const char *text) : at_(text) {}

    /// False when there is no other, or it does not fit.
    bool next(char (&word)[longest_word])
    {
        at_ += std::strspn(at_, blanks);
        const std::size_t length = std::strcspn(at_, blanks);
        fits_ = length < longest_word;
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

bool read_number(const char *text, std::uint32_t &value)
{
    if (*text == '\0' || text[std::strspn(text, "0123456789")] != '\0')
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
    {"settle_ms", &adapter_params::settle_ms},
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

status wrong(const char *text, const char *why)
{
    dapl_log(DAPL_DBG_TYPE_ERR,
             "ia_params \"%s\": %s; wanted: <RDMA device, interface or address> [port] "
             "[key=value ...]",
             text, why);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    static_assert(sizeof(params.device) == longest_word);
    words rest(text);
    if (!rest.next(params.device))
        return wrong(text, rest.fits() ? "no device is named" : "a word is too long");
    char word[longest_word];
    bool port_may_come = true;
    while (rest.next(word)) {
        const bool port = port_may_come && read_number(word, params.port);
        if (!port && !read_option(word, params))
            return wrong(text, "an option is not understood");
        port_may_come = false;
    }
    if (!rest.fits())
        return wrong(text, "a word is too long");
    if (params.family != 4 && params.family != 6)
        return wrong(text, "family is 4 or 6");
    return success;
}

} // namespace dapl::verbs::vrb
