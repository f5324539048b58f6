// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What work requests do, on a good network inside the process and on loopback.
#include "rig.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <list>
#include <thread>
#include <vector>

namespace operations_suite {

using namespace rig;

namespace {

/// Two hosts and a connection between them.
struct fixture {
    explicit fixture(const end_options &options = {})
        : here(inside(network)), there(inside(network)), a(here, options), b(there, options)
    {
        REQUIRE(establish(a, b));
    }
    void expect(end &of, work_status status, std::uint32_t length = 0)
    {
        const auto done = of.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == status);
        if (status == work_status::success)
            CHECK(done->length == length);
    }
    /// The connection ended with an error on both sides, and all came back.
    void expect_broken()
    {
        for (end *side : {&a, &b}) {
            const auto event = side->next();
            REQUIRE(event.has_value());
            CHECK(event->what == connection_event::broken);
        }
    }
    inproc_network network;
    host here;
    host there;
    end a;
    end b;
};

/// Posts a bind of a part of the buffer; tells the key that the window is to have.
std::uint32_t post_bind(end &of, memory_region *window, std::size_t from, std::size_t size,
                        const std::function<void()> &before_post = {})
{
    request &r = of.fresh(work::bind);
    r.binding.window = window;
    r.binding.target = &of.buffer.region;
    r.remote = of.buffer.remote(from, size);
    r.window_rights = remote_write | remote_read;
    REQUIRE(of.of.hca.windows.prepare(r));
    const std::uint32_t key = r.remote.key;
    if (before_post)
        before_post();
    REQUIRE(of.post(r));
    return key;
}

} // namespace

TEST_SUITE_BEGIN("operations");

TEST_CASE_FIXTURE(fixture, "messages, writes, reads and atomics move the right bytes both ways")
{
    exercise(a, b, 40);
}

TEST_CASE_FIXTURE(fixture,
                  "the same with few packets in flight, where others use the large windows")
{
    std::vector<window_reserve::loan> taken;
    for (device *each : {&here.hca, &there.hca})
        while (window_reserve::loan window = each->large_windows.borrow())
            taken.push_back(std::move(window));
    REQUIRE(taken.size() == 2);
    exercise(a, b, 40);
}

TEST_CASE("the same over UDP, with super-packets and without")
{
    host here(on_loopback());
    host there(on_loopback());
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    exercise(a, b, 40);
    static_cast<udp_io &>(a.pair.shard->io()).set_segmentation(false);
    static_cast<udp_io &>(b.pair.shard->io()).set_segmentation(false);
    exercise(a, b, 40);
}

TEST_CASE("the same over UDP while all memory for large batches is lent to others")
{
    host here(on_loopback());
    host there(on_loopback());
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    large_batches &ours = a.pair.shard->batches;
    large_batches &theirs = b.pair.shard->batches;
    struct kept {
        explicit kept(large_batches &from) : one(from.borrow()) {}
        const large_batches::loan one;
    };
    std::list<kept> held;
    for (large_batches *from : {&ours, &theirs}) // the engine gives back what it has in use
        for (int got = 0; got != 4; std::this_thread::yield())
            if (held.emplace_back(*from).one.get() != nullptr)
                ++got;
            else
                held.pop_back();
    REQUIRE(ours.borrow().get() == nullptr);
    REQUIRE(theirs.borrow().get() == nullptr);
    constexpr std::size_t size = 60000; // more than 40 packets
    a.buffer.fill(0, size, 7);
    REQUIRE(a.write(0, size, b.buffer.remote(0, size)));
    expect(a.sent(), work_status::success);
    CHECK(b.buffer.holds(0, size, 7));
    CHECK(a.resent() < 5); // they were sent, not left to be resent
    exercise(a, b, 40);
}

TEST_CASE("both ends on one device, on one socket")
{
    host here(on_loopback());
    end a(here);
    end b(here);
    REQUIRE(establish(a, b));
    exercise(a, b, 20);
}

