// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Takes arrived datagrams. Every process on the fabric can send here: a datagram acts on the
// connection that its tag names only, and within the rules of this layer.
#include "unconnected_port.hpp"

#include "dapl_debug.hpp"

#include <algorithm>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

constexpr std::int64_t peer_ends_ns = 1'000'000'000; ///< time for the peer to end a connection
constexpr std::int64_t offer_ns = 10'000'000;        ///< time for a pair to take a receive
constexpr std::uint32_t acknowledge_every = window / 2;

enum class outcome {
    done,
    no_receive, ///< the packet is dropped until there is one
    failed,     ///< the connection ends
};

struct incoming {
    const packet_header &header;
    const std::uint8_t *data;
    std::uint32_t size;
};

// -------------------------------------------------------------------------------------- requests

/// Checks an access of the peer; `right` is a flag of DAT_MEM_PRIV_FLAGS.
bool is_open(const hca &h, const qp &q, const packet_header &header, std::uint32_t right,
             region_entry &r)
{
    return h.regions.find(header.key, r) && (r.rights & right) != 0 &&
           r.covers(q.domain, header.address, header.total);
}

outcome refused(hca &h, qp &q, failure why, const packet_header &header) OSD_REQUIRES(h.library)
{
    h.refuse(q, why, header.id, header.psn);
    return outcome::failed;
}

