// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace memory_device {

namespace {

struct region {
    const void *domain;
    std::uintptr_t address;
    std::size_t length;
    unsigned rights;
};

std::mutex fabric; // guards everything
std::map<std::uint32_t, queue_pair *> pairs;
std::map<std::uint64_t, region> regions;
std::set<std::uint64_t> unbound; // keys of windows
std::uint32_t last_number = 0;
std::uint64_t last_key = std::uint64_t{1} << 40;

bool allows(std::uint64_t key, const void *domain, std::uintptr_t address, std::size_t length,
            unsigned right)
{
    const auto found = regions.find(key);
    if (found == regions.end())
        return false;
    const region &r = found->second;
    return r.domain == domain && (r.rights & right) == right && address >= r.address &&
           length <= r.length && address - r.address <= r.length - length;
}

std::size_t length_of(const operation &op)
{
    return std::accumulate(op.local, op.local + op.segments, std::size_t{0},
                           [](std::size_t sum, const segment &s) { return sum + s.length; });
}

bool is_local(const operation &op, const void *domain, unsigned right)
{
    return std::all_of(op.local, op.local + op.segments, [&](const segment &s) {
        return s.length == 0 ||
               allows(s.key, domain, reinterpret_cast<std::uintptr_t>(s.address), s.length, right);
    });
}

std::vector<iovec> as_vector(const operation &op)
{
    std::vector<iovec> out;
    for (std::size_t i = 0; i < op.segments; ++i)
        out.push_back({op.local[i].address, op.local[i].length});
    return out;
}

/// Copies by the system: memory that is not there any more is an error, not the end of the process.
bool copy(const std::vector<iovec> &to, const std::vector<iovec> &from, std::size_t length)
{
    return length == 0 || ::process_vm_readv(::getpid(), to.data(), to.size(), from.data(),
                                             from.size(), 0) == static_cast<ssize_t>(length);
}

void raise(int descriptor)
{
    const std::uint64_t one = 1;
    (void)!::write(descriptor, &one, sizeof one);
}

void lower(int descriptor)
{
    std::uint64_t count;
    (void)!::read(descriptor, &count, sizeof count);
}

/// They wait for a receive of the peer, and it takes one.
bool takes_receive(opcode what)
{
    return what == opcode::send || what == opcode::write_immediate;
}

} // namespace

// --------------------------------------------------------------------------------------- queues

completion_queue::completion_queue()
    : reading_(new chunk), oldest_(reading_), newest_(reading_),
      descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{}

completion_queue::~completion_queue()
{
    while (oldest_ != nullptr)
        delete std::exchange(oldest_, oldest_->next);
    ::close(descriptor_);
}

bool completion_queue::poll(completion &out)
{
    const std::uint64_t next = taken_.load(std::memory_order_relaxed);
    if (next == added_.load(std::memory_order_acquire))
        return false;
    const std::uint64_t place = next % chunk::room;
    if (place == 0 && next != 0)
        reading_ = reading_->next;
    out = reading_->at[place];
    out.taken_by = reading_->taken_by[place].load(std::memory_order_relaxed);
    taken_.store(next + 1, std::memory_order_release);
    return true;
}

void completion_queue::arm()
{
    const std::lock_guard<std::mutex> hold(fabric);
    armed_ = true;
    if (taken_.load() != added_.load())
        signal();
}

void completion_queue::clear() const
{
    lower(descriptor_);
}

void completion_queue::add(const completion &done)
{
    const std::uint64_t next = added_.load(std::memory_order_relaxed);
    const std::uint64_t place = next % chunk::room;
    if (place == 0 && next != 0) {
        free_read_chunks();
        newest_ = newest_->next = new chunk;
    }
    newest_->at[place] = done;
    newest_->taken_by[place].store(done.taken_by, std::memory_order_relaxed);
    added_.store(next + 1, std::memory_order_release);
    if (armed_)
        signal();
}

/// The reader has left a chunk when it has taken one from the next.
void completion_queue::free_read_chunks()
{
    while (taken_.load(std::memory_order_acquire) > oldest_begins_ + chunk::room) {
        delete std::exchange(oldest_, oldest_->next);
        oldest_begins_ += chunk::room;
    }
}

void completion_queue::signal()
{
    armed_ = false;
    raise(descriptor_);
}

