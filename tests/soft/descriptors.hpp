// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a test has open, on Linux.
#pragma once

#include <fcntl.h>

namespace rig {

inline int descriptors()
{
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd)
        count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

} // namespace rig
