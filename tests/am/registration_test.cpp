// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Large transfers from and to memory outside the segment, which libdapl-am registers and forgets.
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ranks;

namespace {

constexpr std::size_t large = 1 << 16;

std::byte *map(void *at = nullptr)
{
    void *mapped = mmap(at, large, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<std::byte *>(mapped);
}

/// Maps memory that the kernel cannot join with its neighbours; null when there is none.
std::byte *map_apart(std::size_t bytes)
{
    void *around =
        mmap(nullptr, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (around == MAP_FAILED)
        return nullptr;
    std::byte *memory = static_cast<std::byte *>(around) + 4096;
    return mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0 ? memory : nullptr;
}

DAPL_AM_COUNTERS counters()
{
    DAPL_AM_COUNTERS now;
    dapl_am_get_counters(&now);
    return now;
}

/// Puts the memory to the next rank and fetches it from there. @return wrong bytes
std::size_t go_round(std::byte *memory, std::byte *there, std::uint32_t seed)
{
    fill(memory, large, me(), seed);
    if (dapl_am_put_bulk(next(), there, memory, large) != DAPL_AM_OK)
        return large;
    std::memset(memory, 0, large);
    if (dapl_am_get_bulk(next(), memory, there, large) != DAPL_AM_OK)
        return large;
    return wrong(memory, large, me(), seed);
}

/// Registrations that go_round() made, of memory that the cache knows or not.
std::uint64_t made_by(std::byte *memory, std::uint32_t seed)
{
    const DAPL_AM_COUNTERS before = counters();
    CHECK(go_round(memory, segment_of(next()), seed) == 0);
    const DAPL_AM_COUNTERS after = counters();
    const std::uint64_t made = after.registrations - before.registrations;
    CHECK(made + after.registration_hits - before.registration_hits == 2);
    return made;
}

/// Another rank there is, and the system lets memory be watched.
bool registers()
{
    if (size() == 1)
        return false;
    std::byte *memory = map();
    const std::uint64_t before = counters().registrations;
    CHECK(go_round(memory, segment_of(next()), 1) == 0);
    munmap(memory, large);
    if (counters().registrations > before)
        return true;
    MESSAGE("memory outside the segment is not registered here");
    return false;
}

/// The memory areas of the process, as the kernel counts them.
int areas()
{
    std::FILE *file = std::fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; file && (c = std::getc(file)) != EOF;)
        lines += c == '\n';
    std::fclose(file);
    return lines;
}

std::atomic<bool> watch_is_late{false};

[[maybe_unused]] bool is_watch(const pollfd *fds, nfds_t count)
{
    char path[32], target[64];
    if (count != 1)
        return false;
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fds->fd);
    const ssize_t length = readlink(path, target, sizeof target);
    return length > 0 &&
           std::string_view(target, std::size_t(length)) == "anon_inode:[userfaultfd]";
}

} // namespace

#ifdef INTERPOSE
extern "C" int poll(pollfd *fds, nfds_t count, int timeout)
{
    static const auto real = reinterpret_cast<decltype(&::poll)>(dlsym(RTLD_NEXT, "poll"));
    const int ready = real(fds, count, timeout);
    if (watch_is_late && is_watch(fds, count))
        while (watch_is_late)
            usleep(1000);
    return ready;
}
#endif

TEST_CASE("memory outside the segment is registered once, and again when it was unmapped")
{
    REQUIRE(barrier());
    if (registers()) {
        std::byte *memory = map();
        CHECK(made_by(memory, 2) == 1);
        CHECK(made_by(memory, 3) == 0);
        munmap(memory, large);
        REQUIRE(map(memory) == memory);
        CHECK(made_by(memory, 4) == 1);
        REQUIRE(map(memory) == memory); // maps over the present mapping
        CHECK(made_by(memory, 5) == 1);
        REQUIRE(madvise(memory + large / 2, 4096, MADV_DONTNEED) == 0);
        CHECK(made_by(memory, 6) == 1);
        auto *moved = static_cast<std::byte *>(
            mremap(memory, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, map()));
        REQUIRE(map(memory) == memory);
        CHECK(made_by(memory, 7) == 1);
        CHECK(made_by(moved, 8) == 1);
        munmap(moved, large);
        munmap(memory, large);
    }
    REQUIRE(barrier());
}

