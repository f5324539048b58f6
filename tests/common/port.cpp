// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port.hpp"

#include "osd_address.hpp"
#include "osd_cancellation.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace dapl::DAPL_TRANSPORT {

using lab::op;

namespace {

lab::spin_lock world;
qp *queue_pairs = nullptr;
types::listener *listeners = nullptr;
DAT_CONN_QUAL free_qualifier = 1000;

status begin(op which)
{
    return status(lab::enter(which));
}

constexpr const char *overlap = "two control operations of one object overlap";

} // namespace

// --------------------------------------------------------------------------------------- lives

void alive::begin(const char *what)
{
    if (now_.exchange(true))
        lab::violation(std::string(what) + " is made twice");
    ++lab::live_objects;
}

void alive::end(const char *what)
{
    if (!now_.exchange(false))
        lab::violation(std::string(what) + " is freed, but not alive");
    --lab::live_objects;
}

request_token::~request_token()
{
    if (!answered.load())
        lab::violation("a connection request was dropped without an answer");
    --lab::live_objects;
}

void posted_list::allocate(DAT_COUNT count)
{
    size = static_cast<std::uint32_t>(count);
    ring.reset(count == 0 ? nullptr : new types::wr *[size]);
    head = tail = 0;
}

bool posted_list::push(types::wr &wr)
{
    const std::lock_guard hold(lock);
    if (tail - head == size)
        return false;
    ring[tail++ % size] = &wr;
    return true;
}

std::uint32_t posted_list::size_now()
{
    const std::lock_guard hold(lock);
    return tail - head;
}

bool posted_list::empty()
{
    const std::lock_guard hold(lock);
    return tail == head;
}

DAT_UINT32 posted_list::oldest_length()
{
    const std::lock_guard hold(lock);
    return tail == head ? 0 : ring[head % size]->length;
}

types::wr *posted_list::pop()
{
    const std::lock_guard hold(lock);
    return tail == head ? nullptr : ring[head++ % size];
}

// ----------------------------------------------------------------------------------- completions

namespace {

bool is_solicited(const completion &done)
{
    return done.solicited || done.status != DAT_DTO_SUCCESS;
}

} // namespace

bool types::cq::store(const completion &done)
{
    const std::lock_guard hold(lock);
    const std::uint32_t at = tail.load(std::memory_order_relaxed);
    if (at - head.load() == depth)
        return false;
    ring[at % depth] = done;
    tail.store(at + 1);
    return true;
}

void types::cq::announce(bool solicited)
{
    const bool wanted = armed.exchange(false);
    const bool solicited_wanted = solicited && armed_for_solicited.exchange(false);
    if ((wanted || solicited_wanted) && !device->hand_over(*this) && door->enter())
        call_back();
    if (port_features.cq_wait && (has_enough() || (waits_for_solicited && solicited)))
        sleeper.wake();
}

/// The door is held.
void types::cq::call_back()
{
    const lab::upcall inside;
    dapl_evd_dto_callback(*owner);
    door->leave();
}

bool types::hca::hand_over(cq &armed)
{
    {
        const std::lock_guard hold(lock);
        if (!has_sleeper)
            return false;
        due.push_back(&armed);
    }
    sleeper.wake();
    return true;
}

types::cq *types::hca::next_due()
{
    const std::lock_guard hold(lock);
    has_sleeper = false;
    while (!due.empty()) {
        cq *next = due.back();
        due.pop_back();
        if (next->door->enter())
            return next;
    }
    return nullptr;
}

bool types::cq::holds_solicited()
{
    const std::lock_guard hold(lock);
    for (std::uint32_t at = head.load(); at != tail.load(); ++at)
        if (is_solicited(ring[at % depth]))
            return true;
    return false;
}

bool types::cq::poll(completion &done)
{
    const std::lock_guard hold(lock);
    const std::uint32_t at = head.load(std::memory_order_relaxed);
    if (at == tail.load(std::memory_order_relaxed))
        return false;
    done = ring[at % depth];
    head.store(at + 1);
    return true;
}

