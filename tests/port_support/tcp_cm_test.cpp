// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The connection manager over TCP: two adapters of a process, and strangers.
#include "tcp_cm.hpp"

#include "../own_port.hpp"
#include "descriptors.hpp"
#include "eventually.hpp"
#include "logged_lines.hpp"
#include "one_upcall.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dapl::DAPL_TRANSPORT::core {

class service_point {};

} // namespace dapl::DAPL_TRANSPORT::core

using namespace dapl::DAPL_TRANSPORT;

namespace {

constexpr int established = DAT_CONNECTION_EVENT_ESTABLISHED;
constexpr int disconnected = DAT_CONNECTION_EVENT_DISCONNECTED;
constexpr int broken = DAT_CONNECTION_EVENT_BROKEN;
constexpr int peer_rejected = DAT_CONNECTION_EVENT_PEER_REJECTED;
constexpr int refused = DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
constexpr int accept_failed = DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR;

tcp_cm_address address_of(const std::string &text)
{
    tcp_cm_address out;
    out.size = text.size();
    std::memcpy(out.bytes, text.data(), text.size());
    return out;
}

std::string text_of(const tcp_cm_address &address)
{
    return {reinterpret_cast<const char *>(address.bytes), address.size};
}

/// The address 127.0.0.1, or another address of this host.
sockaddr_storage loopback(std::uint16_t port = 0, std::uint32_t host = 1)
{
    sockaddr_storage out{};
    auto &in = reinterpret_cast<sockaddr_in &>(out);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    in.sin_port = htons(port);
    return out;
}

struct cm_qp : tcp_connection {
    cm_qp() { owner = &ep; }

    endpoint ep;
    std::string peer; ///< what bring_up() got
    std::atomic<bool> up{false};
    std::atomic<int> torn_down{0};
    std::atomic<bool> fails{false}; ///< bring_up() fails
    std::atomic<bool> drained{true};
    std::atomic<bool> failed{false}; ///< tear_down() finds a failure
};

struct arrived {
    tcp_request request;
    std::string data;
};

/// An adapter, and its port.
struct side : connection_service, tcp_cm_user {
    explicit side(tcp_cm::limits how = {}) : cm(*this, *this, how)
    {
        std::strcpy(name, "test");
        REQUIRE(events.open());
        REQUIRE(cm.open(loopback()));
        REQUIRE(events.start("test", &run, this));
    }
    ~side() { events.stop(lock); }

    static void run(void *self) { static_cast<side *>(self)->loop(); }
    /// The loop of the service thread, unchecked: the lock of cm is this one.
    OSD_UNCHECKED void loop()
    {
        osd::lock_guard hold(lock);
        while (!events.is_stopping(lock)) {
            const std::int64_t due_ns = cm.serve();
            (void)events.wait(lock, due_ns);
            ++rounds;
        }
    }

    OSD_UNCHECKED bool offer(tcp_listener &l, tcp_request &request,
                             const cr_params &params) override
    {
        bool taken = false;
        run_upcall(&l, [&] {
            if (!takes)
                return;
            const std::lock_guard<std::mutex> hold(requests_lock);
            requests.push_back({std::move(request),
                                {static_cast<const char *>(params.data.bytes), params.data.size}});
            taken = true;
        });
        return taken;
    }
    bool bring_up(tcp_connection &of, const tcp_cm_address &peer) override
    {
        auto &q = static_cast<cm_qp &>(of);
        q.peer = text_of(peer);
        q.up = !q.fails;
        return q.up;
    }
    void tear_down(tcp_connection &of) override
    {
        auto &q = static_cast<cm_qp &>(of);
        q.up = false;
        ++q.torn_down;
    }
    bool has_failed(tcp_connection &q) override { return static_cast<cm_qp &>(q).failed; }
    bool is_drained(tcp_connection &q) override { return static_cast<cm_qp &>(q).drained; }

    DAT_CONN_QUAL listen(DAT_CONN_QUAL qualifier = 0)
    {
        REQUIRE(cm.listen(listener, point, qualifier).ok());
        return qualifier;
    }
    /// A port without a listener, which stays free until the test takes it.
    DAT_CONN_QUAL closed_port()
    {
        DAT_CONN_QUAL port = 0;
        status opened;
        do {
            port = test_run::another_port();
            opened = cm.listen(listener, point, port);
        } while (opened.type() == DAT_CONN_QUAL_IN_USE);
        REQUIRE(opened.ok());
        cm.stop_listening(listener);
        return port;
    }
    status connect(cm_qp &q, DAT_CONN_QUAL to, const std::string &data = {},
                   DAT_TIMEOUT timeout = 10'000'000, const std::string &own = "active")
    {
        const sockaddr_storage address = loopback();
        return cm.connect(q,
                          {reinterpret_cast<const DAT_SOCK_ADDR *>(&address),
                           to,
                           timeout,
                           {data.data(), data.size()}},
                          address_of(own));
    }
    arrived next()
    {
        REQUIRE(eventually([&] {
            const std::lock_guard<std::mutex> hold(requests_lock);
            return !requests.empty();
        }));
        const std::lock_guard<std::mutex> hold(requests_lock);
        arrived first = std::move(requests.front());
        requests.pop_front();
        return first;
    }

