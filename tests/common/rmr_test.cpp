// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RMRs: to what a window may be bound, as far as completions have told.
#include "fixture.hpp"

using namespace test;

namespace {

constexpr bool claimed = port_features.memory_windows;
constexpr DAT_RETURN lmr_in_use = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);

struct fixture {
    fixture()
        : dtos(c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64)),
          s(c, dtos, c.make_evd(DAT_EVD_CONNECTION_FLAG)), one(lend(bytes_of_one)),
          two(lend(bytes_of_two))
    {
        must(c.v.rmr_create_func(s.pz, &rmr));
        s.connect_by_hand();
    }
    DAT_LMR_HANDLE lend(char (&bytes)[64])
    {
        DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
        DAT_REGION_DESCRIPTION where{};
        where.for_va = bytes;
        must(c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, 64, s.pz, DAT_MEM_PRIV_ALL_FLAG,
                                 DAT_VA_TYPE_VA, &made, nullptr, nullptr, nullptr, nullptr));
        return made;
    }
    DAT_RETURN bind(DAT_LMR_HANDLE to, DAT_UINT64 number,
                    DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG)
    {
        DAT_LMR_PARAM region;
        must(c.v.lmr_query_func(to, DAT_LMR_FIELD_ALL, &region));
        const DAT_LMR_TRIPLET part{region.registered_address, 16, region.lmr_context};
        return c.v.rmr_bind_func(rmr, to, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                                 s.ep, cookie(number), flags, &context);
    }
    /// The bind that was posted first ends so, and the consumer takes the event.
    DAT_EVENT end_bind(DAT_DTO_COMPLETION_STATUS how = DAT_DTO_SUCCESS)
    {
        REQUIRE(complete_send(s.port(), how));
        DAT_EVENT event{};
        REQUIRE(c.dequeue(dtos, event) == DAT_SUCCESS);
        return event;
    }
    void bind_now(DAT_LMR_HANDLE to)
    {
        must(bind(to, 1));
        REQUIRE(end_bind().event_number == DAT_RMR_BIND_COMPLETION_EVENT);
    }
    DAT_RETURN free(DAT_LMR_HANDLE region) { return c.v.lmr_free_func(region); }
    bool tells_a_part()
    {
        DAT_RMR_PARAM param;
        return c.v.rmr_query_func(rmr, DAT_RMR_FIELD_ALL, &param) == DAT_SUCCESS;
    }

    char bytes_of_one[64];
    char bytes_of_two[64];
    consumer c;
    DAT_EVD_HANDLE dtos;
    station s;
    DAT_LMR_HANDLE one;
    DAT_LMR_HANDLE two;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

} // namespace

TEST_SUITE_BEGIN("rmr");

TEST_CASE_FIXTURE(fixture, "a bind is refused where the port has no windows")
{
    CHECK((bind(one, 1) == DAT_SUCCESS) == claimed);
    if (claimed)
        (void)end_bind();
    else
        CHECK(bind(one, 1) == error_code(DAT_MODEL_NOT_SUPPORTED));
}

TEST_CASE_FIXTURE(fixture, "its event names the window" * doctest::skip(!claimed))
{
    must(bind(one, 5));
    const DAT_EVENT event = end_bind();
    CHECK(event.event_number == DAT_RMR_BIND_COMPLETION_EVENT);
    CHECK(event.evd_handle == dtos);
    CHECK(event.event_data.rmr_completion_event_data.rmr_handle == rmr);
    CHECK(event.event_data.rmr_completion_event_data.user_cookie.as_64 == 5);
    CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
    CHECK(tells_a_part());
}

TEST_CASE_FIXTURE(fixture, "a region is in use until a later bind is known to be done" *
                               doctest::skip(!claimed))
{
    bind_now(one);
    CHECK(free(one) == lmr_in_use);
    must(bind(two, 2));
    CHECK(free(one) == lmr_in_use);
    REQUIRE(complete_send(s.port()));
    CHECK(free(one) == lmr_in_use); // the consumer has not seen it
    CHECK(c.drain(dtos).size() == 1);
    CHECK(free(one) == DAT_SUCCESS);
    CHECK(free(two) == lmr_in_use);
}

