// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tests the turns of receiving threads, which lease completion rings, beside other producers.
#include "queue/completion_turn.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace turn_suite {

using namespace rig;

namespace {

completion_record numbered(std::uint32_t number, std::uint32_t pair = 0)
{
    return {nullptr, number, pair, 0, 0, work_status::success, brought::nothing, false};
}

/// A queue as a device makes it, and one turn.
struct fixture {
    fixture() : here(on_loopback()) { REQUIRE(here.hca.make_queue(queue, &owner, 8)); }
    ~fixture() { here.hca.free_queue(queue); }
    void add(std::uint32_t number)
    {
        completion_queue::news of_pair;
        turn.add(queue, numbered(number), of_pair);
        CHECK_FALSE(of_pair.any());
    }
    std::uint32_t pop()
    {
        completion_record done;
        REQUIRE(queue.pop(done));
        return done.length;
    }
    bool told(int times) const
    {
        return becomes_true([&] { return owner.completions >= times; }) &&
               owner.completions == times;
    }
    host here;
    inbox owner;
    completion_queue queue;
    completion_turn turn;
};

} // namespace

TEST_SUITE_BEGIN("turn");

TEST_CASE_FIXTURE(fixture, "completions of a turn can be taken at once, round and round")
{
    std::uint32_t out = 0;
    for (std::uint32_t in = 0; in < 100;) {
        for (int i = 0; i < 5; ++i)
            add(in++);
        CHECK(queue.count() == 5);
        queue.completion_ring::settle(); // does not wait
        for (int i = 0; i < 5; ++i)
            CHECK(pop() == out++);
        CHECK(queue.empty());
        if (in % 3 == 0)
            turn.end();
    }
    turn.end();
    push_to(queue, numbered(7)); // the lease has ended
    CHECK(pop() == 7);
}

TEST_CASE_FIXTURE(fixture, "who asks before the end of a turn is told, once")
{
    add(0);
    queue.arm(completion_queue::interest::any);
    CHECK(told(0));
    turn.end();
    CHECK(told(1));

    add(1);
    queue.arm(completion_queue::interest::any);
    add(2); // sees that it is asked
    CHECK(told(2));
    turn.end();
    CHECK(told(2));

    add(3);
    for (int i = 0; i < 4; ++i)
        (void)pop();
    queue.arm(completion_queue::interest::any); // all are taken
    turn.end();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(told(2));
}

TEST_CASE_FIXTURE(fixture, "another producer has the turn end its lease, and comes behind it")
{
    add(0);
    std::thread other([this] { push_to(queue, numbered(2)); });
    CHECK(becomes_true([&] { return queue.producers.ask_for_lease(); }));
    add(1);
    CHECK(queue.count() == 2);
    turn.end_if_asked();
    other.join();
    CHECK_FALSE(queue.producers.ask_for_lease());
    add(3);
    CHECK(queue.count() == 4);
    turn.end_if_asked(); // no one asks
    completion_queue::news none;
    CHECK(queue.try_add<completion_queue::producer::leased>(numbered(4),
                                                            none)); // it still has the lease
    turn.end();
    for (std::uint32_t i = 0; i < 5; ++i)
        CHECK(pop() == i);
}

TEST_CASE_FIXTURE(fixture, "a turn that needs a ring leased by another turn ends its own leases")
{
    completion_queue second;
    REQUIRE(here.hca.make_queue(second, &owner, 8));
    add(0);
    std::thread other([&] { // takes the two rings in the other order
        completion_turn another;
        completion_queue::news of_pair;
        another.add(second, numbered(0), of_pair);
        another.add(queue, numbered(1), of_pair);
        CHECK(of_pair.any()); // it has added without a lease
        queue.announce(of_pair);
        CHECK_FALSE(of_pair.any());
    });
    CHECK(becomes_true([&] { return queue.producers.ask_for_lease(); }));
    CHECK(second.count() == 1);
    completion_queue::news of_pair;
    turn.add(second, numbered(1), of_pair); // the other one has ended its lease
    turn.end_if_asked();
    other.join();
    turn.end();
    CHECK(queue.count() == 2);
    CHECK(second.count() == 2);
    here.hca.free_queue(second);
}

