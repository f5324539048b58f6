// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Takes events, and checks them against the ledgers.
#include "world.hpp"

#include "dat_names.hpp"
#include "program/failure.hpp"
#include "program/system.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace stress {

namespace {

std::string in_milliseconds(instant time)
{
    return std::to_string(time / 1'000'000) + " ms";
}

} // namespace

const char *phase_name(phase which)
{
    static const char *const names[] = {"gone",      "idle",      "reserved", "connecting",
                                        "accepting", "connected", "ended",    "dying"};
    return names[static_cast<int>(which)];
}

std::string world::describe(const life &l) const
{
    char handle[32];
    std::snprintf(handle, sizeof handle, " (%p)", static_cast<void *>(l.ep));
    std::string text = "endpoint " + std::to_string(l.id) + handle;
    if (l.owner != nullptr)
        text += " of link " + std::to_string(l.owner->link) +
                (l.owner->role == 0 ? ", active side" : ", passive side");
    text += std::string(", ") + phase_name(l.now_in) + " for " + in_milliseconds(now() - l.since) +
            (l.meets && l.meets->ending.load() ? ", is being ended" : "") + "; " +
            std::to_string(l.requests.open_count()) + " requests and " +
            std::to_string(l.receives.open_count()) + " receives are not back";
    return text;
}

std::string world::describe(const life &l, const entry &e) const
{
    return std::string(e.suppressed ? "suppressed " : "") +
           dat::operation_name(static_cast<DAT_DTOS>(e.what)) + " number " +
           std::to_string(e.number & ~receive_bit) + " of " + std::to_string(e.length) +
           " bytes, posted by thread " + std::to_string(e.thread) + " " +
           in_milliseconds(now() - e.posted.began) + " ago, on " + describe(l);
}

// --------------------------------------------------------------------------------------- taking

namespace {

/// Marks the calling thread as a possible holder of an event of the EVD.
class taker {
public:
    explicit taker(dispatcher &of) : of_(of) { of_.taking.fetch_add(1, std::memory_order_relaxed); }
    taker(const taker &) = delete;
    taker &operator=(const taker &) = delete;
    ~taker() { of_.taking.fetch_sub(1, std::memory_order_relaxed); }

private:
    dispatcher &of_;
};

} // namespace

/// Returns false if there was no event, or a thread waits on the EVD.
bool world::dequeue(worker &who, dispatcher &from)
{
    if (!from.use.try_lock_shared())
        return false;
    std::shared_lock hold(from.use, std::adopt_lock);
    if (from.freed)
        return false;
    const taker me(from);
    const unsigned waits = from.waits.load(); // before the next line, see dispatcher::waits
    const unsigned inside = from.waiting.load();
    DAT_EVENT event{};
    span taken{now(), never};
    const DAT_RETURN code = CALL(who, dat_evd_dequeue, from.handle, &event);
    taken.ended = now();
    if (code == DAT_SUCCESS) {
        judge(who, from, event, taken);
        return true;
    }
    if (is(code, DAT_QUEUE_EMPTY))
        from.found_empty(taken.began);
    else if (!is(code, DAT_INVALID_STATE) || (inside == 0 && from.waits.load() == waits))
        run_.broken("a dequeue is refused only while a thread waits",
                    "dat_evd_dequeue on EVD " + std::to_string(from.number) + ": " +
                        program::code_text(code));
    return false;
}

/// Takes also what the wait says is left: for that the CNO is not triggered.
void world::wait(worker &who, dispatcher &on, DAT_TIMEOUT timeout, DAT_COUNT threshold)
{
    for (DAT_COUNT more = wait_once(who, on, timeout, threshold); more > 0; --more)
        if (!dequeue(who, on))
            break; // taken by others, or a waiter gets the rest
}

