// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Environment, files, shared libraries, the log.
#include "host.hpp"
#include "osd_errno.hpp"
#include "osd_system.hpp"
#include "scratch.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace {

constexpr std::uint64_t fallback = 4711;

std::uint64_t number(const char *text)
{
    host::set_variable("OSD_TEST_NUMBER", text);
    return osd::environment_number("OSD_TEST_NUMBER", fallback);
}

} // namespace

TEST_SUITE_BEGIN("system");

TEST_CASE("a number of the environment: decimal, hexadecimal, octal")
{
    CHECK_EQ(number("0"), 0);
    CHECK_EQ(number("12"), 12);
    CHECK_EQ(number("0x1F"), 31);
    CHECK_EQ(number("0X1f"), 31);
    CHECK_EQ(number("017"), 15);
    CHECK_EQ(number("18446744073709551615"), ~0ull);
    CHECK_EQ(number("0xffffffffffffffff"), ~0ull);
}

TEST_CASE("what is not wholly a number is as if unset")
{
    for (const char *bad : {"", "x", "12x", "0x", "1.5", "-1", "--1", "1 2", "12 ", "0x1g", "08",
                            "18446744073709551616", "99999999999999999999999999", "0b1"}) {
        CAPTURE(bad);
        CHECK_EQ(number(bad), fallback);
    }
    host::set_variable("OSD_TEST_NUMBER", nullptr);
    CHECK_EQ(osd::environment_number("OSD_TEST_NUMBER", fallback), fallback);
}

TEST_CASE("a negative number is as if unset, whatever stands before it")
{
    for (const char *bad : {" -1", "\t-1", "\n -5", " - 1"}) {
        CAPTURE(bad);
        CHECK_EQ(number(bad), fallback);
    }
}

TEST_CASE("a variable that is not there is null")
{
    host::set_variable("OSD_TEST_TEXT", nullptr);
    CHECK_EQ(osd::environment("OSD_TEST_TEXT"), nullptr);
    for (const char *value : {"here", ""}) {
        host::set_variable("OSD_TEST_TEXT", value);
        const text got(osd::environment("OSD_TEST_TEXT"));
        REQUIRE_NE(got.get(), nullptr);
        CHECK_EQ(std::string(got.get()), value);
    }
}

TEST_CASE("a file is read whole and ends in a null")
{
    const scratch dir;
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
        dir.write(std::string(length, 'a'));
        std::size_t size = 99;
        const text got(osd::read_file(dir.in("file").c_str(), 5000, &size));
        REQUIRE_NE(got.get(), nullptr);
        CHECK_EQ(size, length);
        CHECK_EQ(std::strlen(got.get()), length);
    }
    dir.write(std::string("a\0b", 3));
    std::size_t size = 0;
    const text got(osd::read_file(dir.in("file").c_str(), 100, &size));
    CHECK_EQ(size, 3);
    CHECK_EQ(got.get()[2], 'b');
}

TEST_CASE("a file that is missing, too large, a directory or a device is refused, with errno")
{
    const scratch dir;
    std::size_t size = 0;
    errno = 0;
    CHECK_EQ(osd::read_file(dir.in("none").c_str(), 10, &size), nullptr);
    CHECK_EQ(errno, ENOENT);
    dir.write("eleven char");
    errno = 0;
    CHECK_EQ(osd::read_file(dir.in("file").c_str(), 10, &size), nullptr);
    CHECK_NE(errno, 0);
    const text whole(osd::read_file(dir.in("file").c_str(), 11, &size));
    CHECK_NE(whole.get(), nullptr);
    for (const std::string &path : {dir.in(""), std::string(host::device)}) {
        errno = 0;
        CHECK_EQ(osd::read_file(path.c_str(), 1000, &size), nullptr);
        CHECK_NE(errno, 0);
    }
}

TEST_CASE("reading files leaves no descriptor open")
{
    const scratch dir;
    dir.write("x");
    std::size_t size = 0;
    const int before = dup(0);
    close(before);
    for (int i = 0; i < 10; ++i) {
        text(osd::read_file(dir.in("file").c_str(), 10, &size)).reset();
        (void)osd::read_file(dir.in("").c_str(), 10, &size);
        (void)osd::read_file(dir.in("file").c_str(), 0, &size);
    }
    const int after = dup(0);
    close(after);
    CHECK_EQ(before, after);
}

TEST_CASE("errors of the C library and of the network have texts")
{
    CHECK(std::string(osd::error_text(ENOMEM).text) == std::strerror(ENOMEM));
    for (int error : {ESHUTDOWN, EHOSTDOWN}) {
        const std::string text = osd::error_text(error).text;
        CHECK_MESSAGE(text.find("nknown") == std::string::npos, text);
        CHECK(text.size() > 6);
    }
}

TEST_CASE("a library that is not there: null, and the text of the failure, cut to its room")
{
    char error[8] = "xxxxxxx";
    CHECK_EQ(osd::library_open("/nowhere/libnone.so", error, sizeof error), nullptr);
    CHECK_EQ(error[7], '\0');
    CHECK_NE(std::strlen(error), 0);
    void *there = osd::library_open(host::library, error, sizeof error);
    REQUIRE_NE(there, nullptr);
    CHECK_NE(osd::library_symbol(there, host::library_symbol), nullptr);
    CHECK_EQ(osd::library_symbol(there, "osd_test_no_such_symbol"), nullptr);
    osd::library_close(there);
}

TEST_CASE("the system keeps its configuration in one or more places, none of them twice")
{
    char first[300], other[300], small[8];
    REQUIRE(osd::config_path(0, "dat.conf", first, sizeof first));
    CHECK(std::string(first).ends_with("dat.conf"));
    if (osd::config_path(1, "dat.conf", other, sizeof other))
        CHECK_NE(std::string(first), other);
    CHECK_FALSE(osd::config_path(2, "dat.conf", other, sizeof other));
    CHECK_FALSE(osd::config_path(0, "dat.conf", small, sizeof small));
}

TEST_CASE("a log line comes whole, with its identity")
{
    std::fflush(stdout);
    const scratch dir;
    const int saved = dup(1);
    const int file = open(dir.in("file").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(file, 1);
    osd::log_line(0, "who", "this goes to no log");
    osd::log_line(osd::log_stdout, "who", "what 100%s");
    dup2(saved, 1);
    close(saved);
    close(file);
    std::size_t size = 0;
    const text got(osd::read_file(dir.in("file").c_str(), 1000, &size));
    REQUIRE_NE(got.get(), nullptr);
    CHECK_EQ(std::string(got.get()), std::string("who: what 100%s") + host::line_end);
}

TEST_SUITE_END();
