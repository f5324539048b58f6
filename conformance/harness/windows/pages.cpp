// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/pages.hpp"

#include "harness/judge.hpp"

#include <cstdio>
#include <cstring>

#include <windows.h>

namespace conformance {

std::size_t page_size()
{
    SYSTEM_INFO about;
    GetSystemInfo(&about);
    return about.dwPageSize;
}

namespace {

HANDLE new_section(const char *name, std::size_t size)
{
    return CreateFileMappingA(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, 0,
                              static_cast<DWORD>(size), name);
}

void *map_section(HANDLE section, std::size_t size)
{
    return section != nullptr ? MapViewOfFile(section, FILE_MAP_ALL_ACCESS, 0, 0, size) : nullptr;
}

} // namespace

/// A range stays reserved as a whole: the system takes single pages back without giving their
/// addresses away. Shared memory has no part for one process alone.
pages::pages(std::size_t count, page_kind kind) : page(page_size()), length(count * page)
{
    if (kind == page_kind::shared || kind == page_kind::part_shared) {
        const HANDLE section = new_section(nullptr, length);
        at = static_cast<std::uint8_t *>(map_section(section, length));
        CloseHandle(section);
        hole_ = at;
    } else {
        at = static_cast<std::uint8_t *>(
            VirtualAlloc(nullptr, length, MEM_RESERVE | MEM_COMMIT,
                         kind == page_kind::read_only ? PAGE_READONLY : PAGE_READWRITE));
    }
    if (at == nullptr)
        GIVE_UP("VirtualAlloc");
}

pages::~pages()
{
    if (hole_ == at)
        UnmapViewOfFile(at);
    else
        VirtualFree(at, 0, MEM_RELEASE);
}

void pages::remove(std::size_t first, std::size_t count)
{
    VirtualFree(at + first * page, count * page, MEM_DECOMMIT);
}

std::uint8_t *map_without_memory(std::size_t &length)
{
    length = 3 * page_size();
    void *const there = VirtualAlloc(nullptr, length, MEM_RESERVE, PAGE_READWRITE);
    if (there == nullptr || VirtualAlloc(there, page_size(), MEM_COMMIT, PAGE_READWRITE) == nullptr)
        GIVE_UP("VirtualAlloc");
    return static_cast<std::uint8_t *>(there);
}

shared_pages::shared_pages()
{
    static int made = 0;
    std::snprintf(name, sizeof name, "dapl-conformance-%lu-%d", GetCurrentProcessId(), made++);
    map(reinterpret_cast<std::intptr_t>(new_section(name, bytes)));
}

shared_pages::shared_pages(const char *other)
{
    std::snprintf(name, sizeof name, "%s", other);
    map(reinterpret_cast<std::intptr_t>(OpenFileMappingA(FILE_MAP_ALL_ACCESS, FALSE, name)));
}

shared_pages::~shared_pages()
{
    UnmapViewOfFile(at);
    CloseHandle(reinterpret_cast<HANDLE>(file_));
}

void shared_pages::map(std::intptr_t file)
{
    file_ = file;
    at = static_cast<std::uint8_t *>(map_section(reinterpret_cast<HANDLE>(file), bytes));
    if (at == nullptr)
        GIVE_UP("no shared memory");
}

} // namespace conformance
