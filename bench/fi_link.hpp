// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The twin of dat_link, straight on libfabric: it has the kind of endpoint, threading, registration
// and completions that the libfabric port asks for, and nothing between. The difference is the cost
// of the port's own layer. When the port changes an option, change it here too. A provider that has
// no connections (its name is of the kind "udp;ofi_rxd", or "shm") gets an endpoint of type
// FI_EP_RDM, with the options of the port to such endpoints.
#pragma once

#include "channel.hpp"
#include "link_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace bench {

/// The provider that has neither connections nor network addresses, and is polled.
inline constexpr std::string_view shared_memory = "shm";

/// Closes a libfabric object with its owner.
struct fi_closer {
    template <class Object>
    void operator()(Object *object) const
    {
        fi_close(&object->fid);
    }
};
template <class Object>
using fi_owned = std::unique_ptr<Object, fi_closer>;

struct fi_info_closer {
    void operator()(fi_info *info) const { fi_freeinfo(info); }
};
using fi_owned_info = std::unique_ptr<fi_info, fi_info_closer>;

/// Throws a failure for a negative result.
void fi_must(const char *call, ssize_t result);

class fi_link {
public:
    static constexpr int receive_pool = 66;
    static constexpr int request_depth = 80;

    /// Opens a link for `provider` ("tcp") on `node` ("127.0.0.1").
    fi_link(const std::string &provider, const std::string &node, std::uint32_t max_size);
    ~fi_link();
    fi_link(const fi_link &) = delete;

    /// One side listens and returns its address, the other connects.
    sockaddr_storage listen();
    void accept(patience &p);
    void connect(const sockaddr_storage &address, patience &p);
    /// Connectionless: opens the endpoint and returns its address; the sides exchange addresses.
    sockaddr_storage open();
    void meet(const sockaddr_storage &peer);
    bool connects() const { return info_->ep_attr->type == FI_EP_MSG; }
    /// Whether completions can be waited for.
    bool waits() const { return std::string_view(info_->fabric_attr->prov_name) != shared_memory; }

    std::pair<std::uint64_t, std::uint64_t> memory() const;
    void set_peer_memory(std::uint64_t address, std::uint64_t key)
    {
        peer_address_ = address;
        peer_key_ = key;
    }

    std::byte *send_buffer() { return memory_.get(); }
    volatile std::byte *receive_buffer() { return memory_.get() + max_size_; }

    void post_receive()
    {
        post("fi_recv", [&] {
            return fi_recv(ep_.get(), memory_.get() + max_size_, max_size_, descriptor_,
                           FI_ADDR_UNSPEC, &context_);
        });
    }
    void post_send(std::uint32_t size)
    {
        iovec local = segment(0, size);
        fi_msg message{};
        message.msg_iov = &local;
        message.desc = &descriptor_;
        message.iov_count = 1;
        message.context = &context_;
        post("fi_sendmsg", [&] { return fi_sendmsg(ep_.get(), &message, FI_COMPLETION); });
    }
    void post_write(std::uint32_t size)
    {
        iovec local = segment(0, size);
        fi_rma_iov remote = {peer_address_, size, peer_key_};
        const fi_msg_rma message = rma_message(local, remote);
        // Without connections nothing else says when the target can see a write.
        const std::uint64_t flags = FI_COMPLETION | (connects() ? 0 : FI_DELIVERY_COMPLETE);
        post("fi_writemsg", [&] { return fi_writemsg(ep_.get(), &message, flags); });
    }
    void post_read(std::uint32_t size)
    {
        iovec local = segment(0, size);
        fi_rma_iov remote = {peer_address_, size, peer_key_};
        const fi_msg_rma message = rma_message(local, remote);
        post("fi_readmsg", [&] { return fi_readmsg(ep_.get(), &message, FI_COMPLETION); });
    }
    bool poll_request() { return poll(send_cq_); }
    bool poll_receive() { return poll(recv_cq_); }

private:
    iovec segment(std::uint32_t offset, std::uint32_t size) const
    {
        return {memory_.get() + offset, size};
    }
    fi_msg_rma rma_message(iovec &local, fi_rma_iov &remote)
    {
        fi_msg_rma message{};
        message.msg_iov = &local;
        message.desc = &descriptor_;
        message.iov_count = 1;
        message.rma_iov = &remote;
        message.rma_iov_count = 1;
        message.context = &context_;
        return message;
    }
    /// Queues of the right depth are never full. But shm's are full until the peer has looked, and
    /// ofi_rxm takes nothing before it has connected.
    template <class Call>
    void post(const char *name, Call &&call)
    {
        ssize_t result = call();
        while (result == -FI_EAGAIN && !connects()) {
            (void)fi_cq_read(send_cq_.cq.get(), nullptr, 0);
            result = call();
        }
        if (result != 0) [[unlikely]]
            fi_must(name, result);
    }
    /// Completions come out of libfabric in batches, as the port takes them.
    struct completion_queue {
        fi_owned<fid_cq> cq;
        std::uint32_t head = 0;
        std::uint32_t count = 0;
        fi_cq_msg_entry taken[8];
    };
    static bool poll(completion_queue &q)
    {
        if (q.head == q.count && !refill(q))
            return false;
        ++q.head;
        return true;
    }
    static bool refill(completion_queue &q)
    {
        const ssize_t n = fi_cq_read(q.cq.get(), q.taken, std::size(q.taken));
        if (n < 0 && n != -FI_EAGAIN) [[unlikely]]
            fail_completion(q.cq.get(), n);
        q.head = 0;
        q.count = n > 0 ? static_cast<std::uint32_t>(n) : 0;
        return n > 0;
    }
    [[noreturn]] static void fail_completion(fid_cq *cq, ssize_t result);
    void open_domain();
    void open_endpoint(fi_info &info);
    void await_connected(patience &p);
    fi_owned_info await_request_for_connection(patience &p);
    std::uint32_t next_event(patience &p, fi_eq_cm_entry &entry);
    void post_pool();

    std::uint32_t max_size_;
    std::shared_ptr<std::byte> memory_;
    fi_owned_info info_;
    fi_owned<fid_fabric> fabric_;
    fi_owned<fid_eq> eq_;
    fi_owned<fid_domain> domain_;
    fi_owned<fid_mr> mr_;
    completion_queue send_cq_;
    completion_queue recv_cq_;
    fi_owned<fid_pep> pep_;
    fi_owned<fid_av> av_; ///< its one entry is the peer, fi_addr_t 0
    fi_owned<fid_ep> ep_;
    void *descriptor_ = nullptr;
    fi_context context_{};
    std::uint64_t peer_address_ = 0;
    std::uint64_t peer_key_ = 0;
};

} // namespace bench
