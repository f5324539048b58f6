// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Long sends inside a host are copied once, by the receiver, out of the sender's memory. They keep
// all the rules of sends, and go as packets where that fails.
#include "rig.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace long_sends_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t size_of_long = 100'000;

struct two : connected_devices {
    explicit two(const settings &how = with_rings()) : connected_devices(how) {}
};

std::uint64_t fetched(end &a, end &b)
{
    return a.counts().fetched + b.counts().fetched;
}

/// Passes a message from an end to another.
void pass(end &from, end &to, std::size_t size = size_of_long)
{
    REQUIRE(to.receive(0, size));
    REQUIRE(from.send(0, size));
    expect(to.received(), work_status::success);
    expect(from.sent(), work_status::success);
    from.requests.clear();
    to.requests.clear();
}

/// Whether long sends are copied once while both ends are polled. On a busy machine many are not:
/// consumers that get no time to poll are sent datagrams.
bool copies_once(end &a, end &b)
{
    constexpr std::uint64_t enough = 4;
    const std::uint64_t before = fetched(a, b);
    return becomes_true([&] {
        pass(a, b);
        pass(b, a);
        return fetched(a, b) >= before + enough;
    });
}

/// Describes pieces of a buffer, of so many bytes together.
void in_pieces(request &r, const end &of, std::size_t at, std::size_t size, unsigned pieces)
{
    r.segments = 0;
    r.length = static_cast<std::uint32_t>(size);
    for (unsigned left = pieces; left != 0; --left) {
        const std::size_t part = left == 1 ? size : size / left;
        r.local[r.segments++] = of.buffer.local(at, part);
        at += part;
        size -= part;
    }
}

} // namespace

TEST_SUITE_BEGIN("long sends");

TEST_CASE("sends of all sizes, in pieces, arrive as they are, and nothing beside them")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(copies_once(t.a, t.b));
    std::mt19937 random(5);
    for (unsigned i = 0; i < rounds(200); ++i) {
        const std::size_t size = i % 8 == 0 ? 7000 + random() % 3000 : 1 + random() % 900'000;
        const std::size_t from = random() % 50'000;
        const std::size_t to = 1 + random() % 50'000;
        CAPTURE(size);
        t.a.buffer.fill(from, size, i);
        std::fill(t.b.buffer.bytes.begin(), t.b.buffer.bytes.end(), std::uint8_t{0xee});
        request &receive = t.b.fresh(work::receive);
        in_pieces(receive, t.b, to, size + i % 2, 1 + i % 4);
        REQUIRE(t.b.pair.post_receive(receive));
        request &send = t.a.fresh(work::send);
        in_pieces(send, t.a, from, size, 1 + i / 4 % 4);
        send.flags = i % 3 == 0 ? request_solicited : 0;
        REQUIRE(t.a.post(send));
        const auto got = t.b.received();
        expect(got, work_status::success);
        CHECK(got->length == size);
        CHECK(got->solicited == (i % 3 == 0));
        expect(t.a.sent(), work_status::success);
        CHECK(std::equal(&t.a.buffer.bytes[from], &t.a.buffer.bytes[from] + size,
                         &t.b.buffer.bytes[to]));
        CHECK(t.b.buffer.bytes[to - 1] == 0xee);
        CHECK(t.b.buffer.bytes[to + size] == 0xee);
        t.a.requests.clear();
        t.b.requests.clear();
    }
}

