// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Paths as Windows has them, in dat.conf and around it.
#include "adapters.hpp"
#include "checks.hpp"

#include <filesystem>
#include <fstream>
#include <windows.h>

using namespace scenario;

namespace {

/// A folder with a space in its name and the stub in it.
class stub_folder {
public:
    stub_folder()
    {
        std::filesystem::create_directories(path_);
        std::filesystem::copy_file(STUB_PROVIDER, path_ / "stub.dll");
    }
    ~stub_folder() { std::filesystem::remove_all(path_); }
    stub_folder(const stub_folder &) = delete;
    stub_folder &operator=(const stub_folder &) = delete;

    std::string path() const { return path_.string(); }
    std::string library() const { return (path_ / "stub.dll").string(); }

private:
    std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                  ("dat test " + std::to_string(GetCurrentProcessId()));
};

std::string quoted(const std::string &text)
{
    return '"' + text + '"';
}

std::string replaced(std::string text, char from, const std::string &to)
{
    std::string result;
    for (const char c : text)
        result += c == from ? to : std::string(1, c);
    return result;
}

void open_and_close()
{
    const DAT_IA_HANDLE ia = opened("s");
    EXPECT_EQ(close(ia), DAT_SUCCESS);
}

} // namespace

TEST_CASE("the path of a library has backslashes, doubled backslashes or slashes")
{
    const stub_folder folder;
    const std::string path = folder.library();
    REQUIRE(path.find('\\') != std::string::npos);
    check_quiet(run(line("s", quoted(path)), open_and_close));
    check_quiet(run(line("s", quoted(replaced(path, '\\', "\\\\"))), open_and_close));
    check_quiet(run(line("s", quoted(replaced(path, '\\', "/"))), open_and_close));
}

TEST_CASE("two backslashes are one: a network path needs four, or slashes")
{
    const outcome two = run(line("s", R"(\\host\share\l.dll)"), [] {
        DAT_IA_HANDLE ia;
        EXPECT_EQ(open("s", ia), not_found);
    });
    CHECK(lines_with(two.messages, R"(library \host\share\l.dll cannot)") == 1);
    const std::string network = R"(library \\localhost\none\l.dll cannot)";
    for (const char *path : {R"(\\\\localhost\none\l.dll)", "//localhost/none/l.dll"}) {
        const outcome result = run(line("s", path), [] {
            DAT_IA_HANDLE ia;
            EXPECT_EQ(open("s", ia), not_found);
        });
        CHECK(lines_with(replaced(result.messages, '/', "\\"), network) == 1);
    }
}

TEST_CASE("the installed dat.conf is that of ProgramData, and may end its lines as Windows does")
{
    const stub_folder folder;
    std::filesystem::create_directories(folder.path() + "\\dapl");
    std::ofstream(folder.path() + "\\dapl\\dat.conf") << line("s", STUB_PROVIDER);
    const environment chosen = {
        {"ProgramData", folder.path()}, {"DAT_OVERRIDE", ""}, {"DAT_CONF", ""}};
    check_quiet(run_as_is(open_and_close, chosen));
}
