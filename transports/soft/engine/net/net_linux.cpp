// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every system call of the engine on Linux.
#include "net.hpp"

#include "osd_descriptor.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/futex.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <new>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT // older C libraries; the numbers are the kernel's
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

namespace soft_hca {

namespace {

/// A waitable is a file descriptor.
constexpr int as_fd(waitable descriptor)
{
    return static_cast<int>(descriptor);
}

/// What consumers call while they post and poll, with locks held: the C library's functions of
/// these names are cancellation points.
namespace calls {

inline int sendmsg(int fd, const msghdr *message, int flags)
{
    return static_cast<int>(syscall(SYS_sendmsg, fd, message, flags));
}

inline int recvmsg(int fd, msghdr *message, int flags)
{
    return static_cast<int>(syscall(SYS_recvmsg, fd, message, flags));
}

/// What filters answer that do not know a call. As the error of a datagram EPERM does no harm here.
inline bool is_unknown_call(int error)
{
    return error == ENOSYS || error == EPERM;
}

// Where a filter does not know the calls for several messages, these send and receive the first.

inline int sendmmsg(int fd, mmsghdr *messages, unsigned count, int flags)
{
    const auto sent = static_cast<int>(syscall(SYS_sendmmsg, fd, messages, count, flags));
    if (sent >= 0 || !is_unknown_call(errno)) [[likely]]
        return sent;
    return calls::sendmsg(fd, &messages[0].msg_hdr, flags) < 0 ? -1 : 1;
}

inline int recvmmsg(int fd, mmsghdr *messages, unsigned count, int flags)
{
    const auto got = static_cast<int>(syscall(SYS_recvmmsg, fd, messages, count, flags, nullptr));
    if (got >= 0 || !is_unknown_call(errno)) [[likely]]
        return got;
    const int size = calls::recvmsg(fd, &messages[0].msg_hdr, flags);
    messages[0].msg_len = static_cast<unsigned>(size);
    return size < 0 ? -1 : 1;
}

// The kernel takes an offset as two words, of which one is enough where words have 64 bits.

inline ssize_t pread(int fd, void *to, std::size_t size, off_t from)
{
    if constexpr (sizeof(long) < sizeof from)
        return ::pread(fd, to, size, from);
    return syscall(SYS_pread64, fd, to, size, from);
}

inline ssize_t pwritev(int fd, const iovec *parts, int count, off_t to)
{
    if constexpr (sizeof(long) < sizeof to)
        return ::pwritev(fd, parts, count, to);
    return syscall(SYS_pwritev, fd, parts, count, to, 0L);
}

inline ssize_t preadv(int fd, const iovec *parts, int count, off_t from)
{
    if constexpr (sizeof(long) < sizeof from)
        return ::preadv(fd, parts, count, from);
    return syscall(SYS_preadv, fd, parts, count, from, 0L);
}

} // namespace calls

/// Pieces as the kernel reads them: both types have equal layouts.
inline const iovec *kernels(const bytes_view *pieces)
{
    static_assert(sizeof(bytes_view) == sizeof(iovec) &&
                  offsetof(bytes_view, at) == offsetof(iovec, iov_base) &&
                  offsetof(bytes_view, size) == offsetof(iovec, iov_len));
    return reinterpret_cast<const iovec *>(pieces);
}

} // namespace

// -------------------------------------------------------------------------------- the interface

namespace {

bool fits(const ifaddrs &entry, const char *name, const net_address &wanted, int family)
{
    net_address has;
    if (entry.ifa_addr == nullptr || !has.assign(entry.ifa_addr))
        return false;
    if (wanted.family() != AF_UNSPEC)
        return has.same_host(wanted);
    return std::strcmp(entry.ifa_name, name) == 0 && has.family() == family;
}

std::uint32_t mtu_of(const char *name)
{
    ifreq query{};
    std::snprintf(query.ifr_name, sizeof query.ifr_name, "%s", name);
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = any >= 0 && ioctl(any, SIOCGIFMTU, &query) == 0;
    if (any >= 0)
        close(any);
    return known && query.ifr_mtu > 0 ? static_cast<std::uint32_t>(query.ifr_mtu) : 1500;
}

} // namespace

int look_up_interface(const char *name, unsigned family, interface_info &out)
{
    net_address wanted;
    (void)wanted.read(name);
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return errno;
    const ifaddrs *found = list;
    while (found != nullptr && !fits(*found, name, wanted, family == 6 ? AF_INET6 : AF_INET))
        found = found->ifa_next;
    if (found != nullptr) {
        (void)out.address.assign(found->ifa_addr);
        out.address.set_port(0);
        std::snprintf(out.name, sizeof out.name, "%s", found->ifa_name);
        out.mtu = mtu_of(found->ifa_name);
        out.loopback = (found->ifa_flags & IFF_LOOPBACK) != 0;
    }
    freeifaddrs(list);
    return found != nullptr ? 0 : ENODEV;
}

bool random_bytes(void *out, std::size_t size)
{
    return getrandom(out, size, 0) == static_cast<ssize_t>(size);
}

// ------------------------------------------------------------------------------------------ UDP

namespace {

constexpr int buffer_bytes = 4 << 20;
#ifdef __x86_64__
constexpr bool stores_in_order = true;
#else
constexpr bool stores_in_order = false;
#endif
/// Packets of one super-packet, in every kernel that has them.
constexpr std::uint32_t kernel_segments = 64;
// Packets of one call, with messages on the stack, and with messages that are lent.
constexpr std::uint32_t small_batch = 4;
constexpr std::uint32_t most_lent = 32;

void set_option(waitable socket, int level, int name, int value)
{
    // Options that an older kernel or missing privileges refuse cost speed, not function.
    (void)setsockopt(as_fd(socket), level, name, &value, sizeof value);
}

void set_data_options(waitable socket, bool v6)
{
    set_option(socket, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
    set_option(socket, SOL_SOCKET, SO_RCVBUFFORCE, buffer_bytes);
    set_option(socket, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
    set_option(socket, IPPROTO_UDP, UDP_GRO, 1);
    set_option(socket, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
}

std::uint32_t receive_room_of(waitable socket)
{
    int bytes = 0;
    socklen_t size = sizeof bytes;
    (void)getsockopt(as_fd(socket), SOL_SOCKET, SO_RCVBUF, &bytes, &size);
    // The kernel counts the memory that it needs itself, too.
    return static_cast<std::uint32_t>(bytes) / 2;
}

} // namespace

/// Room for two control messages of one small number each.
struct small_control {
    alignas(cmsghdr) char bytes[2 * CMSG_SPACE(sizeof(int))];
};

namespace {

/// Adds a control message to those in `control`.
template <class Value>
void add_control(msghdr &m, small_control &control, int level, int type, Value value)
{
    auto *const head = reinterpret_cast<cmsghdr *>(control.bytes + m.msg_controllen);
    *head = {};
    head->cmsg_level = level;
    head->cmsg_type = type;
    head->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(head), &value, sizeof value);
    m.msg_control = control.bytes;
    m.msg_controllen += CMSG_SPACE(sizeof value);
}

/// The message is cut into datagrams of this size.
void set_segment(msghdr &m, small_control &control, std::size_t bytes)
{
    add_control(m, control, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(bytes));
}

/// The datagrams of the message have the class of the address that they go to.
void set_class(msghdr &m, small_control &control, const net_address &to)
{
    if (to.traffic_class() == 0) [[likely]]
        return;
    const bool v6 = to.family() == AF_INET6;
    add_control(m, control, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS,
                int{to.traffic_class()});
}

send_result result_of(int error)
{
    switch (error) {
    case EFAULT:
        return send_result::bad_memory;
    case ECONNREFUSED:
        return send_result::refused;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EINVAL: // what the system says of a loopback address that is to leave the host
    case EACCES:
        return send_result::unreachable;
    default:
        return send_result::busy;
    }
}

/// Whether this host has no route to the address. What a send returns does not tell: it may be an
/// ICMP error about an earlier datagram, to another address, or forged. None belongs to this
/// socket.
bool has_no_route(const net_address &from, const net_address &to)
{
    const int fresh = osd::beyond_standard(socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fresh < 0)
        return false;
    net_address any_port = from;
    any_port.set_port(0);
    const bool fails =
        bind(fresh, any_port.get(), static_cast<socklen_t>(any_port.size())) == 0 &&
        syscall(SYS_connect, fresh, to.get(), static_cast<socklen_t>(to.size())) != 0 &&
        result_of(errno) == send_result::unreachable;
    (void)syscall(SYS_close, fresh);
    return fails;
}

/// Whether the kernel has refused a super-packet. EMSGSIZE, its answer since Linux 6.14 where the
/// path carries only datagrams smaller than these packets, may be an ICMP error as well, which is
/// returned once.
bool denies_segmentation(int error, bool again)
{
    return error == EIO || error == EINVAL || (error == EMSGSIZE && again);
}

} // namespace

/// Messages for sendmmsg, of up to `Most` packets. Packets of one size, and a last packet that is
/// not larger, make one message.
template <std::uint32_t Most>
class send_batch {
public:
    /// Fills the batch with the first packets.
    void fill(const net_address &to, const out_packet *packets, std::uint32_t count, bool together)
    {
        count_ = used_ = 0;
        const std::uint32_t some = count < Most ? count : Most;
        for (std::uint32_t i = 0; i < some;) {
            const std::uint32_t run = together ? run_length(packets + i, some - i) : 1;
            add(to, packets + i, run);
            i += run;
        }
    }
    std::uint32_t count() const { return count_; }
    mmsghdr *messages() { return messages_; }
    std::uint32_t packets_in(std::uint32_t message) const { return packets_[message]; }

private:
    static std::uint32_t run_length(const out_packet *packets, std::uint32_t count)
    {
        const std::uint32_t size = packets[0].size;
        std::uint32_t total = size;
        std::uint32_t run = 1;
        while (run < count && run < kernel_segments && packets[run].size <= size &&
               total + packets[run].size <= largest_payload) {
            total += packets[run].size;
            if (packets[run++].size < size)
                break;
        }
        return run;
    }

    void add(const net_address &to, const out_packet *packets, std::uint32_t run)
    {
        msghdr &m = messages_[count_].msg_hdr;
        m = {};
        m.msg_name = const_cast<sockaddr *>(to.get());
        m.msg_namelen = static_cast<socklen_t>(to.size());
        m.msg_iov = pieces_ + used_;
        for (std::uint32_t i = 0; i < run; ++i)
            for (std::uint32_t p = 0; p < packets[i].pieces; ++p)
                pieces_[used_++] = {const_cast<void *>(packets[i].piece[p].at),
                                    packets[i].piece[p].size};
        m.msg_iovlen = static_cast<std::size_t>(pieces_ + used_ - m.msg_iov);
        if (run > 1)
            set_segment(m, controls_[count_], packets[0].size);
        set_class(m, controls_[count_], to);
        packets_[count_++] = run;
    }

    static constexpr std::uint32_t largest_payload = 65507;
    std::uint32_t count_;
    std::uint32_t used_;
    mmsghdr messages_[Most];
    std::uint32_t packets_[Most];
    small_control controls_[Most];
    iovec pieces_[Most * out_packet::max_pieces];
};

namespace {

/// A batch of one packet, of which the kernel reads the pieces where they are.
class single_packet {
public:
    void fill(const net_address &to, const out_packet *packet, std::uint32_t, bool)
    {
        msghdr &m = message_.msg_hdr;
        m = {};
        m.msg_name = const_cast<sockaddr *>(to.get());
        m.msg_namelen = static_cast<socklen_t>(to.size());
        m.msg_iov = const_cast<iovec *>(kernels(packet->piece));
        m.msg_iovlen = packet->pieces;
        set_class(m, control_, to);
    }
    static constexpr std::uint32_t count() { return 1; }
    mmsghdr *messages() { return &message_; }
    static constexpr std::uint32_t packets_in(std::uint32_t) { return 1; }

private:
    mmsghdr message_;
    small_control control_;
};

std::size_t segment_of(msghdr &m, std::size_t size)
{
    for (cmsghdr *c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            int segment = 0;
            std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
            return segment > 0 ? static_cast<std::size_t>(segment) : size;
        }
    return size;
}

/// The class of the datagrams of the message, where the socket tells: a byte, or for IPv6 a number.
unsigned class_of(msghdr &m)
{
    for (cmsghdr *c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
            return *CMSG_DATA(c);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
            int tos = 0;
            std::memcpy(&tos, CMSG_DATA(c), sizeof tos);
            return static_cast<unsigned>(tos);
        }
    }
    return 0;
}

} // namespace

struct message_area {
    send_batch<most_lent> batch;
};

udp_io::udp_io() = default;

udp_io::~udp_io()
{
    close();
}

int udp_io::open(const net_address &at, bool for_data)
{
    address_ = at;
    batch_ = for_data ? batch : 1;
    socket_ =
        osd::beyond_standard(socket(at.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    // Only what consumers' connections receive is placed in their memory.
    const auto backing =
        for_data ? kernel_buffer::backing::file : kernel_buffer::backing::anonymous;
    if (socket_ < 0 || !buffers_.open((batch_ + 1) * buffer_size, backing)) {
        const int error = errno;
        close();
        return error;
    }
    if (for_data) {
        set_data_options(socket_, at.family() == AF_INET6);
        messages_.open();
    } else { // who accepts a connection request sends in the class that this came in
        const bool v6 = at.family() == AF_INET6;
        set_option(socket_, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
    }
    receive_room_ = receive_room_of(socket_);
    socklen_t size = net_address::capacity();
    if (bind(as_fd(socket_), at.get(), static_cast<socklen_t>(at.size())) != 0 ||
        getsockname(as_fd(socket_), address_.get(), &size) != 0) {
        const int error = errno;
        close();
        return error;
    }
    return 0;
}

void udp_io::close()
{
    if (socket_ >= 0)
        ::close(as_fd(socket_));
    socket_ = -1;
    buffers_.close();
}

// ------------------------------------------------------------------------------- consumers' memory
//
// A program may unmap or truncate memory that it has registered, and must not be killed by what its
// peer does then. When the kernel stores, a fault is an error and no signal. So the buffers are
// mapped from a memory file, and read() copies from them to the consumer.

namespace {

/// A memory file of that size; -1 where the process may have none.
int memory_file(std::size_t size)
{
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size)
        return -1; // a larger one would be answered by a signal
    const int file = osd::beyond_standard(memfd_create("soft-hca", MFD_CLOEXEC));
    if (file < 0 || ftruncate(file, static_cast<off_t>(size)) == 0)
        return file;
    close(file);
    return -1;
}

} // namespace

bool kernel_buffer::open(std::size_t size, backing wanted)
{
    if (wanted == backing::file)
        file_ = memory_file(size);
    const int kind = has_file() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, kind, as_fd(file_), 0);
    size_ = size;
    if (memory != MAP_FAILED)
        bytes_ = static_cast<std::uint8_t *>(memory);
    else
        close();
    return is_open();
}

void kernel_buffer::close()
{
    if (bytes_ != nullptr)
        munmap(bytes_, size_);
    if (file_ >= 0)
        ::close(as_fd(file_));
    bytes_ = nullptr;
    file_ = -1;
}

std::size_t gather_buffer::gather()
{
    if (!memory_.has_file())
        return copy();
    const ssize_t written =
        calls::pwritev(as_fd(memory_.file()), kernels(pieces_), static_cast<int>(used_), 0);
    return written < 0 ? 0 : static_cast<std::size_t>(written);
}

bool udp_io::place(std::uint8_t *to, const std::uint8_t *from, std::size_t size, bool last_last)
{
    if (!buffers_.has_file())
        return packet_io::place(to, from, size, last_last);
    std::uint8_t *const buffers = buffers_.bytes();
    std::uint8_t *const spare = buffers + batch_ * buffer_size;
    if (!std::less<>()(from, buffers) && std::less<>()(from, spare))
        return place_from_buffers(to, from, size, last_last);
    osd::lock_guard hold(spare_lock_); // it was kept elsewhere
    std::memcpy(spare, from, size);
    return place_from_buffers(to, spare, size, last_last);
}

bool udp_io::place_from_buffers(std::uint8_t *to, const std::uint8_t *from, std::size_t size,
                                bool last_last) const
{
    std::uint8_t *const buffers = buffers_.bytes();
    const auto read_all = [&](std::size_t begin, std::size_t end) {
        const ssize_t read = calls::pread(as_fd(buffers_.file()), to + begin, end - begin,
                                          static_cast<off_t>(from - buffers + begin));
        return read == static_cast<ssize_t>(end - begin);
    };
    if (!last_last || size == 1)
        return read_all(0, size);
    if constexpr (!stores_in_order) {
        const bool first = read_all(0, size - 1);
        std::atomic_thread_fence(std::memory_order_release);
        return first && read_all(size - 1, size);
    }
    // The kernel stores the parts in order.
    const iovec parts[] = {{to, size - 1}, {to + size - 1, 1}};
    return calls::preadv(as_fd(buffers_.file()), parts, 2, static_cast<off_t>(from - buffers)) ==
           static_cast<ssize_t>(size);
}

/// FUTEX_WAKE_OP with an addition of zero: a system call that writes a word atomically in place.
bool is_writable(std::uint64_t *word)
{
    static_assert(FUTEX_OP_ADD == 1 && FUTEX_OP_CMP_EQ == 0);
    std::uint32_t no_waiters = 0;
    constexpr unsigned add_nothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0xfff);
    return syscall(SYS_futex, &no_waiters, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 0, word,
                   add_nothing) >= 0 ||
           errno != EFAULT;
}

// -------------------------------------------------------------------------------------- datagrams

template <class Batch>
send_result udp_io::send_by(Batch &batch, const net_address &to, const out_packet *packets,
                            std::uint32_t count, std::uint32_t &done)
{
    constexpr int most_errors = 3;
    done = 0;
    int errors = 0;
    bool together = segmentation_.is_on();
    while (done < count) {
        batch.fill(to, packets + done, count - done, together);
        const int sent =
            batch.count() == 1
                ? (calls::sendmsg(as_fd(socket_), &batch.messages()[0].msg_hdr, 0) < 0 ? -1 : 1)
                : calls::sendmmsg(as_fd(socket_), batch.messages(), batch.count(), 0);
        for (int i = 0; i < sent; ++i)
            done += batch.packets_in(static_cast<std::uint32_t>(i));
        if (sent > 0) {
            if (batch.packets_in(0) > 1)
                segmentation_.worked();
            continue;
        }
        const int error = errno;
        if (error == EINTR)
            continue;
        if (together && batch.packets_in(0) > 1 && denies_segmentation(error, errors != 0)) {
            together = false; // the path of these packets takes no super-packet
            segmentation_.failed();
            continue;
        }
        // An ICMP error about an earlier packet, to whatever address, is returned once.
        const send_result result = result_of(error);
        if (result == send_result::bad_memory || error == EAGAIN || error == ENOBUFS)
            return result;
        if (++errors < most_errors)
            continue;
        if (result == send_result::unreachable && !has_no_route(address_, to))
            return send_result::busy;
        return result;
    }
    return send_result::sent;
}

send_result udp_io::send(const net_address &to, const out_packet *packets, std::uint32_t count,
                         std::uint32_t &done)
{
    if (count == 1) {
        single_packet single;
        return send_by(single, to, packets, count, done);
    }
    if (count > small_batch)
        if (const auto large = messages_.borrow(); large.get() != nullptr)
            return send_by(large.get()->batch, to, packets, count, done);
    send_batch<small_batch> batch;
    return send_by(batch, to, packets, count, done);
}

std::uint32_t udp_io::receive(in_packets *into, std::uint32_t capacity)
{
    mmsghdr messages[batch];
    iovec pieces[batch];
    small_control controls[batch];
    const std::uint32_t wanted = capacity < batch_ ? capacity : batch_;
    for (std::uint32_t i = 0; i < wanted; ++i) {
        pieces[i] = {buffers_.bytes() + i * buffer_size, buffer_size};
        msghdr &m = messages[i].msg_hdr;
        m = {};
        m.msg_name = into[i].from.get();
        m.msg_namelen = net_address::capacity();
        m.msg_iov = &pieces[i];
        m.msg_iovlen = 1;
        m.msg_control = controls[i].bytes;
        m.msg_controllen = sizeof controls[i].bytes;
    }
    int got = calls::recvmmsg(as_fd(socket_), messages, wanted, MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN) // an ICMP error, which is returned once in place of datagrams
        got = calls::recvmmsg(as_fd(socket_), messages, wanted, MSG_DONTWAIT);
    for (int i = 0; i < got; ++i) {
        into[i].bytes = static_cast<std::uint8_t *>(pieces[i].iov_base);
        into[i].size = messages[i].msg_len;
        into[i].segment = segment_of(messages[i].msg_hdr, messages[i].msg_len);
        into[i].from.set_traffic_class(class_of(messages[i].msg_hdr));
    }
    return got > 0 ? static_cast<std::uint32_t>(got) : 0;
}

bool udp_io::take_icmp_error(icmp_error &out)
{
    alignas(cmsghdr) char control[512];
    iovec piece{out.bytes, sizeof out.bytes};
    msghdr m{};
    m.msg_name = out.to.get();
    m.msg_namelen = net_address::capacity();
    m.msg_iov = &piece;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    const ssize_t got = calls::recvmsg(as_fd(socket_), &m, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got < 0)
        return false;
    out.size = static_cast<std::size_t>(got);
    out.why = send_result::busy;
    for (cmsghdr *c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
        if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
            (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            sock_extended_err error{};
            std::memcpy(&error, CMSG_DATA(c), sizeof error);
            out.why = result_of(static_cast<int>(error.ee_errno));
        }
    return true;
}

void udp_io::probe_port(const net_address &, const out_packet &)
{
    // Linux reports closed ports in the error queue by itself.
}

bool sets_traffic_classes(int)
{
    return true;
}

bool is_address_in_use(int error)
{
    return error == EADDRINUSE;
}

bool is_forbidden(int error)
{
    return error == EACCES;
}

// ------------------------------------------------------------------------------------- sleeping

bool wake_signal::open()
{
    descriptor_ = osd::beyond_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return is_open();
}

void wake_signal::close()
{
    if (is_open())
        ::close(as_fd(descriptor_));
    descriptor_ = -1;
}

void wake_signal::raise()
{
    const eventfd_t one = 1;
    (void)syscall(SYS_write, as_fd(descriptor_), &one, sizeof one);
}

void wake_signal::clear()
{
    eventfd_t count;
    (void)syscall(SYS_read, as_fd(descriptor_), &count, sizeof count);
}

bool wake_timer::open()
{
    descriptor_ = osd::beyond_standard(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return is_open();
}

void wake_timer::close()
{
    if (is_open())
        ::close(as_fd(descriptor_));
    descriptor_ = -1;
}

void wake_timer::set(std::int64_t at_ns)
{
    constexpr std::int64_t second = 1'000'000'000;
    const std::int64_t at = at_ns < 1 ? 1 : at_ns; // 0 is none
    itimerspec when{};
    if (at_ns != INT64_MAX)
        when.it_value = {static_cast<std::time_t>(at / second), static_cast<long>(at % second)};
    (void)timerfd_settime(as_fd(descriptor_), TFD_TIMER_ABSTIME, &when, nullptr);
}

bool descriptor_set::open()
{
    descriptor_ = osd::beyond_standard(epoll_create1(EPOLL_CLOEXEC));
    return descriptor_ >= 0;
}

void descriptor_set::close()
{
    if (descriptor_ >= 0)
        ::close(as_fd(descriptor_));
    descriptor_ = -1;
}

bool descriptor_set::add(waitable member)
{
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(as_fd(descriptor_), EPOLL_CTL_ADD, as_fd(member), &event) == 0;
}

void descriptor_set::remove(waitable member)
{
    (void)epoll_ctl(as_fd(descriptor_), EPOLL_CTL_DEL, as_fd(member), nullptr);
}

void descriptor_set::clear()
{
    // It is readable as long as one of its members is.
}

const std::int64_t long_pause_ns = 100'000;

/// A program that closes all descriptors, as a daemon does at its start, closes the device's too.
const std::int64_t longest_sleep_ns = 2'000'000'000;

osd::wait_result wait_for(const waitable *descriptors, std::uint32_t count, osd::deadline until,
                          std::uint64_t *ready)
{
    int watched[osd::most_readable];
    const std::size_t used = std::min<std::size_t>(count, osd::most_readable);
    std::transform(descriptors, descriptors + used, watched, as_fd);
    std::uint64_t found = 0;
    const osd::wait_result result = osd::wait_readable({watched, used}, until, found);
    if (ready != nullptr)
        *ready = found;
    return result;
}

} // namespace soft_hca
