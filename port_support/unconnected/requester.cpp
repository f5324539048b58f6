// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sends requests, and repeats them, responses and answers. Packets without data go first.
#include "unconnected_port.hpp"

#include "dapl_line_limit.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

enum class step {
    sent,
    blocked, ///< the device takes nothing more, and the pair waits for it
    failed,
};

/// Requests and responses of one pair, before others have their turn.
constexpr int burst = 16;

line_limit failed_sends; // all adapters share these
line_limit failed_accesses;

// ------------------------------------------------------------------------------------- datagrams

/// The buffer for the next datagram. A pair has no more buffers than it leaves to others, whose
/// peers may be well where its peer takes nothing.
pair_buffer *next_buffer(hca &h, const qp &q) OSD_REQUIRES(h.library)
{
    return q.data.in_flight < h.buffers.left() ? h.buffers.first() : nullptr;
}

/// A datagram that is made and sent with the lock held: this the compiler cannot check. Its buffer
/// is taken when the device has it in flight.
class outgoing {
public:
    outgoing(hca &h, qp &q) OSD_UNCHECKED : h_(h), q_(q), buffer_(next_buffer(h, q)) {}
    outgoing(const outgoing &) = delete;
    outgoing &operator=(const outgoing &) = delete;

    explicit operator bool() const { return buffer_ != nullptr; }
    std::uint8_t *payload() { return buffer_->bytes + packet_header::size; }

    /// Makes the header where callers know most of it, which costs a message less than to pass one.
    OSD_ALWAYS_INLINE step send(packet_header header, std::size_t payload)
    {
        const connection_data &c = q_.data;
        header.to = c.peer_pair;
        header.tag = c.peer_tag;
        header.ack = c.expected;
        write_header(buffer_->bytes, header);
        return transmit(packet_header::size + payload);
    }

private:
    OSD_ALWAYS_INLINE step transmit(std::size_t size) OSD_UNCHECKED
    {
        connection_data &c = q_.data;
        const int error =
            h_.device->send(c.peer->number, buffer_->bytes, size, h_.memory_handle, buffer_);
        if (error > 0)
            return refused(error);
        if (error == 0) {
            h_.buffers.take()->of = &q_;
            ++c.in_flight;
        }
        c.stalled_ns = 0;
        if (c.unacknowledged != 0) {
            c.unacknowledged = 0;
            q_.owing_link::unlink();
        }
        return step::sent;
    }
    step refused(int error) OSD_UNCHECKED
    {
        if (error == EAGAIN || error == ENOMEM || error == ENOBUFS)
            return step::blocked;
        dapl_log_some(failed_sends, DAPL_DBG_TYPE_ERR, "%s: sending to a peer failed: %s", h_.name,
                      std::strerror(error));
        h_.lose(q_);
        return step::failed;
    }

    hca &h_;
    qp &q_;
    pair_buffer *const buffer_;
};

step send_bare(hca &h, qp &q, const packet_header &header) OSD_REQUIRES(h.library)
{
    outgoing out(h, q);
    return out ? out.send(header, 0) : step::blocked;
}

// ---------------------------------------------------------------------------------- local memory

/// Copies bytes of the local segments, if the consumer has them registered.
bool gather(hca &h, const qp &q, const wr &w, std::uint32_t offset, std::uint32_t size,
            std::uint8_t *to) OSD_REQUIRES(h.library)
{
    const bool plain = &w == h.posting && w.total <= most_copied;
    return each_piece(h.regions, q.domain, w, offset, size,
                      [&](const region_entry &, std::uint64_t from, std::uint32_t some) {
                          const bool copied = h.copy.read(to, from, some, plain);
                          to += some;
                          return copied;
                      });
}

