// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "dat_link.hpp"

#include "dat_names.hpp"

#include <algorithm>
#include <cstring>

namespace bench {

namespace {

constexpr DAT_TIMEOUT slice_us = 100'000;

/// The next event, of `threshold` that are there, in slices, so that a dead peer is noticed.
DAT_EVENT next_event(DAT_EVD_HANDLE evd, patience &p, DAT_COUNT threshold = 1)
{
    p.progress();
    for (;;) {
        DAT_EVENT event;
        DAT_COUNT more;
        const DAT_RETURN code = dat_evd_wait(evd, slice_us, threshold, &event, &more);
        if (code == DAT_SUCCESS)
            return event;
        const auto type = DAT_GET_TYPE(code);
        if (type != DAT_TIMEOUT_EXPIRED && type != DAT_INTERRUPTED_CALL)
            program::fail("dat_evd_wait", code);
        p.slept();
    }
}

DAT_EVD_HANDLE make_evd(dat_adapter &adapter, DAT_COUNT length, DAT_EVD_FLAGS flags,
                        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    program::must("dat_evd_create", dat_evd_create(adapter.ia(), length, cno, flags, &evd));
    return evd;
}

DAT_EP_HANDLE make_endpoint(dat_adapter &adapter, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                            DAT_EVD_HANDLE conn, std::uint32_t max_size, int receives, int requests)
{
    const DAT_IA_ATTR &limits = adapter.attr();
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = std::min(max_size, limits.max_message_size);
    attr.max_rdma_size = std::min(max_size, limits.max_rdma_size);
    attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.max_recv_dtos = receives;
    attr.max_request_dtos = requests;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 1;
    attr.max_rdma_read_in = std::min(16, limits.max_rdma_read_per_ep_in);
    attr.max_rdma_read_out = std::min(16, limits.max_rdma_read_per_ep_out);
    attr.max_rdma_read_iov = 1;
    attr.max_rdma_write_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    program::must("dat_ep_create",
                  dat_ep_create(adapter.ia(), adapter.pz(), recv, request, conn, &attr, &ep));
    return ep;
}

void start_connecting(DAT_EP_HANDLE ep, sockaddr_storage to, DAT_CONN_QUAL qualifier)
{
    constexpr DAT_TIMEOUT ten_seconds = 10'000'000;
    program::must("dat_ep_connect", dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&to),
                                                   qualifier, ten_seconds, 0, nullptr,
                                                   DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

void await_established(DAT_EVD_HANDLE conn_evd, patience &p)
{
    const DAT_EVENT event = next_event(conn_evd, p);
    if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
        program::fail_connection(event.event_number);
}

} // namespace

dat_adapter::dat_adapter(const std::string &name, bool threadsafe)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    const std::string call = "dat_ia_open(\"" + name + "\")";
    program::must(call.c_str(),
                  dat_ia_openv(const_cast<char *>(name.c_str()), 8, &async, &ia_, DAT_VERSION_MAJOR,
                               DAT_VERSION_MINOR, threadsafe ? DAT_TRUE : DAT_FALSE));
    program::must("dat_ia_query", dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &attr_, 0, nullptr));
    program::must("dat_pz_create", dat_pz_create(ia_, &pz_));
}

dat_adapter::~dat_adapter()
{
    dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG);
}

sockaddr_storage dat_adapter::address() const
{
    sockaddr_storage result{};
    const DAT_SOCK_ADDR *address = attr_.ia_address_ptr;
    const std::size_t size =
        address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&result, address, size);
    return result;
}

dat_listener::dat_listener(dat_adapter &adapter, DAT_CONN_QUAL qualifier)
    : evd_(make_evd(adapter, 64, DAT_EVD_CR_FLAG)), qualifier_(qualifier)
{
    if (qualifier_ != 0)
        program::must("dat_psp_create",
                      dat_psp_create(adapter.ia(), qualifier_, evd_, DAT_PSP_CONSUMER_FLAG, &psp_));
    else
        program::must("dat_psp_create_any", dat_psp_create_any(adapter.ia(), &qualifier_, evd_,
                                                               DAT_PSP_CONSUMER_FLAG, &psp_));
}

dat_listener::~dat_listener()
{
    dat_psp_free(psp_);
    dat_evd_free(evd_);
}

