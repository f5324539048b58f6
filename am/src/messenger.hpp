// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Active messages: credits, and handlers.
//
// Of M credits a request takes one, and what gives it back is a reply or a count in any later
// message. M receives stand on each connection. Before a request one more is posted, for the
// message that brings its credit back, unless there is a spare one: a credit that came with
// another message leaves one.
#pragma once

#include "message.hpp"
#include "peer.hpp"

#include <array>
#include <atomic>

namespace am {

class messenger;

} // namespace am

/// The message for which a handler is running.
struct dapl_am_token {
    am::messenger &receiver;
    am::peer *from; ///< null: this rank itself
    bool request;
    bool replied;
};

namespace am {

class barrier_words;
class fill_table;
class links;
class remote_memory;

/// A chain of buffers that one poll has emptied, so that the pool is locked twice at most.
class spare_buffers {
public:
    explicit spare_buffers(job_context &job) : job_(job) {}
    spare_buffers(const spare_buffers &) = delete;
    spare_buffers &operator=(const spare_buffers &) = delete;
    ~spare_buffers();

    work_request &take();
    void give(work_request &w)
    {
        w.next = chain_;
        chain_ = &w;
    }

private:
    job_context &job_;
    work_request *chain_ = nullptr;
};

class messenger {
public:
    struct counters {
        std::atomic<std::uint64_t> requests{0}, replies{0}, credit_messages{0};
    };

    messenger(job_context &job, links &connections, remote_memory &memory, barrier_words &words,
              fill_table &fills)
        : job_(job), links_(connections), memory_(memory), words_(words), fills_(fills)
    {}

    /// Checks and takes over the table of handlers. Returns a status.
    int set_handlers(DAPL_AM_HANDLER *handlers, int count);

    /// Sends a request to a connected peer if it has a credit and the queue has room.
    bool try_request(peer &p, const message &m) OSD_EXCLUDES(p.lock);
    /// Runs the handler of a message to this rank itself. Returns a status.
    int deliver_here(const message &m, unsigned role);
    /// Sends the reply of a handler. Returns a status.
    int reply(dapl_am_token &token, message m, std::size_t size);
    /// Returns the rank that has sent a message.
    int sender(const dapl_am_token &token) const;

    /// Takes some arrived messages. Returns whether there were any.
    bool poll();
    /// Takes everything that has arrived.
    void take_all(spare_buffers &spare);

    const counters &counted() const { return counted_; }

private:
    enum class verdict { good, of_another, malformed };

    work_request &build(const message &m, bool is_reply);
    void send_reply(peer &p, const message &m) OSD_EXCLUDES(p.lock);
    void bank_credit(peer &p) OSD_EXCLUDES(p.lock);

    bool take_next(spare_buffers &spare);
    bool dequeue(DAT_EVENT &event);
    void take_receive(const DAT_EVENT &event, spare_buffers &spare);
    void deliver(peer &p, DAT_EP_HANDLE ep, work_request &w, std::uint32_t length,
                 spare_buffers &spare) OSD_EXCLUDES(p.lock);
    bool await_connected(peer &p, DAT_EP_HANDLE ep) OSD_EXCLUDES(p.lock);
    void pass_over(peer &p, work_request &w, spare_buffers &spare) OSD_EXCLUDES(p.lock);
    bool suits_category(const header &h) const;
    bool is_well_formed(const header &h, std::uint32_t length) const;
    verdict admit(peer &p, DAT_EP_HANDLE ep, const header &h, work_request *fresh)
        OSD_EXCLUDES(p.lock);
    bool dispatch(peer &p, const header &h, std::byte *data);
    void take_barrier(const peer &p, const std::int32_t *args);
    void fill_segment(peer &p, const header &h, const std::int32_t *args);
    void run_handler(dapl_am_token &token, unsigned kind, int index, void *payload,
                     std::size_t size, int count, const std::int32_t *args);
    [[noreturn]] void refuse(const peer &p);

    job_context &job_;
    links &links_;
    remote_memory &memory_;
    barrier_words &words_;
    fill_table &fills_;
    std::array<DAPL_AM_HANDLER, DAPL_AM_MAX_HANDLERS> handlers_{};
    counters counted_;
};

} // namespace am
