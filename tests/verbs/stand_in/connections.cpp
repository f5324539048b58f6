// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of librdmacm: connections of InfiniBand between identifiers of this process.
#include "world.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

namespace stand_in {

namespace {

// What the messages of InfiniBand hold; private data are padded with zeros to it.
constexpr std::uint8_t request_size = 56;
constexpr std::uint8_t reply_size = 196;
constexpr std::uint8_t reject_size = 148;

// Reasons of a reject.
constexpr int no_listener = 8;
constexpr int by_consumer = 28;

struct cm_message : rdma_cm_event {
    char bytes[256] = {};
};

struct channel : rdma_event_channel {
    pollable<cm_message *> events;
};

using guarded = std::lock_guard<std::mutex>;

channel &channel_of(rdma_event_channel *handle)
{
    return *static_cast<channel *>(handle);
}

int failed(int error)
{
    errno = error;
    return -1;
}

} // namespace

enum class stage { idle, listening, asking, asked, accepted, connected, ending, ended };

struct identifier : rdma_cm_id {
    stage at = stage::idle;
    identifier *peer = nullptr;
    std::uint16_t number = 0; ///< port that it is bound to
    std::uint32_t pair = 0;   ///< number of its queue pair
    std::uint8_t tos = 0;     ///< the traffic class that was asked for
    bool ended_by_peer = false;
};

namespace {

void tell(identifier &to, rdma_cm_event_type type, int status = 0)
{
    auto *made = new cm_message{};
    made->id = &to;
    made->event = type;
    made->status = status;
    channel_of(to.channel).events.push(made);
}

/// Tells with what a message carries. The depths of reads change places on the way.
void tell(identifier &to, rdma_cm_event_type type, int status, const rdma_conn_param *with,
          std::uint8_t size, identifier *listener = nullptr)
{
    auto *made = new cm_message{};
    made->id = &to;
    made->listen_id = listener;
    made->event = type;
    made->status = status;
    if (with != nullptr) {
        made->param.conn = *with;
        made->param.conn.responder_resources = with->initiator_depth;
        made->param.conn.initiator_depth = with->responder_resources;
        std::memcpy(made->bytes, with->private_data, with->private_data_len);
        made->param.conn.private_data = made->bytes;
        made->param.conn.private_data_len = size;
    }
    channel_of(to.channel).events.push(made);
}

void set_port(sockaddr_storage &in, std::uint16_t number)
{
    if (in.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6 &>(in).sin6_port = htons(number);
    else
        reinterpret_cast<sockaddr_in &>(in).sin_port = htons(number);
}

std::uint16_t port_of(const sockaddr_storage &in)
{
    return ntohs(in.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6 &>(in).sin6_port
                                          : reinterpret_cast<const sockaddr_in &>(in).sin_port);
}

bool is_loopback(const sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
    return ntohl(reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr) >> 24 == 127;
}

void copy_address(sockaddr_storage &to, const sockaddr *from)
{
    std::memcpy(&to, from,
                from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

/// A port that nobody is bound to, or `wanted`. 0 if that is taken.
std::uint16_t bind_port(identifier &id, std::uint16_t wanted)
{
    static std::uint16_t next = 40'000;
    if (wanted != 0 && all().bound.count(wanted) != 0)
        return 0;
    while (wanted == 0) {
        next = next == 60'000 ? 40'000 : next + 1;
        wanted = all().bound.count(next) == 0 ? next : 0;
    }
    all().bound[wanted] = &id;
    id.number = wanted;
    set_port(id.route.addr.src_storage, wanted);
    return wanted;
}

/// The context that the connection manager has of the device.
ibv_context *manager()
{
    if (all().manager == nullptr && !all().failed)
        all().manager = open_context();
    return all().failed ? nullptr : all().manager;
}

bool is_cut_off(const identifier &id)
{
    return id.verbs != nullptr && of(id.verbs).dead;
}

void end(identifier &id)
{
    id.at = stage::ended;
    if (id.peer != nullptr)
        id.peer->peer = nullptr;
    id.peer = nullptr;
}

/// Ends the connection: the side that begins hears of it when the other has confirmed it.
void disconnect(identifier &id)
{
    if (is_cut_off(id) || id.peer == nullptr)
        return;
    if (id.ended_by_peer) {
        tell(*id.peer, RDMA_CM_EVENT_DISCONNECTED);
        tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
        end(id);
        return;
    }
    if (id.at == stage::ending)
        return;
    id.at = stage::ending;
    id.peer->ended_by_peer = true;
    tell(*id.peer, RDMA_CM_EVENT_DISCONNECTED);
}

void let_go(identifier &id)
{
    switch (id.at) {
    case stage::asking: // the peer, if there is one, has the request
    case stage::asked:
        if (id.peer != nullptr && !is_cut_off(id))
            tell(*id.peer, RDMA_CM_EVENT_REJECTED, by_consumer, nullptr, 0);
        break;
    case stage::accepted:
    case stage::connected:
        disconnect(id);
        break;
    case stage::ending:
        if (id.peer != nullptr && id.ended_by_peer)
            tell(*id.peer, RDMA_CM_EVENT_DISCONNECTED);
        break;
    default:
        break;
    }
    end(id);
}

/// A request that nobody has read goes with its listener.
void drop_request(identifier &asked)
{
    let_go(asked);
    all().identifiers.erase(&asked);
    delete &asked;
}

} // namespace

} // namespace stand_in

using namespace stand_in;

rdma_event_channel *rdma_create_event_channel()
{
    auto *made = new channel{};
    made->fd = made->events.fd;
    return made;
}

void rdma_destroy_event_channel(rdma_event_channel *handle)
{
    delete &channel_of(handle);
}

int rdma_create_id(rdma_event_channel *on, rdma_cm_id **id, void *owner, rdma_port_space space)
{
    const guarded hold(all().lock);
    auto *made = new identifier{};
    made->channel = on;
    made->context = owner;
    made->ps = space;
    all().identifiers.insert(made);
    *id = made;
    return 0;
}

int rdma_destroy_id(rdma_cm_id *handle)
{
    const guarded hold(all().lock);
    auto *gone = static_cast<identifier *>(handle);
    let_go(*gone);
    channel_of(gone->channel).events.remove_if([gone](cm_message *each) {
        const bool matches = each->id == gone || each->listen_id == gone;
        if (matches && each->listen_id == gone)
            drop_request(*static_cast<identifier *>(each->id));
        if (matches)
            delete each;
        return matches;
    });
    if (const auto found = all().bound.find(gone->number);
        found != all().bound.end() && found->second == gone)
        all().bound.erase(found);
    all().identifiers.erase(gone);
    delete gone;
    return 0;
}

int rdma_bind_addr(rdma_cm_id *handle, sockaddr *address)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (!is_loopback(address) || manager() == nullptr)
        return failed(ENODEV);
    copy_address(id.route.addr.src_storage, address);
    if (bind_port(id, port_of(id.route.addr.src_storage)) == 0)
        return failed(EADDRINUSE);
    id.verbs = manager();
    id.port_num = 1;
    return 0;
}

int rdma_listen(rdma_cm_id *handle, int)
{
    const guarded hold(all().lock);
    static_cast<identifier *>(handle)->at = stage::listening;
    return 0;
}

int rdma_resolve_addr(rdma_cm_id *handle, sockaddr *from, sockaddr *to, int)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (manager() == nullptr)
        return failed(ENODEV);
    copy_address(id.route.addr.src_storage, from);
    copy_address(id.route.addr.dst_storage, to);
    (void)bind_port(id, 0);
    if (!is_loopback(to)) {
        tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
        return 0;
    }
    id.verbs = manager();
    id.port_num = 1;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int rdma_resolve_route(rdma_cm_id *handle, int)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    all().newest_class = id.tos;
    tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

int rdma_connect(rdma_cm_id *handle, rdma_conn_param *wanted)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (is_cut_off(id))
        return failed(EIO);
    const auto found = all().bound.find(port_of(id.route.addr.dst_storage));
    id.at = stage::asking;
    id.pair = wanted->qp_num;
    if (found == all().bound.end() || found->second->at != stage::listening) {
        id.at = stage::ended;
        tell(id, RDMA_CM_EVENT_REJECTED, no_listener, nullptr, 0);
        return 0;
    }
    identifier &listener = *found->second;
    auto *asked = new identifier{};
    asked->channel = listener.channel;
    asked->context = listener.context;
    asked->ps = listener.ps;
    asked->verbs = listener.verbs;
    asked->port_num = 1;
    asked->route.addr.src_storage = id.route.addr.dst_storage;
    asked->route.addr.dst_storage = id.route.addr.src_storage;
    asked->at = stage::asked;
    asked->peer = &id;
    id.peer = asked;
    all().identifiers.insert(asked);
    tell(*asked, RDMA_CM_EVENT_CONNECT_REQUEST, 0, wanted, request_size, &listener);
    return 0;
}

int rdma_accept(rdma_cm_id *handle, rdma_conn_param *agreed)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (id.peer == nullptr || is_cut_off(id))
        return failed(EINVAL);
    id.at = stage::accepted;
    id.pair = agreed->qp_num;
    tell(*id.peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, agreed, reply_size);
    return 0;
}

