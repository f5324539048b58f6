// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ending.hpp"

#include "dapl_am.h"
#include "lasting.hpp"
#include "links.hpp"
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

namespace am::ending {

namespace {

constexpr int no_code = -1;
constexpr int taken_over[] = {SIGHUP, SIGINT, SIGTERM};

struct state {
    std::atomic<int> code{no_code}; // the first one counts
    std::atomic<int> signal{0};     // that asked for it
    std::atomic<bool> because_of_other{false};
    std::atomic<bool> ending{false};
    std::atomic<bool> request_came{false};
    std::atomic<int> master{-1};        // on rank 0
    std::atomic<bool> by_return{false}; // the program ends the process itself, after us
    std::atomic<bool> done{false};
    std::atomic<bool> open{false};
    sem_t wake;
    pthread_t thread{};
    pid_t process = 0; // a child of fork() ends alone
    std::int64_t limit = 0;
    bool sigquit_ours = false;
};

state &end = lasting<state>();

bool on_thread()
{
    return end.open && pthread_equal(pthread_self(), end.thread);
}

/// Safe in signal handlers.
void wake()
{
    end.ending.store(true, std::memory_order_release);
    sem_post(&end.wake);
}

bool set_code(int code)
{
    int none = no_code;
    return end.code.compare_exchange_strong(none, code & 0xff);
}

int final_code()
{
    return end.code.load() == no_code ? 0 : end.code.load();
}

void on_signal(int number)
{
    const int saved = errno;
    int none = 0;
    if (end.process == getpid() && end.signal.compare_exchange_strong(none, number))
        wake();
    else if (end.process != getpid())
        _exit(128 + number);
    errno = saved;
}

void on_alarm(int)
{
    constexpr char line[] = "dapl-am: the end of the job took too long: this rank ends at once\n";
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(final_code());
}

void handle(int number, void (*handler)(int))
{
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

bool has_default(int number)
{
    struct sigaction action {};
    return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == SIG_DFL;
}

/// The program's own handler of SIGQUIT. It may end the job itself and not return.
void raise_sigquit()
{
    struct sigaction action {};
    if (sigaction(SIGQUIT, nullptr, &action) != 0)
        return;
    const bool program = (action.sa_flags & SA_SIGINFO) != 0 ||
                         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
                          action.sa_handler != on_signal);
    if (program)
        pthread_kill(pthread_self(), SIGQUIT);
}

/// What was there before the end of the job. A crash is none of it: it stays one, with its signal.
struct kept_signals {
    struct sigaction quit;
    struct sigaction alarm;
    unsigned seconds; ///< of the program's own alarm
};

kept_signals kept;

/// Nothing below may hang the process: a lock of the C library may be held by a thread that stands
/// still.
void bound_by_alarm()
{
    sigaction(SIGQUIT, nullptr, &kept.quit);
    sigaction(SIGALRM, nullptr, &kept.alarm);
    handle(SIGQUIT, SIG_IGN);
    handle(SIGALRM, on_alarm);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    kept.seconds = alarm(unsigned(2 * end.limit / 1'000'000 + 3));
}

/// The program ends the process by itself: what it does then is not ours to bound or to hide.
void release_signals()
{
    alarm(0);
    sigaction(SIGALRM, &kept.alarm, nullptr);
    sigaction(SIGQUIT, &kept.quit, nullptr);
    for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGQUIT})
        if (struct sigaction now{}; sigaction(number, nullptr, &now) == 0 &&
                                    (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == on_signal)
            handle(number, SIG_DFL);
    alarm(kept.seconds);
}

void flush_streams()
{
    std::fflush(stdout);
    std::fflush(stderr);
}

void short_sleep()
{
    usleep(1000);
}

/// Outcome of a connection request that was not for a connection.
enum class outcome { none, accepted, rejected, failed };

/// Requests to other ranks, and what became of them: one at a time to each rank. Nothing here
/// allocates: memory may be what is missing.
class requests {
public:
    explicit requests(int count)
    {
        const DAT_RETURN code = dat_evd_create(the_job.ia, 2 * count + 8, DAT_HANDLE_NULL,
                                               DAT_EVD_CONNECTION_FLAG, &events_);
        if (code != DAT_SUCCESS)
            events_ = DAT_HANDLE_NULL;
    }

