// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device without connections, of local datagram sockets: reliable, and a peer that does not read
// makes it busy. Each promise of a device can be left out:
//   ordered=0     datagrams overtake one another
//   descriptor=0  there is nothing to sleep on
//   accesses=0    it only sends
//   offsets=1     keys stand for offsets
// With safe_copies=1 the layer has the system copy short messages, too.
// Accesses are made by the system, at the next call of next(); keys are 24 bytes, at which nobody
// looks.
#include "port.hpp"

#include "dapl_debug.hpp"
#include "ia_params.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace dapl::datagram {

using namespace unconnected;

namespace {

struct options {
    std::uint32_t ordered = 1;
    std::uint32_t descriptor = 1;
    std::uint32_t accesses = 1;
    std::uint32_t offsets = 0;
    std::uint32_t datagram = 8192;
    std::uint32_t safe_copies = 0;
};

constexpr param_option<options> known[] = {
    {"ordered", &options::ordered, 0, 1},
    {"descriptor", &options::descriptor, 0, 1},
    {"accesses", &options::accesses, 0, 1},
    {"offsets", &options::offsets, 0, 1},
    {"datagram", &options::datagram, fabric::least_datagram, 65536},
    {"safe_copies", &options::safe_copies, 0, 1},
};

struct key_bytes {
    std::int64_t process;
    std::uint64_t base;
    std::uint64_t unused;
};

class socket_fabric final : public fabric {
public:
    explicit socket_fabric(const options &how) : how_(how) {}
    ~socket_fabric() override
    {
        if (socket_ >= 0)
            close(socket_);
    }

    int open()
    {
        socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        sockaddr_un any{};
        any.sun_family = AF_UNIX;
        const bool bound = socket_ >= 0 && bind(socket_, reinterpret_cast<sockaddr *>(&any),
                                                sizeof any.sun_family) == 0; // the system names it
        return bound ? 0 : errno;
    }

    fabric_traits traits() const override
    {
        fabric_traits is;
        is.max_datagram = how_.datagram;
        is.ordered = how_.ordered != 0;
        is.accesses = how_.accesses != 0;
        is.writes_in_order = how_.ordered != 0;
        is.max_access = 100'000;
        is.access_from = 4096;
        return is;
    }

    int own_name(fabric_name &out) override
    {
        sockaddr_un own{};
        socklen_t size = sizeof own;
        if (getsockname(socket_, reinterpret_cast<sockaddr *>(&own), &size) != 0)
            return errno;
        out.size = static_cast<std::uint32_t>(size);
        std::memcpy(out.bytes, &own, size);
        return 0;
    }

    int peer_of(const fabric_name &name, fabric_peer &out) override
    {
        if (name.size == 0 || name.size > sizeof(sockaddr_un))
            return EINVAL;
        const auto place = std::find_if(names_.begin(), names_.end(),
                                        [](const fabric_name &each) { return each.size == 0; });
        out = static_cast<fabric_peer>(place - names_.begin());
        if (place == names_.end())
            names_.push_back(name);
        else
            *place = name;
        return 0;
    }
    bool forget(fabric_peer peer) override
    {
        names_[peer].size = 0;
        return true;
    }

    int register_memory(void *address, std::uint64_t, memory_rights, void *&handle,
                        fabric_key &key) override
    {
        handle = address;
        const auto base = reinterpret_cast<std::uintptr_t>(address);
        key.base = how_.offsets != 0 ? 0 : base;
        const key_bytes wide{getpid(), how_.offsets != 0 ? base : 0, 0};
        key.size = sizeof wide;
        std::memcpy(key.bytes, &wide, sizeof wide);
        return 0;
    }
    void deregister_memory(void *) override {}

    int send(fabric_peer to, const void *bytes, std::size_t size, void *, void *) override
    {
        const fabric_name &name = names_[to];
        const ssize_t sent = sendto(socket_, bytes, size, MSG_NOSIGNAL,
                                    reinterpret_cast<const sockaddr *>(name.bytes), name.size);
        if (sent < 0 && errno != ECONNREFUSED) // a peer that has died takes nothing
            return errno == ENOBUFS ? EAGAIN : errno;
        return sent_at_once;
    }

