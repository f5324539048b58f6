// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The options of a job: what the program passes, else the environment, else the default.
#pragma once

#include "dapl_am.h"

namespace am {

struct settings {
    const char *adapter = ""; ///< valid during dapl_am_init(); empty: the first that opens
    unsigned credits = 12;
    bool connect_all = false;
    bool receive_thread = false;
    bool put_barrier = false;
    bool registration_cache = true;
    unsigned connect_timeout = 60'000;
    unsigned setup_timeout = 300'000;
    unsigned exit_timeout = 0; ///< 0: by the number of ranks

    /// Reads the options and the environment, and reports mistakes. Returns a status.
    int load(const DAPL_AM_OPTIONS *options);
    /// Returns the milliseconds in which a job of this size has to end.
    unsigned exit_limit(int size) const;
};

} // namespace am
