// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service threads.
#include "host.hpp"
#include "osd_thread.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

struct report {
    osd::thread *self = nullptr;
    std::string name;
    bool current = false;
    long id = 0;
};

void look_around(void *argument)
{
    auto *r = static_cast<report *>(argument);
    r->name = host::thread_name();
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

TEST_CASE("a service thread bears its name, cut to 15 characters")
{
    CHECK_EQ(run("dapl-timer").name, "dapl-timer");
    CHECK_EQ(run("a-name-that-is-too-long").name, "a-name-that-is-");
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
    CHECK_EQ(osd::process_id(), host::process_id());
    CHECK_EQ(osd::thread_id(), host::thread_id());
}

TEST_SUITE_END();