TEST_CASE_FIXTURE(fixture, "a suppressed bind is known to be done by what follows it" *
                               doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2, DAT_COMPLETION_SUPPRESS_FLAG));
    must(c.post_send(s.ep, 3));
    REQUIRE(complete_send(s.port()));
    CHECK(c.drain(dtos).empty());
    CHECK(free(one) == lmr_in_use);
    CHECK(end_bind().event_number == DAT_DTO_COMPLETION_EVENT);
    CHECK(free(one) == DAT_SUCCESS);
}

TEST_CASE_FIXTURE(fixture, "so it stays when its place in the queue is used again, and again" *
                               doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2, DAT_COMPLETION_SUPPRESS_FLAG));
    REQUIRE(complete_send(s.port()));
    for (DAT_UINT64 i = 0; i < 50; ++i) { // more than three times round
        must(c.post_send(s.ep, i));
        must(c.post_send(s.ep, i));
        (void)end_bind();
        if (i == 0)
            CHECK(free(one) == DAT_SUCCESS);
        CHECK(free(two) == lmr_in_use);
        CHECK(tells_a_part());
        (void)end_bind();
    }
    must(bind(two, 3, DAT_COMPLETION_SUPPRESS_FLAG)); // takes a place in which such a bind was
                                                      // before
    CHECK(free(two) == lmr_in_use);
    REQUIRE(complete_send(s.port()));
    must(c.post_send(s.ep, 4));
    (void)end_bind();
    must(c.v.rmr_free_func(rmr));
    CHECK(free(two) == DAT_SUCCESS);
}

TEST_CASE_FIXTURE(fixture,
                  "also when asked for the first time while its ring entry is in use again" *
                      doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2, DAT_COMPLETION_SUPPRESS_FLAG));
    REQUIRE(complete_send(s.port()));
    for (DAT_UINT64 i = 0; i < 16; ++i) { // all the other places of the queue
        must(c.post_send(s.ep, i));
        (void)end_bind();
    }
    must(c.post_send(s.ep, 16));
    CHECK(free(one) == DAT_SUCCESS);
    (void)end_bind();
}

TEST_CASE_FIXTURE(fixture, "a bind that fails binds nothing, and the window may be as it was" *
                               doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2));
    const DAT_EVENT event = end_bind(DAT_DTO_ERR_FLUSHED);
    CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_FAILURE);
    CHECK(!tells_a_part());
    CHECK(free(two) == DAT_SUCCESS);
    CHECK(free(one) == lmr_in_use);
    must(c.v.rmr_free_func(rmr));
    CHECK(free(one) == DAT_SUCCESS);
}

TEST_CASE_FIXTURE(fixture, "one that fails otherwise than by a flush breaks the connection" *
                               doctest::skip(!claimed))
{
    must(bind(one, 2));
    const DAT_EVENT event = end_bind(DAT_RMR_OPERATION_FAILED);
    CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_OPERATION_FAILED);
    CHECK(s.connect_event() == DAT_CONNECTION_EVENT_BROKEN);
}

TEST_CASE_FIXTURE(fixture, "one that the port refuses changes nothing" * doctest::skip(!claimed))
{
    bind_now(one);
    const DAT_RMR_CONTEXT before = context;
    lab::fail(lab::op::post_send, error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK(bind(two, 2) == error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK(context == before);
    CHECK(free(two) == DAT_SUCCESS);
    CHECK(free(one) == lmr_in_use);
    CHECK(tells_a_part());
}

TEST_CASE_FIXTURE(fixture, "the endpoint goes with a bind that is posted" * doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2));
    must(c.v.ep_free_func(s.ep));
    CHECK(free(one) == lmr_in_use); // whether the bind was done is unknown
    CHECK(free(two) == lmr_in_use);
    must(c.v.rmr_free_func(rmr));
    CHECK(free(one) == DAT_SUCCESS);
    CHECK(free(two) == DAT_SUCCESS);
}

