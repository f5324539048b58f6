// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A port to a device without connections: its types, and its hot path.
//
// The vendor's port.hpp is
//
//     struct transport : unconnected::port {
//         static constexpr features claims = port_features;
//     };
//
// and its other file defines make_fabric(). README.md of this folder tells how the layer works.
#pragma once

#include "datagram.hpp"
#include "fabric.hpp"
#include "guarded_copy.hpp"
#include "send_pool.hpp"

#include "connection_service.hpp"
#include "dapls_ib.hpp"
#include "key_table.hpp"
#include "local_interface.hpp"
#include "named_attributes.hpp"
#include "tcp_cm.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace dapl::DAPL_TRANSPORT::unconnected {

inline constexpr unsigned max_segments = 4;
inline constexpr std::uint32_t window = 32; ///< requests without acknowledgement
inline constexpr std::uint32_t max_reads = 16;
inline constexpr std::uint32_t max_asked_writes = 12; ///< accesses that are asked for ahead
inline constexpr std::uint32_t max_grants = 1024;     ///< limit of an adapter
/// Largest message that the thread copies itself which posts it, or which polls for it.
inline constexpr std::uint32_t most_copied = 4096;

/// What make_fabric() answers. Addresses are for the connection manager, which uses TCP.
struct fabric_setup {
    char interface[64] = {}; ///< name of a network interface, or an address
    std::uint32_t family = 4;
    std::uint32_t spin_us = 20; ///< how long a wait in a CNO polls before it sleeps
    std::uint32_t linger_ms = 2000;
    std::uint32_t connect_retry_ms = 2000;
    std::uint32_t stall_ms = 10'000; ///< how long the device may take nothing for a peer
    std::uint32_t safe_copies = 0;   ///< 1: the system copies short messages, too
    /// How long a peer without connections is known: it may come back, and late sends may end.
    std::uint32_t peer_stays_ms = 1000;
    const char *vendor = "";
    char provider[64] = {}; ///< shown as DAT_IB_PROVIDER_NAME
    /// Further attributes, up to one without a name; the texts are kept.
    DAT_NAMED_ATTR named[4] = {};
    std::unique_ptr<fabric> device;
};

/// Reads ia_params and opens the device; logs why not. The port's author writes it.
status make_fabric(const char *params, fabric_setup &out);

struct failed_link : list_link {};
struct ready_link : list_link {};
struct owing_link : list_link {};
struct starved_link : list_link {};
struct ending_link : list_link {};
struct awaiting_link : list_link {};
struct low_link : list_link {};
struct offered_link : list_link {};

struct types {
    struct hca;
    struct pd {
        hca *of = nullptr;
    };
    struct mr;
    struct qp;
    struct wr;
    struct srq;
    struct cq : list_link { ///< linked in hca::called
        hca *of = nullptr;
        evd *owner = nullptr;
        fifo<wr> done;
        bool armed = false;
    };
    struct cr {
        tcp_request request;
        hca *of = nullptr;
    };
    struct listener : tcp_listener {
        hca *of = nullptr;
    };
};

/// What a key opens.
struct region_entry {
    std::uint64_t address;
    std::uint64_t length;
    types::mr *of;
    types::pd *domain;
    std::uint32_t rights; ///< DAT_MEM_PRIV_FLAGS

    /// Whether all these bytes are in the region, which is one of this domain.
    bool covers(const types::pd *of_domain, std::uint64_t from, std::uint64_t size) const
    {
        return domain == of_domain && size <= length && from - address <= length - size;
    }
};

struct types::mr {
    hca *of = nullptr;
    std::uint32_t key = 0;
    std::uint32_t uses = 0; ///< accesses of this side, and grants
    void *handle = nullptr; ///< names it on a device with accesses
    std::uint64_t address = 0;
    fabric_key wide;
};

enum class progress : std::uint8_t {
    waiting, ///< nothing was sent
    asked,   ///< has asked for the key
    granted,
    accessed, ///< a write can be seen
    sent,     ///< all packets have a number
    finished, ///< a read has its data
};

