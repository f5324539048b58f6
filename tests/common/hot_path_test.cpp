// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// No surprise work on the hot path: post and dequeue of a consumer that promised one thread per
// object take no mutex, make no system call, and allocate nothing once as many were outstanding
// before.
#include "fixture.hpp"
#include "wraps.hpp"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace test;

namespace {

/// What a consumer does all day. False when anything failed.
bool work(consumer &c, station &s, qp &port, int turns)
{
    DAT_LMR_TRIPLET local{};
    DAT_RMR_TRIPLET remote{};
    local.segment_length = remote.segment_length = 8;
    const DAT_DTO_COOKIE cookie{};
    constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;
    bool good = true;
    for (int i = 0; i < turns; ++i) {
        DAT_EVENT event;
        good &= c.v.ep_post_recv_func(s.ep, 1, &local, cookie, plain) == DAT_SUCCESS;
        good &= c.v.ep_post_send_func(s.ep, 1, &local, cookie, plain) == DAT_SUCCESS;
        good &= c.v.ep_post_rdma_write_func(s.ep, 1, &local, cookie, &remote, plain) == DAT_SUCCESS;
        good &= c.v.ep_post_rdma_read_func(s.ep, 1, &local, cookie, &remote, plain) == DAT_SUCCESS;
        good &= complete_recv(port) && complete_send(port) && complete_send(port) &&
                complete_send(port);
        good &= c.v.evd_dequeue_func(s.recv, &event) == DAT_SUCCESS;
        for (int n = 0; n < 3; ++n)
            good &= c.v.evd_dequeue_func(s.request, &event) == DAT_SUCCESS;
        good &= c.v.evd_dequeue_func(s.request, &event) == DAT_QUEUE_EMPTY;
    }
    return good;
}

[[noreturn]] void leave(int code)
{
    for (;;)
        syscall(SYS_exit, code);
}

} // namespace

TEST_SUITE_BEGIN("hot_path");

TEST_CASE("one thread per object: post and dequeue take no mutex and allocate nothing")
{
    consumer c(line::nonthreadsafe);
    station s(c);
    s.connect_by_hand();
    qp &port = s.port();
    CHECK(work(c, s, port, 1)); // there were never as many outstanding
    const wraps::counts before = wraps::of_this_thread();
    const bool good = work(c, s, port, 1000);
    const wraps::counts after = wraps::of_this_thread();
    CHECK(good);
    CHECK_EQ(after.mutex_locks - before.mutex_locks, 0);
    CHECK_EQ(after.allocations - before.allocations, 0);
}

TEST_CASE("any thread: a post takes one mutex, a dequeue none, and neither allocates")
{
    consumer c(line::threadsafe);
    station s(c);
    s.connect_by_hand();
    qp &port = s.port();
    CHECK(work(c, s, port, 1)); // there were never as many outstanding
    const wraps::counts before = wraps::of_this_thread();
    const bool good = work(c, s, port, 1000);
    const wraps::counts after = wraps::of_this_thread();
    CHECK(good);
    CHECK_EQ(after.mutex_locks - before.mutex_locks, 4000);
    CHECK_EQ(after.allocations - before.allocations, 0);
}

TEST_CASE("the counters count: making an endpoint allocates and locks")
{
    consumer c;
    const wraps::counts before = wraps::of_this_thread();
    station s(c);
    const wraps::counts after = wraps::of_this_thread();
    CHECK(after.mutex_locks > before.mutex_locks);
    CHECK(after.allocations > before.allocations);
}

TEST_CASE("post and dequeue make no system call: they run where the kernel forbids them")
{
    if (test_run::sanitized) // its run time makes system calls
        return;
    const consumer of_parent(line::nonthreadsafe);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) { // calls reach these functions through the functions of a child's vector
        consumer c(line::nonthreadsafe);
        station s(c);
        s.connect_by_hand();
        qp &port = s.port();
        if (!work(c, s, port, 10)) // memory touched, symbols bound
            leave(2);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            leave(77);
        leave(work(c, s, port, 1000) ? 0 : 1);
    }
    int how = 0;
    REQUIRE_EQ(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) {
        MESSAGE("no seccomp here: not checked");
        return;
    }
    CHECK_MESSAGE(WIFEXITED(how), "ended by signal " << WTERMSIG(how));
    CHECK_EQ(WEXITSTATUS(how), 0);
}

TEST_SUITE_END();