/// Checks the local segments of an access. All memory that is registered can be sent.
bool check_local(hca &h, const qp &q, const wr &w)
{
    return each_piece(h.regions, q.domain, w, 0, w.total,
                      [&](const region_entry &r, std::uint64_t, std::uint32_t) {
                          return !w.is_read || (r.rights & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0;
                      });
}

// -------------------------------------------------------------------------------------- requests

/// Whether the device moves the data of this request by itself: it has all segments registered.
bool goes_by_access(const hca &h, const wr &w)
{
    if (!h.traits.accesses || w.denied || w.operation == opcode::send ||
        w.total < h.traits.access_from)
        return false;
    for (unsigned i = 0; i < w.segments; ++i) {
        region_entry r;
        if (w.local[i].segment_length != 0 &&
            (!h.regions.find(w.local[i].lmr_context, r) || r.of->handle == nullptr))
            return false;
    }
    return true;
}

sent_request &log_of(connection_data &c, std::uint32_t psn)
{
    return c.log[psn % window];
}

void add(connection_data &c, wr &w, packet_kind kind, std::uint32_t offset)
{
    log_of(c, c.next_psn++) = {&w, offset, kind};
}

void whole(qp &q, wr &w)
{
    connection_data &c = q.data;
    w.last_psn = c.next_psn - 1;
    if (w.state == progress::waiting || w.state == progress::accessed)
        w.state = progress::sent;
    c.next = w.next;
}

void ask(qp &q, wr &w)
{
    connection_data &c = q.data;
    c.set(state::has_asked, true);
    w.state = progress::asked;
    w.by_access = true;
    w.id = c.next_id++;
    add(c, w, w.is_read ? packet_kind::ask_read : packet_kind::ask_write, 0);
    q.awaiting.push(w);
}

bool may_read(qp &q)
{
    return q.data.reads < q.data.reads_out;
}

bool next_read(hca &h, qp &q, wr &w)
{
    connection_data &c = q.data;
    if (!may_read(q))
        return false;
    ++c.reads;
    if (goes_by_access(h, w)) {
        ask(q, w);
    } else {
        w.id = c.next_id++;
        w.state = progress::asked;
        add(c, w, packet_kind::read, 0);
        q.awaiting.push(w);
    }
    whole(q, w);
    return true;
}

bool is_write_by_access(const hca &h, const wr &w)
{
    return !w.is_read && (w.by_access || (w.moved == 0 && goes_by_access(h, w)));
}

/// A write by an access: asks for its key, and for the keys of those behind it.
bool next_access(const hca &h, qp &q, wr &w)
{
    connection_data &c = q.data;
    if (w.state == progress::accessed) {
        add(c, w, packet_kind::done, 0);
        whole(q, w);
        return true;
    }
    wr *each = &w;
    for (std::uint32_t asked = 0; asked < max_asked_writes; ++asked) {
        if (each->state == progress::waiting) {
            ask(q, *each);
            return true;
        }
        each = each->next;
        if (each == nullptr || each->fence || !is_write_by_access(h, *each))
            return false;
    }
    return false;
}

bool next_part(qp &q, wr &w)
{
    connection_data &c = q.data;
    add(c, w, w.operation == opcode::send ? packet_kind::send : packet_kind::write, w.moved);
    w.moved += std::min(c.payload, w.total - w.moved);
    if (w.moved == w.total)
        whole(q, w);
    return true;
}

/// Gives the next packet of the requests a number; false when there is none at present.
bool next_request(hca &h, qp &q)
{
    connection_data &c = q.data;
    wr *w = c.next;
    if (w == nullptr || c.failed_request != nullptr || c.next_psn - c.acked == window)
        return false;
    if (w->fence && w->moved == 0 && w->state == progress::waiting && c.reads != 0)
        return false;
    if (w->is_read)
        return next_read(h, q, *w);
    if (is_write_by_access(h, *w))
        return next_access(h, q, *w);
    return next_part(q, *w);
}

step send_request(hca &h, qp &q, std::uint32_t psn) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    const sent_request &what = log_of(c, psn);
    wr &w = *what.w;
    outgoing out(h, q);
    if (!out)
        return step::blocked;
    packet_header header;
    header.kind = what.kind;
    header.round = c.round_out;
    header.psn = psn;
    header.id = w.id;
    header.total = w.total;
    header.offset = what.offset;
    header.key = w.remote_key;
    header.address = what.kind == packet_kind::done ? w.grant : w.remote_address;
    std::uint32_t size = 0;
    if (what.kind == packet_kind::send || what.kind == packet_kind::write) {
        size = std::min(c.payload, w.total - what.offset);
        if (!gather(h, q, w, what.offset, size, out.payload())) {
            h.fail_request(q, w, DAT_DTO_ERR_LOCAL_PROTECTION);
            return step::failed;
        }
        if (what.offset + size == w.total)
            header.flags |= flag_last;
    }
    if (w.carries_immediate) {
        header.flags |= flag_immediate;
        header.immediate = w.immediate;
    }
    return out.send(header, size);
}

// ------------------------------------------------------------------------------------- responses

