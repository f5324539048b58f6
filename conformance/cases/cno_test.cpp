// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Consumer notification objects: one place to wait for several EVDs.
#include "harness/support.hpp"

#include "harness/descriptors.hpp"

#include <algorithm>
#include <csignal>

namespace conformance {
namespace {

DAT_HANDLE const nothing_yet = reinterpret_cast<DAT_HANDLE>(0x1230);

struct cno_answer {
    DAT_RETURN code;
    DAT_EVD_HANDLE by;
};

cno_answer wait_cno(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout)
{
    cno_answer answer{DAT_SUCCESS, nothing_yet};
    answer.code = dat_cno_wait(cno, timeout, &answer.by);
    return answer;
}

cno_answer wait_cno(DAT_CNO_HANDLE cno, milliseconds time)
{
    return wait_cno(cno, microseconds(time));
}

cno_answer poll_cno(DAT_CNO_HANDLE cno)
{
    return wait_cno(cno, milliseconds(0));
}

/// A thread in dat_cno_wait.
struct cno_waiter {
    explicit cno_waiter(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout = microseconds(patience))
        : thread([this, cno, timeout] { answer = wait_cno(cno, timeout); })
    {
        thread.await_asleep();
    }
    cno_answer answer{DAT_SUCCESS, nothing_yet};
    helper_thread thread;
};

} // namespace

TEST_CASE("CNO-01: create and query check their arguments" *
          hint("check the adapter handle only, not the out pointer or the query mask"))
{
    adapter ia;
    CHECK(same_code(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, nullptr), bad_arg(3)));
    const DAT_CNO_HANDLE cno = make_cno(ia);
    DAT_CNO_PARAM param{};
    CHECK(same_code(dat_cno_query(cno, DAT_CNO_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(
        same_code(dat_cno_query(cno, static_cast<DAT_CNO_PARAM_MASK>(0x100), &param), bad_arg(2)));
}

TEST_CASE("CNO-02: query returns adapter and agent" *
          hint("report the agent they were created with, not the one set by dat_cno_modify_agent"))
{
    adapter ia;
    agent_calls calls;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    DAT_CNO_PARAM param{};
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
    CHECK(param.ia_handle == ia.handle);
    CHECK(
        (param.proxy_type == DAT_PROXY_TYPE_NONE || param.proxy.agent.proxy_agent_func == nullptr));
    MUST(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT{&calls, count_call}));
    MUST(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
    CHECK(param.proxy_type == DAT_PROXY_TYPE_AGENT);
    CHECK(param.proxy.agent.instance_data == &calls);
    CHECK((param.proxy.agent.proxy_agent_func == count_call));
}

TEST_CASE(
    "CNO-03: a wait without a trigger times out as QUEUE_EMPTY, bare, with a null EVD, in time" *
    hint("set the error class on QUEUE_EMPTY, leave the EVD untouched, or take microseconds "
         "for milliseconds"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    cno_answer answer = poll_cno(cno);
    CHECK(same_code(answer.code, DAT_QUEUE_EMPTY));
    CHECK(answer.by == DAT_HANDLE_NULL);
    const auto begin = std::chrono::steady_clock::now();
    answer = wait_cno(cno, milliseconds(200));
    CHECK(same_code(answer.code, DAT_QUEUE_EMPTY));
    CHECK(answer.by == DAT_HANDLE_NULL);
    CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(200));
    CHECK(same_code(dat_cno_wait(cno, 0, nullptr), bad_arg(3)));
}

TEST_CASE(
    "CNO-04: a trigger before the wait is not lost, and is consumed by one wait" *
    hint(
        "signal a condition variable without keeping a flag, so a trigger before the wait is lost"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(post_software(evd));
    MUST(post_software(evd));
    const cno_answer answer = poll_cno(cno);
    CHECK(same_code(answer.code, DAT_SUCCESS));
    CHECK(answer.by == evd);
    CHECK(same_code(poll_cno(cno).code, DAT_QUEUE_EMPTY));
}

TEST_CASE("CNO-05: a sleeping waiter is woken by an event of any of its EVDs" *
          hint("arm the notification of one EVD only, or once only"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u}) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8, cno);
        cno_waiter w(cno);
        MUST(post_software(evd));
        w.thread.join();
        CHECK(same_code(w.answer.code, DAT_SUCCESS));
        CHECK(w.answer.by == evd);
    }
}

TEST_CASE("CNO-06: of several waiters a trigger releases one" *
          hint("broadcast to all waiters instead of waking one"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    cno_waiter one(cno);
    cno_waiter two(cno);
    cno_waiter three(cno);
    for (int released = 1; released <= 3; ++released) {
        MUST(post_software(evd));
        const auto count = [&] {
            return one.thread.finished() + two.thread.finished() + three.thread.finished();
        };
        CHECK(becomes_true([&] { return count() >= released; }));
        std::this_thread::sleep_for(milliseconds(50));
        CHECK(count() == released);
    }
    for (const cno_waiter *w : {&one, &two, &three}) {
        CHECK(same_code(w->answer.code, DAT_SUCCESS));
        CHECK(w->answer.by == evd);
    }
}

TEST_CASE("CNO-07: the agent is called once, with the EVD, and again after it was set again" *
          hint("call the agent with the CNO instead of the EVD, or again for each event although "
               "it was not set again"))
{
    adapter ia;
    agent_calls calls;
    const DAT_OS_WAIT_PROXY_AGENT agent{&calls, count_call};
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, agent, &cno));
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 16, cno);
    for (int expected = 1; expected <= 3; ++expected) {
        MUST(post_software(evd));
        CHECK(becomes_true([&] { return calls.number == expected; }, milliseconds(3000)));
        CHECK(calls.by == evd);
        MUST(post_software(evd));
        std::this_thread::sleep_for(milliseconds(30));
        CHECK(calls.number == expected);
        (void)poll_cno(cno);
        MUST(dat_cno_modify_agent(cno, agent));
    }
    MUST(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
    MUST(post_software(evd));
    std::this_thread::sleep_for(milliseconds(30));
    CHECK(calls.number == 3);
}

