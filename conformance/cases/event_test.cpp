// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Events of several sources: their order, thresholds and timeouts, overflow, and what triggers
// CNOs.
#include "harness/support.hpp"

#include "harness/descriptors.hpp"

#include <algorithm>
#include <map>

namespace conformance {
namespace {

DAT_COUNT length_of(DAT_EVD_HANDLE evd)
{
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
    return param.evd_qlen;
}

/// Recreates its endpoint with another EVD. dat_ep_modify is tested by EP-10 and others.
void take_evd(test_endpoint &side, DAT_EP_PARAM_MASK field, DAT_EVD_HANDLE evd)
{
    const auto for_field = [&](DAT_EP_PARAM_MASK its_field, DAT_EVD_HANDLE its) {
        return its_field == field ? evd : its;
    };
    MUST(side.free_ep());
    MUST(dat_ep_create(
        side.ia.handle, side.pz, for_field(DAT_EP_FIELD_RECV_EVD_HANDLE, side.recv_evd),
        for_field(DAT_EP_FIELD_REQUEST_EVD_HANDLE, side.request_evd),
        for_field(DAT_EP_FIELD_CONNECT_EVD_HANDLE, side.connect_evd), nullptr, &side.ep));
}

/// What dat_evd_wait answered, in a thread of its own.
struct sleeping {
    sleeping(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold = 1)
        : thread([this, evd, timeout, threshold] {
              code = dat_evd_wait(evd, timeout, threshold, &event, &more);
          })
    {
        thread.await_asleep();
    }
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    DAT_RETURN code = DAT_ABORT;
    helper_thread thread;
};

/// The EVD that triggered the CNO, or null.
DAT_EVD_HANDLE trigger_of(DAT_CNO_HANDLE cno, milliseconds time = patience)
{
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_cno_wait(cno, microseconds(time), &by);
    if (code != DAT_SUCCESS)
        CHECK(same_code(code, DAT_QUEUE_EMPTY));
    return by;
}

void take_triggers(DAT_CNO_HANDLE cno)
{
    while (trigger_of(cno, milliseconds(0)) != DAT_HANDLE_NULL) {
    }
}

/// A connection of which the passive side's receives complete to an EVD with a CNO.
struct notified_pair {
    explicit notified_pair(adapter &ia) : pair(ia), cno(make_cno(ia)), evd(pair.passive.recv_evd)
    {
        MUST(dat_evd_modify_cno(evd, cno));
        take_triggers(cno);
    }
    ~notified_pair() { (void)dat_evd_modify_cno(evd, DAT_HANDLE_NULL); }
    /// One more receive that has completed when this returns.
    void message(std::uint64_t number = 0)
    {
        MUST(pair.passive.recv(0, 64, number));
        MUST(pair.active.send(0, 64));
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
        std::this_thread::sleep_for(milliseconds(50));
    }

    connected_pair pair;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE evd;
};

} // namespace

// -------------------------------------------------------------------------------------- streams

TEST_CASE("EVD-46: any number of streams merges where each two of them do" *
          hint("know the pairs of the matrix, and refuse or take more of them by chance"))
{
    adapter ia;
    constexpr unsigned streams[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                    DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                    DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};
    const auto &matrix = ia.provider.evd_stream_merging_supported;
    MUST(dat_evd_free(make_evd(ia, DAT_EVD_DTO_FLAG)));
    for (unsigned chosen = 1; chosen < 64; ++chosen) {
        unsigned flags = 0;
        bool mergeable = true;
        for (unsigned i = 0; i < 6; ++i)
            for (unsigned j = 0; j < 6; ++j)
                if ((chosen >> i & chosen >> j & 1) != 0) {
                    flags |= streams[i];
                    mergeable = mergeable && matrix[i][j] != DAT_FALSE;
                }
        CAPTURE(flags);
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        const DAT_RETURN code =
            dat_evd_create(ia.handle, 8, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), &evd);
        CHECK(same_code(code, mergeable ? success : bad_arg(4)));
        if (code == DAT_SUCCESS)
            MUST(dat_evd_free(evd));
    }
}

