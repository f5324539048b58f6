// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "transition_lock.hpp"

#include "osd_thread.hpp"

namespace dat {

bool transition_lock::take(long thread)
{
    if (owner_ != 0 && owner_ != thread)
        return false;
    owner_ = thread;
    ++depth_;
    return true;
}

void transition_lock::lock()
{
    osd::lock_guard guard(guard_);
    while (!take(osd::thread_id()))
        released_.wait(guard_, osd::deadline::never());
}

bool transition_lock::try_lock()
{
    if (!guard_.try_lock())
        return false;
    const bool taken = take(osd::thread_id());
    guard_.unlock();
    return taken;
}

void transition_lock::unlock()
{
    osd::lock_guard guard(guard_);
    if (--depth_ != 0)
        return;
    owner_ = 0;
    released_.signal();
}

} // namespace dat