TEST_CASE("several threads, each with queue pairs of its own")
{
    settings how = on_loopback();
    how.threads = 3;
    host here(how);
    host there(how);
    std::deque<end> ends;
    for (int i = 0; i < 6; ++i)
        ends.emplace_back(i % 2 == 0 ? here : there, end_options{.bytes = 1 << 20});
    for (std::size_t i = 0; i < ends.size(); i += 2)
        REQUIRE(establish(ends[i], ends[i + 1]));
    for (std::size_t i = 0; i < ends.size(); i += 2)
        exercise(ends[i], ends[i + 1], 10);
}

TEST_CASE_FIXTURE(fixture, "B5: operations of no bytes complete on both sides")
{
    REQUIRE(b.receive(0, 0));
    REQUIRE(a.send(0, 0));
    expect(a, work_status::success, 0);
    const auto got = b.received();
    REQUIRE(got.has_value());
    CHECK(got->status == work_status::success);
    CHECK(got->length == 0);
    REQUIRE(a.write(0, 0, b.buffer.remote(0, 0)));
    expect(a, work_status::success, 0);
    REQUIRE(a.read(0, 0, b.buffer.remote(0, 0)));
    expect(a, work_status::success, 0);
    request &none = a.fresh(work::send); // no segment at all
    REQUIRE(b.receive(0, 64));
    REQUIRE(a.post(none));
    expect(a, work_status::success, 0);
}

TEST_CASE_FIXTURE(fixture, "requests complete in the order posted, reads among them")
{
    for (unsigned round = 0; round < 50; ++round) {
        REQUIRE(b.receive(0, 64));
        REQUIRE(a.read(0, 50000, b.buffer.remote(0, 50000)));
        REQUIRE(a.send(0, 16));
        REQUIRE(a.write(0, 100, b.buffer.remote(0, 100)));
        const std::size_t first = a.requests.size() - 3;
        for (std::size_t i = 0; i < 3; ++i) {
            const auto done = a.sent();
            REQUIRE(done.has_value());
            CHECK(done->request == &a.requests[first + i]);
        }
        REQUIRE(b.received().has_value());
    }
}

TEST_CASE_FIXTURE(fixture, "silent successes are silent; failures are not")
{
    for (int i = 0; i < 20; ++i)
        REQUIRE(a.write(0, 16, b.buffer.remote(0, 16), request_silent));
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    const auto done = a.sent();
    REQUIRE(done.has_value());
    CHECK(done->request == &a.requests.back());
    REQUIRE(a.send(0, 16, request_silent)); // finds no receive
    b.pair.disconnect(false);
    expect(a, work_status::flushed);
}

TEST_CASE_FIXTURE(fixture, "a fenced request waits for the reads before it")
{
    for (unsigned round = 0; round < 50; ++round) {
        b.buffer.fill(0, 30000, round);
        REQUIRE(a.read(100000, 30000, b.buffer.remote(0, 30000)));
        REQUIRE(a.write(100000, 30000, b.buffer.remote(200000, 30000), request_fence));
        expect(a, work_status::success, 30000);
        expect(a, work_status::success, 30000);
        CHECK(b.buffer.holds(200000, 30000, round));
    }
}

TEST_CASE_FIXTURE(fixture, "a write is there before the message behind it is received")
{
    for (unsigned round = 0; round < 100; ++round) {
        a.buffer.fill(0, 20000, round);
        REQUIRE(b.receive(500000, 16));
        REQUIRE(a.write(0, 20000, b.buffer.remote(0, 20000), request_silent));
        REQUIRE(a.send(0, 16));
        REQUIRE(b.received().has_value());
        CHECK(b.buffer.holds(0, 20000, round));
        REQUIRE(a.sent().has_value());
    }
}

TEST_CASE_FIXTURE(fixture, "immediate data takes a receive and tells the length of its write")
{
    for (std::uint32_t size : {0u, 1u, 100u, 5000u}) {
        a.buffer.fill(0, size, size);
        REQUIRE(b.receive(900000, 64));
        REQUIRE(a.write_immediate(0, size, b.buffer.remote(0, size), 0x80000000 + size));
        expect(a, work_status::success, size);
        const auto got = b.received();
        REQUIRE(got.has_value());
        CHECK(got->extra == brought::immediate);
        CHECK(got->immediate == 0x80000000 + size);
        CHECK(got->length == size);
        CHECK(b.buffer.holds(0, size, size));
    }
}

