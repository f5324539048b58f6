// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <cerrno>
#include <cstring>

namespace dapl::verbs {

namespace {

constexpr unsigned atomic_right = DAT_IB_MEM_PRIV_REMOTE_ATOMIC;
constexpr unsigned remote_rights =
    DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG | atomic_right;

int access_for(const vrb::hca &device, DAT_MEM_PRIV_FLAGS privileges)
{
    const bool local_write = (privileges & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0;
    int access = 0;
    if (local_write)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE; // verbs has not one alone
    if ((privileges & atomic_right) != 0)
        access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    if (local_write && device.read_sink_is_remote)
        access |= IBV_ACCESS_REMOTE_WRITE;
    return access;
}

const char *advice(int error)
{
    return error == ENOMEM ? " (is the limit of locked memory, ulimit -l, high enough?)" : "";
}

} // namespace

status transport::dapls_ib_pd_alloc(hca &device, pd &domain)
{
    domain.device = &device;
    domain.fid = ibv_alloc_pd(device.verbs);
    if (domain.fid != nullptr)
        return success;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: no protection domain: %s", device.name, std::strerror(errno));
    return vrb::control_error(errno);
}

void transport::dapls_ib_pd_free(pd &domain)
{
    if (domain.device->foreign())
        return;
    const int error = ibv_dealloc_pd(domain.fid);
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: a protection domain was not freed: %s",
                 domain.device->name, std::strerror(error));
    domain.fid = nullptr;
}

status transport::dapls_ib_mr_register(pd &domain, mr &region, const mr_params &params,
                                       mr_keys &keys)
{
    hca &device = *domain.device;
    const int access = access_for(device, params.privileges);
    region.device = &device;
    region.fid = ibv_reg_mr(domain.fid, params.address, params.length, access);
    if (region.fid == nullptr) {
        const int error = errno;
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: registering %llu bytes at %p failed: %s%s", device.name,
                 static_cast<unsigned long long>(params.length), params.address,
                 std::strerror(error), advice(error));
        return vrb::control_error(error);
    }
    keys.local = region.fid->lkey;
    keys.remote = (params.privileges & remote_rights) != 0 ? region.fid->rkey : 0;
    return success;
}

void transport::dapls_ib_mr_deregister(mr &region)
{
    if (region.device->foreign())
        return;
    const int error = ibv_dereg_mr(region.fid);
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: a memory region was not deregistered: %s",
                 region.device->name, std::strerror(error));
    region.fid = nullptr;
}

} // namespace dapl::verbs