TEST_CASE(
    "CNO-08: an agent set again fires for the next event although no thread waits in the CNO" *
    hint(
        "call the agent only from inside dat_cno_wait, or do not rearm when an agent is set again"))
{
    adapter ia;
    agent_calls calls;
    const DAT_OS_WAIT_PROXY_AGENT agent{&calls, count_call};
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, agent, &cno));
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 16, cno);
    for (int expected = 1; expected <= 3; ++expected) {
        DAT_EVENT event{};
        MUST(post_software(evd));
        CHECK(becomes_true([&] { return calls.number == expected; }, milliseconds(1000)));
        MUST(dat_evd_dequeue(evd, &event));
        MUST(dat_cno_modify_agent(cno, agent));
    }
}

TEST_CASE("CNO-09: a CNO with an EVD or a waiter cannot be freed" *
          hint("free the CNO without counting the EVDs and waiters that use it"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_CNO_IN_USE);
    const DAT_CNO_HANDLE cno = make_cno(ia);
    cno_waiter w(cno);
    CHECK(same_code(dat_cno_free(cno), in_use));
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(post_software(evd));
    w.thread.join();
    CHECK(same_code(w.answer.code, DAT_SUCCESS));
    CHECK(same_code(dat_cno_free(cno), in_use));
    MUST(dat_evd_free(evd));
    CHECK(same_code(dat_cno_free(cno), DAT_SUCCESS));
}