/// Completions that are there outlive the queue pair.
void completion_queue::forget(const void *taken_by)
{
    const std::uint64_t end = added_.load(std::memory_order_relaxed);
    chunk *in = oldest_;
    for (std::uint64_t at = oldest_begins_; at != end; ++at) {
        if (at != oldest_begins_ && at % chunk::room == 0)
            in = in->next;
        void *found = const_cast<void *>(taken_by);
        (void)in->taken_by[at % chunk::room].compare_exchange_strong(found, nullptr);
    }
}

receive_queue::receive_queue() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

receive_queue::~receive_queue()
{
    ::close(descriptor_);
}

void receive_queue::set_limit(std::size_t limit)
{
    const std::lock_guard<std::mutex> hold(fabric);
    limit_ = limit;
    check_limit();
}

void receive_queue::clear() const
{
    lower(descriptor_);
}

void receive_queue::check_limit()
{
    if (posted_.size() >= limit_)
        return;
    limit_ = 0;
    raise(descriptor_);
}

void *receive_queue::post(operation &op)
{
    const std::lock_guard<std::mutex> hold(fabric);
    posted_.push_back(&op);
    void *failed = nullptr; // one at most: a receive is taken once
    for (const auto &each : pairs)
        if (each.second->shared_ == this && each.second->peer_ != nullptr &&
            !each.second->peer_->progress())
            failed = each.second->owner_.self;
    return failed;
}

// --------------------------------------------------------------------------------------- regions

std::uint64_t add_region(const void *domain, void *address, std::size_t length, unsigned rights)
{
    const std::lock_guard<std::mutex> hold(fabric);
    regions[++last_key] = {domain, reinterpret_cast<std::uintptr_t>(address), length, rights};
    return last_key;
}

std::uint64_t add_window()
{
    const std::lock_guard<std::mutex> hold(fabric);
    unbound.insert(++last_key);
    return last_key;
}

void remove_region(std::uint64_t key)
{
    const std::lock_guard<std::mutex> hold(fabric);
    regions.erase(key);
    unbound.erase(key);
}

// ------------------------------------------------------------------------------------ queue pairs

queue_pair::queue_pair(const void *domain, completion_queue *sends, completion_queue *receives,
                       receive_queue *shared, const owner &by)
    : domain_(domain), sends_(sends), receives_(receives), shared_(shared), owner_(by)
{
    const std::lock_guard<std::mutex> hold(fabric);
    number_ = ++last_number;
    pairs[number_] = this;
}

queue_pair::~queue_pair()
{
    const std::lock_guard<std::mutex> hold(fabric);
    pairs.erase(number_);
    if (shared_ != nullptr && receives_ != nullptr)
        receives_->forget(owner_.receiver);
    for (const auto &each : pairs) // visits pairs that this one was never connected to, too
        if (each.second->peer_ == this)
            each.second->peer_ = nullptr;
}

bool queue_pair::connect(std::uint32_t peer)
{
    const std::lock_guard<std::mutex> hold(fabric);
    const auto found = pairs.find(peer);
    if (found == pairs.end())
        return false;
    peer_ = found->second;
    return true;
}

void queue_pair::disconnect()
{
    const std::lock_guard<std::mutex> hold(fabric);
    if (peer_ != nullptr && peer_->peer_ == this)
        peer_->peer_ = nullptr;
    peer_ = nullptr;
    ended_ = true;
    flush_all();
}

void queue_pair::flush()
{
    const std::lock_guard<std::mutex> hold(fabric);
    flush_all();
}

bool queue_pair::has_sends() const
{
    const std::lock_guard<std::mutex> hold(fabric);
    return !posted_sends_.empty();
}

void queue_pair::flush_all()
{
    for (; !posted_receives_.empty(); posted_receives_.pop_front())
        finish(*posted_receives_.front(), outcome::flushed);
    for (; !posted_sends_.empty(); posted_sends_.pop_front())
        finish(*posted_sends_.front(), outcome::flushed);
}

void queue_pair::finish(operation &op, outcome status, std::uint32_t length, const operation *from)
{
    if (op.silent && status == outcome::success)
        return;
    const bool received = op.what == opcode::receive;
    completion done{op.id, length, status, false, 0, nullptr};
    if (received && shared_ != nullptr)
        done.taken_by = owner_.receiver;
    if (from != nullptr && from->what == opcode::write_immediate) {
        done.has_immediate = true;
        done.immediate = from->immediate;
    }
    (received ? receives_ : sends_)->add(done);
}

