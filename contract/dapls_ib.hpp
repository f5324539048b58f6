// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The transport interface: what a port gives to the common DAPL layer, and what it gets from it.
//
// A port is `struct transport` in `namespace dapl::<port>`, defined in the port's `port.hpp`:
//
//     struct types { struct hca {…}; struct pd {…}; … };        // what each object is here
//     struct transport : dapls_ib<types> {                      // inherits "not supported"
//         static constexpr features claims = port_features;     // from port.toml
//         static status dapls_ib_post_send(qp &, …) { … }       // hot: in the header
//         static status dapls_ib_open_hca(hca &, …);            // slow: body in a .cpp
//     };
//
// The common layer is compiled once per port and embeds these objects in its own: a qp lives
// inside the endpoint, a cq inside the EVD, at an address that does not change between alloc and
// free. All of them are default-constructed before their alloc or open operation.
//
// Names: the common layer's own are in dapl::<port>::core. In dapl::<port> stands only what this
// header and the other headers of contract/ declare, and all the rest is free for the port. The
// objects that both sides name (adapter, endpoint, evd, service_point, shared_recv_queue,
// work_queue, datagram_peer) are declared in core and made visible here, so that a port that
// defines a class of the same name does not compile.
//
// Words used below
//   control    Called from consumer threads. The common layer may hold a lock that lines up control
//              operations of the object, and none that an upcall takes. May block for a bounded
//              time. Control operations of one object never overlap; control operations of
//              different objects do, also with hot operations. May make upcalls before it returns.
//   hot        Called from consumer threads on the data path. Shall not sleep, allocate, log, or
//              make an upcall. May take a short lock, whose holders do none of that while they hold
//              it, and may make a system call that does not wait, as a non-blocking send.
//   fence      A control operation after whose return no upcall for the object is running or will
//              come. Never called from inside an upcall. An upcall that is running at the call may
//              still call completion_notify, cq_wakeup, evd_events and cno_wakeup: the port waits
//              for it first, and then takes the object apart.
//   upcall     Called by the port, from any thread, holding no lock of the port that a control
//              or hot operation takes. Never blocks for long. The consumer's code may run inside.
//
// Progress. The common layer has no thread that drives a port. Where the device does not work by
// itself, the port makes progress in the threads that call completion_poll, completion_take,
// cq_wait or cno_wait, and in a thread of its own while no consumer calls these: a peer's RDMA and
// sends, connection events and all upcalls do not depend on calls of the consumer. A thread of the
// port sleeps while there is nothing to do.
//
// Statuses are DAT return codes (class included); numbers of arguments in them are those of the DAT
// call behind the operation, because the consumer sees them. An operation that fails leaves its
// object as it was before the call. The function that detects an error first logs it, once. Each
// operation with a status may return DAT_INSUFFICIENT_RESOURCES if memory or an object of the
// device is used up; "May return" names the other errors, or a further meaning of that one.
#pragma once

#include "dapl_status.hpp"
#include "osd_sync.hpp"

#include <dat2/dat_ib_extensions.h>
#include <dat2/udat.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifndef DAPL_TRANSPORT
#error "DAPL_TRANSPORT names the port this file is compiled for; the build defines it"
#endif

/// Raised by one whenever a port has to change. Each port asserts the value it was written for.
/// Change log; what the compiler does not ask for is in lines of its own, with the promises of
/// port.toml that it goes with and the cases that want it.
///   1  First edition.
///   2  completion_take answers a take_result, no longer whether it took one. work_request has
///      before and after in place of sequence: ports that ask which of two was posted first count
///      for themselves. A `wr` is made once and then used again: what a port leaves in it stays.
///   3  completion_notify and cq_wait take for which completions, cq_wait also for how many: a port
///      that claims neither solicited_wait nor cq_threshold gets `any` and 1. completion has
///      solicited. cq_count. hca_attr has solicited_wait: where it is false, as on a device that
///      cannot, CQs are armed for `any` and endpoints with solicited receives refused.
///      work_request has its ring_place, and qp_params says whether threads post at once, for
///      ports that claim threadsafe_post. Optional: cqeh_domains, split_poll, ep_watermarks,
///      ep_windows, send_invalidate, read_to_rmr, device_counters, qp_counters, evd_wait,
///      nth_signal, with their operations and fields.
///      - Memory that is not mapped, or not writable where that is asked for, or behind the end of
///        its file, is refused by mr_register, as osd::look_at_memory tells: MEM-14, MEM-15,
///        MEM-16, MEM-19.
///      - A waiter can be cancelled in cq_wait and cno_wait, and in no other place: sleep in an
///        osd::cancellation_point, and say has_cancellation_points in port_traits where a hot
///        operation calls one [cq_wait, cno_wait]: EVD-39, EVD-40.
///      - An RDMA read is as long as the remote segment, though the local ones may be longer:
///        DTO-40.
///   4  What ports promise of waits, arming and freed memory; no operation differs. Two names do:
///      list_link::is_unlinked was alone, and interface_search::kind was what.
///      - A handler of a signal with SA_RESTART lets cq_wait and cno_wait go on; only after one
///        without it they return interrupted, as osd::wait_readable does [cq_wait, cno_wait]:
///        EVD-59, EVD-60, CNO-50, CNO-51.
///      - A completion that comes while completion_notify runs is found by the next poll, or
///        notified: CNO-52.
///      - After mr_deregister nothing is received into the region, also by receives posted before:
///        MEM-33, MEM-34, MEM-35. Nor does a request that was posted before use it: MEM-36,
///        MEM-37, MEM-38.
///   5  Fewer operations. qp_alloc takes the srq, null for a queue pair with receives of its own:
///      qp_alloc_srq is gone. post_extended takes an extended_request, which has flags and operands
///      too, and does what post_send_invalidate and post_read_to_rmr did: they are gone.
///      work_request::operation is an opcode: opcode::send stands for DAT_DTO_SEND, rdma_write,
///      rdma_read, receive, bind and the extended operations for theirs; dto_of tells the old
///      name. cqeh_domains, direct_post, batched_poll and inline_send are features of a port alone:
///      in port.toml they go from [features] to [own_features], in code from port_features to
///      own_features. completion_of makes the completion of a plain result. Optional:
///      lockless_dequeue, without operations or fields; datagrams, whose fields stay as they are
///      in other ports.
#define DAPLS_IB_VERSION 5