/// A posted operation, in a queue of its qp and then of its cq.
struct types::wr : work_request, awaiting_link {
    wr *next = nullptr;
    qp *of = nullptr;
    cq *reported_to = nullptr;
    DAT_LMR_TRIPLET local[max_segments];
    std::uint8_t segments = 0;
    bool silent = false;
    bool fence = false;
    bool carries_immediate = false; ///< a write; or it took a receive
    bool by_access = false;
    bool denied = false; ///< the peer has no key for an access
    bool is_read = false;
    progress state = progress::waiting;
    DAT_DTO_COMPLETION_STATUS result = DAT_DTO_SUCCESS;
    std::uint32_t immediate = 0;
    std::uint32_t total = 0;    ///< bytes to move
    std::uint32_t moved = 0;    ///< bytes that have a packet, or that have come
    std::uint32_t last_psn = 0; ///< set when it is `sent`
    std::uint32_t id = 0;       ///< number of a question to the peer
    std::uint32_t accesses = 0; ///< number of accesses that have not ended
    std::uint32_t remote_key = 0;
    std::uint64_t remote_address = 0;
    std::uint64_t grant = 0;
    fabric_key wide; ///< what the grant says
    work_queue *receiver = nullptr;
};

/// A request in the window, from which its packet is made, again if need be.
struct sent_request {
    types::wr *w = nullptr;
    std::uint32_t offset = 0;
    packet_kind kind{};
};

/// A read of the peer.
struct pending_response {
    std::uint32_t id = 0;
    std::uint32_t key = 0;
    std::uint32_t total = 0;
    std::uint32_t sent = 0;
    std::uint64_t address = 0;
};

/// An answer without data.
struct pending_answer {
    std::uint64_t grant = 0;
    std::uint32_t id = 0;
    packet_kind kind{};
};
/// What the peer may have asked for, and grants of its own that are given back.
inline constexpr std::uint32_t max_answers = 2 * max_reads + 2 * max_asked_writes;

/// A request that came before its turn.
struct held_packet {
    held_packet *next = nullptr;
    std::uint32_t size = 0;
    std::uint8_t *bytes = nullptr;
};

/// The region that a queue of a pair used last, so that the next message, which is mostly in the
/// same one, needs no search. It is good while no region was removed.
struct recent_region {
    std::uint32_t key = 0;
    std::uint32_t removals = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;

    bool covers(std::uint64_t from, std::uint64_t size) const
    {
        return size <= length && from - address <= length - size;
    }
};

/// States of a connection, several at once. A new one has none.
namespace state {
enum bit : unsigned {
    up = 1,       ///< the peer is known
    ended = 2,    ///< posted operations are flushed
    refusing = 4, ///< a request of the peer has failed: it will end the connection
    owes_resume = 8,
    owes_terminate = 16,
    has_asked = 32,  ///< for grants, which the peer may hold
    starved = 64,    ///< waits for a receive, and drops requests
    receiving = 128, ///< the first receive has a part of a message
};
/// States in which no message is sent by its post.
inline constexpr unsigned delays_sends = ended | refusing | owes_resume | owes_terminate;
/// States in which no message is taken in one step.
inline constexpr unsigned delays_receives = ended | refusing | starved | receiving;
} // namespace state

/// What a connection knows. A new one begins with a new tag.
struct connection_data {
    unsigned states = 0; ///< several state::bit
    bool is(state::bit which) const { return (states & which) != 0; }
    void set(state::bit which, bool on) { states = on ? states | which : states & ~which; }
    /// Whether it is up, and in none of these states.
    bool is_up_without(unsigned others) const
    {
        return (states & (others | state::up)) == state::up;
    }

    known_peer *peer = nullptr; ///< counts this connection
    std::uint32_t peer_pair = 0;
    std::uint64_t peer_tag = 0;
    std::uint64_t tag = 0;
    std::uint32_t reads_out = 1;
    std::uint32_t payload = 0; ///< bytes of data in a datagram
    recent_region sent_from;
    recent_region received_in;

