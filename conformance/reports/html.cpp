// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The scorecard as one self-contained page, which can be mailed and read without a network.
#include "reports/markup.hpp"
#include "reports/scorecard.hpp"

#include "page_template.hpp"
#include "program/origin.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace conformance {
namespace {

/// Replaces each mark in the page. The replacement is not searched again.
void fill_in(std::string &page, const std::string &mark, const std::string &text)
{
    for (std::size_t at = 0; (at = page.find(mark, at)) != std::string::npos; at += text.size())
        page.replace(at, mark.size(), text);
}

std::string class_of(outcome what)
{
    std::string name = name_of(what);
    for (char &c : name)
        c = c == ' ' ? '-' : c;
    return name;
}

std::string seconds_of(double seconds)
{
    char text[32];
    std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
    return text;
}

/// Empty for short times.
std::string notable(double seconds)
{
    return seconds < 0.5 ? "" : seconds_of(seconds);
}

/// The number of failures up to which all are expanded initially.
constexpr unsigned few = 5;

class page {
public:
    explicit page(const scorecard &card) : card_(card), counted_(card.count()) {}
    std::string text();

private:
    void content();
    void subtitle();
    std::string repeated_text() const;
    void bar();
    void filters();
    void index();
    void absence();
    void output(const std::string &text);
    void group(const std::string &name);
    void one(const result &each);
    void details(const result &each);
    void adapter();
    void paragraph(const char *kind, const std::string &text);
    template <class Work>
    void each_outcome(Work work);