namespace dapl::DAPL_TRANSPORT {

// ------------------------------------------------------------------------------------ features

/// What a port promises (its port.toml says which; each can be switched off at build time).
/// Unclaimed means: the common layer does without, or answers "model not supported". Features that
/// concern a port alone are in its own_features, a struct that is made of its port.toml.
struct features {
    // Optional parts of DAT, which cases of the suite judge; in the order of their worth to a port.
    bool srq = false;             ///< shared receive queues: srq_*, post_srq_recv, qp_alloc
    bool memory_windows = false;  ///< RMRs can be bound: mw_alloc, mw_free, mw_bind
    bool immediate_data = false;  ///< RDMA writes that carry 32 bits to a receive: post_extended
    bool atomics = false;         ///< fetch-and-add, compare-and-swap: post_extended
    bool send_invalidate = false; ///< a send can close the peer's window: post_extended,
                                  ///< mw_is_bound
    bool ep_watermarks = false;   ///< what a qp holds of an SRQ is counted and limited:
                                  ///< qp_set_watermarks, qp_recvs_held
    bool cq_resize = false;       ///< CQs change their depth while they are used: cq_resize
    bool solicited_wait = false;  ///< CQs are armed for solicited receives only
    bool ep_windows = false;      ///< windows open to the peer of one connection only: mw_bind
    bool qos = false;             ///< connections of other qualities than best effort: connect
    bool read_to_rmr = false;     ///< RDMA reads into what an RMR context names: post_extended
    bool device_counters = false; ///< the device counts errors of its own: read_counters
    bool qp_counters = false;     ///< the device counts events of each connection: read_qp_counters
    bool qp_query = false;        ///< what the device gave to a queue pair is known: qp_query
    bool datagrams = false;       ///< queue pairs that send unreliable datagrams to many peers:
                                  ///< exchange_*, post_datagram, qp_alloc

    // Savings of time, which consumers do not see; in the order of what they save.
    bool direct_event = false;    ///< fast-path poll for plain successes: completion_take
    bool split_poll = false;      ///< completion_take leaves progress to completion_progress
    bool cq_wait = false;         ///< a consumer thread can block on a CQ: cq_wait, cq_wakeup
    bool cq_threshold = false;    ///< cq_wait sleeps until there are several completions
    bool cq_count = false;        ///< completions are counted without being taken: cq_count
    bool evd_wait = false;        ///< cq_wait is for all events of an EVD: evd_events
    bool cno_wait = false;        ///< a waiter of a CNO can sleep in the port: cno_wait, cno_wakeup
    bool threadsafe_post = false; ///< several threads post to a qp at once
    bool nth_signal = false;      ///< successes are known that no signalled request follows:
                                  ///< requests_done
    bool lockless_dequeue = false; ///< completion_poll, _take and _progress neither sleep nor
                                   ///< wait: who revokes a kept claim waits for their end
};

// -------------------------------------------------------------------------------- arguments

// Objects of the common layer. A port keeps references to hand them back in upcalls.
namespace core {
class adapter;           ///< an open IA
class endpoint;          ///< an EP, owner of a qp
class evd;               ///< an event dispatcher, owner of a cq
class service_point;     ///< a PSP or RSP, owner of a listener
class shared_recv_queue; ///< an SRQ, owner of a port's srq
struct work_queue;       ///< the posted operations of one direction of an endpoint
class datagram_peer;     ///< an address exchange of an EP for datagrams, owner of an exchange
} // namespace core
using adapter = core::adapter;
using endpoint = core::endpoint;
using evd = core::evd;
using service_point = core::service_point;
using shared_recv_queue = core::shared_recv_queue;
using work_queue = core::work_queue;
using datagram_peer = core::datagram_peer;

/// Bytes that travel with connection requests and their answers. The memory is the caller's and
/// valid during the call.
struct private_data {
    const void *bytes = nullptr;
    std::size_t size = 0;
};

/// How to open an HCA.
struct hca_open_params {
    const char *name;    ///< adapter name in dat.conf
    const char *params;  ///< ia_params of that line, never null, valid during the call
    adapter *owner;      ///< the object to name in upcalls
    bool counts = false; ///< [device_counters] read_counters may follow; not where it is false
};

/// Limits and identity of an open HCA. Counts are per HCA unless said otherwise. The common layer
/// makes no more objects than max_eps, max_srqs, max_cqs, max_mrs and max_pds say; where one of the
/// last three is 0, the port names no limit. The limits are the device's: where the port does not
/// claim a feature, or it is switched off, the common layer shows it as absent.
struct hca_attr {
    const DAT_SOCK_ADDR *address = nullptr; ///< what peers connect to; lives as long as the hca
    const char *hca_name = "";              ///< name of up to 255 characters; lives as long as the
                                            ///< hca
    const char *vendor_name = "";
    DAT_UINT32 hardware_version_major = 0;
    DAT_UINT32 hardware_version_minor = 0;
    DAT_UINT32 firmware_version_major = 0;
    DAT_UINT32 firmware_version_minor = 0;
    DAT_COUNT max_eps = 0;
    DAT_COUNT max_dto_per_ep = 0; ///< limit in each direction
    DAT_COUNT max_rdma_read_per_ep_in = 0;
    DAT_COUNT max_rdma_read_per_ep_out = 0;
    DAT_COUNT max_cqs = 0;
    DAT_COUNT max_cq_depth = 0;
    DAT_COUNT max_iov_per_dto = 0;
    DAT_COUNT max_iov_per_rdma_read = 0;
    DAT_COUNT max_iov_per_rdma_write = 0;
    DAT_COUNT max_mrs = 0;
    DAT_COUNT max_pds = 0;
    DAT_COUNT max_mws = 0;
    DAT_COUNT max_srqs = 0;
    DAT_COUNT max_recv_per_srq = 0;
    DAT_VLEN max_mr_size = 0;            ///< bytes
    DAT_UINT32 max_message_size = 0;     ///< bytes
    DAT_UINT32 max_rdma_size = 0;        ///< bytes
    DAT_COUNT max_private_data_size = 0; ///< bytes, in each direction; DAT wants 64
    DAT_UINT32 spin_us = 0; ///< how long a wait in a CNO polls CQs before it sleeps; 0: not at all
    bool immediate_data = false; ///< [immediate_data] this device can
    bool atomics = false;        ///< [atomics] this device can
    bool solicited_wait = false; ///< [solicited_wait] this device can
    // A port leaves the next two as they are where each of its devices can.
    bool ep_windows = true;      ///< [ep_windows] this device can
    bool send_invalidate = true; ///< [send_invalidate] this device can
    /// [datagrams] Bytes of the longest message, without the header in front of a receive; 0: this
    /// device has no datagrams.
    DAT_UINT32 max_datagram_size = 0;
    /// [qos] The bits of DAT_QOS that connections to this device may have, besides best effort.
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
    /// Shown as provider_specific_attr. Programs look here for DAT_IB_IMMED_DATA,
    /// DAT_IB_FETCH_AND_ADD, DAT_IB_CMP_AND_SWAP and DAT_IB_UD, "TRUE" or "FALSE", before they use
    /// them, and for DAPL_AGREED_READS: whether qp_query tells the RDMA reads that both sides
    /// agreed on.
    const DAT_NAMED_ATTR *named_attrs = nullptr;
    DAT_COUNT num_named_attrs = 0;