take_result types::cq::take(completion &done)
{
    {
        const std::lock_guard hold(lock);
        const std::uint32_t at = head.load(std::memory_order_relaxed);
        if (at == tail.load(std::memory_order_relaxed))
            return port_features.split_poll && lab::on_progress ? take_result::idle
                                                                : take_result::empty;
        const completion &oldest = ring[at % depth];
        if (oldest.status != DAT_DTO_SUCCESS || oldest.has_immediate ||
            static_cast<const wr *>(oldest.wr)->shared)
            return take_result::other;
    }
    return poll(done) ? take_result::taken : take_result::empty;
}

/// Solicited completions that are there already end it, and no others do.
osd::wait_result transport::dapls_ib_cq_wait(cq &queue, notify_on what, DAT_COUNT threshold,
                                             osd::deadline until)
{
    queue.life.check("cq");
    const lab::exclusive one(queue.waiting, "two threads wait on one cq at once");
    queue.threshold.store(static_cast<std::uint32_t>(threshold)); // later completions wake the
                                                                  // thread
    queue.waits_for_solicited.store(what == notify_on::solicited);
    if (queue.has_enough() || (what == notify_on::solicited && queue.holds_solicited())) {
        queue.threshold.store(INT_MAX);
        return osd::wait_result::woken;
    }
    ++queue.sleeps;
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = queue.sleeper.wait(until); },
                           [&] { queue.waiting.store(false); });
    queue.threshold.store(INT_MAX);
    return result;
}

void transport::dapls_ib_cq_wakeup(cq &queue)
{
    queue.life.check("cq");
    queue.sleeper.wake();
}

void transport::dapls_ib_evd_events(cq &queue, int change)
{
    queue.life.check("cq");
    queue.events.fetch_add(change);
    if (change > 0 && queue.has_enough())
        queue.sleeper.wake();
}

osd::wait_result transport::dapls_ib_cno_wait(hca &device, osd::deadline until)
{
    device.life.check("hca");
    const lab::exclusive one(device.waiting, "two threads wait for the CNOs of one hca at once");
    {
        const std::lock_guard hold(device.lock);
        device.has_sleeper = true;
    }
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = device.sleeper.wait(until); },
                           [&] { device.waiting.store(false); });
    while (cq *next = device.next_due())
        next->call_back();
    // A port may return early, so a deadline that has passed need not be told.
    return result == osd::wait_result::interrupted ? result : osd::wait_result::woken;
}

void transport::dapls_ib_cno_wakeup(hca &device)
{
    device.life.check("hca");
    device.sleeper.wake();
}

