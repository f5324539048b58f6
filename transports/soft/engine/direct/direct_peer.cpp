// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_peer.hpp"

#include <algorithm>

namespace soft_hca {

std::int64_t access_patience::at(std::int64_t now) const
{
    const std::int64_t waited = std::max<std::int64_t>(rested_ns_.load() - now, 0) / rest;
    return std::clamp<std::int64_t>(all_ns - waited, 0, stuck_.load() ? last_ns : first_ns);
}

void access_patience::note(bool ended, std::int64_t began, std::int64_t now)
{
    stuck_.store(!ended);
    rested_ns_.store(std::max(rested_ns_.load(), began) + rest * (now - began));
}

peer_sockets::~peer_sockets()
{
    for (std::uint32_t i = 0; i < count_; ++i)
        local_socket::close(sockets_[i]);
}

bool peer_sockets::add(waitable socket, bool called, descriptor_set &watched)
{
    const osd::lock_guard hold(lock_);
    if (called && called_ >= 0 && local_socket::is_connected(called_)) {
        local_socket::close(socket);
        return true;
    }
    if (count_ == most)
        (void)check_all(watched); // a sound peer has closed its surplus sockets by now
    if (count_ == most || !watched.add(socket))
        return false;
    sockets_[count_++] = socket;
    if (called)
        called_ = socket;
    return true;
}

bool peer_sockets::any_open() const
{
    const osd::lock_guard hold(lock_);
    return std::any_of(sockets_, sockets_ + count_, local_socket::is_connected);
}

bool peer_sockets::check(descriptor_set &watched)
{
    const osd::lock_guard hold(lock_);
    return check_all(watched);
}

bool peer_sockets::check_all(descriptor_set &watched)
{
    for (std::uint32_t i = 0; i < count_;) {
        std::uint8_t word = 0;
        const std::ptrdiff_t said = local_socket::receive(sockets_[i], &word, sizeof word);
        if (said > 0)
            return false;
        if (said == 0)
            close(i, watched);
        else
            ++i;
    }
    return count_ != 0;
}

void peer_sockets::close(std::uint32_t at, descriptor_set &watched)
{
    if (sockets_[at] == called_)
        called_ = -1;
    watched.remove(sockets_[at]);
    local_socket::close(sockets_[at]);
    sockets_[at] = sockets_[--count_];
}

void peer_sockets::ignore(descriptor_set &watched)
{
    const osd::lock_guard hold(lock_);
    for (std::uint32_t i = 0; i < count_; ++i)
        watched.remove(sockets_[i]);
}

} // namespace soft_hca