/// Stores bytes of a message in a receive; false if the consumer has taken the memory away.
bool scatter(hca &h, const qp &q, const wr &w, std::uint32_t offset, const std::uint8_t *from,
             std::uint32_t size, bool plain = false)
{
    return each_piece(h.regions, q.domain, w, offset, size,
                      [&](const region_entry &r, std::uint64_t to, std::uint32_t some) {
                          const bool copied = (r.rights & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0 &&
                                              h.copy.write(to, from, some, plain);
                          from += some;
                          return copied;
                      });
}

/// The receive for the next message; of a shared queue it becomes one of the pair. Null when there
/// is none.
wr *next_receive(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    if (q.shared == nullptr || !q.receives.empty())
        return q.receives.front();
    srq &s = *q.shared;
    wr *const w = s.receives.pop();
    if (w == nullptr)
        return nullptr;
    --s.count;
    if (s.limit != 0 && s.count < s.limit)
        h.call_soon(s);
    w->of = &q;
    w->receiver = q.receiver;
    w->reported_to = q.recv_cq;
    q.receives.push(*w);
    return w;
}

outcome fail_receive(hca &h, qp &q, wr &w, DAT_DTO_COMPLETION_STATUS why,
                     const packet_header &header) OSD_REQUIRES(h.library)
{
    q.data.set(state::receiving, false);
    h.finish(w, why);
    return refused(h, q, failure::operation, header);
}

/// Says whether the consumer's thread that polls a queue of this pair copies the message.
bool is_plain(const hca &h, const qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    return h.polling != nullptr && (q.recv_cq == h.polling || q.send_cq == h.polling) &&
           header.total <= most_copied;
}

outcome take_message(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    const packet_header &header = in.header;
    wr *const w = next_receive(h, q);
    if (w == nullptr)
        return outcome::no_receive;
    if (header.offset == 0 && header.total > w->total)
        return fail_receive(h, q, *w, DAT_DTO_ERR_LOCAL_LENGTH, header);
    const bool follows = header.offset == (c.is(state::receiving) ? w->moved : 0) &&
                         in.size <= header.total - std::min(header.offset, header.total) &&
                         header.total <= w->total;
    const bool is_last = (header.flags & flag_last) != 0;
    if (!follows || is_last != (header.offset + in.size == header.total) ||
        (in.size == 0 && header.total != 0))
        return refused(h, q, failure::operation, header);
    if (!scatter(h, q, *w, header.offset, in.data, in.size, is_plain(h, q, header)))
        return fail_receive(h, q, *w, DAT_DTO_ERR_LOCAL_PROTECTION, header);
    w->moved = header.offset + in.size;
    c.set(state::receiving, !is_last);
    if (is_last)
        h.finish(*w, DAT_DTO_SUCCESS);
    return outcome::done;
}

/// Completes the receive that immediate data take; false when there is none.
bool take_immediate(hca &h, qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    wr *const w = next_receive(h, q);
    if (w == nullptr)
        return false;
    w->carries_immediate = true;
    w->immediate = header.immediate;
    w->moved = header.total;
    h.finish(*w, DAT_DTO_SUCCESS);
    return true;
}

outcome take_write(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    const packet_header &header = in.header;
    const bool is_last = (header.flags & flag_last) != 0;
    if (q.data.is(state::receiving) || header.offset > header.total ||
        in.size > header.total - header.offset)
        return refused(h, q, failure::operation, header);
    region_entry r;
    if (header.total != 0 && (!is_open(h, q, header, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, r) ||
                              !h.copy.write(header.address + header.offset, in.data, in.size)))
        return refused(h, q, failure::access, header);
    const bool wants_receive = is_last && (header.flags & flag_immediate) != 0;
    if (wants_receive && !take_immediate(h, q, header))
        return outcome::no_receive;
    return outcome::done;
}

outcome take_read(hca &h, qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    region_entry r;
    if (c.responses == std::min(q.reads_in, max_reads))
        return refused(h, q, failure::operation, header);
    if (header.total != 0 && !is_open(h, q, header, DAT_MEM_PRIV_REMOTE_READ_FLAG, r))
        return refused(h, q, failure::access, header);
    c.response[(c.first_response + c.responses) % max_reads] = {header.id, header.key, header.total,
                                                                0, header.address};
    ++c.responses;
    return outcome::done;
}

outcome take_question(hca &h, qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    const bool writes = header.kind == packet_kind::ask_write;
    region_entry r;
    if (header.total == 0 ||
        !is_open(h, q, header,
                 writes ? DAT_MEM_PRIV_REMOTE_WRITE_FLAG : DAT_MEM_PRIV_REMOTE_READ_FLAG, r))
        return refused(h, q, failure::access, header);
    const std::uint64_t number = r.of->handle != nullptr ? h.grants.add(*r.of, q.data.tag) : 0;
    if (number == 0 && !writes)
        return take_read(h, q, header);
    if (!h.answer(q, {number, header.id, number == 0 ? packet_kind::deny : packet_kind::grant})) {
        h.grants.remove(number, q.data.tag);
        return refused(h, q, failure::operation, header);
    }
    return outcome::done;
}

outcome execute(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    const packet_header &header = in.header;
    switch (header.kind) {
    case packet_kind::send:
        return take_message(h, q, in);
    case packet_kind::write:
        return take_write(h, q, in);
    case packet_kind::read:
        return take_read(h, q, header);
    case packet_kind::done:
        if ((header.flags & flag_immediate) != 0 && !take_immediate(h, q, header))
            return outcome::no_receive;
        h.grants.remove(header.address, q.data.tag);
        return outcome::done;
    default:
        return take_question(h, q, header);
    }
}

// ----------------------------------------------------------------------------------------- order

void release_held(hca &h, connection_data &c) OSD_REQUIRES(h.library)
{
    while (held_packet *first = c.held) {
        c.held = first->next;
        h.holds.give(*first);
    }
}

std::uint32_t psn_of(const held_packet &held)
{
    packet_header header;
    (void)read_header(held.bytes, held.size, header);
    return header.psn;
}

/// Keeps a packet that came early, in order; false when there is no place.
bool hold(hca &h, qp &q, const std::uint8_t *bytes, std::size_t size, std::uint32_t psn)
    OSD_REQUIRES(h.library)
{
    held_packet **place = &q.data.held;
    while (*place != nullptr && comes_before(psn_of(**place), psn))
        place = &(*place)->next;
    if (*place != nullptr && psn_of(**place) == psn)
        return true;
    held_packet *const kept = h.holds.take();
    if (kept == nullptr)
        return false;
    std::memcpy(kept->bytes, bytes, size);
    kept->size = static_cast<std::uint32_t>(size);
    kept->next = *place;
    *place = kept;
    return true;
}

/// The peer repeats its requests from the expected one on.
void ask_again(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    release_held(h, c);
    c.set(state::starved, false);
    static_cast<starved_link &>(q).unlink();
    ++c.round_in;
    c.set(state::owes_resume, true);
}

void starve(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    release_held(h, q.data);
    q.data.set(state::starved, true);
    if (q.shared != nullptr)
        q.shared->starved.push(q);
}

void owe_acknowledgement(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    ++q.data.unacknowledged;
    if (!q.owing_link::is_unlinked())
        return;
    h.owing.push(q);
    h.wake();
}

/// Executes the packet whose turn it is; false when the following packets are not to be executed.
bool in_turn(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    switch (execute(h, q, in)) {
    case outcome::no_receive:
        starve(h, q);
        return false;
    case outcome::failed:
        release_held(h, q.data);
        return false;
    case outcome::done:
        break;
    }
    ++q.data.expected;
    owe_acknowledgement(h, q);
    return true;
}

incoming opened(const packet_header &header, const std::uint8_t *bytes, std::size_t size)
{
    return {header, bytes + packet_header::size,
            static_cast<std::uint32_t>(size - packet_header::size)};
}

void execute_held(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    while (c.held != nullptr && !comes_before(c.expected, psn_of(*c.held))) {
        held_packet &first = *c.held;
        c.held = first.next;
        packet_header header;
        const bool good = read_header(first.bytes, first.size, header);
        if (good && header.psn == c.expected)
            (void)in_turn(h, q, opened(header, first.bytes, first.size));
        h.holds.give(first);
    }
}

void take_request(hca &h, qp &q, const packet_header &header, const std::uint8_t *bytes,
                  std::size_t size) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    if (c.is(state::starved) || c.is(state::refusing) || header.round != c.round_in)
        return;
    if (header.psn != c.expected) {
        if (comes_before(c.expected, header.psn) && header.psn - c.expected < window &&
            !hold(h, q, bytes, size, header.psn))
            ask_again(h, q);
        return;
    }
    if (in_turn(h, q, opened(header, bytes, size)))
        execute_held(h, q);
    if (c.unacknowledged >= acknowledge_every)
        h.flush_acknowledgements();
}

