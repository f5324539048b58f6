// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections made over TCP (cm=tcp): the peers tell one another what their queue pairs need, and
// neither rdma_cm nor an IP address of the RDMA device is wanted. For InfiniBand and RoCE; iWARP
// devices connect their queue pairs by TCP connections of the kernel's.
#include "tcp.hpp"

#include "dapl_line_limit.hpp"
#include "interface_search.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <net/if.h>
#include <new>
#include <sys/random.h>
#include <utility>

namespace dapl::verbs {

using namespace vrb;

namespace {

/// What peers tell one another, as it travels. Numbers are in network order.
struct pair_description {
    std::uint8_t edition;
    std::uint8_t layer; ///< IBV_LINK_LAYER_*
    std::uint8_t mtu;   ///< ibv_mtu of the path, as far as the sender knows
    std::uint8_t reads_in;
    std::uint8_t reads_out;
    std::uint8_t traffic_class; ///< of both directions, if the sender asks for the connection
    std::uint16_t lid;
    std::uint32_t number; ///< of the queue pair
    std::uint32_t psn;    ///< of the first packet that the sender sends
    ibv_gid gid;
};
static_assert(sizeof(pair_description) == 32);

constexpr std::uint8_t edition = 1;
constexpr std::uint32_t psn_bits = 0xffffff;
/// Time until a packet is repeated, 4.096 µs × 2^16 = 268 ms: the connection manager of the kernel
/// learns from the subnet manager how long a packet takes, and here nobody tells.
constexpr std::uint8_t usual_ack_timer = 16;
constexpr std::uint8_t hop_limit = 64;
/// Processors that are emulated need more than the usual time to send a request, if hundreds are
/// sent at once.
constexpr std::uint32_t request_patience_ms = 1000;

line_limit strangers; // all adapters share it

bool is_zero(const ibv_gid &gid)
{
    constexpr ibv_gid none{};
    return std::memcmp(&gid, &none, sizeof gid) == 0;
}

/// The GID that a RoCE device has for an IP address.
ibv_gid gid_of(const sockaddr_storage &address)
{
    ibv_gid out{};
    if (address.ss_family == AF_INET6) {
        std::memcpy(out.raw, &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr, 16);
        return out;
    }
    out.raw[10] = out.raw[11] = 0xff;
    std::memcpy(out.raw + 12, &reinterpret_cast<const sockaddr_in &>(address).sin_addr, 4);
    return out;
}

/// Whether peers can reach this address, if it was not asked for.
bool is_usual(const ifaddrs &entry)
{
    return (entry.ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP && !is_link_local(entry.ifa_addr);
}

/// Takes the address that the word names; without a word, the first that peers can reach.
status take_address(hca &device, const char *word)
{
    port_support::interface_search search(word, device.params.family);
    if (search.error() != 0)
        return status_of_errno(search.error());
    const bool named = search.kind() != port_support::interface_search::named::other;
    while (const ifaddrs *entry = search.next()) {
        if (!named && (word[0] != '\0' || !is_usual(*entry)))
            continue;
        port_support::copy_address(device.address, entry->ifa_addr);
        std::snprintf(device.interface, sizeof device.interface, "%s", entry->ifa_name);
        return success;
    }
    dapl_log(DAPL_DBG_TYPE_ERR,
             "%s: cm=tcp finds no IPv%u address to make connections from%s%s; name an interface "
             "or an address by tcp_interface=",
             device.name, device.params.family, word[0] != '\0' ? " at " : "", word);
    return status::error(DAT_INVALID_PARAMETER);
}

/// [RoCE] The network interface of the port; empty if the device does not tell.
void find_network_interface(hca &device, char (&name)[IF_NAMESIZE])
{
    ibv_gid_entry entry{};
    if (!is_ethernet(device) ||
        ibv_query_gid_ex(device.verbs, device.port_number, 0, &entry, 0) != 0 ||
        if_indextoname(entry.ndev_ifindex, name) == nullptr)
        name[0] = '\0';
}

ibv_ah_attr way_to(const hca &device, const qp &q, const pair_description &peer,
                   const ibv_gid &own_gid, std::uint8_t gid_index)
{
    ibv_ah_attr way{};
    way.dlid = ntohs(peer.lid);
    way.sl = static_cast<std::uint8_t>(device.params.service_level);
    way.port_num = device.port_number;
    way.is_global =
        is_ethernet(device) || peer.gid.global.subnet_prefix != own_gid.global.subnet_prefix;
    way.grh.dgid = peer.gid;
    way.grh.sgid_index = gid_index;
    way.grh.hop_limit = hop_limit;
    way.grh.traffic_class =
        q.phase() == phase::accepting ? peer.traffic_class : traffic_class_of(q);
    return way;
}

/// Null when the bytes are none of this edition, or of another kind of network.
const char *read_description(const hca &device, const tcp_cm_address &from, pair_description &out)
{
    if (from.size != sizeof out || from.bytes[0] != edition)
        return "it speaks another edition of the protocol, or is no such adapter";
    std::memcpy(&out, from.bytes, sizeof out);
    if (out.layer != device.port_limits.link_layer)
        return "its device is on a network of another kind";
    return nullptr;
}

} // namespace

namespace vrb {

tcp_side::tcp_side(hca &device)
    : cm(device, *this,
         {.connect_retry_ms = device.params.connect_retry_ms,
          .linger_ms = device.params.linger_ms,
          .patience_ms = request_patience_ms}),
      device_(device)
{}

status tcp_side::choose_addresses()
{
    if (device_.iwarp) {
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "%s: cm=tcp is for InfiniBand and RoCE: iWARP devices are connected by rdma_cm "
                 "only; leave the parameter out",
                 device_.name);
        return status::error(DAT_INVALID_PARAMETER);
    }
    device_.max_private_data = tcp_cm::max_private_data;
    char own[IF_NAMESIZE];
    find_network_interface(device_, own);
    const char *const wanted = device_.params.tcp_interface;
    const status taken = take_address(device_, wanted[0] != '\0' ? wanted : own);
    return taken.ok() ? choose_gid() : taken;
}

/// A RoCE device has entries for each of its addresses, and for each edition of RoCE.
status tcp_side::choose_gid()
{
    const std::uint32_t asked = device_.params.gid_index;
    const auto count =
        static_cast<std::uint32_t>(std::clamp(device_.port_limits.gid_tbl_len, 0, 255));
    const ibv_gid ours = gid_of(device_.address);
    bool found = false;
    for (std::uint32_t i = 0; i < count; ++i) {
        ibv_gid_entry entry{};
        const bool wanted = asked == adapter_params::own || asked == i;
        if (!wanted || ibv_query_gid_ex(device_.verbs, device_.port_number, i, &entry, 0) != 0 ||
            is_zero(entry.gid))
            continue;
        const bool best = asked == i || !is_ethernet(device_) ||
                          (entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
                           std::memcmp(&entry.gid, &ours, sizeof ours) == 0);
        if (!best && (found || entry.gid_type != IBV_GID_TYPE_ROCE_V2))
            continue;
        gid_ = entry.gid;
        gid_index_ = static_cast<std::uint8_t>(i);
        found = true;
        if (best)
            break;
    }
    if (found)
        return success;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: port %d has no GID %s; gid_index= chooses one", device_.name,
             device_.port_number,
             asked != adapter_params::own ? "of that index" : "that a connection could use");
    return status::error(DAT_INVALID_PARAMETER);
}

tcp_cm_address tcp_side::describe(qp &q) const
{
    tcp_cm_address out;
    if (getrandom(&q.first_psn, sizeof q.first_psn, 0) != ssize_t{sizeof q.first_psn})
        return out;
    q.first_psn &= psn_bits;
    pair_description mine{};
    mine.edition = edition;
    mine.layer = device_.port_limits.link_layer;
    mine.mtu = static_cast<std::uint8_t>(device_.port_limits.active_mtu);
    const read_depths reads = wanted_reads(q);
    mine.reads_in = reads.in;
    mine.reads_out = reads.out;
    mine.traffic_class = traffic_class_of(q);
    mine.lid = htons(device_.port_limits.lid);
    mine.psn = htonl(q.first_psn);
    mine.gid = gid_;
    osd::lock_guard hold(q.lock);
    if (q.handle != nullptr)
        mine.number = htonl(q.handle->qp_num);
    out.size = sizeof mine;
    std::memcpy(out.bytes, &mine, sizeof mine);
    return out;
}

// What the connection manager asks is not checked: its lock is the device's.

OSD_UNCHECKED bool tcp_side::offer(tcp_listener &l, tcp_request &request, const cr_params &params)
{
    cr incoming{nullptr, std::move(request)};
    bool taken = false;
    device_.run_upcall(&l, [&, to = l.owner] { taken = dapls_cr_callback(*to, incoming, params); });
    if (!taken)
        request = std::move(incoming.by_tcp);
    return taken;
}

bool tcp_side::bring_up(tcp_connection &connection, const tcp_cm_address &address)
{
    qp &q = static_cast<qp &>(connection);
    pair_description peer;
    if (const char *why = read_description(device_, address, peer)) {
        dapl_log_some(strangers, DAPL_DBG_TYPE_ERR, "%s: a peer cannot be connected to: %s",
                      device_.name, why);
        return false;
    }
    const read_depths reads = agreed_reads(q, peer.reads_out, peer.reads_in);
    ibv_qp_attr attr{};
    attr.path_mtu = static_cast<ibv_mtu>(
        std::min(peer.mtu, static_cast<std::uint8_t>(device_.port_limits.active_mtu)));
    attr.dest_qp_num = ntohl(peer.number);
    attr.rq_psn = ntohl(peer.psn) & psn_bits;
    attr.sq_psn = q.first_psn;
    attr.ah_attr = way_to(device_, q, peer, gid_, gid_index_);
    attr.max_dest_rd_atomic = reads.in;
    attr.max_rd_atomic = reads.out;
    attr.timeout = usual_ack_timer;
    set_retries(device_.params, attr);
    osd::lock_guard hold(q.lock);
    attr.qp_state = IBV_QPS_RTR;
    if (!modify(q, attr,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return modify(q, attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

OSD_UNCHECKED void tcp_side::tear_down(tcp_connection &connection)
{
    vrb::tear_down(device_, static_cast<qp &>(connection));
}

bool tcp_side::has_failed(tcp_connection &connection)
{
    return static_cast<qp &>(connection).broken;
}

/// A device that refuses the marker brings nothing back that could be waited for.
bool tcp_side::is_drained(tcp_connection &connection)
{
    qp &q = static_cast<qp &>(connection);
    return !post_closing_marker(q) || closing_marker_completed(q);
}

status open_tcp(hca &device)
{
    device.tcp = new (std::nothrow) tcp_side(device);
    return device.tcp != nullptr ? device.tcp->choose_addresses() : out_of_memory;
}

void close_tcp(hca &device)
{
    delete std::exchange(device.tcp, nullptr);
}

status connect_by_tcp(qp &q, const connect_params &params)
{
    hca &device = *q.device;
    q.qos = params.qos;
    const tcp_cm_address own = device.tcp->describe(q);
    if (own.size == 0)
        return call_failed(device.name, "getrandom", errno);
    {
        osd::lock_guard hold(device.lock);
        if (device.failed) {
            end_by_tcp(device, q, DAT_CONNECTION_EVENT_UNREACHABLE);
            return success;
        }
    }
    return device.tcp->cm.connect(q, params, own); // if the device fails now, bring_up() does
}

OSD_UNCHECKED void end_by_tcp(hca &device, qp &q, DAT_EVENT_NUMBER event)
{
    device.tcp->cm.end(q, event);
}

OSD_UNCHECKED std::int64_t serve_tcp(hca &device)
{
    return device.tcp->cm.serve();
}

status accept_by_tcp(cr &request, qp &q, const private_data &data)
{
    hca &device = *q.device;
    q.qos = DAT_QOS_BEST_EFFORT;
    const tcp_cm_address own = device.tcp->describe(q);
    if (own.size == 0)
        return call_failed(device.name, "getrandom", errno);
    return device.tcp->cm.accept(request.by_tcp, q, data, own);
}

} // namespace vrb

} // namespace dapl::verbs