TEST_CASE_FIXTURE(fixture, "B8: atomics work on the word that was asked for, in 64 bits")
{
    auto *words = reinterpret_cast<std::uint64_t *>(b.buffer.bytes.data());
    auto *answer = reinterpret_cast<std::uint64_t *>(a.buffer.bytes.data());
    words[0] = words[2] = 7;
    words[1] = 0xfffffffffffffff0;
    REQUIRE(a.fetch_add(0, b.buffer.remote(8, 8), 0x20));
    expect(a, work_status::success, 8);
    CHECK(answer[0] == 0xfffffffffffffff0);
    CHECK(words[1] == 0x10);
    REQUIRE(a.compare_swap(0, b.buffer.remote(8, 8), 0x11, 1));
    expect(a, work_status::success, 8);
    CHECK(answer[0] == 0x10);
    CHECK(words[1] == 0x10);
    REQUIRE(a.compare_swap(0, b.buffer.remote(8, 8), 0x10, 0x0123456789abcdef));
    expect(a, work_status::success, 8);
    CHECK(words[1] == 0x0123456789abcdef);
    CHECK(words[0] == 7);
    CHECK(words[2] == 7);
    REQUIRE(a.fetch_add(0, b.buffer.remote(12, 8), 1)); // an address that is not aligned: refused,
                                                        // not executed
    expect(a, work_status::remote_access);
    CHECK(words[1] == 0x0123456789abcdef);
    expect_broken();
}

TEST_CASE_FIXTURE(fixture, "more reads than the peer answers at once wait for their turn")
{
    b.buffer.fill(0, 40, 5);
    for (int i = 0; i < 50; ++i)
        REQUIRE(a.read(0, 40, b.buffer.remote(0, 40)));
    for (int i = 0; i < 50; ++i)
        expect(a, work_status::success, 40);
    CHECK(a.buffer.holds(0, 40, 5));
}

TEST_CASE_FIXTURE(fixture,
                  "posts with polls between them travel together, behind what is on its way")
{
    constexpr unsigned posts = 12;
    const auto packets = [this] { return a.counts().packets_out - a.resent(); };
    const auto post = [this] { REQUIRE(a.write(0, 8, b.buffer.remote(0, 8))); };
    const auto poll = [this] { (void)a.receive_queue.progress(); };
    const auto poll_until_noticed = [&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (!a.pair.shard->attended() && std::chrono::steady_clock::now() < until)
            poll();
    };
    // A consumer that is kept from running for a millisecond counts as one who polls no more:
    // retries allow for that.
    bool together = false;
    for (int attempt = 0; attempt < 50 && !together; ++attempt) {
        poll_until_noticed();
        network.lose(UINT32_MAX); // nothing is acknowledged
        post();
        const auto before = packets();
        const auto resent_before = a.resent();
        for (unsigned i = 0; i < posts; ++i) {
            post();
            poll();
        }
        together = packets() == before;
        CHECK(becomes_true([&] {
            poll();
            // Two timeouts shrink the congestion window.
            return packets() == before + posts || a.resent() > resent_before + 1;
        }));
        network.lose(0);
        for (unsigned i = 0; i <= posts; ++i)
            REQUIRE(a.sent()->status == work_status::success);
    }
    CHECK(together);
}

TEST_CASE_FIXTURE(fixture, "messages without a receive wait for one, by credits")
{
    for (int i = 0; i < 20; ++i)
        REQUIRE(a.send(0, 100));
    CHECK(!a.sent(std::chrono::milliseconds(50)).has_value());
    CHECK(b.counts().not_ready == 0); // no message was even sent
    for (int i = 0; i < 20; ++i)
        REQUIRE(b.receive(0, 100));
    for (int i = 0; i < 20; ++i) {
        REQUIRE(b.received().has_value());
        expect(a, work_status::success, 100);
    }
}

