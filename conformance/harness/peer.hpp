// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer process: this program, started in a role, with a socket for out-of-band exchange of
// addresses, qualifiers and memory keys.
#pragma once

#include "harness/support.hpp"
#include "program/named.hpp"
#include "program/sockets.hpp"

namespace conformance {

/// A process that runs this program as another one may: started anew, not copied. It ends with its
/// parent.
class other_process {
public:
    other_process() = default;
    other_process(const other_process &) = delete;
    other_process &operator=(const other_process &) = delete;
    ~other_process() { kill(); }

    /// Starts a process with these arguments, one of which names its end of the socket. False if
    /// that fails.
    bool start(std::vector<std::string> arguments, program::socket end);
    void kill();
    bool stop();
    void go_on();
    /// The exit status, or -1 if it did not end in time or was killed.
    int await(milliseconds time);
    bool is_started() const { return process_ != none; }

private:
    static constexpr std::intptr_t none = -1;

    std::intptr_t process_ = none; ///< number or handle by which the system knows it
};

/// The out-of-band channel. Both ends run one program, so structures are sent as they are.
class peer_link {
public:
    /// `other`: the process at the other end, where it is a child.
    explicit peer_link(program::socket socket, other_process *other = nullptr)
        : socket_(std::move(socket)), other_(other)
    {}
    peer_link(const peer_link &) = delete;
    peer_link &operator=(const peer_link &) = delete;

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
    bool alive() const { return !socket_.is_alone(); }

private:
    void send_bytes(const void *bytes, std::size_t size);
    void receive_bytes(void *bytes, std::size_t size);
    [[noreturn]] void give_up_other();

    program::socket socket_;
    other_process *other_;
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
struct role : program::named<role> {
    role(const char *name, role_function task) : named(name), work(task) {}

    role_function work;
};

/// Runs a role; its result is the exit status. `end` is the number of the socket.
int run_role(const std::string &name, program::socket::number end);
/// Prepares a process that was started for a role.
void begin_role();
/// Ends the process; `words` is called when the destructors of all libraries have run.
[[noreturn]] void exit_with_last_words(void (*words)());

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
    other_process process_;
};

} // namespace conformance