    int access(const fabric_access &what) override
    {
        key_bytes wide;
        std::memcpy(&wide, what.key->bytes, sizeof wide);
        pending_.push_back({what.writes, static_cast<pid_t>(wide.process), what.local, what.length,
                            wide.base + what.remote, what.cookie});
        return 0;
    }

    bool next(fabric_event &out) override
    {
        if (!pending_.empty()) {
            done_.push_back(end(pending_.front()));
            pending_.pop_front();
        }
        if (!done_.empty()) {
            out = done_.front();
            done_.pop_front();
            return true;
        }
        receive();
        if (arrived_.empty())
            return false;
        const bool overtakes = how_.ordered == 0 && ++turn_ % 3 == 0;
        auto *const first = overtakes ? arrived_.back() : arrived_.front();
        if (overtakes)
            arrived_.pop_back();
        else
            arrived_.pop_front();
        out = {};
        out.what = fabric_event::kind::arrived;
        out.bytes = first->data();
        out.size = first->size();
        out.buffer = first;
        return true;
    }
    void give_back(void *buffer) override
    {
        delete static_cast<std::vector<std::uint8_t> *>(buffer);
    }

    int descriptor() const override { return how_.descriptor != 0 ? socket_ : -1; }
    bool may_sleep() override { return done_.empty() && pending_.empty() && arrived_.empty(); }

private:
    struct one_access {
        bool writes;
        pid_t process;
        void *local;
        std::size_t length;
        std::uint64_t remote;
        void *cookie;
    };

    static fabric_event end(const one_access &what)
    {
        const iovec here{what.local, what.length};
        const iovec there{reinterpret_cast<void *>(static_cast<std::uintptr_t>(what.remote)),
                          what.length};
        const ssize_t moved = what.writes ? process_vm_writev(what.process, &here, 1, &there, 1, 0)
                                          : process_vm_readv(what.process, &here, 1, &there, 1, 0);
        fabric_event done;
        done.what = fabric_event::kind::accessed;
        done.error = moved == static_cast<ssize_t>(what.length) ? 0 : EFAULT;
        done.cookie = what.cookie;
        return done;
    }

    void receive()
    {
        const std::size_t most = how_.ordered != 0 ? 1 : 4;
        while (arrived_.size() < most) {
            auto *const buffer = new std::vector<std::uint8_t>(how_.datagram + 1);
            const ssize_t size = recv(socket_, buffer->data(), buffer->size(), 0);
            if (size < 0) {
                delete buffer;
                return;
            }
            buffer->resize(static_cast<std::size_t>(size));
            arrived_.push_back(buffer);
        }
    }

    const options how_;
    int socket_ = -1;
    unsigned turn_ = 0;
    std::vector<fabric_name> names_; ///< without bytes: nobody has this number
    std::deque<fabric_event> done_;
    std::deque<one_access> pending_;
    std::deque<std::vector<std::uint8_t> *> arrived_;
};

} // namespace

} // namespace dapl::datagram

namespace dapl::datagram::unconnected {

status make_fabric(const char *params, fabric_setup &out)
{
    options how;
    ia_params words(params, "<interface or address> [key=value ...]");
    if (!words.next(out.interface))
        return words.refuse_word("no interface is named");
    if (const status read = words.read_options(known, how, [](const char *) { return false; });
        !read.ok())
        return read;
    auto made = std::make_unique<socket_fabric>(how);
    const int error = made->open();
    if (error != 0) {
        dapl_log(DAPL_DBG_TYPE_ERR, "no datagram socket: %s", std::strerror(error));
        return status::error(DAT_INTERNAL_ERROR);
    }
    out.vendor = "test";
    out.safe_copies = how.safe_copies;
    std::snprintf(out.provider, sizeof out.provider, "datagram");
    out.device = std::move(made);
    return success;
}

} // namespace dapl::datagram::unconnected
