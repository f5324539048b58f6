// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The job that the functions of dapl_am.h work on.
#pragma once

namespace am {

class job;

/// Threads use it until the process ends, so it is never destroyed.
extern job *const current_job;

} // namespace am