    // Members for packets that go out.
    types::wr *next = nullptr; ///< first request without its last packet
    std::uint32_t acked = 0;
    std::uint32_t to_send = 0;
    std::uint32_t next_psn = 0;
    std::uint32_t next_id = 1;
    std::uint16_t round_out = 0;
    std::uint32_t reads = 0;     ///< number of reads that have not finished
    std::uint32_t in_flight = 0; ///< datagrams that the device has not sent yet
    std::int64_t stalled_ns = 0; ///< the device takes nothing since then; 0: it does
    types::wr *failed_request = nullptr;

    // Members for packets that come in.
    std::uint32_t expected = 0;
    std::uint32_t unacknowledged = 0; ///< requests since the last acknowledgement
    held_packet *held = nullptr;
    std::uint16_t round_in = 0;
    std::uint32_t responses = 0;
    std::uint32_t answers = 0;
    std::uint32_t first_response = 0;
    std::uint32_t first_answer = 0;

    // Members that few messages need are behind the others.
    DAT_DTO_COMPLETION_STATUS failed_with = DAT_DTO_SUCCESS;
    std::uint32_t terminate_id = 0;
    std::uint32_t terminate_psn = 0;
    failure terminate_with{};
    std::int64_t ends_by_ns = 0;
    sent_request log[window];
    pending_response response[max_reads];
    pending_answer answer[max_answers];
};

/// Calls copy(region, address, bytes) for each piece of this part of the local segments. False if
/// the consumer has not registered one, or where the call answers false.
template <class Copy>
inline bool each_piece(const port_support::key_table<region_entry> &regions,
                       const types::pd *domain, const types::wr &w, std::uint32_t offset,
                       std::uint32_t size, Copy copy)
{
    for (unsigned i = 0; size != 0 && i < w.segments; ++i) {
        const DAT_LMR_TRIPLET &each = w.local[i];
        const auto length = static_cast<std::uint32_t>(each.segment_length);
        if (offset >= length) {
            offset -= length;
            continue;
        }
        const std::uint32_t some = size < length - offset ? size : length - offset;
        const std::uint64_t at = each.virtual_address + offset;
        region_entry r;
        if (!regions.find(each.lmr_context, r) || !r.covers(domain, at, some) || !copy(r, at, some))
            return false;
        size -= some;
        offset = 0;
    }
    return size == 0;
}

/// Whether all requests were sent, and all that the peer has asked for.
inline bool has_sent_all(const connection_data &c)
{
    return c.next == nullptr && c.to_send == c.next_psn && (c.answers | c.responses) == 0;
}

/// Whether nothing is to be sent for this connection.
inline bool is_quiet(const connection_data &c)
{
    return (c.states & (state::owes_resume | state::owes_terminate)) == 0 && has_sent_all(c);
}

struct types::qp : tcp_connection, failed_link, ready_link, owing_link, starved_link, ending_link {
    hca *of = nullptr;
    pd *domain = nullptr;
    cq *recv_cq = nullptr;
    cq *send_cq = nullptr;
    srq *shared = nullptr;
    work_queue *receiver = nullptr;
    std::uint32_t reads_in = 1;
    std::uint32_t max_reads_out = 1;
    std::uint32_t index = 0;
    bool leaves = false; ///< being freed or reset: failures are not reported
    // Guarded by hca::library.
    fifo<wr> requests;
    fifo<wr> receives;
    list<wr, awaiting_link> awaiting; ///< requests that wait for answers
    connection_data data;
};

struct types::srq : low_link, offered_link {
    hca *of = nullptr;
    shared_recv_queue *owner = nullptr;
    fifo<wr> receives;
    std::uint32_t count = 0;
    std::uint32_t limit = 0; ///< 0: no callback
    list<qp, starved_link> starved;
    std::int64_t offers_ns = 0; ///< when the next pair is told of receives that nobody took
};

