// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device.hpp"

#include "osd_cancellation.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

namespace soft_hca {

int device::open_seals(const key_settings &key)
{
    settings_.key.bytes = nullptr;
    if (key.size == 0)
        return 0;
    seals.reset(new (std::nothrow) seal_device);
    return seals != nullptr ? seals->open(key) : ENOMEM;
}

int device::open(const soft_hca::settings &settings, const soft_hca::upcalls &upcalls)
{
    settings_ = settings;
    settings_.threads = std::clamp(settings.threads, 1u, max_threads);
    upcalls_ = upcalls;
    constexpr auto most = static_cast<std::uint32_t>(largest_datagram);
    datagram_ = std::clamp<std::uint32_t>(settings.datagram == 0 ? 1472 : settings.datagram,
                                          smallest_datagram, most);
    shards_.reset(new (std::nothrow) shard[settings_.threads]);
    early.limit_to(settings_.early_bytes);
    if (shards_ == nullptr || !memory.open())
        return ENOMEM;
    if (const int error = open_seals(settings.key); error != 0)
        return error;
    if (!waiter.open() || !listening.open(settings_, upcalls_, seals.get()))
        return EMFILE;
    below.open(settings_.watched);
    if (below.descriptor() >= 0 && !listening.waiting().add(below.descriptor()))
        below.close();
    if (settings_.direct && settings_.network == nullptr)
        without_direct_ = direct.open(listening.waiting());
    for (std::uint32_t i = 0; i < settings_.threads; ++i) {
        if (const int error = shards_[i].open(*this, i); error != 0)
            return error;
        direct.listen(shards_[i].io().address());
    }
    listening.reject_from(shards_[0].io());
    return 0;
}

void device::close()
{
    shards_.reset();
    direct.close();
    below.close();
    listening.close();
    waiter.close();
    seals.reset();
}

void device::fail()
{
    if (failed_.exchange(true))
        return;
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        shards_[i].lose_device();
}

// ---------------------------------------------------------------------------------- its objects

bool device::make_queue(completion_queue &queue, void *owner, std::uint32_t depth)
{
    const std::uint32_t home = next_shard_.fetch_add(1) % settings_.threads;
    const queue_service served{shards_.get(), home, settings_.spread_callbacks ? home : 0,
                               settings_.waiters_call_back, !settings_.safe_copies};
    if (!queue.open(owner, served, depth))
        return false;
    for (std::uint32_t i = 0; depth == 0 && i < settings_.threads; ++i)
        queue.serve(i);
    return true;
}

void device::free_queue(completion_queue &queue)
{
    queue.delivery().cancel_and_wait(queue);
}

completion_queue::outcome device::resize_queue(completion_queue &queue, std::uint32_t depth)
{
    osd::lock_guard hold(producers_);
    const bool alone = queue.producers.end_alone();
    if (alone)
        cycle_pair_locks();
    completion_queue::ring_owner former;
    const completion_queue::outcome result = queue.resize(depth, former);
    if (former != nullptr)
        cycle_pair_locks();
    if (alone)
        queue.producers.begin_alone();
    return result;
}

device_counts device::counts()
{
    device_counts all;
    for (std::uint32_t i = 0; i < settings_.threads; ++i) {
        all.pairs += shards_[i].counts();
        const stray_counts strays = shards_[i].strays();
        all.strays.malformed += strays.malformed;
        all.strays.unknown += strays.unknown;
    }
    all.early = early.counted();
    return all;
}

// ------------------------------------------------------------------------ the callback waiter

/// Receives and acknowledges arrived packets; gives up after a while if more keep coming.
void device::settle()
{
    constexpr int patience = 64;
    bool moved = true;
    for (int round = 0; moved && round < patience && !has_callbacks(); ++round) {
        moved = false;
        for (std::uint32_t i = 0; i < settings_.threads; ++i)
            moved = shards_[i].progress(true) || moved;
    }
}

bool device::has_callbacks()
{
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        if (shards_[i].upcalls().has_callbacks())
            return true;
    return false;
}

bool device::deliver_callbacks()
{
    bool any = false;
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        any = shards_[i].upcalls().deliver_callbacks() || any;
    return any;
}

osd::wait_result device::sleep_for_callbacks(osd::deadline until)
{
    waitable descriptors[max_threads + 1];
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        descriptors[i] = shards_[i].io().descriptor();
    descriptors[settings_.threads] = waiter.descriptor();
    for (;;) {
        settle();
        if (deliver_callbacks() || waiter.take_wake())
            return osd::wait_result::woken;
        if (until.has_passed())
            return osd::wait_result::timed_out;
        if (waiter.sleep(descriptors, settings_.threads + 1, until,
                         [this] { return has_callbacks(); }) == osd::wait_result::interrupted)
            return osd::wait_result::interrupted;
    }
}

void device::leave_wait_for_callbacks()
{
    waiter.end();
    for (std::uint32_t i = 0; i < settings_.threads; ++i) {
        shards_[i].end_wait();
        shards_[i].upcalls().return_callbacks();
    }
}

osd::wait_result device::wait_for_callbacks(osd::deadline until)
{
    waiter.begin();
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        shards_[i].begin_wait();
    osd::wait_result result{};
    osd::undo_if_cancelled([&] { result = sleep_for_callbacks(until); },
                           [this] { leave_wait_for_callbacks(); });
    leave_wait_for_callbacks();
    return result;
}

// ---------------------------------------------------------------------------------- queue pairs

bool device::make_pair(queue_pair &pair, const pair_params &params)
{
    completion_queue *queue =
        params.receive_queue != nullptr ? params.receive_queue : params.send_queue;
    shard &nearest = queue != nullptr ? queue->nearest() : shards_[0];
    for (completion_queue *each : {params.receive_queue, params.send_queue})
        if (each != nullptr)
            each->serve(nearest.index());
    return pair.open(*this, nearest.context(), params, params.send_queue, params.receive_queue) &&
           begin(pair);
}

/// Unchecked: no other thread finds the pair until it is added.
bool device::begin(queue_pair &pair) OSD_UNCHECKED
{
    if (!pair.connection().renew() || !add(pair))
        return false;
    if (failed()) { // the device may have failed before the pair was among the others
        pair.enter();
        pair.connection().lose_device();
        pair.leave();
    }
    return true;
}

/// No thread adds completions of a queue pair that is not among those of its shard.
bool device::add(queue_pair &pair)
{
    osd::lock_guard hold(producers_);
    completion_queue *const receives = pair.params.receive_queue;
    completion_queue *const sends = pair.params.send_queue;
    bool was_alone = receives != nullptr && receives->producers.attach();
    if (sends != nullptr && sends != receives)
        was_alone = sends->producers.attach() || was_alone;
    if (was_alone)
        cycle_pair_locks();
    if (shard_of(pair).add(pair))
        return true;
    detach(pair);
    return false;
}

void device::detach(const queue_pair &pair)
{
    completion_queue *const receives = pair.params.receive_queue;
    completion_queue *const sends = pair.params.send_queue;
    if (receives != nullptr)
        receives->producers.detach();
    if (sends != nullptr && sends != receives)
        sends->producers.detach();
}

void device::free_pair(queue_pair &pair)
{
    pair.tell_end();
    pair.enter();
    pair.connection().cut();
    pair.leave();
    shard_of(pair).remove(pair);
    pair.shard->upcalls.cancel_and_wait(pair);
    osd::lock_guard hold(producers_);
    detach(pair);
}

bool device::reset_pair(queue_pair &pair)
{
    free_pair(pair);
    return begin(pair);
}

bool device::make_shared(shared_receives &queue, void *owner, protection_domain &domain,
                         std::uint32_t depth)
{
    return queue.open(owner, domain, shards_[0].upcalls(), depth);
}

void device::free_shared(shared_receives &queue)
{
    shards_[0].upcalls().cancel_and_wait(queue);
}

// --------------------------------------------------------------------------------------- memory

void device::cycle_pair_locks()
{
    for (std::uint32_t i = 0; i < settings_.threads; ++i)
        shards_[i].cycle_locks();
}

std::uint32_t device::add_region(memory_region &region, const protection_domain &domain,
                                 const void *address, std::uint64_t length, std::uint32_t rights)
{
    region.domain = &domain;
    region.address = reinterpret_cast<std::uintptr_t>(address);
    region.length = length;
    region.rights = rights;
    region.is_window = false;
    const std::uint32_t key = memory.insert(region);
    if (key != 0)
        direct.show(region);
    return key;
}

bool device::remove_region(memory_region &region)
{
    const std::uint32_t key = region.key.load();
    bool had_key = false;
    if (!windows.withdraw(region, had_key))
        return false;
    if (had_key) {
        direct.withdraw(key, region.domain);
        cycle_pair_locks();
    }
    return true;
}

void device::free_window(memory_region *window)
{
    windows.retire(*window);
    cycle_pair_locks(); // waits for threads that have found the window by an earlier key, too
    memory_windows::release(*window);
}

} // namespace soft_hca
