// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ia_params.hpp"

#include "logged_lines.hpp"

#include <cstring>
#include <doctest/doctest.h>

using namespace dapl::DAPL_TRANSPORT;

namespace {

struct sample {
    std::uint32_t depth = 7;
    std::uint32_t spin_us = 8;
    char file[8] = {};
};

constexpr param_option<sample> sample_options[] = {
    {"depth", &sample::depth, 1, 100},
    {"spin_us", &sample::spin_us},
};

status read_sample(const char *text, sample &into)
{
    ia_params words(text, "<device> [key=value ...]");
    char device[8];
    if (!words.next(device))
        return words.refuse_word("no device is named");
    const auto is_file = [&into](const char *word) {
        const bool is = std::strncmp(word, "file=", 5) == 0 && std::strlen(word) < 12;
        if (is)
            std::strcpy(into.file, word + 5);
        return is;
    };
    return words.read_options<16>(sample_options, into, is_file, "file");
}

} // namespace

TEST_SUITE("ia_params")
{
    TEST_CASE("options are read")
    {
        sample got;
        CHECK(read_sample("lo depth=3 file=key spin_us=0", got).ok());
        CHECK(got.depth == 3);
        CHECK(got.spin_us == 0);
        CHECK(std::string(got.file) == "key");
    }

    TEST_CASE("a wrong one is named, with what there is, in one line")
    {
        const struct {
            const char *text;
            const char *said;
        } wrong[] = {
            {"", "no device is named; wanted: <device> [key=value ...]"},
            {"lo nosuch=7", "there is no option \"nosuch=7\"; there are depth, spin_us, file"},
            {"lo dep=7", "there is no option \"dep=7\"; there are"},
            {"lo depth=101", "\"depth=101\": depth is a number from 1 to 100"},
            {"lo depth=", "\"depth=\": depth is a number from 1 to 100"},
            {"lo depth", "\"depth\": depth is a number from 1 to 100"},
            {"lo depth=0x5", "\"depth=0x5\": depth is a number"},
            {"lo depth=1 a_word_of_more_than_16", "a word is too long"},
        };
        for (const auto &each : wrong) {
            CAPTURE(each.text);
            const logged_lines log;
            sample ignored;
            CHECK(read_sample(each.text, ignored).type() == DAT_INVALID_PARAMETER);
            CHECK(log.count(each.said) == 1);
            CHECK(log.count("ia_params \"" + std::string(each.text) + "\"") == 1);
            CHECK(log.count("\n") == 1);
        }
    }
}
