// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_signals.hpp"

namespace osd {

void look_at_signal_handlers() {}

signal_set signals_to_hold_back()
{
    return 0;
}

bool handler_ends_wait(signal_set)
{
    return false;
}

bool held_back_ends_wait(signal_set)
{
    return false;
}

} // namespace osd
