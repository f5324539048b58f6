// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection domains, memory regions and memory windows.
#include "dapl_debug.hpp"
#include "port.hpp"

#include "osd_memory.hpp"

namespace dapl::soft {

namespace {

constexpr std::uint32_t remote_rights =
    soft_hca::remote_read | soft_hca::remote_write | soft_hca::remote_atomic;

std::uint32_t rights_of(DAT_MEM_PRIV_FLAGS privileges)
{
    // As on InfiniBand, all registered memory can be sent: programs rely on it.
    std::uint32_t rights = soft_hca::local_read;
    if ((privileges & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0)
        rights |= soft_hca::local_write;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        rights |= soft_hca::remote_read;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        rights |= soft_hca::remote_write;
    if ((static_cast<unsigned>(privileges) & DAT_IB_MEM_PRIV_REMOTE_ATOMIC) != 0)
        rights |= soft_hca::remote_atomic;
    return rights;
}

} // namespace

status transport::dapls_ib_pd_alloc(hca &h, pd &domain)
{
    domain.parent = &h;
    return success;
}

status transport::dapls_ib_mr_register(pd &domain, mr &m, const mr_params &params, mr_keys &keys)
{
    m.parent = domain.parent;
    if (const auto use = osd::look_at_memory(params.address, params.length, params.writes());
        use != osd::memory_use::possible) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: registering %llu bytes at %p failed: %s",
                 m.parent->interface.name, static_cast<unsigned long long>(params.length),
                 params.address, osd::text_of(use));
        return status::error(DAT_PROTECTION_VIOLATION);
    }
    const std::uint32_t rights = rights_of(params.privileges);
    const std::uint32_t key =
        m.parent->device.add_region(m.region, domain.domain, params.address, params.length, rights);
    if (key == 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: registering memory failed: no free key",
                 m.parent->interface.name);
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    }
    keys.local = key;
    keys.remote = (rights & remote_rights) != 0 ? key : 0;
    return success;
}

void transport::dapls_ib_mr_deregister(mr &m)
{
    if (!m.parent->foreign())
        (void)m.parent->device.remove_region(m.region);
}

status transport::dapls_ib_mw_alloc(pd &domain, mw &m)
{
    m.parent = domain.parent;
    m.window = m.parent->device.make_window(domain.domain);
    return m.window == nullptr ? out_of_memory : success;
}

void transport::dapls_ib_mw_free(mw &m)
{
    if (!m.parent->foreign())
        m.parent->device.free_window(m.window);
}

status transport::dapls_ib_mw_bind(qp &q, wr &w, mw &m, mr *region, const mw_params &what,
                                   DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT &key)
{
    soft_hca::request &r = w.request;
    set_segments(r, 0, nullptr);
    r.kind = soft_hca::work::bind;
    r.flags = flags_of(flags);
    if (what.one_connection)
        r.flags |= soft_hca::request_narrow;
    r.binding.window = m.window;
    r.binding.target = region == nullptr ? nullptr : &region->region;
    r.window_rights = rights_of(what.privileges) & remote_rights;
    r.remote = {what.address, static_cast<std::uint32_t>(what.length), 0};
    if (!q.parent->device.windows.prepare(r))
        return out_of_memory;
    key = r.remote.key;
    if (q.pair.post_send(r))
        return success;
    q.parent->device.windows.cancel(r);
    return out_of_memory;
}

} // namespace dapl::soft
