// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Handles: what is none, what is one of another type, what was one; contexts and types.
#include "harness/support.hpp"

#include <map>

namespace conformance {
namespace {

constexpr unsigned any_subtype = ~0u;

/// A call with everything right but the handle.
struct handle_call {
    const char *name;
    DAT_HANDLE_TYPE wants;
    unsigned subtype;
    std::function<DAT_RETURN(DAT_HANDLE)> call;
};

/// One object of each type, and the other arguments that the calls need.
struct zoo {
    zoo();

    adapter ia;
    test_endpoint spare; ///< in no other role, for calls that need an endpoint, memory and EVDs
    std::unique_ptr<listener> listening;
    std::map<DAT_HANDLE_TYPE, DAT_HANDLE> objects;
};

zoo::zoo() : spare(ia), listening(std::make_unique<listener>(ia))
{
    DAT_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_HANDLE rsp = DAT_HANDLE_NULL;
    DAT_HANDLE ep = DAT_HANDLE_NULL;
    DAT_HANDLE reserved = DAT_HANDLE_NULL;
    const bool has_rmr = dat_rmr_create(spare.pz, &rmr) == DAT_SUCCESS; // MEM-11 wants them
    for (DAT_HANDLE *each : {&ep, &reserved})
        MUST(dat_ep_create(ia.handle, spare.pz, spare.recv_evd, spare.request_evd,
                           spare.connect_evd, nullptr, each));
    MUST(dat_rsp_create(ia.handle, unused_qualifier(ia), reserved, make_evd(ia, DAT_EVD_CR_FLAG),
                        &rsp));
    MUST(spare.connect(ia.address(), listening->qualifier));
    objects = {
        {DAT_HANDLE_TYPE_IA, ia.handle},
        {DAT_HANDLE_TYPE_EP, ep},
        {DAT_HANDLE_TYPE_EVD, spare.recv_evd},
        {DAT_HANDLE_TYPE_CNO, make_cno(ia)},
        {DAT_HANDLE_TYPE_PZ, make_pz(ia)},
        {DAT_HANDLE_TYPE_LMR, spare.memory.lmr},
        {DAT_HANDLE_TYPE_PSP, listening->psp},
        {DAT_HANDLE_TYPE_RSP, rsp},
        {DAT_HANDLE_TYPE_CR, listening->next_request()},
    };
    if (has_rmr)
        objects[DAT_HANDLE_TYPE_RMR] = rmr;
}

const DAT_DTO_COOKIE no_cookie{};

std::vector<handle_call> ia_calls(zoo &z)
{
    constexpr auto type = DAT_HANDLE_TYPE_IA;
    constexpr auto ia = DAT_INVALID_HANDLE_IA;
    static DAT_HANDLE out;
    static DAT_CONN_QUAL qualifier;
    return {
        {"ia_query", type, ia,
         [](DAT_HANDLE h) { return dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr); }},
        {"ia_close", type, ia, [](DAT_HANDLE h) { return dat_ia_close(h, DAT_CLOSE_ABRUPT_FLAG); }},
        {"cno_create", type, ia,
         [](DAT_HANDLE h) { return dat_cno_create(h, DAT_OS_WAIT_PROXY_AGENT_NULL, &out); }},
        {"evd_create", type, ia,
         [](DAT_HANDLE h) {
             return dat_evd_create(h, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &out);
         }},
        {"ep_create", type, ia,
         [&z](DAT_HANDLE h) {
             return dat_ep_create(h, z.spare.pz, z.spare.recv_evd, z.spare.request_evd,
                                  z.spare.connect_evd, nullptr, &out);
         }},
        {"pz_create", type, ia, [](DAT_HANDLE h) { return dat_pz_create(h, &out); }},
        {"lmr_create", type, ia,
         [&z](DAT_HANDLE h) {
             DAT_REGION_DESCRIPTION where{};
             where.for_va = z.spare.memory.bytes.data();
             return dat_lmr_create(h, DAT_MEM_TYPE_VIRTUAL, where, 64, z.spare.pz, all_rights,
                                   DAT_VA_TYPE_VA, &out, nullptr, nullptr, nullptr, nullptr);
         }},
        {"psp_create", type, ia,
         [&z](DAT_HANDLE h) {
             return dat_psp_create(h, 4711, z.listening->cr_evd, DAT_PSP_CONSUMER_FLAG, &out);
         }},
        {"psp_create_any", type, ia,
         [&z](DAT_HANDLE h) {
             return dat_psp_create_any(h, &qualifier, z.listening->cr_evd, DAT_PSP_CONSUMER_FLAG,
                                       &out);
         }},
        {"rsp_create", type, ia,
         [&z](DAT_HANDLE h) {
             return dat_rsp_create(h, 4711, z.objects[DAT_HANDLE_TYPE_EP], z.listening->cr_evd,
                                   &out);
         }},
        {"lmr_sync_rdma_read", type, ia,
         [](DAT_HANDLE h) { return dat_lmr_sync_rdma_read(h, nullptr, 0); }},
        {"lmr_sync_rdma_write", type, ia,
         [](DAT_HANDLE h) { return dat_lmr_sync_rdma_write(h, nullptr, 0); }},
    };
}

std::vector<handle_call> evd_calls(zoo &)
{
    constexpr auto type = DAT_HANDLE_TYPE_EVD;
    constexpr auto evd = any_subtype;
    static DAT_EVENT event = software_event(nullptr);
    static DAT_EVD_PARAM param;
    static DAT_COUNT more;
    return {
        {"evd_query", type, evd,
         [](DAT_HANDLE h) { return dat_evd_query(h, DAT_EVD_FIELD_ALL, &param); }},
        {"evd_modify_cno", type, evd,
         [](DAT_HANDLE h) { return dat_evd_modify_cno(h, DAT_HANDLE_NULL); }},
        {"evd_enable", type, evd, dat_evd_enable},
        {"evd_disable", type, evd, dat_evd_disable},
        {"evd_set_unwaitable", type, evd, dat_evd_set_unwaitable},
        {"evd_clear_unwaitable", type, evd, dat_evd_clear_unwaitable},
        {"evd_wait", type, evd, [](DAT_HANDLE h) { return dat_evd_wait(h, 0, 1, &event, &more); }},
        {"evd_post_se", type, evd, [](DAT_HANDLE h) { return dat_evd_post_se(h, &event); }},
        {"evd_dequeue", type, evd, [](DAT_HANDLE h) { return dat_evd_dequeue(h, &event); }},
        {"evd_free", type, evd, dat_evd_free},
    };
}

std::vector<handle_call> cno_calls(zoo &)
{
    constexpr auto type = DAT_HANDLE_TYPE_CNO;
    constexpr auto cno = DAT_INVALID_HANDLE_CNO;
    static DAT_CNO_PARAM param;
    static DAT_HANDLE out;
    return {
        {"cno_query", type, cno,
         [](DAT_HANDLE h) { return dat_cno_query(h, DAT_CNO_FIELD_ALL, &param); }},
        {"cno_modify_agent", type, cno,
         [](DAT_HANDLE h) { return dat_cno_modify_agent(h, DAT_OS_WAIT_PROXY_AGENT_NULL); }},
        {"cno_wait", type, cno, [](DAT_HANDLE h) { return dat_cno_wait(h, 0, &out); }},
        {"cno_free", type, cno, dat_cno_free},
    };
}

std::vector<handle_call> ep_calls(zoo &z)
{
    constexpr auto type = DAT_HANDLE_TYPE_EP;
    constexpr auto ep = DAT_INVALID_HANDLE_EP;
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    static DAT_EP_PARAM param;
    static DAT_HANDLE out;
    static const DAT_RMR_TRIPLET remote{};
    const auto address = z.ia.address();
    return {
        {"ep_query", type, ep,
         [](DAT_HANDLE h) { return dat_ep_query(h, DAT_EP_FIELD_ALL, &param); }},
        {"ep_modify", type, ep,
         [](DAT_HANDLE h) { return dat_ep_modify(h, DAT_EP_FIELD_EP_ATTR_QOS, &param); }},
        {"ep_connect", type, ep,
         [address](DAT_HANDLE h) {
             return dat_ep_connect(h, address, 4711, 1000, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                   DAT_CONNECT_DEFAULT_FLAG);
         }},
        {"ep_dup_connect", type, ep,
         [&z](DAT_HANDLE h) {
             return dat_ep_dup_connect(h, z.spare.ep, 1000, 0, nullptr, DAT_QOS_BEST_EFFORT);
         }},
        {"ep_disconnect", type, ep,
         [](DAT_HANDLE h) { return dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG); }},
        {"ep_post_send", type, ep,
         [](DAT_HANDLE h) { return dat_ep_post_send(h, 0, nullptr, no_cookie, flags); }},
        {"ep_post_recv", type, ep,
         [](DAT_HANDLE h) { return dat_ep_post_recv(h, 0, nullptr, no_cookie, flags); }},
        {"ep_post_rdma_read", type, ep,
         [](DAT_HANDLE h) {
             return dat_ep_post_rdma_read(h, 0, nullptr, no_cookie, &remote, flags);
         }},
        {"ep_post_rdma_write", type, ep,
         [](DAT_HANDLE h) {
             return dat_ep_post_rdma_write(h, 0, nullptr, no_cookie, &remote, flags);
         }},
        {"ep_get_status", type, ep,
         [](DAT_HANDLE h) { return dat_ep_get_status(h, nullptr, nullptr, nullptr); }},
        {"ep_reset", type, ep, dat_ep_reset},
        {"ep_free", type, ep, dat_ep_free},
        {"rsp_create's endpoint", type, ep,
         [&z](DAT_HANDLE h) {
             return dat_rsp_create(z.ia.handle, 4711, h, z.listening->cr_evd, &out);
         }},
        {"ep_dup_connect's model", type, ep,
         [&z](DAT_HANDLE h) {
             return dat_ep_dup_connect(z.objects[DAT_HANDLE_TYPE_EP], h, 1000, 0, nullptr,
                                       DAT_QOS_BEST_EFFORT);
         }},
    };
}

