// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service threads.
#include "osd_thread.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>

namespace {

struct report {
    osd::thread *self = nullptr;
    sigset_t blocked{};
    char name[16] = {};
    bool current = false;
    long id = 0;
};

void look_around(void *argument)
{
    auto *r = static_cast<report *>(argument);
    pthread_sigmask(SIG_BLOCK, nullptr, &r->blocked);
    pthread_getname_np(pthread_self(), r->name, sizeof r->name);
    r->current = r->self != nullptr && r->self->is_current();
    r->id = osd::thread_id();
}

report run(const char *name)
{
    report r;
    osd::thread t;
    REQUIRE(t.start(name, look_around, &r));
    t.join();
    return r;
}

} // namespace

TEST_SUITE_BEGIN("thread");

TEST_CASE("a service thread runs with all signals blocked; the starter's mask stays")
{
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, nullptr, &before);
    const report r = run("signals");
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    for (const int number :
         {SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD, SIGPIPE}) {
        CAPTURE(number);
        CHECK_EQ(sigismember(&r.blocked, number), 1);
        CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
    }
}

TEST_CASE("a service thread bears its name, cut to 15 characters")
{
    CHECK_EQ(std::string(run("dapl-timer").name), "dapl-timer");
    CHECK_EQ(std::string(run("a-name-that-is-too-long").name), "a-name-that-is-");
}

TEST_CASE("join may be called without a thread, and twice; a thread starts again after it")
{
    osd::thread t;
    t.join();
    CHECK_FALSE(t.running());
    for (int i = 0; i < 3; ++i) {
        report r;
        REQUIRE(t.start("again", look_around, &r));
        CHECK(t.running());
        t.join();
        t.join();
        CHECK_FALSE(t.running());
        CHECK_NE(r.id, 0);
        CHECK_NE(r.id, osd::thread_id());
    }
}

TEST_CASE("a thread knows itself from its first instruction")
{
    int wrong = 0;
    for (int i = 0; i < 500; ++i) {
        osd::thread t;
        report r;
        r.self = &t;
        REQUIRE(t.start("self", look_around, &r));
        CHECK_FALSE(t.is_current());
        t.join();
        wrong += !r.current;
    }
    CHECK_EQ(wrong, 0);
}

TEST_CASE("process and thread ids are those of the system")
{
    CHECK_EQ(osd::process_id(), static_cast<long>(getpid()));
    CHECK_EQ(osd::thread_id(), static_cast<long>(gettid()));
}

TEST_SUITE_END();