using pair_buffer = send_buffer<types::qp>;
using pair_access = access_slot<types::qp, types::wr, types::mr>;

/// What a peer may access now.
struct grant_slot {
    std::uint32_t generation = 0;
    types::mr *of = nullptr;   ///< null: it is free
    std::uint64_t tag = 0;     ///< names the connection whose peer has it
    std::int64_t ended_ns = 0; ///< that connection ended then; 0: it has not
    grant_slot *next = nullptr;
};

struct free_memory {
    void operator()(void *memory) const { std::free(memory); }
};
template <class T>
using zeroed = std::unique_ptr<T[], free_memory>;

/// Queue pairs by their numbers.
class pair_table {
public:
    static constexpr std::uint32_t most = 1u << 16;

    [[nodiscard]] bool open();
    /// False when there are too many.
    [[nodiscard]] bool add(types::qp &pair);
    void remove(types::qp &pair) { all_[pair.index] = nullptr; }
    types::qp *find(std::uint32_t index) const { return index < most ? all_[index] : nullptr; }

private:
    zeroed<types::qp *> all_;
    std::uint32_t next_ = 0;
};

/// A peer, which has its number as long as anything needs that.
struct known_peer : list_link {
    fabric_peer number = 0;
    std::uint32_t connections = 0;
    std::uint32_t in_flight = 0; ///< accesses, and datagrams of connections that have ended
    std::int64_t idle_ns = 0;    ///< its last connection ended then
    bool cancelled = false;      ///< what is in flight was, since then
    fabric_name name;
};

/// Peers by their names.
class peer_table {
public:
    /// Counts a connection to a peer; asks the device for the number of one that is not known. Zero
    /// or an errno.
    int connect(fabric &device, const fabric_name &name, known_peer *&out);
    /// A connection has ended. True for the last one of the peer, which is idle now.
    bool disconnect(known_peer &peer, std::int64_t now);
    /// Peers without connections, in the order of the ends of these.
    known_peer *first_idle() { return idle_.front(); }
    known_peer *next_idle(known_peer &peer) { return idle_.after(peer); }
    /// Forgets an idle peer to which nothing is in flight, if the device does.
    void forget(fabric &device, known_peer &peer);
    ~peer_table();

private:
    using peers = list<known_peer, list_link>;

    static known_peer *find(peers &among, const fabric_name &name);

    peers known_; ///< have connections, or the device has kept them
    peers idle_;
};

/// Grants of keys to peers.
class grant_table {
public:
    [[nodiscard]] bool open() { return slots_.open(max_grants); }
    /// Time after the end of its connection in which a peer has stopped to access, or is dead.
    static constexpr std::int64_t peers_stop_ns = 2'000'000'000;

    /// The number of a new grant, which counts as a use of the memory; 0 when there are too many.
    std::uint64_t add(types::mr &memory, std::uint64_t tag);
    const grant_slot *find(std::uint64_t number) { return slot_of(number); }
    /// Ends a grant, if it is one of the connection with this tag.
    void remove(std::uint64_t number, std::uint64_t tag);
    /// The peer of a connection accesses nothing any more.
    void remove_all(std::uint64_t tag);
    /// A connection has ended, at this time: its peer gives the grants back that it has.
    void connection_ended(std::uint64_t tag, std::int64_t now);
    /// Ends the grants to this memory, or with null to any, of peers that have stopped.
    void end_stopped(const types::mr *memory);
    /// Ends all grants to this memory.
    void end_all(const types::mr &memory);

private:
    grant_slot *slot_of(std::uint64_t number);
    void end(grant_slot &slot);

    slots<grant_slot> slots_;
};

struct types::hca : connection_service, tcp_cm_user {
    // What the connection manager asks of the port, with `lock` held: unconnected_cm.cpp
    bool offer(tcp_listener &, tcp_request &, const cr_params &) override OSD_REQUIRES(lock);
    bool bring_up(tcp_connection &, const tcp_cm_address &peer) override;
    void tear_down(tcp_connection &) override;
    void end_accesses(qp &) OSD_EXCLUDES(library);
    bool is_drained(tcp_connection &) override;

