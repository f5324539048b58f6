// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The adapter: opening, closing, limits and identity.
#include "capture.hpp"
#include "key_file.hpp"
#include "upcall_table.hpp"

#include "dapl_debug.hpp"
#include "osd_errno.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

namespace dapl::soft {

namespace {

constexpr DAT_COUNT plenty = 1 << 16; ///< limit where only memory sets one
constexpr DAT_UINT32 max_transfer = 0x80000000;
constexpr DAT_COUNT max_reads = 128;

/// Large datagrams cost less; datagrams above this size fit less well into the processor's caches.
constexpr std::uint32_t best_datagram = 16384;
constexpr std::uint32_t ip_and_udp_v4 = 28;
constexpr std::uint32_t ip_and_udp_v6 = 48;

/// That the interface sends in one piece.
std::uint32_t largest_datagram(const soft_hca::interface_info &interface)
{
    const std::uint32_t headers =
        interface.address.family() == AF_INET6 ? ip_and_udp_v6 : ip_and_udp_v4;
    return interface.mtu - std::min(interface.mtu, headers);
}

status find_interface(types::hca &h, const char *adapter)
{
    const int error = soft_hca::look_up_interface(h.params.interface, h.params.family, h.interface);
    if (error == 0)
        return success;
    if (error == ENODEV) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no interface \"%s\" with an IPv%u address", adapter,
                 h.params.interface, h.params.family);
        return status::error(DAT_INVALID_PARAMETER);
    }
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: looking for the interface \"%s\" failed: %s", adapter,
             h.params.interface, osd::error_text(error).text);
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

soft_hca::settings settings_of(const types::hca &h)
{
    soft_hca::settings how;
    how.address = h.interface.address;
    how.watched = h.interface.name;
    how.owner = const_cast<types::hca *>(&h);
    how.threads = h.params.threads;
    how.waiters_call_back = port_features.evd_wait;
    how.spread_callbacks = own_features.cqeh_domains;
    how.datagram = h.params.datagram != 0 ? h.params.datagram
                                          : std::min(largest_datagram(h.interface), best_datagram);
    how.spin_us = h.params.spin_us;
    how.priority = h.params.priority;
    how.connect_retry_ms = h.params.connect_retry_ms;
    how.linger_ms = h.params.linger_ms;
    how.keepalive_ms = h.params.keepalive_ms;
    how.retries = h.params.retries;
    how.checksum = h.params.checksum == adapter_params::by_interface ? !h.interface.loopback
                                                                     : h.params.checksum != 0;
    how.path_mtu = h.params.path_mtu == adapter_params::by_interface ? !h.interface.loopback
                                                                     : h.params.path_mtu != 0;
    how.direct = h.params.direct != 0;
    how.rings = h.params.rings != 0;
    how.safe_copies = h.params.safe_copies != 0;
    how.bad_network = {h.params.loss, h.params.reorder, h.params.duplicate, h.params.delay_us,
                       h.params.seed};
    how.bad_network.corrupt = h.params.corrupt;
    how.bad_network.largest = h.params.largest;
    return how;
}

/// Refused for a reason that the parameters can change.
status no_key(const types::hca &h, const char *why, const char *more = "")
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: key_file=%s: %s%s", h.interface.name, h.params.key_file, why,
             more);
    return status::error(DAT_INVALID_PARAMETER);
}

status read_key(const types::hca &h, key_file &key)
{
    if (!soft_hca::seal_library::is_built())
        return no_key(
            h, "this library was built without sealed packets, which need OpenSSL 3 (Meson's "
               "-Dsoft_keys) and Linux");
    const key_file::trouble found = key.read(h.params.key_file);
    if (found == key_file::trouble::not_readable)
        return no_key(h, "it cannot be read: ", std::strerror(errno));
    return found == key_file::trouble::none ? success : no_key(h, text_of(found));
}

status open_device(types::hca &h)
{
    soft_hca::settings how = settings_of(h);
    std::unique_ptr<key_file> key; // too large for the stacks of small threads
    if (h.params.key_file[0] != '\0') {
        key.reset(new (std::nothrow) key_file);
        if (key == nullptr)
            return out_of_memory;
        if (const status read = read_key(h, *key); !read.ok())
            return read;
        how.key.bytes = key->bytes();
        how.key.size = key->size();
    }
    h.capture = open_capture();
    how.observer = h.capture.get();
    const int error = h.device.open(how, upcall_table);
    if (error == 0)
        return success;
    if (how.sealed() && error == ENOSYS) {
        h.device.close();
        return no_key(h, "there is no libcrypto.so.3 of OpenSSL 3 to be loaded");
    }
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: opening the software HCA failed: %s%s", h.interface.name,
             osd::error_text(error).text, osd::limit_text(error).text);
    h.device.close();
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

/// Bytes of the longest datagram; none is sealed.
std::uint32_t largest_message(const types::hca &h)
{
    return h.params.key_file[0] != '\0' ? 0 : soft_hca::largest_message(h.device.datagram());
}

