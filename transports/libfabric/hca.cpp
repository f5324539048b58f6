// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_address.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>

namespace dapl::libfabric {

using namespace ofi;

namespace {

constexpr std::uint32_t api_version = FI_VERSION(1, 11);
constexpr DAT_UINT32 max_transfer = 0x80000000;
constexpr DAT_COUNT plenty = 1 << 16; ///< where only memory sets a limit

// ------------------------------------------------------------------------------- the interface

int wanted_family(const adapter_params &params)
{
    return params.family == 6 ? AF_INET6 : AF_INET;
}

bool read_address(const char *text, sockaddr_storage &address)
{
    auto &v4 = reinterpret_cast<sockaddr_in &>(address);
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address);
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        return true;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        return true;
    }
    return false;
}

bool same_host(const sockaddr *a, const sockaddr_storage &b)
{
    if (a->sa_family != b.ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in *>(a)->sin_addr.s_addr ==
               reinterpret_cast<const sockaddr_in &>(b).sin_addr.s_addr;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 *>(a)->sin6_addr,
                       &reinterpret_cast<const sockaddr_in6 &>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

/// The entry for a network interface by its name, or by an address of it.
const ifaddrs *choose(const ifaddrs *list, const hca &device)
{
    const bool by_address = device.address.ss_family != AF_UNSPEC;
    for (const ifaddrs *i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || osd::address::size_of(i->ifa_addr) == 0)
            continue;
        const bool found = by_address ? same_host(i->ifa_addr, device.address)
                                      : std::strcmp(i->ifa_name, device.params.interface) == 0 &&
                                            i->ifa_addr->sa_family == wanted_family(device.params);
        if (found)
            return i;
    }
    return nullptr;
}

status no_interface(const hca &device)
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: no interface \"%s\" with an IPv%u address",
             device.params.provider, device.params.interface, device.params.family);
    return status::error(DAT_INVALID_PARAMETER);
}

/// Sets address and name.
status find_interface(hca &device)
{
    (void)read_address(device.params.interface, device.address);
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return status::error(DAT_INTERNAL_ERROR);
    const ifaddrs *found = choose(list, device);
    if (found != nullptr) {
        std::memcpy(&device.address, found->ifa_addr, osd::address::size_of(found->ifa_addr));
        std::snprintf(device.name, sizeof(device.name), "%s", found->ifa_name);
    }
    freeifaddrs(list);
    return found != nullptr ? success : no_interface(device);
}

void read_mtu(hca &device)
{
    char path[128];
    std::snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", device.name);
    std::size_t size = 0;
    char *text = osd::read_file(path, 64 * 1024, &size);
    const long mtu = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    std::snprintf(device.mtu, sizeof(device.mtu), "%ld", mtu > 0 ? mtu : 1500);
    std::free(text);
}

// ------------------------------------------------------------------------------------ libfabric

fi_info *make_hints(const hca &device, std::size_t tx_size, std::size_t rx_size)
{
    fi_info *hints = fi_allocinfo();
    if (hints == nullptr)
        return nullptr;
    const auto *address = reinterpret_cast<const sockaddr *>(&device.address);
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_BASIC; // remote addresses are virtual, libfabric makes keys
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(device.params.provider);
    hints->addr_format = address->sa_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
    hints->src_addrlen = osd::address::size_of(address);
    hints->src_addr = std::calloc(1, hints->src_addrlen);
    if (hints->src_addr != nullptr)
        std::memcpy(hints->src_addr, address, hints->src_addrlen);
    hints->tx_attr->size = tx_size;
    hints->rx_attr->size = rx_size;
    return hints;
}

fi_info *query(const hca &device, std::size_t tx_size, std::size_t rx_size)
{
    fi_info *hints = make_hints(device, tx_size, rx_size);
    fi_info *found = nullptr;
    if (hints == nullptr || fi_getinfo(api_version, nullptr, nullptr, 0, hints, &found) != 0)
        found = nullptr;
    fi_freeinfo(hints);
    return found;
}

