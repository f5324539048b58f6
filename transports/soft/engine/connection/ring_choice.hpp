// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Chooses the packets of a connection that go by the ring to its peer.
#pragma once

#include "net/ring_paths.hpp"
#include "window/send_window.hpp"

namespace soft_hca {

class ring_choice {
public:
    /// Puts the first of these packets into the ring; `done` is their number. The caller sends the
    /// others over the network, unless it returns an error. `plain`: see ring_path.
    send_result send(ring_path &ring, send_window &window, const out_packet *packets,
                     const std::uint32_t *psns, std::uint32_t count, bool plain,
                     std::uint32_t &done);

private:
    bool suits(send_window &window, const out_packet *packets, const std::uint32_t *psns,
               std::uint32_t count);
    void avoid(std::uint32_t psn)
    {
        avoids_ = true;
        avoided_psn_ = psn;
    }

    bool avoids_ = false;           ///< a packet that did not fit the ring is not acknowledged yet
    std::uint32_t avoided_psn_ = 0; ///< number of the latest such packet
};

} // namespace soft_hca
