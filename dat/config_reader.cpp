// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "config_reader.hpp"

#include "osd_annotations.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dat2/udat.h>

namespace dat {
namespace {

constexpr int least_fields = 7; // files from before DAT 1.2 have no platform parameters
constexpr int most_fields = 8;

constexpr const char *field_names[most_fields] = {
    "adapter name", "API version",      "thread safety",      "default section",
    "library",      "provider version", "adapter parameters", "platform parameters",
};

struct field {
    char *begin;
    char *end;
};

bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/// Bytes of the file for a message: printable whatever they are, and never long.
class printable {
public:
    explicit printable(const char *text)
    {
        char *out = text_;
        while (*text != '\0' && out < text_ + 40)
            out = append(out, static_cast<unsigned char>(*text++));
        std::strcpy(out, *text != '\0' ? "..." : "");
    }
    const char *text() const { return text_; }

private:
    static char *append(char *out, unsigned char c)
    {
        if (c < 0x20 || c >= 0x7f)
            return out + std::sprintf(out, "\\x%02x", static_cast<unsigned>(c));
        *out = static_cast<char>(c);
        return out + 1;
    }

    char text_[40 + 4 + 4];
};

/// The fields of one row, unescaped in place, and the mistake found in them.
class row {
public:
    row(char *begin, char *end, config_problem &problem) : at_(begin), end_(end), problem_(problem)
    {}

    bool is_blank() const { return count_ == 0; }
    bool split();
    bool interpret(config_line &line);

private:
    bool refuse(const char *format, ...) OSD_PRINTF(2, 3);
    bool expected(int index, const char *what);
    bool split_fields();
    bool take_field();
    bool take_quoted(field &taken);
    void take_plain(field &taken);
    char *take_character(char *out);
    bool check_count();

    bool set_name(config_line &line);
    bool set_api(config_line &line);
    bool set_choice(int index, const char *yes, const char *no, bool &chosen);
    bool set_library(config_line &line);
    bool set_provider_version(config_line &line);
    const char *text(int index) const { return index < count_ ? fields_[index].begin : ""; }

    char *at_;
    char *end_;
    config_problem &problem_;
    field fields_[most_fields];
    int count_ = 0; // counts fields beyond the maximum too
};

bool row::refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(problem_.reason, sizeof problem_.reason, format, arguments);
    va_end(arguments);
    return false;
}

bool row::expected(int index, const char *what)
{
    return refuse("field %d, the %s: expected %s, found '%s'", index + 1, field_names[index], what,
                  printable(text(index)).text());
}

bool row::split()
{
    if (std::memchr(at_, '\0', static_cast<std::size_t>(end_ - at_)) != nullptr)
        return refuse("expected text, found a null byte");
    if (!split_fields())
        return false;
    // Only now, because the end of one field may be the opening quote of the next.
    for (int i = 0; i < count_ && i < most_fields; ++i)
        *fields_[i].end = '\0';
    return is_blank() || check_count();
}

bool row::split_fields()
{
    for (;;) {
        while (at_ < end_ && is_space(*at_))
            ++at_;
        if (at_ == end_ || *at_ == '#')
            return true;
        if (!take_field())
            return false;
    }
}

bool row::take_field()
{
    field taken;
    if (*at_ != '"')
        take_plain(taken);
    else if (!take_quoted(taken))
        return false;
    if (count_ < most_fields)
        fields_[count_] = taken;
    ++count_;
    return true;
}

/// Copies one character to `out`, which never overtakes the reading; resolves `\\` and `\"`.
char *row::take_character(char *out)
{
    if (*at_ == '\\' && at_ + 1 < end_ && (at_[1] == '\\' || at_[1] == '"'))
        ++at_;
    *out = *at_++;
    return out + 1;
}

bool row::take_quoted(field &taken)
{
    char *out = taken.begin = ++at_;
    while (at_ < end_ && *at_ != '"')
        out = take_character(out);
    if (at_ == end_)
        return refuse("field %d: expected a closing quote, found the end of the line", count_ + 1);
    ++at_;
    taken.end = out;
    return true;
}

void row::take_plain(field &taken)
{
    char *out = taken.begin = at_;
    while (at_ < end_ && !is_space(*at_) && *at_ != '"')
        out = take_character(out);
    taken.end = out;
}

bool row::check_count()
{
    if (count_ < least_fields)
        return refuse("expected 8 fields, found %d (no %s)", count_, field_names[count_]);
    if (count_ > most_fields)
        return refuse("expected 8 fields, found %d; a field with spaces in it needs quotes",
                      count_);
    return true;
}

bool row::interpret(config_line &line)
{
    line.ia_params = text(6);
    line.platform_params = text(7);
    return set_name(line) && set_api(line) &&
           set_choice(2, "threadsafe", "nonthreadsafe", line.is_thread_safe) &&
           set_choice(3, "default", "nondefault", line.is_default) && set_library(line) &&
           set_provider_version(line);
}

bool row::set_name(config_line &line)
{
    line.name = text(0);
    const std::size_t length = std::strlen(line.name);
    if (length == 0)
        return expected(0, "a name");
    if (length >= DAT_NAME_MAX_LENGTH)
        return refuse("field 1, the adapter name: expected at most %d characters, found %zu",
                      DAT_NAME_MAX_LENGTH - 1, length);
    return true;
}

/// A decimal number of 32 bits; leaves `at` behind it.
bool take_number(const char *&at, std::uint32_t &number)
{
    const char *begin = at;
    std::uint64_t value = 0;
    for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; ++at)
        value = value * 10 + static_cast<std::uint64_t>(*at - '0');
    number = static_cast<std::uint32_t>(value);
    return at != begin && value <= UINT32_MAX;
}

