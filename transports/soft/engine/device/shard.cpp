// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shard.hpp"

#include "net/inproc_io.hpp"
#include "net/observed_io.hpp"

#include <cerrno>
#include <new>

namespace soft_hca {

namespace {

packet_io *open_network(const settings &set, int &error)
{
    if (set.network != nullptr) {
        auto *io = new (std::nothrow) inproc_io;
        if (io != nullptr && io->open(*set.network, set.address))
            return io;
        delete io;
        error = ENOMEM;
        return nullptr;
    }
    auto *io = new (std::nothrow) udp_io;
    net_address any_port = set.address;
    any_port.set_port(0);
    error = io == nullptr ? ENOMEM : io->open(any_port, true);
    if (error != 0) {
        delete io;
        return nullptr;
    }
    packet_io *const whole = observed(io, set.observer);
    error = whole == nullptr ? ENOMEM : 0;
    return whole;
}

packet_io *open_io(const settings &set, std::uint32_t index, int &error)
{
    packet_io *io = open_network(set, error);
    if (io == nullptr || !set.bad_network.any())
        return io;
    impairment bad = set.bad_network;
    bad.seed += index;
    auto *shim = new (std::nothrow) impaired_io(io, bad);
    if (shim == nullptr) {
        delete io;
        error = ENOMEM;
    }
    return shim;
}

} // namespace

// ------------------------------------------------------------------------------ life of a shard

int shard::open(device_context &device, std::uint32_t index)
{
    device_ = &device;
    context_.index = index;
    int error = 0;
    context_.network.reset(open_io(device.settings(), index, error));
    if (context_.network == nullptr)
        return error;
    context_.checked.open(device.datagram());
    context_.batches.open();
    context_.upcalls.open(device.upcalls(), context_.sleep, device.waiter);
    progress_.open(serves_listeners() ? &device.listening : nullptr, device.seals.get());
    if (!pairs_.open() || !context_.marks.open())
        return ENOMEM;
    if (!context_.sleep.open(device.settings().spin_us, io().descriptor(), context_.rings))
        return EMFILE;
    stopping_.store(false);
    return thread_.start(
               "soft-hca", [](void *self) { static_cast<shard *>(self)->run(); }, this)
               ? 0
               : EAGAIN;
}

void shard::close()
{
    if (thread_.running()) {
        context_.closing.drain();
        stopping_.store(true);
        kick();
        thread_.join();
    }
    context_.sleep.close();
    context_.rings.close();
    context_.network.reset();
    pairs_.close();
}

bool shard::add(queue_pair &pair)
{
    if (!pairs_.add(pair))
        return false;
    kick(); // its slow timer has to be considered from now on
    return true;
}

void shard::remove(const queue_pair &pair)
{
    pairs_.remove(pair);
    progress_.cycle_lock();
    pairs_.keep_counts(pair);
}

// ----------------------------------------------------------------------------------- the thread

void shard::run()
{
    std::uint64_t ready = sleeper::all_sources;
    bool found = false;
    if (device_->settings().priority != 0)
        (void)osd::raise_priority(device_->settings().priority);
    while (!stopping_.load()) {
        const bool active = context_.sleep.consumers_active();
        const bool received =
            progress_.run_once(active, sleeper::has(ready, sleeper::socket_source));
        const bool delivered = context_.upcalls.deliver();
        if (serves_listeners() && sleeper::has(ready, sleeper::listener_source)) {
            device_->listening.serve();
            device_->direct.serve();
            look_at_interface();
        }
        found = found || received;
        if (delivered || (!active && context_.sleep.spins(received, osd::now_ns()))) {
            ready = sleeper::all_sources;
            continue;
        }
        ready = sleep(found || ready != sleeper::all_sources);
        context_.sleep.judge(found, io().descriptor());
        found = false;
    }
}

/// What has come is taken also after the failure: the thread would not sleep any more.
void shard::look_at_interface()
{
    const bool gone = device_->below.is_gone();
    if (gone && !device_->failed() && device_->upcalls().gone != nullptr)
        device_->upcalls().gone(device_->settings().owner);
}

/// A sender that has seen that consumers polled may have put packets into a ring since.
void shard::begin_wait()
{
    context_.sleep.begin_wait([this] { return progress_.next_due(); });
    constexpr int patience = 64;
    for (int i = 0; i < patience && context_.rings.has_packets(); ++i)
        progress_.take_all();
}

/// While consumers poll or wait, they watch the socket. Returns what the thread woke up for.
std::uint64_t shard::sleep(bool worked)
{
    sleeper &sleep = context_.sleep;
    sleep.prepare();
    const std::int64_t due = sleep.limit(progress_.next_due(), worked);
    std::uint64_t ready = 0;
    if (!context_.upcalls.any() && !stopping_.load() && !sleep.overlooked())
        ready = sleep.sleep(due, serves_listeners() ? device_->listening.descriptor() : -1,
                            [this] { return progress_.is_polled(); });
    return sleep.finish(ready);
}

} // namespace soft_hca
