// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Nothing forks here: the child is this program, told where in it the body is.
#include "host.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <windows.h>

#include <psapi.h>

namespace {

/// Sets variables of this process for children to inherit, and puts them back.
class temporary_environment {
public:
    explicit temporary_environment(const scenario::environment &variables)
    {
        for (const auto &[name, value] : variables) {
            std::array<char, 4096> old;
            if (GetEnvironmentVariableA(name.c_str(), old.data(), old.size()) != 0)
                before_[name] = old.data();
            else
                unset_[name];
            SetEnvironmentVariableA(name.c_str(), value.c_str());
        }
    }
    ~temporary_environment()
    {
        for (const auto &[name, value] : before_)
            SetEnvironmentVariableA(name.c_str(), value.c_str());
        for (const auto &[name, nothing] : unset_)
            SetEnvironmentVariableA(name.c_str(), nullptr);
    }
    temporary_environment(const temporary_environment &) = delete;
    temporary_environment &operator=(const temporary_environment &) = delete;

private:
    scenario::environment before_, unset_;
};

HANDLE inherited_file(const std::string &path)
{
    SECURITY_ATTRIBUTES inherited{sizeof inherited, nullptr, TRUE};
    return CreateFileA(path.c_str(), FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE,
                       &inherited, OPEN_EXISTING, 0, nullptr);
}

int run_self(const std::string &output, const std::string &messages)
{
    char self[MAX_PATH];
    GetModuleFileNameA(nullptr, self, MAX_PATH);
    STARTUPINFOA start{};
    start.cb = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdOutput = inherited_file(output);
    start.hStdError = inherited_file(messages);
    PROCESS_INFORMATION child;
    DWORD status = ~DWORD{0};
    BOOL started = FALSE;
    for (int attempt = 0; !started && attempt < 20; ++attempt) {
        if (attempt != 0)
            Sleep(250); // Wine refuses now and then on a busy machine
        started = CreateProcessA(self, nullptr, nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start,
                                 &child);
    }
    if (!started)
        std::fprintf(stderr, "CreateProcess: error %lu\n", GetLastError());
    if (started) {
        WaitForSingleObject(child.hProcess, INFINITE);
        GetExitCodeProcess(child.hProcess, &status);
        CloseHandle(child.hProcess);
        CloseHandle(child.hThread);
    }
    CloseHandle(start.hStdOutput);
    CloseHandle(start.hStdError);
    return static_cast<int>(status);
}

} // namespace

int host::run_child(void (*body)(), const scenario::environment &variables,
                    const std::string &output, const std::string &messages)
{
    const auto base = reinterpret_cast<std::uintptr_t>(GetModuleHandleA(nullptr));
    scenario::environment all = variables;
    all["DAT_TEST_BODY"] = std::to_string(reinterpret_cast<std::uintptr_t>(body) - base);
    const temporary_environment set(all);
    return run_self(output, messages);
}

bool scenario::is_mapped(const std::string &part)
{
    std::array<HMODULE, 256> modules;
    DWORD bytes = 0;
    EnumProcessModules(GetCurrentProcess(), modules.data(), sizeof modules, &bytes);
    for (std::size_t i = 0; i < bytes / sizeof(HMODULE); ++i) {
        char path[MAX_PATH] = "";
        GetModuleFileNameA(modules[i], path, MAX_PATH);
        if (std::string(path).find(part) != std::string::npos)
            return true;
    }
    return false;
}
