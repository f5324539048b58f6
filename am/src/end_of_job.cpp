// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "end_of_job.hpp"

#include "dapl_am.h"
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

namespace am {

namespace {

using purpose = connection_purpose;

constexpr int ending_signals[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};

void set_handler(int number, void (*handler)(int))
{
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

bool has_handler(int number, void (*handler)(int))
{
    struct sigaction action {};
    return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == handler;
}

void flush_streams()
{
    std::fflush(stdout);
    std::fflush(stderr);
}

void sleep_shortly()
{
    usleep(1000);
}

/// The outcome of a connection request that was not for a connection.
enum class outcome { none, accepted, rejected, failed };

/// Requests to other ranks and their outcomes, one at a time to each rank. Nothing here allocates:
/// memory may be short.
class end_requests {
public:
    end_requests(job_context &job, links &connections, std::int64_t limit, int count)
        : job_(job), links_(connections), limit_(limit)
    {
        if (dat_evd_create(job.ia, 2 * count + 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                           &events_) != DAT_SUCCESS)
            events_ = DAT_HANDLE_NULL;
    }

    /// Returns whether an answer may come.
    bool send(int rank, purpose what)
    {
        peer &p = job_.peer_of_rank(rank);
        p.ending_ep =
            events_ == DAT_HANDLE_NULL ? DAT_HANDLE_NULL : links_.make_plain_endpoint(events_, &p);
        if (p.ending_ep == DAT_HANDLE_NULL)
            return false;
        const hello words = links_.make_hello(p, what, job_.end.code());
        p.ending_number = words.number;
        return links::connect(p.ending_ep, p, words,
                              static_cast<unsigned>((limit_ + 999) / 1000)) == DAT_SUCCESS;
    }

    /// Waits for the next answer; rank -1 if none comes until then.
    std::pair<int, outcome> await_answer(purpose what, std::int64_t until)
    {
        constexpr std::int64_t slice = 50'000;
        while (events_ != DAT_HANDLE_NULL) {
            DAT_EVENT event;
            DAT_COUNT more = 0;
            const std::int64_t left = until - now_us();
            if (left <= 0)
                break;
            if (dat_evd_wait(events_, static_cast<DAT_TIMEOUT>(std::min(left, slice)), 1, &event,
                             &more) != DAT_SUCCESS)
                continue;
            const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
            peer *p = links::peer_of(ep);
            if (p == nullptr || ep != p->ending_ep)
                continue;
            p->ending_ep = DAT_HANDLE_NULL;
            return {p->rank, outcome_of(*p, what, event)};
        }
        return {-1, outcome::none};
    }

private:
    /// Counts an answer without the rank's proof as none.
    outcome outcome_of(const peer &p, purpose what, const DAT_EVENT &event) const
    {
        if (!links_.is_answered_by(p, what, p.ending_number, event))
            return outcome::failed;
        return event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED ? outcome::accepted
                                                                      : outcome::rejected;
    }

    job_context &job_;
    links &links_;
    const std::int64_t limit_;
    DAT_EVD_HANDLE events_ = DAT_HANDLE_NULL;
};

} // namespace

end_of_job *end_of_job::of_process = nullptr;

int end_of_job::open()
{
    of_process = this;
    limit_ = std::int64_t{job_.set.exit_limit(job_.size())} * 1000;
    if (const int status = job_.end.open({run_thread, finish, this}); status != DAPL_AM_OK)
        return status;
    for (const int number : ending_signals)
        if (has_handler(number, SIG_DFL))
            set_handler(number, on_signal);
    if (on_exit(on_return, this) != 0)
        return DAPL_AM_ERR_RESOURCES;
    if (job_.starter.is_lost())
        job_.end.begin_without_launcher();
    return DAPL_AM_OK;
}

// --- signals

void end_of_job::on_signal(int number)
{
    const int saved = errno;
    const ending &end = of_process->job_.end;
    int none = 0;
    if (!end.is_of_this_process())
        _exit(128 + number);
    if (of_process->signal_.compare_exchange_strong(none, number))
        of_process->job_.end.wake();
    errno = saved;
}

void end_of_job::on_alarm(int)
{
    constexpr char line[] = "dapl-am: the end of the job took too long: this rank ends at once\n";
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(of_process->job_.end.code());
}

/// Runs the program's own handler of SIGQUIT. It may end the job itself and not return.
void end_of_job::raise_sigquit()
{
    struct sigaction action {};
    if (sigaction(SIGQUIT, nullptr, &action) != 0)
        return;
    const bool is_of_program = (action.sa_flags & SA_SIGINFO) != 0 ||
                               (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
                                action.sa_handler != on_signal);
    if (is_of_program)
        pthread_kill(pthread_self(), SIGQUIT);
}

void end_of_job::take_signal()
{
    const int number = signal_.load();
    if (number == 0 || job_.end.has_code())
        return;
    raise_sigquit();
    (void)job_.end.set_code(128 + number);
}

/// Bounds the time until the process ends: a thread that stands still may hold a lock of the C
/// library.
void end_of_job::bound_by_alarm()
{
    sigaction(SIGQUIT, nullptr, &kept_.quit);
    sigaction(SIGALRM, nullptr, &kept_.alarm);
    set_handler(SIGQUIT, SIG_IGN);
    set_handler(SIGALRM, on_alarm);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    kept_.seconds = alarm(static_cast<unsigned>(2 * limit_ / 1'000'000 + 3));
}

/// Gives the signals back where the program ends the process by itself: its last steps are not ours
/// to bound or to hide.
void end_of_job::release_signals() const
{
    alarm(0);
    sigaction(SIGALRM, &kept_.alarm, nullptr);
    sigaction(SIGQUIT, &kept_.quit, nullptr);
    for (const int number : ending_signals)
        if (has_handler(number, on_signal))
            set_handler(number, SIG_DFL);
    alarm(kept_.seconds);
}

// --- asking the other ranks

/// Asks rank 0 whether this rank may ask all others. If rank 0 is wedged, every rank that asks is
/// on its own.
end_of_job::role end_of_job::elect(std::int64_t until)
{
    constexpr std::int64_t slice = 50'000;
    if (job_.end.is_requested())
        return role::slave;
    if (job_.rank() == 0)
        return job_.end.grant(0) ? role::master : role::slave;
    end_requests ask(job_, links_, limit_, 1);
    if (!ask.send(0, purpose::elect))
        return role::alone;
    while (now_us() < until && !job_.end.is_requested()) {
        const auto [rank, answer] =
            ask.await_answer(purpose::elect, std::min(until, now_us() + slice));
        if (rank < 0)
            continue;
        if (answer == outcome::accepted)
            return role::master;
        return answer == outcome::rejected ? role::slave : role::alone;
    }
    return job_.end.is_requested() ? role::slave : role::alone;
}

/// Asks all other ranks to end, some at a time. Returns whether all have answered.
bool end_of_job::ask_all(std::int64_t until)
{
    constexpr int window = 64;
    const int size = job_.size();
    int sent = 0, unanswered = 0, missing = size - 1;
    end_requests ask(job_, links_, limit_, size);
    while (missing > 0 && now_us() < until) {
        for (; sent < size && unanswered < window; ++sent)
            if (sent != job_.rank() && ask.send(sent, purpose::leave))
                ++unanswered;
        if (unanswered == 0)
            break;
        const auto [rank, answer] = ask.await_answer(purpose::leave, until);
        if (rank < 0)
            break;
        --unanswered;
        if (answer != outcome::rejected)
            continue;
        job_.peer_of_rank(rank).left = true;
        --missing;
    }
    for (int rank = 0; rank < size; ++rank)
        if (rank != job_.rank() && !job_.peer_of_rank(rank).left)
            report("rank %d did not answer the request to end within %lld ms", rank,
                   static_cast<long long>(limit_ / 1000));
    return missing == 0;
}

bool end_of_job::await_request(std::int64_t until)
{
    while (!job_.end.is_requested() && now_us() < until)
        sleep_shortly();
    if (!job_.end.is_requested())
        report("the request to end did not come within %lld ms",
               static_cast<long long>(limit_ / 1000));
    return job_.end.is_requested();
}

/// Returns whether all ranks end in order.
bool end_of_job::coordinate()
{
    if (job_.size() == 1)
        return true;
    const std::int64_t until = now_us() + limit_;
    switch (elect(now_us() + limit_ / 2)) {
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

// --- the end of this process

void end_of_job::run()
{
    bound_by_alarm();
    flush_streams();
    // Every rank ends by itself if the launcher has gone.
    if (job_.starter.is_lost())
        return;
    if (coordinate())
        job_.starter.leave();
    else
        job_.starter.abort(job_.end.code(), "a rank did not answer the request to end");
    flush_streams();
}

void end_of_job::leave_process()
{
    if (by_return_) {
        release_signals();
        done_.store(true, std::memory_order_release);
        for (;;)
            pause();
    }
    _exit(job_.end.code());
}

void end_of_job::run_thread(void *self)
{
    end_of_job &own = *static_cast<end_of_job *>(self);
    own.take_signal();
    if (own.job_.end.is_begun_by_other())
        raise_sigquit();
    finish(self);
}

void end_of_job::finish(void *self)
{
    end_of_job &own = *static_cast<end_of_job *>(self);
    own.run();
    own.leave_process();
}

/// Ends the job at the end of main(), and at exit().
void end_of_job::on_return(int code, void *self)
{
    end_of_job &own = *static_cast<end_of_job *>(self);
    ending &end = own.job_.end;
    if (!end.is_of_this_process())
        return;
    const bool first = end.set_code(code);
    if (end.is_on_thread()) { // the program's handler of SIGQUIT called exit()
        own.run();
        return;
    }
    own.by_return_ = true;
    end.wake();
    while (!own.done_.load(std::memory_order_acquire))
        sleep_shortly();
    if (!first && end.code() != (code & 0xff))
        _exit(end.code());
}

} // namespace am