    // Progress: unconnected_progress.cpp
    bool take_events(const cq *wanted = nullptr) OSD_REQUIRES(library);
    void poll_for(const cq &) OSD_REQUIRES(library);
    void finish(wr &, DAT_DTO_COMPLETION_STATUS) OSD_REQUIRES(library);
    void succeed(fifo<wr> &of, wr &oldest) OSD_REQUIRES(library);
    void call_soon(cq &) OSD_REQUIRES(library);
    bool find_recent(const qp &, std::uint32_t key, std::uint32_t right, recent_region &)
        OSD_REQUIRES(library);
    void lose(qp &) OSD_REQUIRES(library);
    void call_soon(srq &) OSD_REQUIRES(library);
    void look_again() OSD_REQUIRES(library);
    void wake() OSD_REQUIRES(library);
    void flush_acknowledgements() OSD_REQUIRES(library);
    std::int64_t serve_device() OSD_REQUIRES(lock);
    std::int64_t look_at_device() OSD_REQUIRES(lock, library);
    void tell() OSD_REQUIRES(library);
    bool leaves_device() OSD_REQUIRES(lock);

    void detach(qp &) OSD_REQUIRES(library);
    void landed(known_peer &) OSD_REQUIRES(library);

    /// Says whether a consumer's thread is here, which may get a fault as if it had copied itself.
    bool copies_here() const { return setup.safe_copies == 0 && !events.is_current(); }

    // Requests and answers that are sent: requester.cpp
    bool acknowledge(qp &) OSD_REQUIRES(library);
    void posted(qp &, wr &) OSD_REQUIRES(library);
    void posted_behind(qp &, wr &, bool copies) OSD_REQUIRES(library);
    void pump(qp &) OSD_REQUIRES(library);
    void granted(qp &, wr &) OSD_REQUIRES(library);
    void ended(pair_access &, int error) OSD_REQUIRES(library);
    void accessed(qp &, wr &) OSD_REQUIRES(library);
    bool give_grants_back(known_peer &, std::uint32_t to, std::uint64_t tag) OSD_REQUIRES(library);
    bool answer(qp &, const pending_answer &) OSD_REQUIRES(library);
    void acknowledged(qp &, std::uint32_t ack) OSD_REQUIRES(library);
    void complete(qp &) OSD_REQUIRES(library);
    void fail_request(qp &, wr &, DAT_DTO_COMPLETION_STATUS) OSD_REQUIRES(library);

    // Datagrams that have come: responder.cpp
    void arrived(const std::uint8_t *bytes, std::size_t size) OSD_REQUIRES(library);
    void arrived_unusual(const std::uint8_t *bytes, std::size_t size) OSD_REQUIRES(library);
    void receives_came(qp &) OSD_REQUIRES(library);
    void offer_receives(srq &) OSD_REQUIRES(library);
    void refuse(qp &, failure, std::uint32_t id, std::uint32_t psn) OSD_REQUIRES(library);

    fabric_setup setup;
    local_interface interface;
    named_attributes attributes;
    std::unique_ptr<tcp_cm> cm;