// --------------------------------------------------------------------------------------- answers

wr *find_awaiting(qp &q, std::uint32_t id)
{
    for (wr *w = q.awaiting.front(); w != nullptr; w = q.awaiting.after(*w))
        if (w->id == id)
            return w;
    return nullptr;
}

void take_response(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    const packet_header &header = in.header;
    wr *const w = find_awaiting(q, header.id);
    if (w == nullptr || !w->is_read || w->state == progress::granted || header.offset > w->total ||
        in.size > w->total - header.offset || in.size > w->total - w->moved)
        return;
    if (!scatter(h, q, *w, header.offset, in.data, in.size))
        return h.fail_request(q, *w, DAT_DTO_ERR_LOCAL_PROTECTION);
    w->moved += in.size;
    if (w->moved != w->total)
        return;
    static_cast<awaiting_link *>(w)->unlink();
    --c.reads;
    w->state = progress::finished;
    h.complete(q);
}

void take_grant(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    wr *const w = find_awaiting(q, in.header.id);
    grant_body body;
    if (w == nullptr || w->state != progress::asked || !w->by_access)
        return;
    if (in.header.kind == packet_kind::deny) {
        if (w->is_read)
            return;
        static_cast<awaiting_link *>(w)->unlink();
        w->by_access = false;
        w->denied = true;
        w->state = progress::waiting;
        return;
    }
    if (!read_grant(in.data, in.size, body))
        return;
    w->grant = body.number;
    w->wide.base = in.header.address;
    w->wide.size = body.key_size;
    std::memcpy(w->wide.bytes, body.key, body.key_size);
    w->state = progress::granted;
    h.granted(q, *w);
}

void take_resume(qp &q, const packet_header &header)
{
    connection_data &c = q.data;
    if (header.round != static_cast<std::uint16_t>(c.round_out + 1) ||
        comes_before(header.psn, c.acked) || comes_before(c.to_send, header.psn))
        return;
    c.round_out = header.round;
    c.to_send = header.psn;
}

/// The peer has refused a request, and ends the connection.
void take_terminate(hca &h, qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    wr *w = header.id != 0 ? find_awaiting(q, header.id) : nullptr;
    if (w == nullptr && !comes_before(header.psn, c.acked) && comes_before(header.psn, c.next_psn))
        w = c.log[header.psn % window].w;
    const DAT_DTO_COMPLETION_STATUS why =
        header.immediate == static_cast<std::uint32_t>(failure::access)
            ? DAT_DTO_ERR_REMOTE_ACCESS
            : DAT_DTO_ERR_REMOTE_RESPONDER;
    if (w != nullptr)
        h.fail_request(q, *w, why);
    else
        h.lose(q);
}

/// The peer gives one grant back, or with its end of the connection all. The connection may have
/// ended here before.
void take_release(hca &h, qp *q, const packet_header &header) OSD_REQUIRES(h.library)
{
    if (header.address != 0)
        return h.grants.remove(header.address, header.tag);
    h.grants.remove_all(header.tag);
    if (q != nullptr && q->data.is(state::up) && q->data.tag == header.tag)
        q->data.set(state::refusing, true); // questions that come late get no grant
}

