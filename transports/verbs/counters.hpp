// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the port of a device counts, by the files that its driver has in sysfs.
#pragma once

#include "dapls_ib.hpp"

namespace dapl::verbs::vrb {

/// The device counts for all who use it, and from when its driver was loaded.
class port_counters {
public:
    /// Begins to count. `folder` is the port's, below sysfs.
    void open(const char *folder);
    /// Adds the counts since then; none where the driver has no such file.
    void read(device_counters &out);

private:
    char folder_[128] = {};
    device_counters before_;
};

} // namespace dapl::verbs::vrb
