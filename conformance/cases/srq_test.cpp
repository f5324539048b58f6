// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues: receives that several endpoints draw from.
#include "harness/support.hpp"

#include "harness/holdings.hpp"

#include <dat2/dat_ib_extensions.h>

#include <algorithm>
#include <set>

namespace conformance {

namespace {

constexpr DAT_COUNT depth = 32;
constexpr std::size_t slot = 256; ///< bytes of memory for each receive

bool offered(const adapter &ia)
{
    return ia.provider.srq_supported != DAT_FALSE;
}

/// Skips a case if the adapter lacks SRQs: REG-08 checks the refusal.
#define NEED_SRQ(ia)                                                                               \
    do {                                                                                           \
        if (!offered(ia))                                                                          \
            NOT_CLAIMED("shared receive queues");                                                  \
    } while (false)

/// A queue with zone and memory of its own; the cookie of a receive is its place there.
class shared_pool {
public:
    explicit shared_pool(adapter &on, DAT_COUNT max_recv = depth)
        : ia(on), pz(make_pz(on)), memory(on, pz, 2 * static_cast<std::size_t>(depth) * slot)
    {
        DAT_SRQ_ATTR attr{max_recv, 1, DAT_SRQ_LW_DEFAULT};
        MUST(dat_srq_create(ia.handle, pz, &attr, &srq));
    }
    shared_pool(const shared_pool &) = delete;
    shared_pool &operator=(const shared_pool &) = delete;
    ~shared_pool()
    {
        if (!ia.is_open())
            return;
        (void)dat_srq_free(srq);
        memory.free();
        (void)dat_pz_free(pz);
    }

    DAT_RETURN post(std::uint64_t place)
    {
        DAT_LMR_TRIPLET local = memory.local(place * slot, slot);
        return dat_srq_post_recv(srq, 1, &local, cookie_of(place));
    }
    void post_some(std::uint64_t first, std::uint64_t number)
    {
        for (std::uint64_t i = 0; i < number; ++i)
            MUST(post(first + i));
    }
    DAT_SRQ_PARAM param() const
    {
        DAT_SRQ_PARAM found{};
        MUST(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &found));
        return found;
    }

    adapter &ia;
    DAT_PZ_HANDLE pz;
    region memory;
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
};

/// An endpoint that draws from the pool, connected to an endpoint that does not.
class customer {
public:
    explicit customer(shared_pool &of, const DAT_EP_ATTR *attr = nullptr)
        : ia(of.ia), recv_evd(make_evd(ia, DAT_EVD_DTO_FLAG, 2 * depth)),
          request_evd(make_evd(ia, DAT_EVD_DTO_FLAG)),
          connect_evd(make_evd(ia, DAT_EVD_CONNECTION_FLAG)), peer(ia)
    {
        MUST(dat_ep_create_with_srq(ia.handle, of.pz, recv_evd, request_evd, connect_evd, of.srq,
                                    attr, &ep));
        connect();
    }
    customer(const customer &) = delete;
    customer &operator=(const customer &) = delete;
    ~customer()
    {
        if (!ia.is_open())
            return;
        (void)free_ep();
        for (DAT_EVD_HANDLE evd : {recv_evd, request_evd, connect_evd})
            (void)dat_evd_free(evd);
    }

