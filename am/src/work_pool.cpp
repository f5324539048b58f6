// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "work_pool.hpp"

#include "report.hpp"

#include <new>
#include <sys/mman.h>

namespace am {

void work_pool::open(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz)
{
    ia_ = ia;
    pz_ = pz;
}

work_request *work_pool::take()
{
    const osd::lock_guard guard(lock_);
    count_lock();
    if (free_ == nullptr && !grow())
        return nullptr;
    work_request *taken = free_;
    free_ = taken->next;
    taken->next = nullptr;
    return taken;
}

void work_pool::give(work_request *chain)
{
    work_request *last = chain;
    while (last->next != nullptr)
        last = last->next;
    const osd::lock_guard guard(lock_);
    count_lock();
    last->next = free_;
    free_ = chain;
}

void work_pool::count_lock()
{
    locks_.store(locks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Maps the buffers of a chunk; null when that fails, which is reported.
std::byte *work_pool::register_buffers(DAT_LMR_CONTEXT &context) const
{
    constexpr std::size_t bytes = chunk * buffer_size;
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        report("no memory for %zu bytes of buffers", bytes);
        return nullptr;
    }
    DAT_REGION_DESCRIPTION region{};
    region.for_va = mapped;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    // What a read goes into needs remote write rights on some transports.
    const DAT_RETURN code =
        dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region, bytes, pz_, DAT_MEM_PRIV_ALL_FLAG,
                       DAT_VA_TYPE_VA, &lmr, &context, nullptr, nullptr, nullptr);
    if (code == DAT_SUCCESS)
        return static_cast<std::byte *>(mapped);
    report("dat_lmr_create of %zu bytes of buffers: %s; is the limit of locked memory (ulimit -l) "
           "too low?",
           bytes, dat_text(code));
    munmap(mapped, bytes);
    return nullptr;
}

bool work_pool::grow()
{
    const bool has_memory = ia_ != DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    std::byte *memory = has_memory ? register_buffers(context) : nullptr;
    if (has_memory && memory == nullptr)
        return false;
    auto *made = new (std::nothrow) work_request[chunk];
    if (made == nullptr) {
        report("no memory for work requests");
        return false;
    }
    for (int i = 0; i < chunk; ++i) {
        made[i].context = context;
        made[i].data = has_memory ? memory + i * buffer_size : nullptr;
        made[i].next = i + 1 < chunk ? &made[i + 1] : nullptr;
    }
    free_ = made;
    made_ += chunk;
    return true;
}

} // namespace am
