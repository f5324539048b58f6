// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "local_memory.hpp"

#include <algorithm>

namespace soft_hca {

bool local_memory::may_use(const request &r, std::uint32_t rights) const
{
    for (std::uint32_t i = 0; i < r.segments; ++i) {
        const local_segment &s = r.local[i];
        if (s.length != 0 && !access(s.key, rights, s.address, s.length))
            return false;
    }
    return true;
}

template <std::uint32_t right, class Place>
OSD_ALWAYS_INLINE work_status local_memory::scatter_with(const request &r, std::uint32_t offset,
                                                         const std::uint8_t *from,
                                                         std::uint32_t size,
                                                         Place &&place_part) const
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
        if (!place_part(s.address + offset, from, part))
            return work_status::local_protection;
        from += part;
        size -= part;
        offset = 0;
    }
    return size == 0 ? work_status::success : work_status::local_length;
}

work_status local_memory::scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                                  std::uint32_t size) const
{
    return scatter_with<local_write>(
        r, offset, from, size,
        [this](std::uint64_t to, const std::uint8_t *part, std::uint32_t bytes) {
            return place(to, part, bytes, false);
        });
}

work_status local_memory::copy_in(const request &r, const std::uint8_t *from,
                                  std::uint32_t size) const
{
    return scatter_with<local_write>(
        r, 0, from, size, [](std::uint64_t to, const std::uint8_t *part, std::uint32_t bytes) {
            std::memcpy(pointer_to(to), part, bytes);
            return true;
        });
}

work_status local_memory::list(const request &r, std::uint32_t offset, std::uint32_t size,
                               bytes_view *out, std::uint32_t &pieces) const
{
    pieces = 0;
    for (std::uint32_t i = 0; i < r.segments && size != 0; ++i) {
        const local_segment &s = r.local[i];
        if (offset >= s.length) {
            offset -= s.length;
            continue;
        }
        const std::uint32_t part = std::min(s.length - offset, size);
        if (!access(s.key, local_write, s.address + offset, part))
            return work_status::local_protection;
        out[pieces++] = {pointer_to(s.address + offset), part};
        size -= part;
        offset = 0;
    }
    return size == 0 ? work_status::success : work_status::local_length;
}

work_status local_memory::scatter_to_window(const request &r, std::uint32_t offset,
                                            const std::uint8_t *from, std::uint32_t size) const
{
    return scatter_with<remote_write>(
        r, offset, from, size,
        [this](std::uint64_t to, const std::uint8_t *part, std::uint32_t bytes) {
            return place(to, part, bytes, false);
        });
}

} // namespace soft_hca
