// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Forked children.
#include "adapters.hpp"
#include "checks.hpp"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scenario;

namespace {

/// Forks children that do this, one after the other, while another thread opens and closes; each
/// has to end with 0.
template <class Child>
void fork_while_others_open(int children, Child child)
{
    const DAT_IA_HANDLE ia = opened("s");
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop)
            close(opened("s"));
    });
    for (int i = 0; i < children; ++i) {
        const pid_t number = fork();
        if (number == 0) {
            alarm(20); // a hang is a failure, not a hang of the suite
            child(ia);
        }
        int status = -1;
        waitpid(number, &status, 0);
        EXPECT_EQ(status, 0);
    }
    stop = true;
    busy.join();
    EXPECT_EQ(close(ia), DAT_SUCCESS);
    EXPECT(!is_mapped("stub_provider"));
}

} // namespace

TEST_CASE("a forked child may exit with its parent's adapters open, also while others are opening")
{
    check_quiet(run(line("s", STUB_PROVIDER), [] {
        fork_while_others_open(20, [](DAT_IA_HANDLE) {
            ignore_leaks();
            std::exit(0);
        });
    }));
}

TEST_CASE("a forked child may close its parent's adapters, also while others are opening")
{
    check_quiet(run(line("s", STUB_PROVIDER), [] {
        fork_while_others_open(50,
                               [](DAT_IA_HANDLE ia) { _exit(close(ia) == DAT_SUCCESS ? 0 : 1); });
    }));
}
