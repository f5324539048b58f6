// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <windows.h>

namespace osd::native {

class mutex {
public:
    void lock() { AcquireSRWLockExclusive(&handle_); }
    void unlock() { ReleaseSRWLockExclusive(&handle_); }
    bool try_lock() { return TryAcquireSRWLockExclusive(&handle_) != 0; }

private:
    SRWLOCK handle_ = SRWLOCK_INIT;
};

} // namespace osd::native
