// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A handle that is no handle is INVALID_HANDLE: null, a small integer, one freed, one of another
// type. A place freed first is used again first.
#include "fixture.hpp"

using namespace test;

namespace {

struct probe {
    DAT_HANDLE_TYPE type;
    const char *name;
    std::function<DAT_RETURN(DAT_HANDLE)> call;
};

std::vector<probe> probes(consumer &c)
{
    static DAT_EVENT event;
    static DAT_COUNT count;
    static DAT_EVD_HANDLE evd;
    const DAT_PROVIDER &v = c.v;
    return {
        {DAT_HANDLE_TYPE_EVD, "evd_dequeue",
         [&v](DAT_HANDLE h) { return v.evd_dequeue_func(h, &event); }},
        {DAT_HANDLE_TYPE_EVD, "evd_wait",
         [&v](DAT_HANDLE h) { return v.evd_wait_func(h, 0, 1, &event, &count); }},
        {DAT_HANDLE_TYPE_EVD, "evd_enable", [&v](DAT_HANDLE h) { return v.evd_enable_func(h); }},
        {DAT_HANDLE_TYPE_EVD, "evd_modify_cno",
         [&v](DAT_HANDLE h) { return v.evd_modify_cno_func(h, DAT_HANDLE_NULL); }},
        {DAT_HANDLE_TYPE_EVD, "evd_free", [&v](DAT_HANDLE h) { return v.evd_free_func(h); }},
        {DAT_HANDLE_TYPE_CNO, "cno_wait",
         [&v](DAT_HANDLE h) { return v.cno_wait_func(h, 0, &evd); }},
        {DAT_HANDLE_TYPE_CNO, "cno_free", [&v](DAT_HANDLE h) { return v.cno_free_func(h); }},
        {DAT_HANDLE_TYPE_PZ, "pz_free", [&v](DAT_HANDLE h) { return v.pz_free_func(h); }},
        {DAT_HANDLE_TYPE_EP, "ep_reset", [&v](DAT_HANDLE h) { return v.ep_reset_func(h); }},
        {DAT_HANDLE_TYPE_EP, "ep_free", [&v](DAT_HANDLE h) { return v.ep_free_func(h); }},
        {DAT_HANDLE_TYPE_EP, "ep_post_send", [&c](DAT_HANDLE h) { return c.post_send(h); }},
        {DAT_HANDLE_TYPE_EP, "ep_post_recv", [&c](DAT_HANDLE h) { return c.post_recv(h); }},
        {DAT_HANDLE_TYPE_EP, "ep_connect", [&c](DAT_HANDLE h) { return c.connect(h, 1); }},
        {DAT_HANDLE_TYPE_LMR, "lmr_free", [&v](DAT_HANDLE h) { return v.lmr_free_func(h); }},
        {DAT_HANDLE_TYPE_RMR, "rmr_free", [&v](DAT_HANDLE h) { return v.rmr_free_func(h); }},
        {DAT_HANDLE_TYPE_PSP, "psp_free", [&v](DAT_HANDLE h) { return v.psp_free_func(h); }},
        {DAT_HANDLE_TYPE_RSP, "rsp_free", [&v](DAT_HANDLE h) { return v.rsp_free_func(h); }},
        {DAT_HANDLE_TYPE_CR, "cr_reject",
         [&v](DAT_HANDLE h) { return v.cr_reject_func(h, 0, nullptr); }},
        {DAT_HANDLE_TYPE_CR, "cr_handoff", [&v](DAT_HANDLE h) { return v.cr_handoff_func(h, 4); }},
        {DAT_HANDLE_TYPE_CSP, "csp_free", [&v](DAT_HANDLE h) { return v.csp_free_func(h); }},
        {DAT_HANDLE_TYPE_IA, "pz_create", [&v](DAT_HANDLE h) { return v.pz_create_func(h, &evd); }},
        {DAT_HANDLE_TYPE_IA, "ia_close",
         [&v](DAT_HANDLE h) { return v.ia_close_func(h, DAT_CLOSE_ABRUPT_FLAG); }},
    };
}

/// Whether the registry refuses a handle. It reads the provider word of the handle that it
/// dispatches by, and refuses a handle without one, so the hot calls do not look again.
bool registry_refuses(const probe &p, DAT_HANDLE handle)
{
    const std::string name = p.name;
    const bool hot = name == "evd_dequeue" || name.find("post") != std::string::npos;
    return hot && !could_be_handle(handle);
}

void expect_invalid(consumer &c, DAT_HANDLE handle, DAT_HANDLE_TYPE except)
{
    for (const probe &p : probes(c)) {
        if (p.type == except || registry_refuses(p, handle))
            continue;
        CAPTURE(p.name);
        CAPTURE(handle);
        CHECK_EQ(DAT_GET_TYPE(p.call(handle)), DAT_INVALID_HANDLE);
    }
}

constexpr auto none = static_cast<DAT_HANDLE_TYPE>(15);

DAT_LMR_HANDLE make_lmr(consumer &c, DAT_PZ_HANDLE pz)
{
    static char buffer[64];
    DAT_REGION_DESCRIPTION where{};
    where.for_va = buffer;
    DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
    must(c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof buffer, pz,
                             DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made, nullptr, nullptr,
                             nullptr, nullptr));
    return made;
}

} // namespace

TEST_SUITE_BEGIN("handles");

