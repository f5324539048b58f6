// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/endpoint.hpp"

#include "harness/events.hpp"
#include "harness/judge.hpp"
#include "native_socket.hpp"
#include "program/system.hpp"

#include <atomic>
#include <cstring>

namespace conformance {

DAT_EP_STATE state_of(DAT_EP_HANDLE ep)
{
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle{}, request_idle{}; // EP-08 leaves them out
    MUST(dat_ep_get_status(ep, &state, &recv_idle, &request_idle));
    return state;
}

test_endpoint::test_endpoint(adapter &on, const endpoint_options &options)
    : ia(on), pz(make_pz(on)), recv_evd(make_evd(on, DAT_EVD_DTO_FLAG, options.qlen, options.cno)),
      request_evd(options.one_dto_evd ? recv_evd
                                      : make_evd(on, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                                                 options.qlen, options.cno)),
      connect_evd(make_evd(on, DAT_EVD_CONNECTION_FLAG, options.qlen, options.cno)),
      memory(on, pz, options.bytes)
{
    MUST(dat_ep_create(on.handle, pz, recv_evd, request_evd, connect_evd, options.attr, &ep));
}

/// Frees everything, so that thousands of cases can use one adapter.
test_endpoint::~test_endpoint()
{
    if (!ia.is_open())
        return;
    (void)free_ep();
    memory.free();
    (void)dat_evd_free(connect_evd);
    if (request_evd != recv_evd)
        (void)dat_evd_free(request_evd);
    (void)dat_evd_free(recv_evd);
    (void)dat_pz_free(pz);
}

DAT_RETURN test_endpoint::free_ep()
{
    if (ep == DAT_HANDLE_NULL)
        return DAT_SUCCESS;
    const DAT_RETURN code = dat_ep_free(ep);
    if (code == DAT_SUCCESS)
        ep = DAT_HANDLE_NULL;
    return code;
}

DAT_RETURN test_endpoint::connect(DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier,
                                  milliseconds timeout, const std::string &data)
{
    void *bytes = data.empty() ? nullptr : const_cast<char *>(data.data());
    return dat_ep_connect(ep, address, qualifier, microseconds(timeout),
                          static_cast<DAT_COUNT>(data.size()), bytes, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

DAT_EP_PARAM ep_param(DAT_EP_HANDLE ep)
{
    DAT_EP_PARAM param{};
    MUST(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
    return param;
}

DAT_DTO_COOKIE cookie_of(std::uint64_t value)
{
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = value;
    return cookie;
}

DAT_RETURN test_endpoint::recv(std::size_t offset, std::size_t length, std::uint64_t cookie)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_recv(ep, 1, &local, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN test_endpoint::send(std::size_t offset, std::size_t length, std::uint64_t cookie,
                               unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_send(ep, 1, &local, cookie_of(cookie),
                            static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN test_endpoint::write(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &to,
                                std::uint64_t cookie, unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_rdma_write(ep, 1, &local, cookie_of(cookie), &to,
                                  static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN test_endpoint::read(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &from,
                               std::uint64_t cookie, unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_rdma_read(ep, 1, &local, cookie_of(cookie), &from,
                                 static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN test_endpoint::disconnect(DAT_CLOSE_FLAGS how)
{
    return dat_ep_disconnect(ep, how);
}

// ------------------------------------------------------------------------------------ connecting

/// A qualifier outside the ranges from which providers and systems assign numbers: an assigned one
/// could go to another process before it is used. Other processes run these cases concurrently.
DAT_CONN_QUAL unused_qualifier(adapter &ia)
{
    static std::atomic<unsigned> used{0};
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG, 1);
    const auto first = static_cast<unsigned>(program::process_id()) * 977;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    DAT_RETURN code = DAT_CONN_QUAL_IN_USE;
    for (int tries = 0; tries < 1000 && DAT_GET_TYPE(code) == DAT_CONN_QUAL_IN_USE; ++tries) {
        qualifier = 10'000 + (first + used++) % 20'000;
        code = dat_psp_create(ia.handle, qualifier, evd, DAT_PSP_CONSUMER_FLAG, &psp);
    }
    MUST(code);
    MUST(dat_psp_free(psp));
    MUST(dat_evd_free(evd));
    return qualifier;
}

socket_address::socket_address(const adapter &ia, DAT_CONN_QUAL port)
{
    const bool six = ia.address()->sa_family == AF_INET6;
    std::memcpy(&storage_, ia.address(), six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    // Both families have the port at this place.
    reinterpret_cast<sockaddr_in &>(storage_).sin_port = htons(static_cast<std::uint16_t>(port));
}

bool has_narrow_windows(const adapter &ia)
{
    return ia.attr.max_rmrs != 0 && ia.provider.rmr_scope_supported != DAT_RMR_SCOPE_PZ &&
           find_symbol("dat_rmr_create_for_ep") != nullptr;
}

DAT_RMR_HANDLE make_narrow_rmr(const test_endpoint &of)
{
    auto *call = optional_call<decltype(dat_rmr_create_for_ep)>("dat_rmr_create_for_ep");
    DAT_RMR_HANDLE made = DAT_HANDLE_NULL;
    MUST(call(of.pz, &made));
    return made;
}

DAT_RMR_HANDLE make_closable_rmr(const test_endpoint &of)
{
    if (has_narrow_windows(of.ia))
        return make_narrow_rmr(of);
    DAT_RMR_HANDLE made = DAT_HANDLE_NULL;
    MUST(dat_rmr_create(of.pz, &made));
    return made;
}

listener::listener(adapter &on, DAT_PSP_FLAGS flags, DAT_COUNT qlen)
    : ia(on), cr_evd(make_evd(on, DAT_EVD_CR_FLAG, qlen))
{
    MUST(dat_psp_create_any(on.handle, &qualifier, cr_evd, flags, &psp));
}

void listener::free()
{
    if (psp == DAT_HANDLE_NULL || !ia.is_open())
        return;
    (void)dat_psp_free(psp);
    (void)dat_evd_free(cr_evd);
    psp = DAT_HANDLE_NULL;
}

DAT_CR_ARRIVAL_EVENT_DATA listener::next_arrival(const place &where)
{
    return next_request_at(cr_evd, qualifier, where).event_data.cr_arrival_event_data;
}

void await_established(test_endpoint &one, test_endpoint &other, const place &where)
{
    next_connection(one.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, where);
    next_connection(other.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, where);
}

void establish(test_endpoint &active, test_endpoint &passive, listener &at, const place &where)
{
    MUST(active.connect(at.ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(where), passive.ep, 0, nullptr));
    await_established(active, passive, where);
}

void establish(test_endpoint &active, test_endpoint &passive, const place &where)
{
    listener at(passive.ia);
    establish(active, passive, at, where);
}

} // namespace conformance
