// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finds an address and the RDMA device behind it by ia_params.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "interface_search.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

struct id_destroyer {
    void operator()(rdma_cm_id *id) const { rdma_destroy_id(id); }
};
using unique_id = std::unique_ptr<rdma_cm_id, id_destroyer>;

/// An identifier bound to the address; null when there is no RDMA device behind that.
unique_id bind_to(rdma_event_channel *channel, sockaddr *address)
{
    rdma_cm_id *id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0)
        return nullptr;
    unique_id bound(id);
    const bool has_device = rdma_bind_addr(id, address) == 0 && id->verbs != nullptr;
    return has_device ? std::move(bound) : nullptr;
}

using named = port_support::interface_search::named;

/// Takes this interface if it leads to the wanted device.
bool take(const ifaddrs &entry, named word_kind, hca &device)
{
    unique_id bound = bind_to(device.channel, entry.ifa_addr);
    if (bound == nullptr)
        return false;
    const char *name = ibv_get_device_name(bound->verbs->device);
    const bool right = word_kind != named::other ||
                       (std::strcmp(name, device.params.device) == 0 &&
                        (device.params.port == 0 || device.params.port == bound->port_num));
    if (!right)
        return false;
    port_support::copy_address(device.address, entry.ifa_addr);
    std::snprintf(device.name, sizeof(device.name), "%s", name);
    std::snprintf(device.interface, sizeof(device.interface), "%s", entry.ifa_name);
    device.port_number = bound->port_num;
    device.anchor = bound.release();
    return true;
}

status nothing_there(const hca &device, named word_kind, bool seen)
{
    const adapter_params &params = device.params;
    const char *kind = word_kind == named::address ? "address" : "network interface";
    if (word_kind == named::other)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "no RDMA device or network interface \"%s\" (port %u) with an IPv%u address; "
                 "compare with \"rdma link\" and \"ip address\"",
                 params.device, params.port, params.family);
    else if (seen)
        dapl_log(
            DAPL_DBG_TYPE_ERR,
            "no RDMA device behind the %s \"%s\"; \"rdma link\" lists the interfaces that have one",
            kind, params.device);
    else
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "the %s \"%s\" has no IPv%u address that could be used; see \"ip address\"", kind,
                 params.device, params.family);
    return status::error(DAT_INTERNAL_ERROR);
}

} // namespace

bool is_link_local(const sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
}

status find_interface(hca &device)
{
    port_support::interface_search search(device.params.device, device.params.family);
    if (search.error() != 0)
        return status_of_errno(search.error());
    bool seen = false;
    while (const ifaddrs *entry = search.next()) {
        if (search.kind() != named::address && is_link_local(entry->ifa_addr))
            continue;
        seen = true;
        if (take(*entry, search.kind(), device))
            return success;
    }
    return nothing_there(device, search.kind(), seen);
}

} // namespace dapl::verbs::vrb
