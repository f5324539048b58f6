// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A library that handles signals of the program, as long as it is loaded.
#include <csignal>

namespace {

void handle(int) {}

struct sigaction found[2];

__attribute__((constructor)) void install()
{
    struct sigaction own {};
    own.sa_handler = &handle;
    sigaction(SIGUSR1, &own, &found[0]);
    sigaction(SIGTERM, &own, &found[1]);
}

__attribute__((destructor)) void put_back()
{
    sigaction(SIGUSR1, &found[0], nullptr);
    sigaction(SIGTERM, &found[1], nullptr);
}

} // namespace
