// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "completion_target.hpp"

namespace soft_hca {

void completion_target::complete(request &r, work_status status, std::uint32_t length)
{
    const bool silent = status == work_status::success && is_silent(r);
    if (silent)
        return note_success(r);
    if (ring_ == nullptr)
        return;
    add({&r, length, 0, pair_, shard_, status, brought::nothing, false});
}

} // namespace soft_hca
