// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interface_search.hpp"

#include "dapl_debug.hpp"
#include "service_address.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dapl::port_support {

interface_search::interface_search(const char *word, unsigned family)
    : word_(word), family_(family == 6 ? AF_INET6 : AF_INET)
{
    if (getifaddrs(&list_) != 0) {
        error_ = errno;
        dapl_log(DAPL_DBG_TYPE_ERR, "getifaddrs failed: %s", std::strerror(error_));
        list_ = nullptr;
    }
    next_ = list_;
    kind_ = kind_of_word();
}

interface_search::~interface_search()
{
    if (list_ != nullptr)
        freeifaddrs(list_);
}

interface_search::named interface_search::kind_of_word()
{
    if (address_.read(word_))
        return named::address;
    if (if_nametoindex(word_) != 0)
        return named::interface;
    for (const ifaddrs *entry = list_; entry != nullptr; entry = entry->ifa_next)
        if (std::strcmp(entry->ifa_name, word_) == 0) // a label, which is no interface of its own
            return named::interface;
    return named::other;
}

bool interface_search::matches(const ifaddrs &entry) const
{
    if (entry.ifa_addr == nullptr || osd::address::size_of(entry.ifa_addr) == 0)
        return false;
    if (kind_ == named::address)
        return osd::address::is_same_host(entry.ifa_addr, address_.get());
    return entry.ifa_addr->sa_family == family_ &&
           (kind_ == named::other || std::strcmp(entry.ifa_name, word_) == 0);
}

const ifaddrs *interface_search::next()
{
    while (next_ != nullptr) {
        const ifaddrs *entry = next_;
        next_ = next_->ifa_next;
        if (matches(*entry))
            return entry;
    }
    return nullptr;
}

long interface_mtu(const char *interface)
{
    constexpr int ethernet = 1500;
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); // a container may have no sysfs
    if (any < 0)
        return ethernet;
    ifreq asked{};
    std::snprintf(asked.ifr_name, sizeof(asked.ifr_name), "%s", interface);
    const bool known = ioctl(any, SIOCGIFMTU, &asked) == 0 && asked.ifr_mtu > 0;
    close(any);
    return known ? asked.ifr_mtu : ethernet;
}

void copy_address(sockaddr_storage &to, const sockaddr *from)
{
    to = {};
    std::memcpy(&to, from, osd::address::size_of(from));
    set_port(reinterpret_cast<sockaddr *>(&to), 0);
}

} // namespace dapl::port_support
