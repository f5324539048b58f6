// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A ring of packets in memory that two processes share: one writes, the other reads.
//
// Each of the two has a file, written by its owner and mapped read-only by the other. It holds the
// ring of its owner's packets, and what its owner says about the ring of the other: how far it has
// taken packets, and whether it looks for more.
//
// A packet begins at a line, with its size. The size of the packet behind it is 0 until that is
// there: a writer that is stopped or killed anywhere has put a packet, or has not. The reader reads
// the size once, bounds it, copies the packet once, and only then looks at it; the writer bounds
// what the reader says that it has taken. So neither can do to the other more than by datagrams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace soft_hca {

/// Whether the owner of a file looks for packets in the ring of the other.
enum class ring_attention : std::uint32_t {
    none,   ///< not at all
    asleep, ///< once something else has woken it
    awake,
};

struct ring_file {
    static constexpr std::uint32_t line = 64;
    static constexpr std::uint32_t lines = 4096; ///< a power of two
    static constexpr std::uint32_t largest = 8192;
    static constexpr std::uint64_t current = 0x736f'6674'0002'0001; ///< of this layout

    static constexpr std::uint32_t lines_for(std::uint32_t size)
    {
        return (size + sizeof(std::uint32_t) + line - 1) / line;
    }
    void begin() { edition.store(current, std::memory_order_release); }
    bool is_ring() const { return edition.load(std::memory_order_acquire) == current; }
    /// Nothing was put into it: a ring has one reader in its life.
    bool is_fresh() const { return used.load(std::memory_order_acquire) == 0; }
    bool has_packet(std::uint32_t at) const { return ring[at % lines].size.load() != 0; }

    struct alignas(line) first_line {
        std::atomic<std::uint32_t> size;
        std::uint8_t bytes[line - sizeof(std::uint32_t)];
    };
    static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(first_line) == line);

    alignas(line) std::atomic<std::uint64_t> edition;
    std::atomic<std::uint32_t> used;
    alignas(line) std::atomic<ring_attention> attention; ///< to the other's ring
    alignas(line) std::atomic<std::uint32_t> taken;      ///< lines of the other's ring, in all
    first_line ring[lines];
};

static_assert(sizeof(ring_file) == 3 * 64 + 4096 * 64, "another layout is another edition");

/// One thread at a time. Both files outlive it.
class ring_writer {
public:
    void open(ring_file &own, const ring_file &theirs)
    {
        own_ = &own;
        theirs_ = &theirs;
    }
    /// Whether the reader looks for packets. To be asked again when they were put: it may have
    /// gone to sleep without having seen them.
    bool is_attended() const { return theirs_->attention.load() == ring_attention::awake; }
    /// Begins a packet; false when there is no room for it.
    bool begin(std::uint32_t size);
    /// The next part of it.
    void add(const void *bytes, std::size_t size);
    /// The packet is whole.
    void put();

private:
    bool has_room(std::uint32_t wanted);

    ring_file *own_ = nullptr;
    const ring_file *theirs_ = nullptr;
    std::uint32_t next_ = 0;  ///< line of the packet that is being put, or is next
    std::uint32_t taken_ = 0; ///< by the reader, as far as we have looked
    std::uint32_t size_ = 0;
    std::uint32_t at_ = 0; ///< byte of the ring where the next part goes
};

/// One thread at a time. Both files outlive it.
class ring_reader {
public:
    void open(ring_file &own, const ring_file &theirs)
    {
        own_ = &own;
        theirs_ = &theirs;
    }
    /// Copies the next packet to memory of `ring_file::largest` bytes. Returns its size; 0: there
    /// is none, or the writer breaks the rules.
    std::uint32_t take(std::uint8_t *to);
    /// The writer may use the room of what was taken.
    void give_back() { own_->taken.store(next_, std::memory_order_release); }
    bool is_broken() const { return broken_; }

private:
    ring_file *own_ = nullptr;
    const ring_file *theirs_ = nullptr;
    std::uint32_t next_ = 0;
    bool broken_ = false;
};

// ------------------------------------------------------------------------------------ the writer

/// One line more stays free: where the size of the packet behind it is.
inline bool ring_writer::has_room(std::uint32_t wanted)
{
    if (next_ - taken_ + wanted < ring_file::lines)
        return true;
    const std::uint32_t taken = theirs_->taken.load(std::memory_order_acquire);
    if (next_ - taken > next_ - taken_)
        return false; // it takes back what it has said, or has taken what was never put
    taken_ = taken;
    return next_ - taken_ + wanted < ring_file::lines;
}

inline bool ring_writer::begin(std::uint32_t size)
{
    if (size == 0 || size > ring_file::largest || !has_room(ring_file::lines_for(size)))
        return false;
    if (next_ == 0)
        own_->used.store(1, std::memory_order_release);
    size_ = size;
    at_ = next_ % ring_file::lines * ring_file::line + sizeof(std::uint32_t);
    return true;
}

inline void ring_writer::add(const void *bytes, std::size_t size)
{
    constexpr std::size_t all = sizeof own_->ring;
    auto *const ring = reinterpret_cast<std::uint8_t *>(own_->ring);
    const std::size_t first = size < all - at_ ? size : all - at_;
    std::memcpy(ring + at_, bytes, first);
    if (first != size) [[unlikely]]
        std::memcpy(ring, static_cast<const std::uint8_t *>(bytes) + first, size - first);
    at_ = static_cast<std::uint32_t>((at_ + size) % all);
}

/// The store comes before the next look at the reader's attention for all processors, as the
/// reader's store of that before its next look at this.
inline void ring_writer::put()
{
    const std::uint32_t behind = next_ + ring_file::lines_for(size_);
    own_->ring[behind % ring_file::lines].size.store(0, std::memory_order_relaxed);
    own_->ring[next_ % ring_file::lines].size.store(size_);
    next_ = behind;
}

// ------------------------------------------------------------------------------------ the reader

inline std::uint32_t ring_reader::take(std::uint8_t *to)
{
    constexpr std::size_t all = sizeof theirs_->ring;
    const std::size_t from = next_ % ring_file::lines;
    const std::uint32_t size = theirs_->ring[from].size.load(std::memory_order_acquire);
    if (size == 0 || broken_)
        return 0;
    if (size > ring_file::largest) {
        broken_ = true;
        return 0;
    }
    const auto *const ring = reinterpret_cast<const std::uint8_t *>(theirs_->ring);
    const std::size_t at = from * ring_file::line + sizeof(std::uint32_t);
    const std::size_t first = size < all - at ? size : all - at;
    std::memcpy(to, ring + at, first);
    if (first != size) [[unlikely]]
        std::memcpy(to + first, ring, size - first);
    next_ += ring_file::lines_for(size);
    return size;
}

} // namespace soft_hca