TEST_CASE("a shared receive queue serves several queue pairs, and what finds none waits")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    inbox owner;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    int first_receiver = 0;
    int second_receiver = 0;
    {
        end a(here);
        end b(here);
        end to_a(there, {.shared = &shared, .receiver = &first_receiver});
        end to_b(there, {.shared = &shared, .receiver = &second_receiver});
        REQUIRE(establish(a, to_a));
        REQUIRE(establish(b, to_b));
        for (unsigned round = 0; round < 20; ++round) {
            const bool late = round % 4 == 3;
            request &r = to_a.fresh(work::receive);
            r.segments = 1;
            r.local[0] = to_a.buffer.local(0, 5000);
            r.length = 5000;
            if (!late)
                REQUIRE(shared.post(r));
            end &from = round % 2 == 0 ? a : b;
            end &to = round % 2 == 0 ? to_a : to_b;
            from.buffer.fill(0, 5000, round);
            REQUIRE(from.send(0, 5000));
            if (late) {
                CHECK(!from.sent(std::chrono::milliseconds(30)).has_value());
                REQUIRE(shared.post(r));
            }
            const auto got = to.received();
            REQUIRE(got.has_value());
            CHECK(got->request == &r);
            CHECK(to.receive_queue.end_receive(*got) ==
                  (&to == &to_a ? &first_receiver : &second_receiver));
            CHECK(to_a.buffer.holds(0, 5000, round));
            REQUIRE(from.sent().has_value());
        }
        there.hca.free_pair(to_b.pair);
        to_b.alive = false;
        completion_record old{};
        old.pair = to_b.pair.identity.id;
        CHECK(to_b.receive_queue.end_receive(old) == nullptr);
    }
    there.hca.free_shared(shared);
}

namespace {

/// Sends messages to a shared receive queue; so many receives are posted at once when they are used
/// up. Returns whether a message has found none.
bool stream_to_dry_queue(const settings &how, unsigned receives, unsigned outstanding)
{
    const unsigned messages = rounds(300);
    host here(how);
    host there(how);
    inbox owner;
    bool found_none = false;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    {
        int receiver = 0;
        end a(here);
        end b(there, {.shared = &shared, .receiver = &receiver});
        REQUIRE(establish(a, b));
        unsigned sent = 0;
        for (unsigned got = 0; got < messages; ++got) {
            for (; sent < messages && sent < got + outstanding; ++sent)
                REQUIRE(a.send(0, 100));
            if (got % receives == 0)
                for (unsigned i = 0; i < receives; ++i) {
                    request &r = b.fresh(work::receive);
                    r.segments = 1;
                    r.local[0] = b.buffer.local(0, 100);
                    r.length = 100;
                    REQUIRE(shared.post(r));
                }
            const auto message = b.received(std::chrono::seconds(5));
            CAPTURE(got);
            REQUIRE(message.has_value());
            CHECK(message->status == work_status::success);
            REQUIRE(a.sent().has_value());
        }
        found_none = b.counts().not_ready != 0;
        there.hca.free_pair(b.pair);
        b.alive = false;
    }
    there.hca.free_shared(shared);
    return found_none;
}

} // namespace

TEST_CASE("a shared receive queue that runs dry under a stream delays it")
{
    for (const unsigned outstanding : {1u, 2u, 16u})
        for (const unsigned receives : {1u, 4u}) {
            CAPTURE(outstanding);
            CAPTURE(receives);
            inproc_network network;
            settings bad = inside(network);
            bad.bad_network = {20, 20, 10, 0, outstanding};
            int found_none = 0; // on a busy machine the sender may be the slower one
            for (const settings &how : {inside(network), on_loopback(), bad})
                found_none += stream_to_dry_queue(how, receives, outstanding) ? 1 : 0;
            if (outstanding > receives)
                CHECK(found_none != 0);
        }
}

