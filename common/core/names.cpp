// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "names.hpp"

namespace dapl::DAPL_TRANSPORT::core {

const char *name_of(DAT_DTOS operation)
{
    switch (operation) {
    case DAT_DTO_SEND:
        return "send";
    case DAT_DTO_RDMA_WRITE:
        return "RDMA write";
    case DAT_DTO_RDMA_READ:
        return "RDMA read";
    case DAT_DTO_RECEIVE:
        return "receive";
    case DAT_DTO_BIND_MW:
        return "bind";
    default:
        return "extended operation";
    }
}

const char *name_of(DAT_DTO_COMPLETION_STATUS status)
{
    static constexpr const char *names[] = {
        "success",
        "flushed",
        "local length error",
        "local EP error",
        "local protection error",
        "bad response",
        "remote access error",
        "remote responder error",
        "transport error",
        "receiver not ready",
        "partial packet",
        "RMR operation failed",
        "local memory management error",
    };
    const auto which = static_cast<unsigned>(status);
    return which < sizeof names / sizeof *names ? names[which] : "unknown status";
}

const char *name_of(DAT_EP_STATE state)
{
    static constexpr const char *names[] = {
        "UNCONNECTED",
        "UNCONFIGURED_UNCONNECTED",
        "RESERVED",
        "UNCONFIGURED_RESERVED",
        "PASSIVE_CONNECTION_PENDING",
        "UNCONFIGURED_PASSIVE",
        "ACTIVE_CONNECTION_PENDING",
        "TENTATIVE_CONNECTION_PENDING",
        "UNCONFIGURED_TENTATIVE",
        "CONNECTED",
        "DISCONNECT_PENDING",
        "DISCONNECTED",
        "COMPLETION_PENDING",
    };
    const auto which = static_cast<unsigned>(state);
    return which < sizeof names / sizeof *names ? names[which] : "unknown state";
}

const char *name_of(DAT_EVENT_NUMBER event)
{
    switch (event) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return "ESTABLISHED";
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return "PEER_REJECTED";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return "NON_PEER_REJECTED";
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
        return "ACCEPT_COMPLETION_ERROR";
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return "DISCONNECTED";
    case DAT_CONNECTION_EVENT_BROKEN:
        return "BROKEN";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return "TIMED_OUT";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return "UNREACHABLE";
    case DAT_ASYNC_ERROR_EVD_OVERFLOW:
        return "EVD_OVERFLOW";
    case DAT_ASYNC_ERROR_IA_CATASTROPHIC:
        return "IA_CATASTROPHIC";
    case DAT_ASYNC_ERROR_EP_BROKEN:
        return "EP_BROKEN";
    case DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR:
        return "PROVIDER_INTERNAL_ERROR";
    default:
        return "unknown event";
    }
}

} // namespace dapl::DAPL_TRANSPORT::core
