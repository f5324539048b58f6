// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style verbs-like, in place of their acme_verbs.cpp: a fabric inside one
// process. It moves data during posts, and is as awkward as devices are: a pair in ERR completes
// its receives only some polls later, perhaps after the port has flushed them; a pair whose peer is
// not there retries; and a responder that refuses an access hears of it by an asynchronous event
// only.
#include "acme_verbs.hpp"

#include "toy_fabric.hpp"

#include <cstring>
#include <deque>
#include <map>
#include <sys/eventfd.h>
#include <utility>
#include <vector>

namespace dapl::acme::verbs {

namespace {

constexpr unsigned late_polls = 3; ///< that find nothing before a receive is flushed

struct toy_device {
    int channel_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int async_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::deque<void *> events;
    std::deque<async_event> async_events;
};

struct toy_queue {
    toy_device *parent;
    void *cookie;
    bool armed = false;
    unsigned vain_polls = 0;
    std::deque<completion> done;
    std::deque<completion> late;
};

struct toy_pair {
    toy_device *parent;
    const void *domain;
    pair_options options;
    std::uint32_t number;
    state now;
    std::uint32_t peer;
    std::deque<request> requests;
    std::deque<request> receives;
};

std::map<std::uint32_t, toy_pair *> pairs;
std::uint32_t last_number = 0;

// ----------------------------------------------------------------------------------------- events

void add(toy_queue &q, const completion &done)
{
    q.done.push_back(done);
    if (!std::exchange(q.armed, false))
        return;
    q.parent->events.push_back(q.cookie);
    raise_signal(q.parent->channel_fd);
}

template <class Event>
bool next(std::deque<Event> &events, int fd, Event &found)
{
    const std::lock_guard<std::mutex> hold(fabric);
    lower_signal(fd);
    if (events.empty())
        return false;
    found = events.front();
    events.pop_front();
    if (!events.empty())
        raise_signal(fd);
    return true;
}

// ------------------------------------------------------------------------------------ moving data

void enter_error(toy_pair &p)
{
    p.now = state::error;
    for (; !p.requests.empty(); p.requests.pop_front())
        add(toy<toy_queue>(*p.options.sends), {p.requests.front().id, DAT_DTO_ERR_FLUSHED, 0});
    for (; !p.receives.empty(); p.receives.pop_front())
        toy<toy_queue>(*p.options.receives)
            .late.push_back({p.receives.front().id, DAT_DTO_ERR_FLUSHED, 0});
}

DAT_DTO_COMPLETION_STATUS access_memory(const request &r, toy_pair &peer)
{
    const bool read = r.what == DAT_DTO_RDMA_READ;
    const toy_segments local = local_of(r);
    if (::access_memory(read, local, {r.remote_address, length_of(local), r.remote_key},
                        peer.domain,
                        read ? DAT_MEM_PRIV_REMOTE_READ_FLAG : DAT_MEM_PRIV_REMOTE_WRITE_FLAG))
        return DAT_DTO_SUCCESS;
    enter_error(peer);
    peer.parent->async_events.push_back({async_event::pair_failed, peer.options.cookie});
    raise_signal(peer.parent->async_fd);
    return DAT_DTO_ERR_REMOTE_ACCESS;
}

DAT_DTO_COMPLETION_STATUS receive(toy_pair &p, const request &from)
{
    const request into = p.receives.front();
    constexpr DAT_DTO_COMPLETION_STATUS results[] = {DAT_DTO_SUCCESS, DAT_DTO_ERR_LOCAL_LENGTH,
                                                     DAT_DTO_ERR_LOCAL_PROTECTION};
    const toy_segments message = local_of(from);
    const fit taken = deliver(local_of(into), message, p.domain, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    const DAT_DTO_COMPLETION_STATUS how = results[static_cast<int>(taken)];
    p.receives.pop_front();
    add(toy<toy_queue>(*p.options.receives),
        {into.id, how, static_cast<DAT_UINT32>(length_of(message))});
    if (how == DAT_DTO_SUCCESS)
        return how;
    enter_error(p);
    return DAT_DTO_ERR_REMOTE_RESPONDER;
}

/// The peer, while it takes what this one sends.
toy_pair *peer_of(const toy_pair &p)
{
    const auto found = pairs.find(p.peer);
    const bool there = found != pairs.end() && found->second->peer == p.number &&
                       (found->second->now == state::rtr || found->second->now == state::rts);
    return there ? found->second : nullptr;
}

/// Does the first request of a pair; false when it has to wait.
bool work_on(toy_pair &p)
{
    toy_pair *peer = peer_of(p);
    if (p.now != state::rts || p.requests.empty() || peer == nullptr)
        return false;
    const request r = p.requests.front();
    const bool read = r.what == DAT_DTO_RDMA_READ;
    DAT_DTO_COMPLETION_STATUS how;
    if (!is_local(local_of(r), p.domain,
                  read ? DAT_MEM_PRIV_LOCAL_WRITE_FLAG : DAT_MEM_PRIV_LOCAL_READ_FLAG))
        how = DAT_DTO_ERR_LOCAL_PROTECTION;
    else if (r.what != DAT_DTO_SEND)
        how = access_memory(r, *peer);
    else if (peer->receives.empty())
        return false;
    else
        how = receive(*peer, r);
    p.requests.pop_front();
    add(toy<toy_queue>(*p.options.sends), {r.id, how, 0});
    if (how != DAT_DTO_SUCCESS)
        enter_error(p);
    return true;
}

int post(toy_pair &p, std::deque<request> &queue, const request &what)
{
    const std::lock_guard<std::mutex> hold(fabric);
    queue.push_back(what);
    if (p.now == state::error)
        enter_error(p);
    toy_pair *peer = peer_of(p);
    for (toy_pair *each : {&p, peer})
        while (each != nullptr && work_on(*each)) {
        }
    return 0;
}

} // namespace

// -------------------------------------------------------------------------------- device and
// memory

int open(device &d, const char * /*interface*/)
{
    auto *made = new toy_device;
    d.handle = made;
    d.channel_fd = made->channel_fd;
    d.async_fd = made->async_fd;
    return d.channel_fd >= 0 && d.async_fd >= 0 ? 0 : EMFILE;
}

void close(device &d)
{
    ::close(d.channel_fd);
    ::close(d.async_fd);
    delete &toy<toy_device>(d);
}

void query(const device & /*d*/, hca_attr &attr)
{
    attr.hardware_version_major = 1;
    attr.max_eps = 4096;
    attr.max_dto_per_ep = 4096;
    attr.max_rdma_read_per_ep_in = 16;
    attr.max_rdma_read_per_ep_out = 16;
    attr.max_cqs = 4096;
    attr.max_cq_depth = 1 << 16;
    attr.max_mrs = 1 << 16;
    attr.max_pds = 4096;
    attr.max_mr_size = SIZE_MAX / 2;
    attr.max_message_size = 1u << 30;
    attr.max_rdma_size = 1u << 30;
}

bool next_async_event(device &d, async_event &found)
{
    return next(toy<toy_device>(d).async_events, d.async_fd, found);
}

int alloc_domain(device &d, domain &made)
{
    made.parent = &d;
    return 0;
}

void free_domain(domain & /*d*/) {}

int register_memory(domain &d, region &made, void *address, DAT_VLEN length,
                    DAT_MEM_PRIV_FLAGS rights, std::uint32_t &key)
{
    constexpr unsigned writes = DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    const auto wanted = static_cast<unsigned>(rights);
    return register_region(made.handle,
                           {&d, reinterpret_cast<std::uintptr_t>(address), length,
                            wanted | DAT_MEM_PRIV_LOCAL_READ_FLAG},
                           (wanted & writes) != 0, key);
}

void deregister_memory(region &r)
{
    deregister_region(r.handle);
}

// ------------------------------------------------------------------------------------- completions

bool next_event(device &d, void *&cookie)
{
    return next(toy<toy_device>(d).events, d.channel_fd, cookie);
}

int create_queue(device &d, queue &made, void *cookie, DAT_COUNT & /*depth*/)
{
    made.parent = &d;
    made.handle = new toy_queue{&toy<toy_device>(d), cookie, false, 0, {}, {}};
    return 0;
}

void destroy_queue(queue &q)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_queue>(q);
    std::erase(t.parent->events, t.cookie);
    delete &t;
}

bool poll(queue &q, completion &done)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_queue>(q);
    if (t.done.empty() && !t.late.empty() && ++t.vain_polls % late_polls == 0) {
        done = t.late.front();
        t.late.pop_front();
        return true;
    }
    if (t.done.empty())
        return false;
    done = t.done.front();
    t.done.pop_front();
    return true;
}

