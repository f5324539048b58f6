// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How connections come up, are refused, and end.
#include "rig.hpp"

#include <doctest/doctest.h>

namespace connections_suite {

using namespace rig;

namespace {

struct fixture {
    fixture() : here(on_loopback()), there(on_loopback()), a(here), b(there) {}
    const net_address &address() { return there.hca.settings().address; }
    queue_pair::start connect(end &from, std::uint64_t qualifier, const std::string &data = {})
    {
        return from.pair.connect(address(), qualifier, data.data(), data.size());
    }
    host here;
    host there;
    end a;
    end b;
};

std::string text(const std::uint8_t *bytes, std::size_t size)
{
    return std::string(reinterpret_cast<const char *>(bytes), size);
}

} // namespace

TEST_SUITE_BEGIN("connections");

TEST_CASE_FIXTURE(fixture, "private data travels both ways, up to the limit")
{
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, max_private_data}) {
        end from(here);
        end to(there);
        door at(there);
        const std::string question(size, 'q');
        const std::string answer(max_private_data - size, 'a');
        REQUIRE(connect(from, at.number, question) == queue_pair::start::begun);
        inbound_request *request = at.next();
        REQUIRE(request != nullptr);
        CHECK(text(request->data, request->data_size) == question);
        REQUIRE(to.pair.accept(*request, answer.data(), answer.size()) == queue_pair::start::begun);
        const auto active = from.next();
        REQUIRE(is(active, connection_event::established));
        CHECK(active->data == answer);
        const auto passive = to.next();
        REQUIRE(is(passive, connection_event::established));
        CHECK(passive->data.empty());
    }
}

TEST_CASE_FIXTURE(fixture, "a rejection says by whom it was, with data")
{
    door at(there);
    REQUIRE(connect(a, at.number) == queue_pair::start::begun);
    inbound_request *request = at.next();
    REQUIRE(request != nullptr);
    there.hca.listening.reject(*request, reject_code::consumer, "no", 2);
    const auto event = a.next();
    REQUIRE(is(event, connection_event::rejected));
    CHECK(event->data == "no");
    end other(here);
    at.takes = false;
    REQUIRE(connect(other, at.number) == queue_pair::start::begun);
    CHECK(is(other.next(), connection_event::refused));
}

TEST_CASE_FIXTURE(fixture, "no listener: refused, but not before a late listener had time")
{
    const std::uint64_t number = free_number(there);
    REQUIRE(a.receive(0, 16));
    REQUIRE(connect(a, number) == queue_pair::start::begun);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    SUBCASE("none comes")
    {
        CHECK(is(a.next(), connection_event::refused));
        const auto flushed = a.received(std::chrono::milliseconds(0));
        REQUIRE(flushed.has_value());
        CHECK(flushed->status == work_status::flushed);
    }
    SUBCASE("one comes")
    {
        door late(there, number);
        inbound_request *request = late.next();
        REQUIRE(request != nullptr);
        REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        CHECK(is(a.next(), connection_event::established));
    }
}

TEST_CASE_FIXTURE(fixture, "a number is compared whole, and taken once")
{
    door at(there);
    std::uint64_t number = at.number;
    listener second;
    CHECK(is_address_in_use(there.hca.listening.add(second, number, &at)));
    REQUIRE(connect(a, at.number + (1ull << 32)) == queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::refused));
}

