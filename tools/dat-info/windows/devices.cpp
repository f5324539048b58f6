// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Windows tells of network interfaces; its RDMA devices are known to no port of this kit.
#include "devices.hpp"

#include "program/windows/new_process.hpp"

#include <iphlpapi.h>
#include <memory>
#include <ws2tcpip.h>

namespace dat_info {
namespace {

/// Calls take(interface) for each interface of this machine.
template <typename Take>
void for_each_interface(Take take)
{
    constexpr ULONG flags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST;
    ULONG size = 1 << 16;
    auto room = std::make_unique<char[]>(size);
    auto *first = reinterpret_cast<IP_ADAPTER_ADDRESSES *>(room.get());
    if (GetAdaptersAddresses(AF_UNSPEC, flags, nullptr, first, &size) != NO_ERROR)
        return;
    for (const auto *each = first; each != nullptr; each = each->Next)
        take(*each);
}

bool has_ipv4(const IP_ADAPTER_ADDRESSES &which)
{
    for (const auto *each = which.FirstUnicastAddress; each != nullptr; each = each->Next)
        if (each->Address.lpSockaddr->sa_family == AF_INET)
            return true;
    return false;
}

} // namespace

std::set<std::string> rdma_device_names()
{
    return {};
}

obstacle obstacle_to_rdma()
{
    return {};
}

bool rdma_is_by_namespace()
{
    return false;
}

std::optional<std::uint64_t> lockable_memory()
{
    return std::nullopt;
}

std::set<std::string> interface_names()
{
    std::set<std::string> names;
    for_each_interface([&](const IP_ADAPTER_ADDRESSES &each) {
        names.insert(program::narrowed(each.FriendlyName));
    });
    return names;
}

std::vector<device> find_devices()
{
    std::vector<device> found;
    for_each_interface([&](const IP_ADAPTER_ADDRESSES &each) {
        found.push_back({program::narrowed(each.FriendlyName), "",
                         each.OperStatus != IfOperStatusUp ? "is down"
                         : !has_ipv4(each)                 ? "has no IPv4 address"
                                                           : ""});
    });
    return found;
}

} // namespace dat_info
