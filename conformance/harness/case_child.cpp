// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/case_child.hpp"

#include "harness/runner.hpp"
#include "harness/silent_reporter.hpp"
#include "harness/support.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace conformance {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Further failures are only counted: a case may fail thousands of times in a loop.
constexpr unsigned most_failures = 12;
/// How long the release of a thread or connection may take.
constexpr milliseconds settling{1500};

std::string place(const char *file, int line)
{
    return fs::path(file).filename().string() + ":" + std::to_string(line);
}

void tell_failure(const std::string &reason, const std::string &where)
{
    static unsigned told = 0;
    if (told++ < most_failures)
        tell_json({{"failure", reason}, {"where", where}});
}

// --------------------------------------------------------------------------------------- reporter

/// "dat_evd_free" from "same_code(dat_evd_free(evd), ...)"; the outcome is reported separately.
std::string subject(const doctest::AssertData &data)
{
    const std::string text = data.m_expr;
    for (const char *comparison : {"same_code(", "same_type(", "same_event("})
        if (text.rfind(comparison, 0) == 0)
            return text.substr(std::strlen(comparison),
                               text.size() - std::strlen(comparison) - (text.back() == ')'));
    return text;
}

std::string reason_of(const doctest::AssertData &data)
{
    if (data.m_threw)
        return subject(data) + " threw " + data.m_exception.c_str();
    const std::string values = data.m_decomp.c_str();
    const bool telling = !values.empty() && values != "false" && values != data.m_expr;
    return telling ? values + ": " + subject(data) : "not true: " + subject(data);
}

std::string contexts()
{
    std::string text;
    const auto *active = doctest::IReporter::get_active_contexts();
    for (int i = 0; i < doctest::IReporter::get_num_active_contexts(); ++i) {
        std::ostringstream one;
        active[i]->stringify(&one);
        text += (text.empty() ? " [" : ", ") + one.str();
    }
    return text.empty() ? text : text + "]";
}

struct declined {};
bool the_case_declined = false;

struct telling_reporter : silent_reporter {
    explicit telling_reporter(const doctest::ContextOptions &) {}

    void log_assert(const doctest::AssertData &data) override
    {
        if (data.m_failed)
            tell_failure(reason_of(data) + contexts(), place(data.m_file, data.m_line));
    }
    void log_message(const doctest::MessageData &data) override
    {
        if (data.m_severity == doctest::assertType::is_warn)
            tell_json({{"note", data.m_string.c_str()}});
        else
            tell_failure(data.m_string.c_str() + contexts(), place(data.m_file, data.m_line));
    }
    void test_case_exception(const doctest::TestCaseException &data) override
    {
        if (!the_case_declined) // it was reported as not claimed
            tell_failure(std::string("an exception: ") + data.error_string.c_str(), "");
    }
};
DOCTEST_REGISTER_REPORTER("telling", 1, telling_reporter);

struct telling_judge final : judge {
    void not_claimed(const std::string &what) override { tell_json({{"not_claimed", what}}); }
    [[noreturn]] void decline(const std::string &reason, const std::string &call) override
    {
        the_case_declined = true;
        not_claimed(reason);
        tell_json({{"refused_call", call}});
        throw declined{};
    }
    void allow_seconds(unsigned seconds) override { tell_allowed(seconds); }
};

// ------------------------------------------------------------------------------------------ leaks

/// The multiset difference of `now` and `before`.
std::vector<std::string> grown(std::vector<std::string> before, std::vector<std::string> now)
{
    std::sort(before.begin(), before.end());
    std::sort(now.begin(), now.end());
    std::vector<std::string> more;
    std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                        std::back_inserter(more));
    return more;
}

std::string joined(const std::vector<std::string> &words)
{
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(words.size(), 8); ++i)
        text += (text.empty() ? "" : ", ") + words[i];
    return words.size() > 8 ? text + ", ..." : text;
}

void judge_leak(const std::vector<std::string> &before, const std::vector<std::string> &after,
                std::size_t allowed, const char *what)
{
    const std::size_t more = after.size() > before.size() ? after.size() - before.size() : 0;
    if (more > allowed)
        tell_failure("leaves " + std::to_string(more) + " " + what + (more > 1 ? "s" : "") +
                         " behind: " + joined(grown(before, after)),
                     "");
}

void judge_leaks(const belongings &before, const leeway &allowed)
{
    belongings after;
    (void)becomes_true(
        [&] {
            after = what_is_held();
            return after.descriptors.size() <= before.descriptors.size() + allowed.descriptors &&
                   after.threads.size() <= before.threads.size() + allowed.threads;
        },
        settling);
    judge_leak(before.descriptors, after.descriptors, allowed.descriptors, "descriptor");
    judge_leak(before.threads, after.threads, allowed.threads, "thread");
}

} // namespace

std::string case_argument(const rule &chosen, const leeway &allowed)
{
    return chosen.id + " " + std::to_string(allowed.descriptors) + " " +
           std::to_string(allowed.threads);
}

namespace {

void run_case(const std::string &argument)
{
    std::istringstream words(argument);
    std::string id;
    leeway allowed;
    words >> id >> allowed.descriptors >> allowed.threads;
    note_steps_in(static_cast<noted_step *>(program::shared_with_parent()));
    static telling_judge watching;
    set_judge(&watching);
    const belongings before = what_is_held();
    doctest::Context context;
    context.setOption("reporters", "telling");
    context.setOption("test-case", (id + ": *").c_str());
    const bool passed = context.run() == 0;
    set_judge(nullptr);
    if (passed) // a case that broke off has left things as they were
        judge_leaks(before, allowed);
    tell_json({{"complete", true}});
}

} // namespace

const program::job case_job("case", run_case);

findings read_findings(const std::vector<std::string> &lines)
{
    findings found;
    for (const std::string &line : lines) {
        const json what = json::parse(line, nullptr, false);
        if (what.is_discarded())
            continue; // the child died while it wrote the line
        if (what.contains("failure"))
            found.failures.push_back({what["failure"], what["where"]});
        else if (what.contains("note"))
            found.notes.push_back(what["note"]);
        else if (what.contains("not_claimed"))
            found.not_claimed = what["not_claimed"];
        else if (what.contains("refused_call"))
            found.refused_call = what["refused_call"];
        else if (what.contains("complete"))
            found.complete = true;
    }
    return found;
}

} // namespace conformance
