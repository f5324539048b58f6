// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "seal.hpp"

#include "net/net.hpp"

#include "osd_time.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace soft_hca {

namespace {

/// What a derived key depends on: a purpose, and behind it fields of fixed size.
class label {
public:
    explicit label(const char *purpose) { add(purpose, std::strlen(purpose)); }
    label &add(const void *from, std::size_t size)
    {
        std::memcpy(bytes_ + size_, from, size);
        size_ += size;
        return *this;
    }
    label &number(std::uint32_t value)
    {
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes_[size_++] = static_cast<std::uint8_t>(value >> shift);
        return *this;
    }
    bytes_view view() const { return {bytes_, size_}; }

private:
    std::uint8_t bytes_[128];
    std::size_t size_ = 0;
};

constexpr bytes_view nothing{nullptr, 0};
constexpr std::int64_t report_interval_ns = 1'000'000'000;
constexpr std::uint64_t look_at_time_every = 64; ///< packets sealed

std::uint8_t *append(std::uint8_t *to, const out_packet &packet)
{
    for (std::uint32_t i = 0; i < packet.pieces; ++i) {
        std::memcpy(to, packet.piece[i].at, packet.piece[i].size);
        to += packet.piece[i].size;
    }
    return to;
}

bool has_offer(packet_kind kind)
{
    return kind == packet_kind::request || kind == packet_kind::accept;
}

} // namespace

bool is_of_connection(packet_kind kind)
{
    return kind == packet_kind::data || kind == packet_kind::ack || kind == packet_kind::probe ||
           kind == packet_kind::close || kind == packet_kind::close_ack ||
           kind == packet_kind::challenge || kind == packet_kind::response;
}

seal_context::seal_context(const net_address &listener)
{
    constexpr std::size_t host = 16;
    listener.copy_host(bytes);
    bytes[host] = static_cast<std::uint8_t>(listener.port() >> 8);
    bytes[host + 1] = static_cast<std::uint8_t>(listener.port());
}

seal_context::seal_context(const seal_offer &requester)
{
    std::memcpy(bytes, requester.share, sizeof bytes);
}

// ------------------------------------------------------------------------------ of the device

int seal_device::open(const key_settings &settings)
{
    settings_ = settings;
    settings_.bytes = nullptr;
    if (!library_.load(settings.library))
        return ENOSYS;
    if (!page_.open())
        return ENOMEM;
    auto *const made = new (page_.address()) of_process;
    return library_.derive({settings.bytes, settings.size}, nothing, label("soft-hca key").view(),
                           made->secret)
               ? 0
               : ENOMEM;
}

seal_device::~seal_device()
{
    if (kept() != nullptr)
        kept()->~of_process(); // wipes the key
}

bool seal_device::handshake_cipher(const sealed_header &header, const seal_context &context,
                                   bool seals, seal_cipher &out) const
{
    seal_secret key;
    return library_.derive(
               secret().view(), {header.salt, sizeof header.salt},
               label("soft-hca handshake").add(context.bytes, sizeof context.bytes).view(), key) &&
           out.open_with(library_, seal_suite::chacha20_poly1305, key, seals);
}

namespace {

/// A key of the handshake seals one packet, so that the nonce may be constant.
constexpr std::uint8_t only_nonce[seal_nonce_size] = {};

} // namespace

std::uint8_t *sealed_handshake::room_for(std::size_t size)
{
    if (size <= sizeof bytes_)
        return bytes_;
    more_.reset(new (std::nothrow) std::uint8_t[size]);
    return more_.get();
}

