// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EP: one end of a reliable connection. Its queue pair and posting are in queue_pair.hpp; here are
// the states, the connection and its events.
//
// Two locks. control_ lines up the consumer's slow calls on this endpoint and is held while the
// port works. lock_ guards the state against upcalls and is held for a few instructions only, never
// while the port or the consumer is called. Posting takes neither.
//
// A change of state and the event that reports it are one step under lock_ (transition). The event
// is delivered afterwards, without a lock (deliver), because consumer code may run then that frees
// the endpoint.
#pragma once

#include "event_queue.hpp"
#include "osd_address.hpp"
#include "queue_pair.hpp"
#include "timer.hpp"

#include <dat2/dat_ib_extensions.h>

namespace dapl::DAPL_TRANSPORT::core {

inline constexpr std::size_t private_data_limit = 256; ///< bytes kept of what a peer sends

/// What a connect asks for, as the consumer gave it.
struct connect_request {
    const DAT_SOCK_ADDR *address;
    DAT_CONN_QUAL qualifier;
    DAT_TIMEOUT timeout_us;
    private_data data;
    DAT_QOS qos;
};

/// A connection request to accept.
struct incoming_request {
    transport::cr &port_cr;
    const DAT_SOCK_ADDR *peer;
    DAT_PORT_QUAL peer_port;
    bool reserves_endpoint; ///< the endpoint came with it, and waits for it in a state of its own
};

// The peers of a datagram endpoint: it is never connected, and stays in the state UNCONNECTED. A
// connect or accept exchanges addresses with one peer, and there may be any number of peers. An
// exchange and the address that it has brought are one object, behind two handles of the consumer:
// the context of the event, for dat_ib_ud_cm_free, and the address handle, for dat_ib_ud_ah_free.
// The object is destroyed when both are freed, or with its endpoint. In datagram_peers.cpp.

class datagram_peer : public object {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::peer;
    static constexpr std::size_t data_limit = 256; ///< bytes kept of what a peer sends
    static bool is_kind(mark kind) { return kind == mark::peer; }

    datagram_peer(const DAT_PROVIDER *vector, adapter &owner, endpoint &of, bool calls,
                  const pz *zone);

    /// From the port.
    void exchanged(DAT_EVENT_NUMBER event, const private_data &data, const datagram_address &peer);

private:
    friend class datagram_peers;

    struct outcome {
        user_of<evd> target;
        bool stored = false;
    };
    bool conclude(DAT_EVENT_NUMBER event, const private_data &data, const datagram_address &peer,
                  outcome &made);
    DAT_EVENT event_of(DAT_EVENT_NUMBER event, const datagram_address &peer);
    void note_begun();
    bool withdraw();
    void end_exchange();
    void free_address();
    deferred_call timed_out();

    struct timer : timer_record {
        datagram_peer *peer;
    };

    endpoint &ep_;
    const bool calls_; ///< it was begun here
    const pz *const zone_;
    transport::exchange exchange_;
    timer timeout_;
    bool pending_ = true; ///< no event was made yet; guarded by the lock of the endpoint
    bool made_ = false;   ///< the port has an exchange to be freed
    bool begun_ = false;  ///< and one to be ended
    std::atomic<bool> context_lives_{false};
    std::atomic<bool> address_lives_{false};
    datagram_peer *next_ = nullptr;
    std::uint8_t data_[data_limit]; ///< the private data of the peer
};

/// A member of each endpoint. Its calls take the control lock of the endpoint.
class datagram_peers {
public:
    explicit datagram_peers(endpoint &owner) : ep_(owner) {}

