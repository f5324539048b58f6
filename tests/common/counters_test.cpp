// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The counters of the IB extension.
#include "fixture.hpp"
#include "host.hpp"

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace test;

namespace {

DAT_RETURN query(const consumer &c, DAT_HANDLE handle, int which, DAT_UINT64 *out, int reset = 0)
{
    return extended(c, handle, DAT_IB_QUERY_COUNTERS_OP, which, out, reset);
}

DAT_UINT64 value(const consumer &c, DAT_HANDLE handle, int which)
{
    DAT_UINT64 out = ~DAT_UINT64{0};
    must(query(c, handle, which, &out));
    return out;
}

/// The environment asks for counters, or does not, while one lives.
struct asking {
    explicit asking(bool wanted)
    {
        set(wanted ? "1" : "0");
        counters_init();
    }
    ~asking()
    {
        set("0");
        counters_init();
    }
    static void set(const char *to) { host::set_variable("DAPL_COUNTERS", to); }
};

/// Calls as they are in the vector of an adapter that counts.
DAT_PROVIDER counting_vector(line which)
{
    DAT_PROVIDER v = provider(which);
    if (which == line::threadsafe)
        count_calls<any_thread>(v);
    else
        count_calls<one_thread_per_object>(v);
    return v;
}

/// A connected endpoint, and calls that count.
struct counted_station {
    explicit counted_station(line which)
        : v(counting_vector(which)), c(which),
          s(c, c.make_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64),
            c.make_evd(DAT_EVD_CONNECTION_FLAG))
    {
        s.connect_by_hand();
    }
    const DAT_PROVIDER v;
    consumer c;
    station s;
};

struct outstanding_line {
    std::string text; ///< behind "outstanding "
    double ms = 0;
};

/// The lines about outstanding operations that dat_ib_print_counters writes.
std::vector<outstanding_line> outstanding_lines(const consumer &c, DAT_HANDLE ep)
{
    std::istringstream all(text_written_to(STDOUT_FILENO, [&] {
        must(extended(c, ep, DAT_IB_PRINT_COUNTERS_OP, DCNT_EP_ALL_COUNTERS, 0));
    }));
    std::vector<outstanding_line> out;
    for (std::string each; std::getline(all, each);) {
        const auto at = each.find(" outstanding ");
        if (at == std::string::npos)
            continue;
        out.push_back({each.substr(at + 13)});
        out.back().ms = std::stod(each.substr(each.rfind("for ") + 4));
    }
    return out;
}

} // namespace

TEST_SUITE_BEGIN("counters");

TEST_CASE("without DAPL_COUNTERS the operations are NOT_IMPLEMENTED")
{
    const asking no(false);
    consumer c;
    DAT_UINT64 out = 0;
    CHECK_EQ(query(c, c.ia, DCNT_IA_PZ_CREATE, &out), error_code(DAT_NOT_IMPLEMENTED));
    CHECK_EQ(extended(c, c.ia, DAT_IB_PRINT_COUNTERS_OP, DCNT_IA_PZ_CREATE, 0),
             error_code(DAT_NOT_IMPLEMENTED));
}

TEST_CASE("with it the adapter has the extension, whatever the device can")
{
    const asking yes(true);
    consumer c;
    DAT_IA_ATTR attr;
    must(c.v.ia_query_func(c.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr));
    CHECK_EQ(attr.extension_supported, DAT_EXTENSION_IB);
    CHECK_EQ(attr.extension_version, DAT_IB_EXTENSION_VERSION);
}

TEST_CASE("wrong arguments get their codes")
{
    const asking yes(true);
    consumer c;
    station s(c);
    DAT_UINT64 out[DCNT_IA_ALL_COUNTERS];
    const auto wrong = [](DAT_RETURN_SUBTYPE which) {
        return error_code(DAT_INVALID_PARAMETER, which);
    };
    CHECK_EQ(query(c, c.ia, -1, out), wrong(DAT_INVALID_ARG3));
    CHECK_EQ(query(c, c.ia, DCNT_IA_ALL_COUNTERS + 1, out), wrong(DAT_INVALID_ARG3));
    CHECK_EQ(query(c, s.ep, DCNT_EP_ALL_COUNTERS + 1, out), wrong(DAT_INVALID_ARG3));
    CHECK_EQ(query(c, s.recv, DCNT_EVD_ALL_COUNTERS + 1, out), wrong(DAT_INVALID_ARG3));
    CHECK_EQ(query(c, c.ia, DCNT_IA_PZ_CREATE, nullptr), wrong(DAT_INVALID_ARG4));
    CHECK_EQ(query(c, s.pz, 0, out), error_code(DAT_INVALID_HANDLE));
    CHECK_EQ(extended(c, s.ep, DAT_IB_PRINT_COUNTERS_OP, DCNT_EP_ALL_COUNTERS + 1, 0),
             wrong(DAT_INVALID_ARG3));
}

