// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reliability by itself: packets sent, packets arrived, and times.
#include "interface/settings.hpp"
#include "window/congestion.hpp"
#include "window/receive_window.hpp"
#include "window/send_window.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <deque>
#include <tuple>
#include <vector>

namespace windows_suite {

using namespace soft_hca;

namespace {

constexpr std::int64_t us = 1000;

/// A send window with some packets sent, one each 10 us.
struct sender {
    explicit sender(std::uint32_t first = 0xfffffff0)
    {
        REQUIRE(window.open(reserve));
        window.start(first);
    }
    void send(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            REQUIRE(window.has_room());
            (void)window.push(now += 10 * us);
        }
    }
    void acknowledge(std::uint32_t ack)
    {
        while (window.acknowledged(ack) != nullptr)
            window.pop(rtt, now);
        window.settle();
    }
    std::vector<std::uint32_t> resend()
    {
        std::vector<std::uint32_t> all;
        while (window.lost() != 0)
            all.push_back(window.take_lost(now += us));
        return all;
    }
    window_reserve reserve;
    send_window window;
    rtt_estimator rtt;
    std::int64_t now = 1'000'000;
};

/// Packets that can be sent before one is acknowledged.
unsigned room_of(sender &s)
{
    unsigned count = 0;
    for (; s.window.has_room(); ++count)
        s.send(1);
    return count;
}

} // namespace

TEST_SUITE_BEGIN("windows");

TEST_CASE("B4: numbers compare across the wrap")
{
    CHECK(before(0xfffffff0, 5));
    CHECK(!before(5, 0xfffffff0));
    CHECK(distance(0xffffffff, 1) == 2);
    CHECK(!before(7, 7));
}

TEST_CASE("a window borrows a large one for more than a few packets, and gives it back")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(send_window::few);
    CHECK(s.reserve.borrow() != nullptr);
    CHECK(room_of(s) == send_window::capacity - send_window::few);
    CHECK(s.reserve.borrow() == nullptr);
    s.acknowledge(begin + send_window::capacity - 1);
    CHECK(s.reserve.borrow() == nullptr);
    s.acknowledge(begin + send_window::capacity);
    CHECK(s.reserve.borrow() != nullptr);

    room_of(s);
    s.window.start(7); // the connection has ended
    CHECK(s.window.empty());
    CHECK(s.reserve.borrow() != nullptr);
}

TEST_CASE("what is in flight is the same in a large window")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    for (std::uint32_t i = 0; i < send_window::capacity; ++i) {
        REQUIRE(s.window.has_room());
        s.window.set_length(s.window.push(s.now), i);
        CHECK(s.window.at(begin + i).length == i);
    }
    for (std::uint32_t i = 0; i < send_window::capacity; ++i)
        CHECK(s.window.at(begin + i).length == i);
}

TEST_CASE("without a large window to borrow a few packets are sent")
{
    sender s;
    window_reserve::loan last = s.reserve.borrow();
    REQUIRE(last != nullptr);
    CHECK(room_of(s) == send_window::few);
    last.reset();
    CHECK(room_of(s) == send_window::capacity - send_window::few);
}

TEST_CASE("the reserve follows the number of queue pairs")
{
    window_reserve reserve;
    CHECK(reserve.borrow() == nullptr);
    std::vector<window_reserve::membership> members;
    const auto have = [&](std::uint32_t count) {
        while (members.size() < count)
            members.push_back(reserve.join());
        members.resize(count);
        return reserve.size();
    };
    CHECK(have(1) == 1);
    CHECK(have(window_reserve::for_each) == window_reserve::for_each);
    const std::uint32_t beyond = window_reserve::per_window;
    CHECK(have(window_reserve::for_each + beyond - 1) == window_reserve::for_each);
    CHECK(have(window_reserve::for_each + 4 * beyond) == window_reserve::for_each + 4);
    std::vector<window_reserve::loan> lent;
    for (std::uint32_t i = 0; i < window_reserve::for_each + 4; ++i)
        lent.push_back(reserve.borrow());
    CHECK(lent.back() != nullptr);
    CHECK(reserve.borrow() == nullptr);
    CHECK(have(2) == window_reserve::for_each + 4); // they are freed when they come back
    lent.clear();
    CHECK(reserve.size() == 2);
    CHECK(have(0) == 0);
}

