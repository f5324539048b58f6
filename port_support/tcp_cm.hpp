// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A connection manager over TCP, for fabrics that have none.
#pragma once

#include "connection_service.hpp"
#include "unanswered_requests.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/socket.h>

namespace dapl::DAPL_TRANSPORT {

/// What a port tells the peer's port with a request or its acceptance: where its queue pair is, and
/// what the fabric needs to reach it.
struct tcp_cm_address {
    static constexpr std::size_t max_size = 512;

    std::size_t size = 0;
    unsigned char bytes[max_size];
};

/// What the connection manager's epoll reports.
struct tcp_source : list_link {
    explicit tcp_source(bool listens) : is_listener(listens) {}

    const bool is_listener;
    bool is_watched = false;
    int fd = -1;
};

/// One TCP connection: of a stranger that has sent nothing yet, then of a request, then of a queue
/// pair. It stays open as long as the queue pair is connected: its end tells that the peer died.
struct tcp_channel;
struct close_channel {
    void operator()(tcp_channel *) const;
};
using tcp_channel_ptr = std::unique_ptr<tcp_channel, close_channel>;
struct refuse_channel { ///< closes the channel of a request; takes the lock
    void operator()(tcp_channel *) const;
};

/// Base of a port's qp.
struct tcp_connection : connection_state {
    tcp_channel_ptr channel;
    tcp_cm_address own; ///< goes with each repetition of the request
};

/// A member of a port's cr. Without an answer its end refuses the request. When the sender has gone
/// its socket is closed; accepting it fails then.
struct tcp_request {
    const tcp_cm_address &peer() const; ///< what its connect() was given

    std::unique_ptr<tcp_channel, refuse_channel> channel;
};

/// Base or member of a port's listener.
struct tcp_listener : tcp_source {
    tcp_listener() : tcp_source(true) {}

    service_point *owner = nullptr;
    DAT_CONN_QUAL qualifier = 0;
    bool waiting_logged = false; ///< that requests wait for resources
};

/// What a port does for its connection manager. All are called with connection_service::lock held.
class tcp_cm_user {
public:
    /// Hands a request to the common layer: moves it into the port's cr and calls
    /// dapls_cr_callback() by run_upcall(&listener, …). If that answers false the port moves the
    /// request back. Service thread.
    virtual bool offer(tcp_listener &, tcp_request &, const cr_params &) = 0;
    /// The peer's queue pair is known: makes this one ready to receive and to send. False fails the
    /// attempt. Service thread, or the thread that accepts.
    virtual bool bring_up(tcp_connection &, const tcp_cm_address &peer) = 0;
    /// The connection or the attempt has ended: posted operations complete as flushed before this
    /// returns, and later posts then too. A queue pair in phase idle was never connected: it takes
    /// receives again. Any thread; also called if bring_up() was not.
    virtual void tear_down(tcp_connection &) = 0;
    /// Whether tear_down() has found operations that failed. The peer may have heard of such a
    /// failure first, and have said goodbye for it: the connection is BROKEN then.
    virtual bool has_failed(tcp_connection &) { return false; }
    /// Whether all requests of a queue pair have completed, in a graceful disconnect. Service
    /// thread.
    virtual bool is_drained(tcp_connection &) = 0;

protected:
    ~tcp_cm_user() = default;
};

/// The connection manager of an adapter. Operations of the contract are calls of functions here, by
/// the caller's thread and with the function's result; the port's service thread calls serve()
/// whenever event_thread::wait() has returned:
///
///     while (!device.events.is_stopping(device.lock)) {
///         const std::int64_t due_ns = device.cm.serve();
///         for (void *tag : device.events.wait(device.lock, due_ns))
///             …; // the port's own descriptors; for &cm there is nothing to do
///     }
///
/// The active side sends its request, with private data, and waits as long as the consumer's
/// timeout says; if nothing listens yet, or the peer resets the connection before it has heard
/// the request, that is repeated with back-off for limits::connect_retry_ms. The passive side
/// accepts or rejects; it is connected when the active side has said that it is ready, and the
/// acceptance fails when that takes too long, since its process is stopped, say. A peer that ends
/// its connection says so: DISCONNECTED; without that it has died: BROKEN.
///
/// Whoever reaches the port can hold a bounded number of descriptors. Of strangers that have not
/// sent a request yet some are kept, for a bounded time; where others wait for their places
/// strangers that have sent a part go first, as an honest peer sends a whole request at once, and
/// then strangers that have been silent since patience_ms. So nobody waits longer than that for
/// silent ones, however many they are. Of requests that wait for the consumer's answer some are
/// kept as well, of one address a half of them; the others of that address are put off, and an
/// honest peer repeats them until its consumer's timeout. Beyond that connections wait in the
/// kernel's queue.
class tcp_cm {
public:
    struct limits {
        std::uint32_t connect_retry_ms = 2000; ///< how long a request is repeated
        std::uint32_t linger_ms = 2000;        ///< how long a graceful disconnect waits
        std::uint32_t ready_ms = 15'000;       ///< time for an accepted peer to become ready
        std::uint32_t stranger_ms = 5000;      ///< how long a stranger may take to send a request
        std::uint32_t patience_ms = 250; ///< time for a stranger to send a request while others
                                         ///< wait for its place
        std::uint32_t max_strangers = 64;
        /// Strangers, and requests without an answer.
        std::uint32_t max_unanswered = unanswered_requests::usual_most;
    };

