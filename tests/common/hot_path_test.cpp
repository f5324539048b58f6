// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// No surprise work on the hot path: post and dequeue of a consumer that promised one thread per
// object take no mutex, make no system call, and allocate nothing once as many were outstanding
// before. Software events take no mutex on any line.
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

TEST_CASE("a software event is posted and taken without a mutex and without memory")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4);
        DAT_EVENT event{};
        int good = 0;
        const wraps::counts before = wraps::of_this_thread();
        for (std::uintptr_t i = 0; i < 1000; ++i) {
            good += c.post_se(e, i) == DAT_SUCCESS ? 1 : 0;
            good += c.v.evd_dequeue_func(e, &event) == DAT_SUCCESS ? 1 : 0;
        }
        const wraps::counts after = wraps::of_this_thread();
        CHECK_EQ(good, 2000);
        CHECK_EQ(after.mutex_locks - before.mutex_locks, 0);
        CHECK_EQ(after.allocations - before.allocations, 0);
    }
}

namespace {

constexpr unsigned both_streams = DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG;

/// An event of a connected endpoint is taken from this EVD, by a dequeue and by a wait, without a
/// mutex, and so is none.
void takes_no_mutex(consumer &c, DAT_EVD_HANDLE merged_evd)
{
    station up(c, merged_evd, c.make_evd(DAT_EVD_CONNECTION_FLAG));
    up.connect_by_hand();
    for (DAT_UINT64 i = 0; i < 4; ++i) {
        must(c.post_recv(up.ep, i));
        REQUIRE(complete_recv(up.port()));
    }
    DAT_EVENT event{};
    const wraps::counts before = wraps::of_this_thread();
    const DAT_RETURN taken = c.v.evd_dequeue_func(merged_evd, &event);
    const DAT_UINT64 first = cookie_of(event);
    const wait_answer waited = c.wait(merged_evd, DAT_TIMEOUT_INFINITE);
    const wait_answer counted = c.wait(merged_evd, DAT_TIMEOUT_INFINITE, 2);
    const DAT_RETURN last = c.v.evd_dequeue_func(merged_evd, &event);
    const DAT_RETURN none = c.v.evd_dequeue_func(merged_evd, &event);
    const wraps::counts after = wraps::of_this_thread();
    CHECK_EQ(after.mutex_locks - before.mutex_locks, 0);
    CHECK_EQ(after.allocations - before.allocations, 0);
    CHECK_EQ(taken, DAT_SUCCESS);
    CHECK_EQ(first, 0);
    CHECK_EQ(waited.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(waited.event), 1);
    CHECK_EQ(waited.nmore, 2);
    CHECK_EQ(counted.code, DAT_SUCCESS);
    CHECK_EQ(cookie_of(counted.event), 2);
    CHECK_EQ(last, DAT_SUCCESS);
    CHECK_EQ(cookie_of(event), 3);
    CHECK_EQ(DAT_GET_TYPE(none), static_cast<DAT_UINT32>(DAT_QUEUE_EMPTY));
    must(c.v.ep_free_func(up.ep));
    (void)c.drain(merged_evd);
}

} // namespace

TEST_CASE("merged streams: no mutex once no connection is being made, however the attempts ended")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE e = c.make_evd(both_streams, 64);
        takes_no_mutex(c, e);
        const auto ended_by = [&](const std::string &how, auto end) {
            CAPTURE(how);
            station s(c, e, e);
            end(s);
            (void)c.drain(e);
            takes_no_mutex(c, e);
        };
        ended_by("established", [&](station &s) { s.connect_by_hand(); });
        ended_by("established, and broken", [&](station &s) {
            s.connect_by_hand();
            REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_BROKEN));
        });
        ended_by("rejected", [&](station &s) {
            must(c.connect(s.ep, 1));
            REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_PEER_REJECTED));
        });
        ended_by("timed out", [&](station &s) {
            must(c.connect(s.ep, 1, 1000));
            CHECK_EQ(c.wait(e, 20'000'000).event.event_number, DAT_CONNECTION_EVENT_TIMED_OUT);
        });
        ended_by("given up by the consumer", [&](station &s) {
            must(c.connect(s.ep, 1));
            must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
        });
        ended_by("freed", [&](station &s) {
            must(c.connect(s.ep, 1));
            must(c.v.ep_free_func(s.ep));
        });
        ended_by("refused by the port", [&](station &s) {
            lab::fail(lab::op::connect, error_code(DAT_INSUFFICIENT_RESOURCES));
            CHECK(c.connect(s.ep, 1) != DAT_SUCCESS);
        });
        ended_by("unreachable", [&](station &s) {
            lab::fail(lab::op::connect,
                      error_code(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE));
            must(c.connect(s.ep, 1));
        });
        const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
        (void)c.make_psp(here, requests);
        for (const bool refused : {false, true})
            ended_by(refused ? "accepted, refused by the port" : "accepted", [&](station &s) {
                REQUIRE(arrive(here));
                DAT_EVENT event;
                must(c.dequeue(requests, event));
                const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
                if (refused)
                    lab::fail(lab::op::accept, error_code(DAT_INSUFFICIENT_RESOURCES));
                const DAT_RETURN accepted = c.v.cr_accept_func(cr, s.ep, 0, nullptr);
                CHECK_EQ(accepted == DAT_SUCCESS, !refused);
                if (!refused)
                    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_ESTABLISHED));
            });
    }
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
