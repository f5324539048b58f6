// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The peers that the layer knows: a device gives a number to each, which is another peer's once the
// layer has given it up. The scripted device counts numbers that are used then, or given up while
// something is in flight, and fresh_network checks at the end of a case that there were none.
#include "layer_hosts.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <thread>
#include <vector>

using namespace dapl::DAPL_TRANSPORT;
using namespace dapl::DAPL_TRANSPORT::unconnected;

namespace {

constexpr std::uint32_t soon_ms = 20;
constexpr std::uint32_t never_ms = 3'600'000;

/// A network of hosts that give the numbers of peers up soon, or never.
struct forgetful_network : fresh_network {
    explicit forgetful_network(std::uint32_t stay_ms = soon_ms) { net().peer_stays_ms = stay_ms; }
};

/// Lets pass in which a peer without connections would have been forgotten.
void wait_long()
{
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * soon_ms));
}

bool forgets_all(std::size_t device)
{
    return eventually([&] { return net().known_to(device) == 0; });
}

std::uint32_t buffers_in_flight(host &at)
{
    osd::lock_guard hold(at.device.library);
    return at.device.buffers.taken();
}

std::uint32_t grants_of(host &at)
{
    osd::lock_guard hold(at.device.library);
    return at.region.uses;
}

unsigned count(unsigned scripted_network::*what)
{
    std::lock_guard hold(net().lock);
    return net().*what;
}

void exchange(end &from, end &to)
{
    from.of.memory[0] = static_cast<std::uint8_t>(from.posted.size() + 17);
    wr &receive = to.receive(64, 64);
    wr &send = from.request(opcode::send, 0, 64);
    CHECK(to.of.wait().wr == &receive);
    CHECK(to.of.memory[64] == from.of.memory[0]);
    CHECK(from.of.wait().wr == &send);
}

constexpr unsigned some_sends = 20;

/// Sends that the peer's device, which has stopped, does not take.
void send_in_vain(end &from)
{
    for (unsigned i = 0; i < some_sends; ++i)
        from.request(opcode::send, 0, 64);
}

void take_flushed(host &at, unsigned number)
{
    for (unsigned i = 0; i < number; ++i)
        CHECK(at.wait().status == DAT_DTO_ERR_FLUSHED);
}

/// Two hosts without a connection, whose only one has ended while sends to b were in flight.
struct ends_with_stuck_sends {
    const forgetful_network network;
    host a;
    host b;

    explicit ends_with_stuck_sends(bool cancels, std::uint32_t stay_ms = soon_ms) : network(stay_ms)
    {
        set(&scripted_network::cancels, cancels);
        end from(a);
        end to(b);
        connect(from, to);
        exchange(from, to);
        set(&scripted_network::stopped, 1);
        send_in_vain(from);
        CHECK(buffers_in_flight(a) == some_sends);
        disconnect(from, to);
        take_flushed(a, some_sends);
    }
};

} // namespace

