// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The providers of libfabric on this machine, and what each is to this port.
#pragma once

#include <cstdint>

#include <rdma/fabric.h>

namespace dapl::libfabric_rdm::ofi {

constexpr std::uint32_t api_version = FI_VERSION(1, 11);
/// What the port does for a provider with registered memory. It exchanges no keys of FI_MR_RAW.
constexpr int memory_modes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

/// Tells which providers there are beside the provider that an adapter names, and why the adapter
/// does not use them.
struct other_providers {
    explicit other_providers(const char *named);

    char text[1024];
};

} // namespace dapl::libfabric_rdm::ofi