namespace {

enum class outcome { none, silent, stored, stored_solicited, lost };

/// The oldest of the list completes. Completions of one list come in post order.
outcome finish_oldest(posted_list &list, types::cq *queue, DAT_DTO_COMPLETION_STATUS how,
                      DAT_UINT32 length, const DAT_UINT32 *immediate = nullptr,
                      work_queue *taker = nullptr, bool solicited = false)
{
    types::wr *wr = list.pop();
    if (wr == nullptr)
        return outcome::none;
    if (wr->operation == opcode::bind)
        std::exchange(wr->window, nullptr)->finish(wr->target, how == DAT_DTO_SUCCESS);
    const bool silent = how == DAT_DTO_SUCCESS && wr->operation != opcode::receive &&
                        (wr->flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
    if (silent) {
        wr->silently_done.store(true);
        return outcome::silent;
    }
    completion done = completion_of(*wr, length, how);
    done.has_immediate = immediate != nullptr;
    done.immediate = immediate ? *immediate : 0;
    done.receiver = taker;
    done.solicited = solicited;
    if (!queue->store(done))
        return outcome::lost;
    return is_solicited(done) ? outcome::stored_solicited : outcome::stored;
}

void tell(types::cq *queue, outcome what)
{
    if (what == outcome::stored || what == outcome::stored_solicited)
        queue->announce(what == outcome::stored_solicited);
    else if (what == outcome::lost)
        dapl_evd_cq_async_error_callback(*queue->owner);
}

bool complete(posted_list &list, types::cq *queue, DAT_DTO_COMPLETION_STATUS how, DAT_UINT32 length,
              const DAT_UINT32 *immediate = nullptr, bool solicited = false)
{
    outcome what{};
    {
        const std::lock_guard hold(list.order);
        what = finish_oldest(list, queue, how, length, immediate, nullptr, solicited);
    }
    tell(queue, what);
    return what != outcome::none;
}

/// A send meets a receive of the peer, if one is posted; otherwise it stays until the end.
void deliver(qp &from, qp &to)
{
    outcome received = outcome::none;
    outcome sent = outcome::none;
    {
        const std::lock_guard hold_sends(from.sends.order);
        const std::lock_guard hold_recvs(to.recvs.order);
        if (from.sends.empty())
            return;
        received = finish_oldest(to.recvs, to.recv_cq, DAT_DTO_SUCCESS, from.sends.oldest_length());
        if (received != outcome::none)
            sent = finish_oldest(from.sends, from.send_cq, DAT_DTO_SUCCESS, 0);
    }
    tell(to.recv_cq, received);
    tell(from.send_cq, sent);
}

} // namespace

bool complete_send(qp &pair, DAT_DTO_COMPLETION_STATUS how)
{
    return complete(pair.sends, pair.send_cq, how, 0);
}

bool complete_recv(qp &pair, DAT_DTO_COMPLETION_STATUS how, DAT_UINT32 length)
{
    return complete(pair.recvs, pair.recv_cq, how, length);
}

bool complete_recv_solicited(qp &pair)
{
    return complete(pair.recvs, pair.recv_cq, DAT_DTO_SUCCESS, 0, nullptr, true);
}

bool complete_shared_recv(qp &pair, DAT_UINT32 length)
{
    outcome what{};
    {
        posted_list &posted = pair.shared->posted;
        const std::lock_guard hold(posted.order);
        what = finish_oldest(posted, pair.recv_cq, DAT_DTO_SUCCESS, length, nullptr, pair.receiver);
        if (posted.size_now() < static_cast<std::uint32_t>(pair.shared->limit)) {
            pair.shared->limit = 0;
            dapl_srq_limit_callback(*pair.shared->owner);
        }
    }
    tell(pair.recv_cq, what);
    return what != outcome::none;
}

bool complete_recv_immediate(qp &pair, DAT_UINT32 length, DAT_UINT32 immediate)
{
    return complete(pair.recvs, pair.recv_cq, DAT_DTO_SUCCESS, length, &immediate);
}

const extended_request &latest_extension(qp &pair)
{
    const std::lock_guard hold(pair.sends.lock);
    return pair.sends.ring[(pair.sends.tail - 1) % pair.sends.size]->extension;
}

namespace {

/// Checks a rule of the contract: the length of every request is the sum of its segments.
void check_length(const types::wr &request, DAT_COUNT segments, const DAT_LMR_TRIPLET *local)
{
    DAT_UINT64 sum = 0;
    for (DAT_COUNT i = 0; i < segments; ++i)
        sum += local[i].segment_length;
    if (request.length != sum)
        lab::violation("a work request's length is not the sum of its segments");
}

status push_request(qp &pair, types::wr &request, DAT_COMPLETION_FLAGS flags)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.sending, "two threads are in post_send of one qp");
    if (const status answer = begin(op::post_send); !answer.ok())
        return answer;
    if (pair.now.load() == phase::fresh || pair.now.load() == phase::pending)
        lab::violation("a request is posted to a qp that was never connected");
    request.flags = flags;
    request.silently_done.store(false);
    if (!pair.sends.push(request))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    if (pair.now.load() == phase::down)
        while (complete_send(pair, DAT_DTO_ERR_FLUSHED)) {
        }
    return success;
}

} // namespace

void flush(qp &pair)
{
    while (complete_send(pair, DAT_DTO_ERR_FLUSHED)) {
    }
    while (complete_recv(pair, DAT_DTO_ERR_FLUSHED)) {
    }
}

// ----------------------------------------------------------------------- HCA, pd, mr, cq objects

status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    if (const status answer = begin(op::open_hca); !answer.ok())
        return answer;
    device.life.begin("hca");
    device.owner = params.owner;
    device.door->open();
    auto *in = reinterpret_cast<sockaddr_in *>(&device.address);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return success;
}

void transport::dapls_ib_close_hca(hca &device)
{
    (void)begin(op::close_hca);
    device.door->close_and_wait();
    device.life.end("hca");
}

