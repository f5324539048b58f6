// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The network interface behind an adapter.
#pragma once

#include "dapl_status.hpp"

#include <net/if.h>
#include <sys/socket.h>

namespace dapl::DAPL_TRANSPORT {

/// An interface of this machine, or an address of one.
struct local_interface {
    sockaddr_storage address{}; ///< what peers connect to, without a port number
    char name[IF_NAMESIZE] = {};
    char mtu[24] = {}; ///< bytes, as a number in text

    /// Finds the interface that a word of dat.conf names, by its name or an address of it. Logs for
    /// the adapter if there is none with an address of the family, 4 or 6.
    status find(const char *adapter, const char *word, unsigned family = 4);
    const DAT_SOCK_ADDR *shown() const { return reinterpret_cast<const DAT_SOCK_ADDR *>(&address); }
};

} // namespace dapl::DAPL_TRANSPORT