/// Whether peers of this host and user are accessed directly, and why not.
void describe_direct_access(types::hca &h)
{
    const soft_hca::local_obstacle why = h.device.without_direct();
    const bool works = why == soft_hca::local_obstacle::none;
    if (h.params.direct == 0)
        std::snprintf(h.direct, sizeof h.direct, "off");
    else
        std::snprintf(h.direct, sizeof h.direct, "%s%s",
                      works ? "on" : "off: ", works ? "" : text_of(why));
}

void name_attributes(types::hca &h)
{
    std::snprintf(h.datagram, sizeof h.datagram, "%u", h.device.datagram());
    describe_direct_access(h);
    hca_attr can;
    can.immediate_data = port_features.immediate_data;
    can.atomics = port_features.atomics;
    can.max_datagram_size = port_features.datagrams ? largest_message(h) : 0;
    h.names.set({.provider = "soft",
                 .device = h.interface.name,
                 .mtu = h.datagram,
                 .agreed_reads = port_features.qp_query},
                can);
    h.names.add("SOFT_DIRECT_ACCESS", h.direct);
    h.names.add("SOFT_SEALED", h.params.key_file[0] != '\0' ? "TRUE" : "FALSE");
}

} // namespace

bool types::hca::foreign() const
{
    return process != osd::process_id();
}

status transport::dapls_ib_open_hca(hca &h, const hca_open_params &params)
{
    h.owner = params.owner;
    h.process = osd::process_id();
    h.params = {};
    if (const status read = read_params(params.params, h.params); !read.ok())
        return read;
    if (const status found = find_interface(h, params.name); !found.ok())
        return found;
    const status opened = open_device(h);
    if (opened.ok())
        name_attributes(h);
    return opened;
}

void transport::dapls_ib_close_hca(hca &h)
{
    if (h.foreign())
        return;
    const soft_hca::pair_counts moved = h.device.counts().pairs;
    dapl_log(DAPL_DBG_TYPE_CM, "%s: %llu RDMA writes and reads were direct, %llu went over UDP",
             h.interface.name, static_cast<unsigned long long>(moved.direct),
             static_cast<unsigned long long>(moved.indirect));
    dapl_log(DAPL_DBG_TYPE_CM, "%s: of %llu packets, %llu went through rings", h.interface.name,
             static_cast<unsigned long long>(moved.packets_out),
             static_cast<unsigned long long>(moved.by_ring));
    h.device.close();
    h.capture.reset();
}

void transport::dapls_ib_query_hca(const hca &h, hca_attr &attr)
{
    attr = {};
    attr.address = reinterpret_cast<const DAT_SOCK_ADDR *>(h.interface.address.get());
    attr.hca_name = h.interface.name;
    attr.vendor_name = "software";
    attr.spin_us = h.params.spin_us;
    attr.hardware_version_major = soft_hca::wire_version;
    attr.max_eps = plenty;
    attr.max_dto_per_ep = plenty;
    attr.max_rdma_read_per_ep_in = max_reads;
    attr.max_rdma_read_per_ep_out = max_reads;
    attr.max_cqs = plenty;
    attr.max_cq_depth = 1 << 22;
    attr.max_iov_per_dto = soft_hca::max_segments;
    attr.max_iov_per_rdma_read = soft_hca::max_segments;
    attr.max_iov_per_rdma_write = soft_hca::max_segments;
    attr.max_mrs = plenty;
    attr.max_pds = plenty;
    attr.max_mr_size = SIZE_MAX / 2;
    attr.max_message_size = max_transfer;
    attr.max_rdma_size = max_transfer;
    attr.max_private_data_size = soft_hca::max_private_data;
    attr.max_srqs = plenty;
    attr.max_mws = plenty;
    attr.max_recv_per_srq = plenty;
    attr.immediate_data = true;
    attr.atomics = true;
    attr.solicited_wait = true;
    attr.max_datagram_size = largest_message(h);
    if (soft_hca::sets_traffic_classes(h.interface.address.family()))
        attr.qos = adapter_params::all_qualities;
    h.names.show_in(attr);
}

void transport::dapls_ib_read_counters(hca &h, device_counters &out)
{
    if (h.foreign())
        return;
    const soft_hca::device_counts now = h.device.counts();
    out[DCNT_IA_LNK_ERR_RCV] = now.pairs.corrupt + now.strays.malformed;
    out[DCNT_IA_LNK_ERR_RCV_CONSTRAINT] = now.pairs.dropped + now.strays.unknown;
    out[DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN] = now.early.refused + now.early.evicted;
    out[DCNT_IA_DIAG_ERR_RQ_RAE] = now.pairs.refused;
    out[DCNT_IA_DIAG_ERR_RQ_OOS] = now.pairs.early + now.pairs.duplicates;
    out[DCNT_IA_DIAG_ERR_RQ_RIRE] = now.pairs.rules_broken;
    out[DCNT_IA_DIAG_ERR_SQ_RAE] = now.pairs.refused_by_peer;
    out[DCNT_IA_DIAG_ERR_SQ_OOS] = now.pairs.packets_resent;
    out[DCNT_IA_DIAG_ERR_SQ_RIRE] = now.pairs.failed_at_peer;
    out[DCNT_IA_DIAG_ERR_SQ_TREE] = now.pairs.gave_up;
}

} // namespace dapl::soft
