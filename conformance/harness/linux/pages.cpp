// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/pages.hpp"

#include "harness/judge.hpp"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace conformance {

std::size_t page_size()
{
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

void unmap_pages(std::uint8_t *at, std::size_t length)
{
    if (length != 0 && ::munmap(at, length) != 0)
        GIVE_UP("munmap");
}

} // namespace

/// The kernel fills the highest gap that is large enough, so a larger gap is left above.
pages::pages(std::size_t count, page_kind kind) : page(page_size()), length(count * page)
{
    constexpr std::size_t gap = 64 << 20;
    constexpr int own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    const bool shared = kind == page_kind::shared || kind == page_kind::part_shared;
    const int rights = kind == page_kind::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    void *room = ::mmap(nullptr, length + gap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED ||
        ::mmap(room, length, rights, shared ? MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED : own, -1,
               0) == MAP_FAILED)
        GIVE_UP("mmap");
    at = static_cast<std::uint8_t *>(room);
    hole_ = hole_end_ = at + length;
    unmap_pages(at + length, gap);
    if (kind == page_kind::part_shared &&
        ::mmap(at + 2 * page, page, rights, own, -1, 0) == MAP_FAILED)
        GIVE_UP("mmap");
}

pages::~pages()
{
    unmap_pages(at, static_cast<std::size_t>(hole_ - at));
    unmap_pages(hole_end_, static_cast<std::size_t>(at + length - hole_end_));
}

void pages::remove(std::size_t first, std::size_t count)
{
    hole_ = at + first * page;
    hole_end_ = hole_ + count * page;
    unmap_pages(hole_, count * page);
}

std::uint8_t *map_without_memory(std::size_t &length)
{
    char name[] = "/tmp/dapl-conformance-XXXXXX";
    const int file = ::mkstemp(name);
    if (file < 0)
        GIVE_UP("no file to map");
    ::unlink(name);
    if (::ftruncate(file, static_cast<off_t>(page_size())) != 0)
        GIVE_UP("ftruncate");
    length = 3 * page_size();
    void *const there = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    return there == MAP_FAILED ? nullptr : static_cast<std::uint8_t *>(there);
}

shared_pages::shared_pages() : name("/tmp/dapl-conformance-XXXXXX")
{
    const int file = ::mkstemp(name);
    if (file < 0 || ::ftruncate(file, bytes) != 0)
        GIVE_UP("no file to share");
    map(file);
}

shared_pages::shared_pages(const char *other)
{
    std::strncpy(name, other, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    map(::open(name, O_RDWR | O_CLOEXEC));
    ::unlink(name);
}

shared_pages::~shared_pages()
{
    ::unlink(name);
    ::munmap(at, bytes);
}

void shared_pages::map(std::intptr_t file)
{
    const int fd = static_cast<int>(file);
    void *there = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (there == MAP_FAILED)
        GIVE_UP("no shared memory");
    at = static_cast<std::uint8_t *>(there);
}

} // namespace conformance
