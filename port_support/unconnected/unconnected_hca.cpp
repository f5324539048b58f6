// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The adapter, and its service thread.
#include "unconnected_port.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

constexpr DAT_COUNT plenty = 1 << 16; ///< limit on objects that are in memory of the layer
constexpr DAT_UINT32 max_transfer = 0x80000000;
constexpr std::uint32_t held_packets = 256;

bool make_buffers(hca &h) OSD_REQUIRES(h.library)
{
    const std::size_t each = h.traits.max_datagram;
    const std::size_t depth = h.traits.send_depth;
    h.memory.reset(static_cast<std::uint8_t *>(std::calloc(depth, each)));
    if (h.memory == nullptr || !h.buffers.open(h.traits.send_depth) ||
        !h.accesses.open(h.traits.accesses ? h.traits.send_depth : 1) || !h.pairs.open() ||
        !h.grants.open())
        return false;
    std::size_t at = 0;
    for (pair_buffer &buffer : h.buffers)
        buffer.bytes = h.memory.get() + each * at++;
    const std::uint32_t holds = h.traits.ordered ? 1 : held_packets;
    h.held_memory.reset(static_cast<std::uint8_t *>(std::calloc(holds, each)));
    if (h.held_memory == nullptr || !h.holds.open(holds))
        return false;
    at = 0;
    for (held_packet &held : h.holds)
        held.bytes = h.held_memory.get() + each * at++;
    return true;
}

status open_layer(hca &h)
{
    osd::lock_guard hold(h.library);
    h.traits = h.device->traits();
    h.copy.open();
    if (!make_buffers(h))
        return out_of_memory;
    fabric_key unused;
    int error = h.device->register_memory(
        h.memory.get(), std::uint64_t{h.traits.max_datagram} * h.traits.send_depth, {},
        h.memory_handle, unused);
    if (error == 0)
        error = h.device->own_name(h.name_on_fabric);
    if (error == ENOTSUP) // a device that is being written
        error = 0;
    return error == 0 ? success : call_failed(h.name, "opening the device", error);
}

void close_layer(hca &h)
{
    osd::lock_guard hold(h.library);
    if (h.device != nullptr && h.memory_handle != nullptr)
        h.device->deregister_memory(h.memory_handle);
    h.memory_handle = nullptr;
    h.device.reset();
    h.cm.reset();
}

/// Serves the device, unchecked: the lock of cm is this one.
OSD_UNCHECKED void serve(void *argument)
{
    auto &h = *static_cast<hca *>(argument);
    osd::lock_guard hold(h.lock);
    while (!h.events.is_stopping(h.lock)) {
        const std::int64_t connections_ns = h.cm->serve();
        const std::int64_t device_ns = h.serve_device();
        const std::int64_t lost_ns = h.timers.next_due();
        (void)h.events.wait(h.lock, std::min({connections_ns, device_ns, lost_ns}));
    }
}

bool watch_device(hca &h)
{
    const int fd = h.device->descriptor();
    return fd < 0 || h.events.add(fd, EPOLLIN, &h.device);
}

status start_service(hca &h)
{
    tcp_cm::limits limits;
    limits.linger_ms = h.setup.linger_ms;
    limits.connect_retry_ms = h.setup.connect_retry_ms;
    h.cm.reset(new (std::nothrow) tcp_cm(h, h, limits));
    if (h.cm == nullptr)
        return out_of_memory;
    if (h.events.open() && h.cm->open(h.interface.address) && watch_device(h) &&
        h.events.start("dapl-fabric", serve, &h))
        return success;
    const int error = errno;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: no service thread: %s%s", h.name, std::strerror(error),
             osd::limit_text(error).text);
    return status_of_errno(error);
}

void set_attributes(hca &h)
{
    hca_attr attr;
    port::dapls_ib_query_hca(h, attr);
    h.attributes.set({h.setup.provider, h.name, h.interface.mtu}, attr);
    for (const DAT_NAMED_ATTR &each : h.setup.named)
        if (each.name != nullptr)
            h.attributes.add(each.name, each.value);
}

} // namespace

status port::dapls_ib_open_hca(hca &h, const hca_open_params &params)
{
    h.process = osd::process_id();
    std::snprintf(h.name, sizeof h.name, "%s", params.name);
    status opened = make_fabric(params.params, h.setup);
    h.device = std::move(h.setup.device);
    if (opened.ok())
        opened = h.interface.find(h.name, h.setup.interface, h.setup.family);
    if (opened.ok())
        opened = open_layer(h);
    if (opened.ok()) {
        set_attributes(h);
        opened = start_service(h);
    }
    if (!opened.ok()) {
        h.events.stop(h.lock);
        close_layer(h);
    }
    return opened;
}

void port::dapls_ib_close_hca(hca &h)
{
    if (h.foreign()) { // a forked child leaves the device and its descriptors alone
        (void)h.device.release();
        return;
    }
    h.events.stop(h.lock);
    close_layer(h);
}

void port::dapls_ib_query_hca(const hca &h, hca_attr &attr)
{
    attr = {};
    attr.address = h.interface.shown();
    attr.hca_name = h.name;
    attr.vendor_name = h.setup.vendor;
    attr.spin_us = h.setup.spin_us;
    attr.max_eps = plenty - 1;
    attr.max_dto_per_ep = plenty;
    attr.max_rdma_read_per_ep_in = max_reads;
    attr.max_rdma_read_per_ep_out = max_reads;
    attr.max_cqs = plenty;
    attr.max_cq_depth = 1 << 22;
    attr.max_iov_per_dto = max_segments;
    attr.max_iov_per_rdma_read = max_segments;
    attr.max_iov_per_rdma_write = max_segments;
    attr.max_mrs = plenty;
    attr.max_pds = plenty;
    attr.max_mr_size = SIZE_MAX / 2;
    attr.max_message_size = max_transfer;
    attr.max_rdma_size = max_transfer;
    attr.max_private_data_size = tcp_cm::max_private_data;
    attr.max_srqs = plenty;
    attr.max_recv_per_srq = plenty;
    attr.immediate_data = true;
    h.attributes.show_in(attr);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
