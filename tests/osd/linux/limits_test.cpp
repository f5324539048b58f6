// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <cerrno>
#include <doctest/doctest.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::string text_of(int error)
{
    return osd::limit_text(error).text;
}

/// By a user without rights, who may have no thread.
int start_without_threads()
{
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0 || (::geteuid() == 0 && ::setuid(65534) != 0))
        return 77;
    osd::thread t;
    if (t.start(
            "one more", [](void *) {}, nullptr))
        return 1;
    const bool named = errno == EAGAIN &&
                       text_of(errno).find("may have 0 threads (RLIMIT_NPROC") != std::string::npos;
    return named ? 0 : 2;
}

} // namespace

TEST_SUITE_BEGIN("limits");

TEST_CASE("a limit that a call ran into is named with its value")
{
    rlimit before{};
    REQUIRE_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 123;
    REQUIRE_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(text_of(EMFILE), "; 123 descriptors may be open (RLIMIT_NOFILE, ulimit -n)");
    REQUIRE_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_EQ(text_of(0), "");
    CHECK_EQ(text_of(EINVAL), "");
}

TEST_CASE("the limit of locked memory is named by calls that lock, with its value")
{
    const auto text_of_locking = [](int error) -> std::string {
        return osd::limit_text::of_locking(error).text;
    };
    rlimit before{};
    REQUIRE_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
    rlimit little = before;
    little.rlim_cur = 64 * 1024;
    REQUIRE_EQ(::setrlimit(RLIMIT_MEMLOCK, &little), 0);
    CHECK_EQ(text_of_locking(ENOMEM),
             "; 64 KiB of memory may be locked (RLIMIT_MEMLOCK, ulimit -l)");
    CHECK_EQ(text_of(ENOMEM), "");
    CHECK_EQ(text_of_locking(EMFILE), text_of(EMFILE));
    CHECK_EQ(text_of_locking(EINVAL), "");
    REQUIRE_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
    if (before.rlim_cur == RLIM_INFINITY)
        CHECK_EQ(text_of_locking(ENOMEM), "");
}

TEST_CASE("a thread that the system refuses")
{
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(start_without_threads());
    int status = 0;
    REQUIRE_EQ(::waitpid(child, &status, 0), child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        MESSAGE("not tested: no user without rights");
    else
        CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST_SUITE_END();
