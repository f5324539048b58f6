// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lines in the log that peers cause: they are limited, or a peer that connects again and again
// would fill the disk of another host.
#include "layer_hosts.hpp"

#include "logged_lines.hpp"

#include <deque>
#include <doctest/doctest.h>

using namespace dapl::DAPL_TRANSPORT;
using namespace dapl::DAPL_TRANSPORT::unconnected;

namespace {

constexpr int attempts = 40;

struct two_hosts {
    const fresh_network network;
    host a;
    host b;
};

void check_limited(const logged_lines &log, const char *line, int times = attempts)
{
    const int lines = log.count(line);
    CHECK(lines > 0);
    CHECK(lines < times / 2 + 3);
}

/// Returns when the attempt of `from` has failed.
void fail_to_connect(end &from, end &to)
{
    core::service_point point;
    point.with = &to.pair;
    types::listener listener;
    DAT_CONN_QUAL qualifier = 0;
    REQUIRE(api::dapls_ib_setup_conn_listener(to.of.device, listener, point, qualifier).ok());
    connect_params params{};
    params.address = to.of.device.interface.shown();
    params.qualifier = qualifier;
    params.timeout_us = DAT_TIMEOUT_INFINITE;
    REQUIRE(api::dapls_ib_connect(from.pair, params).ok());
    CHECK(eventually([&] { return from.ep.last != 0; }));
    CHECK(from.ep.last != established);
    api::dapls_ib_remove_conn_listener(listener);
}

} // namespace

TEST_SUITE("lines about peers")
{
    TEST_CASE_FIXTURE(two_hosts, "peers whose names the device does not know")
    {
        const logged_lines log;
        set(&scripted_network::knows_nobody, true);
        for (int i = 0; i < attempts; ++i) {
            end from(a);
            end to(b);
            fail_to_connect(from, to);
        }
        check_limited(log, "does not know a peer's name");
    }

    TEST_CASE_FIXTURE(two_hosts, "peers to which datagrams are lost")
    {
        const logged_lines log;
        for (int i = 0; i < attempts; ++i) {
            end from(a);
            end to(b);
            connect(from, to);
            set(&scripted_network::loses, true);
            from.request(opcode::send, 0, 64);
            CHECK(from.is(broken));
            CHECK(a.wait().status == DAT_DTO_ERR_FLUSHED);
            set(&scripted_network::loses, false);
        }
        check_limited(log, "a datagram did not arrive");
    }

    TEST_CASE_FIXTURE(two_hosts, "peers whose memory cannot be accessed")
    {
        const logged_lines log;
        set(&scripted_network::fails_access, true);
        const DAT_RMR_TRIPLET there = b.remote(0, 16384);
        for (int i = 0; i < attempts; ++i) {
            end from(a);
            end to(b);
            connect(from, to);
            from.request(opcode::rdma_write, 0, 16384, &there);
            CHECK(a.wait().status == DAT_DTO_ERR_REMOTE_ACCESS);
            CHECK(from.is(broken));
        }
        check_limited(log, "an RDMA access of the device failed");
    }

    TEST_CASE_FIXTURE(two_hosts, "peers for which the device takes nothing")
    {
        const logged_lines log;
        std::deque<end> ends;
        for (int i = 0; i < 2 * attempts; ++i)
            ends.emplace_back(i % 2 == 0 ? a : b);
        for (int i = 0; i < attempts; ++i)
            connect(ends[2 * i], ends[2 * i + 1]);
        set(&scripted_network::busy, true);
        for (int i = 0; i < attempts; ++i)
            ends[2 * i].request(opcode::send, 0, 64);
        for (int i = 0; i < attempts; ++i)
            CHECK(ends[2 * i].is(broken));
        check_limited(log, "has taken nothing for a peer");
    }
}
