// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port_rig.hpp"

#include "../own_port.hpp"
#include "dapl_debug.hpp"
#include "dapls_ib_check.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>

// Read by the leak sanitizer: libfabric keeps a list of providers it never frees.
extern "C" const char *__lsan_default_suppressions()
{
    return "leak:libfabric.so\n";
}

namespace dapl::libfabric {

template struct check_transport<transport>;

std::atomic<unsigned> debug_mask = std::getenv("PORT_TEST_LOG") != nullptr ? ~0U : 0U;

void debug_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    std::vfprintf(stderr, format, args);
    va_end(args);
    std::fputc('\n', stderr);
}

// ------------------------------------------------------------------------------------- upcalls

template <>
bool dapls_cr_callback(service_point &sp, ofi::cr &request, const cr_params &params)
{
    if (!sp.takes)
        return false;
    auto a = std::make_unique<arrival>();
    a->request = std::move(request);
    a->data.assign(static_cast<const char *>(params.data.bytes), params.data.size);
    a->family = params.peer->sa_family;
    a->port = params.peer_port;
    sp.arrivals.put(std::move(a));
    return true;
}

void dapl_evd_connection_callback(endpoint &ep, DAT_EVENT_NUMBER number, const private_data &data)
{
    if (ep.on_event)
        ep.on_event(number);
    ep.events.put({number, std::string(static_cast<const char *>(data.bytes), data.size)});
}

void dapl_evd_dto_callback(evd &e)
{
    e.callbacks.put(std::this_thread::get_id());
}

void dapl_evd_cq_async_error_callback(evd &) {}
void dapl_evd_qp_async_error_callback(endpoint &) {}
void dapl_evd_un_async_error_callback(adapter &) {}

// ------------------------------------------------------------------------------------- the rig

private_data as_data(const std::string &text)
{
    return {text.data(), text.size()};
}

bool eventually(const std::function<bool()> &condition, ms at_most)
{
    const auto until = std::chrono::steady_clock::now() + at_most;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until)
            return false;
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

node::node(const char *params)
{
    opened = transport::dapls_ib_open_hca(*hca, {"test", params, &owner});
    if (opened.ok())
        REQUIRE(transport::dapls_ib_pd_alloc(*hca, pd).ok());
}

node::~node()
{
    if (opened.ok())
        transport::dapls_ib_close_hca(*hca);
}

side::side(node &n, DAT_COUNT depth)
    : home(n), sends(static_cast<std::size_t>(depth)), recvs(static_cast<std::size_t>(depth))
{
    DAT_COUNT size = depth;
    REQUIRE(transport::dapls_ib_cq_alloc(*n.hca, recv_cq, recv_evd, size).ok());
    size = depth;
    REQUIRE(transport::dapls_ib_cq_alloc(*n.hca, send_cq, send_evd, size).ok());
    REQUIRE(size >= depth);
    const qp_params params{.owner = &ep,
                           .max_recv = depth,
                           .max_send = depth,
                           .max_recv_iov = 4,
                           .max_send_iov = 4,
                           .max_rdma_read_in = 4,
                           .max_rdma_read_out = 4,
                           .receiver = nullptr,
                           .concurrent_posts = false};
    REQUIRE(transport::dapls_ib_qp_alloc(n.pd, qp, &recv_cq, &send_cq, nullptr, params).ok());
}

side::~side()
{
    if (!freed)
        free_qp();
    transport::dapls_ib_cq_free(send_cq);
    transport::dapls_ib_cq_free(recv_cq);
}

void side::free_qp()
{
    transport::dapls_ib_qp_free(qp);
    freed = true;
}

DAT_LMR_TRIPLET segment(const void *data, DAT_COUNT size)
{
    DAT_LMR_TRIPLET t{};
    t.virtual_address = reinterpret_cast<std::uintptr_t>(data);
    t.segment_length = static_cast<DAT_UINT32>(size);
    return t;
}

namespace {

void fill(transport::wr &w, opcode operation, DAT_UINT64 cookie,
          const std::vector<DAT_LMR_TRIPLET> &local)
{
    w.cookie.as_64 = cookie;
    w.operation = operation;
    w.length = 0;
    for (const DAT_LMR_TRIPLET &t : local)
        w.length += static_cast<DAT_UINT32>(t.segment_length);
}

} // namespace

status side::post(opcode operation, std::vector<DAT_LMR_TRIPLET> local,
                  const DAT_RMR_TRIPLET *remote, DAT_UINT64 cookie, int flags)
{
    transport::wr &w = sends[next_send++ % sends.size()];
    fill(w, operation, cookie, local);
    return transport::dapls_ib_post_send(qp, w, static_cast<DAT_COUNT>(local.size()), local.data(),
                                         remote, static_cast<DAT_COMPLETION_FLAGS>(flags));
}

