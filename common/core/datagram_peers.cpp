// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The peers of datagram endpoints, and posting to them: see endpoint.hpp.
#include "endpoint.hpp"

#include "adapter.hpp"
#include "dapl_debug.hpp"
#include "dat_names.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

struct reported {
    DAT_IB_EVENT_NUMBER number;
    DAT_IB_EXT_TYPE type;
};

/// The event of the extension for an outcome that the port reports as of a connection.
reported report_of(DAT_EVENT_NUMBER event, bool calls)
{
    switch (event) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return {DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED,
                calls ? DAT_IB_UD_REMOTE_AH : DAT_IB_UD_PASSIVE_REMOTE_AH};
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return {DAT_IB_UD_CONNECTION_REJECT_EVENT, DAT_IB_UD_CONNECT_REJECT};
    default:
        return {DAT_IB_UD_CONNECTION_ERROR_EVENT, DAT_IB_UD_CONNECT_ERROR};
    }
}

} // namespace

// ------------------------------------------------------------------------------------- one peer

datagram_peer::datagram_peer(const DAT_PROVIDER *vector, adapter &owner, endpoint &of, bool calls,
                             const pz *zone)
    : object(vector, mark::peer, owner), ep_(of), calls_(calls), zone_(zone)
{
    timeout_.peer = this;
    timeout_.expired = [](timer_record &record) {
        return static_cast<timer &>(record).peer->timed_out();
    };
}

DAT_EVENT datagram_peer::event_of(DAT_EVENT_NUMBER event, const datagram_address &peer)
{
    const reported how = report_of(event, calls_);
    DAT_IB_EXTENSION_EVENT_DATA more{};
    more.type = how.type;
    more.status = DAT_IB_OP_ERR;
    if (how.number == DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED) {
        more.status = DAT_OP_SUCCESS;
        more.remote_ah.ah = reinterpret_cast<struct ibv_ah *>(this);
        more.remote_ah.qpn = peer.number;
        if (peer.address != nullptr)
            std::memcpy(
                &more.remote_ah.ia_addr, peer.address,
                std::min(sizeof more.remote_ah.ia_addr, osd::address::size_of(peer.address)));
        more.context.as_ptr = this;
    }
    DAT_EVENT out{};
    out.event_number = static_cast<DAT_EVENT_NUMBER>(how.number);
    out.event_data.connect_event_data.ep_handle = to_handle(&ep_);
    std::memcpy(out.event_extension_data, &more, sizeof more);
    return out;
}

/// Ends the wait for the outcome, and stores its event. False when it has ended before.
bool datagram_peer::conclude(DAT_EVENT_NUMBER event, const private_data &data,
                             const datagram_address &peer, outcome &made)
{
    osd::lock_guard hold(ep_.lock_);
    if (!std::exchange(pending_, false))
        return false;
    const std::size_t kept = std::min(data.size, sizeof data_);
    if (kept != 0)
        std::memcpy(data_, data.bytes, kept);
    address_lives_ = context_lives_ = event == DAT_CONNECTION_EVENT_ESTABLISHED;
    made.target = user_of<evd>(ep_.connect_evd_.get());
    if (!made.target)
        return true;
    DAT_EVENT out = event_of(event, peer);
    out.evd_handle = to_handle(made.target.get());
    out.event_data.connect_event_data.private_data_size = static_cast<DAT_COUNT>(kept);
    out.event_data.connect_event_data.private_data = kept == 0 ? nullptr : data_;
    made.stored = made.target->store(out);
    return true;
}

void datagram_peer::exchanged(DAT_EVENT_NUMBER event, const private_data &data,
                              const datagram_address &peer)
{
    dapl_log(DAPL_DBG_TYPE_CALLBACK, "EP %p: addresses for datagrams: %s", to_handle(&ep_),
             dat::event_name(event));
    ia->timers.disarm(timeout_);
    outcome made;
    if (conclude(event, data, peer, made))
        ep_.notify_or_report_overflow(made.target.get(), made.stored);
}

