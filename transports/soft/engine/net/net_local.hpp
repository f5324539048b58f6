// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The operating system's means to reach processes of the same host without a network: memory that
// others map, a socket that identifies the process at its other end, and access to the memory of
// that process. Only Linux has it.
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
    no_calls,   ///< the system calls are forbidden (seccomp), or the kernel is too old
    other_user, ///< the peer runs as another user
    other_pids, ///< the peer is in another pid or user namespace, or the system has no /proc
    no_access,  ///< the system forbids access to the peer's memory (ptrace_scope, capabilities)
    bad_memory, ///< the peer's file lacks its seals, or its process lacks the mark
    no_answer,  ///< the peer has no direct access, or it is switched off there
};

constexpr const char *text_of(local_obstacle why)
{
    switch (why) {
    case local_obstacle::none:
        return "nothing is in the way";
    case local_obstacle::not_here:
        return "this system has no such calls";
    case local_obstacle::no_memory:
        return "the process cannot get a memory file, a descriptor or memory";
    case local_obstacle::no_calls:
        return "the system forbids process_vm_readv or process_vm_writev";
    case local_obstacle::other_user:
        return "the peer runs as another user";
    case local_obstacle::other_pids:
        return "the peer is in another pid or user namespace, or /proc is not there";
    case local_obstacle::no_access:
        return "the system forbids access to the peer's memory";
    case local_obstacle::bad_memory:
        return "the process or the board of the peer could not be verified";
    case local_obstacle::no_answer:
        break;
    }
    return "the peer does not answer";
}

/// Memory that one process writes and others map read-only. Its file is sealed against truncation:
/// the owner cannot make a reader fault.
class shared_memory {
public:
    shared_memory() = default;
    shared_memory(const shared_memory &) = delete;
    shared_memory &operator=(const shared_memory &) = delete;
    ~shared_memory() { close(); }

    /// Creates zeroed memory; false if a limit of the process or of the system forbids it.
    bool create(std::size_t size);
    /// Maps memory of another process, and takes over `file`; false if that can change its size, is
    /// shorter than `size`, or no file as create() makes it in this process.
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

/// A place in shared memory where the system notes that a thread has ended: with its process,
/// before the process id is free, or by an execve, before the process has other memory.
class alignas(64) life_mark {
public:
    /// The calling thread holds it until it ends. False where the system does not note that: nobody
    /// sees it held then.
    bool hold();
    bool is_held() const;

private:
    std::atomic<std::uint32_t> shown_; ///< 1: the lock's word has what others expect
    alignas(8) std::uint8_t lock_[48];
};

static_assert(sizeof(life_mark) == 64, "it is in memory that processes share");

/// A word that must have a value when a copy begins. With restartable sequences (x86-64, C library
/// 2.35) a thread that is stopped or preempted between the check and the copy does not copy when it
/// continues; elsewhere it does.
struct local_guard {
    const std::atomic<std::uint64_t> *word = nullptr; ///< null: no condition
    std::uint64_t value = 0;
};

/// Random bytes in the memory of a process, and their address: no other process has them there.
struct process_mark {
    std::uint64_t at = 0;
    std::uint8_t bytes[16] = {};
};

/// Another process of this host.
class local_process {
public:
    /// Nothing was copied: the word of the guard had another value, or the thread was interrupted.
    static constexpr std::ptrdiff_t interrupted = -1;

    /// Why the process at the other end of a connected socket, or the listening process, is no
    /// neighbour, to whom a board may be shown; `none` if it is: a process of our user that we
    /// could ask the system for by its id. The number of a user says nothing across containers.
    static local_obstacle obstacle_to(waitable socket);
    /// Takes the process at the other end of a connected socket. `mark`: what that process sent.
    local_obstacle open(waitable socket, const process_mark &mark);
    bool same_process(const local_process &other) const { return id_ == other.id_; }

    enum class presence : std::uint8_t {
        proven, ///< it runs, and has executed no other program since
        hidden, ///< the system forbids access to its memory
        gone,
    };
    /// Compares the mark in the memory of the process, by one system call.
    presence look() const;
    /// Copies at most 8 pieces of ours to an address in its memory, the last byte after all others.
    /// Returns the number of bytes copied, less than `size` if a part of either is not mapped;
    /// `interrupted`; or another negative number if the system forbids it.
    std::ptrdiff_t write(std::uint64_t to, const bytes_view *pieces, std::uint32_t count,
                         std::size_t size, const local_guard &guard) const;
    /// Copies at most 8 pieces of its memory to pieces of ours, of the same size. Returns as
    /// write() does. Pieces of ours may have changed whatever it returns.
    std::ptrdiff_t fetch(const bytes_view *from, std::uint32_t from_count, const bytes_view *to,
                         std::uint32_t to_count, const local_guard &guard) const;
    /// As fetch(), and compares the mark by that system call. Returns 0 if the process is another
    /// one.
    std::ptrdiff_t fetch_proven(const bytes_view *from, std::uint32_t from_count,
                                const bytes_view *to, std::uint32_t to_count,
                                const local_guard &guard) const;

    /// Whether this process may make these system calls, and those for local sockets. If a seccomp
    /// filter could kill the process for such a call, a child process tries.
    static bool exists();

private:
    int id_ = 0;
    process_mark mark_;
};

/// A local socket of this network namespace. Its name is derived from a network address.
class local_socket {
public:
    /// Listens on a name; negative when the name is taken. Until permit_files() nobody can send
    /// files to accepted sockets, nor to the peer of a connected socket, on systems that have that
    /// (Linux 6.16).
    static waitable listen(const net_address &name);
    /// Connects to a name; negative if no process listens there, or a process that is no neighbour
    /// (see local_process::obstacle_to), with the reason in `why`.
    static waitable connect(const net_address &name, local_obstacle &why);
    static waitable connect(const net_address &name)
    {
        local_obstacle why = local_obstacle::none;
        return connect(name, why);
    }
    /// The next connection; `none` if there is no more, and `no_descriptor` if this process may
    /// open no more. The socket of a process that is no neighbour may have files of a stranger.
    static constexpr waitable none = -1;
    static constexpr waitable no_descriptor = -2;
    static waitable accept(waitable listener);
    /// Keeps new callers away from a listener, before accept() takes the last callers.
    static void shut(waitable listener);
    static void close(waitable socket);
    /// Whether the other side has not closed it.
    static bool is_connected(waitable socket);
    /// Whether the peer may send files from now on. The last close of a file can take as long as
    /// its sender likes, so nobody may send any who has not proven himself. False where the system
    /// does not have it.
    static bool permit_files(waitable socket, bool permitted);
    static bool send(waitable socket, const void *message, std::size_t size);
    /// Sends a message with one file or two.
    static bool send(waitable socket, const void *message, std::size_t size, waitable file,
                     waitable another = -1);
    /// The size of the next message; 0 when the other side has closed, on an error, or if there are
    /// files with it; negative when there is none yet.
    static std::ptrdiff_t receive(waitable socket, void *message, std::size_t size);
    /// Receives a message with files. The caller closes the files, which are negative if there are
    /// none.
    static std::ptrdiff_t receive(waitable socket, void *message, std::size_t size, waitable &file,
                                  waitable &another);
};

} // namespace soft_hca