TEST_CASE("CNO-10: freeing the last EVD wakes the waiters with a null EVD" *
          hint("leave waiters asleep when the last EVD is freed, or return the freed EVD to them"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE first = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    const DAT_EVD_HANDLE last = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    cno_waiter w(cno);
    MUST(dat_evd_free(first));
    std::this_thread::sleep_for(milliseconds(50));
    CHECK_FALSE(w.thread.finished());
    MUST(dat_evd_free(last));
    w.thread.join();
    CHECK(same_code(w.answer.code, DAT_SUCCESS));
    CHECK(w.answer.by == DAT_HANDLE_NULL);
}

TEST_CASE("CNO-11: a trigger by an EVD that is then freed does not name it" *
          hint("keep the pointer to the EVD in the pending trigger and hand out a dead handle"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE going = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(post_software(going));
    MUST(dat_evd_free(going));
    CHECK(poll_cno(cno).by != going);
}

TEST_CASE(
    "CNO-12: a disabled EVD does not trigger; enabling it with events pending does" *
    hint("drop the trigger for events that came while disabled instead of raising it on enable"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(dat_evd_disable(evd));
    MUST(post_software(evd));
    CHECK(same_code(wait_cno(cno, milliseconds(30)).code, DAT_QUEUE_EMPTY));
    MUST(dat_evd_enable(evd));
    CHECK(same_code(wait_cno(cno, milliseconds(1000)).code, DAT_SUCCESS));
}

TEST_CASE("CNO-13: disabling an EVD does not keep events from its own waiter" *
          hint("let disable stop delivery to the EVD itself, not only to its CNO"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, make_cno(ia));
    MUST(dat_evd_disable(evd));
    DAT_EVENT event{};
    DAT_RETURN code = DAT_ABORT;
    helper_thread waiter([&] { code = wait_event(evd, event); });
    waiter.await_asleep();
    MUST(post_software(evd));
    waiter.join();
    CHECK(same_code(code, DAT_SUCCESS));
}

TEST_CASE("CNO-14: attaching a CNO to an EVD with events pending triggers it at once" *
          hint("look only at events that come after dat_evd_modify_cno"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    MUST(post_software(evd));
    MUST(dat_evd_modify_cno(evd, cno));
    CHECK(poll_cno(cno).by == evd);
    CHECK(same_code(dat_evd_modify_cno(evd, make_pz(ia)), bad_handle(DAT_INVALID_HANDLE_CNO)));
    CHECK(same_code(dat_evd_modify_cno(evd, evd), bad_handle(DAT_INVALID_HANDLE_CNO)));
    DAT_EVENT event{};
    MUST(dat_evd_dequeue(evd, &event));
    cno_answer answer{DAT_SUCCESS, nothing_yet};
    helper_thread waits([&] { answer = wait_cno(cno, 2 * a_while); });
    waits.await_asleep();
    MUST(dat_evd_modify_cno(evd, cno)); // sets the CNO that it has already, while there is no event
    waits.join();
    CHECK(same_code(answer.code, DAT_QUEUE_EMPTY));
    MUST(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
    MUST(post_software(evd));
    CHECK(same_code(poll_cno(cno).code, DAT_QUEUE_EMPTY));
}

TEST_CASE("CNO-15: an event that wakes a waiter of the EVD does not trigger the CNO" *
          hint("trigger the CNO first and wake the EVD's own waiter afterwards"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    DAT_EVENT event{};
    helper_thread waiter([&] { (void)wait_event(evd, event); });
    CHECK(becomes_true([&] {
        DAT_EVENT ignored{};
        return DAT_GET_TYPE(dat_evd_dequeue(evd, &ignored)) != DAT_QUEUE_EMPTY || waiter.sleeps();
    }));
    MUST(post_software(evd));
    waiter.join();
    CHECK(same_code(wait_cno(cno, milliseconds(30)).code, DAT_QUEUE_EMPTY));
}

TEST_CASE("CNO-16: completions trigger it, time and again, once the EVD was emptied" *
          hint("do not arm the completion queue again after the consumer has emptied the EVD"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    endpoint_options notified;
    notified.cno = cno;
    test_endpoint to(ia, notified);
    test_endpoint from(ia);
    listener at(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
    CHECK(wait_cno(cno, patience).by == to.connect_evd);
    await_established(from, to);
    (void)poll_cno(cno);
    for (std::uint64_t round = 0; round < 200; ++round) {
        CAPTURE(round);
        DAT_EVENT event{};
        MUST(to.recv(0, 64, round));
        MUST(from.send(0, 64));
        // An earlier trigger may still be there: a trigger is a hint.
        REQUIRE(becomes_true([&] {
            if (dat_evd_dequeue(to.recv_evd, &event) == DAT_SUCCESS)
                return true;
            REQUIRE(same_code(wait_cno(cno, patience).code, DAT_SUCCESS));
            return dat_evd_dequeue(to.recv_evd, &event) == DAT_SUCCESS;
        }));
        CHECK(event.event_data.dto_completion_event_data.user_cookie.as_64 == round);
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
    }
}

TEST_CASE("CNO-17: a completion that came before the CNO was attached triggers it" *
          hint("arm the completion queue without looking for completions that are already in it"))
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_CNO_HANDLE cno = make_cno(ia);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 64));
    (void)next_dto(pair.active.request_evd);
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, cno));
    CHECK(wait_cno(cno, patience).by == pair.passive.recv_evd);
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
}

TEST_CASE("CNO-18: a signal ends a wait with INTERRUPTED_CALL, bare" *
          hint("restart the wait after EINTR, or set the error class on INTERRUPTED_CALL"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    catch_signal(signal_kind::interrupting);
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    cno_waiter w(cno);
    CHECK(ends_by_signal(w.thread));
    if (!w.thread.finished())
        MUST(post_software(evd));
    w.thread.join();
    CHECK(same_code(w.answer.code, DAT_INTERRUPTED_CALL));
}

TEST_CASE("CNO-19: a CNO has a descriptor, or that is MODEL_NOT_SUPPORTED" *
          hint("answer with another code, or touch the OUT values of a call they refuse") *
          needs("cno_fd"))
{
    adapter ia;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    if (auto *call = optional_call<decltype(dat_cno_fd_create)>("dat_cno_fd_create"))
        if (!refused(call(ia.handle, &fd, &cno))) {
            CHECK(fd >= 0);
            CHECK(same_code(dat_cno_free(cno), DAT_SUCCESS));
            return; // CNO-20 and CNO-21 use one
        }
    if (auto *call = optional_call<decltype(dat_cno_trigger)>("dat_cno_trigger"))
        CHECK(same_code(call(make_cno(ia), &evd), not_supported));
    CHECK(fd == -1);
    CHECK(cno == DAT_HANDLE_NULL);
    NOT_CLAIMED("descriptors for CNOs");
}

namespace {

/// A CNO with a descriptor, and an EVD that triggers it; or neither.
struct polled {
    explicit polled(adapter &ia)
        : trigger(optional_call<decltype(dat_cno_trigger)>("dat_cno_trigger"))
    {
        auto *create = optional_call<decltype(dat_cno_fd_create)>("dat_cno_fd_create");
        if (create == nullptr || trigger == nullptr || refused(create(ia.handle, &fd, &cno)))
            return;
        evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    }
    void post() const
    {
        DAT_EVENT event{};
        event.event_number = DAT_SOFTWARE_EVENT;
        MUST(dat_evd_post_se(evd, &event));
    }
    void take_event() const { (void)next_event(evd, DAT_SOFTWARE_EVENT); }
    bool readable(milliseconds time = milliseconds(0)) const { return is_readable(fd, time); }

    decltype(dat_cno_trigger) *trigger;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("CNO-20: a descriptor is readable from a trigger until it is taken" * needs("cno_fd") *
          hint("leave the descriptor readable, or never make it so again"))
{
    adapter ia;
    polled on(ia);
    if (on.cno == DAT_HANDLE_NULL)
        NOT_CLAIMED("descriptors for CNOs");
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    for (int round = 0; round < 3; ++round) {
        CHECK(!on.readable());
        CHECK(same_code(on.trigger(on.cno, &by), DAT_QUEUE_EMPTY));
        on.post();
        CHECK(on.readable(patience));
        CHECK(same_code(on.trigger(on.cno, &by), success));
        CHECK(by == on.evd);
        on.take_event();
    }
}

TEST_CASE("CNO-21: epoll_wait wakes for an event that arrives during it" * needs("cno_fd") *
          hint("make the descriptor readable without waking those who poll it"))
{
    adapter ia;
    polled on(ia);
    if (on.cno == DAT_HANDLE_NULL)
        NOT_CLAIMED("descriptors for CNOs");
    descriptor_set all;
    CHECK(all.add(on.fd));
    for (int round = 0; round < 20; ++round) {
        int woken = 0;
        helper_thread sleeper([&] { woken = all.wait(patience); });
        sleeper.await_asleep();
        on.post();
        sleeper.join();
        CHECK(woken == 1);
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        CHECK(same_code(on.trigger(on.cno, &by), success));
        on.take_event();
    }
}

TEST_CASE("CNO-22: an EVD that changes its CNO while events flow loses no trigger" *
          hint("take the EVD from one CNO before the other has it, and drop what comes in between"))
{
    adapter ia;
    constexpr std::uintptr_t total = 2000;
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u}) {
        const DAT_CNO_HANDLE cnos[] = {make_cno(ia), make_cno(ia)};
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8);
        helper_thread poster([&] {
            for (std::uintptr_t i = 0; i < total;)
                i += post_software(evd, i) == DAT_SUCCESS ? 1 : 0;
        });
        std::uintptr_t expected = 0;
        for (int turn = 0; expected < total; ++turn) {
            const DAT_CNO_HANDLE cno = cnos[turn % 2];
            MUST(dat_evd_modify_cno(evd, cno));
            const std::uintptr_t before = expected;
            DAT_EVENT event{};
            for (; dat_evd_dequeue(evd, &event) == DAT_SUCCESS; ++expected)
                CHECK(event.event_data.software_event_data.pointer ==
                      reinterpret_cast<void *>(expected));
            if (expected == before && wait_cno(cno, patience).code != DAT_SUCCESS)
                break;
        }
        CHECK(expected == total);
        if (expected != total) // lets the poster end
            becomes_true([&] { return poster.finished() || (drain(evd, milliseconds(0)), false); });
        MUST(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
    }
}

TEST_CASE(
    "CNO-23: an agent is called for connection events and for completions" *
    hint("call it for software events only, or arm the completion queue only when a thread waits"))
{
    adapter ia;
    agent_calls calls;
    const DAT_OS_WAIT_PROXY_AGENT agent{&calls, count_call};
    endpoint_options notified;
    MUST(dat_cno_create(ia.handle, agent, &notified.cno));
    test_endpoint to(ia, notified);
    test_endpoint from(ia);
    listener at(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
    CHECK(becomes_true([&] { return calls.number == 1; }));
    CHECK(calls.by == to.connect_evd);
    await_established(from, to);
    for (int expected = 2; expected <= 10; ++expected) {
        MUST(to.recv(0, 64));
        MUST(dat_cno_modify_agent(notified.cno, agent));
        MUST(from.send(0, 64));
        if (!becomes_true([&] { return calls.number == expected; }))
            GIVE_UP("the agent is not called for a completion: a notification is lost");
        CHECK(calls.by == to.recv_evd);
        CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
    }
    MUST(dat_cno_modify_agent(notified.cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
}

namespace {

endpoint_options with_cno(DAT_CNO_HANDLE cno)
{
    endpoint_options options;
    options.cno = cno;
    return options;
}

/// A connection whose receives complete to one of the two EVDs of a CNO.
struct two_of_a_cno {
    explicit two_of_a_cno(adapter &ia)
        : cno(make_cno(ia)), from(ia), to(ia, with_cno(cno)),
          software(make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno)), received(to.recv_evd)
    {
        establish(from, to);
        while (wait_cno(cno, milliseconds(20)).code == DAT_SUCCESS) {
        }
    }
    /// One more completion, which has arrived when this returns.
    void message()
    {
        MUST(to.recv(0, 64));
        MUST(from.send(0, 64));
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
        std::this_thread::sleep_for(milliseconds(50));
    }

    DAT_CNO_HANDLE cno;
    test_endpoint from;
    test_endpoint to;
    DAT_EVD_HANDLE software;
    DAT_EVD_HANDLE received;
};

} // namespace

TEST_CASE("CNO-24: an EVD whose trigger was merged into a pending one triggers again with each "
          "completion" *
          hint("arm the completion queue again only when the consumer dequeues, although it was "
               "told of another EVD"))
{
    adapter ia;
    two_of_a_cno both(ia);
    MUST(post_software(both.software));
    both.message();
    CHECK(wait_cno(both.cno, patience).by == both.software);
    (void)wait_cno(both.cno, a_while); // whether this reports the other EVD is tested by CNO-25
    for (int i = 0; i < 3; ++i) {
        CAPTURE(i);
        both.message();
        CHECK(wait_cno(both.cno, patience).by == both.received);
    }
    CHECK(collect(both.received, 4).size() == 4);
}

TEST_CASE(
    "CNO-25: EVDs whose triggers coalesced are returned one after the other, those with events" *
    hint("forget which EVDs triggered while a trigger was pending"))
{
    adapter ia;
    two_of_a_cno both(ia);
    const DAT_EVD_HANDLE third = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, both.cno);
    MUST(post_software(both.software));
    both.message();
    MUST(post_software(third));
    std::vector<DAT_EVD_HANDLE> told;
    for (int i = 0; i < 3; ++i)
        told.push_back(wait_cno(both.cno, patience / 4).by);
    for (DAT_EVD_HANDLE expected : {both.software, both.received, third})
        CHECK(std::count(told.begin(), told.end(), expected) == 1);
    CHECK(same_outcome(wait_cno(both.cno, a_while).code, DAT_QUEUE_EMPTY));
}

TEST_CASE("CNO-26: what a waiter of the EVD took or counted does not trigger the CNO" *
          hint("trigger the CNO at the end of a wait for whatever is left in the EVD"))
{
    adapter ia;
    two_of_a_cno both(ia);
    for (const bool software : {true, false}) {
        CAPTURE(software);
        const DAT_EVD_HANDLE evd = software ? both.software : both.received;
        DAT_EVENT event{};
        DAT_COUNT more = -1;
        DAT_RETURN code = DAT_ABORT;
        helper_thread waiter(
            [&] { code = dat_evd_wait(evd, microseconds(patience), 3, &event, &more); });
        waiter.await_asleep();
        for (int i = 0; i < 3; ++i) {
            if (software)
                MUST(post_software(evd));
            else
                both.message();
        }
        waiter.join();
        CHECK(same_code(code, success));
        CHECK(more == 2);
        CHECK(same_outcome(wait_cno(both.cno, a_while).code, DAT_QUEUE_EMPTY));
        CHECK(collect(evd, 2).size() == 2);
    }
}

TEST_CASE("CNO-27: receives that are flushed with a disconnect trigger the CNO of their EVD" *
          hint("trigger for the connection event only, with which the flushed receives come"))
{
    adapter ia;
    for (const bool abrupt : {false, true}) {
        CAPTURE(abrupt);
        const DAT_CNO_HANDLE cno = make_cno(ia);
        endpoint_options notified;
        notified.cno = cno;
        test_endpoint to(ia, notified);
        test_endpoint from(ia);
        establish(from, to);
        drain(to.recv_evd, milliseconds(0));
        while (poll_cno(cno).code == DAT_SUCCESS) {
        }
        for (int i = 0; i < 2; ++i)
            MUST(to.recv(0, 64));
        MUST(from.disconnect(abrupt ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG));
        int flushed = 0;
        int ended = 0;
        // By the handles that the CNO gives, and by nothing else.
        while (flushed < 2 || ended < 1) {
            const cno_answer told = wait_cno(cno, patience / 2);
            if (!same_code(told.code, success)) {
                CHECK(same_code(told.code, success));
                break;
            }
            for (DAT_EVENT event{}; dat_evd_dequeue(told.by, &event) == DAT_SUCCESS;) {
                ended += ends_connection(event.event_number);
                flushed += event.event_number == DAT_DTO_COMPLETION_EVENT;
            }
        }
        CHECK(flushed == 2);
        CHECK(ended == 1);
    }
}

TEST_CASE("CNO-28: a cancelled waiter leaves its CNO as if it had not waited" *
          hint("count the waiter for ever, keep a lock, or give it the trigger that is meant for "
               "another"))
{
    if (!threads_are_cancelled)
        NOT_CLAIMED("cancelled threads: this system has none");
    if (instrumented())
        NOT_CLAIMED("cancelled threads: sanitizers lose sight of a stack that unwinds in C");
    for (const cancel_type type : cancel_types) {
        CAPTURE(static_cast<int>(type));
        adapter ia;
        const DAT_CNO_HANDLE cno = make_cno(ia);
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG, 8, cno);
        helper_thread waiting([&] {
            accept_cancellation(type);
            for (DAT_EVD_HANDLE by = DAT_HANDLE_NULL;;)
                (void)dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &by);
        });
        waiting.await_asleep();
        cno_waiter other(cno);
        REQUIRE(ends_by_cancel(waiting));
        MUST(post_software(evd));
        other.thread.join();
        CHECK(same_code(other.answer.code, success));
        CHECK(other.answer.by == evd);
        MUST(dat_evd_free(evd));
        CHECK(same_code(dat_cno_free(cno), success));
        CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), success));
    }
}

