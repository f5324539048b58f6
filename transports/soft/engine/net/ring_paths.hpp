// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Rings between the socket of a shard and sockets of processes of this host.
//
// A ring is a shortcut for datagrams: a packet that is taken out is parsed as a datagram of the
// peer. Direct access exchanges the ring files with its hellos, and holds a path as long as one of
// its links is to that socket. The thread that polls the shard takes packets out. While it sleeps
// until a datagram wakes it, its ring files say so, and peers send datagrams.
#pragma once

#include "net.hpp"
#include "net_local.hpp"
#include "packet_ring.hpp"

#include "osd_sync.hpp"

#include <atomic>
#include <memory>

namespace soft_hca {

/// The two rings, one per direction, between our socket and one of a peer.
class ring_path {
public:
    explicit ring_path(const net_address &peer) : peer_(peer) {}
    ring_path(const ring_path &) = delete;
    ring_path &operator=(const ring_path &) = delete;

    // --- senders, while a link holds the path

    /// Whether the peer polls, so that it will take packets that are put now.
    bool is_attended() const
    {
        return writer_.is_attended() && !muted_.load(std::memory_order_relaxed);
    }
    /// Puts the first of these packets into the ring; `done` is their number. The next one had no
    /// room (`busy`) or is in memory that is not mapped (`bad_memory`): parts of the packets may be
    /// memory of consumers. After `sent` the caller sends the others as datagrams. `plain`: they
    /// are in memory that the calling thread may read itself.
    send_result send(const out_packet *packets, std::uint32_t count, bool plain,
                     std::uint32_t &done);
    /// Puts a packet that is in memory of our own. False if it has to be sent as a datagram.
    bool send_one(const out_packet &packet);

    // --- direct access

    waitable file() const { return own_.file(); }
    /// Puts no more packets: the peer has gone.
    void mute() { muted_.store(true, std::memory_order_relaxed); }

private:
    friend class ring_paths;
    static constexpr std::size_t gathered = 4 * ring_file::largest;

    bool open();
    bool meet(std::unique_ptr<shared_memory> theirs);
    bool is_met() const { return theirs_ != nullptr; }
    bool is_leaving() const
    {
        return given_up_.load(std::memory_order_relaxed) || reader_.is_broken();
    }
    ring_file &own() { return *static_cast<ring_file *>(own_.bytes()); }
    const ring_file &theirs() const { return *static_cast<const ring_file *>(theirs_->bytes()); }
    bool put(const out_packet &packet) OSD_REQUIRES(writing_);
    bool put(const void *bytes, std::uint32_t size) OSD_REQUIRES(writing_);
    send_result send_plain(const out_packet *packets, std::uint32_t count, std::uint32_t &done)
        OSD_REQUIRES(writing_);
    send_result send_safely(const out_packet *packets, std::uint32_t count, std::uint32_t &done)
        OSD_REQUIRES(writing_);
    send_result send_some(const out_packet *packets, std::uint32_t count, std::uint32_t &done)
        OSD_REQUIRES(writing_);

    const net_address peer_;
    shared_memory own_;
    std::unique_ptr<shared_memory> theirs_;
    std::atomic<bool> muted_{false};
    osd::mutex writing_; ///< guards writer_ and gather_
    ring_writer writer_;
    gather_buffer gather_;
    ring_reader reader_;                ///< used by the holder of the poll lock
    bool drained_ = false;              ///< used by the holder of the poll lock: no packet is left
    std::atomic<bool> given_up_{false}; ///< no link holds the path any more
    bool listens_ = false;              ///< we take packets; as links_, under ring_paths::lock_
    std::uint32_t links_ = 0;
};

/// The paths of a shard's socket.
class ring_paths {
public:
    static constexpr std::uint32_t most = 64;

    ring_paths() = default;
    ring_paths(const ring_paths &) = delete;
    ring_paths &operator=(const ring_paths &) = delete;
    ~ring_paths() { close(); }
    /// No link may hold a path any more.
    void close();

    // --- direct access

    /// A path to that socket, before the peer's hello brings its ring file. Null without memory, or
    /// if there are too many paths.
    ring_path *hold(const net_address &peer);
    /// A path to that socket with the ring file of its hello. Takes over the file. Null as above,
    /// or if the file is no ring.
    ring_path *hold(const net_address &peer, waitable file);
    /// Adds the ring file of the peer's hello. Takes over the file. False if the path has another
    /// one, or the file is no ring.
    bool meet(ring_path &path, waitable file);
    void release(ring_path &path);

    // --- the sleeper

    /// Shows to peers whether a thread sleeps until a datagram wakes it. That thread polls once
    /// more between this call and its sleep.
    void set_asleep(bool asleep);
    bool is_asleep() const { return asleep_.load(std::memory_order_relaxed); }
    bool has_packets();

    // --- the holder of the poll lock

    /// Whether there may be packets to take, or paths to free.
    bool any() const { return count_ != 0 || has_changed(); }
    bool has_changed() const { return changed_.load(std::memory_order_acquire); }
    /// Whether take() has something to do: reads a cache line for each path.
    bool has_more() const
    {
        bool more = has_changed();
        for (std::uint32_t i = 0; i < count_ && !more; ++i)
            more = met_[i]->reader_.has_more();
        return more;
    }
    /// Takes some packets of each path, copied to memory of our own, and calls each(bytes, size,
    /// from). True if there were any.
    template <class Each>
    bool take(Each &&each);

private:
    static constexpr std::uint32_t most_at_once = 16; ///< packets of a path

    ring_path *make(const net_address &peer) OSD_REQUIRES(lock_);
    bool meet(ring_path &path, std::unique_ptr<shared_memory> theirs) OSD_REQUIRES(lock_);
    void set_attention(ring_path &path) const OSD_REQUIRES(lock_);
    void collect();
    void leave(ring_path &path) OSD_COLD;
    template <class Each>
    bool take_from(ring_path &path, Each &&each);

    osd::mutex lock_;
    std::unique_ptr<ring_path> paths_[most] OSD_GUARDED_BY(lock_);
    // make() stores any_made_ before asleep_ is read, and set_asleep() stores asleep_ before it
    // reads any_made_: so a path that is made while a thread goes to sleep shows that.
    std::atomic<bool> asleep_{false};
    std::atomic<bool> any_made_{false}; ///< true since the first ring was made
    std::atomic<bool> changed_{false};  ///< collect() has work

    // Used by the holder of the poll lock.
    ring_path *met_[most] = {};
    std::uint32_t count_ = 0;
    alignas(ring_file::line) std::uint8_t packet_[ring_file::largest];
};

template <class Each>
bool ring_paths::take_from(ring_path &path, Each &&each)
{
    std::uint32_t count = 0;
    while (count < most_at_once) {
        const std::uint32_t size = path.reader_.take(packet_);
        if (size == 0)
            break;
        ++count;
        each(packet_, size, path.peer_);
    }
    if (count != 0)
        path.reader_.give_back();
    return count != 0;
}

template <class Each>
bool ring_paths::take(Each &&each)
{
    if (has_changed()) [[unlikely]]
        collect();
    bool any = false;
    for (std::uint32_t i = 0; i < count_; ++i) {
        const bool took = take_from(*met_[i], each);
        any = any || took;
        if (!took && met_[i]->is_leaving()) [[unlikely]]
            leave(*met_[i]);
    }
    return any;
}

} // namespace soft_hca
