// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

namespace osd::native {

class cancellation_hold {
public:
    cancellation_hold() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~cancellation_hold() { pthread_setcancelstate(before_, nullptr); }

    bool was_enabled() const { return before_ == PTHREAD_CANCEL_ENABLE; }

private:
    int before_;
};

} // namespace osd::native
