// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The device's thread sleeps when there is nothing to do, whatever woke it before.
#include "descriptors.hpp"
#include "intercepted.hpp"
#include "rig.hpp"

#include "osd_thread.hpp"

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <set>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vector>

namespace rig {

send_faults failing_sends;
std::atomic<int> batches_refused{0};
std::atomic<int> copies_by_system{0};
std::atomic<int> reads_of_processes{0};
thread_local int sleeps_here = 0;
std::atomic<bool> files_taken_of_all{false};
watched_closes watched_closes_now;
std::atomic<int> errors_first{-1};

} // namespace rig

namespace sleep_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

std::atomic<bool> raising_takes_long{false};

struct calls {
    std::atomic<int> kicks{0};
    std::atomic<int> looks{0};
    std::atomic<int> sleeps{0};
    std::atomic<int> on_sockets{0}; ///< sleeps on the socket itself
    std::atomic<int> alarms{0};
} made;

thread_local int sends_here = 0;

bool takes_datagrams(int descriptor)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

/// Whether a call is to fail; sets errno then.
bool fails(long number, const long *with)
{
    if (batches_refused.load() != 0 && (number == SYS_sendmmsg || number == SYS_recvmmsg)) {
        errno = batches_refused.load();
        return true;
    }
    const bool one = number == SYS_sendmsg;
    if ((!one && number != SYS_sendmmsg) || failing_sends.left.load() <= 0)
        return false;
    const auto &message = one ? *reinterpret_cast<const msghdr *>(with[1])
                              : reinterpret_cast<const mmsghdr *>(with[1])->msg_hdr;
    if (failing_sends.of_super_packets.load() && message.msg_controllen == 0)
        return false;
    failing_sends.left.fetch_sub(1);
    errno = failing_sends.error.load();
    return true;
}

std::atomic<long> has_second_error{-1}; ///< the socket that returns it in place of datagrams

bool hides_datagrams(long number, const long *with)
{
    if (number != SYS_recvmmsg)
        return false;
    if (with[0] == errors_first.load()) {
        errno = EAGAIN;
        return true;
    }
    long second = with[0];
    errno = ECONNREFUSED;
    return has_second_error.compare_exchange_strong(second, -1);
}

/// A thread's looks are some microseconds apart where the program is instrumented.
constexpr std::chrono::microseconds longer_than_a_spin{100};

/// Without a look at a completion queue, as programs do that know of a write by its last byte.
bool spin_until(const std::uint8_t &byte, std::uint8_t value)
{
    const auto end = std::chrono::steady_clock::now() + patience;
    while (__atomic_load_n(&byte, __ATOMIC_ACQUIRE) != value)
        if (std::chrono::steady_clock::now() > end)
            return false;
    return true;
}

/// What the n-th write brings. It lies where its value says, and is not changed any more: a
/// retransmission may read it.
std::uint8_t mark(int n)
{
    return static_cast<std::uint8_t>(1 + n % 250);
}

void fill_marks(end &a)
{
    for (int value = 0; value < 256; ++value)
        a.buffer.bytes[static_cast<std::size_t>(value)] = static_cast<std::uint8_t>(value);
}

void rest(std::chrono::microseconds time)
{
    std::this_thread::sleep_for(time);
}

/// A connection over loopback, where no consumer polls.
struct two {
    two()
    {
        fill_marks(a);
        fill_marks(b);
        REQUIRE(establish(a, b));
        rest(std::chrono::milliseconds(5));
    }
    host here{on_loopback()};
    host there{on_loopback()};
    end a{here};
    end b{there};
};

int nice_of(long thread)
{
    return getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
}

/// The nice values of this process's service threads, once they have begun to serve.
std::vector<int> nice_of_service_threads()
{
    std::vector<int> found;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        if (name == "soft-hca")
            found.push_back(nice_of(std::stol(task.path().filename())));
    }
    return found;
}

/// How often the device's threads of this process have gone to sleep.
long sleeps_of_service_threads()
{
    long sum = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        bool ours = false;
        for (std::string word; status >> word;) {
            ours = ours || word == "soft-hca";
            long count = 0;
            if (ours && word == "voluntary_ctxt_switches:" && status >> count)
                sum += count;
        }
    }
    return sum;
}

