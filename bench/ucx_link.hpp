// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Tagged messages of UCX through shared memory: what a program that uses UCX inside a host gets.
#pragma once

#include "channel.hpp"
#include "link_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ucp/api/ucp.h>

namespace bench {

class ucx_link {
public:
    static constexpr int receive_pool = 66;

    /// The address of a worker, as large as it may be here.
    struct place {
        std::size_t size;
        std::byte bytes[2040];
    };

    explicit ucx_link(std::uint32_t max_size);
    ~ucx_link();
    ucx_link(const ucx_link &) = delete;

    place own();
    /// Connects to the worker of the other process.
    void meet(const place &peer);

    std::byte *send_buffer() { return memory_.get(); }
    volatile std::byte *receive_buffer() { return memory_.get() + max_size_; }

    void post_receive()
    {
        void *&request = receives_[posted_++ % kept];
        request = ucp_tag_recv_nbx(worker_.get(), memory_.get() + max_size_, max_size_, tag, all,
                                   &receive_);
        if (request == nullptr)
            ++received_.come;
        else if (UCS_PTR_IS_ERR(request)) [[unlikely]]
            fail("ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
    }
    void post_send(std::uint32_t size)
    {
        void *const request = ucp_tag_send_nbx(peer_, memory_.get(), size, tag, &send_);
        if (request == nullptr)
            ++sent_.come;
        else if (UCS_PTR_IS_ERR(request)) [[unlikely]]
            fail("ucp_tag_send_nbx", UCS_PTR_STATUS(request));
    }
    /// Tagged messages alone are compared: no pattern that writes is asked of this link.
    [[noreturn]] void post_write(std::uint32_t) { fail("post_write", UCS_ERR_UNSUPPORTED); }
    bool poll_request() { return poll(sent_); }
    bool poll_receive() { return poll(received_); }

private:
    static constexpr ucp_tag_t tag = 1;
    static constexpr ucp_tag_t all = ~ucp_tag_t{0};
    static constexpr std::uint32_t kept = 128;

    struct completions {
        std::uint32_t come = 0;
        std::uint32_t taken = 0;
    };
    struct context_closer {
        void operator()(ucp_context *context) const { ucp_cleanup(context); }
    };
    struct worker_closer {
        void operator()(ucp_worker *worker) const { ucp_worker_destroy(worker); }
    };

    bool poll(completions &of)
    {
        if (of.come == of.taken) {
            (void)ucp_worker_progress(worker_.get());
            if (of.come == of.taken)
                return false;
        }
        ++of.taken;
        return true;
    }
    static void on_sent(void *request, ucs_status_t status, void *link);
    static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *,
                            void *link);
    [[noreturn]] static void fail(const char *call, ucs_status_t status);
    static void must(const char *call, ucs_status_t status)
    {
        if (status != UCS_OK)
            fail(call, status);
    }
    void open_context();

    std::uint32_t max_size_;
    std::shared_ptr<std::byte> memory_; ///< to send from, and to receive into
    completions sent_, received_;
    std::uint32_t posted_ = 0;
    void *receives_[kept] = {};
    ucp_request_param_t send_{}, receive_{};
    std::unique_ptr<ucp_context, context_closer> context_;
    std::unique_ptr<ucp_worker, worker_closer> worker_;
    ucp_ep_h peer_ = nullptr;
};

} // namespace bench
