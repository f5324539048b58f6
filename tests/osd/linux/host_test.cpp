// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What only Linux has: signals and fifos.
#include "osd_sync.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"
#include "scratch.hpp"
#include "until_signalled.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace {

using osd::deadline;
using osd::wait_result;

void tell_mask(void *mask)
{
    pthread_sigmask(SIG_BLOCK, nullptr, static_cast<sigset_t *>(mask));
}

} // namespace

TEST_SUITE_BEGIN("host");

TEST_CASE("a signal handler that runs in the waiter ends the wait as interrupted; a wake after it "
          "is kept")
{
    const interrupting_signal installed;
    osd::wait_object w;
    CHECK_EQ(until_signalled([&] { return w.wait(deadline::never()); }), wait_result::interrupted);
    CHECK_EQ(until_signalled([&] { return w.wait(deadline::after_us(10'000'000)); }),
             wait_result::interrupted);
    w.wake();
    CHECK_EQ(w.wait(deadline::passed()), wait_result::woken);
}

TEST_CASE("a signal handler that runs in a condition's waiter ends the wait as interrupted")
{
    const interrupting_signal installed;
    osd::mutex m;
    osd::condition changed;
    const auto wait = [&] {
        osd::lock_guard hold(m);
        return changed.wait(m, deadline::never());
    };
    CHECK_EQ(until_signalled(wait), wait_result::interrupted);
}

TEST_CASE("a service thread runs with all signals blocked; the starter's mask stays")
{
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, nullptr, &before);
    sigset_t blocked;
    osd::thread t;
    REQUIRE(t.start("signals", tell_mask, &blocked));
    t.join();
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    for (const int number :
         {SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD, SIGPIPE}) {
        CAPTURE(number);
        CHECK_EQ(sigismember(&blocked, number), 1);
        CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
    }
}

TEST_CASE("a fifo without a writer does not hang")
{
    const scratch dir;
    REQUIRE_EQ(mkfifo(dir.in("fifo").c_str(), 0600), 0);
    std::size_t size = 0;
    alarm(20); // better a dead test than a hanging one
    CHECK_EQ(osd::read_file(dir.in("fifo").c_str(), 1000, &size), nullptr);
    alarm(0);
}

TEST_SUITE_END();