status side::send(const void *data, DAT_COUNT size, DAT_UINT64 cookie, int flags)
{
    return post(opcode::send, {segment(data, size)}, nullptr, cookie, flags);
}

status side::rdma(opcode operation, void *data, DAT_COUNT size, const DAT_RMR_TRIPLET &remote,
                  DAT_UINT64 cookie, int flags)
{
    return post(operation, {segment(data, size)}, &remote, cookie, flags);
}

status side::write_immediate(void *data, DAT_COUNT size, const DAT_RMR_TRIPLET &remote,
                             DAT_UINT32 immediate, DAT_UINT64 cookie, int flags)
{
    transport::wr &w = sends[next_send++ % sends.size()];
    std::vector<DAT_LMR_TRIPLET> local{segment(data, size)};
    fill(w, opcode::write_immediate, cookie, local);
    return transport::dapls_ib_post_extended(qp, w,
                                             {.segments = 1,
                                              .local = local.data(),
                                              .remote = &remote,
                                              .flags = static_cast<DAT_COMPLETION_FLAGS>(flags),
                                              .immediate = immediate});
}

status side::recv(std::vector<DAT_LMR_TRIPLET> local, DAT_UINT64 cookie)
{
    transport::wr &w = recvs[next_recv++ % recvs.size()];
    fill(w, opcode::receive, cookie, local);
    return transport::dapls_ib_post_recv(qp, w, static_cast<DAT_COUNT>(local.size()), local.data());
}

status side::recv(void *data, DAT_COUNT size, DAT_UINT64 cookie)
{
    return recv(std::vector{segment(data, size)}, cookie);
}

side::result side::done(transport::cq &c, ms at_most)
{
    completion found;
    const auto until = std::chrono::steady_clock::now() + at_most;
    while (!transport::dapls_ib_completion_poll(c, found))
        if (std::chrono::steady_clock::now() > until)
            return {};
    immediate.reset();
    if (transport::claims.immediate_data && found.has_immediate)
        immediate = found.immediate;
    return {found.wr->cookie.as_64, static_cast<int>(found.status), found.length};
}

status side::connect(const node &to, DAT_CONN_QUAL port, const std::string &data,
                     DAT_TIMEOUT timeout_us)
{
    return transport::dapls_ib_connect(qp, {to.address(), port, timeout_us, as_data(data)});
}

DAT_CONN_QUAL closed_port(node &n)
{
    service_point owner;
    transport::listener trial;
    DAT_CONN_QUAL port = 0;
    status opened;
    do {
        port = test_run::another_port();
        opened = transport::dapls_ib_setup_conn_listener(*n.hca, trial, owner, port);
    } while (opened.type() == DAT_CONN_QUAL_IN_USE);
    REQUIRE(opened.ok());
    transport::dapls_ib_remove_conn_listener(trial);
    return port;
}

door_bell::door_bell(node &n, DAT_CONN_QUAL wanted) : port(wanted)
{
    REQUIRE(transport::dapls_ib_setup_conn_listener(*n.hca, listener, owner, port).ok());
    open = true;
}

void door_bell::close()
{
    if (open)
        transport::dapls_ib_remove_conn_listener(listener);
    open = false;
}

region::region(node &n, std::size_t size, int privileges) : bytes(size)
{
    const mr_params params{bytes.data(), size, static_cast<DAT_MEM_PRIV_FLAGS>(privileges)};
    REQUIRE(transport::dapls_ib_mr_register(n.pd, mr, params, keys).ok());
}

DAT_RMR_TRIPLET region::at(std::size_t offset, std::size_t size)
{
    DAT_RMR_TRIPLET t{};
    t.virtual_address = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    t.segment_length = static_cast<DAT_UINT32>(size);
    t.rmr_context = keys.remote;
    return t;
}

connected_pair::connected_pair(node &x, node &y) : an(x), bn(y), a(x), b(y), bell(y)
{
    REQUIRE(a.connect(y, bell.port).ok());
    auto came = bell.owner.arrivals.take();
    REQUIRE(came);
    REQUIRE(transport::dapls_ib_accept_connection((*came)->request, b.qp, {}).ok());
    REQUIRE(a.ep.next() == DAT_CONNECTION_EVENT_ESTABLISHED);
    REQUIRE(b.ep.next() == DAT_CONNECTION_EVENT_ESTABLISHED);
}

} // namespace dapl::libfabric