TEST_CASE_FIXTURE(fixture, "the window goes with a bind that is posted" * doctest::skip(!claimed))
{
    must(bind(one, 1));
    must(c.v.rmr_free_func(rmr));
    CHECK(free(one) == DAT_SUCCESS);
    const DAT_EVENT event = end_bind(DAT_DTO_ERR_FLUSHED);
    CHECK(event.event_data.rmr_completion_event_data.rmr_handle == rmr);
}

TEST_CASE_FIXTURE(fixture, "a reset drops what was posted" * doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2));
    must(c.v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_DISCONNECTED));
    must(c.v.ep_reset_func(s.ep));
    CHECK(c.drain(dtos).empty());
    CHECK(free(one) == lmr_in_use);
    (void)s.connect_event();
    s.connect_by_hand();
    bind_now(two);
    CHECK(free(one) == DAT_SUCCESS);
    CHECK(free(two) == lmr_in_use);
}

TEST_CASE_FIXTURE(fixture, "after a bind that failed, the next one binds a window of its own" *
                               doctest::skip(!claimed))
{
    const unsigned before = lab::calls(lab::op::mw_alloc);
    bind_now(one);
    must(bind(two, 2));
    (void)end_bind(DAT_DTO_ERR_FLUSHED);
    bind_now(two);
    CHECK(lab::calls(lab::op::mw_alloc) == before + 1);
    CHECK(free(one) == DAT_SUCCESS);
    CHECK(free(two) == lmr_in_use);
    bind_now(two); // there is no doubt any more
    CHECK(lab::calls(lab::op::mw_alloc) == before + 1);
}

TEST_CASE_FIXTURE(fixture,
                  "while there is none, the RMR is bound to nothing" * doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2));
    (void)end_bind(DAT_DTO_ERR_FLUSHED);
    lab::fail(lab::op::mw_alloc, error_code(DAT_INSUFFICIENT_RESOURCES));
    const DAT_RMR_CONTEXT before = context;
    CHECK(bind(two, 3) == error_code(DAT_INSUFFICIENT_RESOURCES));
    CHECK(context == before);
    CHECK(!tells_a_part());
    CHECK(free(one) == DAT_SUCCESS);
    bind_now(two);
    CHECK(tells_a_part());
}

TEST_CASE_FIXTURE(fixture, "and after an endpoint that went with a bind" * doctest::skip(!claimed))
{
    bind_now(one);
    must(bind(two, 2));
    must(c.v.ep_free_func(s.ep));
    s.ep = s.make_ep();
    s.connect_by_hand();
    bind_now(two);
    CHECK(free(one) == DAT_SUCCESS);
    CHECK(free(two) == lmr_in_use);
}

TEST_CASE_FIXTURE(fixture, "thousands of binds, most of them silent" * doctest::skip(!claimed))
{
    for (DAT_UINT64 i = 0; i < 4000; ++i) {
        const bool tells = i % 7 == 0;
        must(bind(i % 2 == 0 ? one : two, i,
                  tells ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG));
        REQUIRE(complete_send(s.port()));
        CHECK(c.drain(dtos).size() == (tells ? 1u : 0u));
    }
}

TEST_CASE_FIXTURE(fixture, "an adapter makes as many windows as it says" * doctest::skip(!claimed))
{
    DAT_IA_ATTR attr;
    must(c.v.ia_query_func(c.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
    DAT_RMR_HANDLE last = DAT_HANDLE_NULL;
    for (DAT_COUNT made = 1; made < attr.max_rmrs; ++made)
        must(c.v.rmr_create_func(s.pz, &last));
    DAT_RMR_HANDLE more = DAT_HANDLE_NULL;
    CHECK_EQ(c.v.rmr_create_func(s.pz, &more),
             error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
    must(c.v.rmr_free_func(last));
    CHECK_EQ(c.v.rmr_create_func(s.pz, &more), DAT_SUCCESS);
}
