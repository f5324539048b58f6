// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Direct access to the memory of processes of this host: what it may do, and with whom.
#include "descriptors.hpp"
#include "intercepted.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <random>
#include <sched.h>
#include <set>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace direct_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

settings with_direct()
{
    settings how = on_loopback();
    how.direct = true;
    return how;
}

/// The peer's memory has been found open: accesses do not go over the network any more.
bool becomes_direct(end &from, const remote_segment &to)
{
    const std::uint64_t before = from.counts().direct;
    return becomes_true([&] {
        const bool written = from.write(0, 1, to);
        const auto done = from.sent();
        return written && done.has_value() && done->status == work_status::success &&
               from.counts().direct != before;
    });
}

struct two : connected_devices {
    explicit two(const settings &how = with_direct()) : connected_devices(how) {}
    void make_direct()
    {
        REQUIRE(becomes_direct(a, b.buffer.remote(0, 1)));
        REQUIRE(becomes_direct(b, a.buffer.remote(0, 1)));
    }
};

} // namespace

TEST_SUITE_BEGIN("direct");

// ------------------------------------------------------------------------------------------ board

namespace {

struct board_fixture {
    board_fixture()
    {
        REQUIRE(memory.create(sizeof(direct_board)));
        board = static_cast<direct_board *>(memory.bytes());
        board->begin();
        region.key.store(77);
        region.address = 0x10000;
        region.length = 0x1000;
        region.rights = remote_read | remote_write;
        REQUIRE(board->show(name_of(77), region));
        board->open_gate(3, 99);
    }
    static board_name name_of(std::uint32_t key) { return board_name::of({5, 6}, key); }
    bool permits(std::uint32_t key, const direct_target &to, std::uint32_t gate = 3,
                 std::uint64_t token = 99) const
    {
        return board->permits(gate, token, name_of(key), to);
    }
    shared_memory memory;
    direct_board *board = nullptr;
    memory_region region;
};

} // namespace

TEST_CASE("a board permits what memory keys permit, and nothing else")
{
    board_fixture f;
    CHECK(f.permits(77, {remote_write, 0x10000, 0x1000}));
    CHECK(f.permits(77, {remote_read, 0x10fff, 1}));
    CHECK(!f.permits(77, {remote_atomic, 0x10000, 8}));
    CHECK(!f.permits(77, {remote_read | remote_atomic, 0x10000, 8}));
    CHECK(!f.permits(78, {remote_write, 0x10000, 1}));
    CHECK(!f.board->permits(3, 99, {}, {remote_write, 0x10000, 1}));
    CHECK(!f.permits(77, {remote_write, 0xffff, 2}));
    CHECK(!f.permits(77, {remote_write, 0x10001, 0x1000}));
    CHECK(!f.permits(77, {remote_write, 0x11001, 1}));
    CHECK(!f.permits(77, {remote_write, UINT64_MAX - 1, 0x10002}));
    CHECK(!f.permits(77, {remote_write, 0x10000, UINT64_MAX}));
    CHECK(!f.permits(77, {remote_write, 0x10000, 1}, 4));
    CHECK(!f.permits(77, {remote_write, 0x10000, 1}, 3, 98));
    const board_name elsewhere = board_name::of({5, 7}, 77); // another zone
    CHECK(!f.board->permits(3, 99, elsewhere, {remote_write, 0x10000, 1}));
    f.board->close_gate(3);
    CHECK(!f.permits(77, {remote_write, 0x10000, 1}));
    CHECK(!f.permits(77, {remote_write, 0x10000, 1}, 3, direct_board::closed + 1));
    f.board->open_gate(3, 97);
    CHECK(f.permits(77, {remote_write, 0x10000, 1}, 3, 97));
    CHECK(f.board->withdraw(f.name_of(77)));
    CHECK(!f.board->withdraw(f.name_of(77)));
    CHECK(!f.permits(77, {remote_write, 0x10000, 1}, 3, 97));
}

TEST_CASE("a board with no place for a key does not show it")
{
    board_fixture f;
    const auto in_same_places = [&](std::uint64_t i) {
        board_name other = f.name_of(77);
        other.name ^= i << 60; // changes bits beyond those that choose places
        return other;
    };
    std::uint32_t shown = 0;
    for (std::uint32_t i = 1; i < 8; ++i)
        shown += f.board->show(in_same_places(i), f.region) ? 1 : 0;
    CHECK(shown == 1);
    CHECK(f.board->withdraw(f.name_of(77)));
    CHECK(f.board->show(in_same_places(7), f.region));
    CHECK(f.board->permits(3, 99, in_same_places(7), {remote_write, 0x10000, 1}));
}

namespace {

/// Whether these bytes are anywhere on the board.
bool tells(const board_fixture &f, const void *bytes, std::size_t size)
{
    const auto *const all = static_cast<const std::uint8_t *>(f.memory.bytes());
    const auto *const wanted = static_cast<const std::uint8_t *>(bytes);
    return std::search(all, all + sizeof(direct_board), wanted, wanted + size) !=
           all + sizeof(direct_board);
}

} // namespace

TEST_CASE("a board tells no key, and nothing of memory, to who does not know the key")
{
    board_fixture f;
    constexpr std::uint32_t key = 0x7a51c3e9;
    f.region.key.store(key);
    f.region.address = 0x7f12'3456'7000;
    f.region.length = 0x12'3456;
    REQUIRE(f.board->show(f.name_of(key), f.region));
    f.board->claim(4, f.name_of(key).name);
    CHECK(f.permits(key, {remote_write, f.region.address, f.region.length}));
    CHECK(!tells(f, &key, sizeof key));
    CHECK(!tells(f, &f.region.address, sizeof f.region.address));
    CHECK(!tells(f, &f.region.length, sizeof f.region.length));
    const board_name elsewhere = board_name::of({5, 7}, key);
    CHECK(!tells(f, &elsewhere.name, sizeof elsewhere.name));
}

TEST_CASE("a board full of anything is read without harm")
{
    constexpr unsigned boards = 40;
    struct alignas(direct_board) words {
        std::uint64_t at[sizeof(direct_board) / sizeof(std::uint64_t)];
    };
    const auto memory = std::make_unique<words>();
    const auto *const board = reinterpret_cast<const direct_board *>(memory.get());
    std::mt19937_64 random(25);
    for (unsigned i = 0; i < rounds(boards); ++i) {
        for (std::uint64_t &each : memory->at)
            each = random() % 4 == 0 ? random() : random() % 4;
        for (std::uint32_t gate = 0; gate < direct_board::gates; ++gate) {
            board_name name = board_fixture::name_of(static_cast<std::uint32_t>(random()));
            if (random() % 2 == 0)
                name = {random() % 4, 0, 0, 0};
            (void)board->permits(gate, random() % 4, name, {1, random() % 64, random() % 64});
            (void)board->claimed(gate);
        }
    }
}

