// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_memory.hpp"

#include <cstdint>
#include <windows.h>

namespace osd {

memory_use look_at_memory(const void *address, std::size_t size, bool to_write)
{
    constexpr DWORD writable =
        PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    constexpr DWORD readable = writable | PAGE_READONLY | PAGE_EXECUTE_READ;
    std::uintptr_t from = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t until = from + size;
    while (from < until) {
        MEMORY_BASIC_INFORMATION found{};
        if (VirtualQuery(reinterpret_cast<const void *>(from), &found, sizeof found) == 0 ||
            found.State != MEM_COMMIT)
            return memory_use::absent;
        if ((found.Protect & (to_write ? writable : readable)) == 0 ||
            (found.Protect & PAGE_GUARD) != 0)
            return memory_use::forbidden;
        from = reinterpret_cast<std::uintptr_t>(found.BaseAddress) + found.RegionSize;
    }
    return memory_use::possible;
}

bool is_readable(const void *address, std::size_t size)
{
    return look_at_memory(address, size, false) == memory_use::possible;
}

bool may_be_shared(const void *address, std::size_t size)
{
    std::uintptr_t from = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t until = from + size;
    while (from < until) {
        MEMORY_BASIC_INFORMATION found{};
        if (VirtualQuery(reinterpret_cast<const void *>(from), &found, sizeof found) == 0)
            break;
        if (found.Type == MEM_PRIVATE)
            return false;
        from = reinterpret_cast<std::uintptr_t>(found.BaseAddress) + found.RegionSize;
    }
    return true;
}

process_page::~process_page()
{
    if (address_ != nullptr)
        (void)VirtualFree(address_, 0, MEM_RELEASE);
}

bool process_page::open()
{
    address_ = VirtualAlloc(nullptr, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    return address_ != nullptr;
}

} // namespace osd
