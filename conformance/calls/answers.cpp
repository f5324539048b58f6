// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "calls/answers.hpp"

#include "harness/runner.hpp"
#include "program/json.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <sys/wait.h>

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

/// Runs in the child.
void make_all(const probing &of)
{
    this_is_a_peer(); // says on standard error what cannot be set up
    for (std::size_t i = 0; i < of.calls.size(); ++i) {
        const probing::outcome made = of.make(i);
        if (!made.entered)
            return;
        if (made.told)
            tell(std::to_string(i) + " " + code_name(*made.told));
    }
}

/// The answers as the child told them; empty where there is none.
std::vector<std::string> answers_of(const probing &of, const child_end &end)
{
    std::vector<std::string> answers(of.calls.size());
    for (const std::string &line : end.lines) {
        std::istringstream words(line);
        std::size_t place = answers.size();
        std::string text;
        words >> place;
        std::getline(words >> std::ws, text);
        if (place < answers.size())
            answers[place] = text;
    }
    return answers;
}

bool ended_well(const probing &of, const child_end &end)
{
    if (end.trouble.empty() && !end.late && (end.death().empty() || is_decline(end.status)))
        return true;
    std::fprintf(stderr, "%s, %s: %s\n%s\n", of.object.c_str(), of.state.c_str(),
                 end.late ? "hangs" : (end.trouble + end.death()).c_str(), end.output.c_str());
    return false;
}

/// By object, then by call, then by state.
void add_answers(program::json &all, const probing &of, const std::vector<std::string> &answers)
{
    program::json &rows = all[of.object];
    for (std::size_t i = 0; i < answers.size(); ++i) {
        const auto &[call, how] = of.calls[i];
        program::json &row = rows[call + (how.empty() ? "" : ", " + how)];
        row[of.state] = answers[i].empty() ? program::json() : program::json(answers[i]);
    }
}

} // namespace

bool record_answers(const std::string &file, unsigned jobs, double seconds)
{
    ::setenv("DAPL_COUNTERS", "1", 0); // for the calls that read them
    const std::vector<probing> all = all_probings();
    std::vector<std::vector<std::string>> answers(all.size());
    bool well = true;
    std::vector<child_task> tasks;
    for (std::size_t i = 0; i < all.size(); ++i) {
        child_task task;
        task.work = [&of = all[i]] { make_all(of); };
        task.done = [&, i](const child_end &end) {
            answers[i] = answers_of(all[i], end);
            well = ended_well(all[i], end) && well;
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