    /// Guards the device, and all that its events change. The last lock.
    osd::mutex library;
    std::unique_ptr<fabric> device;
    fabric_traits traits;
    fabric_name name_on_fabric;
    guarded_copy copy;
    port_support::key_table<region_entry> regions;
    std::uint32_t removals OSD_GUARDED_BY(library) = 0; ///< of regions
    pair_table pairs OSD_GUARDED_BY(library);
    peer_table peers OSD_GUARDED_BY(library);
    grant_table grants OSD_GUARDED_BY(library);
    slots<pair_buffer> buffers OSD_GUARDED_BY(library);
    slots<pair_access> accesses OSD_GUARDED_BY(library);
    slots<held_packet> holds OSD_GUARDED_BY(library);
    zeroed<std::uint8_t> memory; ///< memory of the buffers
    zeroed<std::uint8_t> held_memory;
    void *memory_handle = nullptr;
    list<cq, list_link> called OSD_GUARDED_BY(library);      ///< their callback is due
    list<qp, failed_link> failed OSD_GUARDED_BY(library);    ///< their connection is lost
    list<qp, ready_link> ready OSD_GUARDED_BY(library);      ///< wait for the device
    list<qp, owing_link> owing OSD_GUARDED_BY(library);      ///< owe an acknowledgement
    list<qp, ending_link> ending OSD_GUARDED_BY(library);    ///< wait for the peer's end
    list<srq, low_link> low OSD_GUARDED_BY(library);         ///< their callback is due
    list<srq, offered_link> offered OSD_GUARDED_BY(library); ///< a pair was told of receives
    /// A consumer posts this now, or polls this queue: its thread copies short messages.
    const wr *posting OSD_GUARDED_BY(library) = nullptr;
    const cq *polling OSD_GUARDED_BY(library) = nullptr;
    std::atomic<std::uint32_t> armed{0};      ///< number of armed CQs
    std::atomic<bool> polled{false};          ///< by a consumer, a moment ago
    std::atomic<bool> has_news{false};        ///< something is in `called`, `low` or `failed`
    bool paused OSD_GUARDED_BY(lock) = false; ///< the service thread left the device to consumers
    unsigned skipped OSD_GUARDED_BY(lock) = 0;
    bool sleeping OSD_GUARDED_BY(library) = false; ///< the thread, until the descriptor is readable
    bool watching OSD_GUARDED_BY(library) = true;
    std::int64_t pause_ns OSD_GUARDED_BY(lock) = 0;
};

using hca = types::hca;
using pd = types::pd;
using mr = types::mr;
using cq = types::cq;
using qp = types::qp;
using wr = types::wr;
using srq = types::srq;

/// Finishes the oldest operation of a queue, which has done what it was posted for.
OSD_ALWAYS_INLINE void hca::succeed(fifo<wr> &of, wr &oldest)
{
    of.drop();
    cq &c = *oldest.reported_to;
    oldest.result = DAT_DTO_SUCCESS;
    if (oldest.silent)
        return;
    c.done.push(oldest);
    if (c.armed)
        call_soon(c);
}

/// Says whether all these bytes are the first of the only segment, which the consumer has
/// registered with this right. `recent` is the region that was found for this right last. False
/// where each_piece() has to look.
OSD_ALWAYS_INLINE bool is_one_piece(hca &h, const qp &q, const wr &w, std::uint32_t size,
                                    std::uint32_t right, recent_region &recent)
    OSD_REQUIRES(h.library)
{
    const DAT_LMR_TRIPLET &only = w.local[0];
    return w.segments == 1 && size <= only.segment_length &&
           ((recent.key == only.lmr_context && recent.removals == h.removals) ||
            h.find_recent(q, only.lmr_context, right, recent)) &&
           recent.covers(only.virtual_address, size);
}

/// The operations of the contract. A port inherits them.
struct port : dapls_ib<types> {
    /// Devices make system calls through the C library.
    static constexpr bool has_cancellation_points = true;

    // unconnected_hca.cpp
    static status dapls_ib_open_hca(hca &, const hca_open_params &);
    static void dapls_ib_close_hca(hca &);
    static void dapls_ib_query_hca(const hca &, hca_attr &);

