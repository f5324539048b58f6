// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DAT's descriptors are int, and what Windows polls are sockets and handles, which are wider.
#pragma once

namespace osd {

inline constexpr bool native_descriptors_exist = false;

} // namespace osd
