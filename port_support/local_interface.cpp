// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "local_interface.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "interface_search.hpp"

#include <cstdio>

namespace dapl::DAPL_TRANSPORT {

status local_interface::find(const char *adapter, const char *word, unsigned family)
{
    port_support::interface_search search(word, family);
    if (search.error() != 0)
        return status_of_errno(search.error());
    const bool named = search.kind() != port_support::interface_search::named::other;
    const ifaddrs *const found = named ? search.next() : nullptr;
    if (found == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: no interface \"%s\" with an IPv%u address", adapter, word,
                 family);
        return status::error(DAT_INVALID_PARAMETER);
    }
    port_support::copy_address(address, found->ifa_addr);
    std::snprintf(name, sizeof name, "%s", found->ifa_name);
    std::snprintf(mtu, sizeof mtu, "%ld", port_support::interface_mtu(found->ifa_name));
    return success;
}

} // namespace dapl::DAPL_TRANSPORT
