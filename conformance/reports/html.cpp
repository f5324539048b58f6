// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One page that needs nothing beside it: it can be mailed, kept, and read without a network.
#include "reports/scorecard.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace conformance {
namespace {

constexpr const char *style = R"(
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #fff; --text: #1d2125; --soft: #626b75; --line: #e1e4e8;
  --passed: #1a7f4b; --failed: #c62f2f; --claim: #68727d; --waived: #9a6700; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171a; --card: #1b1f24; --text: #e4e7ea; --soft: #98a2ad; --line: #30363d;
  --passed: #4cc38a; --failed: #ff7b72; --claim: #8b96a1; --waived: #e0ac3b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem 4rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 0; }
.soft, dt { color: var(--soft); }
code, pre, .id { font-family: ui-monospace, monospace; font-size: .86em; }
.verdict { font-size: 1.1rem; font-weight: 600; margin: 1.2rem 0 .6rem; }
.bar { display: flex; height: .7rem; gap: 2px; border-radius: .35rem; overflow: hidden; }
.bar i { min-width: 3px; }
.passed { --mine: var(--passed); } .not-claimed { --mine: var(--claim); }
.waived { --mine: var(--waived); }
.failed, .unexpected-pass, .error { --mine: var(--failed); }
.bar i, .dot { background: var(--mine); }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; flex: none; }
.filters { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0 1.6rem; padding: 0;
  border: 0; }
.filters label { display: flex; align-items: center; gap: .45rem; padding: .25rem .8rem;
  border: 1px solid var(--line); border-radius: 2rem; background: var(--card); cursor: pointer; }
.filters input { position: absolute; opacity: 0; }
.filters label:has(input:not(:checked)) { color: var(--soft); border-style: dashed; }
.filters label:has(input:not(:checked)) .dot { background: none;
  box-shadow: inset 0 0 0 2px var(--mine); }
.filters label:has(:focus-visible) { outline: 2px solid var(--text); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  margin: 0 0 1rem; overflow: hidden; }
header { display: flex; align-items: baseline; gap: .7rem; padding: .7rem 1rem; }
header .soft { margin-left: auto; text-align: right; }
.case { border-top: 1px solid var(--line); }
.case > summary, .case > .row { display: grid; align-items: baseline; gap: .8rem;
  grid-template-columns: .6rem 6.2rem 1fr auto; padding: .38rem 1rem; }
.case > summary { cursor: pointer; list-style: none; }
.case > summary::-webkit-details-marker { display: none; }
.case > summary:hover { background: var(--page); }
.case > summary .text::after { content: " \25b8"; color: var(--soft); }
.case[open] > summary .text::after { content: " \25be"; }
.case .what { color: var(--mine); font-size: .86em; white-space: nowrap; }
.case.passed .what { color: var(--soft); }
.failed .text, .unexpected-pass .text, .error .text { font-weight: 600; }
.more { padding: .1rem 1rem 1rem 9.4rem; overflow-wrap: anywhere; }
.more p { margin: .4rem 0; }
.reason { color: var(--mine); }
pre { margin: .6rem 0 0; padding: .7rem; max-height: 22rem; overflow: auto; white-space: pre-wrap;
  background: var(--page); border: 1px solid var(--line); border-radius: .4rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); margin: 0;
  gap: .2rem 1.5rem; padding: 0 1rem 1rem; }
dl div { display: flex; justify-content: space-between; gap: 1rem; }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
time { white-space: nowrap; }
.hidden { display: none; }
@media (max-width: 40rem) { body { padding: 1.4rem .8rem 3rem; } .more { padding-left: 2.4rem; }
  header { flex-wrap: wrap; row-gap: 0; } header .soft { margin-left: 0; flex-basis: 100%; text-align: left; }
  .case > summary, .case > .row { grid-template-columns: .6rem 1fr auto; row-gap: .1rem; }
  .case .what { grid-area: 1 / 3; } .case .text { grid-area: 2 / 2 / auto / -1; } }
@media print { body { max-width: none; padding: 0; } .filters { display: none; } }
)";

constexpr const char *script = R"(
const boxes = [...document.querySelectorAll('.filters input')];
function filter() {
  for (const c of document.querySelectorAll('.case'))
    c.classList.toggle('hidden', !boxes.some(b => b.checked && c.classList.contains(b.value)));
  for (const s of document.querySelectorAll('section.group'))
    s.classList.toggle('hidden', !s.querySelector('.case:not(.hidden)'));
}
for (const b of boxes) b.addEventListener('change', filter);
filter();
)";