TEST_CASE("CNO-29: an agent that is set again is called for an event that arrived in between" *
          hint("call the agent for events only that come while it is set"))
{
    adapter ia;
    agent_calls calls;
    const DAT_OS_WAIT_PROXY_AGENT agent{&calls, count_call};
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, agent, &cno));
    const DAT_EVD_HANDLE first = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    const DAT_EVD_HANDLE second = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    MUST(post_software(first));
    CHECK(becomes_true([&] { return calls.number == 1; }));
    MUST(post_software(second));
    DAT_EVENT event{};
    MUST(dat_evd_dequeue(first, &event));
    MUST(dat_cno_modify_agent(cno, agent));
    CHECK(becomes_true([&] { return calls.number == 2; }, patience / 4));
    CHECK(calls.by == second);
    MUST(dat_evd_dequeue(second, &event));
    MUST(dat_cno_modify_agent(cno, agent));
    std::this_thread::sleep_for(milliseconds(30));
    CHECK(calls.number == 2);
    MUST(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
}

TEST_CASE("CNO-30: events that an interrupted waiter of the EVD leaves behind trigger the CNO" *
          hint("trust a waiter to know of them: with INTERRUPTED_CALL, nmore is undefined"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    catch_signal(signal_kind::interrupting);
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    DAT_RETURN code = DAT_ABORT;
    helper_thread waiter(
        [&] { code = dat_evd_wait(evd, microseconds(patience), 3, &event, &more); });
    waiter.await_asleep();
    MUST(post_software(evd));
    CHECK(same_outcome(wait_cno(cno, a_while).code, DAT_QUEUE_EMPTY));
    CHECK(ends_by_signal(waiter));
    waiter.join();
    CHECK(same_code(code, DAT_INTERRUPTED_CALL));
    CHECK(wait_cno(cno, patience).by == evd);
    CHECK(collect(evd, 1).size() == 1);
}

TEST_CASE("CNO-31: unsignalled completions trigger no CNO, and are there with the next that does" *
          hint("trigger for every completion, or arm only when the EVD was found empty"))
{
    adapter ia;
    if ((ia.provider.completion_flags_supported & DAT_COMPLETION_UNSIGNALLED_FLAG) == 0)
        NOT_CLAIMED("unsignalled completions");
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    MUST(dat_evd_modify_cno(from.request_evd, cno));
    (void)poll_cno(cno);
    for (std::uint64_t i = 0; i < 6; ++i) {
        const bool signalled = i % 3 == 2;
        MUST(pair.passive.recv(0, 64));
        MUST(from.send(0, 64, i,
                       signalled ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_UNSIGNALLED_FLAG));
        CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
        if (signalled)
            CHECK(wait_cno(cno, patience).by == from.request_evd);
        else
            CHECK(same_outcome(wait_cno(cno, a_while).code, DAT_QUEUE_EMPTY));
        if (!signalled)
            continue;
        CHECK(collect(from.request_evd, 3).size() == 3);
        std::this_thread::sleep_for(a_while); // a late trigger may follow: it is a hint
        (void)poll_cno(cno);
    }
    MUST(dat_evd_modify_cno(from.request_evd, DAT_HANDLE_NULL));
}

TEST_CASE("CNO-32: where receives are solicited, a message that asks for it triggers the CNO" *
          hint("arm the completion queue for every receive, or for none") * needs("solicited_wait"))
{
    adapter ia;
    if ((ia.provider.completion_flags_supported & DAT_COMPLETION_SOLICITED_WAIT_FLAG) == 0)
        NOT_CLAIMED("solicited receives");
    test_endpoint from(ia);
    DAT_EP_ATTR attr = ep_param(from.ep).ep_attr;
    attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    endpoint_options options;
    options.attr = &attr;
    test_endpoint to(ia, options);
    establish(from, to);
    const DAT_CNO_HANDLE cno = make_cno(ia);
    MUST(dat_evd_modify_cno(to.recv_evd, cno));
    for (std::uint64_t i = 0; i < 6; ++i) {
        const bool solicited = i % 2 == 1;
        MUST(to.recv(0, 64));
        MUST(from.send(0, 64, i,
                       solicited ? DAT_COMPLETION_SOLICITED_WAIT_FLAG
                                 : DAT_COMPLETION_DEFAULT_FLAG));
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
        if (solicited)
            CHECK(wait_cno(cno, patience).by == to.recv_evd);
        else
            CHECK(same_outcome(wait_cno(cno, a_while).code, DAT_QUEUE_EMPTY));
        if (!solicited)
            continue;
        CHECK(collect(to.recv_evd, 2).size() == 2);
        std::this_thread::sleep_for(a_while); // a late trigger may follow: it is a hint
        (void)poll_cno(cno);
    }
    MUST(dat_evd_modify_cno(to.recv_evd, DAT_HANDLE_NULL));
}

namespace {

/// An agent that takes its time.
struct slow_agent {
    std::atomic<bool> runs{false};
    std::atomic<bool> ended{false};
};
void run_slowly(DAT_PVOID data, DAT_EVD_HANDLE)
{
    auto &agent = *static_cast<slow_agent *>(data);
    agent.runs = true;
    std::this_thread::sleep_for(a_while);
    agent.ended = true;
}

} // namespace

TEST_CASE("CNO-46: freeing a CNO waits for its agent, which runs" *
          hint("free what the agent was called with, or return while it still runs"))
{
    adapter ia;
    for (int round = 0; round < 3; ++round) {
        slow_agent agent;
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        MUST(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT{&agent, run_slowly}, &cno));
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
        helper_thread poster([&] { (void)post_software(evd); }); // may call the agent itself
        REQUIRE(becomes_true([&] { return agent.runs.load(); }));
        MUST(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
        MUST(dat_cno_free(cno));
        CHECK(agent.ended);
        poster.join();
        MUST(dat_evd_free(evd));
    }
}

namespace {

/// An agent that stays where it was called until it is let go.
class staying_agent {
public:
    explicit staying_agent(adapter &ia)
    {
        MUST(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT{this, stay}, &cno));
    }
    ~staying_agent() { let_go(); }
    staying_agent(const staying_agent &) = delete;
    staying_agent &operator=(const staying_agent &) = delete;

    void await_call() const
    {
        if (!becomes_true([this] { return runs_.load(); }))
            GIVE_UP("the agent is not called");
    }
    void let_go() { may_end_ = true; }
    bool has_ended() const { return ended_; }

    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;

private:
    static void stay(DAT_PVOID data, DAT_EVD_HANDLE)
    {
        auto &self = *static_cast<staying_agent *>(data);
        self.runs_ = true;
        (void)becomes_true([&self] { return self.may_end_.load(); });
        self.ended_ = true;
    }

    std::atomic<bool> runs_{false};
    std::atomic<bool> may_end_{false};
    std::atomic<bool> ended_{false};
};

/// Makes one call after another, on objects of its own, in a thread of its own.
class bystander {
public:
    explicit bystander(adapter &ia) : ia_(ia), pair_(ia), fresh_(ia), at_(ia) {}

    /// Returns false when one of the calls has not returned; which, it says.
    bool finishes(milliseconds time)
    {
        thread_ = std::make_unique<helper_thread>([this] { make_calls(); });
        return becomes_true([this] { return thread_->finished(); }, time);
    }
    const char *call() const { return call_; }
    void join() { thread_->join(); }

private:
    void make_calls()
    {
        DAT_EVENT event{};
        call_ = "dat_ep_post_recv()";
        (void)pair_.passive.recv(0, 64);
        call_ = "dat_ep_post_send()";
        (void)pair_.active.send(0, 64);
        call_ = "dat_evd_dequeue()";
        (void)dat_evd_dequeue(pair_.active.request_evd, &event);
        call_ = "dat_lmr_create()";
        const region more(ia_, pair_.active.pz, 4096);
        call_ = "dat_evd_create()";
        (void)make_evd(ia_, DAT_EVD_DTO_FLAG);
        call_ = "dat_psp_create_any()";
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        DAT_CONN_QUAL qualifier = 0;
        (void)dat_psp_create_any(ia_.handle, &qualifier, make_evd(ia_, DAT_EVD_CR_FLAG),
                                 DAT_PSP_CONSUMER_FLAG, &psp);
        call_ = "dat_ep_connect()";
        (void)fresh_.connect(ia_.address(), at_.qualifier);
        call_ = "dat_ep_disconnect()";
        (void)pair_.active.disconnect(DAT_CLOSE_ABRUPT_FLAG);
    }

    adapter &ia_;
    connected_pair pair_;
    test_endpoint fresh_;
    listener at_;
    std::atomic<const char *> call_{""};
    std::unique_ptr<helper_thread> thread_;
};

/// Expects other objects usable while the agent stays in the callback that `cause` has brought
/// about.
template <class Cause>
void expect_others_usable(adapter &ia, staying_agent &agent, const char *what, Cause cause)
{
    bystander other(ia);
    helper_thread causing(cause); // may call the agent itself
    agent.await_call();
    const bool finishes = other.finishes(patience / 2);
    if (!finishes)
        FAIL_CHECK(std::string(other.call()), " waits for the agent that ", std::string(what),
                   " has called: a lock is held in that callback");
    agent.let_go();
    other.join();
}

} // namespace

