// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_fence.hpp"

#include <windows.h>

namespace osd {

namespace {

/// Wine 8 has FlushProcessWriteBuffers() by name only: it returns at once.
bool is_wine()
{
    const HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    return ntdll != nullptr && GetProcAddress(ntdll, "wine_get_version") != nullptr;
}

/// Taking rights from a page in use makes the kernel below interrupt every processor that runs a
/// thread of the process.
void fence_by_unmapping()
{
    void *const page = VirtualAlloc(nullptr, 4096, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    if (page == nullptr)
        return;
    *static_cast<volatile char *>(page) = 1;
    DWORD before = 0;
    VirtualProtect(page, 4096, PAGE_READONLY, &before);
    VirtualFree(page, 0, MEM_RELEASE);
}

} // namespace

void fence_all_threads()
{
    if (is_wine())
        fence_by_unmapping();
    else
        FlushProcessWriteBuffers();
}

bool can_fence_all_threads()
{
    return !is_wine();
}

} // namespace osd
