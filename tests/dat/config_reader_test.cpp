// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The grammar of dat.conf.
#include "config_reader.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace {

/// "<line>: <fields separated by |>" or "<line>! <reason>" for each thing the reader says.
std::vector<std::string> read(std::string text)
{
    std::vector<std::string> said;
    dat::config_reader reader(text.data(), text.size());
    dat::config_line line;
    dat::config_problem problem;
    for (;;) {
        switch (reader.next(line, problem)) {
        case dat::config_reader::result::end:
            return said;
        case dat::config_reader::result::problem:
            said.push_back(std::to_string(problem.number) + "! " + problem.reason);
            break;
        case dat::config_reader::result::line:
            said.push_back(
                std::to_string(line.number) + ": " + line.name + "|" + (line.kernel ? "k" : "u") +
                std::to_string(line.api_major) + "." + std::to_string(line.api_minor) + "|" +
                (line.is_thread_safe ? "safe" : "unsafe") + "|" +
                (line.is_default ? "default" : "nondefault") + "|" + line.library + "|" +
                line.provider_version + "|" + line.ia_params + "|" + line.platform_params);
        }
    }
}

std::string one(const std::string &text)
{
    const auto said = read(text);
    REQUIRE(said.size() == 1);
    return said.front();
}

/// The message about `text`, with line number `number` in place of 1.
std::string at_line(char number, const std::string &text)
{
    std::string said = one(text);
    said.front() = number;
    return said;
}

const std::string good = "ia0 u2.0 nonthreadsafe default libx.so.2 x.2.0 \"eth0 0\" \"\"";

} // namespace

TEST_CASE("a line has eight fields")
{
    CHECK(one("ia0 u2 threadsafe default l 2.0 a b") == "1: ia0|u2.0|safe|default|l|2.0|a|b");
    CHECK(one(good + "\n") == "1: ia0|u2.0|unsafe|default|libx.so.2|x.2.0|eth0 0|");
    CHECK(one("ia0 k1.2 threadsafe nondefault /l x.y.10.20 a b\n") ==
          "1: ia0|k1.2|safe|nondefault|/l|x.y.10.20|a|b");
}

TEST_CASE("a line of the old form has seven fields and a version without a name")
{
    CHECK(one("ia0 u1.1 nonthreadsafe default /l 5.13 params\n") ==
          "1: ia0|u1.1|unsafe|default|/l|5.13|params|");
}

TEST_CASE("what says nothing is skipped: empty lines, spaces, comments, an empty file")
{
    CHECK(read("").empty());
    CHECK(read("\n \t\r\n# comment\n   # u2.0 \"\n").empty());
    CHECK(read("#").empty());
}

TEST_CASE("a comment may follow the fields, but does not begin inside one")
{
    CHECK(one(good + " # \"x\" y\n") == one(good));
    CHECK(one(good + "# x\n") == one(good));
    CHECK(one("ia#0 u2.0 threadsafe default l 2.0 a#b \"#\"\n") ==
          "1: ia#0|u2.0|safe|default|l|2.0|a#b|#");
}

TEST_CASE("a backslash protects a quote and a backslash, and is itself before anything else")
{
    CHECK(one(R"(ia0 u2.0 threadsafe default l 2.0 "a\"b\\c" "C:\x")") ==
          R"(1: ia0|u2.0|safe|default|l|2.0|a"b\c|C:\x)");
    CHECK(one(R"(ia0 u2.0 threadsafe default l 2.0 a\"b\\ "")") ==
          R"(1: ia0|u2.0|safe|default|l|2.0|a"b\|)");
}

TEST_CASE("quotes end a field even without a space after them")
{
    CHECK(one("ia0 u2.0 threadsafe default l 2.0 \"a\"\"b\"") ==
          "1: ia0|u2.0|safe|default|l|2.0|a|b");
    CHECK(one("ia0 u2.0 threadsafe default l 2.0\"a\"\"\"") == "1: ia0|u2.0|safe|default|l|2.0|a|");
}

TEST_CASE("the last line needs no newline, lines may end in CR LF, a byte order mark is skipped")
{
    CHECK(one(good) == one(good + "\n"));
    CHECK(one(good + "\r\n") == one(good));
    CHECK(one("\xEF\xBB\xBF" + good) == one(good));
}

