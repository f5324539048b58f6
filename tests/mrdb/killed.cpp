// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Kills processes that change the database, and checks what the survivors find in it: no
// record of a living process is lost, a dead process's name can be used, and no operation blocks.
//
//     mrdb_killed random NUMBER [SEED]   at random moments
//     mrdb_killed stores                 at each change of the database, also stopped there
//     mrdb_killed instructions           the same at each instruction
#include "tested.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <utility>
#include <vector>

using namespace test;

// What /proc says of the process is read before it is stepped: that takes some thousand
// instructions, and stores nothing.
osd::process_identity read_this_process() __asm__("__real__ZN3osd12this_processEv");
osd::process_identity this_process_once() __asm__("__wrap__ZN3osd12this_processEv");

osd::process_identity this_process_once()
{
    static osd::process_identity known;
    if (known.number != static_cast<std::uint32_t>(getpid()))
        known = read_this_process();
    return known;
}

namespace {

constexpr unsigned places = 8;
constexpr std::size_t record = 64, size = places * (8 + record); // the layout of mrdb.cpp
constexpr DAT_VLEN theirs = 4096, ours = 8192;

int failures = 0;

void expect(bool holds, const char *what, unsigned long moment)
{
    if (!holds && ++failures <= 20)
        std::printf("after %lu: not true: %s\n", moment, what);
}

[[noreturn]] void give_up(const char *what)
{
    std::perror(what);
    std::exit(2);
}

/// The records of the living: a name of their own, and a name that the killed processes have, too.
struct living {
    living() : db(of.name.c_str(), places)
    {
        if (db.init() != nullptr || !db.insert(name_of("own"), ours, own).ok() ||
            !db.insert(name_of("shared"), theirs, shared).ok() || raw.open(of.name.c_str(), size))
            give_up("no database");
        db.update(own);
        db.update(shared);
    }

    /// Something else in the free records, so that every store is a change.
    void scribble()
    {
        (void)db.sweep();
        auto *states = static_cast<std::uint64_t *>(raw.address());
        for (unsigned i = 0; i < places; ++i)
            if (states[i] >> 40 == 0)
                std::memset(reinterpret_cast<char *>(states + places) + i * record, 0xab, record);
    }
    std::vector<char> bytes() const
    {
        const char *at = static_cast<const char *>(raw.address());
        return {at, at + size};
    }

    fresh_database of;
    mrdb db;
    mrdb::ticket own, shared;
    osd::shared_pages raw;
};

/// A living process takes a name that a dead one had, for another length.
bool can_have(mrdb &db, const char *text)
{
    mrdb::ticket made;
    if (!db.insert(name_of(text), ours, made).ok())
        return false;
    db.update(made);
    const bool found = same(db.query(name_of(text)), ours, 1);
    db.dec(made);
    return found && same(db.query(name_of(text)), 0, 0);
}

void judge_dead(living &l, unsigned long moment)
{
    mrdb::ticket made;
    expect(same(l.db.query(name_of("own")), ours, 1), "a living process has its record", moment);
    expect(same(l.db.query(name_of("shared")), theirs, 1), "and the one that a dead one had, too",
           moment);
    expect(l.db.insert(name_of("shared"), ours, made) == status::error(DAT_LENGTH_ERROR),
           "which has its length still", moment);
    expect(can_have(l.db, "own of the dead"), "a name of the dead can be had", moment);
    expect(can_have(l.db, "another"), "and an unused name", moment);
    expect(l.db.sweep() == 2, "no record of the dead is left", moment);
}

/// The work of a killed process: both operations, of a name of its own and of a name that others
/// have.
void change(mrdb &db)
{
    mrdb::ticket own, shared;
    (void)db.insert(name_of("own of the dead"), theirs, own);
    db.update(own);
    (void)db.insert(name_of("shared"), theirs, shared);
    db.update(shared);
    db.dec(own);
    db.dec(shared);
}

/// A child process, which does not outlive us: it would be traced by process 1, and stay.
pid_t fork_child()
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        _exit(1);
    return child;
}

// ----------------------------------------------------------------------------------- step by step

