// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the engine needs of an operating system to reach processes of the same host without a
// network: memory that others map, a socket that proves whose process is at its other end, and
// access to that process's memory. Only Linux has it.
#pragma once

#include "packet_io.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace soft_hca {

/// Why direct access to other processes is not possible.
enum class local_obstacle : std::uint8_t {
    none,
    not_here,   ///< this system has no such calls
    no_memory,  ///< the process may have no memory file, or no descriptor
    no_calls,   ///< the system calls are forbidden (seccomp), or its kernel is too old
    other_user, ///< the peer's process is another user's
    other_pids, ///< it is in another pid namespace
    no_access,  ///< the system forbids access to its memory (ptrace_scope, capabilities)
    bad_memory, ///< what it offers is not sealed as it has to be, or a wrong process's
    no_answer,  ///< it has no direct access, or has switched it off
};

constexpr const char *text_of(local_obstacle why)
{
    switch (why) {
    case local_obstacle::none:
        return "nothing is in the way";
    case local_obstacle::not_here:
        return "this system has no such calls";
    case local_obstacle::no_memory:
        return "there is no memory file, descriptor or memory for it";
    case local_obstacle::no_calls:
        return "the system forbids process_vm_readv or process_vm_writev";
    case local_obstacle::other_user:
        return "the peer is another user's";
    case local_obstacle::other_pids:
        return "the peer is in another pid namespace";
    case local_obstacle::no_access:
        return "the system forbids access to the peer's memory";
    case local_obstacle::bad_memory:
        return "the peer does not prove what it says";
    case local_obstacle::no_answer:
        break;
    }
    return "the peer does not answer";
}

/// Memory that one process writes and others map read-only. The file cannot be truncated, so that
/// nothing that its owner does makes a reader fault.
class shared_memory {
public:
    shared_memory() = default;
    shared_memory(const shared_memory &) = delete;
    shared_memory &operator=(const shared_memory &) = delete;
    ~shared_memory() { close(); }

    /// Zeroed memory of our own; false where the process may have none.
    bool create(std::size_t size);
    /// Another process's, which takes over `file`; false when it may change its size, or is
    /// shorter.
    bool map(waitable file, std::size_t size);
    void close();
    bool is_open() const { return bytes_ != nullptr; }
    void *bytes() const { return bytes_; }
    waitable file() const { return file_; }
    bool same_file(const shared_memory &other) const
    {
        return device_ == other.device_ && inode_ == other.inode_;
    }

private:
    bool identify();

    void *bytes_ = nullptr;
    std::size_t size_ = 0;
    waitable file_ = -1;
    std::uint64_t device_ = 0;
    std::uint64_t inode_ = 0;
};

/// What has to be so when a copy begins. A thread that is stopped, or put off the processor,
/// between the look at it and the copy does not copy when it goes on: so far as the system has
/// restartable sequences (x86-64, C library 2.35).
struct local_guard {
    const std::atomic<std::uint64_t> *word = nullptr; ///< null: nothing
    std::uint64_t value = 0;
};

/// Random numbers in the memory of a process, by which it is known from all others.
struct process_mark {
    std::uint64_t at = 0;
    std::uint8_t bytes[16] = {};
};

/// Another process of this host.
class local_process {
public:
    /// Nothing was copied: the guard was not as it should be, or the thread was interrupted.
    static constexpr std::ptrdiff_t interrupted = -1;

    /// The one at the other end of a connected socket, which says that it has the mark.
    local_obstacle open(waitable socket, const process_mark &mark);
    bool same_process(const local_process &other) const { return id_ == other.id_; }

    enum class presence : std::uint8_t {
        proven, ///< it runs, and has not started another program since
        hidden, ///< its memory must not be looked at
        gone,
    };
    /// One system call.
    presence look() const;
    /// Copy between its memory at an address, and pieces of our own: at most 8. Return the number
    /// of bytes that were copied, less where either is not mapped; `interrupted`; or another
    /// negative number where the system forbids it. A write stores the last byte after all others.
    std::ptrdiff_t read(std::uint64_t from, const bytes_view *pieces, std::uint32_t count,
                        std::size_t size, const local_guard &guard) const;
    std::ptrdiff_t write(std::uint64_t to, const bytes_view *pieces, std::uint32_t count,
                         std::size_t size, const local_guard &guard) const;

    /// Whether the system has these calls and this process may make them, and all those for local
    /// sockets. Where a filter may answer one by the death of the process, another process tries.
    static bool exists();

private:
    int id_ = 0;
    process_mark mark_;
};

/// A socket of this host and network namespace. Its name is that of a network address.
class local_socket {
public:
    /// Negative when the name is taken.
    static waitable listen(const net_address &name);
    /// Negative when nobody listens, or another user does.
    static waitable connect(const net_address &name);
    /// Of a process of the same user; `none` when no more have connected, and `no_descriptor` when
    /// this process may have no more.
    static constexpr waitable none = -1;
    static constexpr waitable no_descriptor = -2;
    static waitable accept(waitable listener);
    static void close(waitable socket);
    /// Whether the other side has not closed it.
    static bool is_connected(waitable socket);
    /// With a file, and perhaps another.
    static bool send(waitable socket, const void *message, std::size_t size, waitable file,
                     waitable another = -1);
    /// The size of the next message; 0 when the other side has closed, or on an error; negative
    /// when there is none yet. The files, negative without one, are for the caller to close.
    static std::ptrdiff_t receive(waitable socket, void *message, std::size_t size, waitable &file,
                                  waitable &another);
    static std::ptrdiff_t receive(waitable socket, void *message, std::size_t size, waitable &file)
    {
        waitable another = -1;
        const std::ptrdiff_t got = receive(socket, message, size, file, another);
        if (another >= 0)
            close(another);
        return got;
    }
};

} // namespace soft_hca