TEST_CASE("B4: a window goes over the wrap")
{
    sender s;
    for (unsigned round = 0; round < 100; ++round) {
        const std::uint32_t begin = s.window.next();
        s.send(32);
        CHECK(s.window.in_flight() == 32);
        s.acknowledge(begin + 32);
        CHECK(s.window.empty());
    }
    CHECK(s.resend().empty());
}

TEST_CASE("B3: an acknowledgement of what was not sent, or long ago, is not plausible")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(10);
    CHECK(s.window.is_plausible(begin));
    CHECK(s.window.is_plausible(begin + 10));
    CHECK(!s.window.is_plausible(begin + 11));
    CHECK(!s.window.is_plausible(begin - 1));
    CHECK(!s.window.is_plausible(begin + 0x80000000));
    s.acknowledge(begin + 5);
    s.acknowledge(begin + 3); // a later acknowledgement has overtaken it
    CHECK(s.window.oldest() == begin + 5);
    CHECK(s.window.in_flight() == 5);
}

TEST_CASE("B2: of two holes exactly the missing packets are sent again, and once")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(20);
    s.acknowledge(begin + 4); // 4 and 9 are missing
    std::uint32_t word = 0;
    for (unsigned psn = 5; psn < 20; ++psn)
        if (psn != 9)
            word |= 1u << (psn - 5);
    s.window.acknowledge_selectively(begin + 4, &word, 1, s.rtt, s.now);
    CHECK(s.resend() == std::vector<std::uint32_t>{begin + 4, begin + 9});
    s.window.acknowledge_selectively(begin + 4, &word, 1, s.rtt, s.now);
    CHECK(s.resend().empty());
    s.acknowledge(begin + 20);
    CHECK(s.window.empty());
}

TEST_CASE("packets that are only out of order are not sent again")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(10);
    const std::uint32_t two_after_the_hole = 0x3;
    s.window.acknowledge_selectively(begin, &two_after_the_hole, 1, s.rtt, s.now);
    CHECK(s.resend().empty());
    const std::uint32_t three_after_the_hole = 0x7;
    s.window.acknowledge_selectively(begin, &three_after_the_hole, 1, s.rtt, s.now);
    CHECK(s.resend() == std::vector<std::uint32_t>{begin});
}

TEST_CASE("selective bits beyond what was sent mean nothing")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(2);
    const std::uint32_t all[8] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    s.window.acknowledge_selectively(begin, all, 8, s.rtt, s.now);
    CHECK(s.window.in_flight() == 2);
    CHECK(!s.window.at(begin).sacked);
    CHECK(s.window.at(begin + 1).sacked);
}

TEST_CASE("after a timeout one packet goes, and its acknowledgement shows what else is missing")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(8);
    s.now += 20'000 * us;
    s.window.repeat_oldest();
    CHECK(s.resend() == std::vector<std::uint32_t>{begin});
    s.now += 500 * us;
    s.acknowledge(begin + 1);
    s.window.suspect_overtaken(s.rtt);
    CHECK(s.resend().size() == 7);
}

