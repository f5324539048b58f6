// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Bad networks: every operation is accounted for, and every byte is right.
#include "rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

settings bad(settings how, std::uint64_t seed)
{
    how.bad_network = {20, 20, 10, 0, seed}; // 2 % lost, 2 % out of order, 1 % twice
    return how;
}

} // namespace

TEST_SUITE_BEGIN("network");

TEST_CASE("several seeds of loss, reordering and duplication, inside the process")
{
    for (std::uint64_t seed = 1; seed <= rounds(10); ++seed) {
        CAPTURE(seed);
        inproc_network network;
        host here(bad(inside(network), seed));
        host there(bad(inside(network), seed + 100));
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, 40);
        CHECK(a.resent() + b.resent() > 0);
    }
}

TEST_CASE("several seeds of loss, reordering and duplication, over UDP")
{
    for (std::uint64_t seed = 1; seed <= rounds(10); ++seed) {
        CAPTURE(seed);
        settings how = on_loopback();
        how.datagram = 1472;
        host here(bad(how, seed));
        host there(bad(how, seed + 100));
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, 40);
        CHECK(a.resent() + b.resent() > 0);
    }
}

TEST_CASE("B4: numbers wrap in the middle, on a bad network")
{
    for (std::uint32_t first : {0xfffffff0u, 0xffffff00u, 0x7ffffff0u}) {
        CAPTURE(first);
        inproc_network network;
        settings how = bad(inside(network), 3);
        how.fixed_start = true;
        how.first_number = first;
        host here(how);
        host there(how);
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        exercise(a, b, 60);
    }
}

TEST_CASE("connections come up and go down on a very bad network")
{
    inproc_network network;
    settings how = inside(network);
    how.bad_network = {200, 100, 100, 0, 5};
    host here(how);
    how.bad_network.seed = 6;
    host there(how);
    for (int round = 0; round < 20; ++round) {
        end a(here);
        end b(there);
        REQUIRE(establish(a, b));
        REQUIRE(b.receive(0, 5000));
        REQUIRE(a.send(0, 5000));
        CHECK(b.received()->status == work_status::success);
        a.pair.disconnect(true);
        CHECK(is(a.next(), connection_event::disconnected));
        CHECK(is(b.next(), connection_event::disconnected));
        CHECK(a.sent()->status == work_status::success);
    }
}

TEST_CASE("B10: a link that is dead for 100 ms and more costs no connection")
{
    inproc_network network;
    host here(inside(network));
    host there(inside(network));
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    for (int pause : {100, 400}) {
        a.buffer.fill(0, 100000, 7);
        // Nobody reads there for a while.
        b.pair.enter();
        REQUIRE(a.write(0, 100000, b.buffer.remote(0, 100000)));
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
        b.pair.leave();
        const auto done = a.sent();
        REQUIRE(done.has_value());
        CHECK(done->status == work_status::success);
        CHECK(b.buffer.holds(0, 100000, 7));
    }
}

TEST_CASE("B2: of what is lost little more than that is sent again")
{
    inproc_network network;
    settings how = inside(network);
    host here(how);
    how.bad_network = {20, 0, 0, 0, 9};
    host there(how); // loses of what it receives
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    constexpr std::size_t size = 1 << 20;
    for (int round = 0; round < 10; ++round) {
        REQUIRE(a.write(0, size, b.buffer.remote(0, size)));
        REQUIRE(a.sent().has_value());
    }
    const auto sent = static_cast<double>(a.counts().packets_out);
    const auto resent = static_cast<double>(a.resent());
    MESSAGE("sent ", sent, ", again ", resent);
    CHECK(resent > 0.01 * sent);
    CHECK(resent < 0.3 * sent); // all behind the hole would be more than all that is sent
}

TEST_CASE("B1: every byte is right with checksums by the system, in super-packets and alone")
{
    for (bool together : {true, false})
        for (std::uint32_t datagram : {512u, 1472u, 9000u, 65507u}) {
            CAPTURE(together);
            CAPTURE(datagram);
            settings how = on_loopback();
            how.datagram = datagram;
            host here(how);
            host there(how);
            end a(here);
            end b(there);
            REQUIRE(establish(a, b));
            static_cast<udp_io &>(a.pair.home->io()).set_segmentation(together);
            exercise(a, b, 6);
        }
}

TEST_SUITE_END();
