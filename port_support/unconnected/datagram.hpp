// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The header of each datagram. Numbers are little-endian.
//
// Packets with a sequence number are requests. The receiver executes requests of a connection in
// order. The peer repeats requests that the receiver has dropped, from a number that `resume`
// names, and counts such rounds, so that older copies are told from repeated packets. All other
// packets are taken in the order in which they come.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::unconnected {

enum class packet_kind : std::uint8_t {
    // These have a sequence number.
    send = 1,  ///< a part of a message
    write,     ///< a part of an RDMA write
    read,      ///< an RDMA read, whose data come as responses
    ask_write, ///< asks for the key to write by an access of the device
    ask_read,
    done, ///< the write that was asked for can be seen; gives the grant back
    // These have none.
    response,
    grant,   ///< the key
    deny,    ///< move the data by datagrams
    release, ///< gives a grant back
    acknowledge,
    resume,    ///< repeat the requests from this number on
    terminate, ///< a request has failed, and the connection with it
};
inline constexpr auto last_sequenced = packet_kind::done;
inline constexpr auto last_kind = packet_kind::terminate;

enum packet_flags : std::uint8_t {
    flag_last = 1,      ///< last part of a message or write
    flag_immediate = 2, ///< the write carries immediate data
};

/// Why a request has failed at the peer.
enum class failure : std::uint32_t {
    access = 1, ///< memory of the peer is not open to it
    operation,  ///< the peer's receive, or the peer itself, was in the way
};

struct packet_header {
    static constexpr std::size_t size = 56;
    static constexpr std::uint8_t magic = 0xda;

    packet_kind kind{};
    std::uint8_t flags = 0;
    std::uint16_t round = 0;
    std::uint32_t to = 0;  ///< number of the receiver's queue pair
    std::uint64_t tag = 0; ///< a random number that names its connection
    std::uint32_t psn = 0;
    std::uint32_t ack = 0;    ///< the next number that the sender of this packet expects
    std::uint32_t id = 0;     ///< read, ask, and their answers: number of the request
    std::uint32_t total = 0;  ///< bytes of the whole message, write or read
    std::uint32_t offset = 0; ///< place of this part
    std::uint32_t key = 0;
    std::uint64_t address = 0;   ///< holds the number of a grant, too
    std::uint32_t immediate = 0; ///< holds a failure, too

    bool is_sequenced() const { return kind <= last_sequenced; }
};

/// Puts numbers one behind the other.
class packet_writer {
public:
    explicit packet_writer(std::uint8_t *at) : at_(at) {}

    template <class Number>
    void put(Number value)
    {
        if constexpr (std::endian::native == std::endian::little) {
            std::memcpy(at_, &value, sizeof value);
        } else {
            for (std::size_t i = 0; i < sizeof value; ++i)
                at_[i] = static_cast<std::uint8_t>(value >> (8 * i));
        }
        at_ += sizeof value;
    }

private:
    std::uint8_t *at_;
};

class packet_reader {
public:
    explicit packet_reader(const std::uint8_t *at) : at_(at) {}

    template <class Number>
    void get(Number &out)
    {
        if constexpr (std::endian::native == std::endian::little) {
            std::memcpy(&out, at_, sizeof out);
        } else {
            out = 0;
            for (std::size_t i = 0; i < sizeof out; ++i)
                out = static_cast<Number>(out | static_cast<Number>(at_[i]) << (8 * i));
        }
        at_ += sizeof out;
    }

private:
    const std::uint8_t *at_;
};

// These are in the header since each message is worth a few instructions only.

inline void write_header(std::uint8_t *out, const packet_header &h)
{
    packet_writer w(out);
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

/// Reads all but the first four bytes.
inline void read_rest(const std::uint8_t *bytes, packet_header &h)
{
    packet_reader r(bytes + 4);
    std::uint32_t round = 0;
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
    h.round = static_cast<std::uint16_t>(round);
}

/// Returns false for other bytes than a packet of this layer.
[[nodiscard]] inline bool read_header(const std::uint8_t *bytes, std::size_t size, packet_header &h)
{
    if (size < packet_header::size || bytes[0] != packet_header::magic || bytes[1] == 0 ||
        bytes[1] > static_cast<std::uint8_t>(last_kind) || bytes[3] != 0)
        return false;
    h.kind = static_cast<packet_kind>(bytes[1]);
    h.flags = bytes[2];
    read_rest(bytes, h);
    return true;
}

/// Returns false for other bytes than the last part of a message.
[[nodiscard]] inline bool read_last_part(const std::uint8_t *bytes, std::size_t size,
                                         packet_header &h)
{
    constexpr std::uint32_t expected = packet_header::magic |
                                       static_cast<std::uint32_t>(packet_kind::send) << 8 |
                                       std::uint32_t{flag_last} << 16;
    std::uint32_t begin = 0;
    if (size < packet_header::size)
        return false;
    packet_reader(bytes).get(begin);
    if (begin != expected)
        return false;
    h.kind = packet_kind::send;
    h.flags = flag_last;
    read_rest(bytes, h);
    return true;
}

/// The header of a grant is followed by this.
struct grant_body {
    static constexpr std::size_t max_size = 12 + 64;

    std::uint64_t number = 0; ///< gives the grant back
    std::uint32_t key_size = 0;
    std::uint8_t key[64];
};

std::size_t write_grant(std::uint8_t *out, const grant_body &grant);
[[nodiscard]] bool read_grant(const std::uint8_t *bytes, std::size_t size, grant_body &out);

/// Whether number `a` comes before `b`, which is not further away than half of all numbers.
inline bool comes_before(std::uint32_t a, std::uint32_t b)
{
    return static_cast<std::int32_t>(a - b) < 0;
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
