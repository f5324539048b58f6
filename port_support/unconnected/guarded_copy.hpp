// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies from and to memory of the consumer, who may have unmapped it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::unconnected {

/// The system copies, which answers false for memory that is not mapped, where a plain copy would
/// end the process. Where it forbids that, plain copies are made.
class guarded_copy {
public:
    /// Looks whether the system copies for this process.
    void open();

    /// `plain`: the caller may be ended by memory that is not mapped, and copies itself.
    [[nodiscard]] bool read(void *to, std::uint64_t from, std::size_t size,
                            bool plain = false) const
    {
        if (!plain && works_)
            return system_reads(to, from, size);
        std::memcpy(to, reinterpret_cast<const void *>(static_cast<std::uintptr_t>(from)), size);
        return true;
    }
    [[nodiscard]] bool write(std::uint64_t to, const void *from, std::size_t size,
                             bool plain = false) const
    {
        if (!plain && works_)
            return system_writes(to, from, size);
        std::memcpy(reinterpret_cast<void *>(static_cast<std::uintptr_t>(to)), from, size);
        return true;
    }

private:
    bool system_reads(void *to, std::uint64_t from, std::size_t size) const;
    bool system_writes(std::uint64_t to, const void *from, std::size_t size) const;

    bool works_ = false;
    int process_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