TEST_CASE_FIXTURE(fixture, "who accepts sends in the class of the request, and each class is kept")
{
    if (!sets_traffic_classes(address().family()))
        return;
    const auto class_of = [](end &side) {
        side.pair.enter();
        const unsigned tos = side.pair.connection().path().peer().traffic_class();
        side.pair.leave();
        return tos;
    };
    door at(there);
    for (unsigned tos : {0xb8u, 0u, 0x28u}) {
        CAPTURE(tos);
        end from(here);
        end to(there);
        net_address classified = address();
        classified.set_traffic_class(tos);
        REQUIRE(from.pair.connect(classified, at.number, nullptr, 0) == queue_pair::start::begun);
        inbound_request *request = at.next();
        REQUIRE(request != nullptr);
        REQUIRE(to.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        REQUIRE(is(from.next(), connection_event::established));
        REQUIRE(is(to.next(), connection_event::established));
        CHECK(class_of(from) == tos);
        CHECK(class_of(to) == tos);
    }
}

TEST_CASE_FIXTURE(fixture, "an end by either side, graceful or not, is one event on each")
{
    for (int round = 0; round < 8; ++round) {
        end from(here);
        end to(there);
        REQUIRE(establish(from, to));
        for (int i = 0; i < 4; ++i) {
            REQUIRE(from.receive(0, 16));
            REQUIRE(to.receive(0, 16));
        }
        (round % 2 == 0 ? from : to).pair.disconnect(round < 4);
        for (end *side : {&from, &to}) {
            CHECK(is(side->next(), connection_event::disconnected));
            for (int i = 0; i < 4; ++i)
                CHECK(side->received()->status == work_status::flushed);
            CHECK(!side->next(std::chrono::milliseconds(5)).has_value());
        }
    }
}

TEST_CASE_FIXTURE(fixture, "a graceful end finishes what was posted before")
{
    REQUIRE(establish(a, b));
    REQUIRE(b.receive(0, 200000));
    a.buffer.fill(0, 200000, 4);
    REQUIRE(a.write(0, 200000, b.buffer.remote(300000, 200000)));
    REQUIRE(a.send(0, 200000));
    a.pair.disconnect(true);
    CHECK(is(a.next(), connection_event::disconnected));
    CHECK(a.sent()->status == work_status::success);
    CHECK(a.sent()->status == work_status::success);
    CHECK(b.received()->status == work_status::success);
    CHECK(b.buffer.holds(300000, 200000, 4));
    CHECK(is(b.next(), connection_event::disconnected));
}

TEST_CASE_FIXTURE(fixture, "posted to an ended connection, requests come back flushed")
{
    REQUIRE(establish(a, b));
    a.pair.disconnect(false);
    REQUIRE(a.send(0, 16));
    REQUIRE(a.receive(0, 16));
    CHECK(a.sent()->status == work_status::flushed);
    CHECK(a.received()->status == work_status::flushed);
}

TEST_CASE_FIXTURE(fixture, "a reset queue pair connects again, under another id")
{
    std::uint32_t before = 0;
    for (int round = 0; round < 10; ++round) {
        REQUIRE(establish(a, b));
        CHECK(a.pair.identity.id != before);
        before = a.pair.identity.id;
        REQUIRE(b.receive(0, 64));
        REQUIRE(a.send(0, 64));
        REQUIRE(a.sent()->status == work_status::success);
        REQUIRE(b.received()->status == work_status::success);
        a.pair.disconnect(false);
        CHECK(is(a.next(), connection_event::disconnected));
        CHECK(is(b.next(), connection_event::disconnected));
        REQUIRE(here.hca.reset_pair(a.pair));
        REQUIRE(there.hca.reset_pair(b.pair));
    }
}

TEST_CASE_FIXTURE(fixture, "an abandoned attempt makes no event here, and fails there")
{
    door at(there);
    REQUIRE(connect(a, at.number) == queue_pair::start::begun);
    inbound_request *request = at.next();
    REQUIRE(request != nullptr);
    a.pair.abandon();
    CHECK(!a.next(std::chrono::milliseconds(30)).has_value());
    REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(b.next(), connection_event::accept_failed));
}

