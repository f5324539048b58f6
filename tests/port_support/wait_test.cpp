// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a consumer sleeps, and what a port finds out about sockets that it did not open.
#include "descriptor_wait.hpp"
#include "event_thread.hpp"
#include "eventually.hpp"
#include "socket_search.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <functional>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

using namespace dapl::port_support;

namespace {

struct event_fd {
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ~event_fd() { close(fd); }
    void raise() const { eventfd_write(fd, 1); }
};

/// Both ends of a TCP connection over loopback.
struct tcp_pair {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int server = -1;

    tcp_pair()
    {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        auto *address = reinterpret_cast<sockaddr *>(&at);
        REQUIRE(bind(listener, address, size) == 0);
        REQUIRE(listen(listener, 1) == 0);
        REQUIRE(getsockname(listener, address, &size) == 0);
        REQUIRE(connect(client, address, size) == 0);
        server = accept(listener, nullptr, nullptr);
        REQUIRE(server >= 0);
    }
    ~tcp_pair()
    {
        close(listener);
        close(client);
        if (server >= 0)
            close(server);
    }
};

socket_ends ends_of(int fd)
{
    socket_ends ends;
    socklen_t size = sizeof(ends.local);
    getsockname(fd, reinterpret_cast<sockaddr *>(&ends.local), &size);
    size = sizeof(ends.peer);
    getpeername(fd, reinterpret_cast<sockaddr *>(&ends.peer), &size);
    return ends;
}

} // namespace