/// The number of events that it says are left.
DAT_COUNT world::wait_once(worker &who, dispatcher &on, DAT_TIMEOUT timeout, DAT_COUNT threshold)
{
    if (!on.use.try_lock_shared())
        return 0;
    std::shared_lock hold(on.use, std::adopt_lock);
    if (on.freed)
        return 0;
    const taker me(on);
    const unsigned forbidding = on.forbidding.load();
    const unsigned departures = on.departures.load();
    const bool steady = on.leaving.load() == 0;
    const unsigned waits = on.waits.load() + 1;
    const unsigned others = on.waiting.fetch_add(1);
    on.waits.fetch_add(1);
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    span taken{now(), never};
    who.for_good.store(timeout == DAT_TIMEOUT_INFINITE);
    const DAT_RETURN code = CALL(who, dat_evd_wait, on.handle, timeout, threshold, &event, &more);
    who.for_good.store(false);
    taken.ended = now();
    const bool alone = others == 0 && on.waits.load() == waits;
    on.waiting.fetch_sub(1);
    who.count(counter::waits);
    if (is(code, DAT_ABORT) && closed_.load()) {
        who.count(counter::sent_home);
        return 0;
    }
    if (code == DAT_SUCCESS) {
        if (abandoned())
            return 0; // the object it names may be freed
        // Freeing an endpoint removes events that were counted.
        if (more < threshold - 1 && steady && on.departures.load() == departures)
            run_.broken("a wait succeeds when its threshold is reached",
                        "threshold " + std::to_string(threshold) + ", and " + std::to_string(more) +
                            " are left");
        judge(who, on, event, taken);
        return more;
    }
    if (is(code, DAT_TIMEOUT_EXPIRED)) {
        who.count(counter::expired);
        const instant waited = taken.ended - taken.began;
        if (timeout == DAT_TIMEOUT_INFINITE || waited / 1000 < instant{timeout})
            run_.broken("a wait lasts until its timeout",
                        "dat_evd_wait for " + std::to_string(timeout) + " us ended after " +
                            std::to_string(waited / 1000));
        return more;
    }
    const bool unwaitable = DAT_GET_SUBTYPE(code) == DAT_INVALID_STATE_EVD_UNWAITABLE &&
                            (forbidding % 2 != 0 || on.forbidding.load() != forbidding);
    const bool refused = DAT_GET_SUBTYPE(code) == DAT_INVALID_STATE_EVD_WAITER && !alone;
    if (!is(code, DAT_INVALID_STATE) || (!unwaitable && !refused))
        run_.broken("a wait succeeds, expires, or is refused for a reason",
                    "dat_evd_wait on EVD " + std::to_string(on.number) + ": " +
                        program::code_text(code));
    return 0;
}

void world::judge(worker &who, dispatcher &from, const DAT_EVENT &event, const span &taken)
{
    if (event.evd_handle != from.handle)
        run_.broken("an event says which EVD it comes from", "it names another one");
    switch (event.event_number) {
    case DAT_DTO_COMPLETION_EVENT:
        return judge_transfer(who, from, event.event_data.dto_completion_event_data, taken);
    case DAT_RMR_BIND_COMPLETION_EVENT:
        return judge_bind(who, from, event, taken);
    case DAT_CONNECTION_REQUEST_EVENT:
        return answer(who, from, event);
    case DAT_SOFTWARE_EVENT:
        return judge_software(from, event, taken);
    default:
        return judge_connection(who, from, event, taken);
    }
}

// ------------------------------------------------------------------------------------ transfers

void world::give_back(life &l, const entry &done)
{
    unsigned &slots = done.what == DAT_DTO_RECEIVE     ? l.in_slots
                      : done.what == DAT_DTO_RDMA_READ ? l.sink_slots
                                                       : l.out_slots;
    slots &= ~(1u << done.slot);
}

/// Judges the completion of a bind like a transfer's. It names its RMR instead of the endpoint.
void world::judge_bind(worker &who, dispatcher &from, const DAT_EVENT &event, const span &taken)
{
    const auto &told = event.event_data.rmr_completion_event_data;
    DAT_DTO_COMPLETION_EVENT_DATA like{};
    like.user_cookie = told.user_cookie;
    like.status = told.status;
    like.operation = DAT_DTO_BIND_MW;
    judge_transfer(who, from, like, taken);
}

