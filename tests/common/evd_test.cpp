// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EVD: counts, refusals, and the order of events.
#include "fixture.hpp"

#include <atomic>
#include <thread>

using namespace test;

namespace {

void await_waiter(DAT_EVD_HANDLE handle)
{
    while (!from_handle<evd>(handle)->has_waiter())
        std::this_thread::yield();
}

DAT_COUNT qlen_of(consumer &c, DAT_EVD_HANDLE e)
{
    DAT_EVD_PARAM param{};
    must(c.v.evd_query_func(e, DAT_EVD_FIELD_ALL, &param));
    return param.evd_qlen;
}

std::uintptr_t number_in(const DAT_EVENT &event)
{
    return reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer);
}

std::vector<std::uintptr_t> numbers(const std::vector<DAT_EVENT> &events)
{
    std::vector<std::uintptr_t> out;
    for (const DAT_EVENT &event : events)
        out.push_back(number_in(event));
    return out;
}

/// A connected endpoint whose completions and software events share one EVD.
struct merged_station {
    explicit merged_station(line which = line::nonthreadsafe, DAT_COUNT qlen = 16)
        : c(which), both(c.make_evd(merged, qlen)), s(c, both, c.make_evd(DAT_EVD_CONNECTION_FLAG))
    {
        s.connect_by_hand();
    }
    void send_and_complete(DAT_UINT64 cookie)
    {
        must(c.post_send(s.ep, cookie));
        REQUIRE(complete_send(s.port()));
    }

    consumer c;
    DAT_EVD_HANDLE both;
    station s;
};

} // namespace

TEST_SUITE_BEGIN("evd");

TEST_CASE("completions that were counted keep their order while software events come in")
{
    consumer c;
    station s(c, c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 64),
              c.make_evd(DAT_EVD_CONNECTION_FLAG));
    s.connect_by_hand();
    std::atomic<bool> done{false};
    std::thread posting([&] {
        DAT_EVENT event{};
        event.event_number = DAT_SOFTWARE_EVENT;
        while (!done)
            (void)c.v.evd_post_se_func(s.recv, &event);
    });
    DAT_UINT64 posted = 0;
    DAT_UINT64 expected = 0;
    unsigned misplaced = 0;
    for (int round = 0; round < rounds(100'000); ++round) {
        if (posted - expected < 8) {
            REQUIRE_EQ(c.post_recv(s.ep, posted++), DAT_SUCCESS);
            REQUIRE(complete_recv(s.port()));
        }
        wait_answer got{};
        if (round % 2 == 0)
            got = c.wait(s.recv, 0); // counts the remaining completions, so it takes them out of
                                     // the CQ
        else
            got.code = c.dequeue(s.recv, got.event);
        if (got.code == DAT_SUCCESS && got.event.event_number == DAT_DTO_COMPLETION_EVENT)
            misplaced += cookie_of(got.event) == expected++ ? 0 : 1;
    }
    done = true;
    posting.join();
    CHECK_EQ(misplaced, 0);
}

TEST_CASE("a wait that succeeds tells exactly how many events are left")
{
    merged_station m;
    for (int i = 0; i < 3; ++i)
        must(m.c.post_se(m.both));
    for (int i = 0; i < 4; ++i)
        m.send_and_complete(0);
    for (int left = 6; left >= 0; --left) {
        const wait_answer got = m.c.wait(m.both, 0);
        CHECK_EQ(got.code, DAT_SUCCESS);
        CHECK_EQ(got.nmore, left);
        CHECK_EQ(got.event.evd_handle, m.both);
    }
    CHECK_EQ(m.c.wait(m.both, 0).code, DAT_TIMEOUT_EXPIRED);
}

TEST_CASE("a threshold that is not reached takes nothing, and the timeout counts what is pending")
{
    merged_station m;
    must(m.c.post_se(m.both));
    m.send_and_complete(1);
    for (const DAT_TIMEOUT timeout : {0u, 2000u}) {
        const wait_answer got = m.c.wait(m.both, timeout, 3);
        CHECK_EQ(got.code, DAT_TIMEOUT_EXPIRED);
        CHECK_EQ(got.nmore, 2);
    }
    m.send_and_complete(2);
    const wait_answer got = m.c.wait(m.both, 0, 3);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 2);
    CHECK_EQ(m.c.drain(m.both).size(), 2);
}