bool seal_device::seal(const out_packet &plain, std::uint32_t to, std::uint32_t from,
                       const seal_offer *offer, const seal_context &context,
                       sealed_handshake &out) const
{
    std::uint8_t *const bytes = out.room_for(sealed_handshake_overhead + plain.size);
    if (bytes == nullptr || !may_seal())
        return false;
    sealed_header &header = out.header_;
    header.handshake = true;
    header.kind = static_cast<packet_kind>(static_cast<const std::uint8_t *>(plain.piece[0].at)[1]);
    header.to = to;
    header.from = from;
    seal_cipher cipher;
    if (!random_bytes(header.salt, sizeof header.salt) ||
        !handshake_cipher(header, context, true, cipher))
        return false;
    const std::size_t clear = write_sealed(bytes, header);
    std::uint8_t *const text = bytes + clear + seal_tag_size;
    std::uint8_t *end = append(text, plain);
    if (offer != nullptr) {
        std::memcpy(end, offer->share, sizeof offer->share);
        end += sizeof offer->share;
        *end++ = offer->fast_aes ? 1 : 0;
    }
    out.packet_.begin();
    out.packet_.add(bytes, static_cast<std::size_t>(end - bytes));
    return cipher.seal(only_nonce, {bytes, clear}, text, static_cast<std::size_t>(end - text),
                       bytes + clear);
}

bool seal_device::open_packet(std::uint8_t *bytes, std::size_t size, const sealed_header &header,
                              const seal_context &context, opened_packet &out) const
{
    const std::size_t front = header.size() + seal_tag_size;
    const std::size_t behind = has_offer(header.kind) ? seal_offer::size : 0;
    seal_cipher cipher;
    if (size < front + base_size + behind || !handshake_cipher(header, context, false, cipher) ||
        !cipher.open(only_nonce, {bytes, header.size()}, bytes + front, size - front,
                     bytes + header.size()))
        return false;
    if (behind != 0) {
        const std::uint8_t *const offer = bytes + size - behind;
        std::memcpy(out.offer.share, offer, sizeof out.offer.share);
        out.offer.fast_aes = offer[sizeof out.offer.share] == 1;
    }
    return parse_opened(bytes + front, size - front - behind, out.plain) &&
           out.plain.base.kind == header.kind;
}

bool seal_device::may_report(std::int64_t now) const
{
    std::int64_t last = report_ns_.load();
    return (last == 0 || now - last >= report_interval_ns) &&
           report_ns_.compare_exchange_strong(last, now);
}

// --------------------------------------------------------------------------- of a connection

bool connection_seal::open()
{
    offer_.fast_aes = device_.has_fast_aes();
    if (!agreement_.make(device_.library(), offer_.share))
        return false;
    answers_ = seal_context(offer_);
    return true;
}

/// Derives the key of an epoch. `from`: the secret of the epoch before, or of the connection.
bool connection_seal::begin(epoch_key &out, const seal_secret &from, const char *purpose,
                            bool seals) const
{
    const seal_library &library = device_.library();
    out.secret.reset(new (std::nothrow) seal_secret);
    seal_secret key;
    seal_secret mask;
    if (out.secret == nullptr ||
        !library.derive(from.view(), nothing, label(purpose).view(), *out.secret) ||
        !library.derive(out.secret->view(), nothing, label("key").view(), key) ||
        !library.derive(out.secret->view(), nothing, label("nonce").view(), mask))
        return false;
    std::memcpy(out.mask, mask.bytes, sizeof out.mask);
    return out.cipher.open_with(library, suite_, key, seals);
}

bool connection_seal::agree(const seal_offer &peer, const seal_names &own,
                            const seal_names &of_peer, bool calls)
{
    const seal_names &caller = calls ? own : of_peer;
    const seal_names &called = calls ? of_peer : own;
    seal_secret common;
    seal_secret root;
    std::uint8_t salt[2 * seal_share_size];
    std::memcpy(salt, calls ? offer_.share : peer.share, seal_share_size);
    std::memcpy(salt + seal_share_size, calls ? peer.share : offer_.share, seal_share_size);
    suite_ =
        offer_.fast_aes && peer.fast_aes ? seal_suite::aes_256_gcm : seal_suite::chacha20_poly1305;
    struct both {
        std::uint8_t bytes[2 * seal_key_size];
        ~both() { wipe(bytes, sizeof bytes); }
    } secrets;
    if (!agreement_.agree(peer.share, common))
        return false;
    std::memcpy(secrets.bytes, device_.secret().bytes, seal_key_size);
    std::memcpy(secrets.bytes + seal_key_size, common.bytes, seal_key_size);
    label info("soft-hca connection");
    info.number(sealed_version).number(static_cast<std::uint32_t>(suite_));
    info.number(caller.id).number(caller.tag).number(called.id).number(called.tag);
    if (!device_.library().derive({secrets.bytes, sizeof secrets.bytes}, {salt, sizeof salt},
                                  info.view(), root))
        return false;
    agreement_.forget();
    if (!calls)
        answers_ = seal_context(peer);
    epoch_ns_ = osd::now_ns();
    return begin(sending_, root, calls ? "from caller" : "from called", true) &&
           begin(receiving_, root, calls ? "from called" : "from caller", false);
}

