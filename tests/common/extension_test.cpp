// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The IB extension: writes with immediate data, and atomics, where the port claims them.
#include "fixture.hpp"

#include <cstring>

using namespace test;

namespace {

constexpr bool extensions_claimed = port_features.immediate_data && port_features.atomics;
constexpr DAT_COMPLETION_FLAGS normally = DAT_COMPLETION_DEFAULT_FLAG;

struct words {
    DAT_LMR_TRIPLET local{0x1000, 8, 1};
    DAT_RMR_TRIPLET remote{0x2000, 8, 2};
};

DAT_RETURN fetch_add(const consumer &c, DAT_HANDLE ep, words &w, DAT_UINT64 add)
{
    return extended(c, ep, DAT_IB_FETCH_AND_ADD_OP, add, &w.local, cookie(7), &w.remote, normally);
}

DAT_RETURN write_immediate(const consumer &c, DAT_HANDLE ep, words &w, DAT_UINT32 data)
{
    return extended(c, ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &w.local, cookie(9), &w.remote,
                    data, normally);
}

DAT_IB_EXTENSION_EVENT_DATA extension_in(const DAT_EVENT &event)
{
    DAT_IB_EXTENSION_EVENT_DATA out;
    std::memcpy(&out, event.event_extension_data, sizeof out);
    return out;
}

bool is_extended(const DAT_EVENT &event, DAT_IB_EXT_TYPE type, DAT_IB_DTOS operation)
{
    return static_cast<int>(event.event_number) == DAT_IB_DTO_EVENT &&
           extension_in(event).type == type &&
           static_cast<int>(event.event_data.dto_completion_event_data.operation) == operation;
}

} // namespace

TEST_SUITE_BEGIN("extension");