    bool has_extension() const { return immediate_data || atomics || max_datagram_size != 0; }
};

/// The counters of a device since it was opened, under the numbers that dat_ib_query_counters has
/// for them: DCNT_IA_LNK_* and DCNT_IA_DIAG_*. A value that the device does not count stays 0.
class device_counters {
public:
    static constexpr int first = DCNT_IA_LNK_ERR_RCV;
    static constexpr int count = DCNT_IA_ALL_COUNTERS - first;

    DAT_UINT64 &operator[](int which) { return values_[which - first]; }

private:
    DAT_UINT64 values_[count] = {};
};

/// What a device has counted of a qp since that was made, by names of its own: DCNT_EP_* count
/// calls and completions only.
class qp_counters {
public:
    static constexpr std::size_t most = 24;
    struct named {
        const char *name; ///< stays where it is
        DAT_UINT64 value;
    };

    /// More than there are places for are left out.
    void add(const char *name, DAT_UINT64 value)
    {
        if (count_ != most)
            all_[count_++] = {name, value};
    }
    named *begin() { return all_; }
    named *end() { return all_ + count_; }

private:
    named all_[most];
    std::size_t count_ = 0;
};

struct mr_params {
    /// Any right but to read: the memory has to be writable.
    bool writes() const
    {
        constexpr unsigned reads = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG;
        return (static_cast<unsigned>(privileges) & ~reads) != 0;
    }
    void *address;
    DAT_VLEN length; ///< bytes, never 0
    DAT_MEM_PRIV_FLAGS privileges;
};

/// Keys of a registered region, as they stand in DAT triplets.
struct mr_keys {
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT remote = 0; ///< 0 when no remote privilege was asked for
};

/// What a memory window is to open.
struct mw_params {
    DAT_VADDR address;
    DAT_VLEN length; ///< bytes; 0: nothing
    DAT_MEM_PRIV_FLAGS privileges;
    /// [ep_windows] Only the peer of the connection that the qp has when the bind is done may use
    /// the key, and no longer than that lasts.
    bool one_connection;
};

/// What an endpoint asks of its queue pair. Depths and iov counts are within hca_attr.
struct qp_params {
    endpoint *owner; ///< the endpoint to name in upcalls
    DAT_COUNT max_recv;
    DAT_COUNT max_send;
    DAT_COUNT max_recv_iov;
    DAT_COUNT max_send_iov;
    DAT_COUNT max_rdma_read_in;
    DAT_COUNT max_rdma_read_out;
    work_queue *receiver; ///< [srq] stands for this qp in completions of shared receives
    /// [threadsafe_post] Several threads may be in post_recv at once, and several in post_send and
    /// the other posts of requests but mw_bind.
    bool concurrent_posts;
    /// [datagrams] It is never connected: receives and sends are datagrams, opcode::
    /// receive_datagram and send_datagram. It has no srq.
    bool datagrams = false;
};

/// What a device gave to a queue pair. A value that the device does not tell stays as it is.
struct qp_attr {
    DAT_UINT32 number = 0; ///< of the queue pair, as the device names it
    DAT_COUNT max_recv = 0;
    DAT_COUNT max_send = 0;
    DAT_COUNT max_recv_iov = 0;
    DAT_COUNT max_send_iov = 0;
    DAT_UINT32 max_inline = 0;       ///< bytes that travel inside a request
    DAT_COUNT max_rdma_read_in = 0;  ///< that both sides have agreed on
    DAT_COUNT max_rdma_read_out = 0; ///< that both sides have agreed on
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
};

/// What a shared receive queue is made with. The numbers are within hca_attr.
struct srq_params {
    shared_recv_queue *owner; ///< the SRQ to name in upcalls
    DAT_COUNT max_recv;
    DAT_COUNT max_recv_iov;
};

/// The operations that are posted. Consumers see them in events by the numbers of DAT_DTOS and
/// DAT_IB_DTOS, which all but the last two share.
enum class opcode : std::uint32_t {
    send = DAT_DTO_SEND,
    rdma_write = DAT_DTO_RDMA_WRITE,
    rdma_read = DAT_DTO_RDMA_READ,
    receive = DAT_DTO_RECEIVE,
    bind = DAT_DTO_BIND_MW,                        ///< [memory_windows]
    write_immediate = DAT_IB_DTO_RDMA_WRITE_IMMED, ///< [immediate_data]
    fetch_add = DAT_IB_DTO_FETCH_ADD,              ///< [atomics]
    compare_swap = DAT_IB_DTO_CMP_SWAP,            ///< [atomics]
    send_datagram = DAT_IB_DTO_SEND_UD,            ///< [datagrams]
    receive_datagram = DAT_IB_DTO_RECV_UD,         ///< [datagrams]
    send_invalidate = 64,                          ///< [send_invalidate] a send, to consumers
    read_to_rmr,                                   ///< [read_to_rmr] an RDMA read, to consumers
};

/// The name that consumers have for an operation.
constexpr DAT_DTOS dto_of(opcode what)
{
    return what == opcode::send_invalidate ? DAT_DTO_SEND
           : what == opcode::read_to_rmr   ? DAT_DTO_RDMA_READ
                                           : static_cast<DAT_DTOS>(what);
}

/// A posted operation. The common layer fills it before it posts, and owns it again once the
/// completion was polled; a request whose success is suppressed, once anything posted later on its
/// queue was polled, requests_done has counted it, or the qp is freed. Until then it stays at its
/// address. A port that needs memory per operation derives its `wr` from this struct; its
/// constructor runs once, and data that the port then leaves there stay from one operation to the
/// next.
struct work_request {
    DAT_DTO_COOKIE cookie;
    work_queue *queue; ///< the queue it was posted to
    /// The requests posted before and after it to its queue, which is a ring in which one request
    /// is always unused. Null for a shared receive. The ring may grow with a post: that changes, in
    /// the thread that posts, `after` of the request that was posted last and `before` of the
    /// unused request, which has completed.
    work_request *before;
    work_request *after;
    DAT_UINT32 length; ///< bytes, sum of the local segments; of a receive, the room it has
    opcode operation;
    bool unsignalled; ///< the common layer's: its success notifies no consumer
    /// [threadsafe_post] The number of this place in the ring, from 0; constant. Where
    /// qp_params::concurrent_posts is set, the places are a power of two above the depth, the first
    /// request of a new qp has place 0, and each next one, also after qp_reset, the next place.
    DAT_UINT32 ring_place;
};

/// What post_extended posts. The arrays are the caller's and valid during the call; a member that
/// the operation does not use is 0.
struct extended_request {
    DAT_COUNT segments = 0;                  ///< but for opcode::read_to_rmr
    const DAT_LMR_TRIPLET *local = nullptr;  ///< as many
    const DAT_RMR_TRIPLET *remote = nullptr; ///< but for opcode::send_invalidate
    DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG;
    DAT_UINT32 immediate = 0;            ///< opcode::write_immediate: arrives as this number
    DAT_UINT64 add_or_compare = 0;       ///< opcode::fetch_add: added; compare_swap: compared with
    DAT_UINT64 swap = 0;                 ///< opcode::compare_swap: stored if equal
    DAT_RMR_CONTEXT key = 0;             ///< opcode::send_invalidate: taken away from the peer
    const DAT_RMR_TRIPLET *to = nullptr; ///< opcode::read_to_rmr: the memory that is read into
};

/// The completions that a CQ is armed for.
enum class notify_on : std::uint8_t {
    any,
    solicited, ///< [solicited_wait] receives whose sender asked for it, and failures
};

/// The result of completion_take.
enum class take_result {
    other, ///< completion_poll has to be called
    empty, ///< no completion is there
    idle,  ///< [split_poll] nor here, but there may be one after completion_progress
    taken,
};

/// A finished operation, as polled from a CQ.
struct completion {
    work_request *wr;
    DAT_UINT32 length; ///< bytes received; read for opcode::receive and receive_datagram only
    DAT_DTO_COMPLETION_STATUS status;
    bool has_immediate; ///< [immediate_data] a write with immediate data took the receive
    /// The number that it carried; of opcode::receive_datagram the number of the queue pair that
    /// has sent it.
    DAT_UINT32 immediate;
    /// [srq] For a receive that was posted with post_srq_recv: qp_params::receiver of the qp that
    /// took it; null when that qp was freed since.
    work_queue *receiver;
    /// [solicited_wait] Of a receive: the message was sent with DAT_COMPLETION_SOLICITED_WAIT_FLAG,
    /// or the device does not tell.
    bool solicited;
    /// [send_invalidate] Of a receive: the key of the window that the message has closed; or 0.
    DAT_RMR_CONTEXT invalidated;
};

/// The completion of a request that brought nothing but bytes, or failed.
constexpr completion completion_of(work_request &wr, DAT_UINT32 length,
                                   DAT_DTO_COMPLETION_STATUS result = DAT_DTO_SUCCESS)
{
    return {.wr = &wr,
            .length = length,
            .status = result,
            .has_immediate = false,
            .immediate = 0,
            .receiver = nullptr,
            .solicited = false,
            .invalidated = 0};
}

struct connect_params {
    const DAT_SOCK_ADDR *address; ///< the peer's hca_attr::address; its port field is not used
    DAT_CONN_QUAL qualifier;
    DAT_TIMEOUT timeout_us; ///< the caller's own; the common layer keeps the clock
    private_data data;
    /// [qos] The quality of service of both directions, one of hca_attr::qos.
    DAT_QOS qos = DAT_QOS_BEST_EFFORT;
};

/// What arrived with a connection request.
struct cr_params {
    const DAT_SOCK_ADDR *peer; ///< valid during the upcall
    DAT_PORT_QUAL peer_port;
    private_data data;
    bool datagrams = false; ///< [datagrams] the peer asks by exchange_begin, not by connect
};

/// [datagrams] The address of a peer's queue pair, as consumers see it.
struct datagram_address {
    DAT_UINT32 number = 0;                  ///< the device's name of the queue pair
    const DAT_SOCK_ADDR *address = nullptr; ///< hca_attr::address of the peer; valid during the
                                            ///< upcall
};

enum class reject_reason {
    consumer,     ///< dat_cr_reject: the peer sees PEER_REJECTED
    non_consumer, ///< no consumer took the request: the peer sees NON_PEER_REJECTED
};

// ---------------------------------------------------------------------------------- operations

/// A port without shared receive queues names no type for them.
template <class Types>
concept names_srq = requires
{
    typename Types::srq;
};
template <class Types>
struct srq_of {
    struct type {};
};
template <names_srq Types>
struct srq_of<Types> {
    using type = typename Types::srq;
};

/// A port without memory windows need not name mw.
template <class Types>
concept names_mw = requires
{
    typename Types::mw;
};
template <class Types>
struct mw_of {
    struct type {};
};
template <names_mw Types>
struct mw_of<Types> {
    using type = typename Types::mw;
};

/// A port without datagrams names no type for an exchange of their addresses.
template <class Types>
concept names_exchange = requires
{
    typename Types::exchange;
};
template <class Types>
struct exchange_of {
    struct type {};
};
template <names_exchange Types>
struct exchange_of<Types> {
    using type = typename Types::exchange;
};

/// Properties of a port that are no features. A port overrides them by members of these names.
struct port_traits {
    /// Hot operations make calls of the C library that are cancellation points (sendmsg, write …).
    /// Cancellation is disabled around them then, as around all control operations; that takes some
    /// 30 instructions.
    static constexpr bool has_cancellation_points = false;
    /// [solicited_wait] completion::solicited tells receives apart. If false, the common layer does
    /// not poll a CQ for solicited completions, and relies on its notification.
    static constexpr bool tells_solicited = true;
};

/// Base of every port: its types, and the declarations of all operations. A port declares the
/// operations that it has anew. The required operations are deleted here. The optional operations,
/// whose text begins with the features that need them, answer "model not supported"; a port that
/// claims such a feature has to have them. check_transport, which is generated from these
/// declarations into dapls_ib_check.hpp, names at compile time what is missing or mistyped.
///
/// Types a port shall name: hca, pd, mr, cq, qp, wr (work_request or derived from it), cr,
/// listener; with srq also srq, with memory_windows also mw, with datagrams also exchange.
template <class Types>
struct dapls_ib : Types, port_traits {
    using typename Types::cq;
    using typename Types::cr;
    using typename Types::hca;
    using typename Types::listener;
    using typename Types::mr;
    using typename Types::pd;
    using typename Types::qp;
    using typename Types::wr;
    using srq = typename srq_of<Types>::type;
    using mw = typename mw_of<Types>::type;
    using exchange = typename exchange_of<Types>::type;
    using inherited = dapls_ib; ///< names the base for check_transport

