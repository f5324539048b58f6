// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "deferred_completions.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace dapl::DAPL_TRANSPORT;

namespace {

struct test_wr : work_request {
    test_wr *next;
    completion done;
};

/// A device that is a counter: the consumer takes numbers from it on the fast path.
struct test_cq final : deferred_completions<test_wr> {
    int device = 0; ///< inside the door, or with the consumer excluded
    std::atomic<int> woken{0};

    void wake_sleepers() override { ++woken; }

    bool poll_fast(int &taken)
    {
        consumer.enter();
        const bool fast = !is_slow();
        if (fast)
            taken = ++device;
        consumer.leave();
        return fast;
    }
    test_wr *poll_slow()
    {
        osd::lock_guard hold(lock);
        test_wr *w = pop_deferred();
        readmit_consumer();
        return w;
    }
};

} // namespace

TEST_SUITE("deferred_completions")
{
    TEST_CASE("what is flushed comes once, in its order, and then the fast path is back")
    {
        test_cq cq;
        int taken = 0;
        CHECK(cq.poll_fast(taken));
        test_wr a{}, b{};
        fifo<test_wr> operations;
        cq.flush(operations);
        CHECK(cq.woken == 0);
        operations.push(a);
        operations.push(b);
        cq.flush(operations);
        CHECK(cq.woken == 1);
        CHECK_FALSE(cq.poll_fast(taken));
        const test_wr *first = cq.poll_slow();
        REQUIRE(first == &a);
        CHECK(first->done.wr == &a);
        CHECK(first->done.status == DAT_DTO_ERR_FLUSHED);
        CHECK(first->done.length == 0);
        CHECK_FALSE(cq.poll_fast(taken));
        CHECK(cq.poll_slow() == &b);
        CHECK(cq.poll_fast(taken));
        CHECK(cq.poll_slow() == nullptr);
    }

    TEST_CASE("a receiver that is gone is not named")
    {
        test_cq cq;
        test_wr a{}, b{};
        alignas(8) char queues[2];
        auto *gone = reinterpret_cast<work_queue *>(&queues[0]);
        auto *stays = reinterpret_cast<work_queue *>(&queues[1]);
        {
            osd::lock_guard hold(cq.lock);
            a.done.receiver = gone;
            b.done.receiver = stays;
            cq.defer(a);
            cq.defer(b);
        }
        cq.forget_receiver(gone);
        CHECK(cq.poll_slow()->done.receiver == nullptr);
        CHECK(cq.poll_slow()->done.receiver == stays);
    }

    TEST_CASE("a consumer on the fast path and threads that exclude it do not overlap")
    {
        test_cq cq;
        std::atomic<bool> stop{false};
        std::thread consumer([&] {
            int taken = 0;
            while (!stop.load())
                if (!cq.poll_fast(taken))
                    (void)cq.poll_slow();
        });
        std::vector<std::thread> others;
        for (int i = 0; i < 2; ++i)
            others.emplace_back([&] {
                for (int round = 0; round < 500; ++round) {
                    osd::lock_guard hold(cq.lock);
                    cq.exclude_consumer();
                    ++cq.device; // a race, where the exclusion fails
                    cq.readmit_consumer();
                }
            });
        for (std::thread &other : others)
            other.join();
        stop = true;
        consumer.join();
        CHECK(cq.device >= 1000);
    }

    TEST_CASE("operations that two threads flush all come back to the consumer")
    {
        test_cq cq;
        constexpr int each = 500;
        std::vector<test_wr> operations(2 * each);
        int polled = 0;
        std::thread consumer([&] {
            int taken = 0;
            while (polled < 2 * each)
                if (!cq.poll_fast(taken) && cq.poll_slow() != nullptr)
                    ++polled;
        });
        std::vector<std::thread> others;
        for (int i = 0; i < 2; ++i)
            others.emplace_back([&, i] {
                for (int n = 0; n < each; ++n)
                    cq.flush(operations[static_cast<std::size_t>(i * each + n)]);
            });
        for (std::thread &other : others)
            other.join();
        consumer.join();
        CHECK(polled == 2 * each);
    }
}
