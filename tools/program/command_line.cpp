// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/command_line.hpp"

#include "program/origin.hpp"
#include "program/standard_streams.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <sstream>

namespace program {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t name_width = 24;

/// Formats an option's help, "name  purpose (default 64)", with the right column wrapped.
class help_page : public CLI::Formatter {
public:
    help_page() { column_width(name_width); }

    std::string make_option(const CLI::Option *option, bool is_positional) const override
    {
        std::string left = "  " + make_option_name(option, is_positional);
        if (!is_positional && !option->get_type_name().empty() && option->get_type_size() != 0)
            left += " " + option->get_type_name();
        std::ostringstream out;
        out << left;
        std::size_t column = left.size();
        if (column + 2 > name_width)
            column = page_width; // too long for its column: go on below
        std::istringstream words(description(option));
        for (std::string word; words >> word;) {
            if (column + 1 + word.size() > page_width) {
                out << "\n" << std::string(name_width - 1, ' ');
                column = name_width - 1;
            } else if (column < name_width) {
                out << std::string(name_width - 1 - column, ' ');
                column = name_width - 1;
            }
            out << " " << word;
            column += 1 + word.size();
        }
        out << "\n";
        return out.str();
    }

private:
    static std::string description(const CLI::Option *option)
    {
        const std::string value = option->get_default_str();
        // Versions of the library show an empty list by one kind of brackets or the other.
        const bool nothing = value.find_first_not_of("[]{}") == std::string::npos || value == "0";
        return option->get_description() + (nothing ? "" : " (default " + plain(value) + ")");
    }

    /// A list without its brackets.
    static std::string plain(const std::string &value)
    {
        return value.front() == '[' ? value.substr(1, value.size() - 2) : value;
    }
};

} // namespace

struct command_line::parser {
    CLI::App app;
    std::string program;

    parser(const std::string &program, const std::string &description)
        : app(description, program), program(program)
    {
        app.formatter(std::make_shared<help_page>());
        app.set_help_flag("-h,--help", "show this help and exit");
        app.set_version_flag("--version", program + " " + PROGRAM_VERSION,
                             "show the version and exit");
    }

    template <class Value>
    CLI::Option *add(const char *name, const char *metavar, Value &value, const char *help)
    {
        return app.add_option(name, value, help)->type_name(metavar)->capture_default_str();
    }

    /// Adds a list option: "a,b" is two values, "a b" one value and the next argument.
    template <class Value>
    CLI::Option *add_list(const char *name, const char *metavar, std::vector<Value> &values,
                          const char *help)
    {
        return add(name, metavar, values, help)->delimiter(',')->allow_extra_args(false);
    }
};

command_line::command_line(const std::string &program, const std::string &description)
    : parser_(std::make_unique<parser>(program, description))
{
    guard_standard_streams();
}

command_line::~command_line() = default;

void command_line::positional(const char *name, std::string &value, const char *help,
                              presence wanted)
{
    parser_->add(name, "", value, help)->required(wanted == presence::required);
}

void command_line::positionals(const char *name, std::vector<std::string> &values, const char *help)
{
    parser_->add(name, "", values, help);
}

void command_line::text(const char *name, const char *metavar, std::string &value, const char *help)
{
    parser_->add(name, metavar, value, help);
}

void command_line::file(const char *name, std::string &path, const char *help)
{
    parser_->add(name, "FILE", path, help)->check(CLI::ExistingFile.description(""));
}

void command_line::alternative(const char *name, const char *metavar,
                               std::vector<std::string> &values, const char *help)
{
    const auto add = [&values](const std::vector<std::string> &more) {
        values.insert(values.end(), more.begin(), more.end());
    };
    parser_->app.add_option_function<std::vector<std::string>>(name, add, help)
        ->type_name(metavar)
        ->allow_extra_args(false);
}

template <class Number>
void command_line::number(const char *name, Number &value, Number least, Number most,
                          const char *help)
{
    const auto range = CLI::Range(least, most).description("");
    const auto is_number = [](const std::string &text) {
        return text.find_first_of("nN") == std::string::npos ? "" : text + " is no number"; // "nan"
    };
    parser_->add(name, "N", value, help)->check(CLI::Validator(is_number, ""))->check(range);
}

template void command_line::number(const char *, std::uint32_t &, std::uint32_t, std::uint32_t,
                                   const char *);
template void command_line::number(const char *, std::uint16_t &, std::uint16_t, std::uint16_t,
                                   const char *);
template void command_line::number(const char *, double &, double, double, const char *);

void command_line::size(const char *name, std::uint32_t &value, std::uint32_t most,
                        const char *help)
{
    parser_->add(name, "BYTES", value, help)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->check(CLI::Range(1u, most).description(""));
}

void command_line::sizes(const char *name, std::vector<std::uint32_t> &values, std::uint32_t most,
                         const char *help)
{
    parser_->add_list(name, "BYTES,...", values, help)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->check(CLI::Range(1u, most).description(""));
}

void command_line::words(const char *name, std::vector<std::string> &values, const char *help)
{
    parser_->add_list(name, "WORD,...", values, help);
}

void command_line::choices(const char *name, std::vector<std::string> &values,
                           const std::vector<std::string> &allowed, const char *help)
{
    parser_->add_list(name, "WORD,...", values, help)
        ->check(CLI::IsMember(allowed).description(""));
}

void command_line::flag(const char *name, bool &value, const char *help)
{
    parser_->app.add_flag(name, value, help);
}

void command_line::negative_flag(const char *name, bool &value, const char *help)
{
    parser_->app.add_flag_callback(
        name, [&value] { value = false; }, help);
}

void command_line::internal(const char *name, std::string &value)
{
    parser_->app.add_option(name, value)->group("");
}

void command_line::allow_unknown()
{
    parser_->app.allow_extras();
}

std::vector<std::string> command_line::rest() const
{
    return parser_->app.remaining();
}

int command_line::misused(const std::string &what) const
{
    std::fprintf(stderr, "%s: %s\nrun %s --help for usage\n", parser_->program.c_str(),
                 what.c_str(), parser_->program.c_str());
    return wrong_usage;
}

void command_line::exclude(const char *name, const char *other)
{
    parser_->app.get_option(name)->excludes(parser_->app.get_option(other));
}

void command_line::footer(const std::string &text)
{
    parser_->app.footer(text);
}

std::optional<int> command_line::parse(int argc, const char *const *argv)
{
    try {
        parser_->app.parse(argc, argv);
        note_origin(parser_->program, argc, argv);
        return {};
    } catch (const CLI::ParseError &e) {
        if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return parser_->app.exit(e);
        return misused(e.what());
    }
}

} // namespace program
