// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A toy for ports of style callback, in place of their acme_api.cpp: a fabric inside one process.
// Each device has three threads, for completions, connections and errors, which call back without a
// lock. Their next report may be about a pair that was freed meanwhile, and the end of a
// connection may overtake its last completions, as in a library that knows no order among them.
#include "acme_api.hpp"

#include "osd_thread.hpp"
#include "toy_fabric.hpp"

#include <arpa/inet.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <netinet/in.h>
#include <string>
#include <vector>

namespace dapl::acme::api {

namespace {

/// A thread of a device, and the calls that it is to make.
struct toy_thread {
    void call(std::function<void()> what)
    {
        calls.push_back(std::move(what));
        wake.notify_one();
    }
    bool start(
        const char *name, std::function<bool()> idle_work = [] { return false; });
    void stop();
    void run();

    osd::thread thread;
    std::condition_variable wake;
    std::deque<std::function<void()>> calls;
    std::function<bool()> work; ///< work to do with the lock held; true: it has made a call
    bool stopping = false;
};

enum class state { idle, asking, connected, ended };

struct toy_device;

struct work {
    std::uint64_t cookie;
    DAT_DTOS what;
    toy_segments local;
    toy_segment remote;
};

struct toy_pair {
    toy_device *parent;
    const void *domain;
    number own;
    std::uint32_t id;
    state now = state::idle;
    toy_pair *peer = nullptr;
    std::deque<work> requests;
    std::deque<work> receives;
};

struct toy_device {
    callbacks tell;
    toy_thread completions;
    toy_thread connections;
    toy_thread errors;
    std::vector<toy_pair *> pairs;
    std::deque<std::pair<number, completion>> done;

