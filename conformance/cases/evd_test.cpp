// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Event dispatchers: creating, waiting, dequeuing, software events, overflow.
#include "harness/support.hpp"

#include <csignal>
#include <memory>
#include <utility>

namespace conformance {
namespace {

/// Both kinds of queue that a provider may have: events of callbacks, and completions as well.
constexpr unsigned both_kinds[] = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG};

constexpr unsigned streams[] = {DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG,       DAT_EVD_DTO_FLAG,
                                DAT_EVD_CONNECTION_FLAG, DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

DAT_RETURN try_evd(const adapter &ia, unsigned flags, DAT_COUNT qlen, DAT_EVD_HANDLE *out)
{
    return dat_evd_create(ia.handle, qlen, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), out);
}

DAT_EVD_PARAM evd_param(DAT_EVD_HANDLE evd)
{
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
    return param;
}

std::uintptr_t number_in(const DAT_EVENT &event)
{
    return reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer);
}

/// Recreates its endpoint with other EVDs. dat_ep_modify is tested by EP-10 and others.
void remake(test_endpoint &own, DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE connect_evd)
{
    MUST(own.free_ep());
    MUST(dat_ep_create(own.ia.handle, own.pz, recv_evd, own.request_evd, connect_evd, nullptr,
                       &own.ep));
}

/// A thread in dat_evd_wait, and the result of its wait.
struct waiter {
    explicit waiter(DAT_EVD_HANDLE evd, DAT_COUNT threshold = 1,
                    DAT_TIMEOUT timeout = microseconds(patience))
        : thread([this, evd, threshold, timeout] {
              code = dat_evd_wait(evd, timeout, threshold, &event, &more);
          })
    {
        // The thread waits when other waits are refused; EVD-18 tests providers that do not refuse.
        DAT_EVENT ignored{};
        becomes_true([&] {
            return DAT_GET_TYPE(dat_evd_dequeue(evd, &ignored)) != DAT_QUEUE_EMPTY ||
                   thread.sleeps();
        });
    }

    DAT_EVENT event{};
    DAT_COUNT more = -1;
    DAT_RETURN code = DAT_SUCCESS;
    helper_thread thread;
};

/// The kinds of EVD that the adapter resizes.
std::vector<unsigned> resizable_kinds(const adapter &ia)
{
    std::vector<unsigned> found;
    for (unsigned flags : both_kinds)
        if (!refused(dat_evd_resize(make_evd(ia, flags, 8), 64)))
            found.push_back(flags);
    return found;
}

/// Messages with these cookies, one after the other.
void expect_messages(DAT_EVD_HANDLE evd, std::uint64_t count)
{
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto got = next_dto(evd);
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(got.user_cookie.as_64 == i);
    }
}

/// The end of the connection, and receives that it flushed before or after.
void expect_end(DAT_EVD_HANDLE evd, int flushed)
{
    int ends = 0;
    for (int i = 0; i <= flushed; ++i) {
        const DAT_EVENT event = next_event(evd);
        if (ends_connection(event.event_number))
            ++ends;
        else
            CHECK(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    }
    CHECK(ends == 1);
    CHECK(stays_empty(evd, milliseconds(0)));
}

/// A connection whose receiving endpoint shares one EVD with the other connections.
struct joined_peer {
    joined_peer(adapter &ia, DAT_EVD_HANDLE recv_evd, DAT_COUNT receives) : from(ia), to(ia)
    {
        DAT_EP_ATTR attr = ep_param(to.ep).ep_attr;
        attr.max_recv_dtos = receives;
        MUST(to.free_ep());
        MUST(dat_ep_create(ia.handle, to.pz, recv_evd, to.request_evd, to.connect_evd, &attr,
                           &to.ep));
        establish(from, to);
    }

    test_endpoint from;
    test_endpoint to;
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
};

/// An endpoint's receives and requests complete with these flags.
struct flagged_pair {
    flagged_pair(adapter &ia, DAT_COMPLETION_FLAGS recv, DAT_COMPLETION_FLAGS request)
        : from(ia, with(ia, DAT_COMPLETION_DEFAULT_FLAG, request)),
          to(ia, with(ia, recv, DAT_COMPLETION_DEFAULT_FLAG))
    {
        establish(from, to);
    }
    /// A message of this number that has arrived when this returns.
    void message(std::uint64_t number, DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG)
    {
        MUST(from.send(0, 64, number, flags));
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
        std::this_thread::sleep_for(a_while);
    }
    const endpoint_options &with(adapter &ia, DAT_COMPLETION_FLAGS recv,
                                 DAT_COMPLETION_FLAGS request)
    {
        attr = ep_param(test_endpoint(ia).ep).ep_attr;
        attr.recv_completion_flags = recv;
        attr.request_completion_flags = request;
        options.attr = &attr;
        return options;
    }

    DAT_EP_ATTR attr{};
    endpoint_options options;
    test_endpoint from;
    test_endpoint to;
};

bool supports(const adapter &ia, DAT_COMPLETION_FLAGS flag)
{
    return (ia.provider.completion_flags_supported & flag) != 0;
}

} // namespace

TEST_CASE("EVD-01: create checks its arguments" *
          hint("check the adapter handle but not flags, length and pointer"))
{
    adapter ia;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    CHECK(same_code(try_evd(ia, DAT_EVD_SOFTWARE_FLAG, 0, &evd), bad_arg(2)));
    CHECK(same_code(try_evd(ia, DAT_EVD_SOFTWARE_FLAG, -1, &evd), bad_arg(2)));
    CHECK(same_code(try_evd(ia, 0, 8, &evd), bad_arg(4)));
    CHECK(same_code(try_evd(ia, 0x2, 8, &evd), bad_arg(4)));
    CHECK(same_code(try_evd(ia, DAT_EVD_DTO_FLAG | 0x40000000, 8, &evd), bad_arg(4)));
    CHECK(same_code(try_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, nullptr), bad_arg(5)));
    CHECK(same_code(dat_evd_create(ia.handle, 8, make_pz(ia), DAT_EVD_SOFTWARE_FLAG, &evd),
                    bad_handle(DAT_INVALID_HANDLE_CNO)));
    CHECK(evd == DAT_HANDLE_NULL);
}

TEST_CASE("EVD-02: a queue longer than the adapter's limit is INSUFFICIENT_RESOURCES/TEVD" *
          hint("answer INVALID_PARAMETER, or shorten the queue silently"))
{
    adapter ia;
    if (ia.attr.max_evd_qlen == INT32_MAX)
        return;
    const DAT_COUNT too_long = ia.attr.max_evd_qlen + 1;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    for (unsigned flags : both_kinds)
        CHECK(same_code(try_evd(ia, flags, too_long, &evd),
                        error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD)));
    CHECK(evd == DAT_HANDLE_NULL);
}

TEST_CASE("EVD-03: streams merge as the provider's matrix says" *
          hint("claim merges in the matrix that dat_evd_create refuses, or the reverse"))
{
    adapter ia;
    (void)make_evd(ia, DAT_EVD_DTO_FLAG);
    const auto &matrix = ia.provider.evd_stream_merging_supported;
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) {
            CAPTURE(i);
            CAPTURE(j);
            CHECK(matrix[i][j] == matrix[j][i]);
            DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
            const DAT_RETURN code = try_evd(ia, streams[i] | streams[j], 8, &evd);
            CHECK(same_code(code, matrix[i][j] != DAT_FALSE ? success : bad_arg(4)));
            if (code == DAT_SUCCESS)
                MUST(dat_evd_free(evd));
        }
}