TEST_SUITE("descriptor_wait")
{
    TEST_CASE("a wait ends with its descriptor, its wake-up, or its time")
    {
        event_fd data, wake;
        bool readable = true;
        const osd::deadline soon = osd::deadline::after_us(2000);
        CHECK(wait_readable(data.fd, wake.fd, soon, readable) == osd::wait_result::timed_out);
        CHECK_FALSE(readable);
        CHECK(osd::now_ns() >= soon.at_ns());
        wake.raise();
        CHECK(wait_readable(data.fd, wake.fd, osd::deadline::never(), readable) ==
              osd::wait_result::woken);
        CHECK_FALSE(readable);
        data.raise();
        CHECK(wait_readable(data.fd, wake.fd, osd::deadline::never(), readable) ==
              osd::wait_result::woken);
        CHECK(readable);
        CHECK(wait_readable(data.fd, osd::deadline::never()) == osd::wait_result::woken);
        CHECK(wait_readable(wake.fd, osd::deadline::passed()) == osd::wait_result::timed_out);
    }

    TEST_CASE("a sleep that the system refuses does not keep a processor busy")
    {
        event_fd data, wake;
        event_thread thread;
        osd::mutex lock;
        REQUIRE(thread.open());
        const auto rounds_in_50_ms = [](const std::function<void()> &sleep) {
            rlimit limit{};
            REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
            const rlimit none{0, limit.rlim_max};
            REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
            const osd::deadline until = osd::deadline::after_us(50'000);
            int rounds = 0;
            for (; !until.has_passed(); ++rounds)
                sleep();
            CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            return rounds;
        };
        CHECK(rounds_in_50_ms([&] {
                  bool readable = false;
                  (void)wait_readable(data.fd, wake.fd, osd::deadline::never(), readable);
              }) <= 50);
        CHECK(rounds_in_50_ms([&] {
                  osd::lock_guard hold(lock);
                  (void)thread.wait(lock, event_thread::never);
              }) <= 50);
    }

    TEST_CASE("a wait on a descriptor that the program has closed keeps no processor busy")
    {
        event_fd data, wake;
        close(data.fd);
        const osd::deadline until = osd::deadline::after_us(50'000);
        int rounds = 0;
        for (bool readable; !until.has_passed(); ++rounds)
            (void)wait_readable(data.fd, wake.fd, until, readable);
        CHECK(rounds <= 51);
    }

    TEST_CASE("a doze ends after its time")
    {
        const std::int64_t began = osd::now_ns();
        CHECK(doze(1000, osd::deadline::never()) == osd::wait_result::timed_out);
        CHECK(osd::now_ns() - began >= 1'000'000);
        CHECK(doze(1000, osd::deadline::passed()) == osd::wait_result::timed_out);
    }

    TEST_CASE("many wake-ups in a row are spurious, and one that slept is not")
    {
        spurious_wakeups wakeups;
        std::uint64_t moved = 1;
        const auto trusted = [&] { return wakeups.doze_us([&] { return moved; }) == 0; };
        const auto stays_trusted = [&] {
            for (int i = 0; i < 10'000; ++i) {
                if (!trusted())
                    return false;
                wakeups.woke();
            }
            return true;
        };
        CHECK_FALSE(stays_trusted());
        (void)doze(1000, osd::deadline::never());
        CHECK(trusted()); // stays trusted for a few sleeps
        wakeups.woke();
        CHECK_FALSE(stays_trusted());
        CHECK(trusted());
        (void)doze(1000, osd::deadline::never());
        wakeups.woke();
        for (int i = 0; i < 32; ++i) {
            CHECK(trusted());
            wakeups.woke();
        }
    }

    TEST_CASE("wake-ups after which much is done are spurious, too, unless data have moved")
    {
        spurious_wakeups wakeups;
        std::uint64_t moved = 1;
        bool moves = false;
        int trusted = 0;
        for (int i = 0; i < 1000; ++i) {
            if (wakeups.doze_us([&] { return moves ? ++moved : moved; }) == 0) {
                ++trusted;
                wakeups.woke();
            }
            for (const std::int64_t began = osd::now_ns(); osd::now_ns() - began < 20'000;) {
            }
            moves = i >= 500;
        }
        CHECK(trusted > 500);
        CHECK(trusted < 900);
    }
}

TEST_SUITE("socket_search")
{
    TEST_CASE("a socket is found by its ends, wherever the search begins")
    {
        const tcp_pair pair;
        CHECK(find_socket(ends_of(pair.client), pair.client) == pair.client);
        CHECK(find_socket(ends_of(pair.server), 100'000) == pair.server);
        CHECK(find_socket(socket_ends{}, 0) == -1);
    }

    TEST_CASE("one that listens is found by what it has of them")
    {
        const tcp_pair pair;
        const int listener = socket(AF_INET, SOCK_STREAM, 0);
        REQUIRE(listen(listener, 1) == 0);
        socket_ends ends;
        socklen_t size = sizeof(ends.local);
        REQUIRE(getsockname(listener, reinterpret_cast<sockaddr *>(&ends.local), &size) == 0);
        CHECK(find_socket(ends, 0) == listener);
        close(listener);
    }

    TEST_CASE("bytes that move show on the socket: sent, arrived, read")
    {
        const tcp_pair pair;
        const auto sent = [&] { return bytes_moved(pair.client); };
        const auto received = [&] { return bytes_moved(pair.server); };
        const auto was_sent = sent(), was_received = received();
        REQUIRE(was_sent.has_value());
        REQUIRE(write(pair.client, "abc", 3) == 3);
        CHECK(eventually([&] { return sent() != was_sent; }));
        CHECK(eventually([&] { return received() != was_received; }));
        const auto arrived = received();
        CHECK(received() == arrived);
        char bytes[3];
        REQUIRE(read(pair.server, bytes, 3) == 3);
        CHECK(received() != arrived);
        CHECK_FALSE(bytes_moved(-1).has_value());
    }

    TEST_CASE("a connection is silent until something comes, and as before when it was read")
    {
        const tcp_pair pair;
        const auto first = unused_ms(pair.server);
        REQUIRE(first.has_value());
        CHECK(eventually([&] { return unused_ms(pair.server) > *first + 20; }));
        REQUIRE(write(pair.client, "a", 1) == 1);
        CHECK(eventually([&] { return !unused_ms(pair.server).has_value(); }));
        char byte;
        REQUIRE(read(pair.server, &byte, 1) == 1);
        CHECK(unused_ms(pair.server) == UINT32_MAX);
        REQUIRE(shutdown(pair.client, SHUT_WR) == 0);
        CHECK(eventually([&] { return !unused_ms(pair.server).has_value(); }));
        CHECK_FALSE(unused_ms(-1).has_value());
    }

    TEST_CASE("the end of a connection shows on the socket")
    {
        tcp_pair pair;
        CHECK_FALSE(has_hung_up(pair.client));
        CHECK_FALSE(has_hung_up(-1));
        close(std::exchange(pair.server, -1));
        CHECK(has_hung_up(pair.client));
    }
}
