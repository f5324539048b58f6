// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Stacks of service threads.
#include "osd_thread.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

namespace {

/// What the calling thread may use.
void measure(void *out)
{
    pthread_attr_t mine;
    if (pthread_getattr_np(pthread_self(), &mine) != 0)
        return;
    (void)pthread_attr_getstacksize(&mine, static_cast<std::size_t *>(out));
    pthread_attr_destroy(&mine);
}

std::size_t stack_of_a_thread()
{
    std::size_t size = 0;
    osd::thread t;
    REQUIRE(t.start("stack", measure, &size));
    t.join();
    return size;
}

} // namespace

TEST_SUITE_BEGIN("stack");

TEST_CASE("a service thread has a stack of its own size where the program's are small")
{
    pthread_attr_t before;
    REQUIRE(pthread_getattr_default_np(&before) == 0);
    std::size_t usual = 0;
    REQUIRE(pthread_attr_getstacksize(&before, &usual) == 0);
    CHECK(stack_of_a_thread() >= usual); // at least the size that the program wants

    pthread_attr_t small;
    REQUIRE(pthread_attr_init(&small) == 0);
    REQUIRE(pthread_attr_setstacksize(&small, 128 * 1024) == 0);
    REQUIRE(pthread_setattr_default_np(&small) == 0);
    const std::size_t found = stack_of_a_thread();
    REQUIRE(pthread_setattr_default_np(&before) == 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&before);
    CHECK(found >= 512 * 1024);
}

TEST_SUITE_END();
