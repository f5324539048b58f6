// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "transfers.hpp"

#include "ending.hpp"
#include "lasting.hpp"
#include "messages.hpp"
#include "posts.hpp"
#include "registrations.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <pthread.h>
#include <utility>

/// A fetched value; the operation comes first, so that both are one allocation.
struct dapl_am_value {
    dapl_am_op op;
    std::uint64_t value;
    std::size_t size;
};

namespace am {

namespace {

/// What one thread has begun implicitly. Kept for another thread when its own has ended.
struct implicit_ops {
    dapl_am_op puts;
    dapl_am_op gets;
    dapl_am_op *region = nullptr;
    implicit_ops *next = nullptr;
};

/// Those that peers are asked for by messages.
class asked_fills {
public:
    struct name {
        std::uint32_t place;
        std::uint32_t use;
    };

    /// @return false if no place is free now
    bool add(const peer &p, dapl_am_op &op, name &given);
    /// Null if there is none of that name, or it is another peer's.
    dapl_am_op *take(const peer &p, const name &given);

private:
    struct entry {
        dapl_am_op *op = nullptr;
        const peer *of = nullptr;
        std::uint32_t use = 0;
    };

    mutex lock_;
    std::array<entry, 256> all_;
};

bool asked_fills::add(const peer &p, dapl_am_op &op, name &given)
{
    const std::lock_guard guard(lock_);
    for (entry &e : all_) {
        if (e.op)
            continue;
        e.op = &op;
        e.of = &p;
        ++e.use;
        given = {std::uint32_t(&e - all_.data()), e.use};
        return true;
    }
    return false;
}

dapl_am_op *asked_fills::take(const peer &p, const name &given)
{
    const std::lock_guard guard(lock_);
    if (given.place >= all_.size())
        return nullptr;
    entry &e = all_[given.place];
    return e.of == &p && e.use == given.use ? std::exchange(e.op, nullptr) : nullptr;
}

struct transfer_state {
    mutex lock;
    asked_fills fills;
    dapl_am_op *free_ops = nullptr;
    implicit_ops *free_threads = nullptr;
    pthread_key_t key{};
    bool has_key = false; // a process has so many
    pthread_once_t once = PTHREAD_ONCE_INIT;
    std::atomic<std::uint64_t> confirmations{0};
};

transfer_state &transfers = lasting<transfer_state>();

/// Null without memory.
dapl_am_op *take_op()
{
    const std::lock_guard guard(transfers.lock);
    dapl_am_op *op = transfers.free_ops;
    if (!op)
        return new (std::nothrow) dapl_am_op;
    transfers.free_ops = op->next;
    return op;
}

void give_op(dapl_am_op *op)
{
    const std::lock_guard guard(transfers.lock);
    op->next = transfers.free_ops;
    transfers.free_ops = op;
}

void end_of_thread(void *of_thread)
{
    auto *ops = static_cast<implicit_ops *>(of_thread);
    const std::lock_guard guard(transfers.lock);
    ops->next = transfers.free_threads;
    transfers.free_threads = ops;
}

/// Operations of a thread that has ended may still be counted in one that is free. Null without
/// memory.
implicit_ops *new_thread()
{
    const std::lock_guard guard(transfers.lock);
    implicit_ops **at = &transfers.free_threads;
    for (; *at; at = &(*at)->next) {
        implicit_ops *found = *at;
        if (is_done(found->puts) && is_done(found->gets)) {
            *at = found->next;
            found->region = nullptr;
            return found;
        }
    }
    return new (std::nothrow) implicit_ops;
}

/// Null if this thread can have none.
implicit_ops *my_ops()
{
    pthread_once(&transfers.once, [] {
        transfers.has_key = pthread_key_create(&transfers.key, end_of_thread) == 0;
    });
    if (!transfers.has_key)
        return nullptr;
    auto *ops = static_cast<implicit_ops *>(pthread_getspecific(transfers.key));
    if (ops) [[likely]]
        return ops;
    ops = new_thread();
    if (!ops || pthread_setspecific(transfers.key, ops) == 0)
        return ops;
    end_of_thread(ops);
    return nullptr;
}

/// Local memory that the adapter can reach, as long as this lives.
class reachable {
public:
    reachable(const void *memory, std::size_t size)
    {
        if (the_job.mine.holds(reinterpret_cast<std::uint64_t>(memory), size)) {
            context_ = the_job.segment_context;
            known_ = true;
        } else if (size > buffer_size) {
            cached_ = registrations::take(memory, size);
            known_ = cached_ != nullptr;
            context_ = known_ ? registrations::context_of(*cached_) : 0;
        }
    }
    ~reachable()
    {
        if (cached_)
            registrations::give(*cached_);
    }
    reachable(const reachable &) = delete;
    reachable &operator=(const reachable &) = delete;