TEST_CASE("an acceptance fails soon though no word came that the attempt was given up")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 1'000'000;
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    door at(there);
    for (bool is_reset : {false, true}) {
        CAPTURE(is_reset);
        REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *request = at.next();
        REQUIRE(request != nullptr);
        network.lose(1); // the close
        a.pair.disconnect(false);
        if (is_reset)
            REQUIRE(here.hca.reset_pair(a.pair));
        REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        CHECK(is(b.next(), connection_event::accept_failed));
        REQUIRE(here.hca.reset_pair(a.pair));
        REQUIRE(there.hca.reset_pair(b.pair));
    }
}

TEST_CASE_FIXTURE(fixture, "what never connected and is given up gives its receives back")
{
    REQUIRE(a.receive(0, 64));
    a.pair.abandon();
    CHECK(a.received()->status == work_status::flushed);
    REQUIRE(here.hca.reset_pair(a.pair));
    REQUIRE(a.receive(0, 64));
    REQUIRE(establish(a, b));
    REQUIRE(b.send(0, 64));
    CHECK(a.received()->status == work_status::success);
}

TEST_CASE_FIXTURE(fixture, "B11: a freed queue pair is noticed by its peer, even if idle")
{
    REQUIRE(establish(a, b));
    REQUIRE(b.receive(0, 16));
    here.hca.free_pair(a.pair);
    a.alive = false;
    CHECK(is(b.next(), connection_event::disconnected));
    CHECK(b.received()->status == work_status::flushed);
}

TEST_CASE("a peer that no close message reached gets a reset when it probes")
{
    inproc_network network;
    settings how = inside(network);
    how.keepalive_ms = 100;
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    auto &deaf = static_cast<inproc_io &>(b.pair.shard->io());
    net_address address = deaf.address();
    network.detach(deaf);
    a.pair.disconnect(true);
    CHECK(is(a.next(), connection_event::disconnected));
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // the last has been sent
    REQUIRE(network.attach(deaf, address));
    CHECK(is(b.next(), connection_event::disconnected));
}

