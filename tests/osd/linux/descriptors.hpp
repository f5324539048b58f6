// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fcntl.h>
#include <set>

/// What the program has open, below 1024.
inline std::set<int> descriptors()
{
    std::set<int> found;
    for (int fd = 0; fd < 1024; ++fd)
        if (fcntl(fd, F_GETFD) >= 0)
            found.insert(fd);
    return found;
}
