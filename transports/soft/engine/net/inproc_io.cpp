// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inproc_io.hpp"

#include <cstdlib>
#include <new>

namespace soft_hca {

bool inproc_network::attach(inproc_io &end, net_address &given)
{
    osd::lock_guard hold(lock_);
    if (given.port() == 0)
        given.set_port(next_port_++);
    std::uint32_t free = capacity;
    for (std::uint32_t i = 0; i < capacity; ++i) {
        if (ends_[i] == nullptr)
            free = i;
        else if (ends_[i]->address() == given)
            return false;
    }
    if (free == capacity)
        return false;
    ends_[free] = &end;
    return true;
}

void inproc_network::detach(inproc_io &end)
{
    osd::lock_guard hold(lock_);
    for (inproc_io *&each : ends_)
        if (each == &end)
            each = nullptr;
}

bool inproc_network::has_end(const net_address &at)
{
    osd::lock_guard hold(lock_);
    for (const inproc_io *each : ends_)
        if (each != nullptr && each->address() == at)
            return true;
    return false;
}

bool inproc_network::deliver(const net_address &from, const net_address &to,
                             const out_packet &packet)
{
    osd::lock_guard hold(lock_);
    if (hears_ != nullptr)
        hears_(hears_with_, from, to, packet);
    if (lost_next_.load() != 0) {
        lost_next_.fetch_sub(1);
        return true;
    }
    if (translates_ && to == inside_)
        return true;
    const net_address &source = translates_ && from == inside_ ? outside_ : from;
    const net_address &target = translates_ && to == outside_ ? inside_ : to;
    for (inproc_io *each : ends_)
        if (each != nullptr && each->address() == target) {
            each->put(source, packet);
            return true;
        }
    return translates_; // routers drop it
}

void inproc_network::translate(const net_address &inside, const net_address &outside)
{
    osd::lock_guard hold(lock_);
    translates_ = true;
    inside_ = inside;
    outside_ = outside;
}

void inproc_network::listen_in(listener hears, void *context)
{
    osd::lock_guard hold(lock_);
    hears_ = hears;
    hears_with_ = context;
}

bool inproc_io::open(inproc_network &network, const net_address &at)
{
    address_ = at;
    if (!arrived_.open())
        return false;
    if (!network.attach(*this, address_))
        return false;
    network_ = &network;
    return true;
}

void inproc_io::close()
{
    if (network_ != nullptr)
        network_->detach(*this);
    network_ = nullptr;
    arrived_.close();
    osd::lock_guard hold(lock_);
    release(head_);
    head_ = tail_ = nullptr;
    release(lent_);
    lent_ = nullptr;
}

void inproc_io::release(held *list)
{
    while (list != nullptr) {
        held *next = list->next;
        std::free(list);
        list = next;
    }
}

void inproc_io::put(const net_address &from, const out_packet &packet)
{
    void *memory = std::malloc(sizeof(held) + packet.size);
    if (memory == nullptr)
        return; // a network may lose a datagram
    auto *item = new (memory) held;
    item->from = from;
    for (std::uint32_t i = 0; i < packet.pieces; ++i) {
        std::memcpy(item->bytes() + item->size, packet.piece[i].at, packet.piece[i].size);
        item->size += packet.piece[i].size;
    }
    osd::lock_guard hold(lock_);
    if (queued_ == max_queued) {
        std::free(memory);
        return;
    }
    (head_ == nullptr ? head_ : tail_->next) = item;
    tail_ = item;
    if (queued_++ == 0)
        arrived_.raise();
}

send_result inproc_io::send(const net_address &to, const out_packet *packets, std::uint32_t count,
                            std::uint32_t &done)
{
    done = 0;
    if (network_->jammed())
        return send_result::busy;
    for (; done < count; ++done) {
        if (!network_->deliver(address_, to, packets[done]) && !network_->reports_to_probes_only())
            report_closed(to, packets[done]);
    }
    return send_result::sent;
}

void inproc_io::probe_port(const net_address &to, const out_packet &packet)
{
    if (network_->reports_to_probes_only() && !network_->has_end(to))
        report_closed(to, packet);
}

void inproc_io::report_closed(const net_address &to, const out_packet &packet)
{
    osd::lock_guard hold(lock_);
    icmp_error &b = error_.error;
    b.to = to;
    b.why = send_result::refused;
    b.size = packet.piece[0].size < sizeof b.bytes ? packet.piece[0].size : sizeof b.bytes;
    std::memcpy(b.bytes, packet.piece[0].at, b.size);
    error_.full = true;
    arrived_.raise();
}

std::uint32_t inproc_io::receive(in_packets *into, std::uint32_t capacity)
{
    release(lent_);
    lent_ = nullptr;
    held **end = &lent_;
    std::uint32_t count = 0;
    osd::lock_guard hold(lock_);
    while (head_ != nullptr && count < capacity && count < batch) {
        held *item = head_;
        head_ = item->next;
        item->next = nullptr;
        *end = item;
        end = &item->next;
        --queued_;
        into[count++] = {item->from, item->bytes(), item->size, item->size};
    }
    if (head_ == nullptr && !error_.full)
        arrived_.clear();
    return count;
}

bool inproc_io::take_icmp_error(icmp_error &out)
{
    osd::lock_guard hold(lock_);
    if (!error_.full)
        return false;
    out = error_.error;
    error_.full = false;
    return true;
}

} // namespace soft_hca