    /// Whether the endpoint is one of datagrams.
    bool in_use() const;
    bool any() const { return first_ != nullptr; }
    status connect(const connect_request &wanted);
    status accept(const incoming_request &request, const private_data &data);
    /// Abandons the exchanges that are under way, without events.
    void abandon();
    /// Ends all exchanges and addresses. The control lock is held.
    void end();
    /// The context of an event, and an address handle, are freed; the status is about argument 2.
    status free_context(const void *context);
    status free_address(const DAT_IB_ADDR_HANDLE *address);
    /// Posts a datagram; the status is by the arguments of dat_ib_post_send_ud.
    template <class Safety>
    status post(const DAT_IB_ADDR_HANDLE *address, const extended_request &wanted,
                DAT_DTO_COOKIE cookie);

private:
    /// Null when it is no address that this endpoint can send to.
    datagram_peer *find(const DAT_IB_ADDR_HANDLE *address) const;
    status check(const datagram_peer *to, const extended_request &wanted) const;
    status begin(const connect_request &wanted, datagram_peer::outcome &made);
    status ready() const;
    datagram_peer *add(bool calls);
    void remove(datagram_peer &gone);
    void sweep();
    datagram_peer *owned(const void *handle) const;

    endpoint &ep_;
    datagram_peer *first_ = nullptr;
};

class endpoint : public queue_pair {
public:
    static constexpr std::size_t slab_size = 32;
    static constexpr object_type pool = object_type::ep;
    static bool is_kind(mark kind) { return kind == mark::ep; }

    endpoint(const DAT_PROVIDER *vector, adapter &owner, const DAT_EP_ATTR &attr,
             const ep_objects &objects, DAT_EP_STATE first);

    // --- the consumer's slow calls ---

    status set_up() OSD_EXCLUDES(control_);
    status modify(const DAT_EP_ATTR &attr, const ep_objects &objects, bool zone_changes)
        OSD_EXCLUDES(control_, lock_);
    status connect(const connect_request &wanted) OSD_EXCLUDES(control_, lock_);
    status connect_like(endpoint &model, DAT_TIMEOUT timeout_us, const private_data &data,
                        DAT_QOS qos) OSD_EXCLUDES(control_, lock_);
    status accept(const incoming_request &request, const private_data &data)
        OSD_EXCLUDES(control_, lock_);
    status disconnect(DAT_CLOSE_FLAGS flags) OSD_EXCLUDES(control_, lock_);
    status reset() OSD_EXCLUDES(control_, lock_);
    /// Reports an operation_failed, unless its timer has done so, or after reset() or shut_down(),
    /// which cancel the timer. The caller makes the returned call without locks.
    deferred_call report_failure() OSD_EXCLUDES(lock_);
    /// Ends everything; the endpoint may be destroyed afterwards.
    void shut_down() OSD_EXCLUDES(control_, lock_);
    /// Attributes are what was asked for or, with `agreed`, what a connection has of it.
    void fill(DAT_EP_PARAM &out, bool agreed) OSD_EXCLUDES(control_, lock_);
    /// Counts the receives that the endpoint holds: all that are posted to it or, with a shared
    /// queue, the receives that it took.
    status count_receives(DAT_COUNT &count) OSD_EXCLUDES(control_);
    status set_watermarks(DAT_COUNT soft, DAT_COUNT hard) OSD_EXCLUDES(control_);
    /// What its device counts by itself.
    void read_device(qp_counters &now) OSD_EXCLUDES(control_);

    /// Moves from one state to another, for service points. False when it is not in the first.
    bool change_state(DAT_EP_STATE from, DAT_EP_STATE to) OSD_EXCLUDES(lock_);
    /// The adapter that owns our connect EVD closes: connection events are dropped from now on.
    void forget_connect_evd_of(const adapter &closing) OSD_EXCLUDES(lock_);

    // --- from below; see queue_owner.hpp for the last three ---

    void connection_changed(DAT_EVENT_NUMBER event, const private_data &data) OSD_EXCLUDES(lock_);
    void watermark_passed();
    bool awaits_establish_on(const evd &events) OSD_EXCLUDES(lock_);
    void operation_failed() OSD_EXCLUDES(lock_);
    void end_failures() OSD_EXCLUDES(lock_);

private:
    friend class datagram_peer;
    friend class datagram_peers;

