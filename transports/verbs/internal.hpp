// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared by the source files of this port; not needed by the hot path.
#pragma once

#include "errno_status.hpp"
#include "port.hpp"
#include "service_address.hpp"

#include <optional>

namespace dapl::verbs::vrb {

using port_support::port_of;

/// Logs that a call of verbs or the connection manager failed with this errno, if it did.
inline void log_failure(const hca &device, const char *call, int error)
{
    if (error != 0)
        (void)call_failed(device.name, call, error);
}

// --- hca.cpp

inline bool is_ethernet(const hca &device)
{
    return device.port_limits.link_layer == IBV_LINK_LAYER_ETHERNET;
}

inline bool has_immediate(const hca &device)
{
    return port_features.immediate_data && !device.iwarp;
}

inline bool has_atomics(const hca &device)
{
    return port_features.atomics && device.limits.atomic_cap != IBV_ATOMIC_NONE;
}

/// Linux's siw never notifies of a CQ that was armed for solicited completions.
inline bool has_solicited(const hca &device)
{
    return port_features.solicited_wait && !device.siw;
}

/// What peers may do on a connection, where a region allows it.
inline unsigned peer_rights(const hca &device)
{
    const unsigned atomic = has_atomics(device) ? IBV_ACCESS_REMOTE_ATOMIC : 0;
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | atomic;
}

/// Lets reads of a descriptor that the libraries opened return at once. False and errno if not.
bool unblock(int fd);

// --- interface.cpp

/// A peer that were given a link-local address could not know on which link.
bool is_link_local(const sockaddr *address);
/// Finds the address that the parameters name, and the RDMA device behind it.
status find_interface(hca &device);

// --- memory.cpp

/// The remote rights among these, as IBV_ACCESS_*.
unsigned remote_access(DAT_MEM_PRIV_FLAGS privileges);

// --- cq.cpp

status open_cq(hca &device, cq &c, evd *owner, DAT_COUNT &depth);
void close_cq(cq &c);
/// Whether there is room for what one more queue pair signals for the port.
bool begin_signalling(cq &c);
void end_signalling(cq &c);
/// Whether the device of this CQ resizes CQs.
bool resizes_cqs(cq &any);
/// Drains the device's CQ and the consumer's batch into the deferred completions, so that no later
/// poll of this CQ needs the queue pairs they belong to. True when one of the queue pair with this
/// number failed other than by being flushed.
bool drain(cq &c, std::uint32_t qp_num) OSD_EXCLUDES(c.lock);
/// The channel of this CQ has an event, or not: takes it.
bool take_cq_event(cq &c);

// --- in_order.cpp

/// [siw] Polls like ibv_poll_cq, but no request comes before an RDMA read that was posted earlier.
/// Called by the consumer, or while it is excluded; the caller notes the completions before the
/// next call.
int poll_in_order(ibv_cq *handle, int most, ibv_wc *entries);
/// Forgets a queue pair that was destroyed: completions held back for it are flushed with the rest.
void forget_behind_read(cq &c, std::uint32_t qp_num) OSD_EXCLUDES(c.lock);

// --- qp.cpp

/// Ends the connection or the attempt at one without an event, and the device's work for q; brings
/// posted operations back.
void tear_down(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Posts an empty write behind all others; its completion shows that they have completed. Over siw
/// it is a read where that can be: the peer answers once its own request in progress has completed.
/// False when the device refuses it.
bool post_closing_marker(qp &q) OSD_EXCLUDES(q.lock);
/// Everything posted before the closing marker has completed or failed.
bool closing_marker_completed(qp &q) OSD_EXCLUDES(q.lock);

/// libsiw refuses a receive without segments: makes one of no bytes. The number of segments.
inline int no_bytes(ibv_sge *entries)
{
    entries[0] = {};
    return 1;
}

/// Posts by `post`, which returns an errno; `last` is the last operation of that queue.
template <class Post>
status post_slow(qp &q, cq &completes_on, wr *&last, wr &w, Post post)
{
    osd::lock_guard hold(q.lock);
    if (q.handle == nullptr) {
        w.finished = true;
        completes_on.flush(w);
        return success;
    }
    w.finished = false;
    const int error = post(q.handle);
    if (error != 0)
        return refused_post(error);
    last = &w;
    return success;
}

// --- ready.cpp

/// A word at the peer; without one the key is 0.
struct ready_place {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};
/// Makes a word that q's peer writes when it has read the answer.
ready_place await_ready(hca &device, qp &q) OSD_REQUIRES(device.lock);
bool is_peer_ready(const qp &q);
/// Stores no bytes of a region in q's zone. False if the port has none there.
bool empty_place(const qp &q, ibv_sge &out);
/// Writes the peer's word, as the first request of the connection.
void tell_ready(hca &device, qp &q, const ready_place &) OSD_REQUIRES(device.lock);
void free_ready_words(hca &device, pd &) OSD_REQUIRES(device.lock);

// --- windows.cpp

/// Closes the windows that are open to the peer of this queue pair.
void close_windows(const qp &q);

// --- srq.cpp

/// The queue pair takes receives of its SRQ from now on, or no longer.
void begin_drawing(qp &q, std::uint32_t number);
void end_drawing(qp &q);

// --- deferred.cpp

void destroy_qp(const hca &device, ibv_qp *handle);
/// Destroys a queue pair together with this connection.
void destroy_later(connection &c, ibv_qp *handle);
// Now, or with the last queue pair that uses it and waits for an answer. Its events are acked.
void destroy_cq(hca &device, ibv_cq *queue) OSD_REQUIRES(device.lock);
void destroy_srq(hca &device, ibv_srq *shared) OSD_REQUIRES(device.lock);
void destroy_pd(hca &device, ibv_pd *domain) OSD_REQUIRES(device.lock);
/// Destroys the objects of a connection that was taken off the device's list.
void destroy_rest(hca &device, const deferred_destruction &rest) OSD_REQUIRES(device.lock);

// --- service.cpp

bool start_service(hca &device);
void stop_service(hca &device);
void device_failed(hca &device) OSD_REQUIRES(device.lock);

// --- callbacks.cpp

/// Makes the domains, and starts the threads of all but the first. False and errno if not.
bool start_domains(hca &device);
void stop_domains(hca &device);
/// Makes the callbacks for CQs of the domain whose channels have an event.
void serve_callbacks(hca &device, callback_domain &domain) OSD_REQUIRES(device.lock);
/// Makes the callbacks for deferred completions, for which the device makes no event.
void call_owners_of_deferred(hca &device, callback_domain &domain) OSD_REQUIRES(device.lock);
/// The domain whose thread makes the callbacks for c.
callback_domain &domain_of(cq &c);
/// Watches the channel of c until one callback for it was made.
void arm_service(cq &c);
void watch(cq &c);
void unwatch(cq &c);

// --- cm.cpp

/// Reads one event from the channel; false when there is none.
bool take_cm_event(hca &device) OSD_REQUIRES(device.lock);
/// Serves a queue pair that is due: delivers its pending event, or serves its timer.
void attend(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Releases the connection, or the attempt at one, without an event.
void release_connection(hca &device, qp &q) OSD_REQUIRES(device.lock);
void close_connection(hca &device, connection &c) OSD_REQUIRES(device.lock);
/// The device failed the queue pair: ends its connection soon.
void break_connection(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// The device brings nothing back any more: ends the connection or attempt of a queue pair, by an
/// event that is delivered later, and flushes posted operations.
void lose_device(hca &device, qp &q) OSD_REQUIRES(device.lock);

/// RDMA reads of a connection: the peer's reads here, and ours there.
struct read_depths {
    std::uint8_t in;
    std::uint8_t out;
};
/// What the consumer wants.
read_depths wanted_reads(const qp &q);
/// The traffic class that the quality of service of q's connection asks for, or else the adapter's.
std::uint8_t traffic_class_of(const qp &q);
/// Sets how often, and after what pauses, the device repeats what the peer does not answer. The
/// timeout stays as it is, unless the parameters have one.
void set_retries(const adapter_params &tuned, ibv_qp_attr &attr);
/// Moves q to the state that `attr` names. Logs why not.
bool modify(qp &q, ibv_qp_attr &attr, int mask) OSD_REQUIRES(q.lock);
/// What both sides support. An iWARP peer that sends zeros does not negotiate.
read_depths agreed_reads(const qp &q, std::uint8_t peer_wants, std::uint8_t peer_lets);

// --- tcp.cpp: cm=tcp

/// Makes the connection manager, and chooses what connections need. Logs why not.
status open_tcp(hca &device);
/// The service thread has ended before.
void close_tcp(hca &device);
status connect_by_tcp(qp &q, const connect_params &params);
status accept_by_tcp(cr &request, qp &q, const private_data &data);
// Not checked inside: the lock of the connection manager is the device's.
/// Ends a connection, or the attempt at one, by this event, which serve_tcp() delivers.
void end_by_tcp(hca &device, qp &q, DAT_EVENT_NUMBER event) OSD_REQUIRES(device.lock);
/// Does what is due; returns when to be called again at the latest.
std::int64_t serve_tcp(hca &device) OSD_REQUIRES(device.lock);

// --- listener.cpp

/// An event and its private data, after it was given back. Events without any have the size 0.
struct cm_event : rdma_cm_event {
    unsigned char bytes[256];

    std::size_t size() const { return param.conn.private_data_len; }
};

void connection_request(hca &device, const cm_event &event) OSD_REQUIRES(device.lock);

// --- message.cpp: how private data and qualifiers travel
//
// iWARP carries private data with their length. InfiniBand pads them with zeros to what a message
// holds: 56 bytes for a request. So there
//   a request   with fewer bytes has their number in the last, and says so by asking for no flow
//               control, a bit that has no other use; one with all 56 is as it is
//   an accept   has the number in the byte behind the 56
// Over siw both are followed by what ready.cpp is for: a request by a mark, an accept of a request
// with that mark by a place and the mark.
//
// On both a reject begins with a header that tells a consumer's from the port's: a connection
// manager makes rejects of its own, without any data, as when a process ends.
//
// The low 16 bits of a qualifier are the port number that the request goes to. Where the others are
// not all 0, they stand in the request: InfiniBand, in front of the last byte, which says so;
// iWARP, in a header, which then also stands in front of data that could be taken for one.

inline constexpr std::size_t ib_data_size = 56;
inline constexpr std::size_t iwarp_data_size = 240;

struct cm_message {
    unsigned char bytes[256] = {};
    std::uint8_t size = 0;
    bool flow_control = true;
};

/// Private data that go with a request to this qualifier.
std::size_t request_room(const hca &device, DAT_CONN_QUAL qualifier);
cm_message request_message(const hca &device, const private_data &data, DAT_CONN_QUAL qualifier);
cm_message accept_message(const hca &device, const private_data &data,
                          const ready_place &place = {});
cm_message reject_message(reject_reason reason, const private_data &data);
/// Reads the private data of a connection request. `high` gets the qualifier without its low 16
/// bits.
private_data read_request(const hca &device, const cm_event &event, DAT_CONN_QUAL &high);
/// Whether the peer that sent the request will tell that it has the answer.
bool is_marked(const hca &device, const cm_event &event);
private_data read_accept(const hca &device, const cm_event &event);
/// The place that an accept names.
ready_place place_in(const hca &device, const cm_event &event);
/// Nothing when no port of this kind rejected.
std::optional<reject_reason> read_reject(const cm_event &event, private_data &data);

inline DAT_CONN_QUAL high_part(DAT_CONN_QUAL qualifier)
{
    return qualifier & ~DAT_CONN_QUAL{UINT16_MAX};
}

inline sockaddr *plain(sockaddr_storage &address)
{
    return reinterpret_cast<sockaddr *>(&address);
}

} // namespace dapl::verbs::vrb