void world::judge_transfer(worker &who, dispatcher &from, const DAT_DTO_COMPLETION_EVENT_DATA &told,
                           const span &taken)
{
    const auto id = static_cast<std::uint32_t>(told.user_cookie.as_64 >> 32);
    if ((id & pool_bit) != 0)
        return judge_pooled(who, from, told, taken);
    const auto number = static_cast<std::uint32_t>(told.user_cookie.as_64);
    life &l = lives_[id % lives_.size()];
    std::unique_lock hold(l.m);
    const auto say = [&](const std::string &what) {
        return "number " + std::to_string(number & ~receive_bit) + " of " + describe(l) + ": " +
               dat::operation_name(told.operation) + ", " + dat::dto_status_name(told.status) +
               ", length " + std::to_string(told.transfered_length) + ": " + what;
    };
    if (id == 0 || l.id != id)
        run_.broken("a completion carries the cookie of its operation",
                    say("endpoint " + std::to_string(id) + " is none, or long gone"));
    if (l.death.ended < taken.began)
        run_.broken("no completion comes once dat_ep_free or dat_ep_reset has returned",
                    say("asked for " + in_milliseconds(taken.began - l.death.ended) + " after " +
                        (l.was_reset ? "dat_ep_reset" : "dat_ep_free")));
    const bool received = (number & receive_bit) != 0;
    const bool alive = l.now_in != phase::dying && l.now_in != phase::gone;
    const bool names_endpoint = told.operation == DAT_DTO_BIND_MW || told.ep_handle == l.ep;
    if (alive && (!names_endpoint || &from != (received ? l.recv : l.request).get()))
        run_.broken("a completion comes in the EVD of its endpoint, and names it", say(""));
    ledger &books = received ? l.receives : l.requests;
    const entry *posted = books.look_up(number);
    if (posted == nullptr)
        run_.broken("each operation completes once",
                    say("it was not posted, or has completed before"));
    const entry done = *posted;
    if (run_.asked.api == "2.0" && told.operation != done.what) // DAT 1.2 does not
        run_.broken("a completion says which operation it was", describe(l, done));
    const bool success = told.status == DAT_DTO_SUCCESS;
    const auto implied = [&](const entry &each) {
        who.count(counter::suppressed);
        if (alive) {
            give_back(l, each);
            l.request->release(1);
        }
    };
    if (finding wrong = books.back(number, taken, success, implied))
        run_.broken("operations complete once, and in the order in which they were posted",
                    describe(l, done) + ": " + *wrong);
    if (success) {
        who.count(counter::succeeded);
        who.count(counter::bytes, told.transfered_length);
        if (alive)
            judge_success(who, l, from, done, static_cast<std::uint32_t>(told.transfered_length),
                          taken);
    } else {
        const bool flushed = told.status == DAT_DTO_ERR_FLUSHED;
        who.count(flushed ? counter::flushed : counter::failed);
        // The event that ends the connection may come later, or in another EVD.
        if (alive && (!l.meets || !l.meets->excused(taken.ended)) &&
            !(flushed && l.meets && l.meets->blamed.exchange(true))) {
            const std::string failed = describe(l, done) + ": " + dat::dto_status_name(told.status);
            hold.unlock(); // the cause may be in the hands of another thread
            run_.broken("nothing fails before the connection is ended", failed);
        }
    }
    if (!alive)
        return;
    give_back(l, done);
    (received ? l.recv : l.request)->release(1);
}

namespace {

/// Explains wrong bytes: the data came late, or belong to another operation, or the source has
/// changed.
std::string explain(const std::uint8_t *bytes, side &from, std::uint32_t length, std::int64_t at)
{
    std::string out = "other bytes from " + std::to_string(at) + ":";
    char byte[8];
    for (std::int64_t i = at; i < std::min<std::int64_t>(length, at + 16); ++i) {
        std::snprintf(byte, sizeof byte, " %02x", bytes[i]);
        out += byte;
    }
    const auto in_page = [](const void *at_address) {
        return std::to_string(reinterpret_cast<std::uintptr_t>(at_address) % 4096);
    };
    out += "; at " + in_page(bytes) + " of its page, the source at " + in_page(from.source());
    if (difference(from.source(), length, from.number) >= 0)
        out += "; the source has changed";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto then = difference(bytes, length, from.number);
    return out + "; 100 ms later " +
           (then < 0 ? "all are right" : "other bytes from " + std::to_string(then));
}

} // namespace

