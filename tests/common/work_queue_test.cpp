// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ring of posted operations: its numbers wrap, later requests retire suppressed ones.
#include "fixture.hpp"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

using namespace test;

namespace {

/// Returns null when none is known to be free.
transport::wr *take(post_ring &ring)
{
    transport::wr *taken = nullptr;
    return ring.take(taken) ? taken : nullptr;
}
/// Takes a request as a post does: the slow path looks again. Null when all are posted.
transport::wr *take(work_queue &queue)
{
    transport::wr *taken = take(static_cast<post_ring &>(queue));
    return taken != nullptr ? taken : queue.take_slowly();
}

struct queue_owner {
    explicit queue_owner(DAT_COUNT limit) : queue(*work_queue::create(nullptr, limit)) {}
    ~queue_owner() { queue.release(); }

    void post_and_retire(DAT_COUNT count)
    {
        for (; count != 0; --count)
            queue.retire(*take(queue));
    }
    work_queue &queue;
};

constexpr DAT_COMPLETION_FLAGS suppress = DAT_COMPLETION_SUPPRESS_FLAG;

void expect_idle(consumer &c, DAT_EP_HANDLE ep, bool idle)
{
    DAT_BOOLEAN request_idle = DAT_FALSE;
    must(c.v.ep_get_status_func(ep, nullptr, nullptr, &request_idle));
    CHECK_EQ(request_idle == DAT_TRUE, idle);
}

} // namespace

TEST_SUITE_BEGIN("work_queue");

TEST_CASE("a work queue holds exactly its limit, wherever its ring begins")
{
    for (const DAT_COUNT limit : {1, 2, 3, 5, 8}) {
        for (DAT_COUNT first = 0; first <= limit + 1; ++first) {
            queue_owner o(limit);
            o.post_and_retire(first);
            CHECK(o.queue.idle());
            std::set<transport::wr *> out;
            transport::wr *last = nullptr;
            for (DAT_COUNT i = 0; i < limit; ++i) {
                CHECK_EQ(o.queue.outstanding(), i);
                out.insert(last = take(o.queue));
            }
            CHECK_EQ(out.size(), static_cast<std::size_t>(limit));
            CHECK_EQ(out.count(nullptr), 0);
            CHECK_EQ(take(o.queue), nullptr);
            for (transport::wr *wr : out)
                CHECK(o.queue.is_outstanding(*wr));
            o.queue.retire(*last);
            CHECK(o.queue.idle());
            CHECK_FALSE(o.queue.is_outstanding(*last));
        }
    }
}

TEST_CASE("retiring one retires those before it")
{
    queue_owner o(8);
    o.post_and_retire(5);
    transport::wr *middle = nullptr;
    for (int i = 0; i < 8; ++i) {
        transport::wr *taken = take(o.queue);
        if (i == 4)
            middle = taken;
    }
    CHECK_EQ(take(o.queue), nullptr);
    o.queue.retire(*middle);
    CHECK_EQ(o.queue.outstanding(), 3);
    for (int i = 0; i < 5; ++i)
        CHECK_NE(take(o.queue), nullptr);
    CHECK_EQ(take(o.queue), nullptr);
}

TEST_CASE("a request put back is the next one, also where the ring ends")
{
    queue_owner o(2);
    for (int i = 0; i < 4; ++i) {
        transport::wr *wr = take(o.queue);
        o.queue.put_back();
        CHECK(o.queue.idle());
        CHECK_EQ(take(o.queue), wr);
        o.queue.retire(*wr);
    }
}

TEST_CASE("each slot knows the one before it")
{
    queue_owner o(3);
    const work_request *before = take(o.queue);
    o.queue.retire(const_cast<work_request &>(*before));
    for (int i = 0; i < 9; ++i) {
        transport::wr *wr = take(o.queue);
        CHECK_EQ(wr->before, before);
        o.queue.retire(*wr);
        before = wr;
    }
}

