// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Large writes lend their memory to the system instead of having it copied.
#include "rig.hpp"

#include <cerrno>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

using namespace rig;

namespace {

std::atomic<int> lent{0};          ///< calls
std::atomic<int> lending_fails{0}; ///< error number, or 0
enum class handover { whole, slow, interrupted, half, nothing, unnoticed, too_large };
std::atomic<handover> how_handed_over{handover::whole};

/// As when the function goes.
struct restore {
    ~restore()
    {
        lending_fails.store(0);
        how_handed_over.store(handover::whole);
    }
};

int fail(int error)
{
    errno = error;
    return -1;
}

settings large()
{
    settings how = on_loopback();
    how.datagram = 16384;
    how.large_datagram = 65507;
    return how;
}

struct two {
    explicit two(const settings &how = large()) : here(how), there(how)
    {
        REQUIRE(establish(a, b));
    }
    /// All of it is there, and nothing beside it.
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
    int lent_by(const std::function<void()> &work)
    {
        const int before = lent.load();
        work();
        return lent.load() - before;
    }
    host here;
    host there;
    end a{here};
    end b{there};
};

} // namespace

extern "C" ssize_t __real_vmsplice(int pipe, const iovec *pieces, std::size_t count,
                                   unsigned flags);
extern "C" ssize_t __wrap_vmsplice(int pipe, const iovec *pieces, std::size_t count, unsigned flags)
{
    if (const int error = lending_fails.load(); error != 0)
        return fail(error);
    ++lent;
    return __real_vmsplice(pipe, pieces, count, flags);
}

extern "C" ssize_t __real_splice(int from, off64_t *, int to, off64_t *, std::size_t size,
                                 unsigned flags);
extern "C" ssize_t __wrap_splice(int from, off64_t *at, int to, off64_t *there, std::size_t size,
                                 unsigned flags)
{
    static std::atomic<unsigned> turn{0};
    switch (how_handed_over.load()) {
    case handover::slow:
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        break;
    case handover::interrupted:
        if (++turn % 2 == 0)
            return fail(EINTR);
        break;
    case handover::half: // and the rest is waited for
        return __real_splice(from, at, to, there, size / 2, flags | SPLICE_F_MORE);
    case handover::nothing:
        return fail(EIO);
    case handover::unnoticed: // the header is gone
        (void)__real_splice(from, at, to, there, size, flags);
        return fail(EAGAIN);
    case handover::too_large:
        (void)__real_splice(from, at, to, there, size, flags);
        return fail(EINVAL);
    case handover::whole:
        break;
    }
    return __real_splice(from, at, to, there, size, flags);
}

TEST_SUITE_BEGIN("lending");

