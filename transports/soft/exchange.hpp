// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What cm.cpp and exchange.cpp use of each other.
#pragma once

#include "port.hpp"

namespace dapl::soft {

/// The device's upcall for an exchange.
void on_exchange(void *owner, soft_hca::connection_event what, const void *data, std::size_t size);

/// Takes the address for datagrams off the front of private data. False when none is there.
bool take_address(private_data &data);

DAT_EVENT_NUMBER event_of(soft_hca::connection_event what);

/// What a call to begin a connection answers.
status answer_of(soft_hca::queue_pair::start how);

/// The listener that a call to connect names.
status aim(const types::hca &h, const connect_params &params, soft_hca::net_address &to);

} // namespace dapl::soft