void world::judge_success(worker &who, life &l, dispatcher &from, const entry &done,
                          std::uint32_t length, const span &taken)
{
    if (!l.meets)
        run_.broken("nothing is transferred without a connection", describe(l, done));
    if (done.what != DAT_DTO_RECEIVE && length != done.length)
        run_.broken("a completion has the length of its operation",
                    describe(l, done) + ": " + std::to_string(length));
    if (&from == l.conn.get()) {
        if (l.now_in == phase::ended && l.ended_by.before(taken))
            run_.broken("in one EVD, DISCONNECTED comes after the last success",
                        describe(l, done) + "; the end was " + dat::event_name(l.ended_as));
        if (!l.was_established)
            l.first_success = std::min(l.first_success, taken.ended);
    }
    if (done.what == DAT_DTO_RECEIVE)
        return judge_message(who, l, done, l.owner->in(done.slot), length, taken);
    if (done.what == DAT_DTO_BIND_MW) {
        who.count(counter::windows);
        l.opened = true;
        tell_of_window(l);
    }
    if (done.what != DAT_DTO_RDMA_READ)
        return;
    side &peer = peer_of(*l.owner);
    if (done.target >= 0)
        run_.broken("an invalid key reads nothing", describe(l, done));
    const std::uint8_t *const bytes = l.owner->sink(done.slot);
    if (const auto at = difference(bytes, length, peer.number); at >= 0)
        run_.broken("an RDMA read brings what is there",
                    describe(l, done) + ": " + explain(bytes, peer, length, at));
}

/// A receive was filled: by a message of the peer, each of which comes once, in order and whole.
void world::judge_message(worker &, life &l, const entry &done, const std::uint8_t *bytes,
                          std::uint32_t length, const span &taken)
{
    encounter &e = *l.meets;
    side &s = *l.owner;
    const int direction = 1 - s.role;
    const std::string which = describe(l, done) + ", filled with " + std::to_string(length);
    std::lock_guard hold(e.m);
    if (length == 0) {
        if (++e.empty_come[direction] > e.empty_sent[direction])
            run_.broken("each message comes once", which + ": it was not sent");
        return;
    }
    header head{};
    if (length < sizeof head)
        run_.broken("a message arrives with its length", which);
    std::memcpy(&head, bytes, sizeof head);
    if (head.encounter != e.number || head.direction != static_cast<unsigned>(direction) ||
        head.length != length)
        run_.broken("a message arrives unchanged, on its connection",
                    which + ", of encounter " + std::to_string(e.number) + ": its header is of " +
                        std::to_string(head.encounter) + ", message " +
                        std::to_string(head.number) + " of " + std::to_string(head.length) +
                        " bytes, by the " + (head.direction == 0 ? "active" : "passive") + " side");
    const entry *sent = e.messages[direction].look_up(head.number);
    if (sent == nullptr)
        run_.broken("each message comes once",
                    which + ": number " + std::to_string(head.number) + " has come before");
    const entry message = *sent;
    if (finding wrong = e.messages[direction].back(head.number, taken, true, [](const entry &) {}))
        run_.broken("messages come once, and in the order in which they were sent",
                    which + ", message " + std::to_string(head.number) + ": " + *wrong);
    const auto at =
        difference(bytes + sizeof head, length - static_cast<std::uint32_t>(sizeof head),
                   seed_of(e.number, direction, head.number));
    if (at >= 0)
        run_.broken("a message arrives unchanged", which + ", message " +
                                                       std::to_string(head.number) +
                                                       ": other bytes from " + std::to_string(at));
    if (message.target < 0)
        return;
    const auto there = difference(s.target(message.target), message.target_length,
                                  seed_of(e.number, direction, head.write_number));
    if (there >= 0)
        run_.broken("what an RDMA write wrote is there when a later message is received",
                    which + ", message " + std::to_string(head.number) + ", write number " +
                        std::to_string(head.write_number) + " of " +
                        std::to_string(message.target_length) + " bytes: other bytes from " +
                        std::to_string(there));
    e.targets[direction] &= ~(1u << message.target);
}

// ---------------------------------------------------------------------------------- connections

