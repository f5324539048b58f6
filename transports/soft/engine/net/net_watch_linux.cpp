// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net_watch.hpp"

#include "osd_descriptor.hpp"

#include <cerrno>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace soft_hca {

void interface_watch::open(const char *name)
{
    index_ = if_nametoindex(name);
    if (index_ == 0)
        return;
    const int made = osd::beyond_standard(
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl groups{};
    groups.nl_family = AF_NETLINK;
    groups.nl_groups = RTMGRP_LINK;
    descriptor_ = made;
    if (made >= 0 && bind(made, reinterpret_cast<const sockaddr *>(&groups), sizeof groups) != 0)
        close();
}

void interface_watch::close()
{
    if (descriptor_ >= 0)
        (void)::close(static_cast<int>(descriptor_));
    descriptor_ = -1;
}

/// Looks at the interface in place of the messages, of which some may have found no room.
bool interface_watch::is_gone()
{
    bool news = false;
    char message[16];
    while (descriptor_ >= 0 &&
           (recv(static_cast<int>(descriptor_), message, sizeof message, MSG_TRUNC) > 0 ||
            errno == ENOBUFS))
        news = true;
    char name[IF_NAMESIZE];
    return news && if_indextoname(index_, name) == nullptr && errno == ENXIO;
}

} // namespace soft_hca
