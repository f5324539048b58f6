// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An adapter opened through a thread-safe line: every call is safe from any thread.
#include "fixture.hpp"

extern "C" {
void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params);
void dat_provider_fini(const DAT_PROVIDER_INFO *info);
}

using namespace test;

namespace {

/// Runs the function on several threads at once.
template <class F>
void on_threads(int count, F &&what)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&what, i] { what(i); });
    for (std::thread &t : threads)
        t.join();
}

} // namespace

TEST_SUITE_BEGIN("threads");

TEST_CASE("other lines of dat.conf name the same library, and start while an adapter is in use")
{
    consumer c(line::threadsafe);
    std::atomic<bool> stop{false};
    std::thread starting([&stop] {
        const DAT_PROVIDER_INFO other{"another-lo", 2, 0, DAT_TRUE};
        while (!stop) {
            dat_provider_init(&other, "");
            dat_provider_fini(&other);
        }
    });
    for (int i = 0; i < rounds(100); ++i) {
        station s(c);
        s.connect_by_hand(); // an event, which may be told
    }
    stop = true;
    starting.join();
}

TEST_CASE("four threads post and dequeue on one endpoint: each operation comes back once")
{
    consumer c(line::threadsafe);
    station s(c);
    s.connect_by_hand();
    qp &port = s.port();
    const int each = rounds(20'000);
    std::atomic<int> taken{0};
    std::atomic<std::uint64_t> sum{0};
    on_threads(4, [&](int me) {
        for (int i = 0; i < each;) {
            const auto cookie = static_cast<DAT_UINT64>(me * each + i);
            const bool posted =
                (i % 2 == 0 ? c.post_send(s.ep, cookie) : c.post_recv(s.ep, cookie)) == DAT_SUCCESS;
            i += posted;
            complete_send(port);
            complete_recv(port);
            for (const DAT_EVD_HANDLE e : {s.recv, s.request}) {
                DAT_EVENT event;
                if (c.dequeue(e, event) != DAT_SUCCESS)
                    continue;
                ++taken;
                sum += cookie_of(event);
            }
        }
    });
    while (complete_send(port) || complete_recv(port)) {
    }
    for (const DAT_EVD_HANDLE e : {s.recv, s.request})
        for (const DAT_EVENT &event : c.drain(e)) {
            ++taken;
            sum += cookie_of(event);
        }
    const auto n = static_cast<std::uint64_t>(4 * each);
    CHECK_EQ(taken.load(), 4 * each);
    CHECK_EQ(sum.load(), n * (n - 1) / 2);
}

TEST_CASE("threads that dequeue one EVD take each completion once, and see them in their order")
{
    consumer c(line::threadsafe);
    station s(c);
    s.connect_by_hand();
    qp &port = s.port();
    const auto all = static_cast<DAT_UINT64>(rounds(80'000));
    std::atomic<DAT_UINT64> taken{0};
    std::atomic<DAT_UINT64> sum{0};
    std::atomic<int> disordered{0};
    on_threads(5, [&](int me) {
        if (me == 0) {
            for (DAT_UINT64 posted = 0; posted != all;) {
                posted += c.post_send(s.ep, posted + 1) == DAT_SUCCESS ? 1 : 0;
                complete_send(port);
            }
            while (complete_send(port)) {
            }
            return;
        }
        for (DAT_UINT64 last = 0; taken < all;) {
            DAT_EVENT event;
            if (c.dequeue(s.request, event) != DAT_SUCCESS) {
                osd::yield();
                continue;
            }
            disordered += cookie_of(event) > last ? 0 : 1;
            last = cookie_of(event);
            sum += last;
            ++taken;
        }
    });
    CHECK_EQ(disordered.load(), 0);
    CHECK_EQ(taken.load(), all);
    CHECK_EQ(sum.load(), all * (all + 1) / 2);
}

TEST_CASE("a dequeue beside others is SUCCESS or QUEUE_EMPTY, never INVALID_STATE")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    std::atomic<int> wrong{0};
    on_threads(4, [&](int me) {
        for (int i = 0; i < rounds(20'000); ++i) {
            if (me == 0)
                (void)c.post_se(e);
            DAT_EVENT event;
            const DAT_RETURN code = c.dequeue(e, event);
            wrong += code != DAT_SUCCESS && code != DAT_QUEUE_EMPTY;
        }
    });
    CHECK_EQ(wrong.load(), 0);
}

TEST_CASE("a thread that has posted finds an event, though others post and dequeue at once")
{
    for (const unsigned others :
         {0U, unsigned{DAT_EVD_DTO_FLAG}, DAT_EVD_DTO_FLAG | unsigned{DAT_EVD_CONNECTION_FLAG}}) {
        const unsigned streams = DAT_EVD_SOFTWARE_FLAG | others;
        CAPTURE(streams);
        consumer c(line::threadsafe);
        const DAT_EVD_HANDLE e = c.make_evd(streams, 4);
        std::atomic<int> wrong{0};
        on_threads(4, [&](int) {
            for (int i = 0; i < rounds(10'000); ++i) {
                DAT_EVENT event;
                wrong += c.post_se(e) != DAT_SUCCESS; // each takes as many as it has posted
                wrong += c.dequeue(e, event) != DAT_SUCCESS;
            }
        });
        CHECK_EQ(wrong.load(), 0);
        CHECK_EQ(c.drain(e).size(), 0U);
    }
}

TEST_CASE("threads post beside resizes: no event is lost, none is refused where there is room")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 8);
        std::atomic<int> refused{0};
        std::atomic<std::uint64_t> outstanding{0};
        const int each = rounds(10'000);
        std::thread consumer_thread([&] {
            int taken = 0;
            for (int turn = 0; taken != 3 * each; ++turn) {
                if (turn % 32 == 0) // the posting threads have at most six in it
                    refused += c.v.evd_resize_func(e, 6 + turn / 32 % 7) != DAT_SUCCESS;
                DAT_EVENT event;
                if (c.dequeue(e, event) != DAT_SUCCESS) {
                    osd::yield();
                    continue;
                }
                ++taken;
                --outstanding;
            }
        });
        on_threads(3, [&](int) {
            for (int i = 0; i < each;) {
                if (outstanding.fetch_add(1) >= 6) {
                    --outstanding;
                    osd::yield();
                    continue;
                }
                refused += c.post_se(e) != DAT_SUCCESS;
                ++i;
            }
        });
        consumer_thread.join();
        CHECK_EQ(refused.load(), 0);
        CHECK_EQ(c.drain(e).size(), 0U);
    }
}

TEST_CASE("objects of one adapter are made and freed from several threads")
{
    for (const line which : {line::threadsafe, line::nonthreadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG, 64);
        const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
        const DAT_PZ_HANDLE pz = c.make_pz();
        std::atomic<int> wrong{0};
        on_threads(which == line::threadsafe ? 4 : 1, [&](int) {
            for (int i = 0; i < rounds(400); ++i) {
                DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
                wrong += c.v.ep_create_func(c.ia, pz, dto, dto, connections, nullptr, &ep) !=
                         DAT_SUCCESS;
                wrong += c.v.ep_free_func(ep) != DAT_SUCCESS;
                DAT_PZ_HANDLE own = DAT_HANDLE_NULL;
                wrong += c.v.pz_create_func(c.ia, &own) != DAT_SUCCESS;
                wrong += c.v.pz_free_func(own) != DAT_SUCCESS;
            }
        });
        CHECK_EQ(wrong.load(), 0);
    }
}

TEST_CASE("one thread per object: endpoints are made while requests bring others")
{
    consumer c(line::nonthreadsafe);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG, 4);
    c.make_psp(5, requests, DAT_PSP_PROVIDER_FLAG);
    const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG, 64);
    const DAT_EVD_HANDLE connections = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    const DAT_PZ_HANDLE pz = c.make_pz();
    std::atomic<bool> stop{false};
    std::thread peers([&] {
        while (!stop)
            (void)arrive(5);
    });
    int wrong = 0;
    for (int i = 0; i < rounds(2000); ++i) {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        wrong += c.v.ep_create_func(c.ia, pz, dto, dto, connections, nullptr, &ep) != DAT_SUCCESS;
        wrong += c.v.ep_free_func(ep) != DAT_SUCCESS;
        for (const DAT_EVENT &event : c.drain(requests))
            wrong += c.v.cr_reject_func(event.event_data.cr_arrival_event_data.cr_handle, 0,
                                        nullptr) != DAT_SUCCESS;
    }
    stop = true;
    peers.join();
    CHECK_EQ(wrong, 0);
}

