// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair_context.hpp"

#include <algorithm>

namespace soft_hca {

bool pair_context::may_use(const request &r, std::uint32_t rights) const
{
    for (std::uint32_t i = 0; i < r.segments; ++i) {
        const local_segment &s = r.local[i];
        if (s.length != 0 && !access(s.key, rights, s.address, s.length))
            return false;
    }
    return true;
}

template <std::uint32_t right>
OSD_ALWAYS_INLINE work_status pair_context::scatter_with(const request &r, std::uint32_t offset,
                                                         const std::uint8_t *from,
                                                         std::uint32_t size) const
{
    for (std::uint32_t i = 0; i < r.segments && size != 0; ++i) {
        const local_segment &s = r.local[i];
        if (offset >= s.length) {
            offset -= s.length;
            continue;
        }
        const std::uint32_t part = std::min(s.length - offset, size);
        if (!access(s.key, right, s.address + offset, part))
            return work_status::local_protection;
        if (!home->io().place(pointer_to(s.address + offset), from, part, false))
            return work_status::local_protection;
        from += part;
        size -= part;
        offset = 0;
    }
    return size == 0 ? work_status::success : work_status::local_length;
}

work_status pair_context::scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                                  std::uint32_t size) const
{
    return scatter_with<local_write>(r, offset, from, size);
}

work_status pair_context::scatter_to_window(const request &r, std::uint32_t offset,
                                            const std::uint8_t *from, std::uint32_t size) const
{
    return scatter_with<remote_write>(r, offset, from, size);
}

void pair_context::complete(request &r, work_status status, std::uint32_t length,
                            completion_ring *to) const
{
    const bool silent = status == work_status::success && is_silent(r);
    if (silent)
        return note_success(r);
    if (to == nullptr)
        return;
    to->push({&r, length, 0, id, static_cast<std::uint8_t>(home->index), status, brought::nothing,
              false});
}

void pair_context::settle_completions() const
{
    for (completion_ring *const each : {send_completions, receive_completions})
        if (each != nullptr)
            each->settle();
}

} // namespace soft_hca