    std::size_t waiting()
    {
        const std::lock_guard<std::mutex> hold(requests_lock);
        return requests.size();
    }

    tcp_cm cm;
    tcp_listener listener;
    service_point point;
    std::mutex requests_lock;
    std::deque<arrived> requests;
    std::atomic<bool> takes{true};
    std::atomic<unsigned> rounds{0};
};

bool gets(cm_qp &q, int event)
{
    const bool came = eventually([&] { return q.ep.last == event; });
    CHECK(came);
    return came;
}

/// Two sides, connected.
struct pair_of_sides {
    pair_of_sides()
    {
        const DAT_CONN_QUAL at = passive.listen();
        REQUIRE(active.connect(a, at, "hello").ok());
        arrived got = passive.next();
        CHECK(got.data == "hello");
        CHECK(text_of(got.request.peer()) == "active");
        REQUIRE(passive.cm.accept(got.request, b, {"welcome", 7}, address_of("passive")).ok());
        REQUIRE(gets(a, established));
        REQUIRE(gets(b, established));
    }
    ~pair_of_sides()
    {
        active.cm.forget(a);
        passive.cm.forget(b);
        if (passive.listener.fd >= 0)
            passive.cm.stop_listening(passive.listener);
    }
    cm_qp a;
    cm_qp b;
    side active;
    side passive;
};

/// A bare TCP client.
struct stranger {
    explicit stranger(DAT_CONN_QUAL to, std::uint32_t host = 1)
        : fd(::socket(AF_INET, SOCK_STREAM, 0))
    {
        sockaddr_storage address = loopback(static_cast<std::uint16_t>(to));
        sockaddr_storage from = loopback(0, host);
        if (host != 1) // the kernel finds a port that is free sooner than bind()
            REQUIRE(::bind(fd, reinterpret_cast<sockaddr *>(&from), sizeof(sockaddr_in)) == 0);
        REQUIRE(::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(sockaddr_in)) == 0);
    }
    ~stranger() { ::close(fd); }
    stranger(const stranger &) = delete;
    stranger &operator=(const stranger &) = delete;

