// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interface_search.hpp"

#include "dapl_debug.hpp"
#include "osd_address.hpp"
#include "service_address.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dapl::port_support {

namespace {

bool read_address(const char *text, sockaddr_storage &address)
{
    auto &v4 = reinterpret_cast<sockaddr_in &>(address);
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address);
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        v4.sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
        v6.sin6_family = AF_INET6;
    return address.ss_family != AF_UNSPEC;
}

bool same_host(const sockaddr *a, const sockaddr_storage &b)
{
    if (a->sa_family != b.ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in *>(a)->sin_addr.s_addr ==
               reinterpret_cast<const sockaddr_in &>(b).sin_addr.s_addr;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 *>(a)->sin6_addr,
                       &reinterpret_cast<const sockaddr_in6 &>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

} // namespace

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
    if (read_address(word_, address_))
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
        return same_host(entry.ifa_addr, address_);
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