void transport::dapls_ib_query_hca(const hca &device, hca_attr &attr)
{
    device.life.check("hca");
    attr.address = &device.address;
    attr.hca_name = "programmable";
    attr.vendor_name = "test";
    attr.spin_us = port_features.cno_wait ? 50 : 0;
    attr.max_eps = 4096;
    attr.max_dto_per_ep = 1024;
    attr.max_rdma_read_per_ep_in = 4;
    attr.max_rdma_read_per_ep_out = 4;
    attr.max_cqs = 1024;
    attr.max_cq_depth = 65536;
    attr.max_iov_per_dto = 4;
    attr.max_iov_per_rdma_read = 4;
    attr.max_iov_per_rdma_write = 4;
    attr.max_mrs = 1024;
    attr.max_pds = 1024;
    attr.max_mr_size = ~DAT_VLEN{0};
    attr.max_message_size = 0x7fffffff;
    attr.max_rdma_size = 0x7fffffff;
    attr.max_private_data_size = 64;
    attr.max_srqs = 8;
    attr.max_mws = 64;
    attr.max_recv_per_srq = 1024;
    attr.immediate_data = true;
    attr.atomics = true;
    attr.solicited_wait = !device_lacks_solicited.load();
}

status transport::dapls_ib_pd_alloc(hca &device, pd &zone)
{
    device.life.check("hca");
    if (const status answer = begin(op::pd_alloc); !answer.ok())
        return answer;
    zone.life.begin("pd");
    return success;
}

void transport::dapls_ib_pd_free(pd &zone)
{
    (void)begin(op::pd_free);
    if (zone.users.load() != 0)
        lab::violation("a pd is freed while something refers to it");
    zone.life.end("pd");
}

status transport::dapls_ib_mr_register(pd &zone, mr &region, const mr_params &params, mr_keys &keys)
{
    zone.life.check("pd");
    if (const status answer = begin(op::mr_register); !answer.ok())
        return answer;
    if (params.length == 0)
        lab::violation("an empty region is registered");
    region.life.begin("mr");
    region.zone = &zone;
    ++zone.users;
    static std::atomic<std::uint32_t> regions{0};
    keys = {7 + 256 * regions.fetch_add(1), 9};
    return success;
}

void transport::dapls_ib_mr_deregister(mr &region)
{
    (void)begin(op::mr_deregister);
    region.life.end("mr");
    if (region.windows.load() != 0)
        lab::violation("a region is freed that a window may be bound to");
    --region.zone->users;
}

// A window counts in the region it is bound to, and in the regions of its posted binds.

void types::window::finish(mr *target, bool done)
{
    const std::lock_guard hold(lock);
    if (freed)
        return;
    if (done && unsure)
        lab::violation("a window is bound again of which a bind was lost");
    unsure |= !done;
    if (target != nullptr)
        posted.erase(std::find(posted.begin(), posted.end(), target));
    mr *const unused = done ? std::exchange(bound, target) : target;
    if (unused != nullptr)
        --unused->windows;
}

/// The queue pair of a posted bind is gone: whether the bind was done stays unknown.
void types::window::lose()
{
    const std::lock_guard hold(lock);
    unsure = true;
}

void types::window::free()
{
    const std::lock_guard hold(lock);
    freed = true;
    for (mr *each : posted)
        --each->windows;
    if (bound != nullptr)
        --bound->windows;
}

status transport::dapls_ib_mw_alloc(pd &zone, mw &made)
{
    zone.life.check("pd");
    if (const status answer = begin(op::mw_alloc); !answer.ok())
        return answer;
    made.life.begin("mw");
    made.state = std::make_shared<types::window>();
    made.zone = &zone;
    ++zone.users;
    return success;
}

void transport::dapls_ib_mw_free(mw &window)
{
    window.life.end("mw");
    std::exchange(window.state, nullptr)->free();
    --window.zone->users;
}

