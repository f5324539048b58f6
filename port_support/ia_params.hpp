// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads the ia_params of a dat.conf line, and logs mistakes in them.
#pragma once

#include "dapl_params.hpp"
#include "dapl_status.hpp"

namespace dapl::DAPL_TRANSPORT {

class ia_params {
public:
    /// `grammar` is what the log says is wanted. Both texts are kept.
    ia_params(const char *text, const char *grammar) : text_(text), grammar_(grammar), rest_(text)
    {}

    /// Returns false when there is no further word, or when it is too long.
    template <std::size_t Size>
    bool next(char (&word)[Size])
    {
        return rest_.next(word, Size);
    }

    /// Parses the remaining words as options. `is_other(word)` is called for each first; a word for
    /// which it returns true is skipped. `Longest` is the longest word; `others` are the keys that
    /// is_other() knows, for the log.
    template <std::size_t Longest = 64, class Params, std::size_t Count, class Other>
    status read_options(const param_option<Params> (&options)[Count], Params &params,
                        Other is_other, const char *others = nullptr)
    {
        char word[Longest];
        while (next(word))
            if (!is_other(word) && !read_option(word, options, params))
                return refuse_option(word, options, others);
        return rest_.at_end() ? success : refuse("a word is too long");
    }

    /// The error for a word that next() did not return; `missing` is its text if there is no word.
    status refuse_word(const char *missing) const
    {
        return refuse(rest_.at_end() ? missing : "a word is too long");
    }
    status refuse(const char *why) const;

private:
    template <class Params, std::size_t Count>
    status refuse_option(const char *word, const param_option<Params> (&options)[Count],
                         const char *others) const
    {
        char known[320];
        std::size_t used = 0;
        for (const param_option<Params> &o : options) {
            if (is_of(word, o.key))
                return refuse_value(word, o.least, o.most);
            used = append(known, sizeof known, used, o.key);
        }
        if (others != nullptr)
            append(known, sizeof known, used, others);
        return refuse_unknown(word, known);
    }
    static bool is_of(const char *word, const char *key);
    static std::size_t append(char *list, std::size_t size, std::size_t used, const char *key);
    status refuse_value(const char *word, std::uint32_t least, std::uint32_t most) const;
    status refuse_unknown(const char *word, const char *known) const;

    const char *const text_;
    const char *const grammar_;
    param_words rest_;
};

} // namespace dapl::DAPL_TRANSPORT