TEST_CASE("a malformed line is one problem that says where, what was expected and what was found")
{
    struct {
        const char *text;
        const char *said;
    } const table[] = {
        {"ia0", "expected 8 fields, found 1 (no API version)"},
        {"ia0 u2.0 threadsafe default l 2.0", "expected 8 fields, found 6 (no adapter parameters)"},
        {"ia0 u2.0 threadsafe default l 2.0 eth0 0 \"\"",
         "expected 8 fields, found 9; a field with spaces in it needs quotes"},
        {"\"\" u2.0 threadsafe default l 2.0 a b",
         "field 1, the adapter name: expected a name, found ''"},
        {"ia0 2.0 threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found '2.0'"},
        {"ia0 u2. threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found 'u2.'"},
        {"ia0 u threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found 'u'"},
        {"ia0 u2.x threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found 'u2.x'"},
        {"ia0 u2.0.0 threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found 'u2.0.0'"},
        {"ia0 u2.4294967296 threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found "
         "'u2.4294967296'"},
        {"ia0 u2.0 safe default l 2.0 a b",
         "field 3, the thread safety: expected threadsafe or nonthreadsafe, found 'safe'"},
        {"ia0 u2.18446744073709551616 threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found "
         "'u2.18446744073709551616'"},
        {"ia0 u2.0 threadsafe yes l 2.0 a b",
         "field 4, the default section: expected default or nondefault, found 'yes'"},
        {"ia0 u2.0 threadsafe default \"\" 2.0 a b",
         "field 5, the library: expected a path or the name of a shared library, found ''"},
        {"ia0 u2.0 threadsafe default l two a b",
         "field 6, the provider version: expected [<id>.]<major>.<minor>, found 'two'"},
        {"ia0 u2.0 threadsafe default l x.2 a b",
         "field 6, the provider version: expected [<id>.]<major>.<minor>, found 'x.2'"},
        {"ia0 u2.0 threadsafe default l 2.0 \"a b",
         "field 7: expected a closing quote, found the end of the line"},
        {"ia0 u2.0 threadsafe default l 2.0 a \"b\\\"",
         "field 8: expected a closing quote, found the end of the line"},
        {"ia0 \x01\xff threadsafe default l 2.0 a b",
         "field 2, the API version: expected u<major>.<minor> or k<major>.<minor>, found "
         "'\\x01\\xff'"},
    };
    for (const auto &row : table) {
        CAPTURE(row.text);
        CHECK(read(std::string("\n") + row.text + "\n" + good + "\n") ==
              std::vector<std::string>{std::string("2! ") + row.said, at_line('3', good)});
        CHECK(one(row.text) == std::string("1! ") + row.said);
    }
}

TEST_CASE("a null byte spoils its line only")
{
    CHECK(read(std::string("ia\0", 3) + good + "\n" + good) ==
          std::vector<std::string>{"1! expected text, found a null byte", at_line('2', good)});
}

TEST_CASE("an adapter name has at most 255 characters")
{
    const std::string rest = good.substr(3);
    CHECK(one(std::string(255, 'x') + rest)[1] == ':');
    CHECK(one(std::string(256, 'x') + rest) ==
          "1! field 1, the adapter name: expected at most 255 characters, found 256");
}

TEST_CASE("a message stays short however long the field is")
{
    const std::string said = one("ia0 u2.0 " + std::string(100000, 'z') + " default l 2.0 a b");
    CHECK(said.size() < 200);
    CHECK(said.find("zzz...'") != std::string::npos);
    CHECK(one(std::string(1 << 20, 'q')).substr(0, 17) == "1! expected 8 fie");
}

TEST_CASE("parameters may be as long as the line")
{
    const std::string long_one(1 << 20, 'p');
    CHECK(one("ia0 u2.0 threadsafe default l 2.0 " + long_one + " \"\"") ==
          "1: ia0|u2.0|safe|default|l|2.0|" + long_one + "|");
}

TEST_CASE("thousands of lines are read, each with its number")
{
    std::string text;
    for (int i = 0; i < 5000; ++i)
        text += good + "\nx\n";
    const auto said = read(text);
    REQUIRE(said.size() == 10000);
    CHECK(said[9999].substr(0, 8) == "10000! e");
    CHECK(said[9998].substr(0, 9) == "9999: ia0");
}

TEST_CASE("any bytes are read to their end")
{
    unsigned state = 1;
    for (int round = 0; round < 2000; ++round) {
        std::string junk(static_cast<std::size_t>(round % 300), ' ');
        for (char &c : junk) {
            state = state * 1664525 + 1013904223;
            c = "\n\" \\#u2.0k\t\r\0ab\xff"[state >> 28];
        }
        CHECK(read(junk).size() <= junk.size());
    }
}
