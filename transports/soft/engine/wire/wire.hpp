// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The contents of a datagram: docs/soft-wire.md has them byte for byte.
//
// The parser is strict. A packet that passes has a known version and kind, no unknown bit,
// consistent lengths, and header fields that belong together; numbers in it are the sender's and
// not yet to be trusted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft_hca {

inline constexpr std::uint8_t first_version = 1;
inline constexpr std::uint8_t checked_version = 2; ///< first_version with a checksum at the end
inline constexpr std::uint8_t sealed_version = 3;  ///< encrypted and authenticated: seal.hpp
inline constexpr std::uint8_t wire_version = sealed_version; ///< the newest that is known here

/// Versions that a side speaks: bit n stands for version n. A retry of the first edition names none
/// and means version 1.
using version_set = std::uint32_t;

constexpr version_set set_of(std::uint8_t version)
{
    return version_set{1} << version;
}

/// A further bit of a retry's versions: the listener takes padded requests, and answers them by
/// padded accepts.
inline constexpr version_set takes_padding = version_set{1} << 31;

/// Returns zero when there is none.
constexpr std::uint8_t newest_of(version_set versions)
{
    return versions == 0 ? 0 : static_cast<std::uint8_t>(31 - __builtin_clz(versions));
}

enum class packet_kind : std::uint8_t {
    data = 1,       ///< one DDP segment
    ack = 2,        ///< acknowledges, takes no sequence number
    probe = 3,      ///< only takes a sequence number, so that the peer acknowledges it
    request = 4,    ///< asks for a connection
    accept = 5,     ///< answers a request
    reject = 6,     ///< answers a request
    close = 7,      ///< ends the connection, at once
    close_ack = 8,  ///< the close has arrived
    reset = 9,      ///< there is no such connection here
    retry = 10,     ///< answers a request: its `from` and `psn` are a token to repeat it with, its
                    ///< `ack` the versions that the listener speaks
    challenge = 11, ///< goes to an address that packets of the peer seem to come from
    response = 12,  ///< answers a challenge
    reference = 13, ///< only in rings: a segment of a send whose payload is in the sender's memory
    datagram = 14,  ///< a message without a connection
};

/// Flags of the base header.
enum : std::uint16_t {
    flag_receiver_not_ready = 1, ///< set in an ack: the segment after it found no receive
    flag_late_ack = 2,           ///< set in data: no completion waits for its acknowledgement
    flag_padded = 4,             ///< set in a request or accept: zeros fill the datagram
    flag_not_fetched = 8,        ///< set in an ack: the payload of a reference could not be read
    flag_exchange = 16,          ///< set in a request: it is about the address for datagrams
    flag_solicited = 32,         ///< set in a datagram
};

/// The `ack` of a request whose sender answers a retry.
inline constexpr std::uint32_t understands_retry = 1;

/// The base header, in front of everything.
struct base_header {
    packet_kind kind = packet_kind::data;
    std::uint16_t flags = 0;
    std::uint32_t to = 0;     ///< connection id that the receiver of the packet chose
    std::uint32_t tag = 0;    ///< secret that the receiver of the packet chose
    std::uint32_t from = 0;   ///< connection id that the sender of the packet chose
    std::uint32_t psn = 0;    ///< sequence number; of the next packet where the kind takes none
    std::uint32_t ack = 0;    ///< next sequence number expected
    std::uint32_t credit = 0; ///< messages numbered before this one find a receive
    std::uint8_t version = first_version;
};

inline constexpr std::size_t base_size = 28;
inline constexpr std::size_t checksum_size = 4;
inline constexpr std::size_t tagged_size = 14;
inline constexpr std::size_t untagged_size = 18;
inline constexpr std::size_t read_request_size = 28;
inline constexpr std::size_t atomic_request_size = 52;
inline constexpr std::size_t atomic_response_size = 12;
inline constexpr std::size_t immediate_size = 8;
inline constexpr std::size_t request_size = 32;
inline constexpr std::size_t accept_size = 24;
inline constexpr std::size_t reject_size = 4;
inline constexpr std::size_t close_size = 8;
inline constexpr std::size_t challenge_size = 8; ///< size of a response, too
inline constexpr std::size_t reference_size = 4; ///< without its pieces
inline constexpr std::size_t far_piece_size = 12;
inline constexpr std::size_t max_header_size = base_size + untagged_size + atomic_request_size;

inline constexpr std::size_t max_private_data = 256;
/// The receive of a datagram begins with the addresses of both sides, as InfiniBand has them.
inline constexpr std::size_t datagram_header_size = 40;
inline constexpr std::uint32_t max_sack_words = 8;
inline constexpr std::size_t smallest_datagram = 512; ///< that a peer may ask for
inline constexpr std::size_t largest_datagram = 65507;

