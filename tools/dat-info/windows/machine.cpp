// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA devices of Windows are known to no port of this kit.
#include "machine.hpp"

namespace dat_info {

program::json machine_json()
{
    return program::json::object();
}

} // namespace dat_info
