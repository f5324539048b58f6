// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "deferred_completions.hpp"

namespace dapl::DAPL_TRANSPORT {

void consumer_gate::exclude()
{
    slow_.store(1);
    osd::fence_all_threads();
    consumer.wait_until_empty();
}

} // namespace dapl::DAPL_TRANSPORT
