// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/system.hpp"

#include "program/windows/new_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <io.h>
#include <iterator>
#include <psapi.h>
#include <tlhelp32.h>
#include <unistd.h>

namespace program {

int process_id()
{
    return static_cast<int>(GetCurrentProcessId());
}

int thread_id()
{
    return static_cast<int>(GetCurrentThreadId());
}

/// Windows does not tell what a thread waits for.
std::optional<bool> is_asleep(int)
{
    return std::nullopt;
}

std::size_t threads()
{
    const owned_handle all(CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0));
    THREADENTRY32 each{};
    each.dwSize = sizeof each;
    std::size_t count = 0;
    for (BOOL more = Thread32First(all.get(), &each); more; more = Thread32Next(all.get(), &each))
        count += each.th32OwnerProcessID == GetCurrentProcessId() ? 1 : 0;
    return count;
}

std::string own_name()
{
    const std::string path = own_path();
    std::string name = path.substr(path.find_last_of("\\/") + 1);
    return name.substr(0, name.rfind(".exe"));
}

/// Windows cannot replace a process: this one waits for the other, and ends as it did.
std::string start_again(char **)
{
    new_process other;
    if (std::string why = other.start(GetCommandLineW(), {}); !why.empty())
        return why;
    WaitForSingleObject(other.process(), INFINITE);
    DWORD status = 1;
    GetExitCodeProcess(other.process(), &status);
    std::_Exit(static_cast<int>(status));
}

void set_variable(const char *name, const std::string &value)
{
    _putenv_s(name, value.c_str());
}

void unset_variable(const char *name)
{
    _putenv_s(name, "");
}

void *symbol_in(void *library, const char *name)
{
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void *find_symbol(const char *name)
{
    HMODULE loaded[1024];
    DWORD size = 0;
    if (!EnumProcessModules(GetCurrentProcess(), loaded, sizeof loaded, &size))
        return nullptr;
    for (DWORD i = 0; i < size / sizeof loaded[0] && i < std::size(loaded); ++i)
        if (void *found = symbol_in(loaded[i], name))
            return found;
    return nullptr;
}

void *load_library(const std::string &path, std::string &why)
{
    void *const loaded = LoadLibraryW(widened(path).c_str());
    if (loaded == nullptr)
        why = last_error(path);
    return loaded;
}

std::string file_of(const void *address)
{
    HMODULE library = nullptr;
    wchar_t path[1024];
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            static_cast<const wchar_t *>(address), &library) ||
        GetModuleFileNameW(library, path, std::size(path)) == 0)
        return "";
    return narrowed(path);
}

std::size_t terminal_width(std::FILE *out)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    const auto console = reinterpret_cast<HANDLE>(_get_osfhandle(_fileno(out)));
    if (!GetConsoleScreenBufferInfo(console, &info))
        return 0;
    return static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left) + 1;
}

/// A character device is a console only where it has a width: NUL is one, too.
bool is_terminal(std::FILE *out)
{
    return terminal_width(out) != 0;
}

/// Handles of this system are no small numbers, which the next open could get.
void open_closed_streams() {}

/// Its C library gathers lines as a file's bytes, or nothing.
void write_line_by_line()
{
    std::setvbuf(stdout, nullptr, _IONBF, 0);
}

int write_obstacle(const std::string &path)
{
    return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
}

namespace {

std::string value_of(HKEY root, const wchar_t *folder, const wchar_t *name)
{
    wchar_t text[256] = L"";
    DWORD size = sizeof text;
    if (RegGetValueW(root, folder, name, RRF_RT_REG_SZ, nullptr, text, &size) != ERROR_SUCCESS)
        return "";
    return narrowed(text);
}

std::string version_text()
{
    constexpr const wchar_t *folder = L"SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";
    const std::string build = value_of(HKEY_LOCAL_MACHINE, folder, L"CurrentBuildNumber");
    return value_of(HKEY_LOCAL_MACHINE, folder, L"CurrentVersion") + "." + build;
}

unsigned usable_processors()
{
    DWORD_PTR usable = 0;
    DWORD_PTR all = 0;
    unsigned number = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &usable, &all))
        for (; usable != 0; usable &= usable - 1)
            ++number;
    return number != 0 ? number : 1;
}

} // namespace

/// Windows keeps no average of processes that want a processor: no load is known.
machine this_machine()
{
    machine found;
    wchar_t name[256];
    DWORD size = std::size(name);
    if (GetComputerNameW(name, &size))
        found.host = narrowed(name);
    found.release = version_text();
    found.kernel = "Windows " + found.release;
    found.processor =
        value_of(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                 L"ProcessorNameString");
    found.processors = usable_processors();
    return found;
}

bool is_administrator()
{
    return false; // Windows asks for the password of the other user
}

namespace {

HANDLE alarm_timer = nullptr;
handler alarm_handler = nullptr;

void CALLBACK ring(void *, BOOLEAN)
{
    if (alarm_handler == nullptr)
        std::_Exit(1);
    alarm_handler(0);
}

} // namespace

void set_alarm(unsigned seconds, handler called)
{
    if (called != nullptr)
        alarm_handler = called;
    if (alarm_timer != nullptr)
        (void)DeleteTimerQueueTimer(nullptr, alarm_timer, nullptr);
    alarm_timer = nullptr;
    if (seconds != 0)
        (void)CreateTimerQueueTimer(&alarm_timer, nullptr, ring, nullptr, seconds * 1000, 0,
                                    WT_EXECUTEONLYONCE);
}

void catch_crashes(handler called)
{
    for (int signal : {SIGSEGV, SIGFPE, SIGILL})
        std::signal(signal, called);
}

void catch_ends(handler called)
{
    for (int signal : {SIGINT, SIGTERM})
        std::signal(signal, called);
}

} // namespace program
