// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire.hpp"

#include "crc32c.hpp"

#include "osd_annotations.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace soft_hca {

namespace {

// --------------------------------------------------------------------------- big-endian numbers

template <class T>
T swapped(T value)
{
    static_assert(std::endian::native == std::endian::little ||
                  std::endian::native == std::endian::big);
    if constexpr (std::endian::native == std::endian::big)
        return value;
    else if constexpr (sizeof(T) == 2)
        return __builtin_bswap16(value);
    else if constexpr (sizeof(T) == 4)
        return __builtin_bswap32(value);
    else
        return __builtin_bswap64(value);
}

/// Writes one field after the other.
class writer {
public:
    explicit writer(std::uint8_t *at) : begin_(at), at_(at) {}
    void u8(std::uint8_t value) { *at_++ = value; }
    void u16(std::uint16_t value) { put(value); }
    void u32(std::uint32_t value) { put(value); }
    void u64(std::uint64_t value) { put(value); }
    void bytes(const void *from, std::size_t size)
    {
        if (size != 0)
            std::memcpy(at_, from, size);
        at_ += size;
    }
    std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

private:
    template <class T>
    void put(T value)
    {
        value = swapped(value);
        std::memcpy(at_, &value, sizeof value);
        at_ += sizeof value;
    }
    std::uint8_t *begin_;
    std::uint8_t *at_;
};

/// Reads one field after the other. Past the end it gives zeros and is not ok any more, nor is it
/// after a field that did not have an expected value.
class reader {
public:
    reader(const std::uint8_t *at, std::size_t size) : at_(at), left_(size) {}
    std::uint8_t u8() { return get<std::uint8_t>(); }
    std::uint16_t u16() { return swapped(get<std::uint16_t>()); }
    std::uint32_t u32() { return swapped(get<std::uint32_t>()); }
    std::uint64_t u64() { return swapped(get<std::uint64_t>()); }
    void expect(bool what) { ok_ = ok_ && what; }
    const std::uint8_t *rest() const { return at_; }
    std::size_t left() const { return left_; }
    bool ok() const { return ok_; }

private:
    template <class T>
    T get()
    {
        T value{};
        if (left_ < sizeof value) {
            ok_ = false;
            left_ = 0;
            return value;
        }
        std::memcpy(&value, at_, sizeof value);
        at_ += sizeof value;
        left_ -= sizeof value;
        return value;
    }
    const std::uint8_t *at_;
    std::size_t left_;
    bool ok_ = true;
};

// ------------------------------------------------------------------------------------------ DDP

enum : std::uint8_t {
    ddp_tagged = 0x80,
    ddp_last = 0x40,
    ddp_reserved_and_version = 0x3f,
    ddp_version = 0x01,
    rdmap_version = 0x40,
    rdmap_not_opcode = 0xf0,
    rdmap_opcode = 0x0f,
};

bool is_known(std::uint8_t opcode)
{
    return opcode <= static_cast<std::uint8_t>(rdmap::atomic_response) && opcode != 7;
}

bool invalidates(rdmap opcode)
{
    return opcode == rdmap::send_invalidate || opcode == rdmap::send_solicited_invalidate;
}

bool is_send(rdmap opcode)
{
    return opcode >= rdmap::send && opcode <= rdmap::send_solicited_invalidate;
}

std::uint32_t queue_of(rdmap opcode)
{
    switch (opcode) {
    case rdmap::read_request:
    case rdmap::atomic_request:
        return queue_read;
    case rdmap::atomic_response:
        return queue_atomic_response;
    default:
        return queue_send;
    }
}

void read_read_request(reader &in, ddp_segment &s)
{
    s.sink_stag = in.u32();
    s.sink_offset = in.u64();
    s.read_size = in.u32();
    s.source_stag = in.u32();
    s.source_offset = in.u64();
}

void read_atomic_request(reader &in, ddp_segment &s)
{
    const std::uint32_t code = in.u32();
    in.expect(code == static_cast<std::uint32_t>(atomic_code::fetch_add) ||
              code == static_cast<std::uint32_t>(atomic_code::compare_swap));
    s.atomic = static_cast<atomic_code>(code);
    s.request_id = in.u32();
    s.source_stag = in.u32();
    s.source_offset = in.u64();
    s.swap_or_add = in.u64();
    s.swap_or_add_mask = in.u64();
    s.compare = in.u64();
    s.compare_mask = in.u64();
}

/// What RDMAP has between DDP header and payload. True when the opcode goes with a payload.
bool read_rdmap(reader &in, ddp_segment &s)
{
    switch (s.opcode) {
    case rdmap::read_request:
        read_read_request(in, s);
        return false;
    case rdmap::atomic_request:
        read_atomic_request(in, s);
        return false;
    case rdmap::atomic_response:
        s.request_id = in.u32();
        s.original = in.u64();
        return false;
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        s.immediate = in.u64();
        return false;
    default:
        return true;
    }
}

bool parse_segment(reader &in, ddp_segment &s)
{
    const std::uint8_t ddp = in.u8();
    const std::uint8_t control = in.u8();
    if ((ddp & ddp_reserved_and_version) != ddp_version ||
        (control & rdmap_not_opcode) != rdmap_version || !is_known(control & rdmap_opcode))
        return false;
    s = {};
    s.opcode = static_cast<rdmap>(control & rdmap_opcode);
    s.last = (ddp & ddp_last) != 0;
    if (((ddp & ddp_tagged) != 0) != s.tagged())
        return false;
    bool has_payload = true;
    if (s.tagged()) {
        s.stag = in.u32();
        s.offset = in.u64();
    } else {
        s.invalidate = in.u32();
        in.expect(s.invalidate == 0 || invalidates(s.opcode));
        in.expect(in.u32() == queue_of(s.opcode));
        s.msn = in.u32();
        s.message_offset = in.u32();
        has_payload = read_rdmap(in, s);
    }
    if (!has_payload && (!s.last || s.message_offset != 0 || in.left() != 0))
        return false;
    s.payload = in.rest();
    s.payload_size = static_cast<std::uint32_t>(in.left());
    // An empty segment that is not the last one makes no progress: such messages would never end.
    return in.ok() && (s.last || s.payload_size != 0);
}

/// Reads a segment of a send, and where its payload is.
bool parse_reference(reader &in, ddp_segment &s, far_payload &where)
{
    if (!parse_segment(in, s) || !is_send(s.opcode))
        return false;
    reader rest(s.payload, s.payload_size);
    where.numbers = rest.u8();
    where.pieces = rest.u8();
    rest.expect(rest.u16() == 0);
    if (!rest.ok() || where.numbers == 0 || where.numbers > far_payload::max_numbers ||
        where.pieces == 0 || where.pieces > far_payload::max_pieces ||
        rest.left() != where.pieces * far_piece_size)
        return false;
    std::uint64_t size = 0;
    for (std::uint32_t i = 0; i < where.pieces; ++i) {
        far_piece &each = where.piece[i];
        each.address = rest.u64();
        each.length = rest.u32();
        if (each.length == 0)
            return false;
        size += each.length;
    }
    s.payload = nullptr;
    s.payload_size = static_cast<std::uint32_t>(size);
    return size <= UINT32_MAX;
}

// ------------------------------------------------------------------------------- other packets

bool parse_ack(reader &in, packet &out)
{
    const std::uint8_t words = in.u8();
    const bool zero = in.u8() == 0 && in.u16() == 0;
    if (!zero || words > max_sack_words || in.left() != words * sizeof(std::uint32_t))
        return false;
    out.sack_words = words;
    for (std::uint32_t i = 0; i < words; ++i)
        out.sack[i] = in.u32();
    return in.ok();
}

bool parse_private_data(reader &in, packet &out, std::uint16_t size)
{
    out.private_data = in.rest();
    out.private_size = size;
    if (!in.ok() || size > max_private_data || in.left() < size)
        return false;
    out.padding = static_cast<std::uint32_t>(in.left() - size);
    if ((out.base.flags & flag_padded) == 0)
        return out.padding == 0;
    const std::uint8_t *const end = in.rest() + size;
    return std::all_of(end, end + out.padding, [](std::uint8_t each) { return each == 0; });
}

bool parse_hello(reader &in, packet &out)
{
    handshake &h = out.hello;
    h.qualifier = out.base.kind == packet_kind::request ? in.u64() : 0;
    h.id = in.u32();
    h.tag = in.u32();
    h.first_psn = in.u32();
    h.max_datagram = in.u32();
    h.reads_out = in.u16();
    h.reads_in = in.u16();
    const bool zero = in.u16() == 0;
    const std::uint16_t size = in.u16();
    const bool sane = h.max_datagram >= smallest_datagram && h.max_datagram <= largest_datagram;
    // A later version is chosen by what a retry says.
    in.expect(out.base.kind == packet_kind::accept || out.base.version == first_version ||
              out.base.ack == understands_retry);
    return zero && sane && h.id == out.base.from && parse_private_data(in, out, size);
}

bool parse_reject(reader &in, packet &out)
{
    const std::uint8_t code = in.u8();
    const bool zero = in.u8() == 0;
    const std::uint16_t size = in.u16();
    out.rejection = static_cast<reject_code>(code);
    const bool known = code == static_cast<std::uint8_t>(reject_code::consumer) ||
                       code == static_cast<std::uint8_t>(reject_code::no_listener);
    return zero && known && parse_private_data(in, out, size);
}

/// The first edition names no versions. Where versions are named, `credit` is the checksum of the
/// header in front of it: an error would make a connection of a version that one side does not
/// speak.
bool names_versions(const base_header &base, const std::uint8_t *bytes)
{
    constexpr std::size_t credit_offset = base_size - sizeof base.credit;
    if (base.version == sealed_version)
        return base.credit == 0 && base.ack != 0;
    if (base.ack == 0 || base.version != first_version)
        return base.credit == 0 && base.version == first_version;
    return (base.ack & set_of(0)) == 0 && base.credit == crc32c(bytes, credit_offset);
}

bool parse_close(reader &in, packet &out)
{
    const std::uint8_t code = in.u8();
    const bool zero = in.u8() == 0;
    out.closing.code = static_cast<close_code>(code);
    out.closing.why = static_cast<fault>(in.u16());
    out.closing.psn = in.u32();
    return zero && code <= static_cast<std::uint8_t>(close_code::terminate) && in.ok() &&
           in.left() == 0;
}

/// It takes no numbers, and is not sealed: its sender would need a key for each peer.
bool parse_datagram(reader &in, packet &out)
{
    out.message = in.rest();
    out.message_size = static_cast<std::uint32_t>(in.left());
    return (out.base.psn | out.base.ack | out.base.credit) == 0 &&
           out.base.version != sealed_version;
}

std::uint16_t flags_of(packet_kind kind)
{
    switch (kind) {
    case packet_kind::ack:
        return flag_receiver_not_ready | flag_not_fetched;
    case packet_kind::data:
    case packet_kind::reference:
        return flag_late_ack;
    case packet_kind::request:
        return flag_padded | flag_exchange;
    case packet_kind::accept:
        return flag_padded;
    case packet_kind::datagram:
        return flag_solicited;
    default:
        return 0;
    }
}

bool read_base(reader &in, base_header &base)
{
    base.version = in.u8();
    base.kind = static_cast<packet_kind>(in.u8());
    base.flags = in.u16();
    base.to = in.u32();
    base.tag = in.u32();
    base.from = in.u32();
    base.psn = in.u32();
    base.ack = in.u32();
    base.credit = in.u32();
    return in.ok() && (base.flags & ~flags_of(base.kind)) == 0;
}

bool parse_base(reader &in, base_header &base)
{
    return read_base(in, base) &&
           (base.version == first_version || base.version == checked_version);
}

bool is_checked(const std::uint8_t *bytes, std::size_t size)
{
    return size != 0 && bytes[0] == checked_version;
}

/// Takes the checksum off. False when it does not match the bytes before it.
bool take_checksum(const std::uint8_t *bytes, std::size_t &size)
{
    if (size < base_size + checksum_size)
        return false;
    size -= checksum_size;
    reader in(bytes + size, checksum_size);
    return in.u32() == crc32c(bytes, size);
}

/// Parses the bytes behind the base header.
OSD_ALWAYS_INLINE bool parse_body(reader &in, const std::uint8_t *bytes, packet &out)
{
    out.sack_words = 0;
    out.private_size = 0;
    switch (out.base.kind) {
    case packet_kind::data:
        return parse_segment(in, out.segment);
    case packet_kind::ack:
        return parse_ack(in, out);
    case packet_kind::request:
    case packet_kind::accept:
        return parse_hello(in, out);
    case packet_kind::reject:
        return parse_reject(in, out);
    case packet_kind::close:
        return parse_close(in, out);
    case packet_kind::challenge:
    case packet_kind::response:
        out.token = in.u64();
        return in.ok() && in.left() == 0;
    case packet_kind::probe:
    case packet_kind::close_ack:
    case packet_kind::reset:
        return in.left() == 0;
    case packet_kind::retry:
        return in.left() == 0 && names_versions(out.base, bytes);
    case packet_kind::datagram:
        return parse_datagram(in, out);
    case packet_kind::reference:
        return false; // see parse_local()
    }
    return false;
}

} // namespace

