// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/child_process.hpp"

#include "program/system.hpp"
#include "program/windows/new_process.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace program {
namespace {

/// Tells a new process its job: "name report-handle section-handle argument".
constexpr const char *variable = "DAPL_PROGRAM_JOB";

HANDLE report_pipe = nullptr;
void *shared_place = nullptr;

std::string number_of(HANDLE handle)
{
    return std::to_string(reinterpret_cast<std::uintptr_t>(handle));
}

HANDLE handle_of(std::uintptr_t number)
{
    return reinterpret_cast<HANDLE>(number);
}

} // namespace

struct child_process::parts {
    struct channel {
        owned_handle from;
        owned_handle to;

        bool open()
        {
            HANDLE ends[2];
            if (!CreatePipe(&ends[0], &ends[1], nullptr, 1 << 16))
                return false;
            from = owned_handle(ends[0]);
            to = owned_handle(ends[1]);
            return true;
        }
        bool has_bytes() const
        {
            DWORD there = 0;
            return from && PeekNamedPipe(from.get(), nullptr, 0, nullptr, &there, nullptr) &&
                   there != 0;
        }
        void read_into(std::string &text)
        {
            char bytes[16384];
            DWORD got = 0;
            while (has_bytes() && ReadFile(from.get(), bytes, sizeof bytes, &got, nullptr))
                text.append(bytes, got);
        }
    };

    channel reported;
    channel written;
    owned_handle section;
    void *shared = nullptr;
    new_process process;
    bool runs = false;
};

child_process::child_process() : parts_(std::make_unique<parts>())
{
    parts_->section = owned_handle(CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE,
                                                      0, shared_bytes, nullptr));
    parts_->shared = MapViewOfFile(parts_->section.get(), FILE_MAP_ALL_ACCESS, 0, 0, shared_bytes);
}

child_process::~child_process()
{
    kill();
    if (parts_->shared != nullptr)
        UnmapViewOfFile(parts_->shared);
}

std::string child_process::start(const job &what, const std::string &argument)
{
    parts &p = *parts_;
    if (p.shared == nullptr)
        return last_error("CreateFileMapping");
    if (!p.reported.open() || !p.written.open())
        return last_error("CreatePipe");
    std::fflush(nullptr);
    set_variable(variable, std::string(what.name) + " " + number_of(p.reported.to.get()) + " " +
                               number_of(p.section.get()) + " " + argument);
    std::string why = p.process.start(GetCommandLineW(), {p.reported.to.get(), p.section.get()},
                                      {nullptr, p.written.to.get()});
    unset_variable(variable);
    p.reported.to.close();
    p.written.to.close();
    p.runs = why.empty();
    return why;
}

void become_child()
{
    const char *const told = std::getenv(variable);
    if (told == nullptr)
        return;
    std::istringstream words(told);
    std::string name;
    std::string argument;
    std::uintptr_t report_number = 0;
    std::uintptr_t section_number = 0;
    words >> name >> report_number >> section_number;
    std::getline(words >> std::ws, argument);
    unset_variable(variable);
    const job *const what = job::find(name);
    report_pipe = handle_of(report_number);
    shared_place = MapViewOfFile(handle_of(section_number), FILE_MAP_ALL_ACCESS, 0, 0,
                                 child_process::shared_bytes);
    for (HANDLE each : {report_pipe, handle_of(section_number)})
        SetHandleInformation(each, HANDLE_FLAG_INHERIT, 0);
    if (what == nullptr || shared_place == nullptr) {
        std::fprintf(stderr, "%s names no job of this program\n", variable);
        std::exit(2);
    }
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); // a crash opens no window
    std::setvbuf(stdout, nullptr, _IONBF, 0); // lets text before a crash be heard
    what->work(argument);
    std::exit(0); // what libraries do at the end is part of the work
}

void child_process::read(std::string &reports, std::string &output)
{
    parts_->reported.read_into(reports);
    std::string text;
    parts_->written.read_into(text);
    std::erase(text, '\r'); // the C library ends lines so
    output += text;
}

namespace {

/// Windows ends a process that crashes with the number of the exception.
process_end end_of(DWORD status)
{
    process_end how;
    char text[40];
    if (status >= 0xC0000000) {
        how.signal = static_cast<int>(status & 0xffff);
        std::snprintf(text, sizeof text, "exception 0x%08lx", status);
        how.death = how.name = text;
    } else if (status == killed_status) {
        how.signal = 9;
        how.death = how.name = "killed";
    } else if (status != 0) {
        how.exit_status = static_cast<int>(status);
        how.death = "exit status " + std::to_string(status);
    }
    return how;
}

} // namespace

bool child_process::has_ended(process_end &how)
{
    if (!parts_->runs || WaitForSingleObject(parts_->process.process(), 0) != WAIT_OBJECT_0)
        return false;
    DWORD status = 0;
    GetExitCodeProcess(parts_->process.process(), &status);
    how = end_of(status);
    parts_->process.kill(); // ends processes that it has left behind
    parts_->runs = false;
    return true;
}

void child_process::kill()
{
    if (std::exchange(parts_->runs, false))
        parts_->process.kill();
}

void *child_process::shared() const
{
    return parts_->shared;
}

/// Nothing tells that a pipe has bytes: the pipes are looked at in between.
void child_process::wait_for_any(std::span<child_process *const> children,
                                 std::chrono::milliseconds limit)
{
    std::vector<HANDLE> ends;
    for (const child_process *each : children)
        if (ends.size() < MAXIMUM_WAIT_OBJECTS)
            ends.push_back(each->parts_->process.process());
    const auto has_words = [](const child_process *each) {
        return each->parts_->reported.has_bytes() || each->parts_->written.has_bytes();
    };
    constexpr DWORD look_ms = 10;
    for (auto left = limit.count();
         left > 0 && std::none_of(children.begin(), children.end(), has_words); left -= look_ms)
        if (ends.empty())
            Sleep(look_ms);
        else if (WaitForMultipleObjects(static_cast<DWORD>(ends.size()), ends.data(), FALSE,
                                        look_ms) != WAIT_TIMEOUT)
            return;
}

/// A child and the processes that it starts are in one job, and end together.
void end_strays() {}

void report(const std::string &bytes)
{
    DWORD wrote = 0;
    for (std::size_t done = 0; done < bytes.size(); done += wrote)
        if (!WriteFile(report_pipe, bytes.data() + done, static_cast<DWORD>(bytes.size() - done),
                       &wrote, nullptr))
            return; // the parent is gone, and so are we, soon
}

void *shared_with_parent()
{
    return shared_place;
}

} // namespace program
