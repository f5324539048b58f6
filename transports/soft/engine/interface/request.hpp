// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Work requests and completions.
#pragma once

#include <atomic>
#include <cstdint>

namespace soft_hca {

inline constexpr std::uint32_t max_segments = 4;

/// Local memory. With length 0 the other members are ignored.
struct local_segment {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t key;
};

inline std::uint8_t *pointer_to(std::uint64_t address)
{
    return reinterpret_cast<std::uint8_t *>(static_cast<std::uintptr_t>(address));
}

/// Memory of the peer.
struct remote_segment {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t key;
};

enum class work : std::uint8_t {
    send,
    write,
    write_immediate,
    read,           ///< has_response() goes by the order, from here to compare_swap
    read_to_window, ///< reads to a window, or to a region by a key that opens it to peers
    fetch_add,
    compare_swap,
    bind, ///< a window: see memory_windows::prepare
    receive,
    datagram, ///< `remote.address` is that of a datagram_address
};

enum request_flags : std::uint8_t {
    request_silent = 1,     ///< a success makes no completion
    request_fence = 2,      ///< waits for the reads and atomics before it
    request_solicited = 4,  ///< the peer's completion is a solicited one
    request_invalidate = 8, ///< send: takes `remote.key` away from the peer
    request_narrow = 16,    ///< bind: opens the window to the peer of this connection only
    request_succeeded = 32, ///< silent: set by the engine when it refers to it no longer
};

enum class work_status : std::uint8_t {
    success,
    flushed,
    local_length,
    local_protection,
    not_bound,
    remote_access,
    remote_operation,
    transport,
};

struct memory_region;

struct atomic_operands {
    std::uint64_t compare_or_add;
    std::uint64_t swap;
};

struct bind_operands {
    memory_region *window; ///< request::remote tells which part of the target
    memory_region *target; ///< region of the part, if the part is not empty
};

/// A posted operation.
///
/// The memory is the consumer's. The consumer leaves it alone from the post until it takes the
/// completion; for a silent request, until it takes the completion of a later request, or finds
/// that the silent one has succeeded. In between the queue pair owns it and holds up to three
/// references: in the ring in which it was posted; in the send window, one for each packet of it
/// that is not acknowledged; and, once the first segment of its message has arrived, in the
/// receiver.
///
/// The completion returns it to the consumer, which may take it and free the memory before the push
/// returns. So a request is completed only when no other reference is left:
/// - a send or write, when the last of its packets is acknowledged;
/// - a read or atomic, when its response arrives, which is refused before the packet of the request
///   is acknowledged;
/// - a bind, which has no packets, when it is executed;
/// - a receive, when its message is complete;
/// - a flushed request, when the send window has been emptied.
struct request {
    void *context;
    const std::uint32_t *place; ///< used where posts are concurrent: see posted_ring
    local_segment local[max_segments];
    remote_segment remote;
    union {
        atomic_operands atomic;
        bind_operands binding;
    };
    union {
        std::uint32_t immediate;
        std::uint32_t window_rights; ///< bind
    };
    std::uint32_t length; ///< sum of the local segments
    std::uint8_t segments;
    work kind;
    std::uint8_t flags;

    // Owned by the engine while it is posted.
    bool done;
    work_status status;
    std::uint32_t msn;      ///< number of its message, or of the immediate data behind a write
    std::uint32_t moved;    ///< bytes that were sent, or that have come
    std::uint32_t read_id;  ///< read or atomic: the number that its response carries
    std::uint32_t last_psn; ///< number of the last packet, once that was sent
};

inline void note_success(request &silent)
{
    const auto flags = static_cast<std::uint8_t>(silent.flags | request_succeeded);
    std::atomic_ref(silent.flags).store(flags, std::memory_order_release);
}
/// Whether a silent request has succeeded. The consumer calls it.
inline bool has_succeeded(request &silent)
{
    return (std::atomic_ref(silent.flags).load(std::memory_order_acquire) & request_succeeded) != 0;
}

/// Whether a success of the request makes no completion.
inline bool is_silent(const request &r)
{
    return (r.flags & request_silent) != 0;
}

/// A read or atomic operation: its response completes it, not the acknowledgement.
inline bool has_response(const request &r)
{
    return r.kind >= work::read && r.kind <= work::compare_swap;
}

inline bool is_read(const request &r)
{
    return r.kind == work::read || r.kind == work::read_to_window;
}

/// What the completion of a receive brings besides bytes.
enum class brought : std::uint8_t {
    nothing,
    immediate,
    invalidation, ///< the peer took a key away
    sender,       ///< datagram: the id of the queue pair that sent it
};

struct completion_record {
    /// A success that brought nothing else.
    bool plain() const
    {
        static_assert(static_cast<unsigned>(work_status::success) == 0);
        static_assert(static_cast<unsigned>(brought::nothing) == 0);
        return (static_cast<unsigned>(status) | static_cast<unsigned>(extra)) == 0;
    }

    struct request *request;
    std::uint32_t length;    ///< received
    std::uint32_t immediate; ///< immediate data, the key that the peer took away, or the sender
    std::uint32_t pair;      ///< id of the queue pair, for completion_queue::end_receive
    std::uint8_t shard;      ///< index of the queue pair's shard, for completion_queue::end_receive
    work_status status;
    brought extra;
    bool solicited;
};

} // namespace soft_hca
