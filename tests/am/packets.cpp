// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counts packets of the soft port that say that a message found no receive. It sends them where
// receives are shared; elsewhere the sender knows of the receives, and waits. The port sends by
// syscall(), and this program's function of that name comes before the C library's.
#include "packets.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
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
    long args[6];
    va_list list;
    va_start(list, number);
    for (long &arg : args)
        arg = va_arg(list, long);
    va_end(list);
    look(number, args);
    long result = number;
    register long r10 asm("r10") = args[3];
    register long r8 asm("r8") = args[4];
    register long r9 asm("r9") = args[5];
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    if (result >= 0 || result < -4095)
        return result;
    errno = int(-result);
    return -1;
}
#endif

std::uint64_t ranks::receiver_not_ready()
{
    return not_ready;
}
