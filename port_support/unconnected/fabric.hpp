// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device without connections, as the layer of this folder uses it. Its author writes a class
// derived from `fabric`, and make_fabric() of unconnected_port.hpp.
//
// All functions but the constructor and descriptor() are called with one lock held, and none of
// them waits. Numbers that they return are 0 or an errno. EAGAIN of send() and access() means that
// the device takes no more at present: the call is repeated after the next events.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT::unconnected {

/// What the device promises.
struct fabric_traits {
    std::uint32_t max_datagram = 4096; ///< bytes; at least fabric::least_datagram
    std::uint32_t send_depth = 128;    ///< datagrams, and accesses, that are in flight at most
    bool ordered = false;              ///< datagrams to one peer arrive in the order of their sends
    bool accesses = false;             ///< access() reads and writes memory of peers
    /// A write by access() is not visible at the target before the writes that were begun earlier.
    bool writes_in_order = false;
    std::uint32_t max_access = 1u << 30; ///< bytes of one access
    /// Bytes from which an access is worth its question to the peer.
    std::uint32_t access_from = 16384;
};

/// The name by which peers reach the device: as much as a request to connect has room for.
struct fabric_name {
    static constexpr std::size_t max_size = 480;

    std::uint32_t size = 0;
    std::uint8_t bytes[max_size];
};

/// A peer, as the device numbers it.
using fabric_peer = std::uint64_t;

/// A peer names registered memory by this: a key of any width, and the number that stands for the
/// first byte, an address or an offset.
struct fabric_key {
    static constexpr std::size_t max_size = 64;

    std::uint64_t base = 0;
    std::uint32_t size = 0;
    std::uint8_t bytes[max_size];
};

/// What registered memory is open to beside sends of this side.
struct memory_rights {
    bool local_write = false;
    bool remote_read = false;
    bool remote_write = false;
};

/// One access to the memory of a peer.
struct fabric_access {
    fabric_peer peer;
    bool writes;
    void *local;  ///< memory of this process
    void *handle; ///< registered memory that has it
    std::uint32_t length;
    std::uint64_t remote;  ///< base of the key, and the distance from the first byte
    const fabric_key *key; ///< gone after the call
    void *cookie;
};

struct fabric_event {
    enum class kind {
        arrived, ///< a datagram; it stays until give_back(buffer)
        /// The device does not look at the bytes of a datagram any more. The datagram has not
        /// arrived if `error` is set.
        sent,
        accessed, ///< an access has ended; a write can be seen at the target
    };

    kind what = kind::sent;
    int error = 0;          ///< sent, accessed
    void *cookie = nullptr; ///< sent, accessed
    const std::uint8_t *bytes = nullptr;
    std::size_t size = 0;
    void *buffer = nullptr;
};

class fabric {
public:
    static constexpr std::uint32_t least_datagram = 512;
    /// What send() returns where the device has taken the bytes already: no event `sent` comes.
    static constexpr int sent_at_once = -1;

    fabric() = default;
    fabric(const fabric &) = delete;
    fabric &operator=(const fabric &) = delete;
    /// Sends and accesses may be in flight that do not end.
    virtual ~fabric() {}

    virtual fabric_traits traits() const = 0;
    /// ENAMETOOLONG: it is longer than fabric_name::max_size, and the device cannot be used.
    /// ENOTSUP: it has none yet. The making of endpoints is refused then, and nothing else.
    virtual int own_name(fabric_name &out) = 0;
    /// The number of the peer of this name; it is asked once for each name that it knows.
    virtual int peer_of(const fabric_name &name, fabric_peer &out) = 0;
    /// Frees the number of a peer, which may be another peer's from then on. No connection to the
    /// peer is left, and no send or access to it is in flight. False: the device keeps the number,
    /// and so does the layer.
    virtual bool forget(fabric_peer peer)
    {
        (void)peer;
        return false;
    }

    /// Registers memory for sends, and for accesses if there are any. Strangers, to whom the layer
    /// has granted no key, may guess one: a device that chooses its keys chooses them at random.
    virtual int register_memory(void *address, std::uint64_t length, memory_rights rights,
                                void *&handle, fabric_key &key) = 0;
    virtual void deregister_memory(void *handle) = 0;

    /// Sends bytes of registered memory, which stay as they are until the event `sent`. A device
    /// that copies short datagrams returns sent_at_once.
    virtual int send(fabric_peer to, const void *bytes, std::size_t size, void *handle,
                     void *cookie) = 0;
    virtual int access(const fabric_access &what) = 0;
    /// Asks for the end of a send or an access, whose event comes in any case.
    virtual void cancel(void *cookie) { (void)cookie; }

    /// Makes progress, and takes the next event; false when there is none.
    virtual bool next(fabric_event &out) = 0;
    virtual void give_back(void *buffer) = 0;

    /// Readable when next() has something to do, or negative: then it is called now and then.
    virtual int descriptor() const = 0;
    /// Whether the descriptor will become readable at the next event. False: call next() again.
    virtual bool may_sleep() = 0;
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
