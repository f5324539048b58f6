// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// EVDs and CNOs: made, moved, resized, disabled and freed, while events flow.
#include "world.hpp"

#include "program/failure.hpp"
#include "program/libdat2.hpp"

#include <algorithm>

namespace stress {

namespace {

constexpr DAT_COUNT own_qlen = 64;
constexpr DAT_COUNT common_qlen = 512;
constexpr DAT_COUNT most_qlen = 1024;
constexpr unsigned number_of_cnos = 3;
constexpr unsigned events_at_a_time = 8;

constexpr DAT_TIMEOUT microseconds(instant time)
{
    return static_cast<DAT_TIMEOUT>(time / 1000);
}

} // namespace

// ------------------------------------------------------------------------------------ the books

bool dispatcher::reserve(DAT_COUNT room)
{
    std::lock_guard hold(m);
    if (reserved + room > capacity)
        return false;
    reserved += room;
    return true;
}

void dispatcher::release(DAT_COUNT room)
{
    std::lock_guard hold(m);
    reserved -= room;
}

void dispatcher::leave(DAT_EP_HANDLE ep, DAT_COUNT room)
{
    std::lock_guard hold(m);
    left_behind.push_back({ep, room, never});
}

void dispatcher::left(DAT_EP_HANDLE ep, instant when)
{
    std::lock_guard hold(m);
    for (remains &each : left_behind)
        if (each.ep == ep && each.since == never)
            each.since = when;
}

/// Whether events of a freed endpoint may be left. DAT 1.2 finds the endpoint of an event by its
/// DAT 2.0 endpoint, whose place another may have taken: events left by one endpoint may name any
/// later one.
bool dispatcher::holds_remains_of(DAT_EP_HANDLE ep)
{
    static const bool of_any = program::is_over_dat12();
    std::lock_guard hold(m);
    return std::any_of(left_behind.begin(), left_behind.end(),
                       [ep](const remains &each) { return of_any || each.ep == ep; });
}

/// Notes that the EVD was found empty. The caller is among its takers. Another taker may still have
/// an event of an endpoint that went, and not have looked at it.
void dispatcher::found_empty(instant began)
{
    std::lock_guard hold(m);
    if (taking.load(std::memory_order_relaxed) != 1)
        return;
    const auto gone =
        std::remove_if(left_behind.begin(), left_behind.end(), [&](const remains &each) {
            if (each.since >= began)
                return false;
            reserved -= each.room;
            return true;
        });
    left_behind.erase(gone, left_behind.end());
}

// --------------------------------------------------------------------------------------- making

bool world::merges(unsigned one, unsigned other) const
{
    const auto index = [](unsigned stream) {
        return stream == DAT_EVD_SOFTWARE_FLAG   ? 0
               : stream == DAT_EVD_CR_FLAG       ? 1
               : stream == DAT_EVD_DTO_FLAG      ? 2
               : stream == DAT_EVD_RMR_BIND_FLAG ? 4
                                                 : 3;
    };
    return provider_.evd_stream_merging_supported[index(one)][index(other)] == DAT_TRUE;
}

/// Software events and binds come in wherever they may.
dispatcher_ptr world::make_dispatcher(worker &who, unsigned streams, DAT_COUNT qlen)
{
    bool software = true;
    for (unsigned stream : {DAT_EVD_CR_FLAG, DAT_EVD_DTO_FLAG, DAT_EVD_CONNECTION_FLAG})
        software = software && ((streams & stream) == 0 || merges(DAT_EVD_SOFTWARE_FLAG, stream));
    if (software)
        streams |= DAT_EVD_SOFTWARE_FLAG;
    if ((streams & DAT_EVD_DTO_FLAG) != 0 && merges(DAT_EVD_RMR_BIND_FLAG, DAT_EVD_DTO_FLAG))
        streams |= DAT_EVD_RMR_BIND_FLAG;
    auto made = std::make_shared<dispatcher>(next_evd_.fetch_add(1), streams);
    made->capacity = std::min(qlen, attr_.max_evd_qlen);
    MUST(who, dat_evd_create, ia_, made->capacity, DAT_HANDLE_NULL,
         static_cast<DAT_EVD_FLAGS>(streams), &made->handle);
    return made;
}

void world::make_common_evds(worker &who)
{
    for (unsigned i = 0; i < number_of_cnos; ++i) {
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        MUST(who, dat_cno_create, ia_, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno);
        cnos_.push_back(cno);
    }
    const auto make = [&](std::vector<dispatcher_ptr> &into, unsigned streams, unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            into.push_back(make_dispatcher(who, streams, common_qlen));
            into.back()->common = true;
            into.back()->by_cno = i < number_of_cnos && i * 2 < count;
            common_.push_back(into.back());
        }
    };
    make(transfers_, DAT_EVD_DTO_FLAG, 5);
    make(connections_, DAT_EVD_CONNECTION_FLAG, 3);
    make(requests_, DAT_EVD_CR_FLAG, 2);
    if (merges(DAT_EVD_DTO_FLAG, DAT_EVD_CONNECTION_FLAG)) {
        make(transfers_, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 2);
        connections_.insert(connections_.end(), transfers_.end() - 2, transfers_.end());
    }
    for (const dispatcher_ptr &each : common_)
        if (each->by_cno)
            move_to_cno(who, *each);
}