TEST_SUITE("peers without connections")
{
    TEST_CASE("a peer is forgotten when its last connection has ended")
    {
        const forgetful_network network;
        host a;
        host b;
        end one_from(a);
        end one_to(b);
        auto two_from = std::make_unique<end>(a);
        auto two_to = std::make_unique<end>(b);
        connect(one_from, one_to);
        connect(*two_from, *two_to);
        CHECK(net().known_to(0) == 1);
        disconnect(one_from, one_to);
        wait_long();
        exchange(*two_from, *two_to);
        CHECK(net().known_to(0) == 1);
        CHECK(net().known_to(1) == 1);
        SUBCASE("by a disconnect")
        {
            disconnect(*two_from, *two_to);
        }
        SUBCASE("by freeing its queue pair")
        {
            two_from.reset();
        }
        SUBCASE("by a reset")
        {
            REQUIRE(api::dapls_ib_qp_reset(two_from->pair).ok());
        }
        SUBCASE("while a consumer polls")
        {
            disconnect(*two_from, *two_to);
            CHECK(eventually([&] { return a.is_empty() && net().known_to(0) == 0; }));
        }
        SUBCASE("while a consumer waits")
        {
            disconnect(*two_from, *two_to);
            api::dapls_ib_completion_notify(a.queue, notify_on::any);
        }
        CHECK(forgets_all(0));
        CHECK(forgets_all(1));
    }

    TEST_CASE("names have up to 480 bytes")
    {
        const forgetful_network network;
        net().name_size = 480;
        host a;
        host b;
        {
            end from(a);
            end to(b);
            connect(from, to);
            exchange(from, to);
        }
        net().name_size = 481;
        types::hca refused;
        core::adapter owner;
        CHECK_FALSE(api::dapls_ib_open_hca(refused, {"test", "", &owner}).ok());
        net().name_size = 480;
    }

    TEST_CASE("a peer that comes back soon keeps its number")
    {
        const forgetful_network network(never_ms);
        host a;
        host b;
        for (int round = 0; round < 3; ++round) {
            end from(a);
            end to(b);
            connect(from, to);
            exchange(from, to);
            disconnect(from, to);
        }
        CHECK(count(&scripted_network::asked) == 2);
        CHECK(count(&scripted_network::given_up) == 0);
    }

    TEST_CASE("a peer that comes back late is asked for again")
    {
        const forgetful_network network;
        host a;
        host b;
        for (int round = 0; round < 3; ++round) {
            end from(a);
            end to(b);
            connect(from, to);
            exchange(from, to);
            disconnect(from, to);
            CHECK(forgets_all(0));
            CHECK(forgets_all(1));
        }
        CHECK(count(&scripted_network::asked) == 6);
    }

    TEST_CASE("a device that does not forget keeps its peers")
    {
        const forgetful_network network;
        net().forgets = false;
        host a;
        host b;
        for (unsigned round = 1; round < 4; ++round) {
            end from(a);
            end to(b);
            connect(from, to);
            exchange(from, to);
            disconnect(from, to);
            CHECK(eventually([&] { return count(&scripted_network::given_up) == 2 * round; }));
        }
        CHECK(count(&scripted_network::asked) == 2);
        wait_long();
        CHECK(count(&scripted_network::given_up) == 6); // no oftener than connections end
    }

    TEST_CASE("what is late of a forgotten peer is nothing to a new one with its number")
    {
        const forgetful_network network;
        net().records = true;
        host a;
        auto b = std::make_unique<host>();
        {
            end from(a);
            end to(*b);
            connect(from, to);
            exchange(from, to);
            exchange(to, from);
            const DAT_RMR_TRIPLET here = a.remote(1000, 20'000);
            to.request(opcode::rdma_write, 1000, 20'000, &here);
            CHECK(b->wait().status == DAT_DTO_SUCCESS);
            disconnect(to, from);
        }
        b.reset();
        CHECK(forgets_all(0));
        std::vector<datagram> old;
        {
            std::lock_guard hold(net().lock);
            old = net().recorded;
        }
        REQUIRE(!old.empty());
        host c;
        end from(a);
        end to(c);
        connect(from, to);
        CHECK(net().known_to(0) == 1);
        set(&scripted_network::keeps_accesses, true);
        const DAT_RMR_TRIPLET here = a.remote(1000, 20'000);
        to.request(opcode::rdma_write, 1000, 20'000, &here);
        CHECK(eventually([&] { return is_accessed(a); }));
        for (datagram bytes : old)
            for (std::uint8_t pair = 0; pair < 8; ++pair) {
                bytes[4] = pair; // the low byte of the queue pair's number
                net().inject(0, bytes);
                net().inject(2, bytes);
            }
        exchange(from, to);
        CHECK(is_accessed(a));
        set(&scripted_network::keeps_accesses, false);
        CHECK(c.wait().status == DAT_DTO_SUCCESS);
        exchange(to, from);
        CHECK(a.is_empty());
        CHECK(c.is_empty());
        CHECK(eventually([&] { return !is_accessed(a); }));
    }

    TEST_CASE("an access that has not ended keeps its peer, which gets its grants back then")
    {
        const forgetful_network network;
        host a;
        host b;
        host c;
        {
            end from(a);
            end to(b);
            connect(from, to);
            set(&scripted_network::keeps_accesses, true);
            const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
            from.request(opcode::rdma_write, 0, 20'000, &there);
            CHECK(eventually([&] { return is_accessed(a); }));
            disconnect(from, to);
            take_flushed(a, 1);
        }
        end from(a);
        end to(c);
        bool release_is_stuck = false;
        SUBCASE("") {}
        SUBCASE("and the release, too")
        {
            release_is_stuck = true;
            set(&scripted_network::stopped, 1);
        }
        wait_long();
        connect(from, to);
        CHECK(net().known_to(0) == 2);
        CHECK(is_accessed(b));
        set(&scripted_network::keeps_accesses, false);
        CHECK(eventually([&] { return a.is_empty() && !is_accessed(a); }));
        if (release_is_stuck) {
            CHECK(eventually([&] { return buffers_in_flight(a) == 1; }));
            wait_long();
            CHECK(net().known_to(0) == 2);
            set(&scripted_network::stopped, -1);
        } else {
            CHECK(eventually([&] { return !is_accessed(b); }));
        }
        CHECK(eventually([&] { return a.is_empty() && net().known_to(0) == 1; }));
        exchange(from, to);
    }

    TEST_CASE("sends that a peer of the past does not take are cancelled")
    {
        ends_with_stuck_sends was(true);
        CHECK(forgets_all(0));
        CHECK(buffers_in_flight(was.a) == 0);
        CHECK(count(&scripted_network::cancelled) == some_sends);
    }

    TEST_CASE("what a connection has sent at its end is not cancelled")
    {
        ends_with_stuck_sends was(true, never_ms);
        wait_long();
        CHECK(count(&scripted_network::cancelled) == 0);
        CHECK(buffers_in_flight(was.a) == some_sends);
        set(&scripted_network::stopped, -1);
        CHECK(eventually([&] { return was.a.is_empty() && buffers_in_flight(was.a) == 0; }));
        CHECK(count(&scripted_network::cancelled) == 0);
    }

    TEST_CASE("sends that cannot be cancelled keep the number of their peer")
    {
        ends_with_stuck_sends was(false);
        CHECK(eventually([&] { return count(&scripted_network::cancelled) == some_sends; }));
        wait_long();
        CHECK(count(&scripted_network::cancelled) == some_sends); // it is asked once
        CHECK(buffers_in_flight(was.a) == some_sends);
        SUBCASE("which others do not get")
        {
            host c;
            end from(was.a);
            end to(c);
            connect(from, to);
            exchange(from, to);
            CHECK(net().known_to(0) == 2);
            set(&scripted_network::stopped, -1);
            CHECK(eventually([&] { return was.a.is_empty() && net().known_to(0) == 1; }));
            CHECK(buffers_in_flight(was.a) == 0);
            exchange(to, from);
        }
        SUBCASE("which it has when it comes back")
        {
            end from(was.a);
            end to(was.b);
            connect(from, to);
            CHECK(net().known_to(0) == 1);
            set(&scripted_network::stopped, -1);
            CHECK(eventually([&] { return was.a.is_empty() && buffers_in_flight(was.a) == 0; }));
            wait_long();
            CHECK(net().known_to(0) == 1);
            exchange(from, to);
            disconnect(from, to);
            CHECK(forgets_all(0));
        }
        SUBCASE("until the device is closed") {}
    }

    TEST_CASE("grants of peers that have died are used again")
    {
        const forgetful_network network;
        net().traits.send_depth = 2 * max_grants;
        host a;
        auto b = std::make_unique<host>();
        std::vector<std::unique_ptr<end>> ends;
        set(&scripted_network::keeps_accesses, true);
        const DAT_RMR_TRIPLET here = a.remote(0, 20'000);
        for (std::uint32_t pairs = 0; pairs < max_grants && grants_of(a) != max_grants; ++pairs) {
            ends.push_back(std::make_unique<end>(a));
            ends.push_back(std::make_unique<end>(*b));
            connect(*ends[ends.size() - 2], *ends.back());
            for (std::uint32_t i = 0; i < max_asked_writes; ++i)
                ends.back()->request(opcode::rdma_write, 0, 20'000, &here);
        }
        CHECK(grants_of(a) == max_grants);
        set(&scripted_network::stopped, 0); // b's grants do not come back
        ends.clear();
        b.reset();
        set(&scripted_network::stopped, -1);
        set(&scripted_network::keeps_accesses, false);
        host c;
        end from(c);
        end to(a);
        connect(from, to);
        const unsigned before = count(&scripted_network::ended_accesses);
        CHECK(eventually([&] {
            from.request(opcode::rdma_write, 0, 20'000, &here);
            CHECK(c.wait().status == DAT_DTO_SUCCESS);
            return count(&scripted_network::ended_accesses) != before;
        }));
    }

    TEST_CASE("peers that come, die and do not end what is sent to them leave nothing")
    {
        const forgetful_network network;
        net().cancels = net().dead_stop = true;
        host a;
        for (int round = 1; round < 40; ++round) {
            auto b = std::make_unique<host>();
            end from(a);
            auto to = std::make_unique<end>(*b);
            connect(from, *to);
            exchange(from, *to);
            set(&scripted_network::stopped, round);
            if (round % 2 == 0)
                for (int i = 0; i < 5; ++i)
                    from.request(opcode::send, 0, 64);
            to.reset();
            b.reset();
            CHECK(from.is(disconnected));
            while (!a.is_empty()) {
            }
        }
        CHECK(forgets_all(0));
        CHECK(buffers_in_flight(a) == 0);
    }
}
