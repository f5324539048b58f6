// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What ports read their ia_params with.
#include "dapl_params.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace dapl::DAPL_TRANSPORT;

namespace {

struct bounded_params {
    std::uint32_t depth = 7;
    std::uint32_t size = 8;
};

constexpr param_option<bounded_params> bounded_options[] = {
    {"depth", &bounded_params::depth, 1, 100},
    {"size", &bounded_params::size},
};

} // namespace

TEST_SUITE_BEGIN("params");

TEST_CASE("words are separated by blanks, and one that does not fit is not the end")
{
    char word[6];
    param_words words("  eth0\t \tlast  ");
    CHECK(words.next(word, sizeof word));
    CHECK(std::string(word) == "eth0");
    CHECK(!words.at_end());
    CHECK(words.next(word, sizeof word));
    CHECK(std::string(word) == "last");
    CHECK(!words.next(word, sizeof word));
    CHECK(words.at_end());
    param_words long_one("123456");
    CHECK(!long_one.next(word, sizeof word));
    CHECK(!long_one.at_end());
}

TEST_CASE("a word with blanks in it stands between single quotes")
{
    char word[12];
    param_words words(" 'Ethernet 2'\tkey=1 it's 'open");
    for (const char *wanted : {"Ethernet 2", "key=1", "it's", "'open"}) {
        CHECK(words.next(word, sizeof word));
        CHECK(std::string(word) == wanted);
    }
    CHECK(words.at_end());
    param_words long_one("'Ethernet 12' x");
    char small[11];
    CHECK(!long_one.next(small, sizeof small));
    CHECK(!long_one.at_end());
    param_words none("'' x");
    CHECK(!none.next(small, sizeof small));
    CHECK(!none.at_end());
}

TEST_CASE("a number is digits, within its limits, or nothing changes")
{
    std::uint32_t value = 1;
    CHECK(read_number("2147483647", value));
    CHECK(value == 2147483647);
    CHECK(read_number("5", value, 5, 5));
    for (const char *wrong : {"", "-1", "+1", " 1", "1 ", "0x1", "1e3", "2147483648",
                              "18446744073709551616", "99999999999999999999999"})
        CHECK_MESSAGE(!read_number(wrong, value), wrong);
    CHECK(!read_number("4", value, 5, 6));
    CHECK(!read_number("7", value, 5, 6));
    CHECK(value == 5);
}

TEST_CASE("an option is a whole key and a number that it takes")
{
    bounded_params params;
    CHECK(read_option("depth=100", bounded_options, params));
    CHECK(read_option("size=0", bounded_options, params));
    CHECK(params.depth == 100);
    CHECK(params.size == 0);
    for (const char *wrong : {"depth", "depth=", "depth=0", "depth=101", "dep=1", "depths=1", "=1",
                              "DEPTH=1", "depth=1=1"})
        CHECK_MESSAGE(!read_option(wrong, bounded_options, params), wrong);
    CHECK(params.depth == 100);
}

TEST_SUITE_END();