bool take_version(const char *text, std::uint32_t &major, std::uint32_t &minor)
{
    return take_number(text, major) && *text++ == '.' && take_number(text, minor) && *text == '\0';
}

/// Old files have "u2" for "u2.0".
bool take_api_version(const char *text, std::uint32_t &major, std::uint32_t &minor)
{
    const char *end = text;
    minor = 0;
    return (take_number(end, major) && *end == '\0') || take_version(text, major, minor);
}

bool row::set_api(config_line &line)
{
    const char *version = text(1);
    line.kernel = *version == 'k';
    if ((*version != 'u' && *version != 'k') ||
        !take_api_version(version + 1, line.api_major, line.api_minor))
        return expected(1, "u<major>.<minor> or k<major>.<minor>");
    return true;
}

bool row::set_choice(int index, const char *yes, const char *no, bool &chosen)
{
    chosen = std::strcmp(text(index), yes) == 0;
    if (chosen || std::strcmp(text(index), no) == 0)
        return true;
    char what[40];
    std::snprintf(what, sizeof what, "%s or %s", yes, no);
    return expected(index, what);
}

bool row::set_library(config_line &line)
{
    line.library = text(4);
    return *line.library != '\0' || expected(4, "a path or the name of a shared library");
}

/// Finds the "<major>.<minor>" of a version: behind the second dot from the right, if there is one.
const char *version_part(const char *text)
{
    const char *dot = std::strrchr(text, '.');
    while (dot != nullptr && dot > text && *(dot - 1) != '.')
        --dot;
    return dot != nullptr ? dot : text;
}

bool row::set_provider_version(config_line &line)
{
    std::uint32_t major, minor;
    line.provider_version = text(5);
    return take_version(version_part(line.provider_version), major, minor) ||
           expected(5, "[<id>.]<major>.<minor>");
}

} // namespace

config_reader::config_reader(char *text, std::size_t size) : at_(text), end_(text + size)
{
    if (size >= 3 && std::memcmp(text, "\xEF\xBB\xBF", 3) == 0) // what some editors put in front
        at_ += 3;
}

bool config_reader::take_row(char *&begin, char *&end)
{
    if (at_ == end_)
        return false;
    begin = at_;
    auto *newline =
        static_cast<char *>(std::memchr(at_, '\n', static_cast<std::size_t>(end_ - at_)));
    end = newline != nullptr ? newline : end_;
    at_ = newline != nullptr ? newline + 1 : end_;
    ++number_;
    return true;
}

config_reader::result config_reader::next(config_line &line, config_problem &problem)
{
    char *begin, *end;
    while (take_row(begin, end)) {
        row current(begin, end, problem);
        line.number = problem.number = number_;
        if (!current.split())
            return result::problem;
        if (!current.is_blank())
            return current.interpret(line) ? result::line : result::problem;
    }
    return result::end;
}

} // namespace dat
