// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "receive_window.hpp"

#include <cstring>
#include <new>

namespace soft_hca {

bool receive_window::keep(std::uint32_t psn, const std::uint8_t *bytes, std::size_t size)
{
    if (slots_ == nullptr)
        slots_.reset(new (std::nothrow) slots);
    if (slots_ == nullptr || slots_->at[psn % capacity] != nullptr || bytes_ + size > max_bytes)
        return false;
    void *memory = std::malloc(sizeof(kept) + size);
    if (memory == nullptr)
        return false;
    kept *item = new (memory) kept{psn, size};
    std::memcpy(item->bytes(), bytes, size);
    slots_->at[psn % capacity] = item;
    ++held_;
    bytes_ += size;
    return true;
}

void receive_window::drop(std::uint32_t psn)
{
    kept *item = find(psn);
    if (item == nullptr)
        return;
    slots_->at[psn % capacity] = nullptr;
    bytes_ -= item->size;
    --held_;
    std::free(item);
}

std::uint32_t receive_window::describe(std::uint32_t *words, std::uint32_t max_words) const
{
    std::uint32_t used = 0;
    for (std::uint32_t w = 0; w < max_words; ++w)
        words[w] = 0;
    for (std::uint32_t i = 0; held_ != 0 && i < max_words * 32 && i + 1 < capacity; ++i)
        if (find(next_ + 1 + i) != nullptr) {
            words[i / 32] |= 1u << (i % 32);
            used = i / 32 + 1;
        }
    return used;
}

} // namespace soft_hca
