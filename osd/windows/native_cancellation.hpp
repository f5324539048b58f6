// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace osd::native {

/// Threads are not cancelled here.
class cancellation_hold {
public:
    cancellation_hold() {} // spares a warning about an unused variable
};

} // namespace osd::native