    // --- HCA ---

    /// Opens the device named by params. May return DAT_INVALID_PARAMETER if the params cannot be
    /// parsed or name no device, DAT_INTERNAL_ERROR if the device does not answer. Control.
    static status dapls_ib_open_hca(hca &, const hca_open_params &) = delete;

    /// Everything made on the hca was freed before. Fence: its threads have ended on return.
    static void dapls_ib_close_hca(hca &) = delete;

    /// Limits and identity. Control; shall also work after the device failed.
    static void dapls_ib_query_hca(const hca &, hca_attr &) = delete;

    /// [device_counters] Stores what the device has counted since it was opened into an argument
    /// that is all 0. May be called concurrently with itself. Control.
    static void dapls_ib_read_counters(hca &, device_counters &) {}

    // --- protection domain ---

    /// Makes or frees a protection domain. Control. Nothing refers to the pd when it is freed.
    static status dapls_ib_pd_alloc(hca &, pd &) = delete;
    static void dapls_ib_pd_free(pd &) = delete;

    // --- memory region ---

    /// Registers [address, address + length) with the given rights. Remote reads and writes carry
    /// the plain virtual address. May return DAT_PROTECTION_VIOLATION if memory there is not mapped
    /// or cannot be used with these rights: a device that pins notices, other ports ask
    /// osd::look_at_memory. May return DAT_PRIVILEGES_VIOLATION if the device does not grant the
    /// rights to this process. Memory that is unmapped later shall fail operations, not the
    /// process, unless its own thread copies while it posts or polls. Control.
    static status dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &) = delete;