TEST_CASE("calls are counted on their adapter when they succeed")
{
    const asking yes(true);
    const DAT_PROVIDER v = counting_vector(line::nonthreadsafe);
    consumer c;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    must(v.pz_create_func(c.ia, &pz));
    CHECK_EQ(DAT_GET_TYPE(v.pz_create_func(c.ia, nullptr)), DAT_INVALID_PARAMETER);
    CHECK_EQ(value(c, c.ia, DCNT_IA_PZ_CREATE), 1);
    CHECK_EQ(value(c, c.ia, DCNT_IA_PZ_FREE), 0);
    must(v.pz_free_func(pz));
    CHECK_EQ(DAT_GET_TYPE(v.pz_free_func(pz)), DAT_INVALID_HANDLE);
    CHECK_EQ(DAT_GET_TYPE(v.pz_free_func(c.ia)), DAT_INVALID_HANDLE);
    CHECK_EQ(value(c, c.ia, DCNT_IA_PZ_FREE), 1);
    DAT_UINT64 all[DCNT_IA_ALL_COUNTERS];
    must(query(c, c.ia, DCNT_IA_ALL_COUNTERS, all, 1));
    CHECK_EQ(all[DCNT_IA_PZ_CREATE], 1);
    CHECK_EQ(all[DCNT_IA_PZ_FREE], 1);
    CHECK_EQ(value(c, c.ia, DCNT_IA_PZ_CREATE), 0); // taken back by the query
}

TEST_CASE("operations are counted on their endpoint, with their bytes")
{
    const asking yes(true);
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        counted_station counted(which);
        auto &[v, c, s] = counted;
        DAT_LMR_TRIPLET local[2] = {{0x1000, 40, 1}, {0x2000, 2, 1}};
        const DAT_RMR_TRIPLET remote{0x3000, 42, 2};
        must(v.ep_post_send_func(s.ep, 2, local, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        must(v.ep_post_send_func(s.ep, 0, nullptr, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        must(v.ep_post_rdma_write_func(s.ep, 2, local, cookie(2), &remote,
                                       DAT_COMPLETION_DEFAULT_FLAG));
        must(v.ep_post_rdma_read_func(s.ep, 2, local, cookie(3), &remote,
                                      DAT_COMPLETION_DEFAULT_FLAG));
        must(v.ep_post_recv_func(s.ep, 1, local, cookie(4), DAT_COMPLETION_DEFAULT_FLAG));
        CHECK_NE(v.ep_post_send_func(s.ep, 1, nullptr, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
                 DAT_SUCCESS);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_SEND), 2);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_SEND_DATA), 42);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_WRITE), 1);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_WRITE_DATA), 42);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_READ), 1);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_READ_DATA), 42);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_RECV), 1);
        CHECK_EQ(value(c, s.ep, DCNT_EP_POST_RECV_DATA), 40);
        REQUIRE(complete_recv(s.port(), DAT_DTO_SUCCESS, 7));
        DAT_EVENT event;
        must(v.evd_dequeue_func(s.recv, &event));
        CHECK_EQ(value(c, s.ep, DCNT_EP_RECV), 1);
        CHECK_EQ(value(c, s.ep, DCNT_EP_RECV_DATA), 7);
        must(v.ep_disconnect_func(s.ep, DAT_CLOSE_ABRUPT_FLAG));
        CHECK_EQ(value(c, s.ep, DCNT_EP_DISCONNECT), 1);
    }
}