TEST_CASE("receives are posted beside resets of the endpoint")
{
    consumer c(line::threadsafe);
    station s(c);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::thread poster([&] {
        while (!stop) {
            const DAT_RETURN code = c.post_recv(s.ep);
            wrong += code != DAT_SUCCESS && DAT_GET_TYPE(code) != DAT_INSUFFICIENT_RESOURCES;
        }
    });
    for (int i = 0; i < rounds(2000); ++i) {
        must(c.connect(s.ep, 1));
        fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED);
        must(c.v.ep_reset_func(s.ep));
        (void)c.drain(s.connections);
        (void)c.drain(s.recv);
    }
    stop = true;
    poster.join();
    CHECK_EQ(wrong.load(), 0);
}

// A post to a freed endpoint looks at its mark while the next endpoint is made in that place, which
// ThreadSanitizer takes for a race.
TEST_CASE("requests are posted beside resets and frees of the endpoint: never to a new qp" *
          doctest::skip(test_run::thread_sanitized))
{
    for (const bool draws : {false, true}) {
        CAPTURE(draws);
        consumer c(line::threadsafe);
        station s(c);
        DAT_SRQ_HANDLE shared = DAT_HANDLE_NULL;
        DAT_SRQ_ATTR attr{};
        attr.max_recv_dtos = 4;
        attr.max_recv_iov = 1;
        must(c.v.srq_create_func(c.ia, s.pz, &attr, &shared));
        const auto make = [&] {
            if (draws)
                must(c.v.ep_create_with_srq_func(c.ia, s.pz, s.recv, s.request, s.connections,
                                                 shared, nullptr, &s.ep));
            else
                s.ep = s.make_ep();
        };
        must(c.v.ep_free_func(s.ep));
        make();
        std::atomic<DAT_EP_HANDLE> ep{s.ep};
        std::atomic<bool> stop{false};
        std::atomic<int> wrong{0};
        std::thread poster([&] {
            while (!stop) {
                const DAT_RETURN type = DAT_GET_TYPE(c.post_send(ep));
                wrong += type != DAT_SUCCESS && type != DAT_INVALID_STATE &&
                         type != DAT_INVALID_HANDLE && type != DAT_INSUFFICIENT_RESOURCES;
                DAT_EVENT event;
                (void)c.dequeue(s.request, event);
            }
        });
        for (int i = 0; i < rounds(2000); ++i) {
            must(c.connect(s.ep, 1));
            fire(s.port(), DAT_CONNECTION_EVENT_ESTABLISHED);
            fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED);
            must(c.v.ep_reset_func(s.ep));
            if (i % 2 == 0)
                must(c.connect(s.ep, 1)); // freed while it connects, or unconnected
            must(c.v.ep_free_func(s.ep));
            make();
            ep = s.ep;
            for (const DAT_EVD_HANDLE e : {s.connections, c.async})
                (void)c.drain(e);
        }
        stop = true;
        poster.join();
        CHECK_EQ(wrong.load(), 0);
        must(c.v.ep_free_func(s.ep));
        must(c.v.srq_free_func(shared));
    }
}

