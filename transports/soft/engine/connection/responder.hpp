// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The target of the peer's reads and atomic operations: executes them and sends responses.
#pragma once

#include "memory/local_memory.hpp"
#include "memory/segment_result.hpp"
#include "peer_path.hpp"
#include "window/send_window.hpp"

#include <memory>
#include <utility>

namespace soft_hca {

/// A read or atomic operation of the peer whose response is not acknowledged yet.
struct response {
    rdmap opcode;
    std::uint32_t sink_stag;
    std::uint64_t sink_offset;
    std::uint32_t source_stag;
    std::uint64_t source_offset;
    std::uint32_t size;
    std::uint32_t sent;
    std::uint32_t request_psn;
    std::uint32_t msn;
    std::uint64_t original;
};

/// The windows through which the packets of a batch read. They are not rebound before the batch is
/// transmitted.
class windows_being_read {
public:
    static constexpr std::uint32_t max_batch = 32; ///< packets

    windows_being_read() = default;
    windows_being_read(const windows_being_read &) = delete;
    windows_being_read &operator=(const windows_being_read &) = delete;
    ~windows_being_read()
    {
        while (count_ != 0)
            grant::end(windows_[--count_]);
    }
    void add(memory_region &window) { windows_[count_++] = &window; }

private:
    std::uint32_t count_ = 0;
    memory_region *windows_[max_batch];
};

class responder {
public:
    responder() = default;
    /// Returns false when out of memory.
    bool open(const local_memory &memory, send_window &window, std::uint32_t max_reads);
    /// Forgets all state of the connection.
    void restart(std::uint32_t first_msn);

    // --- received segments; `psn` is that of the packet

    segment_result on_read_request(const ddp_segment &s, std::uint32_t psn);
    segment_result on_atomic_request(const ddp_segment &s, std::uint32_t psn);

    // --- responses

    bool idle() const { return head_ == tail_; }
    /// Whether a packet is to be sent.
    bool pending() const { return next_ != tail_; }
    /// Puts the next packet into the send window; there is one. Returns its psn.
    std::uint32_t next_packet(const peer_path &path, std::int64_t now);
    /// Claims the memory that a packet reads. False when the peer has no right to it any more.
    bool begin_reading(const sent_packet &packet, windows_being_read &read) const;
    void build(out_packet &out, const sent_packet &packet) const;
    /// The last packet of the oldest response was acknowledged.
    void retire_oldest() { ++head_; }

private:
    responder(const local_memory &memory, send_window &window, std::unique_ptr<response[]> ring,
              std::uint32_t max_reads, std::uint32_t first_msn)
        : memory_(&memory), window_(&window), ring_(std::move(ring)), max_reads_(max_reads),
          mask_(std::bit_ceil(max_reads) - 1), request_msn_(first_msn), atomic_msn_(first_msn)
    {}
    response &at(std::uint32_t position) { return ring_[position & mask_]; }
    bool full() const { return tail_ - head_ == max_reads_; }

    const local_memory *memory_ = nullptr;
    send_window *window_ = nullptr;
    std::unique_ptr<response[]> ring_;
    std::uint32_t max_reads_ = 0;
    std::uint32_t mask_ = 0; ///< selects a place in the ring
    std::uint32_t head_ = 0; ///< the oldest that is not acknowledged
    std::uint32_t next_ = 0; ///< the response that is sent next
    std::uint32_t tail_ = 0;
    std::uint32_t request_msn_ = 0; ///< number of the peer's next request
    std::uint32_t atomic_msn_ = 0;  ///< number of the next response to an atomic operation
};

} // namespace soft_hca
