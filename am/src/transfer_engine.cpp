// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "transfer_engine.hpp"

#include "message.hpp"
#include "progress_engine.hpp"

#include <cstring>
#include <utility>

namespace am {

int transfer_engine::check(int rank, const void *remote, const void *local, std::size_t size)
{
    if (const int status = job_.check_call(rank); status != DAPL_AM_OK)
        return status;
    if (size == 0)
        return DAPL_AM_OK;
    if (local == nullptr)
        return DAPL_AM_ERR_ARGUMENT;
    const segment &memory = job_.peer_of_rank(rank).memory;
    return memory.holds(reinterpret_cast<std::uint64_t>(remote), size) ? DAPL_AM_OK
                                                                       : DAPL_AM_ERR_RANGE;
}

/// Moves memory of this rank itself. Returns whether there is nothing more to do.
bool transfer_engine::is_done_here(int rank, void *to, const void *from, std::size_t size) const
{
    if (size > 0 && rank == job_.rank())
        std::memmove(to, from, size);
    return size == 0 || rank == job_.rank();
}

int transfer_engine::put(int rank, void *remote, const void *local, std::size_t size,
                         dapl_am_op &op, local_memory promise)
{
    if (const int status = check(rank, remote, local, size); status != DAPL_AM_OK)
        return status;
    if (is_done_here(rank, remote, local, size))
        return DAPL_AM_OK;
    peer &p = job_.peer_of_rank(rank);
    progress_.await_connection(p);
    memory_.confirm_later(p, op);
    const auto to = reinterpret_cast<std::uint64_t>(remote);
    if (promise == local_memory::lent || size <= buffer_size) {
        memory_.write(p, to, local, size, op, promise);
        return DAPL_AM_OK;
    }
    dapl_am_op written;
    if (memory_.write_uncopied(p, to, local, size, written, op))
        await(written);
    return DAPL_AM_OK;
}

int transfer_engine::get(int rank, void *local, const void *remote, std::size_t size,
                         dapl_am_op &op)
{
    if (const int status = check(rank, remote, local, size); status != DAPL_AM_OK)
        return status;
    if (is_done_here(rank, local, remote, size))
        return DAPL_AM_OK;
    peer &p = job_.peer_of_rank(rank);
    progress_.await_connection(p);
    memory_.read(p, local, reinterpret_cast<std::uint64_t>(remote), size, op);
    return DAPL_AM_OK;
}

/// Puts a buffer that is set here, or asks the peer by a message if it is large.
int transfer_engine::fill(int rank, void *remote, int value, std::size_t size, dapl_am_op &op)
{
    if (const int status = check(rank, remote, remote, size); status != DAPL_AM_OK)
        return status;
    if (size == 0)
        return DAPL_AM_OK;
    if (rank == job_.rank()) {
        std::memset(remote, value, size);
        return DAPL_AM_OK;
    }
    peer &p = job_.peer_of_rank(rank);
    progress_.await_connection(p);
    const auto to = reinterpret_cast<std::uint64_t>(remote);
    if (size > buffer_size) {
        ask_to_fill(p, to, value, size, op);
        return DAPL_AM_OK;
    }
    memory_.confirm_later(p, op);
    work_request &w = job_.take_buffer();
    std::memset(w.data, value, size);
    memory_.write_buffer(p, w, to, size, op);
    return DAPL_AM_OK;
}

void transfer_engine::ask_to_fill(peer &p, std::uint64_t remote, int value, std::uint64_t size,
                                  dapl_am_op &op)
{
    fill_table::name name{};
    for (idle_wait wait = job_.make_wait(); !fills_.add(p, op, name);)
        wait.pause(progress_.poll());
    std::int32_t args[5];
    std::memcpy(args, &size, sizeof size);
    args[2] = value;
    std::memcpy(args + 3, &name, sizeof name);
    message m{category::fill};
    m.address = remote;
    m.count = 5;
    m.args = args;
    op.pending.fetch_add(1, std::memory_order_relaxed);
    progress_.send_request(p, m);
}

void transfer_engine::await(dapl_am_op &op)
{
    progress_.await(op);
}

void transfer_engine::await_handle(dapl_am_handle handle)
{
    if (handle == DAPL_AM_DONE)
        return;
    await(*handle);
    operations_.give(handle);
}

void transfer_engine::await_implicit(dapl_am_op implicit_ops::*kind)
{
    if (implicit_ops *ops = operations_.of_thread())
        await(ops->*kind);
}

int transfer_engine::try_op(dapl_am_op &op)
{
    memory_.confirm(op);
    (void)progress_.poll_all();
    return op.is_done() ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

int transfer_engine::try_handle(dapl_am_handle handle)
{
    if (handle == DAPL_AM_DONE)
        return DAPL_AM_OK;
    const int status = try_op(*handle);
    if (status == DAPL_AM_OK)
        operations_.give(handle);
    return status;
}

int transfer_engine::try_implicit(dapl_am_op implicit_ops::*kind)
{
    implicit_ops *ops = operations_.of_thread();
    return ops != nullptr ? try_op(ops->*kind) : DAPL_AM_OK;
}

/// Ends the handles of complete operations.
transfer_engine::swept transfer_engine::sweep(dapl_am_handle *handles, std::size_t count)
{
    swept result;
    for (std::size_t i = 0; i < count; ++i) {
        if (handles[i] == DAPL_AM_DONE)
            continue;
        memory_.confirm(*handles[i]);
        if (!handles[i]->is_done()) {
            ++result.left;
            continue;
        }
        operations_.give(std::exchange(handles[i], DAPL_AM_DONE));
        ++result.ended;
    }
    return result;
}

void transfer_engine::await_some(dapl_am_handle *handles, std::size_t count)
{
    for (idle_wait wait = job_.make_wait(); !sweep(handles, count).some();)
        wait.pause(progress_.poll_all());
}

int transfer_engine::try_all(dapl_am_handle *handles, std::size_t count)
{
    if (handles == nullptr && count > 0)
        return DAPL_AM_ERR_ARGUMENT;
    (void)progress_.poll_all();
    return sweep(handles, count).left == 0 ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

int transfer_engine::try_some(dapl_am_handle *handles, std::size_t count)
{
    if (handles == nullptr && count > 0)
        return DAPL_AM_ERR_ARGUMENT;
    (void)progress_.poll_all();
    return sweep(handles, count).some() ? DAPL_AM_OK : DAPL_AM_NOT_READY;
}

int transfer_engine::begin_region()
{
    implicit_ops *ops = operations_.of_thread();
    if (ops == nullptr)
        return DAPL_AM_ERR_RESOURCES;
    if (ops->region != nullptr)
        return DAPL_AM_ERR_STATE;
    ops->region = operations_.take();
    return ops->region != nullptr ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

int transfer_engine::end_region(dapl_am_handle *handle)
{
    if (handle == nullptr)
        return DAPL_AM_ERR_ARGUMENT;
    implicit_ops *ops = operations_.of_thread();
    if (ops == nullptr || ops->region == nullptr)
        return DAPL_AM_ERR_STATE;
    *handle = std::exchange(ops->region, nullptr);
    return DAPL_AM_OK;
}

} // namespace am
