// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The cost of a request before its sender has shown that it receives packets at its address.
#include "rig.hpp"

#include <deque>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

namespace address_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

/// Sends requests to a listener, and takes the answers.
class requester {
public:
    requester(inproc_network &network, host &to, door &at) : network_(network), at_(at)
    {
        REQUIRE(io_.open(network, to.hca.settings().address));
    }
    /// Its size in bytes.
    std::size_t send(std::uint32_t id, const base_header &with = {}, std::uint64_t qualifier = 0)
    {
        handshake hello;
        hello.qualifier = qualifier != 0 ? qualifier : at_.number;
        hello.id = id;
        hello.tag = ~id;
        hello.max_datagram = 1472;
        const request_packet asks(hello, with);
        CHECK(network_.deliver(io_.address(), at_.socket->io->address(), asks.out));
        return asks.out.size;
    }
    struct answer {
        packet_kind kind;
        base_header base;
        std::size_t size;
    };
    /// All that come within the time.
    std::vector<answer> answers(std::chrono::milliseconds time)
    {
        std::this_thread::sleep_for(time);
        std::vector<answer> all;
        in_packets got[16];
        while (const std::uint32_t count = io_.receive(got, 16))
            for (std::uint32_t i = 0; i < count; ++i) {
                packet p;
                REQUIRE(parse(got[i].bytes, got[i].size, p));
                all.push_back({p.base.kind, p.base, got[i].size});
            }
        return all;
    }
    /// Waits for a number of answers, and takes answers that come shortly after them.
    std::vector<answer> await_answers(std::size_t number)
    {
        std::vector<answer> all;
        const auto take = [&](std::chrono::milliseconds time) {
            for (const answer &each : answers(time))
                all.push_back(each);
            return all.size() >= number;
        };
        CHECK(becomes_true([&] { return take(1ms); }));
        (void)take(20ms);
        return all;
    }
    const net_address &address() const { return io_.address(); }

private:
    inproc_network &network_;
    door &at_;
    inproc_io io_;
};

std::size_t bytes_of(const std::vector<requester::answer> &answers)
{
    std::size_t sum = 0;
    for (const requester::answer &each : answers)
        sum += each.size;
    return sum;
}

struct fixture {
    inproc_network network;
    host there{inside(network)};
    door at{there};
    requester stranger{network, there, at};
};

base_header understanding(std::uint32_t token_id = 0, std::uint32_t token_tag = 0)
{
    base_header base;
    base.ack = understands_retry;
    base.to = token_id;
    base.tag = token_tag;
    return base;
}

handshake hello_of(std::uint32_t id)
{
    handshake hello;
    hello.id = id;
    hello.tag = ~id;
    return hello;
}

} // namespace

TEST_SUITE_BEGIN("address");

TEST_CASE_FIXTURE(fixture, "a token is valid for its request, its address, and some seconds")
{
    constexpr std::int64_t second = 1'000'000'000;
    address_tokens tokens;
    REQUIRE(tokens.open());
    const net_address &from = stranger.address();
    for (const std::int64_t now : {0 * second, 9 * second, 100 * second}) {
        const address_token token = tokens.make(from, hello_of(1), now);
        CHECK(tokens.valid(token, from, hello_of(1), now));
        CHECK(tokens.valid(token, from, hello_of(1), now + 9 * second));
        CHECK_FALSE(tokens.valid(token, from, hello_of(1), now + 21 * second));
        CHECK_FALSE(tokens.valid(token, from, hello_of(2), now));
        CHECK_FALSE(tokens.valid({}, from, hello_of(1), now));
        net_address other = from;
        other.set_port(static_cast<std::uint16_t>(from.port() + 1));
        CHECK_FALSE(tokens.valid(token, other, hello_of(1), now));
        address_tokens of_other_device;
        REQUIRE(of_other_device.open());
        CHECK_FALSE(of_other_device.valid(token, from, hello_of(1), now));
    }
}

TEST_CASE_FIXTURE(fixture,
                  "a requester that understands a retry leaves no trace before it answers one")
{
    for (std::uint32_t id = 1; id <= 100; ++id)
        stranger.send(id, understanding());
    const auto answers = stranger.await_answers(100);
    REQUIRE(answers.size() == 100);
    for (const auto &each : answers) {
        CHECK(each.kind == packet_kind::retry);
        CHECK(each.size == base_size);
        CHECK(each.base.tag == ~each.base.to);
    }
    CHECK_FALSE(there.hca.listening.remembers());
    CHECK(at.next(0ms) == nullptr);

    const base_header &retry = answers[41].base;
    stranger.send(retry.to, understanding(retry.from, retry.psn + 1)); // sends another number than
                                                                       // it was given
    CHECK(at.next(50ms) == nullptr);
    CHECK(stranger.await_answers(1).size() == 1);
    stranger.send(retry.to, understanding(retry.from, retry.psn));
    inbound_request *const offered = at.next();
    REQUIRE(offered != nullptr);
    CHECK(offered->hello.id == retry.to);
}

