// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Adapter parameters, the ia_params of a dat.conf line: README.md has the grammar.
#pragma once

#include "unconnected/unconnected_port.hpp"

#include <cstdint>

namespace dapl::libfabric_rdm::ofi {

struct adapter_params {
    char provider[64] = {};
    std::uint32_t family = 4;
    std::uint32_t connect_retry_ms = 2000;
    std::uint32_t linger_ms = 2000;
    std::uint32_t stall_ms = 10'000;
    std::uint32_t spin_us = 20;
    std::uint32_t accesses = 1;
    std::uint32_t safe_copies = 0;
};

/// Reads `text` into `params` and `out`; logs mistakes in it.
status read_params(const char *text, adapter_params &params, unconnected::fabric_setup &out);

} // namespace dapl::libfabric_rdm::ofi