TEST_CASE("what is outstanding is printed with its age, oldest first, until it has completed")
{
    const asking yes(true);
    for (const line which : {line::nonthreadsafe, line::threadsafe}) {
        counted_station counted(which);
        auto &[v, c, s] = counted;
        DAT_LMR_TRIPLET local[1] = {{0x1000, 40, 1}};
        for (unsigned i = 1; i <= 7; ++i) { // more than the ring has places at first
            must(v.ep_post_recv_func(s.ep, 1, local, cookie(i), DAT_COMPLETION_DEFAULT_FLAG));
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        must(v.ep_post_send_func(s.ep, 1, local, cookie(0x2a), DAT_COMPLETION_DEFAULT_FLAG));
        REQUIRE(complete_recv(s.port(), DAT_DTO_SUCCESS, 7));
        DAT_EVENT event;
        must(v.evd_dequeue_func(s.recv, &event));
        const auto lines = outstanding_lines(c, s.ep);
        REQUIRE_EQ(lines.size(), 7);
        CHECK(lines[0].text.find("DAT_DTO_SEND, 40 bytes, cookie 0x2a, for ") == 0);
        for (unsigned i = 1; i <= 6; ++i) {
            CAPTURE(lines[i].text);
            CHECK(lines[i].text.find("DAT_DTO_RECEIVE, 40 bytes, cookie 0x" +
                                     std::to_string(i + 1) + ", for ") == 0);
            CHECK(lines[i].ms >= 2 * (7 - i));
            CHECK(lines[i].ms >= lines[i == 6 ? 0 : i + 1].ms + 2);
        }
    }
}

TEST_CASE("the age of an atomic and of a bind counts from their posts")
{
    const asking yes(true);
    counted_station counted(line::threadsafe);
    auto &[v, c, s] = counted;
    const auto grows_old = [&](const char *operation) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const auto lines = outstanding_lines(counted.c, counted.s.ep);
        REQUIRE(!lines.empty());
        CHECK(lines.back().text.find(operation) == 0);
        CHECK(lines.back().ms >= 2);
    };
    char bytes[64];
    DAT_LMR_TRIPLET local{0x1000, 8, 1};
    DAT_RMR_TRIPLET remote{0x2000, 8, 2};
    if (port_features.atomics) {
        must(extended(c, s.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, &local, cookie(7), &remote,
                      DAT_COMPLETION_DEFAULT_FLAG));
        grows_old("DAT_IB_DTO_FETCH_ADD");
    }
    if (port_features.memory_windows) {
        DAT_REGION_DESCRIPTION where{};
        where.for_va = bytes;
        DAT_LMR_HANDLE region = DAT_HANDLE_NULL;
        DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
        DAT_RMR_CONTEXT context = 0;
        must(v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof bytes, s.pz,
                               DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &region, &local.lmr_context,
                               nullptr, nullptr, &local.virtual_address));
        must(v.rmr_create_func(s.pz, &window));
        must(v.rmr_bind_func(window, region, &local, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                             s.ep, cookie(8), DAT_COMPLETION_DEFAULT_FLAG, &context));
        grows_old("DAT_DTO_BIND_MW");
    }
}

TEST_CASE("an EVD counts who looked, who found, and who slept")
{
    const asking yes(true);
    const DAT_PROVIDER v = counting_vector(line::nonthreadsafe);
    consumer c;
    const DAT_EVD_HANDLE evd = c.make_evd(merged);
    DAT_EVENT event;
    DAT_COUNT nmore = 0;
    CHECK_EQ(DAT_GET_TYPE(v.evd_dequeue_func(evd, &event)), DAT_QUEUE_EMPTY);
    CHECK_EQ(DAT_GET_TYPE(v.evd_wait_func(evd, 2000, 1, &event, &nmore)), DAT_TIMEOUT_EXPIRED);
    must(c.post_se(evd, 1));
    must(v.evd_dequeue_func(evd, &event));
    must(c.post_se(evd, 2));
    must(v.evd_wait_func(evd, 0, 1, &event, &nmore));
    CHECK_NE(v.evd_dequeue_func(evd, nullptr), DAT_SUCCESS);
    CHECK_EQ(value(c, evd, DCNT_EVD_DEQUEUE), 2);
    CHECK_EQ(value(c, evd, DCNT_EVD_DEQUEUE_FOUND), 1);
    CHECK_EQ(value(c, evd, DCNT_EVD_DEQUEUE_NOT_FOUND), 1);
    CHECK_EQ(value(c, evd, DCNT_EVD_WAIT), 2);
    CHECK(value(c, evd, DCNT_EVD_WAIT_BLOCKED) >= 1);
}

TEST_CASE("the outcome of a connection is counted where its event is delivered")
{
    const asking yes(true);
    const DAT_PROVIDER v = counting_vector(line::nonthreadsafe);
    consumer c;
    station s(c);
    must(c.connect(s.ep, here));
    REQUIRE(fire(s.port(), DAT_CONNECTION_EVENT_PEER_REJECTED));
    DAT_EVENT event;
    must(v.evd_dequeue_func(s.connections, &event));
    CHECK_EQ(value(c, c.ia, DCNT_IA_CM_USER_REJ_RX), 1);
    CHECK_EQ(value(c, s.connections, DCNT_EVD_CONN_CALLBACK), 1);
}

TEST_SUITE_END();
