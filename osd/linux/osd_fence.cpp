// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_fence.hpp"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {

namespace {

bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/// A fence for kernels that have or allow no membarrier: taking rights from a page in use makes the
/// kernel interrupt every processor that runs a thread of the process.
void fence_by_unmapping()
{
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    *static_cast<volatile char *>(page) = 1;
    mprotect(page, size, PROT_READ);
    munmap(page, size);
}

} // namespace

// The system calls are full barriers for the caller, too.
void fence_all_threads()
{
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return;
    // The command failed: this process may not be registered yet. Registering fails where Linux has
    // no such command.
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return;
    fence_by_unmapping();
}

bool can_fence_all_threads()
{
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

} // namespace osd