/// RDMAP opcodes (RFC 5040, RFC 7306).
enum class rdmap : std::uint8_t {
    write = 0,
    read_request = 1,
    read_response = 2,
    send = 3,
    send_invalidate = 4,
    send_solicited = 5,
    send_solicited_invalidate = 6,
    // 7, terminate, travels as packet_kind::close
    immediate = 8,
    immediate_solicited = 9,
    atomic_request = 10,
    atomic_response = 11,
};

enum class atomic_code : std::uint8_t { fetch_add = 0, compare_swap = 2 };

/// DDP queue numbers.
enum : std::uint32_t { queue_send = 0, queue_read = 1, queue_atomic_response = 3 };

/// A DDP segment and what RDMAP has behind its header. Only the fields of the opcode are set.
struct ddp_segment {
    rdmap opcode = rdmap::send;
    bool last = false;
    // tagged: write, read response
    std::uint32_t stag = 0;
    std::uint64_t offset = 0;
    // untagged
    std::uint32_t invalidate = 0; ///< send_invalidate and send_solicited_invalidate
    std::uint32_t msn = 0;
    std::uint32_t message_offset = 0;
    // read request
    std::uint32_t sink_stag = 0;
    std::uint64_t sink_offset = 0;
    std::uint32_t read_size = 0;
    std::uint32_t source_stag = 0;
    std::uint64_t source_offset = 0;
    // atomic request and response; the remote word is source_stag, source_offset
    atomic_code atomic = atomic_code::fetch_add;
    std::uint32_t request_id = 0;
    std::uint64_t swap_or_add = 0;
    std::uint64_t swap_or_add_mask = 0;
    std::uint64_t compare = 0;
    std::uint64_t compare_mask = 0;
    std::uint64_t original = 0;
    // immediate
    std::uint64_t immediate = 0;

    const std::uint8_t *payload = nullptr;
    std::uint32_t payload_size = 0;

    constexpr bool tagged() const
    {
        return opcode == rdmap::write || opcode == rdmap::read_response;
    }
};

/// Contents of request and accept.
struct handshake {
    std::uint64_t qualifier = 0; ///< request only
    std::uint32_t id = 0;
    std::uint32_t tag = 0;
    std::uint32_t first_psn = 0;
    std::uint32_t max_datagram = 0;
    std::uint16_t reads_out = 0; ///< limit of its outstanding reads and atomics
    std::uint16_t reads_in = 0;  ///< limit of the peer's that it serves
};

enum class reject_code : std::uint8_t { consumer = 1, no_listener = 2 };
enum class close_code : std::uint8_t { disconnect = 0, terminate = 1 };

/// Layer, error type and code of an RDMAP Terminate, as one number 0xLTCC.
enum class fault : std::uint16_t {
    none = 0xffff,
    local_catastrophic = 0x0000,
    invalid_stag = 0x0100,
    base_or_bounds = 0x0101,
    access_rights = 0x0102,
    wrong_stream = 0x0103,
    wrap = 0x0104,
    unexpected_opcode = 0x0206,
    stream_catastrophic = 0x0207,
    cannot_invalidate = 0x0209,
    unspecific = 0x02ff,
    invalid_msn = 0x1203,
    invalid_offset = 0x1204,
    message_too_long = 0x1205,
};

struct close_info {
    close_code code = close_code::disconnect;
    fault why = fault::none; ///< reason of a terminate
    std::uint32_t psn = 0;   ///< number of the packet that a terminate is about
};

/// Memory of the process that sends a reference to it.
struct far_piece {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
};

/// The payload of a reference. It takes the numbers of all the data packets in whose place it was
/// sent: whichever of them is sent again carries its part of the payload.
struct far_payload {
    static constexpr std::uint32_t max_pieces = 4;
    static constexpr std::uint32_t max_numbers = 32;

    std::uint32_t numbers = 1;
    std::uint32_t pieces = 0;
    far_piece piece[max_pieces];
};

/// A packet that was parsed; points into the datagram.
struct packet {
    /// How many sequence numbers it takes, if it takes any.
    std::uint32_t numbers() const
    {
        return base.kind == packet_kind::reference ? where.numbers : 1;
    }

    base_header base;
    ddp_segment segment;
    far_payload where; ///< reference only
    handshake hello;
    reject_code rejection = reject_code::no_listener;
    close_info closing;
    std::uint64_t token = 0; ///< token of a challenge, which its response repeats
    const std::uint8_t *private_data = nullptr;
    std::uint16_t private_size = 0;
    const std::uint8_t *message = nullptr; ///< of a datagram
    std::uint32_t message_size = 0;
    std::uint32_t padding = 0; ///< bytes behind the private data of a request or accept
    std::uint32_t sack_words = 0;
    std::uint32_t sack[max_sack_words];
};