    /// @return whether an answer may come
    bool send(int rank, links::purpose what)
    {
        peer &p = the_job.at(rank);
        const auto left = (end.limit + 999) / 1000;
        p.ending_ep =
            events_ == DAT_HANDLE_NULL ? DAT_HANDLE_NULL : links::make_plain_endpoint(events_, &p);
        if (p.ending_ep == DAT_HANDLE_NULL)
            return false;
        const links::hello words = links::make_hello(p, what, final_code());
        p.ending_number = words.number;
        return links::connect(p.ending_ep, p, words, unsigned(left)) == DAT_SUCCESS;
    }

    /// The next answer; rank -1 if none comes until then.
    std::pair<int, outcome> next(links::purpose what, std::int64_t until)
    {
        while (events_ != DAT_HANDLE_NULL) {
            DAT_EVENT event;
            DAT_COUNT more = 0;
            const std::int64_t left = until - now();
            if (left <= 0)
                break;
            if (dat_evd_wait(events_, DAT_TIMEOUT(std::min<std::int64_t>(left, 50'000)), 1, &event,
                             &more) != DAT_SUCCESS)
                continue;
            const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
            peer *p = links::peer_of(ep);
            if (!p || ep != p->ending_ep)
                continue;
            p->ending_ep = DAT_HANDLE_NULL;
            return {p->rank, outcome_of(*p, what, event)};
        }
        return {-1, outcome::none};
    }

private:
    /// What does not prove that it comes from that rank counts as no answer.
    static outcome outcome_of(const peer &p, links::purpose what, const DAT_EVENT &event)
    {
        if (!links::answered(p, what, p.ending_number, event))
            return outcome::failed;
        return event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED ? outcome::accepted
                                                                      : outcome::rejected;
    }

    DAT_EVD_HANDLE events_ = DAT_HANDLE_NULL;
};

enum class role { master, slave, alone };

/// Rank 0 elects; if it is wedged, every rank that asked is on its own.
role elect(std::int64_t until)
{
    if (end.request_came)
        return role::slave;
    if (the_job.rank() == 0)
        return grant(0) ? role::master : role::slave;
    requests ask(1);
    if (!ask.send(0, links::purpose::elect))
        return role::alone;
    while (now() < until && !end.request_came) {
        const auto [rank, answer] =
            ask.next(links::purpose::elect, std::min(until, now() + 50'000));
        if (rank < 0)
            continue;
        if (answer == outcome::accepted)
            return role::master;
        return answer == outcome::rejected ? role::slave : role::alone;
    }
    return end.request_came ? role::slave : role::alone;
}

/// @return whether all have answered
bool ask_all(std::int64_t until)
{
    const int size = the_job.size();
    constexpr int window = 64;
    int sent = 0, flying = 0, missing = size - 1;
    requests ask(size);
    while (missing > 0 && now() < until) {
        for (; sent < size && flying < window; ++sent)
            if (sent != the_job.rank())
                flying += ask.send(sent, links::purpose::leave);
        if (flying == 0)
            break;
        const auto [rank, answer] = ask.next(links::purpose::leave, until);
        if (rank < 0)
            break;
        --flying;
        if (answer != outcome::rejected)
            continue;
        the_job.at(rank).left = true;
        --missing;
    }
    for (int rank = 0; rank < size; ++rank)
        if (rank != the_job.rank() && !the_job.at(rank).left)
            report("rank %d did not answer the request to end within %d ms", rank,
                   int(end.limit / 1000));
    return missing == 0;
}

bool await_request(std::int64_t until)
{
    while (!end.request_came && now() < until)
        short_sleep();
    if (!end.request_came)
        report("the request to end did not come within %d ms", int(end.limit / 1000));
    return end.request_came;
}

bool coordinate()
{
    if (the_job.size() == 1)
        return true;
    const std::int64_t until = now() + end.limit;
    switch (elect(now() + end.limit / 2)) {
    case role::master:
        return ask_all(until);
    case role::slave:
        return await_request(until);
    case role::alone:
        report("rank 0 did not answer; asking all ranks to end without it");
        (void)ask_all(until);
        return false;
    }
    return false;
}

[[noreturn]] void leave_process()
{
    if (end.by_return) {
        release_signals();
        end.done.store(true, std::memory_order_release);
        for (;;)
            pause();
    }
    _exit(final_code());
}

void run_body()
{
    bound_by_alarm();
    flush_streams();
    // Without the launcher every rank ends by itself.
    if (the_job.starter.is_lost())
        return;
    if (coordinate())
        the_job.starter.leave();
    else
        the_job.starter.abort(final_code(), "a rank did not answer the request to end");
    flush_streams();
}

void take_signal()
{
    const int number = end.signal.load();
    if (number == 0 || end.code != no_code)
        return;
    raise_sigquit();
    (void)set_code(128 + number);
}

void *run_end(void *)
{
    while (sem_wait(&end.wake) != 0 || !end.ending) {
    }
    take_signal();
    if (end.because_of_other)
        raise_sigquit();
    run_body();
    leave_process();
    return nullptr;
}

/// The end of main(), and exit().
void on_return(int code, void *)
{
    if (end.process != getpid())
        return;
    const bool first = set_code(code);
    if (on_thread()) { // the program's handler of SIGQUIT called exit()
        run_body();
        return;
    }
    end.by_return = true;
    wake();
    while (!end.done.load(std::memory_order_acquire))
        short_sleep();
    if (!first && final_code() != (code & 0xff))
        _exit(final_code());
}

} // namespace

bool start_thread(void *(*body)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGQUIT);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigdelset(&all, number);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const int error = pthread_create(&thread, nullptr, body, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) {
        report("pthread_create failed with error %d", error);
        return false;
    }
    if (body == run_end)
        end.thread = thread;
    pthread_detach(thread);
    return true;
}

int open()
{
    sem_init(&end.wake, 0, 0);
    end.process = getpid();
    end.limit = std::int64_t{the_job.set.exit_limit(the_job.size())} * 1000;
    if (!start_thread(run_end))
        return DAPL_AM_ERR_RESOURCES;
    end.open = true;
    for (const int number : taken_over)
        if (has_default(number))
            handle(number, on_signal);
    if (has_default(SIGQUIT))
        handle(SIGQUIT, on_signal);
    if (on_exit(on_return, nullptr) != 0)
        return DAPL_AM_ERR_RESOURCES;
    if (the_job.starter.is_lost())
        launcher_lost();
    return DAPL_AM_OK;
}

void launcher_lost()
{
    if (!end.open)
        return;
    begin(1);
    wake(); // also if the job ends already, and waits for the launcher
}

void begin(int code)
{
    if (set_code(code))
        wake();
}

bool begun()
{
    return end.ending.load(std::memory_order_relaxed);
}

void stand_if_begun()
{
    if (!begun() || on_thread()) [[likely]]
        return;
    for (;;)
        pause();
}

void fail()
{
    dapl_am_exit(1);
}

bool grant(int rank)
{
    int none = -1;
    return end.master.compare_exchange_strong(none, rank);
}

void asked(int code)
{
    if (set_code(code))
        end.because_of_other = true;
    end.request_came = true;
    wake();
}

} // namespace am::ending

void dapl_am_exit(int code)
{
    using namespace am::ending;
    if (!end.open)
        std::exit(code);
    if (end.process != getpid())
        _exit(code);
    (void)set_code(code);
    if (on_thread()) {
        run_body();
        leave_process();
    }
    wake();
    for (;;)
        pause();
}
