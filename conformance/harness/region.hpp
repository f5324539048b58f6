// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Registered memory.
#pragma once

#include "harness/adapter.hpp"

#include <dat2/udat.h>

#include <cstdint>
#include <vector>

namespace conformance {

constexpr auto all_rights = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG);

/// Registered memory.
class region {
public:
    region(const adapter &ia, DAT_PZ_HANDLE pz, std::size_t bytes,
           DAT_MEM_PRIV_FLAGS rights = all_rights);
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    ~region();

    DAT_LMR_TRIPLET local(std::size_t offset, std::size_t length) const;
    DAT_RMR_TRIPLET remote(std::size_t offset, std::size_t length) const;
    void set_all(std::uint8_t value);
    void fill(std::size_t offset, std::size_t length, unsigned seed);
    bool holds(std::size_t offset, std::size_t length, unsigned seed) const;
    std::vector<std::uint8_t> copy() const;
    void free();

    std::vector<std::uint8_t> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;

private:
    const adapter &ia_;
};

} // namespace conformance