TEST_CASE("EVD-04: query returns the arguments of create" *
          hint("report the length of the device's queue rather than at least the one asked for"))
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    for (unsigned flags : both_kinds) {
        const DAT_EVD_PARAM param = evd_param(make_evd(ia, flags, 37, cno));
        CHECK(param.ia_handle == ia.handle);
        CHECK(param.evd_qlen >= 37);
        CHECK(param.cno_handle == cno);
        CHECK(param.evd_flags == flags);
        CHECK((param.evd_state & 0xf) == (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE));
    }
    CHECK(evd_param(make_evd(ia, DAT_EVD_CR_FLAG)).cno_handle == DAT_HANDLE_NULL);
}

TEST_CASE("EVD-05: query follows enable, disable, set_ and clear_unwaitable, modify_cno" *
          hint("store one state word where enabled and waitable are two"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    const DAT_CNO_HANDLE cno = make_cno(ia);
    for (int twice = 0; twice < 2; ++twice) {
        MUST(dat_evd_disable(evd));
        MUST(dat_evd_set_unwaitable(evd));
        MUST(dat_evd_modify_cno(evd, cno));
    }
    CHECK((evd_param(evd).evd_state & 0xf) == (DAT_EVD_STATE_DISABLED | DAT_EVD_STATE_UNWAITABLE));
    CHECK(evd_param(evd).cno_handle == cno);
    for (int twice = 0; twice < 2; ++twice) {
        MUST(dat_evd_enable(evd));
        MUST(dat_evd_clear_unwaitable(evd));
        MUST(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
    }
    CHECK((evd_param(evd).evd_state & 0xf) == (DAT_EVD_STATE_ENABLED | DAT_EVD_STATE_WAITABLE));
    CHECK(evd_param(evd).cno_handle == DAT_HANDLE_NULL);
}

TEST_CASE("EVD-06: query refuses unknown bits and a missing structure" *
          hint("ignore unknown mask bits, or dereference the null structure"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    DAT_EVD_PARAM param{};
    CHECK(same_code(dat_evd_query(evd, static_cast<DAT_EVD_PARAM_MASK>(0x20), &param), bad_arg(2)));
    CHECK(same_code(dat_evd_query(evd, DAT_EVD_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_evd_query(evd, static_cast<DAT_EVD_PARAM_MASK>(0), &param), DAT_SUCCESS));
}

TEST_CASE("EVD-07: a wait whose timeout is 0 polls and answers TIMEOUT_EXPIRED, bare" *
          hint("take 0 for no timeout and sleep, or set the error class on TIMEOUT_EXPIRED"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        DAT_EVENT event{};
        DAT_COUNT more = -1;
        CHECK(same_code(dat_evd_wait(evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(same_code(dat_evd_wait(evd, 1000, 1, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(more == 0);
        MUST(post_software(evd, 5));
        CHECK(same_code(dat_evd_wait(evd, 0, 1, &event, &more), DAT_SUCCESS));
        CHECK(number_in(event) == 5);
        CHECK(more == 0);
    }
}

TEST_CASE("EVD-08: a wait of 200 ms does not return before 200 ms" *
          hint("take microseconds for milliseconds, or round the timeout down"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        DAT_EVENT event{};
        DAT_COUNT more = -1;
        const auto begin = std::chrono::steady_clock::now();
        CHECK(same_outcome(dat_evd_wait(evd, 200'000, 1, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(200));
        CHECK(more == 0);
    }
}

TEST_CASE("EVD-09: wait checks threshold and pointers" *
          hint("clip the threshold silently, or write through a null pointer"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    const DAT_COUNT qlen = evd_param(evd).evd_qlen;
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    CHECK(same_code(dat_evd_wait(evd, 0, 0, &event, &more), bad_arg(3)));
    CHECK(same_code(dat_evd_wait(evd, 0, -1, &event, &more), bad_arg(3)));
    CHECK(same_code(dat_evd_wait(evd, 0, qlen + 1, &event, &more), bad_arg(3)));
    CHECK(same_outcome(dat_evd_wait(evd, 0, qlen, &event, &more), DAT_TIMEOUT_EXPIRED));
    CHECK(same_code(dat_evd_wait(evd, 0, 1, nullptr, &more), bad_arg(4)));
    CHECK(same_code(dat_evd_wait(evd, 0, 1, &event, nullptr), bad_arg(5)));
}

TEST_CASE("EVD-10: dequeue on an empty EVD is QUEUE_EMPTY, bare" *
          hint("set the error class on QUEUE_EMPTY: existing programs compare the whole word"))
{
    adapter ia;
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u,
          DAT_EVD_DTO_FLAG | 0u, DAT_EVD_CR_FLAG | 0u, DAT_EVD_CONNECTION_FLAG | 0u}) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        DAT_EVENT event{};
        CHECK(same_code(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY));
        CHECK(same_code(dat_evd_dequeue(evd, nullptr), bad_arg(2)));
    }
}

TEST_CASE(
    "EVD-11: software events come out as they went in, in order, with the EVD's handle" *
    hint("sort software events behind completions, or leave the EVD handle of the event unset"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 16);
        for (std::uintptr_t i = 1; i <= 10; ++i)
            MUST(post_software(evd, i));
        for (std::uintptr_t i = 1; i <= 10; ++i) {
            DAT_EVENT event{};
            CHECK(same_code(dat_evd_dequeue(evd, &event), DAT_SUCCESS));
            CHECK(same_event(event.event_number, DAT_SOFTWARE_EVENT));
            CHECK(event.evd_handle == evd);
            CHECK(number_in(event) == i);
        }
        DAT_EVENT event{};
        CHECK(same_outcome(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY));
    }
}

TEST_CASE("EVD-12: post_se refuses other events and EVDs without the software stream" *
          hint("post any event, into any EVD"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event = software_event(nullptr);
    CHECK(same_code(dat_evd_post_se(make_evd(ia, DAT_EVD_DTO_FLAG), &event), bad_arg(1)));
    CHECK(same_code(dat_evd_post_se(make_evd(ia, DAT_EVD_CR_FLAG), &event), bad_arg(1)));
    CHECK(same_code(dat_evd_post_se(ia.async, &event), bad_arg(1)));
    CHECK(same_code(dat_evd_post_se(evd, nullptr), bad_arg(2)));
    event.event_number = DAT_CONNECTION_EVENT_ESTABLISHED;
    CHECK(same_code(dat_evd_post_se(evd, &event), bad_arg(2)));
    CHECK(stays_empty(evd, milliseconds(1)));
}

TEST_CASE(
    "EVD-13: a full queue is QUEUE_FULL and no overflow; a dequeue makes room" *
    hint("count one slot less than asked for, or raise EVD_OVERFLOW for the consumer's own post"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 5);
        const DAT_COUNT qlen = evd_param(evd).evd_qlen;
        DAT_EVENT event{};
        for (int round = 0; round < 3; ++round) {
            for (DAT_COUNT i = 0; i < qlen; ++i)
                CHECK(same_code(post_software(evd, 1), DAT_SUCCESS));
            CHECK(same_code(post_software(evd, 2), error(DAT_QUEUE_FULL)));
            MUST(dat_evd_dequeue(evd, &event));
            CHECK(same_code(post_software(evd, 3), DAT_SUCCESS));
            CHECK(same_code(post_software(evd, 4), error(DAT_QUEUE_FULL)));
            const auto all = drain(evd, milliseconds(0));
            CHECK(all.size() == static_cast<std::size_t>(qlen));
            CHECK(number_in(all.back()) == 3);
        }
    }
    CHECK(stays_empty(ia.async, milliseconds(20)));
}

TEST_CASE("EVD-14: nmore is the exact number left, after a success and after a timeout" *
          hint("leave nmore untouched on a timeout, or count the event that was returned"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 16);
        for (std::uintptr_t i = 0; i < 7; ++i)
            MUST(post_software(evd, i));
        DAT_EVENT event{};
        DAT_COUNT more = -1;
        CHECK(same_code(dat_evd_wait(evd, 0, 1, &event, &more), DAT_SUCCESS));
        CHECK(more == 6);
        CHECK(same_outcome(dat_evd_wait(evd, 0, 7, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(more == 6);
        CHECK(same_code(dat_evd_wait(evd, 0, 6, &event, &more), DAT_SUCCESS));
        CHECK(number_in(event) == 1);
        CHECK(more == 5);
    }
}

TEST_CASE("EVD-15: a waiter with a threshold sleeps until that many events are there" *
          hint("wake for each event, or forget events that came before the waiter"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 16);
        waiter w(evd, 3);
        MUST(post_software(evd, 1));
        MUST(post_software(evd, 2));
        std::this_thread::sleep_for(a_while);
        CHECK_FALSE(w.thread.finished());
        MUST(post_software(evd, 3));
        w.thread.join();
        CHECK(same_code(w.code, DAT_SUCCESS));
        CHECK(number_in(w.event) == 1);
        CHECK(w.more == 2);
    }
}

TEST_CASE("EVD-16: a sleeping waiter is woken by an event, time and again" *
          hint("use a one-shot notification and arm it once only"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        for (std::uintptr_t round = 0; round < 50; ++round) {
            waiter w(evd);
            MUST(post_software(evd, round));
            w.thread.join();
            CHECK(same_code(w.code, DAT_SUCCESS));
            CHECK(number_in(w.event) == round);
        }
    }
}

TEST_CASE(
    "EVD-17: no event is lost between posters and a waiter" *
    hint("look for events before becoming the waiter and not again after: the wake-up is lost"))
{
    adapter ia;
    constexpr std::uintptr_t each = 2000;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8);
        helper_thread poster([&] {
            for (std::uintptr_t i = 0; i < each;)
                i += post_software(evd, i) == DAT_SUCCESS ? 1 : 0;
        });
        std::uintptr_t expected = 0;
        DAT_EVENT event{};
        while (expected < each && wait_event(evd, event) == DAT_SUCCESS &&
               number_in(event) == expected)
            ++expected;
        CHECK(expected == each);
        if (expected != each) // lets the poster end
            becomes_true([&] { return poster.finished() || (drain(evd, milliseconds(0)), false); });
    }
}

TEST_CASE("EVD-18: with a thread waiting, a second wait and a dequeue are INVALID_STATE" *
          hint("let two waiters in, and give each a part of the events"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        waiter w(evd);
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        CHECK(same_type(dat_evd_wait(evd, 0, 1, &event, &more), DAT_INVALID_STATE));
        CHECK(same_type(dat_evd_dequeue(evd, &event), DAT_INVALID_STATE));
        MUST(post_software(evd, 1));
        w.thread.join();
        CHECK(same_code(w.code, DAT_SUCCESS));
        CHECK(same_outcome(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY));
    }
}

TEST_CASE("EVD-19: an unwaitable EVD refuses waits and wakes its waiter, until it is cleared" *
          hint("set the flag but leave the waiter asleep"))
{
    adapter ia;
    const DAT_RETURN unwaitable = bad_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        waiter w(evd);
        MUST(dat_evd_set_unwaitable(evd));
        if (!becomes_true([&] { return w.thread.finished(); }, patience / 2))
            FAIL_CHECK("nothing woke the waiter of the EVD that has become unwaitable");
        w.thread.join();
        CHECK(same_code(w.code, unwaitable));
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        MUST(post_software(evd, 9));
        CHECK(same_code(dat_evd_wait(evd, 0, 1, &event, &more), unwaitable));
        CHECK(same_code(dat_evd_wait(evd, 1000, 1, &event, &more), unwaitable));
        CHECK(same_code(dat_evd_dequeue(evd, &event), DAT_SUCCESS));
        MUST(dat_evd_clear_unwaitable(evd));
        CHECK(same_outcome(dat_evd_wait(evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED));
        waiter brief(evd);
        MUST(dat_evd_set_unwaitable(evd));
        MUST(dat_evd_clear_unwaitable(evd)); // perhaps before the waiter runs
        if (!becomes_true([&] { return brief.thread.finished(); }, patience / 2))
            FAIL_CHECK("the waiter of an EVD that was unwaitable for a moment waits on");
        brief.thread.join();
        CHECK(same_code(brief.code, unwaitable));
    }
}

TEST_CASE(
    "EVD-20: a signal ends a wait with INTERRUPTED_CALL, bare, and takes no event" *
    hint("restart the wait after EINTR, set the error class, or take an event that is then lost"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    catch_signal(signal_kind::interrupting);
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        waiter w(evd);
        CHECK(ends_by_signal(w.thread));
        if (!w.thread.finished())
            MUST(post_software(evd, 1));
        w.thread.join();
        CHECK(same_code(w.code, DAT_INTERRUPTED_CALL));
    }
}

TEST_CASE("EVD-21: an EVD with a waiter, or that something feeds, cannot be freed" *
          hint("free the EVD below its waiter or the endpoints that complete to it"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_EVD_IN_USE);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    waiter w(evd);
    CHECK(same_code(dat_evd_free(evd), in_use));
    MUST(post_software(evd, 1));
    w.thread.join();
    CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS));

    test_endpoint own(ia);
    CHECK(same_code(dat_evd_free(own.recv_evd), in_use));
    CHECK(same_code(dat_evd_free(own.request_evd), in_use));
    CHECK(same_code(dat_evd_free(own.connect_evd), in_use));
    MUST(own.free_ep());
    CHECK(same_code(free_once(dat_evd_free, own.recv_evd), DAT_SUCCESS));

    listener at(ia);
    CHECK(same_code(dat_evd_free(at.cr_evd), in_use));
    MUST(free_once(dat_psp_free, at.psp));
    CHECK(same_code(dat_evd_free(at.cr_evd), DAT_SUCCESS));
}

TEST_CASE("EVD-22: an EVD is freed together with the events in it" *
          hint("refuse to free an EVD that has events, or leak them"))
{
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        MUST(post_software(evd, 1));
        CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS));
    }
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("EVD-23: an EVD is resized with its events, or that is MODEL_NOT_SUPPORTED and changes "
          "nothing" *
          hint("answer success and change nothing, or lose the events that were in it") *
          needs("evd_resize"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    const DAT_COUNT before = evd_param(evd).evd_qlen;
    MUST(post_software(evd, 1));
    const bool resized = !refused(dat_evd_resize(evd, 64));
    CHECK(same_code(post_software(evd, 2), DAT_SUCCESS));
    for (std::uintptr_t number : {1, 2})
        CHECK(number_in(next_event(evd)) == number);
    if (resized) {
        CHECK(evd_param(evd).evd_qlen >= 64);
        return;
    }
    CHECK(evd_param(evd).evd_qlen == before);
    NOT_CLAIMED("resizing EVDs");
}

TEST_CASE("EVD-24: a threshold counts completions, and nmore those behind the first" *
          hint("count only what was moved to a software queue, not what waits in the device"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &to = pair.passive;
    constexpr DAT_COUNT messages = 6;
    for (DAT_COUNT i = 0; i < messages; ++i)
        MUST(to.recv(0, 16, static_cast<std::uint64_t>(i)));
    waiter w(to.recv_evd, messages);
    for (DAT_COUNT i = 0; i < messages; ++i)
        MUST(pair.active.send(0, 16));
    w.thread.join();
    CHECK(same_code(w.code, DAT_SUCCESS));
    CHECK(w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 0);
    CHECK(w.more == messages - 1);
    for (std::uint64_t i = 1; i < messages; ++i)
        CHECK(next_dto(to.recv_evd).user_cookie.as_64 == i);
}

TEST_CASE("EVD-25: completions and software events share one EVD" *
          hint("keep two queues and look at one of them"))
{
    adapter ia;
    if (ia.provider.evd_stream_merging_supported[0][2] == DAT_FALSE)
        return;
    test_endpoint one(ia);
    test_endpoint other(ia);
    const DAT_EVD_HANDLE merged = make_evd(ia, DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG);
    remake(other, merged, other.connect_evd);
    establish(one, other);
    MUST(other.recv(0, 64, 7));
    MUST(post_software(merged, 1));
    MUST(one.send(0, 64));
    int messages = 0;
    int software = 0;
    for (int i = 0; i < 2; ++i) {
        const DAT_EVENT event = next_event(merged);
        CHECK(event.evd_handle == merged);
        ++(event.event_number == DAT_SOFTWARE_EVENT ? software : messages);
    }
    CHECK(messages == 1);
    CHECK(software == 1);
    MUST(other.free_ep());
}

TEST_CASE("EVD-26: an event of the provider's that finds no room is an EVD_OVERFLOW" *
          hint("drop the event silently"))
{
    adapter ia;
    test_endpoint one(ia);
    test_endpoint other(ia);
    const DAT_EVD_HANDLE tiny = make_evd(ia, DAT_EVD_CONNECTION_FLAG, 1);
    if (evd_param(tiny).evd_qlen != 1) {
        MESSAGE("the provider makes queues longer than asked");
        return;
    }
    remake(one, one.recv_evd, tiny);
    remake(other, other.recv_evd, tiny);
    listener at(ia);
    MUST(one.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), other.ep, 0, nullptr));
    const DAT_EVENT event = next_event(ia.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK(event.evd_handle == ia.async);
    CHECK(event.event_data.asynch_error_event_data.dat_handle == tiny);
    CHECK(event.event_data.asynch_error_event_data.reason == DAT_EVD_OVERFLOW_ERROR);
    MUST(one.free_ep());
    MUST(other.free_ep());
}

TEST_CASE("EVD-27: a thread can wait while another posts and a third fills another EVD" *
          hint("hold one lock of the whole provider while a thread waits"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    constexpr int messages = 500;
    std::atomic<int> received{0};
    std::atomic<int> posted{1}; // receives: a message that finds none ends a connection over iWARP
    MUST(to.recv(0, 64));
    helper_thread receiver([&] {
        DAT_EVENT event{};
        while (received < messages && is_woken(to.recv_evd, event))
            if (++received < messages && to.recv(0, 64) == DAT_SUCCESS)
                ++posted;
    });
    for (int sent = 0; sent < messages; ++sent) {
        (void)becomes_true([&] { return posted > sent || receiver.finished(); });
        if (posted <= sent)
            GIVE_UP("nothing woke the receiver for a message");
        MUST(from.send(0, 64));
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
    }
    receiver.join();
    CHECK(received == messages);
}

TEST_CASE("EVD-28: resize checks its length, and the present length is nothing to do" *
          hint("take 0 for the default, clip to the limit, or refuse the length that it has") *
          needs("evd_resize"))
{
    adapter ia;
    const auto kinds = resizable_kinds(ia);
    for (unsigned flags : kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8);
        const DAT_COUNT qlen = evd_param(evd).evd_qlen;
        CHECK(same_code(dat_evd_resize(evd, 0), bad_arg(2)));
        CHECK(same_code(dat_evd_resize(evd, -1), bad_arg(2)));
        if (ia.attr.max_evd_qlen != INT32_MAX)
            CHECK(same_code(dat_evd_resize(evd, ia.attr.max_evd_qlen + 1), bad_arg(2)));
        CHECK(same_code(dat_evd_resize(evd, qlen), success));
        CHECK(evd_param(evd).evd_qlen == qlen);
    }
    CHECK(same_type(dat_evd_resize(make_pz(ia), 8), DAT_INVALID_HANDLE));
    if (kinds.empty())
        NOT_CLAIMED("resizing EVDs");
}

TEST_CASE("EVD-29: an EVD does not become shorter than what is in it; lengths count at once" *
          hint("cut off the events that do not fit, or let the old length limit thresholds") *
          needs("evd_resize"))
{
    adapter ia;
    const auto kinds = resizable_kinds(ia);
    for (unsigned flags : kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 64);
        const DAT_COUNT before = evd_param(evd).evd_qlen;
        for (std::uintptr_t i = 0; i < 20; ++i)
            MUST(post_software(evd, i));
        CHECK(same_type(dat_evd_resize(evd, 10), DAT_INVALID_STATE));
        CHECK(evd_param(evd).evd_qlen == before);
        CHECK(same_code(dat_evd_resize(evd, 20), success));
        const DAT_COUNT after = evd_param(evd).evd_qlen;
        CHECK(after >= 20);
        for (std::uintptr_t i = 20; i < static_cast<std::uintptr_t>(after); ++i)
            CHECK(same_code(post_software(evd, i), success));
        CHECK(same_code(post_software(evd, 0), error(DAT_QUEUE_FULL)));
        DAT_EVENT event{};
        DAT_COUNT more = -1;
        CHECK(same_code(dat_evd_wait(evd, 0, after + 1, &event, &more), bad_arg(3)));
        CHECK(same_code(dat_evd_wait(evd, 0, after, &event, &more), success));
        CHECK(number_in(event) == 0);
        CHECK(more == after - 1);
        CHECK(same_code(dat_evd_resize(evd, 100), success));
        CHECK(same_outcome(dat_evd_wait(evd, 0, 100, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(more == after - 1);
        for (std::uintptr_t i = 1; i < static_cast<std::uintptr_t>(after); ++i)
            CHECK(number_in(next_event(evd)) == i);
    }
    if (kinds.empty())
        NOT_CLAIMED("resizing EVDs");
}

TEST_CASE(
    "EVD-30: with a thread waiting, a resize is INVALID_STATE, and the wait continues" *
    hint("change the queue below the waiter, or wake it with fewer events than it asked for") *
    needs("evd_resize"))
{
    adapter ia;
    const auto kinds = resizable_kinds(ia);
    for (unsigned flags : kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 16);
        const DAT_COUNT before = evd_param(evd).evd_qlen;
        waiter w(evd, 3);
        MUST(post_software(evd, 1));
        CHECK(same_type(dat_evd_resize(evd, 64), DAT_INVALID_STATE));
        CHECK(same_type(dat_evd_resize(evd, 2), DAT_INVALID_STATE));
        CHECK_FALSE(w.thread.finished());
        MUST(post_software(evd, 2));
        MUST(post_software(evd, 3));
        w.thread.join();
        CHECK(same_code(w.code, DAT_SUCCESS));
        CHECK(number_in(w.event) == 1);
        CHECK(w.more == 2);
        CHECK(evd_param(evd).evd_qlen == before);
        CHECK(same_code(dat_evd_resize(evd, 64), success));
    }
    if (kinds.empty())
        NOT_CLAIMED("resizing EVDs");
}

TEST_CASE("EVD-31: software events that are posted during resizes come out once and in order" *
          hint("change the queue without keeping those who post away") * needs("evd_resize"))
{
    adapter ia;
    constexpr std::uintptr_t total = 5000;
    const auto kinds = resizable_kinds(ia);
    for (unsigned flags : kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags, 8);
        helper_thread poster([&] {
            for (std::uintptr_t i = 0; i < total;)
                i += post_software(evd, i) == DAT_SUCCESS ? 1 : 0;
        });
        constexpr DAT_COUNT lengths[] = {64, 16, 300, 30};
        std::uintptr_t expected = 0;
        DAT_EVENT event{};
        for (std::size_t turn = 0; expected < total; ++turn) {
            const DAT_RETURN code = dat_evd_resize(evd, lengths[turn % 4]);
            if (code != DAT_SUCCESS) // more may be in it
                CHECK(same_type(code, DAT_INVALID_STATE));
            if (wait_event(evd, event) != DAT_SUCCESS || number_in(event) != expected)
                break;
            ++expected;
        }
        CHECK(expected == total);
        if (expected != total) // lets the poster end
            becomes_true([&] { return poster.finished() || (drain(evd, milliseconds(0)), false); });
    }
    if (kinds.empty())
        NOT_CLAIMED("resizing EVDs");
}

TEST_CASE("EVD-32: completions that arrive during resizes come out once and in order" *
          hint("replace the completion queue without moving what is in it, or forget that it was "
               "armed") *
          needs("evd_resize"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    if (refused(dat_evd_resize(to.recv_evd, 64)))
        NOT_CLAIMED("resizing EVDs of completions");
    constexpr int messages = 600;
    constexpr int ahead = 8;
    std::atomic<int> posted{0};
    for (; posted < ahead; ++posted)
        MUST(to.recv(0, 64, static_cast<std::uint64_t>(posted)));
    helper_thread sender([&] {
        DAT_EVENT event{};
        for (int sent = 0; sent < messages; ++sent)
            if (!becomes_true([&] { return posted > sent; }) || from.send(0, 64) != DAT_SUCCESS ||
                wait_event(from.request_evd, event) != DAT_SUCCESS)
                return;
    });
    constexpr DAT_COUNT lengths[] = {256, 20, 1000, 64};
    std::uint64_t expected = 0;
    DAT_EVENT event{};
    for (std::size_t turn = 0; expected < messages; ++turn) {
        CHECK(same_code(dat_evd_resize(to.recv_evd, lengths[turn % 4]), success));
        if (wait_event(to.recv_evd, event) != DAT_SUCCESS)
            break;
        const auto &got = event.event_data.dto_completion_event_data;
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(got.user_cookie.as_64 == expected++);
        if (posted < messages) {
            MUST(to.recv(0, 64, static_cast<std::uint64_t>(posted)));
            ++posted;
        }
    }
    CHECK(expected == messages);
    sender.join();
}

TEST_CASE("EVD-33: an EVD that was resized triggers its CNO as before" *
          hint("forget that the completion queue was armed") * needs("evd_resize"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &to = pair.passive;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    MUST(dat_evd_modify_cno(to.recv_evd, cno));
    for (DAT_COUNT qlen : {64, 500, 20}) {
        MUST(to.recv(0, 64));
        if (refused(dat_evd_resize(to.recv_evd, qlen)))
            NOT_CLAIMED("resizing EVDs of completions");
        MUST(pair.active.send(0, 64));
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        CHECK(same_code(dat_cno_wait(cno, microseconds(patience), &by), success));
        CHECK(by == to.recv_evd);
        CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
    MUST(dat_evd_modify_cno(to.recv_evd, DAT_HANDLE_NULL));
}

TEST_CASE("EVD-34: where an endpoint's flags choose what notifies, a threshold other than 1 is "
          "INVALID_STATE" *
          hint("wait for the threshold all the same, or answer INVALID_PARAMETER"))
{
    adapter ia;
    test_endpoint plain(ia);
    DAT_EP_ATTR attr = ep_param(plain.ep).ep_attr;
    endpoint_options options;
    options.attr = &attr;
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    const auto wait_for_two = [&](DAT_EVD_HANDLE evd) {
        return dat_evd_wait(evd, 0, 2, &event, &more);
    };
    const auto config = [](DAT_EVD_HANDLE evd) { return evd_param(evd).evd_state & 0x30; };
    const auto only_one = [&](test_endpoint &side, DAT_EVD_HANDLE evd, DAT_EVD_HANDLE other,
                              int why) {
        CHECK(config(evd) == why);
        CHECK(config(other) == DAT_EVD_STATE_CONFIG_THRESHOLD);
        CHECK(same_type(wait_for_two(evd), DAT_INVALID_STATE));
        CHECK(same_outcome(dat_evd_wait(evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED));
        CHECK(same_outcome(wait_for_two(other), DAT_TIMEOUT_EXPIRED));
        MUST(side.free_ep());
        CHECK(same_outcome(wait_for_two(evd), DAT_TIMEOUT_EXPIRED));
        CHECK(config(evd) == DAT_EVD_STATE_CONFIG_THRESHOLD);
    };
    for (const auto &[flag, why] :
         {std::pair{DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_EVD_STATE_CONFIG_SOLICITED},
          std::pair{DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_EVD_STATE_CONFIG_NOTIFY}}) {
        if (!supports(ia, flag))
            continue;
        attr.recv_completion_flags = flag;
        test_endpoint side(ia, options);
        only_one(side, side.recv_evd, side.request_evd, why);
    }
    attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    test_endpoint side(ia, options);
    only_one(side, side.request_evd, side.recv_evd, DAT_EVD_STATE_CONFIG_NOTIFY);
    CHECK(same_outcome(wait_for_two(plain.recv_evd), DAT_TIMEOUT_EXPIRED));
}

TEST_CASE("EVD-41: an unsignalled completion wakes no waiter, and counts for the next that does" *
          hint("take the flag and wake for every completion all the same"))
{
    adapter ia;
    if (!supports(ia, DAT_COMPLETION_UNSIGNALLED_FLAG))
        NOT_CLAIMED("unsignalled completions");
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    for (std::uint64_t i = 0; i < 4; ++i)
        MUST(pair.passive.recv(i * 64, 64));
    waiter w(from.request_evd);
    std::this_thread::sleep_for(a_while); // lets earlier messages arrive, which would end the wait
    for (std::uint64_t i = 0; i < 3; ++i) {
        MUST(from.send(0, 64, i, DAT_COMPLETION_UNSIGNALLED_FLAG));
        CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
        std::this_thread::sleep_for(a_while);
        CHECK_FALSE(w.thread.finished());
    }
    MUST(from.send(0, 64, 3));
    w.thread.join();
    CHECK(same_code(w.code, DAT_SUCCESS));
    CHECK(w.event.event_data.dto_completion_event_data.user_cookie.as_64 == 0);
    CHECK(w.more == 3);
    for (std::uint64_t i = 1; i < 4; ++i) {
        const auto done = next_dto(from.request_evd);
        CHECK(done.status == DAT_DTO_SUCCESS);
        CHECK(done.user_cookie.as_64 == i);
    }
}

TEST_CASE(
    "EVD-42: unsignalled completions that are there when a wait begins, or expires, satisfy it" *
    hint("ask for a notification before looking what there is"))
{
    adapter ia;
    if (!supports(ia, DAT_COMPLETION_UNSIGNALLED_FLAG))
        NOT_CLAIMED("unsignalled completions");
    flagged_pair pair(ia, DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG);
    MUST(pair.to.recv(0, 64));
    MUST(pair.to.recv(64, 64));
    MUST(pair.from.send(0, 64, 1));
    CHECK(next_dto(pair.to.recv_evd).status == DAT_DTO_SUCCESS);
    std::this_thread::sleep_for(a_while);
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    const DAT_EVD_HANDLE evd = pair.from.request_evd;
    CHECK(same_code(dat_evd_wait(evd, microseconds(patience), 1, &event, &more), DAT_SUCCESS));
    helper_thread sender([&] { MUST(pair.from.send(0, 64, 2)); });
    CHECK(same_code(dat_evd_wait(evd, microseconds(4 * a_while), 1, &event, &more), DAT_SUCCESS));
    CHECK(event.event_data.dto_completion_event_data.user_cookie.as_64 == 2);
    sender.join();
}

TEST_CASE("EVD-43: where receives are solicited, a waiter is woken by a message that asks for it" *
          hint("arm the completion queue for every receive, or for none") * needs("solicited_wait"))
{
    adapter ia;
    if (!supports(ia, DAT_COMPLETION_SOLICITED_WAIT_FLAG))
        NOT_CLAIMED("solicited receives");
    flagged_pair pair(ia, DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_DEFAULT_FLAG);
    constexpr std::uint64_t rounds = 3;
    for (std::uint64_t i = 0; i < 3 * rounds; ++i)
        MUST(pair.to.recv(i * 64, 64, i));
    for (std::uint64_t i = 0; i < 2 * rounds; i += 2) {
        waiter w(pair.to.recv_evd);
        std::this_thread::sleep_for(a_while); // lets earlier messages arrive, which would end the
                                              // wait
        pair.message(i);
        CHECK_FALSE(w.thread.finished());
        pair.message(i + 1, DAT_COMPLETION_SOLICITED_WAIT_FLAG);
        w.thread.join();
        CHECK(same_code(w.code, DAT_SUCCESS));
        CHECK(w.event.event_data.dto_completion_event_data.user_cookie.as_64 == i);
        CHECK(w.more == 1);
        CHECK(next_dto(pair.to.recv_evd).user_cookie.as_64 == i + 1);
    }
    for (std::uint64_t i = 2 * rounds; i < 3 * rounds; ++i) { // posts rounds with nothing before
                                                              // them
        waiter w(pair.to.recv_evd);
        std::this_thread::sleep_for(a_while);
        pair.message(i, DAT_COMPLETION_SOLICITED_WAIT_FLAG);
        // EVD-42 tests waits that end only when their time has passed.
        if (!becomes_true([&] { return w.thread.finished(); }, patience / 2))
            FAIL_CHECK("a message that asks for it woke no waiter");
        w.thread.join();
        CHECK(same_code(w.code, DAT_SUCCESS));
        CHECK(w.event.event_data.dto_completion_event_data.user_cookie.as_64 == i);
    }
}

TEST_CASE("EVD-44: receives that are flushed wake a waiter, solicited or not" *
          hint("count failures among what does not notify"))
{
    adapter ia;
    const auto flag = supports(ia, DAT_COMPLETION_SOLICITED_WAIT_FLAG)
                          ? DAT_COMPLETION_SOLICITED_WAIT_FLAG
                          : DAT_COMPLETION_UNSIGNALLED_FLAG;
    if (!supports(ia, flag))
        NOT_CLAIMED("flags that choose which completions notify");
    flagged_pair pair(ia, flag, DAT_COMPLETION_DEFAULT_FLAG);
    MUST(pair.to.recv(0, 64));
    waiter w(pair.to.recv_evd);
    MUST(dat_ep_disconnect(pair.from.ep, DAT_CLOSE_ABRUPT_FLAG));
    w.thread.join();
    CHECK(same_code(w.code, DAT_SUCCESS));
    CHECK(w.event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
}

TEST_CASE("EVD-45: the completion flags that the provider names are those that it takes" *
          hint("name fewer flags than posts and attributes take, or accept and ignore others"))
{
    adapter ia;
    connected_pair pair(ia);
    const auto refusal = [&](DAT_COMPLETION_FLAGS recv, DAT_COMPLETION_FLAGS request) {
        DAT_EP_ATTR attr = ep_param(pair.active.ep).ep_attr;
        attr.recv_completion_flags = recv;
        attr.request_completion_flags = request;
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        const DAT_RETURN code =
            dat_ep_create(ia.handle, pair.active.pz, pair.active.recv_evd, pair.active.request_evd,
                          pair.active.connect_evd, &attr, &ep);
        if (code == DAT_SUCCESS)
            MUST(dat_ep_free(ep));
        return code;
    };
    constexpr auto none = DAT_COMPLETION_DEFAULT_FLAG;
    const auto taken = [&](DAT_COMPLETION_FLAGS flag, DAT_RETURN code) {
        CAPTURE(flag);
        if (supports(ia, flag))
            CHECK(same_code(code, DAT_SUCCESS));
        else
            CHECK(code != DAT_SUCCESS);
    };
    taken(DAT_COMPLETION_SOLICITED_WAIT_FLAG, refusal(DAT_COMPLETION_SOLICITED_WAIT_FLAG, none));
    taken(DAT_COMPLETION_UNSIGNALLED_FLAG, refusal(DAT_COMPLETION_UNSIGNALLED_FLAG, none));
    taken(DAT_COMPLETION_UNSIGNALLED_FLAG, refusal(none, DAT_COMPLETION_UNSIGNALLED_FLAG));
    taken(DAT_COMPLETION_SUPPRESS_FLAG, refusal(none, DAT_COMPLETION_SUPPRESS_FLAG));
    for (const auto flag : {DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG}) {
        MUST(pair.passive.recv(0, 64));
        taken(flag, pair.active.send(0, 64, 1, flag));
        if (supports(ia, flag)) {
            // An unsignalled completion ends no wait.
            CHECK(poll_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
            CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
        }
    }
}

TEST_CASE("EVD-35: on one EVD, ESTABLISHED comes before the connection's messages, and its end "
          "behind them" *
          hint("deliver callbacks before completions, or the reverse, whatever happened first") *
          needs("merged_streams"))
{
    adapter ia;
    if (ia.provider.evd_stream_merging_supported[2][3] == DAT_FALSE)
        NOT_CLAIMED("DTO and connection events on one EVD");
    constexpr int receives = 4;
    constexpr int messages = 3;
    for (int round = 0; round < 20; ++round) {
        CAPTURE(round);
        test_endpoint one(ia);
        test_endpoint other(ia);
        const bool answers = round % 2 == 0; // the passive side sends, too, and ends it
        DAT_EVD_HANDLE evd_of[2];
        for (test_endpoint *side : {&one, &other}) {
            DAT_EVD_HANDLE &merged = evd_of[side == &other];
            merged = make_evd(ia, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
            remake(*side, merged, merged);
            for (std::uint64_t i = 0; i < receives; ++i)
                MUST(side->recv(i * 64, 64, i));
        }
        listener at(ia);
        MUST(one.connect(ia.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), other.ep, 0, nullptr));
        next_connection(evd_of[0], DAT_CONNECTION_EVENT_ESTABLISHED);
        for (int i = 0; i < messages; ++i)
            MUST(one.send(1024, 64));
        if (!answers)
            MUST(one.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
        next_connection(evd_of[1], DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_messages(evd_of[1], messages);
        if (answers) {
            for (int i = 0; i < messages; ++i)
                MUST(other.send(1024, 64));
            MUST(other.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
            expect_messages(evd_of[0], messages);
        }
        expect_end(evd_of[1], receives - messages);
        expect_end(evd_of[0], answers ? receives - messages : receives);
        MUST(one.free_ep());
        MUST(other.free_ep());
    }
}

TEST_CASE("EVD-36: a signal leaves the events where they are, and nmore says how many" *
          hint("leave nmore unset, or lose what was counted for the threshold"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    catch_signal(signal_kind::interrupting);
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        waiter w(evd, 3);
        MUST(post_software(evd, 1));
        MUST(post_software(evd, 2));
        CHECK(ends_by_signal(w.thread));
        if (!w.thread.finished())
            MUST(post_software(evd, 3));
        w.thread.join();
        CHECK(same_code(w.code, DAT_INTERRUPTED_CALL));
        CHECK(w.more == 2);
        for (std::uintptr_t number : {1, 2})
            CHECK(number_in(next_event(evd)) == number);
    }
}

TEST_CASE(
    "EVD-37: an EVD of completions grows as endpoints join it, with messages staged, in it "
    "and on their way" *
    hint("keep the completion queue as long as it was asked for first, or make a new one that "
         "the endpoints do not know") *
    needs("evd_resize"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG, 8);
    constexpr DAT_COUNT longest = 256;
    std::vector<std::unique_ptr<joined_peer>> peers;
    const auto got = [&](const DAT_EVENT &event) {
        const auto &done = event.event_data.dto_completion_event_data;
        CHECK(done.status == DAT_DTO_SUCCESS);
        CHECK((done.user_cookie.as_64 & UINT32_MAX) ==
              peers.at(done.user_cookie.as_64 >> 32)->received++);
    };
    DAT_COUNT held = 0;
    for (DAT_COUNT qlen = 8; qlen <= longest; qlen *= 2) {
        CAPTURE(qlen);
        const std::uint64_t number = peers.size();
        peers.push_back(std::make_unique<joined_peer>(ia, evd, longest));
        const auto each = static_cast<DAT_COUNT>((qlen - held) / (number + 1));
        for (std::uint64_t who = 0; who <= number; ++who)
            for (DAT_COUNT i = 0; i < each; ++i, ++held)
                MUST(peers[who]->to.recv(0, 64, who << 32 | peers[who]->posted++));
        helper_thread senders([&] {
            DAT_EVENT event{};
            for (DAT_COUNT i = 0; i < each; ++i)
                for (const auto &peer : peers)
                    if (peer->from.send(0, 64) != DAT_SUCCESS ||
                        wait_event(peer->from.request_evd, event) != DAT_SUCCESS)
                        return;
        });
        const DAT_RETURN code = dat_evd_resize(evd, 2 * qlen);
        if (refused(code))
            NOT_CLAIMED("resizing EVDs of completions");
        CHECK(same_code(code, success));
        CHECK(evd_param(evd).evd_qlen >= 2 * qlen);
        DAT_EVENT first{};
        DAT_COUNT more = 0;
        MUST(dat_evd_wait(evd, microseconds(patience), held, &first, &more));
        CHECK(more == --held);
        got(first);
        for (; held > qlen / 2; --held)
            got(next_event(evd));
        senders.join();
    }
    CHECK(same_code(dat_evd_resize(evd, held), success));
    for (; held > 0; --held)
        got(next_event(evd));
    CHECK(stays_empty(evd, milliseconds(0)));
    for (const auto &peer : peers)
        MUST(peer->to.free_ep());
}

TEST_CASE(
    "EVD-38: completions without room are not lost silently: each arrives, or an EVD_OVERFLOW "
    "does" *
    hint("make the completion queue too short for its own bookkeeping, or drop what does not "
         "fit"))
{
    constexpr std::uint64_t writes = 9;
    adapter ia;
    test_endpoint to(ia);
    test_endpoint from(ia);
    const DAT_EVD_HANDLE tiny = make_evd(ia, DAT_EVD_DTO_FLAG, 1);
    MUST(from.free_ep());
    MUST(dat_ep_create(ia.handle, from.pz, from.recv_evd, tiny, from.connect_evd, nullptr,
                       &from.ep));
    establish(from, to);
    for (std::uint64_t i = 0; i < writes; ++i) {
        MUST(from.write(0, 4096, to.memory.remote(0, 4096), i));
        std::this_thread::sleep_for(milliseconds(1));
    }
    std::vector<DAT_EVENT> come;
    DAT_EVENT event{};
    bool overflow = false;
    becomes_true([&] {
        while (dat_evd_dequeue(tiny, &event) == DAT_SUCCESS)
            come.push_back(event);
        overflow = overflow || (dat_evd_dequeue(ia.async, &event) == DAT_SUCCESS &&
                                event.event_number == DAT_ASYNC_ERROR_EVD_OVERFLOW &&
                                event.event_data.asynch_error_event_data.dat_handle == tiny);
        return overflow || come.size() == writes;
    });
    if (!overflow && come.size() != writes)
        FAIL_CHECK(come.size(), " of ", writes, " completions come, and no EVD_OVERFLOW");
    // Behind a gap more may come, into the room that was made meanwhile.
    for (std::uint64_t i = 0, next = 0; i < come.size(); ++i) {
        const auto number = come[i].event_data.dto_completion_event_data.user_cookie.as_64;
        CHECK(number >= next);
        CHECK((overflow || number == i));
        next = number + 1;
    }
    MUST(from.free_ep());
}

TEST_CASE("EVD-39: a cancelled waiter leaves its EVD as if it had not waited" *
          hint("keep the waiter's mark, or a lock, when pthread_cancel ends the thread that waits; "
               "or sleep where it cannot be cancelled"))
{
    if (!threads_are_cancelled)
        NOT_CLAIMED("cancelled threads: this system has none");
    if (instrumented())
        NOT_CLAIMED("cancelled threads: sanitizers lose sight of a stack that unwinds in C");
    for (const cancel_type type : cancel_types)
        for (unsigned flags :
             {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG | 0u,
              DAT_EVD_DTO_FLAG | 0u, DAT_EVD_CR_FLAG | 0u}) {
            CAPTURE(static_cast<int>(type));
            CAPTURE(flags);
            adapter ia;
            const DAT_EVD_HANDLE evd = make_evd(ia, flags);
            helper_thread waiting([&] {
                DAT_EVENT event{};
                DAT_COUNT more = 0;
                accept_cancellation(type);
                for (;;)
                    (void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
            });
            waiting.await_asleep();
            REQUIRE(ends_by_cancel(waiting));
            DAT_EVENT event{};
            CHECK(same_code(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY));
            if ((flags & DAT_EVD_SOFTWARE_FLAG) != 0) {
                MUST(post_software(evd, 5));
                CHECK(number_in(next_event(evd)) == 5);
            }
            CHECK(same_code(dat_evd_free(evd), success));
            CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), success));
        }
}

TEST_CASE("EVD-40: a waiter that is cancelled while messages come loses none of them" *
          hint("take a completion for a waiter that does not return"))
{
    if (!threads_are_cancelled)
        NOT_CLAIMED("cancelled threads: this system has none");
    if (instrumented())
        NOT_CLAIMED("cancelled threads: sanitizers lose sight of a stack that unwinds in C");
    adapter ia;
    connected_pair pair(ia);
    constexpr std::uint64_t rounds = 60;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        CAPTURE(round);
        MUST(pair.passive.recv(0, 64, round));
        std::atomic<bool> taken{false};
        helper_thread waiting([&] {
            DAT_EVENT event{};
            DAT_COUNT more = 0;
            (void)dat_evd_wait(pair.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
            taken = event.event_data.dto_completion_event_data.user_cookie.as_64 == round;
        });
        if (round % 3 == 0)
            waiting.await_asleep();
        MUST(pair.active.send(0, 64));
        REQUIRE(ends_by_cancel(waiting));
        if (!taken)
            CHECK(next_dto(pair.passive.recv_evd).user_cookie.as_64 == round);
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
}

TEST_CASE("EVD-57: on one EVD, the end of a connection that broke comes behind its last success" *
          hint("deliver the error of a connection before the completions that came before it") *
          needs("merged_streams"))
{
    adapter ia;
    if (ia.provider.evd_stream_merging_supported[2][3] == DAT_FALSE)
        NOT_CLAIMED("DTO and connection events on one EVD");
    constexpr int receives = 4;
    constexpr int messages = 3;
    for (int round = 0; round < 10; ++round) {
        CAPTURE(round);
        test_endpoint one(ia);
        test_endpoint other(ia);
        const DAT_EVD_HANDLE merged = make_evd(ia, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
        remake(other, merged, merged);
        for (std::uint64_t i = 0; i < receives; ++i)
            MUST(other.recv(i * 64, 64, i));
        listener at(ia);
        MUST(one.connect(ia.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), other.ep, 0, nullptr));
        next_connection(one.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        for (int i = 0; i < messages; ++i)
            MUST(one.send(1024, 64));
        MUST(one.send(1024, 65));                     // does not fit: the peer ends the connection
        (void)collect(one.request_evd, messages + 1); // some notice a failure only by these
        CHECK(ends_connection(next_event(one.connect_evd).event_number)); // all has happened
        next_connection(merged, DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_messages(merged, messages);
        int ends = 0;
        for (int i = 0; i < 2; ++i) {
            const DAT_EVENT event = next_event(merged);
            if (ends_connection(event.event_number))
                ++ends;
            else
                CHECK(event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS);
        }
        CHECK(ends == 1);
        CHECK(stays_empty(merged, milliseconds(1)));
        MUST(one.free_ep());
        MUST(other.free_ep());
    }
}

TEST_CASE("EVD-58: completions that wait in an EVD outlive its resize" * needs("evd_resize") *
          hint("replace the completion queue without moving what is in it"))
{
    adapter ia;
    connected_pair pair(ia);
    if (refused(dat_evd_resize(pair.passive.recv_evd, 64)))
        NOT_CLAIMED("resizing EVDs of completions");
    constexpr std::uint64_t messages = 8;
    for (std::uint64_t i = 0; i < messages; ++i)
        MUST(pair.passive.recv(i * 64, 64, i));
    for (std::uint64_t i = 0; i < messages; ++i)
        MUST(pair.active.send(0, 64, i));
    CHECK(collect(pair.active.request_evd, messages).size() == messages);
    std::this_thread::sleep_for(a_while);
    MUST(dat_evd_resize(pair.passive.recv_evd, 512));
    MUST(dat_evd_resize(pair.passive.recv_evd, 16));
    const auto left = collect(pair.passive.recv_evd, messages);
    if (left.size() != messages)
        FAIL_CHECK(left.size(), " of ", messages, " completions outlive the resize");
    for (std::uint64_t i = 0; i < left.size(); ++i)
        CHECK(left[i].event_data.dto_completion_event_data.user_cookie.as_64 == i);
}

TEST_CASE("EVD-59: a wait goes on after a signal whose handler has SA_RESTART, with the time that "
          "is left" *
          hint("end every wait after EINTR, restart the clock, or hold the handler back until the "
               "wait has ended"))
{
    if (puts_handlers_off())
        NOT_CLAIMED("handlers during a wait: ThreadSanitizer runs them behind it");
    catch_signal(signal_kind::restarting);
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        for (const DAT_TIMEOUT timeout : {microseconds(patience), DAT_TIMEOUT_INFINITE})
            for (const DAT_COUNT threshold : {1, 2}) {
                CAPTURE(threshold);
                waiter w(evd, threshold, timeout);
                if (threshold == 2)
                    MUST(post_software(evd, 1));
                CHECK(outlives_signals(w.thread));
                for (DAT_COUNT i = 0; i < threshold; ++i)
                    MUST(post_software(evd, 1));
                w.thread.join();
                CHECK(same_code(w.code, DAT_SUCCESS));
                (void)collect(evd, 3);
            }
        const auto began = std::chrono::steady_clock::now();
        waiter timed(evd, 1, microseconds(3 * a_while));
        CHECK(ends_despite_signals(timed.thread));
        if (!timed.thread.finished())
            MUST(post_software(evd, 1));
        timed.thread.join();
        CHECK(same_outcome(timed.code, DAT_TIMEOUT_EXPIRED));
        CHECK(std::chrono::steady_clock::now() - began >= 3 * a_while);
    }
}

TEST_CASE("EVD-60: of handlers with and without SA_RESTART, the one that ran decides about a wait" *
          hint("go by what handlers there are: end each wait, or none, when there are both kinds"))
{
    if (!waits_are_interrupted)
        NOT_CLAIMED("interrupted waits: this system has no signals");
    if (puts_handlers_off())
        NOT_CLAIMED("handlers during a wait: ThreadSanitizer runs them behind it");
    catch_signal(signal_kind::interrupting);
    catch_signal(signal_kind::restarting);
    adapter ia;
    for (unsigned flags : both_kinds) {
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        for (const DAT_TIMEOUT timeout : {microseconds(patience), DAT_TIMEOUT_INFINITE}) {
            waiter w(evd, 1, timeout);
            CHECK(outlives_signals(w.thread));
            if (!w.thread.finished())
                CHECK(ends_by_signal(w.thread));
            if (!w.thread.finished())
                MUST(post_software(evd, 1));
            w.thread.join();
            CHECK(same_code(w.code, DAT_INTERRUPTED_CALL));
        }
    }
}

TEST_CASE("EVD-61: a wait that ends while messages come loses none of them" *
          hint("take a completion for a waiter whose time is over, or whose EVD has become "
               "unwaitable"))
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_EVD_HANDLE evd = pair.passive.recv_evd;
    constexpr std::uint64_t rounds = 120;
    constexpr std::uint64_t none = UINT64_MAX;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        CAPTURE(round);
        const bool by_time = round % 2 == 0;
        const DAT_TIMEOUT time =
            by_time ? static_cast<DAT_TIMEOUT>(100 * (round % 10)) : microseconds(patience);
        MUST(pair.passive.recv(0, 64, round));
        std::atomic<std::uint64_t> taken{none};
        helper_thread waiting([&] {
            DAT_EVENT event{};
            DAT_COUNT more = 0;
            if (dat_evd_wait(evd, time, 1, &event, &more) == DAT_SUCCESS)
                taken = event.event_data.dto_completion_event_data.user_cookie.as_64;
        });
        MUST(pair.active.send(0, 64));
        if (!by_time)
            MUST(dat_evd_set_unwaitable(evd));
        waiting.join();
        MUST(dat_evd_clear_unwaitable(evd));
        if (taken == none)
            taken = next_dto(evd).user_cookie.as_64;
        CHECK(taken == round);
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
}

} // namespace conformance
