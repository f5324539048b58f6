// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DAT's descriptors are int, and those of Windows are sockets. These are wider, but handles of the
// system, of which 32 bits are significant.
#pragma once

namespace osd {

inline constexpr bool native_descriptors_exist = true;

} // namespace osd
