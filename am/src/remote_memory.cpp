// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "remote_memory.hpp"

#include "posts.hpp"
#include "registration_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace am {

/// Local memory that the adapter can reach, as long as this lives.
class reachable_memory {
public:
    reachable_memory(const job_context &job, registration_cache &cache, const void *memory,
                     std::size_t size)
    {
        if (job.own_segment.holds(reinterpret_cast<std::uint64_t>(memory), size)) {
            context_ = job.segment_context;
            known_ = true;
        } else if (size > buffer_size) {
            cached_ = cache.take(memory, size);
            known_ = cached_ != nullptr;
            context_ = known_ ? cached_->context : 0;
        }
    }
    ~reachable_memory()
    {
        if (cached_ != nullptr)
            cached_->give();
    }
    reachable_memory(const reachable_memory &) = delete;
    reachable_memory &operator=(const reachable_memory &) = delete;

    explicit operator bool() const { return known_; }

    /// Returns the segment for `memory`. The registration stays until `w` is done, even if this
    /// object ends before.
    DAT_LMR_TRIPLET lend(const void *memory, std::size_t size, work_request &w) const
    {
        if (cached_ != nullptr)
            cached_->share();
        w.lent = cached_;
        return {reinterpret_cast<DAT_VADDR>(memory), static_cast<DAT_SEG_LENGTH>(size), context_};
    }

private:
    registration *cached_ = nullptr;
    DAT_LMR_CONTEXT context_ = 0;
    bool known_ = false;
};

namespace {

DAT_RMR_TRIPLET remote_part(const peer &p, std::uint64_t address, std::size_t size)
{
    return {address, static_cast<DAT_SEG_LENGTH>(size), p.memory.context};
}

void count_part(dapl_am_op &op, work_request &w)
{
    w.op = &op;
    op.pending.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

void remote_memory::write_part(peer &p, work_request &w, const DAT_LMR_TRIPLET &local,
                               std::uint64_t remote, dapl_am_op &op)
{
    count_part(op, w);
    const room_lock guard(p);
    post_write(p, w, local, remote_part(p, remote, local.segment_length));
}

void remote_memory::write_buffer(peer &p, work_request &buffer, std::uint64_t remote,
                                 std::size_t size, dapl_am_op &op)
{
    write_part(p, buffer, buffer.segment(size), remote, op);
}

void remote_memory::copy_and_write(peer &p, std::uint64_t remote, const std::byte *local,
                                   std::size_t size, dapl_am_op &op)
{
    while (size > 0) {
        const std::size_t part = std::min(size, buffer_size);
        work_request &w = job_.take_buffer();
        std::memcpy(w.data, local, part);
        write_buffer(p, w, remote, part, op);
        local += part;
        remote += part;
        size -= part;
    }
}

void remote_memory::write_from(const reachable_memory &from, peer &p, std::uint64_t remote,
                               const void *local, std::size_t size, dapl_am_op &op)
{
    const auto *bytes = static_cast<const std::byte *>(local);
    while (size > 0) {
        const std::size_t part = std::min<std::size_t>(size, job_.max_rdma);
        work_request &w = job_.take_bare();
        write_part(p, w, from.lend(bytes, part, w), remote, op);
        bytes += part;
        remote += part;
        size -= part;
    }
}

void remote_memory::write(peer &p, std::uint64_t remote, const void *local, std::size_t size,
                          dapl_am_op &op, local_memory promise)
{
    // Copying few bytes takes less time than touching a second cache line of bookkeeping.
    constexpr std::size_t always_copied = 256;
    if (size > always_copied && (promise == local_memory::lent || size > buffer_size))
        if (const reachable_memory from(job_, cache_, local, size); from)
            return write_from(from, p, remote, local, size, op);
    copy_and_write(p, remote, static_cast<const std::byte *>(local), size, op);
}

bool remote_memory::write_uncopied(peer &p, std::uint64_t remote, const void *local,
                                   std::size_t size, dapl_am_op &written, dapl_am_op &op)
{
    const reachable_memory from(job_, cache_, local, size);
    if (from)
        write_from(from, p, remote, local, size, written);
    else
        copy_and_write(p, remote, static_cast<const std::byte *>(local), size, op);
    return static_cast<bool>(from);
}

void remote_memory::read_part(const reachable_memory &into, peer &p, std::byte *local,
                              std::uint64_t remote, std::size_t size, dapl_am_op &op)
{
    work_request &w = into ? job_.take_bare() : job_.take_buffer();
    w.copy_to = local;
    w.length = static_cast<std::uint32_t>(size);
    count_part(op, w);
    const DAT_LMR_TRIPLET to = into ? into.lend(local, size, w) : w.segment(size);
    const room_lock guard(p);
    post_read(p, w, into ? work_kind::transfer : work_kind::read_copy, to,
              remote_part(p, remote, size));
}

void remote_memory::read(peer &p, void *local, std::uint64_t remote, std::size_t size,
                         dapl_am_op &op)
{
    auto *bytes = static_cast<std::byte *>(local);
    const reachable_memory into(job_, cache_, local, size);
    const std::size_t most = into ? static_cast<std::size_t>(job_.max_rdma) : buffer_size;
    while (size > 0) {
        const std::size_t part = std::min(size, most);
        read_part(into, p, bytes, remote, part, op);
        bytes += part;
        remote += part;
        size -= part;
    }
}

void remote_memory::confirm(dapl_am_op &op)
{
    peer *p = std::exchange(op.unconfirmed, nullptr);
    if (p == nullptr)
        return;
    work_request &w = job_.take_buffer();
    count_part(op, w);
    confirmations_.fetch_add(1, std::memory_order_relaxed);
    const room_lock guard(*p);
    post_read(*p, w, work_kind::transfer, w.segment(1), remote_part(*p, p->memory.base, 1));
}

void remote_memory::confirm_later(peer &p, dapl_am_op &op)
{
    if (!job_.confirms_writes || op.unconfirmed == &p)
        return;
    confirm(op);
    op.unconfirmed = &p;
}

void remote_memory::await_quietly(const dapl_am_op &op)
{
    for (idle_wait wait = job_.make_wait(); !op.is_done();)
        wait.pause(reap(job_, &op));
}

} // namespace am