dispatcher_ptr world::pick_common(worker &who)
{
    return common_[who.random.below(static_cast<std::uint32_t>(common_.size()))];
}

/// Picks an EVD of many endpoints, or an EVD of one endpoint alone. May be null.
dispatcher_ptr world::pick_evd(worker &who)
{
    if (!who.random.one_in(3))
        return pick_common(who);
    side &s = *sides_[who.random.below(static_cast<std::uint32_t>(sides_.size()))];
    life *l = s.current.load();
    if (l == nullptr)
        return nullptr;
    std::lock_guard hold(l->m);
    const unsigned which = who.random.below(3);
    return which == 0 ? l->recv : which == 1 ? l->request : l->conn;
}

// ----------------------------------------------------------------------------------------- CNOs

/// Waits for a CNO. When it was triggered, empties the EVDs that are emptied for no other reason: a
/// trigger that is lost leaves something in one of them for good.
void world::serve_cno(worker &who)
{
    static constexpr DAT_TIMEOUT timeouts[] = {0, 200, 2'000, 20'000};
    const auto which = who.random.below(number_of_cnos);
    const DAT_TIMEOUT timeout = timeouts[who.random.below(4)];
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    const instant began = now();
    const DAT_RETURN code = CALL(who, dat_cno_wait, cnos_[which], timeout, &by);
    const instant waited = now() - began;
    if (is(code, DAT_QUEUE_EMPTY)) {
        who.count(counter::expired);
        if (microseconds(waited) < timeout)
            run_.broken("a wait lasts until its timeout",
                        "dat_cno_wait for " + std::to_string(timeout) + " us ended after " +
                            std::to_string(microseconds(waited)));
        return;
    }
    run_.must(code, "dat_cno_wait");
    who.count(counter::triggers);
    for (const dispatcher_ptr &each : common_)
        if (each->by_cno && (each->moving.load() || each->cno.load() == static_cast<int>(which)))
            drain(who, *each);
}

void world::drain(worker &who, dispatcher &from)
{
    while (dequeue(who, from)) {
    }
}

