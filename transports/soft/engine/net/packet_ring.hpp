// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A ring of packets in memory that two processes share: one writes, the other reads.
//
// Each process has a file, which it writes and the other maps read-only. The file holds the ring of
// its owner's packets, and its owner's state as a reader of the other ring: how many lines it has
// taken, and whether it polls for more.
//
// A packet begins with its head, at a cache line: its size, and how often the ring has been filled.
// The writer sets the place of the next packet's head to 0, and stores the head of this packet
// last: when it is stopped or killed anywhere, a packet is there as a whole, or not at all. The
// reader reads the head once, bounds the size, copies the packet once, and parses the copy; the
// writer bounds the number of lines that the reader says it has taken. So neither process can do
// more to the other than by datagrams. A packet that was taken is none when the reader comes round
// again: a writer that has gone leaves no more than fits the ring.
//
// Lines that the reader has read are in its processor's cache, and a store waits until they are
// taken from there. So the writer clears several lines ahead, behind a packet that it has put: when
// the next packet comes its lines are here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace soft_hca {

/// Whether the owner of a file polls the other's ring.
enum class ring_attention : std::uint32_t {
    none,   ///< no, and it will not
    asleep, ///< the owner looks when a datagram has woken it
    awake,
};

struct ring_file {
    static constexpr std::uint32_t line = 64;
    static constexpr std::uint32_t lines = 4096; ///< a power of two
    static constexpr std::uint32_t largest = 8192;
    static constexpr std::uint64_t current = 0x736f'6674'0002'0002; ///< number of this layout

    static constexpr std::uint32_t lines_for(std::uint32_t size)
    {
        return (size + sizeof(std::uint32_t) + line - 1) / line;
    }
    /// The head of a packet at this line, counted from the first line that was ever put.
    static constexpr std::uint32_t head_of(std::uint32_t at, std::uint32_t size)
    {
        return at / lines << 16 | size;
    }
    void begin() { edition.store(current, std::memory_order_release); }
    bool is_ring() const { return edition.load(std::memory_order_acquire) == current; }
    /// Whether no packet was ever put: a ring has one reader in its life.
    bool is_fresh() const { return used.load(std::memory_order_acquire) == 0; }
    bool has_packet(std::uint32_t at) const { return ring[at % lines].head.load() != 0; }

    struct alignas(line) first_line {
        std::atomic<std::uint32_t> head; ///< 0: no packet
        std::uint8_t bytes[line - sizeof(std::uint32_t)];
    };
    static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(first_line) == line);

    alignas(line) std::atomic<std::uint64_t> edition;
    std::atomic<std::uint32_t> used;
    /// How the owner attends to the other's ring.
    alignas(line) std::atomic<ring_attention> attention;
    alignas(line) std::atomic<std::uint32_t> taken; ///< lines of the other's ring, ever
    first_line ring[lines];
};

static_assert(sizeof(ring_file) == 3 * 64 + 4096 * 64, "another layout is another edition");

/// Used by one thread at a time. Both files outlive it.
class ring_writer {
public:
    void open(ring_file &own, const ring_file &theirs)
    {
        own_ = &own;
        theirs_ = &theirs;
    }
    /// Whether the reader polls. To be checked again after put(): the reader may have gone to sleep
    /// without having seen the packet.
    bool is_attended() const { return theirs_->attention.load() == ring_attention::awake; }
    /// Begins a packet; false when there is no room for it.
    bool begin(std::uint32_t size);
    /// Appends bytes to the packet.
    void add(const void *bytes, std::size_t size);
    /// Makes the packet visible to the reader.
    void put();

private:
    static constexpr std::uint32_t fewest_cleared = 4; ///< lines, a small packet and the next
    static constexpr std::uint32_t most_cleared = 16;

    bool has_room(std::uint32_t wanted);
    bool is_cleared(std::uint32_t at) const { return static_cast<std::int32_t>(cleared_ - at) > 0; }
    void clear(std::uint32_t at)
    {
        own_->ring[at % ring_file::lines].head.store(0, std::memory_order_relaxed);
    }
    void clear_ahead();

    ring_file *own_ = nullptr;
    const ring_file *theirs_ = nullptr;
    std::uint32_t next_ = 0;    ///< first line of the current or the next packet
    std::uint32_t taken_ = 0;   ///< what the reader has taken, as read last
    std::uint32_t cleared_ = 0; ///< behind the packet, no line before this one has a head
    std::uint32_t size_ = 0;    ///< of the packet that was begun; 0: none was
    std::uint32_t place_ = 0;   ///< byte of the ring where the next part goes
};