step send_response(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    pending_response &r = c.response[c.first_response % max_reads];
    outgoing out(h, q);
    if (!out)
        return step::blocked;
    const std::uint32_t size = std::min(c.payload, r.total - r.sent);
    region_entry of;
    const std::uint64_t from = r.address + r.sent;
    const bool open = size == 0 || (h.regions.find(r.key, of) && of.covers(q.domain, from, size) &&
                                    (of.rights & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0);
    if (!open || !h.copy.read(out.payload(), from, size)) {
        h.refuse(q, failure::access, r.id, 0);
        return step::failed;
    }
    packet_header header;
    header.kind = packet_kind::response;
    header.id = r.id;
    header.total = r.total;
    header.offset = r.sent;
    const step done = out.send(header, size);
    if (done != step::sent)
        return done;
    r.sent += size;
    if (r.sent == r.total) {
        ++c.first_response;
        --c.responses;
    }
    return done;
}

step send_answer(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    const pending_answer &a = c.answer[c.first_answer % max_answers];
    outgoing out(h, q);
    if (!out)
        return step::blocked;
    packet_header header;
    header.kind = a.kind;
    header.id = a.id;
    header.address = a.grant; // release
    std::size_t size = 0;
    if (const grant_slot *granted = h.grants.find(a.grant); a.kind == packet_kind::grant) {
        if (granted == nullptr) { // the memory has gone since
            h.refuse(q, failure::access, a.id, 0);
            return step::failed;
        }
        const mr &memory = *granted->of;
        grant_body body;
        body.number = a.grant;
        body.key_size = memory.wide.size;
        std::memcpy(body.key, memory.wide.bytes, memory.wide.size);
        header.address = memory.wide.base - memory.address;
        size = write_grant(out.payload(), body);
    }
    const step done = out.send(header, size);
    if (done == step::sent) {
        ++c.first_answer;
        --c.answers;
    }
    return done;
}

step send_ends(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    packet_header header;
    if (c.is(state::owes_resume)) {
        header.kind = packet_kind::resume;
        header.round = c.round_in;
        header.psn = c.expected;
        const step done = send_bare(h, q, header);
        if (done == step::sent)
            c.set(state::owes_resume, false);
        return done;
    }
    header.kind = packet_kind::terminate;
    header.id = c.terminate_id;
    header.psn = c.terminate_psn;
    header.immediate = static_cast<std::uint32_t>(c.terminate_with);
    const step done = send_bare(h, q, header);
    if (done == step::sent)
        c.set(state::owes_terminate, false);
    return done;
}

/// Sends one datagram of the pair; sets `any` to false when there is none to be sent.
step send_next(hca &h, qp &q, bool &any) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    any = true;
    if (c.is(state::owes_resume) || c.is(state::owes_terminate))
        return send_ends(h, q);
    any = !c.is(state::refusing);
    if (!any)
        return step::sent;
    if (c.answers != 0)
        return send_answer(h, q);
    if (c.responses != 0)
        return send_response(h, q);
    any = c.to_send != c.next_psn || next_request(h, q);
    if (!any)
        return step::sent;
    const step done = send_request(h, q, c.to_send);
    if (done == step::sent)
        ++c.to_send;
    return done;
}

// -------------------------------------------------------------------------------------- accesses

/// Begins one access of a request that was granted; `at` is where in the request.
int begin_access(hca &h, qp &q, wr &w, const DAT_LMR_TRIPLET &local, std::uint32_t within,
                 std::uint32_t size, std::uint32_t at) OSD_REQUIRES(h.library)
{
    region_entry r;
    if (!h.regions.find(local.lmr_context, r))
        return EFAULT;
    pair_access *slot = h.accesses.take();
    if (slot == nullptr)
        return EAGAIN;
    slot->of = &q;
    slot->w = &w;
    slot->local = r.of;
    slot->peer = q.data.peer;
    slot->to = q.data.peer_pair;
    slot->tag = q.data.peer_tag;
    const fabric_access what{
        q.data.peer->number,
        !w.is_read,
        reinterpret_cast<void *>(static_cast<std::uintptr_t>(local.virtual_address + within)),
        r.of->handle,
        size,
        w.wide.base + w.remote_address + at,
        &w.wide,
        slot};
    const int error = h.device->access(what);
    if (error != 0) {
        h.accesses.give(*slot);
        return error;
    }
    slot->in_use = true;
    ++slot->peer->in_flight;
    ++r.of->uses;
    ++w.accesses;
    return 0;
}