bool parse_local(const std::uint8_t *bytes, std::size_t size, packet &out)
{
    constexpr auto reference = static_cast<std::uint8_t>(packet_kind::reference);
    if (size < base_size || bytes[0] != first_version || bytes[1] != reference) [[likely]]
        return parse(bytes, size, out);
    reader in(bytes, size);
    return parse_base(in, out.base) && parse_reference(in, out.segment, out.where);
}

bool parse(const std::uint8_t *bytes, std::size_t size, packet &out)
{
    if (is_checked(bytes, size) && !take_checksum(bytes, size)) [[unlikely]]
        return false;
    reader in(bytes, size);
    return parse_base(in, out.base) && parse_body(in, bytes, out);
}

bool read_whole_send(const std::uint8_t *bytes, std::size_t size, whole_send &out)
{
    constexpr std::size_t headers = base_size + untagged_size;
    constexpr std::uint8_t kind = static_cast<std::uint8_t>(packet_kind::data);
    if (size < headers || bytes[0] != first_version || bytes[1] != kind ||
        bytes[base_size] != (ddp_last | ddp_version))
        return false;
    reader in(bytes, headers);
    const bool good = read_base(in, out.base);
    (void)in.u8(); // flags of DDP
    const std::uint8_t control = in.u8();
    out.opcode = static_cast<rdmap>(control & rdmap_opcode);
    out.invalidate = in.u32();
    const std::uint32_t queue = in.u32();
    out.msn = in.u32();
    const std::uint32_t offset = in.u32();
    out.payload = bytes + headers;
    out.payload_size = static_cast<std::uint32_t>(size - headers);
    return good && (control & rdmap_not_opcode) == rdmap_version && is_send(out.opcode) &&
           (out.invalidate == 0 || invalidates(out.opcode)) && (queue | offset) == 0;
}