    // unconnected_memory.cpp
    static status dapls_ib_pd_alloc(hca &, pd &);
    static void dapls_ib_pd_free(pd &) {}
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &);
    static void dapls_ib_mr_deregister(mr &);

    // unconnected_progress.cpp
    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth);
    static void dapls_ib_cq_free(cq &);
    static status dapls_ib_cq_resize(cq &, DAT_COUNT &depth);

    // unconnected_qp.cpp
    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &);
    static void dapls_ib_qp_free(qp &);
    static status dapls_ib_qp_reset(qp &);
    static status dapls_ib_srq_alloc(pd &, srq &, const srq_params &);
    static void dapls_ib_srq_free(srq &);
    static status dapls_ib_srq_resize(srq &, DAT_COUNT) { return success; }
    static status dapls_ib_srq_set_limit(srq &, DAT_COUNT low_watermark);

    // unconnected_cm.cpp
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &owner,
                                               DAT_CONN_QUAL &qualifier);
    static void dapls_ib_remove_conn_listener(listener &);
    static status dapls_ib_connect(qp &, const connect_params &);
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &);
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &);
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS);
    static void dapls_ib_disconnect_clean(qp &);

    // The hot path.

    static bool dapls_ib_completion_poll(cq &c, completion &out)
    {
        hca &h = *c.of;
        osd::lock_guard hold(h.library);
        h.polled.store(true, std::memory_order_relaxed);
        if (c.done.empty())
            h.poll_for(c);
        wr *const oldest = c.done.pop();
        if (oldest == nullptr)
            return false;
        out = completion_of(*oldest, oldest->moved, oldest->result);
        out.receiver = oldest->receiver;
        if (oldest->operation == opcode::receive) {
            out.has_immediate = oldest->carries_immediate;
            out.immediate = oldest->immediate;
        }
        return true;
    }

    static void dapls_ib_completion_notify(cq &c, notify_on)
    {
        hca &h = *c.of;
        osd::lock_guard hold(h.library);
        if (!c.armed)
            ++h.armed;
        c.armed = true;
        if (!h.sleeping)
            h.events.kick();
    }

    static status dapls_ib_post_send(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
    {
        begin(q, w, segments, local);
        w.carries_immediate = false;
        request(w, remote, flags);
        return post(q, w);
    }

    static status dapls_ib_post_extended(qp &q, wr &w, const extended_request &what)
    {
        if (w.operation != opcode::write_immediate)
            return not_supported;
        begin(q, w, what.segments, what.local);
        w.carries_immediate = true;
        w.immediate = what.immediate;
        request(w, what.remote, what.flags);
        return post(q, w);
    }

    static status dapls_ib_post_recv(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
    {
        begin(q, w, segments, local);
        receive(w);
        w.reported_to = q.recv_cq;
        hca &h = *q.of;
        osd::lock_guard hold(h.library);
        q.receives.push(w);
        if (q.data.is(state::ended))
            h.finish(w, DAT_DTO_ERR_FLUSHED);
        else if (q.data.is(state::starved))
            h.receives_came(q);
        return success;
    }

    static status dapls_ib_post_srq_recv(srq &s, wr &w, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *local);

private:
    static void begin(qp &q, wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
    {
        w.of = &q;
        fill(w, segments, local);
        w.receiver = nullptr;
    }
    static void fill(wr &w, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
    {
        w.segments = static_cast<std::uint8_t>(segments);
        w.total = 0;
        for (DAT_COUNT i = 0; i < segments; ++i) {
            w.local[i] = local[i];
            w.total += static_cast<std::uint32_t>(local[i].segment_length);
        }
        w.moved = 0;
        w.id = 0;
        w.accesses = 0;
        w.state = progress::waiting;
    }
    static void receive(wr &w) { w.is_read = w.silent = w.fence = w.carries_immediate = false; }
    static void request(wr &w, const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags)
    {
        w.silent = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
        w.fence = (flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0;
        w.is_read = w.operation == opcode::rdma_read;
        w.by_access = w.denied = false;
        if (remote == nullptr)
            return;
        w.remote_address = remote->virtual_address;
        w.remote_key = remote->rmr_context;
        const auto there = static_cast<std::uint32_t>(remote->segment_length);
        if (w.is_read || there < w.total)
            w.total = there;
    }
    static status post(qp &q, wr &w)
    {
        w.reported_to = q.send_cq;
        hca &h = *q.of;
        osd::lock_guard hold(h.library);
        h.posted(q, w);
        return success;
    }
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
