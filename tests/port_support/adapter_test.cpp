// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a port needs to open an adapter: its parameters, its address, and how it names itself.
#include "dat_count.hpp"
#include "errno_status.hpp"
#include "ia_params.hpp"
#include "interface_search.hpp"
#include "local_interface.hpp"
#include "named_attributes.hpp"
#include "service_address.hpp"

#include <cerrno>
#include <cstring>
#include <doctest/doctest.h>
#include <string>

using namespace dapl::DAPL_TRANSPORT;
using dapl::port_support::interface_search;

namespace {

struct params {
    std::uint32_t retry = 1;
    std::uint32_t family = 4;
};

constexpr param_option<params> options[] = {
    {"retry", &params::retry},
    {"family", &params::family},
};

status read(const char *text, params &into, bool numbers = false)
{
    ia_params words(text, "<device> [key=value ...]");
    char device[8];
    if (!words.next(device))
        return words.refuse_word("no device is named");
    return words.read_options(options, into, [&](const char *word) {
        std::uint32_t ignored;
        return numbers && read_number(word, ignored);
    });
}

std::string value_of(const hca_attr &attr, const char *name)
{
    for (DAT_COUNT i = 0; i < attr.num_named_attrs; ++i)
        if (std::strcmp(attr.named_attrs[i].name, name) == 0)
            return attr.named_attrs[i].value;
    return "none";
}

} // namespace

TEST_SUITE("adapter")
{
    TEST_CASE("ia_params are words and options")
    {
        params read_into;
        CHECK(read(" dev retry=7 family=6 ", read_into).ok());
        CHECK(read_into.retry == 7);
        CHECK(read_into.family == 6);
        CHECK(read("dev 0 retry=3", read_into, true).ok());
        CHECK(read_into.retry == 3);
        for (const char *bad : {"", "a-word-too-long", "dev 0", "dev retry", "dev other=1"})
            CHECK(read(bad, read_into).type() == DAT_INVALID_PARAMETER);
        const std::string long_word = "dev " + std::string(80, 'x');
        CHECK_FALSE(read(long_word.c_str(), read_into, true).ok());
    }

    TEST_CASE("the loopback interface is found by its name and by its address")
    {
        interface_search by_name("lo", 4);
        CHECK(by_name.kind() == interface_search::named::interface);
        const ifaddrs *found = by_name.next();
        REQUIRE(found != nullptr);
        CHECK(std::string(found->ifa_name) == "lo");
        CHECK(found->ifa_addr->sa_family == AF_INET);

        interface_search by_address("127.0.0.1", 6); // an address decides its family itself
        CHECK(by_address.kind() == interface_search::named::address);
        found = by_address.next();
        REQUIRE(found != nullptr);
        CHECK(std::string(found->ifa_name) == "lo");
        CHECK(by_address.next() == nullptr);
        CHECK(dapl::port_support::interface_mtu("lo") > 1500); // as one that is not there has
    }

    TEST_CASE("what is no interface may be a device behind any")
    {
        interface_search search("no-such-device", 4);
        CHECK(search.kind() == interface_search::named::other);
        CHECK(search.next() != nullptr);
        interface_search absent("192.0.2.77", 4);
        CHECK(absent.next() == nullptr);
        CHECK(dapl::port_support::interface_mtu("no-such-device") == 1500);
    }

    TEST_CASE("an adapter has the address and the MTU of the interface that is named")
    {
        local_interface found;
        REQUIRE(found.find("acme", "127.0.0.1").ok());
        CHECK(std::string(found.name) == "lo");
        CHECK(found.mtu == std::to_string(dapl::port_support::interface_mtu("lo")));
        const auto &address = reinterpret_cast<const sockaddr_in &>(*found.shown());
        CHECK(address.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
        CHECK(address.sin_port == 0);
        for (const char *absent : {"no-such-device", "192.0.2.77"})
            CHECK(found.find("acme", absent).type() == DAT_INVALID_PARAMETER);
    }

    TEST_CASE("a copy of an address has no port number")
    {
        sockaddr_in from{};
        from.sin_family = AF_INET;
        from.sin_port = htons(77);
        from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockaddr_storage to;
        dapl::port_support::copy_address(to, reinterpret_cast<sockaddr *>(&from));
        const auto &copied = reinterpret_cast<const sockaddr_in &>(to);
        CHECK(copied.sin_port == 0);
        CHECK(copied.sin_addr.s_addr == from.sin_addr.s_addr);
        CHECK(dapl::port_support::port_of(0x7'0005) == 5);
    }

    TEST_CASE("errno becomes a DAT code")
    {
        CHECK(status_of_errno(ENOMEM) == out_of_memory);
        CHECK(status_of_errno(EMFILE).type() == DAT_INSUFFICIENT_RESOURCES);
        CHECK(status_of_errno(EACCES).type() == DAT_PRIVILEGES_VIOLATION);
        CHECK(status_of_errno(EFAULT).type() == DAT_PROTECTION_VIOLATION);
        CHECK(status_of_errno(EIO).type() == DAT_INTERNAL_ERROR);
        CHECK(lacks_resources(ENFILE));
        CHECK_FALSE(lacks_resources(ECONNREFUSED));
        CHECK(dto_status_of_errno(ECONNRESET) == DAT_DTO_ERR_FLUSHED);
        CHECK(dto_status_of_errno(EMSGSIZE) == DAT_DTO_ERR_LOCAL_LENGTH);
        CHECK(dto_status_of_errno(EIO) == DAT_DTO_ERR_TRANSPORT);
        CHECK(connection_event_of_errno(EHOSTUNREACH) == DAT_CONNECTION_EVENT_UNREACHABLE);
        CHECK(connection_event_of_errno(ETIMEDOUT) == DAT_CONNECTION_EVENT_TIMED_OUT);
        CHECK(connection_event_of_errno(ECONNREFUSED) == DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    }

    TEST_CASE("a limit that DAT has no number for is the nearest")
    {
        using dapl::port_support::as_count;
        CHECK(as_count(SIZE_MAX) == INT32_MAX);
        CHECK(as_count(-1) == 0);
        CHECK(as_count(7u) == 7);
    }

    TEST_CASE("named attributes say what the adapter can")
    {
        hca_attr attr;
        attr.immediate_data = true;
        named_attributes names;
        names.set({.provider = "tcp", .device = "lo", .mtu = "1500"}, attr);
        names.add("X", "y");
        names.show_in(attr);
        CHECK(value_of(attr, "DAT_IB_PROVIDER_NAME") == "tcp");
        CHECK(value_of(attr, "DAT_IB_PORT_STATUS") == "PORT_ACTIVE");
        CHECK(value_of(attr, "DAT_IB_IMMED_DATA") == "TRUE");
        CHECK(value_of(attr, "DAT_IB_FETCH_AND_ADD") == "FALSE");
        CHECK(value_of(attr, "DAPL_AGREED_READS") == "FALSE");
        CHECK(value_of(attr, "X") == "y");
    }
}
