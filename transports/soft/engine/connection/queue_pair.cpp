// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_pair.hpp"

namespace soft_hca {

bool queue_pair::post_send(request &r)
{
    constexpr std::uint32_t small = 4096;
    constexpr std::uint32_t most_batched = 16;
    r.done = false;
    r.status = work_status::success;
    const bool may_wait = r.length <= small;
    // Read before another thread may complete the request.
    const bool is_copied =
        r.kind == work::send && r.length <= most_copied && !device->settings().safe_copies;
    std::uint32_t at;
    if (!sends.ring.post(r, at))
        return false;
    // More posts can be batched while packets are in flight: the next acknowledgement, poll or tick
    // sends them together.
    if (may_wait && sends.in_flight.load() != 0 && shard->attended() &&
        sends.ring.is_near(at, sends.started.load(std::memory_order_relaxed), most_batched - 1))
        shard->marks.batch(identity.slot);
    else
        ring_for(is_copied ? &r : nullptr);
    return true;
}

bool queue_pair::post_receive(request &r)
{
    r.done = false;
    r.status = work_status::success;
    if (!receives.ring.post(r))
        return false;
    if (receives.wanted.load())
        ring();
    return true;
}

bool queue_pair::post_datagram(request &r)
{
    r.done = false;
    r.status = work_status::success;
    if (!sends.ring.post(r))
        return false;
    enter();
    const bool dead = !connection_.current().is(reliable_connection::state::idle);
    send_datagrams(*this, connection_.path(), dead);
    leave();
    return true;
}

datagram_address queue_pair::address()
{
    enter();
    const datagram_address own{shard->io().address(), connection_.path().id(),
                               connection_.path().tag()};
    leave();
    return own;
}

net_address queue_pair::peer()
{
    enter();
    const net_address found = connection_.path().peer();
    leave();
    return found;
}

void queue_pair::ring_for(request *send)
{
    if (!try_to_take()) {
        doorbell.store(true);
        if (!try_to_take())
            return; // the holder will see the doorbell, or who comes next
        doorbell.store(false);
    }
    sends.posting = send;
    const std::int64_t now = osd::now_ns();
    if (send == nullptr || !connection_.send_at_once(*send, now))
        connection_.pump(now, true);
    sends.posting = nullptr;
    leave();
}

/// Spins before it sleeps: a consumer that posts one direct write after the other holds the lock
/// nearly all the time, and a thread that the system has to wake would hardly ever find it free.
void queue_pair::enter_behind_another()
{
    constexpr std::int64_t short_time_ns = 10'000;
    const std::int64_t began = osd::now_ns();
    while (osd::now_ns() - began < short_time_ns)
        if (lock.try_lock())
            return;
    waiting_.fetch_add(1);
    lock.lock();
    waiting_.fetch_sub(1);
}

void queue_pair::release()
{
    sends.completions.announce();
    receives.completions.announce();
    lock.unlock();
}

void queue_pair::enter(completion_turn &turn)
{
    if (!lock.try_lock()) {
        turn.end();
        enter_behind_another();
    }
    join(&turn);
}

void queue_pair::leave(completion_turn *turn)
{
    release();
    while (doorbell.exchange(false)) {
        doorbell.store(true); // the next holder may not be a thread that pumps
        if (!try_to_take())
            return;
        doorbell.store(false);
        join(turn);
        connection_.pump(osd::now_ns());
        release();
    }
}

/// Tells the pair of a receive, from any thread, also from a thread that may not wait for the lock:
/// the pair checks when the lock is released or, soon, by timer.
void queue_pair::receive_posted()
{
    receives.wanted.store(true);
    doorbell.store(true); // for the holder of the lock, which may be about to overwrite due_ns
    due_ns.store(0);
    shard->arm_timer(identity.slot, 0);
}

// ---------------------------------------------------------------------------------- connections

queue_pair::start queue_pair::connect(const net_address &to, std::uint64_t qualifier,
                                      const void *data, std::size_t size)
{
    enter();
    const start result = connection_.connect(to, qualifier, data, size);
    leave();
    return result;
}

queue_pair::start queue_pair::accept(inbound_request &from, const void *data, std::size_t size)
{
    enter();
    const start result = connection_.accept(from, data, size);
    leave();
    return result;
}

void queue_pair::disconnect(bool graceful)
{
    enter();
    connection_.disconnect(graceful);
    leave();
}

void queue_pair::abandon()
{
    tell_end();
    enter();
    connection_.abandon();
    leave();
}

void queue_pair::set_watermarks(const high_watermarks &limits)
{
    enter();
    receives.watermarks = limits;
    connection_.keep_watermarks();
    leave();
}

/// Without the lock, for the consumer. A thread that frees the queue pair meanwhile clears the
/// private data, and then waits for this.
void queue_pair::make_upcall(const upcalls &table, std::uint32_t event)
{
    if (event == watermark_event)
        return table.watermark(params.owner);
    if (event == path_event)
        return tell_path(table);
    const auto what = static_cast<connection_event>(event);
    if (what == connection_event::disconnected || what == connection_event::broken)
        tell_end();
    std::uint8_t data[max_private_data];
    std::size_t size = 0;
    if (what == connection_event::established || what == connection_event::rejected) {
        enter();
        size = connection_.current().take_private_data(data);
        leave();
    }
    if (params.use != pair_use::exchange)
        table.connection(params.owner, what, data, size);
    else if (what < connection_event::disconnected) // it may fail before the peer ends it
        table.exchange(params.owner, what, data, size);
}

void queue_pair::tell_path(const upcalls &table)
{
    enter();
    const bool there = sends.direct != nullptr; // the connection may have ended
    const local_obstacle why = there ? sends.direct->outcome() : local_obstacle::none;
    leave();
    if (there)
        table.path(params.owner, why);
}

/// A consumer may see a failed completion, and free the queue pair or abandon the connection,
/// before the event is delivered.
void queue_pair::tell_end()
{
    enter();
    const connection_end end = record.ending.take();
    leave();
    if (end.cause != end_cause::none && device->upcalls().ended != nullptr &&
        params.use != pair_use::exchange)
        device->upcalls().ended(params.owner, end);
}

// ------------------------------------------------------------------------------------ the device

bool queue_pair::open(device_context &its_device, shard_context &its_shard,
                      const pair_params &its_params, completion_ring *send_completions,
                      completion_ring *receive_completions)
{
    device = &its_device;
    shard = &its_shard;
    params = its_params;
    memory.attach(device->memory, device->windows, shard->io(), params.domain);
    events = pair_events(*this, shard->upcalls);
    sends.completions = completion_target(send_completions, shard->index);
    receives.completions = completion_target(receive_completions, shard->index);
    receives.shared = params.shared;
    receives.waiter = this;
    receives.watermarks = {};
    return sends.ring.open(params.max_sends, params.concurrent_posts) &&
           receives.ring.open(params.max_receives, params.concurrent_posts) && connection_.open();
}

void queue_pair::identify(std::uint32_t slot, std::uint32_t id)
{
    static constinit std::atomic<std::uint64_t> connections{0};
    identity = {id, slot};
    memory.begin_connection(connections.fetch_add(1, std::memory_order_relaxed) + 1);
    sends.completions.identify(id);
    receives.completions.identify(id);
    connection_.path().identify(id);
}

} // namespace soft_hca
