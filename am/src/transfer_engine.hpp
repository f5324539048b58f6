// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Puts, gets and memsets of a program, and how it waits for them.
#pragma once

#include "fill_table.hpp"
#include "job_context.hpp"
#include "operations.hpp"
#include "remote_memory.hpp"

namespace am {

class progress_engine;

class transfer_engine {
public:
    transfer_engine(job_context &job, remote_memory &memory, progress_engine &waits,
                    fill_table &fills)
        : job_(job), memory_(memory), progress_(waits), fills_(fills)
    {}

    // These begin a transfer, which `op` counts. They return a status.

    int put(int rank, void *remote, const void *local, std::size_t size, dapl_am_op &op,
            local_memory promise);
    int get(int rank, void *local, const void *remote, std::size_t size, dapl_am_op &op);
    int fill(int rank, void *remote, int value, std::size_t size, dapl_am_op &op);

    // These run such a function, and give it the operation that counts.

    template <typename Begin>
    int run_with_handle(dapl_am_handle *handle, Begin begin)
    {
        if (handle == nullptr)
            return DAPL_AM_ERR_ARGUMENT;
        dapl_am_op *op = operations_.take();
        if (op == nullptr)
            return DAPL_AM_ERR_RESOURCES;
        const int status = begin(*op);
        const bool keep = status == DAPL_AM_OK && (op->unconfirmed != nullptr || !op->is_done());
        if (!keep)
            operations_.give(op);
        *handle = keep ? op : DAPL_AM_DONE;
        return status;
    }
    template <typename Begin>
    int run_blocking(Begin begin)
    {
        dapl_am_op op;
        const int status = begin(op);
        await(op);
        return status;
    }
    template <typename Begin>
    int run_implicit(dapl_am_op implicit_ops::*kind, Begin begin)
    {
        implicit_ops *ops = operations_.of_thread();
        if (ops == nullptr)
            return DAPL_AM_ERR_RESOURCES;
        return begin(ops->region != nullptr ? *ops->region : ops->*kind);
    }

    void await(dapl_am_op &op);
    void await_handle(dapl_am_handle handle);
    void await_implicit(dapl_am_op implicit_ops::*kind);
    void await_some(dapl_am_handle *handles, std::size_t count);
    int try_handle(dapl_am_handle handle);
    int try_implicit(dapl_am_op implicit_ops::*kind);
    int try_all(dapl_am_handle *handles, std::size_t count);
    int try_some(dapl_am_handle *handles, std::size_t count);

    /// Gathers the implicit operations of this thread, from here to end_region(), in one handle.
    int begin_region();
    int end_region(dapl_am_handle *handle);

private:
    struct swept {
        std::size_t left = 0;  ///< operations that are not complete
        std::size_t ended = 0; ///< handles ended by this sweep
        bool some() const { return ended > 0 || left == 0; }
    };

    int check(int rank, const void *remote, const void *local, std::size_t size);
    bool is_done_here(int rank, void *to, const void *from, std::size_t size) const;
    void ask_to_fill(peer &p, std::uint64_t remote, int value, std::uint64_t size, dapl_am_op &op);
    int try_op(dapl_am_op &op);
    swept sweep(dapl_am_handle *handles, std::size_t count);

    job_context &job_;
    remote_memory &memory_;
    progress_engine &progress_;
    fill_table &fills_;
    operations operations_;
};

} // namespace am