/// The largest queues the provider has: libfabric itself names only what it takes by default.
template <class Query>
std::size_t largest_queue(Query query)
{
    for (std::size_t size = plenty; size > 256; size /= 2) {
        fi_info *found = query(size);
        if (found == nullptr)
            continue;
        fi_freeinfo(found);
        return size;
    }
    return 256;
}

status find_provider(hca &device)
{
    const char *provider = device.params.provider;
    device.tcp_like = std::strcmp(provider, "tcp") == 0 || std::strcmp(provider, "net") == 0;
    device.info = query(device, 0, 0);
    if (device.info == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: libfabric has no message endpoints of provider \"%s\"",
                 device.name, provider);
        return status::error(DAT_INTERNAL_ERROR);
    }
    device.immediate_data =
        transport::claims.immediate_data && device.info->domain_attr->cq_data_size >= 8;
    device.max_recv = largest_queue([&](std::size_t n) { return query(device, 0, n); });
    device.max_tx_size = largest_queue([&](std::size_t n) { return query(device, n, 0); });
    // tcp queues what the socket does not take, without a limit.
    device.max_send = device.tcp_like ? device.max_recv : device.max_tx_size;
    return success;
}

void find_private_data_size(hca &device)
{
    device.max_private_data = cm_message::max_data - sizeof(cm_header);
    fid_pep *pep = nullptr;
    std::size_t size = 0;
    std::size_t length = sizeof(size);
    if (fi_passive_ep(device.fabric, device.info, &pep, nullptr) != 0)
        return;
    if (fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &length) == 0 &&
        size > sizeof(cm_header))
        device.max_private_data = std::min(device.max_private_data, size - sizeof(cm_header));
    fi_close(&pep->fid);
}

int open_libfabric(hca &device)
{
    int error = fi_fabric(device.info->fabric_attr, &device.fabric, nullptr);
    if (error == 0)
        error = fi_domain(device.fabric, device.info, &device.domain, nullptr);
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    if (error == 0)
        error = fi_eq_open(device.fabric, &attr, &device.eq, nullptr);
    return error;
}

template <class Fid>
void close_fid(hca &device, Fid *&object, const char *what)
{
    const int error = object != nullptr ? fi_close(&object->fid) : 0;
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s not closed: %s", device.name, what,
                 fi_strerror(-error));
    object = nullptr;
}

void close_everything(hca &device)
{
    if (device.spare.fid != nullptr)
        transport::dapls_ib_cq_free(device.spare);
    device.events.stop(device.lock);
    {
        osd::lock_guard hold(device.lock);
        close_passives(device, INT64_MAX);
    }
    close_fid(device, device.eq, "event queue");
    close_fid(device, device.domain, "domain");
    close_fid(device, device.fabric, "fabric");
    fi_freeinfo(device.info);
    device.info = nullptr;
}

status open_device(hca &device)
{
    const int error = open_libfabric(device);
    if (error != 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s", device.name, fi_strerror(-error));
        return control_error(-error);
    }
    find_private_data_size(device);
    if (!start_service(device))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    return open_cq(device, device.spare, nullptr, 16);
}

// ------------------------------------------------------------------------------------ identity

void add_attr(hca &device, const char *name, const char *value)
{
    device.named_attrs[device.num_named_attrs++] = {name, value};
}

void name_attributes(hca &device)
{
    device.num_named_attrs = 0;
    add_attr(device, "DAT_IB_PROVIDER_NAME", device.params.provider);
    add_attr(device, "DAT_IB_DEVICE_NAME", device.name);
    add_attr(device, "DAT_IB_CONNECTIVITY_MODE", "DIRECT");
    add_attr(device, "DAT_IB_RDMA_READ", "TRUE");
    add_attr(device, "DAT_IB_TRANSPORT_MTU", device.mtu);
    add_attr(device, "DAT_IB_PORT_NUMBER", "1");
    add_attr(device, "DAT_IB_PORT_STATUS", "PORT_ACTIVE");
    add_attr(device, DAT_IB_ATTR_IMMED_DATA, device.immediate_data ? "TRUE" : "FALSE");
    add_attr(device, DAT_IB_ATTR_FETCH_AND_ADD, "FALSE");
    add_attr(device, DAT_IB_ATTR_CMP_AND_SWAP, "FALSE");
}

