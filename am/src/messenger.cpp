// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "messenger.hpp"

#include "barrier_words.hpp"
#include "fill_table.hpp"
#include "links.hpp"
#include "posts.hpp"
#include "remote_memory.hpp"
#include "report.hpp"

#include <algorithm>
#include <cstring>

namespace am {

namespace {

constexpr unsigned every_kind = DAPL_AM_SHORT | DAPL_AM_MEDIUM | DAPL_AM_LONG;
constexpr unsigned every_role = DAPL_AM_REQUEST | DAPL_AM_REPLY;

void count(std::atomic<std::uint64_t> &counter)
{
    counter.fetch_add(1, std::memory_order_relaxed);
}

std::size_t header_size(int args)
{
    return (sizeof(header) + static_cast<std::size_t>(args) * sizeof(std::int32_t) + 7) &
           ~std::size_t{7};
}

/// Gives the banked credits back, and `more`.
void add_credits(peer &p, work_request &w, int more) OSD_REQUIRES(p.lock)
{
    reinterpret_cast<header *>(w.data)->credits = static_cast<std::uint8_t>(p.bank + more);
    p.bank = 0;
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

bool is_good_entry(const DAPL_AM_HANDLER &h)
{
    return h.function != nullptr && h.index >= 0 && h.index < DAPL_AM_MAX_HANDLERS &&
           h.count >= -1 && h.count <= DAPL_AM_MAX_ARGS && (h.kind & every_kind) != 0 &&
           (h.kind & every_role) != 0 && (h.kind & ~(every_kind | every_role)) == 0;
}

const char *name_of(const DAPL_AM_HANDLER &h)
{
    return h.name != nullptr ? h.name : "unnamed";
}

/// Returns the peer whose message a receive has taken.
peer &sender_of(DAT_EP_HANDLE ep)
{
    return *links::peer_of(ep);
}

} // namespace

// --- the table of handlers

int messenger::set_handlers(DAPL_AM_HANDLER *handlers, int count)
{
    if (count < 0 || count >= DAPL_AM_MAX_HANDLERS || (count > 0 && handlers == nullptr)) {
        report("dapl_am_attach: a table of %d handlers; 255 can be had", count);
        return DAPL_AM_ERR_ARGUMENT;
    }
    handlers_.fill({});
    for (int i = 0; i < count; ++i) {
        const DAPL_AM_HANDLER &h = handlers[i];
        if (!is_good_entry(h) || handlers_[static_cast<std::size_t>(h.index)].function != nullptr) {
            report("dapl_am_attach: handler %d (%s) has a bad index, kind or count, or its index "
                   "is there twice",
                   i, name_of(h));
            return DAPL_AM_ERR_ARGUMENT;
        }
        if (h.index != 0)
            handlers_[static_cast<std::size_t>(h.index)] = h;
    }
    std::size_t highest = DAPL_AM_MAX_HANDLERS - 1;
    for (int i = 0; i < count; ++i) {
        if (handlers[i].index != 0)
            continue;
        while (handlers_[highest].function != nullptr)
            --highest;
        handlers[i].index = static_cast<int>(highest);
        handlers_[highest] = handlers[i];
    }
    return DAPL_AM_OK;
}

void messenger::run_handler(dapl_am_token &token, unsigned kind, int index, void *payload,
                            std::size_t size, int count, const std::int32_t *args)
{
    const DAPL_AM_HANDLER &h = handlers_[static_cast<std::size_t>(index)];
    if (h.function == nullptr || (h.kind & kind) != kind ||
        (h.count != DAPL_AM_ANY_ARGS && h.count != count)) {
        report("a message of rank %d for handler %d (%s), of kind %#x with %d arguments, does not "
               "suit the table passed to dapl_am_attach()",
               sender(token), index, h.function == nullptr ? "not registered" : name_of(h), kind,
               count);
        job_.end.fail();
    }
    const handler_scope scope;
    h.function(&token, payload, size, count, args, h.context);
}

// --- sending

/// Makes a message that is ready to be posted, but for the credits.
work_request &messenger::build(const message &m, bool is_reply)
{
    work_request &w = job_.take_buffer();
    header h{};
    h.kind = static_cast<std::uint8_t>(static_cast<std::uint8_t>(m.what) |
                                       (is_reply ? header::reply_bit : 0));
    h.handler = static_cast<std::uint8_t>(m.handler);
    h.count = static_cast<std::uint8_t>(m.count);
    h.size = m.size;
    h.address = m.address;
    std::memcpy(w.data, &h, sizeof h);
    if (m.count > 0)
        std::memcpy(w.data + sizeof h, m.args,
                    static_cast<std::size_t>(m.count) * sizeof(std::int32_t));
    const std::size_t start = header_size(m.count);
    if (m.carried && m.size > 0)
        std::memcpy(w.data + start, m.payload, m.size);
    w.length = static_cast<std::uint32_t>(start + (m.carried ? m.size : 0));
    return w;
}

bool messenger::try_request(peer &p, const message &m)
{
    if (!links_.ensure(p))
        return false;
    {
        const osd::lock_guard guard(p.lock);
        if (p.credits == 0 || !has_room(p))
            return false;
    }
    work_request &w = build(m, false);
    {
        const osd::lock_guard guard(p.lock);
        if (p.credits > 0 && has_room(p)) {
            --p.credits;
            if (p.spare_receives > 0)
                --p.spare_receives;
            else
                post_receive(p, job_.take_buffer());
            add_credits(p, w, 0);
            post_send(p, w);
            count(counted_.requests);
            return true;
        }
    }
    job_.give(w);
    return false;
}

void messenger::send_reply(peer &p, const message &m)
{
    work_request &w = build(m, true);
    const room_lock guard(p);
    add_credits(p, w, 1);
    post_send(p, w);
    count(counted_.replies);
}

/// Banks the credit of a request whose handler did not reply, and sends the banked credits if they
/// are many.
void messenger::bank_credit(peer &p)
{
    {
        const osd::lock_guard guard(p.lock);
        if (++p.bank <= static_cast<int>(job_.set.credits) / 2)
            return;
    }
    work_request &w = build({category::credits}, true);
    const room_lock guard(p);
    if (p.bank == 0) { // a message of another thread has taken it along
        job_.give(w);
        return;
    }
    add_credits(p, w, 0);
    post_send(p, w);
    count(counted_.credit_messages);
}

/// Copies the payload, since the handler may change it.
int messenger::deliver_here(const message &m, unsigned role)
{
    dapl_am_token token{*this, nullptr, (role & DAPL_AM_REQUEST) != 0, false};
    void *payload = nullptr;
    work_request *copy = nullptr; // the stack may be too small for it
    if (m.what == category::medium) {
        copy = &job_.take_buffer();
        if (m.size > 0)
            std::memcpy(copy->data, m.payload, m.size);
        payload = copy->data;
    } else if (m.what == category::long_message) {
        payload = reinterpret_cast<void *>(m.address);
        if (m.size > 0)
            std::memmove(payload, m.payload, m.size);
    }
    run_handler(token, kind_of(m.what) | role, m.handler, payload, m.size, m.count, m.args);
    if (copy != nullptr)
        job_.give(*copy);
    return DAPL_AM_OK;
}

int messenger::sender(const dapl_am_token &token) const
{
    return token.from != nullptr ? token.from->rank : job_.rank();
}

int messenger::reply(dapl_am_token &token, message m, std::size_t size)
{
    if (!token.request || token.replied)
        return DAPL_AM_ERR_CONTEXT;
    if (const int status = m.check(size); status != DAPL_AM_OK)
        return status;
    m.size = static_cast<std::uint32_t>(size);
    const bool is_long = m.what == category::long_message;
    const segment &target = token.from != nullptr ? token.from->memory : job_.own_segment;
    if (is_long && !target.holds(m.address, size))
        return DAPL_AM_ERR_RANGE;
    token.replied = true;
    if (token.from == nullptr)
        return deliver_here(m, DAPL_AM_REPLY);
    dapl_am_op written;
    if (is_long && !m.pack())
        memory_.write(*token.from, m.address, m.payload, size, written, local_memory::lent);
    send_reply(*token.from, m);
    memory_.await_quietly(written);
    return DAPL_AM_OK;
}

// --- what has arrived

/// Returns whether a message has what its category wants: the arguments if it is the library's own,
/// its payload, and whether it is a request.
bool messenger::suits_category(const header &h) const
{
    switch (h.what()) {
    case category::short_message:
        return h.size == 0;
    case category::medium:
        return true;
    case category::long_message:
    case category::packed_long:
        return job_.own_segment.holds(h.address, h.size);
    case category::barrier:
        return h.is_request() && h.count == 3 && h.size == 0;
    case category::fill:
        return h.is_request() && h.count == 5 && h.size == 0;
    case category::filled:
        return !h.is_request() && h.count == 2 && h.size == 0;
    case category::credits:
        return !h.is_request() && h.count == 0 && h.size == 0;
    }
    return false;
}

bool messenger::is_well_formed(const header &h, std::uint32_t length) const
{
    const bool carried = h.what() == category::medium || h.what() == category::packed_long;
    return length >= sizeof h && h.count <= DAPL_AM_MAX_ARGS &&
           length == header_size(h.count) + (carried ? std::size_t{h.size} : 0) &&
           suits_category(h) && (h.credits > 0 || h.is_request());
}

void messenger::refuse(const peer &p)
{
    report("a malformed message of rank %d: another version of libdapl-am there?", p.rank);
    job_.end.fail();
}

/// Does a memset that another rank asks for. The message has address, bytes and value, and how the
/// other rank calls it.
void messenger::fill_segment(peer &p, const header &h, const std::int32_t *args)
{
    std::uint64_t size = 0;
    std::memcpy(&size, args, sizeof size);
    if (!job_.own_segment.holds(h.address, size))
        refuse(p);
    std::memset(reinterpret_cast<void *>(h.address), args[2], size);
    message m{category::filled};
    m.count = 2;
    m.args = args + 3;
    send_reply(p, m);
}

void messenger::take_barrier(const peer &p, const std::int32_t *args)
{
    std::uint64_t word = 0;
    std::memcpy(&word, args + 1, sizeof word);
    if (!words_.hear(args[0], word))
        refuse(p);
}

/// Acts on a message. Returns whether this rank has replied to it.
bool messenger::dispatch(peer &p, const header &h, std::byte *data)
{
    const auto *args = reinterpret_cast<const std::int32_t *>(data + sizeof(header));
    std::byte *carried = data + header_size(h.count);
    void *payload = nullptr;
    switch (h.what()) {
    case category::barrier:
        take_barrier(p, args);
        return false;
    case category::fill:
        fill_segment(p, h, args);
        return true;
    case category::filled:
        if (!fills_.complete(
                p, {static_cast<std::uint32_t>(args[0]), static_cast<std::uint32_t>(args[1])}))
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
    dapl_am_token token{*this, &p, h.is_request(), false};
    run_handler(token, kind_of(h.what()) | (h.is_request() ? DAPL_AM_REQUEST : DAPL_AM_REPLY),
                h.handler, payload, h.size, h.count, args);
    return token.replied;
}

/// Passes over a message on a connection that was given up. Its receive in a shared queue is
/// replaced.
void messenger::pass_over(peer &p, work_request &w, spare_buffers &spare)
{
    if (job_.receives == DAT_HANDLE_NULL)
        return spare.give(w);
    const osd::lock_guard guard(p.lock);
    post_receive(p, w);
}

/// Waits for the service thread where the last event of connecting may still be with it. False if
/// the endpoint was given up, since an impostor had answered.
bool messenger::await_connected(peer &p, DAT_EP_HANDLE ep)
{
    for (idle_wait wait = job_.make_wait(); !p.is_up(); wait.pause(false)) {
        const osd::lock_guard guard(p.lock);
        if (p.ep != ep)
            return false;
    }
    return true;
}

/// Takes the credits that came with a message, and replaces the receive of a request by `fresh`.
messenger::verdict messenger::admit(peer &p, DAT_EP_HANDLE ep, const header &h, work_request *fresh)
{
    const osd::lock_guard guard(p.lock);
    if (p.ep != ep)
        return verdict::of_another;
    if (p.credits + h.credits > static_cast<int>(job_.set.credits))
        return verdict::malformed;
    if (fresh != nullptr)
        post_receive(p, *fresh);
    p.credits += h.credits;
    p.spare_receives += h.credits - (fresh != nullptr ? 0 : 1);
    return verdict::good;
}

void messenger::deliver(peer &p, DAT_EP_HANDLE ep, work_request &w, std::uint32_t length,
                        spare_buffers &spare)
{
    if (!p.is_up() && !await_connected(p, ep))
        return pass_over(p, w, spare);
    header h{};
    std::memcpy(&h, w.data, std::min<std::size_t>(length, sizeof h));
    work_request *fresh = h.is_request() ? &spare.take() : nullptr;
    const verdict about = is_well_formed(h, length) ? admit(p, ep, h, fresh) : verdict::malformed;
    if (about == verdict::malformed)
        refuse(p);
    if (about == verdict::of_another) {
        if (fresh != nullptr)
            spare.give(*fresh);
        return pass_over(p, w, spare);
    }
    const bool replied = dispatch(p, h, w.data);
    if (h.is_request() && !replied)
        bank_credit(p);
    spare.give(w);
}

void messenger::take_receive(const DAT_EVENT &event, spare_buffers &spare)
{
    const auto &data = event.event_data.dto_completion_event_data;
    work_request &w = *static_cast<work_request *>(data.user_cookie.as_ptr);
    if (data.status == DAT_DTO_SUCCESS)
        return deliver(sender_of(data.ep_handle), data.ep_handle, w,
                       static_cast<std::uint32_t>(data.transfered_length), spare);
    if (data.status != DAT_DTO_ERR_FLUSHED)
        job_.fail(sender_of(data.ep_handle), data.status);
    spare.give(w);
}

bool messenger::dequeue(DAT_EVENT &event)
{
    if (!job_.receive_lock.try_lock())
        return false;
    const bool any = dat_evd_dequeue(job_.receive_evd, &event) == DAT_SUCCESS;
    job_.receive_lock.unlock();
    return any;
}

bool messenger::take_next(spare_buffers &spare)
{
    DAT_EVENT event;
    if (!dequeue(event))
        return false;
    take_receive(event, spare);
    return true;
}

bool messenger::poll()
{
    constexpr int most = 16;
    spare_buffers spare(job_);
    int taken = 0;
    while (taken < most && take_next(spare))
        ++taken;
    return taken > 0;
}

void messenger::take_all(spare_buffers &spare)
{
    while (take_next(spare)) {
    }
}

spare_buffers::~spare_buffers()
{
    if (chain_ != nullptr)
        job_.buffers.give(chain_);
}

work_request &spare_buffers::take()
{
    if (chain_ == nullptr)
        return job_.take_buffer();
    work_request &w = *chain_;
    chain_ = w.next;
    w.next = nullptr;
    return w;
}

} // namespace am
