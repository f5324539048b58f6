// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/holdings.hpp"

#include "program/windows/new_process.hpp"

#include <iterator>
#include <limits>
#include <psapi.h>
#include <thread>
#include <tlhelp32.h>

namespace conformance {
namespace {

/// Calls take(id) for each thread of this process.
template <typename Take>
void for_each_thread(Take take)
{
    const program::owned_handle all(CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0));
    THREADENTRY32 each{};
    each.dwSize = sizeof each;
    for (BOOL more = Thread32First(all.get(), &each); more; more = Thread32Next(all.get(), &each))
        if (each.th32OwnerProcessID == GetCurrentProcessId())
            take(each.th32ThreadID);
}

std::size_t handles()
{
    DWORD number = 0;
    GetProcessHandleCount(GetCurrentProcess(), &number);
    return number;
}

std::size_t mappings()
{
    std::size_t number = 0;
    MEMORY_BASIC_INFORMATION about{};
    for (const char *at = nullptr; VirtualQuery(at, &about, sizeof about) != 0;
         at = static_cast<const char *>(about.BaseAddress) + about.RegionSize)
        number += about.State != MEM_FREE ? 1 : 0;
    return number;
}

std::size_t resident_kib()
{
    PROCESS_MEMORY_COUNTERS counters{};
    GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters);
    return counters.WorkingSetSize / 1024;
}

std::uint64_t time_of_others()
{
    std::uint64_t sum = 0;
    for_each_thread([&](DWORD id) {
        if (id == GetCurrentThreadId())
            return;
        const program::owned_handle thread(OpenThread(THREAD_QUERY_INFORMATION, FALSE, id));
        FILETIME times[4]{};
        GetThreadTimes(thread.get(), &times[0], &times[1], &times[2], &times[3]);
        sum += times[2].dwLowDateTime + times[3].dwLowDateTime;
    });
    return sum;
}

} // namespace

std::size_t open_all_descriptors()
{
    return std::numeric_limits<std::size_t>::max(); // memory is the only limit of handles
}

holdings what_we_hold()
{
    std::size_t threads = 0;
    for_each_thread([&](DWORD) { ++threads; });
    return {handles(), threads, mappings(), resident_kib()};
}

belongings what_is_held()
{
    belongings held;
    held.descriptors.assign(handles(), "a handle");
    for_each_thread([&](DWORD) { held.threads.emplace_back("a thread"); });
    return held;
}

std::set<std::string> mapped_libraries()
{
    std::set<std::string> names;
    HMODULE loaded[1024];
    DWORD size = 0;
    if (EnumProcessModules(GetCurrentProcess(), loaded, sizeof loaded, &size))
        for (DWORD i = 0; i < size / sizeof loaded[0] && i < std::size(loaded); ++i) {
            wchar_t path[1024] = L"";
            GetModuleFileNameW(loaded[i], path, std::size(path));
            names.insert(program::narrowed(path));
        }
    return names;
}

/// Windows tells which time threads have used, in steps of some milliseconds.
int looks_with_running_threads(int looks, milliseconds pause)
{
    int seen = 0;
    std::uint64_t before = time_of_others();
    for (int i = 0; i < looks; ++i) {
        std::this_thread::sleep_for(pause);
        const std::uint64_t now = time_of_others();
        seen += now != before ? 1 : 0;
        before = now;
    }
    return seen;
}

} // namespace conformance
