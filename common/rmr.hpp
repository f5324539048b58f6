// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "pz.hpp"

namespace dapl::DAPL_TRANSPORT {

/// A remote memory region: a window that can be bound to part of an LMR. It exists unbound on
/// every port; binding needs memory windows.
class rmr : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static bool is_kind(mark kind) { return kind == mark::rmr; }

    rmr(const DAT_PROVIDER *vector, adapter &owner, pz &zone)
        : object(vector, mark::rmr, owner), zone_(&zone)
    {}

    pz &zone() const { return *zone_.get(); }

private:
    user_of<pz> zone_;
};

} // namespace dapl::DAPL_TRANSPORT