TEST_CASE("long sends stay in order with everything else")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(copies_once(t.a, t.b));
    exercise(t.a, t.b, rounds(40));
    std::mt19937 random(6);
    constexpr std::size_t place = 60'000;
    constexpr unsigned places = 16;
    for (unsigned round = 0; round < rounds(30); ++round) {
        std::size_t sizes[places];
        for (unsigned i = 0; i < places; ++i) {
            sizes[i] = random() % 3 != 0 ? 9000 + random() % 50'000 : 1 + random() % 200;
            REQUIRE(t.b.receive(i * place, place));
            t.a.buffer.fill(i * place, sizes[i], round + i);
        }
        for (unsigned i = 0; i < places; ++i) {
            REQUIRE(t.a.send(i * place, sizes[i], i % 2 == 0 ? request_silent : 0));
            if (i % 4 == 3) // a write behind it, which the next message must not overtake
                REQUIRE(t.a.fetch_add(1'000'000, t.b.buffer.remote(1'000'000, 8), 1));
        }
        for (unsigned i = 0; i < places; ++i) {
            const auto got = t.b.received();
            expect(got, work_status::success);
            CHECK(got->length == sizes[i]);
            CHECK(t.b.buffer.holds(i * place, sizes[i], round + i));
        }
        for (unsigned i = 0; i < places / 2 + places / 4; ++i)
            expect(t.a.sent(), work_status::success);
        t.a.requests.clear();
        t.b.requests.clear();
    }
}

TEST_CASE("where rings are not used, or with a key, nothing is fetched")
{
    settings how = with_rings();
    SUBCASE("without rings")
    {
        how.rings = false;
    }
    SUBCASE("without direct access")
    {
        how.direct = false;
    }
#ifdef SOFT_HCA_KEYS
    SUBCASE("with a key")
    {
        static constexpr char key[] = "a key of tests, which is as long as one has to be";
        how.key.bytes = key;
        how.key.size = sizeof key;
    }
#endif
    two t(how);
    const poller polls(t.a, t.b);
    for (int i = 0; i < rounds(50); ++i)
        pass(t.a, t.b);
    CHECK(fetched(t.a, t.b) == 0);
}

