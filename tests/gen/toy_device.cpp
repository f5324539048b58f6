// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style unconnected, in place of their acme_device.cpp: datagram sockets between
// the processes of a host, which promise their order and nothing else. A peer that does not read
// makes them busy.
#include "acme_device.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace dapl::acme {

namespace {

constexpr std::uint32_t largest = 8192;

struct toy {
    int socket = -1;
    std::vector<fabric_name> peers;
    std::vector<std::unique_ptr<std::uint8_t[]>> buffers; ///< given back
};

toy &toy_of(const device_objects &own)
{
    return *static_cast<toy *>(own.handle);
}

} // namespace

int device::open(const char * /*interface*/)
{
    auto *const made = new (std::nothrow) toy;
    own_.handle = made;
    if (made == nullptr)
        return ENOMEM;
    made->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un any{};
    any.sun_family = AF_UNIX; // the system names it
    const auto *const address = reinterpret_cast<const sockaddr *>(&any);
    return made->socket >= 0 && bind(made->socket, address, sizeof any.sun_family) == 0 ? 0 : errno;
}

void device::close()
{
    auto *const made = static_cast<toy *>(own_.handle);
    if (made != nullptr && made->socket >= 0)
        (void)::close(made->socket);
    delete made;
    own_.handle = nullptr;
}

fabric_traits device::traits() const
{
    fabric_traits is;
    is.max_datagram = largest;
    is.ordered = true;
    return is;
}

int device::register_memory(void *, std::uint64_t, memory_rights, void *&, fabric_key &)
{
    return 0; // the system reads all memory of the process
}

void device::deregister_memory(void *) {}

bool device::next(fabric_event &out)
{
    toy &t = toy_of(own_);
    if (t.buffers.empty())
        t.buffers.emplace_back(new std::uint8_t[largest]);
    const ssize_t size = recv(t.socket, t.buffers.back().get(), largest, 0);
    if (size < 0)
        return false;
    out = {};
    out.what = fabric_event::kind::arrived;
    out.size = static_cast<std::size_t>(size);
    out.buffer = t.buffers.back().release();
    out.bytes = static_cast<const std::uint8_t *>(out.buffer);
    t.buffers.pop_back();
    return true;
}

void device::give_back(void *buffer)
{
    toy_of(own_).buffers.emplace_back(static_cast<std::uint8_t *>(buffer));
}

int device::descriptor() const
{
    return toy_of(own_).socket;
}

bool device::may_sleep()
{
    return true; // next() reads nothing ahead
}

int device::peer_of(const fabric_name &name, fabric_peer &out)
{
    if (name.size > sizeof(sockaddr_un))
        return EINVAL;
    out = toy_of(own_).peers.size();
    toy_of(own_).peers.push_back(name);
    return 0;
}

int device::send(fabric_peer to, const void *bytes, std::size_t size, void *, void *)
{
    const fabric_name &name = toy_of(own_).peers[to];
    const auto *const address = reinterpret_cast<const sockaddr *>(name.bytes);
    const ssize_t sent = sendto(toy_of(own_).socket, bytes, size, MSG_NOSIGNAL, address, name.size);
    if (sent < 0 && errno != ECONNREFUSED) // a peer that has died takes nothing
        return errno == ENOBUFS ? EAGAIN : errno;
    return sent_at_once;
}

int device::access(const fabric_access &)
{
    return ENOTSUP; // traits() has no accesses
}

int device::own_name(fabric_name &out)
{
    sockaddr_un own{};
    socklen_t size = sizeof own;
    if (getsockname(toy_of(own_).socket, reinterpret_cast<sockaddr *>(&own), &size) != 0)
        return errno;
    out.size = size;
    std::memcpy(out.bytes, &own, size);
    return 0;
}

} // namespace dapl::acme
