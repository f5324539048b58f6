// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace osd {

inline constexpr bool native_descriptors_exist = true;

} // namespace osd
