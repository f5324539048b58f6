// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace program {

/// The file of the libdat2 that this process uses; "unknown" if the loader cannot say.
std::string libdat2_path();

} // namespace program