TEST_CASE("EVD-47: connection requests come in the order in which they were made" *
          hint("hand requests to several threads, or keep them in a stack"))
{
    adapter ia;
    listener at(ia);
    constexpr char number = 8;
    std::vector<std::unique_ptr<test_endpoint>> ends;
    for (char i = 0; i < number; ++i) {
        ends.push_back(std::make_unique<test_endpoint>(ia));
        MUST(
            ends.back()->connect(ia.address(), at.qualifier, connect_timeout(), std::string(1, i)));
        // The next one begins when this one has arrived, and stays there.
        CHECK(becomes_true([&] {
            DAT_EVENT event{};
            DAT_COUNT more = 0;
            const DAT_RETURN code = dat_evd_wait(at.cr_evd, 0, number + 1, &event, &more);
            return DAT_GET_TYPE(code) == DAT_TIMEOUT_EXPIRED && more == i + 1;
        }));
    }
    for (char i = 0; i < number; ++i) {
        const DAT_CR_HANDLE request = at.next_request();
        DAT_CR_PARAM param{};
        MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
        CHECK(begins_with(param.private_data, param.private_data_size, std::string(1, i)));
        MUST(dat_cr_reject(request, 0, nullptr));
    }
}

TEST_CASE("EVD-48: endpoints share a pair of EVDs, and each completion names its own" *
          hint("name the endpoint that came first, or keep completions by EVD"))
{
    adapter ia;
    constexpr std::size_t number = 4;
    constexpr std::uint64_t messages = 8;
    const DAT_EVD_HANDLE received = make_evd(ia, DAT_EVD_DTO_FLAG, 256);
    const DAT_EVD_HANDLE sent = make_evd(ia, DAT_EVD_DTO_FLAG, 256);
    std::vector<std::unique_ptr<test_endpoint>> from;
    std::vector<std::unique_ptr<test_endpoint>> to;
    std::map<DAT_EP_HANDLE, std::uint64_t> next;
    for (std::size_t i = 0; i < number; ++i) {
        from.push_back(std::make_unique<test_endpoint>(ia));
        to.push_back(std::make_unique<test_endpoint>(ia));
        take_evd(*from[i], DAT_EP_FIELD_REQUEST_EVD_HANDLE, sent);
        take_evd(*to[i], DAT_EP_FIELD_RECV_EVD_HANDLE, received);
        establish(*from[i], *to[i]);
    }
    for (std::uint64_t i = 0; i < messages; ++i)
        for (std::size_t who = 0; who < number; ++who) {
            MUST(to[who]->recv(0, 64, i));
            MUST(from[who]->send(0, 64, i));
        }
    for (std::uint64_t i = 0; i < messages * number; ++i)
        for (DAT_EVD_HANDLE evd : {sent, received}) {
            const auto done = next_dto(evd);
            CHECK(done.status == DAT_DTO_SUCCESS);
            CHECK(done.user_cookie.as_64 == next[done.ep_handle]++);
        }
    CHECK(next.size() == 2 * number);
    for (const auto &of : {&from, &to})
        for (const auto &each : *of) {
            CHECK(next[each->ep] == messages);
            MUST(each->free_ep());
        }
}

// ------------------------------------------------------------------------------------- timeouts

TEST_CASE("EVD-49: a wait without end, or of more than an hour, is one" *
          hint("cut the timeout down to their clock's, or take its highest bit for a sign"))
{
    adapter ia;
    constexpr DAT_TIMEOUT hours = 4'000'000'000;
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u})
        for (DAT_TIMEOUT timeout : {DAT_TIMEOUT_INFINITE, hours, DAT_TIMEOUT_INFINITE - 1}) {
            CAPTURE(timeout);
            const DAT_EVD_HANDLE evd = make_evd(ia, flags);
            sleeping waiter(evd, timeout);
            std::this_thread::sleep_for(a_while);
            CHECK_FALSE(waiter.thread.finished());
            MUST(post_software(evd));
            waiter.thread.join();
            CHECK(same_code(waiter.code, DAT_SUCCESS));
        }
}