    explicit operator bool() const { return known_; }

    /// A part of it, for a transfer that may outlive this.
    DAT_LMR_TRIPLET lend(const void *memory, std::size_t size, work &w) const
    {
        if (cached_)
            registrations::share(*cached_);
        w.lent = cached_;
        return {reinterpret_cast<DAT_VADDR>(memory), DAT_SEG_LENGTH(size), context_};
    }

private:
    registration *cached_ = nullptr;
    DAT_LMR_CONTEXT context_ = 0;
    bool known_ = false;
};

DAT_RMR_TRIPLET remote_part(const peer &p, std::uint64_t address, std::size_t size)
{
    return {address, DAT_SEG_LENGTH(size), p.memory.context};
}

/// Posts one part of a write; a buffer has a copy of what is sent, a bare request has none.
void write_part(peer &p, work &w, const DAT_LMR_TRIPLET &local, std::uint64_t remote,
                dapl_am_op &op)
{
    w.op = &op;
    op.pending.fetch_add(1, std::memory_order_relaxed);
    const auto guard = lock_with_room(p);
    post_write(p, w, local, remote_part(p, remote, local.segment_length));
}

void copy_and_write(peer &p, std::uint64_t remote, const std::byte *local, std::size_t size,
                    dapl_am_op &op)
{
    while (size > 0) {
        const std::size_t part = std::min(size, buffer_size);
        work &w = take_buffer();
        std::memcpy(w.data, local, part);
        write_part(p, w, {reinterpret_cast<DAT_VADDR>(w.data), DAT_SEG_LENGTH(part), w.context},
                   remote, op);
        local += part;
        remote += part;
        size -= part;
    }
}

void write_from(const reachable &from, peer &p, std::uint64_t remote, const void *local,
                std::size_t size, dapl_am_op &op)
{
    const auto *bytes = static_cast<const std::byte *>(local);
    while (size > 0) {
        const std::size_t part = std::min<std::size_t>(size, the_job.max_rdma);
        work &w = take_bare();
        write_part(p, w, from.lend(bytes, part, w), remote, op);
        bytes += part;
        remote += part;
        size -= part;
    }
}

/// What is read from a peer was read behind all that was written to it before.
void confirm(dapl_am_op &op)
{
    peer *p = std::exchange(op.unconfirmed, nullptr);
    if (!p)
        return;
    work &w = take_buffer();
    w.kind = work_kind::transfer;
    w.op = &op;
    op.pending.fetch_add(1, std::memory_order_relaxed);
    transfers.confirmations.fetch_add(1, std::memory_order_relaxed);
    const auto guard = lock_with_room(*p);
    post_read(*p, w, {reinterpret_cast<DAT_VADDR>(w.data), 1, w.context},
              remote_part(*p, p->memory.base, 1));
}

/// A put writes to this peer next. The read that confirms it can wait until it is synchronized, or
/// until a put to another peer needs the place.
void confirm_later(peer &p, dapl_am_op &op)
{
    if (!the_job.confirms_writes || op.unconfirmed == &p)
        return;
    confirm(op);
    op.unconfirmed = &p;
}

int check_transfer(int rank, const void *remote, const void *local, std::size_t size)
{
    if (the_job.stage < 2)
        return DAPL_AM_ERR_STATE;
    if (in_handler)
        return DAPL_AM_ERR_CONTEXT;
    if (!the_job.valid(rank))
        return DAPL_AM_ERR_RANK;
    if (size > 0 && !local)
        return DAPL_AM_ERR_ARGUMENT;
    if (size > 0 && !the_job.at(rank).memory.holds(reinterpret_cast<std::uint64_t>(remote), size))
        return DAPL_AM_ERR_RANGE;
    return DAPL_AM_OK;
}

/// @return whether there is nothing more to do: the memory is this rank's own, or there is none
bool done_here(int rank, void *to, const void *from, std::size_t size)
{
    if (size > 0 && rank == the_job.rank())
        std::memmove(to, from, size);
    return size == 0 || rank == the_job.rank();
}

int put(int rank, void *remote, const void *local, std::size_t size, dapl_am_op &op,
        local_memory promise)
{
    if (const int status = check_transfer(rank, remote, local, size); status != DAPL_AM_OK)
        return status;
    if (done_here(rank, remote, local, size))
        return DAPL_AM_OK;
    peer &p = the_job.at(rank);
    (void)await_connection(p, 0);
    confirm_later(p, op);
    const auto to = reinterpret_cast<std::uint64_t>(remote);
    if (promise == local_memory::lent || size <= buffer_size) {
        write_remote(p, to, local, size, op, promise);
        return DAPL_AM_OK;
    }
    const reachable from(local, size);
    if (!from) {
        copy_and_write(p, to, static_cast<const std::byte *>(local), size, op);
        return DAPL_AM_OK;
    }
    dapl_am_op written; // the source is reusable when this is complete
    write_from(from, p, to, local, size, written);
    await(written);
    return DAPL_AM_OK;
}

int get(int rank, void *local, const void *remote, std::size_t size, dapl_am_op &op)
{
    if (const int status = check_transfer(rank, remote, local, size); status != DAPL_AM_OK)
        return status;
    if (done_here(rank, local, remote, size))
        return DAPL_AM_OK;
    peer &p = the_job.at(rank);
    (void)await_connection(p, 0);
    read_remote(p, local, reinterpret_cast<std::uint64_t>(remote), size, op);
    return DAPL_AM_OK;
}

/// Small ones as a put of a buffer that is set here, others by a message.
int fill(int rank, void *remote, int value, std::size_t size, dapl_am_op &op)
{
    if (const int status = check_transfer(rank, remote, remote, size); status != DAPL_AM_OK)
        return status;
    if (size == 0 || rank == the_job.rank()) {
        if (size > 0)
            std::memset(remote, value, size);
        return DAPL_AM_OK;
    }
    peer &p = the_job.at(rank);
    (void)await_connection(p, 0);
    const auto to = reinterpret_cast<std::uint64_t>(remote);
    if (size <= buffer_size) {
        confirm_later(p, op);
        work &w = take_buffer();
        std::memset(w.data, value, size);
        write_part(p, w, {reinterpret_cast<DAT_VADDR>(w.data), DAT_SEG_LENGTH(size), w.context}, to,
                   op);
        return DAPL_AM_OK;
    }
    const std::uint64_t bytes = size;
    asked_fills::name name{};
    for (idle_wait wait; !transfers.fills.add(p, op, name);)
        wait.pause(dapl_am_poll() == DAPL_AM_OK);
    std::int32_t args[5];
    std::memcpy(args, &bytes, sizeof bytes);
    args[2] = value;
    std::memcpy(args + 3, &name, sizeof name);
    message m{category::fill};
    m.address = to;
    m.count = 5;
    m.args = args;
    op.pending.fetch_add(1, std::memory_order_relaxed);
    return request(p, m, 0);
}

/// An operation with a handle: counted once more while it is begun.
template <typename Begin>
int with_handle(dapl_am_handle *handle, Begin begin)
{
    if (!handle)
        return DAPL_AM_ERR_ARGUMENT;
    dapl_am_op *op = take_op();
    if (!op)
        return DAPL_AM_ERR_RESOURCES;
    const int status = begin(*op);
    const bool keep = status == DAPL_AM_OK && (op->unconfirmed || !is_done(*op));
    if (!keep)
        give_op(op);
    *handle = keep ? op : DAPL_AM_DONE;
    return status;
}

template <typename Begin>
int blocking(Begin begin)
{
    dapl_am_op op;
    const int status = begin(op);
    await(op);
    return status;
}

template <typename Begin>
int implicit(dapl_am_op implicit_ops::*kind, Begin begin)
{
    implicit_ops *ops = my_ops();
    if (!ops)
        return DAPL_AM_ERR_RESOURCES;
    return begin(ops->region ? *ops->region : ops->*kind);
}

void await_implicit(dapl_am_op implicit_ops::*kind)
{
    if (implicit_ops *ops = my_ops())
        await(ops->*kind);
}

void poll_all()
{
    (void)reap();
    (void)dapl_am_poll();
}

int try_op(dapl_am_op &op)
{
    confirm(op);
    poll_all();
    return is_done(op) ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

int try_implicit(dapl_am_op implicit_ops::*kind)
{
    implicit_ops *ops = my_ops();
    return ops ? try_op(ops->*kind) : DAPL_AM_OK;
}

/// Ends the handles of complete operations.
struct sweep {
    std::size_t left = 0;  ///< not complete
    std::size_t ended = 0; ///< by this sweep

    sweep(dapl_am_handle *handles, std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i) {
            if (!handles[i])
                continue;
            confirm(*handles[i]);
            if (!is_done(*handles[i])) {
                ++left;
                continue;
            }
            give_op(handles[i]);
            handles[i] = DAPL_AM_DONE;
            ++ended;
        }
    }
    bool some() const { return ended > 0 || left == 0; }
};

} // namespace

void write_remote(peer &p, std::uint64_t remote, const void *local, std::size_t size,
                  dapl_am_op &op, local_memory promise)
{
    // What is small is copied sooner than a second cache line of bookkeeping is touched.
    constexpr std::size_t always_copied = 256;
    if (size > always_copied && (promise == local_memory::lent || size > buffer_size))
        if (const reachable from(local, size); from)
            return write_from(from, p, remote, local, size, op);
    copy_and_write(p, remote, static_cast<const std::byte *>(local), size, op);
}

void read_remote(peer &p, void *local, std::uint64_t remote, std::size_t size, dapl_am_op &op)
{
    auto *bytes = static_cast<std::byte *>(local);
    const reachable into(local, size);
    while (size > 0) {
        const std::size_t part = std::min<std::size_t>(size, into ? the_job.max_rdma : buffer_size);
        work &w = into ? take_bare() : take_buffer();
        w.kind = into ? work_kind::transfer : work_kind::read_copy;
        w.copy_to = bytes;
        w.length = std::uint32_t(part);
        w.op = &op;
        op.pending.fetch_add(1, std::memory_order_relaxed);
        const DAT_LMR_TRIPLET to = into ? into.lend(bytes, part, w)
                                        : DAT_LMR_TRIPLET{reinterpret_cast<DAT_VADDR>(w.data),
                                                          DAT_SEG_LENGTH(part), w.context};
        {
            const auto guard = lock_with_room(p);
            post_read(p, w, to, remote_part(p, remote, part));
        }
        bytes += part;
        remote += part;
        size -= part;
    }
}

bool fill_done(const peer &p, std::uint32_t place, std::uint32_t use)
{
    dapl_am_op *op = transfers.fills.take(p, {place, use});
    if (op)
        op->pending.fetch_sub(1, std::memory_order_release);
    return op != nullptr;
}

std::uint64_t confirmations()
{
    return transfers.confirmations;
}

void await_quietly(const dapl_am_op &op)
{
    for (idle_wait wait; !is_done(op);)
        wait.pause(reap(&op));
}

void await(dapl_am_op &op)
{
    confirm(op);
    // A thread that never has to wait looks for messages, too, so that handlers run although a
    // program only puts; but seldom, since that may take as long as a put.
    constexpr unsigned seldom = 32;
    static thread_local unsigned unheard = 0;
    idle_wait wait;
    for (unsigned turn = 1; !is_done(op); ++turn) {
        bool any = reap(&op);
        unheard += any;
        if (unheard >= seldom || (!any && turn % 4 == 0)) {
            unheard = 0;
            any |= dapl_am_poll() == DAPL_AM_OK;
        }
        wait.pause(any);
    }
}

} // namespace am

