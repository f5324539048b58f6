// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_memory.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstring>

namespace dapl::verbs {

unsigned vrb::remote_access(DAT_MEM_PRIV_FLAGS privileges)
{
    unsigned access = 0;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE;
    if ((static_cast<unsigned>(privileges) & DAT_IB_MEM_PRIV_REMOTE_ATOMIC) != 0)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    return access;
}

namespace {

int access_for(const vrb::hca &device, DAT_MEM_PRIV_FLAGS privileges)
{
    constexpr int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const bool local_write = (privileges & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0;
    int access = static_cast<int>(vrb::remote_access(privileges));
    if (local_write || (access & writes) != 0) // verbs has not one alone
        access |= IBV_ACCESS_LOCAL_WRITE;
    if (local_write && device.read_sink_is_remote)
        access |= IBV_ACCESS_REMOTE_WRITE;
    if (device.windows)
        access |= IBV_ACCESS_MW_BIND;
    if (device.params.odp != 0)
        access |= IBV_ACCESS_ON_DEMAND;
    if (device.params.relaxed_ordering != 0)
        access |= IBV_ACCESS_RELAXED_ORDERING;
    return access;
}

/// Memory of a GPU may be registered whose bytes no processor reads. Nothing of this zone travels
/// inside a request any more. The caller has not returned the region's key yet.
void stop_inline(vrb::pd &domain)
{
    vrb::hca &device = *domain.device;
    osd::lock_guard hold(device.lock);
    domain.only_devices_read = true;
    for (vrb::qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (q->zone == &domain)
            q->max_inline.store(0);
}

} // namespace

status transport::dapls_ib_pd_alloc(hca &device, pd &domain)
{
    domain.device = &device;
    domain.handle = ibv_alloc_pd(device.verbs);
    return domain.handle != nullptr ? success : call_failed(device.name, "ibv_alloc_pd", errno);
}

void transport::dapls_ib_pd_free(pd &domain)
{
    if (domain.device->foreign())
        return;
    if (domain.nothing != nullptr)
        (void)ibv_dereg_mr(domain.nothing);
    osd::lock_guard hold(domain.device->lock);
    free_ready_words(*domain.device, domain);
    destroy_pd(*domain.device, domain.handle);
}

status transport::dapls_ib_mr_register(pd &domain, mr &region, const mr_params &params,
                                       mr_keys &keys)
{
    hca &device = *domain.device;
    const int access = access_for(device, params.privileges);
    region.device = &device;
    region.handle = ibv_reg_mr(domain.handle, params.address, params.length, access);
    if (region.handle == nullptr && errno == EFAULT && !params.writes())
        // The kernel counts the right to bind windows as a right to write.
        region.handle =
            ibv_reg_mr(domain.handle, params.address, params.length, access & ~IBV_ACCESS_MW_BIND);
    if (region.handle == nullptr) {
        const int error = errno;
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: ibv_reg_mr of %llu bytes at %p failed: %s%s", device.name,
                 static_cast<unsigned long long>(params.length), params.address,
                 std::strerror(error), osd::limit_text::of_locking(error).text);
        return status_of_errno(error);
    }
    if (own_features.inline_send && device.params.max_inline != 0 &&
        !osd::is_readable(params.address, params.length))
        stop_inline(domain);
    keys.local = region.handle->lkey;
    keys.remote = vrb::remote_access(params.privileges) != 0 ? region.handle->rkey : 0;
    return success;
}

void transport::dapls_ib_mr_deregister(mr &region)
{
    if (region.device->foreign())
        return;
    vrb::log_failure(*region.device, "ibv_dereg_mr", ibv_dereg_mr(region.handle));
}

} // namespace dapl::verbs
