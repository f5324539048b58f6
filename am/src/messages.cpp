// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "messages.hpp"

#include "barrier.hpp"
#include "ending.hpp"
#include "lasting.hpp"
#include "links.hpp"
#include "posts.hpp"
#include "registrations.hpp"
#include "report.hpp"
#include "transfers.hpp"

#include <algorithm>
#include <array>
#include <cstring>

/// The message a handler is running for.
struct dapl_am_token {
    am::peer *from; ///< null: this rank itself
    bool request;
    bool replied;
};

namespace am {

namespace {

struct counts {
    std::atomic<std::uint64_t> requests{0}, replies{0}, credit_messages{0}, credit_waits{0},
        work{0};
};

struct message_state {
    std::array<DAPL_AM_HANDLER, DAPL_AM_MAX_HANDLERS> handlers{};
    counts counted;
};

message_state &am_state = lasting<message_state>();

void count(std::atomic<std::uint64_t> &counter)
{
    counter.fetch_add(1, std::memory_order_relaxed);
}

std::size_t header_size(int args)
{
    return (sizeof(header) + std::size_t(args) * sizeof(std::int32_t) + 7) & ~std::size_t{7};
}

/// A message ready to be posted, but for the credits.
work &build(const message &m, bool reply)
{
    work &w = take_buffer();
    header h{};
    h.what = std::uint8_t(std::uint8_t(m.what) | (reply ? reply_bit : 0));
    h.handler = std::uint8_t(m.handler);
    h.count = std::uint8_t(m.count);
    h.size = m.size;
    h.address = m.address;
    std::memcpy(w.data, &h, sizeof h);
    if (m.count > 0)
        std::memcpy(w.data + sizeof h, m.args, std::size_t(m.count) * sizeof(std::int32_t));
    const std::size_t start = header_size(m.count);
    if (m.carried && m.size > 0)
        std::memcpy(w.data + start, m.payload, m.size);
    w.length = std::uint32_t(start + (m.carried ? m.size : 0));
    return w;
}

/// Gives back what is banked and `more`. The peer's lock is held.
void add_credits(peer &p, work &w, int more)
{
    reinterpret_cast<header *>(w.data)->credits = std::uint8_t(p.bank + more);
    p.bank = 0;
}

void send_reply(peer &p, const message &m)
{
    work &w = build(m, true);
    const auto guard = lock_with_room(p);
    add_credits(p, w, 1);
    post_send(p, w);
    count(am_state.counted.replies);
}

/// The credit of a request whose handler did not reply.
void bank_credit(peer &p)
{
    {
        const std::lock_guard guard(p.lock);
        if (++p.bank <= int(the_job.set.credits) / 2)
            return;
    }
    work &w = build({category::credits}, true);
    const auto guard = lock_with_room(p);
    if (p.bank == 0) { // a message of another thread has taken it along
        the_job.buffers.give(&w);
        return;
    }
    add_credits(p, w, 0);
    post_send(p, w);
    count(am_state.counted.credit_messages);
}

bool connected(peer &p)
{
    return p.state.load(std::memory_order_acquire) == link_state::up;
}

/// Runs a handler of the program.
void run_handler(dapl_am_token &token, unsigned kind, int index, void *payload, std::size_t size,
                 int args_count, const std::int32_t *args)
{
    const DAPL_AM_HANDLER &h = am_state.handlers[std::size_t(index)];
    if (!h.function || (h.kind & kind) != kind ||
        (h.count != DAPL_AM_ANY_ARGS && h.count != args_count)) {
        report("a message of rank %d for handler %d (%s), of kind %#x with %d arguments, does not "
               "suit the table passed to dapl_am_attach()",
               dapl_am_token_rank(&token), index,
               !h.function ? "not registered"
               : h.name    ? h.name
                           : "unnamed",
               kind, args_count);
        ending::fail();
    }
    ++in_handler;
    h.function(&token, payload, size, args_count, args, h.context);
    --in_handler;
}

unsigned kind_of(category what)
{
    switch (what) {
    case category::short_message:
        return DAPL_AM_SHORT;
    case category::medium:
        return DAPL_AM_MEDIUM;
    default:
        return DAPL_AM_LONG;
    }
}

[[noreturn]] void refuse(const peer &p)
{
    report("a malformed message of rank %d: another version of libdapl-am there?", p.rank);
    ending::fail();
}

/// memset for another rank: address, bytes and value of it, and what names it there.
void fill(peer &p, const header &h, const std::int32_t *args)
{
    std::uint64_t size = 0;
    std::memcpy(&size, args, sizeof size);
    if (!the_job.mine.holds(h.address, size))
        refuse(p);
    std::memset(reinterpret_cast<void *>(h.address), args[2], size);
    message m{category::filled};
    m.count = 2;
    m.args = args + 3;
    send_reply(p, m);
}

void take_barrier(const peer &p, const std::int32_t *args)
{
    std::uint64_t word = 0;
    std::memcpy(&word, args + 1, sizeof word);
    if (!barrier::told(args[0], word))
        refuse(p);
}

/// @return whether it was a request that got its reply
bool dispatch(peer &p, const header &h, std::byte *data)
{
    const bool request = (h.what & reply_bit) == 0;
    const auto *args = reinterpret_cast<const std::int32_t *>(data + sizeof(header));
    const auto what = category(h.what & ~reply_bit);
    std::byte *carried = data + header_size(h.count);
    void *payload = nullptr;
    switch (what) {
    case category::barrier:
        take_barrier(p, args);
        return false;
    case category::fill:
        fill(p, h, args);
        return true;
    case category::filled:
        if (!fill_done(p, std::uint32_t(args[0]), std::uint32_t(args[1])))
            refuse(p);
        return false;
    case category::credits:
        return false;
    case category::medium:
        payload = carried;
        break;
    case category::packed_long:
        payload = reinterpret_cast<void *>(h.address);
        if (h.size > 0)
            std::memcpy(payload, carried, h.size);
        break;
    case category::long_message:
        payload = reinterpret_cast<void *>(h.address);
        break;
    case category::short_message:
        break;
    }
    dapl_am_token token{&p, request, false};
    run_handler(token, kind_of(what) | (request ? DAPL_AM_REQUEST : DAPL_AM_REPLY), h.handler,
                payload, h.size, h.count, args);
    return token.replied;
}

/// What a category has: its arguments if they are of the library's own, its payload, and whether
/// it is a request.
bool suits_category(const header &h)
{
    const bool request = (h.what & reply_bit) == 0;
    switch (category(h.what & ~reply_bit)) {
    case category::short_message:
        return h.size == 0;
    case category::medium:
        return true;
    case category::long_message:
    case category::packed_long:
        return the_job.mine.holds(h.address, h.size);
    case category::barrier:
        return request && h.count == 3 && h.size == 0;
    case category::fill:
        return request && h.count == 5 && h.size == 0;
    case category::filled:
        return !request && h.count == 2 && h.size == 0;
    case category::credits:
        return !request && h.count == 0 && h.size == 0;
    }
    return false;
}

bool well_formed(const header &h, std::uint32_t length)
{
    const auto what = category(h.what & ~reply_bit);
    const bool carried = what == category::medium || what == category::packed_long;
    const bool credits_due = (h.what & reply_bit) != 0;
    return length >= sizeof h && h.count <= DAPL_AM_MAX_ARGS &&
           length == header_size(h.count) + (carried ? std::size_t{h.size} : 0) &&
           suits_category(h) && (h.credits > 0 || !credits_due);
}

/// A chain of buffers that one poll has emptied, so that the pool is locked twice at most.
class spare_buffers {
public:
    ~spare_buffers()
    {
        if (chain_)
            the_job.buffers.give(chain_);
    }
    work &take()
    {
        if (!chain_)
            return take_buffer();
        work &w = *chain_;
        chain_ = w.next;
        w.next = nullptr;
        return w;
    }
    void give(work &w)
    {
        w.next = chain_;
        chain_ = &w;
    }

private:
    work *chain_ = nullptr;
};

/// Whose message a receive has taken.
peer &sender_of(DAT_EP_HANDLE ep)
{
    DAT_CONTEXT of_peer{};
    (void)dat_get_consumer_context(ep, &of_peer);
    return *static_cast<peer *>(of_peer.as_ptr);
}

/// What has come on a connection that was given up. Its receive in a shared queue is replaced.
void pass_over(peer &p, work &w, spare_buffers &spare)
{
    if (the_job.receives == DAT_HANDLE_NULL)
        return spare.give(w);
    const std::lock_guard guard(p.lock);
    post_receive(p, w);
}

/// Waits for the service thread where the last event of connecting may still be with it.
/// @return false if the endpoint was given up, since what was there is not the peer
bool is_of_peer(peer &p, DAT_EP_HANDLE ep)
{
    for (idle_wait wait; !connected(p); wait.pause(false)) {
        const std::lock_guard guard(p.lock);
        if (p.ep != ep)
            return false;
    }
    return true;
}

enum class verdict { good, of_another, malformed };

/// Takes the credits that came with a message, and replaces the receive of a request by `fresh`.
verdict admit(peer &p, DAT_EP_HANDLE ep, const header &h, work *fresh)
{
    const std::lock_guard guard(p.lock);
    if (p.ep != ep)
        return verdict::of_another;
    if (p.credits + h.credits > int(the_job.set.credits))
        return verdict::malformed;
    if (fresh)
        post_receive(p, *fresh);
    p.credits += h.credits;
    p.spare_receives += h.credits - (fresh ? 0 : 1);
    return verdict::good;
}

void deliver(peer &p, DAT_EP_HANDLE ep, work &w, std::uint32_t length, spare_buffers &spare)
{
    if (!connected(p) && !is_of_peer(p, ep))
        return pass_over(p, w, spare);
    header h{};
    std::memcpy(&h, w.data, std::min<std::size_t>(length, sizeof h));
    const bool request = (h.what & reply_bit) == 0;
    work *fresh = request ? &spare.take() : nullptr;
    const verdict about = well_formed(h, length) ? admit(p, ep, h, fresh) : verdict::malformed;
    if (about == verdict::malformed)
        refuse(p);
    if (about == verdict::of_another) {
        if (fresh)
            spare.give(*fresh);
        return pass_over(p, w, spare);
    }
    const bool replied = dispatch(p, h, w.data);
    if (request && !replied)
        bank_credit(p);
    spare.give(w);
}

void take_receive(const DAT_EVENT &event, spare_buffers &spare)
{
    const auto &data = event.event_data.dto_completion_event_data;
    work &w = *static_cast<work *>(data.user_cookie.as_ptr);
    if (data.status == DAT_DTO_SUCCESS) {
        deliver(sender_of(data.ep_handle), data.ep_handle, w, std::uint32_t(data.transfered_length),
                spare);
        return;
    }
    if (data.status != DAT_DTO_ERR_FLUSHED)
        links::failed(sender_of(data.ep_handle), data.status);
    spare.give(w);
}

bool next_receive(DAT_EVENT &event)
{
    const held guard(the_job.receive_lock, std::try_to_lock);
    return guard.owns_lock() && dat_evd_dequeue(the_job.receive_evd, &event) == DAT_SUCCESS;
}

/// Waits in a CNO and not in the EVD, which could not be resized meanwhile. The spare buffers stay
/// with the thread.
[[noreturn]] void *receive_thread(void *)
{
    spare_buffers spare;
    for (;;) {
        DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
        (void)dat_cno_wait(the_job.receive_cno, 100'000, &which);
        ending::stand_if_begun();
        for (DAT_EVENT event; next_receive(event);)
            take_receive(event, spare);
        (void)reap();
        barrier::progress();
    }
}

/// A message to this rank itself. The payload is copied, since the handler may change it.
int loop_back(const message &m, unsigned kind)
{
    dapl_am_token token{nullptr, (kind & DAPL_AM_REQUEST) != 0, false};
    void *payload = nullptr;
    work *copy = nullptr; // not on the stack, which may be small
    if (m.what == category::medium) {
        copy = &take_buffer();
        if (m.size > 0)
            std::memcpy(copy->data, m.payload, m.size);
        payload = copy->data;
    } else if (m.what == category::long_message) {
        payload = reinterpret_cast<void *>(m.address);
        if (m.size > 0)
            std::memmove(payload, m.payload, m.size);
    }
    run_handler(token, kind_of(m.what) | kind, m.handler, payload, m.size, m.count, m.args);
    if (copy)
        the_job.buffers.give(copy);
    return DAPL_AM_OK;
}

int check_message(const message &m, std::size_t size)
{
    if (m.handler < 1 || m.handler >= DAPL_AM_MAX_HANDLERS || m.count < 0 ||
        m.count > DAPL_AM_MAX_ARGS || (m.count > 0 && !m.args) || (size > 0 && !m.payload))
        return DAPL_AM_ERR_ARGUMENT;
    return size > (m.what == category::medium ? max_medium : dapl_am_max_long())
               ? DAPL_AM_ERR_ARGUMENT
               : DAPL_AM_OK;
}

int check_rank(int rank)
{
    if (the_job.stage < 2)
        return DAPL_AM_ERR_STATE;
    if (in_handler)
        return DAPL_AM_ERR_CONTEXT;
    return the_job.valid(rank) ? DAPL_AM_OK : DAPL_AM_ERR_RANK;
}

int send_request(int rank, message m, std::size_t size, unsigned flags)
{
    if (const int status = check_rank(rank); status != DAPL_AM_OK)
        return status;
    if (const int status = check_message(m, size); status != DAPL_AM_OK)
        return status;
    if (flags & ~unsigned(DAPL_AM_IMMEDIATE | DAPL_AM_ASYNC))
        return DAPL_AM_ERR_ARGUMENT;
    m.size = std::uint32_t(size);
    peer &p = the_job.at(rank);
    const bool is_long = m.what == category::long_message;
    if (is_long && !p.memory.holds(m.address, size))
        return DAPL_AM_ERR_RANGE;
    if (rank == the_job.rank())
        return loop_back(m, DAPL_AM_REQUEST);
    dapl_am_op written;
    if (is_long && size <= max_medium) {
        m.what = category::packed_long;
        m.carried = true;
    } else if (is_long) {
        if (await_connection(p, flags) != DAPL_AM_OK)
            return DAPL_AM_NOT_READY;
        // Of an asynchronous one nothing need be waited for here, but its count stands on the
        // stack.
        write_remote(p, m.address, m.payload, size, written, local_memory::lent);
    }
    const int status =
        request(p, m, is_long && !m.carried ? flags & ~unsigned(DAPL_AM_IMMEDIATE) : flags);
    await(written);
    return status;
}

int send_answer(dapl_am_token *token, message m, std::size_t size)
{
    if (!token || !token->request || token->replied)
        return DAPL_AM_ERR_CONTEXT;
    if (const int status = check_message(m, size); status != DAPL_AM_OK)
        return status;
    m.size = std::uint32_t(size);
    const bool is_long = m.what == category::long_message;
    const segment &target = token->from ? token->from->memory : the_job.mine;
    if (is_long && !target.holds(m.address, size))
        return DAPL_AM_ERR_RANGE;
    token->replied = true;
    if (!token->from)
        return loop_back(m, DAPL_AM_REPLY);
    dapl_am_op written;
    if (is_long && size <= max_medium) {
        m.what = category::packed_long;
        m.carried = true;
    } else if (is_long) {
        write_remote(*token->from, m.address, m.payload, size, written, local_memory::lent);
    }
    send_reply(*token->from, m);
    await_quietly(written);
    return DAPL_AM_OK;
}

message make(category what, int handler, const void *payload, void *address, int count,
             const std::int32_t *args)
{
    message m{what};
    m.handler = handler;
    m.count = count;
    m.args = args;
    m.payload = payload;
    m.address = reinterpret_cast<std::uint64_t>(address);
    m.carried = what == category::medium;
    return m;
}

constexpr unsigned every_kind = DAPL_AM_SHORT | DAPL_AM_MEDIUM | DAPL_AM_LONG;
constexpr unsigned every_role = DAPL_AM_REQUEST | DAPL_AM_REPLY;

bool good_entry(const DAPL_AM_HANDLER &h)
{
    return h.function && h.index >= 0 && h.index < DAPL_AM_MAX_HANDLERS && h.count >= -1 &&
           h.count <= DAPL_AM_MAX_ARGS && (h.kind & every_kind) != 0 &&
           (h.kind & every_role) != 0 && (h.kind & ~(every_kind | every_role)) == 0;
}

} // namespace

bool try_request(peer &p, const message &m)
{
    if (!links::ensure(p))
        return false;
    {
        const std::lock_guard guard(p.lock);
        if (p.credits == 0 || !has_room(p))
            return false;
    }
    work &w = build(m, false);
    {
        const std::lock_guard guard(p.lock);
        if (p.credits > 0 && has_room(p)) {
            --p.credits;
            if (p.spare_receives > 0)
                --p.spare_receives;
            else
                post_receive(p, take_buffer());
            add_credits(p, w, 0);
            post_send(p, w);
            count(am_state.counted.requests);
            return true;
        }
    }
    the_job.buffers.give(&w);
    return false;
}

int await_connection(peer &p, unsigned flags)
{
    idle_wait wait;
    while (!links::ensure(p)) {
        if (flags & DAPL_AM_IMMEDIATE)
            return DAPL_AM_NOT_READY;
        wait.pause(dapl_am_poll() == DAPL_AM_OK);
    }
    return DAPL_AM_OK;
}

int request(peer &p, const message &m, unsigned flags)
{
    if (await_connection(p, flags) != DAPL_AM_OK)
        return DAPL_AM_NOT_READY;
    if (try_request(p, m))
        return DAPL_AM_OK;
    (void)dapl_am_poll();
    if (try_request(p, m))
        return DAPL_AM_OK;
    count(am_state.counted.credit_waits);
    if (flags & DAPL_AM_IMMEDIATE)
        return DAPL_AM_NOT_READY;
    for (idle_wait wait; !try_request(p, m);)
        wait.pause(dapl_am_poll() == DAPL_AM_OK);
    return DAPL_AM_OK;
}

int set_handlers(DAPL_AM_HANDLER *handlers, int count)
{
    if (count < 0 || count >= DAPL_AM_MAX_HANDLERS || (count > 0 && !handlers)) {
        report("dapl_am_attach: a table of %d handlers; 255 can be had", count);
        return DAPL_AM_ERR_ARGUMENT;
    }
    static decltype(am_state.handlers) table; // too large for a stack; one thread is here
    table.fill({});
    for (int i = 0; i < count; ++i) {
        const DAPL_AM_HANDLER &h = handlers[i];
        if (!good_entry(h) || table[std::size_t(h.index)].function) {
            report("dapl_am_attach: handler %d (%s) has a bad index, kind or count, or its index "
                   "is there twice",
                   i, h.name ? h.name : "unnamed");
            return DAPL_AM_ERR_ARGUMENT;
        }
        if (h.index != 0)
            table[std::size_t(h.index)] = h;
    }
    int highest = DAPL_AM_MAX_HANDLERS - 1;
    for (int i = 0; i < count; ++i) {
        if (handlers[i].index != 0)
            continue;
        while (table[std::size_t(highest)].function)
            --highest;
        handlers[i].index = highest;
        table[std::size_t(highest)] = handlers[i];
    }
    am_state.handlers = table;
    return DAPL_AM_OK;
}

bool poll_messages()
{
    spare_buffers spare;
    DAT_EVENT event;
    bool any = false;
    for (int i = 0; i < 16 && next_receive(event); ++i) {
        take_receive(event, spare);
        any = true;
    }
    return any;
}

int start_receive_thread()
{
    return ending::start_thread(receive_thread) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

} // namespace am

using namespace am;

size_t dapl_am_max_medium(void)
{
    return max_medium;
}

size_t dapl_am_max_long(void)
{
    return 0x7fffffff;
}

int dapl_am_request_short(int rank, int handler, int count, const int32_t *args, unsigned flags)
{
    return send_request(rank, make(category::short_message, handler, nullptr, nullptr, count, args),
                        0, flags);
}

int dapl_am_request_medium(int rank, int handler, const void *payload, size_t size, int count,
                           const int32_t *args, unsigned flags)
{
    return send_request(rank, make(category::medium, handler, payload, nullptr, count, args), size,
                        flags);
}

int dapl_am_request_long(int rank, int handler, const void *payload, size_t size, void *destination,
                         int count, const int32_t *args, unsigned flags)
{
    return send_request(rank,
                        make(category::long_message, handler, payload, destination, count, args),
                        size, flags);
}

int dapl_am_token_rank(const dapl_am_token *token)
{
    if (!token)
        return -1;
    return token->from ? token->from->rank : the_job.rank();
}

int dapl_am_reply_short(dapl_am_token *token, int handler, int count, const int32_t *args)
{
    return send_answer(token, make(category::short_message, handler, nullptr, nullptr, count, args),
                       0);
}

int dapl_am_reply_medium(dapl_am_token *token, int handler, const void *payload, size_t size,
                         int count, const int32_t *args)
{
    return send_answer(token, make(category::medium, handler, payload, nullptr, count, args), size);
}

int dapl_am_reply_long(dapl_am_token *token, int handler, const void *payload, size_t size,
                       void *destination, int count, const int32_t *args)
{
    return send_answer(
        token, make(category::long_message, handler, payload, destination, count, args), size);
}

int dapl_am_poll(void)
{
    if (the_job.stage < 2)
        return DAPL_AM_ERR_STATE;
    if (in_handler)
        return DAPL_AM_ERR_CONTEXT;
    ending::stand_if_begun();
    // Completions of sends are not urgent, and an adapter may make a system call to look.
    static thread_local unsigned turn = 0;
    bool any = poll_messages();
    if (!any && turn++ % 4 == 0)
        any = reap();
    barrier::progress();
    if (any)
        am_state.counted.work.fetch_add(1, std::memory_order_relaxed);
    return any ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

void dapl_am_get_counters(DAPL_AM_COUNTERS *counters)
{
    if (!counters)
        return;
    const counts &c = am_state.counted;
    *counters = {c.requests,
                 c.replies,
                 c.credit_messages,
                 c.credit_waits,
                 links::established(),
                 the_job.buffers.made(),
                 the_job.buffers.locks(),
                 c.work,
                 registrations::made(),
                 registrations::hits(),
                 confirmations()};
}
