// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared by the source files of the stand-in.
#pragma once

#include "stand_in.hpp"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <vector>

namespace stand_in {

/// A queue whose descriptor is readable while it holds something.
template <class Item>
class pollable {
public:
    pollable() = default;
    pollable(const pollable &) = delete;
    pollable &operator=(const pollable &) = delete;
    ~pollable() { ::close(fd); }

    void push(const Item &item)
    {
        items_.push_back(item);
        const std::uint64_t one = 1;
        (void)!::write(fd, &one, sizeof one);
    }
    /// False and EAGAIN without any.
    bool pop(Item &item)
    {
        if (items_.empty()) {
            errno = EAGAIN;
            return false;
        }
        item = items_.front();
        items_.pop_front();
        take_one();
        return true;
    }
    template <class Matches>
    void remove_if(Matches matches)
    {
        for (auto at = items_.begin(); at != items_.end();)
            if (matches(*at)) {
                at = items_.erase(at);
                take_one();
            } else {
                ++at;
            }
    }

    const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);

private:
    void take_one()
    {
        std::uint64_t one = 0;
        (void)!::read(fd, &one, sizeof one);
    }

    std::deque<Item> items_;
};

/// Watches for the file that STAND_IN_FAILS_WITH names: when a program makes it, the device fails.
class failure_file {
public:
    failure_file()
    {
        if (name_.empty())
            return;
        fd_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        const std::size_t slash = name_.rfind('/');
        const std::string folder = slash == std::string::npos ? "." : name_.substr(0, slash);
        (void)::inotify_add_watch(fd_, folder.c_str(), IN_CREATE);
    }
    failure_file(const failure_file &) = delete;
    failure_file &operator=(const failure_file &) = delete;
    ~failure_file()
    {
        if (fd_ >= 0)
            ::close(fd_);
        if (both_ >= 0)
            ::close(both_);
    }
    /// Readable when `events` is, or when there is something to look at.
    int beside(int events)
    {
        if (fd_ < 0)
            return events;
        both_ = ::epoll_create1(EPOLL_CLOEXEC);
        for (const int each : {events, fd_}) {
            epoll_event readable{};
            readable.events = EPOLLIN;
            (void)::epoll_ctl(both_, EPOLL_CTL_ADD, each, &readable);
        }
        return both_;
    }
    bool is_there()
    {
        alignas(inotify_event) char seen[4096];
        return fd_ >= 0 && ::read(fd_, seen, sizeof seen) > 0 && ::access(name_.c_str(), F_OK) == 0;
    }

private:
    static std::string named()
    {
        const char *const name = std::getenv("STAND_IN_FAILS_WITH");
        return name == nullptr ? "" : name;
    }

    const std::string name_ = named();
    int fd_ = -1;
    int both_ = -1;
};

struct context {
    verbs_context api{}; ///< first, so that a handle leads to its context
    pollable<ibv_async_event> events;
    failure_file fails;
    bool dead = false; ///< the device failed while it was open
};
inline context &of(ibv_context *handle)
{
    return *reinterpret_cast<context *>(reinterpret_cast<char *>(handle) -
                                        offsetof(verbs_context, context));
}

struct completion_queue : ibv_cq {
    std::deque<ibv_wc> entries;
    bool armed = false;
    bool solicited_only = false;
    int vector = 0;
    std::uint16_t moderated = 1; ///< completions of an event; no time brings it sooner
    std::uint16_t since_event = 0;
};

struct completion_channel : ibv_comp_channel {
    pollable<completion_queue *> events;
};

struct region : ibv_mr {
    unsigned rights = 0;
};

struct window : ibv_mw {
    std::uint32_t key = 0; ///< the device's; the library's may be ahead of it
    ibv_mr *in = nullptr;  ///< null while it is bound to nothing
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    unsigned rights = 0;
    std::uint32_t bound_by = 0; ///< number of the queue pair, of type 2
};

struct receive {
    std::uint64_t id;
    std::vector<ibv_sge> places;
};

struct shared_queue : ibv_srq {
    std::deque<receive> receives;
    std::uint32_t limit = 0;
    std::uint32_t room = 0;
};

struct request {
    ibv_send_wr wr;
    std::vector<ibv_sge> places;
    std::vector<char> carried; ///< bytes of an inline request
    std::uint32_t old_key = 0; ///< which the window of a bind shall have
};

struct queue_pair : ibv_qp {
    std::deque<request> requests;
    std::deque<receive> receives;
    ibv_qp_cap room{};
    std::uint32_t peer = 0; ///< number of the queue pair that it is connected to
    unsigned rights = 0;
    std::uint8_t rnr_retry = 7;
    std::uint8_t reads_in = 0;
    std::uint8_t reads_out = 0;

    completion_queue &sent_to() { return *static_cast<completion_queue *>(send_cq); }
    completion_queue &received_to() { return *static_cast<completion_queue *>(recv_cq); }
    shared_queue *shared() { return static_cast<shared_queue *>(srq); }
};

struct identifier;

/// All that there is. Every call holds the lock.
struct world {
    std::mutex lock;
    settings has;
    bool failed = false;
    std::uint32_t last_number = 0;
    std::size_t inline_posts = 0;
    std::size_t times_armed = 0;
    std::uint8_t newest_class = 0; ///< of the route that was resolved last
    std::vector<way> ways;         ///< of the queue pairs that were connected, in this order
    bool arms = true;              ///< CQs can be armed
    bool moderates = true;
    std::size_t cq_events = 0;
    std::set<context *> contexts;
    std::vector<completion_queue *> queues;
    std::vector<region *> regions;
    std::vector<shared_queue *> shared;
    std::map<std::uint32_t, region *> local_keys;
    std::map<std::uint32_t, region *> remote_keys;
    std::map<std::uint32_t, window *> windows;
    std::map<std::uint32_t, queue_pair *> pairs;

    struct device_memory {
        char *address;
        std::size_t size;
        char *behind;
    };
    std::vector<device_memory> memory;

    // The connection manager's.
    ibv_context *manager = nullptr; ///< its own context of the device
    std::set<identifier *> identifiers;
    std::map<std::uint16_t, identifier *> bound;
};
world &all();

/// A number of no other object.
inline std::uint32_t new_number()
{
    return ++all().last_number;
}

/// Null and errno when there is no device. The caller holds the lock.
ibv_context *open_context();
void close_context(ibv_context *);
/// The device fails; the caller holds the lock.
void fail_all();

template <class Object, class Container>
void forget(Container &among, Object *gone)
{
    for (auto at = among.begin(); at != among.end(); ++at)
        if (*at == gone) {
            among.erase(at);
            return;
        }
}

} // namespace stand_in
