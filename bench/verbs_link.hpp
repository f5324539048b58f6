// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The twin of dat_link, straight on libibverbs and librdmacm: it has the kind of queue pair, queues
// and completions that the verbs port asks for, and nothing between.
#pragma once

#include "channel.hpp"
#include "link_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <infiniband/verbs.h>
#include <iterator>
#include <memory>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <utility>

namespace bench {

/// Throws a failure that names the call and errno.
[[noreturn]] void verbs_fail(const char *call);

struct verbs_closer {
    void operator()(rdma_event_channel *channel) const { rdma_destroy_event_channel(channel); }
    void operator()(rdma_cm_id *id) const;
    void operator()(ibv_comp_channel *channel) const { ibv_destroy_comp_channel(channel); }
    void operator()(ibv_cq *cq) const { ibv_destroy_cq(cq); }
    void operator()(ibv_mr *mr) const { ibv_dereg_mr(mr); }
};
template <class Object>
using verbs_owned = std::unique_ptr<Object, verbs_closer>;

/// The connection manager's events of one process, and what listens.
class verbs_manager {
public:
    verbs_manager();

    /// Listens on a free port.
    void listen(const sockaddr_storage &on);
    sockaddr_storage listens_on() const;

    verbs_owned<rdma_cm_id> make_id();
    verbs_owned<rdma_cm_id> next_request(patience &p);
    /// Throws a failure when something else happens to `id`.
    void await(const rdma_cm_id &id, rdma_cm_event_type expected, patience &p);

private:
    struct happened {
        rdma_cm_id *id;
        rdma_cm_event_type what;
        int status;
    };
    happened next_event(patience &p);

    verbs_owned<rdma_event_channel> channel_;
    verbs_owned<rdma_cm_id> listener_;
    std::deque<rdma_cm_id *> requests_;
};

class verbs_queue {
public:
    void open(ibv_context *device, int depth);
    ibv_cq *get() const { return cq_.get(); }

    bool poll()
    {
        if (head_ == count_ && !refill())
            return false;
        ++head_;
        return true;
    }
    /// Sleeps until there is a completion, and takes it.
    void wait(patience &p);

private:
    /// Completions come out of the device in batches, as the port takes them.
    bool refill()
    {
        const int n = ibv_poll_cq(cq_.get(), static_cast<int>(std::size(taken_)), taken_);
        if (n < 0) [[unlikely]]
            verbs_fail("ibv_poll_cq");
        for (int i = 0; i < n; ++i)
            if (taken_[i].status != IBV_WC_SUCCESS) [[unlikely]]
                fail_completion(taken_[i]);
        head_ = 0;
        count_ = static_cast<std::uint32_t>(n);
        return n > 0;
    }
    [[noreturn]] static void fail_completion(const ibv_wc &completion);
    void sleep(patience &p);

    verbs_owned<ibv_comp_channel> channel_;
    verbs_owned<ibv_cq> cq_;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
    ibv_wc taken_[8];
};

/// A queue pair, connected and disconnected. First comes the way to the device, by resolve() or
/// take(), then the queue pair, then connect() or accept().
class verbs_endpoint {
public:
    explicit verbs_endpoint(verbs_manager &manager) : manager_(manager) {}
    verbs_endpoint(const verbs_endpoint &) = delete;

    void resolve(const sockaddr_storage &peer, patience &p);
    void take(patience &p);
    void make_queue_pair(int receives, int requests, std::uint32_t max_inline);
    void connect(patience &p);
    void accept(patience &p);
    /// Accepts, and waits for the peer to disconnect.
    void serve(patience &p);
    void disconnect(patience &p);

    ibv_pd *domain() const { return id_->pd; }
    ibv_qp *queue_pair() const { return id_->qp; }
    verbs_queue send_queue, receive_queue;

private:
    verbs_manager &manager_;
    verbs_owned<rdma_cm_id> id_; ///< owns the queue pair, so it is destroyed before the queues
};

class verbs_link {
public:
    static constexpr int receive_pool = 66;
    static constexpr int request_depth = 80;

    verbs_link(verbs_manager &manager, std::uint32_t max_size);
    verbs_link(const verbs_link &) = delete;

    void connect(const sockaddr_storage &peer, patience &p);
    void accept(patience &p);

    std::pair<std::uint64_t, std::uint64_t> memory() const;
    void set_peer_memory(std::uint64_t address, std::uint64_t key)
    {
        peer_address_ = address;
        peer_key_ = static_cast<std::uint32_t>(key);
    }

    std::byte *send_buffer() { return memory_.get(); }
    volatile std::byte *receive_buffer() { return memory_.get() + max_size_; }

    void post_receive()
    {
        ibv_sge local = segment(max_size_, max_size_);
        ibv_recv_wr request{};
        request.sg_list = &local;
        request.num_sge = 1;
        ibv_recv_wr *bad = nullptr;
        if (ibv_post_recv(end_.queue_pair(), &request, &bad) != 0) [[unlikely]]
            verbs_fail("ibv_post_recv");
    }
    void post_send(std::uint32_t size) { post(IBV_WR_SEND, size); }
    void post_write(std::uint32_t size) { post(IBV_WR_RDMA_WRITE, size); }
    bool poll_request() { return end_.send_queue.poll(); }
    bool poll_receive() { return end_.receive_queue.poll(); }
    /// Blocks on the completion channel.
    void wait_receive(patience &p) { end_.receive_queue.wait(p); }

private:
    void prepare();
    ibv_sge segment(std::uint32_t offset, std::uint32_t size) const
    {
        return {reinterpret_cast<std::uint64_t>(memory_.get()) + offset, size, mr_->lkey};
    }
    void post(ibv_wr_opcode operation, std::uint32_t size)
    {
        ibv_sge local = segment(0, size);
        ibv_send_wr request{};
        request.sg_list = &local;
        request.num_sge = 1;
        request.opcode = operation;
        request.send_flags = IBV_SEND_SIGNALED;
        if (size <= max_inline)
            request.send_flags |= IBV_SEND_INLINE;
        request.wr.rdma.remote_addr = peer_address_;
        request.wr.rdma.rkey = peer_key_;
        ibv_send_wr *bad = nullptr;
        if (ibv_post_send(end_.queue_pair(), &request, &bad) != 0) [[unlikely]]
            verbs_fail("ibv_post_send");
    }

    static constexpr std::uint32_t max_inline = 64; ///< the port's

    std::uint32_t max_size_;
    std::shared_ptr<std::byte> memory_;
    verbs_endpoint end_;
    verbs_owned<ibv_mr> mr_; ///< after end_, whose domain it is of
    std::uint64_t peer_address_ = 0;
    std::uint32_t peer_key_ = 0;
};

} // namespace bench