    struct pending_event;
    bool transition(DAT_EVENT_NUMBER event, const private_data &data, pending_event &made)
        OSD_EXCLUDES(lock_);
    void deliver(const pending_event &made) OSD_EXCLUDES(lock_);
    bool fail_locally(DAT_EVENT_NUMBER event, pending_event &made) OSD_EXCLUDES(lock_);
    bool enter_state_after(DAT_EVENT_NUMBER event, const private_data &data, bool port_knows)
        OSD_REQUIRES(lock_);
    bool store_event(evd *target, DAT_EVENT_NUMBER event, const private_data &data)
        OSD_REQUIRES(lock_);
    void notify_or_report_overflow(evd *target, bool stored);

    status begin_connect(const connect_request &wanted, pending_event &outcome)
        OSD_EXCLUDES(control_, lock_);
    DAT_EP_STATE ask_for_end() OSD_EXCLUDES(lock_);
    status disconnect_locked(DAT_CLOSE_FLAGS flags, pending_event &outcome)
        OSD_EXCLUDES(control_, lock_);
    status flush_unconnected() OSD_REQUIRES(control_) OSD_EXCLUDES(lock_);
    status ready_to_connect() OSD_EXCLUDES(lock_);
    void remember_peer(const DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier) OSD_REQUIRES(lock_);
    void set_state(DAT_EP_STATE next) OSD_REQUIRES(lock_);

    void start_timer(osd::deadline until);
    deferred_call connect_timed_out() OSD_EXCLUDES(lock_);

    ep_objects objects() OSD_EXCLUDES(lock_);
    void set_connect_evd(evd *events) OSD_EXCLUDES(lock_);
    status attach_with(const DAT_EP_ATTR &attr, const ep_objects &objects) OSD_EXCLUDES(lock_);

    osd::mutex control_;
    osd::mutex lock_;
    user_of<evd> connect_evd_ OSD_GUARDED_BY(lock_); ///< possibly of another open adapter
    attempt attempt_ OSD_GUARDED_BY(lock_);          ///< counted in connect_evd_

    struct timer : timer_record {
        endpoint *ep;
    };
    timer connect_timeout_;
    timer failure_; ///< due at once: reports an operation_failed
    user_of<evd> failure_target_ OSD_GUARDED_BY(lock_); ///< EVD in which BROKEN was stored
    bool failure_stored_ OSD_GUARDED_BY(lock_) = false; ///< false: there was no room
    bool failure_unreported_ OSD_GUARDED_BY(lock_) = false;
    bool cleaning_ OSD_GUARDED_BY(lock_) = false; ///< a failure is inside disconnect_clean
    osd::condition cleaned_;

    /// The consumer has asked for the end of this connection: it comes as DISCONNECTED.
    bool end_asked_ OSD_GUARDED_BY(lock_) = false;
    bool broken_stored_ OSD_GUARDED_BY(lock_) = false; ///< BROKEN came before the consumer asked

    osd::address remote_address_ OSD_GUARDED_BY(lock_);
    DAT_CONN_QUAL remote_qualifier_ OSD_GUARDED_BY(lock_) = 0;
    bool peer_known_ OSD_GUARDED_BY(lock_) = false;
    std::uint8_t peer_data_[private_data_limit]; ///< valid until reset or free

public:
    datagram_peers datagrams{*this};
    osd::mutex modifying; ///< held by dat_ep_modify, from reading the present values to its end
    endpoint_counters counters; // last member: far from the hot members
};

/// Notifies an EVD in which an event is stored, or had no room, once no lock is held: a proxy agent
/// may run.
deferred_call notify_later(adapter &ia, user_of<evd> &&target, bool stored);

/// Values for a consumer that gives no attributes; within what the adapter can do.
DAT_EP_ATTR default_ep_attr(const hca_attr &limits);

} // namespace dapl::DAPL_TRANSPORT::core