    tcp_cm(connection_service &service, tcp_cm_user &user, const limits &bounds)
        : service_(service), user_(user), limits_(bounds),
          requests_(service.name, bounds.max_unanswered)
    {}
    tcp_cm(const tcp_cm &) = delete;
    tcp_cm &operator=(const tcp_cm &) = delete;
    /// The service thread has ended before.
    ~tcp_cm();

    static constexpr std::size_t max_private_data = 256;

    /// Opens the connection manager, after event_thread::open(). `address` is the adapter's. False
    /// and errno.
    [[nodiscard]] bool open(const sockaddr_storage &address);

    /// Takes arrived frames and does the work that is due; returns when to be called again at the
    /// latest, on the clock of osd::now_ns(). Service thread.
    std::int64_t serve() OSD_REQUIRES(service_.lock);

    // The operations of the contract. `own` is what the peer's bring_up() gets.

    status listen(tcp_listener &, service_point &owner, DAT_CONN_QUAL &qualifier);
    void stop_listening(tcp_listener &);
    status connect(tcp_connection &, const connect_params &, const tcp_cm_address &own);
    status accept(tcp_request &, tcp_connection &, const private_data &, const tcp_cm_address &own);
    static void reject(tcp_request &, reject_reason, const private_data &);
    void disconnect(tcp_connection &, DAT_CLOSE_FLAGS);
    void disconnect_clean(tcp_connection &);
    /// The fabric says that the connection failed: BROKEN, on both sides. Any thread.
    void fail(tcp_connection &);
    /// Ends a connection as broken, unless the peer has ended it: a fabric may tell an end in words
    /// of its own before the goodbye was heard. The next serve() delivers the event. Any thread.
    void lose(tcp_connection &) OSD_REQUIRES(service_.lock);
    /// Ends a connection, or the attempt at one, by this event, which the next serve() delivers;
    /// the peer takes the connection for broken. Any thread.
    void end(tcp_connection &, DAT_EVENT_NUMBER) OSD_REQUIRES(service_.lock);
    /// The connection manager's part of qp_reset and qp_free: ends the rest of a connection, waits
    /// for upcalls.
    void forget(tcp_connection &);

private:
    friend struct refuse_channel;

    static constexpr int batch = 64; ///< events between two looks at the timers

    void take_stranger(tcp_listener &) OSD_REQUIRES(service_.lock);
    void make_room(tcp_listener &) OSD_REQUIRES(service_.lock);
    void wait_for_answers(tcp_listener &) OSD_REQUIRES(service_.lock);
    void pause(tcp_listener &, std::int64_t until_ns) OSD_REQUIRES(service_.lock);
    void place_is_free() OSD_REQUIRES(service_.lock);
    void resume_listeners(std::int64_t now) OSD_REQUIRES(service_.lock);
    void expire_strangers(std::int64_t now) OSD_REQUIRES(service_.lock);
    tcp_channel_ptr take_out(tcp_channel &stranger) OSD_REQUIRES(service_.lock);
    void drop(tcp_channel &stranger) OSD_REQUIRES(service_.lock);
    bool hear_stranger(tcp_channel &) OSD_REQUIRES(service_.lock);
    void request_came(tcp_channel_ptr, tcp_listener &) OSD_REQUIRES(service_.lock);
    tcp_channel_ptr answered(tcp_request &) OSD_REQUIRES(service_.lock);
    void sender_has_gone(tcp_channel &) OSD_REQUIRES(service_.lock);
    void refuse(tcp_request &, reject_reason, const private_data &) OSD_REQUIRES(service_.lock);

    int try_connect(tcp_connection &) OSD_REQUIRES(service_.lock);
    void connected(tcp_connection &) OSD_REQUIRES(service_.lock);
    void attempt_failed(tcp_connection &, int error) OSD_REQUIRES(service_.lock);
    void end_attempt(tcp_connection &, DAT_EVENT_NUMBER, const private_data & = {})
        OSD_REQUIRES(service_.lock);
    void abandon(tcp_connection &) OSD_REQUIRES(service_.lock);
    void hear_peer(tcp_connection &) OSD_REQUIRES(service_.lock);
    void answer_came(tcp_connection &) OSD_REQUIRES(service_.lock);
    void end_here(tcp_connection &) OSD_REQUIRES(service_.lock);
    void peer_ended(tcp_connection &, bool said_goodbye) OSD_REQUIRES(service_.lock);
    void attend(tcp_connection &) OSD_REQUIRES(service_.lock);
    void serve_source(tcp_source &) OSD_REQUIRES(service_.lock);

    connection_service &service_;
    tcp_cm_user &user_;
    const limits limits_;
    sockaddr_storage address_{};
    int epoll_ = -1;
    list<tcp_channel, tcp_source> strangers_ OSD_GUARDED_BY(service_.lock);
    std::uint32_t stranger_count_ OSD_GUARDED_BY(service_.lock) = 0;
    unanswered_requests requests_ OSD_GUARDED_BY(service_.lock);
    list<tcp_listener, tcp_source> paused_ OSD_GUARDED_BY(service_.lock);
    std::int64_t resume_ns_ OSD_GUARDED_BY(service_.lock) = 0;
};

} // namespace dapl::DAPL_TRANSPORT
