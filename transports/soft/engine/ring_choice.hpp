// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which packets of a connection go by the ring to its peer.
#pragma once

#include "ring_paths.hpp"
#include "send_window.hpp"

namespace soft_hca {

class ring_choice {
public:
    /// Sends those that go this way, which are the first. The others are for the network, but for
    /// an error.
    send_result send(ring_path &ring, send_window &window, const out_packet *packets,
                     const std::uint32_t *psns, std::uint32_t count, std::uint32_t &done);

private:
    bool suits(send_window &window, const out_packet *packets, const std::uint32_t *psns,
               std::uint32_t count);
    void avoid(std::uint32_t psn)
    {
        avoids_ = true;
        avoided_psn_ = psn;
    }

    bool avoids_ = false; ///< packets did not fit, the latest of which has not been acknowledged
    std::uint32_t avoided_psn_ = 0;
};

} // namespace soft_hca
