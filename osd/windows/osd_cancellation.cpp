// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_cancellation.hpp"

namespace osd {

cancellable_wait::cancellable_wait() = default;
cancellable_wait::~cancellable_wait() = default;

void run_with_undo(void (*body)(void *), void (*)(void *), void *both)
{
    body(both);
}

void run_cancellable(void (*body)(void *), void *argument)
{
    body(argument);
}

void run_cancellable_at_once(void (*body)(void *), void *argument)
{
    body(argument);
}

} // namespace osd
