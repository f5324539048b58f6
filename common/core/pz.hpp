// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "object.hpp"
#include "transport.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// A protection zone: the port's protection domain.
class pz : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::pz;
    static bool is_kind(mark kind) { return kind == mark::pz; }

    pz(const DAT_PROVIDER *vector, adapter &owner) : object(vector, mark::pz, owner) {}

    transport::pd pd;
};

} // namespace dapl::DAPL_TRANSPORT::core
