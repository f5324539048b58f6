// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "osd_memory.hpp"

#include <sys/random.h>

namespace dapl::libfabric {

using namespace ofi;

namespace {

constexpr DAT_MEM_PRIV_FLAGS remote_rights =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

std::uint64_t access_for(DAT_MEM_PRIV_FLAGS privileges)
{
    std::uint64_t access = FI_SEND | FI_WRITE | FI_RECV | FI_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        access |= FI_REMOTE_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        access |= FI_REMOTE_WRITE;
    return access;
}

/// A random key; 0 when the system has no random numbers.
std::uint32_t random_key()
{
    std::uint32_t key = 0;
    while (key == 0)
        if (getrandom(&key, sizeof key, GRND_NONBLOCK) != ssize_t{sizeof key})
            return 0;
    return key;
}

int register_with(hca &device, mr &region, const mr_params &params, std::uint32_t key)
{
    return fi_mr_reg(device.domain, params.address, params.length, access_for(params.privileges), 0,
                     key, 0, &region.fid, nullptr);
}

/// The key is random: a peer cannot guess it, and does not meet with the next region when it uses
/// the key of a region that is gone.
int register_region(hca &device, mr &region, const mr_params &params)
{
    constexpr int tries = 64; // enough to find a key that no other region has
    if (device.provider_keys)
        return register_with(device, region, params, 0);
    int error = -FI_ENOKEY;
    for (int i = 0; i < tries && error == -FI_ENOKEY; ++i) {
        const std::uint32_t key = random_key();
        error = key == 0 ? -FI_EAGAIN : register_with(device, region, params, key);
    }
    return error;
}

} // namespace

status transport::dapls_ib_pd_alloc(hca &device, pd &domain)
{
    domain.device = &device;
    return success;
}

status transport::dapls_ib_mr_register(pd &domain, mr &region, const mr_params &params,
                                       mr_keys &keys)
{
    hca &device = *domain.device;
    // Providers over sockets do not pin it.
    if (const auto use = osd::look_at_memory(params.address, params.length, params.writes());
        use != osd::memory_use::possible) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: registering %llu bytes at %p failed: %s", device.name,
                 static_cast<unsigned long long>(params.length), params.address, osd::text_of(use));
        return status::error(DAT_PROTECTION_VIOLATION);
    }
    const int error = register_region(device, region, params);
    if (error != 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: fi_mr_reg at %p failed: %s", device.name, params.address,
                 fi_strerror(-error));
        return status_of_errno(-error);
    }
    region.device = &device;
    const std::uint64_t key = fi_mr_key(region.fid);
    if (key > UINT32_MAX) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: libfabric's key 0x%llx does not fit a DAT context",
                 device.name, static_cast<unsigned long long>(key));
        fi_close(&region.fid->fid);
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    }
    keys.local = region.key = static_cast<DAT_LMR_CONTEXT>(key);
    keys.remote = (params.privileges & remote_rights) != 0 ? static_cast<DAT_RMR_CONTEXT>(key) : 0;
    return success;
}

void transport::dapls_ib_mr_deregister(mr &region)
{
    hca &device = *region.device;
    if (device.foreign())
        return;
    fi_close(&region.fid->fid);
    region.fid = nullptr;
    osd::lock_guard hold(device.lock);
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q))
        if (!forget_region(*q, region.key))
            break_connection(device, *q);
}

} // namespace dapl::libfabric
