// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Handles: bad ones, handles of another type, handles of freed objects; contexts and types.
#include "harness/support.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace conformance {
namespace {

constexpr unsigned any_subtype = ~0u;

/// A call with everything right but the handle.
struct handle_call {
    std::string name;
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

private:
    void add_shared_queue();
    void add_common_point();
};

void zoo::add_shared_queue()
{
    DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    if (ia.provider.srq_supported == DAT_FALSE)
        return;
    MUST(dat_srq_create(ia.handle, spare.pz, &attr, &srq));
    objects[DAT_HANDLE_TYPE_SRQ] = srq;
}

void zoo::add_common_point()
{
    auto *create = optional_call<decltype(dat_csp_create)>("dat_csp_create");
    if (create == nullptr)
        return;
    sockaddr_storage at{};
    const bool six = ia.address()->sa_family == AF_INET6;
    std::memcpy(&at, ia.address(), six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    // Both families have the port at this place.
    reinterpret_cast<sockaddr_in &>(at).sin_port =
        htons(static_cast<std::uint16_t>(unused_qualifier(ia)));
    DAT_COMM comm{ia.address()->sa_family, SOCK_STREAM, 0};
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    if (create(ia.handle, &comm, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&at),
               make_evd(ia, DAT_EVD_CR_FLAG), &csp) == DAT_SUCCESS) // SP-18 wants that
        objects[DAT_HANDLE_TYPE_CSP] = csp;
}

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
    add_shared_queue();
    add_common_point();
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
        {"evd_resize", type, evd, [](DAT_HANDLE h) { return dat_evd_resize(h, 64); }},
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

std::vector<handle_call> shared_queue_calls(zoo &)
{
    constexpr auto type = DAT_HANDLE_TYPE_SRQ;
    constexpr auto srq = DAT_INVALID_HANDLE_SRQ;
    static DAT_SRQ_PARAM param;
    return {
        {"srq_query", type, srq,
         [](DAT_HANDLE h) { return dat_srq_query(h, DAT_SRQ_FIELD_ALL, &param); }},
        {"srq_post_recv", type, srq,
         [](DAT_HANDLE h) { return dat_srq_post_recv(h, 0, nullptr, no_cookie); }},
        {"srq_resize", type, srq, [](DAT_HANDLE h) { return dat_srq_resize(h, 16); }},
        {"srq_set_lw", type, srq, [](DAT_HANDLE h) { return dat_srq_set_lw(h, 2); }},
        {"srq_free", type, srq, dat_srq_free},
    };
}

/// The later calls: some libdat2 lack their symbols, and DAT 1.2 has none.
std::vector<handle_call> later_calls(zoo &)
{
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    static DAT_HANDLE out;
    static DAT_CSP_PARAM csp;
    static const DAT_RMR_TRIPLET there{};
    std::vector<handle_call> calls{
        {"ep_recv_query", DAT_HANDLE_TYPE_EP, DAT_INVALID_HANDLE_EP,
         [](DAT_HANDLE h) { return dat_ep_recv_query(h, nullptr, nullptr); }},
        {"ep_set_watermark", DAT_HANDLE_TYPE_EP, DAT_INVALID_HANDLE_EP,
         [](DAT_HANDLE h) { return dat_ep_set_watermark(h, 1, 2); }},
        {"cr_handoff", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
         [](DAT_HANDLE h) { return dat_cr_handoff(h, 4711); }},
    };
    if (auto *call = optional_call<decltype(dat_csp_query)>("dat_csp_query"))
        calls.push_back({"csp_query", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP,
                         [call](DAT_HANDLE h) { return call(h, DAT_CSP_FIELD_ALL, &csp); }});
    if (auto *call = optional_call<decltype(dat_csp_free)>("dat_csp_free"))
        calls.push_back({"csp_free", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP, call});
    if (auto *call = optional_call<decltype(dat_rmr_create_for_ep)>("dat_rmr_create_for_ep"))
        calls.push_back({"rmr_create_for_ep", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
                         [call](DAT_HANDLE h) { return call(h, &out); }});
    if (auto *call = optional_call<decltype(dat_ep_post_send_with_invalidate)>(
            "dat_ep_post_send_with_invalidate"))
        calls.push_back(
            {"ep_post_send_with_invalidate", DAT_HANDLE_TYPE_EP, DAT_INVALID_HANDLE_EP,
             [call](DAT_HANDLE h) { return call(h, 0, nullptr, no_cookie, flags, DAT_FALSE, 0); }});
    if (auto *call =
            optional_call<decltype(dat_ep_post_rdma_read_to_rmr)>("dat_ep_post_rdma_read_to_rmr"))
        calls.push_back(
            {"ep_post_rdma_read_to_rmr", DAT_HANDLE_TYPE_EP, DAT_INVALID_HANDLE_EP,
             [call](DAT_HANDLE h) { return call(h, &there, no_cookie, &there, flags); }});
    if (auto *call = optional_call<decltype(dat_cno_trigger)>("dat_cno_trigger"))
        calls.push_back({"cno_trigger", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
                         [call](DAT_HANDLE h) { return call(h, &out); }});
    std::erase_if(calls, [](const handle_call &each) {
        return each.call(DAT_HANDLE_NULL) == not_supported; // there is nothing to look at
    });
    return calls;
}

std::vector<handle_call> all_calls(zoo &z)
{
    std::vector<handle_call> calls;
    for (const auto &group : {ia_calls(z), evd_calls(z), cno_calls(z), ep_calls(z), memory_calls(z),
                              connection_calls(z), shared_queue_calls(z), later_calls(z)})
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
    if (const auto srq = stale.find(DAT_HANDLE_TYPE_SRQ); srq != stale.end())
        MUST(dat_srq_free(srq->second));
    if (const auto csp = stale.find(DAT_HANDLE_TYPE_CSP); csp != stale.end())
        MUST(optional_call<decltype(dat_csp_free)>("dat_csp_free")(csp->second));
    MUST(dat_evd_free(stale.at(DAT_HANDLE_TYPE_EVD)));
    MUST(dat_cno_free(stale.at(DAT_HANDLE_TYPE_CNO)));
    if (const auto rmr = stale.find(DAT_HANDLE_TYPE_RMR); rmr != stale.end())
        MUST(dat_rmr_free(rmr->second));
    MUST(dat_lmr_free(stale.at(DAT_HANDLE_TYPE_LMR)));
    MUST(dat_pz_free(stale.at(DAT_HANDLE_TYPE_PZ)));
    // The endpoint that ep_dup_connect copies is gone as well; either of the two is to blame.
    for (const handle_call &each : calls)
        if (const auto gone = stale.find(each.wants);
            each.wants != DAT_HANDLE_TYPE_IA && gone != stale.end())
            expect_refused(each, gone->second);
}

TEST_CASE("HANDLE-05: a closed adapter is INVALID_HANDLE for every call" *
          hint("unload or free the adapter while its handle can still be dispatched"))
{
    zoo z; // keeps the library in memory, and has the other arguments
    adapter ia;
    const DAT_IA_HANDLE stale = ia.handle;
    MUST(ia.close(DAT_CLOSE_GRACEFUL_FLAG));
    const auto expect_closed = [&] {
        for (const handle_call &each : ia_calls(z))
            expect_refused(each, stale);
    };
    expect_closed();
    // Handles of adapters may be used again, though not at once.
    std::vector<std::unique_ptr<adapter>> later;
    for (int opened = 0; opened < 4; ++opened) {
        later.push_back(std::make_unique<adapter>());
        const bool again = std::any_of(later.begin(), later.end(),
                                       [&](const auto &each) { return each->handle == stale; });
        if (!again)
            expect_closed();
    }
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
    test_endpoint parts(ia);
    const auto expect_fresh = [](DAT_HANDLE made) {
        DAT_CONTEXT context{};
        context.as_64 = 1;
        MUST(dat_get_consumer_context(made, &context));
        CHECK(context.as_64 == 0);
        context.as_64 = 42;
        MUST(dat_set_consumer_context(made, context));
    };
    for (int round = 0; round < 50; ++round) {
        const DAT_PZ_HANDLE pz = make_pz(ia);
        const DAT_CNO_HANDLE cno = make_cno(ia);
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        MUST(dat_ep_create(ia.handle, pz, evd, evd, parts.connect_evd, nullptr, &ep));
        listener at(ia);
        region memory(ia, pz, 64);
        for (DAT_HANDLE made : {pz, cno, evd, ep, at.psp, memory.lmr})
            expect_fresh(made);
        memory.free();
        MUST(dat_ep_free(ep));
        MUST(dat_evd_free(evd));
        MUST(dat_cno_free(cno));
        MUST(dat_pz_free(pz));
    }
}

namespace {

/// Expects that objects are not made out of another adapter's objects.
void expect_foreign_refused(test_endpoint &own, test_endpoint &foreign)
{
    const DAT_IA_HANDLE ia = own.ia.handle;
    DAT_HANDLE out = DAT_HANDLE_NULL;
    CHECK(same_code(dat_ep_create(ia, foreign.pz, own.recv_evd, own.request_evd, own.connect_evd,
                                  nullptr, &out),
                    bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(dat_ep_create(ia, own.pz, foreign.recv_evd, own.request_evd, own.connect_evd,
                                  nullptr, &out),
                    bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(same_code(dat_evd_create(ia, 8, make_cno(foreign.ia), DAT_EVD_SOFTWARE_FLAG, &out),
                    bad_handle(DAT_INVALID_HANDLE_CNO)));
    CHECK(same_code(dat_psp_create(ia, 4711, make_evd(foreign.ia, DAT_EVD_CR_FLAG),
                                   DAT_PSP_CONSUMER_FLAG, &out),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    CHECK(out == DAT_HANDLE_NULL);
}

} // namespace

TEST_CASE("HANDLE-10: an object of another adapter is INVALID_HANDLE" *
          hint("check the type but not which adapter the object belongs to"))
{
    adapter ia;
    adapter other;
    test_endpoint foreign(other);
    test_endpoint own(ia);
    DAT_HANDLE out = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION where{};
    where.for_va = own.memory.bytes.data();
    CHECK(
        same_code(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, 64, foreign.pz, all_rights,
                                 DAT_VA_TYPE_VA, &out, nullptr, nullptr, nullptr, nullptr),
                  bad_handle(DAT_INVALID_HANDLE_PZ)));
    expect_foreign_refused(own, foreign);
    listener at(ia);
    MUST(own.connect(ia.address(), at.qualifier));
    const DAT_CR_HANDLE request = at.next_request();
    CHECK(same_code(dat_cr_accept(request, foreign.ep, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_cr_reject(request, 0, nullptr), DAT_SUCCESS));
    CHECK(out == DAT_HANDLE_NULL);
}

TEST_CASE("HANDLE-11: an object of another adapter is INVALID_HANDLE to what is there already" *
          hint("look at the adapter of new objects only, not where objects meet later"))
{
    adapter ia;
    adapter other;
    test_endpoint foreign(other);
    test_endpoint own(ia);
    connected_pair connected(other);
    DAT_HANDLE out = DAT_HANDLE_NULL;
    CHECK(same_code(dat_rsp_create(ia.handle, unused_qualifier(ia), foreign.ep,
                                   make_evd(ia, DAT_EVD_CR_FLAG), &out),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(foreign.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(same_code(dat_rsp_create(ia.handle, unused_qualifier(ia), own.ep,
                                   make_evd(other, DAT_EVD_CR_FLAG), &out),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    CHECK(same_code(dat_evd_modify_cno(evd, make_cno(other)), bad_handle(DAT_INVALID_HANDLE_CNO)));
    CHECK(same_code(
        dat_ep_dup_connect(own.ep, connected.active.ep, 1000, 0, nullptr, DAT_QOS_BEST_EFFORT),
        bad_handle(DAT_INVALID_HANDLE_EP)));
    DAT_REGION_DESCRIPTION where{};
    where.for_lmr_handle = foreign.memory.lmr;
    CHECK(same_code(dat_lmr_create(ia.handle, DAT_MEM_TYPE_LMR, where, 64, own.pz, all_rights,
                                   DAT_VA_TYPE_VA, &out, nullptr, nullptr, nullptr, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_LMR)));
    const DAT_EP_PARAM before = ep_param(own.ep);
    DAT_EP_PARAM wanted = before;
    wanted.pz_handle = foreign.pz;
    wanted.recv_evd_handle = foreign.recv_evd;
    wanted.request_evd_handle = foreign.request_evd;
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_PZ_HANDLE, &wanted),
                    bad_handle(DAT_INVALID_HANDLE_PZ)));
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &wanted),
                    bad_handle(DAT_INVALID_HANDLE_EVD_RECV)));
    CHECK(same_code(dat_ep_modify(own.ep, DAT_EP_FIELD_REQUEST_EVD_HANDLE, &wanted),
                    bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST)));
    const DAT_EP_PARAM after = ep_param(own.ep);
    CHECK(after.pz_handle == before.pz_handle);
    CHECK(after.recv_evd_handle == before.recv_evd_handle);
    CHECK(after.request_evd_handle == before.request_evd_handle);
    CHECK(out == DAT_HANDLE_NULL);
}

// ------------------------------------------------------------------------------ masks and OUT

namespace {

/// A query of one object into a structure of its own, with any mask.
struct query_call {
    std::string name;
    DAT_RETURN bad_mask;
    std::function<DAT_RETURN(unsigned long long mask, void *into)> call;
    std::size_t size;
};

template <class Param, class Mask>
query_call query_of(const char *name, DAT_HANDLE of, DAT_RETURN (*call)(DAT_HANDLE, Mask, Param *))
{
    return {name, bad_arg(2),
            [of, call](unsigned long long mask, void *into) {
                return call(of, static_cast<Mask>(mask), static_cast<Param *>(into));
            },
            sizeof(Param)};
}

std::vector<query_call> all_queries(zoo &z)
{
    const auto &at = z.objects;
    std::vector<query_call> all{
        query_of("cno_query", at.at(DAT_HANDLE_TYPE_CNO), dat_cno_query),
        query_of("evd_query", at.at(DAT_HANDLE_TYPE_EVD), dat_evd_query),
        query_of("ep_query", at.at(DAT_HANDLE_TYPE_EP), dat_ep_query),
        query_of("pz_query", at.at(DAT_HANDLE_TYPE_PZ), dat_pz_query),
        query_of("lmr_query", at.at(DAT_HANDLE_TYPE_LMR), dat_lmr_query),
        query_of("psp_query", at.at(DAT_HANDLE_TYPE_PSP), dat_psp_query),
        query_of("rsp_query", at.at(DAT_HANDLE_TYPE_RSP), dat_rsp_query),
        query_of("cr_query", at.at(DAT_HANDLE_TYPE_CR), dat_cr_query),
    };
    if (at.count(DAT_HANDLE_TYPE_RMR) != 0)
        all.push_back(query_of("rmr_query", at.at(DAT_HANDLE_TYPE_RMR), dat_rmr_query));
    if (at.count(DAT_HANDLE_TYPE_SRQ) != 0)
        all.push_back(query_of("srq_query", at.at(DAT_HANDLE_TYPE_SRQ), dat_srq_query));
    if (at.count(DAT_HANDLE_TYPE_CSP) != 0)
        all.push_back(query_of("csp_query", at.at(DAT_HANDLE_TYPE_CSP),
                               optional_call<decltype(dat_csp_query)>("dat_csp_query")));
    return all;
}

constexpr unsigned char painted = 0x5a;

/// Room for the largest of the structures.
struct painted_memory {
    painted_memory() { std::memset(bytes, painted, sizeof bytes); }
    bool untouched() const
    {
        return std::all_of(std::begin(bytes), std::end(bytes),
                           [](unsigned char byte) { return byte == painted; });
    }
    alignas(std::max_align_t) unsigned char bytes[4096];
};

} // namespace

TEST_CASE("HANDLE-12: a query that asks for nothing is a success" *
          hint("take a mask of 0 for a mistake"))
{
    zoo z;
    for (const query_call &each : all_queries(z)) {
        CAPTURE(each.name);
        painted_memory into;
        REQUIRE(each.size <= sizeof into.bytes);
        CHECK(same_code(each.call(0, into.bytes), success));
        for (std::size_t i = each.size; i < sizeof into.bytes; ++i)
            REQUIRE(into.bytes[i] == painted);
    }
}

TEST_CASE("HANDLE-13: a query that is refused for its mask leaves the structure as it was" *
          hint("fill the structure first and look at the mask afterwards"))
{
    zoo z;
    for (const query_call &each : all_queries(z)) {
        CAPTURE(each.name);
        painted_memory into;
        const unsigned unknown = each.name == "cno_query" ? 0x100 : 0x80000000;
        CHECK(same_code(each.call(unknown, into.bytes), each.bad_mask));
        CHECK(into.untouched());
    }
    painted_memory into;
    auto *attr = reinterpret_cast<DAT_IA_ATTR *>(into.bytes);
    auto *provider = reinterpret_cast<DAT_PROVIDER_ATTR *>(into.bytes);
    CHECK(same_code(dat_ia_query(z.ia.handle, nullptr, DAT_IA_FIELD_ALL + 1, attr, 0, nullptr),
                    bad_arg(3)));
    CHECK(same_code(
        dat_ia_query(z.ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL + 1, provider),
        bad_arg(5)));
    CHECK(into.untouched());
}

TEST_CASE("HANDLE-14: a create that is refused leaves its OUT values as they were" *
          hint("store a null handle first, or the handle before the object is complete"))
{
    adapter ia;
    test_endpoint own(ia);
    const auto untouched = reinterpret_cast<DAT_HANDLE>(0x5a5a5a50);
    DAT_HANDLE out = untouched;
    const auto expect_untouched = [&](const std::string &name, DAT_RETURN code) {
        CAPTURE(name);
        CHECK(code != DAT_SUCCESS);
        CHECK(out == untouched);
        out = untouched;
    };
    const DAT_EVD_HANDLE cr_evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    const auto no_flag = static_cast<DAT_PSP_FLAGS>(7);
    DAT_CONN_QUAL any = 77;
    expect_untouched("evd_create",
                     dat_evd_create(ia.handle, 0, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &out));
    expect_untouched("ep_create", dat_ep_create(ia.handle, own.recv_evd, own.recv_evd,
                                                own.request_evd, own.connect_evd, nullptr, &out));
    expect_untouched("rmr_create", dat_rmr_create(own.recv_evd, &out));
    expect_untouched("psp_create", dat_psp_create(ia.handle, qualifier, cr_evd, no_flag, &out));
    expect_untouched("psp_create_any", dat_psp_create_any(ia.handle, &any, cr_evd, no_flag, &out));
    CHECK(any == 77);
    expect_untouched("rsp_create",
                     dat_rsp_create(ia.handle, qualifier, own.ep, own.recv_evd, &out));
    DAT_REGION_DESCRIPTION where{};
    where.for_va = own.memory.bytes.data();
    DAT_LMR_CONTEXT local = 0x11;
    DAT_RMR_CONTEXT remote = 0x22;
    DAT_VLEN size = 0x33;
    DAT_VADDR address = 0x44;
    for (const DAT_VLEN length : {DAT_VLEN{0}, DAT_VLEN{64}}) {
        const auto rights = length == 0 ? all_rights : static_cast<DAT_MEM_PRIV_FLAGS>(0x8000);
        expect_untouched("lmr_create", dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where,
                                                      length, own.pz, rights, DAT_VA_TYPE_VA, &out,
                                                      &local, &remote, &size, &address));
        CHECK(local == 0x11);
        CHECK(remote == 0x22);
        CHECK(size == 0x33);
        CHECK(address == 0x44);
    }
    DAT_SRQ_ATTR attr{-1, 1, 0};
    expect_untouched("srq_create", dat_srq_create(ia.handle, own.pz, &attr, &out));
    expect_untouched("ep_create_with_srq",
                     dat_ep_create_with_srq(ia.handle, own.pz, own.recv_evd, own.request_evd,
                                            own.connect_evd, own.pz, nullptr, &out));
    if (auto *call = optional_call<decltype(dat_csp_create)>("dat_csp_create")) {
        DAT_COMM comm{ia.address()->sa_family, SOCK_STREAM, 0};
        expect_untouched("csp_create", call(ia.handle, &comm, nullptr, cr_evd, &out));
    }
    if (auto *call = optional_call<decltype(dat_cno_fd_create)>("dat_cno_fd_create")) {
        DAT_FD fd = -77;
        expect_untouched("cno_fd_create", call(own.pz, &fd, &out));
        CHECK(fd == -77);
    }
    DAT_LMR_TRIPLET part = own.memory.local(0, 64);
    remote = 0x22;
    CHECK(dat_rmr_bind(own.pz, own.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                       own.ep, DAT_RMR_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG,
                       &remote) != DAT_SUCCESS);
    CHECK(remote == 0x22);
}

TEST_CASE("HANDLE-15: what a call names beside its own object is checked as that is" *
          hint("look at the first handle only, and follow the others wherever they lead"))
{
    adapter ia;
    test_endpoint own(ia);
    test_endpoint spare(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    const DAT_CNO_HANDLE stale_cno = make_cno(ia);
    const DAT_PZ_HANDLE stale_pz = make_pz(ia);
    const DAT_EVD_HANDLE stale_dto = make_evd(ia, DAT_EVD_DTO_FLAG);
    const DAT_EVD_HANDLE stale_connect = make_evd(ia, DAT_EVD_CONNECTION_FLAG);
    const DAT_EVD_HANDLE stale_cr = make_evd(ia, DAT_EVD_CR_FLAG);
    MUST(dat_cno_free(stale_cno));
    MUST(dat_pz_free(stale_pz));
    for (DAT_EVD_HANDLE gone : {stale_dto, stale_connect, stale_cr})
        MUST(dat_evd_free(gone));
    const auto small = reinterpret_cast<DAT_HANDLE>(std::uintptr_t{63});
    const auto index = ia.handle;
    DAT_HANDLE out = DAT_HANDLE_NULL;
    for (DAT_HANDLE wrong : {stale_cno, small, index}) {
        CAPTURE(wrong);
        const DAT_RETURN bad = bad_handle(DAT_INVALID_HANDLE_CNO);
        CHECK(same_code(dat_evd_create(ia.handle, 8, wrong, DAT_EVD_SOFTWARE_FLAG, &out), bad));
        CHECK(same_code(dat_evd_modify_cno(evd, wrong), bad));
    }
    const auto create = [&](DAT_HANDLE pz, DAT_HANDLE recv, DAT_HANDLE request, DAT_HANDLE conn) {
        return dat_ep_create(ia.handle, pz, recv, request, conn, nullptr, &out);
    };
    const DAT_EP_PARAM before = ep_param(spare.ep);
    const auto modify = [&](DAT_EP_PARAM_MASK field, DAT_HANDLE to) {
        DAT_EP_PARAM wanted = before;
        wanted.pz_handle = wanted.recv_evd_handle = wanted.request_evd_handle =
            wanted.connect_evd_handle = to;
        return dat_ep_modify(spare.ep, field, &wanted);
    };
    for (DAT_HANDLE wrong : {stale_pz, small, index}) {
        CAPTURE(wrong);
        const DAT_RETURN bad = bad_handle(DAT_INVALID_HANDLE_PZ);
        CHECK(same_code(create(wrong, own.recv_evd, own.request_evd, own.connect_evd), bad));
        CHECK(same_code(modify(DAT_EP_FIELD_PZ_HANDLE, wrong), bad));
    }
    for (DAT_HANDLE wrong : {stale_dto, small, index}) {
        CAPTURE(wrong);
        const DAT_RETURN recv = bad_handle(DAT_INVALID_HANDLE_EVD_RECV);
        const DAT_RETURN request = bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
        CHECK(same_code(create(own.pz, wrong, own.request_evd, own.connect_evd), recv));
        CHECK(same_code(create(own.pz, own.recv_evd, wrong, own.connect_evd), request));
        CHECK(same_code(modify(DAT_EP_FIELD_RECV_EVD_HANDLE, wrong), recv));
        CHECK(same_code(modify(DAT_EP_FIELD_REQUEST_EVD_HANDLE, wrong), request));
    }
    for (DAT_HANDLE wrong : {stale_connect, small, index}) {
        CAPTURE(wrong);
        const DAT_RETURN bad = bad_handle(DAT_INVALID_HANDLE_EVD_CONN);
        CHECK(same_code(create(own.pz, own.recv_evd, own.request_evd, wrong), bad));
        CHECK(same_code(modify(DAT_EP_FIELD_CONNECT_EVD_HANDLE, wrong), bad));
    }
    DAT_CONN_QUAL any = 77;
    for (DAT_HANDLE wrong : {stale_cr, small, index, DAT_HANDLE_NULL}) {
        CAPTURE(wrong);
        const DAT_RETURN bad = bad_handle(DAT_INVALID_HANDLE_EVD_CR);
        CHECK(same_code(dat_psp_create(ia.handle, 4711, wrong, DAT_PSP_CONSUMER_FLAG, &out), bad));
        CHECK(same_code(dat_psp_create_any(ia.handle, &any, wrong, DAT_PSP_CONSUMER_FLAG, &out),
                        bad));
        CHECK(same_code(dat_rsp_create(ia.handle, 4711, spare.ep, wrong, &out), bad));
    }
    CHECK(spare.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(out == DAT_HANDLE_NULL);
    CHECK(any == 77);
}

// --------------------------------------------------------------------- adapters of other names

TEST_CASE("HANDLE-16: an object of an adapter of another name is INVALID_HANDLE, and unharmed" *
          hint("take every object of DAT for one of their own") * needs("several_adapters"))
{
    const auto found = adapter_of_other_name();
    if (found == nullptr)
        NOT_CLAIMED("a second adapter in the registry");
    adapter &other = *found;
    adapter ia;
    test_endpoint own(ia);
    test_endpoint foreign(other);
    DAT_HANDLE out = DAT_HANDLE_NULL;
    expect_foreign_refused(own, foreign);
    CHECK(
        same_code(dat_rsp_create(ia.handle, 4711, foreign.ep, make_evd(ia, DAT_EVD_CR_FLAG), &out),
                  bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_ep_dup_connect(own.ep, foreign.ep, 1000, 0, nullptr, DAT_QOS_BEST_EFFORT),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(out == DAT_HANDLE_NULL);
    connected_pair here(ia);
    connected_pair there(other);
    move_data(here.active, here.passive);
    move_data(there.active, there.passive);
}

} // namespace conformance
