// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style polled, in place of their acme_lib.cpp: a fabric inside one process
// whose devices move data only while poll() is called. A send goes into the inbox of the peer's
// pair, the peer's poll() puts it into a receive, and the next poll() here reports it.
#include "acme_lib.hpp"

#include "toy_fabric.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <sys/eventfd.h>
#include <vector>

namespace dapl::acme::lib {

namespace {

struct toy_pair;

struct toy_device {
    int signal = -1;
    std::vector<toy_pair *> pairs;
    std::deque<completion> done;
};

struct toy_pair {
    toy_device *parent;
    const void *domain;
    std::uint32_t number;
    void *cookie;
    toy_pair *peer = nullptr;
    std::deque<operation *> requests;
    std::deque<operation *> receives;
    std::deque<operation *> inbox; ///< sends of the peer that wait for a receive
    bool waits = false;            ///< the first request is in the peer's inbox
    bool failed = false;
};

std::map<std::uint32_t, toy_pair *> pairs;
std::uint32_t last_number = 0;

toy_device &toy(const device &d)
{
    return ::toy<toy_device>(d);
}

toy_pair &toy(const pair &p)
{
    return ::toy<toy_pair>(p);
}

void wake(const toy_device &d)
{
    raise_signal(d.signal);
}

// ----------------------------------------------------------------------------------- moving data

void report(toy_pair &p, const operation &op, result how, std::uint64_t length = 0)
{
    p.parent->done.push_back({op.cookie, how, static_cast<std::uint32_t>(length)});
}

/// The first request of a pair is done.
void end_request(toy_pair &p, result how)
{
    report(p, *p.requests.front(), how);
    p.requests.pop_front();
    p.waits = false;
    p.failed = how != result::success;
}

result access_memory(const toy_pair &p, const operation &op)
{
    const bool read = op.what == opcode::read;
    const toy_segments local = local_of(op);
    const toy_segment remote{op.remote.address, length_of(local), op.remote.key};
    return ::access_memory(read, local, remote, p.peer->domain,
                           unsigned{read ? remote_read : remote_write})
               ? result::success
               : result::remote_access;
}

bool can_start(const toy_pair &p)
{
    return !p.requests.empty() && !p.waits && !p.failed && p.peer != nullptr;
}

void start_request(toy_pair &p)
{
    operation &op = *p.requests.front();
    if (!is_local(local_of(op), p.domain,
                  unsigned{op.what == opcode::read ? local_write : local_read}))
        return end_request(p, result::local_protection);
    if (op.what != opcode::send)
        return end_request(p, access_memory(p, op));
    p.waits = true;
    p.peer->inbox.push_back(&op);
    wake(*p.peer->parent);
}

bool can_receive(const toy_pair &p)
{
    return !p.inbox.empty() && !p.receives.empty() && !p.failed;
}

void receive(toy_pair &p)
{
    const operation &from = *p.inbox.front();
    const operation &into = *p.receives.front();
    constexpr result results[] = {result::success, result::local_length, result::local_protection};
    const toy_segments message = local_of(from);
    const fit taken = deliver(local_of(into), message, p.domain, local_write);
    const result how = results[static_cast<int>(taken)];
    report(p, into, how, length_of(message));
    p.inbox.pop_front();
    p.receives.pop_front();
    p.failed = how != result::success;
    end_request(*p.peer, how == result::success ? how : result::remote_operation);
    wake(*p.peer->parent);
}

bool has_work(const toy_device &d)
{
    return !d.done.empty() || std::any_of(d.pairs.begin(), d.pairs.end(), [](const toy_pair *p) {
        return can_start(*p) || can_receive(*p);
    });
}

/// Its peer is gone.
void lose(toy_pair &p)
{
    p.peer = nullptr;
    p.parent->done.push_back({p.cookie, result::lost, 0});
    wake(*p.parent);
}

/// Forgets a pair: nothing refers to it any more.
void forget(toy_pair &p)
{
    std::vector<void *> cookies;
    for (const auto *posted : {&p.requests, &p.receives})
        for (const operation *op : *posted)
            cookies.push_back(op->cookie);
    if (p.peer != nullptr && p.waits)
        std::erase(p.peer->inbox, p.requests.front());
    p.requests.clear();
    p.receives.clear();
    p.inbox.clear();
    p.waits = false;
    for (const auto &each : pairs)
        if (each.second->peer == &p) {
            lose(*each.second);
            std::erase_if(each.second->inbox, [&](const operation *op) {
                return std::find(cookies.begin(), cookies.end(), op->cookie) != cookies.end();
            });
        }
    p.peer = nullptr;
    std::erase_if(p.parent->done, [&](const completion &each) { return each.cookie == p.cookie; });
}

} // namespace

// ----------------------------------------------------------------------------------------- device

int open(device &d, const char * /*interface*/)
{
    auto *made = new toy_device;
    made->signal = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    d.handle = made;
    return made->signal >= 0 ? 0 : errno;
}

void close(device &d)
{
    ::close(toy(d).signal);
    delete &toy(d);
}

limits query(const device & /*d*/)
{
    limits out;
    out.version = 1;
    out.max_pairs = 4096;
    out.max_work = 4096;
    out.max_reads = 16;
    out.max_regions = 1 << 16;
    out.max_domains = 4096;
    out.max_region_size = SIZE_MAX / 2;
    out.max_transfer = 1u << 30;
    return out;
}

int descriptor(const device &d)
{
    return toy(d).signal;
}

bool poll(device &d, completion &done)
{
    const std::lock_guard<std::mutex> hold(fabric);
    toy_device &t = toy(d);
    for (toy_pair *p : t.pairs) {
        if (can_receive(*p))
            receive(*p);
        if (can_start(*p))
            start_request(*p);
    }
    if (t.done.empty())
        return false;
    done = t.done.front();
    t.done.pop_front();
    return true;
}

bool arm(device &d)
{
    lower_signal(toy(d).signal);
    const std::lock_guard<std::mutex> hold(fabric);
    return !has_work(toy(d));
}

// ----------------------------------------------------------------------------------------- memory

int alloc_domain(device &d, domain &made)
{
    made.parent = &d;
    return 0;
}

void free_domain(domain & /*d*/) {}

int register_memory(domain &d, region &made, void *address, std::uint64_t length, unsigned rights,
                    std::uint32_t &key)
{
    const bool writes = (rights & (local_write | remote_write)) != 0;
    return register_region(
        made.handle, {&d, reinterpret_cast<std::uintptr_t>(address), length, rights | local_read},
        writes, key);
}

void deregister_memory(region &r)
{
    deregister_region(r.handle);
}

// ------------------------------------------------------------------------------------- queue pair

int make_pair(domain &d, pair &made, void *cookie, std::uint32_t /*sends*/,
              std::uint32_t /*receives*/)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto *p = new toy_pair{&toy(*d.parent), &d, ++last_number, cookie, nullptr, {}, {}, {}};
    pairs[p->number] = p;
    p->parent->pairs.push_back(p);
    made.parent = d.parent;
    made.handle = p;
    return 0;
}

void free_pair(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    toy_pair &t = toy(p);
    forget(t);
    pairs.erase(t.number);
    std::erase(t.parent->pairs, &t);
    delete &t;
    p.handle = nullptr;
}

address address_of(const pair &p)
{
    const peer_name name{::getpid(), toy(p).number};
    address out;
    out.size = sizeof name;
    std::memcpy(out.bytes, &name, sizeof name);
    return out;
}

int connect(pair &p, const address &peer)
{
    const std::lock_guard<std::mutex> hold(fabric);
    peer_name name{};
    std::memcpy(&name, peer.bytes, std::min(sizeof name, peer.size));
    const auto found = pairs.find(name.number);
    if (name.process != ::getpid() || found == pairs.end())
        return EHOSTUNREACH;
    toy(p).peer = found->second;
    return 0;
}

void disconnect(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    forget(toy(p));
}

int post(pair &p, operation &what)
{
    const std::lock_guard<std::mutex> hold(fabric);
    (what.what == opcode::receive ? toy(p).receives : toy(p).requests).push_back(&what);
    return 0;
}

} // namespace dapl::acme::lib
