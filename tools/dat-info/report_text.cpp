// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include "program/system.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

namespace dat_info {
namespace {

enum colour { plain = 0, bold = 1, dim = 2, red = 31, green = 32, yellow = 33 };

constexpr std::size_t few_lines = 8; ///< limit on the lines that a provider wrote

/// Adapters that fare alike, so that one text serves all of them.
using group = std::vector<const adapter *>;

class page {
public:
    page(const findings &found, detail wanted) : found_(found), wanted_(wanted)
    {
        const char *without = std::getenv("NO_COLOR");
        const bool is_terminal = program::is_terminal(stdout);
        colours_ = is_terminal && (without == nullptr || *without == '\0');
        if (const std::size_t width = program::terminal_width(stdout); width >= 40)
            width_ = std::min<std::size_t>(width, 110);
    }
    void print();

private:
    void print_head() const;
    void print_file_problems() const;
    void print_table();
    void print_row(const adapter &each, const adapter *twin);
    void print_why(const group &alike) const;
    std::string lines_of(const group &alike) const;
    void print_output(const adapter &each) const;
    void print_attributes(const adapter &each, const adapter *before) const;
    void print_verdict() const;
    const adapter *twin_of(std::size_t index) const;
    group alike(std::size_t index) const;

    std::string painted(const std::string &text, int colour) const;
    void paragraph(const std::string &label, const std::string &text, int colour,
                   std::size_t indent) const;
    std::string file_name() const { return found_.file.path; }

