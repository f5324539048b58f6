// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The shared memory that processes of this user have registered, as the database of the providers
// has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dat_info {

struct shared_region {
    std::uint32_t process = 0;
    bool is_owner_gone = false;
    bool is_registered = false; ///< not yet, or its process died before, otherwise
};

/// Regions that have a cookie, an adapter and a length in common.
struct shared_name_entry {
    std::string cookie;  ///< its bytes
    std::string adapter; ///< empty: no line of dat.conf has the name that this number is of
    std::uint64_t adapter_number = 0;
    std::uint64_t length = 0;
    std::vector<shared_region> regions;

    std::size_t users() const; ///< registered regions of living processes
};

struct shared_memory {
    std::vector<shared_name_entry> names;
    unsigned places = 0; ///< records that the database has room for
};

/// Reads the database in a process of its own, which whoever cuts its file off may end. Throws a
/// std::runtime_error if it cannot be read.
shared_memory look_at_shared_memory(double seconds);

void print_shared(const shared_memory &found);
void print_shared_json(const shared_memory &found);

} // namespace dat_info
