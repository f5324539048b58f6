// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets inside a host go through rings: which packets do, which threads are woken, and what
// remains when a process goes.
#include "connection/ring_choice.hpp"
#include "descriptors.hpp"
#include "intercepted.hpp"
#include "rig.hpp"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ring_paths_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

/// Passes a message from an end to another.
void pass(end &from, end &to, std::size_t size = 64)
{
    REQUIRE(to.receive(0, size));
    REQUIRE(from.send(0, size));
    expect(to.received(), work_status::success);
    expect(from.sent(), work_status::success);
    from.requests.clear();
    to.requests.clear();
}

std::uint64_t by_ring(end &a, end &b)
{
    return a.counts().by_ring + b.counts().by_ring;
}

/// Whether messages go through rings while both ends are polled. On a busy machine few do: a
/// device's thread looks for itself while consumers get no time to poll.
bool uses_rings(end &a, end &b)
{
    constexpr std::uint64_t enough = 20;
    const std::uint64_t before = by_ring(a, b);
    return becomes_true([&] {
        pass(a, b);
        pass(b, a);
        return by_ring(a, b) >= before + enough;
    });
}

/// Lets both ends use rings, before a test about consumers that do not poll.
void have_used_rings(end &a, end &b)
{
    const poller polls(a, b);
    REQUIRE(uses_rings(a, b));
}

struct two : connected_devices {
    explicit two(const settings &how = with_rings()) : connected_devices(how) {}
};

} // namespace

TEST_SUITE_BEGIN("ring paths");

TEST_CASE("messages of consumers that poll go through rings, as they are")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(uses_rings(t.a, t.b));
    for (int i = 0; i < rounds(400); ++i)
        pass(t.a, t.b, 1 + i * 10 % 4000);
    exercise(t.a, t.b, rounds(40));
}

TEST_CASE("without rings, or on a bad network, nothing does")
{
    settings how = with_rings();
    SUBCASE("switched off")
    {
        how.rings = false;
    }
    SUBCASE("no direct access")
    {
        how.direct = false;
    }
    SUBCASE("a bad network")
    {
        how.bad_network.duplicate = 1;
    }
    two t(how);
    exercise(t.a, t.b, rounds(40));
    for (int i = 0; i < rounds(300); ++i)
        pass(t.a, t.b);
    CHECK(t.a.counts().by_ring + t.b.counts().by_ring == 0);
}