deferred_call datagram_peer::timed_out()
{
    outcome made;
    if (!conclude(DAT_CONNECTION_EVENT_TIMED_OUT, {}, {}, made))
        return {};
    return notify_later(*ia, std::move(made.target), made.stored);
}

/// After success of the port, which makes an exchange of this.
void datagram_peer::note_begun()
{
    made_ = begun_ = true;
}

/// No event comes any more. False when one has come.
bool datagram_peer::withdraw()
{
    osd::lock_guard hold(ep_.lock_);
    return std::exchange(pending_, false);
}

void datagram_peer::end_exchange()
{
    (void)withdraw();
    ia->timers.cancel(timeout_);
    if (std::exchange(begun_, false))
        transport::dapls_ib_exchange_end(exchange_);
}

/// Ends the exchange before.
void datagram_peer::free_address()
{
    address_lives_ = false;
    end_exchange();
    if (std::exchange(made_, false))
        transport::dapls_ib_exchange_free(exchange_);
}

// ------------------------------------------------------------------------------------ all of them

bool datagram_peers::in_use() const
{
    return is_for_datagrams(ep_.attr_);
}

status datagram_peers::ready() const
{
    if (ep_.state() != DAT_EP_STATE_UNCONNECTED)
        return ep_.state_error();
    return ep_.ready_to_connect();
}

datagram_peer *datagram_peers::add(bool calls)
{
    sweep();
    datagram_peer *made = ep_.ia->make<datagram_peer>(ep_, calls, ep_.zone_.get());
    if (made == nullptr)
        return nullptr;
    made->next_ = first_;
    first_ = made;
    return made;
}

void datagram_peers::remove(datagram_peer &gone)
{
    gone.free_address();
    datagram_peer **link = &first_;
    while (*link != &gone)
        link = &(*link)->next_;
    *link = gone.next_;
    ep_.ia->destroy(gone);
}

/// Ends the exchanges that are over, for consumers that do not, and forgets those that have failed.
void datagram_peers::sweep()
{
    for (datagram_peer *each = first_; each != nullptr;) {
        datagram_peer &now = *std::exchange(each, each->next_);
        bool over = false;
        {
            osd::lock_guard hold(ep_.lock_);
            over = !now.pending_;
        }
        if (!over)
            continue;
        now.end_exchange();
        if (!now.address_lives_ && !now.context_lives_)
            remove(now);
    }
}

status datagram_peers::connect(const connect_request &wanted)
{
    if (ep_.objects().connect == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    datagram_peer::outcome made;
    const status begun = begin(wanted, made);
    ep_.notify_or_report_overflow(made.target.get(), made.stored);
    return begun;
}

status datagram_peers::begin(const connect_request &wanted, datagram_peer::outcome &made)
{
    osd::lock_guard hold(ep_.control_);
    if (const status good = ready(); !good.ok())
        return good;
    const osd::deadline until = deadline_of(wanted.timeout_us);
    if (!until.is_never() && !ep_.ia->timers.start())
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    datagram_peer *peer = add(true);
    if (peer == nullptr)
        return out_of_memory;
    if (!until.is_never())
        (void)ep_.ia->timers.arm(peer->timeout_, until);
    const connect_params params{wanted.address, wanted.qualifier, wanted.timeout_us, wanted.data,
                                wanted.qos};
    const status begun =
        transport::dapls_ib_exchange_begin(peer->exchange_, ep_.qp_, *peer, params);
    if (begun.ok()) {
        peer->note_begun();
        return success;
    }
    if (begun == status::error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE)) {
        (void)peer->conclude(DAT_CONNECTION_EVENT_UNREACHABLE, {}, {}, made);
        return success; // remote outcomes come as events
    }
    remove(*peer);
    return begun;
}

status datagram_peers::accept(const incoming_request &request, const private_data &data)
{
    osd::lock_guard hold(ep_.control_);
    if (const status good = ready(); !good.ok())
        return good;
    datagram_peer *peer = add(false);
    if (peer == nullptr)
        return out_of_memory;
    const status accepted =
        transport::dapls_ib_exchange_accept(peer->exchange_, request.port_cr, ep_.qp_, *peer, data);
    if (accepted.ok())
        peer->note_begun();
    else
        remove(*peer);
    return accepted;
}

