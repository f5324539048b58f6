// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of dapl_am.h that move memory.
#include "current_job.hpp"
#include "dapl_am.h"
#include "job.hpp"

#include <new>

using am::current_job;
using am::implicit_ops;
using am::local_memory;

/// A fetched value. The operation comes first, so that both are one allocation.
struct dapl_am_value {
    dapl_am_op op;
    std::uint64_t value;
};

namespace {

am::transfer_engine &transfers()
{
    return current_job->transfers();
}

bool is_value(std::size_t size)
{
    return size >= 1 && size <= sizeof(std::uint64_t);
}

} // namespace

int dapl_am_put(int rank, void *remote, const void *local, size_t size)
{
    return dapl_am_put_bulk(rank, remote, local, size);
}

int dapl_am_put_bulk(int rank, void *remote, const void *local, size_t size)
{
    return transfers().run_blocking([&](dapl_am_op &op) {
        return transfers().put(rank, remote, local, size, op, local_memory::lent);
    });
}

int dapl_am_get(int rank, void *local, const void *remote, size_t size)
{
    return transfers().run_blocking(
        [&](dapl_am_op &op) { return transfers().get(rank, local, remote, size, op); });
}

int dapl_am_get_bulk(int rank, void *local, const void *remote, size_t size)
{
    return dapl_am_get(rank, local, remote, size);
}

int dapl_am_put_nb(int rank, void *remote, const void *local, size_t size, dapl_am_handle *handle)
{
    return transfers().run_with_handle(handle, [&](dapl_am_op &op) {
        return transfers().put(rank, remote, local, size, op, local_memory::reusable);
    });
}

int dapl_am_put_nb_bulk(int rank, void *remote, const void *local, size_t size,
                        dapl_am_handle *handle)
{
    return transfers().run_with_handle(handle, [&](dapl_am_op &op) {
        return transfers().put(rank, remote, local, size, op, local_memory::lent);
    });
}

int dapl_am_get_nb(int rank, void *local, const void *remote, size_t size, dapl_am_handle *handle)
{
    return transfers().run_with_handle(
        handle, [&](dapl_am_op &op) { return transfers().get(rank, local, remote, size, op); });
}

int dapl_am_get_nb_bulk(int rank, void *local, const void *remote, size_t size,
                        dapl_am_handle *handle)
{
    return dapl_am_get_nb(rank, local, remote, size, handle);
}

int dapl_am_put_nbi(int rank, void *remote, const void *local, size_t size)
{
    return transfers().run_implicit(&implicit_ops::puts, [&](dapl_am_op &op) {
        return transfers().put(rank, remote, local, size, op, local_memory::reusable);
    });
}

int dapl_am_put_nbi_bulk(int rank, void *remote, const void *local, size_t size)
{
    return transfers().run_implicit(&implicit_ops::puts, [&](dapl_am_op &op) {
        return transfers().put(rank, remote, local, size, op, local_memory::lent);
    });
}

int dapl_am_get_nbi(int rank, void *local, const void *remote, size_t size)
{
    return transfers().run_implicit(&implicit_ops::gets, [&](dapl_am_op &op) {
        return transfers().get(rank, local, remote, size, op);
    });
}

int dapl_am_get_nbi_bulk(int rank, void *local, const void *remote, size_t size)
{
    return dapl_am_get_nbi(rank, local, remote, size);
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
    if (!is_value(size) || value == nullptr)
        return DAPL_AM_ERR_ARGUMENT;
    uint64_t fetched = 0;
    const int status = dapl_am_get(rank, &fetched, remote, size);
    if (status == DAPL_AM_OK)
        *value = fetched;
    return status;
}

int dapl_am_get_nb_val(int rank, const void *remote, size_t size, dapl_am_value_handle *handle)
{
    if (!is_value(size) || handle == nullptr)
        return DAPL_AM_ERR_ARGUMENT;
    auto *value = new (std::nothrow) dapl_am_value{};
    if (value == nullptr)
        return DAPL_AM_ERR_RESOURCES;
    const int status = transfers().get(rank, &value->value, remote, size, value->op);
    if (status != DAPL_AM_OK)
        delete value;
    else
        *handle = value;
    return status;
}

uint64_t dapl_am_wait_val(dapl_am_value_handle handle)
{
    if (handle == nullptr)
        return 0;
    transfers().await(handle->op);
    const uint64_t value = handle->value;
    delete handle;
    return value;
}

int dapl_am_memset(int rank, void *remote, int value, size_t size)
{
    return transfers().run_blocking(
        [&](dapl_am_op &op) { return transfers().fill(rank, remote, value, size, op); });
}

int dapl_am_memset_nb(int rank, void *remote, int value, size_t size, dapl_am_handle *handle)
{
    return transfers().run_with_handle(
        handle, [&](dapl_am_op &op) { return transfers().fill(rank, remote, value, size, op); });
}

int dapl_am_memset_nbi(int rank, void *remote, int value, size_t size)
{
    return transfers().run_implicit(&implicit_ops::puts, [&](dapl_am_op &op) {
        return transfers().fill(rank, remote, value, size, op);
    });
}

void dapl_am_wait(dapl_am_handle handle)
{
    transfers().await_handle(handle);
}

int dapl_am_try(dapl_am_handle handle)
{
    return transfers().try_handle(handle);
}

void dapl_am_wait_all(dapl_am_handle *handles, size_t count)
{
    for (size_t i = 0; handles != nullptr && i < count; ++i) {
        dapl_am_wait(handles[i]);
        handles[i] = DAPL_AM_DONE;
    }
}

void dapl_am_wait_some(dapl_am_handle *handles, size_t count)
{
    if (handles != nullptr)
        transfers().await_some(handles, count);
}

int dapl_am_try_all(dapl_am_handle *handles, size_t count)
{
    return transfers().try_all(handles, count);
}

int dapl_am_try_some(dapl_am_handle *handles, size_t count)
{
    return transfers().try_some(handles, count);
}

void dapl_am_wait_nbi_puts(void)
{
    transfers().await_implicit(&implicit_ops::puts);
}

void dapl_am_wait_nbi_gets(void)
{
    transfers().await_implicit(&implicit_ops::gets);
}

void dapl_am_wait_nbi(void)
{
    dapl_am_wait_nbi_puts();
    dapl_am_wait_nbi_gets();
}

int dapl_am_try_nbi_puts(void)
{
    return transfers().try_implicit(&implicit_ops::puts);
}

int dapl_am_try_nbi_gets(void)
{
    return transfers().try_implicit(&implicit_ops::gets);
}

int dapl_am_try_nbi(void)
{
    const int puts = dapl_am_try_nbi_puts();
    return puts == DAPL_AM_OK ? dapl_am_try_nbi_gets() : puts;
}

int dapl_am_begin_region(void)
{
    return transfers().begin_region();
}

int dapl_am_end_region(dapl_am_handle *handle)
{
    return transfers().end_region(handle);
}
