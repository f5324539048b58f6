// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer process: this program, started in a role, with a socket for out-of-band exchange of
// addresses, qualifiers and memory keys.
#pragma once

#include "harness/support.hpp"

#include <sys/types.h>

namespace conformance {

/// The out-of-band channel. Both ends run one program, so structures are sent as they are.
class peer_link {
public:
    /// `other`: the process at the other end, where it is a child.
    explicit peer_link(int fd, pid_t other = -1) : fd_(fd), other_(other) {}
    peer_link(const peer_link &) = delete;
    peer_link &operator=(const peer_link &) = delete;
    ~peer_link();

    template <class T>
    void send(const T &what)
    {
        send_bytes(&what, sizeof what);
    }
    template <class T>
    T receive()
    {
        T what{};
        receive_bytes(&what, sizeof what);
        return what;
    }
    /// Returns false if the other process has exited.
    bool alive() const;

private:
    void send_bytes(const void *bytes, std::size_t size);
    void receive_bytes(void *bytes, std::size_t size);
    [[noreturn]] void give_up_other();

    int fd_;
    pid_t other_;
};

/// The address on which a peer listens, and the memory that it exposes.
struct offer {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
    DAT_RMR_TRIPLET memory;

    DAT_SOCK_ADDR *to() { return reinterpret_cast<DAT_SOCK_ADDR *>(&address); }
};
offer offer_of(const adapter &ia, DAT_CONN_QUAL qualifier, const region *memory = nullptr);

using role_function = int (*)(peer_link &);

/// Registers a function as a role of peers.
struct role {
    role(const char *name, role_function work);

    const char *name;
    role_function work;
    role *next;
};

/// Runs a role; its result is the exit status.
int run_role(const std::string &name, int fd);

class peer_process {
public:
    explicit peer_process(const char *role_name);
    peer_process(const peer_process &) = delete;
    peer_process &operator=(const peer_process &) = delete;
    /// Terminates it, with SIGKILL if necessary.
    ~peer_process();

    void kill_hard();
    /// Stops all its threads, until go_on() or its end. Its kernel still answers.
    void stop();
    void go_on();
    /// Its exit status, or -1 if it did not end in time or was killed.
    int await_exit();

    std::unique_ptr<peer_link> link;

private:
    [[noreturn]] void become(const char *role_name, int fd);

    pid_t pid_ = -1;
};

/// The exit status of a child, or -1 if it did not end in time or was killed.
int await_child(pid_t child, milliseconds time = patience);

} // namespace conformance
