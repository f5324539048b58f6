// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection_state.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace soft_hca {

namespace {

constexpr std::int64_t refused_retry_ns = 10'000'000;

std::int64_t ns_of_ms(std::uint32_t ms)
{
    return std::int64_t{ms} * 1'000'000;
}

/// Fills it up to a datagram of this size.
void pad(out_packet &out, std::uint32_t size, const peer_path &path)
{
    static std::uint8_t zeros[largest_datagram]; // a constant would take room in the library
    out.add(zeros, size - path.handshake_overhead() - out.size);
}

} // namespace

// ------------------------------------------------------------------------------------ beginning

bool connection_state::prepare(std::uint64_t qualifier, const void *data, std::size_t size)
{
    handshake_ = {};
    data_.reset(new (std::nothrow) hello_data);
    if (data_ == nullptr)
        return false;
    data_->qualifier = qualifier;
    data_->size = size;
    if (size != 0)
        std::memcpy(data_->bytes, data, size);
    return true;
}

handshake connection_state::hello(const peer_path &path) const
{
    handshake h;
    h.qualifier = data_->qualifier;
    h.id = path.id();
    h.tag = path.tag();
    h.first_psn = first_psn_;
    const std::uint32_t probed = handshake_.probe.largest();
    h.max_datagram = probed != 0 ? probed : device_->datagram();
    h.reads_out = std::max<std::uint16_t>(params_->reads_out, 1);
    h.reads_in = std::max<std::uint16_t>(params_->reads_in, 1);
    return h;
}

send_result connection_state::send_handshake(peer_path &path, std::uint32_t ack,
                                             std::uint32_t credit, std::int64_t now)
{
    const hello_data &own = *data_;
    const bool asks = state_ == state::connecting;
    // Another edition may listen there by now than the edition that has sent the retry.
    if (asks && path.version() != first_version &&
        ++handshake_.requests % requests_until_anew == 0) {
        path.aim(path.peer());
        handshake_.probe.pause();
    }
    const std::uint32_t padded = handshake_.probe.next(asks ? request_attempts : accept_attempts);
    if (padded != 0 && !asks)
        path.limit_to(padded);
    std::uint8_t body[request_size + max_private_data];
    const std::size_t size = asks ? write_request(body, hello(path), own.bytes, own.size)
                                  : write_accept(body, hello(path), own.bytes, own.size);
    base_header base = path.header(asks ? packet_kind::request : packet_kind::accept, first_psn_);
    base.ack = asks ? understands_retry : ack;
    base.credit = credit;
    base.flags = padded != 0 ? flag_padded : 0;
    if (asks && params_->use == pair_use::exchange)
        base.flags |= flag_exchange;
    out_packet out;
    out.begin();
    out.add(out.header, write_base(out.header, base));
    out.add(body, size);
    if (padded != 0)
        pad(out, padded, path);
    const bool probes = asks && handshake_.delay_us != first_delay_us;
    const send_result result =
        handshake_.may_send.spend(out.size) ? path.send_handshake(out, probes) : send_result::sent;
    if (result == send_result::unreachable)
        return result;
    if (handshake_.sent_ns == 0)
        handshake_.sent_ns = now;
    handshake_.due_ns = now + std::int64_t{handshake_.delay_us} * 1000;
    handshake_.delay_us = std::min(2 * handshake_.delay_us, longest_delay_us);
    return result;
}

void connection_state::probe_path(std::uint32_t largest, std::int64_t now)
{
    if (handshake_.probe.begin(largest) && is(state::connecting))
        handshake_.delay_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
            3 * handshake_age(now) / 1000, shortest_delay_us, longest_delay_us));
}

bool connection_state::retry_accept()
{
    return ++handshake_.retries <= device_->settings().retries;
}

bool connection_state::retry_refused(std::int64_t now)
{
    if (handshake_.refused_since_ns == 0)
        handshake_.refused_since_ns = now;
    if (now - handshake_.refused_since_ns > ns_of_ms(device_->settings().connect_retry_ms))
        return false;
    handshake_.due_ns = now + refused_retry_ns;
    return true;
}

void connection_state::establish(std::int64_t now)
{
    state_ = state::live;
    end_handshake();
    heard_ns_ = now;
}

void connection_state::end_handshake()
{
    handshake_ = {};
    if (data_ != nullptr && !data_->is_peers)
        data_.reset();
}

void connection_state::keep_private_data(const packet &answer)
{
    data_->size = answer.private_size;
    data_->is_peers = true;
    std::memcpy(data_->bytes, answer.private_data, answer.private_size);
}

std::size_t connection_state::take_private_data(std::uint8_t *to)
{
    const std::unique_ptr<hello_data> taken = std::move(data_);
    if (taken == nullptr)
        return 0;
    std::memcpy(to, taken->bytes, taken->size);
    return taken->size;
}

// ------------------------------------------------------------------------------ while connected

bool connection_state::peer_is_silent(std::int64_t now, std::int64_t heard_ns,
                                      std::int64_t times) const
{
    return now - heard_ns >= times * ns_of_ms(device_->settings().keepalive_ms);
}

void connection_state::drain(std::int64_t now)
{
    state_ = state::draining;
    linger_until_ = now + ns_of_ms(device_->settings().linger_ms);
}

// --------------------------------------------------------------------------------------- ending

void connection_state::note_close_sent(std::int64_t now)
{
    close_.attempts_left -= close_.attempts_left != 0 ? 1 : 0;
    close_.due_ns = close_.attempts_left != 0 ? now + close_interval_ns : 0;
}

void connection_state::enter_dead()
{
    state_ = state::dead;
    end_handshake();
    linger_until_ = 0;
}

} // namespace soft_hca