TEST_CASE("a threshold is refused when it is not positive or longer than the queue")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4);
    const DAT_COUNT qlen = from_handle<evd>(e)->qlen();
    const DAT_RETURN refused = error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    CHECK_EQ(c.wait(e, 0, 0).code, refused);
    CHECK_EQ(c.wait(e, 0, -1).code, refused);
    CHECK_EQ(c.wait(e, 0, qlen + 1).code, refused);
    CHECK_EQ(c.wait(e, 0, qlen).code, DAT_TIMEOUT_EXPIRED);
}

TEST_CASE("a threshold of the whole queue is reached when the queue is full")
{
    merged_station m(line::nonthreadsafe, 4);
    for (int i = 0; i < 4; ++i)
        m.send_and_complete(0);
    const wait_answer got = m.c.wait(m.both, 0, 4);
    CHECK_EQ(got.code, DAT_SUCCESS);
    CHECK_EQ(got.nmore, 3);
}

TEST_CASE("completions that a wait counted come before those that arrive later")
{
    merged_station m;
    for (DAT_UINT64 i = 0; i < 3; ++i)
        m.send_and_complete(i);
    CHECK_EQ(cookie_of(m.c.wait(m.both, 0).event), 0); // stages 1 and 2
    m.send_and_complete(3);
    const std::vector<DAT_EVENT> rest = m.c.drain(m.both);
    REQUIRE_EQ(rest.size(), 3);
    for (DAT_UINT64 i = 0; i < 3; ++i)
        CHECK_EQ(cookie_of(rest[i]), i + 1);
}

TEST_CASE("a dequeue takes what the progress it makes brings, and makes none before that" *
          doctest::skip(!port_features.split_poll))
{
    merged_station m;
    int made = 0;
    const auto progresses_when = [&](DAT_UINT64 brings) {
        lab::on_progress = [&, brings] {
            ++made;
            if (brings != 0)
                m.send_and_complete(brings);
        };
    };
    DAT_EVENT event{};
    m.send_and_complete(1);
    progresses_when(0);
    CHECK_EQ(m.c.dequeue(m.both, event), DAT_SUCCESS);
    CHECK_EQ(made, 0);
    CHECK_EQ(m.c.dequeue(m.both, event), DAT_QUEUE_EMPTY);
    CHECK_EQ(made, 1);
    progresses_when(2);
    CHECK_EQ(m.c.dequeue(m.both, event), DAT_SUCCESS);
    CHECK_EQ(cookie_of(event), 2);
    CHECK_EQ(made, 2);
    progresses_when(0);
    CHECK_EQ(m.c.dequeue(m.both, event), DAT_QUEUE_EMPTY); // the claim was given up
    lab::on_progress = nullptr;
}

TEST_CASE("dequeue beside a wait is INVALID_STATE, and so is a second wait")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        consumer c(which);
        const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
        auto waiter =
            std::async(std::launch::async, [&] { return c.wait(e, DAT_TIMEOUT_INFINITE).code; });
        await_waiter(e);
        DAT_EVENT event;
        CHECK_EQ(DAT_GET_TYPE(c.dequeue(e, event)), DAT_INVALID_STATE);
        CHECK_EQ(DAT_GET_TYPE(c.wait(e, 0).code), DAT_INVALID_STATE);
        CHECK_EQ(c.v.evd_free_func(e), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
        must(c.post_se(e));
        CHECK_EQ(waiter.get(), DAT_SUCCESS);
        CHECK_EQ(c.dequeue(e, event), DAT_QUEUE_EMPTY);
    }
}

TEST_CASE("set_unwaitable sends the waiter home and sticks until it is cleared")
{
    consumer c;
    const DAT_RETURN unwaitable = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE);
    for (const unsigned streams : {unsigned{DAT_EVD_SOFTWARE_FLAG}, merged}) {
        const DAT_EVD_HANDLE e = c.make_evd(streams);
        auto waiter =
            std::async(std::launch::async, [&] { return c.wait(e, DAT_TIMEOUT_INFINITE).code; });
        await_waiter(e);
        must(c.v.evd_set_unwaitable_func(e));
        CHECK_EQ(waiter.get(), unwaitable);
        must(c.post_se(e));
        CHECK_EQ(c.wait(e, 0).code, unwaitable);
        DAT_EVD_PARAM param;
        must(c.v.evd_query_func(e, DAT_EVD_FIELD_ALL, &param));
        CHECK_EQ(param.evd_state & DAT_EVD_STATE_UNWAITABLE, DAT_EVD_STATE_UNWAITABLE);
        must(c.v.evd_clear_unwaitable_func(e));
        CHECK_EQ(c.wait(e, 0).code, DAT_SUCCESS);
    }
}

