// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "program/child_process.hpp"

namespace program {

/// Null if there is none of this name.
const job *find_job(const std::string &name);

} // namespace program
