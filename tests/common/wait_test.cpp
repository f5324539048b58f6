// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// No wake-up is lost, of any producer.
#include "fixture.hpp"

#include <atomic>
#include <map>
#include <random>

using namespace test;

namespace {

/// Takes `total` events with waits that vary in threshold and timeout. A wait without end that
/// hangs is a lost wake-up; the watchdog of `finishes` sees it.
struct taker {
    consumer &c;
    DAT_EVD_HANDLE e;
    int total;
    std::atomic<int> taken{0};
    int wrong = 0;
    bool thresholds = true;
    std::map<int, DAT_UINT64> last_cookie{};

    void take(const DAT_EVENT &event)
    {
        ++taken;
        if (event.event_number != DAT_DTO_COMPLETION_EVENT)
            return;
        const auto operation = event.event_data.dto_completion_event_data.operation;
        wrong += cookie_of(event) != last_cookie[operation]++;
    }

    void run()
    {
        std::minstd_rand dice(1);
        while (taken < total) {
            const auto left = static_cast<DAT_COUNT>(total - taken);
            const DAT_COUNT threshold =
                thresholds ? std::min<DAT_COUNT>(left, static_cast<DAT_COUNT>(dice() % 4 + 1)) : 1;
            const DAT_TIMEOUT timeout = dice() % 3 == 0 ? dice() % 50 : DAT_TIMEOUT_INFINITE;
            const wait_answer got = c.wait(e, timeout, threshold);
            if (got.code == DAT_SUCCESS) {
                wrong += got.nmore < threshold - 1;
                take(got.event);
            } else {
                wrong += got.code != DAT_TIMEOUT_EXPIRED || got.nmore < 0;
            }
            DAT_EVENT event;
            while (dice() % 2 == 0 && c.dequeue(e, event) == DAT_SUCCESS)
                take(event);
        }
    }
};

/// Posts until the queue takes it.
void produce_software(consumer &c, DAT_EVD_HANDLE e, int count)
{
    for (int i = 0; i < count; ++i)
        while (c.post_se(e) != DAT_SUCCESS)
            std::this_thread::yield();
}

void produce_sends(consumer &c, station &s, int count)
{
    qp &port = s.port();
    for (int i = 0; i < count; ++i) {
        while (c.post_send(s.ep, static_cast<DAT_UINT64>(i)) != DAT_SUCCESS)
            std::this_thread::yield();
        complete_send(port);
    }
}

} // namespace

TEST_SUITE_BEGIN("wait");

TEST_CASE("no wake-up is lost: one producer of software events")
{
    auto *c = new consumer;
    const DAT_EVD_HANDLE e = c->make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    const int total = rounds(200'000);
    taker t{*c, e, total};
    std::thread producer([&] { produce_software(*c, e, total); });
    const bool done = finishes([&] { t.run(); }, [&] { return t.taken.load(); });
    REQUIRE_MESSAGE(done, "hangs after " << t.taken << " events");
    producer.join();
    CHECK_EQ(t.wrong, 0);
    delete c;
}

TEST_CASE("no wake-up is lost: software events of several threads, on a thread-safe adapter")
{
    auto *c = new consumer(line::threadsafe);
    const DAT_EVD_HANDLE e = c->make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    const int each = rounds(60'000);
    taker t{*c, e, 3 * each};
    std::vector<std::thread> producers;
    for (int i = 0; i < 3; ++i)
        producers.emplace_back([&] { produce_software(*c, e, each); });
    const bool done = finishes([&] { t.run(); }, [&] { return t.taken.load(); });
    REQUIRE_MESSAGE(done, "hangs after " << t.taken << " events");
    for (std::thread &p : producers)
        p.join();
    CHECK_EQ(t.wrong, 0);
    delete c;
}

TEST_CASE("no wake-up is lost: completions")
{
    auto *c = new consumer;
    const DAT_EVD_HANDLE e = c->make_evd(merged, 64);
    auto *s = new station(*c, e, c->make_evd(DAT_EVD_CONNECTION_FLAG));
    s->connect_by_hand();
    const int total = rounds(100'000);
    taker t{*c, e, total};
    std::thread producer([&] { produce_sends(*c, *s, total); });
    const bool done = finishes([&] { t.run(); }, [&] { return t.taken.load(); });
    REQUIRE_MESSAGE(done, "hangs after " << t.taken << " events");
    producer.join();
    CHECK_EQ(t.wrong, 0);
    delete s;
    delete c;
}

TEST_CASE("no wake-up is lost, and completions stay in order: completions and software events")
{
    auto *c = new consumer;
    const DAT_EVD_HANDLE e = c->make_evd(merged, 64);
    auto *s = new station(*c, e, c->make_evd(DAT_EVD_CONNECTION_FLAG));
    s->connect_by_hand();
    const int each = rounds(60'000);
    taker t{*c, e, 2 * each};
    std::thread completions([&] { produce_sends(*c, *s, each); });
    std::thread software([&] { produce_software(*c, e, each); });
    const bool done = finishes([&] { t.run(); }, [&] { return t.taken.load(); });
    REQUIRE_MESSAGE(done, "hangs after " << t.taken << " events");
    completions.join();
    software.join();
    CHECK_EQ(t.wrong, 0);
    delete s;
    delete c;
}

TEST_CASE("no wake-up is lost: connection events")
{
    auto *c = new consumer;
    const int total = rounds(20'000);
    const DAT_EVD_HANDLE connections = c->make_evd(DAT_EVD_CONNECTION_FLAG, 2 * total);
    auto *s = new station(*c, c->make_evd(DAT_EVD_DTO_FLAG), connections);
    taker t{*c, connections, 2 * total};
    t.thresholds = false;
    std::atomic<int> failed{0};
    std::thread life([&] {
        qp &port = s->port();
        for (int i = 0; i < total; ++i) {
            failed += c->connect(s->ep, 1) != DAT_SUCCESS;
            fire(port, DAT_CONNECTION_EVENT_ESTABLISHED);
            fire(port, DAT_CONNECTION_EVENT_DISCONNECTED);
            failed += c->v.ep_reset_func(s->ep) != DAT_SUCCESS;
        }
    });
    const bool done = finishes([&] { t.run(); }, [&] { return t.taken.load(); });
    REQUIRE_MESSAGE(done, "hangs after " << t.taken << " events");
    life.join();
    CHECK_EQ(failed.load(), 0);
    CHECK_EQ(t.wrong, 0);
    delete s;
    delete c;
}

TEST_CASE("no wake-up is lost: ping-pong between two waiters")
{
    auto *c = new consumer;
    const DAT_EVD_HANDLE ping = c->make_evd(DAT_EVD_SOFTWARE_FLAG, 4);
    const DAT_EVD_HANDLE pong = c->make_evd(merged, 4);
    const int total = rounds(40'000);
    std::thread echo([&] {
        for (int i = 0; i < total; ++i) {
            (void)c->wait(ping, DAT_TIMEOUT_INFINITE);
            (void)c->post_se(pong);
        }
    });
    std::atomic<int> rounds_done{0};
    const bool done = finishes(
        [&] {
            for (; rounds_done < total; ++rounds_done) {
                (void)c->post_se(ping);
                (void)c->wait(pong, DAT_TIMEOUT_INFINITE);
            }
        },
        [&] { return rounds_done.load(); });
    REQUIRE(done);
    echo.join();
    delete c;
}

TEST_SUITE_END();
