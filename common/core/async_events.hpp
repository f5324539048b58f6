// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Asynchronous events of adapters: where they go, and that an EVD of one adapter may serve others.
#pragma once

#include "adapter.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// Posts an event to the async EVD of the adapter. No lock held.
void async_error(adapter &ia, DAT_EVENT_NUMBER number, DAT_HANDLE affiliated, DAT_COUNT reason);
/// Posts an event about an EVD that has no room to the async EVD of the adapter. No lock held.
void async_overflow(adapter &ia, evd &full);
/// Stores an event like async_error, but notifies nobody; locks may be held. The caller notifies
/// the EVD that is returned, without a lock. Nothing is returned when the event is lost, which is
/// logged.
[[nodiscard]] user_of<evd> store_async_error(adapter &ia, DAT_EVENT_NUMBER number,
                                             DAT_HANDLE affiliated, DAT_COUNT reason);
[[nodiscard]] user_of<evd> store_async_overflow(adapter &ia, evd &full);
evd *async_evd_of(const adapter &ia);

/// The adapter is open from now on.
void attach_async_evd(adapter &ia, evd &target, bool owned);
/// The adapter closes: it drops its async EVD, and all that share an EVD of its own drop that.
void detach_async_evd(adapter &ia);
/// Calls `visit` for all other adapters of this provider library that this process has opened.
void visit_other_adapters(const adapter &ia, void (*visit)(adapter &other, const adapter &ia));

} // namespace dapl::DAPL_TRANSPORT::core