/// Begins the accesses of a request from where it has come; false if the device takes no more now.
bool begin_accesses(hca &h, qp &q, wr &w) OSD_REQUIRES(h.library)
{
    while (w.moved != w.total) {
        std::uint32_t within = w.moved;
        unsigned i = 0;
        while (within >= w.local[i].segment_length)
            within -= static_cast<std::uint32_t>(w.local[i++].segment_length);
        const auto rest = static_cast<std::uint32_t>(w.local[i].segment_length) - within;
        const std::uint32_t size = std::min({rest, w.total - w.moved, h.traits.max_access});
        const int error = begin_access(h, q, w, w.local[i], within, size, w.moved);
        if (error == EAGAIN || error == ENOMEM)
            return false;
        if (error != 0) {
            h.fail_request(q, w,
                           error == EFAULT ? DAT_DTO_ERR_LOCAL_PROTECTION : DAT_DTO_ERR_TRANSPORT);
            return true;
        }
        w.moved += size;
    }
    return true;
}

/// Begins accesses in the order of their requests, one request at a time where the device would let
/// a later write be seen before.
bool continue_accesses(hca &h, qp &q) OSD_REQUIRES(h.library)
{
    bool earlier = false;
    for (wr *w = q.awaiting.front(); w != nullptr;) {
        wr *const after = q.awaiting.after(*w);
        const bool granted = w->by_access && w->state == progress::granted;
        const bool waits = !w->is_read && earlier && !h.traits.writes_in_order;
        if (granted && !waits && w->moved != w->total && !begin_accesses(h, q, *w))
            return false;
        if (w->by_access && !w->is_read)
            earlier = true;
        w = after;
    }
    return true;
}

} // namespace

void types::hca::pump(qp &q)
{
    connection_data &c = q.data;
    if (!c.is(state::up) || c.is(state::ended))
        return;
    bool blocked = !q.awaiting.empty() && !continue_accesses(*this, q);
    int sent = 0;
    bool any = true;
    while (!blocked && any && sent < burst) {
        switch (send_next(*this, q, any)) {
        case step::sent:
            sent += any;
            any = any && !is_quiet(c);
            break;
        case step::blocked:
            blocked = true;
            break;
        case step::failed:
            return;
        }
    }
    const bool has_a_share = buffers.left() != 0 || c.in_flight != 0;
    if (blocked && has_a_share && c.stalled_ns == 0)
        c.stalled_ns = osd::now_ns();
    if (!blocked && !any)
        return;
    if (q.ready_link::is_unlinked())
        ready.push(q);
    wake();
}

/// False when the device takes nothing more.
bool types::hca::acknowledge(qp &q)
{
    packet_header header;
    header.kind = packet_kind::acknowledge;
    const step done = send_bare(*this, q, header);
    q.owing_link::unlink();
    if (done == step::blocked)
        owing.push(q);
    return done != step::blocked;
}

namespace {

/// Sends a message of one packet and one segment, before which nothing of its pair has to be sent;
/// false where it has to wait, and for what pump() reports.
OSD_ALWAYS_INLINE bool send_at_once(hca &h, qp &q, wr &w, bool copies) OSD_REQUIRES(h.library)
{
    connection_data &c = q.data;
    if (!c.is_up_without(state::delays_sends) || !has_sent_all(c) || w.operation != opcode::send ||
        w.total > c.payload || w.fence || c.next_psn - c.acked == window ||
        c.failed_request != nullptr)
        return false;
    outgoing out(h, q);
    if (!out)
        return false;
    if (!copies || w.total > most_copied || !is_one_piece(h, q, w, w.total, 0, c.sent_from) ||
        !h.copy.read(out.payload(), w.local[0].virtual_address, w.total, true))
        return false;
    packet_header header;
    header.kind = packet_kind::send;
    header.flags = flag_last;
    header.round = c.round_out;
    header.psn = c.next_psn;
    header.total = w.total;
    if (out.send(header, w.total) != step::sent)
        return false;
    w.last_psn = c.next_psn;
    w.state = progress::sent;
    add(c, w, packet_kind::send, 0);
    c.to_send = c.next_psn;
    return true;
}

} // namespace

void types::hca::posted(qp &q, wr &w)
{
    q.requests.push(w);
    const bool copies = copies_here();
    if (!send_at_once(*this, q, w, copies))
        posted_behind(q, w, copies);
    if (sleeping)
        look_again();
}

