// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring_choice.hpp"

namespace soft_hca {

/// Whether these packets may go by the ring. Retransmissions may not: over the network an ICMP
/// error shows that the peer has gone.
bool ring_choice::suits(send_window &window, const out_packet *packets, const std::uint32_t *psns,
                        std::uint32_t count)
{
    bool fresh = true;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (packets[i].size > ring_file::largest)
            avoid(psns[i]);
        fresh = fresh && !window.at(psns[i]).again;
    }
    // Packets by the ring would overtake packets that do not fit, and the peer would have to store
    // early packets.
    avoids_ = avoids_ && !before(avoided_psn_, window.oldest());
    return fresh && !avoids_;
}

send_result ring_choice::send(ring_path &ring, send_window &window, const out_packet *packets,
                              const std::uint32_t *psns, std::uint32_t count, bool plain,
                              std::uint32_t &done)
{
    if (!suits(window, packets, psns, count))
        return send_result::sent;
    const send_result result = ring.send(packets, count, plain, done);
    for (std::uint32_t i = 0; i < done; ++i)
        window.at(psns[i]).by_ring = true;
    if (result != send_result::busy)
        return result;
    avoid(psns[done]);
    return send_result::sent;
}

} // namespace soft_hca