DAT_CR_HANDLE dat_listener::next_request(patience &p)
{
    return next_event(evd_, p).event_data.cr_arrival_event_data.cr_handle;
}

software_events::software_events(dat_adapter &adapter, bool completions)
    : evd_(make_evd(
          adapter, 64,
          static_cast<DAT_EVD_FLAGS>(DAT_EVD_SOFTWARE_FLAG | (completions ? DAT_EVD_DTO_FLAG : 0))))
{}

software_events::~software_events()
{
    dat_evd_free(evd_);
}

void software_events::post()
{
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    program::must("dat_evd_post_se", dat_evd_post_se(evd_, &event));
}

void software_events::wait(DAT_COUNT threshold, patience &p)
{
    DAT_EVENT event = next_event(evd_, p, threshold);
    for (DAT_COUNT i = 1; i < threshold; ++i)
        program::must("dat_evd_dequeue", dat_evd_dequeue(evd_, &event));
}

dat_endpoint::dat_endpoint(dat_adapter &adapter, bool merged)
    : dto_evd_(make_evd(
          adapter, 8,
          static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | (merged ? DAT_EVD_CONNECTION_FLAG : 0)))),
      conn_evd_(merged ? dto_evd_ : make_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG)),
      ep_(make_endpoint(adapter, dto_evd_, dto_evd_, conn_evd_, 4096, 2, 2))
{}

dat_endpoint::~dat_endpoint()
{
    dat_ep_free(ep_);
    if (conn_evd_ != dto_evd_)
        dat_evd_free(conn_evd_);
    dat_evd_free(dto_evd_);
}

void dat_endpoint::start_connecting(const sockaddr_storage &address, DAT_CONN_QUAL qualifier)
{
    bench::start_connecting(ep_, address, qualifier);
}

bool dat_endpoint::is_established_soon()
{
    DAT_EVENT event;
    DAT_COUNT more;
    const DAT_RETURN code = dat_evd_wait(conn_evd_, 3000, 1, &event, &more);
    if (DAT_GET_TYPE(code) == DAT_TIMEOUT_EXPIRED)
        return false;
    program::must("dat_evd_wait", code);
    if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
        program::fail_connection(event.event_number);
    return true;
}

void dat_endpoint::await_established(patience &p)
{
    bench::await_established(conn_evd_, p);
}

namespace {

void expect_end(const DAT_EVENT &event)
{
    if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED &&
        event.event_number != DAT_CONNECTION_EVENT_BROKEN)
        program::fail_connection(event.event_number);
}

} // namespace

/// If the peer's disconnect request arrives before its established message, OFED's provider reports
/// only the disconnect.
void dat_endpoint::serve(DAT_CR_HANDLE request, patience &p)
{
    program::must("dat_cr_accept", dat_cr_accept(request, ep_, 0, nullptr));
    DAT_EVENT event = next_event(conn_evd_, p);
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        event = next_event(conn_evd_, p);
    expect_end(event);
}

void dat_endpoint::disconnect(patience &p)
{
    program::must("dat_ep_disconnect", dat_ep_disconnect(ep_, DAT_CLOSE_ABRUPT_FLAG));
    expect_end(next_event(conn_evd_, p));
}

dat_link::dat_link(dat_adapter &adapter, std::uint32_t max_size, evds layout, int links)
    : max_size_(max_size), memory_(link_memory(std::size_t{max_size} * 2))
{
    register_memory(adapter);
    if (layout == evds::notifying)
        program::must("dat_cno_create",
                      dat_cno_create(adapter.ia(), DAT_OS_WAIT_PROXY_AGENT_NULL, &cno_));
    recv_evd_ =
        make_evd(adapter, links * (receive_pool + request_depth) + 1, DAT_EVD_DTO_FLAG, cno_);
    const unsigned merged = layout == evds::merged ? DAT_EVD_CONNECTION_FLAG : 0;
    request_evd_ = layout == evds::one
                       ? recv_evd_
                       : make_evd(adapter, links * request_depth + 1,
                                  static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | merged));
    conn_evd_ = merged != 0 ? request_evd_ : make_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG);
    ep_ = make_endpoint(adapter, recv_evd_, request_evd_, conn_evd_, max_size, receive_pool,
                        request_depth);
}

