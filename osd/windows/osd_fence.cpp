// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_fence.hpp"

#include <windows.h>

namespace osd {

void fence_all_threads()
{
    FlushProcessWriteBuffers();
}

bool can_fence_all_threads()
{
    return true;
}

} // namespace osd
