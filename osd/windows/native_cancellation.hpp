// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace osd::native {

/// Threads are not cancelled here.
class cancellation_hold {
public:
    cancellation_hold() {} // so that an unused variable is none
};

} // namespace osd::native