TEST_CASE("set_unwaitable sends the waiter home, also when it is cleared before that has woken")
{
    consumer c;
    for (const unsigned streams : {unsigned{DAT_EVD_SOFTWARE_FLAG}, merged}) {
        const DAT_EVD_HANDLE e = c.make_evd(streams);
        auto waiter = std::async(std::launch::async, [&] { return c.wait(e, 5'000'000).code; });
        await_waiter(e);
        must(c.v.evd_set_unwaitable_func(e));
        must(c.v.evd_clear_unwaitable_func(e));
        CHECK_EQ(waiter.get(), error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE));
        must(c.post_se(e));
        CHECK_EQ(c.wait(e, 0).code, DAT_SUCCESS);
    }
}

TEST_CASE("a software event on a full queue is QUEUE_FULL, nothing else happens")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 3);
    const DAT_COUNT qlen = from_handle<evd>(e)->qlen();
    for (int turn = 0; turn < 10; ++turn) {
        for (DAT_COUNT i = 0; i < qlen; ++i)
            must(c.post_se(e, static_cast<std::uintptr_t>(i)));
        CHECK_EQ(c.post_se(e), error_code(DAT_QUEUE_FULL));
        const std::vector<DAT_EVENT> all = c.drain(e);
        REQUIRE_EQ(all.size(), static_cast<std::size_t>(qlen));
        for (std::size_t i = 0; i < all.size(); ++i)
            CHECK_EQ(all[i].event_data.software_event_data.pointer, reinterpret_cast<void *>(i));
    }
    CHECK(c.drain(c.async).empty());
}

TEST_CASE("post_se is refused without the software stream, and for other events")
{
    consumer c;
    const DAT_EVD_HANDLE dto = c.make_evd(DAT_EVD_DTO_FLAG);
    CHECK_EQ(c.post_se(dto), error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    const DAT_EVD_HANDLE soft = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event{};
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    const DAT_RETURN refused = error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    CHECK_EQ(c.v.evd_post_se_func(soft, &event), refused);
    CHECK_EQ(c.v.evd_post_se_func(soft, nullptr), refused);
}

TEST_CASE("streams that may not share an EVD are refused, as the provider attributes tell")
{
    consumer c;
    DAT_PROVIDER_ATTR attr{};
    must(c.v.ia_query_func(c.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
    constexpr unsigned order[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                  DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                  DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) {
            DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
            const DAT_RETURN code =
                c.v.evd_create_func(c.ia, 4, DAT_HANDLE_NULL, flags(order[i] | order[j]), &made);
            const bool allowed = attr.evd_stream_merging_supported[i][j] == DAT_TRUE;
            CAPTURE(i);
            CAPTURE(j);
            CHECK_EQ(code == DAT_SUCCESS, allowed);
        }
}

TEST_CASE("an EVD that an endpoint feeds cannot be freed")
{
    consumer c;
    station s(c);
    const DAT_RETURN in_use = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE);
    for (const DAT_EVD_HANDLE e : {s.recv, s.request, s.connections})
        CHECK_EQ(c.v.evd_free_func(e), in_use);
    CHECK_EQ(c.v.evd_free_func(c.async), in_use);
    must(c.v.ep_free_func(s.ep));
    for (const DAT_EVD_HANDLE e : {s.recv, s.request, s.connections})
        CHECK_EQ(c.v.evd_free_func(e), DAT_SUCCESS);
}

TEST_CASE("a failed operation tells its operation, its cookie and its status")
{
    merged_station m;
    must(m.c.post_recv(m.s.ep, 77));
    REQUIRE(complete_recv(m.s.port(), DAT_DTO_ERR_LOCAL_LENGTH));
    DAT_EVENT event;
    must(m.c.dequeue(m.both, event));
    CHECK_EQ(event.event_number, DAT_DTO_COMPLETION_EVENT);
    CHECK_EQ(cookie_of(event), 77);
    CHECK_EQ(status_of(event), DAT_DTO_ERR_LOCAL_LENGTH);
    CHECK_EQ(event.event_data.dto_completion_event_data.operation, DAT_DTO_RECEIVE);
    CHECK_EQ(event.event_data.dto_completion_event_data.ep_handle, m.s.ep);
    CHECK_EQ(m.s.connect_event(), DAT_CONNECTION_EVENT_BROKEN);
    CHECK_EQ(m.c.state(m.s.ep), DAT_EP_STATE_DISCONNECTED);
}

TEST_CASE("a CQ that overflows gives one async event that names the EVD")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG);
    dapl_evd_cq_async_error_callback(*from_handle<evd>(e));
    const std::vector<DAT_EVENT> events = c.drain(c.async);
    REQUIRE_EQ(events.size(), 1);
    CHECK_EQ(events[0].event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK_EQ(events[0].event_data.asynch_error_event_data.dat_handle, e);
}

TEST_CASE("an EVD whose CQ overflowed is unusable: wait is INVALID_STATE")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_DTO_FLAG);
    dapl_evd_cq_async_error_callback(*from_handle<evd>(e));
    CHECK_EQ(DAT_GET_TYPE(c.wait(e, 0).code), DAT_INVALID_STATE);
}

