// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "child.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace dat_info {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 256 * 1024; ///< bytes that are kept of a child
constexpr std::chrono::milliseconds pause{20};  ///< time between two looks

/// A record that the child did not finish is left out.
std::vector<record> records_of(const std::string &text)
{
    std::vector<record> records;
    record next;
    std::size_t field = 0, at = 0;
    for (std::size_t end; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
        next[field] = text.substr(at, end - at);
        if (++field == next.size()) {
            records.push_back(next);
            field = 0;
        }
    }
    return records;
}

std::vector<std::string> lines_of(const std::string &text)
{
    std::vector<std::string> lines;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (end > at)
            lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

class child {
public:
    child(task what, double seconds)
        : what_(std::move(what)),
          deadline_(clock::now() + std::chrono::duration_cast<clock::duration>(
                                       std::chrono::duration<double>(seconds)))
    {
        const std::string why = process_.start(*what_.work, what_.argument);
        if (!why.empty())
            throw std::runtime_error(why);
    }

    /// Takes what there is of output; true when the child has ended.
    bool look();
    void report();
    program::child_process *process() { return &process_; }

private:
    void read();

    task what_;
    clock::time_point deadline_;
    program::child_process process_;
    std::string told_;
    std::string output_;
    child_end end_;
};

void child::read()
{
    process_.read(told_, output_);
    if (output_.size() > most_output)
        output_.resize(most_output);
}

bool child::look()
{
    read();
    if (!process_.has_ended(end_.how)) {
        if (clock::now() < deadline_)
            return false;
        end_.late = true;
        process_.kill();
    }
    read();
    return true;
}

void child::report()
{
    end_.told = records_of(told_);
    end_.output = lines_of(output_);
    what_.done(std::move(end_));
}

} // namespace

void teller::tell(std::string_view what, std::string_view a, std::string_view b, std::string_view c,
                  std::string_view d) const
{
    std::string text;
    for (const std::string_view each : {what, a, b, c, d}) {
        text += each.substr(0, each.find('\0'));
        text += '\0';
    }
    program::report(text);
}

void end_child()
{
    std::fflush(nullptr);
    std::_Exit(0);
}

void run_children(std::vector<task> tasks, double seconds)
{
    const std::size_t most = 2 * std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::unique_ptr<child>> running;
    std::size_t next = 0;
    while (next < tasks.size() || !running.empty()) {
        while (next < tasks.size() && running.size() < most)
            running.push_back(std::make_unique<child>(std::move(tasks[next++]), seconds));
        std::vector<program::child_process *> waiting;
        for (const auto &each : running)
            waiting.push_back(each->process());
        program::child_process::wait_for_any(waiting, pause);
        std::erase_if(running, [](const std::unique_ptr<child> &each) {
            if (!each->look())
                return false;
            each->report();
            return true;
        });
    }
}

} // namespace dat_info
