// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "machine.hpp"

#include "devices.hpp"
#include "folder.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <link.h>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace dat_info {
namespace {

using program::json;
namespace fs = std::filesystem;

/// The first line of a file; null if there is none.
json line_of(const fs::path &file)
{
    std::string line;
    std::ifstream in(file);
    return std::getline(in, line) ? json(line) : json();
}

/// A number where the line is one.
json value_of(const fs::path &file)
{
    const json line = line_of(file);
    if (!line.is_string())
        return line;
    const std::string text = line;
    char *end = nullptr;
    const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
    return !text.empty() && *end == '\0' ? json(number) : line;
}

/// The name that a link of sysfs leads to.
json target_of(const fs::path &link)
{
    std::error_code none;
    const fs::path target = fs::read_symlink(link, none);
    return target.empty() ? json() : json(target.filename().string());
}

json values_of(const fs::path &folder, std::initializer_list<const char *> names)
{
    json values = json::object();
    for (const char *name : names)
        if (json value = value_of(folder / name); !value.is_null())
            values[name] = std::move(value);
    return values;
}

/// Counters that are not zero.
json counters_of(const fs::path &folder)
{
    json values = json::object();
    for (const std::string &name : entries_of(folder))
        if (json value = value_of(folder / name); value.is_number() && value != 0)
            values[name] = std::move(value);
    return values;
}

json port_json(const fs::path &folder)
{
    json port = values_of(folder, {"state", "phys_state", "link_layer", "rate", "lid"});
    port["gid_types"] = json::array();
    for (const std::string &number : entries_of(folder / "gid_attrs/types"))
        if (json type = line_of(folder / "gid_attrs/types" / number); !type.is_null())
            port["gid_types"].push_back(
                {{"index", number},
                 {"type", type},
                 {"interface", line_of(folder / "gid_attrs/ndevs" / number)}});
    port["counters"] = counters_of(folder / "counters");
    port["hw_counters"] = counters_of(folder / "hw_counters");
    return port;
}

json rdma_device_json(const std::string &name)
{
    const fs::path folder = fs::path("/sys/class/infiniband") / name;
    json device = {{"name", name}};
    device.update(values_of(folder, {"node_type", "hca_type", "board_id", "fw_ver", "hw_rev"}));
    device["driver"] = target_of(folder / "device/driver");
    device.update(values_of(folder / "device", {"vendor", "device", "subsystem_vendor",
                                                "subsystem_device", "numa_node"}));
    device["hw_counters"] = counters_of(folder / "hw_counters");
    device["ports"] = json::object();
    for (const std::string &number : entries_of(folder / "ports"))
        device["ports"][number] = port_json(folder / "ports" / number);
    return device;
}

/// What a program of this user may do with the device nodes.
json device_nodes_json()
{
    json nodes = json::object();
    for (const std::string &name : entries_of("/dev/infiniband")) {
        const std::string path = "/dev/infiniband/" + name;
        nodes[path] = ::access(path.c_str(), R_OK | W_OK) == 0;
    }
    return nodes;
}

json limit_json(rlim_t value)
{
    return value == RLIM_INFINITY ? json("unlimited") : json(value);
}

json limits_json()
{
    rlimit locked{}, files{};
    (void)::getrlimit(RLIMIT_MEMLOCK, &locked);
    (void)::getrlimit(RLIMIT_NOFILE, &files);
    return {{"locked_memory", limit_json(locked.rlim_cur)},
            {"locked_memory_at_most", limit_json(locked.rlim_max)},
            {"open_files", limit_json(files.rlim_cur)},
            {"open_files_at_most", limit_json(files.rlim_max)}};
}

/// Whether a network namespace sees the RDMA devices of others; null without the module.
json namespace_mode()
{
    const json shared = line_of("/sys/module/ib_core/parameters/netns_mode");
    return shared.is_null() ? shared : json(shared == "Y" ? "shared" : "exclusive");
}

/// The file that a program gets for this name, whose own name tells the version; null without one.
json library_file(const char *name)
{
    void *library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr)
        return nullptr;
    link_map *map = nullptr;
    json file;
    std::error_code none;
    if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        file = fs::canonical(map->l_name, none).string();
    (void)::dlclose(library);
    return file;
}

json libraries_json()
{
    json found = json::object();
    for (const char *name : {"libibverbs.so.1", "librdmacm.so.1", "libfabric.so.1"})
        found[name] = library_file(name);
    return found;
}

/// The drivers: what uses the kernel's InfiniBand core.
json modules_json()
{
    std::ifstream in("/proc/modules");
    json modules = json::object();
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string name, size, uses, users;
        words >> name >> size >> uses >> users;
        if (name == "ib_core" || name == "ib_uverbs" || name == "rdma_cm")
            modules[name] = users;
    }
    return modules;
}

json system_name()
{
    static const std::string key = "PRETTY_NAME=";
    std::ifstream in("/etc/os-release");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key)) {
            std::erase(line, '"');
            return line.substr(key.size());
        }
    return nullptr;
}

} // namespace

json machine_json()
{
    json devices = json::array();
    for (const std::string &name : rdma_device_names())
        devices.push_back(rdma_device_json(name));
    return {
        {"system", system_name()},          {"libraries", libraries_json()},
        {"limits", limits_json()},          {"rdma_namespaces", namespace_mode()},
        {"kernel_modules", modules_json()}, {"device_nodes", device_nodes_json()},
        {"rdma_devices", devices},
    };
}

} // namespace dat_info