std::vector<handle_call> memory_calls(zoo &z)
{
    static DAT_PZ_PARAM pz;
    static DAT_LMR_PARAM lmr;
    static DAT_RMR_PARAM rmr;
    static DAT_HANDLE out;
    constexpr auto unbound =
        static_cast<DAT_RMR_PARAM_MASK>(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET);
    return {
        {"pz_query", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
         [](DAT_HANDLE h) { return dat_pz_query(h, DAT_PZ_FIELD_ALL, &pz); }},
        {"pz_free", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ, dat_pz_free},
        {"rmr_create", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
         [](DAT_HANDLE h) { return dat_rmr_create(h, &out); }},
        {"lmr_create's zone", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
         [&z](DAT_HANDLE h) {
             DAT_REGION_DESCRIPTION where{};
             where.for_va = z.spare.memory.bytes.data();
             return dat_lmr_create(z.ia.handle, DAT_MEM_TYPE_VIRTUAL, where, 64, h, all_rights,
                                   DAT_VA_TYPE_VA, &out, nullptr, nullptr, nullptr, nullptr);
         }},
        {"lmr_query", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
         [](DAT_HANDLE h) { return dat_lmr_query(h, DAT_LMR_FIELD_ALL, &lmr); }},
        {"lmr_free", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR, dat_lmr_free},
        {"rmr_query", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
         [](DAT_HANDLE h) { return dat_rmr_query(h, unbound, &rmr); }},
        {"rmr_free", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR, dat_rmr_free},
    };
}

