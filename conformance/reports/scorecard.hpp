// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The outcomes of the cases, and their report on a terminal.
#pragma once

#include "harness/catalogue.hpp"
#include "harness/device.hpp"
#include "harness/runner.hpp"
#include "waivers/waivers.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace conformance {

enum class outcome {
    passed,
    failed,
    not_claimed,        ///< the adapter lacks a feature that the case needs, and says so properly
    waived,             ///< it fails, which is known
    unexpected_pass,    ///< it passes although it is waived
    unexpected_refusal, ///< it is not claimed although it is waived
    unexpected_failure, ///< it fails differently than its waiver says
    error,              ///< we could not judge it
};
inline constexpr std::size_t outcomes = 8;
/// The name of an outcome in the summary and the reports.
const char *name_of(outcome what);
/// Whether it fails the run.
bool is_bad(outcome what);
/// Whether the case failed, and not in the way that its waiver expects.
bool is_failure(outcome what);

struct result {
    rule about;
    outcome what = outcome::error;
    std::string reason;
    std::string refused_call;        ///< refused call that ended a case that is not claimed
    std::string where;               ///< file and line of the check, if it was one
    std::vector<std::string> others; ///< further failed checks
    std::vector<std::string> notes;
    std::string output; ///< text written while it ran
    /// The first failure of a case that failed beside others and passed when repeated alone.
    std::string failed_at_first;
    double seconds = 0;
};

/// Determines the outcome of a case from the end of its child.
result judge_end(const rule &about, const child_end &end, const waivers &known);

struct tally {
    std::array<unsigned, outcomes> numbers{};

    unsigned &operator[](outcome what) { return numbers[static_cast<std::size_t>(what)]; }
    unsigned operator[](outcome what) const { return numbers[static_cast<std::size_t>(what)]; }
    unsigned total() const;
    unsigned bad() const;
    /// "228 passed, 0 failed, 2 not claimed, 0 waived, 0 errors"; in the short form without zeros.
    std::string text(bool in_short = false) const;
};

struct scorecard {
    std::string adapter;
    bool thread_safe = false;
    std::string libdat2;
    std::string date;
    device on;
    double seconds = 0;
    std::vector<result> results; ///< results in the order of the catalogue

    tally count() const;
    tally count(const std::string &group) const;
    std::vector<std::string> groups() const;
    /// Cases that passed when they were repeated, and not before.
    unsigned passed_on_repetition() const;
};

class terminal {
public:
    explicit terminal(std::FILE *out);

    void progress(std::size_t done, std::size_t all, const tally &so_far, unsigned running);
    void clear_progress();
    void say(const char *line);
    /// A failure, when it is seen.
    void show_failure(const result &each);
    void show(const scorecard &card) const;
    void show_absence(const scorecard &card) const;

private:
    std::string painted(const std::string &text, int colour) const;
    void paragraph(const std::string &label, const std::string &text, int colour = 0) const;
    void show_header(const scorecard &card) const;
    void show_groups(const scorecard &card) const;
    void show_results(const scorecard &card, outcome what) const;
    void show_result(const result &each) const;
    void show_repeated(const scorecard &card) const;
    void show_output(const std::string &output) const;

    std::FILE *out_;
    bool live_;
    bool colours_;
    double shown_ = 0;
};

void write_json(const scorecard &card, const std::string &path);
void write_junit(const scorecard &card, const std::string &path);
void write_html(const scorecard &card, const std::string &path);

} // namespace conformance