status transport::dapls_ib_mw_bind(qp &pair, wr &request, mw &window, mr *target,
                                   const mw_params &what, DAT_COMPLETION_FLAGS flags,
                                   DAT_RMR_CONTEXT &key)
{
    static std::atomic<DAT_RMR_CONTEXT> keys{100};
    window.life.check("mw");
    if ((target == nullptr) != (what.length == 0))
        lab::violation("a bind has a region if, and only if, it binds something");
    key = what.length == 0 ? 0 : ++keys;
    request.window = window.state;
    request.target = target;
    if (target != nullptr) {
        target->life.check("mr");
        const std::lock_guard hold(window.state->lock);
        window.state->posted.push_back(target);
        ++target->windows;
    }
    const status posted = push_request(pair, request, flags);
    if (!posted.ok())
        std::exchange(request.window, nullptr)->finish(target, false);
    return posted;
}

status transport::dapls_ib_cq_alloc(hca &device, cq &queue, evd &owner, DAT_COUNT &depth)
{
    device.life.check("hca");
    if (const status answer = begin(op::cq_alloc); !answer.ok())
        return answer;
    depth *= 2; // more than was asked for, as devices do
    queue.life.begin("cq");
    queue.device = &device;
    queue.owner = &owner;
    queue.depth = static_cast<std::uint32_t>(depth);
    queue.ring = std::make_unique<completion[]>(queue.depth);
    queue.door->open();
    return success;
}

void transport::dapls_ib_cq_free(cq &queue)
{
    (void)begin(op::cq_free);
    const lab::exclusive one(queue.polling, "a cq is polled while it is freed");
    if (queue.users.load() != 0)
        lab::violation("a cq is freed while a qp refers to it");
    queue.door->close_and_wait();
    {
        const std::lock_guard hold(queue.device->lock);
        auto &due = queue.device->due;
        due.erase(std::remove(due.begin(), due.end(), &queue), due.end());
    }
    queue.life.end("cq");
    queue.ring.reset();
}

status transport::dapls_ib_cq_resize(cq &queue, DAT_COUNT &depth)
{
    queue.life.check("cq");
    const lab::exclusive one(queue.polling, "a cq is polled while it is resized");
    const lab::exclusive no_waiter(queue.waiting, "a cq is resized while a thread waits in it");
    if (const status answer = begin(op::cq_resize); !answer.ok())
        return answer;
    depth *= 2;
    auto ring = std::make_unique<completion[]>(static_cast<std::size_t>(depth));
    const std::lock_guard hold(queue.lock);
    const std::uint32_t count = queue.tail.load() - queue.head.load();
    if (count > static_cast<std::uint32_t>(depth))
        return status::error(DAT_INVALID_STATE);
    for (std::uint32_t i = 0; i < count; ++i)
        ring[i] = queue.ring[(queue.head.load() + i) % queue.depth];
    queue.ring = std::move(ring);
    queue.depth = static_cast<std::uint32_t>(depth);
    queue.head.store(0);
    queue.tail.store(count);
    return success;
}

// ----------------------------------------------------------------------------------- queue pairs

namespace {

void count_user(types::cq *queue, int change)
{
    if (queue == nullptr)
        return;
    queue->life.check("cq");
    queue->users += change;
}

void enlist(qp &pair)
{
    const std::lock_guard hold(world);
    pair.next = queue_pairs;
    queue_pairs = &pair;
}

void strike_out(qp &pair)
{
    const std::lock_guard hold(world);
    for (qp **link = &queue_pairs; *link != nullptr; link = &(*link)->next)
        if (*link == &pair) {
            *link = pair.next;
            return;
        }
}

/// Takes the peer away from both, once. The peer's door is held, so that it stays.
qp *separate(qp &pair)
{
    const std::lock_guard hold(world);
    qp *peer = pair.peer.exchange(nullptr);
    if (peer == nullptr)
        return nullptr;
    peer->peer = nullptr;
    return peer->door->enter() ? peer : nullptr;
}

void drop_posted(qp &pair)
{
    while (types::wr *wr = pair.sends.pop())
        if (wr->operation == opcode::bind)
            std::exchange(wr->window, nullptr)->lose();
    while (pair.recvs.pop() != nullptr) {
    }
}

/// The peer that `separate` gave sees the connection end.
void end_peer(qp *peer, DAT_EVENT_NUMBER event)
{
    if (peer == nullptr)
        return;
    peer->now = phase::down;
    flush(*peer);
    fire(*peer, event);
    peer->door->leave();
}

} // namespace