std::string escaped(const std::string &text)
{
    std::string safe;
    for (const char c : text) {
        switch (c) {
        case '&':
            safe += "&amp;";
            break;
        case '<':
            safe += "&lt;";
            break;
        case '>':
            safe += "&gt;";
            break;
        case '"':
            safe += "&quot;";
            break;
        default: // what a provider writes may hold anything
            safe += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
        }
    }
    return safe;
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

/// What is quick is not worth a look.
std::string notable(double seconds)
{
    return seconds < 0.5 ? "" : seconds_of(seconds);
}

/// So many failures are shown in full from the start.
constexpr unsigned few = 5;

bool is_bad(outcome what)
{
    return what == outcome::failed || what == outcome::unexpected_pass || what == outcome::error;
}

class page {
public:
    explicit page(const scorecard &card) : card_(card), counted_(card.count()) {}
    std::string text();

private:
    void head();
    void bar();
    void filters();
    void absence();
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

void page::head()
{
    const std::string title = "Scorecard of " + escaped(card_.adapter);
    out_ << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>"
         << title << "</title>\n<style>" << style << "</style>\n</head>\n<body>\n<h1>" << title
         << "</h1>\n<div class=\"soft\">dapl-conformance, "
         << (card_.thread_safe ? "thread-safe" : "one thread per object") << ", "
         << "<time>" << escaped(card_.date) << "</time>"
         << (card_.results.empty() ? "" : ", " + seconds_of(card_.seconds)) << "</div>\n";
}

void page::bar()
{
    out_ << "<div class=\"verdict\">" << escaped(counted_.text(true))
         << "</div>\n<div class=\"bar\">";
    each_outcome([&](outcome what, unsigned number) {
        out_ << "<i class=\"" << class_of(what) << "\" style=\"flex:" << number << "\" title=\""
             << number << " " << name_of(what) << "\"></i>";
    });
    out_ << "</div>\n";
}

/// What is wrong comes first: what passed is shown when it is asked for.
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

void page::absence()
{
    out_ << "<div class=\"verdict failed\"><span class=\"reason\">It cannot be "
            "judged</span></div>\n";
    paragraph("text", card_.on.reason);
    if (!card_.on.output.empty())
        out_ << "<pre>" << escaped(card_.on.output) << "</pre>\n";
}

void page::details(const result &each)
{
    out_ << "<div class=\"more\">\n";
    paragraph("reason", each.reason);
    for (const std::string &other : each.others)
        paragraph("soft", other);
    for (const std::string &note : each.notes)
        paragraph("note", note);
    if (each.what == outcome::failed || each.what == outcome::waived) {
        if (!each.about.hint.empty())
            out_ << "<p><b>Ports that fail this case typically</b> " << escaped(each.about.hint)
                 << "</p>\n";
        paragraph("soft id", each.where);
        if (!each.output.empty())
            out_ << "<pre>" << escaped(each.output) << "</pre>\n";
    }
    out_ << "</div>\n";
}

void page::one(const result &each)
{
    const bool folded = !each.reason.empty() || !each.notes.empty();
    const std::string columns =
        "<span class=\"dot\"></span><span class=\"id\">" + escaped(each.about.id) +
        "</span><span class=\"text\">" + escaped(each.about.text) + "</span><span class=\"what\">" +
        (each.what == outcome::passed ? notable(each.seconds) : name_of(each.what)) + "</span>";
    if (!folded) {
        out_ << "<div class=\"case " << class_of(each.what) << "\"><div class=\"row\">" << columns
             << "</div></div>\n";
        return;
    }
    const bool open = is_bad(each.what) && counted_.bad() <= few;
    out_ << "<details class=\"case " << class_of(each.what) << "\"" << (open ? " open" : "")
         << "><summary>" << columns << "</summary>\n";
    details(each);
    out_ << "</details>\n";
}

void page::group(const std::string &name)
{
    out_ << "<section class=\"group\">\n<header><h2>" << escaped(name) << "</h2><span>"
         << escaped(group_title(name)) << "</span><span class=\"soft\">"
         << escaped(card_.count(name).text(true)) << "</span></header>\n";
    for (const result &each : card_.results)
        if (each.about.group() == name)
            one(each);
    out_ << "</section>\n";
}

void page::adapter()
{
    out_ << "<section>\n<header><h2>Adapter attributes</h2></header>\n<dl>\n";
    for (const auto &[name, value] : card_.on.attributes)
        if (!value.empty())
            out_ << "<div><dt>" << escaped(name) << "</dt><dd>" << escaped(value)
                 << "</dd></div>\n";
    out_ << "</dl>\n</section>\n<p class=\"soft\">tested through <code>" << escaped(card_.libdat2)
         << "</code></p>\n";
}

std::string page::text()
{
    head();
    if (card_.on.is != device::state::open) {
        absence();
    } else {
        bar();
        filters();
        for (const std::string &name : card_.groups())
            group(name);
        adapter();
        out_ << "<script>" << script << "</script>\n";
    }
    out_ << "</body>\n</html>\n";
    return out_.str();
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