    void report(const toy_pair &p, DAT_EVENT_NUMBER what, const std::string &data = {})
    {
        connections.call([this, own = p.own, what, data] {
            tell.connection(tell.port, own, what, {data.data(), data.size()});
        });
    }
};

struct toy_listener {
    toy_device *parent;
    number own;
};

struct toy_request {
    std::uint32_t from;
    std::string data;
};

std::map<std::uint32_t, toy_pair *> pairs;
std::map<DAT_CONN_QUAL, toy_listener> listeners; // listeners by qualifier
std::uint32_t last_id = 0;

std::string text_of(bytes data)
{
    return {static_cast<const char *>(data.at), data.size};
}

// ---------------------------------------------------------------------------------------- threads

bool toy_thread::start(const char *name, std::function<bool()> idle_work)
{
    work = std::move(idle_work);
    return thread.start(
        name, [](void *self) { static_cast<toy_thread *>(self)->run(); }, this);
}

void toy_thread::stop()
{
    {
        const std::lock_guard<std::mutex> hold(fabric);
        stopping = true;
        wake.notify_one();
    }
    thread.join();
}

void toy_thread::run()
{
    std::unique_lock<std::mutex> hold(fabric);
    while (!stopping) {
        if (!calls.empty()) {
            const std::function<void()> next = std::move(calls.front());
            calls.pop_front();
            hold.unlock();
            next();
            hold.lock();
        } else if (!work()) {
            wake.wait(hold);
        }
    }
}

// ----------------------------------------------------------------------------------- moving data

void finish(toy_pair &p, std::deque<work> &queue, DAT_DTO_COMPLETION_STATUS how,
            DAT_VLEN length = 0)
{
    p.parent->done.push_back({p.own, {queue.front().cookie, how, static_cast<DAT_UINT32>(length)}});
    queue.pop_front();
    p.parent->completions.wake.notify_one();
}

/// Ends a connection and flushes posted operations. The peer hears of it, unless it has ended the
/// connection itself.
void end(toy_pair &p, DAT_EVENT_NUMBER for_peer)
{
    p.now = state::ended;
    for (auto *posted : {&p.requests, &p.receives})
        while (!posted->empty())
            finish(p, *posted, DAT_DTO_ERR_FLUSHED);
    if (p.peer == nullptr)
        return;
    p.peer->parent->report(*p.peer, for_peer);
    p.peer->peer = nullptr;
    p.peer = nullptr;
}

DAT_DTO_COMPLETION_STATUS access_memory(const toy_pair &p, const work &op)
{
    const bool read = op.what == DAT_DTO_RDMA_READ;
    const unsigned right = read ? DAT_MEM_PRIV_REMOTE_READ_FLAG : DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    toy_segment remote = op.remote;
    if (!read)
        remote.length = length_of(op.local);
    return ::access_memory(read, op.local, remote, p.peer->domain, right)
               ? DAT_DTO_SUCCESS
               : DAT_DTO_ERR_REMOTE_ACCESS;
}

DAT_DTO_COMPLETION_STATUS receive(toy_pair &p, const work &from)
{
    constexpr DAT_DTO_COMPLETION_STATUS results[] = {DAT_DTO_SUCCESS, DAT_DTO_ERR_LOCAL_LENGTH,
                                                     DAT_DTO_ERR_LOCAL_PROTECTION};
    const fit taken =
        deliver(p.receives.front().local, from.local, p.domain, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    const DAT_DTO_COMPLETION_STATUS how = results[static_cast<int>(taken)];
    finish(p, p.receives, how, length_of(from.local));
    return how == DAT_DTO_SUCCESS ? how : DAT_DTO_ERR_REMOTE_RESPONDER;
}

/// Does the first request of a pair; false when it has to wait.
bool work_on(toy_pair &p)
{
    if (p.requests.empty() || p.peer == nullptr)
        return false;
    const work op = p.requests.front();
    toy_pair &peer = *p.peer;
    DAT_DTO_COMPLETION_STATUS how;
    if (!is_local(op.local, p.domain,
                  op.what == DAT_DTO_RDMA_READ ? DAT_MEM_PRIV_LOCAL_WRITE_FLAG
                                               : DAT_MEM_PRIV_LOCAL_READ_FLAG))
        how = DAT_DTO_ERR_LOCAL_PROTECTION;
    else if (op.what != DAT_DTO_SEND)
        how = access_memory(p, op);
    else if (peer.receives.empty())
        return false;
    else
        how = receive(peer, op);
    finish(p, p.requests, how);
    if (how == DAT_DTO_SUCCESS)
        return true;
    if (how == DAT_DTO_ERR_REMOTE_ACCESS) // the peer's device was asked for memory that it does not
                                          // give
        peer.parent->errors.call(
            [d = peer.parent, own = peer.own] { d->tell.pair_failed(d->tell.port, own); });
    end(p, DAT_CONNECTION_EVENT_BROKEN);
    return true;
}

/// Serves the thread for completions: moves data, and reports the oldest completions of one pair.
bool serve(toy_device &d)
{
    bool moved = false;
    for (toy_pair *p : d.pairs)
        while (work_on(*p))
            moved = true;
    if (d.done.empty())
        return moved;
    const number own = d.done.front().first;
    std::vector<completion> some;
    for (; !d.done.empty() && d.done.front().first == own; d.done.pop_front())
        some.push_back(d.done.front().second);
    d.completions.calls.push_back([&d, own, some = std::move(some)] {
        d.tell.completed(d.tell.port, own, some.data(), static_cast<unsigned>(some.size()));
    });
    return true;
}

toy_pair *asking(std::uint32_t id)
{
    const auto found = pairs.find(id);
    return found != pairs.end() && found->second->now == state::asking ? found->second : nullptr;
}

} // namespace

// ----------------------------------------------------------------------------------------- device

int open(device &d, const char * /*interface*/, const callbacks &tell)
{
    auto *made = new toy_device{tell, {}, {}, {}, {}, {}};
    d.handle = made;
    return made->completions.start("toy-completion", [made] { return serve(*made); }) &&
                   made->connections.start("toy-connection") && made->errors.start("toy-error")
               ? 0
               : EAGAIN;
}

void close(device &d)
{
    auto &t = toy<toy_device>(d);
    for (toy_thread *each : {&t.completions, &t.connections, &t.errors})
        each->stop();
    delete &t;
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
    out.max_private_data = 256;
    return out;
}

// ----------------------------------------------------------------------------------------- memory

int alloc_domain(device &d, domain &made)
{
    made.parent = &d;
    return 0;
}

void free_domain(domain & /*d*/) {}

int register_memory(domain &d, region &made, void *address, DAT_VLEN length,
                    DAT_MEM_PRIV_FLAGS rights, DAT_LMR_CONTEXT &key)
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

// ------------------------------------------------------------------------------------- queue pair

int make_pair(domain &d, pair &made, number own, DAT_COUNT /*sends*/, DAT_COUNT /*receives*/)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &device = toy<toy_device>(*d.parent);
    auto *p = new toy_pair{&device, &d, own, ++last_id, state::idle, nullptr, {}, {}};
    pairs[p->id] = p;
    device.pairs.push_back(p);
    made.parent = d.parent;
    made.handle = p;
    return 0;
}

void free_pair(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    end(t, DAT_CONNECTION_EVENT_DISCONNECTED);
    pairs.erase(t.id);
    std::erase(t.parent->pairs, &t);
    delete &t;
    p.handle = nullptr;
}

int post(pair &p, const operation &what)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    const bool receives = what.what == DAT_DTO_RECEIVE;
    auto &queue = receives ? t.receives : t.requests;
    queue.push_back({what.cookie, what.what, {}, {}});
    for (const DAT_LMR_TRIPLET *s = what.local; s != what.local + what.segments; ++s)
        queue.back().local.push_back({s->virtual_address, s->segment_length, s->lmr_context});
    if (const DAT_RMR_TRIPLET *remote = what.remote; remote != nullptr)
        queue.back().remote = {remote->virtual_address, remote->segment_length,
                               remote->rmr_context};
    if (t.now == state::ended)
        finish(t, queue, DAT_DTO_ERR_FLUSHED);
    else if (receives && t.peer != nullptr)
        t.peer->parent->completions.wake.notify_one();
    else
        t.parent->completions.wake.notify_one();
    return 0;
}