TEST_CASE("a copy of a request that waited while the request was forgotten makes no new one")
{
    static std::atomic<bool> held, inside_upcall;
    held = inside_upcall = false;
    upcalls table = upcall_table;
    table.request = [](void *owner, inbound_request &request) {
        inside_upcall = true;
        while (held)
            std::this_thread::sleep_for(1ms);
        return upcall_table.request(owner, request);
    };
    inproc_network network;
    host there(inside(network), table);
    door at(there);
    requester stranger(network, there, at);
    connections &listening = there.hca.listening;
    const auto much_later = [] { return osd::now_ns() + 5'000'000'000; };
    stranger.send(1);
    inbound_request *const first = at.next();
    REQUIRE(first != nullptr);
    listening.reject(*first, reject_code::consumer, nullptr, 0);
    held = true;
    inside_upcall = false;
    stranger.send(2);
    REQUIRE(becomes_true([] { return inside_upcall.load(); }));
    stranger.send(1);
    listening.forget_old(much_later());
    held = false;
    inbound_request *const second = at.next();
    REQUIRE(second != nullptr);
    CHECK(second->hello.id == 2);
    CHECK(at.next(100ms) == nullptr);
    listening.reject(*second, reject_code::consumer, nullptr, 0);
    CHECK(becomes_true([&] {
        listening.forget_old(much_later());
        return !listening.remembers();
    }));
}

TEST_CASE("a thread that comes late sends no request again whose answer waits for it")
{
    static std::atomic<bool> held, inside_upcall;
    held = inside_upcall = false;
    upcalls table = upcall_table;
    table.connection = [](void *owner, connection_event what, const void *data, std::size_t size) {
        inside_upcall = true;
        while (held)
            std::this_thread::sleep_for(1ms);
        upcall_table.connection(owner, what, data, size);
    };
    inproc_network network;
    host here(inside(network), table);
    host there(inside(network));
    door at(there);
    std::deque<end> crowd;
    std::vector<inbound_request *> requests;
    for (int i = 0; i < 100; ++i) {
        end &each = crowd.emplace_back(here, end_options{1, 8, 64});
        REQUIRE(each.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
                queue_pair::start::begun);
        requests.push_back(at.next());
        REQUIRE(requests.back() != nullptr);
    }
    held = true;
    for (inbound_request *each : requests) {
        there.hca.listening.reject(*each, reject_code::consumer, nullptr, 0);
        // From the first answer on, the thread that sends requests is stopped.
        REQUIRE(becomes_true([] { return inside_upcall.load(); }));
    }
    CHECK(becomes_true([&] {
        there.hca.listening.forget_old(osd::now_ns() + 5'000'000'000);
        return !there.hca.listening.remembers();
    }));
    std::this_thread::sleep_for(1500ms); // as a process that was stopped: all of them are due
    held = false;
    CHECK(at.next(500ms) == nullptr);
    for (end &each : crowd)
        CHECK(is(each.next(), connection_event::rejected));
}

TEST_CASE_FIXTURE(fixture, "a wrong qualifier is refused without a trace")
{
    for (std::uint32_t id = 1; id <= 50; ++id)
        stranger.send(id, id % 2 != 0 ? understanding() : base_header{}, at.number + 0x10000);
    const auto answers = stranger.await_answers(50);
    CHECK(answers.size() == 50);
    for (const auto &each : answers) {
        CHECK(each.kind == packet_kind::reject);
        CHECK(each.size == base_size + reject_size);
    }
    CHECK_FALSE(there.hca.listening.remembers());
    CHECK(at.next(0ms) == nullptr);
}

TEST_CASE_FIXTURE(fixture, "to an address that is not proven go at most three times its bytes")
{
    const std::vector<std::uint8_t> data(max_private_data, 7);
    for (const bool accepts : {false, true}) {
        CAPTURE(accepts);
        const std::uint32_t id = accepts ? 2 : 1;
        std::size_t heard = stranger.send(id);
        inbound_request *const offered = at.next();
        REQUIRE(offered != nullptr);
        end b(there);
        if (accepts)
            REQUIRE(b.pair.accept(*offered, data.data(), data.size()) == queue_pair::start::begun);
        else
            there.hca.listening.reject(*offered, reject_code::consumer, data.data(), data.size());
        std::size_t got = bytes_of(stranger.answers(200ms));
        CHECK(got <= 3 * heard);
        // The answer itself is longer than that. It is sent when the request was repeated.
        std::vector<requester::answer> answers;
        for (int i = 0; i < 4 || (answers.empty() && i < 40); ++i) {
            heard += stranger.send(id);
            for (const auto &each : stranger.answers(150ms)) {
                answers.push_back(each);
                got += each.size;
            }
            CHECK(got <= 3 * heard);
        }
        REQUIRE_FALSE(answers.empty());
        CHECK(answers[0].kind == (accepts ? packet_kind::accept : packet_kind::reject));
    }
}

TEST_CASE_FIXTURE(
    fixture, "few requests at a time are served whose address is not proven; others get through")
{
    host here(inside(network));
    for (std::uint32_t id = 1; id <= 2000; ++id)
        stranger.send(id);
    std::vector<std::unique_ptr<end>> half_open; // accepted, but no peer completes the handshake
    while (half_open.size() < 16) {
        inbound_request *const offered = at.next();
        REQUIRE(offered != nullptr);
        half_open.push_back(std::make_unique<end>(there));
        REQUIRE(half_open.back()->pair.accept(*offered, nullptr, 0) == queue_pair::start::begun);
    }
    CHECK(at.next(100ms) == nullptr);
    const auto begun = std::chrono::steady_clock::now();
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    inbound_request *const honest = at.next();
    REQUIRE(honest != nullptr);
    CHECK(honest->peer == a.pair.shard->io().address());
    end b(there);
    REQUIRE(b.pair.accept(*honest, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::established));
    CHECK(std::chrono::steady_clock::now() - begun < patience);
    // Requests that end make room.
    half_open.clear();
    stranger.send(5000);
    CHECK(at.next() != nullptr);
}

TEST_SUITE_END();

} // namespace address_suite
