// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reports/scorecard.hpp"

#include "program/system.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <sstream>

namespace conformance {

namespace {

constexpr const char *outcome_names[outcomes] = {"passed",
                                                 "failed",
                                                 "not claimed",
                                                 "waived",
                                                 "unexpected pass",
                                                 "unexpected refusal",
                                                 "unexpected failure",
                                                 "error"};

bool contradicts_waiver(outcome what)
{
    return what == outcome::unexpected_pass || what == outcome::unexpected_refusal ||
           what == outcome::unexpected_failure;
}

// ---------------------------------------------------------------------------------------- judging

std::string seconds_text(double seconds)
{
    std::ostringstream text;
    text << seconds;
    return text.str();
}

/// Why the way the process ended is a failure, regardless of its report; "" if it is not.
std::string process_failure(const child_end &end, const findings &found)
{
    const std::string after = end.last_step.empty() ? "" : "; last call started: " + end.last_step;
    if (end.late)
        return "hangs: not finished after " + seconds_text(end.allowed) + " seconds" + after;
    const std::string &death = end.how.death;
    const bool killed = end.how.crashed();
    if (killed && !found.complete)
        return "crashes: " + death + after;
    if (killed)
        return "crashes at process exit: " + death;
    if (!found.complete)
        return "the process exits during the case, with " +
               (death.empty() ? "exit status 0" : death) + after;
    return death.empty() ? "" : "the process exits with " + death + " after the case is finished";
}

void take_findings(result &made, const findings &found)
{
    made.notes = found.notes;
    for (const findings::failure &each : found.failures) {
        if (made.reason.empty()) {
            made.reason = each.reason;
            made.where = each.where;
        } else {
            made.others.push_back(each.reason);
        }
    }
}

void apply_waiver(result &made, const waiver &known)
{
    const std::string about = known.reason + " (" + known.link + ")";
    const std::string needless =
        ", but is waived until " + known.until + ": remove the waiver: " + about;
    if (known.other_kernel) {
        if (made.what == outcome::failed)
            made.notes.push_back("its waiver is for kernels " + known.kernels + " only: " + about);
    } else if (known.expired) {
        made.notes.push_back("its waiver expired on " + known.until + ": " + about);
    } else if (made.what == outcome::failed && known.expects(made.reason)) {
        made.what = outcome::waived;
        made.notes.push_back("waived until " + known.until + ": " + about);
    } else if (made.what == outcome::failed) {
        made.what = outcome::unexpected_failure;
        std::string expected;
        for (const std::string &each : known.failures)
            expected += (expected.empty() ? "\"" : ", or \"") + each + "\"";
        made.notes.push_back("fails differently than its waiver says: expected " + expected + ": " +
                             about);
    } else if (made.what == outcome::passed && !known.flaky) {
        made.what = outcome::unexpected_pass;
        made.reason = "passes" + needless;
    } else if (made.what == outcome::not_claimed && !known.flaky) {
        made.what = outcome::unexpected_refusal;
        made.reason += ": not claimed" + needless;
    }
}

} // namespace

const char *name_of(outcome what)
{
    return outcome_names[static_cast<std::size_t>(what)];
}

bool is_bad(outcome what)
{
    return is_failure(what) || contradicts_waiver(what) || what == outcome::error;
}

bool is_failure(outcome what)
{
    return what == outcome::failed || what == outcome::unexpected_failure;
}

result judge_end(const rule &about, const child_end &end, const waivers &known)
{
    result made;
    made.about = about;
    made.seconds = end.seconds;
    made.output = end.output;
    if (!end.trouble.empty()) {
        made.reason = "the suite could not run the case: " + end.trouble;
        return made;
    }
    const findings found = read_findings(end.lines);
    made.reason = process_failure(end, found);
    take_findings(made, found);
    if (!made.reason.empty()) {
        made.what = outcome::failed;
    } else if (!found.not_claimed.empty()) {
        made.what = outcome::not_claimed;
        made.reason = found.not_claimed;
        made.refused_call = found.refused_call;
    } else {
        made.what = outcome::passed;
    }
    if (const auto one = known.find(about.id); one != known.end())
        apply_waiver(made, one->second);
    return made;
}

// --------------------------------------------------------------------------------------- counting

unsigned tally::total() const
{
    return std::accumulate(numbers.begin(), numbers.end(), 0u);
}

unsigned tally::bad() const
{
    unsigned sum = 0;
    for (std::size_t i = 0; i < outcomes; ++i)
        sum += is_bad(static_cast<outcome>(i)) ? numbers[i] : 0;
    return sum;
}

std::string tally::text(bool in_short) const
{
    std::string text;
    for (std::size_t i = 0; i < outcomes; ++i) {
        const bool rare = contradicts_waiver(static_cast<outcome>(i));
        if (numbers[i] == 0 && (in_short || rare))
            continue;
        std::string name = outcome_names[i];
        if (static_cast<outcome>(i) == outcome::error && numbers[i] != 1)
            name = "errors";
        if (rare && numbers[i] != 1)
            name = name == "unexpected pass" ? "unexpected passes" : name + "s";
        text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]) + " " + name;
    }
    return text;
}

