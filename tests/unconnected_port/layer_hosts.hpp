// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Adapters on the scripted device, and connections between them, as cases about the layer use them.
#pragma once

#include "scripted_fabric.hpp"

#include "eventually.hpp"

#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <utility>
#include <vector>

namespace dapl::DAPL_TRANSPORT::core {

class adapter {};
class evd {
public:
    std::atomic<int> callbacks{0};
};
class shared_recv_queue {
public:
    std::atomic<int> limits{0};
};
class endpoint {
public:
    std::atomic<int> last{0};
};

/// Accepts with the next queue pair that a test has made.
class service_point {
public:
    unconnected::qp *with = nullptr;
};

} // namespace dapl::DAPL_TRANSPORT::core

namespace dapl::DAPL_TRANSPORT::unconnected {

using api = port;

inline constexpr int established = DAT_CONNECTION_EVENT_ESTABLISHED;
inline constexpr int broken = DAT_CONNECTION_EVENT_BROKEN;
inline constexpr int disconnected = DAT_CONNECTION_EVENT_DISCONNECTED;
inline constexpr auto all_rights = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG);

inline scripted_network &net()
{
    return scripted_network::get();
}

/// An adapter with a protection domain, a CQ, and memory that is registered.
struct host {
    explicit host(std::size_t size = 1 << 20) : memory(size)
    {
        REQUIRE(api::dapls_ib_open_hca(device, {"test", "", &owner}).ok());
        REQUIRE(api::dapls_ib_pd_alloc(device, zone).ok());
        DAT_COUNT depth = 1024;
        REQUIRE(api::dapls_ib_cq_alloc(device, queue, events, depth).ok());
        REQUIRE(api::dapls_ib_mr_register(zone, region, {memory.data(), memory.size(), all_rights},
                                          keys)
                    .ok());
    }
    ~host()
    {
        if (registered)
            api::dapls_ib_mr_deregister(region);
        api::dapls_ib_cq_free(queue);
        api::dapls_ib_close_hca(device);
    }
    DAT_LMR_TRIPLET local(std::size_t at, std::uint32_t length)
    {
        return {reinterpret_cast<std::uintptr_t>(memory.data() + at), length, keys.local};
    }
    DAT_RMR_TRIPLET remote(std::size_t at, std::uint32_t length)
    {
        DAT_RMR_TRIPLET out{};
        out.virtual_address = reinterpret_cast<std::uintptr_t>(memory.data() + at);
        out.segment_length = length;
        out.rmr_context = keys.remote;
        return out;
    }
    void deregister()
    {
        api::dapls_ib_mr_deregister(region);
        registered = false;
    }
    /// Polls until a completion comes.
    completion wait()
    {
        completion out{};
        REQUIRE(eventually([&] { return api::dapls_ib_completion_poll(queue, out); }));
        return out;
    }
    bool is_empty()
    {
        completion out{};
        return !api::dapls_ib_completion_poll(queue, out);
    }

    core::adapter owner;
    core::evd events;
    std::vector<std::uint8_t> memory;
    types::hca device;
    types::pd zone;
    types::cq queue;
    types::mr region;
    mr_keys keys;
    bool registered = true;
    std::vector<std::unique_ptr<wr>> posted; ///< by ends that are gone
};

struct end {
    end(host &at, types::srq *shared = nullptr, types::cq *receives_to = nullptr) : of(at)
    {
        qp_params params{};
        params.owner = &ep;
        params.max_recv = params.max_send = 256;
        params.max_rdma_read_in = params.max_rdma_read_out = 4;
        types::cq *const received = receives_to != nullptr ? receives_to : &at.queue;
        REQUIRE(api::dapls_ib_qp_alloc(at.zone, pair, received, &at.queue, shared, params).ok());
    }
    /// What was posted may be in the queue of the host still.
    ~end()
    {
        api::dapls_ib_qp_free(pair);
        for (auto &each : posted)
            of.posted.push_back(std::move(each));
    }

    wr &fresh()
    {
        posted.push_back(std::make_unique<wr>());
        return *posted.back();
    }
    wr &receive(std::size_t at, std::uint32_t length)
    {
        wr &w = fresh();
        w.operation = opcode::receive;
        const DAT_LMR_TRIPLET where = of.local(at, length);
        REQUIRE(api::dapls_ib_post_recv(pair, w, 1, &where).ok());
        return w;
    }
    wr &request(opcode what, std::size_t at, std::uint32_t length,
                const DAT_RMR_TRIPLET *remote = nullptr)
    {
        wr &w = fresh();
        w.operation = what;
        const DAT_LMR_TRIPLET where = of.local(at, length);
        REQUIRE(
            api::dapls_ib_post_send(pair, w, 1, &where, remote, DAT_COMPLETION_DEFAULT_FLAG).ok());
        return w;
    }
    bool is(int event) const
    {
        return eventually([&] { return ep.last == event; });
    }

    host &of;
    core::endpoint ep;
    types::qp pair;
    std::vector<std::unique_ptr<wr>> posted;
};

inline void connect(end &from, end &to)
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
    CHECK(from.is(established));
    CHECK(to.is(established));
    api::dapls_ib_remove_conn_listener(listener);
}

inline fabric_traits lax()
{
    fabric_traits is;
    is.max_datagram = fabric::least_datagram;
    is.send_depth = 64;
    is.accesses = true;
    is.access_from = 8192;
    is.max_access = 5000;
    return is;
}

/// The network as it is at the beginning of each case.
struct fresh_network {
    fresh_network()
    {
        std::lock_guard hold(net().lock);
        net().traits = lax();
        net().has_descriptor = true;
        net().shuffles = net().busy = net().loses = net().keeps_accesses = net().records = false;
        net().reads_ahead = net().refuses_access = false;
        net().stopped = -1;
        net().dead_stop = net().cancels = false;
        net().forgets = true;
        net().knows_nobody = net().fails_access = false;
        net().name_size = 1;
        net().peer_stays_ms = 1000;
        net().asked = net().given_up = net().cancelled = net().misused = 0;
        net().refused_accesses = 0;
        net().recorded.clear();
        net().rights.clear();
        net().devices.clear();
        net().deregistered = 0;
    }
    ~fresh_network()
    {
        std::lock_guard hold(net().lock);
        net().busy = net().loses = net().keeps_accesses = net().refuses_access = false;
        CHECK(net().misused == 0);
    }
};

template <class Member>
void set(Member scripted_network::*what, Member value)
{
    std::lock_guard hold(net().lock);
    net().*what = value;
}

inline void disconnect(end &a, end &b)
{
    api::dapls_ib_disconnect(a.pair, DAT_CLOSE_ABRUPT_FLAG);
    CHECK(b.is(disconnected));
}

inline bool is_accessed(host &at)
{
    osd::lock_guard hold(at.device.library);
    return at.region.uses != 0;
}

/// Two ends with a connection, each on a host of its own.
struct connected_ends {
    const fresh_network network;
    host a;
    host b;
    end from{a};
    end to{b};

    connected_ends() { connect(from, to); }
};

} // namespace dapl::DAPL_TRANSPORT::unconnected