dat_link::dat_link(dat_adapter &adapter, std::uint32_t max_size, const dat_link &owner)
    : max_size_(max_size), memory_(link_memory(std::size_t{max_size} * 2)),
      recv_evd_(owner.recv_evd_), request_evd_(owner.request_evd_), owns_evds_(false)
{
    register_memory(adapter);
    conn_evd_ = make_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG);
    ep_ = make_endpoint(adapter, recv_evd_, request_evd_, conn_evd_, max_size, receive_pool,
                        request_depth);
}

void dat_link::register_memory(dat_adapter &adapter)
{
    const std::size_t size = std::size_t{max_size_} * 2;
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory_.get();
    base_ = reinterpret_cast<DAT_VADDR>(memory_.get());
    DAT_VLEN length;
    DAT_VADDR address;
    program::must("dat_lmr_create",
                  dat_lmr_create(adapter.ia(), DAT_MEM_TYPE_VIRTUAL, region, size, adapter.pz(),
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr_, &lmr_context_,
                                 &rmr_context_, &length, &address));
}

dat_link::~dat_link()
{
    dat_ep_disconnect(ep_, DAT_CLOSE_ABRUPT_FLAG);
    dat_ep_free(ep_);
    dat_lmr_free(lmr_);
    if (conn_evd_ != request_evd_)
        dat_evd_free(conn_evd_);
    if (owns_evds_ && request_evd_ != recv_evd_)
        dat_evd_free(request_evd_);
    if (owns_evds_)
        dat_evd_free(recv_evd_);
    if (cno_ != DAT_HANDLE_NULL)
        dat_cno_free(cno_);
}

void dat_link::post_pool()
{
    for (int i = 0; i < receive_pool; ++i)
        post_receive();
}

void dat_link::connect(const sockaddr_storage &address, DAT_CONN_QUAL qualifier, patience &p)
{
    post_pool();
    start_connecting(ep_, address, qualifier);
    await_established(conn_evd_, p);
}

void dat_link::accept(DAT_CR_HANDLE request, patience &p)
{
    post_pool();
    program::must("dat_cr_accept", dat_cr_accept(request, ep_, 0, nullptr));
    await_established(conn_evd_, p);
}

void dat_link::connect_pair(dat_link &active, dat_link &passive, dat_adapter &adapter, patience &p)
{
    dat_listener listener(adapter, 0);
    active.post_pool();
    start_connecting(active.ep_, adapter.address(), listener.qualifier());
    passive.accept(listener.next_request(p), p);
    await_established(active.conn_evd_, p);
    active.set_peer_memory(passive.memory());
    passive.set_peer_memory(active.memory());
}

remote_memory dat_link::memory() const
{
    return {base_ + max_size_, rmr_context_};
}

void dat_link::wait_receive(patience &p)
{
    if (cno_ == DAT_HANDLE_NULL)
        return check_completion(next_event(recv_evd_, p));
    p.progress();
    while (!poll_receive())
        await_notification(p);
}

void dat_link::wait_receives(DAT_COUNT threshold, patience &p)
{
    check_completion(next_event(recv_evd_, p, threshold));
    for (DAT_COUNT i = 1; i < threshold; ++i)
        while (!poll_receive())
            p.spin();
}

void dat_link::await_notification(patience &p)
{
    DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_cno_wait(cno_, slice_us, &which);
    const auto type = DAT_GET_TYPE(code);
    // OFED says that the queue is empty when the time is over.
    if (type == DAT_TIMEOUT_EXPIRED || type == DAT_INTERRUPTED_CALL || type == DAT_QUEUE_EMPTY)
        p.slept();
    else
        program::must("dat_cno_wait", code);
}

void dat_link::fail_completion(const DAT_EVENT &event)
{
    const auto &data = event.event_data.dto_completion_event_data;
    throw program::failure(std::string("an operation completed with ") +
                           dat::dto_status_name(data.status) +
                           (data.status == DAT_DTO_ERR_FLUSHED
                                ? "\n  the connection broke; did the other side end?"
                                : "\n  set DAPL_DBG_TYPE=0xffff to see what the provider says"));
}

} // namespace bench