DAT_COUNT as_count(std::size_t n)
{
    return static_cast<DAT_COUNT>(std::min<std::size_t>(n, INT32_MAX));
}

} // namespace

namespace ofi {

status control_error(int error)
{
    switch (error) {
    case ENOMEM:
        return out_of_memory;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case EAGAIN:
    case ENOSPC:
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    case EACCES:
        return status::error(DAT_PRIVILEGES_VIOLATION);
    case EFAULT:
    case EPERM:
        return status::error(DAT_PROTECTION_VIOLATION);
    default:
        return status::error(DAT_INTERNAL_ERROR);
    }
}

DAT_DTO_COMPLETION_STATUS dto_status(int error)
{
    switch (error) {
    case FI_ECANCELED:
    case ENOTCONN:
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ESHUTDOWN:
    case ETIMEDOUT:
        return DAT_DTO_ERR_FLUSHED; // the connection went away below it
    case FI_ETRUNC:
    case EMSGSIZE:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case EFAULT:
        return DAT_DTO_ERR_LOCAL_PROTECTION;
    case EACCES:
    case EPERM:
    case EKEYREJECTED:
    case FI_ENOKEY:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    default:
        return DAT_DTO_ERR_TRANSPORT;
    }
}

} // namespace ofi

status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    device.owner = params.owner;
    device.process = osd::process_id();
    device.params = {};
    device.address = {};
    status opened = read_params(params.params, device.params);
    if (opened.ok())
        opened = find_interface(device);
    if (opened.ok())
        opened = find_provider(device);
    if (opened.ok())
        opened = open_device(device);
    if (!opened.ok()) {
        close_everything(device);
        return opened;
    }
    read_mtu(device);
    name_attributes(device);
    return success;
}

void transport::dapls_ib_close_hca(hca &device)
{
    if (!device.foreign())
        close_everything(device);
}

void transport::dapls_ib_query_hca(const hca &device, hca_attr &attr)
{
    attr = {};
    attr.address = reinterpret_cast<const DAT_SOCK_ADDR *>(&device.address);
    attr.hca_name = device.name;
    attr.vendor_name = "libfabric";
    attr.firmware_version_major = FI_MAJOR(fi_version());
    attr.firmware_version_minor = FI_MINOR(fi_version());
    attr.max_eps = as_count(device.info->domain_attr->ep_cnt);
    attr.max_dto_per_ep = as_count(std::min(device.max_recv, device.max_send));
    attr.max_rdma_read_per_ep_in = attr.max_dto_per_ep;
    attr.max_rdma_read_per_ep_out = attr.max_dto_per_ep;
    attr.max_cqs = plenty;
    attr.max_cq_depth = 1 << 22;
    attr.max_iov_per_dto =
        as_count(std::min(device.info->tx_attr->iov_limit, device.info->rx_attr->iov_limit));
    attr.max_iov_per_dto = std::min(attr.max_iov_per_dto, max_iov);
    attr.max_iov_per_rdma_read = attr.max_iov_per_dto;
    attr.max_iov_per_rdma_write = attr.max_iov_per_dto;
    attr.max_mrs = plenty;
    attr.max_pds = plenty;
    attr.max_mr_size = SIZE_MAX / 2;
    attr.max_message_size = static_cast<DAT_UINT32>(
        std::min<std::size_t>(device.info->ep_attr->max_msg_size, max_transfer));
    attr.max_rdma_size = attr.max_message_size;
    attr.max_private_data_size = as_count(device.max_private_data);
    attr.spin_us = device.params.spin_us;
    attr.immediate_data = device.immediate_data;
    attr.named_attrs = device.named_attrs;
    attr.num_named_attrs = device.num_named_attrs;
}

} // namespace dapl::libfabric
