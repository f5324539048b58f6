// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Windows' differences: text, paths, places of files.
#include "host.hpp"
#include "osd_system.hpp"
#include "scratch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

namespace {

bool loads(const std::string &path)
{
    char why[300] = "";
    void *library = osd::library_open(path.c_str(), why, sizeof why);
    if (library != nullptr)
        osd::library_close(library);
    return library != nullptr;
}

std::string this_program()
{
    char path[MAX_PATH] = "";
    GetModuleFileNameA(nullptr, path, MAX_PATH);
    return path;
}

} // namespace

TEST_SUITE_BEGIN("host");

TEST_CASE("the system's configuration lies in the dapl folder of ProgramData")
{
    char path[300];
    host::set_variable("ProgramData", "X:\\data");
    REQUIRE(osd::config_path(0, "dat.conf", path, sizeof path));
    CHECK_EQ(std::string(path), "X:\\data\\dapl\\dat.conf");
    CHECK_FALSE(osd::config_path(1, "dat.conf", path, sizeof path));
    host::set_variable("ProgramData", nullptr);
    CHECK_FALSE(osd::config_path(0, "dat.conf", path, sizeof path));
}

TEST_CASE("names of files and values of variables are UTF-8")
{
    const scratch dir;
    dir.write(u8"b\u00fcro \u4e2d", "text");
    std::size_t size = 0;
    const text got(osd::read_file(dir.in(u8"b\u00fcro \u4e2d").c_str(), 10, &size));
    CHECK_NE(got.get(), nullptr);
    SetEnvironmentVariableW(L"OSD_TEST_TEXT", L"\u00fc");
    const text value(osd::environment("OSD_TEST_TEXT"));
    REQUIRE_NE(value.get(), nullptr);
    CHECK_EQ(std::string(value.get()), "\xc3\xbc");
}

TEST_CASE("a library is found by name in the system's folder, by path with slashes of either kind")
{
    CHECK(loads("version.dll"));
    std::string path = this_program();
    CHECK(loads(path));
    std::replace(path.begin(), path.end(), '\\', '/');
    CHECK(loads(path));
    CHECK_FALSE(loads("X:/nowhere/version.dll"));
}

TEST_CASE("a name without a folder is not looked for in the current folder")
{
    const scratch dir;
    std::filesystem::copy_file(this_program(), dir.path() / "osd_test_planted.dll");
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(dir.path());
    CHECK(loads(".\\osd_test_planted.dll"));
    CHECK_FALSE(loads("osd_test_planted.dll"));
    std::filesystem::current_path(before);
}

TEST_CASE("the loader's reason is one line, in words and as a number")
{
    char why[300] = "";
    CHECK_EQ(osd::library_open("X:\\nowhere.dll", why, sizeof why), nullptr);
    const std::string reason = why;
    CAPTURE(reason);
    CHECK(reason.starts_with("X:\\nowhere.dll: "));
    CHECK(reason.ends_with("(error 126)"));
    CHECK_EQ(reason.find('\n'), std::string::npos);
}

TEST_SUITE_END();
