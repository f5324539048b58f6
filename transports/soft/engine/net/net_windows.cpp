// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every system call of the engine on Windows.
#include "net.hpp"

#include "net_classes_windows.hpp"
#include "osd_thread.hpp"

#include <algorithm>
#include <bcrypt.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iphlpapi.h>
#include <iterator>
#include <memory>
#include <mstcpip.h>
#include <new>

#undef interface // a macro of the headers above, and a name elsewhere

#ifndef SIO_UDP_CONNRESET // missing from some headers
#define SIO_UDP_CONNRESET _WSAIOW(IOC_VENDOR, 12)
#endif

namespace soft_hca {

// -------------------------------------------------------------------------------- the interface

namespace {

struct freed {
    void operator()(void *memory) const { std::free(memory); }
};
using adapter_list = std::unique_ptr<IP_ADAPTER_ADDRESSES, freed>;

/// Returns null when there is no memory, or the system does not tell.
adapter_list adapters()
{
    ULONG size = 32768;
    for (int attempt = 0; attempt < 4; ++attempt) { // there may be more of them each time
        adapter_list list(static_cast<IP_ADAPTER_ADDRESSES *>(std::malloc(size)));
        if (list == nullptr)
            return nullptr;
        const ULONG error = GetAdaptersAddresses(AF_UNSPEC, 0, nullptr, list.get(), &size);
        if (error == NO_ERROR)
            return list;
        if (error != ERROR_BUFFER_OVERFLOW)
            return nullptr;
    }
    return nullptr;
}

/// The name in UTF-8; empty when it is too long.
struct adapter_name {
    explicit adapter_name(const IP_ADAPTER_ADDRESSES &of)
    {
        if (WideCharToMultiByte(CP_UTF8, 0, of.FriendlyName, -1, text, sizeof text, nullptr,
                                nullptr) == 0)
            text[0] = '\0';
    }
    char text[sizeof interface_info::name];
};

/// The loopback interface has a long name here, and is also found as "lo", as in dat.conf.
bool is_called(const IP_ADAPTER_ADDRESSES &adapter, const char *name)
{
    return std::strcmp(adapter_name(adapter).text, name) == 0 ||
           (adapter.IfType == IF_TYPE_SOFTWARE_LOOPBACK && std::strcmp(name, "lo") == 0);
}

/// The address of the adapter that is meant, or null.
const sockaddr *address_in(const IP_ADAPTER_ADDRESSES &adapter, const char *name,
                           const net_address &wanted, int family)
{
    const bool by_address = wanted.family() != AF_UNSPEC;
    if (!by_address && !is_called(adapter, name))
        return nullptr;
    for (const auto *each = adapter.FirstUnicastAddress; each != nullptr; each = each->Next) {
        net_address has;
        if (has.assign(each->Address.lpSockaddr) &&
            (by_address ? has.same_host(wanted) : has.family() == family))
            return each->Address.lpSockaddr;
    }
    return nullptr;
}

} // namespace

int look_up_interface(const char *name, unsigned family, interface_info &out)
{
    net_address wanted;
    (void)wanted.read(name);
    const adapter_list list = adapters();
    for (const auto *each = list.get(); each != nullptr; each = each->Next) {
        const sockaddr *found = address_in(*each, name, wanted, family == 6 ? AF_INET6 : AF_INET);
        if (found == nullptr)
            continue;
        (void)out.address.assign(found);
        out.address.set_port(0);
        std::snprintf(out.name, sizeof out.name, "%s", adapter_name(*each).text);
        out.mtu = each->Mtu;
        out.loopback = each->IfType == IF_TYPE_SOFTWARE_LOOPBACK;
        return 0;
    }
    return ENODEV;
}

bool random_bytes(void *out, std::size_t size)
{
    return BCryptGenRandom(nullptr, static_cast<UCHAR *>(out), static_cast<ULONG>(size),
                           BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0;
}

// ------------------------------------------------------------------------------------- sleeping

namespace {

/// What a waitable is the address of: an event, set as long as there may be something.
struct source {
    HANDLE event = nullptr;
    SOCKET socket = INVALID_SOCKET;     ///< that sets it, if one does
    std::atomic<source *> set{nullptr}; ///< that it is in: a socket sets the event there, not here
    std::atomic<bool> has_woken{false}; ///< a sleep was ended since the event was reset

    /// Resets the event before what set it is looked at: what comes later, or is left behind, sets
    /// it again. Most looks find an event that has woken nobody, and save that call of the system:
    /// one that is set all the same ends one sleep at once.
    void reset_if_woken()
    {
        if (has_woken.load(std::memory_order_relaxed) && has_woken.exchange(false))
            ResetEvent(event);
    }
};

source *source_of(waitable descriptor)
{
    return reinterpret_cast<source *>(descriptor);
}

/// Returns false when the system has none left. All stay set until they are reset.
bool open_event(source &made)
{
    made.event = CreateEventW(nullptr, TRUE, FALSE, nullptr);
    return made.event != nullptr;
}

waitable open_source()
{
    auto *made = new (std::nothrow) source;
    if (made != nullptr && !open_event(*made)) {
        delete made;
        made = nullptr;
    }
    return made != nullptr ? reinterpret_cast<waitable>(made) : -1;
}

void close_source(waitable descriptor)
{
    if (descriptor < 0)
        return;
    CloseHandle(source_of(descriptor)->event);
    delete source_of(descriptor);
}

} // namespace

bool wake_signal::open()
{
    descriptor_ = open_source();
    return is_open();
}

void wake_signal::close()
{
    close_source(descriptor_);
    descriptor_ = -1;
}

void wake_signal::raise()
{
    if (!is_open())
        return;
    source &own = *source_of(descriptor_);
    SetEvent(own.event);
    if (const source *set = own.set.load(); set != nullptr)
        SetEvent(set->event);
}

void wake_signal::clear()
{
    if (is_open())
        ResetEvent(source_of(descriptor_)->event);
}

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION // missing from some headers
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 2
#endif

/// Other sleeps end with a tick of the system, of up to 16 ms; before Windows 10 1803 this one too.
bool wake_timer::open()
{
    auto *made = new (std::nothrow) source;
    if (made == nullptr)
        return false;
    constexpr DWORD stays_set = CREATE_WAITABLE_TIMER_MANUAL_RESET;
    for (const DWORD how : {stays_set | CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, stays_set})
        if (made->event == nullptr)
            made->event = CreateWaitableTimerExW(nullptr, nullptr, how, TIMER_ALL_ACCESS);
    if (made->event != nullptr)
        descriptor_ = reinterpret_cast<waitable>(made);
    else
        delete made;
    return is_open();
}

void wake_timer::close()
{
    close_source(descriptor_);
    descriptor_ = -1;
}

/// To cancel a timer would leave it set: none is a time in some years.
void wake_timer::set(std::int64_t at_ns)
{
    constexpr std::int64_t unit_ns = 100;
    constexpr std::int64_t years_ns = INT64_MAX / 4;
    const std::int64_t left_ns =
        at_ns == INT64_MAX ? years_ns : std::max<std::int64_t>(at_ns - osd::now_ns(), 1);
    LARGE_INTEGER due; // negative: from now on
    due.QuadPart = -((left_ns + unit_ns - 1) / unit_ns);
    (void)SetWaitableTimer(source_of(descriptor_)->event, &due, 0, nullptr, nullptr, FALSE);
}

bool descriptor_set::open()
{
    descriptor_ = open_source();
    return descriptor_ >= 0;
}

void descriptor_set::close()
{
    close_source(descriptor_);
    descriptor_ = -1;
}

/// One event for all, because a thread can sleep on no more than 64. The system sets it at once if
/// there is something to read already.
bool descriptor_set::add(waitable member)
{
    source &set = *source_of(descriptor_);
    source &one = *source_of(member);
    if (one.socket != INVALID_SOCKET && WSAEventSelect(one.socket, set.event, FD_READ) != 0)
        return false;
    one.set.store(&set);
    if (one.socket == INVALID_SOCKET && WaitForSingleObject(one.event, 0) == WAIT_OBJECT_0)
        SetEvent(set.event);
    return true;
}

void descriptor_set::remove(waitable member)
{
    source &one = *source_of(member);
    if (one.socket != INVALID_SOCKET)
        (void)WSAEventSelect(one.socket, one.event, FD_READ);
    one.set.store(nullptr);
}

void descriptor_set::clear()
{
    source_of(descriptor_)->reset_if_woken();
}

/// By Wine a call of the system takes ten microseconds and more, and a round trip ten of them.
const std::int64_t long_pause_ns = 500'000;

/// Handles have no numbers that a program would close unseen.
const std::int64_t longest_sleep_ns = INT64_MAX;

namespace {

/// Pauses with nothing to sleep on. Sleep() takes a tick at least, which is too long for shorter
/// pauses.
void pause(osd::deadline until)
{
    const int left_ms = until.remaining_ms();
    if (left_ms < 0 || left_ms > 1)
        Sleep(left_ms < 0 ? INFINITE : static_cast<DWORD>(left_ms));
    while (!until.has_passed())
        osd::yield();
}

/// The events of descriptors, as the system wants them. Negative descriptors have none; a socket in
/// a set has the event of the set, too.
class event_list {
public:
    event_list(const waitable *descriptors, std::uint32_t count)
    {
        for (std::uint32_t i = 0; i < count; ++i)
            if (descriptors[i] >= 0) {
                source &one = *source_of(descriptors[i]);
                add(one, i);
                if (source *set = one.set.load(); set != nullptr && one.socket != INVALID_SOCKET)
                    add(*set, i);
            }
    }

    bool empty() const { return used_ == 0; }
    DWORD wait(DWORD limit_ms) const
    {
        return WaitForMultipleObjects(used_, events_, FALSE, limit_ms);
    }
    /// Notes which of them may have ended a sleep, and returns a bit for each: the system names the
    /// first that is set, and says nothing of those behind it.
    std::uint64_t note_wake(DWORD result) const
    {
        std::uint64_t ready = 0;
        // A sleep that fails says nothing of any.
        for (DWORD i = result < WAIT_OBJECT_0 + used_ ? result - WAIT_OBJECT_0 : 0; i < used_;
             ++i) {
            sources_[i]->has_woken.store(true);
            ready |= std::uint64_t{1} << places_[i];
        }
        return ready;
    }

private:
    void add(source &one, std::uint32_t place)
    {
        if (used_ == MAXIMUM_WAIT_OBJECTS)
            return;
        sources_[used_] = &one;
        events_[used_] = one.event;
        places_[used_++] = place;
    }

    DWORD used_ = 0;
    HANDLE events_[MAXIMUM_WAIT_OBJECTS];
    source *sources_[MAXIMUM_WAIT_OBJECTS];
    std::uint32_t places_[MAXIMUM_WAIT_OBJECTS];
};

} // namespace

osd::wait_result wait_for(const waitable *descriptors, std::uint32_t count, osd::deadline until,
                          std::uint64_t *ready)
{
    const event_list events(descriptors, count);
    if (events.empty()) {
        pause(until);
        return osd::wait_result::timed_out;
    }
    // The limit is cut to what an int holds, and counts in ticks: it may end before its time.
    do {
        const int left_ms = until.remaining_ms();
        const DWORD limit = left_ms < 0 ? INFINITE : static_cast<DWORD>(left_ms);
        if (const DWORD result = events.wait(limit); result != WAIT_TIMEOUT) {
            const std::uint64_t woken = events.note_wake(result);
            if (ready != nullptr)
                *ready = woken;
            return osd::wait_result::woken;
        }
    } while (!until.has_passed());
    return osd::wait_result::timed_out;
}

// ------------------------------------------------------------------------------------------ UDP

namespace {

constexpr int buffer_bytes = 4 << 20;

send_result result_of(int error)
{
    switch (error) {
    case WSAEFAULT:
        return send_result::bad_memory;
    case WSAECONNRESET:
    case WSAECONNREFUSED:
        return send_result::refused;
    case WSAENETUNREACH:
    case WSAEHOSTUNREACH:
    case WSAENETDOWN:
    case WSAEHOSTDOWN:
    case WSAEADDRNOTAVAIL:
    case WSAEINVAL:
    case WSAEACCES:
        return send_result::unreachable;
    default:
        return send_result::busy;
    }
}

/// Bound, and setting the event when something comes: from then on no call of it blocks.
SOCKET open_socket(const net_address &at, HANDLE event)
{
    const SOCKET made = WSASocketW(at.family(), SOCK_DGRAM, 0, nullptr, 0,
                                   WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    // others could share the port with us otherwise
    const BOOL alone = TRUE;
    if (made == INVALID_SOCKET ||
        (setsockopt(made, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, reinterpret_cast<const char *>(&alone),
                    sizeof alone) == 0 &&
         bind(made, at.get(), static_cast<int>(at.size())) == 0 &&
         WSAEventSelect(made, event, FD_READ) == 0))
        return made;
    const int error = WSAGetLastError();
    closesocket(made);
    WSASetLastError(error);
    return INVALID_SOCKET;
}

/// A socket that finds out for packets of ours whether the port at their destination is closed.
///
/// The system reports a closed port with the next call on the socket, but quotes nothing, so that
/// the report is ambiguous on a socket with many peers. There it is switched off. This socket is
/// connected to one peer only, and all packets that are sent there meanwhile share its report: a
/// burst of requests to one listener would open a socket for each otherwise.
class scout {
public:
    ~scout() { close(); }

    bool is_for(const net_address &to) const { return count_ != 0 && to_ == to; }

    void probe(const net_address &from, const net_address &to, const out_packet &packet,
               HANDLE event)
    {
        const std::int64_t now = osd::now_ns();
        if (!is_for(to) || now - asked_ns_ > age_ns)
            ask(from, to, event, now);
        if (socket_ == INVALID_SOCKET)
            return;
        quote &copy = quotes_[count_ < most ? count_++ : most - 1];
        copy.size = std::min<std::size_t>(packet.piece[0].size, sizeof copy.bytes);
        std::memcpy(copy.bytes, packet.piece[0].at, copy.size);
    }

    /// Returns true for each packet whose port was reported as closed.
    bool found_closed(icmp_error &out)
    {
        if (count_ == 0 || (socket_ != INVALID_SOCKET && !has_report()))
            return false;
        const quote &last = quotes_[--count_];
        out.to = to_;
        out.why = why_;
        out.size = last.size;
        std::memcpy(out.bytes, last.bytes, last.size);
        return true;
    }

private:
    static constexpr std::uint32_t most = 16;
    /// A datagram that was sent so long ago says nothing of the port as it is now.
    static constexpr std::int64_t age_ns = 200'000'000;
    static constexpr std::int64_t patience_ns = 1'000'000'000; ///< for a report

    struct quote {
        std::uint8_t bytes[sizeof icmp_error::bytes];
        std::size_t size;
    };

    void close()
    {
        if (socket_ != INVALID_SOCKET)
            closesocket(socket_);
        socket_ = INVALID_SOCKET;
    }

    /// The datagram is empty: engines drop it.
    void ask(const net_address &from, const net_address &to, HANDLE event, std::int64_t now)
    {
        close();
        count_ = 0;
        to_ = to;
        asked_ns_ = now;
        net_address any_port = from;
        any_port.set_port(0);
        socket_ = open_socket(any_port, event);
        if (socket_ != INVALID_SOCKET &&
            (connect(socket_, to.get(), static_cast<int>(to.size())) != 0 ||
             send(socket_, "", 0, 0) != 0))
            close();
    }

    /// Each look costs two calls of the system: a socket without a report is closed after a while.
    bool has_report()
    {
        const int error = error_of_last();
        if (error != 0)
            why_ = result_of(error);
        else if (osd::now_ns() - asked_ns_ > patience_ns)
            count_ = 0;
        if (error != 0 || count_ == 0)
            close();
        return error != 0;
    }

    /// Windows reports it on receive; Wine only by SO_ERROR.
    int error_of_last() const
    {
        char none;
        if (recv(socket_, &none, sizeof none, 0) < 0 && WSAGetLastError() != WSAEWOULDBLOCK)
            return WSAGetLastError();
        int error = 0;
        int size = sizeof error;
        (void)getsockopt(socket_, SOL_SOCKET, SO_ERROR, reinterpret_cast<char *>(&error), &size);
        return error;
    }

    SOCKET socket_ = INVALID_SOCKET; ///< invalid once there is a report
    net_address to_;
    std::int64_t asked_ns_ = 0;
    send_result why_ = send_result::refused;
    std::uint32_t count_ = 0;
    quote quotes_[most];
};

struct udp_source : source {
    scout &scout_for(const net_address &to)
    {
        for (scout &each : scouts)
            if (each.is_for(to))
                return each;
        return scouts[next_scout++ % std::size(scouts)];
    }
    scout scouts[16];
    std::uint32_t next_scout = 0;
    std::atomic<std::uint32_t> expected{1}; ///< datagrams of the next look
    class_sender classes;
    LPFN_WSARECVMSG receive_with_class = nullptr; ///< where the class of datagrams is wanted
};

udp_source &udp_of(waitable descriptor)
{
    return *static_cast<udp_source *>(source_of(descriptor));
}

void set_option(SOCKET socket, int name, int value)
{
    // An option that the system refuses costs speed only.
    (void)setsockopt(socket, SOL_SOCKET, name, reinterpret_cast<const char *>(&value),
                     sizeof value);
}

void ignore_refusals(SOCKET socket)
{
    BOOL on = FALSE;
    DWORD none = 0;
    (void)WSAIoctl(socket, SIO_UDP_CONNRESET, &on, sizeof on, nullptr, 0, &none, nullptr, nullptr);
}

} // namespace

/// This system needs no areas: datagrams are sent one by one.
struct message_area {};

udp_io::udp_io() = default;

udp_io::~udp_io()
{
    close();
}

namespace {

/// Wine 8 binds no socket after Winsock was unloaded and loaded again, as it would be with the last
/// library that needs it: error 10038.
void keep_winsock_loaded()
{
    HMODULE winsock = nullptr;
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, L"ws2_32.dll", &winsock);
}

} // namespace

int udp_io::open(const net_address &at, bool for_data)
{
    WSADATA about;
    keep_winsock_loaded();
    // Counted by the system; close() has the other half.
    if (const int error = WSAStartup(MAKEWORD(2, 2), &about); error != 0)
        return error;
    address_ = at;
    batch_ = for_data ? batch : 1;
    auto *own = new (std::nothrow) udp_source;
    if (own == nullptr) {
        WSACleanup();
        return ENOMEM;
    }
    socket_ = reinterpret_cast<waitable>(static_cast<source *>(own));
    if (!buffers_.open(batch_ * buffer_size, kernel_buffer::backing::anonymous) ||
        !open_event(*own)) {
        close();
        return ENOMEM;
    }
    own->socket = open_socket(at, own->event);
    int size = static_cast<int>(net_address::capacity());
    if (own->socket == INVALID_SOCKET || getsockname(own->socket, address_.get(), &size) != 0) {
        const int error = WSAGetLastError();
        close();
        return error;
    }
    ignore_refusals(own->socket);
    if (for_data) {
        set_option(own->socket, SO_RCVBUF, buffer_bytes);
        set_option(own->socket, SO_SNDBUF, buffer_bytes);
    } else if (sets_traffic_classes(at.family())) {
        // who accepts a connection request sends in the class that this came in
        own->receive_with_class = tell_classes(own->socket, at.family());
    }
    int room = 0;
    size = sizeof room;
    (void)getsockopt(own->socket, SOL_SOCKET, SO_RCVBUF, reinterpret_cast<char *>(&room), &size);
    receive_room_ = static_cast<std::uint32_t>(room);
    return 0;
}

void udp_io::close()
{
    if (socket_ >= 0) {
        udp_source &own = udp_of(socket_);
        if (own.socket != INVALID_SOCKET)
            closesocket(own.socket);
        if (own.event != nullptr)
            CloseHandle(own.event);
        delete &own;
        WSACleanup();
    }
    socket_ = -1;
    buffers_.close();
}

/// One by one: there are no super-packets.
send_result udp_io::send(const net_address &to, const out_packet *packets, std::uint32_t count,
                         std::uint32_t &done)
{
    udp_source &own = udp_of(socket_);
    for (done = 0; done < count; ++done) {
        const out_packet &packet = packets[done];
        WSABUF pieces[out_packet::max_pieces];
        for (std::uint32_t p = 0; p < packet.pieces; ++p)
            pieces[p] = {static_cast<ULONG>(packet.piece[p].size),
                         static_cast<char *>(const_cast<void *>(packet.piece[p].at))};
        if (const int error = own.classes.send(own.socket, to, pieces, packet.pieces); error != 0)
            return result_of(error);
    }
    return send_result::sent;
}

namespace {

/// Receives a datagram. Returns 0, or Winsock's error.
int receive_one(const udp_source &own, net_address &from, WSABUF &piece, DWORD &got)
{
    if (own.receive_with_class != nullptr)
        return receive_with_class(own.socket, own.receive_with_class, from, piece, got);
    int size = static_cast<int>(net_address::capacity());
    DWORD flags = 0;
    return WSARecvFrom(own.socket, &piece, 1, &got, &flags, from.get(), &size, nullptr, nullptr) ==
                   0
               ? 0
               : WSAGetLastError();
}

} // namespace

/// Reads one datagram more than the last time, or one alone when that found fewer than it read: a
/// read that finds nothing takes as long as one that finds the next message.
std::uint32_t udp_io::receive(in_packets *into, std::uint32_t capacity)
{
    udp_source &own = udp_of(socket_);
    const std::uint32_t wanted =
        std::min({own.expected.load(std::memory_order_relaxed), capacity, batch_});
    own.reset_if_woken();
    std::uint32_t count = 0;
    while (count < wanted) {
        in_packets &next = into[count];
        next.bytes = buffers_.bytes() + count * buffer_size;
        WSABUF piece{static_cast<ULONG>(buffer_size), reinterpret_cast<char *>(next.bytes)};
        DWORD got = 0;
        const int error = receive_one(own, next.from, piece, got);
        if (error == 0) {
            next.size = next.segment = got;
            ++count;
        } else if (error != WSAECONNRESET && error != WSAENETRESET) {
            break; // these errors are about a datagram that we sent
        }
    }
    own.expected.store(count < wanted ? 1 : count + 1, std::memory_order_relaxed);
    return count;
}

bool udp_io::place(std::uint8_t *to, const std::uint8_t *from, std::size_t size, bool last_last)
{
    return packet_io::place(to, from, size, last_last);
}

bool kernel_buffer::open(std::size_t size, backing)
{
    bytes_ = new (std::nothrow) std::uint8_t[size];
    size_ = size;
    return is_open();
}

void kernel_buffer::close()
{
    delete[] bytes_;
    bytes_ = nullptr;
}

std::size_t gather_buffer::gather()
{
    return copy();
}

bool is_writable(std::uint64_t *)
{
    return true;
}

bool udp_io::take_icmp_error(icmp_error &out)
{
    for (scout &each : udp_of(socket_).scouts)
        if (each.found_closed(out))
            return true;
    return false;
}

void udp_io::probe_port(const net_address &to, const out_packet &packet)
{
    udp_source &own = udp_of(socket_);
    own.scout_for(to).probe(address_, to, packet, own.event);
}

bool is_address_in_use(int error)
{
    return error == WSAEADDRINUSE || error == EADDRINUSE; // the engine itself says the latter
}

bool is_forbidden(int error)
{
    return error == WSAEACCES || error == EACCES;
}

} // namespace soft_hca
