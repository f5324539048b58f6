// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counts packets of the soft port that say that a message found no receive. It sends them where
// receives are shared; elsewhere the sender knows of the receives, and waits. The port sends by
// syscall(), and this program's function of that name comes before the C library's.
#include "packets.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace {

std::atomic<std::uint64_t> not_ready{0};

// docs/soft-wire.md: version, kind, flags
constexpr std::uint8_t version = 1, kind_ack = 2, flag_receiver_not_ready = 1;

void look_at(const msghdr &message)
{
    if (message.msg_iovlen == 0 || message.msg_iov[0].iov_len < 4)
        return;
    const auto *bytes = static_cast<const std::uint8_t *>(message.msg_iov[0].iov_base);
    if (bytes[0] == version && bytes[1] == kind_ack &&
        ((bytes[2] | bytes[3]) & flag_receiver_not_ready) != 0)
        ++not_ready;
}

[[maybe_unused]] void look(long number, const long *args)
{
    if (number == SYS_sendmsg)
        look_at(*reinterpret_cast<const msghdr *>(args[1]));
    else if (number == SYS_sendmmsg)
        for (long i = 0; i < args[2]; ++i)
            look_at(reinterpret_cast<const mmsghdr *>(args[1])[i].msg_hdr);
}

} // namespace

#ifdef INTERPOSE // the runtime of a sanitizer needs the C library's
extern "C" long syscall(long number, ...) noexcept
{
    static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    long args[6];
    va_list list;
    va_start(list, number);
    for (long &arg : args)
        arg = va_arg(list, long);
    va_end(list);
    look(number, args);
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
#endif

std::uint64_t ranks::receiver_not_ready()
{
    return not_ready;
}
