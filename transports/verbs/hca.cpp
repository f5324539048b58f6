// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "dat_count.hpp"
#include "osd_descriptor.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>

namespace dapl::verbs {

using namespace vrb;
using port_support::as_count;

namespace {

constexpr DAT_UINT32 max_transfer = 0x80000000;
constexpr std::uint32_t siw_vendor = 0x626d74;
constexpr std::uint32_t rxe_vendor = 0xffffff;
/// Time to spin, about as long as a wake-up takes. With software devices an answer takes much
/// longer, and both ends have to look at once for it to come in time.
constexpr std::uint32_t hardware_spin_us = 20;
constexpr std::uint32_t software_spin_us = 1000;
/// siw takes a message that arrives together with the answer to its request for an error, and has
/// no way of telling the peer when it is ready. And it fails a request that it has sent, when the
/// peer disconnects before it gets round to completing it. A busy machine needs more than 5 ms for
/// either.
constexpr std::uint32_t siw_settle_ms = 20;
/// An object of siw whose memory begins at this offset of a context looks like a failure to libsiw.
/// So the first object made there is large enough to lie across the offset.
constexpr std::size_t siw_odd_offset = 0x90000;
constexpr std::size_t siw_cq_entry = 32;
/// Bytes of a region: the kernel pins less than 2^32 pages. siw counts them in an int, and of a
/// longer region registers the number of pages that the int holds then.
constexpr std::uint64_t longest_region = (std::uint64_t{1} << 44) - 2 * 4096;
constexpr std::uint64_t siw_longest_region = std::uint64_t{1} << 42;

// ------------------------------------------------------------------------------------ opening

/// librdmacm does not close the devices that it has opened when it is unloaded: each round of open
/// and close would leave descriptors behind. So it stays.
void keep_connection_manager()
{
    void *library = dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (library != nullptr)
        dlclose(library);
}

status open_channel(hca &device)
{
    keep_connection_manager();
    device.channel = rdma_create_event_channel();
    if (device.channel != nullptr && unblock(device.channel->fd))
        return success;
    const int error = errno;
    const osd::limit_text limit(error);
    dapl_log(DAPL_DBG_TYPE_ERR, "\"%s\": rdma_create_event_channel failed: %s%s",
             device.params.device, std::strerror(error),
             limit.text[0] != '\0'
                 ? limit.text
                 : "; is a device there (\"rdma link\") and the module rdma_ucm loaded? "
                   "cm=tcp does without");
    return status::error(DAT_INTERNAL_ERROR);
}

/// Null and errno if there is no such device, or what `use` answers for it is null.
template <class Use>
auto with_device(const char *name, Use use) -> decltype(use(nullptr))
{
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    if (list == nullptr)
        return nullptr;
    errno = ENODEV;
    decltype(use(nullptr)) found = nullptr;
    for (int i = 0; i < count && found == nullptr; ++i)
        if (std::strcmp(ibv_get_device_name(list[i]), name) == 0)
            found = use(list[i]);
    ibv_free_device_list(list);
    return found;
}

ibv_context *open_by_name(const char *name)
{
    return with_device(name, [](ibv_device *it) { return ibv_open_device(it); });
}

/// [cm=tcp] Without the connection manager of the kernel nobody knows which device is behind an
/// address: the parameters name it.
status name_device(hca &device)
{
    std::snprintf(device.name, sizeof device.name, "%s", device.params.device);
    device.port_number = static_cast<std::uint8_t>(std::max(device.params.port, 1u));
    if (with_device(device.name, [](ibv_device *it) { return it; }) != nullptr)
        return success;
    dapl_log(DAPL_DBG_TYPE_ERR,
             "no RDMA device \"%s\"; \"ibv_devices\" lists those that there are, and cm=tcp wants "
             "the name of one",
             device.name);
    return status::error(DAT_INTERNAL_ERROR);
}

void note_kind(hca &device)
{
    device.iwarp = device.verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    device.max_private_data = device.iwarp ? iwarp_data_size : ib_data_size;
    // iWARP reads are writes by the peer. The software device knows better.
    device.siw = device.iwarp && device.limits.vendor_id == siw_vendor;
    device.read_sink_is_remote = device.iwarp && !device.siw;
    device.windows = port_features.memory_windows && device.limits.max_mw > 0 &&
                     (device.limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
    constexpr unsigned type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    const bool rxe = device.limits.vendor_id == rxe_vendor; // whose kernel crashes at these
    device.peer_windows = port_features.ep_windows && device.windows && !rxe &&
                          (device.limits.device_cap_flags & type_2) != 0 &&
                          (device.limits.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
    device.limits.max_mr_size = std::min<std::uint64_t>(
        device.limits.max_mr_size, device.siw ? siw_longest_region : longest_region);
    if (device.params.settle_ms == adapter_params::own)
        device.params.settle_ms = device.siw ? siw_settle_ms : 0;
    if (device.params.spin_us == adapter_params::own)
        device.params.spin_us = device.siw || rxe ? software_spin_us : hardware_spin_us;
}

status opening_failed(const hca &device, const char *call, int error)
{
    (void)call_failed(device.name, call, error);
    return status::error(DAT_INTERNAL_ERROR);
}

/// Whether the device pages memory in for all operations of the port.
bool pages_on_demand(const ibv_device_attr_ex &can)
{
    constexpr std::uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                     IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                     IBV_ODP_SUPPORT_SRQ_RECV;
    return (can.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
           (can.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

/// Makes the completion vectors of the device known, and which vector the parameters want.
status open_vectors(hca &device)
{
    const auto count = static_cast<std::uint32_t>(std::max(device.verbs->num_comp_vectors, 1));
    const std::uint32_t wanted = device.params.vector;
    if (wanted != adapter_params::own && wanted >= count) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: vector=%u: the device has the completion vectors 0 to %u",
                 device.name, wanted, count - 1);
        return status::error(DAT_INVALID_PARAMETER);
    }
    if (!device.vectors.open(count, wanted))
        return out_of_memory;
    device.vectors.look_up(device.name);
    return success;
}

void begin_counting(hca &device)
{
    char folder[sizeof device.name + 64];
    std::snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%d", device.name,
                  device.port_number);
    device.counters.open(folder);
}

status open_verbs(hca &device)
{
    device.verbs = open_by_name(device.name);
    if (device.verbs == nullptr)
        return opening_failed(device, "ibv_open_device", errno);
    if (const int error = ibv_query_device(device.verbs, &device.limits); error != 0)
        return opening_failed(device, "ibv_query_device", error);
    if (const int error = ibv_query_port(device.verbs, device.port_number, &device.port_limits);
        error != 0)
        return opening_failed(device, "ibv_query_port", error);
    if (!unblock(device.verbs->async_fd))
        return opening_failed(device, "fcntl of its descriptor", errno);
    note_kind(device);
    ibv_device_attr_ex more{};
    if (ibv_query_device_ex(device.verbs, nullptr, &more) != 0)
        more = {}; // an old driver: the device has nothing of it
    device.moderation = more.cq_mod_caps;
    if (device.params.by_tcp)
        if (const status chosen = open_tcp(device); !chosen.ok())
            return chosen;
    if (device.params.odp != 0 && !pages_on_demand(more)) {
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "%s: odp=1: the device has no paging on demand for reliable "
                 "connections; leave the parameter out",
                 device.name);
        return status::error(DAT_INVALID_PARAMETER);
    }
    if (const status vectors = open_vectors(device); !vectors.ok())
        return vectors;
    if (!start_service(device))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    DAT_COUNT depth = device.siw ? siw_odd_offset / siw_cq_entry + 1 : 16;
    const status opened = open_cq(device, device.spare, nullptr, depth);
    device.fixed_cqs = opened.ok() && !resizes_cqs(device.spare);
    return opened;
}

void close_connections(hca &device)
{
    osd::lock_guard hold(device.lock);
    // Closes requests first: that refuses them, which answers attempts of this process that wait
    // for an answer.
    for (connection *c = device.connections.front(); c != nullptr;) {
        connection *next = device.connections.after(*c);
        if (!c->unanswered)
            close_connection(device, *c);
        c = next;
    }
    while (connection *c = device.connections.front())
        close_connection(device, *c);
}

void close_everything(hca &device)
{
    if (device.spare.handle != nullptr)
        transport::dapls_ib_cq_free(device.spare);
    stop_service(device);
    close_tcp(device);
    close_connections(device);
    if (device.verbs != nullptr && ibv_close_device(device.verbs) != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: ibv_close_device failed: %s", device.name,
                 std::strerror(errno));
    if (device.anchor != nullptr)
        rdma_destroy_id(device.anchor);
    if (device.channel != nullptr)
        rdma_destroy_event_channel(device.channel);
}

// ------------------------------------------------------------------------------------ identity

const char *link_layer(const hca &device)
{
    if (device.iwarp)
        return "IWARP";
    return is_ethernet(device) ? "ROCE" : "IB";
}

void name_attributes(hca &device)
{
    std::snprintf(device.vendor, sizeof(device.vendor), "0x%x", device.limits.vendor_id);
    std::snprintf(device.mtu, sizeof(device.mtu), "%d", 128 << device.port_limits.active_mtu);
    std::snprintf(device.port, sizeof(device.port), "%d", device.port_number);
    hca_attr can;
    can.immediate_data = has_immediate(device);
    can.atomics = has_atomics(device);
    device.names.set({.provider = link_layer(device),
                      .device = device.name,
                      .mtu = device.mtu,
                      .port = device.port,
                      .port_active = device.port_limits.state == IBV_PORT_ACTIVE,
                      .rdma_read = device.limits.max_qp_rd_atom > 0,
                      .agreed_reads = port_features.qp_query && !device.iwarp},
                     can);
}

/// The depth of reads for a connection request, which has eight bits for it; all ones mean
/// something else.
DAT_COUNT as_reads(int n)
{
    return std::clamp(n, 0, 254);
}

} // namespace

bool vrb::unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    device.owner = params.owner;
    device.process = osd::process_id();
    osd::occupy_standard();
    read_environment(device.params);
    status opened = read_params(params.params, device.params);
    if (opened.ok() && device.params.by_tcp)
        opened = name_device(device);
    if (opened.ok() && !device.params.by_tcp)
        opened = open_channel(device);
    if (opened.ok() && !device.params.by_tcp)
        opened = find_interface(device);
    if (opened.ok())
        opened = open_verbs(device);
    if (!opened.ok()) {
        close_everything(device);
        return opened;
    }
    name_attributes(device);
    if (params.counts)
        begin_counting(device);
    return success;
}

void transport::dapls_ib_close_hca(hca &device)
{
    if (!device.foreign())
        close_everything(device);
}

void transport::dapls_ib_read_counters(hca &device, device_counters &out)
{
    device.counters.read(out);
}

void transport::dapls_ib_query_hca(const hca &device, hca_attr &attr)
{
    const ibv_device_attr &limits = device.limits;
    attr = {};
    attr.address = reinterpret_cast<const DAT_SOCK_ADDR *>(&device.address);
    attr.hca_name = device.name;
    attr.vendor_name = device.vendor;
    attr.spin_us = device.params.spin_us;
    attr.hardware_version_major = limits.hw_ver;
    char *dot = nullptr;
    attr.firmware_version_major = static_cast<DAT_UINT32>(std::strtoul(limits.fw_ver, &dot, 10));
    attr.firmware_version_minor =
        *dot == '.' ? static_cast<DAT_UINT32>(std::strtoul(dot + 1, nullptr, 10)) : 0;
    attr.max_eps = as_count(limits.max_qp);
    attr.max_dto_per_ep = as_count(limits.max_qp_wr - 1); // reserves one for the marker of a
                                                          // graceful disconnect
    attr.max_rdma_read_per_ep_in = as_reads(limits.max_qp_rd_atom);
    attr.max_rdma_read_per_ep_out = as_reads(limits.max_qp_init_rd_atom);
    attr.max_cqs = as_count(limits.max_cq);
    attr.max_cq_depth = as_count(limits.max_cqe);
    attr.max_iov_per_dto = std::min(as_count(limits.max_sge), max_iov);
    attr.max_iov_per_rdma_read = limits.max_sge_rd > 0
                                     ? std::min(as_count(limits.max_sge_rd), attr.max_iov_per_dto)
                                     : attr.max_iov_per_dto;
    attr.max_iov_per_rdma_write = attr.max_iov_per_dto;
    attr.max_mrs = as_count(limits.max_mr);
    attr.max_pds = as_count(limits.max_pd);
    attr.max_srqs = as_count(limits.max_srq);
    attr.max_recv_per_srq = as_count(limits.max_srq_wr);
    if (device.windows)
        attr.max_mws = as_count(limits.max_mw);
    attr.immediate_data = has_immediate(device);
    attr.atomics = has_atomics(device);
    attr.solicited_wait = has_solicited(device);
    attr.ep_windows = attr.send_invalidate = device.peer_windows;
    // The kernel leaves the class aside for siw. Over TCP nobody asks InfiniBand's subnet manager.
    if (!device.siw && (device.tcp == nullptr || is_ethernet(device)))
        attr.qos = adapter_params::all_qualities;
    attr.max_mr_size = limits.max_mr_size;
    attr.max_message_size = std::min<DAT_UINT32>(device.port_limits.max_msg_sz, max_transfer);
    attr.max_rdma_size = attr.max_message_size;
    attr.max_private_data_size = as_count(device.max_private_data);
    device.names.show_in(attr);
}

} // namespace dapl::verbs
