// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ia_table.hpp"

#include "immortal.hpp"
#include "osd_thread.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace dat {

constinit std::atomic<ia_chunk *> ia_chunks[ia_handle_limit / ia_chunk_size] = {};

namespace {

constinit immortal<ia_table> table;

DAT_IA_HANDLE to_handle(std::uintptr_t number)
{
    return reinterpret_cast<DAT_IA_HANDLE>(number);
}

std::uintptr_t to_number(DAT_IA_HANDLE handle)
{
    return reinterpret_cast<std::uintptr_t>(handle);
}

} // namespace

ia_table &open_adapters()
{
    return table.value;
}

ia_slot *ia_table::find(std::uintptr_t number)
{
    if (number >= size_)
        return nullptr;
    ia_chunk *chunk = ia_chunks[number / ia_chunk_size].load(std::memory_order_relaxed);
    return &chunk->slots[number % ia_chunk_size];
}

/// Chunks are never freed: a reader may be in any of them at any time.
bool ia_table::grow()
{
    void *memory = size_ < ia_handle_limit ? std::malloc(sizeof(ia_chunk)) : nullptr;
    if (memory == nullptr)
        return false;
    auto *chunk = new (memory) ia_chunk;
    ia_chunks[size_ / ia_chunk_size].store(chunk, std::memory_order_release);
    size_ += ia_chunk_size;
    return true;
}

/// Null is no handle, therefore the number 0 is never given.
std::uintptr_t ia_table::free_number()
{
    for (std::uintptr_t step = 1; step <= size_; ++step) {
        const std::uintptr_t number = (last_ + step) % size_;
        if (number != 0 && !find(number)->taken)
            return number;
    }
    const std::uintptr_t first_new = size_ == 0 ? 1 : size_;
    return grow() ? first_new : 0;
}

DAT_IA_HANDLE ia_table::insert(void *ia, const binding &provider)
{
    osd::lock_guard guard(lock_);
    const std::uintptr_t number = free_number();
    if (number == 0)
        return nullptr;
    last_ = number;
    ia_slot &slot = *find(number);
    slot.provider = provider;
    slot.taken = true;
    slot.process.store(osd::process_id(), std::memory_order_relaxed);
    slot.ia.store(ia, std::memory_order_release);
    return to_handle(number);
}

/// An adapter that is being closed may have left its address to a new one already.
DAT_IA_HANDLE ia_table::handle_of(void *ia)
{
    osd::lock_guard guard(lock_);
    std::uintptr_t found = 0;
    for (std::uintptr_t number = 1; number < size_; ++number) {
        const ia_slot &slot = *find(number);
        if (!slot.taken || slot.ia.load(std::memory_order_relaxed) != ia)
            continue;
        found = number;
        if (!slot.closing)
            break;
    }
    return to_handle(found);
}

void ia_table::announce_extensions(DAT_IA_HANDLE handle)
{
    osd::lock_guard guard(lock_);
    find(to_number(handle))->has_extensions = true;
    extensions_.fetch_add(1, std::memory_order_relaxed);
}

bool ia_table::is_inherited(DAT_IA_HANDLE handle)
{
    const ia_slot *slot = slot_from_handle(handle);
    return slot != nullptr && slot->ia.load(std::memory_order_acquire) != nullptr &&
           slot->process.load(std::memory_order_relaxed) != osd::process_id();
}

void *ia_table::begin_close(DAT_IA_HANDLE handle)
{
    osd::lock_guard guard(lock_);
    ia_slot *slot = find(to_number(handle));
    if (slot == nullptr || !slot->taken || slot->closing)
        return nullptr;
    slot->closing = true;
    return slot->ia.load(std::memory_order_relaxed);
}

void ia_table::cancel_close(DAT_IA_HANDLE handle)
{
    osd::lock_guard guard(lock_);
    find(to_number(handle))->closing = false;
}

binding ia_table::finish_close(DAT_IA_HANDLE handle)
{
    osd::lock_guard guard(lock_);
    ia_slot &slot = *find(to_number(handle));
    if (slot.has_extensions)
        extensions_.fetch_sub(1, std::memory_order_relaxed);
    slot.ia.store(nullptr, std::memory_order_release);
    slot.taken = slot.closing = slot.has_extensions = false;
    return slot.provider;
}

void *ia_table::find_named(const char *name)
{
    osd::lock_guard guard(lock_);
    for (std::uintptr_t number = 1; number < size_; ++number) {
        const ia_slot &slot = *find(number);
        if (slot.taken && !slot.closing && std::strcmp(slot.provider.key().ia_name, name) == 0)
            return slot.ia.load(std::memory_order_relaxed);
    }
    return nullptr;
}

} // namespace dat
