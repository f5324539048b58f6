// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "upcall_gate.hpp"

namespace dapl::port_support {

void upcall_gate::begin(osd::mutex &lock, running &entry)
{
    entry.next = first_;
    first_ = &entry;
    lock.unlock();
}

void upcall_gate::end(osd::mutex &lock, running &entry)
{
    lock.lock();
    running **at = &first_;
    while (*at != &entry)
        at = &(*at)->next;
    *at = entry.next;
    ended_.broadcast();
}

bool upcall_gate::is_running(const void *object) const
{
    for (const running *entry = first_; entry != nullptr; entry = entry->next)
        if (entry->object == object)
            return true;
    return false;
}

void upcall_gate::wait_quiet(osd::mutex &lock, const void *object)
{
    while (is_running(object))
        (void)ended_.wait(lock, osd::deadline::never());
}

} // namespace dapl::port_support