TEST_CASE("CNO-47: while an agent runs, calls for other objects return" *
          hint("hold a lock during a callback that other operations take, too"))
{
    adapter ia;
    {
        staying_agent agent(ia);
        connected_pair pair(ia);
        MUST(pair.passive.recv(0, 64));
        MUST(dat_evd_modify_cno(pair.passive.recv_evd, agent.cno));
        expect_others_usable(ia, agent, "a completion", [&] { (void)pair.active.send(0, 64); });
        MUST(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
    }
    {
        staying_agent agent(ia);
        test_endpoint from(ia);
        listener at(ia);
        MUST(dat_evd_modify_cno(at.cr_evd, agent.cno));
        expect_others_usable(ia, agent, "a connection request",
                             [&] { (void)from.connect(ia.address(), at.qualifier); });
        MUST(dat_evd_modify_cno(at.cr_evd, DAT_HANDLE_NULL));
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    }
    {
        staying_agent agent(ia);
        connected_pair pair(ia);
        MUST(dat_evd_modify_cno(pair.passive.connect_evd, agent.cno));
        expect_others_usable(ia, agent, "a connection event",
                             [&] { (void)pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG); });
        MUST(dat_evd_modify_cno(pair.passive.connect_evd, DAT_HANDLE_NULL));
    }
}