bool parse_opened(const std::uint8_t *bytes, std::size_t size, packet &out)
{
    reader in(bytes, size);
    return read_base(in, out.base) && out.base.version == sealed_version &&
           parse_body(in, bytes, out);
}

bool parse_again(const std::uint8_t *bytes, std::size_t size, packet &out)
{
    return size != 0 && bytes[0] == sealed_version ? parse_opened(bytes, size, out)
                                                   : parse_local(bytes, size, out);
}

// --------------------------------------------------------------------------------------- sealed

namespace {

bool seals_handshake(std::uint8_t kind)
{
    switch (static_cast<packet_kind>(kind)) {
    case packet_kind::request:
    case packet_kind::accept:
    case packet_kind::reject:
    case packet_kind::close:
    case packet_kind::retry:
        return true;
    default:
        return false;
    }
}

// The header of a sealed handshake packet has the common fields of requests of all versions at
// their places: listeners without a key answer it with the versions that they speak. The salt fills
// the other places.
constexpr std::size_t salt_at[] = {16, 28, 40};
constexpr std::size_t salt_part[] = {12, 8, 4};

} // namespace

bool read_sealed(const std::uint8_t *bytes, std::size_t size, sealed_header &out)
{
    reader in(bytes, size);
    in.expect(in.u8() == sealed_version);
    const std::uint8_t kind = in.u8();
    const std::uint16_t flags = in.u16();
    out.to = in.u32();
    out.handshake = kind != 0;
    if (!out.handshake) {
        out.odd_epoch = flags == 1;
        out.number = in.u64();
        return in.ok() && flags <= 1;
    }
    out.kind = static_cast<packet_kind>(kind);
    in.expect(in.u32() == 0);
    out.from = in.u32();
    if (!in.ok() || size < out.size() || flags != 0 || !seals_handshake(kind))
        return false;
    std::uint8_t *salt = out.salt;
    for (int i = 0; i < 3; salt += salt_part[i++])
        std::memcpy(salt, bytes + salt_at[i], salt_part[i]);
    reader again(bytes + salt_at[1] + salt_part[1], sizeof out.from);
    return again.u32() == out.from;
}

