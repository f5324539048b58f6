// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the engine needs of an operating system in addition to osd: sockets, sleeping on several
// descriptors, random numbers. Each system has a file of its own for it.
#pragma once

#include "lent_areas.hpp"
#include "osd_sync.hpp"
#include "packet_io.hpp"

#include <atomic>

namespace soft_hca {

/// What a network interface is like.
struct interface_info {
    net_address address;
    char name[64] = {};
    std::uint32_t mtu = 1500;
    bool loopback = false;
};

/// Looks an interface up by its name or one of its addresses. `family` is 4 or 6. Zero, ENODEV when
/// there is none, or the system error number of the search.
[[nodiscard]] int look_up_interface(const char *name, unsigned family, interface_info &out);

/// Unpredictable random bytes; false when the system has none.
[[nodiscard]] bool random_bytes(void *out, std::size_t size);

/// Whether this word is mapped for writing at this moment.
bool is_writable(std::uint64_t *word);

/// Whether datagrams are sent as super-packets. When the system refuses two in a row they are not
/// for a minute: interfaces change, and one address may have a path that others do not share.
class segmentation_policy {
public:
    bool is_on()
    {
        const std::int64_t until = off_until_ns_.load(std::memory_order_relaxed);
        return until == 0 || is_over(until);
    }
    void worked()
    {
        if (failures_.load(std::memory_order_relaxed) != 0)
            failures_.store(0, std::memory_order_relaxed);
    }
    void failed()
    {
        if (failures_.fetch_add(1, std::memory_order_relaxed) + 1 >= most_failures)
            off_until_ns_.store(osd::now_ns() + pause_ns, std::memory_order_relaxed);
    }
    void set(bool on)
    {
        failures_.store(0, std::memory_order_relaxed);
        off_until_ns_.store(on ? 0 : INT64_MAX, std::memory_order_relaxed);
    }

private:
    static constexpr std::uint32_t most_failures = 2;
    static constexpr std::int64_t pause_ns = 60'000'000'000;

    bool is_over(std::int64_t until) OSD_COLD
    {
        if (osd::now_ns() < until)
            return false;
        failures_.store(0, std::memory_order_relaxed);
        off_until_ns_.store(0, std::memory_order_relaxed);
        return true;
    }

    std::atomic<std::uint32_t> failures_{0}; ///< counted in a row
    std::atomic<std::int64_t> off_until_ns_{0};
};

/// Memory of our own. With a memory file behind it, the system copies between it and consumers'
/// memory, which they may have unmapped: that is an error then, and no signal.
class kernel_buffer {
public:
    enum class backing { anonymous, file };

    kernel_buffer() = default;
    kernel_buffer(const kernel_buffer &) = delete;
    kernel_buffer &operator=(const kernel_buffer &) = delete;
    ~kernel_buffer() { close(); }
    /// Returns false when out of memory. Without a file where the process may have none, or the
    /// system has none.
    bool open(std::size_t size, backing wanted);
    void close();
    bool is_open() const { return bytes_ != nullptr; }
    std::uint8_t *bytes() const { return bytes_; }
    bool has_file() const { return file_ >= 0; }
    waitable file() const { return file_; }

private:
    std::uint8_t *bytes_ = nullptr;
    std::size_t size_ = 0;
    waitable file_ = -1;
};

/// What a system wants to have for a large batch of datagrams.
struct message_area;

/// A UDP socket. Batches of datagrams of equal size pass through the kernel as one (GSO, GRO).
class udp_io final : public packet_io {
public:
    udp_io();
    ~udp_io() override;
    /// Binds to the address; a port of 0 is chosen. Zero or a system error number.
    int open(const net_address &at, bool for_data);
    void close();

    const net_address &address() const override { return address_; }
    send_result send(const net_address &to, const out_packet *packets, std::uint32_t count,
                     std::uint32_t &done) override;
    std::uint32_t receive_room() const override { return receive_room_; }
    std::uint32_t receive(in_packets *into, std::uint32_t capacity) override;
    bool place(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
               bool last_last) override OSD_EXCLUDES(spare_lock_);
    bool take_icmp_error(icmp_error &out) override;
    void probe_port(const net_address &to, const out_packet &packet) override;
    waitable descriptor() const override { return socket_; }

