// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "datagram.hpp"

namespace dapl::DAPL_TRANSPORT::unconnected {

std::size_t write_grant(std::uint8_t *out, const grant_body &grant)
{
    packet_writer w(out);
    w.put(grant.number);
    w.put(grant.key_size);
    std::memcpy(out + 12, grant.key, grant.key_size);
    return 12 + grant.key_size;
}

bool read_grant(const std::uint8_t *bytes, std::size_t size, grant_body &out)
{
    if (size < 12)
        return false;
    packet_reader r(bytes);
    r.get(out.number);
    r.get(out.key_size);
    if (out.key_size > sizeof out.key || size != 12 + out.key_size)
        return false;
    std::memcpy(out.key, bytes + 12, out.key_size);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