TEST_CASE("another process cannot change a board, nor its size")
{
    shared_memory own;
    REQUIRE(own.create(8192));
    const int file = dup(static_cast<int>(own.file()));
    CHECK(ftruncate(file, 0) != 0);
    CHECK(ftruncate(file, 1 << 20) != 0);
    CHECK(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
    CHECK(pwrite(file, "x", 1, 0) < 0);
    CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    shared_memory other;
    REQUIRE(other.map(file, 8192));
    CHECK(other.same_file(own));
    CHECK(mprotect(other.bytes(), 8192, PROT_READ | PROT_WRITE) != 0);
    *static_cast<char *>(own.bytes()) = 'b';
    CHECK(*static_cast<const char *>(other.bytes()) == 'b');
}

TEST_CASE("what could be truncated is not mapped")
{
    shared_memory own;
    REQUIRE(own.create(8192));
    const auto offers = [](int file, std::size_t size) {
        shared_memory other;
        return other.map(file, size);
    };
    const int open_file = memfd_create("unsealed", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    REQUIRE(ftruncate(open_file, 8192) == 0);
    CHECK(!offers(dup(open_file), 8192));
    REQUIRE(fcntl(open_file, F_ADD_SEALS, F_SEAL_GROW) == 0);
    CHECK(!offers(dup(open_file), 8192));
    REQUIRE(fcntl(open_file, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK(offers(dup(open_file), 8192));
    CHECK(!offers(dup(open_file), 8193)); // too short
    close(open_file);
    CHECK(!offers(open("/dev/null", O_RDONLY | O_CLOEXEC), 1));
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    CHECK(!offers(ends[0], 1));
    close(ends[1]);
}

TEST_CASE("memory of huge pages, which may be lacking when it is read, is not mapped")
{
    shared_memory own;
    REQUIRE(own.create(8192));
    const int file = memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC);
    struct stat page {};
    if (file < 0 || fstat(file, &page) != 0)
        return; // the system has none
    REQUIRE(ftruncate(file, page.st_blksize) == 0);
    REQUIRE(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    shared_memory theirs;
    CHECK(!theirs.map(file, 8192));
}

// ----------------------------------------------------------------------------------- connections

TEST_CASE("writes and reads need nothing of the peer's processor")
{
    two t;
    t.make_direct();
    t.b.pair.enter(); // nothing that comes for it is processed
    const std::uint64_t packets = t.b.pair.record.counts.packets_in;
    t.a.buffer.fill(0, 100'000, 3);
    REQUIRE(t.a.write(0, 100'000, t.b.buffer.remote(7, 100'000)));
    expect(t.a.sent(0ms), work_status::success);
    CHECK(t.b.buffer.holds(7, 100'000, 3));
    REQUIRE(t.a.read(500'001, 100'000, t.b.buffer.remote(7, 100'000)));
    expect(t.a.sent(0ms), work_status::success);
    CHECK(t.a.buffer.holds(500'001, 100'000, 3));
    CHECK(t.b.pair.record.counts.packets_in == packets);
    t.b.pair.leave();
    for (const end *each : {&t.a, &t.b}) {
        CHECK(becomes_true([&] { return each->paths == 1; }));
        CHECK(each->why_not_direct == local_obstacle::none);
    }
}

TEST_CASE("a peer is looked at once in a while, and not for each write")
{
    two t;
    t.make_direct();
    constexpr int writes = 4000;
    int looks = 0;
    CHECK(becomes_true([&] { // more time passes between two writes on a busy machine
        const int before = reads_of_processes.load();
        for (int i = 0; i < writes; ++i) {
            REQUIRE(t.a.write(0, 64, t.b.buffer.remote(7, 64)));
            expect(t.a.sent(), work_status::success);
            t.a.requests.clear();
        }
        looks = reads_of_processes.load() - before;
        return looks < writes / 4;
    }));
    CHECK(looks > 0);
}

/// Writes without a pause, until posted writes are not taken off any more.
bool writes_come_to_rest(end &from, const remote_segment &to)
{
    return becomes_true([&] {
        for (int i = 0; i < 100; ++i) {
            if (!from.write(0, to.length, to))
                return true;
            while (from.sent(0ms).has_value()) {
            }
        }
        return false;
    });
}

TEST_CASE("accesses rest behind responses that the peer does not acknowledge")
{
    constexpr std::size_t large = 20 << 20; // read over the network
    for (int i = 0; i < 5; ++i) {
        host here(with_direct()), there(with_direct());
        end a(here, {.bytes = large}), b(there, {.bytes = large});
        REQUIRE(establish(a, b));
        REQUIRE(becomes_direct(a, b.buffer.remote(0, 1)));
        REQUIRE(b.read(0, large, a.buffer.remote(0, large)));
        b.pair.enter(); // nothing that comes for it is processed
        REQUIRE(writes_come_to_rest(a, b.buffer.remote(0, 1 << 20)));
        CHECK(idle_share(300ms) < 0.1);
        b.pair.leave();
    }
}

TEST_CASE("data of all sizes, from several pieces, arrive as they are, and nothing beside them")
{
    two t;
    t.make_direct();
    constexpr std::size_t room = 450'000;
    for (const std::uint32_t size : {1u, 2u, 7u, 8u, 64u, 4095u, 4097u, 70'001u, 400'000u}) {
        CAPTURE(size);
        t.b.buffer.fill(0, room, 1);
        t.a.buffer.fill(10, size, 2);
        request &r = t.a.fresh(work::write);
        const std::uint32_t first = size / 3;
        r.segments = 0;
        for (const auto &[from, length] :
             {std::pair{0u, first}, std::pair{first, 0u}, std::pair{first, size - first}})
            r.local[r.segments++] = t.a.buffer.local(10 + from, length);
        r.length = size;
        r.remote = t.b.buffer.remote(33, size);
        REQUIRE(t.a.post(r));
        expect(t.a.sent(), work_status::success);
        CHECK(t.b.buffer.holds(33, size, 2));
        const std::vector<std::uint8_t> seen = t.b.buffer.bytes;
        t.b.buffer.fill(0, room, 1);
        const auto &before = t.b.buffer.bytes;
        CHECK(std::equal(seen.begin(), seen.begin() + 33, before.begin()));
        CHECK(std::equal(seen.begin() + 33 + size, seen.end(), before.begin() + 33 + size));
    }
    const std::uint64_t moved = t.a.counts().direct;
    exercise(t.a, t.b, rounds(40));
    CHECK(t.a.counts().direct > moved);
}

TEST_CASE("what is refused over the network is refused")
{
    struct wrong {
        const char *what;
        std::uint32_t rights;
        std::uint64_t move;
        std::uint32_t size;
        std::uint32_t key;
        bool reads;
    };
    for (const wrong &each :
         {wrong{"no right to write", local_write | remote_read, 0, 64, 0, false},
          wrong{"no right to read", local_write | remote_write, 0, 64, 0, true},
          wrong{"beyond the end", 31, 4000, 200, 0, false},
          wrong{"before the start", 31, ~std::uint64_t{0}, 64, 0, false},
          wrong{"another key", 31, 0, 64, 0x01000000, false}}) {
        CAPTURE(each.what);
        two t;
        t.make_direct();
        memory some(t.there, 4096, each.rights);
        some.fill(0, 4096, 9);
        remote_segment to = some.remote(0, each.size);
        to.address += each.move;
        to.key += each.key;
        REQUIRE((each.reads ? t.a.read(0, each.size, to) : t.a.write(0, each.size, to)));
        expect(t.a.sent(), work_status::remote_access);
        CHECK(is(t.a.next(), connection_event::broken));
        CHECK(is(t.b.next(), connection_event::broken));
        CHECK(some.holds(0, 4096, 9));
    }
}

TEST_CASE("memory of another zone is not open")
{
    two t;
    t.make_direct();
    protection_domain other;
    end_options options;
    options.domain = &other;
    end c(t.here), d(t.there, options);
    REQUIRE(establish(c, d));
    std::this_thread::sleep_for(50ms);               // the boards have been shown
    REQUIRE(c.write(0, 64, d.buffer.remote(0, 64))); // writes to the host's own zone
    expect(c.sent(), work_status::remote_access);
    CHECK(c.counts().direct == 0);
}

TEST_CASE("one's own memory is checked before the peer's is touched")
{
    two t;
    t.make_direct();
    t.b.buffer.fill(0, 128, 4);
    request &r = t.a.fresh(work::write);
    r.local[0] = t.a.buffer.local(0, 64);
    r.local[0].key += 0x01000000;
    r.segments = 1;
    r.length = 64;
    r.remote = t.b.buffer.remote(0, 64);
    REQUIRE(t.a.post(r));
    expect(t.a.sent(), work_status::local_protection);
    CHECK(t.b.buffer.holds(0, 128, 4));
}

TEST_CASE("what was posted first is done first")
{
    two t;
    t.make_direct();
    constexpr std::size_t word = 512 * 1024;
    auto *const target = reinterpret_cast<std::uint64_t *>(&t.b.buffer.bytes[word]);
    for (unsigned round = 0; round < rounds(150); ++round) {
        const std::uint64_t value = round + 1;
        std::memcpy(&t.a.buffer.bytes[0], &value, sizeof value);
        REQUIRE(t.b.receive(100, 8));
        // The add goes over the network, and the write behind it must not overtake it.
        __atomic_store_n(target, 0, __ATOMIC_RELEASE);
        REQUIRE(t.a.fetch_add(64, t.b.buffer.remote(word, 8), 1000));
        REQUIRE(t.a.write(0, 8, t.b.buffer.remote(word, 8)));
        REQUIRE(t.a.send(0, 8));
        REQUIRE(t.a.read(128, 8, t.b.buffer.remote(word, 8)));
        expect(t.b.received(), work_status::success);
        REQUIRE(__atomic_load_n(target, __ATOMIC_ACQUIRE) == value);
        for (int i = 0; i < 4; ++i)
            expect(t.a.sent(), work_status::success);
        std::uint64_t seen = 0;
        std::memcpy(&seen, &t.a.buffer.bytes[128], sizeof seen);
        REQUIRE(seen == value);
        t.a.requests.clear();
        t.b.requests.clear();
    }
}

TEST_CASE("the last byte of a write is the last that changes")
{
    two t;
    t.make_direct();
    for (const std::size_t size : {40'001, 3'001, 65, 2}) {
        CAPTURE(size);
        const std::uint8_t *const target = &t.b.buffer.bytes[3];
        for (unsigned round = 1; round < rounds(100); ++round) {
            const auto value = static_cast<std::uint8_t>(round % 250 + 1);
            std::memset(&t.a.buffer.bytes[0], value, size);
            std::thread writer([&] { REQUIRE(t.a.write(0, size, t.b.buffer.remote(3, size))); });
            while (__atomic_load_n(target + size - 1, __ATOMIC_ACQUIRE) != value) {
            }
            const auto wrong = std::count_if(&t.b.buffer.bytes[3], &t.b.buffer.bytes[3 + size],
                                             [&](std::uint8_t byte) { return byte != value; });
            writer.join();
            expect(t.a.sent(), work_status::success);
            t.a.requests.clear();
            REQUIRE(wrong == 0);
        }
        std::memset(&t.b.buffer.bytes[0], 0, size + 3);
    }
}

TEST_CASE("after a deregistration, or the end of a connection, nothing is written any more")
{
    enum { deregisters, disconnects, frees };
    for (const int how : {deregisters, disconnects, frees})
        for (unsigned round = 0; round < rounds(25); ++round) {
            CAPTURE(how);
            two t;
            t.make_direct();
            auto d = std::make_unique<end>(t.there);
            end c(t.here);
            REQUIRE(establish(c, *d));
            memory some(t.there, 300'000);
            REQUIRE(becomes_direct(c, some.remote(0, 1)));
            std::memset(&c.buffer.bytes[0], 'w', 300'000);
            std::thread writer([&] {
                for (bool good = true; good;) {
                    good = c.write(0, 300'000, some.remote(0, 300'000));
                    const auto done = c.sent();
                    good = good && done.has_value() && done->status == work_status::success;
                }
            });
            std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 1500));
            if (how == deregisters)
                CHECK(t.there.hca.remove_region(some.region));
            else if (how == disconnects)
                d->pair.disconnect(false);
            else
                d.reset();
            std::memset(some.bytes.data(), 'r', some.bytes.size());
            std::this_thread::sleep_for(1ms);
            CHECK(std::count(some.bytes.begin(), some.bytes.end(), 'r') == 300'000);
            writer.join();
        }
}

TEST_CASE("access to memory that is not mapped any more is refused, and does not fault the peer")
{
    two t;
    t.make_direct();
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *const at =
        mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    memory_region region;
    const std::uint32_t key =
        t.there.hca.add_region(region, t.there.domain, at, 8 * page, remote_write | local_write);
    const remote_segment all{reinterpret_cast<std::uintptr_t>(at),
                             static_cast<std::uint32_t>(8 * page), key};
    REQUIRE(becomes_direct(t.a, all));
    SUBCASE("unmapped")
    {
        REQUIRE(munmap(static_cast<char *>(at) + 4 * page, 4 * page) == 0);
    }
    SUBCASE("read-only")
    {
        REQUIRE(mprotect(static_cast<char *>(at) + 4 * page, 4 * page, PROT_READ) == 0);
    }
    REQUIRE(t.a.write(0, 8 * page, all));
    expect(t.a.sent(), work_status::remote_access);
    CHECK(t.there.hca.remove_region(region));
    munmap(at, 8 * page);
}

TEST_CASE("very large accesses, empty ones, and those by a window's key go over the network")
{
    two t;
    t.make_direct();
    end_options large;
    large.bytes = 20 << 20;
    end c(t.here, large), d(t.there, large);
    REQUIRE(establish(c, d));
    REQUIRE(becomes_direct(c, d.buffer.remote(0, 1)));
    const std::uint64_t before = c.counts().direct;
    c.buffer.fill(0, 17 << 20, 5);
    REQUIRE(c.write(0, 17 << 20, d.buffer.remote(0, 17 << 20)));
    expect(c.sent(), work_status::success);
    CHECK(d.buffer.holds(0, 17 << 20, 5));
    REQUIRE(c.write(0, 0, d.buffer.remote(0, 0)));
    expect(c.sent(), work_status::success);
    CHECK(c.counts().direct == before);
    memory_region *const window = t.there.hca.make_window(t.there.domain);
    request &bind = d.fresh(work::bind);
    bind.binding.window = window;
    bind.binding.target = &d.buffer.region;
    bind.window_rights = remote_write;
    bind.remote = d.buffer.remote(0, 4096);
    REQUIRE(t.there.hca.windows.prepare(bind));
    REQUIRE(d.post(bind));
    expect(d.sent(), work_status::success);
    REQUIRE(c.write(0, 64, {d.buffer.remote(0, 64).address, 64, window->key.load()}));
    expect(c.sent(), work_status::success);
    CHECK(c.counts().direct == before);
    t.there.hca.free_window(window);
}

TEST_CASE("a peer without direct access is reached over the network")
{
    for (const bool caller_has : {true, false}) {
        settings with = with_direct();
        settings without = on_loopback();
        host here(caller_has ? with : without);
        host there(caller_has ? without : with);
        end a(here), b(there);
        REQUIRE(establish(a, b));
        std::this_thread::sleep_for(30ms);
        exercise(a, b, 20);
        CHECK(a.counts().direct + b.counts().direct == 0);
        CHECK(a.counts().indirect != 0);
        CHECK(a.paths == (caller_has ? 1 : 0));
        CHECK(b.paths == 0); // it waits for a call
        if (caller_has)
            CHECK(a.why_not_direct == local_obstacle::no_answer);
    }
}

TEST_CASE("a device with several threads is reached by all their sockets")
{
    settings how = with_direct();
    how.threads = 3;
    host here(how), there(how);
    std::deque<end> ends;
    for (int i = 0; i < 6; ++i) {
        end &a = ends.emplace_back(here);
        end &b = ends.emplace_back(there);
        REQUIRE(establish(a, b));
        CHECK(becomes_direct(a, b.buffer.remote(0, 1)));
        CHECK(becomes_direct(b, a.buffer.remote(0, 1)));
    }
}

TEST_CASE("of many connections that are made at once, each becomes direct")
{
    constexpr unsigned many = 300;
    host here(with_direct()), there(with_direct());
    end_options small;
    small.bytes = 4096;
    small.depth = small.queue_depth = 4;
    std::deque<end> callers, called;
    door at(there);
    for (unsigned i = 0; i < many; ++i) {
        callers.emplace_back(here, small);
        called.emplace_back(there, small);
    }
    for (end &each : callers)
        REQUIRE(each.pair.connect(here.hca.settings().address, at.number, nullptr, 0) ==
                queue_pair::start::begun);
    for (end &each : called) {
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        REQUIRE(each.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    }
    for (end &each : callers)
        REQUIRE(is(each.next(), connection_event::established));
    for (end &each : callers)
        REQUIRE(becomes_direct(each, called[0].buffer.remote(0, 1)));
}

namespace {

bool is_direct(end &from, const remote_segment &to)
{
    const std::uint64_t before = from.counts().direct;
    expect((from.write(0, 1, to) ? from.sent() : std::nullopt), work_status::success);
    return from.counts().direct == before + 1;
}

/// Makes pairs at equal places direct. Sockets that only some set-up needed are closed meanwhile.
void become_and_stay_direct(std::deque<end> &some, std::deque<end> &others)
{
    const auto all = [&](bool (*each)(end &, const remote_segment &)) {
        bool good = true;
        for (std::size_t i = 0; i < some.size(); ++i)
            good = each(some[i], others[i].buffer.remote(0, 1)) &&
                   each(others[i], some[i].buffer.remote(0, 1)) && good;
        return good;
    };
    REQUIRE(all(becomes_direct));
    std::this_thread::sleep_for(5ms);
    CHECK(all(is_direct));
}

} // namespace

TEST_CASE("devices that connect to each other at once stay direct")
{
    end_options small;
    small.bytes = 4096;
    small.depth = small.queue_depth = 4;
    for (unsigned round = 0; round < rounds(40); ++round) {
        settings how = with_direct();
        how.threads = 1 + round % 2;
        host here(how), there(how);
        door at_here(here), at_there(there);
        constexpr unsigned each_way = 4;
        std::deque<end> callers, called;
        for (unsigned i = 0; i < 2 * each_way; ++i) {
            callers.emplace_back(i % 2 == 0 ? here : there, small);
            called.emplace_back(i % 2 == 0 ? there : here, small);
        }
        for (unsigned i = 0; i < callers.size(); ++i) {
            const host &to = called[i].of;
            REQUIRE(callers[i].pair.connect(to.hca.settings().address,
                                            (i % 2 == 0 ? at_there : at_here).number, nullptr,
                                            0) == queue_pair::start::begun);
        }
        for (unsigned i = 0; i < called.size(); ++i) {
            inbound_request *const request = (i % 2 == 0 ? at_there : at_here).next();
            REQUIRE(request != nullptr);
            REQUIRE(called[i].pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        }
        become_and_stay_direct(callers, called);
    }
}

TEST_CASE("a device that is its own peer stays direct")
{
    host here(with_direct());
    std::deque<end> callers, called;
    std::size_t open_files = 0;
    for (int i = 0; i < 4; ++i) {
        REQUIRE(establish(callers.emplace_back(here), called.emplace_back(here)));
        become_and_stay_direct(callers, called);
        if (i == 0)
            open_files = descriptors().size();
    }
    CHECK(becomes_true([&] { return descriptors().size() <= open_files; }));
}

TEST_CASE("a stream of direct writes does not keep other connections waiting")
{
    two t;
    t.make_direct();
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    std::atomic<bool> enough{false};
    std::thread writes([&] {
        for (int i = 0; i < 32; ++i)
            REQUIRE(t.a.write(0, 200'000, t.b.buffer.remote(0, 200'000)));
        while (!enough.load())
            if (const auto done = t.a.sent(0ms); done.has_value())
                REQUIRE(t.a.post(*done->request));
    });
    std::thread enters([&] { // its sends let the thread enter the pair that writes
        while (!enough.load()) {
            REQUIRE(t.b.fetch_add(0, t.a.buffer.remote(512'000, 8), 1));
            expect(t.b.sent(), work_status::success);
            std::this_thread::sleep_for(1ms);
        }
    });
    std::vector<std::chrono::milliseconds> times;
    for (int i = 0; i < 60; ++i) {
        REQUIRE(d.receive(0, 16));
        const auto began = std::chrono::steady_clock::now();
        REQUIRE(c.send(0, 16));
        expect(d.received(), work_status::success);
        times.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - began));
        expect(c.sent(), work_status::success);
        std::this_thread::sleep_for(1ms);
    }
    enough.store(true);
    writes.join();
    enters.join();
    std::sort(times.begin(), times.end());
    CHECK(times[times.size() / 2] < 500ms); // includes the time for which the system lets a thread
                                            // wait
}

TEST_CASE("a queue pair that is reset is connected again, and direct again")
{
    two t;
    for (int round = 0; round < 5; ++round) {
        t.make_direct();
        t.a.pair.disconnect(false);
        CHECK(is(t.a.next(), connection_event::disconnected));
        CHECK(is(t.b.next(), connection_event::disconnected));
        REQUIRE(t.here.hca.reset_pair(t.a.pair));
        REQUIRE(t.there.hca.reset_pair(t.b.pair));
        REQUIRE(establish(t.a, t.b));
    }
}

TEST_CASE("a copy whose guard does not stand is not made")
{
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    process_mark mark{0, {1, 2, 3}};
    mark.at = reinterpret_cast<std::uintptr_t>(mark.bytes);
    local_process self;
    REQUIRE(self.open(ends[0], mark) == local_obstacle::none);
    std::atomic<std::uint64_t> gate{7};
    std::uint64_t from = 5;
    std::uint64_t to = 0;
    const auto at = reinterpret_cast<std::uintptr_t>(&to);
    const bytes_view piece{&from, 8};
    CHECK(self.write(at, &piece, 1, 8, {&gate, 8}) == local_process::interrupted);
    CHECK(to == 0);
    CHECK(self.write(at, &piece, 1, 8, {&gate, 7}) == 8);
    CHECK(to == 5);
    const bytes_view into{&to, 8};
    CHECK(self.write(8, &piece, 1, 8, {&gate, 7}) == 0); // an address that is not mapped
    CHECK(local_socket::is_connected(ends[0]));
    close(ends[1]);
    CHECK(!local_socket::is_connected(ends[0]));
    CHECK(self.look() == local_process::presence::proven);
    CHECK(self.fetch(&piece, 1, &into, 1, {&gate, 8}) == local_process::interrupted);
    from = 7;
    CHECK(self.fetch(&piece, 1, &into, 1, {&gate, 7}) == 8);
    CHECK(to == 7);
    from = 11;
    CHECK(self.fetch_proven(&piece, 1, &into, 1, {&gate, 8}) == local_process::interrupted);
    CHECK(self.fetch_proven(&piece, 1, &into, 1, {&gate, 7}) == 8);
    CHECK(to == 11);
    mark.bytes[15] = 9;
    CHECK(self.look() == local_process::presence::gone);
    CHECK(self.fetch_proven(&piece, 1, &into, 1, {&gate, 7}) == 0);
    close(ends[0]);
}

TEST_CASE("signals may interrupt an access anywhere")
{
    two t;
    t.make_direct();
    struct sigaction quiet {};
    quiet.sa_handler = [](int) {};
    struct sigaction before {};
    REQUIRE(sigaction(SIGUSR1, &quiet, &before) == 0);
    const pthread_t here = pthread_self();
    std::atomic<bool> enough{false};
    std::thread sender([&] {
        while (!enough.load())
            pthread_kill(here, SIGUSR1);
    });
    const std::uint64_t moved = t.a.counts().direct;
    const unsigned wanted = rounds(4'000);
    for (unsigned i = 0; i < wanted; ++i) {
        std::memcpy(&t.a.buffer.bytes[0], &i, sizeof i);
        REQUIRE(t.a.write(0, 64, t.b.buffer.remote(64, 64)));
        expect(t.a.sent(), work_status::success);
        REQUIRE(std::memcmp(&t.b.buffer.bytes[64], &i, sizeof i) == 0);
        t.a.requests.clear();
    }
    enough.store(true);
    sender.join();
    CHECK(t.a.counts().direct - moved > wanted / 2);
    REQUIRE(sigaction(SIGUSR1, &before, nullptr) == 0);
}

// -------------------------------------------------------------------------------- hostile peers

namespace {

/// Direct access alone, which a test calls as a peer: connection 100 is its own, 200 the peer's.
struct called {
    called()
    {
        REQUIRE(waiting.open());
        REQUIRE(access.open(waiting) == local_obstacle::none);
        net_address any = on_loopback().address;
        REQUIRE(socket.open(any, false) == 0); // reserves a port for the name of the local socket
        at = socket.address();
        access.listen(at);
        REQUIRE(board.create(sizeof(direct_board)));
        shown().begin();
        said.edition = direct_edition;
        said.gate = 2;
        said.token = 11;
        said.mark = mark_of(mark);
        link = access.begin(at, at, {100, 101, 200, 201, false}, &zone);
        REQUIRE(link != nullptr);
        region.address = reinterpret_cast<std::uintptr_t>(bytes);
        region.length = sizeof bytes;
        region.rights = remote_read | remote_write;
        region.domain = &zone;
        region.key.store(55);
        access.show(region);
    }
    ~called()
    {
        access.end(link);
        local_socket::close(mine);
        access.close();
    }
    direct_board &shown() { return *static_cast<direct_board *>(board.bytes()); }
    static process_mark mark_of(const std::uint8_t (&bytes)[16])
    {
        process_mark made;
        made.at = reinterpret_cast<std::uintptr_t>(bytes);
        std::memcpy(made.bytes, bytes, sizeof bytes);
        return made;
    }
    void call()
    {
        mine = local_socket::connect(at);
        REQUIRE(mine >= 0);
    }
    /// Calls about the connection, and takes the answer. False if none comes, or it is wrong.
    bool greet(const std::function<void(direct_call &)> &change = [](direct_call &) {})
    {
        call();
        REQUIRE(greeting.begin(names));
        direct_call first = greeting.call();
        change(first);
        CHECK(local_socket::send(mine, &first, sizeof first));
        access.serve(); // accepts
        access.serve();
        direct_answer answer{};
        (void)local_socket::permit_files(mine, true);
        return local_socket::receive(mine, &answer, sizeof answer) == sizeof answer &&
               greeting.take(answer);
    }
    bool send_hello(waitable file, waitable ring = -1, std::size_t size = sizeof(direct_hello))
    {
        return local_socket::send(mine, &said, size, file, ring);
    }
    /// The peer's hello; an edition of 0 when there is none.
    direct_hello heard()
    {
        access.serve();
        direct_hello answer{};
        waitable theirs = -1;
        waitable ring = -1;
        const auto got = local_socket::receive(mine, &answer, sizeof answer, theirs, ring);
        if (got != sizeof answer || !greeting.is_proven(answer))
            answer.edition = 0;
        if (theirs >= 0)
            their_board.map(theirs, sizeof(direct_board));
        local_socket::close(ring);
        zone_secret = answer.zone;
        return answer;
    }
    /// The answer to a hello of ours.
    direct_hello say(waitable file, std::size_t size = sizeof(direct_hello))
    {
        if (!greet())
            return {};
        greeting.prove(said);
        CHECK(send_hello(file, -1, size));
        return heard();
    }
    /// We are in an access of its region, through the gate that we have told.
    void claim() { shown().claim(said.gate, name_of(55).name); }
    /// The name that the peer gives, which has told us the secret of the zone.
    board_name name_of(std::uint32_t key) { return board_name::of(zone_secret, key); }
    std::chrono::milliseconds time_of(const std::function<void()> &what)
    {
        const auto began = std::chrono::steady_clock::now();
        what();
        return std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - began);
    }
    descriptor_set waiting;
    udp_io socket;
    net_address at;
    protection_domain zone;
    direct_access access;
    direct_link *link = nullptr;
    shared_memory board;
    shared_memory their_board;
    direct_names names{200, 201, 100, 101, true};
    direct_greeting greeting;
    direct_hello said{};
    osd::siphash_key zone_secret;
    std::uint8_t mark[16] = {1, 2, 3};
    waitable mine = -1;
    memory_region region;
    std::uint8_t bytes[4096] = {};
};

} // namespace

TEST_CASE("who says what the peer of a connection knows is answered")
{
    called c;
    const direct_hello answer = c.say(c.board.file());
    CHECK(answer.edition == direct_edition);
    REQUIRE(c.their_board.is_open());
    const auto &theirs = *static_cast<const direct_board *>(c.their_board.bytes());
    const direct_target to{remote_write, c.region.address, 4096};
    const board_name name = board_name::of(answer.zone, 55);
    CHECK(theirs.permits(answer.gate, answer.token, name, to));
    c.access.end(c.link);
    CHECK(!theirs.permits(answer.gate, answer.token, name, to));
}

TEST_CASE("a connection of one zone finds nothing of another on the board")
{
    called c;
    protection_domain other;
    memory_region there;
    there.address = c.region.address;
    there.length = c.region.length;
    there.rights = remote_read | remote_write;
    there.domain = &other;
    there.key.store(56);
    c.access.show(there);
    const direct_hello answer = c.say(c.board.file());
    REQUIRE(c.their_board.is_open());
    const auto &theirs = *static_cast<const direct_board *>(c.their_board.bytes());
    const direct_target to{remote_write, c.region.address, 1};
    CHECK(theirs.permits(answer.gate, answer.token, board_name::of(answer.zone, 55), to));
    CHECK(!theirs.permits(answer.gate, answer.token, board_name::of(answer.zone, 56), to));
    c.access.withdraw(56, &other);
}

TEST_CASE("who calls about a connection that is not there gets no answer")
{
    called c;
    const std::size_t before = descriptors().size();
    const auto refused = [&](const std::function<void(direct_call &)> &change) {
        const bool silent = !c.greet(change);
        local_socket::close(std::exchange(c.mine, -1));
        return silent;
    };
    CHECK(refused([](direct_call &said) { ++said.edition; }));
    CHECK(refused([](direct_call &said) { ++said.proof; }));
    CHECK(refused([](direct_call &said) { ++said.to_id; }));
    CHECK(refused([](direct_call &said) { ++said.from_id; }));
    CHECK(!refused([](direct_call &) {}));
    c.access.serve();
    CHECK(descriptors().size() == before);
}

TEST_CASE("who does not know the tags of a connection is not answered, and sends no file")
{
    called c;
    const std::size_t before = descriptors().size();
    c.names.tag = 202; // guessed
    CHECK(!c.greet());
    c.greeting.prove(c.said);
    CHECK(!c.send_hello(c.board.file()));
    CHECK(c.heard().edition == 0);
    CHECK(!c.their_board.is_open());
    local_socket::close(std::exchange(c.mine, -1));
    c.access.serve();
    CHECK(descriptors().size() == before);
    c.names.tag = 201;
    CHECK(c.say(c.board.file()).edition != 0);
}

TEST_CASE("a hello is good for one greeting only")
{
    called c;
    REQUIRE(c.greet());
    c.greeting.prove(c.said);
    const direct_hello recorded = c.said;
    local_socket::close(std::exchange(c.mine, -1));
    REQUIRE(c.greet());
    c.said = recorded;
    CHECK(c.send_hello(c.board.file()));
    CHECK(c.heard().edition == 0);
}

TEST_CASE("who says anything else is not, and leaves nothing behind")
{
    called c;
    const std::size_t before = descriptors().size();
    const auto refused = [&](const std::function<void(direct_hello &)> &change) {
        const direct_hello good = c.said;
        change(c.said);
        const bool silent = c.say(c.board.file()).edition == 0;
        c.said = good;
        local_socket::close(std::exchange(c.mine, -1));
        return silent;
    };
    CHECK(refused([](direct_hello &h) { ++h.edition; }));
    CHECK(refused([](direct_hello &h) { h.token = 0; }));
    CHECK(refused([](direct_hello &h) { h.gate = direct_board::gates; }));
    CHECK(refused([](direct_hello &h) { h.mark.bytes[5] = 9, h.mark.at = 0; }));
    std::uint8_t other[16] = {};
    CHECK(refused([&](direct_hello &h) { h.mark.at = reinterpret_cast<std::uintptr_t>(other); }));
    CHECK(c.say(c.board.file(), sizeof(direct_hello) - 1).edition == 0);
    local_socket::close(std::exchange(c.mine, -1));
    REQUIRE(c.greet());
    c.greeting.prove(c.said);
    ++c.said.token; // changes the token after the proof
    CHECK(c.send_hello(c.board.file()));
    CHECK(c.heard().edition == 0);
    local_socket::close(std::exchange(c.mine, -1));
    const int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
    REQUIRE(ftruncate(unsealed, sizeof(direct_board)) == 0);
    CHECK(c.say(unsealed).edition == 0);
    local_socket::close(std::exchange(c.mine, -1));
    close(unsealed);
    shared_memory no_board;
    REQUIRE(no_board.create(sizeof(direct_board)));
    CHECK(c.say(no_board.file()).edition == 0);
    local_socket::close(std::exchange(c.mine, -1));
    no_board.close();
    c.access.serve();
    CHECK(descriptors().size() == before);
    CHECK(c.say(c.board.file()).edition != 0); // the peer is heard nevertheless
}

TEST_CASE("who cannot be answered is no peer, though it is one by another connection")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    const waitable first = std::exchange(c.mine, -1);
    c.names.peer_id = 300;
    c.said.gate = 3;
    direct_link *link = c.access.begin(c.at, c.at, {300, 101, 200, 201, false}, &c.zone);
    REQUIRE(link != nullptr);
    REQUIRE(c.greet());
    c.greeting.prove(c.said);
    CHECK(c.send_hello(c.board.file()));
    local_socket::close(std::exchange(c.mine, -1));
    c.access.serve();
    c.access.serve();
    CHECK(link->outcome() == local_obstacle::no_answer);
    c.access.end(link);
    local_socket::close(first);
}

TEST_CASE("random words in place of a message do no harm")
{
    called c;
    const std::size_t before = descriptors().size();
    std::mt19937_64 random(11);
    for (unsigned i = 0; i < rounds(2000); ++i) {
        std::uint64_t words[12];
        for (std::uint64_t &each : words)
            each = random();
        if (i % 3 == 0) {
            c.call();
            (void)local_socket::send(c.mine, words, random() % sizeof words);
        } else if (i % 3 == 1) {
            (void)c.greet([&](direct_call &first) {
                reinterpret_cast<std::uint32_t *>(&first)[random() % (sizeof first / 4)] ^=
                    1u << random() % 32;
            });
        } else if (c.greet()) {
            direct_hello almost = c.said;
            c.greeting.prove(almost);
            reinterpret_cast<std::uint32_t *>(&almost)[random() % (sizeof almost / 4)] ^=
                1u << random() % 32;
            (void)local_socket::send(c.mine, &almost, sizeof almost, c.board.file());
        }
        c.access.serve();
        local_socket::close(std::exchange(c.mine, -1));
    }
    c.access.serve();
    CHECK(descriptors().size() == before);
}

TEST_CASE("callers that say nothing do not keep out those who do")
{
    called c;
    std::vector<waitable> silent;
    for (int i = 0; i < 200; ++i)
        silent.push_back(local_socket::connect(c.at));
    CHECK(c.say(c.board.file()).edition != 0);
    for (const waitable each : silent)
        local_socket::close(each);
}

TEST_CASE("a caller that is held up is not displaced by others that come and go")
{
    called c;
    REQUIRE(c.greet());
    for (int i = 0; i < 100; ++i) {
        const waitable other = local_socket::connect(c.at);
        c.access.serve();
        local_socket::close(other);
        c.access.serve();
    }
    c.greeting.prove(c.said);
    CHECK(c.send_hello(c.board.file()));
    CHECK(c.heard().edition != 0);
}

TEST_CASE("a withdrawal waits for the peer's access, not for ever, and not for the dead")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    c.claim();
    SUBCASE("that ends")
    {
        std::thread ends([&] {
            std::this_thread::sleep_for(100ms);
            c.shown().end_claim(c.said.gate);
        });
        c.access.withdraw(55, &c.zone);
        CHECK(c.shown().claimed(c.said.gate) == 0);
        CHECK(!c.link->is_stuck());
        ends.join();
    }
    SUBCASE("that goes on with another key")
    {
        std::thread ends([&] {
            std::this_thread::sleep_for(100ms);
            c.shown().claim(c.said.gate, c.name_of(56).name);
        });
        CHECK(c.time_of([&] { c.access.withdraw(55, &c.zone); }) < 900ms);
        CHECK(!c.link->is_stuck());
        ends.join();
        c.shown().end_claim(c.said.gate);
    }
    SUBCASE("that does not end")
    {
        const std::clock_t used = std::clock();
        const auto took = c.time_of([&] { c.access.withdraw(55, &c.zone); });
        CHECK(std::clock() - used < CLOCKS_PER_SEC / 4);
        CHECK(took >= 990ms);
        CHECK(took < 5000ms);
        CHECK(c.link->is_stuck());
        CHECK(c.time_of([&] { c.access.end(c.link); }) < 500ms); // it was waited for already
    }
    SUBCASE("of one that has gone")
    {
        local_socket::close(std::exchange(c.mine, -1));
        CHECK(c.time_of([&] { c.access.withdraw(55, &c.zone); }) < 500ms);
        CHECK(!c.link->is_stuck());
    }
    SUBCASE("by the end of the connection")
    {
        const auto took = c.time_of([&] { c.access.end(c.link); });
        CHECK(took >= 990ms);
        CHECK(took < 5000ms);
    }
}

namespace {

/// Another peer of `of`, which is in an access through its gate.
struct accessing_peer {
    accessing_peer(called &of, std::uint32_t id) : of_(of)
    {
        REQUIRE(board.create(sizeof(direct_board)));
        auto &shown = *static_cast<direct_board *>(board.bytes());
        shown.begin();
        link = of.access.begin(of.at, of.at, {id, 101, 200, 201, false}, &of.zone);
        REQUIRE(link != nullptr);
        of.names.peer_id = id;
        REQUIRE(of.say(board.file()).edition != 0);
        socket = std::exchange(of.mine, -1);
        shown.claim(of.said.gate, of.name_of(55).name);
    }
    accessing_peer(const accessing_peer &) = delete;
    accessing_peer &operator=(const accessing_peer &) = delete;
    ~accessing_peer()
    {
        local_socket::close(socket);
        of_.access.end(link);
    }
    shared_memory board;
    direct_link *link = nullptr;
    waitable socket = -1;

private:
    called &of_;
};

} // namespace

TEST_CASE("a withdrawal waits for many peers no longer than for one")
{
    called c;
    std::deque<accessing_peer> peers;
    for (std::uint32_t i = 0; i < 10; ++i)
        peers.emplace_back(c, 1000 + i);
    const auto took = c.time_of([&] { c.access.withdraw(55, &c.zone); });
    CHECK(took >= 990ms);
    CHECK(took < 5000ms);
    for (const accessing_peer &each : peers)
        CHECK(each.link->is_stuck());
}

TEST_CASE("the ends of many connections of a peer wait no longer than that of one")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    std::vector<direct_link *> others;
    std::vector<waitable> sockets;
    for (std::uint32_t i = 0; i < 40; ++i) {
        others.push_back(c.access.begin(c.at, c.at, {1000 + i, 101, 200, 201, false}, &c.zone));
        sockets.push_back(std::exchange(c.mine, -1));
        c.names.peer_id = 1000 + i;
        REQUIRE(c.say(c.board.file()).edition != 0);
    }
    c.claim(); // claims by the common gate
    CHECK(c.time_of([&] { c.access.end(c.link); }) >= 990ms);
    CHECK(c.time_of([&] {
        for (direct_link *each : others)
            c.access.end(each);
    }) < 2000ms);
    for (const waitable each : sockets)
        local_socket::close(each);
}

TEST_CASE("a withdrawal waits for the accesses of a connection that is about to end, too")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    c.claim();
    std::thread ends([&] { c.access.end(c.link); }); // waits for this access as well
    std::thread goes_on([&] {
        std::this_thread::sleep_for(300ms);
        c.shown().end_claim(c.said.gate);
    });
    std::this_thread::sleep_for(50ms);
    c.access.withdraw(55, &c.zone);
    CHECK(c.shown().claimed(c.said.gate) == 0);
    ends.join();
    goes_on.join();
}

TEST_CASE("a peer that was stopped once is waited for when it goes on")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    c.claim();
    c.access.withdraw(55, &c.zone);
    REQUIRE(c.link->is_stuck());
    std::uint32_t key = 55;
    const auto waits = [&](const std::function<void()> &what) {
        c.shown().claim(c.said.gate, c.name_of(key).name);
        std::thread goes_on([&] {
            std::this_thread::sleep_for(20ms);
            c.shown().end_claim(c.said.gate);
        });
        what();
        const bool ended = c.shown().claimed(c.said.gate) == 0;
        goes_on.join();
        return ended;
    };
    // The wait is short, and on a busy machine that thread comes too late now and then.
    bool waited = false;
    while (!waited && ++key <= 65) {
        c.region.key.store(key);
        c.access.show(c.region);
        waited = waits([&] { c.access.withdraw(key, &c.zone); });
    }
    CHECK(waited);
    CHECK(waits([&] { c.access.end(c.link); }));
}

TEST_CASE("peers that have no connection any more make room for others")
{
    constexpr std::uint32_t many = 300;
    called c;
    c.access.end(c.link);
    std::vector<waitable> sockets;
    for (std::uint32_t i = 0; i < many; ++i) {
        shared_memory board;
        REQUIRE(board.create(sizeof(direct_board)));
        static_cast<direct_board *>(board.bytes())->begin();
        c.names.peer_id = 1000 + i;
        c.link = c.access.begin(c.at, c.at, {1000 + i, 101, 200, 201, false}, &c.zone);
        REQUIRE(c.link != nullptr);
        REQUIRE(c.say(board.file()).edition != 0);
        REQUIRE(c.access.obstacle() == local_obstacle::none);
        sockets.push_back(std::exchange(c.mine, -1));
        c.access.end(c.link);
    }
    for (const waitable each : sockets)
        local_socket::close(each);
}

namespace {

/// Runs in a child process, and makes it a stranger to us. False if the system does not let it.
using estrangement = bool (*)();

bool becomes_another_user()
{
    return seteuid(65534) == 0;
}

/// Enters a namespace in which the user's number stays, as in another container.
bool enters_another_pid_namespace()
{
    if (unshare(CLONE_NEWPID) != 0)
        return false;
    const pid_t inside = fork();
    if (inside == 0)
        return true;
    int status = 1;
    waitpid(inside, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

bool enters_another_user_namespace()
{
    return unshare(CLONE_NEWUSER) == 0;
}

/// A stranger listens on the name of a data socket. Returns the number of bytes that the device
/// sends to it, or -1 if there can be no such stranger here.
int told_to(estrangement becomes_a_stranger)
{
    int up[2];
    REQUIRE(pipe(up) == 0);
    udp_io named;
    net_address any = on_loopback().address;
    REQUIRE(named.open(any, false) == 0);
    const pid_t other = fork();
    if (other == 0) {
        const bool becomes = becomes_a_stranger();
        const waitable listener = local_socket::listen(named.address());
        bool works = becomes && listener >= 0;
        works = write(up[1], works ? "l" : "-", 1) == 1 && works;
        works = works && wait_for(&listener, 1, osd::deadline::after_us(60'000'000)) ==
                             osd::wait_result::woken;
        char words[256];
        const int caller = accept(static_cast<int>(listener), nullptr, nullptr);
        const auto size = static_cast<char>(recv(caller, words, sizeof words, 0));
        _exit(works && write(up[1], &size, 1) == 1 ? 0 : 1);
    }
    char word = 0;
    REQUIRE(read(up[0], &word, 1) == 1);
    if (word == 'l') {
        descriptor_set waiting;
        REQUIRE(waiting.open());
        direct_access access;
        REQUIRE(access.open(waiting) == local_obstacle::none);
        protection_domain zone;
        direct_link *link =
            access.begin(named.address(), named.address(), {1, 2, 3, 4, true}, &zone);
        access.serve();
        CHECK(link->outcome() != local_obstacle::none);
        access.end(link);
        access.close();
        REQUIRE(read(up[0], &word, 1) == 1);
    } else {
        word = -1;
    }
    waitpid(other, nullptr, 0);
    close(up[0]);
    close(up[1]);
    return word;
}

/// Connects without a look at the listener's user. Names are no secrets: the system lists them.
bool connect_by_name(waitable socket, const net_address &of)
{
    const std::string wanted = "@soft-hca/" + std::to_string(of.port()) + "/";
    std::ifstream names("/proc/net/unix");
    for (std::string line; std::getline(names, line);) {
        const std::size_t at = line.find(wanted);
        if (at == std::string::npos)
            continue;
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const std::size_t size = line.size() - at - 1;
        std::memcpy(name.sun_path + 1, line.data() + at + 1, size);
        return connect(static_cast<int>(socket), reinterpret_cast<sockaddr *>(&name),
                       static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size)) == 0;
    }
    return false;
}

/// A stranger calls, and says something with a file. Returns whether that was accepted by the
/// system: the thread that serves would have to close the file.
int takes_files_of(called &c, estrangement becomes_a_stranger)
{
    const pid_t other = fork();
    if (other == 0) {
        if (!becomes_a_stranger())
            _exit(2);
        const waitable caller = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        int ends[2];
        if (!connect_by_name(caller, c.at) || pipe(ends) != 0)
            _exit(3);
        _exit(local_socket::send(caller, "x", 1, ends[1]) ? 1 : 0);
    }
    int status = 0;
    waitpid(other, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("nothing is said to a stranger who has taken a peer's name")
{
    if (geteuid() != 0)
        return;
    CHECK(told_to(becomes_another_user) == 0);
    CHECK(told_to(enters_another_pid_namespace) <= 0);
    CHECK(told_to(enters_another_user_namespace) <= 0);
}

TEST_CASE("strangers who call are turned away")
{
    if (geteuid() != 0)
        return;
    called c;
    int ours[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ours) == 0);
    const bool can_refuse = local_socket::permit_files(ours[0], false);
    const std::size_t before = descriptors().size();
    for (const estrangement each :
         {becomes_another_user, enters_another_pid_namespace, enters_another_user_namespace}) {
        const int taken = takes_files_of(c, each);
        CHECK(taken != 3);
        CHECK((taken != 1 || !can_refuse));
        c.access.serve();
        CHECK(descriptors().size() == before);
    }
    close(ours[0]);
    close(ours[1]);
    CHECK(c.say(c.board.file()).edition != 0);
}

TEST_CASE("what strangers have sent is closed by a thread of its own")
{
    if (geteuid() != 0)
        return;
    constexpr int few = 5;
    constexpr int too_many = 2 * late_closer::most_strangers;
    const std::set<int> before = descriptors();
    files_taken_of_all.store(true);
    {
        called c;
        const auto strangers_call = [&](int times) {
            for (int i = 0; i < times; ++i)
                REQUIRE(takes_files_of(c, becomes_another_user) == 1);
        };
        watched_closes_now.count.store(0);
        watched_closes_now.of_thread.store(osd::thread_id()); // the other thread's take long
        strangers_call(few);
        c.access.serve();
        CHECK(watched_closes_now.count.load() == 0);
        CHECK(c.say(c.board.file()).edition != 0); // a sound caller is not kept waiting
        const int so_far = watched_closes_now.count.load();
        strangers_call(too_many);
        for (int i = 0; i < 4; ++i)
            c.access.serve();
        const waitable any = c.waiting.descriptor();
        CHECK(wait_for(&any, 1, osd::deadline::passed()) == osd::wait_result::timed_out);
        CHECK(watched_closes_now.count.load() == so_far);
        c.access.end(c.link);
        c.access.close(); // does not wait for them
    }
    watched_closes_now.of_thread.store(0);
    files_taken_of_all.store(false);
    CHECK(becomes_true([&] { return descriptors() == before; })); // it goes on until all are closed
}

TEST_CASE("a connection that ends while its peer shows itself has no ring afterwards")
{
    called c;
    c.access.end(c.link);
    ring_paths rings;
    int with_ring = 0;
    for (std::uint32_t i = 0; i < rounds(300); ++i) {
        shared_memory theirs;
        REQUIRE(theirs.create(sizeof(ring_file)));
        static_cast<ring_file *>(theirs.bytes())->begin();
        c.names.peer_id = 1000 + i;
        c.link = c.access.begin(c.at, c.at, {1000 + i, 101, 200, 201, false}, &c.zone, {}, &rings);
        REQUIRE(c.link != nullptr);
        const direct_link *const ended = c.link;
        REQUIRE(c.greet());
        c.greeting.prove(c.said);
        REQUIRE(c.send_hello(c.board.file(), theirs.file()));
        std::thread serves([&] { c.access.serve(); });
        std::this_thread::sleep_for(std::chrono::microseconds(i % 100));
        with_ring += ended->ring().load() != nullptr ? 1 : 0;
        c.access.end(c.link);
        serves.join();
        CHECK(ended->ring().load() == nullptr);
        local_socket::close(std::exchange(c.mine, -1));
    }
    MESSAGE(with_ring << " had one before");
    rings.close();
}

TEST_CASE("the ring of a peer that has gone is not used any more")
{
    called c;
    c.access.end(c.link);
    ring_paths rings;
    shared_memory theirs;
    REQUIRE(theirs.create(sizeof(ring_file)));
    auto &file = *static_cast<ring_file *>(theirs.bytes());
    file.begin();
    file.attention.store(ring_attention::awake);
    c.link = c.access.begin(c.at, c.at, {100, 101, 200, 201, false}, &c.zone, {}, &rings);
    REQUIRE(c.link != nullptr);
    REQUIRE(c.greet());
    c.greeting.prove(c.said);
    REQUIRE(c.send_hello(c.board.file(), theirs.file()));
    c.access.serve();
    ring_path *const ring = c.link->ring().load();
    REQUIRE(ring != nullptr);
    CHECK(ring->is_attended());
    local_socket::close(std::exchange(c.mine, -1));
    c.access.serve();
    CHECK(!ring->is_attended());
    c.access.end(c.link);
    rings.close();
}

TEST_CASE("callers for whom there is no descriptor are turned away")
{
    called c;
    std::vector<waitable> callers;
    for (int i = 0; i < 5; ++i)
        callers.push_back(local_socket::connect(c.at));
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit used_up = before;
    used_up.rlim_cur = static_cast<rlim_t>(callers.back()) + 1;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &used_up) == 0);
    std::vector<int> others;
    for (int fd = 0; (fd = dup(0)) >= 0;)
        others.push_back(fd);
    c.access.serve();
    const waitable any = c.waiting.descriptor();
    CHECK(wait_for(&any, 1, osd::deadline::passed()) == osd::wait_result::timed_out);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    for (const int each : others)
        close(each);
    for (const waitable each : callers)
        local_socket::close(each);
    CHECK(c.say(c.board.file()).edition != 0);
}

namespace {

/// Calls a name so often, and hangs up each time.
void call_and_hang_up(const net_address &name, int times)
{
    for (int i = 0; i < times; ++i)
        local_socket::close(local_socket::connect(name));
}

} // namespace

TEST_CASE("many callers, of whatever user, do not keep the thread from doing something else")
{
    constexpr int many = 600;
    called c;
    const auto has_work = [&] {
        const waitable any = c.waiting.descriptor();
        return wait_for(&any, 1, osd::deadline::passed()) == osd::wait_result::woken;
    };
    SUBCASE("of this user")
    {
        call_and_hang_up(c.at, many);
    }
    SUBCASE("of another")
    {
        if (geteuid() != 0)
            return;
        const pid_t other = fork();
        if (other == 0) {
            if (seteuid(65534) == 0)
                call_and_hang_up(c.at, many);
            _exit(0);
        }
        waitpid(other, nullptr, 0);
    }
    c.access.serve();
    CHECK(has_work()); // some were left, and wake it again
    for (int i = 0; i < many && has_work(); ++i)
        c.access.serve();
    CHECK(!has_work());
    CHECK(c.say(c.board.file()).edition != 0);
}

TEST_CASE("without enough descriptors none are kept")
{
    descriptor_set waiting;
    REQUIRE(waiting.open());
    const std::size_t before = descriptors().size();
    rlimit usual{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    for (rlim_t more = 0; more < 5; ++more) {
        rlimit few = usual;
        few.rlim_cur = static_cast<rlim_t>(waiting.descriptor()) + 1 + more;
        REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
        direct_access access;
        const local_obstacle why = access.open(waiting);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
        CHECK((why == local_obstacle::none || descriptors().size() == before));
    }
}

TEST_CASE("of more connections than gates the last are not direct, until others end")
{
    called c;
    std::vector<direct_link *> links;
    for (std::uint32_t i = 1; i < direct_board::gates; ++i)
        links.push_back(c.access.begin(c.at, c.at, {100 + i, 101, 200, 201, false}, &c.zone));
    CHECK(std::count(links.begin(), links.end(), nullptr) == 0);
    const direct_names last{99, 101, 200, 201, false};
    CHECK(c.access.begin(c.at, c.at, last, &c.zone) == nullptr);
    c.access.end(links[7]);
    CHECK((links[7] = c.access.begin(c.at, c.at, last, &c.zone)) != nullptr);
    CHECK(c.say(c.board.file()).edition != 0);
    for (direct_link *each : links)
        c.access.end(each);
}

TEST_CASE("a peer that talks on is not kept awake for")
{
    called c;
    REQUIRE(c.say(c.board.file()).edition != 0);
    (void)local_socket::send(c.mine, "x", 1);
    c.access.serve();
    const waitable any = c.waiting.descriptor();
    CHECK(wait_for(&any, 1, osd::deadline::passed()) == osd::wait_result::timed_out);
}

namespace {

/// The names of the regions on these boards.
std::set<std::uint64_t> region_names(const std::vector<direct_board *> &boards)
{
    constexpr std::size_t first = 64 + direct_board::gates * 128;
    std::set<std::uint64_t> found;
    for (const direct_board *each : boards)
        for (std::size_t at = first; at < sizeof(direct_board); at += 32) {
            std::uint64_t name = 0;
            std::memcpy(&name, reinterpret_cast<const std::uint8_t *>(each) + at, sizeof name);
            found.insert(name);
        }
    return found;
}

} // namespace

TEST_CASE("a connection whose peer does not end its access breaks, and others do not")
{
    two t;
    t.make_direct();
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    REQUIRE(becomes_direct(c, d.buffer.remote(0, 1)));
    const std::vector<direct_board *> boards = own_boards();
    REQUIRE(boards.size() == 2);
    const std::set<std::uint64_t> others = region_names(boards);
    memory some(t.there, 4096);
    std::set<std::uint64_t> names = region_names(boards);
    std::erase_if(names, [&](std::uint64_t each) { return others.contains(each); });
    REQUIRE(names.size() == 1);
    for (direct_board *each : boards) // the first links of their devices are of a and b
        each->claim(0, *names.begin());
    CHECK(t.there.hca.remove_region(some.region));
    CHECK(is(t.b.next(), connection_event::broken));
    CHECK(is(t.a.next(), connection_event::broken));
    const auto told = t.b.ended();
    REQUIRE(told.has_value());
    CHECK(told->cause == end_cause::access_stuck);
    CHECK(told->counts.direct > 0);
    for (direct_board *each : boards)
        each->end_claim(0);
    REQUIRE(c.write(0, 64, d.buffer.remote(0, 64)));
    expect(c.sent(), work_status::success);
}

// --------------------------------------------------------------------------------- other processes

namespace {

struct offer {
    std::uint64_t qualifier;
    remote_segment memory;
};

/// A child that accepts a connection, shows its memory, and stays until it is killed.
struct accepting_child {
    explicit accepting_child(const std::function<void()> &first)
    {
        int up[2];
        REQUIRE(pipe(up) == 0);
        id = fork();
        if (id == 0) {
            first();
            host there(with_direct());
            end b(there);
            door at(there);
            const offer made{at.number, b.buffer.remote(0, 1 << 20)};
            if (write(up[1], &made, sizeof made) != sizeof made)
                _exit(1);
            for (;;)
                if (inbound_request *request = at.next(1000s); request != nullptr)
                    (void)b.pair.accept(*request, nullptr, 0);
        }
        close(up[1]);
        REQUIRE(read(up[0], &told, sizeof told) == sizeof told);
        close(up[0]);
    }
    ~accepting_child()
    {
        kill(id, SIGKILL);
        waitpid(id, nullptr, 0);
    }
    pid_t id = 0;
    offer told{};
};

void connect(end &own, const accepting_child &to)
{
    REQUIRE(own.pair.connect(own.of.hca.settings().address, to.told.qualifier, nullptr, 0) ==
            queue_pair::start::begun);
    REQUIRE(is(own.next(), connection_event::established));
}

/// What a process answers that may not make a system call, and opens a device: no more may end.
int opened_under(long forbidden, std::uint32_t answer)
{
    const pid_t child = fork();
    if (child != 0) {
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        return status;
    }
    constexpr auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(forbidden), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{std::size(program), program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(2);
    two t;
    exercise(t.a, t.b, 5);
    _exit(t.here.hca.without_direct() != local_obstacle::none && t.a.counts().direct == 0 ? 0 : 1);
}

} // namespace

TEST_CASE("where system calls are forbidden, everything goes over the network")
{
    for (const long each : {SYS_process_vm_readv, SYS_process_vm_writev})
        for (const std::uint32_t answer :
             {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS}) {
            CAPTURE(each);
            CAPTURE(answer);
            CHECK(opened_under(each, answer) == 0);
        }
}

TEST_CASE("a process that is stopped is written to and read from")
{
    accepting_child child([] {});
    host here(with_direct());
    end a(here);
    connect(a, child);
    REQUIRE(becomes_direct(a, child.told.memory));
    kill(child.id, SIGSTOP);
    a.buffer.fill(0, 300'000, 8);
    remote_segment to = child.told.memory;
    to.length = 300'000;
    REQUIRE(a.write(0, 300'000, to));
    expect(a.sent(0ms), work_status::success);
    REQUIRE(a.read(400'000, 300'000, to));
    expect(a.sent(0ms), work_status::success);
    CHECK(a.buffer.holds(400'000, 300'000, 8));
    kill(child.id, SIGCONT);
}

TEST_CASE("a process that has started another program is not taken for what it was")
{
    udp_io named;
    net_address any = on_loopback().address;
    REQUIRE(named.open(any, false) == 0);
    const waitable listener = local_socket::listen(named.address());
    REQUIRE(listener >= 0);
    process_mark mark{0, {1, 2, 3}};
    mark.at = reinterpret_cast<std::uintptr_t>(mark.bytes);
    const pid_t child = fork();
    if (child == 0) {
        const waitable socket = local_socket::connect(named.address());
        const pid_t parent = getpid();
        if (socket >= 0 &&
            fork() == 0) { // a process that keeps the socket open, and goes with its parent
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (getppid() == parent) // the parent may have gone before
                pause();
            _exit(0);
        }
        execlp("sleep", "sleep", "1000", nullptr);
        _exit(1);
    }
    REQUIRE(wait_for(&listener, 1, osd::deadline::after_us(60'000'000)) == osd::wait_result::woken);
    local_process other;
    const waitable caller = local_socket::accept(listener);
    REQUIRE(other.open(caller, mark) == local_obstacle::none);
    const auto runs_sleep = [&] {
        std::string name;
        std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
        return name == "sleep";
    };
    REQUIRE(becomes_true(runs_sleep));
    CHECK(other.look() == local_process::presence::gone);
    std::uint8_t byte = 0;
    const bytes_view here{&byte, 1};
    const bytes_view there{mark.bytes, 1};
    CHECK(other.fetch_proven(&there, 1, &here, 1, {}) == 0);
    CHECK(local_socket::is_connected(caller));
    local_socket::close(caller);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    local_socket::close(listener);
}

TEST_CASE("the end of a process, and its execve, show at once")
{
    bool executes = false;
    SUBCASE("it executes another program")
    {
        executes = true;
    }
    SUBCASE("it is killed") {}
    shared_memory board;
    REQUIRE(board.create(sizeof(life_mark)));
    auto &life = *static_cast<life_mark *>(board.bytes());
    CHECK(!life.is_held());
    int orders[2];
    REQUIRE(pipe(orders) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::thread([&] {
            if (!life.hold())
                _exit(1);
            pause();
        }).detach();
        char go = 0;
        if (read(orders[0], &go, 1) == 1)
            execlp("sleep", "sleep", "1000", nullptr);
        _exit(1);
    }
    CHECK(becomes_true([&] { return life.is_held(); }));
    std::this_thread::sleep_for(2ms);
    CHECK(life.is_held());
    if (executes) {
        CHECK(write(orders[1], "x", 1) == 1);
        const std::string name = "/proc/" + std::to_string(child) + "/comm";
        std::string runs;
        const bool has_executed = becomes_true([&] {
            std::ifstream(name) >> runs;
            return runs == "sleep";
        });
        CHECK(has_executed);
        CHECK(!life.is_held());
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(!life.is_held());
    std::thread([&] {
        CHECK(life.hold());
        CHECK(life.is_held());
    }).join();
    CHECK(!life.is_held());
    close(orders[0]);
    close(orders[1]);
}

TEST_CASE("a process of another user is reached over the network")
{
    if (geteuid() != 0)
        return;
    accepting_child child([] {
        if (seteuid(65534) != 0)
            _exit(1);
    });
    host here(with_direct());
    end a(here);
    connect(a, child);
    remote_segment to = child.told.memory;
    to.length = 1000;
    for (int i = 0; i < 20; ++i) {
        REQUIRE(a.write(0, 1000, to));
        expect(a.sent(), work_status::success);
        std::this_thread::sleep_for(2ms);
    }
    CHECK(a.counts().direct == 0);
    CHECK(becomes_true([&] { return here.hca.direct.obstacle() != local_obstacle::none; }));
}

TEST_CASE("a killed process ends its connections, and its numbers are not taken for another's")
{
    for (int round = 0; round < 5; ++round) {
        accepting_child child([] {});
        host here(with_direct());
        end a(here);
        connect(a, child);
        REQUIRE(becomes_direct(a, child.told.memory));
        kill(child.id, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(round * 5));
        remote_segment to = child.told.memory;
        to.length = 8;
        std::optional<completion_record> done;
        do {
            REQUIRE(a.write(0, 8, to));
            done = a.sent();
            REQUIRE(done.has_value());
        } while (done->status == work_status::success);
        const auto event = a.next();
        REQUIRE(event.has_value());
        CHECK((event->what == connection_event::broken ||
               event->what == connection_event::disconnected));
    }
}

TEST_SUITE_END();

} // namespace direct_suite
