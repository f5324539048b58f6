// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// From the words of dat.conf to an address and the RDMA device behind it.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_address.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

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

/// What an address is bound to, for as long as this lives.
class bound_id {
public:
    bound_id(rdma_event_channel *channel, sockaddr *address)
    {
        if (rdma_create_id(channel, &id_, nullptr, RDMA_PS_TCP) != 0)
            id_ = nullptr;
        else if (rdma_bind_addr(id_, address) != 0)
            drop();
    }
    bound_id(const bound_id &) = delete;
    bound_id &operator=(const bound_id &) = delete;
    ~bound_id() { drop(); }

    /// Null when there is no RDMA device behind the address.
    ibv_device *device() const
    {
        return id_ != nullptr && id_->verbs != nullptr ? id_->verbs->device : nullptr;
    }
    std::uint8_t port() const { return id_->port_num; }
    rdma_cm_id *release() { return std::exchange(id_, nullptr); }

private:
    void drop()
    {
        if (id_ != nullptr)
            rdma_destroy_id(id_);
        id_ = nullptr;
    }

    rdma_cm_id *id_ = nullptr;
};

/// What the first word of the parameters is.
enum class named { address, interface, rdma_device };

bool wanted_family(const sockaddr *address, const adapter_params &params)
{
    if (address->sa_family != AF_INET6)
        return address->sa_family == AF_INET && params.family == 4;
    // A peer that were given a link-local address could not know on which link.
    const auto &v6 = *reinterpret_cast<const sockaddr_in6 *>(address);
    return params.family == 6 && !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

bool worth_a_look(const ifaddrs &entry, named what, const hca &device)
{
    if (entry.ifa_addr == nullptr || osd::address::size_of(entry.ifa_addr) == 0)
        return false;
    if (what == named::address)
        return same_host(entry.ifa_addr, device.address);
    return wanted_family(entry.ifa_addr, device.params) &&
           (what == named::rdma_device || std::strcmp(entry.ifa_name, device.params.device) == 0);
}

/// Takes this interface if it leads to the wanted device.
bool take(const ifaddrs &entry, named what, hca &device)
{
    bound_id bound(device.channel, entry.ifa_addr);
    if (bound.device() == nullptr)
        return false;
    const char *name = ibv_get_device_name(bound.device());
    const bool right = what != named::rdma_device ||
                       (std::strcmp(name, device.params.device) == 0 &&
                        (device.params.port == 0 || device.params.port == bound.port()));
    if (!right)
        return false;
    device.address = {};
    std::memcpy(&device.address, entry.ifa_addr, osd::address::size_of(entry.ifa_addr));
    port_in(device.address) = 0;
    std::snprintf(device.name, sizeof(device.name), "%s", name);
    std::snprintf(device.interface, sizeof(device.interface), "%s", entry.ifa_name);
    device.port_number = bound.port();
    device.anchor = bound.release();
    return true;
}

bool is_interface(const char *name)
{
    return if_nametoindex(name) != 0;
}

const char *kind_of(named what)
{
    switch (what) {
    case named::address:
        return "address";
    case named::interface:
        return "network interface";
    case named::rdma_device:
        break;
    }
    return "RDMA device";
}

status nothing_there(const hca &device, named what, bool seen)
{
    const adapter_params &params = device.params;
    if (what == named::rdma_device)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "no RDMA device or network interface \"%s\" (port %u) with an IPv%u address; "
                 "compare with \"rdma link\" and \"ip address\"",
                 params.device, params.port, params.family);
    else if (seen)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "no RDMA device behind the %s \"%s\"; \"rdma link\" lists those that have one",
                 kind_of(what), params.device);
    else
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "the %s \"%s\" has no IPv%u address that could be used; see \"ip address\"",
                 kind_of(what), params.device, params.family);
    return status::error(DAT_INTERNAL_ERROR);
}

} // namespace

status find_interface(hca &device)
{
    named what = named::rdma_device;
    if (read_address(device.params.device, device.address))
        what = named::address;
    else if (is_interface(device.params.device))
        what = named::interface;
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "the network interfaces cannot be listed: %s",
                 std::strerror(errno));
        return status::error(DAT_INTERNAL_ERROR);
    }
    bool seen = false;
    bool taken = false;
    for (const ifaddrs *i = list; i != nullptr && !taken; i = i->ifa_next) {
        if (!worth_a_look(*i, what, device))
            continue;
        seen = true;
        taken = take(*i, what, device);
    }
    freeifaddrs(list);
    return taken ? success : nothing_there(device, what, seen);
}

} // namespace dapl::verbs::vrb