/// A data packet that is a message of its own: a send of one segment. Points into the datagram.
struct whole_send {
    base_header base;
    rdmap opcode = rdmap::send;
    std::uint32_t invalidate = 0;
    std::uint32_t msn = 0;
    const std::uint8_t *payload = nullptr;
    std::uint32_t payload_size = 0;
};

/// The header in front of a sealed packet, in the clear; it is authenticated together with the
/// packet. A packet is sealed with its base header.
struct sealed_header {
    static constexpr std::size_t salt_size = 24;

    bool handshake = false; ///< sealed with the device's key, else with one of the connection
    std::uint32_t to = 0;   ///< connection id; 0: a listener
    // handshake
    packet_kind kind = packet_kind::request;
    std::uint32_t from = 0;
    std::uint8_t salt[salt_size] = {};
    // connection
    bool odd_epoch = false;
    std::uint64_t number = 0;

    /// Without the tag, which follows.
    constexpr std::size_t size() const { return handshake ? 44 : 16; }
};

/// Returns false for anything that is not exactly as documented; `out` is then undefined. Sealed
/// packets are none.
[[nodiscard]] bool parse(const std::uint8_t *bytes, std::size_t size, packet &out);

/// Reads a whole send of the first version that parse() accepts. False for anything else; `out` is
/// then undefined.
[[nodiscard]] bool read_whole_send(const std::uint8_t *bytes, std::size_t size, whole_send &out);
/// Parses a packet of a ring, as parse() does, and references besides.
[[nodiscard]] bool parse_local(const std::uint8_t *bytes, std::size_t size, packet &out);
/// Parses a packet that was sealed, as parse() does.
[[nodiscard]] bool parse_opened(const std::uint8_t *bytes, std::size_t size, packet &out);
/// Parses a packet that one of these three accepted before.
[[nodiscard]] bool parse_again(const std::uint8_t *bytes, std::size_t size, packet &out);
/// Reads the header of a sealed packet; false when it is none. `size` is the size of the datagram,
/// or of the part that an ICMP error quotes.
[[nodiscard]] bool read_sealed(const std::uint8_t *bytes, std::size_t size, sealed_header &out);
std::size_t write_sealed(std::uint8_t *out, const sealed_header &header);

/// Reads what requests of all versions have in common from one of a version that is only spoken
/// elsewhere, or with a key. False for anything else.
[[nodiscard]] bool parse_later_request(const std::uint8_t *bytes, std::size_t size, handshake &out);

/// What a retry says that its sender speaks.
inline version_set versions_in(const base_header &retry)
{
    return retry.ack != 0 ? retry.ack : set_of(first_version);
}

/// For a packet of our own that an ICMP error quotes, perhaps truncated.
[[nodiscard]] bool parse_base_only(const std::uint8_t *bytes, std::size_t size, base_header &out);

// Each writes at `out` and returns the number of bytes.
std::size_t write_base(std::uint8_t *out, const base_header &base);
/// A whole retry. Its `ack` names versions; its checksum is computed here.
std::size_t write_retry(std::uint8_t *out, base_header base);
/// The header of the segment; the payload is sent after it from where it is.
std::size_t write_segment(std::uint8_t *out, const ddp_segment &segment);
/// The headers in front of the payload of a data packet that is a whole send.
std::size_t write_whole_send(std::uint8_t *out, const base_header &base, rdmap opcode,
                             std::uint32_t invalidate, std::uint32_t msn);
/// The part of a reference that follows the header of its segment.
std::size_t write_far(std::uint8_t *out, const far_payload &where);
std::size_t write_sack(std::uint8_t *out, const std::uint32_t *words, std::uint32_t count);
std::size_t write_request(std::uint8_t *out, const handshake &hello, const void *data,
                          std::size_t size);
std::size_t write_accept(std::uint8_t *out, const handshake &hello, const void *data,
                         std::size_t size);
std::size_t write_reject(std::uint8_t *out, reject_code code, const void *data, std::size_t size);
std::size_t write_close(std::uint8_t *out, const close_info &info);
/// Writes the token of a challenge or response.
std::size_t write_token(std::uint8_t *out, std::uint64_t token);
std::size_t write_checksum(std::uint8_t *out, std::uint32_t crc);

/// Bytes of write_segment for this opcode.
constexpr std::size_t header_size(rdmap opcode)
{
    switch (opcode) {
    case rdmap::write:
    case rdmap::read_response:
        return tagged_size;
    case rdmap::read_request:
        return untagged_size + read_request_size;
    case rdmap::atomic_request:
        return untagged_size + atomic_request_size;
    case rdmap::atomic_response:
        return untagged_size + atomic_response_size;
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        return untagged_size + immediate_size;
    default:
        return untagged_size;
    }
}

} // namespace soft_hca