std::vector<handle_call> connection_calls(zoo &z)
{
    static DAT_PSP_PARAM psp;
    static DAT_RSP_PARAM rsp;
    static DAT_CR_PARAM cr;
    return {
        {"psp_query", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP,
         [](DAT_HANDLE h) { return dat_psp_query(h, DAT_PSP_FIELD_ALL, &psp); }},
        {"psp_free", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP, dat_psp_free},
        {"rsp_query", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP,
         [](DAT_HANDLE h) { return dat_rsp_query(h, DAT_RSP_FIELD_ALL, &rsp); }},
        {"rsp_free", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP, dat_rsp_free},
        {"cr_query", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
         [](DAT_HANDLE h) { return dat_cr_query(h, DAT_CR_FIELD_ALL, &cr); }},
        {"cr_accept", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
         [&z](DAT_HANDLE h) {
             return dat_cr_accept(h, z.objects[DAT_HANDLE_TYPE_EP], 0, nullptr);
         }},
        {"cr_reject", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
         [](DAT_HANDLE h) { return dat_cr_reject(h, 0, nullptr); }},
    };
}

std::vector<handle_call> all_calls(zoo &z)
{
    std::vector<handle_call> calls;
    for (const auto &group : {ia_calls(z), evd_calls(z), cno_calls(z), ep_calls(z), memory_calls(z),
                              connection_calls(z)})
        calls.insert(calls.end(), group.begin(), group.end());
    return calls;
}

void expect_refused(const handle_call &refused, DAT_HANDLE handle)
{
    CAPTURE(refused.name);
    const DAT_RETURN code = refused.call(handle);
    if (refused.subtype == any_subtype)
        CHECK(same_type(code, DAT_INVALID_HANDLE));
    else
        CHECK(same_code(code, bad_handle(refused.subtype)));
}

} // namespace

