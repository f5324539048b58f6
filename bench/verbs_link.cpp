// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verbs_link.hpp"

#include "program/failure.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

namespace bench {

namespace {

constexpr int slice_ms = 100;
constexpr int resolve_ms = 2000;

void check(const char *call, int result)
{
    if (result != 0)
        verbs_fail(call);
}

template <class Object>
Object *checked(const char *call, Object *made)
{
    if (made == nullptr)
        verbs_fail(call);
    return made;
}

void unblock(int fd)
{
    check("fcntl", fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

/// Sleeps until the descriptor has something, in slices, so that a dead peer is noticed.
void await_readable(int fd, patience &p)
{
    pollfd of{fd, POLLIN, 0};
    while (::poll(&of, 1, slice_ms) <= 0)
        p.slept();
}

rdma_conn_param parameters()
{
    rdma_conn_param wanted{};
    wanted.responder_resources = 1;
    wanted.initiator_depth = 1;
    wanted.retry_count = 7;
    wanted.rnr_retry_count = 7;
    return wanted;
}

} // namespace

void verbs_fail(const char *call)
{
    throw program::failure(std::string(call) + ": " + std::strerror(errno));
}

void verbs_closer::operator()(rdma_cm_id *id) const
{
    if (id->qp != nullptr)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

// ------------------------------------------------------------------------- the connection manager

verbs_manager::verbs_manager()
    : channel_(checked("rdma_create_event_channel", rdma_create_event_channel()))
{
    unblock(channel_->fd);
}

verbs_owned<rdma_cm_id> verbs_manager::make_id()
{
    rdma_cm_id *id = nullptr;
    check("rdma_create_id", rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP));
    return verbs_owned<rdma_cm_id>(id);
}

void verbs_manager::listen(const sockaddr_storage &on)
{
    listener_ = make_id();
    sockaddr_storage address = on;
    check("rdma_bind_addr",
          rdma_bind_addr(listener_.get(), reinterpret_cast<sockaddr *>(&address)));
    check("rdma_listen", rdma_listen(listener_.get(), 8));
}

sockaddr_storage verbs_manager::listens_on() const
{
    sockaddr_storage address{};
    const sockaddr *own = rdma_get_local_addr(listener_.get());
    std::memcpy(&address, own,
                own->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    return address;
}

verbs_manager::happened verbs_manager::next_event(patience &p)
{
    rdma_cm_event *event = nullptr;
    while (rdma_get_cm_event(channel_.get(), &event) != 0) {
        if (errno != EAGAIN)
            verbs_fail("rdma_get_cm_event");
        await_readable(channel_->fd, p);
    }
    p.progress();
    const happened what = {event->id, event->event, event->status};
    check("rdma_ack_cm_event", rdma_ack_cm_event(event));
    return what;
}

verbs_owned<rdma_cm_id> verbs_manager::next_request(patience &p)
{
    while (requests_.empty()) {
        const happened event = next_event(p);
        if (event.what == RDMA_CM_EVENT_CONNECT_REQUEST)
            requests_.push_back(event.id);
    }
    verbs_owned<rdma_cm_id> first(requests_.front());
    requests_.pop_front();
    return first;
}

void verbs_manager::await(const rdma_cm_id &id, rdma_cm_event_type expected, patience &p)
{
    for (;;) {
        const happened event = next_event(p);
        if (event.what == RDMA_CM_EVENT_CONNECT_REQUEST)
            requests_.push_back(event.id);
        else if (event.id != &id || event.what == RDMA_CM_EVENT_TIMEWAIT_EXIT)
            continue;
        else if (event.what == expected)
            return;
        else if (event.what == RDMA_CM_EVENT_ESTABLISHED)
            continue; // skipped while the end is awaited, which may come without it
        else
            throw program::failure(std::string(rdma_event_str(event.what)) + " (" +
                                   std::to_string(event.status) + ") where " +
                                   rdma_event_str(expected) + " was expected");
    }
}

// ------------------------------------------------------------------------------------ completions

void verbs_queue::open(ibv_context *device, int depth)
{
    channel_.reset(checked("ibv_create_comp_channel", ibv_create_comp_channel(device)));
    unblock(channel_->fd);
    cq_.reset(checked("ibv_create_cq", ibv_create_cq(device, depth, nullptr, channel_.get(), 0)));
}

void verbs_queue::wait(patience &p)
{
    p.progress();
    while (!poll()) {
        check("ibv_req_notify_cq", ibv_req_notify_cq(cq_.get(), 0));
        if (poll())
            return;
        sleep(p);
    }
}

void verbs_queue::sleep(patience &p)
{
    await_readable(channel_->fd, p);
    ibv_cq *of = nullptr;
    void *context = nullptr;
    check("ibv_get_cq_event", ibv_get_cq_event(channel_.get(), &of, &context));
    ibv_ack_cq_events(of, 1);
}

void verbs_queue::fail_completion(const ibv_wc &completion)
{
    throw program::failure(std::string("a verbs operation failed: ") +
                           ibv_wc_status_str(completion.status));
}

// -------------------------------------------------------------------------------------- endpoints

void verbs_endpoint::resolve(const sockaddr_storage &peer, patience &p)
{
    id_ = manager_.make_id();
    sockaddr_storage to = peer;
    check("rdma_resolve_addr",
          rdma_resolve_addr(id_.get(), nullptr, reinterpret_cast<sockaddr *>(&to), resolve_ms));
    manager_.await(*id_, RDMA_CM_EVENT_ADDR_RESOLVED, p);
    check("rdma_resolve_route", rdma_resolve_route(id_.get(), resolve_ms));
    manager_.await(*id_, RDMA_CM_EVENT_ROUTE_RESOLVED, p);
}

void verbs_endpoint::take(patience &p)
{
    id_ = manager_.next_request(p);
}

void verbs_endpoint::make_queue_pair(int receives, int requests, std::uint32_t max_inline)
{
    send_queue.open(id_->verbs, requests + 1);
    receive_queue.open(id_->verbs, receives + 1);
    ibv_qp_init_attr attr{};
    attr.send_cq = send_queue.get();
    attr.recv_cq = receive_queue.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = static_cast<std::uint32_t>(requests);
    attr.cap.max_recv_wr = static_cast<std::uint32_t>(receives);
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = max_inline;
    check("rdma_create_qp", rdma_create_qp(id_.get(), nullptr, &attr));
}

void verbs_endpoint::connect(patience &p)
{
    rdma_conn_param wanted = parameters();
    check("rdma_connect", rdma_connect(id_.get(), &wanted));
    manager_.await(*id_, RDMA_CM_EVENT_ESTABLISHED, p);
}

void verbs_endpoint::accept(patience &p)
{
    rdma_conn_param wanted = parameters();
    check("rdma_accept", rdma_accept(id_.get(), &wanted));
    manager_.await(*id_, RDMA_CM_EVENT_ESTABLISHED, p);
}

void verbs_endpoint::serve(patience &p)
{
    rdma_conn_param wanted = parameters();
    check("rdma_accept", rdma_accept(id_.get(), &wanted));
    manager_.await(*id_, RDMA_CM_EVENT_DISCONNECTED, p);
}

void verbs_endpoint::disconnect(patience &p)
{
    check("rdma_disconnect", rdma_disconnect(id_.get()));
    manager_.await(*id_, RDMA_CM_EVENT_DISCONNECTED, p);
}

// ------------------------------------------------------------------------------------------ links

verbs_link::verbs_link(verbs_manager &manager, std::uint32_t max_size)
    : max_size_(max_size), memory_(link_memory(std::size_t{max_size} * 2)), end_(manager)
{}

void verbs_link::prepare()
{
    end_.make_queue_pair(receive_pool, request_depth, max_inline);
    constexpr int rights =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    mr_.reset(checked("ibv_reg_mr", ibv_reg_mr(end_.domain(), memory_.get(),
                                               std::size_t{max_size_} * 2, rights)));
    for (int i = 0; i < receive_pool; ++i)
        post_receive();
}

void verbs_link::connect(const sockaddr_storage &peer, patience &p)
{
    end_.resolve(peer, p);
    prepare();
    end_.connect(p);
}

void verbs_link::accept(patience &p)
{
    end_.take(p);
    prepare();
    end_.accept(p);
}

std::pair<std::uint64_t, std::uint64_t> verbs_link::memory() const
{
    return {reinterpret_cast<std::uint64_t>(memory_.get() + max_size_), mr_->rkey};
}

} // namespace bench