    /// Ends a region to which no window is or will be bound. On return the remote key is dead, and
    /// nothing is received into the memory any more: a message for a receive that was posted with
    /// the local key fails with LOCAL_PROTECTION, also one that had come in part, and breaks the
    /// connection. Until then such a receive keeps its place. The same goes for the sink of an RDMA
    /// read; a send or write that has not left takes no later bytes from its memory. Control.
    static void dapls_ib_mr_deregister(mr &) = delete;

    // --- completion queue ---

    /// A CQ for at least `depth` completions; stores the depth it really has. With [evd_wait] each
    /// EVD has one; if nothing completes to the EVD, its CQ has the depth 0, and is only waited on.
    /// Control.
    static status dapls_ib_cq_alloc(hca &, cq &, evd &owner, DAT_COUNT &depth) = delete;

    /// No qp refers to it any more. Fence for dapl_evd_dto_callback.
    static void dapls_ib_cq_free(cq &) = delete;

    /// Takes the oldest completion; false when there is none. May return false for a completion
    /// that a thread of the port is still adding, and for later completions, but not once the end
    /// of their connection was reported, or disconnect_clean, qp_reset or qp_free has returned: the
    /// caller takes false to mean then that none is left. Completions of one queue of one qp come
    /// in post order. Every posted operation comes back exactly once, failures always, and
    /// successes unless they were posted with DAT_COMPLETION_SUPPRESS_FLAG. Hot. One thread at a
    /// time per cq.
    static bool dapls_ib_completion_poll(cq &, completion &) = delete;

    /// [direct_event] Fast-path poll. Returns `taken` if the oldest completion is a plain success
    /// (no immediate data, not posted with post_srq_recv) that takes at most one call of the
    /// device; stores its work request and, of a receive, the bytes received. Returns `empty` if
    /// the CQ is empty, as `false` of completion_poll; with [split_poll] `idle` if it is, and
    /// completion_progress may change that. Returns `other` if the caller has to call
    /// completion_poll. Hot; together with completion_poll one thread at a time per cq.
    static take_result dapls_ib_completion_take(cq &, work_request *&, DAT_UINT32 &)
    {
        return take_result::other;
    }

    /// [split_poll] Called after `idle` of completion_take: makes the progress that completion_poll
    /// makes before it finds the CQ empty. True when a completion is there now. Hot; as
    /// completion_poll.
    static bool dapls_ib_completion_progress(cq &) { return true; }

    /// Asks for one dapl_evd_dto_callback after the next completion of this kind is added. Whether
    /// it also fires for completions already there is up to the port: the caller polls again after
    /// it. A request for `any` holds beside one for `solicited`. Hot (system calls are allowed: it
    /// comes before sleeping). Any thread.
    static void dapls_ib_completion_notify(cq &, notify_on) = delete;

    /// [cq_count] How many completions the CQ holds, counted up to `limit`; takes none. Hot;
    /// together with completion_poll one thread at a time per cq.
    static DAT_COUNT dapls_ib_cq_count(cq &, DAT_COUNT /*limit*/) { return 0; }