/// Sends what was posted when its turn comes.
void types::hca::posted_behind(qp &q, wr &w, bool copies)
{
    connection_data &c = q.data;
    if (c.is(state::ended))
        return finish(w, DAT_DTO_ERR_FLUSHED);
    if (c.next != nullptr)
        return;
    c.next = &w;
    posting = copies ? &w : nullptr;
    pump(q);
    posting = nullptr;
}

/// The peer has granted an access, or has denied it, so that the data go by datagrams.
void types::hca::granted(qp &q, wr &w)
{
    if (w.state == progress::granted && !check_local(*this, q, w))
        return fail_request(q, w, DAT_DTO_ERR_LOCAL_PROTECTION);
    pump(q);
}

/// Tells a peer that this side accesses nothing of it any more; false when the device takes nothing
/// at present.
bool types::hca::give_grants_back(known_peer &peer, std::uint32_t to, std::uint64_t tag)
{
    pair_buffer *const buffer = buffers.take();
    if (buffer == nullptr)
        return false;
    packet_header header;
    header.kind = packet_kind::release;
    header.to = to;
    header.tag = tag;
    write_header(buffer->bytes, header);
    const int error =
        device->send(peer.number, buffer->bytes, packet_header::size, memory_handle, buffer);
    if (error == 0) {
        buffer->peer = &peer;
        ++peer.in_flight;
    } else {
        buffers.give(*buffer);
    }
    return error != EAGAIN;
}

namespace {

bool is_last(slots<pair_access> &accesses, const pair_access &slot)
{
    for (const pair_access &each : accesses)
        if (each.in_use && each.tag == slot.tag)
            return false;
    return true;
}

} // namespace

/// An access has ended.
void types::hca::ended(pair_access &slot, int error)
{
    if (slot.local != nullptr)
        --slot.local->uses;
    wr *const w = slot.w;
    qp *const q = slot.of;
    slot.in_use = false;
    accesses.give(slot);
    if (q == nullptr && is_last(accesses, slot))
        (void)give_grants_back(*slot.peer, slot.to, slot.tag);
    landed(*slot.peer);
    if (q == nullptr)
        return;
    --w->accesses;
    if (error != 0) {
        dapl_log_some(failed_accesses, DAPL_DBG_TYPE_ERR,
                      "%s: an RDMA access of the device failed: %s", name, std::strerror(error));
        return fail_request(*q, *w, DAT_DTO_ERR_REMOTE_ACCESS);
    }
    if (w->accesses == 0 && w->moved == w->total)
        accessed(*q, *w);
    pump(*q);
}

/// All accesses of a request have ended.
void types::hca::accessed(qp &q, wr &w)
{
    static_cast<awaiting_link &>(w).unlink();
    if (!w.is_read) {
        w.state = progress::accessed;
        return;
    }
    --q.data.reads;
    w.state = progress::finished;
    (void)answer(q, {w.grant, 0, packet_kind::release});
    complete(q);
}

/// Queues an answer; false when the peer has asked for more than it may.
bool types::hca::answer(qp &q, const pending_answer &what)
{
    connection_data &c = q.data;
    if (c.answers == max_answers)
        return false;
    c.answer[(c.first_answer + c.answers) % max_answers] = what;
    ++c.answers;
    return true;
}

// ------------------------------------------------------------------------------------ completion

namespace {

bool has_finished(const connection_data &c, const wr &w)
{
    return w.state == progress::sent ? comes_before(w.last_psn, c.acked)
                                     : w.state == progress::finished;
}

} // namespace

/// Completes the oldest requests, in their order.
void types::hca::complete(qp &q)
{
    connection_data &c = q.data;
    for (wr *w = q.requests.front(); w != nullptr && has_finished(c, *w); w = q.requests.front())
        succeed(q.requests, *w);
    if (c.failed_request != nullptr && c.failed_request == q.requests.front())
        lose(q);
}

void types::hca::acknowledged(qp &q, std::uint32_t ack)
{
    connection_data &c = q.data;
    if (!comes_before(c.acked, ack) || comes_before(c.next_psn, ack))
        return;
    c.acked = ack;
    if (comes_before(c.to_send, ack))
        c.to_send = ack;
    complete(q);
}

/// A request has failed. It completes after those before it, and the connection ends.
void types::hca::fail_request(qp &q, wr &w, DAT_DTO_COMPLETION_STATUS why)
{
    connection_data &c = q.data;
    if (c.failed_request != nullptr)
        return;
    c.failed_request = &w;
    c.failed_with = why;
    complete(q);
    lose(q);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
