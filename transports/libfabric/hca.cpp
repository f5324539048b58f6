// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "dat_count.hpp"
#include "osd_address.hpp"
#include "osd_descriptor.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>

namespace dapl::libfabric {

using namespace ofi;
using port_support::as_count;

namespace {

constexpr std::uint32_t api_version = FI_VERSION(1, 11);
constexpr DAT_UINT32 max_transfer = 0x80000000;
constexpr DAT_COUNT plenty = 1 << 16; ///< the limit if only memory sets one

status find_interface(hca &device)
{
    const adapter_params &params = device.params;
    const status found = device.interface.find(params.provider, params.interface, params.family);
    std::snprintf(device.name, sizeof(device.name), "%s", device.interface.name);
    return found;
}

// ------------------------------------------------------------------------------------ libfabric

fi_info *make_hints(const hca &device, std::size_t tx_size, std::size_t rx_size)
{
    fi_info *hints = fi_allocinfo();
    if (hints == nullptr)
        return nullptr;
    const auto *address = reinterpret_cast<const sockaddr *>(&device.interface.address);
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    // What we can do without, the provider leaves out of its answer.
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = osd::copy_text(device.params.provider);
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

/// The largest queues that the provider grants: libfabric itself names only its defaults.
template <class Query>
std::size_t largest_queue(Query query)
{
    unsigned granted = 8; // powers of two, of which the default is one
    unsigned refused = 17;
    for (unsigned asked = 16; asked > granted; asked = (granted + refused) / 2) {
        fi_info *found = query(std::size_t{1} << asked);
        (found != nullptr ? granted : refused) = asked;
        fi_freeinfo(found);
    }
    return std::size_t{1} << granted;
}

/// Variables of libfabric leave out providers and interfaces.
void log_no_provider(const hca &device)
{
    const char *const provider = device.params.provider;
    char interface[sizeof "FI__IFACE" + sizeof device.params.provider];
    std::snprintf(interface, sizeof interface, "FI_%s_IFACE", provider);
    for (char &each : interface)
        each = static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
    char cause[160] = "";
    for (const char *name : {"FI_PROVIDER", static_cast<const char *>(interface)}) {
        char *value = osd::environment(name);
        if (value != nullptr && cause[0] == '\0')
            std::snprintf(cause, sizeof cause, "; %s=%.64s leaves out others: unset or correct it",
                          name, value);
        std::free(value);
    }
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: fi_getinfo has no message endpoints of provider \"%s\"%s",
             device.name, provider, cause);
}

bool is_net_of_the_past(const hca &device)
{
    return std::strcmp(device.params.provider, "net") == 0 &&
           FI_VERSION_GE(fi_version(), FI_VERSION(1, 18));
}

status find_provider(hca &device)
{
    device.info = query(device, 0, 0);
    if (device.info == nullptr) {
        if (is_net_of_the_past(device)) {
            dapl_log(DAPL_DBG_TYPE_ERR,
                     "%s: libfabric %u.%u has no provider net, which is in 1.16 and 1.17 only and "
                     "has become tcp: write tcp",
                     device.name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
            return status::error(DAT_INVALID_PARAMETER);
        }
        log_no_provider(device);
        return status::error(DAT_INTERNAL_ERROR);
    }
    // A peer names memory by its address. A provider for which that is an offset takes it so from
    // a domain with this bit.
    device.info->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
    device.provider_keys = (device.info->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0;
    device.immediate_data =
        transport::claims.immediate_data && device.info->domain_attr->cq_data_size >= 8;
    device.max_recv = largest_queue([&](std::size_t n) { return query(device, 0, n); });
    device.max_tx_size = largest_queue([&](std::size_t n) { return query(device, n, 0); });
    // tcp queues what the socket does not take, without a limit.
    device.max_send = device.max_recv;
    return success;
}

void find_private_data_size(hca &device)
{
    device.max_private_data = cm_frame::max_data - sizeof(cm_frame_header);
    fid_pep *pep = nullptr;
    std::size_t size = 0;
    std::size_t length = sizeof(size);
    if (fi_passive_ep(device.fabric, device.info, &pep, nullptr) != 0)
        return;
    if (fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &length) == 0 &&
        size > sizeof(cm_frame_header))
        device.max_private_data = std::min(device.max_private_data, size - sizeof(cm_frame_header));
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
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: fi_close of the %s failed: %s", device.name, what,
                 fi_strerror(-error));
    object = nullptr;
}

void close_everything(hca &device)
{
    if (device.spare.fid != nullptr)
        transport::dapls_ib_cq_free(device.spare);
    device.events.stop(device.lock);
    device.progress.close();
    device.senders.close();
    {
        osd::lock_guard hold(device.lock);
        end_all_silent(device);
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
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: opening fabric, domain or event queue failed: %s%s",
                 device.name, fi_strerror(-error), osd::limit_text(-error).text);
        return status_of_errno(-error);
    }
    find_private_data_size(device);
    find_shared_descriptor(device);
    if (!start_service(device))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    return open_cq(device, device.spare, nullptr, 16);
}

// ------------------------------------------------------------------------------------ identity

void name_attributes(hca &device)
{
    hca_attr can;
    can.immediate_data = device.immediate_data;
    device.names.set(
        {.provider = device.params.provider, .device = device.name, .mtu = device.interface.mtu},
        can);
    device.names.add("LIBFABRIC_ENDPOINT", "FI_EP_MSG");
}

/// Descriptors limit the number of CQs.
DAT_COUNT max_cqs()
{
    constexpr rlim_t each = 3; // a pair of sockets, and the epoll set that holds one of them
    rlimit open{};
    if (getrlimit(RLIMIT_NOFILE, &open) != 0 || open.rlim_cur == RLIM_INFINITY)
        return plenty;
    return static_cast<DAT_COUNT>(std::min<rlim_t>(open.rlim_cur / each, plenty));
}

} // namespace

namespace ofi {

DAT_DTO_COMPLETION_STATUS dto_status(int error)
{
    switch (error) {
    case FI_ETRUNC:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case FI_ENOKEY:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    default:
        return dto_status_of_errno(error);
    }
}

} // namespace ofi

status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    device.owner = params.owner;
    device.process = osd::process_id();
    if (osd::is_privileged()) { // its user names a folder by FI_PROVIDER_PATH
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "%s: not opened: this program has more rights than its user (set-user-ID, "
                 "capabilities), and libfabric loads libraries from folders that the user names",
                 params.name);
        return status::error(DAT_INTERNAL_ERROR);
    }
    osd::occupy_standard();
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
    attr.address = device.interface.shown();
    attr.hca_name = device.name;
    attr.vendor_name = "libfabric";
    attr.firmware_version_major = FI_MAJOR(fi_version());
    attr.firmware_version_minor = FI_MINOR(fi_version());
    attr.max_eps = as_count(device.info->domain_attr->ep_cnt);
    attr.max_dto_per_ep = as_count(std::min(device.max_recv, device.max_send));
    attr.max_rdma_read_per_ep_in = attr.max_dto_per_ep;
    attr.max_rdma_read_per_ep_out = attr.max_dto_per_ep;
    attr.max_cqs = max_cqs();
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
    device.names.show_in(attr);
}

} // namespace dapl::libfabric