    /// [cq_wait] Sleeps until the CQ holds `threshold` completions ([cq_threshold]; otherwise it is
    /// 1) or, with `solicited`, a solicited one; until cq_wakeup is called or the deadline passes;
    /// may also return early. `interrupted` when a handler of a signal ran that was installed
    /// without SA_RESTART (osd::wait_readable knows); after others the sleep goes on. One thread at
    /// a time, the thread that polls. Inbound traffic is served during the sleep. The thread can be
    /// cancelled in it where the port sleeps in an osd::cancellation_point; osd::undo_if_cancelled
    /// names what the port has to undo then.
    static osd::wait_result dapls_ib_cq_wait(cq &, notify_on, DAT_COUNT /*threshold*/,
                                             osd::deadline)
    {
        return osd::wait_result::woken;
    }

    /// [cq_wait] Makes the present or the next cq_wait return. Any thread; shall not block.
    static void dapls_ib_cq_wakeup(cq &) {}

    /// [evd_wait] The number of events of other streams that the EVD holds, which is 0 at first,
    /// changes by this. For cq_wait each of them counts as a completion does, a solicited one if it
    /// waits for these: more of them end a sleep when there are enough. Several threads at once:
    /// the sum may be negative in between. Any thread; shall not block.
    static void dapls_ib_evd_events(cq &, int /*change*/) {}

    /// [cno_wait] Sleeps until a CQ that completion_notify was called for has a completion, makes
    /// the callbacks for such CQs on this thread, and returns; also when cno_wakeup is called or
    /// the deadline passes; may return early. `interrupted` as in cq_wait. One thread at a time
    /// per hca. All other upcalls, and these while no thread is in cno_wait, are made by
    /// a thread of the port. Cancellation as in cq_wait.
    static osd::wait_result dapls_ib_cno_wait(hca &, osd::deadline)
    {
        return osd::wait_result::woken;
    }

    /// [cno_wait] Makes the present or the next cno_wait return. Any thread; shall not block.
    static void dapls_ib_cno_wakeup(hca &) {}

    /// [cq_resize] Changes the depth to at least `depth`; stores the real one. Completions in the
    /// CQ, and those added during the call, stay in order; an armed CQ stays armed. Control, but
    /// makes no upcall and waits for none; no thread polls or waits during the call.
    /// May return DAT_INVALID_STATE if the CQ holds more than `depth` completions.
    static status dapls_ib_cq_resize(cq &, DAT_COUNT & /*depth*/) { return not_supported; }

    // --- queue pair ---

    /// Makes a queue pair, not connected, to which receives can be posted at once. A null cq means:
    /// nothing will be posted there. With `shared`, which is null where the port does not claim
    /// srq, it takes its receives from there; it is never reset then: the common layer frees it and
    /// makes a new one. Control.
    static status dapls_ib_qp_alloc(pd &, qp &, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &) = delete;

    /// Frees the queue pair. A connected qp is disconnected abruptly first, and the peer sees
    /// DISCONNECTED; an attempt to connect or accept is abandoned, as by disconnect_clean. Posted
    /// operations need not complete: no completion of this qp is added to a CQ after the return.
    /// Completions added before may still be polled. Fence.
    static void dapls_ib_qp_free(qp &) = delete;

    /// Returns the qp to the state after qp_alloc. disconnect or disconnect_clean was called for it
    /// before, and the peer sees the end of the connection that these cause, nothing more. Nothing
    /// of the old connection acts on the next one. As with qp_free, posted operations need not
    /// complete, and completions added before may still be polled. Fence.
    static status dapls_ib_qp_reset(qp &) = delete;

    /// [qp_counters] Adds what the device has counted of the qp since it was made, a qp_reset or
    /// not, to an argument that is empty. Control.
    static void dapls_ib_read_qp_counters(qp &, qp_counters &) {}

    /// [qp_query] Stores what the device gave to a qp, from the upcall of ESTABLISHED on, into an
    /// argument that has what was asked for. Shall not block. Any thread, also during a control
    /// operation of the same qp that is not a fence, and in an upcall.
    static void dapls_ib_qp_query(qp &, qp_attr &) {}

    // --- shared receive queue ---

    /// [srq] Makes a shared receive queue. Control.
    static status dapls_ib_srq_alloc(pd &, srq &, const srq_params &) { return not_supported; }

    /// [srq] Frees the queue, to which no qp refers any more. Receives that no qp has taken do not
    /// complete. Fence.
    static void dapls_ib_srq_free(srq &) {}

    /// [srq] Changes the depth. Control, also concurrently with hot operations of this srq.
    static status dapls_ib_srq_resize(srq &, DAT_COUNT /*max_recv*/) { return not_supported; }

    /// [srq] Asks for one dapl_srq_limit_callback when fewer receives than this are left; 0 asks
    /// for none. Control.
    static status dapls_ib_srq_set_limit(srq &, DAT_COUNT /*low_watermark*/)
    {
        return not_supported;
    }

    /// [srq] Posts a receive. Hot. One thread at a time per srq. Otherwise as post_recv.
    static status dapls_ib_post_srq_recv(srq &, wr &, DAT_COUNT /*segments*/,
                                         const DAT_LMR_TRIPLET *)
    {
        return not_supported;
    }

    /// [ep_watermarks] Limits how many receives of its srq a qp holds: it holds one from when it
    /// takes it for a message until the completion is polled. One dapl_ep_watermark_callback when
    /// it holds more than `soft`; the connection is broken, by a callback that says so, where a
    /// message would need more than `hard`. Both at once if it holds more already. A new qp has no
    /// limits, which is what DAT_WATERMARK_INFINITE means. Control.
    static void dapls_ib_qp_set_watermarks(qp &, DAT_COUNT /*soft*/, DAT_COUNT /*hard*/) {}

    /// [ep_watermarks] How many it holds. Any thread.
    static DAT_COUNT dapls_ib_qp_recvs_held(const qp &) { return 0; }

    // --- memory window ---

    /// [memory_windows] A window that is bound to nothing. Control.
    static status dapls_ib_mw_alloc(pd &, mw &) { return not_supported; }

