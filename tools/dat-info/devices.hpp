// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The network interfaces and RDMA devices of this machine.
#pragma once

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
/// Needs no sysfs, which containers may lack.
std::set<std::string> interface_names();

/// Finds them, sorted by name.
std::vector<device> find_devices();

} // namespace dat_info
