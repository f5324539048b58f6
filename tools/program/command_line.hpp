// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The command line of a program: its options, the variables they set, and --help. The parser
// library is expensive to compile, so only command_line.cpp includes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace program {

/// The exit status for invalid options.
constexpr int wrong_usage = 2;

/// main() begins with it: it guards the standard streams.
class command_line {
public:
    command_line(const std::string &program, const std::string &description);
    ~command_line();
    command_line(const command_line &) = delete;

    // The initial values are the defaults, and shown as such unless empty or 0. They must outlive
    // parse(). `metavar` stands for the value in --help.

    enum class presence { optional, required };
    void positional(const char *name, std::string &value, const char *help,
                    presence wanted = presence::optional);
    void positionals(const char *name, std::vector<std::string> &values, const char *help);

    void text(const char *name, const char *metavar, std::string &value, const char *help);
    /// The path of a file that is there.
    void file(const char *name, std::string &path, const char *help);
    /// Appends its value to `values`; may be repeated, and positional arguments may fill them, too.
    void alternative(const char *name, const char *metavar, std::vector<std::string> &values,
                     const char *help);
    template <class Number>
    void number(const char *name, Number &value, Number least, Number most, const char *help);
    /// Bytes: 64, 8K, 1M.
    void size(const char *name, std::uint32_t &value, std::uint32_t most, const char *help);
    /// An option that takes several sizes, separated by commas.
    void sizes(const char *name, std::vector<std::uint32_t> &values, std::uint32_t most,
               const char *help);
    /// Any words, separated by commas.
    void words(const char *name, std::vector<std::string> &values, const char *help);
    /// Some of a set of words, separated by commas.
    void choices(const char *name, std::vector<std::string> &values,
                 const std::vector<std::string> &allowed, const char *help);
    void flag(const char *name, bool &value, const char *help);
    /// An option that turns off something that is on by default.
    void negative_flag(const char *name, bool &value, const char *help);
    /// An option that only the program itself uses: --help does not show it.
    void internal(const char *name, std::string &value);

    /// Leaves options that are not known for rest().
    void allow_unknown();
    /// The two options are mutually exclusive.
    void exclude(const char *name, const char *other);
    /// Shown under the options.
    void footer(const std::string &text);

    /// Sets the values. If there is a result, the program must exit with it: --help or --version
    /// was given, or an error was reported.
    [[nodiscard]] std::optional<int> parse(int argc, const char *const *argv);
    /// After parse(): the options that are not known.
    std::vector<std::string> rest() const;
    /// Reports that the options contradict each other or the machine. Returns the exit status.
    [[nodiscard]] int misused(const std::string &what) const;

private:
    struct parser;
    std::unique_ptr<parser> parser_;
};

extern template void command_line::number(const char *, std::uint32_t &, std::uint32_t,
                                          std::uint32_t, const char *);
extern template void command_line::number(const char *, std::uint16_t &, std::uint16_t,
                                          std::uint16_t, const char *);
extern template void command_line::number(const char *, double &, double, double, const char *);

} // namespace program
