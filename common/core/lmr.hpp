// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "pz.hpp"
#include "shared_claim.hpp"

namespace dapl::DAPL_TRANSPORT::core {

inline unsigned known_privileges(const hca_attr &attr)
{
    constexpr unsigned all = DAT_MEM_PRIV_ALL_FLAG;
    return attr.has_extension() ? all | DAT_IB_MEM_PRIV_REMOTE_ATOMIC : all;
}

/// A registered memory region.
class lmr : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::lmr;
    static bool is_kind(mark kind) { return kind == mark::lmr; }

    lmr(const DAT_PROVIDER *vector, adapter &owner, pz &zone, DAT_MEM_TYPE kind,
        const DAT_REGION_DESCRIPTION &description, const mr_params &bounds, shared_claim &&cookie)
        : object(vector, mark::lmr, owner), zone_(&zone), type(kind), region(description),
          params(bounds), shared(std::move(cookie))
    {}

    pz &zone() const { return *zone_.get(); }
    DAT_VADDR address() const { return reinterpret_cast<std::uintptr_t>(params.address); }
    bool covers(const DAT_LMR_TRIPLET &segment) const
    {
        return keys.local == segment.lmr_context && segment.virtual_address >= address() &&
               segment.virtual_address - address() <= params.length &&
               segment.segment_length <= params.length - (segment.virtual_address - address());
    }

private:
    user_of<pz> zone_;

public:
    const DAT_MEM_TYPE type;
    const DAT_REGION_DESCRIPTION region; ///< the consumer's description
    const mr_params params;
    shared_claim shared; ///< set if the region is DAT_MEM_TYPE_SHARED_VIRTUAL
    mr_keys keys;
    lmr *next_in_chain = nullptr; ///< link of a chain of the adapter's lmr_index
    transport::mr mr;
};

} // namespace dapl::DAPL_TRANSPORT::core
