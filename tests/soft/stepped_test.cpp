// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer process that executes instruction by instruction, and is killed or stopped after each
// store into memory that it shares.
#include "rig.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

namespace stepped_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t places = 8; ///< receives that each side has posted
constexpr std::size_t apart = 32768;

std::size_t place_of(std::size_t message)
{
    return message % places * apart;
}

// -------------------------------------------------------------------------------- the other
// process

/// What the two processes tell each other beside the connection.
struct orders {
    int signal = 0;                     ///< what the peer sends itself
    std::atomic<std::size_t> store{0};  ///< number of the last store; 0: the peer does not step yet
    std::atomic<std::size_t> stores{0}; ///< counts stores while the peer steps
    std::atomic<bool> steps{false};
};

/// Shared memory of a process, and a copy.
struct watched_part {
    const std::uint8_t *at;
    std::vector<std::uint8_t> before;

    bool has_changed()
    {
        if (std::memcmp(before.data(), at, before.size()) == 0)
            return false;
        std::memcpy(before.data(), at, before.size());
        return true;
    }
};

struct stepping {
    orders *with = nullptr;
    std::vector<watched_part> parts;
};
stepping here_we_step;

/// Follows each instruction of the thread that has the trap flag.
void on_step(int, siginfo_t *, void *context)
{
    constexpr greg_t trap_flag = 0x100;
    greg_t &flags = static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL];
    orders &with = *here_we_step.with;
    bool stored = false;
    for (watched_part &each : here_we_step.parts)
        stored = each.has_changed() || stored;
    flags |= trap_flag;
    if (!stored || ++with.stores != with.store)
        return;
    flags &= ~trap_flag;
    kill(getpid(), with.signal);
}

void watch(const void *from, std::size_t size)
{
    const auto *const at = static_cast<const std::uint8_t *>(from);
    here_we_step.parts.push_back({at, {at, at + size}});
}

/// Watches the next lines of a ring, and its owner's state as a reader.
void watch_ring(const ring_file &file)
{
    std::size_t last = 0; // line that is not empty
    for (std::size_t i = 0; i < ring_file::lines; ++i)
        if (file.ring[i].head.load() != 0)
            last = i;
    watch(&file, offsetof(ring_file, ring));
    watch(&file.ring[last], std::min<std::size_t>(1024, ring_file::lines - last) * ring_file::line);
}

/// Another mapping of shared memory, which stays when a connection ends.
const void *mapped_again(void *at, std::size_t size)
{
    void *const again = mremap(at, 0, size, MREMAP_MAYMOVE);
    if (again == MAP_FAILED)
        _exit(1);
    return again;
}

/// Watches the rings and boards that this process writes: the lines of a few connections.
void watch_what_is_shared()
{
    std::vector<void *> found;
    {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);)
            if (line.find("rw-s") != std::string::npos &&
                line.find("soft-hca-board") != std::string::npos)
                found.push_back(reinterpret_cast<void *>(std::stoull(line, nullptr, 16)));
    }
    for (void *const each : found)
        if (static_cast<const ring_file *>(each)->is_ring())
            watch_ring(*static_cast<const ring_file *>(mapped_again(each, sizeof(ring_file))));
        else
            watch(mapped_again(each, sizeof(direct_board)), 4096);
}

void begin_to_step(orders &with)
{
    watch_what_is_shared();
    here_we_step.with = &with;
    struct sigaction how {};
    how.sa_sigaction = on_step;
    how.sa_flags = SA_SIGINFO;
    if (sigaction(SIGTRAP, &how, nullptr) != 0)
        _exit(1);
    with.steps.store(true);
    (void)raise(SIGTRAP);
}

