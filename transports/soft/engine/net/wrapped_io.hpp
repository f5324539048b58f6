// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Passes everything on to another packet_io, for those that change a part of it.
#pragma once

#include "packet_io.hpp"

namespace soft_hca {

class wrapped_io : public packet_io {
public:
    ~wrapped_io() override { delete inner_; }

    const net_address &address() const override { return inner_->address(); }
    send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override
    {
        return inner_->send(to, packets, count, done);
    }
    std::uint32_t receive_room() const override { return inner_->receive_room(); }
    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override
    {
        return inner_->receive(into, capacity);
    }
    bool place(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
               bool last_last) override
    {
        return inner_->place(to, from, size, last_last);
    }
    bool take_icmp_error(icmp_error &out) override { return inner_->take_icmp_error(out); }
    void probe_port(const net_address &to, const out_packet &packet) override
    {
        inner_->probe_port(to, packet);
    }
    waitable descriptor() const override { return inner_->descriptor(); }
    std::int64_t due_ns() const override { return inner_->due_ns(); }

protected:
    /// Takes over `inner`, made by new.
    explicit wrapped_io(packet_io *inner) : inner_(inner) {}

    packet_io *const inner_;
};

} // namespace soft_hca
