// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Several threads take requests of one ring without a lock, beside a thread that keeps them out.
#include "fixture.hpp"

#include <bit>
#include <memory>
#include <thread>
#include <vector>

using namespace test;

namespace {

/// A ring, with what became of each of its requests.
struct watched_ring {
    explicit watched_ring(DAT_COUNT limit)
        : queue(*work_queue::create(nullptr, limit, true)),
          posted(std::bit_ceil(static_cast<unsigned>(limit) + 1))
    {}
    ~watched_ring() { queue.release(); }

    work_queue &queue;
    /// Stored by the thread that took the request, cleared before that is retired.
    std::vector<std::atomic<work_request *>> posted;
};

/// Two rings that take turns. A consumer retires in the order of places, as a port completes.
struct concurrent_posters {
    explicit concurrent_posters(DAT_COUNT most)
        : limit(most), rings{watched_ring(most), watched_ring(most)}
    {
        posts.close();
        rings[0].queue.use(posts, true);
        posts.set_ready(true);
        posts.reopen();
    }

    transport::wr *take()
    {
        transport::wr *taken = nullptr;
        if (posts.enter(taken) || posts.enter_finding_room<true>(taken) || !posts.try_enter())
            return taken;
        taken = posts.take();
        if (taken == nullptr)
            posts.leave();
        return taken;
    }
    void post()
    {
        transport::wr *taken = take();
        if (taken == nullptr) {
            osd::yield();
            return;
        }
        wrong += inside.fetch_add(1) < 0 ? 1 : 0; // it is closed
        wrong += outstanding.fetch_add(1) < limit ? 0 : 1;
        watched_ring &ring = rings[taken->queue == &rings[1].queue];
        wrong += &ring == &rings[current] ? 0 : 1;
        ++taken_in_all;
        if (taken->cookie.as_64++ % 16 == 0)
            osd::yield(); // others overtake
        work_request *const before = ring.posted[taken->ring_place].exchange(taken);
        wrong += before == nullptr ? 0 : 1;
        --inside;
        posts.leave();
    }
    void consume()
    {
        for (std::size_t at = 0; !finished.load();) {
            watched_ring &ring = rings[current];
            work_request *const done = ring.posted[at].exchange(nullptr);
            if (done == nullptr) {
                osd::yield();
                continue;
            }
            wrong += done->ring_place == at ? 0 : 1;
            --outstanding;
            ring.queue.retire(*done);
            ++retired_in_all;
            at = (at + 1) % ring.posted.size();
        }
    }
    /// Keeps posts out while all that was posted completes, and goes on with the other ring.
    void replace()
    {
        constexpr int far_below = -1'000'000;
        posts.close();
        wrong += inside.exchange(far_below) == 0 ? 0 : 1;
        while (retired_in_all != taken_in_all && wrong == 0)
            osd::yield();
        wrong += outstanding == 0 ? 0 : 1;
        current = 1 - current;
        rings[current].queue.use(posts, false);
        inside -= far_below;
        posts.reopen();
    }

    const DAT_COUNT limit;
    concurrent_posts posts;
    watched_ring rings[2];
    std::atomic<unsigned> current{0};
    std::atomic<bool> finished{false};
    std::atomic<int> inside{0};
    std::atomic<int> outstanding{0};
    std::atomic<std::uint64_t> taken_in_all{0};
    std::atomic<std::uint64_t> retired_in_all{0};
    std::atomic<unsigned> wrong{0};
};

} // namespace

TEST_SUITE_BEGIN("concurrent_posts");

TEST_CASE("threads that post take each place once and never more than the limit, or while closed")
{
    for (const DAT_COUNT limit : {1, 3, 4}) { // all loops end when something is wrong
        concurrent_posters p(limit);
        std::atomic<bool> posting{true};
        std::vector<std::thread> threads;
        threads.emplace_back([&] { p.consume(); });
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                while (posting)
                    p.post();
            });
        for (int round = 0; round < 1000; ++round) {
            const std::uint64_t enough = p.taken_in_all + 20;
            if (round % 3 == 0) { // the endpoint is disconnected for a moment
                p.posts.set_ready(false);
            }
            while (p.taken_in_all < enough && p.wrong == 0)
                osd::yield();
            p.posts.set_ready(true);
            if (round % 2 == 0)
                p.replace();
        }
        posting = false;
        for (std::size_t i = 1; i < threads.size(); ++i)
            threads[i].join();
        while (p.retired_in_all != p.taken_in_all && p.wrong == 0)
            osd::yield();
        p.finished = true;
        threads[0].join();
        CHECK_EQ(p.wrong, 0U);
        CHECK_EQ(p.outstanding, 0);
    }
}

