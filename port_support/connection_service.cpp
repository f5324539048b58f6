// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection_service.hpp"

#include "dapl_debug.hpp"

#include <utility>

namespace dapl::DAPL_TRANSPORT {

void connection_service::schedule(connection_state &state, std::int64_t due_ns)
{
    timers.schedule(state, due_ns);
    if (!events.is_current())
        events.kick();
}

void connection_service::deliver(connection_state &state, DAT_EVENT_NUMBER event,
                                 const private_data &data)
{
    dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: connection event 0x%x", name,
             static_cast<void *>(&state), static_cast<unsigned>(event));
    endpoint &owner = *state.owner;
    run_upcall(&state, [&] { dapl_evd_connection_callback(owner, event, data); });
}

void connection_service::deliver_later(connection_state &state, DAT_EVENT_NUMBER event)
{
    state.pending_event = event;
    schedule(state, 0);
}

void connection_service::deliver_soon(connection_state &state, DAT_EVENT_NUMBER event,
                                      const private_data &data)
{
    if (events.is_current())
        deliver(state, event, data);
    else
        deliver_later(state, event);
}

bool connection_service::deliver_pending(connection_state &state)
{
    const DAT_EVENT_NUMBER event = std::exchange(state.pending_event, DAT_EVENT_NUMBER{});
    if (event == DAT_EVENT_NUMBER{})
        return false;
    deliver(state, event);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT
