// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of a wait when a signal comes: POSIX's rule for calls that block.
#include "osd_cancellation.hpp"
#include "osd_descriptor.hpp"
#include "osd_signals.hpp"
#include "osd_sync.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using osd::deadline;
using osd::wait_result;

constexpr int going_on = SIGUSR1;
constexpr int ending = SIGUSR2;

std::atomic<int> handled{0};

/// A handler for as long as it lives.
class signal_handler {
public:
    signal_handler(int number, int flags) : number_(number)
    {
        struct sigaction action {};
        action.sa_handler = [](int) { ++handled; };
        action.sa_flags = flags;
        sigaction(number, &action, &before_);
    }
    ~signal_handler() { sigaction(number_, &before_, nullptr); }

private:
    int number_;
    struct sigaction before_ {};
};

/// doctest has handlers without SA_RESTART.
struct no_other_handlers {
    struct sigaction interrupt {
    }, terminate{};
    no_other_handlers()
    {
        constexpr struct sigaction none {};
        sigaction(SIGINT, &none, &interrupt);
        sigaction(SIGTERM, &none, &terminate);
    }
    ~no_other_handlers()
    {
        sigaction(SIGINT, &interrupt, nullptr);
        sigaction(SIGTERM, &terminate, nullptr);
    }
};

/// A way to sleep, and how another thread ends that.
struct way {
    std::function<wait_result(deadline)> wait;
    std::function<void()> wake;
    std::function<void()> forget_wake = [] {};
};

struct wait_object_way : way {
    osd::wait_object object;
    wait_object_way()
        : way{[this](deadline until) { return object.wait(until); }, [this] { object.wake(); },
              [this] { (void)object.wait(deadline::passed()); }}
    {}
};

struct condition_way : way {
    osd::mutex m;
    osd::condition changed;
    condition_way()
        : way{[this](deadline until) {
                  osd::lock_guard hold(m);
                  return changed.wait(m, until);
              },
              [this] {
                  osd::lock_guard hold(m);
                  changed.signal();
              }}
    {}
};

struct descriptor_way : way {
    osd::event_descriptor raised;
    descriptor_way()
        : way{[this](deadline until) {
                  const int fds[] = {-1, raised.get()};
                  std::uint64_t ready = 0;
                  const wait_result result = osd::wait_readable(fds, until, ready);
                  CHECK_EQ(ready, result == wait_result::woken ? 2 : 0);
                  return result;
              },
              [this] { raised.raise(); }, [this] { raised.lower(); }}
    {
        REQUIRE(raised.open());
    }
};

struct waiter {
    std::atomic<bool> done{false};
    std::atomic<long> id{0};
    wait_result result{};
    std::thread thread;

