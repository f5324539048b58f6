// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net_classes_windows.hpp"

#include <cstring>

namespace soft_hca {
namespace {

/// How datagrams get a class: from Windows 11 on each has it as control data; Wine, and Windows
/// where its administrator allows it, has an option of the socket.
enum class way : std::uint8_t { untried, none, control, option };

struct family_names {
    explicit family_names(int family)
        : level(family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP),
          set(family == AF_INET6 ? IPV6_TCLASS : IP_TOS),
          tell(family == AF_INET6 ? IPV6_RECVTCLASS : IP_RECVTOS)
    {}
    int level;
    int set;
    int tell;
};

int set_number(SOCKET socket, int level, int name, int value)
{
    return setsockopt(socket, level, name, reinterpret_cast<const char *>(&value), sizeof value);
}

int error_of(int result)
{
    return result == 0 ? 0 : WSAGetLastError();
}

int send_plainly(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count)
{
    DWORD sent = 0;
    return error_of(WSASendTo(socket, pieces, count, &sent, 0, to.get(),
                              static_cast<int>(to.size()), nullptr, nullptr));
}

int send_with_control(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count)
{
    const family_names names(to.family());
    const int value = to.traffic_class();
    alignas(WSACMSGHDR) char control[WSA_CMSG_SPACE(sizeof value)] = {};
    auto *const head = reinterpret_cast<WSACMSGHDR *>(control);
    head->cmsg_len = WSA_CMSG_LEN(sizeof value);
    head->cmsg_level = names.level;
    head->cmsg_type = names.set;
    std::memcpy(WSA_CMSG_DATA(head), &value, sizeof value);
    WSAMSG message{const_cast<sockaddr *>(to.get()),
                   static_cast<int>(to.size()),
                   pieces,
                   count,
                   {sizeof control, control},
                   0};
    DWORD sent = 0;
    return error_of(WSASendMsg(socket, &message, 0, &sent, nullptr, nullptr));
}

/// A socket of the loopback interface that sends itself a datagram in each way.
class trial {
public:
    explicit trial(int family) : family_(family)
    {
        WSADATA about;
        started_ = WSAStartup(MAKEWORD(2, 2), &about) == 0;
        socket_ = socket(family, SOCK_DGRAM, 0);
        int size = static_cast<int>(net_address::capacity());
        if (at_.read(family == AF_INET6 ? "::1" : "127.0.0.1") &&
            bind(socket_, at_.get(), static_cast<int>(at_.size())) == 0 &&
            getsockname(socket_, at_.get(), &size) == 0)
            receive_ = tell_classes(socket_, family);
        at_.set_traffic_class(sample);
    }
    ~trial()
    {
        if (socket_ != INVALID_SOCKET)
            closesocket(socket_);
        if (started_)
            WSACleanup();
    }

    way best()
    {
        if (receive_ == nullptr)
            return way::none;
        char byte = 0;
        WSABUF piece{sizeof byte, &byte};
        if (send_with_control(socket_, at_, &piece, 1) == 0 && arrives_so())
            return way::control;
        const family_names names(family_);
        if (set_number(socket_, names.level, names.set, sample) == 0 &&
            send_plainly(socket_, at_, &piece, 1) == 0 && arrives_so())
            return way::option;
        return way::none;
    }

private:
    static constexpr int sample = 0x28;
    static constexpr int patience_ms = 1000;

    bool arrives_so()
    {
        WSAPOLLFD one{socket_, POLLRDNORM, 0};
        char byte = 0;
        WSABUF piece{sizeof byte, &byte};
        net_address from;
        DWORD got = 0;
        return WSAPoll(&one, 1, patience_ms) == 1 &&
               receive_with_class(socket_, receive_, from, piece, got) == 0 &&
               from.traffic_class() == sample;
    }

    int family_;
    bool started_ = false;
    SOCKET socket_ = INVALID_SOCKET;
    net_address at_;
    LPFN_WSARECVMSG receive_ = nullptr;
};

way way_of(int family)
{
    static std::atomic<way> known[2] = {way::untried, way::untried};
    std::atomic<way> &own = known[family == AF_INET6 ? 1 : 0];
    if (own.load() == way::untried)
        own.store(trial(family).best());
    return own.load();
}

} // namespace

bool sets_traffic_classes(int family)
{
    return way_of(family) != way::none;
}

int class_sender::send(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count)
{
    if (to.traffic_class() == 0 && !used_.load(std::memory_order_relaxed)) [[likely]]
        return send_plainly(socket, to, pieces, count);
    switch (way_of(to.family())) {
    case way::control:
        return send_with_control(socket, to, pieces, count);
    case way::option:
        used_.store(true, std::memory_order_relaxed);
        return send_by_option(socket, to, pieces, count);
    default:
        return send_plainly(socket, to, pieces, count);
    }
}

int class_sender::send_by_option(SOCKET socket, const net_address &to, WSABUF *pieces, DWORD count)
{
    const family_names names(to.family());
    const osd::lock_guard guard(lock_);
    if (option_ != to.traffic_class() &&
        set_number(socket, names.level, names.set, to.traffic_class()) == 0)
        option_ = to.traffic_class();
    return send_plainly(socket, to, pieces, count);
}

LPFN_WSARECVMSG tell_classes(SOCKET socket, int family)
{
    const family_names names(family);
    GUID id = WSAID_WSARECVMSG;
    LPFN_WSARECVMSG call = nullptr;
    DWORD size = 0;
    if (set_number(socket, names.level, names.tell, 1) != 0 ||
        WSAIoctl(socket, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof id, &call, sizeof call,
                 &size, nullptr, nullptr) != 0)
        return nullptr;
    return call;
}

int receive_with_class(SOCKET socket, LPFN_WSARECVMSG call, net_address &from, WSABUF &piece,
                       DWORD &got)
{
    alignas(WSACMSGHDR) char control[256] = {};
    WSAMSG message{
        from.get(), static_cast<int>(net_address::capacity()), &piece, 1, {sizeof control, control},
        0};
    if (call(socket, &message, &got, nullptr, nullptr) != 0)
        return WSAGetLastError();
    from.set_traffic_class(0);
    for (auto *c = WSA_CMSG_FIRSTHDR(&message); c != nullptr; c = WSA_CMSG_NXTHDR(&message, c)) {
        const family_names names(from.family());
        if (c->cmsg_level != names.level ||
            (c->cmsg_type != names.set && c->cmsg_type != names.tell))
            continue;
        int value = 0;
        std::memcpy(&value, WSA_CMSG_DATA(c), sizeof value);
        from.set_traffic_class(static_cast<unsigned>(value));
    }
    return 0;
}

} // namespace soft_hca