    const scorecard &card_;
    tally counted_;
    std::ostringstream out_;
};

void page::paragraph(const char *kind, const std::string &text)
{
    if (!text.empty())
        out_ << "<p class=\"" << kind << "\">" << escaped(text) << "</p>\n";
}

template <class Work>
void page::each_outcome(Work work)
{
    for (std::size_t i = 0; i < outcomes; ++i)
        if (counted_.numbers[i] != 0)
            work(static_cast<outcome>(i), counted_.numbers[i]);
}

void page::subtitle()
{
    out_ << "<div class=\"soft\">dapl-conformance, "
         << (card_.thread_safe ? "thread-safe" : "one thread per object") << ", "
         << "<time>" << escaped(card_.date) << "</time>"
         << (card_.results.empty() ? "" : ", " + seconds_of(card_.seconds)) << "</div>\n";
}

std::string page::repeated_text() const
{
    const unsigned number = card_.passed_on_repetition();
    return number == 0 ? "" : "; " + std::to_string(number) + " passed on repetition";
}

void page::bar()
{
    out_ << "<div class=\"verdict\">" << escaped(counted_.text(true)) << repeated_text()
         << "</div>\n<div class=\"bar\">";
    each_outcome([&](outcome what, unsigned number) {
        out_ << "<i class=\"" << class_of(what) << "\" style=\"flex:" << number << "\" title=\""
             << number << " " << name_of(what) << "\"></i>";
    });
    out_ << "</div>\n";
}

/// Passed cases are hidden initially if there are failures.
void page::filters()
{
    out_ << "<fieldset class=\"filters\" aria-label=\"Show\">\n";
    each_outcome([&](outcome what, unsigned number) {
        const bool shown = what != outcome::passed || counted_.bad() == 0;
        out_ << "<label class=\"" << class_of(what) << "\"><input type=\"checkbox\""
             << (shown ? " checked" : "") << " value=\"" << class_of(what)
             << "\"><span class=\"dot\"></span>" << number << " " << name_of(what) << "</label>\n";
    });
    out_ << "</fieldset>\n";
}

void page::index()
{
    out_ << "<nav aria-label=\"Groups\">\n";
    for (const std::string &name : card_.groups()) {
        const unsigned bad = card_.count(name).bad();
        out_ << "<a href=\"#" << escaped(name) << "\"" << (bad != 0 ? " class=\"failed\"" : "")
             << ">" << escaped(name) << (bad != 0 ? " " + std::to_string(bad) : "") << "</a>\n";
    }
    out_ << "</nav>\n";
}

void page::absence()
{
    out_ << "<div class=\"verdict failed\"><span class=\"reason\">Cannot be "
            "tested</span></div>\n";
    paragraph("text", card_.on.reason);
    output(card_.on.output);
}

/// What the provider said, if it said anything.
void page::output(const std::string &text)
{
    if (!text.empty())
        out_ << "<pre>" << escaped(text) << "</pre>\n";
}

void page::details(const result &each)
{
    out_ << "<div class=\"more\">\n";
    paragraph("reason", each.refused_call.empty()
                            ? each.reason
                            : each.refused_call + " answers that it is not supported.");
    if (!each.refused_call.empty())
        paragraph("soft", "In a port that is made with the kit, dapl-port status --results names "
                          "the place to fill in.");
    if (!each.failed_at_first.empty())
        paragraph("note", "Passed when it was repeated alone; at first: " + each.failed_at_first);
    for (const std::string &other : each.others)
        paragraph("soft", other);
    for (const std::string &note : each.notes)
        paragraph("note", note);
    if (is_failure(each.what) || each.what == outcome::waived) {
        if (!each.about.hint.empty())
            out_ << "<p><b>Ports that fail this case typically</b> " << escaped(each.about.hint)
                 << "</p>\n";
        paragraph("soft id", each.where);
    }
    if (is_failure(each.what) || each.what == outcome::waived || each.what == outcome::not_claimed)
        output(each.output);
    out_ << "</div>\n";
}

void page::one(const result &each)
{
    const bool repeated = !each.failed_at_first.empty();
    const bool folded = !each.reason.empty() || !each.notes.empty() || repeated;
    const std::string columns = "<span class=\"dot\"></span><span class=\"id\">" +
                                escaped(each.about.id) + "</span><span class=\"text\">" +
                                escaped(each.about.text) + "</span><span class=\"what\">" +
                                (repeated ? std::string("passed on repetition")
                                 : each.what == outcome::passed ? notable(each.seconds)
                                                                : name_of(each.what)) +
                                "</span>";
    if (!folded) {
        out_ << "<div id=\"" << escaped(each.about.id) << "\" class=\"case " << class_of(each.what)
             << "\"><div class=\"row\">" << columns << "</div></div>\n";
        return;
    }
    const bool open = is_bad(each.what) && counted_.bad() <= few;
    out_ << "<details id=\"" << escaped(each.about.id) << "\" class=\"case " << class_of(each.what)
         << "\"" << (open ? " open" : "") << "><summary>" << columns << "</summary>\n";
    details(each);
    out_ << "</details>\n";
}

void page::group(const std::string &name)
{
    out_ << "<section class=\"group\" id=\"" << escaped(name) << "\">\n<header><h2>"
         << escaped(name) << "</h2><span>" << escaped(group_title(name))
         << "</span><span class=\"soft\">" << escaped(card_.count(name).text(true))
         << "</span></header>\n";
    for (const result &each : card_.results)
        if (each.about.group() == name)
            one(each);
    out_ << "</section>\n";
}

void page::adapter()
{
    out_ << "<section>\n<header><h2>Adapter attributes</h2></header>\n<dl>\n";
    for (const attribute &each : card_.on.attributes)
        if (!each.value.empty())
            out_ << "<div><dt>" << escaped(each.name) << "</dt><dd>" << escaped(each.text())
                 << "</dd></div>\n";
    const program::origin &made = program::this_origin();
    out_ << "</dl>\n</section>\n<p class=\"soft\">tested through <code>" << escaped(card_.libdat2)
         << "</code></p>\n<p class=\"soft\">" << escaped(made.program) << ", "
         << escaped(made.text()) << "</p>\n<p class=\"soft\">options: <code>";
    for (const std::string &each : made.arguments)
        out_ << escaped(each) << " ";
    out_ << "</code></p>\n";
}

void page::content()
{
    subtitle();
    if (card_.on.is != device::state::open) {
        absence();
        return;
    }
    bar();
    filters();
    index();
    for (const std::string &name : card_.groups())
        group(name);
    adapter();
}

std::string page::text()
{
    content();
    std::string text = page_template;
    fill_in(text, "@title@", "Scorecard of " + escaped(card_.adapter));
    fill_in(text, "@content@", out_.str());
    return text;
}

} // namespace

void write_html(const scorecard &card, const std::string &path)
{
    std::ofstream file(path);
    file << page(card).text();
    if (!file.flush())
        throw std::runtime_error(path + ": cannot write file");
}

} // namespace conformance