    /// [memory_windows] On return its key is dead. A bind of it that is still posted fails.
    /// Control.
    static void dapls_ib_mw_free(mw &) {}

    /// [memory_windows] Posts wr.operation, opcode::bind: binds the window to a part of the mr,
    /// or to nothing if the length is 0, with the mr then null. Stores the key it will have, 0 for
    /// nothing: the consumer may use it in its next post. Once the bind is done the key before is
    /// dead; a bind that fails leaves the window as it was, or bound to nothing. After that, or
    /// when a posted bind went with its queue pair, the common layer frees the window and takes
    /// another before it binds again. The mr is not freed before the bind has completed or the
    /// window was freed. Hot, but may allocate. Otherwise as post_send; always one thread at a time
    /// per qp, and none in post_send.
    static status dapls_ib_mw_bind(qp &, wr &, mw &, mr *, const mw_params &, DAT_COMPLETION_FLAGS,
                                   DAT_RMR_CONTEXT & /*key*/)
    {
        return not_supported;
    }

    /// [send_invalidate] Of a window whose bind, which gave it this key, is done: false once a peer
    /// has invalidated it. At the latest when the receive is polled that says so. Any thread.
    static bool dapls_ib_mw_is_bound(mw &, DAT_RMR_CONTEXT /*key*/) { return true; }

    // --- data ---

    /// Posts wr.operation: send, RDMA write or RDMA read; `remote` is null for a send. `segments`
    /// may be 0. The arrays are the caller's and valid during the call.
    ///
    /// A write moves as many bytes as the local segments have, at most remote->segment_length. A
    /// read moves remote->segment_length bytes, which the local segments have room for; where they
    /// have more, the rest is not written.
    ///
    /// The qp is or was connected: after a disconnect the operation completes as flushed. One
    /// thread at a time per qp, concurrently with one in post_recv. May return
    /// DAT_INSUFFICIENT_RESOURCES if the device's queue is full. Hot.
    ///
    /// [threadsafe_post] With qp_params::concurrent_posts several threads at once, each with a
    /// request of its own. Requests are executed in the order of their places, which may differ
    /// from the order of the calls: a request whose predecessor is not posted yet waits for it, its
    /// thread does not. The post does not fail; no more is posted than the qp was made for.
    static status dapls_ib_post_send(qp &, wr &, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                     const DAT_RMR_TRIPLET *remote,
                                     DAT_COMPLETION_FLAGS flags) = delete;

    /// Posts a receive, in every state of the qp; after a disconnect it completes as flushed. One
    /// thread at a time per qp, concurrently with one in post_send. Otherwise, also with
    /// [threadsafe_post], as post_send. Hot.
    static status dapls_ib_post_recv(qp &, wr &, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local) = delete;

    /// [nth_signal] Called when all requests of the queue are posted: `oldest` is the first that
    /// has not come back, and `most` how many there are. Returns how many of them, from `oldest` on
    /// without a gap, were posted with DAT_COMPLETION_SUPPRESS_FLAG and are known to have
    /// succeeded: they will not be polled. It is not 0 for ever if all were posted so: the device
    /// signals every nth. May take completions from the device, which come with later polls. As
    /// post_send, but without others beside it also with [threadsafe_post]. Hot.
    static DAT_COUNT dapls_ib_requests_done(qp &, wr & /*oldest*/, DAT_COUNT /*most*/) { return 0; }

    /// [immediate_data, atomics, send_invalidate, read_to_rmr] Posts wr.operation, if the feature
    /// of its name is claimed. Otherwise as post_send.
    ///
    /// write_immediate is an RDMA write that takes a receive of the peer. fetch_add and
    /// compare_swap have one local segment of 8 bytes and a remote address aligned to 8.
    ///
    /// send_invalidate is a send that also takes a key away from the peer: the key of a window of
    /// its protection domain, open to this connection. The receive completes when the key is dead.
    /// With any other key the message fails, and the connection with it. With [ep_windows] a device
    /// may treat the keys of windows so that are open to more than one connection.
    ///
    /// read_to_rmr is an RDMA read of remote->segment_length bytes into memory that a remote key of
    /// this side names, of a region or a window with the right to remote writes. `to` is not
    /// shorter than `remote`.
    static status dapls_ib_post_extended(qp &, wr &, const extended_request &)
    {
        return not_supported;
    }

    /// [datagrams] Posts wr.operation, opcode::send_datagram, to the peer that an exchange in this
    /// protection domain has brought. The message is not longer than
    /// hca_attr::max_datagram_size. It completes when it has left; whether it arrives is not known.
    /// A request that completes with an error ends nothing else. In every state of the qp; after
    /// disconnect_clean it completes as flushed. Otherwise as post_send; of the arrays of the
    /// request the local one is used.
    ///
    /// A receive of a datagram begins with a header of 40 bytes, which the device fills, and its
    /// length includes them. A datagram that finds no receive, or a receive that is too short, is
    /// dropped, and holds nobody up.
    static status dapls_ib_post_datagram(qp &, wr &, exchange & /*to*/, const extended_request &)
    {
        return not_supported;
    }

    // --- connection ---

    /// Listens on the qualifier; if it is 0, on a free one, which is stored there. Requests may be
    /// handed up before it returns. May return DAT_CONN_QUAL_IN_USE if the qualifier has a
    /// listener, DAT_INVALID_PARAMETER if the transport has no such qualifier,
    /// DAT_PRIVILEGES_VIOLATION if this process may not use it. Control.
    static status dapls_ib_setup_conn_listener(hca &, listener &, service_point &owner,
                                               DAT_CONN_QUAL &qualifier) = delete;

    /// Stops listening. Fence for dapls_cr_callback. Requests already handed up stay valid.
    static void dapls_ib_remove_conn_listener(listener &) = delete;

    /// Starts connecting; does not wait for the peer. After success the port makes exactly one
    /// dapl_evd_connection_callback: ESTABLISHED, PEER_REJECTED, NON_PEER_REJECTED, UNREACHABLE or
    /// TIMED_OUT. If the attempt fails, the receives posted before complete as flushed before that
    /// callback. May return DAT_INVALID_ADDRESS if the address is of the wrong kind. Control.
    static status dapls_ib_connect(qp &, const connect_params &) = delete;