TEST_CASE_FIXTURE(fixture, "a turn leases more rings than it has places for, one after another")
{
    constexpr std::uint32_t many = 9;
    completion_queue others[many];
    for (completion_queue &each : others)
        REQUIRE(here.hca.make_queue(each, &owner, 8));
    for (std::uint32_t i = 0; i < 3 * many; ++i) {
        completion_queue::news of_pair;
        turn.add(others[i % many], numbered(i), of_pair);
        CHECK_FALSE(of_pair.any());
    }
    turn.end();
    for (completion_queue &each : others) {
        CHECK(each.count() == 3);
        push_to(each, numbered(0));
        CHECK(each.count() == 4);
        here.hca.free_queue(each);
    }
}

TEST_CASE_FIXTURE(fixture, "a resize waits for the end of a turn, and a full ring for nothing")
{
    for (std::uint32_t i = 0; i < queue.depth(); ++i)
        add(i);
    std::atomic<bool> resized{false};
    std::thread resizing([&] {
        CHECK(here.hca.resize_queue(queue, 16) == completion_queue::outcome::done);
        resized.store(true);
    });
    CHECK(becomes_true([&] { return queue.producers.ask_for_lease(); }));
    CHECK_FALSE(resized.load());
    turn.end_if_asked();
    resizing.join();
    for (std::uint32_t i = 8; i < queue.depth(); ++i)
        add(i);
    CHECK_FALSE(queue.overflowed());
    completion_queue::news of_pair;
    turn.add(queue, numbered(99), of_pair); // lost
    CHECK(queue.overflowed());
    CHECK(becomes_true([&] { return owner.overflows == 1; }));
    for (std::uint32_t i = 0; i < queue.depth(); ++i)
        CHECK(pop() == i);
    add(100);
    CHECK(pop() == 100);
    turn.end();
}

namespace {

constexpr std::uint32_t shards = 2;
constexpr std::uint32_t pairs_of_shard = 2;
constexpr std::uint32_t all_pairs = shards * pairs_of_shard;
constexpr std::uint32_t queues = 2;
constexpr std::uint32_t ahead = 8;

/// A queue pair that completes to two queues. One thread receives in turns for all pairs of its
/// shard, another one posts.
struct pair_in_turns {
    std::mutex lock;
    std::array<std::uint32_t, queues> added{}; ///< changed under the lock
    std::array<std::atomic<std::uint32_t>, queues> taken{};
};

struct storm {
    storm() : here(on_loopback())
    {
        for (std::uint32_t q = 0; q < queues; ++q)
            REQUIRE(here.hca.make_queue(queue[q], &owner, all_pairs * ahead));
    }
    ~storm()
    {
        for (completion_queue &each : queue)
            here.hca.free_queue(each);
    }
    /// One completion of a pair, whose lock is held, if the consumer keeps up. True if one is left.
    bool add(std::uint32_t number, completion_turn *turn, completion_queue::news (&of_pair)[queues])
    {
        pair_in_turns &by = pair[number];
        bool left = false;
        for (std::uint32_t q = 0; q < queues; ++q) {
            left = left || by.added[q] < total;
            if (by.added[q] == total || by.added[q] - by.taken[q].load() >= ahead)
                continue;
            const completion_record done = numbered(by.added[q]++, number);
            if (turn != nullptr)
                turn->add(queue[q], done, of_pair[q]);
            else
                queue[q].add(done, of_pair[q]);
        }
        return left;
    }
    void announce(completion_queue::news (&of_pair)[queues])
    {
        for (std::uint32_t q = 0; q < queues; ++q)
            if (of_pair[q].any())
                queue[q].announce(of_pair[q]);
    }
    /// Does as progress_engine: keeps its leases from one pair to the next, and waits for no lock
    /// meanwhile.
    bool receive(std::uint32_t shard)
    {
        completion_turn turn;
        bool left = false;
        for (std::uint32_t packet = 0; packet < 4 * pairs_of_shard; ++packet) {
            const std::uint32_t number = shard * pairs_of_shard + packet % pairs_of_shard;
            turn.end_if_asked();
            if (!pair[number].lock.try_lock()) {
                turn.end();
                pair[number].lock.lock();
            }
            completion_queue::news of_pair[queues];
            left = add(number, &turn, of_pair) || left;
            announce(of_pair);
            pair[number].lock.unlock();
        }
        turn.end();
        return left;
    }
    bool post(std::uint32_t number)
    {
        const std::lock_guard hold(pair[number].lock);
        completion_queue::news of_pair[queues];
        const bool left = add(number, nullptr, of_pair);
        announce(of_pair);
        return left;
    }
    void cycle_locks()
    {
        for (pair_in_turns &each : pair)
            const std::lock_guard hold(each.lock);
    }
    /// Takes all completions. Returns their number.
    std::uint32_t take(std::uint32_t q)
    {
        std::uint32_t number = 0;
        for (completion_record done; queue[q].pop(done); ++number) {
            pair_in_turns &by = pair[done.immediate];
            wrong += done.length == by.taken[q].load() ? 0 : 1;
            ++by.taken[q];
        }
        return number;
    }
    void resize(std::uint32_t q, std::uint32_t depth)
    {
        completion_queue::ring_owner former;
        wrong += queue[q].resize(depth, former) == completion_queue::outcome::done ? 0 : 1;
        cycle_locks(); // they guard the former ring
    }