std::size_t write_sealed(std::uint8_t *to, const sealed_header &header)
{
    writer out(to);
    out.u8(sealed_version);
    out.u8(header.handshake ? static_cast<std::uint8_t>(header.kind) : 0);
    out.u16(header.odd_epoch ? 1 : 0);
    out.u32(header.to);
    if (!header.handshake) {
        out.u64(header.number);
        return out.size();
    }
    out.u32(0);
    out.u32(header.from);
    out.bytes(header.salt, salt_part[0]);
    out.bytes(header.salt + salt_part[0], salt_part[1]);
    out.u32(header.from);
    out.bytes(header.salt + salt_part[0] + salt_part[1], salt_part[2]);
    return out.size();
}

bool parse_later_request(const std::uint8_t *bytes, std::size_t size, handshake &out)
{
    reader in(bytes, size);
    in.expect(size >= base_size + request_size);
    in.expect(in.u8() > checked_version);
    in.expect(in.u8() == static_cast<std::uint8_t>(packet_kind::request));
    (void)in.u16(); // flags
    (void)in.u32(); // id of the receiver
    (void)in.u32(); // tag
    const std::uint32_t from = in.u32();
    (void)in.u32(); // psn
    (void)in.u32(); // ack
    (void)in.u32(); // credit
    out.qualifier = in.u64();
    out.id = in.u32();
    out.tag = in.u32();
    return in.ok() && out.id == from;
}

