// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Adapter parameters, the ia_params of a dat.conf line: README.md has the grammar.
#pragma once

#include "dapl_status.hpp"

#include <cstdint>

namespace dapl::libfabric::ofi {

struct adapter_params {
    char provider[32] = "tcp";
    char interface[64] = {};  ///< name of a network interface, or an address
    std::uint32_t family = 4; ///< family of the address to take when the interface has both
    std::uint32_t connect_retry_ms = 2000;
    std::uint32_t linger_ms = 2000;
    std::uint32_t spin_us = 20;
};

/// Reads `text` into `params`; logs mistakes in it.
status read_params(const char *text, adapter_params &params);

} // namespace dapl::libfabric::ofi