    const std::uint32_t total = rounds(5'000);
    host here;
    inbox owner;
    completion_queue queue[queues];
    pair_in_turns pair[all_pairs];
    std::uint32_t wrong = 0;
};

} // namespace

TEST_CASE("turns of two shards, posting threads and resizes: nothing is lost, all is in order")
{
    storm s;
    std::vector<std::thread> threads;
    for (std::uint32_t shard = 0; shard < shards; ++shard)
        threads.emplace_back([&s, shard] {
            while (s.receive(shard))
                std::this_thread::yield();
        });
    for (std::uint32_t number = 0; number < all_pairs; number += pairs_of_shard)
        threads.emplace_back([&s, number] {
            while (s.post(number))
                std::this_thread::yield();
        });
    const std::uint32_t depths[] = {64, 200, 1000, 70};
    std::uint32_t taken = 0;
    for (std::uint32_t round = 1; taken < s.total * all_pairs * queues; ++round) {
        const std::uint32_t more = s.take(0) + s.take(1);
        taken += more;
        if (more == 0)
            std::this_thread::yield();
        if (round % 64 == 0)
            s.resize(round / 64 % queues, depths[round / 64 / queues % 4]);
    }
    for (std::thread &each : threads)
        each.join();
    CHECK(s.wrong == 0);
    for (completion_queue &each : s.queue) {
        CHECK_FALSE(each.overflowed());
        CHECK(each.empty());
    }
}

TEST_CASE("a consumer that sleeps while turns end misses nothing")
{
    host here(on_loopback());
    inbox owner;
    completion_queue queue;
    REQUIRE(here.hca.make_queue(queue, &owner, 4));
    const std::uint32_t count = rounds(20'000);
    std::atomic<std::uint32_t> taken{0};
    std::thread receiving([&] {
        completion_turn turn;
        for (std::uint32_t i = 0; i < count; ++i) {
            while (taken.load() != i)
                std::this_thread::yield();
            completion_queue::news of_pair;
            turn.add(queue, numbered(i), of_pair);
            turn.end();
        }
    });
    completion_record done;
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        while (!queue.pop(done))
            REQUIRE(queue.wait({.threshold = 1}, osd::deadline::after_us(20'000'000)) ==
                    osd::wait_result::woken);
        wrong += done.length == i ? 0 : 1;
        taken.store(i + 1);
    }
    receiving.join();
    CHECK(wrong == 0);
    here.hca.free_queue(queue);
}

TEST_SUITE_END();

} // namespace turn_suite
