// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device that fails: connections and attempts end by themselves, and none begins any more.
#include "rig.hpp"

#include <doctest/doctest.h>
#include <random>
#include <set>

namespace failure_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

constexpr int posted = 5;

struct fixture {
    fixture() : here(inside(network)), there(inside(network)), a(here), b(there) {}

    inproc_network network;
    host here;
    host there;
    end a;
    end b;
};

/// Posts receives that no message is for.
void post_receives(end &of)
{
    for (int i = 0; i < posted; ++i)
        REQUIRE(of.receive(static_cast<std::size_t>(i) * 64, 64));
}

/// As many completions come as were posted, flushed and in order, and no more.
void expect_flushed(end &of, completion_queue &queue, std::size_t first, int count)
{
    for (int i = 0; i < count; ++i) {
        const auto done = next_of(queue, patience);
        expect(done, work_status::flushed);
        CHECK(done->request == &of.requests[first + static_cast<std::size_t>(i)]);
    }
    CHECK(!next_of(queue, 5ms).has_value());
}

} // namespace

TEST_SUITE_BEGIN("failure");

TEST_CASE_FIXTURE(fixture, "a connection of a failed device is broken, and all comes back once")
{
    REQUIRE(establish(a, b));
    post_receives(a);
    b.pair.enter(); // nothing is acknowledged meanwhile
    for (int i = 0; i < posted; ++i)
        REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    here.hca.fail();
    here.hca.fail(); // does nothing
    b.pair.leave();
    CHECK(is(a.next(), connection_event::broken));
    CHECK(!a.next(5ms).has_value());
    const auto how = a.ended();
    REQUIRE(how.has_value());
    CHECK(how->cause == end_cause::device_failed);
    expect_flushed(a, a.receive_queue, 0, posted);
    expect_flushed(a, a.send_queue, posted, posted);
    // Later posts come back, too.
    REQUIRE(a.receive(0, 64));
    expect(a.received(), work_status::flushed);
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    expect(a.sent(), work_status::flushed);
}

TEST_CASE_FIXTURE(fixture, "a wait ends when the device fails")
{
    REQUIRE(establish(a, b));
    post_receives(a);
    std::atomic<bool> waits{false};
    std::thread waiter([&] {
        waits = true;
        completion_record done;
        while (!a.receive_queue.pop(done))
            (void)a.receive_queue.wait({}, osd::deadline::never());
    });
    CHECK(becomes_true([&] { return waits.load(); }));
    std::this_thread::sleep_for(20ms);
    here.hca.fail();
    waiter.join();
    CHECK(is(a.next(), connection_event::broken));
}

TEST_CASE_FIXTURE(fixture, "attempts of a failed device end, and none begins")
{
    door at(there);
    SUBCASE("a request that nobody has answered")
    {
        REQUIRE(a.pair.connect(there.hca.shard_at(0).io().address(), at.number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        here.hca.fail();
        CHECK(is(a.next(), connection_event::unreachable));
        there.hca.listening.reject(*request, reject_code::consumer, nullptr, 0);
    }
    SUBCASE("an accept that did not arrive")
    {
        REQUIRE(a.pair.connect(there.hca.shard_at(0).io().address(), at.number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        a.pair.enter();
        REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
        there.hca.fail();
        a.pair.leave();
        CHECK(is(b.next(), connection_event::accept_failed));
    }
    SUBCASE("a request that is answered too late")
    {
        REQUIRE(a.pair.connect(there.hca.shard_at(0).io().address(), at.number, nullptr, 0) ==
                queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        there.hca.fail();
        CHECK(b.pair.accept(*request, nullptr, 0) == queue_pair::start::no_device);
        there.hca.listening.reject(*request, reject_code::consumer, nullptr, 0);
    }
    SUBCASE("one that begins then")
    {
        here.hca.fail();
        CHECK(a.pair.connect(there.hca.shard_at(0).io().address(), at.number, nullptr, 0) ==
              queue_pair::start::no_device);
        CHECK(!a.next(5ms).has_value());
    }
}

TEST_CASE_FIXTURE(fixture, "a disconnect that waits for what was posted ends when the device fails")
{
    REQUIRE(establish(a, b));
    b.pair.enter();
    REQUIRE(a.write(0, 16, b.buffer.remote(0, 16)));
    a.pair.disconnect(true);
    here.hca.fail();
    b.pair.leave();
    CHECK(is(a.next(), connection_event::disconnected));
    expect(a.sent(), work_status::flushed);
    CHECK(!a.ended().has_value());
}

TEST_CASE_FIXTURE(fixture, "queue pairs without a connection give their receives back")
{
    post_receives(a);
    here.hca.fail();
    expect_flushed(a, a.receive_queue, 0, posted);
    SUBCASE("one that is reset")
    {
        REQUIRE(here.hca.reset_pair(a.pair));
        REQUIRE(a.receive(0, 64));
        expect(a.received(), work_status::flushed);
    }
    SUBCASE("one that is made later")
    {
        end later(here);
        REQUIRE(later.receive(0, 64));
        expect(later.received(), work_status::flushed);
    }
}

TEST_CASE("a device with several threads fails as a whole")
{
    inproc_network network;
    settings how = inside(network);
    how.threads = 4;
    host here(how);
    host there(inside(network));
    std::deque<end> ours;
    std::deque<end> theirs;
    for (int i = 0; i < 8; ++i)
        REQUIRE(establish(ours.emplace_back(here), theirs.emplace_back(there)));
    here.hca.fail();
    for (end &each : ours)
        CHECK(is(each.next(), connection_event::broken));
}

TEST_CASE("a peer of a failed device learns of it as of a host that is gone")
{
    inproc_network network;
    settings how = inside(network);
    how.retries = 3;
    host here(how);
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    here.hca.fail();
    CHECK(is(a.next(), connection_event::broken));
    REQUIRE(b.write(0, 16, a.buffer.remote(0, 16)));
    CHECK(is(b.next(), connection_event::broken));
    expect(b.sent(), work_status::transport);
}

TEST_CASE("a device that fails at any moment: each request comes back once, each connection ends")
{
    std::mt19937 chance(4711);
    for (int round = 0; round < rounds(100); ++round) {
        CAPTURE(round);
        inproc_network network;
        host here(inside(network));
        host there(inside(network));
        end a(here, {.depth = 1024, .queue_depth = 4096});
        end b(there);
        REQUIRE(establish(a, b));
        std::thread fails([&, moment = chance() % 400] {
            std::this_thread::sleep_for(std::chrono::microseconds(moment));
            here.hca.fail();
        });
        std::size_t out = 0;
        std::multiset<const void *> back;
        const auto take = [&] {
            completion_record done;
            while (a.send_queue.pop(done))
                back.insert(done.request);
        };
        while (!here.hca.failed()) {
            if (out - back.size() < 64 && a.write(0, 256, b.buffer.remote(0, 256)))
                ++out;
            take();
        }
        fails.join();
        CHECK(is(a.next(), connection_event::broken));
        CHECK(becomes_true([&] {
            take();
            return back.size() >= out;
        }));
        take();
        CHECK(back.size() == out);
        CHECK(std::set<const void *>(back.begin(), back.end()).size() == out);
        CHECK(!a.next(0ms).has_value());
    }
}

TEST_SUITE_END();

} // namespace failure_suite