namespace {

/// Whether a wait for more than comes ends although something comes all the time: the rounds are
/// counted, for a machine may be slow.
template <class Step>
void expect_wait_ends(DAT_EVD_HANDLE evd, DAT_COUNT threshold, Step &&step)
{
    constexpr int rounds = 60;
    step(); // the wait may end before the next one
    const auto begin = std::chrono::steady_clock::now();
    sleeping waiter(evd, 300'000, threshold);
    int round = 1;
    for (; round < rounds && !waiter.thread.finished(); ++round) {
        step();
        std::this_thread::sleep_for(milliseconds(50));
    }
    CHECK(round < rounds);
    waiter.thread.join();
    CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(300));
    CHECK(same_outcome(waiter.code, DAT_TIMEOUT_EXPIRED));
    CHECK(waiter.more > 0);
    CHECK(waiter.more <= round);
}

} // namespace

TEST_CASE("EVD-50: events below the threshold do not make a wait longer" *
          hint("begin the timeout anew with each event"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 128);
    expect_wait_ends(evd, 100, [&] { MUST(post_software(evd)); });
}

TEST_CASE("EVD-51: completions below the threshold do not make a wait longer" *
          hint("begin the timeout anew with each notification of the completion queue"))
{
    adapter ia;
    connected_pair pair(ia);
    expect_wait_ends(pair.passive.recv_evd, 100, [&] {
        MUST(pair.passive.recv(0, 64));
        MUST(pair.active.send(0, 64));
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    });
}

