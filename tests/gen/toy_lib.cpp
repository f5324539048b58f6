// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style polled, in place of their acme_lib.cpp: a fabric inside one process
// whose devices move data only while poll() is called. A send goes into the inbox of the peer's
// pair, the peer's poll() puts it into a receive, and the next poll() here reports it.
#include "acme_lib.hpp"

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
    toy_device *of;
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

struct toy_region {
    const void *domain;
    std::uint64_t address;
    std::uint64_t length;
    unsigned rights;
};

std::mutex fabric; // guards everything, as devices of several adapters meet here
std::map<std::uint32_t, toy_pair *> pairs;
std::map<std::uint32_t, toy_region> regions;
std::uint32_t last_number = 0;
std::uint32_t last_key = 0;

struct peer_name {
    pid_t process;
    std::uint32_t number;
};

toy_device &toy(const device &d)
{
    return *static_cast<toy_device *>(d.handle);
}

toy_pair &toy(const pair &p)
{
    return *static_cast<toy_pair *>(p.handle);
}

void wake(const toy_device &d)
{
    const std::uint64_t one = 1;
    (void)!::write(d.signal, &one, sizeof one);
}

// ----------------------------------------------------------------------------------- moving data

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

bool is_local(const operation &op, const void *domain, unsigned right)
{
    return std::all_of(op.local, op.local + op.segments, [&](const segment &s) {
        return s.length == 0 || allows(s.key, domain, s.address, s.length, right);
    });
}

std::uint64_t length_of(const operation &op)
{
    return std::accumulate(op.local, op.local + op.segments, std::uint64_t{0},
                           [](std::uint64_t sum, const segment &s) { return sum + s.length; });
}

iovec vector_of(const segment &s)
{
    return {reinterpret_cast<void *>(s.address), s.length};
}

std::vector<iovec> vector_of(const operation &op)
{
    std::vector<iovec> out(op.segments);
    std::transform(op.local, op.local + op.segments, out.begin(),
                   [](const segment &s) { return vector_of(s); });
    return out;
}

/// Copies by the system: memory that is not there any more is an error, not the end of the process.
bool copy(const std::vector<iovec> &to, const std::vector<iovec> &from, std::uint64_t length)
{
    return length == 0 || ::process_vm_readv(::getpid(), to.data(), to.size(), from.data(),
                                             from.size(), 0) == static_cast<ssize_t>(length);
}

void report(toy_pair &p, const operation &op, result how, std::uint64_t length = 0)
{
    p.of->done.push_back({op.cookie, how, static_cast<std::uint32_t>(length)});
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
    const std::uint64_t length = length_of(op);
    if (!allows(op.remote.key, p.peer->domain, op.remote.address, length,
                unsigned{read ? remote_read : remote_write}))
        return result::remote_access;
    std::vector<iovec> there{vector_of(op.remote)};
    there[0].iov_len = length;
    const bool copied =
        read ? copy(vector_of(op), there, length) : copy(there, vector_of(op), length);
    return copied ? result::success : result::remote_access;
}

bool can_start(const toy_pair &p)
{
    return !p.requests.empty() && !p.waits && !p.failed && p.peer != nullptr;
}

void start_request(toy_pair &p)
{
    operation &op = *p.requests.front();
    if (!is_local(op, p.domain, unsigned{op.what == opcode::read ? local_write : local_read}))
        return end_request(p, result::local_protection);
    if (op.what != opcode::send)
        return end_request(p, access_memory(p, op));
    p.waits = true;
    p.peer->inbox.push_back(&op);
    wake(*p.peer->of);
}

bool can_receive(const toy_pair &p)
{
    return !p.inbox.empty() && !p.receives.empty() && !p.failed;
}

void receive(toy_pair &p)
{
    const operation &from = *p.inbox.front();
    const operation &into = *p.receives.front();
    const std::uint64_t length = length_of(from);
    result how = result::success;
    if (length_of(into) < length)
        how = result::local_length;
    else if (!is_local(into, p.domain, local_write) ||
             !copy(vector_of(into), vector_of(from), length))
        how = result::local_protection;
    report(p, into, how, length);
    p.inbox.pop_front();
    p.receives.pop_front();
    p.failed = how != result::success;
    end_request(*p.peer, how == result::success ? how : result::remote_operation);
    wake(*p.peer->of);
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
    p.of->done.push_back({p.cookie, result::lost, 0});
    wake(*p.of);
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
    std::erase_if(p.of->done, [&](const completion &each) { return each.cookie == p.cookie; });
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
    std::uint64_t count;
    (void)!::read(toy(d).signal, &count, sizeof count);
    const std::lock_guard<std::mutex> hold(fabric);
    return !has_work(toy(d));
}

// ----------------------------------------------------------------------------------------- memory

int alloc_domain(device &d, domain &made)
{
    made.of = &d;
    return 0;
}

void free_domain(domain & /*d*/) {}

int register_memory(domain &d, region &made, void *address, std::uint64_t length, unsigned rights,
                    std::uint32_t &key)
{
    const bool writes = (rights & (local_write | remote_write)) != 0;
    if (osd::look_at_memory(address, length, writes) != osd::memory_use::possible)
        return EFAULT;
    const std::lock_guard<std::mutex> hold(fabric);
    key = ++last_key;
    regions[key] = {&d, reinterpret_cast<std::uintptr_t>(address), length, rights | local_read};
    made.handle = &*regions.find(key);
    return 0;
}

void deregister_memory(region &r)
{
    const std::lock_guard<std::mutex> hold(fabric);
    regions.erase(static_cast<decltype(regions)::value_type *>(r.handle)->first);
}

// ------------------------------------------------------------------------------------- queue pair

int make_pair(domain &d, pair &made, void *cookie, std::uint32_t /*sends*/,
              std::uint32_t /*receives*/)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto *p = new toy_pair{&toy(*d.of), &d, ++last_number, cookie, nullptr, {}, {}, {}};
    pairs[p->number] = p;
    p->of->pairs.push_back(p);
    made.of = d.of;
    made.handle = p;
    return 0;
}

void free_pair(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    toy_pair &t = toy(p);
    forget(t);
    pairs.erase(t.number);
    std::erase(t.of->pairs, &t);
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