TEST_CASE("the adapter offers the extension if, and only if, the device can")
{
    consumer c;
    DAT_IA_ATTR attr;
    must(c.v.ia_query_func(c.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
    CHECK_EQ(attr.extension_supported, extensions_claimed ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE);
    CHECK_EQ(attr.extension_version, extensions_claimed ? DAT_IB_EXTENSION_VERSION : 0);
}

TEST_CASE("an operation that the port does not claim, or that is unknown, is NOT_IMPLEMENTED")
{
    consumer c;
    station s(c);
    words w;
    CHECK_EQ(extended(c, s.ep, DAT_IB_UD_SEND_OP), error_code(DAT_NOT_IMPLEMENTED));
    CHECK_EQ(extended(c, s.ep, 12345), error_code(DAT_NOT_IMPLEMENTED));
    if (!extensions_claimed)
        CHECK_EQ(fetch_add(c, s.ep, w, 1), error_code(DAT_NOT_IMPLEMENTED));
}

TEST_CASE("extended operations check what they are given" * doctest::skip(!extensions_claimed))
{
    consumer c;
    station s(c);
    words w;
    CHECK_EQ(DAT_GET_TYPE(fetch_add(c, s.ep, w, 1)), DAT_INVALID_STATE);
    s.connect_by_hand();
    CHECK_EQ(fetch_add(c, s.pz, w, 1), error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    w.local.segment_length = 4;
    CHECK_EQ(fetch_add(c, s.ep, w, 1), error_code(DAT_LENGTH_ERROR));
    w.local.segment_length = 8;
    w.remote.virtual_address = 0x2004;
    CHECK_EQ(fetch_add(c, s.ep, w, 1), error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    w.remote.virtual_address = 0x2000;
    w.local.segment_length = 9;
    CHECK_EQ(write_immediate(c, s.ep, w, 1), error_code(DAT_LENGTH_ERROR));
}

TEST_CASE("operands reach the port, and each side gets an event of its kind" *
          doctest::skip(!extensions_claimed))
{
    consumer c;
    station s(c);
    words w;
    s.connect_by_hand();
    must(fetch_add(c, s.ep, w, 0x123456789abcdef0));
    CHECK_EQ(latest_extension(s.port()).add_or_compare, 0x123456789abcdef0);
    must(extended(c, s.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{3}, DAT_UINT64{4}, &w.local,
                  cookie(8), &w.remote, normally));
    CHECK_EQ(latest_extension(s.port()).add_or_compare, 3);
    CHECK_EQ(latest_extension(s.port()).swap, 4);
    must(write_immediate(c, s.ep, w, 0xcafe0001));
    CHECK_EQ(latest_extension(s.port()).immediate, 0xcafe0001);
    while (complete_send(s.port())) {
    }
    const auto events = c.drain(s.request);
    REQUIRE_EQ(events.size(), 3);
    CHECK(is_extended(events[0], DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD));
    CHECK(is_extended(events[1], DAT_IB_CMP_AND_SWAP, DAT_IB_DTO_CMP_SWAP));
    CHECK(is_extended(events[2], DAT_IB_RDMA_WRITE_IMMED, DAT_IB_DTO_RDMA_WRITE_IMMED));
    CHECK_EQ(cookie_of(events[1]), 8);
    CHECK_EQ(events[2].event_data.dto_completion_event_data.transfered_length, 8);
    for (const DAT_EVENT &event : events)
        CHECK_EQ(extension_in(event).status, DAT_OP_SUCCESS);
}

TEST_CASE("a receive that a write took carries its immediate data" *
          doctest::skip(!extensions_claimed))
{
    consumer c;
    station s(c);
    s.connect_by_hand();
    must(c.post_recv(s.ep, 1));
    must(c.post_recv(s.ep, 2));
    REQUIRE(complete_recv_immediate(s.port(), 4096, 0xdeadbeef));
    REQUIRE(complete_recv(s.port(), DAT_DTO_SUCCESS, 16));
    const auto events = c.drain(s.recv);
    REQUIRE_EQ(events.size(), 2);
    CHECK(is_extended(events[0], DAT_IB_RDMA_WRITE_IMMED_DATA, DAT_IB_DTO_RECV_IMMED));
    CHECK_EQ(extension_in(events[0]).val.immed.data, 0xdeadbeef);
    CHECK_EQ(events[0].event_data.dto_completion_event_data.transfered_length, 4096);
    CHECK_EQ(cookie_of(events[0]), 1);
    CHECK_EQ(events[1].event_number, DAT_DTO_COMPLETION_EVENT);
}

TEST_CASE("an extended operation that fails says so twice, and breaks the connection" *
          doctest::skip(!extensions_claimed))
{
    consumer c;
    station s(c);
    words w;
    s.connect_by_hand();
    must(fetch_add(c, s.ep, w, 1));
    REQUIRE(complete_send(s.port(), DAT_DTO_ERR_REMOTE_ACCESS));
    const auto events = c.drain(s.request);
    REQUIRE_EQ(events.size(), 1);
    CHECK(is_extended(events[0], DAT_IB_FETCH_AND_ADD, DAT_IB_DTO_FETCH_ADD));
    CHECK_EQ(status_of(events[0]), DAT_DTO_ERR_REMOTE_ACCESS);
    CHECK_EQ(extension_in(events[0]).status, DAT_IB_OP_ERR);
    CHECK_EQ(c.state(s.ep), DAT_EP_STATE_DISCONNECTED);
}

TEST_CASE("memory for atomics is registered where the device has them")
{
    consumer c;
    DAT_PZ_HANDLE zone = c.make_pz();
    static char buffer[64];
    DAT_REGION_DESCRIPTION where{};
    where.for_va = buffer;
    DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
    const DAT_RETURN code = c.v.lmr_create_func(
        c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof buffer, zone,
        static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_ALL_FLAG} |
                                        unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC}),
        DAT_VA_TYPE_VA, &made, nullptr, nullptr, nullptr, nullptr);
    CHECK_EQ(code, extensions_claimed ? success.code()
                                      : error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
}

TEST_SUITE_END();