TEST_CASE("queue pairs of several shards take turns at a shared receive queue that is dry")
{
    constexpr unsigned pairs = 4;
    constexpr unsigned each = 50;
    settings how = on_loopback();
    how.threads = 3;
    host here(how);
    host there(how);
    inbox owner;
    shared_receives shared;
    REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
    {
        int receiver = 0;
        std::deque<end> from;
        std::deque<end> to;
        for (unsigned i = 0; i < pairs; ++i) {
            from.emplace_back(here);
            to.emplace_back(there, end_options{.shared = &shared, .receiver = &receiver});
            REQUIRE(establish(from[i], to[i]));
            for (unsigned sends = 0; sends < each; ++sends)
                REQUIRE(from[i].send(0, 100));
        }
        unsigned got[pairs] = {};
        const auto take_one = [&] {
            completion_record done;
            for (unsigned i = 0; i < pairs; ++i) {
                to[i].receive_queue.progress();
                if (!to[i].receive_queue.pop(done))
                    continue;
                CHECK(done.status == work_status::success);
                ++got[i];
                return true;
            }
            return false;
        };
        for (unsigned n = 0; n < pairs * each; ++n) {
            request &r = to[0].fresh(work::receive);
            r.segments = 1;
            r.local[0] = to[0].buffer.local(0, 100);
            r.length = 100;
            REQUIRE(shared.post(r));
            REQUIRE(becomes_true(take_one));
        }
        for (unsigned i = 0; i < pairs; ++i) {
            CHECK(got[i] == each);
            for (unsigned sends = 0; sends < each; ++sends)
                CHECK(from[i].sent()->status == work_status::success);
            there.hca.free_pair(to[i].pair);
            to[i].alive = false;
        }
    }
    there.hca.free_shared(shared);
}

TEST_CASE_FIXTURE(fixture, "a window is bound in order, reached by its key, and gone at once")
{
    memory_region *window = there.hca.make_window(there.domain);
    const std::uint32_t key = post_bind(b, window, 1000, 100);
    CHECK(key != 0);
    CHECK(key != b.buffer.key);
    expect(b, work_status::success);
    CHECK(!there.hca.remove_region(b.buffer.region)); // something is bound to it
    remote_segment to = b.buffer.remote(1000, 100);
    to.key = key;
    a.buffer.fill(0, 100, 9);
    REQUIRE(a.write(0, 100, to));
    expect(a, work_status::success, 100);
    CHECK(b.buffer.holds(1000, 100, 9));
    bool freed = false;
    SUBCASE("beyond its bounds")
    {
        ++to.address;
        REQUIRE(a.write(0, 100, to));
    }
    SUBCASE("after its owner took it back")
    {
        there.hca.free_window(window);
        freed = true;
        REQUIRE(a.write(0, 100, to));
    }
    SUBCASE("after the peer's message invalidated it")
    {
        REQUIRE(b.receive(0, 16));
        request &send = a.fresh(work::send);
        send.flags = request_invalidate | request_solicited;
        send.remote.key = key;
        REQUIRE(a.post(send));
        expect(a, work_status::success, 0);
        const auto got = b.received();
        REQUIRE(got.has_value());
        CHECK(got->extra == brought::invalidation);
        CHECK(got->immediate == key);
        CHECK(got->solicited);
        REQUIRE(a.write(0, 100, to));
    }
    SUBCASE("after it was bound to another part")
    {
        const std::uint32_t other = post_bind(b, window, 5000, 100);
        CHECK(other != key);
        expect(b, work_status::success);
        remote_segment there_now = b.buffer.remote(5000, 100);
        there_now.key = other;
        REQUIRE(a.write(0, 100, there_now));
        expect(a, work_status::success, 100);
        REQUIRE(a.write(0, 100, to));
    }
    SUBCASE("after it was bound to nothing")
    {
        CHECK(post_bind(b, window, 0, 0) == 0);
        expect(b, work_status::success);
        REQUIRE(a.write(0, 100, to));
    }
    expect(a, work_status::remote_access);
    expect_broken();
    if (!freed)
        there.hca.free_window(window);
    CHECK(there.hca.remove_region(b.buffer.region));
}

