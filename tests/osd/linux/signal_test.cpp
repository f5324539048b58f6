// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Libraries that change what the program does about signals.
#include "osd_system.hpp"

#include <csignal>
#include <doctest/doctest.h>

namespace {

void first(int) {}
void second(int) {}

using handler = void (*)(int);

bool is_handled_by(int signal, handler by)
{
    struct sigaction action {};
    CHECK(sigaction(signal, nullptr, &action) == 0);
    return action.sa_handler == by;
}

void handle_with(int signal, handler with)
{
    struct sigaction action {};
    action.sa_handler = with;
    CHECK(sigaction(signal, &action, nullptr) == 0);
}

} // namespace

TEST_SUITE_BEGIN("signal");

TEST_CASE("a library does not change what the program does about signals")
{
    handle_with(SIGUSR1, &first);
    handle_with(SIGTERM, SIG_DFL);
    char why[256];
    void *library = osd::library_open(SIGNAL_LIBRARY, why, sizeof why);
    REQUIRE(library != nullptr);
    CHECK(is_handled_by(SIGUSR1, &first));
    CHECK(is_handled_by(SIGTERM, SIG_DFL));
    SUBCASE("as it was at its load")
    {
        osd::library_close(library);
        CHECK(is_handled_by(SIGUSR1, &first));
        CHECK(is_handled_by(SIGTERM, SIG_DFL));
    }
    SUBCASE("as it became later")
    {
        handle_with(SIGUSR1, &second);
        handle_with(SIGTERM, SIG_IGN);
        osd::library_close(library);
        CHECK(is_handled_by(SIGUSR1, &second));
        CHECK(is_handled_by(SIGTERM, SIG_IGN));
    }
    handle_with(SIGUSR1, SIG_DFL);
    handle_with(SIGTERM, SIG_DFL);
}

TEST_SUITE_END();
