// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "errno_status.hpp"

#include <cerrno>

namespace dapl::DAPL_TRANSPORT {

status status_of_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return out_of_memory;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case EAGAIN:
    case ENOSPC:
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    case EACCES:
        return status::error(DAT_PRIVILEGES_VIOLATION);
    case EFAULT:
    case EPERM:
        return status::error(DAT_PROTECTION_VIOLATION);
    default:
        return status::error(DAT_INTERNAL_ERROR);
    }
}

bool lacks_resources(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOBUFS;
}

} // namespace dapl::DAPL_TRANSPORT
