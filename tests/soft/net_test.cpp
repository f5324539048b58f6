// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the engine asks of an operating system, by itself.
#include "rig.hpp"

#include <algorithm>
#include <cerrno>
#include <doctest/doctest.h>

namespace net_suite {

using namespace rig;

namespace {

osd::deadline soon()
{
    return osd::deadline::after_us(20'000);
}

osd::deadline late()
{
    return osd::deadline::after_us(20'000'000);
}

net_address loopback()
{
    return on_loopback().address;
}

struct mailbox {
    explicit mailbox(bool for_data = true) { REQUIRE(io.open(loopback(), for_data) == 0); }
    void send(const net_address &to, std::uint8_t byte)
    {
        out_packet out = packet(byte);
        std::uint32_t done = 0;
        REQUIRE(io.send(to, &out, 1, done) == send_result::sent);
        CHECK(done == 1);
    }
    static out_packet packet(std::uint8_t byte)
    {
        out_packet out;
        out.begin();
        out.header[0] = byte;
        out.add(out.header, 1);
        return out;
    }
    /// Sleeps until there is a datagram; its byte, or -1 when none comes.
    int next(osd::deadline until)
    {
        in_packets got[1];
        const waitable descriptor = io.descriptor();
        while (io.receive(got, 1) == 0)
            if (wait_for(&descriptor, 1, until) != osd::wait_result::woken)
                return -1;
        CHECK(got[0].size == 1);
        return got[0].bytes[0];
    }
    udp_io io;
};

bool readable(waitable descriptor, osd::deadline until)
{
    return wait_for(&descriptor, 1, until) == osd::wait_result::woken;
}

} // namespace

TEST_SUITE_BEGIN("net");

TEST_CASE("the loopback interface is found by its name and by its address")
{
    interface_info by_name;
    REQUIRE(look_up_interface("lo", 4, by_name) == 0);
    interface_info by_address;
    REQUIRE(look_up_interface("127.0.0.1", 4, by_address) == 0);
    CHECK(by_name.address == by_address.address);
    CHECK(std::string(by_name.name) == by_address.name);
    CHECK(by_name.name[0] != '\0');
    CHECK(by_name.mtu >= 1500);
    interface_info none;
    CHECK(look_up_interface("no such interface", 4, none) == ENODEV);
    CHECK(look_up_interface("192.0.2.255", 4, none) == ENODEV);
}

TEST_CASE("random bytes are not the same twice")
{
    std::uint8_t first[16] = {};
    std::uint8_t second[16] = {};
    REQUIRE(random_bytes(first, sizeof first));
    REQUIRE(random_bytes(second, sizeof second));
    CHECK(std::memcmp(first, second, sizeof first) != 0);
}

TEST_CASE("a signal wakes who sleeps, until it is cleared")
{
    wake_signal signal;
    REQUIRE(signal.open());
    CHECK(!readable(signal.descriptor(), soon()));
    signal.raise();
    signal.raise();
    CHECK(readable(signal.descriptor(), soon()));
    CHECK(readable(signal.descriptor(), osd::deadline::passed()));
    signal.clear();
    CHECK(!readable(signal.descriptor(), osd::deadline::passed()));
    std::thread waker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        signal.raise();
    });
    const waitable both[] = {-1, signal.descriptor()};
    CHECK(wait_for(both, 2, late()) == osd::wait_result::woken);
    waker.join();
}

TEST_CASE("a sleep tells which descriptors may have ended it: none before the first that did")
{
    wake_signal one, other;
    wake_timer timer;
    REQUIRE((one.open() && other.open() && timer.open()));
    const waitable all[] = {one.descriptor(), -1, other.descriptor(), timer.descriptor()};
    std::uint64_t ready = 0;
    timer.set(0);
    REQUIRE(wait_for(all, 4, late(), &ready) == osd::wait_result::woken);
    CHECK(ready == 1 << 3);
    other.raise();
    REQUIRE(wait_for(all, 4, late(), &ready) == osd::wait_result::woken);
    CHECK((ready & 0b111) == 1 << 2);
    one.raise();
    REQUIRE(wait_for(all, 4, late(), &ready) == osd::wait_result::woken);
    CHECK((ready & 1) == 1);
    CHECK((ready & 0b10) == 0);
}