TEST_CASE_FIXTURE(fixture, "reads through windows are answered by a queue pair that binds them")
{
    memory_region *read = there.hca.make_window(there.domain);
    memory_region *other = there.hca.make_window(there.domain);
    constexpr std::uint32_t size = 64 * 1024;
    remote_segment from = b.buffer.remote(0, size);
    from.key = post_bind(b, read, 0, size);
    expect(b, work_status::success);
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 4; ++i)
            REQUIRE(a.read(0, size, from));
        for (int i = 0; i < 4; ++i)
            (void)post_bind(b, other, 0, 64);
        for (int i = 0; i < 4; ++i) {
            expect(a, work_status::success, size);
            expect(b, work_status::success);
        }
    }
    REQUIRE(a.read(0, size, from));
    (void)post_bind(b, read, 0, 64);
    const auto done = a.sent();
    REQUIRE(done.has_value());
    const bool in_time = done->status == work_status::success;
    CHECK((in_time || done->status == work_status::remote_access));
    expect(b, work_status::success);
    if (in_time) {
        REQUIRE(a.read(0, size, from));
        expect(a, work_status::remote_access);
    }
    expect_broken();
    there.hca.free_window(other);
    there.hca.free_window(read);
}

TEST_CASE_FIXTURE(fixture,
                  "memory that was read may go before the reader's acknowledgement has come")
{
    for (int round = 0; round < 20; ++round) {
        memory lent(there, 4096);
        lent.fill(0, 64, 3);
        REQUIRE(a.read(0, 64, lent.remote(0, 64)));
        expect(a, work_status::success, 64);
        network.lose(1); // the acknowledgement, if it has not come: the response is sent again
        CHECK(there.hca.remove_region(lent.region));
        REQUIRE(b.receive(0, 16));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        REQUIRE(a.send(0, 16));
        expect(a, work_status::success, 16);
        REQUIRE(b.received().has_value());
    }
}

TEST_CASE_FIXTURE(fixture, "a bind that is not done leaves no key and the window as it was")
{
    memory_region *window = there.hca.make_window(there.domain);
    const std::uint32_t key = post_bind(b, window, 1000, 100);
    expect(b, work_status::success);
    SUBCASE("of more than there is")
    {
        const auto size = static_cast<std::uint32_t>(b.buffer.bytes.size());
        CHECK(post_bind(b, window, size - 10, 20) != 0);
        expect(b, work_status::not_bound);
        CHECK(there.hca.memory.by_key(key) == window);
        there.hca.free_window(window);
    }
    SUBCASE("of a window that is gone")
    {
        (void)post_bind(b, window, 0, 64, [&] { there.hca.free_window(window); });
        expect(b, work_status::not_bound);
        CHECK(there.hca.memory.by_key(key) == nullptr);
    }
    SUBCASE("after the connection")
    {
        b.pair.disconnect(false);
        REQUIRE(b.next().has_value());
        const std::uint32_t late = post_bind(b, window, 2000, 64);
        expect(b, work_status::flushed);
        CHECK(there.hca.memory.by_key(late) == nullptr);
        CHECK(there.hca.memory.by_key(key) == window);
        there.hca.free_window(window);
    }
    CHECK(there.hca.remove_region(b.buffer.region)); // nothing is bound to it
}

TEST_CASE_FIXTURE(fixture, "what a peer may not do is refused and ends the stream")
{
    memory read_only(there, 4096, local_read | local_write | remote_read);
    memory write_only(there, 4096, local_read | local_write | remote_write);
    remote_segment to = b.buffer.remote(0, 64);
    const std::vector<std::uint8_t> before = b.buffer.bytes;
    a.buffer.fill(0, 64, 3);
    SUBCASE("an unknown key")
    {
        to.key ^= 0x55aa00;
        REQUIRE(a.write(0, 64, to));
    }
    SUBCASE("over the end")
    {
        to = b.buffer.remote(b.buffer.bytes.size() - 32, 64);
        REQUIRE(a.write(0, 64, to));
    }
    SUBCASE("B6: around the end of the address space")
    {
        to.address = ~std::uint64_t{0} - 31;
        REQUIRE(a.write(0, 64, to));
    }
    SUBCASE("a write without the right")
    {
        REQUIRE(a.write(0, 64, read_only.remote(0, 64)));
    }
    SUBCASE("a read without the right")
    {
        REQUIRE(a.read(0, 64, write_only.remote(0, 64)));
    }
    SUBCASE("an atomic without the right")
    {
        REQUIRE(a.fetch_add(0, write_only.remote(0, 8), 1));
    }
    SUBCASE("invalidating a region")
    {
        REQUIRE(b.receive(0, 16));
        request &send = a.fresh(work::send);
        send.flags = request_invalidate;
        send.remote.key = b.buffer.key;
        REQUIRE(a.post(send));
    }
    REQUIRE(a.send(0, 64)); // comes behind the refused send: never done
    const auto refused = a.sent();
    REQUIRE(refused.has_value());
    CHECK(refused->status == work_status::remote_access);
    expect(a, work_status::flushed);
    expect_broken();
    CHECK(b.buffer.bytes == before);
}