TEST_CASE("an answer that is lost is repeated, though the listener was removed")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    end a(here);
    end b(there);
    std::uint64_t number = 0;
    inbound_request *request = nullptr;
    {
        door at(there);
        number = at.number;
        REQUIRE(a.pair.connect(there.hca.settings().address, number, "x", 1) ==
                queue_pair::start::begun);
        request = at.next();
        REQUIRE(request != nullptr);
    }
    network.lose(1);
    SUBCASE("a rejection")
    {
        there.hca.listening.reject(*request, reject_code::consumer, "no", 2);
        const auto event = a.next();
        REQUIRE(is(event, connection_event::rejected));
        CHECK(event->data == "no");
    }
    SUBCASE("an acceptance")
    {
        REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        CHECK(is(a.next(), connection_event::established));
        CHECK(is(b.next(), connection_event::established));
    }
    SUBCASE("also where the number has a listener again, which gets other requests only")
    {
        door again(there, number);
        there.hca.listening.reject(*request, reject_code::consumer, nullptr, 0);
        CHECK(is(a.next(), connection_event::rejected));
        end other(here);
        REQUIRE(other.pair.connect(there.hca.settings().address, number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *const second = again.next();
        REQUIRE(second != nullptr);
        CHECK(second != request);
        REQUIRE(b.pair.accept(*second, nullptr, 0) == queue_pair::start::begun);
        CHECK(is(other.next(), connection_event::established));
    }
}

TEST_CASE_FIXTURE(fixture,
                  "a removed listener: others are refused, and its port is free again soon")
{
    const std::uint64_t number = free_number(there);
    {
        door at(there, number);
        REQUIRE(connect(a, number) == queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        REQUIRE(is(a.next(), connection_event::established));
    }
    end other(here);
    REQUIRE(connect(other, number) == queue_pair::start::begun);
    CHECK(is(other.next(), connection_event::refused));
    host third(on_loopback());
    CHECK(becomes_true([&] {
        listener same;
        std::uint64_t wanted = number;
        if (third.hca.listening.add(same, wanted, &same) != 0)
            return false;
        third.hca.listening.remove(same);
        return true;
    }));
}

TEST_CASE("a close that is lost is repeated, though its queue pair and its device are freed")
{
    inproc_network network;
    settings how = inside(network);
    how.keepalive_ms = 1000; // far above what a loaded machine takes to repeat it
    host there(how);
    end b(there);
    for (bool disconnects : {false, true}) {
        CAPTURE(disconnects);
        {
            host here(how);
            end a(here);
            REQUIRE(establish(a, b));
            std::this_thread::sleep_for(std::chrono::milliseconds(20)); // nothing is owed any more
            network.lose(1);
            if (disconnects)
                a.pair.disconnect(true);
        }
        CHECK(is(b.next(), connection_event::disconnected));
        REQUIRE(there.hca.reset_pair(b.pair));
    }
}

TEST_CASE("a close of a request that is refused here is repeated, too")
{
    inproc_network network;
    host here(inside(network));
    settings silent = inside(network);
    silent.keepalive_ms = 60'000;
    host there(silent);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // nothing is owed any more
    request &r = a.fresh(work::write);
    r.segments = 1;
    r.local[0] = a.buffer.local(0, 64);
    ++r.local[0].key;
    r.length = 64;
    r.remote = b.buffer.remote(0, 64);
    network.lose(1);
    REQUIRE(a.post(r));
    CHECK(is(a.next(), connection_event::broken));
    CHECK(is(b.next(std::chrono::seconds(5)), connection_event::broken));
}

TEST_CASE("a device whose peers do not answer closes nevertheless")
{
    inproc_network network;
    host there(inside(network));
    end b(there);
    {
        host here(inside(network));
        end a(here);
        REQUIRE(establish(a, b));
        network.lose(UINT32_MAX);
    }
    network.lose(0);
    CHECK(is(b.next(), connection_event::broken));
}

TEST_CASE_FIXTURE(fixture, "a timer that fires while its queue pair is freed does nothing")
{
    const std::uint64_t number = free_number(there);
    REQUIRE(connect(a, number) == queue_pair::start::begun);
    a.pair.enter();
    a.pair.connection().cut();
    std::uint32_t resends = 1;
    (void)a.pair.connection().on_timer(osd::now_ns() + 1'000'000'000, resends); // was due before
    a.pair.leave();
    CHECK(!a.next(std::chrono::milliseconds(30)).has_value());
}

TEST_CASE("B11: a device that vanishes without a word is noticed, idle or busy")
{
    for (bool busy : {false, true}) {
        CAPTURE(busy);
        inproc_network network;
        settings how = inside(network);
        how.keepalive_ms = 100;
        host there(how);
        end b(there);
        REQUIRE(b.receive(0, 16));
        {
            host here(how);
            end a(here);
            REQUIRE(establish(a, b));
            network.detach(static_cast<inproc_io &>(a.pair.shard->io())); // no close is sent
            if (busy)
                REQUIRE(b.write(0, 16, a.buffer.remote(0, 16)));
            const auto event = b.next();
            REQUIRE(event.has_value());
            CHECK(event->what == connection_event::broken);
            if (busy)
                CHECK(b.sent()->status == work_status::flushed);
            CHECK(b.received()->status == work_status::flushed);
        }
    }
}

TEST_CASE("B11: a peer behind a dead link is given up within the retry limit, with its cause")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 4;
    host there(how);
    host here(how);
    end b(there);
    end a(here);
    REQUIRE(establish(a, b));
    a.pair.enter(); // a thread that reads its packets waits
    REQUIRE(b.write(0, 16, a.buffer.remote(0, 16)));
    REQUIRE(b.receive(0, 16));
    CHECK(is(b.next(), connection_event::broken));
    CHECK(b.sent()->status == work_status::transport);
    CHECK(b.received()->status == work_status::flushed);
    a.pair.leave();
}

TEST_SUITE_END();

} // namespace connections_suite