/// Moves an EVD to another CNO, at times by way of none. An EVD that is emptied by a CNO's word
/// always has one.
void world::move_to_cno(worker &who, dispatcher &which)
{
    if (!which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    which.moving.store(true);
    const bool none = !which.by_cno && who.random.one_in(3);
    if (which.by_cno && who.random.one_in(3))
        MUST(who, dat_evd_modify_cno, which.handle, DAT_HANDLE_NULL);
    const int to = none ? -1 : static_cast<int>(who.random.below(number_of_cnos));
    MUST(who, dat_evd_modify_cno, which.handle,
         none ? DAT_HANDLE_NULL : cnos_[static_cast<unsigned>(to)]);
    which.cno.store(to);
    which.moving.store(false);
    who.count(counter::associations);
}

void world::disable_for_a_moment(worker &who, dispatcher &which)
{
    if (!which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    MUST(who, dat_evd_disable, which.handle);
    MUST(who, dat_evd_enable, which.handle);
}

/// A CNO that is freed before the EVD that triggers it.
void world::use_new_cno(worker &who, dispatcher &which)
{
    if (which.by_cno || !which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(who, dat_cno_create, ia_, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno);
    MUST(who, dat_evd_modify_cno, which.handle, cno);
    which.cno.store(-1);
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    const DAT_RETURN code = CALL(who, dat_cno_wait, cno, 1'000, &by);
    if (code != DAT_SUCCESS && !is(code, DAT_QUEUE_EMPTY))
        run_.must(code, "dat_cno_wait");
    if (code == DAT_SUCCESS && by != which.handle)
        run_.broken("a CNO names the EVD that triggered it", "it names another one, or none");
    MUST(who, dat_evd_modify_cno, which.handle, DAT_HANDLE_NULL);
    MUST(who, dat_cno_free, cno);
    who.count(counter::associations, 2);
}

// ------------------------------------------------------------------------------- other settings

void world::forbid_waits_for_a_moment(worker &who, dispatcher &which)
{
    if (!which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    which.forbidding.fetch_add(1);
    MUST(who, dat_evd_set_unwaitable, which.handle);
    MUST(who, dat_evd_clear_unwaitable, which.handle);
    which.forbidding.fetch_add(1);
}

/// Resizes an EVD, never below the number of events that may come, so that only a waiter can be in
/// the way.
void world::resize(worker &who, dispatcher &which)
{
    const bool of_device = (which.streams & DAT_EVD_DTO_FLAG) != 0; // the device may not be able to
                                                                    // resize
    if ((of_device && !can_resize_.load()) || !which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    const DAT_COUNT most = std::min(which.common ? most_qlen : 2 * own_qlen, attr_.max_evd_qlen);
    // There are no books of requests.
    const DAT_COUNT least = (which.streams & DAT_EVD_CR_FLAG) != 0 ? common_qlen : own_qlen;
    if (most <= least)
        return;
    const DAT_COUNT wanted =
        least + static_cast<DAT_COUNT>(who.random.below(static_cast<std::uint32_t>(most - least)));
    DAT_COUNT before = 0;
    {
        std::lock_guard books(which.m);
        before = which.capacity;
        if (which.reserved > wanted)
            return;
        which.capacity = std::min(before, wanted);
    }
    const unsigned waits = which.waits.load(); // before the next line, see dispatcher::waits
    const unsigned inside = which.waiting.load();
    const DAT_RETURN code = CALL(who, dat_evd_resize, which.handle, wanted);
    const bool waiter = inside != 0 || which.waits.load() != waits;
    std::lock_guard books(which.m);
    which.capacity = code == DAT_SUCCESS ? wanted : before;
    if (of_device && is(code, DAT_MODEL_NOT_SUPPORTED))
        can_resize_.store(false);
    else if (code == DAT_SUCCESS)
        who.count(counter::resizes);
    else if (!run_.is_fault(code) && (!is(code, DAT_INVALID_STATE) || !waiter))
        run_.broken("an EVD without a waiter can be resized to what may come in",
                    "dat_evd_resize from " + std::to_string(before) + " to " +
                        std::to_string(wanted) + ": " + program::code_text(code));
}

void world::query(worker &who, dispatcher &which)
{
    if (!which.configuring.try_lock())
        return;
    std::lock_guard hold(which.configuring, std::adopt_lock);
    DAT_EVD_PARAM param{};
    MUST(who, dat_evd_query, which.handle, DAT_EVD_FIELD_ALL, &param);
    std::lock_guard books(which.m);
    if (param.evd_qlen < which.capacity)
        run_.broken("an EVD has at least the length that was asked for",
                    std::to_string(param.evd_qlen) + " instead of " +
                        std::to_string(which.capacity));
}

/// Changes an EVD that stays.
void world::reconfigure(worker &who)
{
    const dispatcher_ptr which = pick_common(who);
    switch (who.random.below(8)) {
    case 0:
        return disable_for_a_moment(who, *which);
    case 1:
        return forbid_waits_for_a_moment(who, *which);
    case 2:
        return use_new_cno(who, *which);
    case 3:
        return query(who, *which);
    case 4:
    case 5:
        return resize(who, *which);
    default:
        return move_to_cno(who, *which);
    }
}

// ------------------------------------------------------------------------------ software events

void world::post_software(worker &who, dispatcher &to)
{
    if ((to.streams & DAT_EVD_SOFTWARE_FLAG) == 0 || !to.use.try_lock_shared())
        return;
    std::shared_lock hold(to.use, std::adopt_lock);
    if (to.freed || !to.reserve(1))
        return;
    entry wanted;
    {
        std::lock_guard books(to.m);
        wanted.number = to.next_software++;
        wanted.thread = who.number;
        wanted.posted.began = now();
        to.software.open(wanted);
    }
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer =
        reinterpret_cast<void *>(std::uintptr_t{wanted.number} + 1);
    MUST(who, dat_evd_post_se, to.handle, &event);
    who.count(counter::software);
    std::lock_guard books(to.m);
    to.software.posted(wanted.number, now());
}

/// Waits without a timeout. Another thread will post an event to the EVD.
void world::sleep_until_kicked(worker &who)
{
    const dispatcher_ptr on = pick_evd(who);
    if (on == nullptr || (on->streams & DAT_EVD_SOFTWARE_FLAG) == 0 || stopping())
        return;
    if (sleeping_.fetch_add(1) >= run_.asked.threads / 2) {
        sleeping_.fetch_sub(1);
        return;
    }
    {
        std::lock_guard hold(lists_lock_);
        sleepers_.push_back(on);
    }
    wait(who, *on, DAT_TIMEOUT_INFINITE, 1);
    {
        std::lock_guard hold(lists_lock_);
        sleepers_.erase(std::find(sleepers_.begin(), sleepers_.end(), on));
    }
    sleeping_.fetch_sub(1);
}

/// Until the adapter is closed, or one of the events comes that are still on their way.
void world::sleep_until_sent_home(worker &who)
{
    if (who.random.one_in(2)) {
        if (const dispatcher_ptr on = pick_evd(who))
            wait(who, *on, DAT_TIMEOUT_INFINITE, 1 + static_cast<DAT_COUNT>(who.random.below(8)));
        return;
    }
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    who.for_good.store(true);
    const DAT_RETURN code =
        CALL(who, dat_cno_wait, cnos_[who.random.below(number_of_cnos)], DAT_TIMEOUT_INFINITE, &by);
    who.for_good.store(false);
    if (DAT_GET_SUBTYPE(code) == DAT_INVALID_STATE_CNO_DEAD && closed_.load())
        who.count(counter::sent_home);
    else
        run_.must(code, "dat_cno_wait");
}

/// Posts events again and again as long as a waiter sleeps: others may take them.
void world::kick(worker &who)
{
    dispatcher_ptr whom;
    {
        std::lock_guard hold(lists_lock_);
        if (sleepers_.empty())
            return;
        whom = sleepers_[who.random.below(static_cast<std::uint32_t>(sleepers_.size()))];
    }
    post_software(who, *whom);
}

/// Frees an EVD whose endpoint was freed, unless a thread still uses it.
void world::bury_evds(worker &who)
{
    dispatcher_ptr gone;
    {
        std::lock_guard hold(lists_lock_);
        if (retired_.empty())
            return;
        gone = retired_.front();
        retired_.erase(retired_.begin());
    }
    if (gone->use.try_lock()) {
        std::lock_guard hold(gone->use, std::adopt_lock);
        MUST(who, dat_evd_free, gone->handle);
        gone->freed = true;
        return;
    }
    std::lock_guard hold(lists_lock_);
    retired_.push_back(gone);
}

// ------------------------------------------------------------------------------ what a thread does

void world::work(worker &who)
{
    while (!abandoned() && (!stopping() || !deserted())) {
        const unsigned what = who.random.below(32);
        if (what < 14) {
            act(who);
        } else if (what < 24) {
            const dispatcher_ptr from = pick_evd(who);
            for (unsigned i = 0; from && !from->by_cno && i < events_at_a_time; ++i)
                if (!dequeue(who, *from))
                    break;
        } else if (what < 26) {
            static constexpr DAT_TIMEOUT timeouts[] = {0, 100, 1'000, 10'000};
            // At the end nothing helps out a trigger that was lost.
            const dispatcher_ptr on = pick_evd(who);
            if (on && !(on->by_cno && stopping()))
                wait(who, *on, timeouts[who.random.below(4)],
                     who.random.one_in(2) ? 1 : 1 + static_cast<DAT_COUNT>(who.random.below(8)));
        } else if (what < 29) {
            serve_cno(who);
        } else if (what == 29) {
            if (!stopping()) // keeps to the rule above
                reconfigure(who);
        } else if (what == 30) {
            kick(who);
            bury_evds(who);
            look_at_async(who);
            serve_pool(who);
        } else if (stopping()) {
            continue;
        } else if (who.random.one_in(4)) {
            sleep_until_kicked(who);
        } else if (who.random.one_in(16)) {
            replace_listener(who);
        } else if (const dispatcher_ptr to = pick_evd(who)) {
            post_software(who, *to);
        }
    }
    while (!abandoned() && sleeping_.load() != 0)
        kick(who);
    if (abandoned() && who.random.one_in(2))
        sleep_until_sent_home(who);
}

} // namespace stress