/// Sends each message back until it is killed.
[[noreturn]] void answer(std::size_t size, int to_parent, orders &with)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    host here(with_rings());
    end own(here);
    door at(here);
    if (write(to_parent, &at.number, sizeof at.number) != sizeof at.number)
        _exit(1);
    inbound_request *const asked = at.next();
    for (std::size_t i = 0; i < places; ++i)
        (void)own.receive(place_of(i), size);
    if (asked == nullptr || own.pair.accept(*asked, nullptr, 0) != queue_pair::start::begun)
        _exit(1);
    for (std::size_t i = 0;; ++i) {
        while (!own.received(0ms).has_value())
            if (with.store.load() != 0 && !with.steps.load())
                begin_to_step(with);
        (void)own.send(place_of(i), size);
        while (!own.sent(0ms).has_value()) {
        }
        (void)own.receive(place_of(i), size);
    }
}

struct stepping_peer {
    stepping_peer(std::size_t size, int signal)
    {
        void *const shared = mmap(nullptr, sizeof(orders), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
        with = new (shared) orders;
        with->signal = signal;
        int up[2];
        REQUIRE(pipe(up) == 0);
        id = fork();
        REQUIRE(id >= 0);
        if (id == 0)
            answer(size, up[1], *with);
        close(up[1]);
        REQUIRE(read(up[0], &qualifier, sizeof qualifier) == sizeof qualifier);
        close(up[0]);
    }
    stepping_peer(const stepping_peer &) = delete;
    stepping_peer &operator=(const stepping_peer &) = delete;
    ~stepping_peer()
    {
        end_now();
        munmap(with, sizeof *with);
    }
    void end_now()
    {
        if (id == 0)
            return;
        kill(id, SIGKILL);
        waitpid(id, nullptr, 0);
        id = 0;
    }
    void step_until(std::size_t store)
    {
        with->store.store(store);
        REQUIRE(becomes_true([&] { return with->steps.load(); }));
    }
    /// Whether its order was carried out: it has ended, or is stopped.
    bool has_got_there()
    {
        int status = 0;
        if (waitpid(id, &status, WNOHANG | WUNTRACED) != id)
            return false;
        if (!WIFSTOPPED(status))
            id = 0;
        return true;
    }
    void go_on() { REQUIRE(kill(id, SIGCONT) == 0); }

    pid_t id = 0;
    std::uint64_t qualifier = 0;
    orders *with;
};

// ---------------------------------------------------------------------------------- this process

/// One end of a connection to such a peer: counts completions, and checks messages.
struct survivor {
    survivor(host &of, const stepping_peer &to, std::size_t size_of_each)
        : own(of), size(size_of_each)
    {
        for (; receives < places; ++receives)
            REQUIRE(own.receive(500'000 + place_of(receives), size));
        REQUIRE(own.pair.connect(of.hca.settings().address, to.qualifier, nullptr, 0) ==
                queue_pair::start::begun);
        REQUIRE(is(own.next(), connection_event::established));
    }
    void send()
    {
        own.buffer.fill(place_of(sends), size, static_cast<unsigned>(sends));
        REQUIRE(own.send(place_of(sends), size));
        ++sends;
    }
    /// Takes completions.
    void poll()
    {
        if (const auto done = own.sent(0ms)) {
            CHECK((!sends_ended || done->status != work_status::success));
            sends_ended = sends_ended || done->status != work_status::success;
            ++sent;
        }
        if (const auto got = own.received(0ms)) {
            if (got->status == work_status::success) {
                CHECK(!receives_ended);
                CHECK(own.buffer.holds(500'000 + place_of(answers), size,
                                       static_cast<unsigned>(answers)));
                CHECK(answers < sends);
                ++answers;
            } else {
                receives_ended = true;
            }
            ++received;
        }
    }
    bool is_answered() const { return answers == sends && sent == sends; }
    void post_receives()
    {
        for (; receives < received + places; ++receives)
            REQUIRE(own.receive(500'000 + place_of(receives), size));
    }
    /// All requests have come back, each once.
    void expect_all_back()
    {
        const auto began = std::chrono::steady_clock::now();
        while (sent < sends || received < receives) {
            poll();
            REQUIRE(std::chrono::steady_clock::now() - began < patience);
        }
        CHECK(!own.sent(1ms).has_value());
        CHECK(!own.received(1ms).has_value());
    }

    end own;
    const std::size_t size;
    std::size_t sends = 0;
    std::size_t receives = 0;
    std::size_t sent = 0;
    std::size_t received = 0;
    std::size_t answers = 0;
    bool sends_ended = false;
    bool receives_ended = false;
};

/// Passes messages until the peer uses rings. False if the ring is nearly used up.
bool warm_up(survivor &by)
{
    const auto began = std::chrono::steady_clock::now();
    while (by.own.counts().by_ring < 2 || by.answers < 4) {
        by.send();
        while (!by.is_answered()) {
            by.poll();
            REQUIRE(std::chrono::steady_clock::now() - began < patience);
        }
        by.post_receives();
    }
    return by.sends * (ring_file::lines_for(static_cast<std::uint32_t>(by.size)) + 4) <
           ring_file::lines / 2;
}

void pass(end &from, end &to)
{
    REQUIRE(to.receive(0, 64));
    REQUIRE(from.send(0, 64));
    expect(to.received(), work_status::success);
    expect(from.sent(), work_status::success);
    from.requests.clear();
    to.requests.clear();
}

void expect_end(survivor &a)
{
    a.send();
    a.expect_all_back();
    const auto how = a.own.next();
    REQUIRE(how.has_value());
    CHECK((how->what == connection_event::broken || how->what == connection_event::disconnected));
    CHECK(!a.own.next(1ms).has_value());
}

void expect_answers(survivor &a)
{
    const auto began = std::chrono::steady_clock::now();
    while (!a.is_answered()) {
        a.poll();
        REQUIRE(!(a.sends_ended || a.receives_ended));
        REQUIRE(std::chrono::steady_clock::now() - began < patience);
    }
}

enum class outcome { done, too_few_stores, too_busy };

/// Lets a peer answer two messages, until its store of this number.
outcome lead(std::size_t store, std::size_t size, int signal)
{
    stepping_peer peer(size, signal);
    host here(with_rings()), there(with_rings());
    end c(here), d(there);
    REQUIRE(establish(c, d));
    survivor a(here, peer, size);
    if (!warm_up(a))
        return outcome::too_busy;
    peer.step_until(store);
    a.send();
    a.send();
    const auto began = std::chrono::steady_clock::now();
    for (int rest = 20'000; !peer.has_got_there(); rest -= a.is_answered() ? 1 : 0) {
        a.poll();
        if (rest <= 0 && peer.with->stores.load() < store) {
            peer.end_now(); // the peer watches memory that the connection's end unmaps
            return outcome::too_few_stores;
        }
        REQUIRE(std::chrono::steady_clock::now() - began < patience);
    }
    if (signal == SIGKILL) {
        expect_end(a);
        pass(c, d);
    } else {
        for (int i = 0; i < 20; ++i)
            pass(c, d);
        peer.go_on();
        expect_answers(a);
    }
    peer.end_now();
    return outcome::done;
}

} // namespace

TEST_SUITE_BEGIN("stepped");

// ThreadSanitizer puts handlers off, and follows each instruction that they execute.
TEST_CASE("a peer is killed or stopped after each store into memory that it shares" *
          doctest::skip(test_run::thread_sanitized))
{
    const char *const asked = std::getenv("SOFT_STORES"); // the distance from one store to the next
    const std::size_t stride = asked == nullptr ? 9 : static_cast<std::size_t>(std::atoi(asked));
    for (const std::size_t size : {std::size_t{64}, std::size_t{20'000}})
        for (const int signal : {SIGKILL, SIGSTOP}) {
            CAPTURE(size);
            CAPTURE(signal);
            std::size_t store = 1;
            outcome last = outcome::done;
            while (last != outcome::too_few_stores) {
                CAPTURE(store);
                last = lead(store, size, signal);
                store += last == outcome::done ? stride : 0;
            }
            MESSAGE("up to store " << store);
            CHECK(store > 1);
        }
}

TEST_SUITE_END();

} // namespace stepped_suite