    void connect()
    {
        listener at(ia);
        MUST(peer.connect(ia.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), ep, 0, nullptr));
        next_connection(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_connection(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    /// Both sides are told.
    DAT_RETURN disconnect()
    {
        const DAT_RETURN code = dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG);
        next_connection(connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        CHECK(ends_connection(next_event(peer.connect_evd).event_number));
        return code;
    }
    DAT_RETURN free_ep()
    {
        const DAT_RETURN code = ep == DAT_HANDLE_NULL ? success : dat_ep_free(ep);
        if (code == DAT_SUCCESS)
            ep = DAT_HANDLE_NULL;
        return code;
    }
    /// What the peer sends arrives in a receive of the pool; which, is the answer.
    std::uint64_t take_one(const shared_pool &of, unsigned seed)
    {
        peer.memory.fill(0, slot, seed);
        MUST(peer.send(0, slot));
        CHECK(next_dto(peer.request_evd).status == DAT_DTO_SUCCESS);
        const auto got = next_dto(recv_evd);
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(got.transfered_length == slot);
        CHECK(got.ep_handle == ep);
        CHECK(of.memory.holds(got.user_cookie.as_64 * slot, slot, seed));
        return got.user_cookie.as_64;
    }

    adapter &ia;
    DAT_EVD_HANDLE recv_evd;
    DAT_EVD_HANDLE request_evd;
    DAT_EVD_HANDLE connect_evd;
    test_endpoint peer;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("SRQ-01: create checks its arguments" * needs("srq") *
          hint("pass sizes of zero, or beyond the adapter's limit, on to the device"))
{
    adapter ia;
    NEED_SRQ(ia);
    const DAT_PZ_HANDLE pz = make_pz(ia);
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_SRQ_ATTR attr{16, 1, DAT_SRQ_LW_DEFAULT};
    CHECK(same_code(dat_srq_create(DAT_HANDLE_NULL, pz, &attr, &srq),
                    bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(same_code(dat_srq_create(ia.handle, DAT_HANDLE_NULL, &attr, &srq),
                    bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(dat_srq_create(ia.handle, pz, nullptr, &srq), bad_arg(3)));
    CHECK(same_code(dat_srq_create(ia.handle, pz, &attr, nullptr), bad_arg(4)));
    for (const DAT_SRQ_ATTR &wrong :
         {DAT_SRQ_ATTR{0, 1, 0}, DAT_SRQ_ATTR{-1, 1, 0}, DAT_SRQ_ATTR{16, 0, 0},
          DAT_SRQ_ATTR{16, 1, 17}, DAT_SRQ_ATTR{16, 1, -1},
          DAT_SRQ_ATTR{ia.attr.max_recv_per_srq + 1, 1, 0}}) {
        CAPTURE(wrong.max_recv_dtos);
        CAPTURE(wrong.low_watermark);
        DAT_SRQ_ATTR given = wrong;
        CHECK(same_code(dat_srq_create(ia.handle, pz, &given, &srq), bad_arg(3)));
    }
    CHECK(srq == DAT_HANDLE_NULL);
}

TEST_CASE("SRQ-02: a query answers what the queue was made with, and how much is posted" *
          needs("srq") * hint("count receives that were taken already"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    CHECK(all.param().ia_handle == ia.handle);
    CHECK(all.param().pz_handle == all.pz);
    CHECK(all.param().srq_state == DAT_SRQ_STATE_OPERATIONAL);
    CHECK(all.param().max_recv_dtos >= depth);
    CHECK(all.param().low_watermark == DAT_SRQ_LW_DEFAULT);
    all.post_some(0, 5);
    const DAT_COUNT outstanding = all.param().outstanding_dto_count;
    CHECK((outstanding == 5 || outstanding == DAT_VALUE_UNKNOWN));
    customer one(all);
    (void)one.take_one(all, 1);
    (void)one.take_one(all, 2);
    const DAT_COUNT left = all.param().outstanding_dto_count;
    CHECK((left == 3 || (left == DAT_VALUE_UNKNOWN && outstanding == DAT_VALUE_UNKNOWN)));
    if (ia.provider.srq_info_supported != 0)
        CHECK(left == 3);
    DAT_SRQ_PARAM param{};
    CHECK(same_code(dat_srq_query(all.srq, DAT_SRQ_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_srq_query(all.srq, static_cast<DAT_SRQ_PARAM_MASK>(0x100), &param),
                    bad_arg(2)));
}

TEST_CASE("SRQ-03: endpoints draw from one queue, and each event names who took the receive" *
          needs("srq") *
          hint("report the endpoint of the work request, not that of the completion"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 8);
    std::set<std::uint64_t> taken;
    for (unsigned i = 0; i < 8; ++i)
        taken.insert((i % 3 == 0 ? one : two).take_one(all, i));
    CHECK(taken.size() == 8);
    CHECK(stays_empty(one.recv_evd, milliseconds(1)));
    CHECK(stays_empty(two.recv_evd, milliseconds(1)));
}

TEST_CASE("SRQ-04: receives can be posted again and again" * needs("srq") *
          hint("run out of work requests, because shared ones complete out of order"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, depth);
    for (unsigned i = 0; i < 10 * depth; ++i)
        MUST(all.post((i % 2 == 0 ? one : two).take_one(all, i)));
}

TEST_CASE("SRQ-05: a full queue is INSUFFICIENT_RESOURCES, and loses nothing" * needs("srq") *
          hint("overwrite the oldest receive, or count against the wrong limit"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    std::uint64_t posted = 0;
    DAT_RETURN code = DAT_SUCCESS;
    while (posted < 2 * depth && (code = all.post(posted)) == DAT_SUCCESS)
        ++posted;
    CHECK(posted >= depth); // a device may have given more
    if (posted < 2 * depth)
        CHECK(same_type(code, DAT_INSUFFICIENT_RESOURCES));
    for (unsigned i = 0; i < depth; ++i)
        (void)one.take_one(all, i);
}

TEST_CASE("SRQ-06: an endpoint with a shared queue has no receives of its own" * needs("srq") *
          hint("post the receive to a queue that the device does not look at"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    DAT_LMR_TRIPLET local = all.memory.local(0, slot);
    CHECK(same_code(dat_ep_post_recv(one.ep, 1, &local, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG),
                    bad_state(DAT_INVALID_STATE_SRQ_IN_USE)));
    CHECK(ep_param(one.ep).srq_handle == all.srq);
}

TEST_CASE("SRQ-07: a queue that an endpoint uses is not freed, nor its zone" * needs("srq") *
          hint("free the queue below a connected endpoint"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    {
        customer one(all);
        CHECK(same_code(dat_srq_free(all.srq), bad_state(DAT_INVALID_STATE_SRQ_IN_USE)));
        all.post_some(0, 1);
        (void)one.take_one(all, 1);
    }
    CHECK(same_code(dat_pz_free(all.pz), bad_state(DAT_INVALID_STATE_PZ_IN_USE)));
    all.post_some(0, 3); // discarded
    const DAT_SRQ_HANDLE stale = all.srq;
    MUST(dat_srq_free(all.srq));
    CHECK(same_code(dat_srq_free(stale), bad_handle(DAT_INVALID_HANDLE_SRQ)));
    CHECK(same_code(all.post(0), bad_handle(DAT_INVALID_HANDLE_SRQ)));
}

TEST_CASE("SRQ-08: a resize keeps what is posted, and refuses to go below it" * needs("srq") *
          hint("lose receives when the queue moves"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia, depth / 2);
    customer one(all);
    all.post_some(0, depth / 2);
    CHECK(same_code(dat_srq_resize(all.srq, 0), bad_arg(2)));
    const DAT_RETURN code = dat_srq_resize(all.srq, depth);
    if (refused(code))
        NOT_CLAIMED("resizing of shared receive queues");
    MUST(code);
    CHECK(all.param().max_recv_dtos >= depth);
    all.post_some(depth / 2, depth / 2);
    CHECK(same_type(dat_srq_resize(all.srq, depth / 2), DAT_INVALID_STATE));
    std::set<std::uint64_t> taken;
    for (unsigned i = 0; i < depth; ++i)
        taken.insert(one.take_one(all, i));
    CHECK(taken.size() == depth);
    MUST(dat_srq_resize(all.srq, depth / 2));
}

TEST_CASE("SRQ-09: falling below the low watermark raises one event per arming" * needs("srq") *
          hint("raise it for every receive that is taken, one too early or too late, or never a "
               "second time"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    all.post_some(0, 8);
    CHECK(same_code(dat_srq_set_lw(all.srq, depth * 1000), bad_arg(2)));
    for (int round = 0; round < 2; ++round) {
        const DAT_RETURN code = dat_srq_set_lw(all.srq, 4);
        if (refused(code))
            NOT_CLAIMED("watermarks of shared receive queues");
        MUST(code);
        CHECK(stays_empty(ia.async, milliseconds(30)));
        std::vector<std::uint64_t> taken;
        for (unsigned i = 0; i < 4; ++i)
            taken.push_back(one.take_one(all, i));
        CHECK(stays_empty(ia.async, milliseconds(30))); // at the watermark, not below
        taken.push_back(one.take_one(all, 4));
        const auto told = next_event(ia.async, "event of a queue below its low watermark")
                              .event_data.asynch_error_event_data;
        CHECK(told.dat_handle == all.srq);
        CHECK(told.reason == DAT_SRQ_LOW_WATERMARK_EVENT);
        taken.push_back(one.take_one(all, 5));
        CHECK(stays_empty(ia.async));
        for (const std::uint64_t place : taken)
            MUST(all.post(place));
    }
}

TEST_CASE("SRQ-10: a connection that ends leaves the shared receives to the others" * needs("srq") *
          hint("flush the shared queue with the endpoint"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 4);
    MUST(dat_ep_disconnect(one.ep, DAT_CLOSE_ABRUPT_FLAG));
    CHECK(same_event(next_event(one.connect_evd).event_number, DAT_CONNECTION_EVENT_DISCONNECTED));
    CHECK(ends_connection(next_event(one.peer.connect_evd).event_number));
    CHECK(stays_empty(one.recv_evd));
    for (unsigned i = 0; i < 4; ++i)
        (void)two.take_one(all, i);
}

TEST_CASE("SRQ-11: an endpoint is reset and connects again with the same shared queue" *
          needs("srq") * hint("make the new queue pair without the shared queue"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    all.post_some(0, 8);
    for (unsigned round = 0; round < 3; ++round) {
        (void)one.take_one(all, round);
        MUST(dat_ep_disconnect(one.ep, DAT_CLOSE_ABRUPT_FLAG));
        next_connection(one.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        CHECK(ends_connection(next_event(one.peer.connect_evd).event_number));
        MUST(dat_ep_reset(one.ep));
        MUST(dat_ep_reset(one.peer.ep));
        one.connect();
    }
    (void)one.take_one(all, 9);
}

TEST_CASE("SRQ-12: a message too long for its receive ends one connection only" * needs("srq") *
          hint("put the shared queue in error, and all its endpoints with it"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 2);
    MUST(one.peer.send(0, slot + 1));
    CHECK(ends_connection(next_event(one.connect_evd).event_number));
    CHECK(ends_connection(next_event(one.peer.connect_evd).event_number));
    all.post_some(2, 2);
    (void)two.take_one(all, 7);
    CHECK(all.param().srq_state == DAT_SRQ_STATE_OPERATIONAL);
}

TEST_CASE("SRQ-13: endpoint and shared queue are of one zone, unless the adapter says otherwise" *
          needs("srq") * hint("look at the zone of neither"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    test_endpoint own(ia);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&](DAT_PZ_HANDLE pz, DAT_SRQ_HANDLE srq, DAT_EP_HANDLE *out) {
        return dat_ep_create_with_srq(ia.handle, pz, own.recv_evd, own.request_evd, own.connect_evd,
                                      srq, nullptr, out);
    };
    CHECK(same_code(create(all.pz, DAT_HANDLE_NULL, &ep), bad_handle(DAT_INVALID_HANDLE_SRQ)));
    CHECK(same_code(create(all.pz, own.ep, &ep), bad_handle(DAT_INVALID_HANDLE_SRQ)));
    CHECK(same_code(create(all.pz, all.srq, nullptr), bad_arg(8)));
    if (ia.provider.srq_ep_pz_difference_supported == DAT_FALSE)
        CHECK(same_type(create(own.pz, all.srq, &ep), DAT_INVALID_PARAMETER));
    CHECK(ep == DAT_HANDLE_NULL);
    MUST(create(all.pz, all.srq, &ep));
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = own.pz;
    if (ia.provider.srq_ep_pz_difference_supported == DAT_FALSE)
        CHECK(same_type(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &wanted), DAT_INVALID_PARAMETER));
    MUST(dat_ep_free(ep));
}

TEST_CASE("SRQ-14: an adapter closes gracefully without shared queues only, abruptly with them" *
          needs("srq") * hint("forget the shared queues among what keeps an adapter in use"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), bad_state(DAT_INVALID_STATE_IA_IN_USE)));
    customer one(all);
    all.post_some(0, 4);
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), success));
}

TEST_CASE("SRQ-15: a queue that runs dry under a stream delays it, and loses and breaks nothing" *
          needs("srq") *
          hint("repeat only the message that found no receive, not those that came behind it"))
{
    constexpr std::uint64_t messages = 120;
    constexpr std::uint64_t outstanding = 12;
    constexpr std::size_t size = 64;
    for (const std::uint64_t receives : {1, 5}) {
        CAPTURE(receives);
        adapter ia;
        NEED_SRQ(ia);
        shared_pool all(ia);
        customer one(all);
        std::uint64_t sent = 0;
        std::uint64_t done = 0;
        const auto keep_sending = [&] {
            for (; sent < messages && sent - done < outstanding; ++sent) {
                const std::size_t place = sent % outstanding * size;
                one.peer.memory.fill(place, size, static_cast<unsigned>(sent));
                MUST(one.peer.send(place, size, sent));
            }
        };
        const auto take_sent = [&] {
            CHECK(next_dto(one.peer.request_evd).status == DAT_DTO_SUCCESS);
            ++done;
        };
        keep_sending();
        for (std::uint64_t got = 0; got < messages; ++got) {
            if (got % receives == 0) {
                std::this_thread::sleep_for(milliseconds(1)); // the queue runs empty in this time
                all.post_some(0, receives);
            }
            const auto message = next_dto(one.recv_evd);
            CHECK(message.status == DAT_DTO_SUCCESS);
            CHECK(message.transfered_length == size);
            CHECK(all.memory.holds(message.user_cookie.as_64 * slot, size,
                                   static_cast<unsigned>(got)));
            take_sent();
            keep_sending();
        }
        CHECK(stays_empty(one.connect_evd, milliseconds(1)));
        CHECK(stays_empty(one.peer.connect_evd, milliseconds(1)));
    }
}

namespace {

constexpr DAT_COUNT no_limit = DAT_WATERMARK_INFINITE;

/// Skips a case if endpoints have no limits on receives from an SRQ: REG-08 and SRQ-19 check the
/// refusal.
#define NEED_WATERMARKS(ia)                                                                        \
    do {                                                                                           \
        NEED_SRQ(ia);                                                                              \
        if ((ia).provider.ep_recv_info_supported == 0 ||                                           \
            (ia).provider.srq_watermarks_supported < 2)                                            \
            NOT_CLAIMED("high watermarks of endpoints");                                           \
    } while (false)

/// What an endpoint holds of its shared queue, and checks that the span agrees: nothing is missing
/// in between once all messages are there.
DAT_COUNT held_by(DAT_EP_HANDLE ep)
{
    DAT_COUNT buffers = -5;
    DAT_COUNT span = -5;
    MUST(dat_ep_recv_query(ep, &buffers, &span));
    CHECK(span >= buffers);
    return buffers;
}

/// The peer sends, and the receives are left where they complete.
void send_some(customer &to, unsigned number)
{
    const DAT_COUNT before = held_by(to.ep);
    for (unsigned i = 0; i < number; ++i) {
        MUST(to.peer.send(0, slot));
        CHECK(next_dto(to.peer.request_evd).status == DAT_DTO_SUCCESS);
    }
    const DAT_COUNT then = before + static_cast<DAT_COUNT>(number);
    CHECK(becomes_true([&] { return held_by(to.ep) == then; }));
}

void take_received(customer &of, unsigned number)
{
    for (unsigned i = 0; i < number; ++i)
        CHECK(next_dto(of.recv_evd).status == DAT_DTO_SUCCESS);
}

void expect_watermark(const adapter &ia, DAT_EP_HANDLE ep)
{
    const auto told = next_event(ia.async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
    CHECK(told.event_data.asynch_error_event_data.dat_handle == ep);
    CHECK(told.event_data.asynch_error_event_data.reason == DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    CHECK(stays_empty(ia.async, milliseconds(20)));
}

/// The connection of one customer is broken, once.
void expect_cut(const adapter &ia, customer &of)
{
    CHECK(same_event(next_event(of.connect_evd).event_number, DAT_CONNECTION_EVENT_BROKEN));
    CHECK(ends_connection(next_event(of.peer.connect_evd).event_number));
    CHECK(state_of(of.ep) == DAT_EP_STATE_DISCONNECTED);
    const auto told = next_event(ia.async, DAT_ASYNC_ERROR_EP_BROKEN); // it takes no more
    CHECK(told.event_data.asynch_error_event_data.dat_handle == of.ep);
    CHECK(stays_empty(of.connect_evd, milliseconds(20)));
}

} // namespace

TEST_CASE("SRQ-16: a receive counts as its endpoint's from the message to the completion" *
          needs("ep_watermarks") *
          hint("count what is posted to the shared queue, or the receives of all endpoints"))
{
    adapter ia;
    NEED_WATERMARKS(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 8);
    CHECK(held_by(one.ep) == 0);
    send_some(one, 3);
    send_some(two, 1);
    CHECK(held_by(one.ep) == 3);
    CHECK(same_code(dat_ep_recv_query(one.ep, nullptr, nullptr), success));
    take_received(one, 2);
    CHECK(held_by(one.ep) == 1);
    take_received(one, 1);
    take_received(two, 1);
    CHECK(held_by(one.ep) == 0);
    CHECK(held_by(two.ep) == 0);
    CHECK(all.param().outstanding_dto_count == 4);
}

TEST_CASE("SRQ-17: passing the soft high watermark raises one event per setting" *
          needs("ep_watermarks") *
          hint("raise it for every receive above, at the watermark itself, or never again"))
{
    adapter ia;
    NEED_WATERMARKS(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 16);
    MUST(dat_ep_set_watermark(one.ep, 2, no_limit));
    send_some(two, 4); // goes to another endpoint
    send_some(one, 2);
    CHECK(stays_empty(ia.async, milliseconds(30)));
    send_some(one, 1);
    expect_watermark(ia, one.ep);
    send_some(one, 1);
    take_received(one, 4);
    send_some(one, 3);
    CHECK(stays_empty(ia.async, milliseconds(30)));
    MUST(dat_ep_set_watermark(one.ep, 2, no_limit)); // it holds more already
    expect_watermark(ia, one.ep);
    MUST(dat_ep_set_watermark(one.ep, 3, no_limit));
    MUST(dat_ep_set_watermark(one.ep, no_limit, no_limit));
    send_some(one, 2);
    CHECK(stays_empty(ia.async, milliseconds(30)));
    CHECK(state_of(one.ep) == DAT_EP_STATE_CONNECTED);
}

TEST_CASE("SRQ-18: an endpoint that needs more than its hard high watermark loses its connection" *
          needs("ep_watermarks") *
          hint("break it at the watermark itself, only report it, or take the receive as well"))
{
    adapter ia;
    NEED_WATERMARKS(ia);
    shared_pool all(ia);
    customer one(all);
    customer two(all);
    all.post_some(0, 5);
    MUST(dat_ep_set_watermark(one.ep, no_limit, 2));
    send_some(one, 2);
    take_received(one, 1);
    send_some(one, 1);
    CHECK(state_of(one.ep) == DAT_EP_STATE_CONNECTED);
    MUST(one.peer.send(0, slot, 9));
    expect_cut(ia, one);
    take_received(one, 2); // receives messages that came before
    CHECK(stays_empty(one.recv_evd, milliseconds(20)));
    CHECK(next_dto(one.peer.request_evd).status != DAT_DTO_SUCCESS);
    send_some(two, 2); // the other has the remaining receives
    CHECK(all.param().outstanding_dto_count == 2);
    MUST(dat_ep_set_watermark(two.ep, no_limit, 2));
    CHECK(state_of(two.ep) == DAT_EP_STATE_CONNECTED);
    MUST(dat_ep_set_watermark(two.ep, no_limit, 1)); // it holds more already
    expect_cut(ia, two);
}

TEST_CASE(
    "SRQ-19: the high watermarks check their arguments, and are refused where there are none" *
    needs("srq") * hint("take any number, or refuse before looking at the handle"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    CHECK(same_code(dat_ep_set_watermark(all.pz, 1, 2), bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_ep_set_watermark(one.ep, -2, 2), bad_arg(2)));
    CHECK(same_code(dat_ep_set_watermark(one.ep, 2, -2), bad_arg(3)));
    CHECK(same_code(dat_ep_set_watermark(one.peer.ep, 1, 2), not_supported)); // its own receives
    DAT_COUNT buffers = -5;
    CHECK(
        same_code(dat_ep_recv_query(all.pz, &buffers, nullptr), bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(buffers == -5);
    const DAT_RETURN set = dat_ep_set_watermark(one.ep, no_limit, no_limit);
    CHECK(refused(set) == (ia.provider.srq_watermarks_supported < 2));
    const DAT_RETURN asked = dat_ep_recv_query(one.ep, &buffers, nullptr);
    CHECK(refused(asked) == (ia.provider.ep_recv_info_supported == 0));
    if (asked != DAT_SUCCESS)
        CHECK(buffers == -5);
}

TEST_CASE("SRQ-20: the hard high watermark outlives a reset, and the attribute arms the soft one" *
          needs("ep_watermarks") * hint("keep watermarks in what a reset replaces"))
{
    adapter ia;
    NEED_WATERMARKS(ia);
    shared_pool all(ia);
    customer one(all);
    all.post_some(0, 8);
    MUST(dat_ep_set_watermark(one.ep, 5, 1));
    MUST(one.disconnect());
    CHECK(drain(ia.async, milliseconds(20)).size() == 1); // EP_BROKEN, after which it takes no more
    MUST(dat_ep_reset(one.ep));
    MUST(dat_ep_reset(one.peer.ep));
    one.connect();
    CHECK(held_by(one.ep) == 0);
    send_some(one, 1);
    MUST(one.peer.send(0, slot, 9));
    expect_cut(ia, one);

    DAT_EP_ATTR attr = ep_param(one.ep).ep_attr;
    CHECK(attr.srq_soft_hw == 5);
    attr.srq_soft_hw = 1;
    customer two(all, &attr);
    send_some(two, 2);
    expect_watermark(ia, two.ep);
}

// --------------------------------------------------------------- arguments, and what goes wrong

TEST_CASE("SRQ-21: a receive for the queue is checked as one for an endpoint is" * needs("srq") *
          hint("take what the endpoints' own posts refuse"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    DAT_LMR_TRIPLET segments[2] = {all.memory.local(0, slot), all.memory.local(slot, slot)};
    const auto post = [&](DAT_COUNT number, DAT_LMR_TRIPLET *local) {
        return dat_srq_post_recv(all.srq, number, local, cookie_of(0));
    };
    CHECK(same_code(post(-1, segments), bad_arg(2)));
    if (all.param().max_recv_iov == 1)
        CHECK(same_code(post(2, segments), bad_arg(2)));
    CHECK(same_code(post(1, nullptr), bad_arg(3)));
    const DAT_COUNT outstanding = all.param().outstanding_dto_count;
    CHECK((outstanding == 0 || outstanding == DAT_VALUE_UNKNOWN));
    MUST(all.post(3));
    CHECK(one.take_one(all, 1) == 3);
}

TEST_CASE("SRQ-22: a resize checks its length against the adapter and the low watermark" *
          needs("srq") * hint("make a queue shorter than what it is to warn of"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    if (ia.attr.max_recv_per_srq != INT32_MAX)
        CHECK(same_code(dat_srq_resize(all.srq, ia.attr.max_recv_per_srq + 1), bad_arg(2)));
    CHECK(same_code(dat_srq_resize(all.srq, -1), bad_arg(2)));
    CHECK(all.param().max_recv_dtos >= depth);
    const DAT_RETURN armed = dat_srq_set_lw(all.srq, depth / 2);
    if (refused(armed))
        NOT_CLAIMED("watermarks of shared receive queues");
    MUST(armed);
    const DAT_RETURN shorter = dat_srq_resize(all.srq, depth / 4);
    if (DAT_GET_TYPE(shorter) == DAT_MODEL_NOT_SUPPORTED)
        NOT_CLAIMED("resizing of shared receive queues");
    CHECK(same_type(shorter, DAT_INVALID_STATE));
    CHECK(all.param().max_recv_dtos >= depth);
}

TEST_CASE("SRQ-23: a low watermark above the receive count raises its event by the next receive" *
          needs("srq") * hint("wait for the number to pass the watermark from above"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    CHECK(same_code(dat_srq_set_lw(all.srq, -1), bad_arg(2)));
    all.post_some(0, 3);
    const DAT_RETURN armed = dat_srq_set_lw(all.srq, 5);
    if (refused(armed))
        NOT_CLAIMED("watermarks of shared receive queues");
    MUST(armed);
    (void)one.take_one(all, 1);
    const auto told = next_event(ia.async).event_data.asynch_error_event_data;
    CHECK(told.dat_handle == all.srq);
    CHECK(told.reason == DAT_SRQ_LOW_WATERMARK_EVENT);
    CHECK(all.param().srq_state == DAT_SRQ_STATE_OPERATIONAL);
    (void)one.take_one(all, 2);
    CHECK(stays_empty(ia.async, milliseconds(30)));
}

TEST_CASE("SRQ-24: a connection that ends raises EP_BROKEN: its endpoint takes no more of the SRQ" *
          needs("srq") *
          hint("leave the event out for some ways to end, or raise it before the connection event"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    std::vector<std::unique_ptr<customer>> customers;
    for (int i = 0; i < 4; ++i)
        customers.push_back(std::make_unique<customer>(all));
    all.post_some(0, 4);
    CHECK(stays_empty(ia.async, milliseconds(1)));
    for (std::size_t i : {2u, 0u, 3u, 1u}) {
        customer &ending = *customers[i];
        if (i % 2 == 0) {
            MUST(ending.disconnect());
        } else {
            MUST(ending.peer.disconnect(DAT_CLOSE_ABRUPT_FLAG));
            CHECK(ends_connection(next_event(ending.connect_evd).event_number));
        }
        const auto told = next_event(ia.async, DAT_ASYNC_ERROR_EP_BROKEN);
        CHECK(told.event_data.asynch_error_event_data.dat_handle == ending.ep);
        CHECK(stays_empty(ia.async, milliseconds(20)));
    }
    MUST(dat_ep_reset(customers[0]->ep));
    MUST(dat_ep_reset(customers[0]->peer.ep));
    customers[0]->connect();
    (void)customers[0]->take_one(all, 7);
}

TEST_CASE("SRQ-25: receives that an endpoint took free their places when it goes" * needs("srq") *
          hint("keep the places of receives whose completions were not taken"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    for (int round = 0; round < 3; ++round) {
        auto one = std::make_unique<customer>(all);
        all.post_some(0, depth / 2);
        for (DAT_COUNT i = 0; i < depth / 2; ++i) {
            MUST(one->peer.send(0, slot));
            CHECK(next_dto(one->peer.request_evd).status == DAT_DTO_SUCCESS);
        }
        MUST(one->free_ep()); // frees the endpoint with its completions
        one.reset();
    }
    customer last(all);
    all.post_some(0, depth);
    for (DAT_COUNT i = 0; i < depth; ++i)
        (void)last.take_one(all, static_cast<unsigned>(i));
}

TEST_CASE("SRQ-26: a message that finds the queue empty is no other connection's matter" *
          needs("srq") * hint("stop all connections of the queue until it has receives again"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer waits(all);
    customer other(all);
    MUST(waits.peer.send(0, slot, 5)); // finds nothing
    std::this_thread::sleep_for(a_while);
    // The other direction, and connections without the queue.
    DAT_LMR_TRIPLET from = all.memory.local(0, slot);
    MUST(other.peer.recv(0, slot));
    MUST(dat_ep_post_send(other.ep, 1, &from, cookie_of(6), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(other.peer.recv_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(other.request_evd).user_cookie.as_64 == 6);
    connected_pair aside(ia);
    move_data(aside.active, aside.passive);
    all.post_some(0, 2);
    if (state_of(waits.ep) == DAT_EP_STATE_CONNECTED) {
        CHECK(next_dto(waits.peer.request_evd).user_cookie.as_64 == 5);
        CHECK(next_dto(waits.recv_evd).status == DAT_DTO_SUCCESS);
    } else {
        const auto done = next_dto(waits.peer.request_evd);
        CHECK((done.status != DAT_DTO_SUCCESS || !acknowledged()));
    }
    (void)other.take_one(all, 3);
}

TEST_CASE("SRQ-27: an endpoint is made for a queue with the attributes and EVDs of others" *
          needs("srq") * hint("leave out the checks of dat_ep_create"))
{
    adapter ia;
    NEED_SRQ(ia);
    adapter elsewhere;
    shared_pool all(ia);
    shared_pool foreign(elsewhere);
    test_endpoint own(ia);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&](DAT_EVD_HANDLE recv, DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr) {
        return dat_ep_create_with_srq(ia.handle, all.pz, recv, own.request_evd, own.connect_evd,
                                      srq, attr, &ep);
    };
    CHECK(
        same_code(create(own.recv_evd, foreign.srq, nullptr), bad_handle(DAT_INVALID_HANDLE_SRQ)));
    CHECK(same_code(create(DAT_HANDLE_NULL, all.srq, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(same_code(create(own.connect_evd, all.srq, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    const DAT_EP_ATTR good = ep_param(own.ep).ep_attr;
    DAT_EP_ATTR attr = good;
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(9);
    CHECK(same_code(create(own.recv_evd, all.srq, &attr), bad_arg(7)));
    attr = good;
    attr.max_request_dtos = ia.attr.max_dto_per_ep + 1;
    CHECK(same_code(create(own.recv_evd, all.srq, &attr), bad_arg(7)));
    attr = good;
    attr.max_request_dtos = 0; // requests have an EVD all the same
    CHECK(same_code(create(own.recv_evd, all.srq, &attr), bad_arg(7)));
    CHECK(ep == DAT_HANDLE_NULL);
    const DAT_SRQ_HANDLE gone = all.srq;
    MUST(dat_srq_free(all.srq));
    CHECK(same_code(create(own.recv_evd, gone, nullptr), bad_handle(DAT_INVALID_HANDLE_SRQ)));
    DAT_SRQ_ATTR again{depth, 1, DAT_SRQ_LW_DEFAULT}; // made again for the pool to free
    MUST(dat_srq_create(ia.handle, all.pz, &again, &all.srq));
}

TEST_CASE("SRQ-28: receives of the queue are scattered over its segments" * needs("srq") *
          hint("use the first segment only, or the number that endpoints have"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    const DAT_COUNT most = std::min(4, ia.attr.max_iov_segments_per_dto);
    MUST(dat_srq_free(all.srq));
    DAT_SRQ_ATTR attr{depth, most, DAT_SRQ_LW_DEFAULT};
    MUST(dat_srq_create(ia.handle, all.pz, &attr, &all.srq));
    CHECK(all.param().max_recv_iov >= most);
    customer one(all);
    std::vector<DAT_LMR_TRIPLET> segments;
    for (DAT_COUNT i = 0; i < most; ++i)
        segments.push_back(all.memory.local(static_cast<std::size_t>(i) * 100, 50));
    MUST(dat_srq_post_recv(all.srq, most, segments.data(), cookie_of(9)));
    const auto total = static_cast<std::size_t>(most) * 50;
    one.peer.memory.fill(0, total, 4);
    all.memory.set_all(0xee);
    MUST(one.peer.send(0, total));
    const auto got = next_dto(one.recv_evd);
    CHECK(got.user_cookie.as_64 == 9);
    CHECK(got.transfered_length == total);
    for (std::size_t i = 0; i < total; ++i) {
        REQUIRE(all.memory.bytes[i / 50 * 100 + i % 50] == one.peer.memory.bytes[i]);
        REQUIRE(all.memory.bytes[i / 50 * 100 + 50 + i % 50] == 0xee);
    }
}

TEST_CASE("SRQ-29: queues can be made, filled and freed hundreds of times" * needs("srq") *
          hint("keep the device's queue, or its memory, until the adapter closes"))
{
    adapter ia;
    NEED_SRQ(ia);
    const DAT_PZ_HANDLE pz = make_pz(ia);
    const region memory(ia, pz, slot);
    DAT_LMR_TRIPLET local = memory.local(0, slot);
    DAT_SRQ_ATTR attr{std::min(ia.attr.max_recv_per_srq, 2048), 1, DAT_SRQ_LW_DEFAULT};
    const auto live = [&](int times) {
        for (int i = 0; i < times; ++i) {
            DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
            MUST(dat_srq_create(ia.handle, pz, &attr, &srq));
            for (DAT_COUNT posted = 0; posted < attr.max_recv_dtos; ++posted)
                MUST(dat_srq_post_recv(srq, 1, &local, cookie_of(0)));
            MUST(dat_srq_free(srq));
        }
    };
    live(20);
    const std::size_t before = what_we_hold().resident_kib;
    live(400);
    const std::size_t after = what_we_hold().resident_kib;
    MESSAGE("resident KiB ", before, " -> ", after);
    if (!instrumented()) // 400 queues with 8 bytes for each receive are 6400 KiB
        CHECK(after <= before + resident_slack_kib);
}

TEST_CASE(
    "SRQ-30: a shared receive of a message behind immediate data brings none" *
    needs("srq immediate_data") *
    hint("leave a field of a completion as it was, where an earlier completion is still seen"))
{
    adapter ia;
    NEED_SRQ(ia);
    if (ia.attr.extension_supported == DAT_EXTENSION_NONE)
        NOT_CLAIMED("immediate data");
    shared_pool all(ia);
    customer one(all);
    for (unsigned i = 0; i < 4 * depth; ++i) { // more than the queue has places
        MUST(all.post(0));
        DAT_LMR_TRIPLET local = one.peer.memory.local(0, 8);
        const DAT_RMR_TRIPLET there = all.memory.remote(slot, 8);
        const DAT_RETURN code = dat_ib_post_rdma_write_immed(
            one.peer.ep, 1, &local, cookie_of(i), &there, i, DAT_COMPLETION_DEFAULT_FLAG);
        if (refused(code))
            NOT_CLAIMED("immediate data");
        MUST(code);
        (void)next_event(one.peer.request_evd);
        (void)next_event(one.recv_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
    }
    MUST(all.post(0));
    (void)one.take_one(all, 1);
}

TEST_CASE(
    "SRQ-31: a shared receive whose memory was freed ends the connection that takes it, alone" *
    needs("srq") *
    hint("look at the local context when a receive is posted, and not when a message comes"))
{
    adapter ia;
    NEED_SRQ(ia);
    shared_pool all(ia);
    customer one(all);
    customer other(all);
    region gone(ia, all.pz, slot);
    const std::vector<std::uint8_t> before = gone.copy();
    DAT_LMR_TRIPLET local = gone.local(0, slot);
    constexpr std::uint64_t lost = 99;
    MUST(dat_srq_post_recv(all.srq, 1, &local, cookie_of(lost)));
    gone.free();
    one.peer.memory.fill(0, slot, 3);
    MUST(one.peer.send(0, slot));
    const auto failed = next_dto(one.recv_evd);
    CHECK(failed.user_cookie.as_64 == lost);
    CHECK(failed.status != DAT_DTO_SUCCESS);
    if (the_settings().promised("local_protection"))
        CHECK(failed.status == DAT_DTO_ERR_LOCAL_PROTECTION);
    CHECK(ends_connection(next_event(one.connect_evd).event_number));
    CHECK(ends_connection(next_event(one.peer.connect_evd).event_number));
    CHECK(gone.copy() == before);
    all.post_some(1, 2);
    (void)other.take_one(all, 4);
    CHECK(all.param().outstanding_dto_count == 1);
}

} // namespace conformance
