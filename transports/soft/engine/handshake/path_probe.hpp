// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The largest datagrams that a path carries, found by the handshake (RFC 8899): each side pads its
// request or accept to the size that it tries. What arrives shows that the path carries it, without
// ICMP.
#pragma once

#include <cstdint>
#include <utility>

namespace soft_hca {

class path_probe {
public:
    static constexpr std::uint32_t base = 1200; ///< what every path carries

    /// Begins to probe: the peer takes padded datagrams, of at most `largest` bytes. False where
    /// the probe continues from an earlier attempt of this handshake.
    bool begin(std::uint32_t largest)
    {
        largest_ = largest;
        return std::exchange(size_, size_ == 0 ? largest : size_) == 0;
    }
    /// It takes none, or is not known to.
    void pause() { largest_ = 0; }
    /// The size that the probe began with; 0: not probed.
    std::uint32_t largest() const { return largest_; }
    /// What the next datagram is padded to; 0: it is not padded. A size is tried `attempts` times,
    /// and then a smaller one.
    std::uint32_t next(std::uint32_t attempts)
    {
        if (largest_ <= base)
            return 0;
        if (tried_++ == attempts)
            size_ = below(size_), tried_ = 1;
        return size_;
    }

private:
    /// The sizes are common on Ethernet, and on tunnels over it.
    static constexpr std::uint32_t below(std::uint32_t size)
    {
        for (const std::uint32_t each : {8972u, 1472u, 1372u})
            if (each < size)
                return each;
        return base;
    }

    std::uint32_t largest_ = 0;
    std::uint32_t size_ = 0;
    std::uint32_t tried_ = 0;
};

} // namespace soft_hca
