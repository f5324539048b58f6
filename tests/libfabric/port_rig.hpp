// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A common layer small enough to see through, to drive the libfabric port with.
#pragma once

#include "port.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dapl::libfabric {

using namespace std::chrono_literals;
using ms = std::chrono::milliseconds;

constexpr ms patience = 60s; ///< limit of a wait for what has to come, also on a busy machine

struct connection_event {
    DAT_EVENT_NUMBER number;
    std::string data;
};

/// What upcalls bring, in order.
template <class T>
class inbox {
public:
    void put(T item)
    {
        std::lock_guard hold(mutex_);
        items_.push_back(std::move(item));
        changed_.notify_all();
    }
    std::optional<T> take(ms at_most = patience)
    {
        std::unique_lock hold(mutex_);
        if (!changed_.wait_for(hold, at_most, [this] { return !items_.empty(); }))
            return std::nullopt;
        T item = std::move(items_.front());
        items_.pop_front();
        return item;
    }
    std::size_t size()
    {
        std::lock_guard hold(mutex_);
        return items_.size();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<T> items_;
};

// Stand-ins for the common layer's objects.
namespace core {

class adapter {};

class endpoint {
public:
    inbox<connection_event> events;
    std::function<void(DAT_EVENT_NUMBER)> on_event; ///< called on the upcalling thread

    DAT_EVENT_NUMBER next(ms at_most = patience)
    {
        const auto event = events.take(at_most);
        last_data = event ? event->data : "";
        return event ? event->number : DAT_EVENT_NUMBER{};
    }
    std::string last_data;
};

class evd {
public:
    inbox<std::thread::id> callbacks; ///< threads that made a callback
};

} // namespace core

struct arrival {
    ofi::cr request;
    std::string data;
    int family;
    DAT_PORT_QUAL port;
};

class core::service_point {
public:
    std::atomic<bool> takes{true};
    inbox<std::unique_ptr<arrival>> arrivals;
};

/// An open HCA with one protection domain.
struct node {
    adapter owner;
    std::unique_ptr<transport::hca> hca = std::make_unique<transport::hca>();
    transport::pd pd;
    status opened;

    explicit node(const char *params = "tcp lo");
    ~node();
    const sockaddr *address() const
    {
        return reinterpret_cast<const sockaddr *>(&hca->interface.address);
    }
};

/// A queue pair with its CQs and operations.
struct side {
    node &home;
    evd recv_evd, send_evd;
    endpoint ep;
    transport::cq recv_cq, send_cq;
    transport::qp qp;
    std::vector<transport::wr> sends, recvs;
    std::size_t next_send = 0, next_recv = 0;
    bool freed = false;

    explicit side(node &n, DAT_COUNT depth = 64);
    ~side();
    void free_qp();

    status send(const void *data, DAT_COUNT size, DAT_UINT64 cookie, int flags = 0);
    status rdma(opcode operation, void *data, DAT_COUNT size, const DAT_RMR_TRIPLET &remote,
                DAT_UINT64 cookie, int flags = 0);
    status post(opcode operation, std::vector<DAT_LMR_TRIPLET> local, const DAT_RMR_TRIPLET *remote,
                DAT_UINT64 cookie, int flags = 0);
    status write_immediate(void *data, DAT_COUNT size, const DAT_RMR_TRIPLET &remote,
                           DAT_UINT32 immediate, DAT_UINT64 cookie, int flags = 0);
    status recv(void *data, DAT_COUNT size, DAT_UINT64 cookie);
    status recv(std::vector<DAT_LMR_TRIPLET> local, DAT_UINT64 cookie);

    struct result {
        DAT_UINT64 cookie = 0;
        int status = -1;
        DAT_UINT32 length = 0;
        bool operator==(const result &) const = default;
    };
    std::optional<DAT_UINT32> immediate; ///< immediate data of the last completion
    /// Polls for the next completion.
    result done(transport::cq &, ms at_most = patience);
    result sent(ms at_most = patience) { return done(send_cq, at_most); }
    result received(ms at_most = patience) { return done(recv_cq, at_most); }

    status connect(const node &to, DAT_CONN_QUAL, const std::string &data = "",
                   DAT_TIMEOUT timeout_us = 60'000'000);
};

DAT_LMR_TRIPLET segment(const void *data, DAT_COUNT size);

/// A port without a listener, which stays free until the test takes it.
DAT_CONN_QUAL closed_port(node &);

struct door_bell {
    service_point owner;
    transport::listener listener;
    DAT_CONN_QUAL port = 0;
    bool open = false;

    explicit door_bell(node &, DAT_CONN_QUAL wanted = 0);
    ~door_bell() { close(); }
    void close();
};

/// A registered buffer.
struct region {
    std::vector<char> bytes;
    transport::mr mr;
    mr_keys keys;

    region(node &, std::size_t size, int privileges);
    ~region() { transport::dapls_ib_mr_deregister(mr); }
    DAT_RMR_TRIPLET at(std::size_t offset, std::size_t size);
};

/// Two connected sides, `b` passive.
struct connected_pair {
    node &an, &bn;
    side a, b;
    door_bell bell;

    explicit connected_pair(node &n) : connected_pair(n, n) {}
    connected_pair(node &, node &);
};

private_data as_data(const std::string &);
bool eventually(const std::function<bool()> &, ms at_most = patience);

} // namespace dapl::libfabric