TEST_CASE("writes of all sizes, from and to any address, arrive as they are")
{
    two t;
    for (std::size_t from : {0, 1, 4095, 4096, 70'001})
        for (std::size_t size : {32'767, 32'768, 57'344, 57'345, 65'536, 300'001, 900'000})
            t.check_write(from, size, 77);
    CHECK(t.lent_by([&] { t.check_write(0, 32'767, 0); }) == 0);
    CHECK(t.lent_by([&] { t.check_write(0, 32'768, 0); }) == 1);
    CHECK(t.lent_by([&] { t.check_write(3, 1'000'000, 0); }) >= 17);
}

TEST_CASE("only writes in one piece lend, where both sides take large datagrams")
{
    two t;
    CHECK(t.lent_by([&] {
        REQUIRE(t.b.receive(0, 500'000));
        REQUIRE(t.a.send(0, 500'000));
        CHECK(t.b.received()->status == work_status::success);
        CHECK(t.a.sent()->status == work_status::success);
        REQUIRE(t.a.read(0, 500'000, t.b.buffer.remote(0, 500'000)));
        CHECK(t.a.sent()->status == work_status::success);
    }) == 0);
    settings small = large();
    small.large_datagram = 0;
    host there(small);
    end a(t.here), b(there);
    REQUIRE(establish(a, b));
    CHECK(t.lent_by([&] {
        REQUIRE(a.write(0, 500'000, b.buffer.remote(0, 500'000)));
        CHECK(a.sent()->status == work_status::success);
    }) == 0);
}

TEST_CASE("what the system does not let us lend is copied, and not tried again")
{
    const restore after;
    two t;
    lending_fails.store(EPERM);
    t.check_write(5, 400'000, 3);
    lending_fails.store(0);
    CHECK(t.lent_by([&] { t.check_write(5, 400'000, 3); }) == 0);
}

TEST_CASE("a handover that ends early is finished by a copy")
{
    const restore after;
    for (const handover how : {handover::interrupted, handover::half, handover::nothing}) {
        CAPTURE(static_cast<int>(how));
        two t;
        how_handed_over.store(how);
        bool resent = true; // on a busy machine by chance, but not each time
        for (int i = 0; i < 50 && resent; ++i) {
            const std::uint64_t before = t.a.resent();
            for (std::size_t size : {40'000, 300'001})
                t.check_write(123, size, 45);
            resent = t.a.resent() != before;
        }
        CHECK(!resent);
        how_handed_over.store(handover::whole);
        CHECK(t.lent_by([&] { t.check_write(1, 300'000, 2); }) > 0);
    }
}

TEST_CASE("a datagram of which nobody knows whether it went is sent again")
{
    const restore after;
    two t;
    how_handed_over.store(handover::unnoticed);
    t.check_write(123, 200'000, 45);
    CHECK(t.a.resent() > 0);
    how_handed_over.store(handover::whole);
    CHECK(t.lent_by([&] { t.check_write(1, 300'000, 2); }) > 0);
}

TEST_CASE("where datagrams are too large for the way, none is lent again")
{
    const restore after;
    two t;
    how_handed_over.store(handover::too_large);
    t.check_write(123, 200'000, 45);
    how_handed_over.store(handover::whole);
    CHECK(t.lent_by([&] { t.check_write(1, 300'000, 2); }) == 0);
}

TEST_CASE("nobody's datagram gets into another's")
{
    const restore after;
    two t;
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    how_handed_over.store(handover::slow);
    std::atomic<bool> enough{false};
    std::thread other([&] {
        while (!enough.load())
            exercise(c, d, 1);
    });
    for (unsigned i = 0; i < rounds(20); ++i)
        t.check_write(i, 500'000, 2 * i);
    enough.store(true);
    other.join();
}

TEST_CASE("on a bad network every byte is right")
{
    for (std::uint64_t seed = 1; seed <= rounds(5); ++seed) {
        CAPTURE(seed);
        settings how = large();
        how.bad_network = {50, 50, 20, 0, seed};
        two t(how);
        for (unsigned i = 0; i < 10; ++i)
            t.check_write(i, 900'000, i);
        CHECK(t.a.resent() > 0);
    }
}

TEST_CASE("no more is under way than the peer's socket holds")
{
    two t;
    constexpr std::size_t size = 1 << 20;
    const std::uint32_t room = t.b.pair.home->io().receive_room();
    const std::uint64_t before = t.a.counts().packets_out;
    t.b.pair.enter(); // nobody reads there for a while
    for (int i = 0; i < 10; ++i)
        REQUIRE(t.a.write(0, size, t.b.buffer.remote(0, size)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::uint64_t packets = t.a.counts().packets_out - t.a.resent() - before;
    t.b.pair.leave();
    CHECK(packets <= std::max<std::uint64_t>(room, 256 * 1024) / size * 20 + 1); // 20 are a write
    for (int i = 0; i < 10; ++i) {
        const auto done = t.a.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == work_status::success);
    }
}

TEST_CASE("memory that is gone fails its write, and costs others nothing")
{
    two t;
    constexpr std::size_t size = 1 << 20;
    void *mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    memory_region region;
    const std::uint32_t key =
        t.here.hca.add_region(region, t.here.domain, mapped, size, local_read | local_write);
    REQUIRE(key != 0);
    end c(t.here), d(t.there);
    REQUIRE(establish(c, d));
    ::munmap(static_cast<char *>(mapped) + size / 2, size / 2);
    request &r = c.fresh(work::write);
    r.local[0] = {reinterpret_cast<std::uintptr_t>(mapped), size, key};
    r.segments = 1;
    r.length = size;
    r.remote = d.buffer.remote(0, size);
    REQUIRE(c.post(r));
    const auto done = c.sent();
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::local_protection);
    CHECK(is(c.next(), connection_event::broken));
    CHECK(t.lent_by([&] { t.check_write(0, 900'000, 0); }) > 0);
    CHECK(t.here.hca.remove_region(region));
    ::munmap(mapped, size / 2);
}

TEST_SUITE_END();