/// A child process that the test executes one instruction at a time.
class stepped {
public:
    template <class Work>
    stepped(living &l, Work work) : child_(fork_child())
    {
        if (child_ == 0) {
            mrdb db(l.of.name.c_str(), places);
            (void)osd::this_process();
            if (db.init() != nullptr || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
                _exit(77);
            raise(SIGSTOP);
            work(db);
            _exit(0);
        }
        await();
        if (ended()) {
            std::printf("processes cannot be traced here\n");
            std::exit(77);
        }
        ptrace(PTRACE_SETOPTIONS, child_, nullptr, PTRACE_O_EXITKILL);
    }
    stepped(const stepped &) = delete;
    stepped &operator=(const stepped &) = delete;
    ~stepped() { end(); }

    /// Runs one instruction. False at its exit.
    bool step()
    {
        go(PTRACE_SINGLESTEP);
        await();
        return !ended();
    }
    /// Until it stops by itself, which await_stop() waits for. It may have ended already: how many
    /// instructions it makes varies.
    void run()
    {
        if (ended())
            return;
        go(PTRACE_CONT);
        runs_ = true;
    }
    void await_stop()
    {
        if (std::exchange(runs_, false))
            await();
    }
    void await()
    {
        if (waitpid(child_, &status_, 0) != child_)
            give_up("waitpid");
    }
    bool ended() const { return WIFEXITED(status_) || WIFSIGNALED(status_); }
    void end()
    {
        if (ended())
            return;
        kill(child_, SIGKILL);
        while (!ended())
            await();
    }

private:
    template <class Request>
    void go(Request how) const
    {
        if (ptrace(how, child_, nullptr, nullptr) != 0)
            give_up("ptrace");
    }

    const pid_t child_;
    int status_ = 0;
    bool runs_ = false;
};

/// After how many instructions of a process there is a change, and how many there are.
struct course {
    std::vector<unsigned long> changes;
    unsigned long all = 1;
};

template <class Work>
course find_course(living &l, Work work)
{
    l.scribble();
    stepped one(l, work);
    course found;
    std::vector<char> before = l.bytes();
    for (; one.step(); ++found.all)
        if (std::vector<char> now = l.bytes(); now != before) {
            found.changes.push_back(found.all);
            before = std::move(now);
        }
    return found;
}

/// Moments around each change, since numbers and addresses move it by an instruction or two; or all
/// moments.
std::vector<unsigned long> moments_of(const course &c, bool all)
{
    std::vector<unsigned long> moments;
    unsigned long next = 0;
    for (unsigned long change : c.changes)
        for (; next <= change + 2; ++next)
            if (all || next + 3 >= change)
                moments.push_back(next);
    return moments;
}

void step_to(stepped &one, unsigned long moment)
{
    for (unsigned long i = 0; i < moment && one.step(); ++i)
        ;
}

/// Checks that a process stopped inside an operation does not block other processes' operations, on
/// records before or behind its own.
void judge_stopped(living &l, const mrdb::ticket &placeholder, unsigned long moment)
{
    const auto begin = std::chrono::steady_clock::now();
    expect(can_have(l.db, "another"), "one that is stopped is not in the way", moment);
    for (int i = 0; i < 2; ++i) {
        mrdb::ticket made;
        const status code = l.db.insert(name_of("own of the dead"), ours, made);
        expect(code.ok() || code == status::error(DAT_LENGTH_ERROR), "it has a name, or not",
               moment);
        l.db.dec(made);
        l.db.dec(placeholder);
    }
    expect(same(l.db.query(name_of("own")), ours, 1), "records stay", moment);
    expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20), "nothing blocks",
           moment);
}

void kill_at(living &l, const std::vector<unsigned long> &moments)
{
    for (unsigned long moment : moments) {
        stepped one(l, change);
        step_to(one, moment);
        one.end();
        judge_dead(l, moment);
    }
}

void stop_at(living &l, const std::vector<unsigned long> &moments)
{
    for (unsigned long moment : moments) {
        mrdb::ticket placeholder;
        (void)l.db.sweep(); // gives the first free place to the placeholder
        (void)l.db.insert(name_of("before it"), ours, placeholder);
        stepped one(l, change);
        step_to(one, moment);
        judge_stopped(l, placeholder, moment);
    }
}

/// What two processes tell, who want a name for different lengths.
struct contention {
    std::atomic<int> won{0};
    std::atomic<int> lost{0};
};

