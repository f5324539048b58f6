// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "guarded_copy.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace dapl::DAPL_TRANSPORT::unconnected {

namespace {

void *pointer_to(std::uint64_t address)
{
    return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
}

bool copies(long call, int process, void *own, std::uint64_t other, std::size_t size)
{
    const iovec here{own, size};
    const iovec there{pointer_to(other), size};
    constexpr long one = 1;
    constexpr long no_flags = 0;
    return static_cast<std::size_t>(syscall(call, process, &here, one, &there, one, no_flags)) ==
           size;
}

} // namespace

void guarded_copy::open()
{
    process_ = getpid();
    std::uint32_t from = 1;
    std::uint32_t to = 0;
    const auto at = reinterpret_cast<std::uintptr_t>(&from);
    const auto into = reinterpret_cast<std::uintptr_t>(&to);
    works_ = copies(SYS_process_vm_readv, process_, &to, at, sizeof to) &&
             copies(SYS_process_vm_writev, process_, &from, into, sizeof from);
}

bool guarded_copy::system_reads(void *to, std::uint64_t from, std::size_t size) const
{
    return size == 0 || copies(SYS_process_vm_readv, process_, to, from, size);
}

bool guarded_copy::system_writes(std::uint64_t to, const void *from, std::size_t size) const
{
    return size == 0 || copies(SYS_process_vm_writev, process_, const_cast<void *>(from), to, size);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
