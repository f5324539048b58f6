// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "calls/answers.hpp"

#include "harness/runner.hpp"
#include "program/json.hpp"
#include "program/system.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace conformance {
namespace {

std::vector<probing> all_probings()
{
    std::vector<probing> all;
    for (auto *of :
         {library_probings, handle_probings, adapter_probings, evd_probings, cno_probings,
          endpoint_probings, connection_probings, memory_probings, shared_queue_probings})
        for (probing &each : of())
            all.push_back(std::move(each));
    return all;
}

std::string row_name(const probing::row &row)
{
    return row.call + (row.how.empty() ? "" : ", " + row.how);
}

/// Runs in the child. Tells the number of each call before it is made, and once more with its
/// answer.
void make_all(const std::string &number)
{
    const probing of = std::move(all_probings().at(std::stoul(number)));
    this_is_a_peer(); // says on standard error what cannot be set up
    for (std::size_t i = 0; i < of.calls.size(); ++i) {
        tell(std::to_string(i));
        const probing::outcome made = of.make(i);
        if (!made.entered)
            return;
        if (made.told)
            tell(std::to_string(i) + " " + code_name(*made.told));
    }
}
const program::job answers_job("answers", make_all);

struct told_answers {
    std::vector<std::string> answers; ///< empty where there is none
    std::size_t last = 0;             ///< call that was made
};

told_answers answers_of(const probing &of, const child_end &end)
{
    told_answers told{std::vector<std::string>(of.calls.size())};
    for (const std::string &line : end.lines) {
        std::istringstream words(line);
        std::string text;
        words >> told.last;
        std::getline(words >> std::ws, text);
        told.answers.at(told.last) = text;
    }
    return told;
}

bool ended_well(const probing &of, const child_end &end, std::size_t last)
{
    if (end.trouble.empty() && !end.late &&
        (end.how.death.empty() || is_decline(end.how.exit_status)))
        return true;
    std::fprintf(stderr, "%s, %s, %s: %s\n%s\n", of.object.c_str(), of.state.c_str(),
                 row_name(of.calls[last]).c_str(),
                 end.late ? "hangs" : (end.trouble + end.how.death).c_str(), end.output.c_str());
    return false;
}

/// By object, then by call, then by state.
void add_answers(program::json &all, const probing &of, const std::vector<std::string> &answers)
{
    program::json &rows = all[of.object];
    for (std::size_t i = 0; i < answers.size(); ++i) {
        program::json &row = rows[row_name(of.calls[i])];
        row[of.state] = answers[i].empty() ? program::json() : program::json(answers[i]);
    }
}

} // namespace

bool record_answers(const std::string &file, unsigned jobs, double seconds)
{
    if (std::getenv("DAPL_COUNTERS") == nullptr)
        program::set_variable("DAPL_COUNTERS", "1"); // some calls read the counters
    const std::vector<probing> all = all_probings();
    std::vector<std::vector<std::string>> answers(all.size());
    bool well = true;
    std::vector<child_task> tasks;
    for (std::size_t i = 0; i < all.size(); ++i) {
        child_task task;
        task.work = &answers_job;
        task.argument = std::to_string(i);
        task.done = [&, i](const child_end &end) {
            told_answers told = answers_of(all[i], end);
            well = ended_well(all[i], end, told.last) && well;
            answers[i] = std::move(told.answers);
        };
        task.seconds = seconds;
        tasks.push_back(std::move(task));
    }
    well = run_children(std::move(tasks), jobs, [](unsigned) {}) == 0 && well;
    program::json objects = program::json::object();
    for (std::size_t i = 0; i < all.size(); ++i)
        add_answers(objects, all[i], answers[i]);
    program::write_json(file, {{"adapter", the_settings().ia}, {"answers", objects}});
    return well;
}

} // namespace conformance
