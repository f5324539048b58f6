// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "packet_io.hpp"

namespace soft_hca {

/// Places bytes on networks that cannot check: the process gets a fault where the memory is not
/// mapped. Not in the header, so that this file alone has the table of virtual functions: linkers
/// for Windows refuse two objects that begin with the same one.
bool packet_io::place(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
                      bool last_last)
{
    std::memcpy(to, from, last_last ? size - 1 : size);
    if (last_last)
        __atomic_store_n(to + size - 1, from[size - 1], __ATOMIC_RELEASE);
    return true;
}

} // namespace soft_hca