/// The next completion, slept for.
bool take_sleeping(completion_queue &queue)
{
    completion_record done;
    while (!queue.pop(done))
        if (queue.wait({}, osd::deadline::after_us(20'000'000)) != osd::wait_result::woken)
            return false;
    return true;
}

/// Where each wait that ends wakes a thread, the two wake twice as often as there are messages and
/// more. Timers wake each of them at most once in five milliseconds.
bool threads_sleep_while_consumers_wait(end &a, end &b)
{
    constexpr int messages = 100;
    const long before = sleeps_of_service_threads();
    const auto begun = std::chrono::steady_clock::now();
    std::thread receiver([&] {
        for (int n = 0; n < messages; ++n) {
            CHECK(take_sleeping(b.receive_queue));
            CHECK(b.receive(0, 64));
        }
    });
    for (int n = 0; n < messages; ++n) {
        rest(2ms);
        CHECK(a.send(0, 1));
        CHECK(take_sleeping(a.send_queue));
    }
    receiver.join();
    const auto took = std::chrono::steady_clock::now() - begun;
    return sleeps_of_service_threads() - before < messages * 3 / 4 + 2 * (took / 5ms);
}

/// How often it sleeps in 50 ms, in a program that has all descriptors that it needs, and may have
/// no more.
template <class Sleep>
int sleeps_without_descriptors(Sleep &&sleep)
{
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit none{0, limit.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const osd::deadline until = osd::deadline::after_us(50'000);
    int sleeps = 0;
    for (; !until.has_passed(); ++sleeps)
        sleep(until);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return sleeps;
}

/// What raise_priority() gives a thread here.
int raised_nice(unsigned steps)
{
    int nice = 0;
    std::thread([&] {
        (void)osd::raise_priority(steps);
        nice = nice_of(osd::thread_id());
    }).join();
    return nice;
}

} // namespace

extern "C" long __real_syscall(long number, ...);

namespace {

constexpr int so_passrights = 83;

bool takes_all_files(long number, const long *with)
{
    if (!files_taken_of_all.load() || number != SYS_setsockopt || with[2] != so_passrights)
        return false;
    errno = ENOPROTOOPT;
    return true;
}

void watch_close()
{
    const long watched = watched_closes_now.of_thread.load();
    if (watched == osd::thread_id())
        ++watched_closes_now.count;
    else
        osd::wait_while([&] { return watched_closes_now.of_thread.load() != 0; });
}

long look_for_error(const long *with)
{
    const long got = __real_syscall(SYS_recvmsg, with[0], with[1], with[2]);
    if (got >= 0 && with[0] == errors_first.load()) {
        errors_first.store(-1);
        has_second_error.store(with[0]);
    }
    return got;
}

} // namespace

// Takes as many arguments as a system call can have, also where it was given less.
extern "C" [[gnu::no_sanitize_address]] long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    long with[6];
    for (long &each : with)
        each = va_arg(list, long);
    va_end(list);
    if (fails(number, with) || hides_datagrams(number, with) || takes_all_files(number, with))
        return -1;
    if (number == SYS_close)
        watch_close();
    if (number == SYS_pwritev || number == SYS_preadv || number == SYS_pread64)
        ++copies_by_system;
    if (number == SYS_process_vm_readv)
        ++reads_of_processes;
    if (number == SYS_recvmmsg)
        ++made.looks;
    if (number == SYS_recvmsg)
        return look_for_error(with);
    if (number == SYS_sendmsg)
        ++sends_here;
    if (number == SYS_write) {
        ++made.kicks;
        if (raising_takes_long.load())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return __real_syscall(number, with[0], with[1], with[2], with[3], with[4], with[5]);
}

extern "C" int __real_ppoll(pollfd *at, nfds_t count, const timespec *time, const sigset_t *mask);
extern "C" int __wrap_ppoll(pollfd *at, nfds_t count, const timespec *time, const sigset_t *mask)
{
    ++made.sleeps;
    ++sleeps_here;
    made.on_sockets +=
        std::any_of(at, at + count, [](const pollfd &each) { return takes_datagrams(each.fd); });
    return __real_ppoll(at, count, time, mask);
}

extern "C" int __real_timerfd_settime(int timer, int how, const itimerspec *to, itimerspec *old);
extern "C" int __wrap_timerfd_settime(int timer, int how, const itimerspec *to, itimerspec *old)
{
    ++made.alarms;
    return __real_timerfd_settime(timer, how, to, old);
}

TEST_SUITE_BEGIN("sleep");

TEST_CASE("a thread that wakes up by itself while a wake-up is being sent sleeps again")
{
    host here(on_loopback());
    host there(on_loopback());
    end called(here);
    packet_io &network = there.hca.shard_at(0).io();
    const net_address to = called.pair.shard->io().address();
    out_packet noise;
    noise.begin();
    noise.add(noise.header, 1);
    raising_takes_long.store(true);
    std::atomic<bool> enough{false};
    std::thread caller([&] {
        while (!enough.load())
            called.pair.shard->kick();
    });
    for (int i = 0; i < 200; ++i) {
        std::uint32_t done = 0;
        (void)network.send(to, &noise, 1, done);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    enough.store(true);
    caller.join();
    raising_takes_long.store(false);
    CHECK(idle_share(std::chrono::milliseconds(300)) < 0.1);
}

TEST_CASE("a sleep that the system refuses does not keep a processor busy")
{
    wake_signal never;
    REQUIRE(never.open());
    const waitable on = never.descriptor();
    CHECK(sleeps_without_descriptors([&](osd::deadline until) { (void)wait_for(&on, 1, until); }) <=
          50);
    host here(on_loopback());
    end waits(here);
    CHECK(sleeps_without_descriptors(
              [&](osd::deadline until) { (void)waits.receive_queue.wait({}, until); }) <= 50);
}

TEST_CASE("a sleep on a descriptor that the program has closed does not keep a processor busy")
{
    wake_signal closed;
    REQUIRE(closed.open());
    const waitable on = closed.descriptor();
    closed.close();
    const osd::deadline until = osd::deadline::after_us(50'000);
    int sleeps = 0;
    for (; !until.has_passed(); ++sleeps)
        (void)wait_for(&on, 1, until);
    CHECK(sleeps <= 51);
}

TEST_CASE("a device whose descriptors the program has closed rests, and can be closed")
{
    const std::set<int> others = descriptors();
    host here(on_loopback());
    std::this_thread::sleep_for(50ms); // its thread sleeps
    for (const int descriptor : descriptors())
        if (!others.contains(descriptor))
            close(descriptor);
    CHECK(idle_share(3000ms) < 0.1);
}

TEST_CASE("a sender without credit rests while its peer does not answer")
{
    inproc_network network;
    host here(inside(network));
    end a(here), b(here);
    REQUIRE(establish(a, b));
    REQUIRE(a.send(0, 100));                                            // the peer has no receive
                                                                        // for it
    REQUIRE(becomes_true([&] { return a.counts().packets_out >= 4; })); // it probes
    network.lose(UINT32_MAX);
    CHECK(idle_share(300ms) < 0.1);
}

TEST_CASE("a thread has the priority that the device was opened with")
{
    for (unsigned steps : {0u, 5u}) {
        settings how = on_loopback();
        how.priority = steps;
        made.sleeps = 0; // a thread has its priority before it first sleeps
        host here(how);
        while (made.sleeps == 0)
            std::this_thread::yield();
        CHECK_EQ(nice_of_service_threads(), std::vector<int>{raised_nice(steps)});
    }
}

/// The counts of the device's threads that exceed their limits, for writes to memory that a
/// consumer spins on.
std::string exceeded_by_spinning(end &a, end &b)
{
    constexpr int writes = 300;
    made.kicks = made.looks = made.sleeps = made.on_sockets = made.alarms = 0;
    const auto begun = std::chrono::steady_clock::now();
    for (int n = 0; n < writes; ++n) {
        REQUIRE(a.write(mark(n), 1, b.buffer.remote(0, 1), request_silent));
        REQUIRE(spin_until(b.buffer.bytes[0], mark(n)));
        rest(longer_than_a_spin);
    }
    const auto took = std::chrono::steady_clock::now() - begun;
    std::string out;
    const auto limit = [&out](const char *what, auto is, auto below) {
        if (is >= below)
            out += std::string(what) + " " + std::to_string(is) + ", limit " +
                   std::to_string(below) + "; ";
    };
    // A thread that looks on in vain soon stops to do so.
    limit("looks", made.looks.load(), 6 * writes);
    // It goes to sleep once for the write at one side, and once for the acknowledgement at the
    // other.
    limit("sleeps", made.sleeps.load(), 3 * writes);
    // The timer of a write needs no wake-up of its own.
    limit("kicks", made.kicks.load(), writes / 4);
    // It sleeps on the socket, not on a set with it: woken by a set, the kernel places a thread
    // without the hint that its waker is about to sleep.
    limit("sleeps on a set", made.sleeps.load() - made.on_sockets.load(), writes / 4);
    // Its alarm is set when it has expired, not for each sleep.
    limit("alarms", std::int64_t{made.alarms.load()}, writes / 2 + 2 * (took / 5ms));
    return out;
}

TEST_CASE_FIXTURE(two, "a write to memory that is spun on takes one wake-up on each side")
{
    std::string exceeded;
    // On a busy machine threads are late, and do more: not every time.
    CHECK(becomes_true([&] {
        exceeded = exceeded_by_spinning(a, b);
        return exceeded.empty();
    }));
    CHECK_EQ(exceeded, "");
}

TEST_CASE_FIXTURE(two, "consumers that wait again and again leave the device's threads asleep")
{
    for (int n = 0; n < 60; ++n)
        REQUIRE(b.receive(0, 64));
    // On a busy machine a thread may be late, and wake for a wait that has ended: not every time.
    CHECK(becomes_true([&] { return threads_sleep_while_consumers_wait(a, b); }));
}

TEST_CASE_FIXTURE(two, "a write that no completion waits for is acknowledged by the one that "
                       "answers it")
{
    constexpr int rounds = 300;
    std::uint64_t sent = 0;
    // More where an answer took milliseconds because the machine is busy: not every time.
    CHECK(becomes_true([&] {
        const auto before = a.counts().packets_out + b.counts().packets_out;
        for (int n = 0; n < rounds; ++n) {
            REQUIRE(a.write(mark(n), 1, b.buffer.remote(300, 1), request_silent));
            REQUIRE(spin_until(b.buffer.bytes[300], mark(n)));
            // The device's thread has nothing more to do before the answer.
            rest(longer_than_a_spin);
            REQUIRE(b.write(mark(n), 1, a.buffer.remote(300, 1), request_silent));
            REQUIRE(spin_until(a.buffer.bytes[300], mark(n)));
            rest(longer_than_a_spin);
        }
        sent = a.counts().packets_out + b.counts().packets_out - before;
        return sent < 3 * rounds;
    }));
    CHECK_GE(sent, 2 * rounds);
    CHECK_LT(sent, 3 * rounds);
}

TEST_CASE("what comes after a pause is acknowledged by the poll that takes it")
{
    constexpr int messages = 60;
    host here(on_loopback());
    host there(on_loopback());
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    // The device's thread takes some, until it has seen that the consumer polls; on a busy machine
    // more, but not every time. Without an acknowledgement by the poll there are none.
    CHECK(becomes_true([&] {
        int acknowledged = 0;
        for (int n = 0; n < messages; ++n) {
            REQUIRE(b.receive(0, 64));
            std::thread sender([&] {
                rest(std::chrono::milliseconds(1));
                CHECK(a.send(0, 1));
            });
            sends_here = 0;
            CHECK(b.received().has_value());
            acknowledged += sends_here; // the consumer is busy with the message from here on
            sender.join();
            CHECK(a.sent().has_value());
        }
        return acknowledged > messages / 4;
    }));
}

TEST_CASE("a write behind another goes at once when no consumer polls")
{
    constexpr int pairs = 100;
    settings slow = on_loopback();
    slow.bad_network.delay_us = 1000; // acknowledgements come later than the second write
    host here(slow);
    host there(on_loopback());
    end a(here);
    end b(there);
    fill_marks(a);
    REQUIRE(establish(a, b));
    rest(std::chrono::milliseconds(5)); // no consumer polls
    sends_here = 0;
    for (int n = 0; n < pairs; ++n) {
        REQUIRE(a.write(mark(n), 1, b.buffer.remote(1, 1), request_silent));
        REQUIRE(a.write(mark(n), 1, b.buffer.remote(0, 1), request_silent));
        REQUIRE(spin_until(b.buffer.bytes[0], mark(n)));
        rest(std::chrono::milliseconds(2));
    }
    // Some are sent by the device's thread that is at the queue pair just then.
    CHECK(sends_here > pairs + pairs / 2);
}

TEST_SUITE_END();

} // namespace sleep_suite
