// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unanswered_requests.hpp"

#include "logged_lines.hpp"

#include <arpa/inet.h>
#include <deque>
#include <netinet/in.h>

using namespace dapl::DAPL_TRANSPORT;

namespace {

sockaddr_storage source(const char *host, std::uint16_t port)
{
    sockaddr_storage out{};
    auto &four = reinterpret_cast<sockaddr_in &>(out);
    auto &six = reinterpret_cast<sockaddr_in6 &>(out);
    out.ss_family = inet_pton(AF_INET, host, &four.sin_addr) == 1 ? AF_INET : AF_INET6;
    if (out.ss_family == AF_INET6)
        REQUIRE(inet_pton(AF_INET6, host, &six.sin6_addr) == 1);
    four.sin_port = htons(port); // both families have it at the same place
    return out;
}

} // namespace

TEST_CASE("a half of the requests without an answer is for others than one address")
{
    const logged_lines log;
    unanswered_requests all("test", 8);
    std::deque<unanswered_request> some;
    const auto comes = [&](const char *host) {
        const sockaddr_storage from = source(host, static_cast<std::uint16_t>(1000 + some.size()));
        if (!all.has_share(from, "it is refused"))
            return false;
        some.emplace_back().source = from;
        all.add(some.back());
        return true;
    };
    CHECK(all.most() == 8);
    SUBCASE("whatever its port")
    {
        for (int i = 0; i < 4; ++i)
            CHECK(comes("192.0.2.1"));
        CHECK(!comes("192.0.2.1"));
        CHECK(!comes("192.0.2.1")); // not logged again so soon
        CHECK(log.count("test: 4 connection requests wait for this program's answer, as from "
                        "192.0.2.1:1004; it is refused until it accepts or rejects some") == 1);
        CHECK(comes("192.0.2.2"));
    }
    SUBCASE("a network of IPv6 is one")
    {
        for (const char *host : {"2001:db8::1", "2001:db8::2", "2001:db8::3:4", "2001:db8::1:2:3"})
            CHECK(comes(host));
        CHECK(!comes("2001:db8::ffff"));
        CHECK(comes("2001:db8:0:1::1"));
    }
    CHECK(all.count() == 5);
    all.remove(some.front());
    CHECK(all.count() == 4);
    CHECK(all.front() == &some[1]);
    some.pop_front();
    CHECK(comes("192.0.2.1"));
}