TEST_CASE("the ring of a work queue grows when all of it is posted, and what is posted stays")
{
    constexpr DAT_COUNT limit = 100;
    for (DAT_COUNT first = 0; first <= 4; ++first) {
        queue_owner o(limit);
        const DAT_COUNT few = o.queue.places();
        CHECK_LT(few, 10);
        o.post_and_retire(first);
        std::vector<transport::wr *> out;
        for (DAT_COUNT i = 0; i < limit; ++i) {
            transport::wr *wr = take(o.queue);
            REQUIRE_NE(wr, nullptr);
            CHECK_LE(o.queue.places(), std::max(few, 2 * (i + 1)));
            if (!out.empty()) {
                CHECK_EQ(wr->before, out.back());
                CHECK_EQ(out.back()->after, wr);
            }
            out.push_back(wr);
            CHECK_EQ(o.queue.outstanding(), i + 1);
        }
        CHECK_EQ(take(o.queue), nullptr);
        CHECK_EQ(o.queue.places(), limit + 1);
        std::set<DAT_UINT32> places;
        for (std::size_t i = 0; i < out.size(); ++i) {
            CHECK(o.queue.is_outstanding(*out[i]));
            places.insert(out[i]->ring_place);
            o.queue.retire(*out[i]);
            CHECK_FALSE(o.queue.is_outstanding(*out[i]));
            CHECK_EQ(o.queue.outstanding(), out.size() - i - 1);
        }
        CHECK_EQ(places.size(), out.size());
        CHECK_LE(*places.rbegin(), static_cast<DAT_UINT32>(limit));
        o.post_and_retire(3 * limit);
        CHECK_EQ(o.queue.places(), limit + 1);
    }
}

TEST_CASE("a ring of which few are posted at a time stays as it is")
{
    queue_owner o(1000);
    const DAT_COUNT few = o.queue.places();
    for (int i = 0; i < 100; ++i) {
        transport::wr *last = nullptr;
        for (DAT_COUNT n = 1; n < few; ++n) {
            last = take(o.queue);
            REQUIRE_NE(last, nullptr);
        }
        o.queue.retire(*last);
    }
    CHECK_EQ(o.queue.places(), few);
}

TEST_CASE("how many are outstanding is seen while the ring grows")
{
    constexpr int limit = 3000;
    for (int turn = 0; turn < 10; ++turn) {
        queue_owner o(limit);
        std::atomic<int> posted{0}, wrong{0};
        std::thread reader([&] {
            while (posted < limit) {
                const int least = posted;
                const auto seen = static_cast<int>(o.queue.outstanding());
                wrong += seen < least || seen > posted + 1 ? 1 : 0;
            }
        });
        for (; posted < limit; ++posted)
            if (take(o.queue) == nullptr)
                break;
        CHECK_EQ(posted.exchange(limit), limit);
        reader.join();
        CHECK_EQ(wrong, 0);
    }
}

TEST_CASE("requests are retired while the ring grows")
{
    constexpr std::size_t count = 20'000;
    constexpr std::size_t lag = 700;
    queue_owner o(1000);
    std::vector<std::atomic<transport::wr *>> posted(count);
    std::thread poller([&] {
        for (std::size_t i = 0; i < count; ++i) {
            while (i + lag * i / count < count && posted[i + lag * i / count] == nullptr)
                std::this_thread::yield();
            while (posted[i] == nullptr)
                std::this_thread::yield();
            o.queue.retire(*posted[i]);
        }
    });
    const work_request *before = nullptr;
    int wrong = 0;
    for (std::atomic<transport::wr *> &place : posted) {
        transport::wr *wr = nullptr;
        while ((wr = take(o.queue)) == nullptr)
            std::this_thread::yield();
        wrong += before != nullptr && wr->before != before ? 1 : 0;
        before = wr;
        place = wr;
    }
    poller.join();
    CHECK_EQ(wrong, 0);
    CHECK(o.queue.idle());
    CHECK_GT(o.queue.places(), 500);
}

TEST_CASE("nothing can be taken from the closed ring")
{
    CHECK_EQ(take(closed_ring), nullptr);
}

TEST_CASE("each slot knows its queue")
{
    queue_owner o(5);
    for (int i = 0; i < 5; ++i)
        CHECK_EQ(take(o.queue)->queue, &o.queue);
}

TEST_CASE("exactly max_request_dtos fit; one more is INSUFFICIENT_RESOURCES, then room again")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    for (int turn = 0; turn < 3; ++turn) {
        for (DAT_UINT64 i = 0; i < 16; ++i)
            must(c.post_send(s.ep, i));
        CHECK_EQ(c.post_send(s.ep), error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        REQUIRE(complete_send(s.port()));
        // The port has room again, the work queue when the completion was taken.
        CHECK_EQ(DAT_GET_TYPE(c.post_send(s.ep)), DAT_INSUFFICIENT_RESOURCES);
        CHECK_EQ(c.drain(s.request).size(), 1);
        must(c.post_send(s.ep, 16));
        while (complete_send(s.port())) {
        }
        const std::vector<DAT_EVENT> events = c.drain(s.request);
        REQUIRE_EQ(events.size(), 16);
        for (DAT_UINT64 i = 0; i < 16; ++i)
            CHECK_EQ(cookie_of(events[i]), i + 1);
    }
}

