// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints: made, connected, used, ended, reset and freed.
#include "world.hpp"

#include "program/failure.hpp"
#include "program/system.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

namespace stress {

namespace {

constexpr std::size_t life_slots = 32768; // seconds go by until one is used again
constexpr unsigned number_of_listeners = 3;
constexpr unsigned sides_per_zone = 4;
constexpr unsigned most_posts_at_end = 32;
constexpr std::uint8_t canary = 0x5a;
constexpr std::uint32_t canary_size = 64;
constexpr DAT_COUNT events_of_a_connection = 2;
constexpr instant completion_time = 20'000'000;
constexpr unsigned first_qualifier = 10'000, qualifiers = 20'000; ///< qualifiers of RSPs

DAT_EP_ATTR wanted_attributes()
{
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.max_recv_dtos = attr.max_request_dtos = depth;
    attr.max_recv_iov = attr.max_request_iov = 2;
    attr.max_rdma_read_in = attr.max_rdma_read_out = 4;
    attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    return attr;
}

int take_slot(unsigned &in_use, unsigned slots)
{
    const auto slot = static_cast<unsigned>(std::countr_one(in_use));
    if (slot >= slots)
        return -1;
    in_use |= 1u << slot;
    return static_cast<int>(slot);
}

DAT_LMR_TRIPLET local(const side &s, const std::uint8_t *bytes, std::uint32_t length)
{
    return {reinterpret_cast<DAT_VADDR>(bytes), length, s.lmr_context.load()};
}

DAT_RMR_TRIPLET remote(const side &s, const std::uint8_t *bytes, std::uint32_t length)
{
    return {reinterpret_cast<DAT_VADDR>(bytes), length, s.rmr_context.load()};
}

/// The remote segment, by way of a window if there is one.
DAT_RMR_TRIPLET remote(worker &who, encounter &e, const side &s, const std::uint8_t *bytes,
                       std::uint32_t length)
{
    DAT_RMR_TRIPLET there = remote(s, bytes, length);
    std::lock_guard books(e.m);
    if (e.windows[s.role] != 0 && who.random.one_in(2))
        there.rmr_context = e.windows[s.role];
    return there;
}

DAT_DTO_COOKIE cookie_of(const life &l, std::uint32_t number)
{
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = std::uint64_t{l.id} << 32 | number;
    return cookie;
}

/// Mostly short; at times longer than what travels in one piece.
std::uint32_t some_length(worker &who, std::uint32_t least)
{
    const std::uint32_t most = who.random.one_in(8) ? slot_size : 1024;
    return least + who.random.below(most - least + 1);
}

std::uint64_t next_word(std::uint64_t &state)
{
    state += 0x9e3779b97f4a7c15;
    return (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9;
}

} // namespace

void fill(std::uint8_t *bytes, std::uint32_t length, std::uint64_t seed)
{
    for (std::uint32_t at = 0; at < length; at += 8) {
        const std::uint64_t word = next_word(seed);
        std::memcpy(bytes + at, &word, std::min<std::size_t>(8, length - at));
    }
}

std::int64_t difference(const std::uint8_t *bytes, std::uint32_t length, std::uint64_t seed)
{
    for (std::uint32_t at = 0; at < length; at += 8) {
        const std::uint64_t word = next_word(seed);
        if (std::memcmp(bytes + at, &word, std::min<std::size_t>(8, length - at)) != 0)
            return at;
    }
    return -1;
}

// --------------------------------------------------------------------------------------- making

world::world(run &of) : run_(of), lives_(life_slots)
{
    worker &who = *run_.workers.back();
    MUST(who, dat_ia_openv, const_cast<char *>(run_.asked.ia.c_str()), 256, &async_, &ia_,
         DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_TRUE);
    MUST(who, dat_ia_query, ia_, nullptr, DAT_IA_FIELD_ALL, &attr_, DAT_PROVIDER_FIELD_ALL,
         &provider_);
    make_common_evds(who);
    for (unsigned i = 0; i < number_of_listeners; ++i)
        listeners_.push_back(make_listener(who));
    has_pools_ = provider_.srq_supported == DAT_TRUE && attr_.max_srqs != 0 &&
                 run_.asked.api == "2.0" && !run_.asked.no_srqs;
    for (unsigned i = 0; i < 2 * run_.asked.links; i += sides_per_zone) {
        zones_.push_back(std::make_unique<zone>());
        MUST(who, dat_pz_create, ia_, &zones_.back()->handle);
    }
    for (unsigned i = 0; i < 2 * run_.asked.links; ++i) {
        sides_.push_back(std::make_unique<side>());
        prepare(who, *sides_.back(), i);
    }
    for (unsigned i = 0; i < run_.asked.links; ++i)
        links_.push_back(std::make_unique<link>());
}

void world::prepare(worker &who, side &s, unsigned number)
{
    s.number = number;
    s.link = number / 2;
    s.role = static_cast<int>(number % 2);
    s.memory.resize(side::size());
    fill(s.source(), slot_size, number);
    s.home = zones_[number / sides_per_zone].get();
    register_memory(who, s);
}

void world::unregister_memory(worker &who, side &s)
{
    if (s.rmr != DAT_HANDLE_NULL) // it may be bound to the region
        MUST(who, dat_rmr_free, s.rmr);
    MUST(who, dat_lmr_free, s.lmr);
}

void world::register_memory(worker &who, side &s)
{
    DAT_REGION_DESCRIPTION region{};
    region.for_va = s.memory.data();
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    MUST(who, dat_lmr_create, ia_, DAT_MEM_TYPE_VIRTUAL, region, s.memory.size(), s.home->handle,
         DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &s.lmr, &lmr_context, &rmr_context, nullptr,
         nullptr);
    s.lmr_context.store(lmr_context);
    s.rmr_context.store(rmr_context);
    if (attr_.max_rmrs != 0 && !run_.asked.no_windows)
        MUST(who, dat_rmr_create, s.home->handle, &s.rmr);
}

std::shared_ptr<listener> world::make_listener(worker &who)
{
    auto made = std::make_shared<listener>();
    const dispatcher_ptr &to = requests_[who.random.below(2)];
    const bool makes_endpoints =
        provider_.ep_creator != DAT_PSP_CREATES_EP_NEVER && who.random.one_in(3);
    MUST(who, dat_psp_create_any, ia_, &made->qualifier, to->handle,
         makes_endpoints ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG, &made->psp);
    return made;
}

/// Attempts that are on their way to the old one may be refused.
void world::replace_listener(worker &who)
{
    const std::shared_ptr<listener> fresh = make_listener(who);
    std::shared_ptr<listener> old;
    {
        std::lock_guard hold(listeners_lock_);
        auto &slot = listeners_[who.random.below(number_of_listeners)];
        old = std::exchange(slot, fresh);
    }
    old->closing.store(true);
    MUST(who, dat_psp_free, old->psp);
}

world::own_evds world::evds_for(worker &who)
{
    own_evds evds;
    if (who.random.one_in(4)) {
        evds.recv = make_dispatcher(who, DAT_EVD_DTO_FLAG, 64);
        evds.request =
            who.random.one_in(2) ? evds.recv : make_dispatcher(who, DAT_EVD_DTO_FLAG, 64);
        evds.conn = make_dispatcher(who, DAT_EVD_CONNECTION_FLAG, 64);
        return evds;
    }
    const auto some = [&](const std::vector<dispatcher_ptr> &from) {
        return from[who.random.below(static_cast<std::uint32_t>(from.size()))];
    };
    evds.recv = some(transfers_);
    evds.request = some(transfers_);
    evds.conn = who.random.one_in(2) && (evds.recv->streams & DAT_EVD_CONNECTION_FLAG) != 0
                    ? evds.recv
                    : some(connections_);
    return evds;
}

/// The completions of all endpoints of an SRQ come in one EVD, which has room for its receives.
world::own_evds world::pooled_evds_for(worker &who, const std::shared_ptr<receive_pool> &pool)
{
    own_evds evds;
    evds.pool = pool;
    evds.recv = pool->evd;
    evds.request = transfers_[who.random.below(static_cast<std::uint32_t>(transfers_.size()))];
    evds.conn = connections_[who.random.below(static_cast<std::uint32_t>(connections_.size()))];
    return evds;
}

life &world::new_life(side &s, DAT_EP_HANDLE ep, const own_evds &evds)
{
    for (;;) {
        const std::uint32_t id = next_life_.fetch_add(1);
        life &l = lives_[id % life_slots];
        std::lock_guard hold(l.m);
        if (id == 0 || l.now_in != phase::gone)
            continue; // the endpoint has been there for long
        l.id = id;
        l.owner = &s;
        l.ep = ep;
        l.now_in = phase::idle;
        l.born = l.since = now();
        l.pool = evds.pool;
        l.recv = evds.recv;
        l.request = evds.request;
        l.conn = evds.conn;
        l.requests = l.receives = {};
        l.next_number = 0;
        l.out_slots = l.in_slots = l.sink_slots = 0;
        l.early_receives = 0;
        l.meets.reset();
        l.reservation.reset();
        l.bound = l.opened = false;
        l.window = 0;
        l.begun = l.leaves_itself = l.was_established = l.was_reset = false;
        l.conn_room = 0;
        l.posts_at_end = 0;
        l.ended_by = {};
        l.death = {never, never};
        l.first_success = never;
        living_.fetch_add(1);
        s.ep.store(ep);
        s.current.store(&l);
        return l;
    }
}

/// Prepares the memory for an endpoint that is to be made.
void world::prepare_memory(worker &who, side &s)
{
    for (int slot = 0; slot < static_cast<int>(depth); ++slot)
        for (const bool sink : {false, true}) {
            if (((sink ? s.watched_sinks : s.watched_in) & 1u << slot) == 0)
                continue;
            const std::uint8_t *bytes = sink ? s.sink(slot) : s.in(slot);
            if (std::any_of(bytes, bytes + canary_size, [](auto b) { return b != canary; }))
                run_.broken("an endpoint that is gone leaves its memory alone",
                            "side " + std::to_string(s.number) + ", slot " + std::to_string(slot) +
                                (sink ? " of reads" : " of receives"));
        }
    s.watched_in = s.watched_sinks = 0;
    if (who.random.one_in(8)) {
        unregister_memory(who, s);
        register_memory(who, s);
    }
}

void world::make(worker &who, side &s)
{
    prepare_memory(who, s);
    const std::shared_ptr<receive_pool> pool = pick_pool(who, *s.home);
    own_evds evds = pool != nullptr ? pooled_evds_for(who, pool) : evds_for(who);
    const DAT_EP_ATTR attr = wanted_attributes();
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    if (pool != nullptr)
        MUST(who, dat_ep_create_with_srq, ia_, s.home->handle, evds.recv->handle,
             evds.request->handle, evds.conn->handle, pool->srq, &attr, &ep);
    else
        MUST(who, dat_ep_create, ia_, s.home->handle, evds.recv->handle, evds.request->handle,
             evds.conn->handle, &attr, &ep);
    who.count(counter::endpoints);
    // Events of a former endpoint with this handle may still be queued, and would be mistaken for
    // its own.
    if (!evds.conn->holds_remains_of(ep)) {
        new_life(s, ep, evds);
        return;
    }
    MUST(who, dat_ep_free, ep);
    if (pool != nullptr)
        leave_pool(who, *pool);
    retire_evds(evds);
}

/// Frees the EVDs of an endpoint, which nothing feeds any more. EVDs of many endpoints stay.
void world::retire_evds(const own_evds &evds)
{
    if (evds.recv->common)
        return;
    std::lock_guard hold(lists_lock_);
    retired_.push_back(evds.recv);
    retired_.push_back(evds.conn);
    if (evds.request != evds.recv)
        retired_.push_back(evds.request);
}

/// An endpoint that a listener made for its request.
void world::adopt(worker &who, side &s, DAT_EP_HANDLE ep, const own_evds &evds)
{
    prepare_memory(who, s);
    DAT_EP_PARAM param{};
    param.pz_handle = s.home->handle;
    param.recv_evd_handle = evds.recv->handle;
    param.request_evd_handle = evds.request->handle;
    param.connect_evd_handle = evds.conn->handle;
    param.ep_attr = wanted_attributes();
    constexpr DAT_EP_PARAM_MASK wanted =
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
        DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
        DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS;
    MUST(who, dat_ep_modify, ep, wanted, &param);
    new_life(s, ep, evds);
    who.count(counter::endpoints);
    who.count(counter::made_for);
}

// ----------------------------------------------------------------------------------- what to do

void world::act(worker &who)
{
    act_on(who, *sides_[who.random.below(static_cast<std::uint32_t>(sides_.size()))]);
}

/// What ends the endpoint, or makes a new one, needs it alone.
void world::act_on(worker &who, side &s)
{
    life *l = s.current.load();
    if (l == nullptr || who.random.one_in(10)) {
        if (!s.use.try_lock())
            return;
        std::lock_guard hold(s.use, std::adopt_lock);
        l = s.current.load();
        if (l != nullptr)
            retire(who, s, *l);
        else if (!stopping())
            make(who, s);
        return;
    }
    if (!s.use.try_lock_shared())
        return;
    std::shared_lock hold(s.use, std::adopt_lock);
    if (l = s.current.load(); l == nullptr)
        return;
    phase in{};
    {
        std::lock_guard books(l->m);
        in = l->now_in;
    }
    switch (in) {
    case phase::idle:
        if (stopping())
            return;
        if (s.role == 0 && !who.random.one_in(3))
            connect(who, s, *l);
        else if (s.role == 1 && who.random.one_in(6))
            reserve(who, s, *l);
        else
            post_receive(who, s, *l);
        break;
    case phase::reserved:
        post_receive(who, s, *l);
        break;
    case phase::connecting:
    case phase::accepting:
        if (stopping() || who.random.one_in(20))
            disconnect(who, s, *l);
        else if (who.random.one_in(2))
            post_receive(who, s, *l);
        break;
    case phase::connected:
        if (stopping() || who.random.one_in(60) || (l->pool != nullptr && l->pool->is_exhausted()))
            disconnect(who, s, *l);
        else
            transfer(who, s, *l);
        break;
    case phase::ended:
        if (!stopping() && who.random.one_in(4))
            transfer(who, s, *l);
        break;
    default:
        break;
    }
}

// -------------------------------------------------------------------------------- connecting

void world::meet(life &l, const std::shared_ptr<encounter> &e, phase next)
{
    l.meets = e;
    l.now_in = next;
    l.since = now();
    l.conn_room = events_of_a_connection;
    std::lock_guard hold(e->m);
    e->credits[1 - l.owner->role] += l.early_receives;
    e->pooled[1 - l.owner->role] = l.pool != nullptr;
}

/// Marks the endpoint as connecting from now on. Null if it cannot connect.
std::shared_ptr<encounter> world::begin_encounter(worker &who, life &l,
                                                  std::shared_ptr<listener> at)
{
    link &of = *links_[l.owner->link];
    auto e = std::make_shared<encounter>();
    {
        std::lock_guard hold(of.m);
        e->number = std::uint64_t{l.owner->link} << 32 | ++of.encounters;
    }
    e->link = l.owner->link;
    e->may_fail = run_.asked.faults;
    e->at = std::move(at);
    const bool hasty = who.random.one_in(12);
    const DAT_TIMEOUT timeout =
        hasty ? 200 + who.random.below(20'000) : static_cast<DAT_TIMEOUT>(run_.patience / 1000);
    e->timeout.store(instant{timeout} * 1000);
    {
        std::lock_guard hold(l.m);
        if (l.now_in != phase::idle || !l.conn->reserve(events_of_a_connection))
            return nullptr;
        e->began = now();
        meet(l, e, phase::connecting);
    }
    std::lock_guard hold(of.m);
    of.latest = e;
    return e;
}

void world::connect(worker &who, side &s, life &l)
{
    if (who.random.one_in(8) && connect_like(who, s, l))
        return;
    std::shared_ptr<listener> at;
    {
        link &of = *links_[s.link];
        std::lock_guard hold(of.m);
        at = std::exchange(of.reserved, nullptr);
    }
    if (!at || at->closing.load()) {
        std::lock_guard hold(listeners_lock_);
        at = listeners_[who.random.below(number_of_listeners)];
    }
    const std::shared_ptr<encounter> e = begin_encounter(who, l, std::move(at));
    if (!e)
        return;
    const card mine{card_magic, e->number, 0, s.link, program::process_id()};
    MUST(who, dat_ep_connect, l.ep, attr_.ia_address_ptr, e->at->qualifier,
         static_cast<DAT_TIMEOUT>(e->timeout.load() / 1000), sizeof mine, const_cast<card *>(&mine),
         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    who.count(counter::connects);
    std::lock_guard hold(l.m);
    l.begun = true;
}

/// To where another endpoint is connected, if one is found.
bool world::connect_like(worker &who, const side &s, life &l)
{
    side &other = *sides_[2 * who.random.below(run_.asked.links)];
    if (&other == &s || !other.use.try_lock_shared())
        return false;
    std::shared_lock hold(other.use, std::adopt_lock);
    life *const model = other.current.load();
    if (model == nullptr)
        return false;
    std::shared_ptr<encounter> there;
    {
        std::lock_guard books(model->m);
        if (model->now_in != phase::connected)
            return false;
        there = model->meets;
    }
    const std::shared_ptr<encounter> e = begin_encounter(who, l, there->at);
    if (!e)
        return false;
    const card mine{card_magic, e->number, 0, s.link, program::process_id()};
    const DAT_RETURN code = CALL(who, dat_ep_dup_connect, l.ep, model->ep,
                                 static_cast<DAT_TIMEOUT>(e->timeout.load() / 1000), sizeof mine,
                                 const_cast<card *>(&mine), DAT_QOS_BEST_EFFORT);
    std::lock_guard books(l.m);
    if (code == DAT_SUCCESS) {
        who.count(counter::connects);
        who.count(counter::alike);
        l.begun = true;
        return true;
    }
    if (!run_.is_fault(code) && (!is(code, DAT_INVALID_STATE) || !there->excused(now())))
        run_.broken("an endpoint connects to where another one is connected",
                    std::string("dat_ep_dup_connect: ") + program::code_text(code));
    l.conn->release(std::exchange(l.conn_room, 0));
    l.meets.reset();
    l.now_in = phase::idle;
    return false;
}

// ----------------------------------------------------------------------------------- reserving

/// Reserves the endpoint for the other side's next attempt.
void world::reserve(worker &who, side &s, life &l)
{
    {
        std::lock_guard hold(l.m);
        if (l.now_in != phase::idle)
            return;
        l.now_in = phase::reserved;
        l.since = now();
    }
    auto at = std::make_shared<listener>();
    const auto first = static_cast<unsigned>(program::process_id()) * 977;
    at->qualifier = first_qualifier + (first + next_qualifier_.fetch_add(1)) % qualifiers;
    const dispatcher_ptr &to = requests_[who.random.below(2)];
    const DAT_RETURN code =
        CALL(who, dat_rsp_create, ia_, at->qualifier, l.ep, to->handle, &at->rsp);
    if (is(code, DAT_CONN_QUAL_IN_USE) || run_.is_fault(code)) {
        std::lock_guard hold(l.m);
        l.now_in = phase::idle;
        return;
    }
    run_.must(code, "dat_rsp_create");
    who.count(counter::reserved);
    {
        std::lock_guard hold(l.m);
        l.reservation = at;
    }
    link &of = *links_[s.link];
    std::lock_guard hold(of.m);
    of.reserved = at;
}

/// The endpoint is unchanged, unless its request has arrived.
void world::end_reservation(worker &who, life &l)
{
    std::shared_ptr<listener> at;
    {
        std::lock_guard hold(l.m);
        at = std::exchange(l.reservation, nullptr);
        if (at)
            l.since = now();
    }
    if (at) {
        at->closing.store(true);
        MUST(who, dat_rsp_free, at->rsp);
    }
    DAT_EP_STATE state{};
    DAT_BOOLEAN receives_idle{}, requests_idle{};
    MUST(who, dat_ep_get_status, l.ep, &state, &receives_idle, &requests_idle);
    std::lock_guard hold(l.m);
    if (state == DAT_EP_STATE_UNCONNECTED)
        l.now_in = phase::idle;
    else if (state != DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)
        run_.broken("without its RSP an endpoint is unconnected, or a request has it",
                    describe(l) + ": state " + std::to_string(state));
}

void world::disconnect(worker &who, side &, life &l)
{
    {
        std::lock_guard hold(l.m);
        if (!l.meets || !l.begun)
            return; // nothing can be ended between the call that connects and its first effect
        l.leaves_itself = true;
        l.meets->begin_to_end();
    }
    const bool gracefully = who.random.one_in(2);
    MUST(who, dat_ep_disconnect, l.ep,
         gracefully ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
}

// -------------------------------------------------------------------------------- transferring

void world::transfer(worker &who, side &s, life &l)
{
    switch (who.random.below(8)) {
    case 0:
    case 1:
    case 2:
        while (post_receive(who, s, l) && !who.random.one_in(4)) {
        }
        break;
    case 3:
    case 4:
        while (post_send(who, s, l, -1, 0, 0) && !who.random.one_in(4)) {
        }
        break;
    case 5:
        post_write_and_send(who, s, l);
        break;
    case 6:
        post_read(who, s, l);
        break;
    default:
        if (who.random.one_in(200))
            spoil(who, s, l);
        else
            post_bind(who, s, l);
        break;
    }
}

bool world::post_receive(worker &who, side &s, life &l)
{
    if (l.pool != nullptr)
        return post_to_pool(who, *l.pool);
    entry wanted;
    {
        std::lock_guard hold(l.m);
        if (l.now_in == phase::ended && ++l.posts_at_end > most_posts_at_end)
            return false;
        if (l.receives.open_count() >= depth || !l.recv->reserve(1))
            return false;
        wanted.slot = take_slot(l.in_slots, depth);
        if (wanted.slot < 0) {
            l.recv->release(1);
            return false;
        }
        wanted.number = l.next_number++ | receive_bit;
        wanted.what = DAT_DTO_RECEIVE;
        wanted.length = slot_size;
        wanted.thread = who.number;
        wanted.posted.began = now();
        l.receives.open(wanted);
    }
    DAT_LMR_TRIPLET segment = local(s, s.in(wanted.slot), wanted.length);
    MUST(who, dat_ep_post_recv, l.ep, 1, &segment, cookie_of(l, wanted.number),
         DAT_COMPLETION_DEFAULT_FLAG);
    who.count(counter::posted);
    std::lock_guard hold(l.m);
    l.receives.posted(wanted.number, now());
    if (l.meets) {
        std::lock_guard books(l.meets->m);
        ++l.meets->credits[1 - s.role];
    } else {
        ++l.early_receives;
    }
    return true;
}

/// The books of a request, around the call that posts it. `post` gets the entry with its number and
/// slot.
template <class Post>
bool world::post_request(worker &who, life &l, const entry &asked, Post &&post)
{
    entry wanted = asked;
    bool connected = false;
    {
        std::lock_guard hold(l.m);
        connected = l.now_in == phase::connected;
        if (!connected && (l.now_in != phase::ended || ++l.posts_at_end > most_posts_at_end))
            return false;
        if (l.requests.open_count() >= depth || !l.request->reserve(1))
            return false;
        unsigned &slots = wanted.what == DAT_DTO_RDMA_READ ? l.sink_slots : l.out_slots;
        wanted.slot = take_slot(slots, depth);
        if (wanted.slot < 0) {
            l.request->release(1);
            return false;
        }
        wanted.number = l.next_number++;
        wanted.thread = who.number;
        wanted.posted.began = now();
        l.requests.open(wanted);
    }
    const DAT_RETURN code = post(wanted);
    std::lock_guard hold(l.m);
    if (code == DAT_SUCCESS) {
        who.count(counter::posted);
        l.requests.posted(wanted.number, now());
        return true;
    }
    // It is being disconnected, from this side or the other.
    const bool excused = connected && l.meets->excused(now());
    if (!run_.is_fault(code) && (!is(code, DAT_INVALID_STATE) || !excused))
        run_.broken("an operation is accepted while connected, and once that has ended",
                    describe(l, wanted) + ": " + program::code_text(code));
    l.requests.withdraw(wanted.number);
    give_back(l, wanted);
    l.request->release(1);
    return false;
}

/// Sends a message if the peer has a receive posted and sending has not stopped. The message
/// announces the write before it.
bool world::post_send(worker &who, side &s, life &l, int target, std::uint32_t target_length,
                      std::uint32_t write_number)
{
    std::shared_ptr<encounter> e;
    {
        std::lock_guard hold(l.m);
        e = l.meets;
        if (!e)
            return false;
        std::lock_guard books(e->m);
        if (l.now_in == phase::connected && e->credits[s.role] <= 0 && !e->pooled[s.role])
            return false;
        --e->credits[s.role];
    }
    entry wanted;
    wanted.what = DAT_DTO_SEND;
    wanted.length = target < 0 && who.random.one_in(32) ? 0 : some_length(who, sizeof(header));
    bool noted = false;
    const bool posted = post_request(who, l, wanted, [&](const entry &now_open) {
        const header head{e->number,
                          now_open.number,
                          wanted.length,
                          target,
                          target_length,
                          write_number,
                          static_cast<std::uint32_t>(s.role)};
        if (wanted.length != 0) {
            std::memcpy(s.out(now_open.slot), &head, sizeof head);
            fill(s.out(now_open.slot) + sizeof head,
                 wanted.length - static_cast<std::uint32_t>(sizeof head),
                 seed_of(e->number, s.role, now_open.number));
        }
        {
            std::lock_guard books(e->m);
            if (wanted.length == 0) {
                ++e->empty_sent[s.role];
            } else {
                entry message = now_open;
                message.target = target;
                message.target_length = target_length;
                e->messages[s.role].open(message);
            }
        }
        noted = true;
        DAT_LMR_TRIPLET segments[2] = {
            local(s, s.out(now_open.slot), wanted.length / 2),
            local(s, s.out(now_open.slot) + wanted.length / 2, wanted.length - wanted.length / 2)};
        const DAT_RETURN code = CALL(who, dat_ep_post_send, l.ep, 2, segments,
                                     cookie_of(l, now_open.number), DAT_COMPLETION_DEFAULT_FLAG);
        std::lock_guard books(e->m);
        if (code == DAT_SUCCESS)
            e->messages[s.role].posted(now_open.number, now());
        else if (wanted.length != 0)
            e->messages[s.role].withdraw(now_open.number);
        return code;
    });
    if (!posted && !noted) {
        std::lock_guard books(e->m);
        ++e->credits[s.role];
    }
    return posted;
}

/// Writes and sends: by the time the message is received, the written data are there.
void world::post_write_and_send(worker &who, side &s, life &l)
{
    std::shared_ptr<encounter> e;
    int target = -1;
    {
        std::lock_guard hold(l.m);
        e = l.meets;
        if (!e || l.requests.open_count() + 2 > depth)
            return;
        std::lock_guard books(e->m);
        if (e->credits[s.role] > 0 || e->pooled[s.role])
            target = take_slot(e->targets[s.role], target_slots);
    }
    if (target < 0)
        return;
    entry wanted;
    wanted.what = DAT_DTO_RDMA_WRITE;
    wanted.suppressed = who.random.one_in(2);
    wanted.length = some_length(who, 1);
    std::uint32_t number = 0;
    const bool posted = post_request(who, l, wanted, [&](const entry &now_open) {
        number = now_open.number;
        fill(s.out(now_open.slot), wanted.length, seed_of(e->number, s.role, number));
        side &peer = peer_of(s);
        DAT_LMR_TRIPLET segment = local(s, s.out(now_open.slot), wanted.length);
        const DAT_RMR_TRIPLET there = remote(who, *e, peer, peer.target(target), wanted.length);
        return CALL(who, dat_ep_post_rdma_write, l.ep, 1, &segment, cookie_of(l, number), &there,
                    wanted.suppressed ? DAT_COMPLETION_SUPPRESS_FLAG : DAT_COMPLETION_DEFAULT_FLAG);
    });
    // A write without a message that announces it is not checked.
    if (!posted || !post_send(who, s, l, target, wanted.length, number)) {
        if (posted)
            return; // the write may still be outstanding: the target is not reused
        std::lock_guard books(e->m);
        e->targets[s.role] &= ~(1u << target);
    }
}

bool world::post_read(worker &who, side &s, life &l)
{
    entry wanted;
    wanted.what = DAT_DTO_RDMA_READ;
    wanted.length = some_length(who, 1);
    return post_request(who, l, wanted, [&](const entry &now_open) {
        std::memset(s.sink(now_open.slot), 0, wanted.length);
        side &peer = peer_of(s);
        DAT_LMR_TRIPLET segment = local(s, s.sink(now_open.slot), wanted.length);
        const DAT_RMR_TRIPLET there = remote(who, *l.meets, peer, peer.source(), wanted.length);
        return CALL(who, dat_ep_post_rdma_read, l.ep, 1, &segment, cookie_of(l, now_open.number),
                    &there, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

/// Opens the memory that the peer writes to and reads, once in a connection.
void world::post_bind(worker &who, side &s, life &l)
{
    {
        std::lock_guard hold(l.m);
        if (s.rmr == DAT_HANDLE_NULL || l.bound || l.now_in != phase::connected ||
            (l.request->streams & DAT_EVD_RMR_BIND_FLAG) == 0)
            return;
        l.bound = true;
    }
    entry wanted;
    wanted.what = DAT_DTO_BIND_MW;
    DAT_RMR_CONTEXT window = 0;
    const bool posted = post_request(who, l, wanted, [&](const entry &now_open) {
        const DAT_LMR_TRIPLET all = local(s, s.target(0), (target_slots + 1) * slot_size);
        return CALL(who, dat_rmr_bind, s.rmr, s.lmr, &all, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
                    l.ep, cookie_of(l, now_open.number), DAT_COMPLETION_DEFAULT_FLAG, &window);
    });
    if (!posted)
        return;
    std::lock_guard hold(l.m);
    l.window = window;
    tell_of_window(l);
}

/// To the peer, once it is open.
void world::tell_of_window(life &l)
{
    if (!l.opened || l.window == 0)
        return;
    std::lock_guard hold(l.meets->m);
    l.meets->windows[l.owner->role] = l.window;
}

/// A read with an invalid key breaks the connection.
void world::spoil(worker &who, side &s, life &l)
{
    {
        std::lock_guard hold(l.m);
        if (!l.meets || l.now_in != phase::connected)
            return;
        l.meets->begin_to_end();
    }
    entry wanted;
    wanted.what = DAT_DTO_RDMA_READ;
    wanted.length = 64;
    wanted.target = 0; // shall not succeed
    post_request(who, l, wanted, [&](const entry &now_open) {
        DAT_LMR_TRIPLET segment = local(s, s.sink(now_open.slot), wanted.length);
        DAT_RMR_TRIPLET there = remote(peer_of(s), peer_of(s).source(), wanted.length);
        there.rmr_context ^= 0x5a5a0000;
        return CALL(who, dat_ep_post_rdma_read, l.ep, 1, &segment, cookie_of(l, now_open.number),
                    &there, DAT_COMPLETION_DEFAULT_FLAG);
    });
}

// --------------------------------------------------------------------------------------- ending

/// No other thread uses the endpoint. It is sometimes freed with operations outstanding; while
/// stopping, only after everything has completed.
void world::retire(worker &who, side &s, life &l)
{
    bool reserved = false;
    bool finished = false;
    bool idle = false;
    bool resettable = false;
    {
        std::lock_guard hold(l.m);
        idle = l.now_in == phase::idle;
        reserved = l.now_in == phase::reserved;
        // Another thread may still hold its ESTABLISHED event, which could be mistaken for the next
        // connection's: it is not reset then.
        resettable = l.now_in == phase::ended && !stopping() &&
                     (l.was_established || l.conn->taking.load() == 0);
        finished = l.now_in == phase::ended && l.requests.oldest() == never &&
                   l.receives.oldest() == never;
        if (l.pool != nullptr) // waits until receives taken for it have completed
            finished = finished && (stopping() || now() - l.since > completion_time);
        if (finished && l.meets && l.pool == nullptr) {
            std::lock_guard books(l.meets->m);
            const auto [lost, behind] = l.meets->messages[1 - s.role].overtaken();
            if (lost != nullptr)
                run_.broken("no message is lost while those behind it arrive",
                            describe(l, *lost) + "; behind it " + describe(l, *behind));
        }
    }
    if (reserved) {
        if (stopping() || who.random.one_in(8))
            end_reservation(who, l);
        return;
    }
    const bool hurry = !stopping() && who.random.one_in(idle ? 8 : 20) &&
                       (l.pool == nullptr || !l.pool->is_worn());
    if (resettable && (finished ? who.random.one_in(2) : who.random.one_in(20)))
        reset(who, s, l);
    else if (finished || hurry || (stopping() && idle))
        free_ep(who, s, l);
}

void world::begin_death(worker &who, life &l)
{
    const std::set<dispatcher *> all{l.recv.get(), l.request.get(), l.conn.get()};
    for (dispatcher *each : all) {
        each->leaving.fetch_add(1);
        each->departures.fetch_add(1);
    }
    std::lock_guard hold(l.m);
    if (l.meets)
        l.meets->begin_to_end();
    l.now_in = phase::dying;
    l.since = now();
    l.death.began = now();
    who.count(counter::dropped, l.requests.open_count() + l.receives.open_count());
    l.request->leave(l.ep, static_cast<DAT_COUNT>(l.requests.open_count()));
    l.recv->leave(l.ep, static_cast<DAT_COUNT>(l.receives.open_count()));
    l.conn->leave(l.ep, l.conn_room);
    l.owner->watched_in |= l.in_slots;
    l.owner->watched_sinks |= l.sink_slots;
}

/// The endpoint is gone, or is as new. Its memory is left alone from now on.
void world::finish_death(life &l)
{
    side &s = *l.owner;
    const std::set<dispatcher *> all{l.recv.get(), l.request.get(), l.conn.get()};
    {
        std::lock_guard hold(l.m);
        l.death.ended = now();
        for (dispatcher *each : all)
            each->left(l.ep, l.death.ended);
        l.now_in = phase::gone;
        l.recv.reset();
        l.request.reset();
        l.conn.reset();
        l.pool.reset();
    }
    for (int slot = 0; slot < static_cast<int>(depth); ++slot) {
        if ((s.watched_in & 1u << slot) != 0)
            std::memset(s.in(slot), canary, canary_size);
        if ((s.watched_sinks & 1u << slot) != 0)
            std::memset(s.sink(slot), canary, canary_size);
    }
    for (dispatcher *each : all)
        each->leaving.fetch_sub(1);
    living_.fetch_sub(1);
}

void world::reset(worker &who, side &s, life &l)
{
    const own_evds evds{l.recv, l.request, l.conn, l.pool};
    const DAT_EP_HANDLE ep = l.ep;
    begin_death(who, l);
    l.was_reset = true;
    MUST(who, dat_ep_reset, ep);
    s.current.store(nullptr);
    finish_death(l);
    who.count(counter::resets);
    s.watched_in = s.watched_sinks = 0; // they are posted again
    new_life(s, ep, evds);
}

void world::free_ep(worker &who, side &s, life &l)
{
    const own_evds evds{l.recv, l.request, l.conn, l.pool};
    const DAT_EP_HANDLE ep = l.ep;
    begin_death(who, l);
    MUST(who, dat_ep_free, ep);
    s.current.store(nullptr);
    s.ep.store(DAT_HANDLE_NULL);
    finish_death(l);
    if (evds.pool != nullptr)
        leave_pool(who, *evds.pool);
    retire_evds(evds);
}

// -------------------------------------------------------------------------------- at the very end

void world::close_down(worker &who)
{
    for (const auto &each : listeners_)
        MUST(who, dat_psp_free, each->psp);
    for (const dispatcher_ptr &each : common_)
        drain(who, *each);
    leave_current_pools(who);
    look_at_async(who);
    while (!retired_.empty())
        bury_evds(who);
    for (const dispatcher_ptr &each : common_) {
        MUST(who, dat_evd_free, each->handle);
        if (each->software.open_count() != 0)
            run_.broken("each software event arrives",
                        "EVD " + std::to_string(each->number) + " has kept some");
    }
    for (const auto &s : sides_)
        unregister_memory(who, *s);
    for (const auto &each : zones_)
        MUST(who, dat_pz_free, each->handle);
    for (DAT_CNO_HANDLE cno : cnos_)
        MUST(who, dat_cno_free, cno);
    MUST(who, dat_ia_close, ia_, DAT_CLOSE_GRACEFUL_FLAG);
}

void world::close_abruptly(worker &who)
{
    closed_.store(true);
    MUST(who, dat_ia_close, ia_, DAT_CLOSE_ABRUPT_FLAG);
}

void world::expect_memory_left_alone()
{
    std::vector<std::vector<std::uint8_t> *> all;
    for (const auto &each : sides_)
        all.push_back(&each->memory);
    for (const auto &each : pools_)
        all.push_back(&each->memory);
    for (auto *each : all)
        std::fill(each->begin(), each->end(), canary);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const auto *each : all) // compares each byte with its predecessor
        if (each->front() != canary ||
            std::memcmp(each->data(), each->data() + 1, each->size() - 1) != 0)
            run_.broken("an adapter that was closed leaves memory alone", "");
}

} // namespace stress