TEST_CASE("a wait with a timeout takes about as long as it says, over any number of wake-ups")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    std::atomic<bool> stop{false};
    std::atomic<bool> done{false};
    std::thread poster([&] {
        for (int i = 0; i < 60 && !stop; ++i) {
            (void)c.post_se(e);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        done = true;
    });
    const auto before = std::chrono::steady_clock::now();
    CHECK_EQ(c.wait(e, 100'000, 64).code, DAT_TIMEOUT_EXPIRED);
    const auto took = std::chrono::steady_clock::now() - before;
    CHECK(took >= std::chrono::milliseconds(99));
    CHECK(!done); // the wait has not lasted as long as the events come
    stop = true;
    poster.join();
}

TEST_CASE("a resize keeps what is in the EVD, in its order, and makes room")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4);
    for (int turn = 0; turn < 5; ++turn) { // the ring begins at another place each time
        for (std::uintptr_t i = 0; i < 4; ++i)
            must(c.post_se(e, i));
        must(c.v.evd_resize_func(e, 9));
        CHECK_EQ(qlen_of(c, e), 9);
        for (std::uintptr_t i = 4; i < 9; ++i)
            must(c.post_se(e, i));
        CHECK_EQ(c.post_se(e), error_code(DAT_QUEUE_FULL));
        CHECK_EQ(c.wait(e, 0, 9).nmore, 8);
        CHECK_EQ(numbers(c.drain(e)), std::vector<std::uintptr_t>{1, 2, 3, 4, 5, 6, 7, 8});
        must(c.v.evd_resize_func(e, 4));
        CHECK_EQ(qlen_of(c, e), 4);
        must(c.post_se(e));
        CHECK_EQ(c.drain(e).size(), 1);
    }
}

TEST_CASE("an EVD does not become shorter than what is in it")
{
    consumer c;
    const DAT_EVD_HANDLE soft = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 8);
    for (std::uintptr_t i = 0; i < 5; ++i)
        must(c.post_se(soft, i));
    CHECK_EQ(c.v.evd_resize_func(soft, 4), error_code(DAT_INVALID_STATE));
    CHECK_EQ(qlen_of(c, soft), 8);
    must(c.v.evd_resize_func(soft, 5));
    CHECK_EQ(c.post_se(soft), error_code(DAT_QUEUE_FULL));
    CHECK_EQ(numbers(c.drain(soft)), std::vector<std::uintptr_t>{0, 1, 2, 3, 4});
}

TEST_CASE("an EVD does not become shorter than what is in it and in its CQ together" *
          doctest::skip(!port_features.cq_resize))
{
    merged_station m;
    must(m.c.post_se(m.both));
    for (DAT_UINT64 i = 0; i < 4; ++i)
        m.send_and_complete(i);
    CHECK_EQ(m.c.wait(m.both, 0, 5).nmore, 4); // takes them out of the CQ
    m.send_and_complete(4);
    CHECK_EQ(m.c.v.evd_resize_func(m.both, 4), error_code(DAT_INVALID_STATE));
    CHECK_EQ(lab::calls(lab::op::cq_resize), 0);
    must(m.c.v.evd_resize_func(m.both, 5));
    const std::vector<DAT_EVENT> all = m.c.drain(m.both);
    REQUIRE_EQ(all.size(), 5);
    for (DAT_UINT64 i = 0; i < 5; ++i)
        CHECK_EQ(cookie_of(all[i]), i);
}

