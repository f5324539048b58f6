// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Forked children.
#include "adapters.hpp"
#include "checks.hpp"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scenario;

TEST_CASE("a forked child may exit with its parent's adapters open, also while others are opening")
{
    check_quiet(run(line("s", STUB_PROVIDER), [] {
        const DAT_IA_HANDLE ia = opened("s");
        std::atomic<bool> stop{false};
        std::thread busy([&] {
            while (!stop)
                close(opened("s"));
        });
        for (int i = 0; i < 20; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(20); // a hang is a failure, not a hang of the suite
                ignore_leaks();
                std::exit(0);
            }
            int status = -1;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
        }
        stop = true;
        busy.join();
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped("stub_provider"));
    }));
}

TEST_CASE("a forked child may close its parent's adapters, also while others are opening")
{
    check_quiet(run(line("s", STUB_PROVIDER), [] {
        const DAT_IA_HANDLE ia = opened("s");
        std::atomic<bool> stop{false};
        std::thread busy([&] {
            while (!stop)
                close(opened("s"));
        });
        for (int i = 0; i < 50; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(20);
                _exit(close(ia) == DAT_SUCCESS ? 0 : 1);
            }
            int status = -1;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
        }
        stop = true;
        busy.join();
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT(!is_mapped("stub_provider"));
    }));
}