void take_answer(hca &h, qp &q, const incoming &in) OSD_REQUIRES(h.library)
{
    switch (in.header.kind) {
    case packet_kind::response:
        return take_response(h, q, in);
    case packet_kind::grant:
    case packet_kind::deny:
        return take_grant(h, q, in);
    case packet_kind::resume:
        return take_resume(q, in.header);
    case packet_kind::terminate:
        return take_terminate(h, q, in.header);
    default:
        return;
    }
}

/// Says whether a packet is one of the connection that the pair has now.
bool belongs(const packet_header &header, const qp *q)
{
    return q != nullptr && q->data.is_up_without(state::ended) && q->data.tag == header.tag;
}

/// Takes a message of one packet whose turn it is and for which a receive of one segment waits.
/// False where it is another packet; then nothing was done.
OSD_ALWAYS_INLINE bool take_whole_message(hca &h, const std::uint8_t *bytes, std::size_t size)
    OSD_REQUIRES(h.library)
{
    packet_header header;
    if (!read_last_part(bytes, size, header))
        return false;
    qp *const q = h.pairs.find(header.to);
    if (q == nullptr || q->data.tag != header.tag || !q->data.is_up_without(state::delays_receives))
        return false;
    connection_data &c = q->data;
    const auto length = static_cast<std::uint32_t>(size - packet_header::size);
    if (c.held != nullptr || header.psn != c.expected || header.round != c.round_in ||
        header.offset != 0 || header.total != length)
        return false;
    wr *const w = q->receives.front();
    if (w == nullptr || length > w->total ||
        !is_one_piece(h, *q, *w, length, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, c.received_in) ||
        !h.copy.write(w->local[0].virtual_address, bytes + packet_header::size, length,
                      is_plain(h, *q, header)))
        return false;
    const bool frees_window = comes_before(c.acked, header.ack);
    if (frees_window)
        h.acknowledged(*q, header.ack);
    w->moved = length;
    h.succeed(q->receives, *w);
    ++c.expected;
    owe_acknowledgement(h, *q);
    if (c.unacknowledged >= acknowledge_every)
        h.flush_acknowledgements();
    if (frees_window && (!is_quiet(c) || !q->awaiting.empty()))
        h.pump(*q);
    return true;
}

} // namespace

void types::hca::arrived(const std::uint8_t *bytes, std::size_t size)
{
    if (size <= traits.max_datagram && !take_whole_message(*this, bytes, size))
        arrived_unusual(bytes, size);
}

/// Takes any packet.
void types::hca::arrived_unusual(const std::uint8_t *bytes, std::size_t size)
{
    packet_header header;
    if (!read_header(bytes, size, header))
        return;
    qp *const q = pairs.find(header.to);
    if (header.kind == packet_kind::release)
        return take_release(*this, q, header);
    if (!belongs(header, q))
        return;
    acknowledged(*q, header.ack);
    if (header.is_sequenced())
        take_request(*this, *q, header, bytes, size);
    else
        take_answer(*this, *q, opened(header, bytes, size));
    if (!is_quiet(q->data) || !q->awaiting.empty())
        pump(*q);
}

/// A receive was posted for which the peer has waited.
void types::hca::receives_came(qp &q)
{
    ask_again(*this, q);
    pump(q);
    look_again();
}

/// Lets a pair take receives of a shared queue. Its peer may have stopped, or its connection may
/// end, so the service thread tells the next pair after a while.
void types::hca::offer_receives(srq &s)
{
    s.offers_ns = osd::now_ns() + offer_ns;
    if (s.offered_link::is_unlinked())
        offered.push(s);
    receives_came(*s.starved.front());
    wake();
}

/// Tells the peer that its request has failed. The peer's device completes it with an error, and
/// ends the connection; if it does not, this side does.
void types::hca::refuse(qp &q, failure why, std::uint32_t id, std::uint32_t psn)
{
    connection_data &c = q.data;
    if (c.is(state::refusing))
        return;
    c.set(state::refusing, true);
    c.set(state::owes_terminate, true);
    c.terminate_id = id;
    c.terminate_psn = psn;
    c.terminate_with = why;
    c.ends_by_ns = osd::now_ns() + peer_ends_ns;
    static_cast<ending_link &>(q).unlink();
    ending.push(q);
    pump(q);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
