// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scripted_fabric.hpp"

#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>

namespace dapl::DAPL_TRANSPORT::unconnected {

scripted_network &scripted_network::get()
{
    static scripted_network one;
    return one;
}

void scripted_network::inject(std::size_t device, const datagram &bytes)
{
    std::lock_guard hold(lock);
    devices[device]->arrive(bytes);
}

scripted_fabric::scripted_fabric()
    : traits_(scripted_network::get().traits),
      has_descriptor_(scripted_network::get().has_descriptor),
      descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    index_ = net.devices.size();
    net.devices.push_back(this);
}

scripted_fabric::~scripted_fabric()
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    net.devices[index_] = nullptr;
    for (const datagram *each : inbox_)
        delete each;
    close(descriptor_);
}

int scripted_fabric::own_name(fabric_name &out)
{
    out.size = 1;
    out.bytes[0] = static_cast<std::uint8_t>(index_);
    return 0;
}

int scripted_fabric::peer_of(const fabric_name &name, fabric_peer &out)
{
    out = name.bytes[0];
    return 0;
}

int scripted_fabric::register_memory(void *address, std::uint64_t, memory_rights rights,
                                     void *&handle, fabric_key &key)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    net.rights.push_back(rights);
    handle = address;
    key.base = 0;
    const auto base = reinterpret_cast<std::uintptr_t>(address);
    key.size = 40; // wider than any number
    std::memset(key.bytes, 0xee, key.size);
    std::memcpy(key.bytes, &base, sizeof base);
    return 0;
}

void scripted_fabric::deregister_memory(void *)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    ++net.deregistered;
}

void scripted_fabric::signal()
{
    const std::uint64_t one = 1;
    (void)!write(descriptor_, &one, sizeof one);
}

void scripted_fabric::arrive(const datagram &bytes)
{
    inbox_.push_back(new datagram(bytes));
    if (!scripted_network::get().reads_ahead)
        signal();
}

int scripted_fabric::send(fabric_peer to, const void *bytes, std::size_t size, void *, void *cookie)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    if (net.busy)
        return EAGAIN;
    const auto *const first = static_cast<const std::uint8_t *>(bytes);
    const datagram copy(first, first + size);
    if (net.records)
        net.recorded.push_back(copy);
    if (net.stopped >= 0 && to == static_cast<fabric_peer>(net.stopped))
        return 0;
    fabric_event done;
    done.cookie = cookie;
    done.error = net.loses ? EIO : 0;
    done_.push_back(done);
    signal();
    if (!net.loses && net.devices[to] != nullptr)
        net.devices[to]->arrive(copy);
    return 0;
}

int scripted_fabric::access(const fabric_access &what)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    if (net.refuses_access) {
        ++net.refused_accesses;
        return EAGAIN;
    }
    pending_.push_back(what);
    signal();
    return 0;
}

bool scripted_fabric::next(fabric_event &out)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    if (!pending_.empty() && !net.keeps_accesses) {
        const fabric_access what = pending_.front();
        pending_.pop_front();
        std::uintptr_t base = 0;
        std::memcpy(&base, what.key->bytes, sizeof base);
        auto *const there = reinterpret_cast<void *>(base + what.remote);
        std::memcpy(what.writes ? there : what.local, what.writes ? what.local : there,
                    what.length);
        fabric_event done;
        done.what = fabric_event::kind::accessed;
        done.cookie = what.cookie;
        done_.push_back(done);
        ++net.ended_accesses;
    }
    out = {};
    if (!done_.empty()) {
        out = done_.front();
        done_.pop_front();
        return true;
    }
    if (inbox_.empty()) {
        std::uint64_t count = 0;
        if (pending_.empty() || net.keeps_accesses)
            (void)!read(descriptor_, &count, sizeof count);
        return false;
    }
    const bool last = net.shuffles && ++turn_ % 3 != 0;
    datagram *const found = last ? inbox_.back() : inbox_.front();
    if (last)
        inbox_.pop_back();
    else
        inbox_.pop_front();
    out.what = fabric_event::kind::arrived;
    out.bytes = found->data();
    out.size = found->size();
    out.buffer = found;
    return true;
}

int scripted_fabric::descriptor() const
{
    return has_descriptor_ ? descriptor_ : -1;
}

bool scripted_fabric::may_sleep()
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    return done_.empty() && inbox_.empty() && (pending_.empty() || net.keeps_accesses);
}

status make_fabric(const char *, fabric_setup &out)
{
    std::strcpy(out.interface, "lo");
    out.stall_ms = 300;
    out.device = std::make_unique<scripted_fabric>();
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