TEST_CASE("another protection domain's memory is out of reach")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    protection_domain other;
    end a(here);
    end b(there, {.domain = &other});
    REQUIRE(establish(a, b));
    REQUIRE(a.write(0, 64, b.buffer.remote(0, 64)));
    const auto refused = a.sent();
    REQUIRE(refused.has_value());
    CHECK(refused->status == work_status::remote_access);
}

TEST_CASE_FIXTURE(fixture, "the right request is blamed: the first good ones succeed")
{
    remote_segment bad = b.buffer.remote(0, 64);
    bad.key ^= 0x10000;
    REQUIRE(a.write(0, 64, b.buffer.remote(0, 64)));
    REQUIRE(a.write(0, 64, b.buffer.remote(64, 64)));
    REQUIRE(a.write(0, 64, bad));
    REQUIRE(a.write(0, 64, bad));
    expect(a, work_status::success, 64);
    expect(a, work_status::success, 64);
    expect(a, work_status::remote_access);
    expect(a, work_status::flushed);
}

TEST_CASE_FIXTURE(fixture, "a message too long for its receive fails on both sides")
{
    b.buffer.bytes[63] = 0xee;
    REQUIRE(b.receive(0, 63));
    REQUIRE(b.receive(1000, 63));
    REQUIRE(a.send(0, 64));
    const auto got = b.received();
    REQUIRE(got.has_value());
    CHECK(got->status == work_status::local_length);
    CHECK(b.received()->status == work_status::flushed);
    CHECK(b.buffer.bytes[63] == 0xee);
    expect(a, work_status::remote_operation);
    expect_broken();
}

TEST_CASE_FIXTURE(fixture, "local segments are checked when they are used")
{
    memory other(here, 64);
    REQUIRE(b.receive(0, 64));
    SUBCASE("an unknown key")
    {
        request &r = a.fresh(work::send);
        r.segments = 1;
        r.local[0] = a.buffer.local(0, 64);
        r.local[0].key ^= 0x10000;
        r.length = 64;
        REQUIRE(a.post(r));
    }
    SUBCASE("another region's key")
    {
        request &r = a.fresh(work::write);
        r.segments = 1;
        r.local[0] = a.buffer.local(0, 64);
        r.local[0].key = other.key;
        r.length = 64;
        r.remote = b.buffer.remote(0, 64);
        REQUIRE(a.post(r));
    }
    expect(a, work_status::local_protection);
    expect_broken();
}

TEST_CASE_FIXTURE(fixture, "nothing is written through a key after its region was removed")
{
    auto lent = std::make_unique<memory>(there, 4096);
    const remote_segment to = lent->remote(0, 64);
    REQUIRE(a.write(0, 64, to));
    expect(a, work_status::success, 64);
    lent.reset();
    REQUIRE(a.write(0, 64, to));
    expect(a, work_status::remote_access);
}

TEST_CASE("the final byte of a write is stored after all others")
{
    host here(on_loopback());
    host there(on_loopback());
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    constexpr std::size_t size = 30000;
    const volatile std::uint8_t *last = b.buffer.bytes.data() + size - 1;
    for (unsigned round = 1; round < 60; ++round) {
        std::memset(a.buffer.bytes.data(), static_cast<int>(round), size);
        REQUIRE(a.write(0, size, b.buffer.remote(0, size)));
        while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != round) {
        }
        const auto *bytes = b.buffer.bytes.data();
        REQUIRE(std::all_of(bytes, bytes + size, [&](unsigned each) { return each == round; }));
        REQUIRE(a.sent().has_value());
    }
}

TEST_SUITE_END();

} // namespace operations_suite