contention &told()
{
    static void *const shared = mmap(nullptr, sizeof(contention), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *static_cast<contention *>(shared);
}

void contend(mrdb &db, DAT_VLEN length)
{
    mrdb::ticket mine;
    const bool got = db.insert(name_of("contended"), length, mine).ok();
    (got ? told().won : told().lost).fetch_add(1);
    raise(SIGSTOP); // stops, and keeps its record
}

/// One is stopped at a moment, the other comes meanwhile.
void contend_at(living &l, const std::vector<unsigned long> &moments)
{
    for (unsigned long moment : moments) {
        mrdb::ticket placeholder;
        (void)l.db.sweep();
        if (moment % 2 == 0)
            (void)l.db.insert(name_of("before it"), ours, placeholder);
        told().won = 0;
        stepped one(l, [](mrdb &db) { contend(db, theirs); });
        step_to(one, moment);
        l.db.dec(placeholder); // where it was, the other one comes before this one
        mrdb::ticket made;
        const bool got = l.db.insert(name_of("contended"), ours, made).ok();
        one.run();
        one.await_stop();
        expect(told().won + got == 1, "of two that contend, one wins", moment);
        l.db.dec(made);
    }
}

/// Stops both when they have told their wish and not looked for the other's.
void contend_in_step(living &l)
{
    for (unsigned long i = 0; i < 10; ++i) {
        told().won = told().lost = 0;
        const auto contends = [&l](unsigned place) {
            return (static_cast<std::uint64_t *>(l.raw.address())[place] & 7) == 2;
        };
        (void)l.db.sweep();
        stepped one(l, [](mrdb &db) { contend(db, theirs); });
        while (!contends(2) && one.step())
            ;
        stepped two(l, [](mrdb &db) { contend(db, ours); });
        while (!contends(3) && two.step())
            ;
        (i % 2 == 0 ? one : two).run();
        (i % 2 == 0 ? two : one).run();
        one.await_stop();
        two.await_stop();
        expect(told().won == 1 && told().lost == 1, "of two in step, one wins", i);
    }
}

void step_by_step(living &l, bool all)
{
    const course changing = find_course(l, change);
    const course contending = find_course(l, [](mrdb &db) { contend(db, theirs); });
    expect(changing.changes.size() == 26, "every store is seen", changing.changes.size());
    const std::vector<unsigned long> moments = moments_of(changing, all);
    kill_at(l, moments);
    stop_at(l, moments);
    contend_at(l, moments_of(contending, all));
    contend_in_step(l);
    std::printf("%lu instructions with %zu changes, killed and stopped at %zu moments\n",
                changing.all, changing.changes.size(), moments.size());
}

// -------------------------------------------------------------------------------------- at random

pid_t begin_to_change(living &l)
{
    const pid_t child = fork_child();
    if (child == 0) {
        mrdb db(l.of.name.c_str(), places);
        if (db.init() != nullptr)
            _exit(77);
        for (;;)
            change(db);
    }
    return child;
}

/// Another living process: it changes names of its own, and sees all the time that it has them.
pid_t begin_to_watch(living &l)
{
    const pid_t child = fork_child();
    if (child == 0) {
        mrdb db(l.of.name.c_str(), places);
        if (db.init() != nullptr)
            _exit(77);
        for (;;) {
            mrdb::ticket mine;
            if (!db.insert(name_of("watched"), ours, mine).ok())
                _exit(1);
            db.update(mine);
            const bool found = same(db.query(name_of("watched")), ours, 1) &&
                               same(db.query(name_of("own")), ours, 1);
            db.dec(mine);
            if (!found)
                _exit(2);
        }
    }
    return child;
}

void at_random(living &l, unsigned long number, unsigned seed)
{
    std::printf("%lu moments, seed %u\n", number, seed);
    std::mt19937 random(seed);
    for (unsigned long i = 0; i < number; ++i) {
        const pid_t watching = begin_to_watch(l);
        const pid_t child = begin_to_change(l);
        usleep(random() % 4000);
        kill(child, SIGKILL);
        if (random() % 2 == 0)
            waitpid(child, nullptr, 0);
        else // it stays a zombie
            for (siginfo_t none{};
                 waitid(P_PID, static_cast<id_t>(child), &none, WEXITED | WNOWAIT) != 0;)
                ;
        mrdb::ticket made;
        expect(same(l.db.query(name_of("own")), ours, 1), "a living process has its record", i);
        expect(same(l.db.query(name_of("shared")), theirs, 1), "and the one of both", i);
        expect(can_have(l.db, "own of the dead"), "a name of the dead can be had", i);
        expect(!l.db.insert(name_of("shared"), ours, made).ok(), "which has its length still", i);
        int status = 0;
        expect(waitpid(watching, &status, WNOHANG) == 0, "others are not disturbed", i);
        kill(watching, SIGKILL);
        waitpid(watching, nullptr, 0);
        waitpid(child, nullptr, WNOHANG);
        judge_dead(l, i);
    }
}

} // namespace

int main(int argc, char **argv)
{
    const std::string how = argc > 1 ? argv[1] : "";
    living l;
    if (how == "random")
        at_random(l, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 200,
                  argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10))
                           : std::random_device()());
    else if (how == "stores" || how == "instructions")
        step_by_step(l, how == "instructions");
    else
        return 2;
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