int rdma_establish(rdma_cm_id *handle)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (id.peer == nullptr || is_cut_off(id))
        return failed(EINVAL);
    id.at = id.peer->at = stage::connected;
    tell(*id.peer, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_reject(rdma_cm_id *handle, const void *data, std::uint8_t size)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (id.peer == nullptr || is_cut_off(id))
        return failed(EINVAL);
    rdma_conn_param with{};
    with.private_data = data;
    with.private_data_len = data != nullptr ? size : std::uint8_t{0};
    char none = 0;
    if (data == nullptr)
        with.private_data = &none;
    tell(*id.peer, RDMA_CM_EVENT_REJECTED, by_consumer, &with, reject_size);
    end(id);
    return 0;
}

int rdma_disconnect(rdma_cm_id *handle)
{
    const guarded hold(all().lock);
    auto &id = *static_cast<identifier *>(handle);
    if (id.at != stage::accepted && id.at != stage::connected && id.at != stage::ending)
        return failed(EINVAL);
    disconnect(id);
    return 0;
}

int rdma_notify(rdma_cm_id *, ibv_event_type)
{
    return 0;
}

int rdma_set_option(rdma_cm_id *handle, int level, int option, void *value, std::size_t size)
{
    const guarded hold(all().lock);
    if (level != RDMA_OPTION_ID || option != RDMA_OPTION_ID_TOS || size != 1)
        return failed(ENOSYS);
    if (!device().traffic_classes)
        return failed(EINVAL);
    static_cast<identifier *>(handle)->tos = *static_cast<std::uint8_t *>(value);
    return 0;
}

int rdma_init_qp_attr(rdma_cm_id *handle, ibv_qp_attr *attr, int *mask)
{
    const guarded hold(all().lock);
    const auto &id = *static_cast<identifier *>(handle);
    if (attr->qp_state == IBV_QPS_INIT) {
        *mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    } else if (attr->qp_state == IBV_QPS_RTR) {
        if (id.peer == nullptr)
            return failed(EINVAL);
        attr->dest_qp_num = id.peer->pair;
        *mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC;
    } else {
        *mask = IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    attr->port_num = 1;
    return 0;
}

int rdma_get_cm_event(rdma_event_channel *on, rdma_cm_event **told)
{
    const guarded hold(all().lock);
    cm_message *next = nullptr;
    if (!channel_of(on).events.pop(next))
        return -1;
    *told = next;
    return 0;
}

int rdma_ack_cm_event(rdma_cm_event *told)
{
    delete static_cast<cm_message *>(told);
    return 0;
}
