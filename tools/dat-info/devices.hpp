// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The network interfaces and RDMA devices of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dat_info {

/// A place where an adapter may be: an interface, or a port of an RDMA device.
struct device {
    std::string name;
    std::string port;    ///< number of the port; empty for an interface
    std::string trouble; ///< why no adapter opens there: "is down" ...; empty if one may
    bool is_rdma() const { return !port.empty(); }
};

std::set<std::string> rdma_device_names();

/// What keeps programs of this user from all RDMA devices, and what to do about it; empty if
/// nothing does.
struct obstacle {
    std::string what;
    std::string advice;
};
obstacle obstacle_to_rdma();
/// Whether RDMA devices of other network namespaces are not seen in this one.
bool rdma_is_by_namespace();
/// Bytes of memory that this process may lock; none if there is no limit.
std::optional<std::uint64_t> lockable_memory();

/// Needs no sysfs, which containers may lack.
std::set<std::string> interface_names();

/// Finds them, sorted by name.
std::vector<device> find_devices();

} // namespace dat_info
