// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using osd::look_at_memory;
using osd::memory_use;

namespace {

const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// Some pages that are given back when it goes.
struct pages {
    explicit pages(std::size_t count, int rights = PROT_READ | PROT_WRITE, int file = -1)
        : size(count * page),
          at(static_cast<char *>(mmap(
              nullptr, size, rights, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0)))
    {
        REQUIRE(at != MAP_FAILED);
    }
    ~pages() { munmap(at, size); }
    void hole(std::size_t which) const { REQUIRE(munmap(at + which * page, page) == 0); }
    void protect(std::size_t which, int rights) const
    {
        REQUIRE(mprotect(at + which * page, page, rights) == 0);
    }
    std::size_t resident() const
    {
        std::vector<unsigned char> state(size / page);
        REQUIRE(mincore(at, size, state.data()) == 0);
        std::size_t count = 0;
        for (unsigned char each : state)
            count += each & 1;
        return count;
    }
    const std::size_t size;
    char *const at;
};

struct file {
    explicit file(std::size_t count) : descriptor(memfd_create("test", MFD_CLOEXEC))
    {
        REQUIRE(ftruncate(descriptor, static_cast<off_t>(count * page)) == 0);
    }
    ~file() { close(descriptor); }
    const int descriptor;
};

/// Makes this call fail in this process from now on.
void forbid(long call, int error)
{
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{4, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(2);
}

/// In a process of its own, which tells no more than this.
template <class Work>
bool holds_in_child(Work work)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(work() ? 0 : 1);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

TEST_SUITE_BEGIN("memory");

TEST_CASE("all of a range has to be there")
{
    const pages some(5);
    some.hole(3);
    CHECK(look_at_memory(some.at, 3 * page, true) == memory_use::possible);
    CHECK(look_at_memory(some.at + 1, 3 * page - 1, true) == memory_use::possible);
    CHECK(look_at_memory(some.at, 3 * page + 1, true) == memory_use::absent);
    CHECK(look_at_memory(some.at, 5 * page, false) == memory_use::absent);
    CHECK(look_at_memory(some.at + 3 * page, 1, false) == memory_use::absent);
    CHECK(look_at_memory(some.at + 4 * page, page, true) == memory_use::possible);
    CHECK(look_at_memory(reinterpret_cast<void *>(8), 8, false) == memory_use::absent);
}

TEST_CASE("and to be good for what is asked, several mappings or not")
{
    const pages some(6);
    some.protect(1, PROT_READ);
    some.protect(4, PROT_NONE);
    CHECK(look_at_memory(some.at, 4 * page, false) == memory_use::possible);
    CHECK(look_at_memory(some.at, page, true) == memory_use::possible);
    CHECK(look_at_memory(some.at, 2 * page, true) == memory_use::forbidden);
    CHECK(look_at_memory(some.at + 2 * page, 2 * page, true) == memory_use::possible);
    CHECK(look_at_memory(some.at, 6 * page, false) == memory_use::forbidden);
    static const char constant[64] = {};
    CHECK(look_at_memory(constant, sizeof constant, false) == memory_use::possible);
    CHECK(look_at_memory(constant, sizeof constant, true) == memory_use::forbidden);
}

TEST_CASE("a file has to be as long as what is mapped of it")
{
    const file three(3);
    const pages some(5, PROT_READ | PROT_WRITE, three.descriptor);
    CHECK(look_at_memory(some.at, 3 * page, true) == memory_use::possible);
    CHECK(look_at_memory(some.at, 3 * page + 1, true) == memory_use::absent);
    CHECK(look_at_memory(some.at + 4 * page, 1, false) == memory_use::absent);
    REQUIRE(ftruncate(three.descriptor, static_cast<off_t>(page)) == 0);
    CHECK(look_at_memory(some.at, 3 * page, true) == memory_use::absent);
    CHECK(look_at_memory(some.at, page, true) == memory_use::possible);
}

TEST_CASE("the look pages in no more than one page of a mapping")
{
    const pages some(4096);
    CHECK(look_at_memory(some.at, some.size, true) == memory_use::possible);
    CHECK(some.resident() <= 1);
}

TEST_CASE("a stack may grow into what is looked at")
{
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_STACK, &limit) == 0);
    const auto here = reinterpret_cast<std::uintptr_t>(&limit); // the stack of this thread grows
    const auto *below = reinterpret_cast<const char *>(here - 1024 * 1024);
    if (limit.rlim_cur >= 4 << 20)
        CHECK(look_at_memory(below, 1024 * 1024, true) == memory_use::possible);
}

TEST_CASE("kernels that cannot be asked for one mapping list them")
{
    const pages some(5);
    some.protect(1, PROT_READ);
    some.hole(3);
    const file one(1);
    const pages mapped(2, PROT_READ, one.descriptor);
    CHECK(holds_in_child([&] {
        forbid(SYS_ioctl, ENOTTY);
        return look_at_memory(some.at, 3 * page, false) == memory_use::possible &&
               look_at_memory(some.at, 3 * page, true) == memory_use::forbidden &&
               look_at_memory(some.at, 5 * page, false) == memory_use::absent &&
               look_at_memory(some.at + 2 * page, page, true) == memory_use::possible &&
               look_at_memory(mapped.at, page, false) == memory_use::possible &&
               look_at_memory(mapped.at, 2 * page, false) == memory_use::absent &&
               osd::may_be_shared(mapped.at, page) && !osd::may_be_shared(some.at, page);
    }));
}

TEST_CASE("without /proc what is mapped is taken for usable")
{
    const pages some(5);
    some.protect(1, PROT_READ);
    some.hole(3);
    CHECK(holds_in_child([&] {
        forbid(SYS_openat, ENOENT);
        return look_at_memory(some.at, 3 * page, true) == memory_use::possible &&
               look_at_memory(some.at + 1, 4 * page, false) == memory_use::absent &&
               osd::may_be_shared(some.at, page);
    }));
}

TEST_CASE("a region that processors cannot read at its begin or its end is told without a fault")
{
    const pages some(3);
    CHECK(osd::is_readable(some.at, 3 * page));
    CHECK(osd::is_readable(some.at + 2 * page, 0));
    some.protect(0, PROT_NONE);
    CHECK_FALSE(osd::is_readable(some.at, 3 * page));
    CHECK_FALSE(osd::is_readable(some.at + page - 1, 2));
    CHECK(osd::is_readable(some.at + page, 2 * page));
    some.protect(0, PROT_READ);
    some.protect(2, PROT_NONE);
    CHECK_FALSE(osd::is_readable(some.at, 2 * page + 1));
    CHECK(osd::is_readable(some.at, 2 * page));
}

TEST_CASE("what is of one process is all zeros in its children")
{
    osd::process_page own;
    CHECK(own.address() == nullptr);
    REQUIRE(own.open());
    auto *const bytes = static_cast<unsigned char *>(own.address());
    const auto count_zeros = [&] { return std::count(bytes, bytes + own.size, 0); };
    CHECK(count_zeros() == own.size);
    std::memset(bytes, 1, own.size);
    CHECK(holds_in_child([&] { return count_zeros() == own.size; }));
    CHECK(count_zeros() == 0);
}

TEST_SUITE_END();