/// Used by one thread at a time. Both files outlive it.
class ring_reader {
public:
    void open(ring_file &own, const ring_file &theirs)
    {
        own_ = &own;
        theirs_ = &theirs;
    }
    /// Copies the next packet to memory of `ring_file::largest` bytes. Returns its size; 0 if
    /// there is none, or the writer has put something invalid (is_broken()).
    std::uint32_t take(std::uint8_t *to);
    /// Whether take() has something to do.
    bool has_more() const
    {
        return theirs_->ring[next_ % ring_file::lines].head.load(std::memory_order_relaxed) != 0;
    }
    /// Frees the lines of all packets taken for the writer.
    void give_back() { own_->taken.store(next_, std::memory_order_release); }
    bool is_broken() const { return broken_; }

private:
    ring_file *own_ = nullptr;
    const ring_file *theirs_ = nullptr;
    std::uint32_t next_ = 0;
    bool broken_ = false;
};

// ------------------------------------------------------------------------------------ the writer

/// One more line has to be free: put() stores the head of the next packet there.
inline bool ring_writer::has_room(std::uint32_t wanted)
{
    if (next_ - taken_ + wanted < ring_file::lines)
        return true;
    const std::uint32_t taken = theirs_->taken.load(std::memory_order_acquire);
    if (next_ - taken > next_ - taken_)
        return false; // invalid: less than it said before, or more than was put
    taken_ = taken;
    return next_ - taken_ + wanted < ring_file::lines;
}

inline bool ring_writer::begin(std::uint32_t size)
{
    if (size == 0 || size > ring_file::largest || !has_room(ring_file::lines_for(size)))
        return false;
    if (next_ == 0)
        own_->used.store(1, std::memory_order_release);
    if (size_ != 0)
        cleared_ = next_; // bytes of a packet that was begun and not put are there
    size_ = size;
    place_ = next_ % ring_file::lines * ring_file::line + sizeof(std::uint32_t);
    return true;
}

inline void ring_writer::add(const void *bytes, std::size_t size)
{
    constexpr std::size_t all = sizeof own_->ring;
    auto *const ring = reinterpret_cast<std::uint8_t *>(own_->ring);
    const std::size_t first = size < all - place_ ? size : all - place_;
    std::memcpy(ring + place_, bytes, first);
    if (first != size) [[unlikely]]
        std::memcpy(ring, static_cast<const std::uint8_t *>(bytes) + first, size - first);
    place_ = static_cast<std::uint32_t>((place_ + size) % all);
}

/// The store of the head and the writer's next load of `attention` are sequentially consistent, and
/// so are the reader's store of `attention` and its next load of the head: either the writer sees
/// that the reader sleeps, or the reader sees the packet.
inline void ring_writer::put()
{
    const std::uint32_t behind = next_ + ring_file::lines_for(size_);
    if (!is_cleared(behind)) {
        clear(behind);
        cleared_ = behind + 1;
    }
    own_->ring[next_ % ring_file::lines].head.store(ring_file::head_of(next_, size_));
    next_ = behind;
    size_ = 0;
    if (!is_cleared(next_ + fewest_cleared))
        clear_ahead();
}

/// Clears lines that the reader has taken, or that no packet was in.
inline void ring_writer::clear_ahead()
{
    const std::uint32_t free = ring_file::lines - (next_ - taken_);
    const std::uint32_t until = next_ + (free < most_cleared ? free : most_cleared);
    for (; !(static_cast<std::int32_t>(cleared_ - until) >= 0); ++cleared_)
        clear(cleared_);
}

// ------------------------------------------------------------------------------------ the reader

inline std::uint32_t ring_reader::take(std::uint8_t *to)
{
    constexpr std::size_t all = sizeof theirs_->ring;
    const std::size_t from = next_ % ring_file::lines;
    const std::uint32_t head = theirs_->ring[from].head.load(std::memory_order_acquire);
    if (head == 0 || broken_)
        return 0;
    const std::uint32_t size = head - ring_file::head_of(next_, 0);
    // A bad size ends the ring, also in a head of another time.
    if (size == 0 || size > ring_file::largest) {
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
