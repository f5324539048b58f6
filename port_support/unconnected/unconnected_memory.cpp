// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection domains and memory regions. The layer judges each access of a peer: the device gives
// a key only to who has a grant, for as long as that lasts.
#include "unconnected_port.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "osd_memory.hpp"

#include <cstring>
#include <ctime>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

constexpr std::int64_t longest_wait_ns = 2'000'000'000;

/// The device registers memory that it can access; other memory goes by datagrams.
void register_on_device(hca &h, mr &memory, const mr_params &params) OSD_REQUIRES(h.library)
{
    memory.handle = nullptr;
    if (!h.traits.accesses)
        return;
    const auto has = [&](DAT_MEM_PRIV_FLAGS right) { return (params.privileges & right) != 0; };
    const memory_rights rights{params.writes(), has(DAT_MEM_PRIV_REMOTE_READ_FLAG),
                               has(DAT_MEM_PRIV_REMOTE_WRITE_FLAG)};
    const int error = h.device->register_memory(params.address, params.length, rights,
                                                memory.handle, memory.wide);
    if (error == 0)
        return;
    memory.handle = nullptr;
    dapl_log(DAPL_DBG_TYPE_WARN,
             "%s: the device does not register %llu bytes, which go by datagrams: %s", h.name,
             static_cast<unsigned long long>(params.length), std::strerror(error));
}

/// Whether accesses of the memory have ended on both sides.
bool is_unused(hca &h, const mr &memory) OSD_EXCLUDES(h.library)
{
    osd::lock_guard hold(h.library);
    if (memory.uses == 0)
        return true;
    (void)h.take_events();
    h.grants.end_stopped(&memory);
    return memory.uses == 0;
}

void pause()
{
    constexpr timespec some{0, 50'000};
    (void)nanosleep(&some, nullptr);
}

/// The memory goes though accesses have not ended. Grants that the peers do not give back are
/// forgotten; the device keeps what its own accesses use.
void abandon(hca &h, mr &memory) OSD_REQUIRES(h.library)
{
    dapl_log(DAPL_DBG_TYPE_WARN,
             "%s: memory is deregistered that a peer, or the device, has not stopped to access",
             h.name);
    h.grants.end_all(memory);
    if (memory.uses == 0)
        return;
    memory.handle = nullptr;
    for (pair_access &each : h.accesses)
        if (each.in_use && each.local == &memory)
            each.local = nullptr;
}

} // namespace

/// Finds the region of this key, if it is one of the pair's domain with this right.
bool types::hca::find_recent(const qp &q, std::uint32_t key, std::uint32_t right,
                             recent_region &out)
{
    region_entry r;
    if (!regions.find(key, r) || r.domain != q.domain || (r.rights & right) != right)
        return false;
    out = {key, removals, r.address, r.length};
    return true;
}

status port::dapls_ib_pd_alloc(hca &h, pd &zone)
{
    zone.of = &h;
    return success;
}

status port::dapls_ib_mr_register(pd &zone, mr &memory, const mr_params &params, mr_keys &out)
{
    hca &h = *zone.of;
    if (const auto use = osd::look_at_memory(params.address, params.length, params.writes());
        use != osd::memory_use::possible) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: registering %llu bytes at %p failed: %s", h.name,
                 static_cast<unsigned long long>(params.length), params.address, osd::text_of(use));
        return status::error(DAT_PROTECTION_VIOLATION);
    }
    memory.of = &h;
    memory.uses = 0;
    memory.address = reinterpret_cast<std::uintptr_t>(params.address);
    osd::lock_guard hold(h.library);
    register_on_device(h, memory, params);
    const auto rights = static_cast<std::uint32_t>(params.privileges);
    memory.key = h.regions.add({memory.address, params.length, &memory, &zone, rights});
    if (memory.key == 0) {
        if (memory.handle != nullptr)
            h.device->deregister_memory(memory.handle);
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    }
    constexpr std::uint32_t remote = DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    out.local = memory.key;
    out.remote = (rights & remote) != 0 ? memory.key : 0;
    return success;
}

void port::dapls_ib_mr_deregister(mr &memory)
{
    hca &h = *memory.of;
    if (h.foreign())
        return;
    {
        osd::lock_guard hold(h.library);
        (void)h.regions.remove(memory.key);
        ++h.removals;
    }
    const std::int64_t until = osd::now_ns() + longest_wait_ns;
    bool unused = is_unused(h, memory);
    while (!unused && osd::now_ns() < until) {
        pause();
        unused = is_unused(h, memory);
    }
    osd::lock_guard hold(h.library);
    if (!unused)
        abandon(h, memory);
    if (memory.handle != nullptr)
        h.device->deregister_memory(memory.handle);
    memory.handle = nullptr;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
