// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The file is a pcapng. Several adapters and processes append to one: each begins with a section of
// its own, all sections are alike, and a block is written by one call.
#include "capture.hpp"

#include "dapl_debug.hpp"
#include "net/net.hpp"
#include "osd_descriptor.hpp"
#include "osd_sync.hpp"
#include "osd_system.hpp"
#include "osd_time.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dapl::soft {

namespace {

using soft_hca::net_address;
using soft_hca::out_packet;

// ------------------------------------------------------------------------------------ the format

constexpr std::uint32_t section_type = 0x0a0d0d0a;

/// A section of unknown length, and its one interface: packets begin with an IP header, times are
/// in nanoseconds.
struct section_begin {
    std::uint32_t type = section_type;
    std::uint32_t size = 28;
    std::uint32_t byte_order = 0x1a2b3c4d;
    std::uint16_t version[2] = {1, 0};
    std::uint32_t length[2] = {UINT32_MAX, UINT32_MAX};
    std::uint32_t size_again = 28;
    std::uint32_t interface_type = 1;
    std::uint32_t interface_size = 32;
    std::uint16_t link_type = 101;
    std::uint16_t reserved = 0;
    std::uint32_t longest = 0; ///< no limit
    std::uint16_t resolution_option[2] = {9, 1};
    std::uint8_t resolution[4] = {9, 0, 0, 0}; ///< 10^-9 s
    std::uint32_t end_of_options = 0;
    std::uint32_t interface_size_again = 32;
};
static_assert(sizeof(section_begin) == 60);

/// What an enhanced packet block has in front of the packet.
struct packet_begin {
    std::uint32_t type = 6;
    std::uint32_t size = 0;
    std::uint32_t interface = 0;
    std::uint32_t time_high = 0;
    std::uint32_t time_low = 0;
    std::uint32_t captured = 0;
    std::uint32_t original = 0;
};

enum class direction : std::uint32_t { in = 1, out = 2 };

/// What it has behind the packet.
struct packet_end {
    std::uint16_t flags_option[2] = {2, 4};
    direction flags;
    std::uint32_t end_of_options = 0;
    std::uint32_t size;
};

// ------------------------------------------------------------------------------- IP and UDP
// headers

void put16(std::uint8_t *at, std::size_t value)
{
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
}

/// The sum of RFC 1071, to be continued.
std::uint32_t sum_of(const std::uint8_t *bytes, std::size_t size, std::uint32_t sum)
{
    for (std::size_t i = 0; i < size; ++i) {
        sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8 : bytes[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

constexpr std::size_t udp_size = 8;
constexpr std::size_t v4_size = 20;
constexpr std::size_t v6_size = 40;
constexpr std::uint8_t udp_protocol = 17;

std::size_t headers_of(const net_address &address)
{
    return (address.family() == AF_INET6 ? v6_size : v4_size) + udp_size;
}

void write_v4(std::uint8_t *at, const net_address &from, const net_address &to, std::size_t udp)
{
    std::memset(at, 0, v4_size);
    at[0] = 0x45;
    put16(at + 2, v4_size + udp);
    at[6] = 0x40; // not to be fragmented
    at[8] = 64;   // hops
    at[9] = udp_protocol;
    from.copy_host(at + 12);
    to.copy_host(at + 16);
    put16(at + 10, 0xffff ^ sum_of(at, v4_size, 0));
}

void write_v6(std::uint8_t *at, const net_address &from, const net_address &to, std::size_t udp)
{
    std::memset(at, 0, v6_size);
    at[0] = 0x60;
    put16(at + 4, udp);
    at[6] = udp_protocol;
    at[7] = 64; // hops
    from.copy_host(at + 8);
    to.copy_host(at + 24);
}

/// Writes both headers. `held`: how much of the datagram's `size` is behind them. Only IPv6 wants a
/// checksum of UDP.
void write_headers(std::uint8_t *at, const net_address &from, const net_address &to,
                   std::size_t size, std::size_t held)
{
    std::uint8_t *const udp = at + headers_of(to) - udp_size;
    put16(udp, from.port());
    put16(udp + 2, to.port());
    put16(udp + 4, udp_size + size);
    put16(udp + 6, 0);
    if (to.family() != AF_INET6)
        return write_v4(at, from, to, udp_size + size);
    write_v6(at, from, to, udp_size + size);
    const auto rest = static_cast<std::uint32_t>(udp_protocol + udp_size + size);
    const std::uint32_t sum = sum_of(udp, udp_size + held, sum_of(at + 8, 32, rest));
    put16(udp + 6, sum == 0xffff ? sum : 0xffff ^ sum);
}

// --------------------------------------------------------------------------------------- the file

/// Opens a new file, or one of ours that is appended to. A link at this place may lead to someone
/// else's file. Returns the reason if that is not possible.
const char *open_file(const char *where, int &file)
{
    file = osd::beyond_standard(::open(
        where, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600));
    if (file < 0)
        return errno == ELOOP ? "it is a link" : std::strerror(errno);
    struct stat about;
    if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        return "it is no file";
    std::uint32_t first = section_type;
    if (about.st_size != 0 &&
        (::pread(file, &first, sizeof first, 0) != sizeof first || first != section_type))
        return "it has something else than a pcapng in it";
    return nullptr;
}

class capture final : public soft_hca::packet_observer {
public:
    ~capture() override
    {
        if (file_ >= 0)
            ::close(file_);
    }
    /// Returns the reason if it cannot be written.
    const char *open(const char *where)
    {
        timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        epoch_ns_ = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - osd::now_ns();
        if (const char *const why = open_file(where, file_))
            return why;
        osd::lock_guard hold(lock_);
        if (!block_.open(longest))
            return std::strerror(ENOMEM);
        const section_begin begin;
        return put(&begin, sizeof begin) ? nullptr : std::strerror(errno);
    }

    void sent(const net_address &from, const net_address &to, const out_packet &packet,
              std::int64_t at_ns) override
    {
        osd::lock_guard hold(lock_);
        begin(to);
        block_.add(packet);
        end(from, to, packet.size, at_ns, direction::out);
    }
    void received(const net_address &from, const net_address &to, const std::uint8_t *bytes,
                  std::size_t size) override
    {
        osd::lock_guard hold(lock_);
        begin(to);
        block_.add(bytes, size);
        end(from, to, size, osd::now_ns(), direction::in);
    }

private:
    static constexpr std::size_t longest = 2 * 65536;

    void begin(const net_address &to) OSD_REQUIRES(lock_)
    {
        block_.begin();
        block_.add(room_, sizeof(packet_begin) + headers_of(to));
    }
    void end(const net_address &from, const net_address &to, std::size_t size, std::int64_t at_ns,
             direction which) OSD_REQUIRES(lock_);
    /// Uses the bare system call: write() is a cancellation point.
    bool put(const void *bytes, std::size_t size) const
    {
        const long done = ::syscall(SYS_write, file_, bytes, size);
        if (done >= 0 && static_cast<std::size_t>(done) != size)
            errno = ENOSPC;
        return done >= 0 && static_cast<std::size_t>(done) == size;
    }

    osd::mutex lock_;
    int file_ = -1;
    std::int64_t epoch_ns_ = 0; ///< of osd::now_ns()
    bool failed_ OSD_GUARDED_BY(lock_) = false;
    soft_hca::gather_buffer block_ OSD_GUARDED_BY(lock_);
    std::uint8_t room_[sizeof(packet_begin) + v6_size + udp_size] = {}; ///< is written over
};

/// A packet of which the consumer has unmapped a part is cut there.
void capture::end(const net_address &from, const net_address &to, std::size_t size,
                  std::int64_t at_ns, direction which)
{
    const std::size_t before = sizeof(packet_begin) + headers_of(to);
    std::size_t used = block_.gather();
    if (failed_ || used < before)
        return;
    std::uint8_t *const bytes = block_.bytes();
    write_headers(bytes + sizeof(packet_begin), from, to, size, used - before);
    const auto time = static_cast<std::uint64_t>(epoch_ns_ + at_ns);
    packet_begin head;
    head.time_high = static_cast<std::uint32_t>(time >> 32);
    head.time_low = static_cast<std::uint32_t>(time);
    head.captured = static_cast<std::uint32_t>(used - sizeof head);
    head.original = static_cast<std::uint32_t>(headers_of(to) + size);
    while (used % 4 != 0)
        bytes[used++] = 0;
    head.size = static_cast<std::uint32_t>(used + sizeof(packet_end));
    packet_end tail;
    tail.flags = which;
    tail.size = head.size;
    std::memcpy(bytes, &head, sizeof head);
    std::memcpy(bytes + used, &tail, sizeof tail);
    failed_ = !put(bytes, head.size);
    if (failed_)
        dapl_log(DAPL_DBG_TYPE_ERR, "DAPL_TRACE_PCAP: a packet cannot be written: %s; no more are",
                 std::strerror(errno));
}

} // namespace

std::unique_ptr<soft_hca::packet_observer> open_capture()
{
    const std::unique_ptr<char, decltype(&std::free)> where(osd::environment("DAPL_TRACE_PCAP"),
                                                            &std::free);
    if (where == nullptr || *where == '\0')
        return nullptr;
    std::unique_ptr<capture> made(new (std::nothrow) capture);
    const char *const why = made == nullptr ? std::strerror(ENOMEM) : made->open(where.get());
    if (why == nullptr)
        return made;
    dapl_log(DAPL_DBG_TYPE_ERR, "DAPL_TRACE_PCAP: %s cannot be written: %s; no packets are written",
             where.get(), why);
    return nullptr;
}

} // namespace dapl::soft