namespace {

/// Expects that `freeing` does not return while the agent is in a callback for the freed object.
template <class Free>
void expect_fence(staying_agent &agent, const char *call, Free freeing)
{
    std::atomic<bool> early{false};
    helper_thread thread([&] {
        freeing();
        early = !agent.has_ended();
    });
    std::this_thread::sleep_for(a_while);
    agent.let_go();
    thread.join();
    if (early)
        FAIL_CHECK(std::string(call), " returns while a callback for what it has freed still runs");
}

} // namespace

TEST_CASE("CNO-48: what is freed while its callback runs is free when that has ended" *
          hint("have a fence that does not wait for the callback that runs already"))
{
    adapter ia;
    {
        staying_agent agent(ia);
        connected_pair pair(ia);
        MUST(pair.passive.recv(0, 64));
        MUST(dat_evd_modify_cno(pair.passive.recv_evd, agent.cno));
        helper_thread sending([&] { (void)pair.active.send(0, 64); });
        agent.await_call();
        expect_fence(agent, "dat_evd_free()", [&] {
            (void)pair.passive.free_ep(); // may have to wait as well
            (void)dat_evd_free(pair.passive.recv_evd);
        });
        pair.passive.recv_evd = pair.passive.request_evd;
    }
    {
        staying_agent agent(ia);
        test_endpoint from(ia);
        listener at(ia);
        MUST(dat_evd_modify_cno(at.cr_evd, agent.cno));
        helper_thread connecting([&] { (void)from.connect(ia.address(), at.qualifier); });
        agent.await_call();
        connecting.join();
        expect_fence(agent, "dat_psp_free()", [&] { (void)dat_psp_free(at.psp); });
        at.psp = DAT_HANDLE_NULL;
        MUST(dat_evd_modify_cno(at.cr_evd, DAT_HANDLE_NULL));
        MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    }
    {
        staying_agent agent(ia);
        connected_pair pair(ia);
        MUST(dat_evd_modify_cno(pair.passive.connect_evd, agent.cno));
        helper_thread ending([&] { (void)pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG); });
        agent.await_call();
        expect_fence(agent, "dat_ep_free()", [&] { (void)pair.passive.free_ep(); });
        MUST(dat_evd_modify_cno(pair.passive.connect_evd, DAT_HANDLE_NULL));
    }
}

