// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"
#include "scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <doctest/doctest.h>
#include <string>
#include <unistd.h>

TEST_SUITE_BEGIN("privileged");

TEST_CASE("a program with the rights of its user has no more than that")
{
    CHECK_FALSE(osd::is_privileged());
}

// Run by set_user_id.py.
TEST_CASE("in a set-user-ID program its user decides nothing" * doctest::skip())
{
    REQUIRE_NE(::getuid(), ::geteuid());
    CHECK(osd::is_privileged());
    CHECK_EQ(osd::environment("SET_USER_ID_FOLDER"), nullptr);

    const std::string folder = std::getenv("SET_USER_ID_FOLDER");
    const auto error_of = [&folder](const char *name) {
        std::size_t size = 0;
        errno = 0;
        const text got(osd::read_file((folder + "/" + name).c_str(), 1000, &size));
        CHECK_EQ(got != nullptr, errno == 0);
        return errno;
    };
    CHECK_EQ(error_of("root"), 0);
    CHECK_EQ(error_of("owner"), 0);
    CHECK_EQ(error_of("another"), EPERM);
    CHECK_EQ(error_of("group"), EPERM);
    CHECK_EQ(error_of("others"), EPERM);
}

TEST_SUITE_END();