qp *find_qp(const void *handle)
{
    const std::lock_guard hold(world);
    for (qp *pair = queue_pairs; pair != nullptr; pair = pair->next)
        if (static_cast<const void *>(pair->owner) == handle)
            return pair;
    return nullptr;
}

status transport::dapls_ib_qp_alloc(pd &zone, qp &pair, cq *recv_cq, cq *send_cq, srq *shared,
                                    const qp_params &params)
{
    zone.life.check("pd");
    if (shared != nullptr)
        shared->life.check("srq");
    const lab::exclusive one(pair.control, overlap);
    if (const status answer = begin(op::qp_alloc); !answer.ok())
        return answer;
    pair.life.begin("qp");
    pair.owner = params.owner;
    pair.zone = &zone;
    pair.recv_cq = recv_cq;
    pair.send_cq = send_cq;
    ++zone.users;
    count_user(recv_cq, 1);
    count_user(send_cq, 1);
    pair.sends.allocate(params.max_send);
    pair.recvs.allocate(params.max_recv);
    pair.shared = shared;
    pair.receiver = params.receiver;
    if (shared != nullptr)
        ++shared->users;
    pair.now = phase::fresh;
    pair.door->open();
    enlist(pair);
    return success;
}

namespace {

/// Gives completions of receives that a pair took from its shared queue a null receiver from now
/// on.
void leave_shared(qp &pair)
{
    if (pair.shared == nullptr)
        return;
    types::cq &queue = *pair.recv_cq;
    const std::lock_guard hold(queue.lock);
    for (std::uint32_t at = queue.head.load(); at != queue.tail.load(); ++at)
        if (completion &done = queue.ring[at % queue.depth]; done.receiver == pair.receiver)
            done.receiver = nullptr;
    --std::exchange(pair.shared, nullptr)->users;
}

} // namespace

void transport::dapls_ib_qp_free(qp &pair)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.control, overlap);
    const lab::exclusive fence(pair.fencing, overlap);
    strike_out(pair);
    (void)begin(op::qp_free);
    pair.door->close_and_wait();
    end_peer(separate(pair), DAT_CONNECTION_EVENT_DISCONNECTED);
    drop_posted(pair);
    leave_shared(pair);
    --pair.zone->users;
    count_user(pair.recv_cq, -1);
    count_user(pair.send_cq, -1);
    pair.life.end("qp");
}

status transport::dapls_ib_qp_reset(qp &pair)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.control, overlap);
    const lab::exclusive fence(pair.fencing, overlap);
    if (const status answer = begin(op::qp_reset); !answer.ok())
        return answer;
    pair.door->close_and_wait();
    end_peer(separate(pair), DAT_CONNECTION_EVENT_DISCONNECTED);
    drop_posted(pair);
    pair.now = phase::fresh;
    pair.door->open();
    return success;
}

// --------------------------------------------------------------------------- shared receive queue

status transport::dapls_ib_srq_alloc(pd &zone, srq &queue, const srq_params &params)
{
    zone.life.check("pd");
    if (const status answer = begin(op::srq_alloc); !answer.ok())
        return answer;
    queue.life.begin("srq");
    queue.owner = params.owner;
    queue.zone = &zone;
    ++zone.users;
    queue.posted.allocate(params.max_recv);
    return success;
}

void transport::dapls_ib_srq_free(srq &queue)
{
    if (queue.users.load() != 0)
        lab::violation("an srq is freed while a qp refers to it");
    --queue.zone->users;
    queue.life.end("srq");
}

status transport::dapls_ib_srq_resize(srq &queue, DAT_COUNT max_recv)
{
    queue.life.check("srq");
    if (const status answer = begin(op::srq_resize); !answer.ok())
        return answer;
    posted_list moved;
    moved.allocate(max_recv);
    while (types::wr *wr = queue.posted.pop())
        if (!moved.push(*wr))
            lab::violation("an srq is made too small for what is posted");
    const std::lock_guard hold(queue.posted.lock);
    queue.posted.ring = std::move(moved.ring);
    queue.posted.size = moved.size;
    queue.posted.head = moved.head;
    queue.posted.tail = moved.tail;
    return success;
}