// ----------------------------------------------------------------------------------- packets

namespace {

struct nonce {
    nonce(const std::uint8_t *mask, std::uint64_t number)
    {
        std::memcpy(bytes, mask, sizeof bytes);
        for (std::size_t i = 0; i < sizeof number; ++i)
            bytes[sizeof bytes - 1 - i] ^= static_cast<std::uint8_t>(number >> 8 * i);
    }
    std::uint8_t bytes[seal_nonce_size];
};

} // namespace

/// A side can open packets of its receiving epoch and of the next epoch only. So a side whose peer
/// has not yet followed its last renewal does not renew again, and a side whose peer has renewed
/// follows.
bool connection_seal::renewal_is_due(std::int64_t now) const
{
    if (receiving_epoch_ != sending_epoch_)
        return receiving_epoch_ == sending_epoch_ + 1;
    return next_number_ - epoch_begin_ >= device_.settings().renew_packets ||
           (now != 0 && now - epoch_ns_ >= device_.settings().renew_ns);
}

bool connection_seal::renew_sending(std::int64_t now)
{
    epoch_key next;
    if (!begin(next, *sending_.secret, "next", true))
        return false;
    sending_ = std::move(next);
    ++sending_epoch_;
    epoch_begin_ = next_number_;
    epoch_ns_ = now != 0 ? now : osd::now_ns();
    return true;
}

bool connection_seal::seal(std::uint8_t *at, std::size_t size, std::uint32_t to)
{
    const std::int64_t now = next_number_ % look_at_time_every == 0 ? osd::now_ns() : 0;
    if (!has_agreed() || !device_.may_seal() || (renewal_is_due(now) && !renew_sending(now)))
        return false;
    sealed_header header;
    header.to = to;
    header.odd_epoch = sending_epoch_ % 2 != 0;
    header.number = next_number_++;
    const std::size_t clear = write_sealed(at, header);
    return sending_.cipher.seal(nonce(sending_.mask, header.number).bytes, {at, clear},
                                at + sealed_overhead, size, at + clear);
}

connection_seal::epoch_key *connection_seal::other_key(std::uint64_t number)
{
    if (number < lowest_)
        return former_.cipher ? &former_ : nullptr;
    if (!coming_.cipher && !begin(coming_, *receiving_.secret, "next", false))
        return nullptr;
    return &coming_;
}

/// Called for authentic packets only: a forged one must change neither the epoch nor the window.
void connection_seal::note_opened(const epoch_key &with, std::uint64_t number)
{
    if (&with == &coming_) {
        former_ = std::move(receiving_);
        receiving_ = std::exchange(coming_, {});
        ++receiving_epoch_;
        lowest_ = number;
    } else if (&with == &receiving_) {
        lowest_ = std::min(lowest_, number);
    }
    window_.mark(number);
    // The window refuses all packets of the former epoch by now.
    if (former_.cipher && window_.end() - lowest_ > replay_window::size)
        former_ = {};
}

bool connection_seal::open_packet(std::uint8_t *bytes, std::size_t size,
                                  const sealed_header &header, packet &out)
{
    if (!has_agreed() || header.handshake || size < sealed_overhead + base_size ||
        !window_.is_new(header.number))
        return false;
    const bool now = header.odd_epoch == (receiving_epoch_ % 2 != 0);
    epoch_key *const with = now ? &receiving_ : other_key(header.number);
    if (with == nullptr ||
        !with->cipher.open(nonce(with->mask, header.number).bytes, {bytes, header.size()},
                           bytes + sealed_overhead, size - sealed_overhead, bytes + header.size()))
        return false;
    note_opened(*with, header.number);
    return parse_opened(bytes + sealed_overhead, size - sealed_overhead, out) &&
           is_of_connection(out.base.kind);
}

} // namespace soft_hca