    /// Sends each datagram by itself, in tests.
    void set_segmentation(bool on) { segmentation_.set(on); }
    bool segments() { return segmentation_.is_on(); }

private:
    static constexpr std::uint32_t batch = 4;
    static constexpr std::size_t buffer_size = 65536;

    template <class Batch>
    send_result send_by(Batch &batch, const net_address &to, const out_packet *packets,
                        std::uint32_t count, std::uint32_t &done);
    bool place_from_buffers(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
                            bool last_last) const;

    waitable socket_ = -1;
    net_address address_;
    kernel_buffer buffers_; ///< one for each message of a batch, and a spare one for place()
    osd::mutex spare_lock_;
    std::uint32_t batch_ = batch;
    std::uint32_t receive_room_ = 0;
    segmentation_policy segmentation_;
    lent_areas<message_area> messages_;
};

/// The memory in which pieces of consumers' memory are copied together.
class gather_buffer {
public:
    static constexpr std::uint32_t max_pieces = 192; ///< limit between begin() and gather()

    /// Returns false when out of memory.
    bool open(std::size_t size) { return memory_.open(size, kernel_buffer::backing::file); }
    void close() { memory_.close(); }
    bool is_open() const { return memory_.is_open(); }
    std::uint8_t *bytes() const { return memory_.bytes(); }
    void begin() { used_ = 0; }
    std::uint32_t room() const { return max_pieces - used_; }
    void add(const void *at, std::size_t size) { pieces_[used_++] = {at, size}; }
    void add(const out_packet &packet)
    {
        for (std::uint32_t i = 0; i < packet.pieces; ++i)
            pieces_[used_++] = packet.piece[i];
    }
    /// Copies the pieces one behind the other. Returns the number of bytes before the first that is
    /// not mapped. The process is killed if the system has no page for the copy.
    std::size_t gather();

private:
    std::size_t copy();

    kernel_buffer memory_;
    std::uint32_t used_ = 0;
    bytes_view pieces_[max_pieces];
};

inline std::size_t gather_buffer::copy()
{
    std::size_t size = 0;
    for (std::uint32_t i = 0; i < used_; ++i) {
        std::memcpy(bytes() + size, pieces_[i].at, pieces_[i].size);
        size += pieces_[i].size;
    }
    return size;
}

/// Wakes a thread that sleeps in wait_for().
class wake_signal {
public:
    ~wake_signal() { close(); }
    bool open();
    void close();
    bool is_open() const { return descriptor_ >= 0; }
    void raise();
    void clear();
    waitable descriptor() const { return descriptor_; }

private:
    waitable descriptor_ = -1;
};

/// A descriptor that becomes readable at a time, which any thread changes without waking the thread
/// that sleeps on it. Not every system has them.
class wake_timer {
public:
    ~wake_timer() { close(); }
    bool open();
    void close();
    bool is_open() const { return descriptor_ >= 0; }
    /// Clears it, and sets it to a time of osd::now_ns(); to none if that is INT64_MAX.
    void set(std::int64_t at_ns);
    waitable descriptor() const { return descriptor_; }

private:
    waitable descriptor_ = -1;
};

/// Several descriptors that are slept on as one.
class descriptor_set {
public:
    ~descriptor_set() { close(); }
    bool open();
    void close();
    bool add(waitable member);
    void remove(waitable member);
    /// Clears the set, before all its members are served: an arrival after the call makes the set
    /// readable again.
    void clear();
    waitable descriptor() const { return descriptor_; }

private:
    waitable descriptor_ = -1;
};

/// Sleeps until a descriptor is readable, or the deadline has passed. Negative descriptors are
/// skipped. When it was woken, `ready` has a bit for each that may be readable.
osd::wait_result wait_for(const waitable *descriptors, std::uint32_t count, osd::deadline until,
                          std::uint64_t *ready = nullptr);

/// How long a thread may sleep on descriptors of its own, in nanoseconds. Where the program can
/// close them, no wake-up ends a sleep that has begun on them.
extern const std::int64_t longest_sleep_ns;

/// Packets so far apart, in nanoseconds, do not share an acknowledgement: it is more than a round
/// trip of short messages between consumers that poll.
extern const std::int64_t long_pause_ns;

/// Whether the system sends packets in the class of the address, of this family, that they go to.
bool sets_traffic_classes(int family);

/// Errors of udp_io::open that have a meaning of their own.
bool is_address_in_use(int error);
bool is_forbidden(int error);

} // namespace soft_hca