void world::judge_connection(worker &who, dispatcher &from, const DAT_EVENT &event,
                             const span &taken)
{
    const auto &told = event.event_data.connect_event_data;
    for (const auto &each : sides_) {
        if (each->ep.load(std::memory_order_relaxed) != told.ep_handle)
            continue;
        life *l = each->current.load();
        if (l == nullptr)
            continue;
        std::lock_guard hold(l->m);
        if (l->ep != told.ep_handle || l->conn.get() != &from)
            continue;
        if (l->now_in == phase::dying)
            return;
        if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
            established(who, *l, told, taken);
        else
            ended(who, *l, event.event_number, taken);
        return;
    }
    if (!from.holds_remains_of(told.ep_handle))
        run_.broken("a connection event names an endpoint of its EVD",
                    std::string(dat::event_name(event.event_number)) + " in EVD " +
                        std::to_string(from.number));
}

void world::established(worker &who, life &l, const DAT_CONNECTION_EVENT_DATA &data,
                        const span &taken)
{
    const bool early = l.now_in == phase::connecting || l.now_in == phase::accepting;
    const bool overlapped =
        l.now_in == phase::ended && !l.was_established && !l.ended_by.before(taken);
    if (!early && !overlapped)
        run_.broken("a connection is established once, and before it ends", describe(l));
    encounter &e = *l.meets;
    if (!e.accepted.load())
        run_.broken("a connection is established when its request was accepted", describe(l));
    if (l.first_success < taken.began)
        run_.broken("in one EVD, ESTABLISHED comes before the first completion", describe(l));
    l.was_established = true;
    who.count(counter::established);
    if (l.owner->role == 0) {
        e.timeout.store(never);
        card theirs{};
        if (data.private_data == nullptr || data.private_data_size < DAT_COUNT{sizeof theirs})
            run_.broken("private data of an accept arrive", describe(l));
        std::memcpy(&theirs, data.private_data, sizeof theirs);
        if (theirs.magic != card_magic || theirs.encounter != e.number || theirs.role != 1)
            run_.broken("private data of an accept arrive as they were given", describe(l));
    }
    if (!early)
        return;
    l.now_in = phase::connected;
    l.since = now();
}

void world::ended(worker &who, life &l, DAT_EVENT_NUMBER number, const span &taken)
{
    const std::string what = std::string(dat::event_name(number)) + " for " + describe(l);
    const bool pending = l.now_in == phase::connecting || l.now_in == phase::accepting;
    if (!pending && l.now_in != phase::connected)
        run_.broken("a connection ends in one event", what);
    encounter &e = *l.meets;
    const bool excused = e.excused(taken.ended);
    bool valid = false;
    switch (number) {
    case DAT_CONNECTION_EVENT_DISCONNECTED:
    case DAT_CONNECTION_EVENT_BROKEN:
        valid = excused;
        break;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        // Another stress program may listen there by now.
        valid = l.now_in == phase::connecting && (e.rejected.load() || e.at->closing.load());
        break;
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        valid = l.now_in == phase::connecting && excused;
        break;
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        valid = l.now_in == phase::connecting && taken.ended - e.began >= e.timeout.load();
        break;
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
        valid = l.now_in == phase::accepting && excused;
        break;
    default:
        break;
    }
    if (!valid)
        run_.broken("a connection ends only when a side ends it, with the proper event",
                    what + "; its attempt, begun " + in_milliseconds(taken.ended - e.began) +
                        " ago at qualifier " + std::to_string(e.at->qualifier) + ", has " +
                        std::to_string(e.requests.load()) + " requests" +
                        (e.accepted.load() ? ", was accepted" : "") +
                        (e.rejected.load() ? ", was rejected" : "") +
                        (e.ending.load() ? ", is being ended" : ""));
    who.count(l.now_in == phase::connecting ? counter::refused : counter::ended);
    e.begin_to_end();
    l.now_in = phase::ended;
    l.since = now();
    l.ended_by = taken;
    l.ended_as = number;
    l.conn->release(std::exchange(l.conn_room, 0));
}

