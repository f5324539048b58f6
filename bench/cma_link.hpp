// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The system copies from the memory of one process to that of the other (process_vm_writev): the
// baseline of a transport inside a host that lets the initiator copy. A message is written to the
// receiver's memory, and a count behind it.
#pragma once

#include "channel.hpp"
#include "link_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <sys/uio.h>

namespace bench {

class cma_link {
public:
    static constexpr int receive_pool = 66;

    /// The addresses that the other process needs to copy into this process.
    struct place {
        pid_t process;
        std::uintptr_t buffer;
        std::uintptr_t count;
    };

    explicit cma_link(std::uint32_t max_size);
    cma_link(const cma_link &) = delete;

    place own();
    void meet(const place &peer) { peer_ = peer; }

    std::byte *send_buffer() { return memory_.get(); }
    volatile std::byte *receive_buffer() { return memory_.get() + max_size_; }

    void post_receive() {}
    void post_send(std::uint32_t size)
    {
        ++sent_;
        copy(size, 2);
    }
    void post_write(std::uint32_t size) { copy(size, 1); }
    void post_silent_write(std::uint32_t size)
    {
        copy(size, 1);
        ++completed_;
    }
    void post_read(std::uint32_t size)
    {
        ++posted_;
        const iovec local = {memory_.get() + max_size_, size};
        const iovec remote = {reinterpret_cast<void *>(peer_.buffer), size};
        if (process_vm_readv(peer_.process, &local, 1, &remote, 1, 0) != size) [[unlikely]]
            fail("process_vm_readv");
    }
    bool poll_request()
    {
        if (completed_ == posted_)
            return false;
        ++completed_;
        return true;
    }
    bool poll_receive()
    {
        if (come_.load(std::memory_order_acquire) == taken_)
            return false;
        ++taken_;
        return true;
    }

private:
    /// The first of these parts, which the system copies in their order.
    void copy(std::uint32_t size, unsigned long parts)
    {
        ++posted_;
        const iovec local[2] = {{memory_.get(), size}, {&sent_, sizeof sent_}};
        const iovec remote[2] = {{reinterpret_cast<void *>(peer_.buffer), size},
                                 {reinterpret_cast<void *>(peer_.count), sizeof sent_}};
        const auto all = static_cast<ssize_t>(parts == 1 ? size : size + sizeof sent_);
        if (process_vm_writev(peer_.process, local, parts, remote, parts, 0) != all) [[unlikely]]
            fail("process_vm_writev");
    }
    [[noreturn]] static void fail(const char *call);

    std::uint32_t max_size_;
    std::shared_ptr<std::byte> memory_; ///< to send from, and to receive into
    std::uint32_t posted_ = 0, completed_ = 0;
    std::uint32_t sent_ = 0;
    std::uint32_t taken_ = 0;
    std::atomic<std::uint32_t> come_{0}; ///< written by the other process
    place peer_{};
};

} // namespace bench
