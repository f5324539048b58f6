// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections between ranks, and requests that are not messages. Both come to the service point of
// a rank, whose thread takes them even if the program never polls.
//
// Of two ranks the lower one connects. The higher one asks it to by a connection request that is
// always rejected, so two connections never cross.
#pragma once

#include "job_context.hpp"

namespace am {

enum class connection_purpose : std::uint8_t {
    talk = 1, ///< the connection for messages and transfers
    knock,    ///< the other rank is to connect; rejected
    elect,    ///< may the sender ask all ranks to end? accepted: yes
    leave     ///< the receiver is to end; rejected: it will
};

/// The private data of every connection request. 40 bytes: some adapters carry few more.
struct hello {
    std::uint32_t magic;
    connection_purpose purpose;
    std::uint8_t unused[3];
    std::uint32_t rank;
    std::int32_t code; ///< the exit code, of elect and leave
    std::uint64_t number;
    proof shown;
};

/// The private data of what accepts or rejects a request.
struct answer {
    std::uint32_t magic;
    std::uint32_t unused;
    proof shown;
};

/// Refuses connection requests that do not come from a rank of this job. A flood is answered after
/// pauses, so that many requests are taken together.
class stranger_log {
public:
    void refuse(DAT_CR_HANDLE request, const char *why);
    /// Returns the microseconds to sleep before the next requests are taken.
    unsigned take_pause();

private:
    bool refused_ = false; ///< a request was refused since take_pause()
    std::uint64_t count_ = 0;
    std::int64_t next_report_ = 0;
};

class links {
public:
    explicit links(job_context &job) : job_(job) {}

    /// Makes the queues and starts to listen. Returns a status.
    int open(location &own);
    /// Starts the thread that serves connections. Returns a status.
    int serve();

    /// Begins to connect unless that is done. Returns whether the connection is up.
    bool ensure(peer &p) OSD_EXCLUDES(lock_, p.lock)
    {
        const link_state state = p.state.load(std::memory_order_acquire);
        if (state == link_state::up) [[likely]]
            return true;
        if (state == link_state::none)
            begin(p);
        return false;
    }

    /// Makes the words of a new request to a peer.
    hello make_hello(peer &to, connection_purpose purpose, int code) const;
    /// Returns whether that rank made the event that ends a request: the event proves that its
    /// sender knows the secret of the job.
    bool is_answered_by(const peer &p, connection_purpose purpose, std::uint64_t number,
                        const DAT_EVENT &event) const;
    /// Makes an endpoint without buffers, for requests that are not messages; `owner` may be null.
    DAT_EP_HANDLE make_plain_endpoint(DAT_EVD_HANDLE events, peer *owner) const;
    /// Returns the peer to which an endpoint leads; null if none has it.
    static peer *peer_of(DAT_EP_HANDLE ep);
    static DAT_RETURN connect(DAT_EP_HANDLE ep, const peer &p, const hello &words,
                              unsigned milliseconds);

    /// Returns how many connections have been made.
    std::uint64_t established() const { return count_; }

private:
    static void *run_thread(void *self);
    [[noreturn]] void run();

    int receives_per_peer() const { return 2 * static_cast<int>(job_.set.credits) + 1; }
    bool make_queues();
    bool make_shared_receives();
    void make_room() OSD_REQUIRES(lock_);
    DAT_EP_HANDLE make_endpoint(DAT_EVD_HANDLE events, int receives, int requests) const;
    bool make_talker(peer &p) OSD_REQUIRES(lock_, p.lock);

    void begin(peer &p) OSD_EXCLUDES(lock_, p.lock);
    void start(peer &p) OSD_REQUIRES(lock_, p.lock);
    void try_again(peer &p, DAT_EVENT_NUMBER why) OSD_REQUIRES(p.lock);
    void retry_due() OSD_EXCLUDES(lock_);

    statement statement_of(const hello &words, int to) const;
    answer make_answer(const hello &words, bool accepts) const;
    const char *doubt(const hello &words) const;
    void take_request(const DAT_EVENT &event) OSD_EXCLUDES(lock_);
    void answer_rank(DAT_CR_HANDLE request, const hello &words, peer &p)
        OSD_EXCLUDES(lock_, p.lock);
    void accept_talk(DAT_CR_HANDLE request, const hello &words, peer &p)
        OSD_EXCLUDES(lock_, p.lock);
    void answer_election(DAT_CR_HANDLE request, const hello &words) const;
    void reject(DAT_CR_HANDLE request, const hello &words) const;

    void take_event(const DAT_EVENT &event);
    void take_talk_event(peer &p, const DAT_EVENT &event) OSD_REQUIRES(p.lock);
    void take_knock_event(peer &p, const DAT_EVENT &event) OSD_REQUIRES(p.lock);
    void enter_connected(peer &p, const DAT_EVENT &event) OSD_REQUIRES(p.lock);
    void end_if_peer_is_lost();

    job_context &job_;
    osd::mutex lock_;
    DAT_EVD_HANDLE events_ = DAT_HANDLE_NULL; ///< takes connection events and requests
    DAT_PSP_HANDLE listener_ = DAT_HANDLE_NULL;
    int room_ OSD_GUARDED_BY(lock_) = 0; ///< peers that the EVDs of transfers have room for
    int used_ OSD_GUARDED_BY(lock_) = 0; ///< peers that take it
    bool receives_grow_ = false;         ///< the shared queue has room for those peers only
    std::atomic<std::uint64_t> count_{0};
    // The service thread alone uses these:
    int retries_ = 0; ///< attempts that are due at some time
    stranger_log strangers_;
};

} // namespace am
