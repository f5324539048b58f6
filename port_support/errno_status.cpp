// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "errno_status.hpp"

#include "dapl_debug.hpp"
#include "osd_errno.hpp"
#include "osd_system.hpp"

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

status call_failed(const char *device, const char *call, int error)
{
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s failed: %s%s", device, call, osd::error_text(error).text,
             osd::limit_text(error).text);
    return status_of_errno(error);
}

status listen_failed(const char *device, const char *call, std::uint16_t port, int error)
{
    dapl_log(DAPL_DBG_TYPE_CM, "%s: %s on port %u failed: %s", device, call, port,
             osd::error_text(error).text);
    return error == EADDRINUSE ? status::error(DAT_CONN_QUAL_IN_USE) : status_of_errno(error);
}

bool lacks_resources(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOBUFS;
}

DAT_DTO_COMPLETION_STATUS dto_status_of_errno(int error)
{
    switch (error) {
    case ECANCELED:
    case ENOTCONN:
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ESHUTDOWN:
    case ETIMEDOUT:
        return DAT_DTO_ERR_FLUSHED;
    case EMSGSIZE:
        return DAT_DTO_ERR_LOCAL_LENGTH;
    case EFAULT:
        return DAT_DTO_ERR_LOCAL_PROTECTION;
    case EACCES:
    case EPERM:
    case EKEYREJECTED:
        return DAT_DTO_ERR_REMOTE_ACCESS;
    default:
        return DAT_DTO_ERR_TRANSPORT;
    }
}

DAT_EVENT_NUMBER connection_event_of_errno(int error)
{
    switch (error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EINVAL: // what the system says of a loopback address that is to leave the host
        return DAT_CONNECTION_EVENT_UNREACHABLE;
    case ETIMEDOUT:
        return DAT_CONNECTION_EVENT_TIMED_OUT;
    default:
        return DAT_CONNECTION_EVENT_NON_PEER_REJECTED;
    }
}

} // namespace dapl::DAPL_TRANSPORT