TEST_CASE("a thread takes exactly as many requests as the limit, on the fast path and the slow")
{
    for (const bool fast : {false, true})
        for (const DAT_COUNT limit : {1, 2, 3, 4, 7, 8}) {
            concurrent_posters p(limit);
            p.posts.set_ready(fast);
            std::vector<transport::wr *> taken;
            const auto take_all = [&] {
                taken.clear();
                while (transport::wr *wr =
                           static_cast<DAT_COUNT>(taken.size()) <= limit ? p.take() : nullptr) {
                    p.posts.leave();
                    taken.push_back(wr);
                }
                return static_cast<DAT_COUNT>(taken.size());
            };
            REQUIRE_EQ(take_all(), limit);
            for (int round = 0; round < 20; ++round) { // retires some, at each place of the ring
                transport::wr *done = taken.front();
                for (DAT_COUNT more = round % static_cast<int>(taken.size()); more != 0; --more)
                    done = static_cast<transport::wr *>(done->after);
                const auto retired =
                    static_cast<DAT_COUNT>(1 + round % static_cast<int>(taken.size()));
                p.rings[0].queue.retire(*done);
                std::vector<transport::wr *> left(taken.begin() + retired, taken.end());
                REQUIRE_EQ(take_all(), retired);
                left.insert(left.end(), taken.begin(), taken.end());
                taken = left;
            }
        }
}

TEST_CASE("places only go up where a queue is replaced; those of a new queue pair begin at 0")
{
    concurrent_posters p(5); // a ring of 8
    for (unsigned round = 0; round < 20; ++round) {
        for (unsigned i = 0; i < round % 5; ++i) {
            REQUIRE(p.take() != nullptr);
            p.posts.leave();
        }
        const std::uint32_t before = p.posts.next_place();
        p.posts.close();
        p.current = 1 - p.current;
        p.rings[p.current].queue.use(p.posts, round % 2 != 0);
        p.posts.reopen();
        CHECK(p.posts.next_place() >= before);
        CHECK(p.posts.next_place() < before + 8 + 1);
        CHECK((round % 2 != 0 ? p.posts.next_place() % 8 == 0 : p.posts.next_place() == before));
    }
}

TEST_CASE("a request that was put back is taken next")
{
    concurrent_posters p(3);
    p.posts.close();
    transport::wr *const refused = p.posts.take();
    p.posts.put_back();
    CHECK(p.posts.take() == refused);
    p.posts.reopen();
}

TEST_CASE("while it is closed, or not ready, no thread enters by the fast path")
{
    concurrent_posters p(8);
    for (int i = 0; i < 3; ++i) { // finds room
        REQUIRE(p.take() != nullptr);
        p.posts.leave();
    }
    transport::wr *taken = nullptr;
    REQUIRE(p.posts.enter(taken));
    p.posts.leave();
    p.posts.close();
    CHECK(!p.posts.enter(taken));
    CHECK(!p.posts.enter_finding_room<true>(taken));
    CHECK(!p.posts.try_enter());
    p.posts.reopen();
    for (const auto why : {concurrent_posts::unready, concurrent_posts::binding_there}) {
        p.posts.set(why);
        CHECK(!p.posts.enter(taken));
        CHECK(!p.posts.enter_finding_room<true>(taken));
        REQUIRE(p.posts.try_enter());
        p.posts.leave();
        p.posts.clear(why);
    }
    REQUIRE(p.posts.enter(taken));
    p.posts.leave();
}

TEST_CASE("a queue that replaces another has no room but its own")
{
    concurrent_posters p(8);
    REQUIRE(p.take() != nullptr); // room is known for 7 more
    p.posts.leave();
    watched_ring smaller(1);
    p.posts.close();
    smaller.queue.use(p.posts, true);
    p.posts.reopen();
    CHECK(p.take() != nullptr);
    p.posts.leave();
    CHECK(p.take() == nullptr);
}

TEST_SUITE_END();