TEST_CASE("HANDLE-01: a null handle is INVALID_HANDLE for every call" *
          hint("dereference the handle before they look at it"))
{
    zoo z;
    for (const handle_call &each : all_calls(z))
        expect_refused(each, DAT_HANDLE_NULL);
}

TEST_CASE("HANDLE-02: a small integer is INVALID_HANDLE, the index of an adapter too" *
          hint("take an adapter's index for a pointer"))
{
    zoo z;
    const auto index = reinterpret_cast<std::uintptr_t>(z.ia.handle);
    for (const handle_call &each : all_calls(z))
        for (std::uintptr_t number : {std::uintptr_t{1}, std::uintptr_t{2}, std::uintptr_t{8},
                                      std::uintptr_t{63}, std::uintptr_t{4095}, index}) {
            CAPTURE(number);
            if (each.wants != DAT_HANDLE_TYPE_IA || number != index)
                expect_refused(each, reinterpret_cast<DAT_HANDLE>(number));
        }
}

TEST_CASE("HANDLE-03: a handle of another type is INVALID_HANDLE" *
          hint("look at no type mark in the object"))
{
    zoo z;
    for (const handle_call &each : all_calls(z))
        for (const auto &object : z.objects) {
            CAPTURE(object.first);
            if (object.first != each.wants)
                expect_refused(each, object.second);
        }
}

TEST_CASE("HANDLE-04: a handle whose object was freed is INVALID_HANDLE" *
          hint("give the memory back to malloc, where the mark is soon gone or unreadable"))
{
    zoo z;
    const auto calls = all_calls(z);
    const auto stale = z.objects;
    const DAT_EP_HANDLE reserved = [&] {
        DAT_RSP_PARAM param{};
        MUST(dat_rsp_query(stale.at(DAT_HANDLE_TYPE_RSP), DAT_RSP_FIELD_ALL, &param));
        return param.ep_handle;
    }();
    MUST(dat_cr_reject(stale.at(DAT_HANDLE_TYPE_CR), 0, nullptr));
    MUST(dat_psp_free(stale.at(DAT_HANDLE_TYPE_PSP)));
    MUST(dat_rsp_free(stale.at(DAT_HANDLE_TYPE_RSP)));
    MUST(dat_ep_free(stale.at(DAT_HANDLE_TYPE_EP)));
    MUST(dat_ep_free(reserved));
    MUST(z.spare.free_ep());
    MUST(dat_evd_free(stale.at(DAT_HANDLE_TYPE_EVD)));
    MUST(dat_cno_free(stale.at(DAT_HANDLE_TYPE_CNO)));
    if (const auto rmr = stale.find(DAT_HANDLE_TYPE_RMR); rmr != stale.end())
        MUST(dat_rmr_free(rmr->second));
    MUST(dat_lmr_free(stale.at(DAT_HANDLE_TYPE_LMR)));
    MUST(dat_pz_free(stale.at(DAT_HANDLE_TYPE_PZ)));
    // The endpoint that ep_dup_connect copies is gone as well; either of the two is to blame.
    for (const handle_call &each : calls)
        if (each.wants != DAT_HANDLE_TYPE_IA)
            expect_refused(each, stale.at(each.wants));
}

