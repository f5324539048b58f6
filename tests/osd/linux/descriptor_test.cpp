// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

#include <array>
#include <cerrno>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TEST_SUITE_BEGIN("descriptor");

namespace {

constexpr std::array<int, 3> standard{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

/// The standard descriptors are closed while one lives.
class closed_standard {
public:
    closed_standard()
    {
        for (int fd : standard) {
            saved_.at(static_cast<std::size_t>(fd)) = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);
            ::close(fd);
        }
    }
    closed_standard(const closed_standard &) = delete;
    closed_standard &operator=(const closed_standard &) = delete;
    ~closed_standard()
    {
        for (int fd : standard) {
            const int saved = saved_.at(static_cast<std::size_t>(fd));
            ::close(fd);
            ::dup2(saved, fd);
            ::close(saved);
        }
    }

private:
    std::array<int, 3> saved_{};
};

bool is_open(int fd)
{
    return ::fcntl(fd, F_GETFD) >= 0;
}

} // namespace

TEST_CASE("what is kept is beyond the standard descriptors")
{
    int kept = -1;
    int flags = 0;
    std::array<bool, 3> open{};
    {
        const closed_standard now;
        kept = osd::beyond_standard(::open("/dev/zero", O_RDONLY));
        flags = ::fcntl(kept, F_GETFD);
        for (int fd : standard)
            open.at(static_cast<std::size_t>(fd)) = is_open(fd);
    }
    CHECK_GT(kept, STDERR_FILENO);
    CHECK_EQ(flags, FD_CLOEXEC);
    for (const bool each : open)
        CHECK_FALSE(each);
    CHECK_EQ(osd::beyond_standard(kept), kept);
    ::close(kept);

    errno = EACCES;
    CHECK_EQ(osd::beyond_standard(-1), -1);
    CHECK_EQ(errno, EACCES);
}

TEST_CASE("where there is no descriptor beyond, none stays open")
{
    rlimit before{};
    REQUIRE_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    int kept = 0;
    int error = 0;
    bool open = true;
    {
        const closed_standard now;
        const rlimit few{3, before.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &few);
        kept = osd::beyond_standard(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
        error = errno;
        open = is_open(STDIN_FILENO);
        ::setrlimit(RLIMIT_NOFILE, &before);
    }
    CHECK_EQ(kept, -1);
    CHECK_EQ(error, EMFILE);
    CHECK_FALSE(open);
}

TEST_CASE("closed standard descriptors are occupied by nothing, open ones stay")
{
    struct stat null {
    }, first{}, second{};
    REQUIRE_EQ(::stat("/dev/null", &null), 0);
    const int zero = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const int free_before = ::dup(zero);
    ::close(free_before);
    int free_after = -1;
    {
        const closed_standard now;
        ::dup2(zero, STDOUT_FILENO);
        osd::occupy_standard();
        ::fstat(STDIN_FILENO, &first);
        ::fstat(STDOUT_FILENO, &second);
        free_after = ::dup(zero);
        ::close(free_after);
    }
    ::close(zero);
    CHECK_EQ(first.st_rdev, null.st_rdev);
    CHECK_NE(second.st_rdev, null.st_rdev);
    CHECK_EQ(free_after, free_before);
}

TEST_SUITE_END();
