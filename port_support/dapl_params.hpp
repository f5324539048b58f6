// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads an adapter's ia_params of dat.conf for ports: words, and options of the form key=number.
#pragma once

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace dapl::DAPL_TRANSPORT {

/// The words of a text, one after the other.
class param_words {
public:
    explicit param_words(const char *text) : rest_(text) {}

    /// Copies the next. False when there is none, or when it does not fit: then at_end() is false.
    /// One with blanks in it stands between single quotes, which are not copied.
    bool next(char *word, std::size_t size)
    {
        rest_ += std::strspn(rest_, blanks);
        const char *const end = *rest_ == '\'' ? std::strchr(rest_ + 1, '\'') : nullptr;
        const std::size_t quote = end != nullptr ? 1 : 0;
        const std::size_t length = end != nullptr ? static_cast<std::size_t>(end - rest_) - 1
                                                  : std::strcspn(rest_, blanks);
        if (length == 0 || length >= size)
            return false;
        std::memcpy(word, rest_ + quote, length);
        word[length] = '\0';
        rest_ += length + 2 * quote;
        return true;
    }
    bool at_end() const { return rest_[std::strspn(rest_, blanks)] == '\0'; }

private:
    static constexpr const char *blanks = " \t";
    const char *rest_;
};

/// Decimal digits alone, within the limits; else false, and `value` stays as it is.
inline bool read_number(const char *text, std::uint32_t &value, std::uint32_t least = 0,
                        std::uint32_t most = INT_MAX)
{
    if (*text == '\0' || text[std::strspn(text, "0123456789")] != '\0')
        return false;
    errno = 0;
    const unsigned long long read = std::strtoull(text, nullptr, 10);
    if (errno != 0 || read < least || read > most)
        return false;
    value = static_cast<std::uint32_t>(read);
    return true;
}

/// A member of the port's parameters that key=number sets.
template <class Params>
struct param_option {
    const char *key;
    std::uint32_t Params::*value;
    std::uint32_t least = 0;
    std::uint32_t most = INT_MAX;
};

/// Returns false when `word` is none of the options, or the number is none that it takes.
template <class Params, std::size_t Count>
bool read_option(const char *word, const param_option<Params> (&options)[Count], Params &params)
{
    const char *equals = std::strchr(word, '=');
    if (equals == nullptr)
        return false;
    const auto length = static_cast<std::size_t>(equals - word);
    for (const param_option<Params> &o : options)
        if (std::strlen(o.key) == length && std::memcmp(o.key, word, length) == 0)
            return read_number(equals + 1, params.*o.value, o.least, o.most);
    return false;
}

} // namespace dapl::DAPL_TRANSPORT