    explicit waiter(const way &how, deadline until)
        : thread([&how, this, until] {
              id = gettid();
              result = how.wait(until);
              done = true;
          })
    {}
    /// A signal that comes before it sleeps has no effect.
    void await_asleep() const
    {
        while (id == 0)
            std::this_thread::yield();
        const auto sleeps = [this] {
            std::string path = "/proc/self/task/" + std::to_string(id) + "/wchan";
            char text[64] = {};
            std::FILE *file = std::fopen(path.c_str(), "r");
            if (file == nullptr)
                return true;
            const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
            std::fclose(file);
            return size > 1;
        };
        for (int i = 0; i < 3000 && !sleeps(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    void signal(int number)
    {
        const int before = handled;
        pthread_kill(thread.native_handle(), number);
        for (int i = 0; i < 10'000 && handled == before && !done; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        CHECK((done || handled > before)); // at once, not when the wait has ended
    }
};

wait_result after_signals(const way &how, deadline until, std::initializer_list<int> signals)
{
    how.forget_wake();
    waiter w(how, until);
    w.await_asleep();
    for (const int number : signals)
        w.signal(number);
    for (int i = 0; i < 30 && !w.done; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    how.wake();
    w.thread.join();
    return w.result;
}

deadline late()
{
    return deadline::after_us(60'000'000);
}

template <class Test>
void in_each_way(Test &&test)
{
    SUBCASE("a wait object")
    {
        test(wait_object_way{});
    }
    SUBCASE("a condition")
    {
        test(condition_way{});
    }
    SUBCASE("descriptors")
    {
        test(descriptor_way{});
    }
}

std::ptrdiff_t open_descriptors()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
}

/// The thread's calls of that number fail as on a system that does not have it.
bool deny_call(unsigned number)
{
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{4, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

} // namespace

TEST_SUITE_BEGIN("restart");

TEST_CASE("a handler with SA_RESTART lets a wait go on, with the time that is left")
{
    const no_other_handlers alone;
    const signal_handler installed(going_on, SA_RESTART);
    in_each_way([](const way &how) {
        for (const deadline limit : {deadline::never(), late()})
            CHECK_EQ(after_signals(how, limit, {going_on, going_on, going_on}), wait_result::woken);
        how.forget_wake();
        const deadline soon = deadline::after_us(200'000);
        waiter w(how, soon);
        w.await_asleep();
        while (!w.done) {
            pthread_kill(w.thread.native_handle(), going_on);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        CHECK(soon.has_passed());
        w.thread.join();
        CHECK_EQ(w.result, wait_result::timed_out);
    });
}

TEST_CASE("a handler without SA_RESTART ends a wait")
{
    const no_other_handlers alone;
    const signal_handler installed(ending, 0);
    in_each_way([](const way &how) {
        for (const deadline limit : {deadline::never(), late()})
            CHECK_EQ(after_signals(how, limit, {ending}), wait_result::interrupted);
    });
}

TEST_CASE("of handlers of both kinds, the one that ran decides")
{
    const signal_handler restarts(going_on, SA_RESTART);
    const signal_handler ends(ending, 0);
    osd::look_at_signal_handlers();
    const std::ptrdiff_t before = open_descriptors();
    in_each_way([](const way &how) {
        for (const deadline limit : {deadline::never(), late()}) {
            CHECK_EQ(after_signals(how, limit, {going_on, going_on}), wait_result::woken);
            CHECK_EQ(after_signals(how, limit, {going_on, ending}), wait_result::interrupted);
        }
    });
    CHECK_EQ(open_descriptors(), before);
}

TEST_CASE("before both kinds are known, a signal is taken for what came before")
{
    const no_other_handlers alone;
    osd::look_at_signal_handlers();
    const descriptor_way how;
    const int first = SIGHUP;
    const signal_handler restarts(first, SA_RESTART);
    SUBCASE("nothing")
    {
        const signal_handler ends(ending, 0);
        CHECK_EQ(after_signals(how, deadline::never(), {first}), wait_result::interrupted);
        CHECK_EQ(after_signals(how, deadline::never(), {first}), wait_result::woken);
        CHECK_EQ(after_signals(how, deadline::never(), {ending}), wait_result::interrupted);
    }
    SUBCASE("one with SA_RESTART")
    {
        CHECK_EQ(after_signals(how, deadline::never(), {first}), wait_result::woken);
        const signal_handler ends(ending, 0);
        CHECK_EQ(after_signals(how, deadline::never(), {first}), wait_result::woken);
        CHECK_EQ(after_signals(how, deadline::never(), {ending}), wait_result::interrupted);
    }
}

TEST_CASE("a handler that changes to the other kind decides by what it is then")
{
    const no_other_handlers alone;
    const signal_handler other(ending, 0);
    const descriptor_way how;
    {
        const signal_handler restarts(going_on, SA_RESTART);
        osd::look_at_signal_handlers();
        CHECK_EQ(after_signals(how, deadline::never(), {going_on}), wait_result::woken);
    }
    const signal_handler ends(going_on, 0);
    CHECK_EQ(after_signals(how, deadline::never(), {going_on}), wait_result::interrupted);
    CHECK_EQ(after_signals(how, deadline::never(), {ending}), wait_result::interrupted);
}

TEST_CASE("a handler for one time, without SA_RESTART, ends a wait although it is gone then")
{
    const no_other_handlers alone;
    const descriptor_way how;
    SUBCASE("alone")
    {
        const signal_handler once(ending, SA_RESETHAND);
        osd::look_at_signal_handlers();
        CHECK_EQ(after_signals(how, deadline::never(), {ending}), wait_result::interrupted);
    }
    SUBCASE("beside another one")
    {
        const signal_handler restarts(going_on, SA_RESTART);
        const signal_handler once(ending, SA_RESETHAND);
        osd::look_at_signal_handlers();
        CHECK_EQ(after_signals(how, deadline::never(), {ending}), wait_result::interrupted);
    }
}

TEST_CASE("a handler of a signal that the thread blocks is not taken for the one that ran")
{
    const no_other_handlers alone;
    const signal_handler restarts(going_on, SA_RESTART);
    const signal_handler ends(ending, 0);
    const descriptor_way inner;
    const way how{[&](deadline until) {
                      sigset_t blocked;
                      sigemptyset(&blocked);
                      sigaddset(&blocked, ending);
                      pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
                      return inner.wait(until);
                  },
                  inner.wake, inner.forget_wake};
    CHECK_EQ(after_signals(how, deadline::never(), {going_on, going_on}), wait_result::woken);
}

TEST_CASE("signals that the thread blocks keep it neither busy nor awake")
{
    const signal_handler restarts(going_on, SA_RESTART);
    const signal_handler ends(ending, 0);
    osd::look_at_signal_handlers();
    const descriptor_way inner;
    std::atomic<std::int64_t> used_ns{0};
    const way how{[&](deadline until) {
                      sigset_t blocked;
                      sigemptyset(&blocked);
                      sigaddset(&blocked, going_on);
                      pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
                      pthread_kill(pthread_self(), going_on);
                      const wait_result result = inner.wait(until);
                      timespec used;
                      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
                      used_ns = used.tv_sec * 1'000'000'000 + used.tv_nsec;
                      return result;
                  },
                  inner.wake, inner.forget_wake};
    waiter w(how, deadline::after_us(500'000));
    w.thread.join();
    CHECK_EQ(w.result, wait_result::timed_out);
    CHECK_LT(used_ns.load(), 250'000'000);
}

TEST_CASE("a thread that sets the user of the process does not end the waits of the others")
{
    const auto test = [](const way &how) {
        for (const deadline limit : {deadline::never(), late()}) {
            how.forget_wake();
            waiter w(how, limit);
            w.await_asleep();
            for (int i = 0; i < 3; ++i)
                REQUIRE_EQ(setuid(getuid()), 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            CHECK_FALSE(w.done.load());
            how.wake();
            w.thread.join();
            CHECK_EQ(w.result, wait_result::woken);
        }
    };
    SUBCASE("with no handler of its own")
    {
        const no_other_handlers alone;
        in_each_way(test);
    }
    SUBCASE("with handlers of both kinds")
    {
        REQUIRE_EQ(setuid(getuid()), 0); // the handler of the C library is there from now on
        const signal_handler restarts(going_on, SA_RESTART);
        const signal_handler ends(ending, 0);
        osd::look_at_signal_handlers();
        in_each_way(test);
    }
}

TEST_CASE("without futex_waitv, a wait with a limit goes by the handlers")
{
    const pid_t child = fork();
    if (child == 0) {
        int wrong = deny_call(449) ? 0 : 100;
        const no_other_handlers alone;
        const wait_object_way how;
        {
            const signal_handler restarts(going_on, SA_RESTART);
            wrong += after_signals(how, late(), {going_on, going_on}) != wait_result::woken;
        }
        const signal_handler ends(ending, 0);
        wrong += after_signals(how, late(), {ending}) != wait_result::interrupted ? 10 : 0;
        _exit(wrong);
    }
    int status = 0;
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

TEST_CASE("a thread that is cancelled while it holds signals back leaves no descriptor")
{
    const signal_handler restarts(going_on, SA_RESTART);
    const signal_handler ends(ending, 0);
    osd::look_at_signal_handlers();
    const descriptor_way inner;
    const std::ptrdiff_t before = open_descriptors();
    const way how{[&](deadline until) {
                      const osd::cancellable_wait held;
                      wait_result result{};
                      osd::cancellation_point([&] { result = inner.wait(until); });
                      return result;
                  },
                  inner.wake, inner.forget_wake};
    waiter w(how, deadline::never());
    w.await_asleep();
    CHECK_EQ(open_descriptors(), before + 1);
    pthread_cancel(w.thread.native_handle());
    w.thread.join();
    CHECK_FALSE(w.done.load());
    CHECK_EQ(open_descriptors(), before);
}

TEST_SUITE_END();