TEST_CASE("messages without a receive wait, in order, and hold up no other connection")
{
    host here(with_rings()), there(with_rings());
    inbox owner;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    int receiver = 0;
    {
        end a(here), c(here), d(there);
        end b(there, {.shared = &shared, .receiver = &receiver});
        REQUIRE(establish(a, b));
        REQUIRE(establish(c, d));
        const poller polls(c, d);
        REQUIRE(copies_once(c, d));
        constexpr std::size_t sizes[] = {90'000, 10, 40'000, 200'000, 20};
        for (unsigned round = 0; round < rounds(20); ++round) {
            const std::uint64_t before = b.counts().not_ready;
            std::size_t at = 0;
            for (const std::size_t size : sizes) {
                a.buffer.fill(at, size, round);
                REQUIRE(a.send(at, size));
                at += size;
            }
            REQUIRE(becomes_true([&] {
                (void)b.received(0ms);
                return b.counts().not_ready != before;
            }));
            for (int i = 0; i < 3; ++i)
                pass(c, d);
            CHECK(!a.sent(0ms).has_value());
            std::fill(b.buffer.bytes.begin(), b.buffer.bytes.end(), std::uint8_t{0});
            at = 0;
            for (const std::size_t size : sizes) {
                request &r = b.fresh(work::receive);
                in_pieces(r, b, at, size, 1);
                REQUIRE(shared.post(r));
                at += size;
            }
            at = 0;
            for (const std::size_t size : sizes) {
                const auto got = b.received();
                expect(got, work_status::success);
                CHECK(got->length == size);
                CHECK(std::equal(&a.buffer.bytes[at], &a.buffer.bytes[at] + size,
                                 &b.buffer.bytes[at]));
                expect(a.sent(), work_status::success);
                at += size;
            }
            a.requests.clear();
            b.requests.clear();
        }
        CHECK(b.counts().fetched != 0);
    }
    there.hca.free_shared(shared);
}

TEST_CASE("a message that is longer than its receive fails both")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(copies_once(t.a, t.b));
    std::fill(t.b.buffer.bytes.begin(), t.b.buffer.bytes.end(), std::uint8_t{0xee});
    REQUIRE(t.b.receive(0, 99'999));
    REQUIRE(t.a.send(0, 100'000));
    expect(t.b.received(), work_status::local_length);
    expect(t.a.sent(), work_status::remote_operation);
    CHECK(t.b.buffer.bytes[99'999] == 0xee);
}

TEST_CASE("memory that is gone fails its message, and not the process")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(copies_once(t.a, t.b));
    constexpr std::size_t size = 16 * 4096;
    void *const pages =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    end &owner = t.a;
    memory_region region;
    const std::uint32_t key =
        owner.of.hca.add_region(region, owner.of.domain, pages, size, local_read | local_write);
    REQUIRE(mprotect(static_cast<char *>(pages) + size / 2, size / 2, PROT_NONE) == 0);
    const local_segment gone{reinterpret_cast<std::uintptr_t>(pages), size, key};
    SUBCASE("from where it is sent")
    {
        REQUIRE(t.b.receive(0, size));
        request &r = owner.fresh(work::send);
        r.local[0] = gone;
        r.segments = 1;
        r.length = size;
        REQUIRE(owner.post(r));
        expect(owner.sent(), work_status::local_protection);
        expect(t.b.received(), work_status::flushed);
    }
    SUBCASE("where it is received")
    {
        request &r = owner.fresh(work::receive);
        r.local[0] = gone;
        r.segments = 1;
        r.length = size;
        REQUIRE(owner.pair.post_receive(r));
        REQUIRE(t.b.send(0, size));
        expect(owner.received(), work_status::local_protection);
        expect(t.b.sent(), work_status::remote_operation);
    }
    CHECK(owner.of.hca.remove_region(region));
    munmap(pages, size);
}

TEST_CASE("what cannot be fetched goes as packets, for a while")
{
    two t;
    const poller polls(t.a, t.b);
    REQUIRE(copies_once(t.a, t.b));
    const std::vector<direct_board *> boards = own_boards();
    REQUIRE(boards.size() == 2);
    std::uint64_t tokens[2];
    for (unsigned i = 0; i < 2; ++i) { // the first links of their devices are of a and b
        tokens[i] = boards[i]->gate_word(0).load();
        boards[i]->close_gate(0);
    }
    const std::uint64_t before = fetched(t.a, t.b);
    for (unsigned i = 0; i < 30; ++i) {
        t.a.buffer.fill(0, size_of_long, i);
        pass(t.a, t.b);
        CHECK(t.b.buffer.holds(0, size_of_long, i));
    }
    CHECK(fetched(t.a, t.b) == before);
    for (unsigned i = 0; i < 2; ++i)
        boards[i]->open_gate(0, tokens[i]);
    CHECK(copies_once(t.a, t.b));
}

TEST_CASE("after its sender has ended the connection, nothing of a send is read")
{
    const auto end_it = [] {
        two t;
        const poller polls(t.a, t.b);
        REQUIRE(copies_once(t.a, t.b));
        std::fill_n(t.a.buffer.bytes.begin(), size_of_long, std::uint8_t{'P'});
        std::fill(t.b.buffer.bytes.begin(), t.b.buffer.bytes.end(), std::uint8_t{'-'});
        REQUIRE(t.b.receive(900'000, 64));
        REQUIRE(t.b.receive(0, size_of_long));
        REQUIRE(t.a.send(900'000, 64)); // its acknowledgement brings credit for the second
        expect(t.b.received(), work_status::success);
        expect(t.a.sent(), work_status::success);
        const std::uint64_t before = t.a.counts().by_ring;
        t.b.pair.enter(); // it takes no packets meanwhile
        REQUIRE(t.a.send(0, size_of_long));
        const bool referred = t.a.counts().by_ring != before;
        t.a.pair.disconnect(false);
        expect(t.a.sent(), work_status::flushed);
        std::fill_n(t.a.buffer.bytes.begin(), size_of_long, std::uint8_t{'S'});
        t.b.pair.leave();
        REQUIRE(t.b.received().has_value());
        CHECK(std::count(t.b.buffer.bytes.begin(), t.b.buffer.bytes.end(), 'S') == 0);
        return referred;
    };
    CHECK(becomes_true(end_it)); // a consumer that got no time to poll is sent datagrams
}

TEST_CASE("anything that a peer puts into its ring as a reference does no harm")
{
    std::mt19937 random(8);
    settings how = with_rings();
    how.fixed_start = true;
    how.first_number = 100;
    two t(how);
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    for (unsigned round = 0; round < rounds(40); ++round) {
        end a(t.here), b(t.there);
        REQUIRE(establish(a, b));
        const poller polls(a, b);
        REQUIRE(becomes_true([&] {
            a.pair.enter();
            const bool there = a.pair.connection().path().ring() != nullptr;
            a.pair.leave();
            return there;
        }));
        for (int i = 0; i < 4; ++i)
            REQUIRE(b.receive(static_cast<std::size_t>(i) * 10'000, 10'000));
        for (int i = 0; i < 20; ++i) {
            a.pair.enter();
            if (!a.pair.connection().current().connected()) {
                a.pair.leave();
                break;
            }
            peer_path &path = a.pair.connection().path();
            base_header base = path.header(packet_kind::reference, how.first_number + random() % 8);
            base.ack = how.first_number;
            ddp_segment s;
            s.msn = how.first_number + random() % 3;
            s.message_offset = random() % 2 == 0 ? 0 : random() % 20'000;
            s.last = random() % 2 == 0;
            far_payload where;
            where.numbers = random() % 40;
            where.pieces = random() % 5;
            for (far_piece &each : where.piece) {
                const auto inside = reinterpret_cast<std::uintptr_t>(a.buffer.bytes.data());
                each.address = random() % 2 == 0 ? inside : random();
                each.length = random() % 4 == 0 ? random() : random() % 4000;
            }
            out_packet out;
            out.begin();
            out.add(out.header, write_base(out.header, base));
            add_reference(out, s, where);
            if (ring_path *const ring = path.ring(); ring != nullptr)
                (void)ring->send_one(out);
            a.pair.leave();
        }
        pass(c, d);
    }
}

// ------------------------------------------------------------------------------- other processes

namespace {

/// A child that sends long messages as long as it can, or answers each by another.
struct long_sender {
    enum class does { sends, answers };

    explicit long_sender(does what)
    {
        int up[2];
        REQUIRE(pipe(up) == 0);
        id = fork();
        REQUIRE(id >= 0);
        if (id == 0)
            run(what, up[1]);
        close(up[1]);
        REQUIRE(read(up[0], &qualifier, sizeof qualifier) == sizeof qualifier);
        close(up[0]);
    }
    ~long_sender()
    {
        kill(id, SIGKILL);
        waitpid(id, nullptr, 0);
    }
    pid_t id = 0;
    std::uint64_t qualifier = 0;

private:
    [[noreturn]] static void run(does what, int to_parent)
    {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            _exit(1);
        host here(with_rings());
        end own(here);
        own.buffer.fill(0, size_of_long, 3);
        door at(here);
        if (write(to_parent, &at.number, sizeof at.number) != sizeof at.number)
            _exit(1);
        inbound_request *const asked = at.next();
        for (int i = 0; i < 8; ++i)
            (void)own.receive(500'000, size_of_long);
        if (asked == nullptr || own.pair.accept(*asked, nullptr, 0) != queue_pair::start::begun)
            _exit(1);
        for (;;) {
            if (what == does::sends && own.send(0, size_of_long)) {
                (void)own.sent(1s);
            } else if (own.received(0ms).has_value()) {
                (void)own.receive(500'000, size_of_long);
                (void)own.send(0, size_of_long);
            }
            (void)own.sent(0ms);
        }
    }
};

void connect(end &own, const long_sender &to)
{
    REQUIRE(own.pair.connect(own.of.hca.settings().address, to.qualifier, nullptr, 0) ==
            queue_pair::start::begun);
    REQUIRE(is(own.next(), connection_event::established));
}

settings with_few_retries()
{
    settings how = with_rings();
    how.retries = 3;
    return how;
}

} // namespace

TEST_CASE("a sender that is stopped or killed before its send is read")
{
    for (const int signal : {SIGSTOP, SIGKILL}) {
        CAPTURE(signal);
        std::uint64_t read_of_stopped = 0;
        const auto try_once = [&] {
            long_sender child(long_sender::does::sends);
            host here(with_few_retries());
            inbox owner;
            shared_receives shared;
            REQUIRE(here.hca.make_shared(shared, &owner, here.domain, 64));
            {
                end b(here, {.shared = &shared});
                connect(b, child);
                const auto post = [&] {
                    request &r = b.fresh(work::receive);
                    in_pieces(r, b, 0, size_of_long, 1);
                    REQUIRE(shared.post(r));
                };
                // Rings may not be there yet for the first, which then goes as packets.
                for (int i = 0; i < 200 && b.counts().fetched == 0; ++i) {
                    post();
                    expect(b.received(), work_status::success);
                }
                const std::uint64_t before = b.counts().not_ready;
                REQUIRE(becomes_true([&] {
                    (void)b.received(0ms);
                    return b.counts().not_ready != before;
                }));
                kill(child.id, signal);
                if (signal == SIGKILL)
                    waitpid(child.id, nullptr, 0);
                const std::uint64_t fetched_before = b.counts().fetched;
                std::fill_n(b.buffer.bytes.begin(), size_of_long, std::uint8_t{0});
                post();
                const auto got = b.received();
                if (got.has_value() && got->status == work_status::success)
                    CHECK(b.buffer.holds(0, size_of_long, 3));
                read_of_stopped += b.counts().fetched - fetched_before;
                if (signal == SIGKILL) {
                    CHECK(b.counts().fetched == fetched_before);
                    const auto what = b.next();
                    REQUIRE(what.has_value());
                    CHECK((what->what == connection_event::broken ||
                           what->what == connection_event::disconnected));
                }
                kill(child.id, SIGKILL);
            }
            here.hca.free_shared(shared);
            return signal == SIGKILL || read_of_stopped != 0;
        };
        CHECK(becomes_true(try_once)); // if it had no time to poll, it was sent packets
    }
}

TEST_CASE("a peer that is killed or stopped at random moments, with long sends both ways")
{
    std::mt19937 random(9);
    for (unsigned round = 0; round < rounds(24); ++round) {
        const int signal = round % 4 == 0 ? SIGSTOP : SIGKILL;
        const auto moment = std::chrono::microseconds(random() % 20'000);
        CAPTURE(signal);
        CAPTURE(moment.count());
        long_sender child(long_sender::does::answers);
        host here(with_few_retries());
        end a(here);
        unsigned receives = 0;
        unsigned sends = 0;
        for (; receives < 8; ++receives)
            REQUIRE(a.receive(500'000, size_of_long));
        connect(a, child);
        const auto began = std::chrono::steady_clock::now();
        bool killed = false;
        bool ended = false;
        unsigned sent = 0;
        unsigned received = 0;
        while (!ended) {
            if (!killed && std::chrono::steady_clock::now() - began > moment) {
                kill(child.id, signal);
                killed = true;
            }
            for (; sends < sent + 8; ++sends)
                REQUIRE(a.send(0, size_of_long));
            if (const auto done = a.sent(0ms)) {
                ++sent;
                ended = done->status != work_status::success;
            }
            if (const auto got = a.received(0ms)) {
                ++received;
                if (got->status == work_status::success) {
                    CHECK(a.buffer.holds(500'000, size_of_long, 3));
                    REQUIRE(a.receive(500'000, size_of_long));
                    ++receives;
                }
            }
            REQUIRE(std::chrono::steady_clock::now() - began < patience);
        }
        const auto what = a.next();
        REQUIRE(what.has_value());
        CHECK((what->what == connection_event::broken ||
               what->what == connection_event::disconnected));
        for (; sent < sends; ++sent)
            expect(a.sent(), work_status::flushed);
        for (; received < receives; ++received)
            REQUIRE(a.received().has_value());
        CHECK(!a.sent(1ms).has_value());
        CHECK(!a.received(1ms).has_value());
    }
}

TEST_SUITE_END();

} // namespace long_sends_suite
