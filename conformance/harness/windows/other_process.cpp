// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/peer.hpp"

#include "program/windows/new_process.hpp"

#include <cstdio>
#include <cstdlib>

namespace conformance {
namespace {

program::new_process &process_of(std::intptr_t process)
{
    return *reinterpret_cast<program::new_process *>(process);
}

/// Calls NtSuspendProcess or NtResumeProcess, by which debuggers stop a process and let it go on.
/// No library to link with has them.
bool call_system(const char *name, HANDLE process)
{
    const auto call = reinterpret_cast<LONG(NTAPI *)(HANDLE)>(
        reinterpret_cast<void *>(GetProcAddress(GetModuleHandleW(L"ntdll.dll"), name)));
    return call != nullptr && call(process) >= 0;
}

} // namespace

bool other_process::start(std::vector<std::string> arguments, program::socket end)
{
    auto made = std::make_unique<program::new_process>();
    const std::string why =
        made->start(program::command_line_of(arguments), {reinterpret_cast<HANDLE>(end.get())},
                    {GetStdHandle(STD_INPUT_HANDLE), GetStdHandle(STD_ERROR_HANDLE)});
    if (!why.empty()) {
        std::fprintf(stderr, "%s\n", why.c_str());
        return false;
    }
    process_ = reinterpret_cast<std::intptr_t>(made.release());
    return true;
}

void other_process::kill()
{
    if (!is_started())
        return;
    process_of(process_).kill();
    delete &process_of(process_);
    process_ = none;
}

bool other_process::stop()
{
    return is_started() && call_system("NtSuspendProcess", process_of(process_).process());
}

void other_process::go_on()
{
    if (is_started())
        (void)call_system("NtResumeProcess", process_of(process_).process());
}

int other_process::await(milliseconds time)
{
    if (!is_started() || WaitForSingleObject(process_of(process_).process(),
                                             static_cast<DWORD>(time.count())) != WAIT_OBJECT_0)
        return -1;
    DWORD status = 0;
    GetExitCodeProcess(process_of(process_).process(), &status);
    kill();
    return status > 255 ? -1 : static_cast<int>(status);
}

/// Its parent has a job that ends it.
void begin_role() {}

namespace {

void (*last_words)() = nullptr;

struct speaker {
    ~speaker()
    {
        if (last_words != nullptr)
            last_words();
    }
};

} // namespace

/// The destructors of the program run before the system tells the libraries that the process ends,
/// and no code of the program runs after theirs.
void exit_with_last_words(void (*words)())
{
    static const speaker at_end;
    last_words = words;
    std::exit(6);
}

} // namespace conformance