tally scorecard::count() const
{
    tally counted;
    for (const result &each : results)
        ++counted[each.what];
    return counted;
}

tally scorecard::count(const std::string &group) const
{
    tally counted;
    for (const result &each : results)
        if (each.about.group() == group)
            ++counted[each.what];
    return counted;
}

std::vector<std::string> scorecard::groups() const
{
    std::vector<std::string> names;
    for (const result &each : results)
        if (names.empty() || names.back() != each.about.group())
            names.push_back(each.about.group());
    return names;
}

unsigned scorecard::passed_on_repetition() const
{
    return static_cast<unsigned>(
        std::count_if(results.begin(), results.end(),
                      [](const result &each) { return !each.failed_at_first.empty(); }));
}

// --------------------------------------------------------------------------------------- terminal

namespace {

enum colour { plain = 0, bold = 1, dim = 2, red = 31, green = 32, yellow = 33 };

constexpr std::size_t indent = 10;
/// Interval of progress lines without a terminal.
constexpr double silence = 15;
/// Lines of a case's output that are shown: a sanitizer's report says what it found in the first.
constexpr std::size_t first_output_lines = 40;
constexpr std::size_t last_output_lines = 12;

std::size_t width_of(std::FILE *out)
{
    const std::size_t width = program::terminal_width(out);
    return width >= 40 ? width : 100;
}

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// Lines of at most `width` characters, broken between words.
std::vector<std::string> wrapped(const std::string &text, std::size_t width)
{
    std::vector<std::string> lines(1);
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
            lines.emplace_back();
        lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    return lines;
}

int colour_of(outcome what)
{
    switch (what) {
    case outcome::passed:
        return green;
    case outcome::not_claimed:
        return dim;
    case outcome::waived:
        return yellow;
    default:
        return red;
    }
}

} // namespace

terminal::terminal(std::FILE *out) : out_(out), live_(program::is_terminal(out)), shown_(now())
{
    const char *without = std::getenv("NO_COLOR");
    colours_ = live_ && (without == nullptr || *without == '\0');
}

std::string terminal::painted(const std::string &text, int colour) const
{
    if (!colours_ || colour == plain)
        return text;
    return "\x1b[" + std::to_string(colour) + "m" + text + "\x1b[0m";
}

void terminal::progress(std::size_t done, std::size_t all, const tally &so_far, unsigned running)
{
    if (now() - shown_ < (live_ ? 0.1 : silence))
        return;
    shown_ = now();
    std::fprintf(out_, "%s%zu of %zu cases, %u running%s%s%s", live_ ? "\r\x1b[K" : "", done, all,
                 running, so_far.total() != 0 ? ": " : "", so_far.text(true).c_str(),
                 live_ ? "" : "\n");
    std::fflush(out_);
}

void terminal::clear_progress()
{
    if (live_)
        std::fputs("\r\x1b[K", out_);
}

void terminal::say(const char *line)
{
    clear_progress();
    std::fprintf(out_, "%s\n", line);
    std::fflush(out_);
}

void terminal::show_failure(const result &each)
{
    clear_progress();
    std::fprintf(out_, "%s: %s\n", painted(each.about.id, bold).c_str(),
                 painted(each.reason, colour_of(each.what)).c_str());
    std::fflush(out_);
}

/// A label, and the text to its right.
void terminal::paragraph(const std::string &label, const std::string &text, int colour) const
{
    const std::size_t room = std::max<std::size_t>(width_of(out_) - indent - 2, 20);
    bool first = true;
    for (const std::string &line : wrapped(text, room)) {
        const std::string left = first ? label : "";
        std::fprintf(out_, "  %s%*s%s\n", painted(left, bold).c_str(),
                     static_cast<int>(indent - std::min(left.size(), indent)), "",
                     painted(line, colour).c_str());
        first = false;
    }
}