void datagram_peers::abandon()
{
    osd::lock_guard hold(ep_.control_);
    for (datagram_peer *each = first_; each != nullptr;) {
        datagram_peer &now = *std::exchange(each, each->next_);
        if (now.withdraw())
            remove(now);
    }
}

void datagram_peers::end()
{
    while (first_ != nullptr)
        remove(*first_);
}

/// The live object of this endpoint behind a handle, or null.
datagram_peer *datagram_peers::owned(const void *handle) const
{
    datagram_peer *each = first_;
    while (each != nullptr && each != handle)
        each = each->next_;
    return each;
}

status datagram_peers::free_context(const void *context)
{
    osd::lock_guard hold(ep_.control_);
    datagram_peer *peer = owned(context);
    if (peer == nullptr || !peer->context_lives_.exchange(false))
        return invalid_parameter(2);
    peer->end_exchange();
    if (!peer->address_lives_)
        remove(*peer);
    return success;
}

status datagram_peers::free_address(const DAT_IB_ADDR_HANDLE *address)
{
    osd::lock_guard hold(ep_.control_);
    datagram_peer *peer = address == nullptr ? nullptr : owned(address->ah);
    if (peer == nullptr || !peer->address_lives_)
        return invalid_parameter(2);
    peer->free_address();
    if (!peer->context_lives_)
        remove(*peer);
    return success;
}

// -------------------------------------------------------------------------------------- posting

datagram_peer *datagram_peers::find(const DAT_IB_ADDR_HANDLE *address) const
{
    auto *peer = address == nullptr ? nullptr : from_handle<datagram_peer>(address->ah);
    const bool good = peer != nullptr && peer->address_lives_ && peer->zone_ == ep_.zone_.get();
    return good ? peer : nullptr;
}

/// The error of a post, by its argument numbers in dat_ib_post_send_ud.
status datagram_peers::check(const datagram_peer *to, const extended_request &wanted) const
{
    if (!in_use())
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (static_cast<std::uint32_t>(wanted.segments) > ep_.max_request_iov_)
        return ep_.not_ready_or(invalid_parameter(2));
    if (wanted.local == nullptr && wanted.segments != 0)
        return invalid_parameter(3);
    if (to == nullptr)
        return invalid_parameter(4);
    if (has_unknown_flags(wanted.flags, request_flags))
        return invalid_parameter(6);
    return total_length(wanted.segments, wanted.local) <= ep_.attr_.max_message_size
               ? success
               : status::error(DAT_LENGTH_ERROR);
}

template <class Safety>
status datagram_peers::post(const DAT_IB_ADDR_HANDLE *address, const extended_request &wanted,
                            DAT_DTO_COOKIE cookie)
{
    const post_turn<Safety> hold(gates_of(ep_).sends);
    const auto refused = [&](status why) {
        return refuse(ep_, opcode::send_datagram, ep_.send_queue_, why);
    };
    datagram_peer *to = find(address);
    if (const status checked = check(to, wanted); !checked.ok())
        return refused(checked);
    transport::wr *wr = ep_.next_request(
        opcode::send_datagram, total_length(wanted.segments, wanted.local), cookie, wanted.flags);
    if (wr == nullptr)
        return refused(out_of_memory);
    const status answer = transport::dapls_ib_post_datagram(ep_.qp_, *wr, to->exchange_, wanted);
    return answer.ok() ? success : endpoint::refused_request(ep_.qp_, answer);
}
template status datagram_peers::post<one_thread_per_object>(const DAT_IB_ADDR_HANDLE *,
                                                            const extended_request &,
                                                            DAT_DTO_COOKIE);
template status datagram_peers::post<any_thread>(const DAT_IB_ADDR_HANDLE *,
                                                 const extended_request &, DAT_DTO_COOKIE);

} // namespace dapl::DAPL_TRANSPORT::core
