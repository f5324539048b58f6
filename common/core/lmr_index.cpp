// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lmr_index.hpp"

#include "lmr.hpp"

#include <cstdint>
#include <new>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

/// Contexts of devices differ in any of their bits: a product mixes them, and its highest bits
/// depend on all.
lmr *&lmr_index::chain_of(DAT_LMR_CONTEXT context)
{
    if (bits_ == 0)
        return only_;
    return chains_[std::uint32_t{context} * 0x9e3779b1u >> (32 - bits_)];
}

void lmr_index::insert(lmr &region)
{
    osd::lock_guard hold(lock_);
    if (++regions_ > std::size_t{2} << bits_ && bits_ < 31)
        grow();
    lmr *&first = chain_of(region.keys.local);
    region.next_in_chain = first;
    first = &region;
}

void lmr_index::grow()
{
    const std::size_t before = std::size_t{1} << bits_;
    const unsigned bits = bits_ == 0 ? 4 : bits_ + 1;
    std::unique_ptr<lmr *[]> more(new (std::nothrow) lmr *[std::size_t{1} << bits]());
    if (more == nullptr)
        return;
    std::unique_ptr<lmr *[]> old = std::move(chains_);
    lmr **const chains = bits_ == 0 ? &only_ : old.get();
    chains_ = std::move(more);
    bits_ = bits;
    for (std::size_t i = 0; i < before; ++i)
        while (chains[i] != nullptr) {
            lmr &moved = *chains[i];
            chains[i] = moved.next_in_chain;
            lmr *&first = chain_of(moved.keys.local);
            moved.next_in_chain = first;
            first = &moved;
        }
}

void lmr_index::remove(lmr &region)
{
    osd::lock_guard hold(lock_);
    for (lmr **link = &chain_of(region.keys.local); *link != nullptr;
         link = &(*link)->next_in_chain)
        if (*link == &region) {
            *link = region.next_in_chain;
            --regions_;
            return;
        }
}

bool lmr_index::covers(const DAT_LMR_TRIPLET &segment)
{
    osd::lock_guard hold(lock_);
    for (const lmr *each = chain_of(segment.lmr_context); each != nullptr;
         each = each->next_in_chain)
        if (each->covers(segment))
            return true;
    return false;
}

} // namespace dapl::DAPL_TRANSPORT::core
