// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A thread is preempted while it adds a completion: those behind it cannot be taken until it goes
// on.
#include "rig.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <thread>

namespace stalled_suite {

using namespace rig;

namespace {

constexpr std::size_t page = 4096;
std::atomic<std::uint8_t *> unreadable{nullptr};
std::atomic<bool> stalls{false};
std::atomic<bool> goes_on{false};

void stall(int, siginfo_t *about, void *)
{
    if (about->si_addr < unreadable.load() || about->si_addr >= unreadable.load() + page) {
        (void)std::signal(SIGSEGV, SIG_DFL); // a crash
        return;
    }
    stalls.store(true);
    while (!goes_on.load()) {
    }
    if (mprotect(unreadable.load(), page, PROT_READ) != 0)
        std::abort();
}

/// Adds a completion to a queue, and stops after it has taken its place there: the completion
/// cannot be read.
class stalled_producer {
public:
    explicit stalled_producer(completion_queue &queue)
    {
        void *const memory =
            mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        auto *const done = new (memory)
            completion_record{nullptr, 42, 0, 0, 0, work_status::success, brought::nothing, false};
        unreadable.store(static_cast<std::uint8_t *>(memory));
        stalls.store(false);
        goes_on.store(false);
        struct sigaction with {};
        with.sa_sigaction = stall;
        with.sa_flags = SA_SIGINFO;
        REQUIRE(sigaction(SIGSEGV, &with, &before_) == 0);
        REQUIRE(mprotect(memory, page, PROT_NONE) == 0);
        thread_ = std::thread([&queue, done] { push_to(queue, *done); });
        REQUIRE(becomes_true([] { return stalls.load(); }));
    }
    ~stalled_producer()
    {
        go_on();
        (void)sigaction(SIGSEGV, &before_, nullptr);
        (void)munmap(unreadable.load(), page);
    }
    void go_on()
    {
        goes_on.store(true);
        if (thread_.joinable())
            thread_.join();
    }

private:
    struct sigaction before_ {};
    std::thread thread_;
};

struct fixture {
    fixture() : here(on_loopback()), a(here), b(here)
    {
        REQUIRE(establish(a, b));
        REQUIRE(b.receive(0, 64));
    }
    /// Takes the completion added before, and the flushed receive.
    void takes_both()
    {
        completion_record first, second;
        REQUIRE(b.receive_queue.pop(first));
        CHECK(first.length == 42);
        REQUIRE(b.receive_queue.pop(second));
        CHECK(second.status == work_status::flushed);
    }
    host here;
    end a, b;
};

/// Whether it is still running after a while; it has ended when this returns.
template <class Action>
bool waits_for(stalled_producer &other, Action &&action)
{
    std::atomic<bool> over{false};
    std::thread runs([&] {
        action();
        over.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool waited = !over.load();
    other.go_on();
    runs.join();
    return waited;
}

} // namespace

TEST_SUITE_BEGIN("stalled");

TEST_CASE_FIXTURE(fixture, "completions behind one that is being added cannot be taken yet")
{
    stalled_producer other(b.receive_queue);
    push_to(b.receive_queue, {nullptr, 1, 0, 0, 0, work_status::success, brought::nothing, false});
    completion_record none;
    CHECK_FALSE(b.receive_queue.pop(none));
    CHECK(b.receive_queue.count() == 0);
    other.go_on();
    CHECK(b.receive_queue.count() == 2);
}

TEST_CASE_FIXTURE(fixture, "when a connection has ended, all its completions can be taken")
{
    stalled_producer other(b.receive_queue);
    CHECK(waits_for(other, [&] { b.pair.disconnect(false); }));
    takes_both();
}

TEST_CASE_FIXTURE(fixture, "the end of a connection is reported when its completions can be taken")
{
    stalled_producer other(b.receive_queue);
    a.pair.disconnect(false);
    CHECK_FALSE(b.next(std::chrono::milliseconds(20)));
    other.go_on();
    CHECK(is(b.next(), connection_event::disconnected));
    takes_both();
}

TEST_CASE_FIXTURE(fixture, "a reset, and a resize, waits for a completion that is being added")
{
    completion_queue::ring_owner former;
    SUBCASE("reset")
    {
        stalled_producer other(b.receive_queue);
        CHECK(waits_for(other, [&] { CHECK(here.hca.reset_pair(b.pair)); }));
    }
    SUBCASE("resize")
    {
        stalled_producer other(b.receive_queue);
        CHECK(waits_for(other, [&] {
            CHECK(b.receive_queue.resize(64, former) == completion_queue::outcome::done);
        }));
    }
    completion_record done;
    CHECK(b.receive_queue.pop(done));
}

// It is not known to a resize yet, which deletes the ring that it would look at.
TEST_CASE_FIXTURE(fixture, "a queue pair is made without a look at its completion queues")
{
    queue_pair another;
    stalled_producer other(b.receive_queue);
    std::atomic<bool> made{false};
    std::thread makes([&] {
        CHECK(here.hca.make_pair(another, b.pair.params));
        made.store(true);
    });
    CHECK(becomes_true([&] { return made.load(); }));
    other.go_on();
    makes.join();
    here.hca.free_pair(another);
}

TEST_SUITE_END();

} // namespace stalled_suite
