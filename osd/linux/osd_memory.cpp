// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {
namespace {

struct mapping {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool readable = false;
    bool writable = false;
    bool of_file = false;
    bool is_shared = false;
};

/// The mapping at an address, from /proc/self/maps. To be asked for ascending addresses.
class mappings {
public:
    mappings()
        : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)),
          text_(new (std::nothrow) char[text_size])
    {}
    mappings(const mappings &) = delete;
    mappings &operator=(const mappings &) = delete;
    ~mappings()
    {
        if (file_ >= 0)
            close(file_);
    }
    bool known() const { return file_ >= 0 && text_ != nullptr; }
    /// Finds the mapping at an address. Returns false when there is no mapping.
    bool at(std::uintptr_t address, mapping &out)
    {
        if (asks_kernel_ && ask_kernel(address, out))
            return out.end > address;
        asks_kernel_ = false;
        while (out.end <= address)
            if (!read_line(out))
                return false;
        return out.begin <= address;
    }

private:
    /// PROCMAP_QUERY, since Linux 6.11. False when there is no such call.
    bool ask_kernel(std::uintptr_t address, mapping &out) const
    {
        constexpr std::uint64_t is_readable = 1, is_writable = 2, is_shared = 8;
        struct {
            std::uint64_t size, query_flags, query_address;
            std::uint64_t begin, end, flags, page_size, offset, inode;
            std::uint32_t device[2], name_size, build_id_size;
            std::uint64_t name, build_id;
        } query{};
        query.size = sizeof query;
        query.query_address = address;
        const bool found = ioctl(file_, _IOWR('f', 17, query), &query) == 0;
        out = {};
        if (found)
            out = {static_cast<std::uintptr_t>(query.begin),
                   static_cast<std::uintptr_t>(query.end),
                   (query.flags & is_readable) != 0,
                   (query.flags & is_writable) != 0,
                   query.inode != 0,
                   (query.flags & is_shared) != 0};
        return found || errno == ENOENT;
    }

    bool read_line(mapping &out)
    {
        std::uint64_t begin = 0, end = 0, inode = 0;
        char rights[5] = {};
        if (!find_line() || std::sscanf(line_, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64,
                                        &begin, &end, rights, &inode) != 4)
            return false;
        out = {static_cast<std::uintptr_t>(begin),
               static_cast<std::uintptr_t>(end),
               rights[0] == 'r',
               rights[1] == 'w',
               inode != 0,
               rights[3] == 's'};
        return true;
    }

    /// The next one is then at line_.
    bool find_line()
    {
        for (;;) {
            char *const begin = text_.get() + next_;
            if (char *end = static_cast<char *>(std::memchr(begin, '\n', have_ - next_))) {
                *end = '\0';
                line_ = begin;
                next_ = static_cast<std::size_t>(end + 1 - text_.get());
                return true;
            }
            have_ -= next_;
            std::memmove(text_.get(), begin, have_);
            next_ = 0;
            const ssize_t got = read(file_, text_.get() + have_, text_size - have_);
            if (got <= 0)
                return false;
            have_ += static_cast<std::size_t>(got);
        }
    }

    static constexpr std::size_t text_size = 8192; ///< a line has a path of at most 4096 bytes

    const int file_;
    const std::unique_ptr<char[]> text_;
    bool asks_kernel_ = true;
    char *line_ = nullptr;
    std::size_t next_ = 0;
    std::size_t have_ = 0;
};

/// Reads there, by a call that then complains about its first argument.
bool can_be_read(std::uintptr_t address)
{
    constexpr long no_such_action = -1;
    constexpr std::size_t size = 8;
    const auto at = reinterpret_cast<const void *>(address & ~std::uintptr_t{size - 1});
    return syscall(SYS_rt_sigprocmask, no_such_action, at, nullptr, size) == 0 || errno != EFAULT;
}

bool is_mapped(std::uintptr_t from, std::uintptr_t until)
{
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    from &= ~(page - 1);
    return msync(reinterpret_cast<void *>(from), until - from, MS_ASYNC) == 0 || errno != ENOMEM;
}

} // namespace

memory_use look_at_memory(const void *address, std::size_t size, bool to_write)
{
    std::uintptr_t from = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t until = from + size;
    (void)can_be_read(from); // a stack grows by being used
    mappings all;
    if (!all.known())
        return is_mapped(from, until) ? memory_use::possible : memory_use::absent;
    for (mapping found; from < until; from = found.end) {
        if (!all.at(from, found))
            return memory_use::absent;
        if (!(found.readable || found.writable) // processors know no right to write alone
            || (to_write && !found.writable))
            return memory_use::forbidden;
        if (found.of_file && !can_be_read(std::min(found.end, until) - 1))
            return memory_use::absent; // the address is behind the end of the file
    }
    return memory_use::possible;
}

bool is_readable(const void *address, std::size_t size)
{
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    return size == 0 || (can_be_read(first) && can_be_read(first + size - 1));
}

bool may_be_shared(const void *address, std::size_t size)
{
    std::uintptr_t from = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t until = from + size;
    mappings all;
    if (!all.known())
        return true;
    for (mapping found; from < until && all.at(from, found); from = found.end)
        if (!found.is_shared)
            return false;
    return true;
}

process_page::~process_page()
{
    if (address_ != nullptr)
        (void)munmap(address_, size);
}

bool process_page::open()
{
    void *const made =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return false;
    (void)madvise(made, size, MADV_WIPEONFORK);
    (void)madvise(made, size, MADV_DONTDUMP);
    address_ = made;
    return true;
}

} // namespace osd
