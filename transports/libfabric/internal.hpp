// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared by the source files of this port; not needed by the hot path.
#pragma once

#include "cm_frame.hpp"
#include "errno_status.hpp"
#include "port.hpp"
#include "service_address.hpp"

namespace dapl::libfabric::ofi {

using port_support::port_of;

// --- hca.cpp

/// How an operation ended that failed with this libfabric error (positive).
DAT_DTO_COMPLETION_STATUS dto_status(int error);

// --- cq.cpp

/// Drains libfabric's CQ and the consumer's batch into the deferred completions, so that no later
/// poll of this CQ needs the queue pairs they belong to.
void drain(cq &c) OSD_EXCLUDES(c.lock);
/// Cancels the first receive that lies in a region and all after it, the last one first: a message
/// that comes meanwhile takes the right receive. Returns the first, or null. Doors are shut.
wr *withdraw_receives(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock);
/// Marks the requests in that region that libfabric has, as far as their success would be told.
/// False if there are none. Doors are shut.
bool mark_requests(qp &q, DAT_LMR_CONTEXT key) OSD_REQUIRES(q.lock);
/// Gives up waiting for earlier reads, which do not come back.
void release_behind_reads(qp &q);

// --- qp.cpp

/// Gives q an endpoint made for `info`; a libfabric error (negative) otherwise.
int open_endpoint(hca &device, qp &q, fi_info &info) OSD_REQUIRES(device.lock);
/// Closes an endpoint to which nothing was posted; q comes to `state`.
void drop_endpoint(hca &device, qp &q, phase state) OSD_REQUIRES(device.lock);
/// The connection stands: posts the receives that waited for it.
void go_live(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Breaks the connection, if any, and brings posted operations back.
void tear_down(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Nothing comes into this region any more. False when a message had come in part: the connection
/// has to end.
[[nodiscard]] bool forget_region(qp &q, DAT_LMR_CONTEXT key) OSD_EXCLUDES(q.lock);
/// Whether a receive has a segment there.
bool lies_in(const wr &w, DAT_LMR_CONTEXT key);
/// What its segments add to qp::recv_keys.
std::uint64_t key_bits(const wr &w);
/// Posts what waited behind a barrier, as far as it may go.
void release_fenced(qp &q) OSD_EXCLUDES(q.lock);
/// Asks the peer to confirm that everything up to now has arrived; false when that is not possible.
bool post_closing_marker(qp &q) OSD_EXCLUDES(q.lock);

// --- service.cpp

bool start_service(hca &device);
/// Sends that waited behind a barrier may go. Any thread, any lock.
void release_later(hca &device);
/// Has the service thread told of the end of q's peer. Called where libfabric leaves alone a socket
/// with a message that waits for a receive, as 2.x does: 1.17 leaves it readable.
void watch_hang_up(hca &device, qp &q) OSD_REQUIRES(device.lock) OSD_EXCLUDES(q.lock);
/// Takes the domain's descriptor out of the event queue's, into which libfabric puts it with the
/// first endpoint.
void unshare_event_queue(const hca &device);
/// Has the service thread move what comes on q's connection before that stands; or no longer.
void follow_attempt(hca &device, qp &q, bool on) OSD_REQUIRES(device.lock);
/// An operation of q failed, which ends the connection: a provider may go on, as if nothing was
/// lost. Any thread, any lock.
void break_later(qp &q);

// --- cm.cpp

/// Returns how often libfabric was called; `starved`: a connection waits for which the process has
/// no descriptor.
std::uint32_t drain_events(hca &device, bool &starved) OSD_REQUIRES(device.lock);
/// Serves a queue pair that is due: delivers its pending event, or serves its timer.
void attend(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Ends an attempt to connect without an event.
void abandon(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// The connection is over and not by our doing.
void connection_lost(hca &device, qp &q) OSD_REQUIRES(device.lock);
/// Ends the connection: something failed here. From any thread.
void break_connection(hca &device, qp &q) OSD_REQUIRES(device.lock);

// --- listener.cpp

void connection_request(hca &device, const fi_eq_cm_entry &event, std::size_t data_size)
    OSD_REQUIRES(device.lock);
/// Leaves the socket of a request alone. Called before libfabric may close it.
void stop_watching(hca &device, request &r) OSD_REQUIRES(device.lock);
/// Releases a request that was answered, and is watched no longer.
void release_request(hca &device, cr &answered) OSD_REQUIRES(device.lock);
/// Forgets requests whose senders have gone.
void forget_gone(hca &device) OSD_REQUIRES(device.lock);
/// Closes the passive endpoints that nothing can refer to any more.
void close_passives(hca &device, std::int64_t retired_before) OSD_REQUIRES(device.lock);

// --- silent.cpp

/// Opens silent_watch::sockets; `event_queue`: the descriptor of the event queue.
void find_silent_set(hca &device, int event_queue) OSD_EXCLUDES(device.lock);
/// libfabric was called so many times, and may have accepted as many connections at each listener.
void note_calls(hca &device, std::uint32_t calls) OSD_REQUIRES(device.lock);
/// Ends silent connections that are too old, and the oldest of too many. Called after note_calls.
void bound_silent(hca &device) OSD_REQUIRES(device.lock);
/// Ends all silent connections: libfabric would leave their descriptors behind.
void end_all_silent(hca &device) OSD_REQUIRES(device.lock);

// --- socket.cpp

/// Finds the socket below a passive endpoint that listens.
void find_socket(const passive &listener);
/// Ends listening there, also where a forked child has a copy of the socket.
void shut_socket(const passive &listener);
/// Finds the socket below a request; `hint`: near which descriptor.
void find_socket(request &r, int &hint);
/// Finds the socket below a connected queue pair; `hint`: near which descriptor.
void find_socket(qp &q, int &hint) OSD_EXCLUDES(q.lock);
/// Ends the conversation on the socket below q's endpoint, behind libfabric's back.
void shut_socket(qp &q) OSD_REQUIRES(q.lock);
/// Whether the peer closed or the connection failed, though data may still wait to be read.
bool hung_up(qp &q) OSD_EXCLUDES(q.lock);

} // namespace dapl::libfabric::ofi
