// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The consumer's memory: the engine's use of it, and the end of that use.
#include "rig.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace consumer_memory_suite {

using namespace rig;

namespace {

/// A peer that accepts a connection, and reads packets only on demand.
class idle_peer {
public:
    idle_peer()
    {
        net_address at = on_loopback().address;
        REQUIRE(socket_.open(at, true) == 0);
    }
    void take_connection(end &from)
    {
        const std::uint16_t port = socket_.address().port();
        REQUIRE(from.pair.connect(socket_.address(), port, nullptr, 0) == queue_pair::start::begun);
        REQUIRE(becomes_true([&] { return socket_.receive(&got_, 1) != 0; }));
        packet asked;
        REQUIRE(parse(got_.bytes, got_.size, asked));
        handshake hello;
        hello.id = 7;
        hello.max_datagram = asked.hello.max_datagram;
        hello.reads_in = hello.reads_out = 1;
        std::uint8_t body[64];
        out_packet out;
        out.begin();
        const base_header base{packet_kind::accept,   0,        asked.hello.id,
                               asked.hello.tag,       hello.id, 0,
                               asked.hello.first_psn, 1000};
        out.add(out.header, write_base(out.header, base));
        out.add(body, write_accept(body, hello, nullptr, 0));
        std::uint32_t done = 0;
        REQUIRE(socket_.send(got_.from, &out, 1, done) == send_result::sent);
        REQUIRE(is(from.next(), connection_event::established));
    }
    /// The payload of all that is in the socket.
    std::vector<std::uint8_t> unread()
    {
        std::vector<std::uint8_t> all;
        while (socket_.receive(&got_, 1) != 0)
            for (std::size_t at = 0; at < got_.size; at += got_.segment) {
                packet p;
                REQUIRE(parse(got_.bytes + at, std::min(got_.segment, got_.size - at), p));
                if (p.base.kind == packet_kind::data)
                    all.insert(all.end(), p.segment.payload,
                               p.segment.payload + p.segment.payload_size);
            }
        return all;
    }

private:
    udp_io socket_;
    in_packets got_;
};

settings with_large_datagrams()
{
    settings how = on_loopback();
    how.datagram = 65507;
    return how;
}

/// Registered memory that its owner takes away while it is registered.
struct leaving {
    leaving(host &of_, std::size_t pages)
        : of(of_), size(pages * page), file(memfd_create("leaving", MFD_CLOEXEC))
    {
        REQUIRE(ftruncate(file, static_cast<off_t>(size)) == 0);
        // Keeps other mappings out of the unmapped memory: they map in the highest gap that is
        // large enough.
        constexpr std::size_t gap = 64 << 20;
        void *room = mmap(nullptr, size + gap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(room != MAP_FAILED);
        REQUIRE(mmap(room, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == room);
        at = static_cast<std::uint8_t *>(room);
        REQUIRE(munmap(at + size, gap) == 0);
        key = of.hca.add_region(region, of.domain, at, size,
                                local_read | local_write | remote_read | remote_write |
                                    remote_atomic);
        REQUIRE(key != 0);
    }
    ~leaving()
    {
        CHECK(of.hca.remove_region(region));
        munmap(at, mapped);
        close(file);
    }
    void unmap(std::size_t from)
    {
        REQUIRE(munmap(at + from * page, mapped - from * page) == 0);
        mapped = from * page;
    }
    void cut(std::size_t from) { REQUIRE(ftruncate(file, static_cast<off_t>(from * page)) == 0); }
    void forbid_writing(std::size_t from)
    {
        REQUIRE(mprotect(at + from * page, size - from * page, PROT_READ) == 0);
    }
    remote_segment remote(std::size_t from, std::size_t bytes) const
    {
        return {reinterpret_cast<std::uintptr_t>(at) + from, static_cast<std::uint32_t>(bytes),
                key};
    }
    void describe(request &r, std::size_t from, std::size_t bytes) const
    {
        const remote_segment part = remote(from, bytes);
        r.local[0] = {part.address, part.length, part.key};
        r.segments = 1;
        r.length = part.length;
    }
    host &of;
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size;
    std::size_t mapped = size;
    const int file;
    std::uint8_t *at = nullptr;
    memory_region region;
    std::uint32_t key = 0;
};

/// A connection over UDP.
struct two : connected_devices {
    using connected_devices::connected_devices;
    /// Writes, and checks that all bytes are there, and nothing beside them.
    void check_write(std::size_t from, std::size_t size, std::size_t to)
    {
        CAPTURE(from);
        CAPTURE(size);
        b.buffer.fill(0, b.buffer.bytes.size(), 1);
        a.buffer.fill(from, size, 2);
        REQUIRE(a.write(from, size, b.buffer.remote(to, size)));
        const auto done = a.sent();
        REQUIRE(done.has_value());
        REQUIRE(done->status == work_status::success);
        CHECK(std::memcmp(&a.buffer.bytes[from], &b.buffer.bytes[to], size) == 0);
        CHECK(b.buffer.holds(0, to, 1));
    }
};

} // namespace

TEST_SUITE_BEGIN("consumer memory");

TEST_CASE("what is written after a flush and a deregistration does not reach the peer")
{
    host here(with_large_datagrams());
    idle_peer peer;
    end a(here);
    peer.take_connection(a);
    constexpr std::size_t size = 512 * 1024;
    memory secret(here, size, local_read);
    std::memset(secret.bytes.data(), 'P', size);
    request &r = a.fresh(work::write);
    r.local[0] = secret.local(0, size);
    r.segments = 1;
    r.length = size;
    r.remote = {0x10000, size, 0x1234};
    REQUIRE(a.post(r));
    a.pair.disconnect(false);
    const auto done = a.sent();
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::flushed);
    REQUIRE(here.hca.remove_region(secret.region));
    std::memset(secret.bytes.data(), 'S', size);
    const std::vector<std::uint8_t> unread = peer.unread();
    CHECK(unread.size() >= 65536); // at least as much as sockets hold
    CHECK(std::count(unread.begin(), unread.end(), 'S') == 0);
}

TEST_CASE("writes of all sizes, from and to any address, arrive as they are")
{
    settings how = with_large_datagrams();
    SUBCASE("without checksums") {}
    SUBCASE("with checksums")
    {
        how.checksum = true;
    }
    two t(how);
    for (std::size_t from : {0, 1, 4095, 4096, 70'001})
        for (std::size_t size : {32'767, 32'768, 57'344, 57'345, 65'536, 300'001, 900'000})
            t.check_write(from, size, 77);
}

TEST_CASE("no more is in flight than the peer's socket holds")
{
    two t(with_large_datagrams());
    constexpr std::size_t size = 1 << 20;
    const std::uint32_t room = t.b.pair.shard->io().receive_room();
    const std::uint64_t before = t.a.counts().packets_out;
    t.b.pair.enter(); // its socket is not read for a while
    for (int i = 0; i < 10; ++i)
        REQUIRE(t.a.write(0, size, t.b.buffer.remote(0, size)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::uint64_t packets = t.a.counts().packets_out - t.a.resent() - before;
    t.b.pair.leave();
    CHECK(packets <= std::max<std::uint64_t>(room, 256 * 1024) / size * 17 + 1); // 17 are a write
    for (int i = 0; i < 10; ++i) {
        const auto done = t.a.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == work_status::success);
    }
}

TEST_CASE("memory that is gone fails its write, and costs others nothing")
{
    settings how = with_large_datagrams();
    SUBCASE("without checksums") {}
    SUBCASE("with checksums")
    {
        how.checksum = true;
    }
    two t(how);
    leaving some(t.here, 256);
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    some.unmap(128);
    request &r = c.fresh(work::write);
    some.describe(r, 0, some.size);
    r.remote = d.buffer.remote(0, some.size);
    REQUIRE(c.post(r));
    const auto done = c.sent();
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::local_protection);
    CHECK(is(c.next(), connection_event::broken));
    t.check_write(0, 900'000, 0);
}

namespace {

/// How memory goes: its pages from the given one on.
using departure = void (leaving::*)(std::size_t);
constexpr departure departures[] = {&leaving::unmap, &leaving::cut};

/// Both ends of the connection are broken, and others are not.
void expect_broken(end &a, end &b)
{
    CHECK(is(a.next(), connection_event::broken));
    CHECK(is(b.next(), connection_event::broken));
}

settings as_usual()
{
    settings how = on_loopback();
    how.datagram = 16384;
    return how;
}

} // namespace

TEST_CASE("what a peer writes to memory that is gone or read-only is refused")
{
    for (const departure goes : {&leaving::unmap, &leaving::cut, &leaving::forbid_writing})
        for (const std::uint32_t size : {1u, 8u, 5000u, 100'000u}) {
            CAPTURE(size);
            two t(as_usual());
            leaving some(t.there, 64);
            const remote_segment first = some.remote(some.page - 1, 1); // lies in the page in front
                                                                        // of the region
            REQUIRE(t.a.write(0, 1, first));
            expect(t.a.sent(), work_status::success);
            (some.*goes)(1);
            REQUIRE(t.a.write(0, size, some.remote(some.page - (size > 1 ? 1 : 0), size)));
            expect(t.a.sent(), work_status::remote_access);
            expect_broken(t.a, t.b);
        }
}

TEST_CASE("what a peer reads from memory that is gone is refused")
{
    settings how = as_usual();
    SUBCASE("without checksums") {}
    SUBCASE("with checksums")
    {
        how.checksum = true;
    }
    for (const departure goes : departures) {
        two t(how);
        leaving some(t.there, 64);
        (some.*goes)(40);
        REQUIRE(t.a.read(0, 8, some.remote(0, 8)));
        expect(t.a.sent(), work_status::success);
        REQUIRE(t.a.read(0, 200'000, some.remote(0, 200'000)));
        expect(t.a.sent(), work_status::remote_access);
        expect_broken(t.a, t.b);
    }
}

TEST_CASE("an atomic operation on memory that is gone or read-only is refused")
{
    for (const departure goes : {&leaving::unmap, &leaving::cut, &leaving::forbid_writing}) {
        two t(as_usual());
        leaving some(t.there, 2);
        REQUIRE(t.a.fetch_add(0, some.remote(8, 8), 3));
        expect(t.a.sent(), work_status::success);
        CHECK(__atomic_load_n(some.at + 8, __ATOMIC_ACQUIRE) == 3);
        (some.*goes)(0);
        REQUIRE(t.a.fetch_add(0, some.remote(8, 8), 3));
        expect(t.a.sent(), work_status::remote_access);
        expect_broken(t.a, t.b);
    }
}

TEST_CASE("a receive into memory that is gone fails")
{
    for (const departure goes : departures) {
        two t(as_usual());
        leaving some(t.there, 8);
        request &r = t.b.fresh(work::receive);
        some.describe(r, 0, some.size);
        REQUIRE(t.b.pair.post_receive(r));
        (some.*goes)(4);
        REQUIRE(t.a.send(0, some.size));
        expect(t.b.received(), work_status::local_protection);
        expect(t.a.sent(), work_status::remote_operation);
        expect_broken(t.a, t.b);
    }
}

TEST_CASE("a read or an atomic operation into memory that is gone fails")
{
    for (const departure goes : departures)
        for (const work kind : {work::read, work::fetch_add}) {
            two t(as_usual());
            leaving some(t.here, 8);
            const auto size = static_cast<std::uint32_t>(kind == work::read ? some.size : 8);
            request &r = t.a.fresh(kind);
            some.describe(r, 0, size);
            r.remote = t.b.buffer.remote(0, size);
            (some.*goes)(0);
            REQUIRE(t.a.post(r));
            expect(t.a.sent(), work_status::local_protection);
            expect_broken(t.a, t.b);
        }
}

namespace {

/// A connection to a shared receive queue that is dry whenever a message comes.
struct dry_connection {
    static constexpr std::uint32_t size = 8000;

    dry_connection(host &here, host &there) : a(here), there_(there)
    {
        REQUIRE(there.hca.make_shared(shared, &owner, there.domain, 64));
        b = std::make_unique<end>(there, end_options{.shared = &shared, .receiver = &receiver});
        REQUIRE(establish(a, *b));
    }
    dry_connection(const dry_connection &) = delete;
    dry_connection &operator=(const dry_connection &) = delete;
    ~dry_connection()
    {
        b.reset();
        there_.hca.free_shared(shared);
    }
    /// Takes a message by a receive that is posted when it waits. The post that follows has this
    /// thread place it.
    bool take(unsigned seed)
    {
        a.buffer.fill(0, size, seed);
        std::fill_n(b->buffer.bytes.begin(), size, std::uint8_t{0});
        const std::uint64_t before = b->counts().not_ready;
        bool good = a.send(0, size);
        good = good && becomes_true([&] {
                   (void)b->received(std::chrono::milliseconds(0));
                   return b->counts().not_ready != before;
               });
        request &r = b->fresh(work::receive);
        r.segments = 1;
        r.local[0] = b->buffer.local(0, size);
        r.length = size;
        good = good && shared.post(r) && b->write(size, 1, a.buffer.remote(size, 1));
        const auto got = b->received();
        good = good && got.has_value() && got->status == work_status::success;
        return good && a.sent().has_value() && b->sent().has_value() &&
               b->buffer.holds(0, size, seed);
    }

    end a;
    shared_receives shared;
    inbox owner;
    int receiver = 0;
    std::unique_ptr<end> b;

private:
    host &there_;
};

} // namespace

TEST_CASE("messages that waited for receives of several threads are not mixed")
{
    host here(on_loopback());
    host there(on_loopback());
    dry_connection first(here, there);
    dry_connection second(here, there);
    std::atomic<int> wrong{0};
    const auto take_all = [&](dry_connection &of, unsigned seed) {
        for (unsigned i = 0; i < 500; ++i)
            wrong += of.take(seed + i) ? 0 : 1;
    };
    std::thread other([&] { take_all(second, 1000); });
    take_all(first, 0);
    other.join();
    CHECK(wrong.load() == 0);
}

TEST_CASE("a process that may have no files that large moves data as others do")
{
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{4096, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    two t(as_usual());
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    exercise(t.a, t.b, 20);
}

TEST_CASE("on a bad network, too")
{
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(seed);
        settings how = as_usual();
        how.datagram = 1472;
        how.bad_network = {50, 100, 50, 0, seed};
        two t(how);
        t.check_write(3, 500'000, 5);
        leaving some(t.there, 128);
        some.unmap(100);
        REQUIRE(t.a.write(0, some.size, some.remote(0, some.size)));
        expect(t.a.sent(), work_status::remote_access);
    }
}

TEST_SUITE_END();

} // namespace consumer_memory_suite