#ifdef INTERPOSE
TEST_CASE("memory that another thread is still unmapping is registered anew")
{
    REQUIRE(barrier());
    if (registers()) {
        std::byte *memory = map();
        CHECK(made_by(memory, 11) == 1);
        watch_is_late = true;
        std::thread unmaps([memory] { munmap(memory, large); });
        void *again = MAP_FAILED;
        while (again != memory) // free, although munmap() has not returned
            again = mmap(memory, large, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        CHECK(made_by(memory, 12) == 1);
        watch_is_late = false;
        unmaps.join();
        munmap(memory, large);
    }
    REQUIRE(barrier());
}
#endif

TEST_CASE("memory of the heap is registered anew when the heap has shrunk and grown")
{
    REQUIRE(barrier());
    if (registers()) {
        auto *memory = static_cast<std::byte *>(sbrk(large));
        CHECK(made_by(memory, 9) == 1);
        const bool ours = sbrk(0) == memory + large;
        if (ours) { // no other thread has allocated meanwhile
            (void)sbrk(-std::ptrdiff_t(large));
            (void)sbrk(std::ptrdiff_t(large));
            CHECK(made_by(memory, 10) == 1);
        }
    }
    REQUIRE(barrier());
}

TEST_CASE("more memory than can be registered at once moves unharmed")
{
    REQUIRE(barrier());
    std::vector<std::byte *> all(300);
    std::size_t bad = 0;
    std::uint32_t seed = 20;
    for (std::byte *&memory : all) {
        memory = map();
        bad += go_round(memory, segment_of(next()), ++seed);
    }
    for (std::byte *memory : all) {
        bad += go_round(memory, segment_of(next()), ++seed);
        munmap(memory, large);
    }
    CHECK(bad == 0);
    REQUIRE(barrier());
}

TEST_CASE("memory that is no longer registered is no longer watched")
{
    REQUIRE(barrier());
    if (registers()) {
        constexpr std::size_t stride = 32'768, block = 12'288;
        constexpr int puts = 2'000, gets = 500; // the latter touch the memory
        const std::size_t bytes = stride * (4 * puts + 3 * gets);
        std::byte *const mapped = map_apart(bytes);
        REQUIRE(mapped != nullptr);
        std::byte *at = mapped;
        std::byte *there = segment_of(next());
        const int before = areas();
        const std::uint64_t made = counters().registrations;
        const auto each = [&](int count, auto transfer) {
            int failed = 0;
            for (int i = 0; i < count; ++i, at += stride)
                failed += transfer() != DAPL_AM_OK;
            CHECK(failed == 0);
            dapl_am_wait_nbi();
            CHECK(areas() - before <= 600);
        };
        dapl_am_handle handle = DAPL_AM_DONE;
        each(puts, [&] { return dapl_am_put_bulk(next(), there, at, block); });
        each(puts, [&] { return dapl_am_put_nbi_bulk(next(), there, at, block); });
        each(puts, [&] { return dapl_am_put_nbi(next(), there, at, block); });
        each(puts, [&] {
            return dapl_am_request_long(next(), threads_request, at, block, there, 0, nullptr, 0);
        });
        each(gets, [&] { return dapl_am_get_bulk(next(), at, there, block); });
        each(gets, [&] { return dapl_am_get_nbi(next(), at, there, block); });
        each(gets, [&] {
            const int status = dapl_am_get_nb(next(), at, there, block, &handle);
            dapl_am_wait(handle);
            return status;
        });
        CHECK(counters().registrations - made > puts);
        CHECK(munmap(mapped + 4096, 4096) == 0);
        CHECK(mprotect(mapped + stride, 4096, PROT_READ) == 0);
        munmap(mapped - 4096, bytes + 8192);
        CHECK(areas() - before <= 10);
    }
    REQUIRE(barrier());
    counted.requests = 0;
}

TEST_CASE("memory that was emptied, moved or unmapped in part is no longer watched")
{
    REQUIRE(barrier());
    if (registers()) {
        std::byte *memory = map();
        const auto is_free = [](std::byte *begin, std::size_t bytes) {
            const int own = int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1));
            uffdio_api api{UFFD_API, 0, 0};
            uffdio_register range{};
            range.range = {reinterpret_cast<std::uint64_t>(begin), bytes};
            range.mode = UFFDIO_REGISTER_MODE_MISSING;
            const bool good =
                ioctl(own, UFFDIO_API, &api) == 0 && ioctl(own, UFFDIO_REGISTER, &range) == 0;
            close(own);
            return good;
        };
        // The kernel lets a call go on when its message has been read, and before it was acted on.
        const auto becomes_free = [&](std::byte *begin, std::size_t bytes) {
            for (int turn = 0; turn < 10'000 && !is_free(begin, bytes); ++turn)
                usleep(1000);
            return is_free(begin, bytes);
        };
        CHECK(is_free(memory, large));
        CHECK(go_round(memory, segment_of(next()), 70) == 0);
        CHECK(!is_free(memory, large)); // the memory is registered
        REQUIRE(madvise(memory, 4096, MADV_DONTNEED) == 0);
        CHECK(becomes_free(memory, large));
        CHECK(go_round(memory, segment_of(next()), 71) == 0);
        REQUIRE(munmap(memory + large / 2, 4096) == 0);
        CHECK(becomes_free(memory, large / 2));
        CHECK(becomes_free(memory + large / 2 + 4096, large / 2 - 4096));
        munmap(memory, large);
        memory = map();
        CHECK(go_round(memory, segment_of(next()), 72) == 0);
        auto *moved = static_cast<std::byte *>(
            mremap(memory, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, map()));
        REQUIRE(moved != MAP_FAILED);
        CHECK(becomes_free(moved, large));
        munmap(moved, large);
    }
    REQUIRE(barrier());
}

TEST_CASE("threads map, transfer and unmap memory at once")
{
    REQUIRE(barrier());
    std::atomic<std::size_t> bad{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([t, &bad] {
            for (int i = 0; i < 50; ++i) {
                std::byte *memory = map();
                bad += go_round(memory, segment_of(next()) + std::size_t(t) * large,
                                std::uint32_t(t * 1000 + i));
                munmap(memory, large);
            }
        });
    for (std::thread &t : threads)
        t.join();
    CHECK(bad == 0);
    REQUIRE(barrier());
}