// ------------------------------------------------------------------------------------- connection

int listen(device &d, listener &made, number own, DAT_CONN_QUAL &qualifier)
{
    const std::lock_guard<std::mutex> hold(fabric);
    DAT_CONN_QUAL chosen = qualifier;
    if (chosen == 0)
        for (chosen = 40000; listeners.count(chosen) != 0;)
            ++chosen;
    if ((chosen & 0xffff) == 0)
        return EADDRNOTAVAIL;
    if (listeners.count(chosen) != 0)
        return EADDRINUSE;
    made.handle = &*listeners.insert({chosen, {&toy<toy_device>(d), own}}).first;
    qualifier = chosen;
    return 0;
}

void unlisten(listener &l)
{
    const std::lock_guard<std::mutex> hold(fabric);
    listeners.erase(toy<decltype(listeners)::value_type>(l).first);
}

int connect(pair &p, const sockaddr *peer, DAT_CONN_QUAL qualifier, bytes data)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    const auto found = listeners.find(qualifier);
    const in_addr to = reinterpret_cast<const sockaddr_in *>(peer)->sin_addr;
    if (to.s_addr != htonl(INADDR_LOOPBACK) || found == listeners.end()) {
        t.parent->report(t, to.s_addr != htonl(INADDR_LOOPBACK) ? DAT_CONNECTION_EVENT_UNREACHABLE
                                                            : not_listening);
        return 0;
    }
    t.now = state::asking;
    const toy_listener at = found->second;
    at.parent->connections.call([at, asked = new toy_request{t.id, text_of(data)}] {
        sockaddr_in from{};
        from.sin_family = AF_INET;
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        from.sin_port = htons(static_cast<std::uint16_t>(asked->from));
        const std::string copy = asked->data;
        at.parent->tell.request(at.parent->tell.port, at.own, {{nullptr, asked}},
                            reinterpret_cast<const sockaddr *>(&from), {copy.data(), copy.size()});
    });
    return 0;
}

int accept(const request &incoming, pair &p, bytes data)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &asked = toy<toy_request>(incoming);
    auto &t = toy<toy_pair>(p);
    if (toy_pair *from = asking(asked.from); from == nullptr) {
        t.parent->report(t, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    } else {
        t.now = from->now = state::connected;
        t.peer = from;
        from->peer = &t;
        t.parent->report(t, DAT_CONNECTION_EVENT_ESTABLISHED);
        from->parent->report(*from, DAT_CONNECTION_EVENT_ESTABLISHED, text_of(data));
        from->parent->completions.wake.notify_one();
    }
    delete &asked;
    return 0;
}

void reject(const request &incoming, bool by_consumer, bytes data)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &asked = toy<toy_request>(incoming);
    if (toy_pair *from = asking(asked.from); from != nullptr) {
        from->now = state::idle;
        from->parent->report(*from,
                         by_consumer ? DAT_CONNECTION_EVENT_PEER_REJECTED
                                     : DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
                         text_of(data));
    }
    delete &asked;
}

void disconnect(pair &p)
{
    const std::lock_guard<std::mutex> hold(fabric);
    auto &t = toy<toy_pair>(p);
    if (t.now == state::idle)
        t.receives.clear();
    else
        end(t, DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace dapl::acme::api