bool queue_pair::post(operation &op)
{
    const std::lock_guard<std::mutex> hold(fabric);
    if (ended_) {
        finish(op, outcome::flushed);
        return true;
    }
    if (op.what != opcode::receive) {
        posted_sends_.push_back(&op);
        return progress();
    }
    posted_receives_.push_back(&op);
    return peer_ == nullptr || peer_->progress();
}

/// Moves data. Sends wait for receives, and operations posted behind them wait, too.
bool queue_pair::progress()
{
    while (!posted_sends_.empty() && peer_ != nullptr) {
        operation &op = *posted_sends_.front();
        if (takes_receive(op.what) && peer_->receives().empty())
            return true;
        posted_sends_.pop_front();
        if (!execute(op))
            return false;
    }
    return true;
}

bool queue_pair::execute(operation &op)
{
    const outcome status = move(op);
    finish(op, status);
    return status == outcome::success;
}

operation &queue_pair::take_receive()
{
    operation &into = *receives().front();
    receives().pop_front();
    if (shared_ != nullptr)
        shared_->check_limit();
    return into;
}

outcome queue_pair::move(operation &op)
{
    if (op.what == opcode::bind)
        return bind(op);
    const std::size_t length = length_of(op);
    const bool stores =
        op.what == opcode::read || op.what == opcode::fetch_add || op.what == opcode::compare_swap;
    if (!is_local(op, domain_, stores ? local_write : local_read))
        return outcome::local_protection;
    if (op.what == opcode::send)
        return deliver(op, length);
    if (op.what == opcode::fetch_add || op.what == opcode::compare_swap)
        return change(op);
    const outcome status = access(op, length);
    if (status == outcome::success && op.what == opcode::write_immediate)
        peer_->finish(peer_->take_receive(), status, static_cast<std::uint32_t>(length), &op);
    return status;
}

outcome queue_pair::deliver(operation &op, std::size_t length)
{
    operation &into = peer_->take_receive();
    outcome theirs = outcome::success;
    if (length_of(into) < length)
        theirs = outcome::local_length;
    else if (!is_local(into, peer_->domain_, local_write) ||
             !copy(as_vector(into), as_vector(op), length))
        theirs = outcome::local_protection;
    peer_->finish(into, theirs, static_cast<std::uint32_t>(length));
    return theirs == outcome::success ? theirs : outcome::remote_error;
}

outcome queue_pair::access(operation &op, std::size_t length)
{
    const bool read = op.what == opcode::read;
    if (!allows(op.remote_key, peer_->domain_, op.remote_address, length,
                read ? remote_read : remote_write))
        return outcome::remote_access;
    const std::vector<iovec> there{{reinterpret_cast<void *>(op.remote_address), length}};
    const bool copied =
        read ? copy(as_vector(op), there, length) : copy(there, as_vector(op), length);
    return copied ? outcome::success : outcome::remote_access;
}

/// An atomic: the fabric's lock makes it one.
outcome queue_pair::change(operation &op)
{
    std::uint64_t before = 0;
    constexpr std::size_t size = sizeof before;
    if (!allows(op.remote_key, peer_->domain_, op.remote_address, size, remote_atomic))
        return outcome::remote_access;
    const std::vector<iovec> there{{reinterpret_cast<void *>(op.remote_address), size}};
    if (!copy({{&before, size}}, there, size))
        return outcome::remote_access;
    std::uint64_t after = before + op.operand;
    if (op.what == opcode::compare_swap)
        after = before == op.operand ? op.swap : before;
    if (!copy(there, {{&after, size}}, size))
        return outcome::remote_access;
    return copy(as_vector(op), {{&before, size}}, size) ? outcome::success
                                                        : outcome::local_protection;
}

outcome queue_pair::bind(operation &op)
{
    if (op.window != 0) {
        const segment &part = op.local[0];
        const auto address = reinterpret_cast<std::uintptr_t>(part.address);
        if (unbound.count(op.window) == 0 || !allows(part.key, domain_, address, part.length, 0))
            return outcome::local_protection;
        unbound.erase(op.window);
        regions[op.window] = {domain_, address, part.length, op.window_rights};
    }
    regions.erase(op.window_before);
    return outcome::success;
}

} // namespace memory_device