TEST_CASE(
    "CNO-49: a completion that comes while a callback runs wakes a waiter, too" *
    hint("clear what has reported a completion after the callback, and with it the next report"))
{
    adapter ia;
    staying_agent agent(ia);
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.passive.recv(64, 64));
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, agent.cno));
    helper_thread sending([&] { (void)pair.active.send(0, 64); }); // may call the agent itself
    agent.await_call();
    CHECK(poll_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
    bool woken = false;
    helper_thread waiter([&] {
        DAT_EVENT event{};
        woken = is_woken(pair.passive.recv_evd, event);
    });
    waiter.await_asleep();
    helper_thread again([&] { (void)pair.active.send(0, 64); });
    std::this_thread::sleep_for(a_while);
    agent.let_go();
    waiter.join();
    if (!woken)
        FAIL_CHECK("nothing woke the waiter for a completion that came while a callback ran: a "
                   "notification is lost");
    sending.join();
    again.join();
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
}

TEST_CASE("CNO-50: a wait goes on after a signal whose handler has SA_RESTART, with the time that "
          "is left" *
          hint("end every wait after EINTR, restart the clock, or hold the handler back until the "
               "wait has ended"))
{
    if (puts_handlers_off())
        NOT_CLAIMED("handlers during a wait: ThreadSanitizer runs them behind it");
    catch_signal(signal_kind::restarting);
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    for (const DAT_TIMEOUT timeout : {microseconds(patience), DAT_TIMEOUT_INFINITE}) {
        cno_waiter first(cno, timeout);
        cno_waiter second(cno, timeout); // waiters of a CNO may sleep in different ways
        CHECK(outlives_signals(first.thread));
        CHECK(outlives_signals(second.thread));
        (void)becomes_true([&] {
            (void)post_software(evd);
            (void)drain(evd, milliseconds(1));
            return first.thread.finished() && second.thread.finished();
        });
        for (cno_waiter *w : {&first, &second}) {
            w->thread.join();
            CHECK(same_code(w->answer.code, DAT_SUCCESS));
        }
        (void)poll_cno(cno);
    }
    const auto began = std::chrono::steady_clock::now();
    cno_waiter timed(cno, microseconds(3 * a_while));
    CHECK(ends_despite_signals(timed.thread));
    if (!timed.thread.finished())
        MUST(post_software(evd));
    timed.thread.join();
    CHECK(same_outcome(timed.answer.code, DAT_QUEUE_EMPTY));
    CHECK(std::chrono::steady_clock::now() - began >= 3 * a_while);
}

