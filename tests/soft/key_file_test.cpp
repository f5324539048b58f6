// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The files that are taken as a key, and the files that are refused.
#include "key_file.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace key_file_suite {

using dapl::soft::key_file;
using trouble = key_file::trouble;

namespace {

class scratch_file {
public:
    explicit scratch_file(const std::string &what, mode_t mode = 0600)
    {
        const int file = mkstemp(name_);
        REQUIRE(file >= 0);
        REQUIRE(write(file, what.data(), what.size()) == static_cast<ssize_t>(what.size()));
        REQUIRE(fchmod(file, mode) == 0);
        close(file);
    }
    ~scratch_file() { (void)unlink(name_); }
    const char *name() const { return name_; }

private:
    char name_[32] = "/tmp/soft-key-XXXXXX";
};

std::string key_in(const std::string &what)
{
    const scratch_file file(what);
    key_file key;
    REQUIRE(key.read(file.name()) == trouble::none);
    return {key.bytes(), key.bytes() + key.size()};
}

trouble trouble_with(const std::string &what, mode_t mode = 0600)
{
    const scratch_file file(what, mode);
    key_file key;
    return key.read(file.name());
}

} // namespace

TEST_SUITE_BEGIN("key file");

TEST_CASE("bytes are taken as they are, hexadecimal digits as what they mean")
{
    const std::string raw = "0123456789abcdef0123456789abcde\n";
    CHECK(raw.size() == 32);
    CHECK(key_in(raw) == raw);
    std::string digits;
    std::string meant;
    for (int i = 0; i < 32; ++i) {
        char two[3];
        std::snprintf(two, sizeof two, i % 2 != 0 ? "%02x" : "%02X", 0xa0 + i);
        digits += two;
        meant += static_cast<char>(0xa0 + i);
    }
    CHECK(key_in(digits) == meant);
    CHECK(key_in(digits + "\n") == meant);
    digits[7] = 'g';
    CHECK(key_in(digits) == digits);
    CHECK(key_in(std::string(4096, 'x')).size() == 4096);
}

TEST_CASE("files that are too short, too long, or open to others are refused")
{
    CHECK(trouble_with("") == trouble::too_short);
    CHECK(trouble_with(std::string(31, 'x')) == trouble::too_short);
    CHECK(trouble_with(std::string(4097, 'x')) == trouble::too_long);
    const std::string good(32, 'x');
    for (const mode_t mode : {0640, 0620, 0610, 0604, 0602, 0601, 0777})
        CHECK(trouble_with(good, mode) == trouble::open_to_others);
    CHECK(trouble_with(good, 0400) == trouble::none);
}

TEST_CASE("a file of another user is refused, one of root is not")
{
    if (geteuid() != 0)
        return;
    constexpr uid_t nobody = 65534;
    const scratch_file ours(std::string(32, 'x'));
    key_file key;
    REQUIRE(chown(ours.name(), nobody, nobody) == 0);
    CHECK(key.read(ours.name()) == trouble::of_another);
    REQUIRE(seteuid(nobody) == 0);
    CHECK(key.read(ours.name()) == trouble::none);
    REQUIRE(seteuid(0) == 0);
    REQUIRE(chown(ours.name(), 0, 0) == 0);
    CHECK(key.read(ours.name()) == trouble::none);
}

TEST_CASE("a symbolic link is refused")
{
    const scratch_file file(std::string(32, 'x'));
    const std::string link = std::string(file.name()) + "-link";
    REQUIRE(symlink(file.name(), link.c_str()) == 0);
    key_file key;
    CHECK(key.read(link.c_str()) == trouble::a_link);
    (void)unlink(link.c_str());
}

TEST_CASE("what is missing or no file is refused")
{
    key_file key;
    CHECK(key.read("/tmp/soft-key-which-is-not-there") == trouble::not_readable);
    CHECK(key.read("/tmp") == trouble::not_a_file);
    char fifo[] = "/tmp/soft-key-fifo-XXXXXX";
    REQUIRE(mkdtemp(fifo) != nullptr);
    const std::string name = std::string(fifo) + "/fifo";
    REQUIRE(mkfifo(name.c_str(), 0600) == 0);
    CHECK(key.read(name.c_str()) == trouble::not_a_file); // open() does not block
    (void)unlink(name.c_str());
    (void)rmdir(fifo);
}

TEST_SUITE_END();

} // namespace key_file_suite