using namespace am;

int dapl_am_put(int rank, void *remote, const void *local, size_t size)
{
    return dapl_am_put_bulk(rank, remote, local, size);
}

int dapl_am_put_bulk(int rank, void *remote, const void *local, size_t size)
{
    return blocking(
        [&](dapl_am_op &op) { return am::put(rank, remote, local, size, op, local_memory::lent); });
}

int dapl_am_get(int rank, void *local, const void *remote, size_t size)
{
    return blocking([&](dapl_am_op &op) { return am::get(rank, local, remote, size, op); });
}

int dapl_am_get_bulk(int rank, void *local, const void *remote, size_t size)
{
    return dapl_am_get(rank, local, remote, size);
}

int dapl_am_put_nb(int rank, void *remote, const void *local, size_t size, dapl_am_handle *handle)
{
    return with_handle(handle, [&](dapl_am_op &op) {
        return am::put(rank, remote, local, size, op, local_memory::reusable);
    });
}

int dapl_am_put_nb_bulk(int rank, void *remote, const void *local, size_t size,
                        dapl_am_handle *handle)
{
    return with_handle(handle, [&](dapl_am_op &op) {
        return am::put(rank, remote, local, size, op, local_memory::lent);
    });
}

int dapl_am_get_nb(int rank, void *local, const void *remote, size_t size, dapl_am_handle *handle)
{
    return with_handle(handle,
                       [&](dapl_am_op &op) { return am::get(rank, local, remote, size, op); });
}