status transport::dapls_ib_srq_set_limit(srq &queue, DAT_COUNT low_watermark)
{
    queue.life.check("srq");
    queue.limit = low_watermark;
    return success;
}

status transport::dapls_ib_post_srq_recv(srq &queue, wr &request, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *local)
{
    queue.life.check("srq");
    check_length(request, segments, local);
    if (const status answer = begin(op::post_recv); !answer.ok())
        return answer;
    request.flags = DAT_COMPLETION_DEFAULT_FLAG;
    request.shared = true;
    return queue.posted.push(request)
               ? success
               : status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

// ------------------------------------------------------------------------------------------ data

status transport::dapls_ib_post_send(qp &pair, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
                                     DAT_COMPLETION_FLAGS flags)
{
    check_length(request, segments, local);
    if ((request.operation == opcode::send) != (remote == nullptr))
        lab::violation("remote is for RDMA, and only for RDMA");
    if (const status posted = push_request(pair, request, flags); !posted.ok())
        return posted;
    qp *peer = pair.peer.load();
    if (lab::loopback.load(std::memory_order_relaxed) && peer != nullptr)
        deliver(pair, *peer);
    return success;
}

DAT_COUNT transport::dapls_ib_requests_done(qp &pair, wr &oldest, DAT_COUNT most)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.sending, "a thread is in post_send during requests_done");
    DAT_COUNT done = 0;
    for (wr *each = &oldest; done != most && each->silently_done.load();
         each = static_cast<wr *>(each->after))
        ++done;
    return done;
}

status transport::dapls_ib_post_extended(qp &pair, wr &request, const extended_request &wanted)
{
    request.extension = wanted;
    return dapls_ib_post_send(pair, request, wanted.segments, wanted.local, wanted.remote,
                              wanted.flags);
}

status transport::dapls_ib_post_recv(qp &pair, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local)
{
    pair.life.check("qp");
    check_length(request, segments, local);
    const lab::exclusive one(pair.receiving, "two threads are in post_recv of one qp");
    if (const status answer = begin(op::post_recv); !answer.ok())
        return answer;
    request.flags = DAT_COMPLETION_DEFAULT_FLAG;
    if (!pair.recvs.push(request))
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    if (pair.now.load() == phase::down)
        while (complete_recv(pair, DAT_DTO_ERR_FLUSHED)) {
        }
    return success;
}

// ------------------------------------------------------------------------------------ connections

namespace {

void silence(types::listener &here)
{
    {
        const std::lock_guard hold(world);
        for (types::listener **link = &listeners; *link != nullptr; link = &(*link)->next)
            if (*link == &here) {
                *link = here.next;
                break;
            }
    }
    here.door->close_and_wait();
    here.life.end("listener");
}

} // namespace

status transport::dapls_ib_setup_conn_listener(hca &device, listener &here, service_point &owner,
                                               DAT_CONN_QUAL &qualifier)
{
    device.life.check("hca");
    if (const status answer = begin(op::listen); !answer.ok())
        return answer;
    here.life.begin("listener");
    here.owner = &owner;
    DAT_CONN_QUAL chosen = qualifier;
    {
        const std::lock_guard hold(world);
        if (chosen == 0)
            chosen = free_qualifier++;
        here.qualifier = chosen;
        here.next = listeners;
        listeners = &here;
        here.door->open();
    }
    if (const status answer = begin(op::listening); !answer.ok()) {
        silence(here);
        return answer;
    }
    qualifier = chosen;
    return success;
}

void transport::dapls_ib_remove_conn_listener(listener &here)
{
    here.life.check("listener");
    const lab::exclusive one(here.busy, overlap);
    (void)begin(op::remove_listener);
    silence(here);
}

DAT_CONN_QUAL next_qualifier()
{
    const std::lock_guard hold(world);
    return free_qualifier;
}

namespace {

types::listener *enter_listener(DAT_CONN_QUAL qualifier)
{
    const std::lock_guard hold(world);
    for (types::listener *at = listeners; at != nullptr; at = at->next)
        if (at->qualifier == qualifier)
            return at->door->enter() ? at : nullptr;
    return nullptr;
}

void establish(qp &active, qp &passive, const private_data &data)
{
    active.peer = &passive;
    passive.peer = &active;
    fire(passive, DAT_CONNECTION_EVENT_ESTABLISHED);
    fire(active, DAT_CONNECTION_EVENT_ESTABLISHED, data);
}

} // namespace

