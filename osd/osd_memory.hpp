// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a part of the address space is good for. For devices that do not pin memory, and so would
// find out only when it is too late to say so.
#pragma once

#include <cstddef>

namespace osd {

enum class memory_use {
    possible,
    absent,    ///< a part is not mapped, or a mapped file ends before
    forbidden, ///< a part may not be used that way
};

constexpr const char *text_of(memory_use use)
{
    return use == memory_use::possible ? "nothing is wrong with it"
           : use == memory_use::absent ? "not all of it is mapped"
                                       : "not all of it may be read, or written";
}

/// Whether all of [address, address + size) can be read now and, if asked for, written. Where the
/// system does not tell, that counts as possible. Next to nothing is paged in, nothing written; the
/// time depends on the number of mappings, not on the size.
memory_use look_at_memory(const void *address, std::size_t size, bool to_write);

/// Whether a processor can read the first and the last byte of [address, address + size), a region
/// that a device has accepted. Reads them without a fault; where the system does not tell, they
/// count as readable.
bool is_readable(const void *address, std::size_t size);

/// Whether other processes can have [address, address + size) too, at this time: no part is known
/// to be private. If the system does not tell, it counts as shared.
bool may_be_shared(const void *address, std::size_t size);

/// A page for secrets of this process alone: filled with zeros at first, and again in each child,
/// however that was made; core dumps do not have it. If the system cannot do that (Linux before
/// 4.14, Windows, which has no such children), it is memory like any other.
class process_page {
public:
    static constexpr std::size_t size = 4096;

    process_page() = default;
    process_page(const process_page &) = delete;
    process_page &operator=(const process_page &) = delete;
    ~process_page();
    /// Opens the page; called once. False without memory.
    [[nodiscard]] bool open();
    void *address() const { return address_; }

private:
    void *address_ = nullptr;
};

} // namespace osd