/// A request is accepted by the endpoint it is meant for, if that is free.
void world::answer(worker &who, dispatcher &from, const DAT_EVENT &event)
{
    const auto &told = event.event_data.cr_arrival_event_data;
    if ((from.streams & DAT_EVD_CR_FLAG) == 0)
        run_.broken("connection requests come in EVDs for them", "");
    DAT_CR_PARAM param{};
    MUST(who, dat_cr_query, told.cr_handle, DAT_CR_FIELD_ALL, &param);
    card theirs{};
    if (param.private_data == nullptr || param.private_data_size < DAT_COUNT{sizeof theirs})
        run_.broken("private data of a request arrive", "");
    std::memcpy(&theirs, param.private_data, sizeof theirs);
    if (theirs.magic != card_magic || theirs.link >= links_.size() || theirs.role != 0)
        run_.broken("private data of a request arrive as they were given", "");
    if (theirs.process != program::process_id())
        return MUST(who, dat_cr_reject, told.cr_handle, 0, nullptr);
    link &of = *links_[theirs.link];
    std::shared_ptr<encounter> e;
    {
        std::lock_guard hold(of.m);
        e = of.latest;
        if (!e || theirs.encounter > e->number)
            e = nullptr; // not noted yet, or nobody asked for it
        else if (theirs.encounter < e->number)
            e = std::make_shared<encounter>(); // its asker has given up
    }
    if (e == nullptr)
        run_.broken("a request arrives for an attempt to connect", "it is of no attempt");
    if (e->number != 0 && e->requests.fetch_add(1) != 0)
        run_.broken("an attempt to connect arrives once", "link " + std::to_string(theirs.link));
    const bool known = e->number != 0;
    side &passive = *sides_[2 * theirs.link + 1];
    if (known && !stopping()) {
        if (who.random.one_in(8) && hand_on(who, told.cr_handle, *e))
            return;
        // With an endpoint come the requests of an RSP, and of a PSP that makes them.
        const bool made =
            param.local_ep_handle != DAT_HANDLE_NULL && param.local_ep_handle != passive.ep.load();
        if (!who.random.one_in(20) &&
            (made ? accept_with_made(who, told.cr_handle, passive, param.local_ep_handle, e)
                  : accept_with_own(who, told.cr_handle, passive, param.local_ep_handle, e)))
            return;
    }
    if (known) {
        e->rejected.store(true);
        e->begin_to_end();
    }
    MUST(who, dat_cr_reject, told.cr_handle, 0, nullptr);
}

/// To another service point, where it arrives once more.
bool world::hand_on(worker &who, DAT_CR_HANDLE request, encounter &e)
{
    std::shared_ptr<listener> to;
    {
        std::lock_guard hold(listeners_lock_);
        to = listeners_[who.random.below(static_cast<std::uint32_t>(listeners_.size()))];
    }
    e.requests.fetch_sub(1);
    const DAT_RETURN code = CALL(who, dat_cr_handoff, request, to->qualifier);
    if (code == DAT_SUCCESS) {
        who.count(counter::handed_on);
        return true;
    }
    e.requests.fetch_add(1);
    if (!is(code, DAT_INVALID_PARAMETER) || !to->closing.load())
        run_.must(code, "dat_cr_handoff");
    return false;
}

/// Accepts with the endpoint that is there, which may be reserved for the request.
bool world::accept_with_own(worker &who, DAT_CR_HANDLE request, side &passive,
                            DAT_EP_HANDLE reserved, const std::shared_ptr<encounter> &e)
{
    if (!passive.use.try_lock_shared())
        return false;
    std::shared_lock hold(passive.use, std::adopt_lock);
    life *l = passive.current.load();
    if (l == nullptr)
        return false;
    std::shared_ptr<listener> reservation;
    {
        std::lock_guard books(l->m);
        const bool fits = reserved == DAT_HANDLE_NULL
                              ? l->now_in == phase::idle
                              : l->now_in == phase::reserved && l->ep == reserved;
        if (!fits || !l->conn->reserve(2))
            return false;
        meet(*l, e, phase::accepting);
        reservation = std::exchange(l->reservation, nullptr);
    }
    if (reservation)
        reservation->closing.store(true);
    accept(who, request, reserved == DAT_HANDLE_NULL ? l->ep : DAT_HANDLE_NULL, *l, *e);
    if (reservation)
        MUST(who, dat_rsp_free, reservation->rsp);
    return true;
}