    const findings &found_;
    detail wanted_;
    bool colours_ = false;
    std::size_t width_ = 100;
    std::size_t name_width_ = 7;
};

/// What a provider writes must not drive the terminal.
std::string printable(const std::string &text)
{
    std::string safe;
    for (const char c : text)
        safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    return safe;
}

std::string page::painted(const std::string &text, int colour) const
{
    if (!colours_ || colour == plain)
        return text;
    return "\x1b[" + std::to_string(colour) + "m" + text + "\x1b[0m";
}

/// A label, and the wrapped text to its right.
void page::paragraph(const std::string &label, const std::string &text, int colour,
                     std::size_t indent) const
{
    std::istringstream words(printable(text));
    std::string line;
    const std::size_t left = indent + label.size();
    const auto flush = [&](bool first) {
        std::printf("%*s%s%s\n", static_cast<int>(first ? indent : left), "",
                    first ? painted(label, dim).c_str() : "", painted(line, colour).c_str());
        line.clear();
    };
    bool first = true;
    for (std::string word; words >> word;) {
        if (!line.empty() && left + line.size() + 1 + word.size() > width_) {
            flush(first);
            first = false;
        }
        line += (line.empty() ? "" : " ") + word;
    }
    if (first || !line.empty())
        flush(first);
}

// -------------------------------------------------------------------------------------- the head

void page::print_head() const
{
    const registry_file &file = found_.file;
    paragraph("libdat2   ", found_.libdat2, plain, 0);
    std::string text = file.path.empty() ? "none" : file.path;
    if (!file.chosen_by.empty())
        text += ", named by " + file.chosen_by;
    else if (!file.path.empty())
        text += std::string(", the system's: ") +
                (found_.is_ours ? "DAT_OVERRIDE and DAT_CONF are" : "DAT_OVERRIDE is") + " not set";
    paragraph("dat.conf  ", text, plain, 0);
    if (const char *unused = std::getenv("DAT_CONF"); !found_.is_ours && unused != nullptr)
        paragraph("          ", "DAT_CONF is set, but this libdat2 ignores it", yellow, 0);
    print_file_problems();
}

void page::print_file_problems() const
{
    const registry_file &file = found_.file;
    for (const problem &each : file.problems)
        paragraph("          ",
                  file.where(each.number) + ": " + each.reason + "; the line is ignored", yellow,
                  0);
    std::size_t ignored = 0;
    for (const line &each : file.lines) {
        if (each.is_usable())
            continue;
        ++ignored;
        if (wanted_ == detail::all)
            paragraph("          ",
                      file.where(each.number) + ": " + each.name + " is ignored, because it is " +
                          (each.for_the_kernel ? "for the kernel" : "nondefault"),
                      dim, 0);
    }
    if (ignored != 0 && wanted_ != detail::all)
        paragraph("          ",
                  std::to_string(ignored) +
                      " lines are for the kernel or nondefault, and ignored; --verbose shows them",
                  dim, 0);
}

// ------------------------------------------------------------------------------------- the table

/// The other line of an adapter, if it fares alike: they share a row.
const adapter *page::twin_of(std::size_t index) const
{
    if (index + 1 >= found_.adapters.size())
        return nullptr;
    const adapter &one = found_.adapters[index], &next = found_.adapters[index + 1];
    const bool alike = one.name == next.name && one.is == next.is && one.reason == next.reason &&
                       one.api_major == next.api_major && one.api_minor == next.api_minor &&
                       one.thread_safe != next.thread_safe;
    return alike ? &next : nullptr;
}

/// An adapter with its twin, and in a list all that fail for the reason that it has.
group page::alike(std::size_t index) const
{
    const adapter &one = found_.adapters[index];
    const adapter *twin = twin_of(index);
    const auto fails_so = [&](const adapter &other) {
        return wanted_ == detail::list && one.is != state::opens && !one.lines.empty() &&
               !other.lines.empty() && other.is == one.is && other.reason == one.reason &&
               other.advice == one.advice &&
               other.lines.front()->library == one.lines.front()->library;
    };
    group members;
    for (std::size_t i = index; i < found_.adapters.size(); ++i) {
        const adapter &other = found_.adapters[i];
        if (&other == &one || &other == twin || fails_so(other))
            members.push_back(&other);
    }
    return members;
}

void page::print_table()
{
    for (const adapter &each : found_.adapters)
        name_width_ = std::max(name_width_, each.name.size());
    std::printf("\n%s\n", painted("adapter" + std::string(name_width_ - 7 + 2, ' ') +
                                      "thread safety  address          state",
                                  dim)
                              .c_str());
    std::set<const adapter *> printed;
    for (std::size_t i = 0; i < found_.adapters.size(); ++i) {
        const adapter &each = found_.adapters[i];
        if (printed.count(&each) != 0)
            continue;
        const adapter *twin = twin_of(i);
        const group members = alike(i);
        for (std::size_t j = 0; j < members.size(); ++j) {
            if (!printed.insert(members[j]).second)
                continue;
            const adapter *other = twin_of(static_cast<std::size_t>(members[j] - &each) + i);
            print_row(*members[j], other);
            if (other != nullptr)
                printed.insert(other);
        }
        print_why(members);
        if (wanted_ == detail::all || each.is != state::opens)
            print_output(each);
        if (wanted_ != detail::list) {
            print_attributes(each, nullptr);
            if (twin != nullptr)
                print_attributes(*twin, &each);
        }
    }
}

void page::print_row(const adapter &each, const adapter *twin)
{
    const std::string address = each.attribute_of("adapter", "ia_address");
    const int colour = each.is == state::opens ? green : each.is == state::not_ours ? dim : red;
    std::printf("%s%*s%-13s  %-15s  %s\n", painted(each.name, bold).c_str(),
                static_cast<int>(name_width_ - each.name.size() + 2), "",
                twin != nullptr ? "both" : safety_of(each.thread_safe),
                address.empty() ? "-" : address.c_str(), painted(name_of(each.is), colour).c_str());
}

/// The numbers of their lines, the library and the parameters.
std::string page::lines_of(const group &alike) const
{
    static constexpr std::size_t few = 8;
    std::vector<std::string> numbers, parameters;
    for (const adapter *each : alike)
        for (const line *one : each->lines) {
            numbers.push_back(std::to_string(one->number));
            if (std::ranges::find(parameters, one->parameters) == parameters.end())
                parameters.push_back(one->parameters);
        }
    const auto listed = [](const std::vector<std::string> &all, const char *quote,
                           const char *separator) {
        std::string text;
        for (std::size_t i = 0; i < std::min(all.size(), few); ++i)
            text += (i == 0 ? "" : separator) + (quote + all[i]) + quote;
        return text + (all.size() > few ? " and others" : "");
    };
    std::erase(parameters, "");
    const adapter &first = *alike.front();
    if (first.lines.empty())
        return file_name();
    return file_name() + ":" + listed(numbers, "", ",") + ": " + first.lines.front()->library +
           (parameters.empty() ? "" : ", parameters " + listed(parameters, "\"", ", "));
}

void page::print_why(const group &alike) const
{
    constexpr std::size_t indent = 4;
    const adapter &each = *alike.front();
    if (each.is != state::opens || wanted_ != detail::list)
        paragraph("at   ", lines_of(alike), plain, indent);
    if (!each.reason.empty())
        paragraph("why  ", each.reason, each.is == state::not_ours ? plain : red, indent);
    if (!each.advice.empty())
        paragraph("do   ", each.advice, plain, indent);
    if (!each.remark.empty())
        paragraph("note ", each.remark, yellow, indent);
}

void page::print_output(const adapter &each) const
{
    const std::size_t skipped = wanted_ == detail::all || each.output.size() <= few_lines
                                    ? 0
                                    : each.output.size() - few_lines;
    if (skipped != 0)
        std::printf(
            "    %s\n",
            painted("said " + std::to_string(skipped) + " lines more, which --verbose shows", dim)
                .c_str());
    for (std::size_t i = skipped; i < each.output.size(); ++i)
        std::printf("    %s%s\n", painted("said ", dim).c_str(), printable(each.output[i]).c_str());
}

// -------------------------------------------------------------------------------- the attributes

bool has_the_same(const adapter *before, const attribute &wanted)
{
    return before != nullptr && before->attribute_of(wanted.section, wanted.name) == wanted.value;
}

std::string value_of(const attribute &one)
{
    char text[32];
    if (one.kind != "address")
        return printable(one.value) + (one.kind == "bytes" ? " bytes" : "");
    std::snprintf(text, sizeof text, "0x%llx", std::strtoull(one.value.c_str(), nullptr, 10));
    return text;
}

/// Prints all attributes, or only attributes in which it differs from the line before.
void page::print_attributes(const adapter &each, const adapter *before) const
{
    std::string section;
    for (const attribute &one : each.attributes) {
        if (has_the_same(before, one))
            continue;
        if (one.section != section) {
            section = one.section;
            const std::string title =
                before == nullptr ? section
                                  : section + ", " + safety_of(each.thread_safe) + " differs";
            std::printf("\n    %s\n", painted(title, bold).c_str());
        }
        std::printf("      %-36s %s\n", printable(one.name).c_str(), value_of(one).c_str());
    }
}

void page::print_verdict() const
{
    std::size_t open = 0;
    for (const adapter &each : found_.adapters)
        open += each.is == state::opens;
    std::printf("\n%zu of %zu entries open\n", open, found_.adapters.size());
}

void page::print()
{
    print_head();
    if (!found_.trouble.empty())
        std::printf("\n");
    for (std::size_t i = 0; i < found_.trouble.size(); ++i)
        paragraph("", found_.trouble[i], i == 0 ? red : plain, i == 0 ? 0 : 4);
    if (wanted_ == detail::all)
        for (const std::string &each : found_.registry_output)
            std::printf("    %s%s\n", painted("said ", dim).c_str(), printable(each).c_str());
    if (!found_.adapters.empty()) {
        print_table();
        print_verdict();
    }
}

} // namespace

void print_text(const findings &found, detail wanted)
{
    page(found, wanted).print();
}

} // namespace dat_info
