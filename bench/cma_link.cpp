// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cma_link.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

namespace bench {

cma_link::cma_link(std::uint32_t max_size)
    : max_size_(max_size), memory_(link_memory(2 * std::size_t{max_size}))
{
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // fails where nothing restricts it
}

cma_link::place cma_link::own()
{
    return {getpid(), reinterpret_cast<std::uintptr_t>(memory_.get() + max_size_),
            reinterpret_cast<std::uintptr_t>(&come_)};
}

void cma_link::fail(const char *call)
{
    throw program::failure(std::string(call) + ": " + std::strerror(errno));
}

} // namespace bench
