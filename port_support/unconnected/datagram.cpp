// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "datagram.hpp"

#include <cstring>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

class writer {
public:
    explicit writer(std::uint8_t *at) : at_(at) {}

    template <class Number>
    void put(Number value)
    {
        for (std::size_t i = 0; i < sizeof value; ++i)
            *at_++ = static_cast<std::uint8_t>(value >> (8 * i));
    }

private:
    std::uint8_t *at_;
};

class reader {
public:
    explicit reader(const std::uint8_t *at) : at_(at) {}

    template <class Number>
    void get(Number &out)
    {
        Number value = 0;
        for (std::size_t i = 0; i < sizeof value; ++i)
            value = static_cast<Number>(value | static_cast<Number>(*at_++) << (8 * i));
        out = value;
    }

private:
    const std::uint8_t *at_;
};

} // namespace

void write_header(std::uint8_t *out, const packet_header &h)
{
    writer w(out);
    w.put(packet_header::magic);
    w.put(static_cast<std::uint8_t>(h.kind));
    w.put(h.flags);
    w.put(std::uint8_t{0});
    w.put(h.to);
    w.put(h.tag);
    w.put(h.psn);
    w.put(h.ack);
    w.put(h.id);
    w.put(h.total);
    w.put(h.offset);
    w.put(h.key);
    w.put(h.address);
    w.put(h.immediate);
    w.put(std::uint32_t{h.round});
}

bool read_header(const std::uint8_t *bytes, std::size_t size, packet_header &h)
{
    if (size < packet_header::size || bytes[0] != packet_header::magic || bytes[3] != 0)
        return false;
    reader r(bytes + 1);
    std::uint8_t kind = 0;
    std::uint8_t unused = 0;
    std::uint32_t round = 0;
    r.get(kind);
    r.get(h.flags);
    r.get(unused);
    r.get(h.to);
    r.get(h.tag);
    r.get(h.psn);
    r.get(h.ack);
    r.get(h.id);
    r.get(h.total);
    r.get(h.offset);
    r.get(h.key);
    r.get(h.address);
    r.get(h.immediate);
    r.get(round);
    h.kind = static_cast<packet_kind>(kind);
    h.round = static_cast<std::uint16_t>(round);
    return kind != 0 && kind <= static_cast<std::uint8_t>(last_kind);
}

std::size_t write_grant(std::uint8_t *out, const grant_body &grant)
{
    writer w(out);
    w.put(grant.number);
    w.put(grant.key_size);
    std::memcpy(out + 12, grant.key, grant.key_size);
    return 12 + grant.key_size;
}

bool read_grant(const std::uint8_t *bytes, std::size_t size, grant_body &out)
{
    if (size < 12)
        return false;
    reader r(bytes);
    r.get(out.number);
    r.get(out.key_size);
    if (out.key_size > sizeof out.key || size != 12 + out.key_size)
        return false;
    std::memcpy(out.key, bytes + 12, out.key_size);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