    /// Accepts a request with this qp. On success the cr is used up, and the port makes exactly one
    /// callback: ESTABLISHED, or ACCEPT_COMPLETION_ERROR if the peer is gone or has abandoned the
    /// attempt. Control.
    static status dapls_ib_accept_connection(cr &, qp &, const private_data &) = delete;

    /// Refuses a request, whose peer may be gone; uses up the cr. Control.
    static void dapls_ib_reject_connection(cr &, reject_reason, const private_data &) = delete;

    /// Ends an established connection. Graceful lets posted requests complete first, abrupt does
    /// not; abrupt may follow graceful. Requests that have not completed then are flushed. After
    /// ESTABLISHED each connection makes exactly one callback that ends it: DISCONNECTED, whichever
    /// side began, or BROKEN if it failed; for a connection that its consumer has disconnected, the
    /// common layer makes both DISCONNECTED. Completions that are not flushed can be polled before
    /// that callback. Control.
    static void dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS) = delete;

    /// Abandons an attempt begun with connect or accept, and flushes posted operations: they have
    /// completed on return. The port begins no callback for the attempt afterwards; one that is
    /// running may still reach the common layer, which drops it. qp_reset or qp_free follows before
    /// the qp is used again.
    ///
    /// The peer may still hold the request: its accept ends in ACCEPT_COMPLETION_ERROR or, where
    /// the transport cannot withdraw a request, in ESTABLISHED and then DISCONNECTED. A peer that
    /// waits for the answer to its own request has its attempt fail, at the latest at its timeout.
    /// If the connection was established, the peer sees DISCONNECTED as after an abrupt disconnect.
    /// On a qp that was never connected only the receives are flushed.
    ///
    /// Shall not block. Any thread, also during a control operation of the same qp that is not a
    /// fence, and in an upcall.
    static void dapls_ib_disconnect_clean(qp &) = delete;

    // --- datagrams ---

    /// [datagrams] Asks a listener for the address of a queue pair there, and tells it the address
    /// of this one; several at a time. Otherwise as connect: after success the port makes exactly
    /// one dapl_datagram_peer_callback, for the object that it was given. Control.
    static status dapls_ib_exchange_begin(exchange &, qp &, datagram_peer &, const connect_params &)
    {
        return not_supported;
    }

    /// [datagrams] Answers a request with the address of this qp; as accept_connection. The
    /// callback has the address of the peer. Control.
    static status dapls_ib_exchange_accept(exchange &, cr &, qp &, datagram_peer &,
                                           const private_data &)
    {
        return not_supported;
    }

    /// [datagrams] Ends or abandons an exchange. The address that it has brought stays good. Fence
    /// for dapl_datagram_peer_callback.
    static void dapls_ib_exchange_end(exchange &) {}

    /// [datagrams] Frees an exchange that was begun or accepted, and its address, to which nothing
    /// is sent any more. After exchange_end. Control.
    static void dapls_ib_exchange_free(exchange &) {}
};

// ------------------------------------------------------------------------------------- upcalls

/// A connection request came in. The common layer moves the cr out and answers true, or answers
/// false and the port refuses the request as non_consumer. `port_cr` is the port's cr.
template <class Cr>
bool dapls_cr_callback(service_point &, Cr &port_cr, const cr_params &);

/// Something happened to the connection of an endpoint; see connect, accept and disconnect. `data`
/// are the private data of the peer's accept or reject.
void dapl_evd_connection_callback(endpoint &, DAT_EVENT_NUMBER, const private_data &data);

/// [datagrams] An exchange is over: ESTABLISHED, with the address of the peer; PEER_REJECTED,
/// NON_PEER_REJECTED, UNREACHABLE, TIMED_OUT or ACCEPT_COMPLETION_ERROR without. `data` as above.
void dapl_datagram_peer_callback(datagram_peer &, DAT_EVENT_NUMBER, const private_data &data,
                                 const datagram_address &);

/// A completion was added to the CQ of this EVD after completion_notify.
void dapl_evd_dto_callback(evd &);

/// [srq] Fewer receives are left than srq_set_limit named.
void dapl_srq_limit_callback(shared_recv_queue &);

/// [ep_watermarks] The qp holds more receives of its srq than the soft high watermark, which is not
/// armed any more.
void dapl_ep_watermark_callback(endpoint &);

/// The CQ lost completions and is unusable.
void dapl_evd_cq_async_error_callback(evd &);

/// The queue pair failed outside any operation.
void dapl_evd_qp_async_error_callback(endpoint &);

/// The whole HCA failed: it completes nothing any more. Without it the port ends all that has
/// begun: established connections as BROKEN, a disconnect under way as DISCONNECTED, attempts as
/// UNREACHABLE, accepts as ACCEPT_COMPLETION_ERROR; posted operations come back flushed, which
/// wakes the waits for them. New calls answer at once, by an error or by such an event, and every
/// object can be freed. When the device is back, open_hca opens it again, whether the failed HCA
/// has been closed or not.
void dapl_evd_un_async_error_callback(adapter &);

// --------------------------------------------------------------------------------------- check

/// Holds the claims of a port against each other. dapls_ib_check.hpp, which is generated from the
/// declarations above, holds its operations against the contract.
template <class T>
struct check_claims {
    static_assert(T::claims.cq_wait || !T::claims.cq_threshold,
                  "the port claims cq_threshold without cq_wait");
    static_assert(T::claims.cq_threshold || !T::claims.evd_wait,
                  "the port claims evd_wait without cq_threshold");
    static_assert(T::claims.direct_event || !T::claims.split_poll,
                  "the port claims split_poll without direct_event");
    static_assert(T::claims.memory_windows || !T::claims.ep_windows,
                  "the port claims ep_windows without memory_windows");
    static_assert(T::claims.memory_windows || !T::claims.send_invalidate,
                  "the port claims send_invalidate without memory_windows");
    static_assert(!T::claims.datagrams || names_exchange<T>,
                  "the port claims datagrams without naming a type exchange");
    static_assert(T::claims.srq || !T::claims.ep_watermarks,
                  "the port claims ep_watermarks without srq");
};

} // namespace dapl::DAPL_TRANSPORT
