// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams as the engine's serialiser writes them, and what its parser says of them, to hold the
// dissector against both. A line of JSON each: the bytes, whether it is a packet, and its fields,
// under the names that they have in wire.hpp.
//
//   wire_samples ALTERED    that many are altered ones
#include "seal/seal.hpp"
#include "wire/crc32c.hpp"
#include "written_again.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

using namespace soft_hca;

namespace {

/// The fields of one datagram, by name.
class fields {
public:
    void add(const char *name, std::uint64_t value)
    {
        text_ +=
            std::string(text_.empty() ? "" : ", ") + "\"" + name + "\": " + std::to_string(value);
    }
    const std::string &text() const { return text_; }

private:
    std::string text_;
};

void add_untagged(fields &out, const ddp_segment &s)
{
    out.add("segment.invalidate", s.invalidate);
    out.add("segment.msn", s.msn);
    out.add("segment.message_offset", s.message_offset);
    switch (s.opcode) {
    case rdmap::read_request:
        out.add("segment.sink_stag", s.sink_stag);
        out.add("segment.sink_offset", s.sink_offset);
        out.add("segment.read_size", s.read_size);
        out.add("segment.source_stag", s.source_stag);
        out.add("segment.source_offset", s.source_offset);
        break;
    case rdmap::atomic_request:
        out.add("segment.atomic", static_cast<std::uint64_t>(s.atomic));
        out.add("segment.request_id", s.request_id);
        out.add("segment.source_stag", s.source_stag);
        out.add("segment.source_offset", s.source_offset);
        out.add("segment.swap_or_add", s.swap_or_add);
        out.add("segment.swap_or_add_mask", s.swap_or_add_mask);
        out.add("segment.compare", s.compare);
        out.add("segment.compare_mask", s.compare_mask);
        break;
    case rdmap::atomic_response:
        out.add("segment.request_id", s.request_id);
        out.add("segment.original", s.original);
        break;
    case rdmap::immediate:
    case rdmap::immediate_solicited:
        out.add("segment.immediate", s.immediate);
        break;
    default:
        break;
    }
}

void add_segment(fields &out, const ddp_segment &s)
{
    out.add("segment.opcode", static_cast<std::uint64_t>(s.opcode));
    out.add("segment.tagged", s.tagged());
    out.add("segment.last", s.last);
    if (s.tagged()) {
        out.add("segment.stag", s.stag);
        out.add("segment.offset", s.offset);
    } else {
        add_untagged(out, s);
    }
    out.add("segment.payload_size", s.payload_size);
}

void add_hello(fields &out, const packet &p)
{
    if (p.base.kind == packet_kind::request)
        out.add("hello.qualifier", p.hello.qualifier);
    out.add("hello.id", p.hello.id);
    out.add("hello.tag", p.hello.tag);
    out.add("hello.first_psn", p.hello.first_psn);
    out.add("hello.max_datagram", p.hello.max_datagram);
    out.add("hello.reads_out", p.hello.reads_out);
    out.add("hello.reads_in", p.hello.reads_in);
    out.add("private_size", p.private_size);
    out.add("padding_size", p.padding);
}

void add_body(fields &out, const packet &p)
{
    switch (p.base.kind) {
    case packet_kind::data:
        return add_segment(out, p.segment);
    case packet_kind::ack:
        return out.add("sack.words", p.sack_words);
    case packet_kind::request:
    case packet_kind::accept:
        return add_hello(out, p);
    case packet_kind::reject:
        out.add("rejection", static_cast<std::uint64_t>(p.rejection));
        return out.add("private_size", p.private_size);
    case packet_kind::close:
        out.add("closing.code", static_cast<std::uint64_t>(p.closing.code));
        out.add("closing.why", static_cast<std::uint64_t>(p.closing.why));
        return out.add("closing.psn", p.closing.psn);
    case packet_kind::challenge:
    case packet_kind::response:
        return out.add("token", p.token);
    case packet_kind::datagram:
        return out.add("message_size", p.message_size);
    default:
        return;
    }
}

void add_packet(fields &out, const packet &p)
{
    out.add("version", p.base.version);
    out.add("kind", static_cast<std::uint64_t>(p.base.kind));
    out.add("flags", p.base.flags);
    out.add("to", p.base.to);
    out.add("tag", p.base.tag);
    out.add("from", p.base.from);
    out.add("psn", p.base.psn);
    out.add("ack", p.base.ack);
    out.add("credit", p.base.credit);
    add_body(out, p);
}

void add_sealed(fields &out, const sealed_header &h)
{
    out.add("version", sealed_version);
    out.add("kind", h.handshake ? static_cast<std::uint64_t>(h.kind) : 0);
    out.add("to", h.to);
    if (h.handshake)
        return out.add("from", h.from);
    out.add("sealed.odd_epoch", h.odd_epoch);
    out.add("sealed.number", h.number);
}

/// Prints it, and what the parser says.
void tell(const bytes &datagram)
{
    fields of;
    packet p;
    sealed_header sealed;
    bool good = parse(datagram.data(), datagram.size(), p);
    if (good) {
        add_packet(of, p);
    } else if (read_sealed(datagram.data(), datagram.size(), sealed) &&
               datagram.size() >= sealed.size() + seal_tag_size) {
        good = true;
        add_sealed(of, sealed);
    }
    std::string hex;
    char digits[3];
    for (const std::uint8_t each : datagram) {
        std::snprintf(digits, sizeof digits, "%02x", each);
        hex += digits;
    }
    std::printf("{\"bytes\": \"%s\", \"good\": %s, \"fields\": {%s}}\n", hex.c_str(),
                good ? "true" : "false", of.text().c_str());
}

/// Fills the fields with numbers of which no two are alike.
class numbers {
public:
    std::uint64_t next() { return random_() << 32 | random_(); }
    std::uint32_t next32() { return static_cast<std::uint32_t>(random_()); }

private:
    std::mt19937_64 random_{7};
};

ddp_segment sample_segment(rdmap opcode, numbers &some)
{
    ddp_segment s;
    s.opcode = opcode;
    s.last = true;
    s.stag = some.next32();
    s.offset = some.next();
    s.invalidate = some.next32();
    s.msn = some.next32();
    s.sink_stag = some.next32();
    s.sink_offset = some.next();
    s.read_size = some.next32();
    s.source_stag = some.next32();
    s.source_offset = some.next();
    s.atomic = atomic_code::compare_swap;
    s.request_id = some.next32();
    s.swap_or_add = some.next();
    s.swap_or_add_mask = some.next();
    s.compare = some.next();
    s.compare_mask = some.next();
    s.original = some.next();
    s.immediate = some.next();
    return s;
}

base_header sample_base(packet_kind kind, std::uint8_t version, numbers &some)
{
    base_header base{
        kind,         0, some.next32(), some.next32(), some.next32(), some.next32(), some.next32(),
        some.next32()};
    base.version = version;
    if (kind == packet_kind::request)
        base.ack = understands_retry;
    return base;
}

bytes finished(bytes out)
{
    if (out[0] == checked_version) {
        std::uint8_t sum[checksum_size];
        write_checksum(sum, crc32c(out.data(), out.size()));
        out.insert(out.end(), sum, sum + checksum_size);
    }
    return out;
}

bytes packet_of(const base_header &base, const std::uint8_t *body, std::size_t size)
{
    bytes out(base_size);
    write_base(out.data(), base);
    out.insert(out.end(), body, body + size);
    return finished(out);
}

void add_segments(std::vector<bytes> &all, std::uint8_t version, numbers &some)
{
    std::uint8_t body[512] = {};
    for (rdmap opcode : all_opcodes) {
        ddp_segment s = sample_segment(opcode, some);
        const bool has_payload = header_size(opcode) <= untagged_size;
        base_header base = sample_base(packet_kind::data, version, some);
        base.flags = flag_late_ack;
        std::size_t size = write_segment(body, s);
        all.push_back(packet_of(base, body, size + (has_payload ? 37 : 0)));
        if (!has_payload)
            continue;
        s.last = false;
        s.message_offset = some.next32();
        size = write_segment(body, s);
        all.push_back(packet_of(base, body, size + 3));
    }
}

void add_handshakes(std::vector<bytes> &all, std::uint8_t version, numbers &some)
{
    std::uint8_t body[512] = {};
    for (const packet_kind kind : {packet_kind::request, packet_kind::accept}) {
        base_header base = sample_base(kind, version, some);
        handshake hello{some.next(), base.from, some.next32(), some.next32(), 16384, 9, 17};
        const auto write = kind == packet_kind::request ? write_request : write_accept;
        const std::size_t size = write(body, hello, "private", 7);
        all.push_back(packet_of(base, body, size));
        std::memset(body + size, 0, 40);
        base.flags = flag_padded;
        all.push_back(packet_of(base, body, size + 40));
        base.flags = flag_exchange;
        if (kind == packet_kind::request)
            all.push_back(packet_of(base, body, size));
    }
    for (const reject_code why : {reject_code::consumer, reject_code::no_listener})
        all.push_back(packet_of(sample_base(packet_kind::reject, version, some), body,
                                write_reject(body, why, "no", 2)));
}

void add_others(std::vector<bytes> &all, std::uint8_t version, numbers &some)
{
    std::uint8_t body[512];
    const std::uint32_t words[] = {some.next32(), some.next32(), some.next32()};
    base_header ack = sample_base(packet_kind::ack, version, some);
    all.push_back(packet_of(ack, body, write_sack(body, words, 0)));
    ack.flags = flag_receiver_not_ready;
    all.push_back(packet_of(ack, body, write_sack(body, words, 3)));
    for (const packet_kind kind : {packet_kind::probe, packet_kind::close_ack, packet_kind::reset})
        all.push_back(packet_of(sample_base(kind, version, some), body, 0));
    for (const packet_kind kind : {packet_kind::challenge, packet_kind::response})
        all.push_back(
            packet_of(sample_base(kind, version, some), body, write_token(body, some.next())));
    all.push_back(packet_of(sample_base(packet_kind::close, version, some), body,
                            write_close(body, {close_code::disconnect, fault::none, 0})));
    all.push_back(packet_of(
        sample_base(packet_kind::close, version, some), body,
        write_close(body, {close_code::terminate, fault::base_or_bounds, some.next32()})));
}

void add_datagrams(std::vector<bytes> &all, std::uint8_t version, numbers &some)
{
    base_header base = sample_base(packet_kind::datagram, version, some);
    base.psn = base.ack = base.credit = 0;
    const std::uint8_t body[64] = {};
    all.push_back(packet_of(base, body, 0));
    base.flags = flag_solicited;
    all.push_back(packet_of(base, body, sizeof body));
}

void add_retries(std::vector<bytes> &all, numbers &some)
{
    bytes out(base_size);
    base_header base = sample_base(packet_kind::retry, first_version, some);
    base.ack = set_of(first_version) | set_of(checked_version) | takes_padding;
    write_retry(out.data(), base);
    all.push_back(out);
    base.ack = base.credit = 0;
    write_base(out.data(), base);
    all.push_back(out);
}

void add_sealed_ones(std::vector<bytes> &all, numbers &some)
{
    sealed_header h;
    for (const packet_kind kind : {packet_kind::data, packet_kind::request, packet_kind::accept,
                                   packet_kind::reject, packet_kind::retry, packet_kind::close}) {
        h.handshake = kind != packet_kind::data;
        h.kind = kind;
        h.to = some.next32();
        h.from = some.next32();
        h.number = some.next();
        h.odd_epoch = !h.handshake;
        for (std::uint8_t &each : h.salt)
            each = static_cast<std::uint8_t>(some.next());
        bytes out(h.size() + seal_tag_size + 50);
        for (std::uint8_t &each : out)
            each = static_cast<std::uint8_t>(some.next());
        write_sealed(out.data(), h);
        all.push_back(out);
    }
}

/// Some bytes or bits of it changed, or its length. Wireshark asks nobody about empty ones.
bytes altered(bytes in, std::mt19937 &random)
{
    for (unsigned changes = 1 + random() % 3; changes-- != 0;) {
        std::uint8_t &at = in[random() % in.size()];
        at = random() % 2 != 0 ? static_cast<std::uint8_t>(random())
                               : static_cast<std::uint8_t>(at ^ 1u << random() % 8);
    }
    if (random() % 4 == 0)
        in.resize(1 + random() % (in.size() + 8));
    return in;
}

} // namespace

int main(int argc, char **argv)
{
    std::vector<bytes> all;
    numbers some;
    for (const std::uint8_t version : {first_version, checked_version}) {
        add_segments(all, version, some);
        add_handshakes(all, version, some);
        add_others(all, version, some);
        add_datagrams(all, version, some);
    }
    add_retries(all, some);
    add_sealed_ones(all, some);
    for (const bytes &each : all)
        tell(each);
    std::mt19937 random(11);
    for (int i = argc > 1 ? std::atoi(argv[1]) : 0; i > 0; --i)
        tell(altered(all[random() % all.size()], random));
    return 0;
}