int dapl_am_get_nb_bulk(int rank, void *local, const void *remote, size_t size,
                        dapl_am_handle *handle)
{
    return dapl_am_get_nb(rank, local, remote, size, handle);
}

int dapl_am_put_nbi(int rank, void *remote, const void *local, size_t size)
{
    return implicit(&implicit_ops::puts, [&](dapl_am_op &op) {
        return am::put(rank, remote, local, size, op, local_memory::reusable);
    });
}

int dapl_am_put_nbi_bulk(int rank, void *remote, const void *local, size_t size)
{
    return implicit(&implicit_ops::puts, [&](dapl_am_op &op) {
        return am::put(rank, remote, local, size, op, local_memory::lent);
    });
}

int dapl_am_get_nbi(int rank, void *local, const void *remote, size_t size)
{
    return implicit(&implicit_ops::gets,
                    [&](dapl_am_op &op) { return am::get(rank, local, remote, size, op); });
}

int dapl_am_get_nbi_bulk(int rank, void *local, const void *remote, size_t size)
{
    return dapl_am_get_nbi(rank, local, remote, size);
}

static bool is_value(size_t size)
{
    return size >= 1 && size <= sizeof(uint64_t);
}

// The machine's byte order is little-endian wherever DAPL is built: the lower bytes come first.