TEST_CASE("a disconnect beside threads that take BROKEN: one end, and DISCONNECTED if after it")
{
    for (const unsigned streams : {0U, unsigned{DAT_EVD_DTO_FLAG}}) {
        CAPTURE(streams);
        consumer c(line::threadsafe);
        const DAT_EVD_HANDLE evd = c.make_evd(DAT_EVD_CONNECTION_FLAG | streams);
        station s(c, streams == 0 ? c.make_evd(DAT_EVD_DTO_FLAG) : evd, evd);
        for (int i = 0; i < rounds(500); ++i) {
            s.connect_by_hand();
            REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_BROKEN));
            std::atomic<bool> ready{false};
            std::atomic<bool> disconnected{false};
            bool late = false; // the event was asked for when the disconnect had returned
            DAT_EVENT end{};
            std::thread taker([&] {
                ready = true;
                late = disconnected;
                if (i % 2 == 0)
                    end = c.wait(evd, DAT_TIMEOUT_INFINITE).event;
                else
                    while (c.dequeue(evd, end) != DAT_SUCCESS)
                        std::this_thread::yield();
            });
            while (i % 3 != 0 && !ready) {
            }
            CHECK_EQ(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
            disconnected = true;
            taker.join();
            if (late || end.event_number != DAT_CONNECTION_EVENT_BROKEN)
                CHECK_EQ(end.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
            CHECK_EQ(c.drain(evd).size(), 0U);
            must(c.v.ep_reset_func(s.ep));
        }
    }
}

TEST_CASE("an endpoint is queried beside a modification: old or new, nothing between")
{
    consumer c(line::threadsafe);
    station s(c);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::thread reader([&] {
        while (!stop) {
            DAT_EP_PARAM now;
            (void)c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &now);
            wrong += now.ep_attr.max_recv_dtos != now.ep_attr.max_request_dtos;
        }
    });
    for (int i = 0; i < rounds(2000); ++i) {
        DAT_EP_PARAM param{};
        param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = 4 + i % 8;
        must(c.v.ep_modify_func(
            s.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
            &param));
        (void)c.drain(s.recv);
        if (i == 0)
            wrong = 0; // made with what the adapter likes best
    }
    stop = true;
    reader.join();
    CHECK_EQ(wrong.load(), 0);
}

TEST_CASE("control calls on one endpoint from several threads never overlap in the port")
{
    consumer c(line::threadsafe);
    station s(c, 4096);
    on_threads(3, [&](int me) {
        for (int i = 0; i < rounds(1500); ++i) {
            if (me == 0)
                (void)c.connect(s.ep, 1, 200);
            else if (me == 1)
                (void)c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG);
            else
                (void)c.v.ep_reset_func(s.ep);
            if (me == 2)
                (void)c.drain(s.connections);
        }
    });
}

TEST_SUITE_END();
