// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/system.hpp"

#include <algorithm>
#include <vector>

#include <winsock2.h>

#include <windows.h>

#include <winternl.h>

namespace program {
namespace {

template <typename Function>
Function system_call(const char *name)
{
    const FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), name);
    return reinterpret_cast<Function>(reinterpret_cast<void *>(found));
}

/// The handles of all processes, in memory of that type. Empty where the system does not tell.
std::vector<unsigned char> listed_handles()
{
    const auto ask = system_call<decltype(&NtQuerySystemInformation)>("NtQuerySystemInformation");
    constexpr NTSTATUS too_short = static_cast<NTSTATUS>(0xC0000004);
    std::vector<unsigned char> room(1 << 16);
    NTSTATUS status = too_short;
    const auto look = [&] {
        ULONG size = 0;
        status = ask(SystemHandleInformation, room.data(), static_cast<ULONG>(room.size()), &size);
        return status;
    };
    while (ask != nullptr && look() == too_short && room.size() < std::size_t{1} << 28)
        room.resize(2 * room.size());
    if (status != 0)
        room.clear();
    return room;
}

/// Whether a handle is of an event that wakes one thread and is reset by that.
bool wakes_one(HANDLE handle)
{
    struct {
        LONG type;
        LONG state;
    } about;
    using query = NTSTATUS(NTAPI *)(HANDLE, int, void *, ULONG, ULONG *);
    static const auto ask = system_call<query>("NtQueryEvent");
    return ask != nullptr && ask(handle, 0, &about, sizeof about, nullptr) == 0 && about.type == 1;
}

/// Counts by that list. Left out are events that wake one thread: Wine makes one for each critical
/// section at which threads have met, and keeps it as long as the critical section.
std::size_t counted_by_list()
{
    const std::vector<unsigned char> room = listed_handles();
    if (room.empty())
        return 0;
    const auto *all = reinterpret_cast<const SYSTEM_HANDLE_INFORMATION *>(room.data());
    return static_cast<std::size_t>(
        std::count_if(all->Handle, all->Handle + all->Count, [](const auto &each) {
            const std::uintptr_t number = each.HandleValue;
            return each.OwnerPid == GetCurrentProcessId() &&
                   !wakes_one(reinterpret_cast<HANDLE>(number));
        }));
}

} // namespace

/// Wine 8 has the function that counts them, and answers 0 always.
std::size_t open_descriptors()
{
    DWORD number = 0;
    (void)GetProcessHandleCount(GetCurrentProcess(), &number);
    return number != 0 ? number : counted_by_list();
}

} // namespace program