TEST_CASE("completions stay in order over a resize: those that were counted, and those of the CQ" *
          doctest::skip(!port_features.cq_resize))
{
    merged_station m(line::nonthreadsafe, 8);
    DAT_UINT64 next = 0;
    DAT_UINT64 expected = 0;
    for (const DAT_COUNT qlen : {16, 5, 6, 3, 64}) {
        m.send_and_complete(next++);
        m.send_and_complete(next++);
        CHECK_EQ(cookie_of(m.c.wait(m.both, 0).event), expected++);
        m.send_and_complete(next++);
        must(m.c.v.evd_resize_func(m.both, qlen));
        CHECK_EQ(qlen_of(m.c, m.both), qlen);
        for (const DAT_EVENT &event : m.c.drain(m.both))
            CHECK_EQ(cookie_of(event), expected++);
        CHECK_EQ(expected, next);
    }
}

TEST_CASE("a resize that the CQ does not follow changes nothing")
{
    merged_station m(line::nonthreadsafe, 4);
    const DAT_RETURN broken = error_code(DAT_INTERNAL_ERROR);
    for (const DAT_COUNT qlen : {2, 8}) {
        lab::fail(lab::op::cq_resize, broken);
        CHECK_EQ(m.c.v.evd_resize_func(m.both, qlen),
                 port_features.cq_resize ? broken : error_code(DAT_MODEL_NOT_SUPPORTED));
        lab::plan_of(lab::op::cq_resize).fail_after = -1;
        CHECK_EQ(qlen_of(m.c, m.both), 4);
        for (std::uintptr_t i = 0; i < 4; ++i)
            must(m.c.post_se(m.both, i));
        CHECK_EQ(m.c.post_se(m.both), error_code(DAT_QUEUE_FULL));
        CHECK_EQ(m.c.drain(m.both).size(), 4);
    }
    CHECK_EQ(m.c.v.evd_resize_func(m.both, 4), DAT_SUCCESS); // nothing to do
}

TEST_CASE("a resize checks its length, and finds no place beside a waiter")
{
    consumer c;
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 8);
    const DAT_RETURN refused = error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    for (const DAT_COUNT qlen : {0, -1, 65537})
        CHECK_EQ(c.v.evd_resize_func(e, qlen), refused);
    auto waiter =
        std::async(std::launch::async, [&] { return c.wait(e, DAT_TIMEOUT_INFINITE, 6).nmore; });
    await_waiter(e);
    for (const DAT_COUNT qlen : {4, 16})
        CHECK_EQ(c.v.evd_resize_func(e, qlen),
                 error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER));
    for (int i = 0; i < 6; ++i)
        must(c.post_se(e));
    CHECK_EQ(waiter.get(), 5);
    CHECK_EQ(qlen_of(c, e), 8);
}

TEST_CASE("while events arrive and are taken, resizes lose none and reorder none")
{
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        merged_station m(which, 64);
        const int total = rounds(20'000);
        std::thread software([&] {
            for (int i = 0; i < total;)
                i += m.c.post_se(m.both, static_cast<std::uintptr_t>(i)) == DAT_SUCCESS;
        });
        std::thread completions([&] {
            qp &port = m.s.port();
            for (int i = 0; i < total;)
                if (m.c.post_send(m.s.ep, static_cast<DAT_UINT64>(i)) == DAT_SUCCESS) {
                    complete_send(port);
                    ++i;
                }
        });
        int wrong = 0;
        std::uintptr_t next_software = 0;
        DAT_UINT64 next_send = 0;
        const auto take = [&](const DAT_EVENT &event) {
            if (event.event_number == DAT_SOFTWARE_EVENT)
                wrong += number_in(event) != next_software++;
            else
                wrong += cookie_of(event) != next_send++;
        };
        const DAT_COUNT lengths[] = {64, 200, 90, 1000, 70};
        const auto left = [&] { return static_cast<int>(next_software + next_send) < 2 * total; };
        for (int turn = 0; left(); ++turn) {
            (void)m.c.v.evd_resize_func(m.both, lengths[turn % 5]); // it may be too full
            const wait_answer got = m.c.wait(m.both, 100, 1 + turn % 3);
            if (got.code == DAT_SUCCESS)
                take(got.event);
            for (DAT_EVENT event; m.c.dequeue(m.both, event) == DAT_SUCCESS;)
                take(event);
        }
        software.join();
        completions.join();
        CHECK_EQ(wrong, 0);
        CHECK(m.c.drain(m.c.async).empty());
    }
}