TEST_CASE("a consumer that goes to sleep is woken by what comes then")
{
    two t;
    have_used_rings(t.a, t.b);
    const int messages = rounds(600);
    std::mt19937 random(9);
    std::atomic<int> received{0};
    std::atomic<int> longest_ms{0};
    std::thread sleeps([&] {
        while (received.load() < messages) {
            completion_record done;
            const auto began = std::chrono::steady_clock::now();
            while (!t.b.receive_queue.pop(done))
                if (t.b.receive_queue.wait({}, osd::deadline::after_us(20'000'000)) !=
                    osd::wait_result::woken)
                    return;
            const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::steady_clock::now() - began);
            longest_ms.store(std::max(longest_ms.load(), static_cast<int>(took.count())));
            received.fetch_add(1);
        }
    });
    for (int i = 0; i < messages; ++i) {
        REQUIRE(t.b.receive(0, 64));
        REQUIRE(t.a.send(0, 64));
        expect(t.a.sent(), work_status::success);
        const bool came = becomes_true([&] { return received.load() > i; });
        if (!came)
            FAIL_CHECK("message " << i << " does not wake the waiter");
        if (i % 2 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
    sleeps.join();
    CHECK(received.load() == messages);
    CHECK(t.a.resent() < messages / 2); // packets sent again do not explain it
    MESSAGE("the longest took " << longest_ms.load() << " ms");
}

TEST_CASE("where consumers stop polling, the device's threads go on")
{
    two t;
    have_used_rings(t.a, t.b);
    for (int i = 0; i < 20; ++i) {
        REQUIRE(t.b.receive(0, 64));
        REQUIRE(t.a.send(0, 64));
        expect(t.a.sent(), work_status::success); // acknowledged by a thread of the other side
        std::this_thread::sleep_for(1ms);
    }
    for (int i = 0; i < 20; ++i)
        expect(t.b.received(), work_status::success);
}

TEST_CASE("peers are told that a consumer polls, and within a tick that it does not any more")
{
    two t;
    have_used_rings(t.a, t.b);
    // On a busy machine the thread is late, and the peer sends again, over the network.
    int in_a_row = 0;
    CHECK(becomes_true([&] {
        std::this_thread::sleep_for(20ms);
        shard &here = t.here.hca.shard_at(0);
        for (std::uint32_t i = 0; i < 8 * poll_run::long_run; ++i)
            (void)here.progress(false, nullptr);
        const auto before = t.b.counts();
        REQUIRE(t.a.receive(0, 64));
        REQUIRE(t.b.send(0, 64));
        // Nobody polls on this side, and the message comes all the same.
        REQUIRE(becomes_true([&] { return !t.a.receive_queue.empty(); }));
        expect(t.a.received(), work_status::success);
        expect(t.b.sent(), work_status::success);
        const auto after = t.b.counts();
        if (after.by_ring != before.by_ring)
            in_a_row = after.packets_resent == before.packets_resent ? in_a_row + 1 : 0;
        return in_a_row >= 5;
    }));
}

TEST_CASE("what a full ring does not take goes over the network")
{
    two t;
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    have_used_rings(t.a, t.b);
    constexpr int each = 60;
    constexpr std::size_t size = 4000;
    for (end *to : {&t.b, &d})
        for (int i = 0; i < each; ++i)
            REQUIRE(to->receive(static_cast<std::size_t>(i) * size, size));
    t.b.pair.enter(); // holds the thread that takes the first packet for this pair, so that it
                      // takes no others
    for (end *from : {&t.a, &c})
        for (int i = 0; i < each; ++i) {
            from->buffer.fill(static_cast<std::size_t>(i) * size, size, static_cast<unsigned>(i));
            REQUIRE(from->send(static_cast<std::size_t>(i) * size, size));
        }
    std::this_thread::sleep_for(2ms);
    t.b.pair.leave();
    for (auto [from, to] : {std::pair{&t.a, &t.b}, std::pair{&c, &d}})
        for (unsigned i = 0; i < each; ++i) {
            expect(to->received(), work_status::success);
            CHECK(to->buffer.holds(i * size, size, i));
            expect(from->sent(), work_status::success);
        }
}

TEST_CASE("a queue pair that is reset is connected again, and nothing is left behind")
{
    two t;
    const poller polls(t.a, t.b);
    end c(t.here), d(t.there);
    std::size_t open_files = 0;
    for (int round = 0; round < rounds(5); ++round) {
        REQUIRE(uses_rings(t.a, t.b));
        if (round == 0)
            open_files = descriptors().size();
        t.a.pair.disconnect(round % 2 == 0);
        CHECK(is(t.a.next(), connection_event::disconnected));
        CHECK(is(t.b.next(), connection_event::disconnected));
        REQUIRE(t.here.hca.reset_pair(t.a.pair));
        REQUIRE(t.there.hca.reset_pair(t.b.pair));
        REQUIRE(establish(t.a, t.b));
    }
    REQUIRE(uses_rings(t.a, t.b));
    CHECK(becomes_true([&] { return descriptors().size() <= open_files; }));
}

TEST_CASE("a device is its own peer")
{
    host here(with_rings());
    end a(here), b(here);
    REQUIRE(establish(a, b));
    const poller polls(a, b);
    CHECK(uses_rings(a, b));
    exercise(a, b, 20);
}

TEST_CASE("threads of two devices have rings to each other")
{
    settings how = with_rings();
    how.threads = 2;
    host here(how), there(how);
    std::deque<end> ends;
    for (int i = 0; i < 4; ++i) {
        end &a = ends.emplace_back(here);
        end &b = ends.emplace_back(there);
        REQUIRE(establish(a, b));
        have_used_rings(a, b);
    }
}

TEST_CASE("nothing is stored for a queue pair that was freed")
{
    two t;
    const poller polls(t.a, t.b);
    auto d = std::make_unique<end>(t.there);
    end c(t.here);
    REQUIRE(establish(c, *d));
    REQUIRE(uses_rings(c, *d));
    for (int i = 0; i < 50; ++i)
        REQUIRE(d->receive(0, 64));
    c.buffer.fill(0, 64, 5);
    for (int i = 0; i < 50; ++i)
        REQUIRE(c.send(0, 64));
    t.there.hca.free_pair(d->pair);
    d->alive = false;
    d->buffer.fill(0, 64, 6);
    for (int i = 0; i < 200; ++i)
        t.b.receive_queue.progress();
    std::this_thread::sleep_for(10ms);
    CHECK(d->buffer.holds(0, 64, 6));
}

namespace {

settings with_safe_copies()
{
    settings how = with_rings();
    how.safe_copies = true;
    return how;
}

/// Registered memory that can be neither read nor written any more.
class gone_memory {
public:
    gone_memory(host &of, std::uint32_t length) : of_(of), length_(length)
    {
        at_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(at_ != MAP_FAILED);
        key_ = of.hca.add_region(region_, of.domain, at_, size, local_read | local_write);
        REQUIRE(key_ != 0);
        REQUIRE(mprotect(at_, size, PROT_NONE) == 0);
    }
    gone_memory(const gone_memory &) = delete;
    gone_memory &operator=(const gone_memory &) = delete;
    ~gone_memory()
    {
        CHECK(of_.hca.remove_region(region_));
        munmap(at_, size);
    }
    request &ask(end &owner, work kind) const
    {
        request &r = owner.fresh(kind);
        r.local[0] = {reinterpret_cast<std::uintptr_t>(at_), length_, key_};
        r.segments = 1;
        r.length = length_;
        return r;
    }

private:
    static constexpr std::size_t size = 8192;

    host &of_;
    const std::uint32_t length_;
    void *at_ = nullptr;
    memory_region region_;
    std::uint32_t key_ = 0;
};

} // namespace

TEST_CASE("memory that is gone fails its message, and not the process")
{
    settings how = with_rings();
    std::uint32_t length = most_copied + 1;
    SUBCASE("long messages") {}
    SUBCASE("short messages that the system shall copy")
    {
        how.safe_copies = true;
        length = 64;
    }
    for (const bool sends : {true, false}) {
        CAPTURE(sends);
        two t(how);
        const poller polls(t.a, t.b);
        REQUIRE(uses_rings(t.a, t.b));
        const gone_memory gone(t.here, length);
        if (sends) {
            REQUIRE(t.b.receive(0, length));
            REQUIRE(t.a.post(gone.ask(t.a, work::send)));
            expect(t.a.sent(), work_status::local_protection);
        } else {
            REQUIRE(t.a.pair.post_receive(gone.ask(t.a, work::receive)));
            REQUIRE(t.b.send(0, length));
            expect(t.a.received(), work_status::local_protection);
            expect(t.b.sent(), work_status::remote_operation);
        }
    }
}

namespace {

/// Passes messages until one goes by a ring. Returns how often the system copied for that.
int copies_of_one(end &a, end &b, std::size_t size)
{
    int made = -1;
    REQUIRE(becomes_true([&] {
        const std::uint64_t packets = a.counts().by_ring;
        const int before = copies_by_system.load();
        pass(a, b, size);
        if (a.counts().by_ring != packets)
            made = copies_by_system.load() - before;
        return made >= 0;
    }));
    return made;
}

} // namespace

TEST_CASE("a short message is copied by the calls of its consumers, unless they forbid it")
{
    for (const std::size_t size : {std::size_t{64}, std::size_t{most_copied}}) {
        CAPTURE(size);
        two t;
        two safe(with_safe_copies());
        const poller polls(t.a, t.b);
        const poller polls_safely(safe.a, safe.b);
        t.a.buffer.fill(0, size, 5);
        // On a busy machine a device's thread takes some packets, and has the system copy them.
        CHECK(becomes_true([&] { return copies_of_one(t.a, t.b, size) == 0; }));
        CHECK(t.b.buffer.holds(0, size, 5));
        for (int i = 0; i < 20; ++i)
            CHECK(copies_of_one(safe.a, safe.b, size) >= 2);
    }
}

TEST_CASE("a thread copies from its own post, and into receives that it polls for, only")
{
    two t;
    const gone_memory gone(t.here, 64);
    SUBCASE("another thread sends what was posted")
    {
        {
            const poller polls(t.a, t.b);
            REQUIRE(uses_rings(t.a, t.b));
        }
        REQUIRE(t.b.receive(0, 64));
        t.a.pair.enter();
        std::thread([&] { CHECK(t.a.post(gone.ask(t.a, work::send))); }).join();
        t.a.pair.leave();
        expect(t.a.sent(), work_status::local_protection);
    }
    SUBCASE("another queue is polled, or none")
    {
        end c(t.here), d(t.there);
        REQUIRE(establish(c, d));
        const poller polls(c, d);
        REQUIRE(uses_rings(c, d));
        REQUIRE(t.a.pair.post_receive(gone.ask(t.a, work::receive)));
        REQUIRE(t.b.send(0, 64));
        completion_record done;
        REQUIRE(becomes_true([&] { return t.a.receive_queue.pop(done); }));
        CHECK(done.status == work_status::local_protection);
        expect(t.b.sent(), work_status::remote_operation);
    }
}

namespace {

std::atomic<int> polled_in_upcalls{-1}; ///< status of what an upcall found; negative before

/// Polls the queue of the upcall until a completion other than a success comes.
void poll_in_upcall(void *owner)
{
    completion_queue &queue = static_cast<end *>(static_cast<inbox *>(owner))->receive_queue;
    static_cast<inbox *>(owner)->completion();
    (void)becomes_true([&] {
        completion_record done;
        (void)queue.progress();
        if (queue.pop(done) && done.status != work_status::success)
            polled_in_upcalls.store(static_cast<int>(done.status));
        return polled_in_upcalls.load() >= 0;
    });
}

} // namespace

TEST_CASE(
    "a thread that waits at one queue, and makes the upcalls of another, copies nothing there")
{
    upcalls table = upcall_table;
    table.completion = poll_in_upcall;
    polled_in_upcalls.store(-1);
    host here(with_rings(), table);
    host there(with_rings());
    end a(here), b(there);
    REQUIRE(establish(a, b));
    have_used_rings(a, b);
    const gone_memory gone(here, 64);
    a.receive_queue.arm(completion_queue::interest::any);
    std::thread waits([&] {
        while (polled_in_upcalls.load() < 0)
            (void)a.send_queue.wait({}, osd::deadline::after_us(100'000));
    });
    REQUIRE(a.receive(0, 64));
    REQUIRE(b.send(0, 64));
    CHECK(becomes_true([&] { return a.completions.load() != 0; }));
    CHECK(a.pair.post_receive(gone.ask(a, work::receive)));
    CHECK(b.send(0, 64));
    CHECK(becomes_true([] { return polled_in_upcalls.load() >= 0; }));
    waits.join();
    CHECK(polled_in_upcalls.load() == static_cast<int>(work_status::local_protection));
    expect(b.sent(), work_status::success);
    expect(b.sent(), work_status::remote_operation);
}

// ------------------------------------------------------------------------------------ peers that
// go

namespace {

struct offer {
    std::uint64_t qualifier;
};

/// Answers messages until it is killed, or its parent ends.
[[noreturn]] void echo(int to_parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    host here(with_rings());
    end own(here);
    door at(here);
    const offer mine{at.number};
    if (write(to_parent, &mine, sizeof mine) != sizeof mine)
        _exit(1);
    inbound_request *const asked = at.next();
    for (int i = 0; i < 32; ++i)
        (void)own.receive(0, 64);
    if (asked == nullptr || own.pair.accept(*asked, nullptr, 0) != queue_pair::start::begun)
        _exit(1);
    for (;;) {
        if (own.received().has_value()) {
            (void)own.receive(0, 64);
            (void)own.send(0, 64);
        }
        (void)own.sent(0ms);
    }
}

} // namespace

TEST_CASE("a peer that is killed while it uses rings is noticed soon")
{
    for (const int signal : {SIGKILL, SIGSTOP}) {
        CAPTURE(signal);
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            echo(ends[1]);
        offer theirs{};
        REQUIRE(read(ends[0], &theirs, sizeof theirs) == sizeof theirs);
        settings how = with_rings();
        how.retries = 3;
        host here(how);
        end a(here);
        REQUIRE(a.pair.connect(how.address, theirs.qualifier, nullptr, 0) ==
                queue_pair::start::begun);
        REQUIRE(is(a.next(), connection_event::established));
        const auto talk = [&](std::chrono::milliseconds time) {
            return a.receive(0, 64) && a.send(0, 64) && a.received(time).has_value() &&
                   a.sent(time).has_value();
        };
        const bool used = becomes_true([&] {
            REQUIRE(talk(patience));
            return a.counts().by_ring > 0; // the peer may get little time to poll
        });
        INFO(a.counts().direct << " direct, paths: " << a.paths.load());
        REQUIRE(used);
        kill(child, signal);
        for (int i = 0; i < 20; ++i) // sends into a ring that has no reader any more
            (void)a.send(0, 64);
        const auto is_connected = [&] {
            a.pair.enter();
            const bool is = a.pair.connection().current().connected();
            a.pair.leave();
            return is;
        };
        const auto began = std::chrono::steady_clock::now();
        while (a.sent(100ms).has_value() || is_connected()) {
            if (std::chrono::steady_clock::now() - began > 10s)
                break;
        }
        CHECK(is(a.next(10s), connection_event::broken));
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, nullptr, 0) == child);
        close(ends[0]);
        close(ends[1]);
    }
}

TEST_CASE("what one puts into its ring is bounded for the other, whatever it is")
{
    net_address at = on_loopback().address;
    at.set_port(4);
    std::mt19937 random(21);
    for (int round = 0; round < 50; ++round) {
        ring_paths paths;
        ring_path *const path = paths.hold(at);
        REQUIRE(path != nullptr);
        shared_memory theirs;
        REQUIRE(theirs.create(sizeof(ring_file)));
        auto &file = *static_cast<ring_file *>(theirs.bytes());
        CHECK(!paths.meet(*path, dup(static_cast<int>(theirs.file())))); // the file is no ring yet
        file.begin();
        REQUIRE(paths.meet(*path, dup(static_cast<int>(theirs.file()))));
        CHECK(paths.meet(*path, dup(static_cast<int>(theirs.file())))); // again
        for (auto &each : file.ring)
            each.head.store(random() % 64 != 0 ? 1 + random() % 300 : random());
        for (int visit = 0; visit < 100; ++visit) {
            int packets = 0;
            (void)paths.take(
                [&](const std::uint8_t *, std::uint32_t size, const net_address &from) {
                    ++packets;
                    CHECK(size <= ring_file::largest);
                    CHECK(from == at);
                });
            CHECK(packets <= 16);
        }
        paths.release(*path);
        for (std::uint32_t visit = 0; visit < ring_file::lines / 16 + 3; ++visit)
            (void)paths.take([](const std::uint8_t *, std::uint32_t, const net_address &) {});
        CHECK(!paths.any());
    }
}

TEST_CASE("a ring that was used, or could be truncated, is not met")
{
    net_address at = on_loopback().address;
    ring_paths paths;
    shared_memory theirs;
    REQUIRE(theirs.create(sizeof(ring_file)));
    auto &file = *static_cast<ring_file *>(theirs.bytes());
    file.begin();
    file.used.store(1);
    CHECK(paths.hold(at, dup(static_cast<int>(theirs.file()))) == nullptr);
    const int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
    REQUIRE(ftruncate(unsealed, sizeof(ring_file)) == 0);
    CHECK(paths.hold(at, unsealed) == nullptr);
    file.used.store(0);
    ring_path *const path = paths.hold(at, dup(static_cast<int>(theirs.file())));
    REQUIRE(path != nullptr);
    ring_path *const again = paths.hold(at, dup(static_cast<int>(theirs.file())));
    CHECK(path == again);
    paths.release(*path);
    paths.release(*path);
}

namespace {

/// The ends of a ring in one process, without devices.
struct met_paths {
    met_paths()
    {
        net_address there = at;
        there.set_port(5);
        path = here.hold(there);
        REQUIRE(path != nullptr);
        ring_path *const other = peer.hold(at, dup(static_cast<int>(path->file())));
        REQUIRE(other != nullptr);
        REQUIRE(here.meet(*path, dup(static_cast<int>(other->file()))));
        packet.begin();
        packet.add(bytes, sizeof bytes);
    }
    int arrived()
    {
        int count = 0;
        (void)peer.take([&](const std::uint8_t *, std::uint32_t, const net_address &) { ++count; });
        return count;
    }
    net_address at = on_loopback().address;
    ring_paths here, peer;
    ring_path *path = nullptr;
    std::uint8_t bytes[8] = {};
    out_packet packet;
};

} // namespace

TEST_CASE("packets go by a ring while the peer attends to it, and has not gone")
{
    met_paths t;
    std::uint32_t done = 0;
    CHECK(t.path->is_attended());
    CHECK(t.path->send(&t.packet, 1, false, done) == send_result::sent);
    CHECK(done == 1);
    CHECK(t.path->send_one(t.packet));
    CHECK(t.arrived() == 2);
    t.peer.set_asleep(true);
    CHECK(!t.path->is_attended());
    CHECK(t.path->send(&t.packet, 1, false, done) == send_result::sent); // fell asleep meanwhile
    CHECK(done == 0);
    CHECK(!t.path->send_one(t.packet));
    t.peer.set_asleep(false);
    CHECK(t.path->is_attended());
    t.path->mute();
    CHECK(!t.path->is_attended());
}

TEST_CASE("what is sent again goes over the network")
{
    met_paths t;
    window_reserve reserve;
    send_window window;
    REQUIRE(window.open(reserve));
    window.start(100);
    const std::uint32_t psns[2] = {100, 101};
    const out_packet packets[2] = {t.packet, t.packet};
    (void)window.push(1);
    (void)window.push(1);
    ring_choice choice;
    std::uint32_t done = 0;
    CHECK(choice.send(*t.path, window, packets, psns, 2, false, done) == send_result::sent);
    CHECK(done == 2);
    window.at(101).again = true;
    done = 0;
    CHECK(choice.send(*t.path, window, packets, psns, 2, false, done) == send_result::sent);
    CHECK(done == 0);
}

TEST_CASE("what comes by a ring says nothing about what the network carries")
{
    window_reserve reserve;
    send_window window;
    rtt_estimator rtt;
    REQUIRE(window.open(reserve));
    window.start(100);
    for (int i = 0; i < 10; ++i) {
        REQUIRE(window.has_room());
        window.push(2'000'000'000).by_ring = i != 0;
    }
    const std::uint32_t all_but_the_first = 0x1ff;
    SUBCASE("by its number")
    {
        window.acknowledge_selectively(100, &all_but_the_first, 1, rtt, 2'000'100'000);
        CHECK(window.lost() == 0);
    }
    SUBCASE("by the time when it was sent")
    {
        window.at(100).sent_ns = 1'000'000'000;
        window.acknowledge_selectively(100, &all_but_the_first, 1, rtt, 2'000'100'000);
        CHECK(window.lost() == 0);
    }
    SUBCASE("but among those of one kind it counts")
    {
        window.at(100).by_ring = true;
        window.acknowledge_selectively(100, &all_but_the_first, 1, rtt, 2'000'100'000);
        CHECK(window.lost() == 1);
    }
}

TEST_SUITE_END();

} // namespace ring_paths_suite
