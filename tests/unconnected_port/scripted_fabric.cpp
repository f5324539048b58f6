// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scripted_fabric.hpp"

#include <algorithm>
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

std::size_t scripted_network::known_to(std::size_t device)
{
    std::lock_guard hold(lock);
    const std::vector<int> &numbers = devices[device]->numbers_;
    return numbers.size() - static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(),
                                                                scripted_fabric::nobody));
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
    out.size = scripted_network::get().name_size;
    if (out.size > sizeof out.bytes)
        return ENAMETOOLONG;
    std::memset(out.bytes, static_cast<int>(index_), out.size);
    return 0;
}

/// Gives the lowest number that is free.
int scripted_fabric::peer_of(const fabric_name &name, fabric_peer &out)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    const int device = name.bytes[0];
    ++net.asked;
    if (net.knows_nobody)
        return EADDRNOTAVAIL;
    net.misused += name.size != net.name_size || name.bytes[name.size - 1] != name.bytes[0];
    net.misused += std::count(numbers_.begin(), numbers_.end(), device) != 0;
    const auto place = std::find(numbers_.begin(), numbers_.end(), nobody);
    out = static_cast<fabric_peer>(place - numbers_.begin());
    if (place == numbers_.end())
        numbers_.push_back(device);
    else
        *place = device;
    return 0;
}

bool scripted_fabric::is_known(fabric_peer peer) const
{
    return peer < numbers_.size() && numbers_[peer] != nobody;
}

bool scripted_fabric::has_in_flight(fabric_peer peer) const
{
    return std::any_of(stuck_.begin(), stuck_.end(),
                       [&](const stuck_send &each) { return each.to == peer; }) ||
           std::any_of(pending_.begin(), pending_.end(),
                       [&](const pending_access &each) { return each.what.peer == peer; });
}

bool scripted_fabric::forget(fabric_peer peer)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    net.misused += !is_known(peer) || has_in_flight(peer);
    ++net.given_up;
    if (!net.forgets)
        return false;
    numbers_[peer] = nobody;
    return true;
}

void scripted_fabric::cancel(void *cookie)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    const auto found = std::find_if(stuck_.begin(), stuck_.end(),
                                    [&](const stuck_send &each) { return each.cookie == cookie; });
    if (found == stuck_.end())
        return;
    ++net.cancelled;
    if (!net.cancels)
        return;
    fabric_event done;
    done.cookie = cookie;
    done.error = ECANCELED;
    done_.push_back(done);
    stuck_.erase(found);
    signal();
}

bool scripted_fabric::has_stopped(fabric_peer peer) const
{
    const scripted_network &net = scripted_network::get();
    const int device = numbers_[peer];
    return device == net.stopped ||
           (net.dead_stop && net.devices[static_cast<std::size_t>(device)] == nullptr);
}

/// Ends sends to devices that go on.
void scripted_fabric::end_stuck()
{
    const auto ended = std::partition(stuck_.begin(), stuck_.end(),
                                      [&](const stuck_send &each) { return has_stopped(each.to); });
    for (auto each = ended; each != stuck_.end(); ++each) {
        fabric_event done;
        done.cookie = each->cookie;
        done_.push_back(done);
    }
    stuck_.erase(ended, stuck_.end());
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
    if (!is_known(to)) {
        ++net.misused;
        return EINVAL;
    }
    const auto *const first = static_cast<const std::uint8_t *>(bytes);
    const datagram copy(first, first + size);
    if (net.records)
        net.recorded.push_back(copy);
    if (has_stopped(to)) {
        stuck_.push_back({to, cookie});
        return 0;
    }
    fabric_event done;
    done.cookie = cookie;
    done.error = net.loses ? EIO : 0;
    done_.push_back(done);
    signal();
    auto *const there = net.devices[static_cast<std::size_t>(numbers_[to])];
    if (!net.loses && there != nullptr)
        there->arrive(copy);
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
    net.misused += !is_known(what.peer);
    pending_.push_back({what, *what.key});
    signal();
    return 0;
}

bool scripted_fabric::next(fabric_event &out)
{
    scripted_network &net = scripted_network::get();
    std::lock_guard hold(net.lock);
    if (!pending_.empty() && !net.keeps_accesses) {
        const auto [what, key] = pending_.front();
        pending_.pop_front();
        std::uintptr_t base = 0;
        std::memcpy(&base, key.bytes, sizeof base);
        auto *const there = reinterpret_cast<void *>(base + what.remote);
        if (!net.fails_access)
            std::memcpy(what.writes ? there : what.local, what.writes ? what.local : there,
                        what.length);
        fabric_event done;
        done.error = net.fails_access ? EIO : 0;
        done.what = fabric_event::kind::accessed;
        done.cookie = what.cookie;
        done_.push_back(done);
        ++net.ended_accesses;
    }
    end_stuck();
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
    out.peer_stays_ms = scripted_network::get().peer_stays_ms;
    out.device = std::make_unique<scripted_fabric>();
    return success;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
