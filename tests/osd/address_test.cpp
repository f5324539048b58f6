// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Socket addresses.
#include "osd_address.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

namespace {

template <class Address>
const sockaddr *generic(const Address &a)
{
    return reinterpret_cast<const sockaddr *>(&a);
}

} // namespace

TEST_SUITE_BEGIN("address");

TEST_CASE("IPv4 and IPv6 addresses are copied whole")
{
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(5);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    six.sin6_scope_id = 3;

    osd::address a;
    REQUIRE(a.assign(generic(four)));
    CHECK_EQ(std::memcmp(a.get(), &four, sizeof four), 0);
    REQUIRE(a.assign(generic(six)));
    CHECK_EQ(std::memcmp(a.get(), &six, sizeof six), 0);
    CHECK_EQ(osd::address::size_of(generic(four)), sizeof four);
    CHECK_EQ(osd::address::size_of(generic(six)), sizeof six);
}

TEST_CASE("an address is read from its text, and nothing else is")
{
    osd::address a;
    for (const char *text : {"192.0.2.1", "2001:db8::1", "0.0.0.0", "::"}) {
        REQUIRE(a.read(text));
        const std::string shown = osd::address_text(a.get(), 5).get();
        CHECK(shown.find(text) != std::string::npos);
        CHECK(osd::address::port_of(a.get()) == 0);
    }
    const osd::address before = a;
    for (const char *text : {"", "lo", "192.0.2", "192.0.2.1:5", "[::1]", "fe80::1%lo"})
        CHECK_FALSE(a.read(text));
    CHECK(osd::address::is_same_host(a.get(), before.get()));
}

TEST_CASE("a loopback address is known in both families")
{
    osd::address a;
    for (const char *text : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2"}) {
        REQUIRE(a.read(text));
        CHECK_MESSAGE(osd::address::is_loopback(a.get()), text);
    }
    for (const char *text : {"192.0.2.127", "126.0.0.1", "0.0.0.0", "::", "::ffff:192.0.2.127",
                             "7f00::1"}) {
        REQUIRE(a.read(text));
        CHECK_FALSE_MESSAGE(osd::address::is_loopback(a.get()), text);
    }
    sockaddr other{};
    other.sa_family = AF_UNIX;
    CHECK_FALSE(osd::address::is_loopback(&other));
}

TEST_CASE("another family is refused and changes nothing")
{
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(7);
    osd::address a;
    REQUIRE(a.assign(generic(four)));
    sockaddr other{};
    other.sa_family = AF_UNIX;
    CHECK_FALSE(a.assign(&other));
    sockaddr none{};
    none.sa_family = AF_UNSPEC;
    CHECK_FALSE(a.assign(&none));
    CHECK_EQ(std::memcmp(a.get(), &four, sizeof four), 0);
    CHECK_EQ(osd::address::size_of(&none), 0);
}

TEST_CASE("the port is returned in host byte order, and hosts are compared without it")
{
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(0x1234);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in elsewhere = four;
    elsewhere.sin_port = 0;
    CHECK_EQ(osd::address::port_of(generic(four)), 0x1234);
    CHECK(osd::address::is_host(generic(four), generic(elsewhere)));
    elsewhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    CHECK_FALSE(osd::address::is_host(generic(four), generic(elsewhere)));
    elsewhere.sin_addr.s_addr = htonl(INADDR_ANY);
    CHECK(osd::address::is_host(generic(four), generic(elsewhere)));
    CHECK_FALSE(osd::address::is_host(generic(elsewhere), generic(four)));

    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(77);
    six.sin6_addr = in6addr_loopback;
    sockaddr_in6 any = six;
    any.sin6_addr = in6addr_any;
    CHECK_EQ(osd::address::port_of(generic(six)), 77);
    CHECK(osd::address::is_host(generic(six), generic(six)));
    CHECK(osd::address::is_host(generic(six), generic(any)));
    CHECK_FALSE(osd::address::is_host(generic(four), generic(any)));
}

TEST_CASE("a fresh address has no family, and copies are independent")
{
    osd::address a;
    CHECK_EQ(a.get()->sa_family, AF_UNSPEC);
    sockaddr_in four{};
    four.sin_family = AF_INET;
    REQUIRE(a.assign(generic(four)));
    const osd::address b = a;
    a.get()->sa_family = AF_INET6;
    CHECK_EQ(b.get()->sa_family, AF_INET);
}

TEST_SUITE_END();
