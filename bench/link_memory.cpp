// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "link_memory.hpp"

#include "program/failure.hpp"

#include <cstring>
#include <new>

namespace bench {

namespace {

constexpr std::align_val_t page{4096};

bool is_shared = false;
std::weak_ptr<std::byte> latest;
std::size_t latest_size = 0;

} // namespace

void share_link_memory()
{
    is_shared = true;
}

std::shared_ptr<std::byte> link_memory(std::size_t size)
{
    if (std::shared_ptr<std::byte> held = latest.lock(); is_shared && held && latest_size >= size)
        return held;
    auto *const bytes = static_cast<std::byte *>(operator new(size, page, std::nothrow));
    if (bytes == nullptr)
        throw program::failure("out of memory");
    std::memset(bytes, 0, size);
    std::shared_ptr<std::byte> made(bytes, [](std::byte *at) { operator delete(at, page); });
    latest = made;
    latest_size = size;
    return made;
}

} // namespace bench
