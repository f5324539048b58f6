#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# doctest-dev 2.4.9~ds-1 (Debian 12). Which signal handlers a test case runs under.
# Guess: those for crashes.
# Seen: SIGINT and SIGTERM as well, and all without SA_RESTART. So code that asks the dispositions
# whether a call that a signal has interrupted may go on ("does any handler lack SA_RESTART?") finds
# another answer in each doctest program than in the program that it is for.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root doctest-dev=2.4.9~ds-1
dpkg -x doctest-dev_*.deb .

cat >probe.cpp <<'C'
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>

TEST_CASE("dispositions")
{
    const struct {
        int number;
        const char *name;
    } all[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGSEGV, "SIGSEGV"}, {SIGHUP, "SIGHUP"}};
    for (const auto &each : all) {
        struct sigaction now {};
        sigaction(each.number, nullptr, &now);
        std::printf("%s: %s, %s\n", each.name, now.sa_handler == SIG_DFL ? "default" : "handled",
                    (now.sa_flags & SA_RESTART) != 0 ? "restarts" : "does not restart");
    }
}
C
c++ -std=c++17 -I usr/include -o probe probe.cpp
./probe | grep '^SIG' | tee output
diff - output <<'SEEN'
SIGINT: handled, does not restart
SIGTERM: handled, does not restart
SIGSEGV: handled, does not restart
SIGHUP: default, does not restart
SEEN
echo "as seen before"