TEST_CASE("CNO-51: of handlers with and without SA_RESTART, the one that ran decides about a wait" *
          hint("go by what handlers there are: end each wait, or none, when there are both kinds"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    if (puts_handlers_off())
        NOT_CLAIMED("handlers during a wait: ThreadSanitizer runs them behind it");
    catch_signal(signal_kind::interrupting);
    catch_signal(signal_kind::restarting);
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
    for (const DAT_TIMEOUT timeout : {microseconds(patience), DAT_TIMEOUT_INFINITE}) {
        cno_waiter w(cno, timeout);
        CHECK(outlives_signals(w.thread));
        if (!w.thread.finished())
            CHECK(ends_by_signal(w.thread));
        if (!w.thread.finished())
            MUST(post_software(evd));
        w.thread.join();
        CHECK(same_code(w.answer.code, DAT_INTERRUPTED_CALL));
    }
}

TEST_CASE("CNO-52: a completion that comes while its CQ is armed after the one before wakes a "
          "waiter, too" *
          hint("say that the queue is armed without a look for what came since the last poll"))
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_CNO_HANDLE cno = make_cno(ia);
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, cno));
    constexpr int rounds = 600;
    std::atomic<int> round{0};
    helper_thread sender([&] {
        for (int mine = 1; mine <= rounds; ++mine) {
            while (round < mine)
                std::this_thread::yield();
            (void)pair.active.send(0, 64, 0, DAT_COMPLETION_SUPPRESS_FLAG);
            // Long enough for the first to wake, to be taken, and to have the CQ armed behind it.
            const auto until =
                std::chrono::steady_clock::now() + std::chrono::microseconds(mine % 100);
            while (std::chrono::steady_clock::now() < until) {
            }
            (void)pair.active.send(0, 64);
        }
    });
    bool lost = false;
    for (int mine = 1; mine <= rounds; ++mine) {
        MUST(pair.passive.recv(0, 64));
        MUST(pair.passive.recv(64, 64));
        round = mine;
        DAT_EVENT event{};
        for (int got = 0; got < 2 && !lost;) {
            lost = wait_cno(cno, patience / 2).code != DAT_SUCCESS;
            while (dat_evd_dequeue(pair.passive.recv_evd, &event) == DAT_SUCCESS)
                ++got;
        }
        if (lost) {
            round = rounds;
            break;
        }
        (void)next_dto(pair.active.request_evd);
    }
    if (lost)
        FAIL_CHECK("nothing woke the waiter for a completion that came soon after another: a "
                   "notification is lost");
    sender.join();
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
}

} // namespace conformance
