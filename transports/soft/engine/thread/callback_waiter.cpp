// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "callback_waiter.hpp"

#include "osd_cancellation.hpp"

namespace soft_hca {

void callback_waiter::rouse()
{
    if (asleep_.exchange(false))
        signal_.raise();
}

bool callback_waiter::takes_over()
{
    if (!present())
        return false;
    rouse();
    return true;
}

void callback_waiter::wake()
{
    woken_.store(true);
    rouse();
}

void callback_waiter::end()
{
    present_.store(false);
    asleep_.store(false);
    woken_.store(false);
}

osd::wait_result callback_waiter::wait(const waitable *descriptors, std::uint32_t count,
                                       osd::deadline until)
{
    osd::wait_result result{};
    std::uint64_t ready = 0;
    osd::cancellation_point([&] { result = wait_for(descriptors, count, until, &ready); });
    // A signal that is raised after wait_for() ends the next sleep.
    if ((ready >> (count - 1) & 1) != 0)
        signal_.clear();
    return result;
}

} // namespace soft_hca