TEST_CASE("the timeout follows RFC 6298, in microseconds, with limits")
{
    rtt_estimator rtt;
    CHECK(rtt.rto_us() == rtt_estimator::first_rto_us);
    rtt.sample(40'000);
    CHECK(rtt.srtt_us() == 40'000);
    CHECK(rtt.rto_us() == 40'000 + 4 * 20'000);
    rtt.sample(48'000); // var = 3/4 * 20000 + 1/4 * 8000, mean = 7/8 * 40000 + 1/8 * 48000
    CHECK(rtt.srtt_us() == 41'000);
    CHECK(rtt.rto_us() == 41'000 + 4 * 17'000);
    rtt.back_off();
    CHECK(rtt.rto_us() == 2 * (41'000 + 4 * 17'000));
    for (int i = 0; i < 40; ++i)
        rtt.back_off();
    CHECK(rtt.rto_us() == rtt_estimator::max_rto_us);
    rtt.sample(41'000); // times another packet
    CHECK(rtt.rto_us() == rtt_estimator::max_rto_us);
    rtt.progress(); // it was sent again, which times nothing
    CHECK(rtt.rto_us() == rtt_estimator::max_rto_us);
    for (int i = 0; i < 200; ++i)
        rtt.sample(10);
    CHECK(rtt.rto_us() == rtt_estimator::min_rto_us);
    CHECK(rtt.patience_us(1) == 3 * rtt_estimator::min_rto_us);
}

TEST_CASE("the latest packet, sent again, shows by its acknowledgement what was lost before it")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(8);
    s.now += 2'000 * us;
    s.window.repeat_latest();
    CHECK(s.resend() == std::vector<std::uint32_t>{begin + 7});
    s.now += 500 * us;
    const std::uint32_t words[] = {1u << 6}; // only the latest has arrived
    s.window.acknowledge_selectively(begin, words, 1, s.rtt, s.now);
    CHECK(s.resend().size() == 7);
    s.window.repeat_latest(); // a packet that has arrived is not sent again
    CHECK(s.resend() == std::vector<std::uint32_t>{begin + 6});
}

TEST_CASE("a tail is probed after two round trips, however much their times vary")
{
    rtt_estimator rtt;
    CHECK(rtt.probe_us(1'000) == rtt_estimator::first_rto_us);
    for (int i = 0; i < 100; ++i)
        rtt.sample(i % 2 == 0 ? 100 : 20'000); // the peer is on the processor, or is not
    CHECK(rtt.rto_us() > 40'000);
    CHECK(rtt.probe_us(1'000) == 2 * rtt.srtt_us() + 1'000 + rtt_estimator::granularity_us);
    CHECK(rtt.probe_us(3'000) == rtt.probe_us(1'000) + 2'000);
    for (int i = 0; i < 100; ++i)
        rtt.sample(100'000);
    CHECK(rtt.probe_us(1'000) == rtt.rto_us()); // never after the timeout
}

TEST_CASE("the retries of a connection take the time that is documented, on near and far networks")
{
    for (const std::uint32_t rtt_us : {20u, 1'000u, 100'000u}) {
        rtt_estimator rtt;
        for (int i = 0; i < 100; ++i)
            rtt.sample(rtt_us);
        const auto seconds = static_cast<double>(rtt.patience_us(settings{}.retries)) / 1e6;
        CHECK(seconds > 12);
        CHECK(seconds < 16);
    }
}

TEST_CASE("F8: the congestion window doubles, shrinks once for each round trip, and grows slowly")
{
    constexpr std::uint32_t first = 0xffffff80;
    congestion_control control(256, first);
    std::uint32_t next = first;
    const auto round_trip = [&](bool queues = false) {
        const std::uint32_t window = control.window();
        next += window;
        control.arrived(window, window, queues);
    };
    CHECK(control.window() == congestion_control::first_window);
    round_trip();
    CHECK(control.window() == 64);
    round_trip(true);
    CHECK(control.window() == 80);
    round_trip();
    CHECK(control.window() == 160);
    CHECK(control.in_slow_start());
    control.lost(next - 100, next);
    CHECK(control.window() == 112);
    CHECK(!control.in_slow_start());
    control.lost(next - 90, next + 10); // lost in this round trip, too
    CHECK(control.window() == 112);
    for (unsigned i = 1; i <= 5; ++i) {
        round_trip();
        CHECK(control.window() == 111 + i);
        round_trip();
        CHECK(control.window() == 112 + i);
    }
    control.lost(next - 1, next);
    CHECK(control.window() == 81);
    for (int i = 0; i < 5; ++i)
        control.timed_out_again(next); // one outage, however long it lasts
    CHECK(control.window() == congestion_control::least_window);
    for (std::uint32_t window : {4u, 8u, 16u, 32u}) {
        round_trip();
        CHECK(control.window() == window);
    }
    for (int i = 0; i < 1000; ++i)
        round_trip();
    CHECK(control.window() == 256);
    for (int i = 0; i < 20; ++i) {
        control.lost(next, next + 1);
        ++next;
    }
    CHECK(control.window() == congestion_control::least_window);
}

TEST_CASE("F8: a window is spread over a long round trip, and sent at once over a short one")
{
    const congestion_control control(256, 0); // 32 packets, which may double in a round trip
    constexpr std::int64_t ms = 1'000'000;
    struct expectation {
        std::uint32_t srtt_us;
        int at_once;
        int in_a_round_trip;
    };
    for (const expectation &of : {expectation{1'000, 1000, 1000}, expectation{20'000, 4, 68}}) {
        CAPTURE(of.srtt_us);
        rtt_estimator rtt;
        rtt.sample(of.srtt_us);
        rtt.sample(of.srtt_us);
        pacer pace;
        std::int64_t now = 1000 * ms;
        int sent = 0;
        const auto send = [&] {
            for (; !pace.holds(now) && sent < 1000; ++sent)
                pace.sent(now, control, rtt);
        };
        send();
        CHECK(sent == of.at_once);
        for (; now < 1020 * ms && sent < 1000; now = pace.next_ns())
            send();
        CHECK(sent <= of.in_a_round_trip);
        CHECK(sent >= of.in_a_round_trip - 4);
    }
}

TEST_CASE("F8: a window that is not used does not grow")
{
    congestion_control control(256, 0);
    for (int i = 0; i < 100; ++i)
        control.arrived(1, 1, false);
    CHECK(control.window() == congestion_control::first_window);
}

TEST_CASE("F8: packets on the way are those that neither arrived nor were lost")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(10);
    CHECK(s.window.on_the_way() == 10);
    const std::uint32_t last_three = 0x1c0;
    s.window.acknowledge_selectively(begin, &last_three, 1, s.rtt, s.now);
    CHECK(s.window.lost() == 7);
    CHECK(s.window.on_the_way() == 0);
    std::uint32_t psn = 0;
    CHECK(s.window.take_found(psn));
    CHECK(psn == begin + 6);
    CHECK(!s.window.take_found(psn));
    CHECK(s.resend().size() == 7);
    CHECK(s.window.on_the_way() == 7);
    s.acknowledge(begin + 7);
    CHECK(s.window.on_the_way() == 0);
    CHECK(s.window.in_flight() == 3);
    const std::uint32_t none = 0;
    s.window.take_back(&none, 1);
    CHECK(s.window.lost() == 3);
    CHECK(s.resend().size() == 3);
    CHECK(s.window.on_the_way() == 3);
    s.acknowledge(begin + 10);
    CHECK(s.window.on_the_way() == 0);
}

TEST_CASE("Karn: a packet that was sent twice tells nothing about the time")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(1);
    s.window.repeat_oldest();
    (void)s.resend();
    s.now += 3'000'000 * us;
    s.acknowledge(begin + 1);
    CHECK(s.rtt.srtt_us() == 0);
}

TEST_CASE("early packets are kept, given out in order, and described in several blocks")
{
    early_packets budget;
    receive_window window(budget, 0xfffffffe);
    const std::uint8_t content[] = {1, 2, 3};
    CHECK(window.place_of(0xfffffffe) == receive_window::place::in_order);
    CHECK(window.place_of(0xfffffffd) == receive_window::place::old);
    CHECK(window.place_of(1) == receive_window::place::early);
    CHECK(window.place_of(0xfffffffe + receive_window::capacity) == receive_window::place::beyond);
    CHECK(window.place_of(0x7fffffff) == receive_window::place::beyond);
    CHECK(window.keep(0, content, 3));
    CHECK(!window.keep(0, content, 3));
    CHECK(window.keep(3, content, 2));
    CHECK(window.keep(40, content, 1));
    std::uint32_t words[8];
    REQUIRE(window.describe(words, 8) == 2);
    CHECK(words[0] == ((1u << 1) | (1u << 4))); // bits count from 0xffffffff
    CHECK(words[1] == 1u << (41 - 32));
    CHECK(window.take_next() == nullptr);
    window.advance();
    CHECK(window.take_next() == nullptr);
    window.advance();
    const auto third = window.take_next();
    REQUIRE(third != nullptr);
    CHECK(third->size == 3);
    CHECK(third->bytes()[2] == 3);
    window.advance();
    CHECK(window.next() == 1);
    window.start(1);
    CHECK(!window.holds_any());
    CHECK(window.describe(words, 8) == 0);
}

TEST_CASE("a kept packet that comes again in order does not stay kept")
{
    early_packets budget;
    receive_window window(budget, 100);
    const std::uint8_t byte = 0;
    REQUIRE(window.keep(101, &byte, 1));
    window.advance(); // 100
    CHECK(window.holds_any());
    window.advance(); // 101 came again, and was taken
    CHECK(!window.holds_any());
    for (std::uint32_t i = 0; i < receive_window::capacity; ++i) {
        REQUIRE(window.take_next() == nullptr);
        std::uint32_t words[8];
        REQUIRE(window.describe(words, 8) == 0);
        window.advance();
    }
}

namespace {

constexpr std::size_t early_limit = 1 << 20;

/// Fills a window, behind a hole.
struct hoarder {
    explicit hoarder(early_packets &budget) : window(budget, 0) { hoard(); }
    void hoard()
    {
        const std::vector<std::uint8_t> content(8000);
        for (std::uint32_t psn = 1; psn < receive_window::capacity; ++psn)
            (void)window.keep(psn, content.data(), content.size());
    }
    std::size_t held()
    {
        std::uint32_t words[8];
        (void)window.describe(words, 8);
        std::size_t count = 0;
        for (std::uint32_t word : words)
            count += static_cast<std::size_t>(std::popcount(word));
        return count;
    }
    receive_window window;
};

} // namespace

TEST_CASE("B9, F11: what all connections keep early has one limit")
{
    early_packets budget;
    budget.limit_to(early_limit);
    {
        std::deque<hoarder> many;
        for (int i = 0; i < 40; ++i) {
            many.emplace_back(budget);
            CHECK(budget.counted().bytes <= early_limit);
        }
        CHECK(budget.counted().bytes > early_limit / 2);
        CHECK(budget.counted().refused > 0);
        for (hoarder &each : many) // all have something
            CHECK(each.held() > 0);
    }
    CHECK(budget.counted().bytes == 0);
}

TEST_CASE(
    "F11: who keeps little gets its share from those who keep much, however long they have it")
{
    early_packets budget;
    budget.limit_to(early_limit);
    hoarder first(budget);
    hoarder second(budget);
    const std::size_t before = first.held() + second.held();
    CHECK(budget.counted().evicted > 0);
    CHECK(first.held() <= 3 * second.held());
    CHECK(second.held() <= 3 * first.held());
    receive_window honest(budget, 500);
    const std::uint8_t content[1000] = {7};
    for (std::uint32_t psn = 501; psn < 600; ++psn)
        REQUIRE(honest.keep(psn, content, sizeof content));
    first.hoard();
    second.hoard();
    CHECK(first.held() + second.held() < before);
    honest.advance();
    for (std::uint32_t psn = 501; psn < 600; ++psn) { // the honest one's packets were not dropped
        const auto copy = honest.take_next();
        REQUIRE(copy != nullptr);
        CHECK(copy->psn == psn);
        CHECK(copy->bytes()[0] == 7);
        honest.advance();
    }
    CHECK(!honest.holds_any());
}

TEST_CASE("an early packet that takes several numbers is described by all of them")
{
    early_packets budget;
    receive_window window(budget, 0xfffffffe);
    const std::uint8_t content[] = {1};
    REQUIRE(window.keep(0xfffffffe, content, 1, 3)); // that it waits for: the second and third
    REQUIRE(window.keep(2, content, 1, 31));
    REQUIRE(window.keep(4, content, 1)); // sent again by itself
    std::uint32_t words[8];
    REQUIRE(window.describe(words, 8) == 2);
    CHECK(words[0] == (3u | 0xfffffff8u)); // bits count from 0xffffffff
    CHECK(words[1] == 3u);
    const auto first = window.take_next();
    REQUIRE(first != nullptr);
    CHECK(first->numbers == 3);
    window.advance(first->numbers);
    CHECK(window.next() == 1);
    window.advance();
    const auto second = window.take_next();
    REQUIRE(second != nullptr);
    window.advance(second->numbers);
    CHECK(window.next() == 33);
    CHECK(!window.holds_any());
}

TEST_CASE("F11: what is dropped is what is furthest ahead, and is not described any more")
{
    early_packets budget;
    budget.limit_to(early_limit);
    hoarder first(budget);
    const std::size_t before = first.held();
    hoarder second(budget);
    const std::size_t after = first.held();
    REQUIRE(after < before);
    first.window.advance(); // the hole is filled
    for (std::size_t i = 0; i < after; ++i) {
        REQUIRE(first.window.take_next() != nullptr);
        first.window.advance();
    }
    CHECK(first.window.take_next() == nullptr);
    CHECK(!first.window.holds_any());
}

TEST_CASE("F11: packets that the peer has dropped again are sent again, and no others")
{
    sender s;
    const std::uint32_t begin = s.window.next();
    s.send(10);
    const std::uint32_t all_behind_the_hole = 0x1ff;
    s.window.acknowledge_selectively(begin, &all_behind_the_hole, 1, s.rtt, s.now);
    CHECK(s.resend() == std::vector<std::uint32_t>{begin});
    s.acknowledge(begin + 5); // the peer has dropped 5, 8 and 9
    const std::uint32_t two_left = 0x3;
    REQUIRE(s.window.at(begin + 5).sacked);
    s.window.take_back(&two_left, 1);
    CHECK(s.resend() == std::vector<std::uint32_t>{begin + 5, begin + 8, begin + 9});
    CHECK(s.window.at(begin + 6).sacked);
}

TEST_SUITE_END();

} // namespace windows_suite
