// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request_sender.hpp"

#include "dapl_am.h"
#include "links.hpp"
#include "messenger.hpp"
#include "progress_engine.hpp"
#include "remote_memory.hpp"

namespace am {

int request_sender::send(int rank, message m, std::size_t size, unsigned flags)
{
    if (const int status = job_.check_call(rank); status != DAPL_AM_OK)
        return status;
    if (const int status = m.check(size); status != DAPL_AM_OK)
        return status;
    if ((flags & ~unsigned{DAPL_AM_IMMEDIATE | DAPL_AM_ASYNC}) != 0)
        return DAPL_AM_ERR_ARGUMENT;
    m.size = static_cast<std::uint32_t>(size);
    peer &p = job_.peer_of_rank(rank);
    if (m.what == category::long_message && !p.memory.holds(m.address, size))
        return DAPL_AM_ERR_RANGE;
    if (rank == job_.rank())
        return messages_.deliver_here(m, DAPL_AM_REQUEST);
    return send_to_peer(p, m, (flags & DAPL_AM_IMMEDIATE) != 0);
}

int request_sender::send_to_peer(peer &p, message &m, bool immediate)
{
    if (m.what == category::long_message && !m.pack())
        return send_long(p, m, immediate);
    if (immediate)
        return progress_.try_request(p, m);
    progress_.send_request(p, m);
    return DAPL_AM_OK;
}

/// Writes the payload, and sends a message behind it. `immediate` concerns the connection only: a
/// write cannot be taken back.
int request_sender::send_long(peer &p, const message &m, bool immediate)
{
    if (immediate && !links_.ensure(p))
        return DAPL_AM_NOT_READY;
    progress_.await_connection(p);
    // An asynchronous request would not have to wait, but its count stands on the stack.
    dapl_am_op written;
    memory_.write(p, m.address, m.payload, m.size, written, local_memory::lent);
    progress_.send_request(p, m);
    progress_.await(written);
    return DAPL_AM_OK;
}

} // namespace am
