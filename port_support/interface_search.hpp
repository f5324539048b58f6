// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Finds addresses of this machine by a word of dat.conf.
#pragma once

#include "osd_address.hpp"

#include <ifaddrs.h>

namespace dapl::port_support {

/// Goes through the addresses that a word may mean. The word is an IPv4 or IPv6 address of this
/// machine, the name of a network interface, or something else, such as the name of a device: then
/// all addresses of the family come, for the port to look behind them.
class interface_search {
public:
    enum class named { address, interface, other };

    /// `family` is 4 or 6; an address as the word decides for itself. The word is kept. Finds none
    /// where the system does not list its interfaces, logs that, and has an error().
    interface_search(const char *word, unsigned family);
    interface_search(const interface_search &) = delete;
    interface_search &operator=(const interface_search &) = delete;
    ~interface_search();

    /// 0 or an errno.
    int error() const { return error_; }
    named kind() const { return kind_; }

    /// The next one, or null. It lives as long as this object.
    const ifaddrs *next();

private:
    named kind_of_word();
    bool matches(const ifaddrs &entry) const;

    const char *const word_;
    const int family_;
    osd::address address_;
    int error_ = 0;
    ifaddrs *list_ = nullptr;
    const ifaddrs *next_ = nullptr;
    named kind_ = named::other;
};

/// Bytes; 1500 when the system does not say.
long interface_mtu(const char *interface);

/// Copies the address without a port number; `to` is large enough for any.
void copy_address(sockaddr_storage &to, const sockaddr *from);

} // namespace dapl::port_support
