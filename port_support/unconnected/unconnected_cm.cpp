// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: made by the connection manager of the port runtime, over TCP. Each side tells the
// other the number and the tag of its queue pair, and its name on the fabric.
#include "unconnected_port.hpp"

#include "dapl_line_limit.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

constexpr std::uint32_t edition = 1; ///< changes with the datagrams and with the introduction

/// The peers tell one another this, and then the name. Numbers are little-endian.
struct introduction {
    std::uint32_t edition;
    std::uint32_t pair;
    std::uint64_t tag;
    std::uint32_t max_datagram;
    std::uint32_t reads;
};
constexpr std::size_t introduction_size = 24;
static_assert(introduction_size + fabric_name::max_size <= tcp_cm_address::max_size);

void put(std::uint8_t *out, std::uint64_t value, std::size_t size)
{
    for (std::size_t i = 0; i < size; ++i)
        out[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::uint64_t get(const std::uint8_t *in, std::size_t size)
{
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
        value |= std::uint64_t{in[i]} << (8 * i);
    return value;
}

tcp_cm_address address_of(const hca &h, const qp &q)
{
    tcp_cm_address out;
    put(out.bytes, edition, 4);
    put(out.bytes + 4, q.index, 4);
    put(out.bytes + 8, q.data.tag, 8);
    put(out.bytes + 16, h.traits.max_datagram, 4);
    put(out.bytes + 20, q.reads_in, 4);
    std::memcpy(out.bytes + introduction_size, h.name_on_fabric.bytes, h.name_on_fabric.size);
    out.size = introduction_size + h.name_on_fabric.size;
    return out;
}

bool read_address(const tcp_cm_address &in, introduction &who, fabric_name &name)
{
    if (in.size <= introduction_size || in.size > introduction_size + fabric_name::max_size)
        return false;
    who = {static_cast<std::uint32_t>(get(in.bytes, 4)),
           static_cast<std::uint32_t>(get(in.bytes + 4, 4)), get(in.bytes + 8, 8),
           static_cast<std::uint32_t>(get(in.bytes + 16, 4)),
           static_cast<std::uint32_t>(get(in.bytes + 20, 4))};
    name.size = static_cast<std::uint32_t>(in.size - introduction_size);
    std::memcpy(name.bytes, in.bytes + introduction_size, name.size);
    return who.edition == edition && who.max_datagram >= fabric::least_datagram;
}

line_limit strangers; // all adapters share these
line_limit unknown_names;

} // namespace

// -------------------------------------------------- what the connection manager asks of the port

bool types::hca::offer(tcp_listener &l, tcp_request &request, const cr_params &params)
{
    cr incoming{std::move(request), this};
    bool taken = false;
    run_upcall(&l, [&, to = l.owner] { taken = dapls_cr_callback(*to, incoming, params); });
    if (!taken)
        request = std::move(incoming.request);
    return taken;
}

bool types::hca::bring_up(tcp_connection &connection, const tcp_cm_address &peer)
{
    qp &q = static_cast<qp &>(connection);
    introduction who;
    fabric_name there;
    if (!read_address(peer, who, there)) {
        dapl_log_some(strangers, DAPL_DBG_TYPE_ERR,
                      "%s: a peer speaks another edition of the protocol, or is no such adapter",
                      name);
        return false;
    }
    osd::lock_guard hold(library);
    connection_data &c = q.data;
    if (const int error = peers.connect(*device, there, c.peer); error != 0) {
        dapl_log_some(unknown_names, DAPL_DBG_TYPE_ERR,
                      "%s: the device does not know a peer's name: %s", name, std::strerror(error));
        return false;
    }
    c.peer_pair = who.pair;
    c.peer_tag = who.tag;
    c.reads_out = std::clamp(std::min(q.max_reads_out, who.reads), 1u, max_reads);
    c.payload = std::min(traits.max_datagram, who.max_datagram) -
                static_cast<std::uint32_t>(packet_header::size);
    c.set(state::up, true);
    pump(q);
    look_again();
    return true;
}

namespace {

/// Time in which accesses may end that cannot be cancelled. A write that does not end keeps its
/// memory registered until deregistering it gives up waiting. What a read brings is stored in
/// memory that belongs to the consumer again once the read is flushed, so reads are given longer.
constexpr std::int64_t writes_end_ns = 20'000'000;
constexpr std::int64_t reads_end_ns = 2'000'000'000;

bool has_accesses(hca &h, const qp &q, bool reads_only) OSD_REQUIRES(h.library)
{
    for (const pair_access &each : h.accesses)
        if (each.in_use && each.of == &q && (each.w->is_read || !reads_only))
            return true;
    return false;
}

void cancel_accesses(hca &h, const qp &q) OSD_REQUIRES(h.library)
{
    for (pair_access &each : h.accesses)
        if (each.in_use && each.of == &q)
            h.device->cancel(&each);
}

/// Leaves the lock to others between its looks.
void await_accesses(hca &h, const qp &q) OSD_EXCLUDES(h.library)
{
    constexpr timespec some{0, 50'000};
    const std::int64_t begin = osd::now_ns();
    for (;;) {
        {
            osd::lock_guard hold(h.library);
            (void)h.take_events();
            const std::int64_t age = osd::now_ns() - begin;
            if (age > reads_end_ns || !has_accesses(h, q, age > writes_end_ns))
                return;
        }
        (void)nanosleep(&some, nullptr);
    }
}

/// Gives the peer's grants back, now or when the last access has ended.
void leave_accesses(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    const connection_data &c = q.data;
    const bool all_ended = !has_accesses(h, q, false);
    for (pair_access &each : h.accesses)
        if (each.in_use && each.of == &q)
            each.of = nullptr; // its end gives the grants back
    const std::int64_t until = osd::now_ns() + writes_end_ns;
    while (all_ended && !h.give_grants_back(*c.peer, c.peer_pair, c.peer_tag) &&
           osd::now_ns() < until)
        (void)h.take_events();
}

void flush(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    while (wr *w = q.requests.front())
        h.finish(*w, w == c.failed_request ? c.failed_with : DAT_DTO_ERR_FLUSHED);
    c.failed_request = nullptr;
    while (wr *w = q.receives.front())
        h.finish(*w, DAT_DTO_ERR_FLUSHED);
}

} // namespace

/// Ends what both sides access of each other. The service does not end the connection meanwhile.
void types::hca::end_accesses(qp &q)
{
    connection_data &c = q.data;
    bool accesses_peer = false;
    {
        osd::lock_guard hold(library);
        if (c.is(state::up))
            grants.connection_ended(c.tag, osd::now_ns());
        accesses_peer = c.is(state::up) && c.is(state::has_asked);
        c.set(state::up, false); // what consumers post from here on is flushed behind the rest
        if (accesses_peer)
            cancel_accesses(*this, q);
    }
    if (!accesses_peer)
        return;
    await_accesses(*this, q);
    osd::lock_guard hold(library);
    leave_accesses(*this, q);
}

/// Ends a connection: completions before the end are reported, and the rest flushed.
void types::hca::tear_down(tcp_connection &connection)
{
    qp &q = static_cast<qp &>(connection);
    connection_data &c = q.data;
    {
        osd::lock_guard hold(library);
        for (unsigned round = 0; c.is(state::up) && round < 64 && take_events(); ++round) {
        }
    }
    end_accesses(q);
    osd::lock_guard hold(library);
    detach(q);
    if (q.phase() != connection_phase::idle)
        c.set(state::ended, true);
    flush(*this, q);
}

bool types::hca::is_drained(tcp_connection &connection)
{
    osd::lock_guard hold(library);
    if (!take_events())
        flush_acknowledgements();
    return static_cast<qp &>(connection).requests.empty();
}

// -------------------------------------------------------------------------------------- operations

status port::dapls_ib_setup_conn_listener(hca &h, listener &l, service_point &owner,
                                          DAT_CONN_QUAL &qualifier)
{
    l.of = &h;
    return h.cm->listen(l, owner, qualifier);
}

void port::dapls_ib_remove_conn_listener(listener &l)
{
    if (!l.of->foreign())
        l.of->cm->stop_listening(l);
}

status port::dapls_ib_connect(qp &q, const connect_params &params)
{
    return q.of->cm->connect(q, params, address_of(*q.of, q));
}

status port::dapls_ib_accept_connection(cr &incoming, qp &q, const private_data &data)
{
    return q.of->cm->accept(incoming.request, q, data, address_of(*q.of, q));
}

void port::dapls_ib_reject_connection(cr &incoming, reject_reason reason, const private_data &data)
{
    if (!incoming.of->foreign())
        tcp_cm::reject(incoming.request, reason, data);
}

void port::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS how)
{
    q.of->cm->disconnect(q, how);
}

void port::dapls_ib_disconnect_clean(qp &q)
{
    q.of->cm->disconnect_clean(q);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