void arm(queue &q)
{
    const std::lock_guard<std::mutex> hold(fabric);
    toy<toy_queue>(q).armed = true;
}

// -------------------------------------------------------------------------------------- queue pair

int create_pair(domain &d, pair &made, const pair_options &options)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto *p =
        new toy_pair{&toy<toy_device>(*d.parent), &d, options, ++last_number, state::init, 0, {}, {}};
    pairs[p->number] = p;
    made.parent = d.parent;
    made.handle = p;
    return 0;
}

void destroy_pair(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    std::erase_if(t.parent->async_events,
                  [&](const async_event &e) { return e.cookie == t.options.cookie; });
    pairs.erase(t.number);
    delete &t;
    p.handle = nullptr;
}

int modify(pair &p, state to, const void *peer)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    if (to == state::error) {
        enter_error(t);
        return 0;
    }
    if (to == state::rtr) {
        peer_name name;
        std::memcpy(&name, peer, sizeof name);
        if (name.process != ::getpid())
            return EHOSTUNREACH;
        t.peer = name.number;
    }
    if (to != state::init && t.now != (to == state::rtr ? state::init : state::rtr))
        return EINVAL;
    if (to == state::init) {
        t.requests.clear();
        t.receives.clear();
    }
    t.now = to;
    return 0;
}

unsigned address_of(const pair &p, void *out)
{
    const peer_name name{::getpid(), toy<toy_pair>(p).number};
    std::memcpy(out, &name, sizeof name);
    return sizeof name;
}

int post_send(pair &p, const request &what)
{
    auto &t = toy<toy_pair>(p);
    return post(t, t.requests, what);
}

int post_receive(pair &p, const request &what)
{
    auto &t = toy<toy_pair>(p);
    return post(t, t.receives, what);
}

} // namespace dapl::acme::verbs
