// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/holdings.hpp"

#include "harness/events.hpp"
#include "harness/settings.hpp"

namespace conformance {

holdings what_we_hold_at_rest(const holdings &before)
{
    holdings now;
    (void)becomes_true(
        [&] {
            now = what_we_hold();
            return now.descriptors <= before.descriptors && now.threads <= before.threads &&
                   now.resident_kib <= before.resident_kib + resident_slack_kib;
        },
        milliseconds(3000));
    return now;
}

} // namespace conformance
