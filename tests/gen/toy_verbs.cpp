// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style verbs-like, in place of their acme_verbs.cpp: a fabric inside one
// process. It moves data during posts, and is as awkward as devices are: a pair in ERR completes
// its receives only some polls later, perhaps after the port has flushed them; a pair whose peer is
// not there retries; and a responder that refuses an access hears of it by an asynchronous event
// only.
#include "acme_verbs.hpp"

#include "osd_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>
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
    toy_device *of;
    void *cookie;
    bool armed = false;
    unsigned vain_polls = 0;
    std::deque<completion> done;
    std::deque<completion> late;
};

struct toy_pair {
    toy_device *of;
    const void *domain;
    pair_options options;
    std::uint32_t number;
    state now;
    std::uint32_t peer;
    std::deque<request> requests;
    std::deque<request> receives;
};

struct toy_region {
    const void *domain;
    std::uint64_t address;
    std::uint64_t length;
    unsigned rights;
};

struct peer_name {
    pid_t process;
    std::uint32_t number;
};

std::mutex fabric; // guards everything, as devices of several adapters meet here
std::map<std::uint32_t, toy_pair *> pairs;
std::map<std::uint32_t, toy_region> regions;
std::uint32_t last_number = 0;
std::uint32_t last_key = 0;

template <class Toy, class Object>
Toy &toy(const Object &o)
{
    return *static_cast<Toy *>(o.handle);
}

// ----------------------------------------------------------------------------------------- events

void raise(int fd)
{
    const std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);
}

void lower(int fd)
{
    std::uint64_t count;
    (void)!::read(fd, &count, sizeof count);
}

void add(toy_queue &q, const completion &done)
{
    q.done.push_back(done);
    if (!std::exchange(q.armed, false))
        return;
    q.of->events.push_back(q.cookie);
    raise(q.of->channel_fd);
}

template <class Event>
bool next(std::deque<Event> &events, int fd, Event &found)
{
    const std::lock_guard<std::mutex> hold(fabric);
    lower(fd);
    if (events.empty())
        return false;
    found = events.front();
    events.pop_front();
    if (!events.empty())
        raise(fd);
    return true;
}

// ------------------------------------------------------------------------------------ moving data

bool allows(std::uint32_t key, const void *domain, std::uint64_t address, std::uint64_t length,
            unsigned right)
{
    const auto found = regions.find(key);
    if (found == regions.end())
        return false;
    const toy_region &r = found->second;
    return r.domain == domain && (r.rights & right) == right && address >= r.address &&
           length <= r.length && address - r.address <= r.length - length;
}

bool is_local(const request &r, const void *domain, unsigned right)
{
    return std::all_of(r.local, r.local + r.segments, [&](const segment &s) {
        return s.length == 0 || allows(s.key, domain, s.address, s.length, right);
    });
}

std::uint64_t length_of(const request &r)
{
    return std::accumulate(r.local, r.local + r.segments, std::uint64_t{0},
                           [](std::uint64_t sum, const segment &s) { return sum + s.length; });
}

std::vector<iovec> vector_of(const request &r)
{
    std::vector<iovec> out(r.segments);
    std::transform(r.local, r.local + r.segments, out.begin(), [](const segment &s) {
        return iovec{reinterpret_cast<void *>(s.address), s.length};
    });
    return out;
}

/// Copies by the system: memory that is not there any more is an error, not the end of the process.
bool copy(const std::vector<iovec> &to, const std::vector<iovec> &from, std::uint64_t length)
{
    return length == 0 || ::process_vm_readv(::getpid(), to.data(), to.size(), from.data(),
                                             from.size(), 0) == static_cast<ssize_t>(length);
}

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
    const std::uint64_t length = length_of(r);
    const std::vector<iovec> there{{reinterpret_cast<void *>(r.remote_address), length}};
    if (allows(r.remote_key, peer.domain, r.remote_address, length,
               read ? DAT_MEM_PRIV_REMOTE_READ_FLAG : DAT_MEM_PRIV_REMOTE_WRITE_FLAG) &&
        (read ? copy(vector_of(r), there, length) : copy(there, vector_of(r), length)))
        return DAT_DTO_SUCCESS;
    enter_error(peer);
    peer.of->async_events.push_back({async_event::pair_failed, peer.options.cookie});
    raise(peer.of->async_fd);
    return DAT_DTO_ERR_REMOTE_ACCESS;
}

DAT_DTO_COMPLETION_STATUS receive(toy_pair &p, const request &from)
{
    const request into = p.receives.front();
    const std::uint64_t length = length_of(from);
    DAT_DTO_COMPLETION_STATUS how = DAT_DTO_SUCCESS;
    if (length_of(into) < length)
        how = DAT_DTO_ERR_LOCAL_LENGTH;
    else if (!is_local(into, p.domain, DAT_MEM_PRIV_LOCAL_WRITE_FLAG) ||
             !copy(vector_of(into), vector_of(from), length))
        how = DAT_DTO_ERR_LOCAL_PROTECTION;
    p.receives.pop_front();
    add(toy<toy_queue>(*p.options.receives), {into.id, how, static_cast<DAT_UINT32>(length)});
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
    if (!is_local(r, p.domain, read ? DAT_MEM_PRIV_LOCAL_WRITE_FLAG : DAT_MEM_PRIV_LOCAL_READ_FLAG))
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
    made.of = &d;
    return 0;
}

void free_domain(domain & /*d*/) {}

int register_memory(domain &d, region &made, void *address, DAT_VLEN length,
                    DAT_MEM_PRIV_FLAGS rights, std::uint32_t &key)
{
    constexpr unsigned writes = DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    const auto wanted = static_cast<unsigned>(rights);
    if (osd::look_at_memory(address, length, (wanted & writes) != 0) != osd::memory_use::possible)
        return EFAULT;
    const std::lock_guard<std::mutex> hold(fabric);
    key = ++last_key;
    regions[key] = {&d, reinterpret_cast<std::uintptr_t>(address), length,
                    wanted | DAT_MEM_PRIV_LOCAL_READ_FLAG};
    made.handle = &*regions.find(key);
    return 0;
}

void deregister_memory(region &r)
{
    const std::lock_guard<std::mutex> hold(fabric);
    regions.erase(toy<decltype(regions)::value_type>(r).first);
}

// ------------------------------------------------------------------------------------- completions

bool next_event(device &d, void *&cookie)
{
    return next(toy<toy_device>(d).events, d.channel_fd, cookie);
}

int create_queue(device &d, queue &made, void *cookie, DAT_COUNT & /*depth*/)
{
    made.of = &d;
    made.handle = new toy_queue{&toy<toy_device>(d), cookie, false, 0, {}, {}};
    return 0;
}

void destroy_queue(queue &q)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_queue>(q);
    std::erase(t.of->events, t.cookie);
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
        new toy_pair{&toy<toy_device>(*d.of), &d, options, ++last_number, state::init, 0, {}, {}};
    pairs[p->number] = p;
    made.of = d.of;
    made.handle = p;
    return 0;
}

void destroy_pair(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    std::erase_if(t.of->async_events,
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
