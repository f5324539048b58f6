// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/runner.hpp"

#include "harness/support.hpp"
#include "program/system.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace conformance {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 256 * 1024;
constexpr milliseconds tick_time{100};
/// The first character of a line for the runner itself.
constexpr char allowance_mark = '\x01';

volatile std::sig_atomic_t stop_signal = 0;

void on_stop(int signal)
{
    stop_signal = signal;
}

// ------------------------------------------------------------------------------------------ child

/// The text of the child's last step: "dat_pz_create(ia, &pz), mem_test.cpp:80".
std::string text_of(const noted_step *noted)
{
    const step *const last = step_in(*noted);
    if (last == nullptr)
        return "";
    return std::string(last->call) + ", " + std::filesystem::path(last->file).filename().string() +
           ":" + std::to_string(last->line);
}

class child {
public:
    explicit child(child_task task) : task_(std::move(task)), began_(clock::now())
    {
        end_.allowed = task_.seconds;
    }

    bool start()
    {
        end_.trouble = process_.start(*task_.work, task_.argument);
        return end_.trouble.empty();
    }
    /// True once it has ended.
    bool look();
    void finish() { task_.done(end_); }
    program::child_process *process() { return &process_; }

private:
    void read();
    void take_lines();
    void take_step()
    {
        end_.last_step = text_of(static_cast<const noted_step *>(process_.shared()));
    }
    double age() const { return std::chrono::duration<double>(clock::now() - began_).count(); }

    child_task task_;
    clock::time_point began_;
    program::child_process process_;
    std::string unread_;
    child_end end_;
};

void child::read()
{
    process_.read(unread_, end_.output);
    if (end_.output.size() > most_output)
        end_.output.resize(most_output);
    take_lines();
}

void child::take_lines()
{
    for (auto at = unread_.find('\n'); at != std::string::npos; at = unread_.find('\n')) {
        if (unread_[0] == allowance_mark)
            end_.allowed = std::max(end_.allowed, std::atof(unread_.c_str() + 1));
        else
            end_.lines.push_back(unread_.substr(0, at));
        unread_.erase(0, at + 1);
    }
}

bool child::look()
{
    read();
    if (process_.has_ended(end_.how)) {
        end_.seconds = age();
        read();
        take_step();
        return true;
    }
    if (age() <= end_.allowed)
        return false;
    end_.late = true;
    end_.seconds = age();
    take_step();
    process_.kill();
    read();
    return true;
}

// ------------------------------------------------------------------------------------------- all

class pool {
public:
    pool(std::vector<child_task> tasks, unsigned jobs) : jobs_(jobs)
    {
        for (child_task &task : tasks)
            (task.alone ? lonely_ : waiting_).push_back(std::move(task));
    }

    bool busy() const { return !waiting_.empty() || !lonely_.empty() || !running_.empty(); }
    unsigned running() const { return static_cast<unsigned>(running_.size()); }
    void turn();

private:
    void start_some();
    void start(std::deque<child_task> &from);
    void wait_for_any() const;
    void take_ended();

    unsigned jobs_;
    std::deque<child_task> waiting_;
    std::deque<child_task> lonely_;
    std::vector<std::unique_ptr<child>> running_;
};

void pool::start(std::deque<child_task> &from)
{
    auto made = std::make_unique<child>(std::move(from.front()));
    from.pop_front();
    if (made->start())
        running_.push_back(std::move(made));
    else
        made->finish();
}

void pool::start_some()
{
    while (!waiting_.empty() && running_.size() < jobs_)
        start(waiting_);
    if (waiting_.empty() && running_.empty() && !lonely_.empty())
        start(lonely_);
}

void pool::wait_for_any() const
{
    std::vector<program::child_process *> waiting;
    for (const auto &each : running_)
        waiting.push_back(each->process());
    program::child_process::wait_for_any(waiting, tick_time);
}

void pool::take_ended()
{
    for (auto each = running_.begin(); each != running_.end();) {
        if (!(*each)->look()) {
            ++each;
            continue;
        }
        (*each)->finish();
        each = running_.erase(each);
    }
}

void pool::turn()
{
    start_some();
    wait_for_any();
    take_ended();
    if (running_.empty())
        program::end_strays();
}

} // namespace

int run_children(std::vector<child_task> tasks, unsigned jobs,
                 const std::function<void(unsigned running)> &tick)
{
    program::catch_ends(on_stop);
    pool all(std::move(tasks), std::max(jobs, 1u));
    while (all.busy() && stop_signal == 0) {
        all.turn();
        tick(all.running());
    }
    return stop_signal;
}

void tell(const std::string &line)
{
    program::report(line + "\n");
}

/// Names come from the command line and dat.conf, and need not be text.
void tell_json(const nlohmann::json &what)
{
    tell(what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void tell_allowed(unsigned seconds)
{
    tell(allowance_mark + std::to_string(seconds));
}

} // namespace conformance