TEST_CASE("EVD-52: after a timeout nmore counts the completions that wait" *
          hint("count only what was moved to a queue of events"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &to = pair.passive;
    constexpr std::uint64_t messages = 4;
    for (std::uint64_t i = 0; i < messages; ++i) {
        MUST(to.recv(0, 64, i));
        MUST(pair.active.send(0, 64));
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    CHECK(becomes_true([&] {
        const DAT_RETURN code = dat_evd_wait(to.recv_evd, 1000, 6, &event, &more);
        CHECK(same_outcome(code, DAT_TIMEOUT_EXPIRED));
        return more == messages;
    }));
    for (std::uint64_t i = 0; i < messages; ++i)
        CHECK(next_dto(to.recv_evd).user_cookie.as_64 == i);
}

// ------------------------------------------------------------------------------------- overflow

namespace {

/// An EVD of one connection event; null where queues are longer than asked for.
DAT_EVD_HANDLE tiny_evd(const adapter &ia, unsigned streams)
{
    const DAT_EVD_HANDLE evd = make_evd(ia, streams, 1);
    return length_of(evd) == 1 ? evd : DAT_HANDLE_NULL;
}

constexpr const char *tiny_queues = "an EVD of one event: queues are longer than asked for";

} // namespace

TEST_CASE("EVD-53: an EVD that has overflowed takes the next event that it has room for" *
          hint("leave the queue in error, or its last place taken for ever"))
{
    adapter ia;
    test_endpoint one(ia);
    test_endpoint other(ia);
    const DAT_EVD_HANDLE tiny = tiny_evd(ia, DAT_EVD_CONNECTION_FLAG);
    if (tiny == DAT_HANDLE_NULL)
        NOT_CLAIMED(tiny_queues);
    take_evd(one, DAT_EP_FIELD_CONNECT_EVD_HANDLE, tiny);
    take_evd(other, DAT_EP_FIELD_CONNECT_EVD_HANDLE, tiny);
    listener at(ia);
    MUST(one.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), other.ep, 0, nullptr));
    (void)next_event(ia.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    (void)next_event(tiny, DAT_CONNECTION_EVENT_ESTABLISHED); // the event that had room
    CHECK(stays_empty(tiny, milliseconds(1)));
    test_endpoint third(ia);
    take_evd(third, DAT_EP_FIELD_CONNECT_EVD_HANDLE, tiny);
    MUST(third.connect(ia.address(), at.qualifier));
    MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    const auto told = next_connection(tiny, DAT_CONNECTION_EVENT_PEER_REJECTED);
    CHECK(told.ep_handle == third.ep);
    CHECK(stays_empty(ia.async, milliseconds(1)));
    for (test_endpoint *side : {&one, &other, &third})
        MUST(side->free_ep());
}

TEST_CASE("EVD-54: where the asynchronous EVD is full, what is in it stays, and the rest goes on" *
          hint("report the overflow of the EVD that reports overflows, or wait for room in it"))
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE opened = DAT_HANDLE_NULL;
    MUST(open_adapter(the_settings().ia, &async, &opened, 1));
    adapter guest(async); // reports there
    const DAT_COUNT room = length_of(async);
    const DAT_EVD_HANDLE tiny = tiny_evd(guest, DAT_EVD_CONNECTION_FLAG);
    if (tiny != DAT_HANDLE_NULL && room == 1) {
        listener at(guest);
        std::vector<std::unique_ptr<test_endpoint>> ends;
        for (int i = 0; i < 5; ++i) {
            ends.push_back(std::make_unique<test_endpoint>(guest));
            take_evd(*ends.back(), DAT_EP_FIELD_CONNECT_EVD_HANDLE, tiny);
            MUST(ends.back()->connect(guest.address(), at.qualifier));
            MUST(dat_cr_reject(at.next_request(), 0, nullptr));
        }
        for (const auto &each : ends) // each has had its answer, one of them with an event
            CHECK(becomes_true([&] { return each->state() == DAT_EP_STATE_DISCONNECTED; }));
        const DAT_EVENT told = next_event(async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
        CHECK(told.event_data.asynch_error_event_data.dat_handle == tiny);
        for (const auto &each : ends)
            MUST(each->free_ep());
        connected_pair pair(guest);
        move_data(pair.active, pair.passive);
    }
    CHECK(same_code(guest.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    CHECK(same_code(dat_ia_close(opened, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    if (tiny == DAT_HANDLE_NULL || room != 1)
        NOT_CLAIMED(tiny_queues);
}

// --------------------------------------------------------------------------------------- resize

TEST_CASE("EVD-55: an EVD without completions is resized by every adapter" *
          hint("ask the device, which has no queue for these events") * needs("evd_resize"))
{
    adapter ia;
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_CR_FLAG | 0u, DAT_EVD_CONNECTION_FLAG | 0u,
          DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG | 0u}) {
        CAPTURE(flags);
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8);
        CHECK(same_code(dat_evd_resize(evd, 100), DAT_SUCCESS));
        CHECK(length_of(evd) >= 100);
    }
}

TEST_CASE("EVD-56: requests and connection events stay in order over a resize" *
          hint("move the events that were in the queue behind those that come") *
          needs("evd_resize"))
{
    adapter ia;
    if (ia.provider.evd_stream_merging_supported[1][3] == DAT_FALSE)
        NOT_CLAIMED("requests and connection events on one EVD");
    const DAT_EVD_HANDLE merged = make_evd(ia, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG, 8);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    MUST(dat_psp_create_any(ia.handle, &qualifier, merged, DAT_PSP_CONSUMER_FLAG, &psp));
    test_endpoint from(ia);
    test_endpoint second(ia);
    take_evd(from, DAT_EP_FIELD_CONNECT_EVD_HANDLE, merged);
    const auto expect_in_it = [&](DAT_COUNT number) {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        CHECK(becomes_true([&] {
            (void)dat_evd_wait(merged, 1000, 8, &event, &more);
            return more == number;
        }));
    };
    MUST(from.connect(ia.address(), qualifier));
    expect_in_it(1);
    CHECK(same_code(dat_evd_resize(merged, 64), DAT_SUCCESS));
    MUST(from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_in_it(2);
    CHECK(same_code(dat_evd_resize(merged, 9), DAT_SUCCESS));
    MUST(second.connect(ia.address(), qualifier));
    expect_in_it(3);
    CHECK(same_code(dat_evd_resize(merged, 300), DAT_SUCCESS));
    for (DAT_EVENT_NUMBER expected :
         {DAT_CONNECTION_REQUEST_EVENT, DAT_CONNECTION_EVENT_DISCONNECTED,
          DAT_CONNECTION_REQUEST_EVENT}) {
        const DAT_EVENT event = next_event(merged);
        CHECK(same_event(event.event_number, expected));
        if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
            MUST(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    }
    MUST(dat_psp_free(psp));
    MUST(from.free_ep());
}

// --------------------------------------------------------------------------------- CNO and state

TEST_CASE("CNO-33: a CNO that is attached to a disabled EVD is triggered when that is enabled" *
          hint("look at the events of the EVD, but not at whether it is enabled"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    MUST(dat_evd_disable(evd));
    MUST(post_software(evd));
    MUST(dat_evd_modify_cno(evd, cno));
    CHECK(trigger_of(cno, milliseconds(30)) == DAT_HANDLE_NULL);
    MUST(dat_evd_enable(evd));
    CHECK(trigger_of(cno) == evd);
}

TEST_CASE("CNO-34: enabling an EVD that has no events does not trigger its CNO" *
          hint("trigger on every enable, so that consumers look for events that are not there"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u}) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8, cno);
        MUST(dat_evd_disable(evd));
        MUST(dat_evd_enable(evd));
        MUST(dat_evd_enable(evd));
        CHECK(trigger_of(cno, milliseconds(30)) == DAT_HANDLE_NULL);
    }
}

TEST_CASE("CNO-35: completions of a disabled EVD trigger its CNO when that is enabled, and later" *
          hint("forget to arm the completion queue again when the EVD is enabled"))
{
    adapter ia;
    notified_pair on(ia);
    for (int round = 0; round < 3; ++round) {
        CAPTURE(round);
        MUST(dat_evd_disable(on.evd));
        take_triggers(on.cno); // one may be there from before
        on.message();
        CHECK(trigger_of(on.cno, milliseconds(30)) == DAT_HANDLE_NULL);
        MUST(dat_evd_enable(on.evd));
        CHECK(trigger_of(on.cno) == on.evd);
        CHECK(next_dto(on.evd).status == DAT_DTO_SUCCESS);
        on.message();
        CHECK(trigger_of(on.cno) == on.evd);
        CHECK(next_dto(on.evd).status == DAT_DTO_SUCCESS);
    }
    on.message();
    MUST(dat_evd_disable(on.evd));
    on.message();
    (void)trigger_of(on.cno, a_while); // takes the trigger of the first message, unless it was late
    CHECK(trigger_of(on.cno, milliseconds(30)) == DAT_HANDLE_NULL);
    MUST(dat_evd_enable(on.evd));
    CHECK(trigger_of(on.cno) == on.evd);
    for (int message = 0; message < 2; ++message)
        CHECK(next_dto(on.evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("CNO-36: a waiter for completions is woken although its EVD is disabled" *
          hint("leave the completion queue unarmed while the EVD is disabled"))
{
    adapter ia;
    notified_pair on(ia);
    MUST(dat_evd_disable(on.evd));
    for (std::uint64_t round = 0; round < 3; ++round) {
        sleeping waiter(on.evd, microseconds(patience));
        on.message(round);
        waiter.thread.join();
        CHECK(same_code(waiter.code, DAT_SUCCESS));
        CHECK(waiter.event.event_data.dto_completion_event_data.user_cookie.as_64 == round);
    }
}

TEST_CASE("CNO-37: an unwaitable EVD triggers its CNO as another does" *
          hint("take unwaitable for disabled"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(dat_evd_set_unwaitable(evd));
    MUST(post_software(evd));
    CHECK(trigger_of(cno) == evd);
    notified_pair on(ia);
    MUST(dat_evd_set_unwaitable(on.evd));
    on.message();
    CHECK(trigger_of(on.cno) == on.evd);
    DAT_EVENT event{};
    CHECK(same_code(dat_evd_dequeue(on.evd, &event), DAT_SUCCESS));
}

TEST_CASE("CNO-38: while a thread waits for more events the CNO is silent, and told what it left" *
          hint("trigger for each event that the waiter does not take, or for none that it left"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u}) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8, cno);
        sleeping waiter(evd, 600'000, 3);
        MUST(post_software(evd));
        MUST(post_software(evd));
        if (!waiter.thread.finished()) // the machine may be busy
            CHECK(trigger_of(cno, milliseconds(30)) == DAT_HANDLE_NULL);
        waiter.thread.join();
        CHECK(same_outcome(waiter.code, DAT_TIMEOUT_EXPIRED));
        CHECK(waiter.more == 2);
        // nmore counted them for the waiter; no waiter is left for an event that comes now.
        MUST(post_software(evd));
        CHECK(trigger_of(cno) == evd);
        CHECK(drain(evd, milliseconds(0)).size() == 3);
        take_triggers(cno);
    }
}

TEST_CASE("CNO-39: a trigger calls the agent, and is there for a waiter as well" *
          hint("give the trigger to the agent instead of the waiters, or the reverse"))
{
    adapter ia;
    agent_calls calls;
    const DAT_OS_WAIT_PROXY_AGENT agent{&calls, count_call};
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, agent, &cno));
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    // A waiter that sleeps.
    DAT_RETURN code = DAT_ABORT;
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    helper_thread waiter([&] { code = dat_cno_wait(cno, microseconds(patience), &by); });
    waiter.await_asleep();
    MUST(post_software(evd));
    waiter.join();
    CHECK(same_code(code, DAT_SUCCESS));
    CHECK(by == evd);
    CHECK(becomes_true([&] { return calls.number == 1; }));
    CHECK(calls.by == evd);
    // A waiter that comes later.
    (void)next_event(evd);
    MUST(dat_cno_modify_agent(cno, agent));
    MUST(post_software(evd));
    CHECK(becomes_true([&] { return calls.number == 2; }));
    CHECK(trigger_of(cno) == evd);
    CHECK(calls.number == 2);
}

TEST_CASE("CNO-40: a wait without end is one" *
          hint("cut the timeout down to their clock's, or take its highest bit for a sign"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    for (DAT_TIMEOUT timeout : {DAT_TIMEOUT_INFINITE, DAT_TIMEOUT_INFINITE - 1}) {
        CAPTURE(timeout);
        DAT_RETURN code = DAT_ABORT;
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        helper_thread waiter([&] { code = dat_cno_wait(cno, timeout, &by); });
        waiter.await_asleep();
        std::this_thread::sleep_for(a_while);
        CHECK_FALSE(waiter.finished());
        MUST(post_software(evd));
        waiter.join();
        CHECK(same_code(code, DAT_SUCCESS));
        CHECK(by == evd);
        (void)next_event(evd);
    }
}

TEST_CASE("CNO-41: connection requests and asynchronous events trigger the CNO of their EVD" *
          hint("trigger for completions and software events only"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    listener at(ia);
    MUST(dat_evd_modify_cno(at.cr_evd, cno));
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    CHECK(trigger_of(cno) == at.cr_evd);
    MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    MUST(dat_evd_modify_cno(at.cr_evd, DAT_HANDLE_NULL));
    take_triggers(cno);

    const DAT_EVD_HANDLE tiny = tiny_evd(ia, DAT_EVD_CONNECTION_FLAG);
    if (tiny == DAT_HANDLE_NULL)
        return; // this adapter has no asynchronous event that consumers can bring about
    MUST(dat_evd_modify_cno(ia.async, cno));
    test_endpoint ends[] = {test_endpoint(ia), test_endpoint(ia)};
    for (test_endpoint &side : ends) {
        take_evd(side, DAT_EP_FIELD_CONNECT_EVD_HANDLE, tiny);
        MUST(side.connect(ia.address(), at.qualifier));
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    }
    CHECK(trigger_of(cno) == ia.async);
    (void)next_event(ia.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    MUST(dat_evd_modify_cno(ia.async, DAT_HANDLE_NULL));
    for (test_endpoint &side : ends)
        MUST(side.free_ep());
}

TEST_CASE("CNO-42: a trigger that races with the end of a wait is not lost" *
          hint("take the trigger for a wait that then reports its timeout"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    constexpr int rounds = 300;
    std::atomic<int> round{0};
    std::atomic<int> posted{0};
    helper_thread poster([&] {
        for (int mine = 1; mine <= rounds; ++mine) {
            while (round < mine)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::microseconds(mine % 80 * 5));
            posted += post_software(evd) == DAT_SUCCESS ? 1 : 0;
        }
    });
    int lost = 0;
    for (int mine = 1; mine <= rounds; ++mine) {
        round = mine;
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        DAT_RETURN code = dat_cno_wait(cno, 200, &by);
        CHECK(becomes_true([&] { return posted == mine; }));
        if (code != DAT_SUCCESS)
            code = dat_cno_wait(cno, microseconds(milliseconds(2000)), &by);
        lost += code == DAT_SUCCESS && by == evd ? 0 : 1;
        (void)next_event(evd);
        CHECK(trigger_of(cno, milliseconds(0)) == DAT_HANDLE_NULL);
    }
    CHECK(lost == 0);
}

TEST_CASE("CNO-43: a CNO with a descriptor is waited in, queried and freed as others are" *
          needs("cno_fd") * hint("leave the descriptor open, or refuse the calls of other CNOs"))
{
    adapter ia;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    auto *create = optional_call<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
    if (create == nullptr || refused(create(ia.handle, &fd, &cno)))
        NOT_CLAIMED("descriptors for CNOs");
    DAT_CNO_PARAM param{};
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.proxy_type == DAT_PROXY_TYPE_FD);
    CHECK(param.proxy.fd == fd);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(post_software(evd));
    CHECK(trigger_of(cno) == evd);
    CHECK(trigger_of(cno, milliseconds(1)) == DAT_HANDLE_NULL);
    CHECK(!is_readable(fd)); // the wait has taken the trigger
    CHECK(same_code(dat_cno_free(cno), bad_state(DAT_INVALID_STATE_CNO_IN_USE)));
    MUST(dat_evd_free(evd));
    CHECK(same_code(dat_cno_free(cno), DAT_SUCCESS));
    CHECK(is_closed(fd));
}

TEST_CASE("CNO-44: the calls about descriptors check their arguments" * needs("cno_fd") *
          hint("make the descriptor before all is checked, and leave it open"))
{
    adapter ia;
    auto *create = optional_call<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
    auto *trigger = optional_call<decltype(dat_cno_trigger)>("dat_cno_trigger");
    if (create == nullptr || trigger == nullptr)
        NOT_CLAIMED("descriptors for CNOs");
    DAT_FD fd = -77;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    if (create(ia.handle, nullptr, nullptr) == not_supported) // CNO-19 has the refusal
        NOT_CLAIMED("descriptors for CNOs");
    CHECK(same_code(create(DAT_HANDLE_NULL, &fd, &cno), bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(same_code(create(ia.handle, nullptr, &cno), bad_arg(2)));
    CHECK(same_code(create(ia.handle, &fd, nullptr), bad_arg(3)));
    CHECK(fd == -77);
    CHECK(cno == DAT_HANDLE_NULL);
    MUST(create(ia.handle, &fd, &cno));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    CHECK(same_code(trigger(cno, nullptr), bad_arg(2)));
    CHECK(same_code(trigger(ia.async, &by), bad_handle(DAT_INVALID_HANDLE_CNO)));
    CHECK(same_code(trigger(cno, &by), DAT_QUEUE_EMPTY));
    CHECK(same_code(dat_cno_free(cno), DAT_SUCCESS));
}

TEST_CASE("CNO-45: an agent that runs does not outlive its CNO" *
          hint("free the CNO below its agent, which is then called with what is gone"))
{
    adapter ia;
    struct slow {
        std::atomic<bool> running{false};
        std::atomic<bool> done{false};
    };
    for (int round = 0; round < 3; ++round) {
        slow work;
        const DAT_OS_WAIT_PROXY_AGENT agent{&work, [](DAT_PVOID of, DAT_EVD_HANDLE) {
                                                auto &it = *static_cast<slow *>(of);
                                                it.running = true;
                                                std::this_thread::sleep_for(a_while);
                                                it.done = true;
                                            }};
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        MUST(dat_cno_create(ia.handle, agent, &cno));
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
        helper_thread poster([&] { MUST(post_software(evd)); });
        CHECK(becomes_true([&] { return work.running.load(); }));
        MUST(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
        MUST(dat_cno_free(cno));
        CHECK(work.done);
        poster.join();
        MUST(dat_evd_free(evd));
    }
}

} // namespace conformance
