// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Windows has no direct access to other processes: peers are reached over UDP.
#include "net_local.hpp"

namespace soft_hca {

bool shared_memory::create(std::size_t)
{
    return false;
}

bool shared_memory::map(waitable, std::size_t)
{
    return false;
}

void shared_memory::close() {}

bool life_mark::hold()
{
    return false;
}

bool life_mark::is_held() const
{
    return false;
}

local_obstacle local_process::obstacle_to(waitable)
{
    return local_obstacle::not_here;
}

local_obstacle local_process::open(waitable, const process_mark &)
{
    return local_obstacle::not_here;
}

local_process::presence local_process::look() const
{
    return presence::gone;
}

std::ptrdiff_t local_process::write(std::uint64_t, const bytes_view *, std::uint32_t, std::size_t,
                                    const local_guard &) const
{
    return -2;
}

std::ptrdiff_t local_process::fetch(const bytes_view *, std::uint32_t, const bytes_view *,
                                    std::uint32_t, const local_guard &) const
{
    return -2;
}

std::ptrdiff_t local_process::fetch_proven(const bytes_view *, std::uint32_t, const bytes_view *,
                                           std::uint32_t, const local_guard &) const
{
    return -2;
}

bool local_process::exists()
{
    return false;
}

waitable local_socket::listen(const net_address &)
{
    return -1;
}

waitable local_socket::connect(const net_address &, local_obstacle &why)
{
    why = local_obstacle::not_here;
    return -1;
}

waitable local_socket::accept(waitable)
{
    return none;
}

void local_socket::shut(waitable) {}

void local_socket::close(waitable) {}

bool local_socket::is_connected(waitable)
{
    return false;
}

bool local_socket::permit_files(waitable, bool)
{
    return false;
}

bool local_socket::send(waitable, const void *, std::size_t)
{
    return false;
}

bool local_socket::send(waitable, const void *, std::size_t, waitable, waitable)
{
    return false;
}

std::ptrdiff_t local_socket::receive(waitable, void *, std::size_t)
{
    return 0;
}

std::ptrdiff_t local_socket::receive(waitable, void *, std::size_t, waitable &file,
                                     waitable &another)
{
    file = another = -1;
    return 0;
}

} // namespace soft_hca