TEST_CASE("HANDLE-05: a closed adapter is INVALID_HANDLE" *
          hint("unload or free the adapter while its handle can still be dispatched"))
{
    adapter ia;
    adapter other; // keeps the library in memory
    const DAT_IA_HANDLE stale = ia.handle;
    MUST(ia.close(DAT_CLOSE_GRACEFUL_FLAG));
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    CHECK(same_code(dat_pz_create(stale, &pz), bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(same_code(dat_ia_close(stale, DAT_CLOSE_ABRUPT_FLAG), bad_handle(DAT_INVALID_HANDLE_IA)));
}

TEST_CASE("HANDLE-06: every object has its handle type, the adapter's index too" *
          hint("know only the types that an older edition had, or answer for the provider's object "
               "instead"))
{
    zoo z;
    for (const auto &object : z.objects) {
        const DAT_HANDLE_TYPE expected = object.first;
        const DAT_HANDLE handle = object.second;
        CAPTURE(expected);
        DAT_HANDLE_TYPE type{};
        CHECK(same_code(dat_get_handle_type(handle, &type), DAT_SUCCESS));
        CHECK(type == expected);
        CHECK(same_code(dat_get_handle_type(handle, nullptr), bad_arg(2)));
    }
}

TEST_CASE("HANDLE-07: every object carries a context, at first zero" *
          hint("keep contexts for some types only: CNO and SRQ are often forgotten"))
{
    zoo z;
    for (const auto &object : z.objects) {
        const DAT_HANDLE_TYPE type = object.first;
        const DAT_HANDLE handle = object.second;
        CAPTURE(type);
        DAT_CONTEXT context{};
        context.as_64 = 1;
        CHECK(same_code(dat_get_consumer_context(handle, &context), DAT_SUCCESS));
        CHECK(context.as_64 == 0);
        context.as_64 = 0x123456789abcdef0 + static_cast<unsigned>(type);
        CHECK(same_code(dat_set_consumer_context(handle, context), DAT_SUCCESS));
        CHECK(same_code(dat_get_consumer_context(handle, nullptr), bad_arg(2)));
    }
    for (const auto &object : z.objects) {
        const DAT_HANDLE_TYPE type = object.first;
        const DAT_HANDLE handle = object.second;
        CAPTURE(type);
        DAT_CONTEXT context{};
        CHECK(same_code(dat_get_consumer_context(handle, &context), DAT_SUCCESS));
        CHECK(context.as_64 == 0x123456789abcdef0 + static_cast<unsigned>(type));
    }
}

TEST_CASE("HANDLE-08: context and type of what is no handle are INVALID_HANDLE" *
          hint("read a context from whatever the pointer points to"))
{
    adapter ia;
    const DAT_PZ_HANDLE stale = make_pz(ia);
    MUST(dat_pz_free(stale));
    for (DAT_HANDLE handle : {DAT_HANDLE_NULL, reinterpret_cast<DAT_HANDLE>(4095), stale}) {
        CAPTURE(handle);
        DAT_CONTEXT context{};
        DAT_HANDLE_TYPE type{};
        CHECK(same_type(dat_get_consumer_context(handle, &context), DAT_INVALID_HANDLE));
        CHECK(same_type(dat_set_consumer_context(handle, context), DAT_INVALID_HANDLE));
        CHECK(same_type(dat_get_handle_type(handle, &type), DAT_INVALID_HANDLE));
    }
}

TEST_CASE("HANDLE-09: the context of a new object in the place of a freed one is zero again" *
          hint("reuse a slot without clearing the context of the object before"))
{
    adapter ia;
    for (int round = 0; round < 100; ++round) {
        const DAT_PZ_HANDLE pz = make_pz(ia);
        DAT_CONTEXT context{};
        MUST(dat_get_consumer_context(pz, &context));
        CHECK(context.as_64 == 0);
        context.as_64 = 42;
        MUST(dat_set_consumer_context(pz, context));
        MUST(dat_pz_free(pz));
    }
}

TEST_CASE("HANDLE-10: an object of another adapter is INVALID_HANDLE" *
          hint("check the type but not which adapter the object belongs to"))
{
    adapter ia;
    adapter other;
    test_endpoint foreign(other);
    test_endpoint own(ia);
    DAT_HANDLE out = DAT_HANDLE_NULL;
    CHECK(same_code(dat_ep_create(ia.handle, foreign.pz, own.recv_evd, own.request_evd,
                                  own.connect_evd, nullptr, &out),
                    bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(dat_ep_create(ia.handle, own.pz, foreign.recv_evd, own.request_evd,
                                  own.connect_evd, nullptr, &out),
                    bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(same_code(dat_evd_create(ia.handle, 8, make_cno(other), DAT_EVD_SOFTWARE_FLAG, &out),
                    bad_handle(DAT_INVALID_HANDLE_CNO)));
    DAT_REGION_DESCRIPTION where{};
    where.for_va = own.memory.bytes.data();
    CHECK(
        same_code(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, 64, foreign.pz, all_rights,
                                 DAT_VA_TYPE_VA, &out, nullptr, nullptr, nullptr, nullptr),
                  bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(dat_psp_create(ia.handle, 4711, make_evd(other, DAT_EVD_CR_FLAG),
                                   DAT_PSP_CONSUMER_FLAG, &out),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    listener at(ia);
    MUST(own.connect(ia.address(), at.qualifier));
    const DAT_CR_HANDLE request = at.next_request();
    CHECK(same_code(dat_cr_accept(request, foreign.ep, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_cr_reject(request, 0, nullptr), DAT_SUCCESS));
    CHECK(out == DAT_HANDLE_NULL);
}

} // namespace conformance