    bool say(const std::string &text) const
    {
        return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(text.size());
    }
    /// All bytes that come until the other side closes; at most five seconds.
    std::string hear() const
    {
        const timeval patience{5, 0};
        (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        std::string all;
        char bytes[512];
        for (ssize_t got; (got = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
            all.append(bytes, static_cast<std::size_t>(got));
        return all;
    }
    bool is_closed() const
    {
        char byte;
        return ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno == ECONNRESET;
    }

    int fd;
};

/// A forked child, which holds copies of all descriptors until it is killed.
class forked_child {
public:
    forked_child() : pid_(::fork())
    {
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ::pause();
        }
        REQUIRE(pid_ > 0);
    }
    ~forked_child()
    {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    forked_child(const forked_child &) = delete;
    forked_child &operator=(const forked_child &) = delete;

private:
    const pid_t pid_;
};

/// A request as it goes over the wire.
std::string request_text(DAT_CONN_QUAL to, unsigned version = 1, unsigned data = 0)
{
    std::string out{'D',
                    'A',
                    'T',
                    '\xc3',
                    static_cast<char>(version),
                    1,
                    0,
                    0,
                    static_cast<char>(data >> 8),
                    static_cast<char>(data)};
    out.append(6, '\0');
    for (int shift = 56; shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(to >> shift));
    return out;
}

/// Whether the sender is to repeat its request.
bool is_put_off(const std::string &answer)
{
    constexpr char later = 7;
    return answer.size() == 24 && answer[5] == later;
}

/// A network of its own, whose loopback interface has few ports for connections that ask for none.
struct few_ports {
    static constexpr int first = 50000;
    static constexpr int number = 4;

    few_ports()
    {
        run([&] {
            const char *const range = "/proc/sys/net/ipv4/ip_local_port_range";
            ifreq lo{};
            std::strcpy(lo.ifr_name, "lo");
            lo.ifr_flags = IFF_UP;
            const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
            if (::ioctl(fd, SIOCSIFFLAGS, &lo) != 0)
                error = std::string("loopback: ") + std::strerror(errno);
            ::close(fd);
            std::ofstream ports(range);
            ports << first << ' ' << first + number - 1 << std::endl;
            if (error.empty() && !ports)
                error = std::string("cannot write ") + range;
        });
    }
    /// Runs on a thread in that network; threads that it makes are there too.
    void run(const std::function<void()> &what)
    {
        std::async(std::launch::async, [&] {
            if (net < 0 && ::unshare(CLONE_NEWNET) == 0)
                net = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
            if (net < 0 || ::setns(net, CLONE_NEWNET) != 0)
                error = std::string("no network of its own: ") + std::strerror(errno);
            else
                what();
        }).get();
    }
    ~few_ports() { ::close(net); }
    few_ports(const few_ports &) = delete;
    few_ports &operator=(const few_ports &) = delete;

    int net = -1;
    std::string error;
};

} // namespace

TEST_SUITE("tcp_cm")
{
    TEST_CASE("a request is accepted: both sides have the other's address and data")
    {
        pair_of_sides both;
        CHECK(both.a.peer == "passive");
        CHECK(both.b.peer == "active");
        CHECK(both.a.ep.data == "welcome");
        CHECK(both.a.phase() == connection_phase::live);
        CHECK(both.b.phase() == connection_phase::live);
    }

    TEST_CASE("whichever side disconnects, both are disconnected, once")
    {
        for (const bool by_active : {true, false})
            for (const DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
                pair_of_sides both;
                (by_active ? both.active : both.passive)
                    .cm.disconnect(by_active ? both.a : both.b, how);
                CHECK(gets(both.a, disconnected));
                CHECK(gets(both.b, disconnected));
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
                CHECK(both.a.ep.events == 2);
                CHECK(both.b.ep.events == 2);
                CHECK(both.a.torn_down == 1);
                CHECK(both.b.torn_down == 1);
            }
    }

    TEST_CASE("both sides disconnect at once")
    {
        for (int i = 0; i < 20; ++i) {
            pair_of_sides both;
            std::thread other([&] { both.active.cm.disconnect(both.a, DAT_CLOSE_ABRUPT_FLAG); });
            both.passive.cm.disconnect(both.b, DAT_CLOSE_ABRUPT_FLAG);
            other.join();
            CHECK(gets(both.a, disconnected));
            CHECK(gets(both.b, disconnected));
        }
    }

    TEST_CASE("a graceful disconnect waits for what is posted, an abrupt one ends that")
    {
        pair_of_sides both;
        both.a.drained = false;
        both.active.cm.disconnect(both.a, DAT_CLOSE_GRACEFUL_FLAG);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(both.a.phase() == connection_phase::closing);
        CHECK(both.b.ep.last == established);
        SUBCASE("drained")
        {
            both.a.drained = true;
        }
        SUBCASE("abrupt")
        {
            both.active.cm.disconnect(both.a, DAT_CLOSE_ABRUPT_FLAG);
        }
        CHECK(gets(both.a, disconnected));
        CHECK(gets(both.b, disconnected));
    }

    TEST_CASE("a connection that ends without a word is broken")
    {
        pair_of_sides both;
        {
            osd::lock_guard hold(both.active.lock);
            both.a.channel.reset(); // ends the socket as the kernel does for a process that is
                                    // killed
        }
        CHECK(gets(both.b, broken));
        CHECK(both.b.torn_down == 1);
    }

    TEST_CASE("a connection that the fabric lost is broken on both sides, once")
    {
        pair_of_sides both;
        both.active.cm.fail(both.a);
        both.active.cm.fail(both.a);
        CHECK(gets(both.a, broken));
        CHECK(gets(both.b, broken));
        CHECK(both.a.ep.events == 2);
        CHECK(both.a.torn_down == 1);
    }

    TEST_CASE("a peer hears of an end though a forked child of the other side lives on")
    {
        pair_of_sides both;
        const forked_child child;
        both.active.cm.fail(both.a);
        CHECK(gets(both.b, broken));
    }

    TEST_CASE("one that the fabric lost because the peer has ended it is disconnected")
    {
        for (const bool by_peer : {true, false}) {
            pair_of_sides both;
            [&]() OSD_UNCHECKED {
                osd::lock_guard hold(both.active.lock); // the goodbye stays unread
                if (by_peer)
                    both.passive.cm.disconnect(both.b, DAT_CLOSE_ABRUPT_FLAG);
                both.active.cm.lose(both.a);
                both.active.cm.lose(both.a);
            }();
            CHECK(gets(both.a, by_peer ? disconnected : broken));
            CHECK(gets(both.b, by_peer ? disconnected : broken));
            CHECK(both.a.ep.events == 2);
            CHECK(both.a.torn_down == 1);
        }
    }

    TEST_CASE("a goodbye after a failure is a broken connection to who has seen the failure")
    {
        for (const DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
            pair_of_sides both;
            both.a.failed = both.b.failed = true;
            both.active.cm.disconnect(both.a, how);
            CHECK(gets(both.a, disconnected)); // as its consumer wants it
            CHECK(gets(both.b, broken));
            CHECK(both.b.torn_down == 1);
        }
    }

    TEST_CASE("a port ends a connection by the event of its choice, with the lock held")
    {
        pair_of_sides both;
        [&]() OSD_UNCHECKED {
            osd::lock_guard hold(both.active.lock);
            both.active.cm.end(both.a, DAT_CONNECTION_EVENT_UNREACHABLE);
            CHECK(both.a.ep.events == 1); // the service thread delivers it
        }();
        CHECK(gets(both.a, DAT_CONNECTION_EVENT_UNREACHABLE));
        CHECK(gets(both.b, broken));
        CHECK(both.a.torn_down == 1);
    }

    TEST_CASE("an upcall that fails a connection while it is forgotten leaves no event")
    {
        pair_of_sides both;
        side &active = both.active;
        std::atomic<bool> inside{false};
        std::atomic<bool> forgetting{false};
        std::thread in_upcall([&]() OSD_UNCHECKED {
            osd::lock_guard hold(active.lock);
            active.run_upcall(static_cast<const connection_state *>(&both.a), [&] {
                inside = true;
                CHECK(eventually([&] { return forgetting.load(); }));
                active.cm.fail(both.a);
            });
        });
        REQUIRE(eventually([&] { return inside.load(); }));
        std::thread forgets([&] { active.cm.forget(both.a); });
        CHECK(eventually([&] {
            osd::lock_guard hold(active.lock);
            return both.a.channel == nullptr; // forget() waits for the upcall now
        }));
        forgetting = true;
        in_upcall.join();
        forgets.join();
        {
            osd::lock_guard hold(active.lock);
            CHECK(both.a.pending_event == DAT_EVENT_NUMBER{});
        }
        CHECK(both.a.ep.events == 1);
        CHECK(both.a.torn_down == 0);
    }

    TEST_CASE("what the passive consumer rejects, and why")
    {
        side active, passive;
        cm_qp a;
        const DAT_CONN_QUAL at = passive.listen();
        REQUIRE(active.connect(a, at).ok());
        arrived got = passive.next();
        SUBCASE("by the consumer, with data")
        {
            passive.cm.reject(got.request, reject_reason::consumer, {"no", 2});
            CHECK(gets(a, peer_rejected));
            CHECK(a.ep.data == "no");
        }
        SUBCASE("without a consumer")
        {
            passive.cm.reject(got.request, reject_reason::non_consumer, {});
            CHECK(gets(a, refused));
        }
        SUBCASE("without an answer")
        {
            got.request.channel.reset();
            CHECK(gets(a, refused));
        }
        CHECK(a.torn_down == 1);
        active.cm.forget(a);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a request that the common layer does not take is rejected")
    {
        side active, passive;
        passive.takes = false;
        cm_qp a;
        REQUIRE(active.connect(a, passive.listen()).ok());
        CHECK(gets(a, refused));
        active.cm.forget(a);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("another qualifier with the same port number is rejected")
    {
        side active, passive;
        cm_qp a;
        REQUIRE(active.connect(a, passive.listen() | 0x1'0000'0000).ok());
        CHECK(gets(a, refused));
        CHECK(passive.requests.empty());
        active.cm.forget(a);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a peer that listens late is found")
    {
        side active, passive;
        cm_qp a, b;
        DAT_CONN_QUAL at = passive.closed_port();
        REQUIRE(active.connect(a, at).ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        CHECK(a.ep.events == 0);
        REQUIRE(passive.cm.listen(passive.listener, passive.point, at).ok());
        arrived got = passive.next();
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        CHECK(gets(a, established));
        active.cm.forget(a);
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a port that stays closed is given up")
    {
        tcp_cm::limits hasty;
        hasty.connect_retry_ms = 30;
        side active(hasty), passive;
        const DAT_CONN_QUAL at = passive.closed_port();
        cm_qp a;
        REQUIRE(active.connect(a, at).ok());
        CHECK(gets(a, refused));
        CHECK(a.ep.events == 1);
        active.cm.forget(a);
    }

    TEST_CASE("a peer that gives up before it is accepted fails the acceptance")
    {
        side active, passive;
        cm_qp a, b;
        REQUIRE(active.connect(a, passive.listen()).ok());
        arrived got = passive.next();
        active.cm.disconnect_clean(a);
        CHECK(a.phase() == connection_phase::dead);
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        CHECK(gets(b, accept_failed));
        CHECK(a.ep.events == 0);
        active.cm.forget(a);
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a peer with a forked child gives up before it is accepted")
    {
        side active, passive;
        cm_qp a, b;
        REQUIRE(active.connect(a, passive.listen()).ok());
        arrived got = passive.next();
        const forked_child child;
        active.cm.disconnect_clean(a);
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        CHECK(gets(b, accept_failed));
        active.cm.forget(a);
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a qualifier is free though a forked child has a copy of its socket")
    {
        side active, passive;
        cm_qp a;
        const DAT_CONN_QUAL at = passive.listen();
        const forked_child child;
        passive.cm.stop_listening(passive.listener);
        REQUIRE(active.connect(a, at).ok());
        CHECK(gets(a, refused));
        active.cm.forget(a);
        DAT_CONN_QUAL again = at;
        CHECK(passive.cm.listen(passive.listener, passive.point, again).ok());
        if (passive.listener.fd >= 0)
            passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a stranger that is dropped is reset though a forked child has its socket")
    {
        tcp_cm::limits how;
        how.stranger_ms = 300;
        side passive(how);
        const DAT_CONN_QUAL at = passive.listen();
        const std::size_t before = descriptors().size();
        const stranger silent(at);
        REQUIRE(eventually([&] { return descriptors().size() == before + 2; })); // and accepted
        const forked_child child;
        CHECK(eventually([&] { return silent.is_closed(); }));
        CHECK(errno == ECONNRESET);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a queue pair that does not come up fails both sides")
    {
        side active, passive;
        cm_qp a, b;
        SUBCASE("the active one")
        {
            a.fails = true;
        }
        SUBCASE("the passive one")
        {
            b.fails = true;
        }
        REQUIRE(active.connect(a, passive.listen()).ok());
        arrived got = passive.next();
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        CHECK(gets(a, refused));
        CHECK(gets(b, accept_failed));
        active.cm.forget(a);
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("arguments")
    {
        side one, other;
        cm_qp q;
        DAT_CONN_QUAL taken = one.listen();
        CHECK(other.cm.listen(other.listener, other.point, taken).type() == DAT_CONN_QUAL_IN_USE);
        DAT_CONN_QUAL wide = 0x1'0000;
        CHECK(other.cm.listen(other.listener, other.point, wide) == invalid_parameter(2));
        CHECK(other.connect(q, 0x1'0000) == invalid_parameter(3));
        CHECK(other.connect(q, taken, std::string(257, 'x')) == invalid_parameter(5));
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        CHECK(other.cm.connect(q, {reinterpret_cast<DAT_SOCK_ADDR *>(&six), taken, 1000, {}}, {})
                  .type() == DAT_INVALID_ADDRESS);
        one.cm.stop_listening(one.listener);
    }

    TEST_CASE("private data of every size arrive as they were")
    {
        side active, passive;
        const DAT_CONN_QUAL at = passive.listen();
        for (const std::size_t size : {0u, 1u, 255u, 256u}) {
            cm_qp a;
            const std::string data(size, 'd');
            REQUIRE(active.connect(a, at, data).ok());
            arrived got = passive.next();
            CHECK(got.data == data);
            passive.cm.reject(got.request, reject_reason::consumer, {data.data(), data.size()});
            CHECK(gets(a, peer_rejected));
            CHECK(a.ep.data == data);
            active.cm.forget(a);
        }
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("addresses of every size arrive as they were")
    {
        side active, passive;
        const DAT_CONN_QUAL at = passive.listen();
        for (const std::size_t size : {0u, 1u, 128u, 255u, 256u, 511u, 512u}) {
            cm_qp a;
            const std::string own(size, 'a');
            const std::string data(256, 'd');
            REQUIRE(active.connect(a, at, data, 10'000'000, own).ok());
            arrived got = passive.next();
            CHECK(text_of(got.request.peer()) == own);
            CHECK(got.data == data);
            passive.cm.reject(got.request, reject_reason::consumer, {});
            CHECK(gets(a, peer_rejected));
            active.cm.forget(a);
        }
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("strangers are heard, bounded, and forgotten")
    {
        tcp_cm::limits how;
        how.max_strangers = 4;
        SUBCASE("what is no request ends the connection at once")
        {
            side passive(how);
            const DAT_CONN_QUAL at = passive.listen();
            for (const std::string &text :
                 {std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), request_text(at, 2),
                  request_text(at, 1, 257), std::string(24, '\xff')}) {
                stranger s(at);
                REQUIRE(s.say(text));
                CHECK(s.hear().empty());
            }
            CHECK(passive.requests.empty());
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("one that says nothing is dropped when its time is over")
        {
            how.stranger_ms = 30;
            side passive(how);
            stranger s(passive.listen());
            REQUIRE(s.say("DAT"));
            CHECK(s.hear().empty());
            CHECK(errno == ECONNRESET); // an honest peer repeats its request
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("too many of them make room for an honest peer")
        {
            how.patience_ms = 10;
            side active, passive(how);
            const DAT_CONN_QUAL at = passive.listen();
            std::vector<std::unique_ptr<stranger>> crowd;
            for (int i = 0; i < 20; ++i)
                crowd.push_back(std::make_unique<stranger>(at));
            cm_qp a, b;
            REQUIRE(active.connect(a, at).ok());
            arrived got = passive.next();
            REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
            CHECK(gets(a, established));
            int open = 0;
            for (const auto &each : crowd)
                open += each->is_closed() ? 0 : 1;
            CHECK(open <= 4);
            active.cm.forget(a);
            passive.cm.forget(b);
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("more honest peers than are kept wait for one another")
        {
            side passive(how);
            const DAT_CONN_QUAL at = passive.listen();
            std::vector<std::unique_ptr<stranger>> crowd;
            for (int i = 0; i < 20; ++i)
                crowd.push_back(std::make_unique<stranger>(at));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            for (const auto &each : crowd)
                REQUIRE(each->say(request_text(at)));
            for (std::size_t i = 0; i < crowd.size(); ++i)
                (void)passive.next();
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("one whose request is there is not dropped for the next")
        {
            how.max_strangers = 1;
            how.patience_ms = 1;
            side passive(how);
            const DAT_CONN_QUAL at = passive.listen();
            const stranger first(at);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            {
                osd::lock_guard stall(passive.lock);
                const stranger second(at); // its event is served before the first's
                REQUIRE(second.say(request_text(at)));
                REQUIRE(first.say(request_text(at)));
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            (void)passive.next();
            (void)passive.next();
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("a request that comes byte by byte is one")
        {
            side passive(how);
            const DAT_CONN_QUAL at = passive.listen();
            stranger s(at);
            for (const char byte : request_text(at, 1, 1) + "x") {
                REQUIRE(s.say({byte}));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            CHECK(passive.next().data == "x");
            passive.cm.stop_listening(passive.listener);
        }
        SUBCASE("they end with the listener")
        {
            side passive(how);
            stranger s(passive.listen());
            REQUIRE(s.say("D"));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            passive.cm.stop_listening(passive.listener);
            CHECK(s.hear().empty());
        }
    }

    TEST_CASE("a crowd that is silent delays an honest peer once, one that sends parts does not")
    {
        tcp_cm::limits how;
        how.max_strangers = 4;
        how.stranger_ms = 600'000;
        how.patience_ms = 500;
        std::string each;
        SUBCASE("silent") {}
        SUBCASE("parts")
        {
            how.patience_ms = 300'000;
            each = "DAT";
        }
        side active, passive(how);
        const DAT_CONN_QUAL at = passive.listen();
        std::vector<std::unique_ptr<stranger>> crowd;
        for (int i = 0; i < 100; ++i)
            REQUIRE(crowd.emplace_back(std::make_unique<stranger>(at))->say(each));
        cm_qp a;
        REQUIRE(active.connect(a, at).ok());
        arrived got = passive.next(); // if they took turns, it would come after 25 times
                                      // patience_ms
        tcp_cm::reject(got.request, reject_reason::consumer, {});
        CHECK(gets(a, peer_rejected));
        active.cm.forget(a);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a request whose sender has gone keeps no descriptor; it can be answered")
    {
        side passive;
        const DAT_CONN_QUAL at = passive.listen();
        const std::size_t before = descriptors().size();
        for (int i = 0; i < 20; ++i) {
            stranger s(at);
            REQUIRE(s.say(request_text(at) + "and more"));
        }
        REQUIRE(eventually([&] { return passive.waiting() == 20; }));
        CHECK(eventually([&] { return descriptors().size() == before; }));
        cm_qp b;
        arrived accepted = passive.next();
        REQUIRE(passive.cm.accept(accepted.request, b, {}, address_of("b")).ok());
        CHECK(gets(b, accept_failed));
        CHECK(b.torn_down == 1);
        arrived rejected = passive.next();
        tcp_cm::reject(rejected.request, reject_reason::consumer, {});
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("requests without an answer are bounded, and those of one address more")
    {
        tcp_cm::limits how;
        how.max_unanswered = 8;
        side passive(how);
        const logged_lines log;
        const DAT_CONN_QUAL at = passive.listen();
        std::vector<std::unique_ptr<stranger>> crowd;
        const auto come = [&](int number, std::uint32_t host) {
            const std::size_t first = crowd.size();
            for (int i = 0; i < number; ++i)
                REQUIRE(crowd.emplace_back(std::make_unique<stranger>(at, host))
                            ->say(request_text(at)));
            return first;
        };
        (void)come(4, 1);
        REQUIRE(eventually([&] { return passive.waiting() == 4; }));
        CHECK(log.count("requests wait for this program's answer") == 0);
        for (std::size_t i = come(10, 1); i < crowd.size(); ++i)
            CHECK(is_put_off(crowd[i]->hear()));
        CHECK(passive.waiting() == 4);
        CHECK(log.count("4 connection requests wait for this program's answer, as from "
                        "127.0.0.1:") == 1);
        (void)come(3, 2);
        REQUIRE(eventually([&] { return passive.waiting() == 7; }));
        (void)come(3, 3);
        REQUIRE(eventually([&] { return passive.waiting() == 8; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const unsigned begun = passive.rounds;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        CHECK(passive.rounds - begun < 20); // the thread sleeps
        CHECK(passive.waiting() == 8);      // two are in the kernel's queue
        SUBCASE("each answer makes room for one")
        {
            arrived one = passive.next();
            tcp_cm::reject(one.request, reject_reason::consumer, {});
            CHECK(eventually([&] { return passive.waiting() == 8; }));
            (void)passive.next(); // its end refuses it
            CHECK(eventually([&] { return passive.waiting() == 8; }));
        }
        SUBCASE("so does one that goes")
        {
            crowd.erase(crowd.begin());
            CHECK(eventually([&] { return passive.waiting() == 9; }));
        }
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("an honest peer that is put off comes again longer than to where nobody listens")
    {
        tcp_cm::limits how;
        how.max_unanswered = 2;
        how.connect_retry_ms = 20;
        side active(how), passive(how);
        const DAT_CONN_QUAL at = passive.listen();
        const stranger first(at);
        REQUIRE(first.say(request_text(at)));
        arrived waits = passive.next();
        cm_qp a;
        REQUIRE(active.connect(a, at, "hello").ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        CHECK(a.ep.events == 0);
        CHECK(passive.waiting() == 0);
        SUBCASE("until there is room")
        {
            tcp_cm::reject(waits.request, reject_reason::consumer, {});
            arrived came = passive.next();
            CHECK(came.data == "hello");
            tcp_cm::reject(came.request, reject_reason::consumer, {});
            CHECK(gets(a, peer_rejected));
        }
        SUBCASE("until nobody listens")
        {
            passive.cm.stop_listening(passive.listener);
            CHECK(gets(a, refused));
        }
        SUBCASE("until it is given up")
        {
            active.cm.disconnect_clean(a);
        }
        active.cm.forget(a);
        if (passive.listener.fd >= 0)
            passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("requests without an answer take a quarter of the descriptors at most")
    {
        rlimit before{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
        const int first = ::dup(0);
        ::close(first);
        rlimit few = before;
        few.rlim_cur = static_cast<rlim_t>(std::max(first + 48, 64));
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
        {
            side passive;
            const DAT_CONN_QUAL at = passive.listen();
            std::deque<stranger> crowd;
            for (rlim_t i = 0; i < few.rlim_cur / 8; ++i)
                REQUIRE(crowd.emplace_back(at).say(request_text(at)));
            CHECK(eventually([&] { return passive.waiting() == crowd.size(); }));
            const stranger one_more(at);
            REQUIRE(one_more.say(request_text(at)));
            CHECK(is_put_off(one_more.hear()));
            CHECK(passive.waiting() == crowd.size());
            passive.cm.stop_listening(passive.listener);
        }
        CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    }

    TEST_CASE("a flood of requests leaves no descriptor behind")
    {
        side passive;
        const DAT_CONN_QUAL at = passive.listen();
        const std::size_t before = descriptors().size();
        passive.takes = false; // acts like a full EVD
        for (int i = 0; i < 2000; ++i) {
            stranger s(at);
            (void)s.say(request_text(at));
        }
        passive.takes = true;
        stranger honest(at);
        REQUIRE(honest.say(request_text(at)));
        const arrived kept = passive.next();
        CHECK(eventually([&] { return descriptors().size() == before + 2; }));
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a request is repeated after a reset, not after an end without an answer")
    {
        const int at = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_storage address = loopback();
        socklen_t size = sizeof(sockaddr_in);
        const timeval patience{5, 0};
        REQUIRE(::setsockopt(at, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
        REQUIRE(::bind(at, reinterpret_cast<sockaddr *>(&address), size) == 0);
        REQUIRE(::listen(at, 8) == 0);
        REQUIRE(::getsockname(at, reinterpret_cast<sockaddr *>(&address), &size) == 0);
        side active;
        cm_qp a;
        REQUIRE(
            active.connect(a, osd::address::port_of(reinterpret_cast<sockaddr *>(&address))).ok());
        for (int i = 0; i < 3; ++i) {
            const int fd = ::accept(at, nullptr, nullptr);
            REQUIRE(fd >= 0);
            const linger reset{1, 0};
            REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
            ::close(fd);
        }
        const int fd = ::accept(at, nullptr, nullptr);
        REQUIRE(fd >= 0);
        CHECK(a.ep.events == 0);
        char bytes[512];
        CHECK(::recv(fd, bytes, sizeof bytes, 0) > 0);
        ::close(fd);
        CHECK(gets(a, refused));
        CHECK(a.ep.events == 1);
        ::close(at);
        active.cm.forget(a);
    }

    TEST_CASE("a port of the host serves connections to several peers")
    {
        few_ports few;
        if (!few.error.empty()) {
            MESSAGE("not tested: ", few.error);
            return;
        }
        few.run([] {
            side active;
            side passive[3];
            std::deque<cm_qp> pairs;
            for (side &to : passive) {
                const DAT_CONN_QUAL at =
                    to.listen(6000 + static_cast<DAT_CONN_QUAL>(&to - passive));
                for (int i = 0; i < few_ports::number; ++i) {
                    REQUIRE(active.connect(pairs.emplace_back(), at).ok());
                    arrived got = to.next();
                    REQUIRE(to.cm.accept(got.request, pairs.emplace_back(), {}, {}).ok());
                    CHECK(gets(pairs.back(), established));
                }
            }
            for (std::size_t i = 0; i < pairs.size(); ++i)
                (i % 2 == 0 ? active : passive[i / (2 * few_ports::number)]).cm.forget(pairs[i]);
            for (side &to : passive)
                to.cm.stop_listening(to.listener);
        });
    }

    TEST_CASE("a qualifier is free although a connection has that port")
    {
        few_ports few;
        if (!few.error.empty()) {
            MESSAGE("not tested: ", few.error);
            return;
        }
        few.run([] {
            side active;
            side passive;
            const DAT_CONN_QUAL at = passive.listen(6000);
            std::deque<cm_qp> pairs;
            for (int i = 0; i < few_ports::number; ++i) {
                REQUIRE(active.connect(pairs.emplace_back(), at).ok());
                arrived got = passive.next();
                REQUIRE(passive.cm.accept(got.request, pairs.emplace_back(), {}, {}).ok());
                CHECK(gets(pairs.back(), established));
            }
            side other;
            tcp_listener used;
            DAT_CONN_QUAL wanted = few_ports::first;
            CHECK(other.cm.listen(used, other.point, wanted).ok());
            other.cm.stop_listening(used);
            for (std::size_t i = 0; i < pairs.size(); ++i)
                (i % 2 == 0 ? active : passive).cm.forget(pairs[i]);
            passive.cm.stop_listening(passive.listener);
        });
    }

    TEST_CASE("a peer that talks nonsense after it was accepted")
    {
        side passive;
        const DAT_CONN_QUAL at = passive.listen();
        cm_qp b;
        stranger s(at);
        REQUIRE(s.say(request_text(at)));
        arrived got = passive.next();
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        REQUIRE(s.say(std::string(100, 'n')));
        CHECK(gets(b, accept_failed));
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("a peer that says nothing after it was accepted")
    {
        tcp_cm::limits how;
        how.ready_ms = 30;
        side passive(how);
        const DAT_CONN_QUAL at = passive.listen();
        cm_qp b;
        stranger s(at);
        REQUIRE(s.say(request_text(at)));
        arrived got = passive.next();
        REQUIRE(passive.cm.accept(got.request, b, {}, address_of("b")).ok());
        CHECK(gets(b, accept_failed));
        CHECK(b.torn_down == 1);
        passive.cm.forget(b);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("without descriptors a request waits, and the thread sleeps")
    {
        side passive;
        const DAT_CONN_QUAL at = passive.listen();
        stranger s(at); // accepted at once
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        rlimit before{};
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
        const logged_lines log;
        std::vector<int> used(64); // a quarter is more than the requests
        for (int &fd : used)
            fd = ::dup(0);
        const int spare = ::socket(AF_INET, SOCK_STREAM, 0);
        rlimit none = before;
        none.rlim_cur = static_cast<rlim_t>(spare + 1);
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
        sockaddr_storage address = loopback(static_cast<std::uint16_t>(at));
        REQUIRE(::connect(spare, reinterpret_cast<sockaddr *>(&address), sizeof(sockaddr_in)) == 0);
        const std::string text = request_text(at);
        REQUIRE(::send(spare, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
        const unsigned begun = passive.rounds;
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        CHECK(passive.rounds - begun < 20);
        CHECK(log.count("accept failed") == 1);
        CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
        (void)passive.next();
        ::close(spare);
        for (const int fd : used)
            ::close(fd);
        passive.cm.stop_listening(passive.listener);
    }

    TEST_CASE("connecting, answering and ending from many threads leaves nothing behind")
    {
        const std::size_t before = descriptors().size();
        {
            side active, passive;
            const DAT_CONN_QUAL at = passive.listen();
            std::atomic<int> done{0};
            std::atomic<bool> stop{false};
            std::thread answering([&] {
                for (unsigned n = 0; !stop; ++n) {
                    std::unique_lock<std::mutex> hold(passive.requests_lock);
                    if (passive.requests.empty()) {
                        hold.unlock();
                        std::this_thread::yield();
                        continue;
                    }
                    arrived got = std::move(passive.requests.front());
                    passive.requests.pop_front();
                    hold.unlock();
                    cm_qp b;
                    if (n % 3 == 0) {
                        passive.cm.reject(got.request, reject_reason::consumer, {"no", 2});
                    } else {
                        (void)passive.cm.accept(got.request, b, {}, address_of("b"));
                        if (n % 3 == 1)
                            (void)eventually([&] { return b.ep.events != 0; });
                    }
                    passive.cm.forget(b);
                }
            });
            std::vector<std::thread> connecting;
            for (int t = 0; t < 4; ++t)
                connecting.emplace_back([&, t] {
                    for (int i = 0; i < 50; ++i) {
                        cm_qp a;
                        if (!active.connect(a, at, "data").ok())
                            continue;
                        if (i % 4 != t)
                            (void)eventually([&] { return a.ep.events != 0; });
                        if (i % 2 == 0)
                            active.cm.disconnect(a, DAT_CLOSE_ABRUPT_FLAG);
                        else
                            active.cm.disconnect_clean(a);
                        active.cm.forget(a);
                        ++done;
                    }
                });
            for (std::thread &each : connecting)
                each.join();
            stop = true;
            answering.join();
            CHECK(done == 200);
            passive.cm.stop_listening(passive.listener);
            passive.requests.clear();
        }
        CHECK(descriptors().size() == before);
    }
}
