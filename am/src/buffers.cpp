// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "buffers.hpp"

#include "report.hpp"

#include <new>
#include <sys/mman.h>

namespace am {

void work_pool::open(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz)
{
    ia_ = ia;
    pz_ = pz;
}

work *work_pool::take()
{
    const std::lock_guard guard(lock_);
    locks_.store(locks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (!free_ && !grow())
        return nullptr;
    work *taken = free_;
    free_ = taken->next;
    taken->next = nullptr;
    return taken;
}

void work_pool::give(work *chain)
{
    work *last = chain;
    while (last->next)
        last = last->next;
    const std::lock_guard guard(lock_);
    locks_.store(locks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    last->next = free_;
    free_ = chain;
}

bool work_pool::grow()
{
    std::byte *memory = nullptr;
    DAT_LMR_CONTEXT context = 0;
    if (ia_ != DAT_HANDLE_NULL) {
        void *mapped = mmap(nullptr, chunk * buffer_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) {
            report("no memory for %zu bytes of buffers", chunk * buffer_size);
            return false;
        }
        memory = static_cast<std::byte *>(mapped);
        DAT_REGION_DESCRIPTION region{};
        region.for_va = mapped;
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        // What a read goes into needs remote write rights on some transports.
        const DAT_RETURN code = dat_lmr_create(
            ia_, DAT_MEM_TYPE_VIRTUAL, region, chunk * buffer_size, pz_, DAT_MEM_PRIV_ALL_FLAG,
            DAT_VA_TYPE_VA, &lmr, &context, nullptr, nullptr, nullptr);
        if (code != DAT_SUCCESS) {
            report("dat_lmr_create of %zu bytes of buffers: %s; is the limit of locked memory "
                   "(ulimit -l) too low?",
                   chunk * buffer_size, dat_text(code));
            munmap(mapped, chunk * buffer_size);
            return false;
        }
    }
    work *made = new (std::nothrow) work[chunk];
    if (!made) {
        report("no memory for work requests");
        return false;
    }
    for (int i = 0; i < chunk; ++i) {
        made[i].context = context;
        made[i].data = memory ? memory + i * buffer_size : nullptr;
        made[i].next = i + 1 < chunk ? &made[i + 1] : nullptr;
    }
    free_ = made;
    made_ += chunk;
    return true;
}

} // namespace am