TEST_CASE("null, small integers and odd addresses are INVALID_HANDLE everywhere")
{
    consumer c;
    for (const std::uintptr_t value : {0ul, 1ul, 7ul, 8ul, 64ul, 4096ul, 65535ul})
        expect_invalid(c, reinterpret_cast<DAT_HANDLE>(value), none);
    expect_invalid(c, static_cast<char *>(c.async) + 1, none);
}

TEST_CASE("a live handle of another type is INVALID_HANDLE, and tells its own type")
{
    consumer c;
    station s(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    must(c.v.rmr_create_func(s.pz, &rmr));
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    must(c.v.rsp_create_func(c.ia, 6, s.make_ep(), requests, &rsp));
    const struct {
        DAT_HANDLE handle;
        DAT_HANDLE_TYPE type;
    } all[] = {
        {c.ia, DAT_HANDLE_TYPE_IA},    {s.ep, DAT_HANDLE_TYPE_EP},
        {s.recv, DAT_HANDLE_TYPE_EVD}, {c.make_cno(), DAT_HANDLE_TYPE_CNO},
        {s.pz, DAT_HANDLE_TYPE_PZ},    {make_lmr(c, s.pz), DAT_HANDLE_TYPE_LMR},
        {rmr, DAT_HANDLE_TYPE_RMR},    {c.make_psp(5, requests), DAT_HANDLE_TYPE_PSP},
        {rsp, DAT_HANDLE_TYPE_RSP},
    };
    for (const auto &one : all) {
        expect_invalid(c, one.handle, one.type);
        DAT_HANDLE_TYPE type{};
        must(c.v.get_handle_type_func(one.handle, &type));
        CHECK_EQ(type, one.type);
        DAT_CONTEXT context{};
        context.as_64 = 0x123456789abcdef;
        must(c.v.set_consumer_context_func(one.handle, context));
        context.as_64 = 0;
        must(c.v.get_consumer_context_func(one.handle, &context));
        CHECK_EQ(context.as_64, 0x123456789abcdef);
    }
}

TEST_CASE("a freed handle is INVALID_HANDLE everywhere, its type and context are gone")
{
    consumer c;
    station s(c);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    const DAT_PSP_HANDLE psp = c.make_psp(5, requests);
    const DAT_LMR_HANDLE lmr = make_lmr(c, s.pz);
    const DAT_CNO_HANDLE cno = c.make_cno();
    REQUIRE(arrive(5));
    DAT_EVENT event;
    must(c.dequeue(requests, event));
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    must(c.v.cr_reject_func(cr, 0, nullptr));
    must(c.v.psp_free_func(psp));
    must(c.v.lmr_free_func(lmr));
    must(c.v.cno_free_func(cno));
    must(c.v.ep_free_func(s.ep));
    must(c.v.evd_free_func(s.recv));
    must(c.v.evd_free_func(s.request));
    must(c.v.pz_free_func(s.pz));
    for (const DAT_HANDLE gone : {cr, psp, lmr, cno, s.ep, s.recv, s.request, s.pz}) {
        expect_invalid(c, gone, none);
        DAT_HANDLE_TYPE type{};
        CHECK_EQ(DAT_GET_TYPE(c.v.get_handle_type_func(gone, &type)), DAT_INVALID_HANDLE);
        CHECK_EQ(*static_cast<const DAT_PROVIDER **>(gone), &c.v); // the registry calls through it
    }
}

TEST_CASE("places are used again in the order in which they were freed, fresh ones before none")
{
    consumer c;
    std::vector<DAT_PZ_HANDLE> made;
    for (int i = 0; i < 100; ++i)
        made.push_back(c.make_pz());
    std::vector<DAT_PZ_HANDLE> freed;
    for (std::size_t i = 0; i < made.size(); i += 3) {
        must(c.v.pz_free_func(made[i]));
        freed.push_back(made[i]);
    }
    for (const DAT_PZ_HANDLE expected : freed)
        CHECK_EQ(c.make_pz(), expected);
    const DAT_PZ_HANDLE fresh = c.make_pz();
    for (const DAT_PZ_HANDLE old : made)
        CHECK_NE(fresh, old);
}

TEST_CASE("objects that are used cannot be freed, and can be once they are not")
{
    consumer c;
    station s(c);
    const DAT_LMR_HANDLE lmr = make_lmr(c, s.pz);
    const DAT_RETURN in_use = error_code(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
    CHECK_EQ(c.v.pz_free_func(s.pz), in_use);
    must(c.v.ep_free_func(s.ep));
    CHECK_EQ(c.v.pz_free_func(s.pz), in_use);
    must(c.v.lmr_free_func(lmr));
    CHECK_EQ(c.v.pz_free_func(s.pz), DAT_SUCCESS);
}

TEST_CASE("of two threads that free one object, one succeeds")
{
    consumer c(line::threadsafe);
    int wrong = 0;
    for (int i = 0; i < rounds(2000); ++i) {
        const DAT_PZ_HANDLE pz = c.make_pz();
        DAT_RETURN other{};
        std::thread second([&] { other = c.v.pz_free_func(pz); });
        const DAT_RETURN mine = c.v.pz_free_func(pz);
        second.join();
        wrong += (mine == DAT_SUCCESS) == (other == DAT_SUCCESS);
    }
    CHECK_EQ(wrong, 0);
}

TEST_SUITE_END();
