// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies from and to memory of the consumer, who may have unmapped it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT::unconnected {

/// The system copies, which answers false for memory that is not mapped, where a plain copy would
/// end the process. Where it forbids that, plain copies are made.
class guarded_copy {
public:
    /// Looks whether the system copies for this process.
    void open();

    [[nodiscard]] bool read(void *to, std::uint64_t from, std::size_t size) const;
    [[nodiscard]] bool write(std::uint64_t to, const void *from, std::size_t size) const;

private:
    bool works_ = false;
    int process_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