bool parse_base_only(const std::uint8_t *bytes, std::size_t size, base_header &out)
{
    reader in(bytes, size);
    return parse_base(in, out);
}

namespace {

OSD_ALWAYS_INLINE void put_base(writer &out, const base_header &base)
{
    out.u8(base.version);
    out.u8(static_cast<std::uint8_t>(base.kind));
    out.u16(base.flags);
    out.u32(base.to);
    out.u32(base.tag);
    out.u32(base.from);
    out.u32(base.psn);
    out.u32(base.ack);
    out.u32(base.credit);
}

} // namespace

std::size_t write_base(std::uint8_t *to, const base_header &base)
{
    writer out(to);
    put_base(out, base);
    return out.size();
}

std::size_t write_retry(std::uint8_t *to, base_header base)
{
    base.kind = packet_kind::retry;
    base.credit = 0;
    const std::size_t size = write_base(to, base);
    base.credit = crc32c(to, size - sizeof base.credit);
    return write_base(to, base);
}

namespace {

void write_rdmap(writer &out, const ddp_segment &s)
{
    switch (s.opcode) {
    case rdmap::read_request:
        out.u32(s.sink_stag);
        out.u64(s.sink_offset);
        out.u32(s.read_size);
        out.u32(s.source_stag);
        out.u64(s.source_offset);
        break;
    case rdmap::atomic_request:
        out.u32(static_cast<std::uint32_t>(s.atomic));
        out.u32(s.request_id);
        out.u32(s.source_stag);
        out.u64(s.source_offset);
        out.u64(s.swap_or_add);
        out.u64(s.swap_or_add_mask);
        out.u64(s.compare);
        out.u64(s.compare_mask);
        break;
    case rdmap::atomic_response:
        out.u32(s.request_id);
        out.u64(s.original);
        break;
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        out.u64(s.immediate);
        break;
    default:
        break;
    }
}

} // namespace

