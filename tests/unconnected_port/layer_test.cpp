// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The layer for fabrics without connections, on a device that keeps no promise, fails, and is
// hostile, when a test says so.
#include "layer_hosts.hpp"

#include "../rounds.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <sys/resource.h>
#include <thread>

using namespace dapl::DAPL_TRANSPORT;
using namespace dapl::DAPL_TRANSPORT::unconnected;

namespace {

bool is_starved(end &which)
{
    osd::lock_guard hold(which.of.device.library);
    return which.pair.data.is(state::starved);
}

bool is_asleep(host &at)
{
    osd::lock_guard hold(at.device.library);
    return at.device.sleeping;
}

bool sleeps_beside_events(host &at)
{
    osd::lock_guard hold(at.device.library);
    return at.device.sleeping && !at.device.device->may_sleep();
}

} // namespace

TEST_SUITE("unconnected")
{
    TEST_CASE("messages are whole and in order where datagrams are not")
    {
        const fresh_network network;
        net().shuffles = true;
        SUBCASE("with a descriptor") {}
        SUBCASE("without a descriptor")
        {
            net().has_descriptor = false;
        }
        host a;
        host b;
        end from(a);
        end to(b);
        connect(from, to);
        constexpr std::uint32_t size = 3000; // seven datagrams
        constexpr int count = 60;
        for (int i = 0; i < count; ++i) {
            std::memset(a.memory.data() + i * size, i + 1, size);
            to.receive(static_cast<std::size_t>(i) * size, size);
        }
        for (int i = 0; i < count; ++i)
            from.request(opcode::send, static_cast<std::size_t>(i) * size, size);
        for (int i = 0; i < count; ++i) {
            const completion got = b.wait();
            CHECK(got.wr == to.posted[static_cast<std::size_t>(i)].get());
            CHECK(got.status == DAT_DTO_SUCCESS);
            CHECK(got.length == size);
        }
        CHECK(std::equal(a.memory.begin(), a.memory.begin() + count * size, b.memory.begin()));
        for (int i = 0; i < count; ++i)
            CHECK(a.wait().wr == from.posted[static_cast<std::size_t>(i)].get());
        disconnect(from, to);
    }

    TEST_CASE("a message without a receive waits, and holds up nobody")
    {
        const fresh_network network;
        host a;
        host b;
        end slow_from(a);
        end slow_to(b);
        end from(a);
        end to(b);
        connect(slow_from, slow_to);
        connect(from, to);
        constexpr int many = 200; // more than are in flight, and than there are buffers
        for (int i = 0; i < many; ++i)
            slow_from.request(opcode::send, 0, 1000);
        to.receive(0, 100);
        from.request(opcode::send, 0, 100);
        CHECK(b.wait().wr == to.posted[0].get());
        CHECK(a.wait().wr == from.posted[0].get());
        for (int i = 0; i < many; ++i)
            slow_to.receive(4096, 1000);
        for (int i = 0; i < many; ++i)
            CHECK(b.wait().status == DAT_DTO_SUCCESS);
        for (int i = 0; i < many; ++i)
            CHECK(a.wait().status == DAT_DTO_SUCCESS);
    }

    TEST_CASE("who takes a completion from one queue leaves no other queue without its callback")
    {
        const fresh_network network;
        host a;
        host b;
        core::evd events;
        types::cq other;
        DAT_COUNT depth = 16;
        REQUIRE(api::dapls_ib_cq_alloc(b.device, other, events, depth).ok());
        {
            end polled_from(a);
            end polled(b);
            end waits_from(a);
            end waits(b, nullptr, &other);
            connect(polled_from, polled);
            connect(waits_from, waits);
            polled_from.receive(0, 64);
            waits.receive(64, 64);
            api::dapls_ib_completion_notify(other, notify_on::any);
            set(&scripted_network::reads_ahead, true);
            polled.request(opcode::send, 0, 64);
            CHECK(eventually([&] { return is_asleep(b); }));
            CHECK(a.wait().wr == polled_from.posted[0].get());
            CHECK(a.is_empty()); // so it acknowledges
            waits_from.request(opcode::send, 0, 64);
            CHECK(b.wait().wr == polled.posted[0].get());
            CHECK_FALSE(sleeps_beside_events(b));
            CHECK(eventually([&] { return events.callbacks == 1; }));
        }
        api::dapls_ib_cq_free(other);
    }

    TEST_CASE_FIXTURE(connected_ends,
                      "a read of the peer passes a message that waits for a receive")
    {
        from.request(opcode::send, 0, 64);
        a.memory[8000] = 17;
        const DAT_RMR_TRIPLET there = a.remote(8000, 1);
        to.request(opcode::rdma_read, 9000, 1, &there);
        CHECK(b.wait().status == DAT_DTO_SUCCESS);
        CHECK(b.memory[9000] == 17);
    }

    TEST_CASE("a write can be seen before the message behind it, with accesses and datagrams")
    {
        const fresh_network network;
        net().shuffles = true;
        host a;
        host b;
        end from(a);
        end to(b);
        connect(from, to);
        for (const std::uint32_t size : {100u, 5000u, 20'000u, 300'000u}) {
            std::memset(a.memory.data(), static_cast<int>(size % 251), size);
            const DAT_RMR_TRIPLET there = b.remote(1000, size);
            to.receive(0, 8);
            from.request(opcode::rdma_write, 0, size, &there);
            from.request(opcode::send, 0, 8);
            CHECK(b.wait().status == DAT_DTO_SUCCESS);
            CHECK(std::equal(a.memory.begin(), a.memory.begin() + size, b.memory.begin() + 1000));
            CHECK(a.wait().wr->operation == opcode::rdma_write);
            CHECK(a.wait().wr->operation == opcode::send);
        }
        CHECK(net().ended_accesses > 0);
        const DAT_RMR_TRIPLET from_there = b.remote(1000, 300'000);
        std::fill(a.memory.begin(), a.memory.end(), std::uint8_t{0});
        from.request(opcode::rdma_read, 0, 300'000, &from_there);
        CHECK(a.wait().status == DAT_DTO_SUCCESS);
        CHECK(std::equal(a.memory.begin(), a.memory.begin() + 300'000, b.memory.begin() + 1000));
        b.deregister(); // all grants were given back: it does not wait
        CHECK(b.region.uses == 0);
    }

    TEST_CASE("a remote access that is refused ends the connection on both sides")
    {
        const fresh_network network;
        std::uint32_t size = 0;
        SUBCASE("of datagrams")
        {
            size = 100;
        }
        SUBCASE("of the device")
        {
            size = 20'000;
        }
        for (const opcode what : {opcode::rdma_write, opcode::rdma_read}) {
            host a;
            host b(30'000);
            end from(a);
            end to(b);
            connect(from, to);
            DAT_RMR_TRIPLET there = b.remote(30'000 - size + 1, size); // one byte too long
            from.request(what, 0, size, &there);
            CHECK(a.wait().status == DAT_DTO_ERR_REMOTE_ACCESS);
            CHECK(from.is(broken));
            CHECK(to.is(broken));
        }
    }

    TEST_CASE("sends to a peer that has stopped leave buffers to other connections")
    {
        const fresh_network network;
        host a;
        host stopped;
        host b;
        end from(a);
        end to(b);
        std::vector<std::unique_ptr<end>> stuck;
        for (int i = 0; i < 3; ++i) {
            stuck.push_back(std::make_unique<end>(a));
            stuck.push_back(std::make_unique<end>(stopped));
            connect(*stuck[2 * i], *stuck[2 * i + 1]);
        }
        connect(from, to);
        set(&scripted_network::stopped, 1);
        for (std::size_t i = 0; i < stuck.size(); i += 2)
            for (int sends = 0; sends < 40; ++sends)
                stuck[i]->request(opcode::send, 0, 64);
        for (int i = 0; i < 100; ++i) {
            to.receive(0, 64);
            from.request(opcode::send, 0, 64);
            CHECK(b.wait().status == DAT_DTO_SUCCESS);
            while (a.wait().wr != from.posted.back().get()) {
                // On a slow machine connections to the stopped peer are lost meanwhile.
            }
        }
    }

    TEST_CASE_FIXTURE(connected_ends, "a device that takes nothing for ever breaks the connection")
    {
        set(&scripted_network::busy, true);
        from.request(opcode::send, 0, 64);
        CHECK(from.is(broken));
        CHECK(to.is(broken));
        CHECK(a.wait().status == DAT_DTO_ERR_FLUSHED);
        set(&scripted_network::busy, false);
    }

    TEST_CASE_FIXTURE(connected_ends, "a device that takes nothing for a while does not")
    {
        to.receive(0, 64);
        set(&scripted_network::busy, true);
        from.request(opcode::send, 0, 64);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        set(&scripted_network::busy, false);
        CHECK(b.wait().status == DAT_DTO_SUCCESS);
        CHECK(a.wait().status == DAT_DTO_SUCCESS);
    }

    TEST_CASE_FIXTURE(connected_ends,
                      "a datagram that the device could not deliver breaks the connection")
    {
        set(&scripted_network::loses, true);
        from.request(opcode::send, 0, 64);
        CHECK(from.is(broken));
        CHECK(a.wait().status == DAT_DTO_ERR_FLUSHED);
        set(&scripted_network::loses, false);
    }

    TEST_CASE("what is late for an old connection is nothing to a new one")
    {
        const fresh_network network;
        net().records = true;
        host a;
        host b;
        std::vector<datagram> old;
        {
            end from(a);
            end to(b);
            connect(from, to);
            to.receive(0, 64);
            from.request(opcode::send, 0, 64);
            CHECK(b.wait().status == DAT_DTO_SUCCESS);
            CHECK(a.wait().status == DAT_DTO_SUCCESS);
            disconnect(from, to);
            std::lock_guard hold(net().lock);
            old = net().recorded;
        }
        REQUIRE(!old.empty());
        end from(a);
        end to(b);
        connect(from, to);
        to.receive(0, 64);
        for (datagram bytes : old)
            for (std::uint8_t pair = 0; pair < 8; ++pair) {
                bytes[4] = pair; // the low byte of the queue pair's number
                net().inject(0, bytes);
                net().inject(1, bytes);
            }
        a.memory[0] = 99;
        from.request(opcode::send, 0, 64);
        CHECK(b.wait().wr == to.posted[0].get());
        CHECK(b.memory[0] == 99);
        CHECK(a.wait().status == DAT_DTO_SUCCESS);
        CHECK(b.is_empty());
    }

    TEST_CASE("datagrams of any content do no damage")
    {
        const fresh_network network;
        net().records = true;
        host a;
        host b;
        end from(a);
        end to(b);
        connect(from, to);
        to.receive(0, 64);
        from.request(opcode::send, 0, 64);
        CHECK(b.wait().status == DAT_DTO_SUCCESS);
        datagram good;
        {
            std::lock_guard hold(net().lock);
            good = net().recorded.front();
        }
        end other_from(a);
        end other_to(b);
        connect(other_from, other_to);
        const std::vector<std::uint8_t> before = b.memory;
        std::minstd_rand random(17);
        for (int i = 0; i < 20'000; ++i) {
            datagram bytes = good;
            bytes.resize(random() % (fabric::least_datagram + 8));
            const bool named = i % 4 != 0 && bytes.size() >= packet_header::size;
            for (std::size_t at = named ? 16 : 0; at < bytes.size(); ++at)
                bytes[at] = static_cast<std::uint8_t>(random());
            if (named)
                bytes[1] = static_cast<std::uint8_t>(random() % 16);
            net().inject(1, bytes);
        }
        // The connection that was named may have been ended; others live.
        other_to.receive(0, 64);
        a.memory[5] = 5;
        other_from.request(opcode::send, 0, 64);
        completion got = b.wait();
        while (got.wr != other_to.posted[0].get())
            got = b.wait();
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(std::equal(before.begin() + 64, before.end(), b.memory.begin() + 64));
    }

    TEST_CASE_FIXTURE(connected_ends, "one changed field of a header makes another packet")
    {
        net().records = true;
        to.receive(0, 64);
        from.request(opcode::send, 0, 64);
        REQUIRE(b.wait().status == DAT_DTO_SUCCESS);
        datagram due;
        {
            std::lock_guard hold(net().lock);
            due = net().recorded.front();
        }
        due[16] = 1; // the next number
        due[packet_header::size] = 77;
        to.receive(0, 128);
        const auto changed = [&](std::size_t at, std::uint8_t by) {
            datagram bytes = due;
            bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ by);
            return bytes;
        };
        // Magic number, kind, unused, queue pair, both ends of the tag, number, round.
        for (const auto &[at, by] : std::vector<std::pair<std::size_t, std::uint8_t>>{{0, 1},
                                                                                      {1, 0x80},
                                                                                      {3, 1},
                                                                                      {5, 0x80},
                                                                                      {7, 1},
                                                                                      {8, 1},
                                                                                      {15, 0x80},
                                                                                      {17, 1},
                                                                                      {52, 1}})
            net().inject(1, changed(at, by));
        datagram cut = due;
        cut.resize(packet_header::size - 1);
        net().inject(1, cut);
        CHECK(b.is_empty());
        CHECK(b.memory[0] == 0);
        SUBCASE("and the right one is taken")
        {
            net().inject(1, due);
            CHECK(b.wait().wr == to.posted[1].get());
            CHECK(b.memory[0] == 77);
        }
        const auto ends_with = [&](std::size_t at) {
            net().inject(1, changed(at, 1));
            CHECK(b.wait().status == DAT_DTO_ERR_FLUSHED);
            CHECK(b.memory[0] == 0);
        };
        SUBCASE("and a wrong length ends the connection")
        {
            ends_with(28);
        }
        SUBCASE("and a wrong place ends the connection")
        {
            ends_with(32);
        }
    }

    TEST_CASE_FIXTURE(connected_ends, "messages use no memory that is not registered for them now")
    {
        const auto message = [&](std::size_t at) {
            to.receive(at, 64);
            from.request(opcode::send, 0, 64);
            CHECK(b.wait().status == DAT_DTO_SUCCESS);
        };
        message(0); // each side knows a region from now on
        a.memory[0] = 5;
        SUBCASE("the sender's is gone")
        {
            to.receive(0, 64);
            a.deregister();
            from.request(opcode::send, 0, 64);
            while (a.wait().wr != from.posted[1].get()) {
            }
            CHECK(to.is(broken));
        }
        SUBCASE("the receiver's is gone")
        {
            to.receive(0, 64);
            b.deregister();
            from.request(opcode::send, 0, 64);
            CHECK(b.wait().status == DAT_DTO_ERR_LOCAL_PROTECTION);
        }
        types::pd other;
        REQUIRE(api::dapls_ib_pd_alloc(b.device, other).ok());
        types::mr further;
        mr_keys keys;
        const auto receive_in = [&](types::pd &zone, DAT_MEM_PRIV_FLAGS rights, std::size_t size) {
            REQUIRE(api::dapls_ib_mr_register(zone, further, {b.memory.data(), size, rights}, keys)
                        .ok());
            wr &w = to.fresh();
            w.operation = opcode::receive;
            DAT_LMR_TRIPLET where = b.local(0, 64);
            where.lmr_context = keys.local;
            REQUIRE(api::dapls_ib_post_recv(to.pair, w, 1, &where).ok());
            from.request(opcode::send, 0, 64);
            CHECK(b.wait().status == DAT_DTO_ERR_LOCAL_PROTECTION);
            api::dapls_ib_mr_deregister(further);
        };
        SUBCASE("another one must not be written")
        {
            receive_in(b.zone, DAT_MEM_PRIV_LOCAL_READ_FLAG, 64);
        }
        SUBCASE("another one belongs to another domain")
        {
            receive_in(other, all_rights, 64);
        }
        SUBCASE("another one is too short")
        {
            receive_in(b.zone, all_rights, 63);
        }
        CHECK(b.memory[0] == 0);
    }

    TEST_CASE("the device opens memory as far as the consumer does, and none of the layer's")
    {
        fresh_network on;
        host a;
        const auto was = net().rights;
        REQUIRE(was.size() == 2);
        CHECK_FALSE((was[0].remote_read || was[0].remote_write));
        CHECK((was[1].local_write && was[1].remote_read && was[1].remote_write));
        const auto open_to = [&](int flags) {
            types::mr region;
            mr_keys keys;
            REQUIRE(api::dapls_ib_mr_register(
                        a.zone, region,
                        {a.memory.data(), a.memory.size(), static_cast<DAT_MEM_PRIV_FLAGS>(flags)},
                        keys)
                        .ok());
            api::dapls_ib_mr_deregister(region);
            return net().rights.back();
        };
        const memory_rights none = open_to(DAT_MEM_PRIV_LOCAL_READ_FLAG);
        CHECK_FALSE((none.local_write || none.remote_read || none.remote_write));
        const memory_rights reads = open_to(DAT_MEM_PRIV_REMOTE_READ_FLAG);
        CHECK((reads.remote_read && !reads.local_write && !reads.remote_write));
        const memory_rights writes = open_to(DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
        CHECK((writes.remote_write && !writes.remote_read));
    }

    TEST_CASE_FIXTURE(connected_ends,
                      "deregistering waits for an access, and its grant is given back")
    {
        set(&scripted_network::keeps_accesses, true);
        const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
        from.request(opcode::rdma_write, 0, 20'000, &there);
        REQUIRE(eventually([&] { return is_accessed(b); }));
        std::atomic<bool> gone{false};
        std::thread consumer([&] {
            b.deregister();
            gone = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(!gone);
        set(&scripted_network::keeps_accesses, false);
        consumer.join();
        CHECK(a.wait().status == DAT_DTO_SUCCESS);
        CHECK(b.region.uses == 0);
    }

    TEST_CASE_FIXTURE(connected_ends, "a read is flushed after the device has stopped to store")
    {
        set(&scripted_network::keeps_accesses, true);
        b.memory[0] = 17;
        const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
        from.request(opcode::rdma_read, 0, 20'000, &there);
        REQUIRE(eventually([&] { return is_accessed(a); }));
        std::thread consumer([&] { api::dapls_ib_disconnect(from.pair, DAT_CLOSE_ABRUPT_FLAG); });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        CHECK(a.is_empty());
        set(&scripted_network::keeps_accesses, false);
        consumer.join();
        (void)a.wait();
        CHECK(a.memory[0] == 17);
        CHECK(a.region.uses == 0);
    }

    TEST_CASE("a connected pair is freed after the device has stopped to store")
    {
        const fresh_network network;
        host a;
        host b;
        auto from = std::make_unique<end>(a);
        end to(b);
        connect(*from, to);
        set(&scripted_network::keeps_accesses, true);
        b.memory[0] = 17;
        const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
        from->request(opcode::rdma_read, 0, 20'000, &there);
        REQUIRE(eventually([&] { return is_accessed(a); }));
        std::atomic<bool> gone{false};
        std::thread consumer([&] {
            from.reset();
            gone = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        CHECK(!gone);
        set(&scripted_network::keeps_accesses, false);
        consumer.join();
        CHECK(a.memory[0] == 17);
        CHECK(a.region.uses == 0);
    }

    TEST_CASE_FIXTURE(connected_ends, "the end waits for no access that the device had no room for")
    {
        set(&scripted_network::refuses_access, true);
        const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
        from.request(opcode::rdma_read, 0, 20'000, &there);
        REQUIRE(eventually([&] {
            osd::lock_guard hold(a.device.library);
            const std::lock_guard alone(net().lock);
            return net().refused_accesses != 0;
        }));
        {
            osd::lock_guard hold(a.device.library);
            for (const pair_access &each : a.device.accesses)
                CHECK_FALSE(each.in_use);
        }
        disconnect(from, to);
        CHECK(a.wait().status == DAT_DTO_ERR_FLUSHED);
    }

    TEST_CASE("an access that does not end keeps its memory on the device, and nobody else")
    {
        const fresh_network network;
        auto a = std::make_unique<host>();
        host b;
        {
            end from(*a);
            end to(b);
            connect(from, to);
            set(&scripted_network::keeps_accesses, true);
            const DAT_RMR_TRIPLET there = b.remote(0, 20'000);
            from.request(opcode::rdma_write, 0, 20'000, &there);
            REQUIRE(eventually([&] {
                osd::lock_guard hold(a->device.library);
                return a->region.uses != 0;
            }));
            disconnect(from, to);
            CHECK(a->wait().status == DAT_DTO_ERR_FLUSHED);
        }
        a->deregister();
        CHECK(net().deregistered == 0);
        b.deregister();
        CHECK(net().deregistered == 1);
        a.reset();
    }

    TEST_CASE("receives of a shared queue go to who needs them")
    {
        const fresh_network network;
        host a;
        host b;
        types::srq shared;
        core::shared_recv_queue owner;
        REQUIRE(api::dapls_ib_srq_alloc(b.zone, shared, {&owner, 64, 1}).ok());
        {
            end one_from(a);
            end one_to(b, &shared);
            end two_from(a);
            end two_to(b, &shared);
            connect(one_from, one_to);
            connect(two_from, two_to);
            for (int i = 0; i < 10; ++i) {
                one_from.request(opcode::send, 0, 64);
                two_from.request(opcode::send, 64, 64);
            }
            std::vector<std::unique_ptr<wr>> receives;
            for (int i = 0; i < 20; ++i) {
                receives.push_back(std::make_unique<wr>());
                receives.back()->operation = opcode::receive;
                const DAT_LMR_TRIPLET where = b.local(4096, 64);
                REQUIRE(api::dapls_ib_post_srq_recv(shared, *receives.back(), 1, &where).ok());
                CHECK(b.wait().status == DAT_DTO_SUCCESS);
            }
            for (int i = 0; i < 20; ++i)
                CHECK(a.wait().status == DAT_DTO_SUCCESS);
            REQUIRE(api::dapls_ib_srq_set_limit(shared, 1).ok());
            CHECK(eventually([&] { return owner.limits == 1; }));
        }
        api::dapls_ib_srq_free(shared);
    }

    TEST_CASE("a receive of a shared queue goes to the next pair where a peer has stopped")
    {
        const fresh_network network;
        host stopping;
        host a;
        host b;
        types::srq shared;
        core::shared_recv_queue owner;
        REQUIRE(api::dapls_ib_srq_alloc(b.zone, shared, {&owner, 64, 1}).ok());
        {
            end one_from(stopping);
            end one_to(b, &shared);
            end two_from(a);
            end two_to(b, &shared);
            connect(one_from, one_to);
            connect(two_from, two_to);
            one_from.request(opcode::send, 0, 64);
            CHECK(eventually([&] { return is_starved(one_to); }));
            two_from.request(opcode::send, 0, 64);
            CHECK(eventually([&] { return is_starved(two_to); }));
            wr receive;
            receive.operation = opcode::receive;
            const DAT_LMR_TRIPLET where = b.local(4096, 64);
            {
                osd::lock_guard stops(stopping.device.library);
                REQUIRE(api::dapls_ib_post_srq_recv(shared, receive, 1, &where).ok());
                CHECK(b.wait().wr == &receive);
            }
            CHECK(a.wait().wr == two_from.posted[0].get());
        }
        api::dapls_ib_srq_free(shared);
    }

    /// Its time is that of sockets: it runs by itself.
    TEST_CASE("two thousand connections move data at the same time" * doctest::skip())
    {
        constexpr std::size_t count = test_run::rounds(2000);
        rlimit files{};
        REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
        files.rlim_cur = files.rlim_max;
        REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
        if (files.rlim_cur < 2 * count + 100) {
            MESSAGE("not run: this user may open ", files.rlim_cur, " descriptors only");
            return;
        }
        const fresh_network network;
        host a;
        host b;
        std::vector<std::unique_ptr<end>> from(count);
        std::vector<std::unique_ptr<end>> to(count);
        for (std::size_t i = 0; i < count; ++i) {
            from[i] = std::make_unique<end>(a);
            to[i] = std::make_unique<end>(b);
            connect(*from[i], *to[i]);
            to[i]->receive(64 * i, 64);
        }
        for (std::size_t i = 0; i < count; ++i) {
            a.memory[64 * i] = static_cast<std::uint8_t>(i % 251 + 1);
            from[i]->request(opcode::send, 64 * i, 64);
        }
        for (std::size_t i = 0; i < count; ++i) {
            CHECK(a.wait().status == DAT_DTO_SUCCESS);
            CHECK(b.wait().length == 64);
        }
        CHECK(std::equal(a.memory.begin(), a.memory.begin() + 64 * count, b.memory.begin()));
        from.clear();
        for (const auto &each : to)
            CHECK(each->is(disconnected));
    }

    TEST_CASE("what the layer keeps of a connection is small")
    {
        MESSAGE("bytes of the layer for a connection: ", sizeof(connection_data));
        CHECK(sizeof(connection_data) <= 2048);
    }
}