void terminal::show_header(const scorecard &card) const
{
    std::fprintf(out_, "%s%s\n", painted("dapl-conformance: adapter " + card.adapter, bold).c_str(),
                 card.thread_safe ? ", thread-safe" : "");
    for (const char *wanted : {"adapter", "vendor", "provider"})
        for (const attribute &each : card.on.attributes)
            if (each.name == wanted && !each.value.empty() && each.value != card.adapter)
                paragraph(each.name, each.text());
    paragraph("libdat2", card.libdat2);
}

void terminal::show_groups(const scorecard &card) const
{
    std::fputs("\n", out_);
    for (const std::string &group : card.groups()) {
        const tally counted = card.count(group);
        std::fprintf(out_, "  %s%*s%-34s %s\n", painted(group, bold).c_str(),
                     static_cast<int>(indent - std::min(group.size(), indent - 1)), "",
                     group_title(group).c_str(),
                     painted(counted.text(true), counted.bad() != 0 ? red : green).c_str());
    }
}

void terminal::show_output(const std::string &output) const
{
    std::vector<std::string> lines;
    std::istringstream text(output);
    for (std::string line; std::getline(text, line);)
        lines.push_back(line);
    const auto show_line = [&](const std::string &line) {
        std::fprintf(out_, "  %*s%s\n", static_cast<int>(indent), "",
                     painted("| " + line, dim).c_str());
    };
    const std::size_t most = first_output_lines + last_output_lines;
    const std::size_t left_out = lines.size() > most ? lines.size() - most : 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (left_out != 0 && i == first_output_lines) {
            show_line("... " + std::to_string(left_out) + " lines are left out; --json has them");
            i += left_out;
        }
        show_line(lines[i]);
    }
}

void terminal::show_result(const result &each) const
{
    paragraph(each.about.id, each.about.text, bold);
    paragraph("", each.where.empty() ? each.reason : each.reason + " (" + each.where + ")",
              colour_of(each.what));
    if (!each.others.empty())
        paragraph("", "and " + std::to_string(each.others.size()) + " more failed checks", dim);
    for (const std::string &note : each.notes)
        paragraph("", note);
    if (is_failure(each.what) && !each.about.hint.empty())
        paragraph("", "Ports that fail this case typically " + each.about.hint);
    if (is_failure(each.what))
        show_output(each.output);
}

void terminal::show_results(const scorecard &card, outcome what) const
{
    if (card.count()[what] == 0)
        return;
    std::fprintf(out_, "\n%s\n", painted(name_of(what), colour_of(what)).c_str());
    for (const result &each : card.results) {
        if (each.what != what)
            continue;
        if (what == outcome::not_claimed)
            paragraph(each.about.id, each.reason);
        else
            show_result(each);
    }
}

void terminal::show_repeated(const scorecard &card) const
{
    if (card.passed_on_repetition() == 0)
        return;
    std::fprintf(out_, "\n%s\n", painted("passed on repetition, alone", yellow).c_str());
    for (const result &each : card.results)
        if (!each.failed_at_first.empty())
            paragraph(each.about.id, "at first: " + each.failed_at_first);
}

void terminal::show(const scorecard &card) const
{
    show_header(card);
    show_groups(card);
    for (outcome what : {outcome::not_claimed, outcome::waived, outcome::unexpected_pass,
                         outcome::unexpected_refusal, outcome::unexpected_failure, outcome::error,
                         outcome::failed})
        show_results(card, what);
    show_repeated(card);
    const tally counted = card.count();
    std::fprintf(out_, "\n%s\n", painted(counted.text(), counted.bad() != 0 ? red : green).c_str());
    const unsigned repeated = card.passed_on_repetition();
    std::fprintf(
        out_, "%u cases, %.0f seconds%s\n", counted.total(), card.seconds,
        repeated == 0 ? "" : (", " + std::to_string(repeated) + " passed on repetition").c_str());
    std::fflush(out_);
}

void terminal::show_absence(const scorecard &card) const
{
    std::fprintf(
        out_, "%s\n",
        painted("dapl-conformance: adapter " + card.adapter + " cannot be tested", red).c_str());
    paragraph("why", card.on.reason);
    if (!card.on.output.empty())
        std::fputs("  output:\n", out_);
    show_output(card.on.output);
    std::fflush(out_);
}

} // namespace conformance