std::size_t write_segment(std::uint8_t *to, const ddp_segment &s)
{
    writer out(to);
    out.u8(static_cast<std::uint8_t>((s.tagged() ? ddp_tagged : 0) | (s.last ? ddp_last : 0) |
                                     ddp_version));
    out.u8(static_cast<std::uint8_t>(rdmap_version | static_cast<std::uint8_t>(s.opcode)));
    if (s.tagged()) {
        out.u32(s.stag);
        out.u64(s.offset);
        return out.size();
    }
    out.u32(invalidates(s.opcode) ? s.invalidate : 0);
    out.u32(queue_of(s.opcode));
    out.u32(s.msn);
    out.u32(s.message_offset);
    write_rdmap(out, s);
    return out.size();
}

std::size_t write_whole_send(std::uint8_t *to, const base_header &base, rdmap opcode,
                             std::uint32_t invalidate, std::uint32_t msn)
{
    writer out(to);
    put_base(out, base);
    out.u8(ddp_last | ddp_version);
    out.u8(static_cast<std::uint8_t>(rdmap_version | static_cast<std::uint8_t>(opcode)));
    out.u32(invalidate);
    out.u32(queue_send);
    out.u32(msn);
    out.u32(0); // offset in the message
    return out.size();
}

std::size_t write_far(std::uint8_t *to, const far_payload &where)
{
    writer out(to);
    out.u8(static_cast<std::uint8_t>(where.numbers));
    out.u8(static_cast<std::uint8_t>(where.pieces));
    out.u16(0);
    for (std::uint32_t i = 0; i < where.pieces; ++i) {
        out.u64(where.piece[i].address);
        out.u32(where.piece[i].length);
    }
    return out.size();
}

std::size_t write_sack(std::uint8_t *to, const std::uint32_t *words, std::uint32_t count)
{
    writer out(to);
    out.u8(static_cast<std::uint8_t>(count));
    out.u8(0);
    out.u16(0);
    for (std::uint32_t i = 0; i < count; ++i)
        out.u32(words[i]);
    return out.size();
}

namespace {

void write_hello(writer &out, const handshake &h)
{
    out.u32(h.id);
    out.u32(h.tag);
    out.u32(h.first_psn);
    out.u32(h.max_datagram);
    out.u16(h.reads_out);
    out.u16(h.reads_in);
    out.u16(0);
}

} // namespace

std::size_t write_request(std::uint8_t *to, const handshake &h, const void *data, std::size_t size)
{
    writer out(to);
    out.u64(h.qualifier);
    write_hello(out, h);
    out.u16(static_cast<std::uint16_t>(size));
    out.bytes(data, size);
    return out.size();
}

std::size_t write_accept(std::uint8_t *to, const handshake &h, const void *data, std::size_t size)
{
    writer out(to);
    write_hello(out, h);
    out.u16(static_cast<std::uint16_t>(size));
    out.bytes(data, size);
    return out.size();
}

std::size_t write_reject(std::uint8_t *to, reject_code code, const void *data, std::size_t size)
{
    writer out(to);
    out.u8(static_cast<std::uint8_t>(code));
    out.u8(0);
    out.u16(static_cast<std::uint16_t>(size));
    out.bytes(data, size);
    return out.size();
}

std::size_t write_close(std::uint8_t *to, const close_info &info)
{
    writer out(to);
    out.u8(static_cast<std::uint8_t>(info.code));
    out.u8(0);
    out.u16(static_cast<std::uint16_t>(info.why));
    out.u32(info.psn);
    return out.size();
}

std::size_t write_token(std::uint8_t *to, std::uint64_t token)
{
    writer out(to);
    out.u64(token);
    return out.size();
}

std::size_t write_checksum(std::uint8_t *to, std::uint32_t crc)
{
    writer out(to);
    out.u32(crc);
    return out.size();
}

} // namespace soft_hca
