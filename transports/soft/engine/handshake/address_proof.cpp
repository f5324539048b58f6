// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "address_proof.hpp"

#include "net/net.hpp"

namespace soft_hca {

bool address_tokens::open(std::int64_t period_ns)
{
    period_ns_ = period_ns;
    return random_bytes(&key_, sizeof key_);
}

std::uint64_t address_tokens::hash(const net_address &from, std::uint16_t port, std::uint32_t id,
                                   std::uint32_t tag, std::int64_t period) const
{
    struct {
        std::uint8_t host[16] = {};
        std::int64_t period = 0;
        std::uint32_t id = 0;
        std::uint32_t tag = 0;
        std::uint32_t port = 0;
        std::uint32_t family = 0;
    } of;
    static_assert(sizeof of == 40); // without padding, which would be hashed, too
    from.copy_host(of.host);
    of.period = period;
    of.id = id;
    of.tag = tag;
    of.port = port;
    of.family = static_cast<std::uint32_t>(from.family());
    return osd::siphash(key_).of(&of, sizeof of);
}

address_token address_tokens::token(const net_address &from, const handshake &hello,
                                    std::int64_t period) const
{
    const std::uint64_t all = hash(from, from.port(), hello.id, hello.tag, period);
    return {static_cast<std::uint32_t>(all >> 32), static_cast<std::uint32_t>(all)};
}

} // namespace soft_hca
