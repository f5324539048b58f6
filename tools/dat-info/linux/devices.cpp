// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "devices.hpp"

#include "folder.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <sys/resource.h>
#include <unistd.h>

namespace dat_info {
namespace {

const std::string rdma_folder = "/sys/class/infiniband";

struct interface_state {
    std::set<std::string> up, with_ipv4;
};

interface_state find_interface_state()
{
    interface_state found;
    ifaddrs *first = nullptr;
    (void)::getifaddrs(&first);
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> owner(first, &::freeifaddrs);
    for (const ifaddrs *each = first; each != nullptr; each = each->ifa_next) {
        if ((each->ifa_flags & IFF_UP) == 0)
            continue;
        found.up.insert(each->ifa_name);
        if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET)
            found.with_ipv4.insert(each->ifa_name);
    }
    return found;
}

/// The kernel writes "4: ACTIVE".
std::string trouble_of_port(const std::string &folder)
{
    std::string number, state;
    std::ifstream(folder + "/state") >> number >> state;
    if (state == "ACTIVE")
        return "";
    return "is not active" + (state.empty() ? "" : ", but " + state);
}

} // namespace

std::set<std::string> rdma_device_names()
{
    return entries_of(rdma_folder);
}

obstacle obstacle_to_rdma()
{
    const std::string folder = "/dev/infiniband/";
    bool any = false;
    for (const std::string &name : entries_of(folder)) {
        const std::string path = folder + name;
        any = any || name.starts_with("uverbs");
        if ((name.starts_with("uverbs") || name == "rdma_cm") &&
            ::access(path.c_str(), R_OK | W_OK) != 0)
            return {path + " cannot be opened: " + std::strerror(errno),
                    "let this user read and write it (rdma-core has udev rules for that)"};
    }
    if (!any)
        return {"there is no device node " + folder + "uverbs*",
                "load the module ib_uverbs, or show the container these devices"};
    if (::access((folder + "rdma_cm").c_str(), F_OK) != 0)
        return {"there is no device node " + folder + "rdma_cm",
                "load the module rdma_ucm, or show the container this device"};
    return {};
}

bool rdma_is_by_namespace()
{
    std::string shared;
    std::ifstream("/sys/module/ib_core/parameters/netns_mode") >> shared;
    return shared == "N";
}

std::optional<std::uint64_t> lockable_memory()
{
    rlimit now{};
    if (::getrlimit(RLIMIT_MEMLOCK, &now) != 0 || now.rlim_cur == RLIM_INFINITY)
        return std::nullopt;
    return now.rlim_cur;
}

std::set<std::string> interface_names()
{
    std::set<std::string> names;
    struct if_nameindex *all = if_nameindex();
    for (auto *each = all; each != nullptr && each->if_index != 0; ++each)
        names.insert(each->if_name);
    if (all != nullptr)
        if_freenameindex(all);
    return names;
}

std::vector<device> find_devices()
{
    std::vector<device> found;
    const interface_state state = find_interface_state();
    for (const std::string &name : interface_names())
        found.push_back({name, "",
                         state.up.count(name) == 0          ? "is down"
                         : state.with_ipv4.count(name) == 0 ? "has no IPv4 address"
                                                            : ""});
    for (const std::string &name : rdma_device_names())
        for (const std::string &port : entries_of(rdma_folder + "/" + name + "/ports"))
            found.push_back(
                {name, port, trouble_of_port(rdma_folder + "/" + name + "/ports/" + port)});
    return found;
}

} // namespace dat_info