TEST_CASE("suppressed successes give no event and are retired by the next completion")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    for (int turn = 0; turn < 5; ++turn) {
        for (int i = 0; i < 15; ++i)
            must(c.post_send(s.ep, 1, suppress));
        must(c.post_send(s.ep, 2));
        while (complete_send(s.port())) {
        }
        const std::vector<DAT_EVENT> events = c.drain(s.request);
        REQUIRE_EQ(events.size(), 1);
        CHECK_EQ(cookie_of(events[0]), 2);
        expect_idle(c, s.ep, true);
    }
}

TEST_CASE("a suppressed operation that fails gives its event")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_send(s.ep, 1, suppress));
    must(c.post_send(s.ep, 2, suppress));
    REQUIRE(complete_send(s.port()));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_FLUSHED));
    const std::vector<DAT_EVENT> events = c.drain(s.request);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(cookie_of(events[0]), 2);
    expect_idle(c, s.ep, true);
}

TEST_CASE("a post that the port refuses is passed on, and leaves room and order as they were")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    const DAT_RETURN refused = error_code(DAT_PROTECTION_VIOLATION);
    for (int i = 0; i < 50; ++i) {
        lab::fail(lab::op::post_send, refused);
        CHECK_EQ(c.post_send(s.ep), refused);
        lab::fail(lab::op::post_recv, refused);
        CHECK_EQ(c.post_recv(s.ep), refused);
    }
    for (DAT_UINT64 i = 0; i < 16; ++i) {
        must(c.post_send(s.ep, i));
        must(c.post_recv(s.ep, i));
        if (i == 7) {
            lab::fail(lab::op::post_send, refused);
            CHECK_EQ(c.post_send(s.ep), refused);
        }
    }
    while (complete_send(s.port()) && complete_recv(s.port())) {
    }
    for (const DAT_EVD_HANDLE e : {s.request, s.recv}) {
        const std::vector<DAT_EVENT> events = c.drain(e);
        REQUIRE_EQ(events.size(), 16);
        for (DAT_UINT64 i = 0; i < 16; ++i)
            CHECK_EQ(cookie_of(events[i]), i);
    }
}

TEST_CASE("with nth_signal, suppressed successes make room as far as nothing else is before them")
{
    constexpr DAT_UINT64 depth = 16;
    consumer c;
    station s(c);
    s.connect_by_hand();
    const auto post = [&](DAT_COMPLETION_FLAGS flags) { return c.post_send(s.ep, 1, flags); };
    const auto complete = [&](DAT_UINT64 count) {
        for (; count != 0; --count)
            REQUIRE(complete_send(s.port()));
    };
    const auto has_room_for = [&](DAT_UINT64 count) {
        for (; count != 0; --count)
            must(post(suppress));
        CHECK_EQ(DAT_GET_TYPE(post(suppress)), DAT_INSUFFICIENT_RESOURCES);
    };
    has_room_for(depth);
    if (!port_features.nth_signal) {
        complete(depth);
        CHECK_EQ(DAT_GET_TYPE(post(suppress)), DAT_INSUFFICIENT_RESOURCES);
        return;
    }
    for (const DAT_UINT64 done : {1, 5, 16, 16}) {
        complete(done);
        has_room_for(done);
    }
    complete(4);
    must(post(DAT_COMPLETION_DEFAULT_FLAG));
    has_room_for(3);
    complete(depth);
    has_room_for(depth - 4); // the next has not been taken
    CHECK_EQ(c.drain(s.request).size(), 1);
    has_room_for(4);
}

TEST_CASE("ep_get_status reports idle when nothing is outstanding")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    expect_idle(c, s.ep, true);
    must(c.post_send(s.ep));
    expect_idle(c, s.ep, false);
    REQUIRE(complete_send(s.port()));
    CHECK_EQ(c.drain(s.request).size(), 1);
    expect_idle(c, s.ep, true);
}

TEST_CASE("what is posted after a disconnect comes back flushed")
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
    must(c.post_send(s.ep, 1));
    must(c.post_recv(s.ep, 2));
    for (const DAT_EVD_HANDLE e : {s.request, s.recv}) {
        const std::vector<DAT_EVENT> events = c.drain(e);
        REQUIRE_EQ(events.size(), 1);
        CHECK_EQ(status_of(events[0]), DAT_DTO_ERR_FLUSHED);
    }
}

TEST_SUITE_END();
