// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "binding.hpp"
#include "pz.hpp"

namespace dapl::DAPL_TRANSPORT::core {

class endpoint;

/// A bind as the consumer asks for it.
struct bind_request {
    lmr *region; ///< null: to nothing
    DAT_LMR_TRIPLET part;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_RMR_COOKIE cookie;
    DAT_COMPLETION_FLAGS flags;
};

/// A remote memory region: a window that can be bound to part of an LMR. It exists on every port;
/// binding needs memory windows.
class rmr : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::rmr;
    static bool is_kind(mark kind) { return kind == mark::rmr; }

    rmr(const DAT_PROVIDER *vector, adapter &owner, pz &zone, DAT_RMR_SCOPE scope)
        : object(vector, mark::rmr, owner), zone_(&zone), scope_(scope)
    {}

    status allocate() OSD_EXCLUDES(lock_);
    /// Frees the window; it is bound to nothing any more.
    void release() OSD_EXCLUDES(lock_);

    status bind(endpoint &through, const bind_request &wanted, DAT_RMR_CONTEXT &context)
        OSD_EXCLUDES(lock_);
    /// Releases regions to which it is known not to be bound any more, be it by a peer's message.
    void settle() OSD_EXCLUDES(lock_);
    /// Fills in what the window is bound to. False, and no region in `out`, unless a bind is known
    /// to have completed.
    bool fill(DAT_RMR_PARAM &out) OSD_EXCLUDES(lock_);

    pz &zone() const { return *zone_.get(); }

private:
    status allocate_locked() OSD_REQUIRES(lock_);
    void release_locked() OSD_REQUIRES(lock_);
    void settle_locked() OSD_REQUIRES(lock_);
    /// Allocates a window if there is none that a bind can be posted for.
    status prepare_window() OSD_REQUIRES(lock_);

    user_of<pz> zone_;
    const DAT_RMR_SCOPE scope_;
    osd::mutex lock_;
    bool has_window_ OSD_GUARDED_BY(lock_) = false;
    transport::mw window_ OSD_GUARDED_BY(lock_);
    /// The newest bind that was posted, and those before it as long as the window may still be
    /// bound as they say.
    binding *newest_ OSD_GUARDED_BY(lock_) = nullptr;
};

} // namespace dapl::DAPL_TRANSPORT::core