/// Accepts with the endpoint that came with the request, in place of an endpoint that does nothing.
bool world::accept_with_made(worker &who, DAT_CR_HANDLE request, side &passive, DAT_EP_HANDLE made,
                             const std::shared_ptr<encounter> &e)
{
    if (!passive.use.try_lock())
        return false;
    std::lock_guard hold(passive.use, std::adopt_lock);
    if (life *l = passive.current.load()) {
        {
            std::lock_guard books(l->m);
            if (l->now_in != phase::idle)
                return false;
        }
        free_ep(who, passive, *l);
    }
    const own_evds evds = evds_for(who);
    if (evds.conn->holds_remains_of(made) || !evds.conn->reserve(2)) {
        retire_evds(evds);
        return false;
    }
    adopt(who, passive, made, evds);
    life &l = *passive.current.load();
    {
        std::lock_guard books(l.m);
        meet(l, e, phase::accepting);
    }
    accept(who, request, DAT_HANDLE_NULL, l, *e);
    return true;
}

/// `with` is null if the request has the endpoint.
void world::accept(worker &who, DAT_CR_HANDLE request, DAT_EP_HANDLE with, life &l, encounter &e)
{
    e.accepted.store(true);
    const card mine{card_magic, e.number, 1, l.owner->link, program::process_id()};
    MUST(who, dat_cr_accept, request, with, sizeof mine, const_cast<card *>(&mine));
    std::lock_guard books(l.m);
    l.begun = true;
}

// ----------------------------------------------------------------------------------- the others

void world::judge_software(dispatcher &from, const DAT_EVENT &event, const span &taken)
{
    const auto pointer =
        reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer);
    std::lock_guard hold(from.m);
    const auto number = static_cast<std::uint32_t>(pointer - 1);
    if (finding wrong = from.software.back(number, taken, true, [](const entry &) {}))
        run_.broken("software events come once, and in the order in which they were posted",
                    "number " + std::to_string(number) + " in EVD " + std::to_string(from.number) +
                        ": " + *wrong);
    --from.reserved;
}

/// Every EVD has room for all possible events, so it never overflows. Broken endpoints may be
/// reported.
void world::look_at_async(worker &who)
{
    DAT_EVENT event{};
    while (CALL(who, dat_evd_dequeue, async_, &event) == DAT_SUCCESS)
        if (event.event_number != DAT_ASYNC_ERROR_EP_BROKEN && !run_.asked.faults)
            run_.broken("there is no asynchronous error but of endpoints that broke",
                        "event " + std::to_string(event.event_number));
}

// --------------------------------------------------------------------------------------- stalls

void world::look_at(life &l)
{
    std::lock_guard hold(l.m);
    const instant limit = now() - run_.patience;
    const auto stalled = [&](const char *rule) {
        std::string what = describe(l);
        const auto add = [&](const entry &each) { what += "\n    " + describe(l, each); };
        l.requests.for_open(add);
        l.receives.for_open(add);
        run_.broken(rule, what);
    };
    switch (l.now_in) {
    case phase::reserved:
        if (!l.reservation && l.since < limit)
            stalled("an endpoint is free once its reservation ended and its request was answered");
        break;
    case phase::connecting:
    case phase::accepting:
        if (l.since < limit - run_.patience)
            stalled("an attempt to connect comes to an end");
        break;
    case phase::connected:
        if (l.meets->ending_since.load() < limit && l.since < limit)
            stalled("a connection that was ended ends");
        if (l.requests.oldest() < limit)
            stalled("each request completes");
        break;
    case phase::ended:
        if (l.since < limit && std::min(l.requests.oldest(), l.receives.oldest()) < limit)
            stalled("each operation completes once the connection has ended");
        break;
    default:
        break;
    }
}

void world::look_for_stalls()
{
    for (const auto &each : sides_)
        if (life *l = each->current.load(); l != nullptr && !abandoned())
            look_at(*l);
    for (const auto &each : run_.workers) {
        const char *call = each->call.load();
        const instant since = each->since.load();
        if (call != nullptr && since < now() - run_.patience)
            run_.broken("a call returns",
                        std::string(call) + " of thread " + std::to_string(each->number));
    }
}

} // namespace stress
