// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The driver library of a device that a test needs: a fabric inside the memory of one process. It
// has queue pairs that are found by number, keys of 64 bits, and completion queues with a
// descriptor; shared receive queues, memory windows, immediate data and atomics, which not every
// port to it uses; it has no connection manager. It knows nothing of DAT.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace memory_device {

enum class outcome {
    success,
    flushed,
    local_length,
    local_protection,
    remote_access,
    remote_error
};
enum class opcode { send, write, read, receive, write_immediate, fetch_add, compare_swap, bind };

struct completion {
    void *id;
    std::uint32_t length;
    outcome status;
    bool has_immediate;
    std::uint32_t immediate;
    void *taken_by; ///< receiver, as the queue pair named it, of a receive of a shared queue
};

/// One reader polls, without a lock and without waiting; any number of queue pairs add.
class completion_queue {
public:
    completion_queue();
    ~completion_queue();
    completion_queue(const completion_queue &) = delete;
    completion_queue &operator=(const completion_queue &) = delete;

    bool poll(completion &out);
    /// Makes the descriptor readable once, with the next completion or the present ones.
    void arm();
    /// Takes what made the descriptor readable.
    void clear() const;
    int descriptor() const { return descriptor_; }

private:
    friend class queue_pair;
    /// Completions are numbered, and the chunks of a queue are linked in their order.
    struct chunk {
        static constexpr std::uint64_t room = 64;
        completion at[room];
        std::atomic<void *> taken_by[room]; ///< in place of the completion's
        chunk *next = nullptr;
    };
    void add(const completion &done);
    void free_read_chunks();
    void signal();
    void forget(const void *taken_by);

    std::atomic<std::uint64_t> added_{0}; ///< stored with the fabric's lock
    std::atomic<std::uint64_t> taken_{0}; ///< stored by the reader, as `reading_` is
    chunk *reading_;
    chunk *oldest_; ///< from here on chunks belong to the adding side
    chunk *newest_;
    std::uint64_t oldest_begins_ = 0;
    bool armed_ = false;
    int descriptor_;
};

enum rights : unsigned {
    local_read = 1,
    local_write = 2,
    remote_read = 4,
    remote_write = 8,
    remote_atomic = 16
};

/// Memory that the device may use. `domain` separates regions; a queue pair sees its own domain's.
std::uint64_t add_region(const void *domain, void *address, std::size_t length, unsigned rights);
/// A key for an opcode::bind, by which nothing is reached before.
std::uint64_t add_window();
/// Removes a region or a window. On return no access is going on; a posted bind to it fails.
void remove_region(std::uint64_t key);

struct segment {
    void *address;
    std::size_t length;
    std::uint64_t key;
};

/// Stays at its address until it has completed.
struct operation {
    static constexpr std::size_t max_segments = 8;

    void *id;
    opcode what;
    bool silent; ///< a success is not reported
    std::size_t segments;
    segment local[max_segments];
    std::uint64_t remote_address;
    std::uint64_t remote_key;
    std::uint32_t immediate;     ///< write_immediate
    std::uint64_t operand, swap; ///< atomics: operand, and value to store
    // bind: the key is good for local[0], a part of a region, and the key before is dead.
    std::uint64_t window, window_before; ///< 0: none
    unsigned window_rights;
};

/// Receives that several queue pairs take.
class receive_queue {
public:
    receive_queue();
    ~receive_queue();
    receive_queue(const receive_queue &) = delete;
    receive_queue &operator=(const receive_queue &) = delete;

    /// Makes the descriptor readable once, when fewer are left.
    void set_limit(std::size_t limit);
    void clear() const;
    int descriptor() const { return descriptor_; }
    /// The owner of a queue pair whose connection failed with this, or null.
    [[nodiscard]] void *post(operation &);

private:
    friend class queue_pair;
    void check_limit();

    std::deque<operation *> posted_;
    std::size_t limit_ = 0;
    int descriptor_;
};

class queue_pair {
public:
    /// The owner of the queue pair, and its name in completions of shared receives.
    struct owner {
        void *self;
        void *receiver;
    };

    queue_pair(const void *domain, completion_queue *sends, completion_queue *receives,
               receive_queue *shared = nullptr, const owner &by = {});
    /// Drops posted operations, without completions.
    ~queue_pair();
    queue_pair(const queue_pair &) = delete;
    queue_pair &operator=(const queue_pair &) = delete;

    std::uint32_t number() const { return number_; }
    /// Returns false when there is no such queue pair.
    bool connect(std::uint32_t peer);
    /// Completes posted operations as flushed.
    void flush();
    /// Flushes posted operations, and later posts too.
    void disconnect();
    bool has_sends() const;

    /// Returns false when an operation failed, and with it the connection.
    [[nodiscard]] bool post(operation &);

private:
    friend class receive_queue;
    std::deque<operation *> &receives() { return shared_ ? shared_->posted_ : posted_receives_; }
    operation &take_receive();
    bool progress();
    bool execute(operation &);
    outcome move(operation &from);
    outcome deliver(operation &from, std::size_t length);
    outcome access(operation &from, std::size_t length);
    outcome change(operation &from);
    outcome bind(operation &from);
    void finish(operation &, outcome, std::uint32_t length = 0, const operation *from = nullptr);
    void flush_all();

    const void *const domain_;
    completion_queue *const sends_;
    completion_queue *const receives_;
    receive_queue *const shared_;
    const owner owner_;
    std::deque<operation *> posted_sends_;
    std::deque<operation *> posted_receives_;
    std::uint32_t number_ = 0;
    queue_pair *peer_ = nullptr;
    bool ended_ = false;
};

} // namespace memory_device
