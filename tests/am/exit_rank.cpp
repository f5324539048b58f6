// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A rank that takes part in the end of a job in one of many ways: exit-rank CASE. The job has to
// end with the exit code CASE. run_jobs.py runs it.
#include "dapl_am.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

int code;
int first_rank;

template <typename Function>
Function *next_of(Function *, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

volatile sig_atomic_t exit_in_sigquit;

/// Written by each rank that another one has ended, for run_jobs.py to count.
void on_sigquit(int)
{
    constexpr char line[] = "SIGQUIT\n";
    (void)!write(STDOUT_FILENO, line, sizeof line - 1);
    if (exit_in_sigquit)
        dapl_am_exit(code);
}

void on_request(dapl_am_token *, void *, std::size_t, int, const std::int32_t *args, void *)
{
    if (args[0] != 0)
        dapl_am_exit(args[0]);
}

DAPL_AM_HANDLER table[] = {{1, DAPL_AM_SHORT | DAPL_AM_MEDIUM | DAPL_AM_LONG | DAPL_AM_REQUEST, 1,
                            on_request, nullptr, "request"}};

void must(int status)
{
    const bool killed = code == 23 || code == 24; // somebody, at any moment: calls may fail then
    if (status != DAPL_AM_OK && killed)
        _exit(90);
    if (status != DAPL_AM_OK) {
        std::fprintf(stderr, "ERROR: %s\n", dapl_am_strerror(status));
        std::abort();
    }
}

/// Joins as another library in the process does, which does not get to leave.
void join_once_more()
{
    using init = int(void *process, void *info, std::size_t count);
    auto *const join = reinterpret_cast<init *>(dlsym(RTLD_DEFAULT, "PMIx_Init"));
    if (join == nullptr || join(nullptr, nullptr, 0) != 0) {
        std::fprintf(stderr, "ERROR: PMIx_Init\n");
        std::abort();
    }
}

/// Destroyed behind what libdapl-am does at the return from main().
struct crash_at_end {
    ~crash_at_end()
    {
        if (code == 18 && dapl_am_rank() == first_rank)
            raise(SIGSEGV);
    }
} crashes_at_end;

[[noreturn]] void spin()
{
    static std::atomic<unsigned> turns;
    for (;;)
        turns.fetch_add(1, std::memory_order_relaxed);
}

/// Stops by a signal. Any thread may get it, so this one waits for it.
[[noreturn]] void stop_by(int signal)
{
    kill(getpid(), signal);
    spin();
}

void barrier()
{
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
}

[[noreturn]] void poll_for_ever()
{
    for (;;)
        (void)dapl_am_poll();
}

void ask(int rank, int argument)
{
    const std::int32_t args[] = {argument};
    must(dapl_am_request_short(rank, 1, 1, args, 0));
}

[[noreturn]] void all_traffic()
{
    static std::vector<std::byte> bytes(100'000);
    const std::int32_t nothing[] = {0};
    for (int i = 0;; ++i) {
        const int to = (dapl_am_rank() + 1 + i) % dapl_am_size();
        void *segment = nullptr;
        std::size_t size = 0;
        must(dapl_am_segment(to, &segment, &size));
        must(dapl_am_request_medium(to, 1, bytes.data(), 1000, 1, nothing, 0));
        must(dapl_am_request_long(to, 1, bytes.data(), 50'000, segment, 1, nothing, 0));
        must(dapl_am_put(to, segment, bytes.data(), bytes.size()));
        must(dapl_am_put_nbi(to, segment, bytes.data(), 100));
        std::uint64_t value = 0;
        must(dapl_am_get_val(to, segment, 8, &value));
    }
}

/// Runs one function on three more threads, while this one does another.
template <typename Others>
void start_threads(Others others)
{
    for (int i = 0; i < 3; ++i)
        std::thread(others).detach();
}

void with_threads(bool first)
{
    static pthread_barrier_t local;
    pthread_barrier_init(&local, nullptr, 10);
    switch (code) {
    case 51:
        start_threads([] { dapl_am_exit(code); });
        break;
    case 52:
        start_threads([] { pthread_barrier_wait(&local); });
        break;
    case 53:
        start_threads([] { spin(); });
        break;
    case 54:
        start_threads([] { poll_for_ever(); });
        break;
    default:
        start_threads([] { all_traffic(); });
    }
    if (first)
        std::thread([] {
            usleep(50'000);
            dapl_am_exit(code);
        }).detach();
    switch (code) {
    case 51:
        dapl_am_exit(code);
    case 52:
        pthread_barrier_wait(&local);
        break;
    case 53:
        spin();
    case 54:
        poll_for_ever();
    default:
        all_traffic();
    }
}

int attached(bool first)
{
    switch (code) {
    case 1:
        dapl_am_exit(code);
    case 2:
        return code;
    case 3:
        if (first)
            dapl_am_exit(code);
        barrier();
        break;
    case 4:
        exit_in_sigquit = 1;
        if (first)
            stop_by(SIGINT);
        barrier();
        break;
    case 5:
        if (first)
            dapl_am_exit(code);
        spin();
    case 8:
        if (first)
            return code;
        barrier();
        break;
    case 9:
        if (first)
            return code;
        spin();
    case 10:
        ask((dapl_am_rank() + 1) % dapl_am_size(), code);
        poll_for_ever();
    case 11:
        if (first)
            ask((dapl_am_rank() + 1) % dapl_am_size(), code);
        poll_for_ever();
    case 12:
        if (first)
            ask(dapl_am_rank(), code);
        poll_for_ever();
    case 13:
        ask(0, code);
        poll_for_ever();
    case 14: // a signal to one, no handler of SIGQUIT anywhere
        signal(SIGQUIT, SIG_DFL);
        if (first)
            stop_by(SIGTERM);
        barrier();
        break;
    case 17: // PMIx counts its users
        join_once_more();
        barrier();
        if (first)
            dapl_am_exit(0);
        spin();
    case 18: // a crash when the job has ended: see crashes_at_end
        if (first)
            return 0;
        spin();
    case 19: // a crash while it ends: in PMIx_Finalize
        if (first)
            dapl_am_exit(0);
        spin();
    case 23: // the launcher is killed
    case 24:
        if (code == 24)
            poll_for_ever();
        spin();
    case 21: // the launcher's job ends although this rank stands still
        if (!first)
            kill(getpid(), SIGSTOP);
        usleep(100'000);
        dapl_am_exit(code);
    case 30:
        return 0;
    case 22: // one is killed, the others wait for it
        usleep(200'000);
        if (first)
            kill(getpid(), SIGKILL);
        barrier();
        break;
    default:
        with_threads(first);
    }
    barrier(); // never passed: the rank that ends never comes
    std::printf("ERROR: passed a barrier\n");
    return 98;
}

/// Lets a call of the library wait first, for cases that need one rank to be late.
void late(bool when, int milliseconds)
{
    if (when)
        usleep(useconds_t(milliseconds) * 1000);
}

int nth_after(int rank, int distance)
{
    return (rank + distance) % dapl_am_size();
}

} // namespace

// Calls of libdapl-am that come here first.

extern "C" int PMIx_Commit(void)
{
    const int status = next_of(&PMIx_Commit, "PMIx_Commit")();
    late(code == 15, 200);
    return status;
}

extern "C" int PMIx_Finalize(const void *info, std::size_t count)
{
    if (code == 19 && dapl_am_rank() == first_rank)
        raise(SIGSEGV);
    late(code == 15, 500);
    return next_of(&PMIx_Finalize, "PMIx_Finalize")(info, count);
}

/// A rank that begins more exchanges than there are makes launchers hang.
extern "C" int PMIx_Fence_nb(const void *who, std::size_t ranks, const void *info,
                             std::size_t count, void (*done)(int, void *), void *context)
{
    static std::atomic<int> fences;
    if (++fences > 2)
        (void)!write(STDOUT_FILENO, "ERROR: a third exchange\n", 24);
    return next_of(&PMIx_Fence_nb, "PMIx_Fence_nb")(who, ranks, info, count, done, context);
}

DAT_RETURN dat_cr_query(DAT_CR_HANDLE request, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param)
{
    late(code == 16 && dapl_am_rank() == nth_after(first_rank, 2), 1500);
    return next_of(&dat_cr_query, "dat_cr_query")(request, mask, param);
}

/// What this process has of its own, in bytes, while no rank has connected.
static void print_memory()
{
    std::FILE *file = std::fopen("/proc/self/status", "r");
    char line[128];
    while (file && std::fgets(line, sizeof line, file))
        if (std::strncmp(line, "RssAnon:", 8) == 0)
            std::printf("memory %ld\n", std::atol(line + 8) * 1024);
    if (file)
        std::fclose(file);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 97;
    code = std::atoi(argv[1]);
    signal(SIGQUIT, on_sigquit);
    const int which = argc > 2 ? std::atoi(argv[2]) : 1;
    must(dapl_am_init(nullptr));
    first_rank = std::min(which, dapl_am_size() - 1);
    const bool first = dapl_am_rank() == first_rank;
    std::printf("flushed\n"); // goes to a pipe: it stays in the buffer until the end
    if (code == 6 || ((code == 7 || code == 15) && first))
        dapl_am_exit(code);
    if (code == 16) {
        exit_in_sigquit = 1;
        late(dapl_am_rank() == nth_after(first_rank, 1), 5000);
        if (first)
            std::thread([] {
                usleep(300'000);
                kill(getpid(), SIGTERM);
            }).detach();
    }
    must(dapl_am_attach(table, 1, 1 << 20));
    if (code == 30) {
        print_memory();
        usleep(500'000); // no rank connects before all have looked
    }
    if (code != 2)
        barrier();
    return attached(first);
}