int dapl_am_put_val(int rank, void *remote, uint64_t value, size_t size)
{
    return is_value(size) ? dapl_am_put(rank, remote, &value, size) : DAPL_AM_ERR_ARGUMENT;
}

int dapl_am_put_nb_val(int rank, void *remote, uint64_t value, size_t size, dapl_am_handle *handle)
{
    return is_value(size) ? dapl_am_put_nb(rank, remote, &value, size, handle)
                          : DAPL_AM_ERR_ARGUMENT;
}

int dapl_am_put_nbi_val(int rank, void *remote, uint64_t value, size_t size)
{
    return is_value(size) ? dapl_am_put_nbi(rank, remote, &value, size) : DAPL_AM_ERR_ARGUMENT;
}

int dapl_am_get_val(int rank, const void *remote, size_t size, uint64_t *value)
{
    if (!is_value(size) || !value)
        return DAPL_AM_ERR_ARGUMENT;
    uint64_t fetched = 0;
    const int status = dapl_am_get(rank, &fetched, remote, size);
    if (status == DAPL_AM_OK)
        *value = fetched;
    return status;
}

int dapl_am_get_nb_val(int rank, const void *remote, size_t size, dapl_am_value_handle *handle)
{
    if (!is_value(size) || !handle)
        return DAPL_AM_ERR_ARGUMENT;
    auto *value = new (std::nothrow) dapl_am_value{};
    if (!value)
        return DAPL_AM_ERR_RESOURCES;
    const int status = am::get(rank, &value->value, remote, size, value->op);
    if (status != DAPL_AM_OK)
        delete value;
    else
        *handle = value;
    return status;
}

