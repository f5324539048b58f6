// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows, and the regions to which they are bound.
//
// A window lives as long as its owner or a posted bind refers to it. Binding and invalidation are
// for holders of a queue pair's lock.
#pragma once

#include "interface/request.hpp"
#include "memory_table.hpp"

#include "osd_sync.hpp"

namespace soft_hca {

class memory_windows {
public:
    explicit memory_windows(memory_table &keys) : keys_(keys) {}

    /// A window that is bound to nothing; null when out of memory. Its owner must not be in it.
    static memory_region *make(const protection_domain &domain);
    /// Its owner is done with it: it is unbound, and binds that are posted will fail. The caller
    /// waits until no queue pair uses one of its earlier keys, and calls release().
    void retire(memory_region &window);
    /// Drops one reference.
    static void release(memory_region &window);
    /// Takes the region's key away. False while windows are bound to it. `had_key`: queue pairs may
    /// still be using it.
    bool withdraw(memory_region &region, bool &had_key);

    /// Readies a bind for its post, `remote` being the part: gives it the key that the window will
    /// have, or 0 where the part is empty. False when there is no key left.
    bool prepare(request &bind);
    /// Undoes prepare(), for a bind that will not be executed.
    void cancel(request &bind);
    /// Executes it, on this connection. False, and nothing has changed, when the window was retired
    /// or the part is not accessible.
    bool execute(request &bind, std::uint64_t connection);
    /// Takes a key away from the peer of a connection. False when no window of the domain with that
    /// key is open to the peer.
    bool invalidate(std::uint32_t key, const protection_domain &domain, std::uint64_t connection);

private:
    bool may_bind(const request &bind) const OSD_REQUIRES(lock_);
    void attach(const request &bind, std::uint64_t connection) OSD_REQUIRES(lock_);
    void unbind(memory_region &window) OSD_REQUIRES(lock_);

    memory_table &keys_;
    osd::mutex lock_; ///< guards all bindings
};

} // namespace soft_hca