TEST_CASE("on a thread-safe adapter a resize beside dequeues and waits disturbs neither")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    std::atomic<bool> stop{false};
    std::thread resizer([&] {
        for (DAT_COUNT qlen = 64; !stop; qlen = 64 + qlen % 100)
            (void)c.v.evd_resize_func(e, qlen);
    });
    const auto total = static_cast<std::uintptr_t>(rounds(50'000));
    std::thread producer([&] {
        for (std::uintptr_t i = 0; i < total;)
            i += c.post_se(e, i) == DAT_SUCCESS ? 1 : 0;
    });
    int wrong = 0;
    for (std::uintptr_t taken = 0; taken < total;) {
        DAT_EVENT event;
        if (c.dequeue(e, event) == DAT_SUCCESS)
            wrong += number_in(event) != taken++;
        const wait_answer got = c.wait(e, 50, 2);
        if (got.code == DAT_SUCCESS)
            wrong += number_in(got.event) != taken++;
        else
            wrong += got.code != DAT_TIMEOUT_EXPIRED;
        if (taken + 2 > total) // the last one alone does not reach the threshold
            for (; taken < total && c.dequeue(e, event) == DAT_SUCCESS;)
                wrong += number_in(event) != taken++;
    }
    stop = true;
    resizer.join();
    producer.join();
    CHECK_EQ(wrong, 0);
}

TEST_CASE("a threshold is for EVDs whose endpoints leave notification alone")
{
    consumer c;
    const DAT_EVD_HANDLE recv = c.make_evd(DAT_EVD_DTO_FLAG, 8);
    const DAT_EVD_HANDLE request = c.make_evd(DAT_EVD_DTO_FLAG, 8);
    station s(c, 16, 8);
    s.recv = recv;
    s.request = request;
    const auto answers = [&](DAT_RETURN_TYPE of_recv, DAT_RETURN_TYPE of_request) {
        CHECK_EQ(DAT_GET_TYPE(c.wait(recv, 0, 2).code), of_recv);
        CHECK_EQ(DAT_GET_TYPE(c.wait(request, 0, 2).code), of_request);
        CHECK_EQ(c.wait(recv, 0).code, DAT_TIMEOUT_EXPIRED);
        CHECK_EQ(DAT_GET_TYPE(c.wait(recv, 0, 9).code), DAT_INVALID_PARAMETER);
    };
    DAT_EP_PARAM param{};
    must(c.v.ep_query_func(s.ep, DAT_EP_FIELD_ALL, &param));
    DAT_EP_ATTR attr = param.ep_attr;
    answers(DAT_TIMEOUT_EXPIRED, DAT_TIMEOUT_EXPIRED);
    const DAT_EP_HANDLE plain = s.make_ep(&attr);
    answers(DAT_TIMEOUT_EXPIRED, DAT_TIMEOUT_EXPIRED);
    attr.recv_completion_flags = port_features.solicited_wait ? DAT_COMPLETION_SOLICITED_WAIT_FLAG
                                                              : DAT_COMPLETION_UNSIGNALLED_FLAG;
    const DAT_EP_HANDLE solicited = s.make_ep(&attr);
    answers(DAT_INVALID_STATE, DAT_TIMEOUT_EXPIRED);
    param.ep_attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    param.ep_attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    must(c.v.ep_modify_func(plain, DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, &param));
    answers(DAT_INVALID_STATE, DAT_INVALID_STATE);
    must(c.v.ep_free_func(solicited));
    answers(DAT_TIMEOUT_EXPIRED, DAT_INVALID_STATE);
    param.recv_evd_handle = s.request; // needs a queue pair made anew
    param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    param.ep_attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    must(c.v.ep_modify_func(plain,
                            DAT_EP_FIELD_RECV_EVD_HANDLE |
                                DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS |
                                DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS,
                            &param));
    answers(DAT_TIMEOUT_EXPIRED, DAT_INVALID_STATE);
    must(c.v.ep_free_func(plain));
    answers(DAT_TIMEOUT_EXPIRED, DAT_TIMEOUT_EXPIRED);
}

TEST_CASE("on a thread-safe adapter, enable and modify_cno beside a dequeue do not disturb it")
{
    merged_station m(line::threadsafe);
    const DAT_CNO_HANDLE cno = m.c.make_cno();
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
            (void)m.c.v.evd_modify_cno_func(m.both, cno);
            (void)m.c.v.evd_enable_func(m.both);
        }
    });
    int wrong = 0;
    for (int i = 0; i < rounds(100'000); ++i) {
        DAT_EVENT event;
        wrong += m.c.dequeue(m.both, event) != DAT_QUEUE_EMPTY;
    }
    stop = true;
    other.join();
    CHECK_EQ(wrong, 0);
}

TEST_SUITE_END();