uint64_t dapl_am_wait_val(dapl_am_value_handle handle)
{
    if (!handle)
        return 0;
    await(handle->op);
    const uint64_t value = handle->value;
    delete handle;
    return value;
}

int dapl_am_memset(int rank, void *remote, int value, size_t size)
{
    return blocking([&](dapl_am_op &op) { return am::fill(rank, remote, value, size, op); });
}

int dapl_am_memset_nb(int rank, void *remote, int value, size_t size, dapl_am_handle *handle)
{
    return with_handle(handle,
                       [&](dapl_am_op &op) { return am::fill(rank, remote, value, size, op); });
}

int dapl_am_memset_nbi(int rank, void *remote, int value, size_t size)
{
    return implicit(&implicit_ops::puts,
                    [&](dapl_am_op &op) { return am::fill(rank, remote, value, size, op); });
}

void dapl_am_wait(dapl_am_handle handle)
{
    if (!handle)
        return;
    await(*handle);
    give_op(handle);
}

int dapl_am_try(dapl_am_handle handle)
{
    if (!handle)
        return DAPL_AM_OK;
    const int status = try_op(*handle);
    if (status == DAPL_AM_OK)
        give_op(handle);
    return status;
}

void dapl_am_wait_all(dapl_am_handle *handles, size_t count)
{
    for (size_t i = 0; handles && i < count; ++i) {
        dapl_am_wait(handles[i]);
        handles[i] = DAPL_AM_DONE;
    }
}

void dapl_am_wait_some(dapl_am_handle *handles, size_t count)
{
    for (idle_wait wait; handles && !sweep(handles, count).some();) {
        const bool reaped = reap();
        wait.pause(dapl_am_poll() == DAPL_AM_OK || reaped);
    }
}

int dapl_am_try_all(dapl_am_handle *handles, size_t count)
{
    if (!handles && count > 0)
        return DAPL_AM_ERR_ARGUMENT;
    poll_all();
    return sweep(handles, count).left == 0 ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

int dapl_am_try_some(dapl_am_handle *handles, size_t count)
{
    if (!handles && count > 0)
        return DAPL_AM_ERR_ARGUMENT;
    poll_all();
    return sweep(handles, count).some() ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

void dapl_am_wait_nbi_puts(void)
{
    await_implicit(&implicit_ops::puts);
}

void dapl_am_wait_nbi_gets(void)
{
    await_implicit(&implicit_ops::gets);
}

void dapl_am_wait_nbi(void)
{
    dapl_am_wait_nbi_puts();
    dapl_am_wait_nbi_gets();
}

int dapl_am_try_nbi_puts(void)
{
    return try_implicit(&implicit_ops::puts);
}

int dapl_am_try_nbi_gets(void)
{
    return try_implicit(&implicit_ops::gets);
}

int dapl_am_try_nbi(void)
{
    const int puts = dapl_am_try_nbi_puts();
    return puts == DAPL_AM_OK ? dapl_am_try_nbi_gets() : puts;
}

int dapl_am_begin_region(void)
{
    implicit_ops *ops = my_ops();
    if (!ops)
        return DAPL_AM_ERR_RESOURCES;
    if (ops->region)
        return DAPL_AM_ERR_STATE;
    ops->region = take_op();
    return ops->region ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

int dapl_am_end_region(dapl_am_handle *handle)
{
    if (!handle)
        return DAPL_AM_ERR_ARGUMENT;
    implicit_ops *ops = my_ops();
    if (!ops || !ops->region)
        return DAPL_AM_ERR_STATE;
    *handle = std::exchange(ops->region, nullptr);
    return DAPL_AM_OK;
}