TEST_CASE("a timer wakes who sleeps, at the time that it was set to last, until it is set again")
{
    wake_timer timer;
    REQUIRE(timer.open());
    CHECK(!readable(timer.descriptor(), osd::deadline::passed()));
    timer.set(INT64_MAX);
    CHECK(!readable(timer.descriptor(), soon()));
    std::atomic<std::int64_t> at{INT64_MAX};
    std::thread setter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        at = osd::now_ns() + 5'000'000;
        timer.set(at);
    });
    CHECK(readable(timer.descriptor(), late()));
    CHECK(osd::now_ns() >= at);
    setter.join();
    CHECK(readable(timer.descriptor(), osd::deadline::passed()));
    timer.set(INT64_MAX);
    CHECK(!readable(timer.descriptor(), osd::deadline::passed()));
    timer.set(0);
    CHECK(readable(timer.descriptor(), late()));
}

TEST_CASE("a timer of a millisecond does not wait for a tick of the system")
{
    wake_timer timer;
    REQUIRE(timer.open());
    std::int64_t best_ns = INT64_MAX;
    for (int i = 0; i < 30; ++i) {
        const std::int64_t start = osd::now_ns();
        timer.set(start + 1'000'000);
        CHECK(readable(timer.descriptor(), late()));
        best_ns = std::min(best_ns, osd::now_ns() - start);
    }
    CHECK(best_ns > 900'000);
    CHECK(best_ns < 8'000'000);
}

TEST_CASE("a wait for nothing lasts as long as it is to")
{
    for (std::uint64_t us : {0u, 20u, 1'500u, 30'000u}) {
        const osd::deadline until = osd::deadline::after_us(us);
        CHECK(wait_for(nullptr, 0, until) == osd::wait_result::timed_out);
        CHECK(until.has_passed());
    }
}

TEST_CASE("a datagram that comes at any moment wakes who sleeps for it")
{
    mailbox here;
    mailbox there;
    const int count = static_cast<int>(rounds(4000));
    std::thread echo([&] {
        for (int i = 0; i < count; ++i) {
            const int byte = there.next(late());
            if (byte < 0)
                return;
            there.send(here.io.address(), static_cast<std::uint8_t>(byte));
        }
    });
    int answered = 0;
    for (; answered < count; ++answered) {
        here.send(there.io.address(), static_cast<std::uint8_t>(answered));
        if (here.next(late()) != (answered & 0xff))
            break;
    }
    CHECK(answered == count);
    echo.join();
    CHECK(here.next(soon()) == -1);
}

TEST_CASE("what is left behind keeps the socket readable")
{
    mailbox here;
    mailbox there;
    for (std::uint8_t i = 0; i < 10; ++i)
        there.send(here.io.address(), i);
    for (int i = 0; i < 10; ++i) {
        REQUIRE(readable(here.io.descriptor(), late()));
        CHECK(here.next(soon()) == i);
    }
    CHECK(here.next(soon()) == -1);
    CHECK(!readable(here.io.descriptor(), soon()));
}

TEST_CASE("a set is readable when one of its members is")
{
    mailbox from;
    mailbox first(false);
    wake_signal second;
    REQUIRE(second.open());
    from.send(first.io.address(), 1);
    REQUIRE(readable(first.io.descriptor(), late()));
    descriptor_set set;
    REQUIRE(set.open());
    CHECK(!readable(set.descriptor(), osd::deadline::passed()));
    REQUIRE(set.add(first.io.descriptor())); // has something already
    CHECK(readable(set.descriptor(), late()));
    set.clear();
    CHECK(first.next(soon()) == 1);
    CHECK(!readable(set.descriptor(), soon()));
    from.send(first.io.address(), 2);
    CHECK(readable(set.descriptor(), late()));
    set.clear();
    CHECK(first.next(soon()) == 2);

    second.raise();
    REQUIRE(set.add(second.descriptor()));
    CHECK(readable(set.descriptor(), late()));
    set.clear();
    second.clear();
    CHECK(!readable(set.descriptor(), soon()));
    second.raise();
    CHECK(readable(set.descriptor(), late()));
    set.clear();
    second.clear();

    set.remove(first.io.descriptor());
    set.remove(second.descriptor());
    from.send(first.io.address(), 3);
    second.raise();
    CHECK(!readable(set.descriptor(), soon()));
    CHECK(first.next(late()) == 3);
}

TEST_CASE("a member of a set wakes who sleeps on it alone, too")
{
    mailbox from;
    mailbox here;
    descriptor_set set;
    REQUIRE(set.open());
    REQUIRE(set.add(here.io.descriptor()));
    for (std::uint8_t i = 0; i < 3; ++i) {
        from.send(here.io.address(), i);
        std::uint64_t ready = 0;
        const waitable both[] = {-1, here.io.descriptor()};
        REQUIRE(wait_for(both, 2, late(), &ready) == osd::wait_result::woken);
        CHECK(ready == 0b10);
        set.clear(); // cleared before the socket is read
        CHECK(here.next(soon()) == i);
        CHECK(!readable(here.io.descriptor(), soon()));
    }
    set.remove(here.io.descriptor());
    from.send(here.io.address(), 3);
    CHECK(here.next(late()) == 3);
}

/// A burst of requests to one listener is repeated while it is slow, and each repetition probes. A
/// socket for each of them made it slower still.
TEST_CASE("probes of one port share a socket and a datagram, for a while")
{
    constexpr std::uint64_t shared_ns = 200'000'000;
    mailbox here;
    mailbox there;
    std::uint64_t datagrams = 0;
    in_packets got[1];
    const osd::deadline until = osd::deadline::after_ns(2 * shared_ns);
    const std::int64_t start = osd::now_ns();
    while (!until.has_passed()) {
        here.io.probe_port(there.io.address(), mailbox::packet(7));
        while (there.io.receive(got, 1) != 0)
            ++datagrams;
    }
    while (readable(there.io.descriptor(), soon()) && there.io.receive(got, 1) != 0)
        ++datagrams;
    CHECK(datagrams <= static_cast<std::uint64_t>(osd::now_ns() - start) / shared_ns + 1);
}

TEST_CASE("all packets to a closed port are reported, though their probes share a socket")
{
    mailbox here;
    net_address closed_port;
    {
        mailbox gone;
        closed_port = gone.io.address();
    }
    unsigned missing = 0b1110;
    for (std::uint8_t i = 1; i <= 3; ++i) {
        here.send(closed_port, i);
        here.io.probe_port(closed_port, mailbox::packet(i));
    }
    icmp_error b;
    CHECK(becomes_true([&] {
        while (here.io.take_icmp_error(b))
            missing &= ~(1U << b.bytes[0]);
        return missing == 0;
    }));
}

TEST_CASE("a probe of a closed port makes an ICMP error, and nothing else does")
{
    mailbox here;
    mailbox there;
    net_address closed_port;
    {
        mailbox gone;
        closed_port = gone.io.address();
    }
    icmp_error b;
    out_packet doubted = mailbox::packet(7);
    for (const net_address &to : {there.io.address(), closed_port}) {
        here.send(to, 7);
        here.io.probe_port(to, doubted);
    }
    REQUIRE(becomes_true([&] { return here.io.take_icmp_error(b); }));
    CHECK(b.to == closed_port);
    CHECK(b.why == send_result::refused);
    REQUIRE(b.size == 1);
    CHECK(b.bytes[0] == 7);
    CHECK(!becomes_true([&] { return here.io.take_icmp_error(b); }, std::chrono::milliseconds(50)));
    here.send(there.io.address(), 8); // the socket works on
    CHECK(there.next(late()) == 7);
}

TEST_CASE("areas are lent to as many as there are, and again when they come back")
{
    using areas = lent_areas<int>;
    areas lender;
    CHECK(lender.borrow().get() == nullptr); // nothing is lent before open(), or without memory
    lender.open();
    static_assert(areas::count == 4);
    for (int round = 0; round < 2; ++round) {
        const areas::loan held[] = {lender.borrow(), lender.borrow(), lender.borrow(),
                                    lender.borrow()};
        for (const areas::loan &each : held) {
            REQUIRE(each.get() != nullptr);
            CHECK(std::count_if(std::begin(held), std::end(held), [&](const areas::loan &other) {
                      return other.get() == each.get();
                  }) == 1);
        }
        CHECK(lender.borrow().get() == nullptr);
    }
}

TEST_CASE("many packets at once arrive in order, with memory for the messages and without")
{
    for (const bool for_data : {true, false}) { // only those sockets have it
        CAPTURE(for_data);
        mailbox from(for_data);
        mailbox to;
        constexpr std::uint32_t count = 70;
        out_packet packets[count];
        for (std::uint32_t i = 0; i < count; ++i) {
            packets[i].begin();
            packets[i].header[0] = static_cast<std::uint8_t>(i);
            packets[i].add(packets[i].header, 1 + i % 3); // varies the size: several messages
        }
        std::uint32_t done = 0;
        REQUIRE(from.io.send(to.io.address(), packets, count, done) == send_result::sent);
        CHECK(done == count);
        std::vector<std::uint8_t> got;
        const waitable descriptor = to.io.descriptor();
        while (got.size() < count) {
            in_packets group[1];
            if (to.io.receive(group, 1) == 0) {
                REQUIRE(wait_for(&descriptor, 1, late()) == osd::wait_result::woken);
                continue;
            }
            for (std::size_t at = 0; at < group[0].size; at += group[0].segment)
                got.push_back(group[0].bytes[at]);
        }
        for (std::uint32_t i = 0; i < count; ++i)
            CHECK(got[i] == i);
    }
}

TEST_CASE("packets have the class of the address that they go to, and listeners see it")
{
    for (const char *host : {"127.0.0.1", "::1"}) {
        CAPTURE(host);
        net_address at;
        REQUIRE(at.read(host));
        if (!sets_traffic_classes(at.family()))
            continue;
        udp_io listener;
        udp_io sender;
        if (listener.open(at, false) != 0 || sender.open(at, true) != 0)
            continue; // no IPv6 here
        net_address to = listener.address();
        std::vector<out_packet> packets;
        for (unsigned tos : {0xb8u, 0u, 0x2bu}) {
            to.set_traffic_class(tos);
            for (std::uint32_t count : {1u, 3u, 20u})
                for (bool together : {true, false}) {
                    sender.set_segmentation(together);
                    packets.assign(count, mailbox::packet(7));
                    std::uint32_t done = 0;
                    REQUIRE(sender.send(to, packets.data(), count, done) == send_result::sent);
                    REQUIRE(done == count);
                    const waitable descriptor = listener.descriptor();
                    for (std::uint32_t got = 0; got < count;) {
                        in_packets in[1];
                        if (listener.receive(in, 1) == 0) {
                            REQUIRE(wait_for(&descriptor, 1, late()) == osd::wait_result::woken);
                            continue;
                        }
                        CHECK(in[0].from.traffic_class() == (tos & 0xfc));
                        CHECK(in[0].from == sender.address());
                        ++got;
                    }
                }
        }
    }
}

TEST_CASE("threads that place data at once do not mix them")
{
    udp_io io;
    REQUIRE(io.open(loopback(), true) == 0);
    std::atomic<int> wrong{0};
    const auto place = [&](std::uint8_t byte) {
        const std::vector<std::uint8_t> from(16384, byte);
        std::vector<std::uint8_t> to(from.size());
        for (unsigned i = 0; i < rounds(5000); ++i) {
            const bool placed = io.place(to.data(), from.data(), from.size(), i % 2 == 0);
            wrong += placed && to == from ? 0 : 1;
        }
    };
    std::thread other(place, 1);
    place(2);
    other.join();
    CHECK(wrong.load() == 0);
}

TEST_CASE("a port is taken once, until it is closed")
{
    mailbox here;
    udp_io second;
    const int error = second.open(here.io.address(), false);
    CHECK(is_address_in_use(error));
    CHECK(!is_forbidden(error));
    const net_address at = here.io.address();
    here.io.close();
    CHECK(second.open(at, false) == 0);
    CHECK(second.address() == at);
}

TEST_SUITE_END();

} // namespace net_suite