bool arrive(DAT_CONN_QUAL qualifier, const private_data &data, qp *from)
{
    types::listener *at = enter_listener(qualifier);
    if (at == nullptr)
        return false;
    types::cr request{std::make_unique<request_token>(from)};
    DAT_SOCK_ADDR peer{};
    peer.sa_family = AF_INET;
    bool taken = false;
    {
        const lab::upcall inside;
        taken = dapls_cr_callback(*at->owner, request, {&peer, 42, data});
    }
    at->door->leave();
    if (!taken && request.token == nullptr)
        lab::violation("a refused request was not given back");
    if (!taken && request.token != nullptr)
        request.token->answered = true;
    return taken;
}

bool fire(qp &pair, DAT_EVENT_NUMBER event, const private_data &data)
{
    if (!pair.door->enter())
        return false;
    pair.now = event == DAT_CONNECTION_EVENT_ESTABLISHED ? phase::connected : phase::down;
    {
        const lab::upcall inside;
        dapl_evd_connection_callback(*pair.owner, event, data);
    }
    pair.door->leave();
    return true;
}

bool fire_qp_error(qp &pair)
{
    if (!pair.door->enter())
        return false;
    {
        const lab::upcall inside;
        dapl_evd_qp_async_error_callback(*pair.owner);
    }
    pair.door->leave();
    return true;
}

bool fire_hca_error(types::hca &device)
{
    if (!device.door->enter())
        return false;
    {
        const lab::upcall inside;
        dapl_evd_un_async_error_callback(*device.owner);
    }
    device.door->leave();
    return true;
}

status transport::dapls_ib_connect(qp &pair, const connect_params &params)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.control, overlap);
    if (const status answer = begin(op::connect); !answer.ok())
        return answer;
    pair.now = phase::pending;
    if (lab::loopback.load() && !arrive(params.qualifier, params.data, &pair))
        fire(pair, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    return success;
}

status transport::dapls_ib_accept_connection(cr &request, qp &pair, const private_data &data)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.control, overlap);
    if (request.token == nullptr || request.token->answered.load())
        lab::violation("a request is answered twice");
    if (const status answer = begin(op::accept); !answer.ok())
        return answer;
    request.token->answered = true;
    pair.now = phase::pending;
    qp *peer = request.token->peer.load();
    request.token.reset();
    if (lab::loopback.load() && peer != nullptr)
        establish(*peer, pair, data);
    return success;
}

void transport::dapls_ib_reject_connection(cr &request, reject_reason why, const private_data &data)
{
    (void)begin(op::reject);
    if (request.token == nullptr || request.token->answered.exchange(true)) {
        lab::violation("a request is answered twice");
        return;
    }
    qp *peer = request.token->peer.load();
    request.token.reset();
    if (lab::loopback.load() && peer != nullptr)
        fire(*peer,
             why == reject_reason::consumer ? DAT_CONNECTION_EVENT_PEER_REJECTED
                                            : DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
             data);
}

void transport::dapls_ib_disconnect(qp &pair, DAT_CLOSE_FLAGS)
{
    pair.life.check("qp");
    const lab::exclusive one(pair.control, overlap);
    (void)begin(op::disconnect);
    if (!lab::loopback.load())
        return;
    if (pair.peer.load() == nullptr)
        return; // the other side was faster: its callback tells the end
    qp *peer = separate(pair);
    pair.now = phase::down;
    flush(pair);
    end_peer(peer, DAT_CONNECTION_EVENT_DISCONNECTED);
    fire(pair, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void transport::dapls_ib_disconnect_clean(qp &pair)
{
    pair.life.check("qp");
    if (pair.fencing.load())
        lab::violation("disconnect_clean beside a fence of the same qp");
    (void)begin(op::disconnect_clean);
    pair.now = phase::down;
    end_peer(separate(pair), DAT_CONNECTION_EVENT_BROKEN);
    flush(pair);
}

} // namespace dapl::DAPL_TRANSPORT
