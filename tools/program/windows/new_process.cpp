// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/windows/new_process.hpp"

#include <memory>

namespace program {

std::wstring widened(const std::string &text)
{
    const int size = static_cast<int>(text.size());
    std::wstring wide(
        static_cast<std::size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), size, nullptr, 0)),
        L'\0');
    MultiByteToWideChar(CP_UTF8, 0, text.data(), size, wide.data(), static_cast<int>(wide.size()));
    return wide;
}

std::string narrowed(const std::wstring &text)
{
    const int size = static_cast<int>(text.size());
    std::string narrow(static_cast<std::size_t>(WideCharToMultiByte(CP_UTF8, 0, text.data(), size,
                                                                    nullptr, 0, nullptr, nullptr)),
                       '\0');
    WideCharToMultiByte(CP_UTF8, 0, text.data(), size, narrow.data(),
                        static_cast<int>(narrow.size()), nullptr, nullptr);
    return narrow;
}

std::string system_text(DWORD error)
{
    wchar_t text[256] = L"";
    DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS |
                                      FORMAT_MESSAGE_MAX_WIDTH_MASK,
                                  nullptr, error, 0, text, 256, nullptr);
    while (length != 0 && (text[length - 1] == L' ' || text[length - 1] == L'.'))
        --length;
    return narrowed(std::wstring(text, length)) + " (error " + std::to_string(error) + ")";
}

std::string last_error(const std::string &what)
{
    return what + ": " + system_text(GetLastError());
}

std::string own_path()
{
    wchar_t path[1024];
    const DWORD length = GetModuleFileNameW(nullptr, path, 1024);
    return narrowed(std::wstring(path, length));
}

/// Backslashes count only before a quotation mark, where they are doubled.
std::wstring command_line_of(const std::vector<std::string> &arguments)
{
    std::string line;
    for (const std::string &each : arguments) {
        line += line.empty() ? "\"" : " \"";
        std::size_t backslashes = 0;
        for (const char c : each) {
            backslashes = c == '\\' ? backslashes + 1 : 0;
            if (c == '"')
                line.append(std::exchange(backslashes, 0) + 1, '\\');
            line += c;
        }
        line.append(backslashes, '\\');
        line += '"';
    }
    return widened(line);
}

namespace {

/// The handles that a new process inherits, and no others.
class heritage {
public:
    explicit heritage(std::vector<HANDLE> handles) : handles_(std::move(handles))
    {
        for (HANDLE each : handles_)
            SetHandleInformation(each, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
        SIZE_T size = 0;
        InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
        room_ = std::make_unique<char[]>(size);
        if (InitializeProcThreadAttributeList(list(), 1, 0, &size))
            UpdateProcThreadAttribute(list(), 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles_.data(),
                                      handles_.size() * sizeof(HANDLE), nullptr, nullptr);
    }
    heritage(const heritage &) = delete;
    heritage &operator=(const heritage &) = delete;
    ~heritage()
    {
        DeleteProcThreadAttributeList(list());
        for (HANDLE each : handles_)
            SetHandleInformation(each, HANDLE_FLAG_INHERIT, 0);
    }
    LPPROC_THREAD_ATTRIBUTE_LIST list() const
    {
        return reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(room_.get());
    }

private:
    std::vector<HANDLE> handles_;
    std::unique_ptr<char[]> room_;
};

/// The system ends the processes of a job when its last handle is closed, also by our death.
HANDLE new_job()
{
    const HANDLE job = CreateJobObjectW(nullptr, nullptr);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return job;
}

} // namespace

std::string new_process::start(const std::wstring &command_line, std::vector<HANDLE> inherited,
                               const streams &given)
{
    STARTUPINFOEXW how{};
    how.StartupInfo.cb = sizeof how;
    DWORD flags = CREATE_SUSPENDED;
    if (given.output != nullptr) {
        how.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        how.StartupInfo.hStdInput = given.input;
        how.StartupInfo.hStdOutput = how.StartupInfo.hStdError = given.output;
        inherited.push_back(given.output);
        if (given.input != nullptr)
            inherited.push_back(given.input);
    }
    const bool inherits = !inherited.empty();
    const heritage all(std::move(inherited));
    if (inherits) {
        how.lpAttributeList = all.list();
        flags |= EXTENDED_STARTUPINFO_PRESENT;
    }
    std::wstring line = command_line; // the system may write to it
    PROCESS_INFORMATION made{};
    if (!CreateProcessW(widened(own_path()).c_str(), line.data(), nullptr, nullptr, inherits, flags,
                        nullptr, nullptr, &how.StartupInfo, &made))
        return last_error("CreateProcess");
    process_ = owned_handle(made.hProcess);
    const owned_handle thread(made.hThread);
    job_ = owned_handle(new_job());
    AssignProcessToJobObject(job_.get(), process_.get());
    ResumeThread(thread.get());
    return "";
}

void new_process::kill()
{
    if (!process_)
        return;
    TerminateJobObject(job_.get(), killed_status);
    TerminateProcess(process_.get(), killed_status);
    WaitForSingleObject(process_.get(), 5000);
}

} // namespace program
