// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// many-endpoints: what one more endpoint costs. For each number of connections, all of them between
// this process and one other: memory per endpoint, and the time of a message when all take turns
// and when one is busy and the others are idle. Endpoints share their event dispatchers.
#include "dat_link.hpp"
#include "forked_peer.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <malloc.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace bench;

constexpr seconds limit{60};
constexpr std::uint32_t message_size = 64;
constexpr int window = 16;           ///< outstanding messages, over all endpoints
constexpr int receives_per_peer = 2; ///< posted on each endpoint

struct options {
    std::string adapter;
    std::string json;
    std::vector<std::uint32_t> counts = {1, 10, 100, 1000, 2000};
    std::uint32_t messages = 20'000, rounds = 5;
};

/// Resident bytes that this process does not share with others.
double private_bytes()
{
    std::ifstream statm("/proc/self/statm");
    double size = 0, resident = 0, shared = 0;
    statm >> size >> resident >> shared;
    return (resident - shared) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Many endpoints with one EVD per purpose, and a slot of memory for each.
class crowd {
public:
    crowd(dat_adapter &adapter, std::uint32_t count) : adapter_(adapter), bytes_(2 * message_size)
    {
        const auto total = static_cast<DAT_COUNT>(count);
        receives_ = make_evd(total * receives_per_peer, DAT_EVD_DTO_FLAG);
        requests_ = make_evd(total * receives_per_peer + window, DAT_EVD_DTO_FLAG);
        connections_ = make_evd(2 * total, DAT_EVD_CONNECTION_FLAG);
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes_.data();
        DAT_VLEN length = 0;
        DAT_VADDR base = 0;
        DAT_RMR_CONTEXT remote = 0;
        program::must("dat_lmr_create",
                      dat_lmr_create(adapter.ia(), DAT_MEM_TYPE_VIRTUAL, region, bytes_.size(),
                                     adapter.pz(), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr_,
                                     &context_, &remote, &length, &base));
        for (std::uint32_t i = 0; i < count; ++i)
            endpoints_.push_back(make_endpoint());
    }
    ~crowd()
    {
        for (DAT_EP_HANDLE ep : endpoints_)
            dat_ep_free(ep);
        dat_lmr_free(lmr_);
        for (DAT_EVD_HANDLE evd : {receives_, requests_, connections_})
            dat_evd_free(evd);
    }
    crowd(const crowd &) = delete;

    std::size_t size() const { return endpoints_.size(); }

    void connect(std::size_t i, sockaddr_storage to, DAT_CONN_QUAL qualifier, patience &p)
    {
        program::must("dat_ep_connect",
                      dat_ep_connect(endpoints_[i], reinterpret_cast<DAT_IA_ADDRESS_PTR>(&to),
                                     qualifier, 20'000'000, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                     DAT_CONNECT_DEFAULT_FLAG));
        await_established(p);
    }
    void accept(std::size_t i, DAT_CR_HANDLE request, patience &p)
    {
        program::must("dat_cr_accept", dat_cr_accept(request, endpoints_[i], 0, nullptr));
        await_established(p);
    }

    void send(DAT_EP_HANDLE ep)
    {
        DAT_LMR_TRIPLET local = slot(0);
        program::must("dat_ep_post_send",
                      dat_ep_post_send(ep, 1, &local, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    DAT_EP_HANDLE endpoint(std::size_t i) const { return endpoints_[i]; }

    /// The endpoint of the next message, which may take another one now; null if none came.
    DAT_EP_HANDLE take_message()
    {
        DAT_EVENT event;
        if (!take(receives_, event))
            return DAT_HANDLE_NULL;
        DAT_EP_HANDLE ep = event.event_data.dto_completion_event_data.ep_handle;
        post_receive(ep);
        return ep;
    }
    bool take_sent()
    {
        DAT_EVENT event;
        return take(requests_, event);
    }

private:
    DAT_EVD_HANDLE make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags)
    {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        program::must("dat_evd_create", dat_evd_create(adapter_.ia(), std::max(length, 64),
                                                       DAT_HANDLE_NULL, flags, &evd));
        return evd;
    }
    DAT_EP_HANDLE make_endpoint()
    {
        DAT_EP_ATTR attr{};
        attr.service_type = DAT_SERVICE_TYPE_RC;
        attr.max_message_size = attr.max_rdma_size = message_size;
        attr.max_recv_dtos = receives_per_peer;
        attr.max_request_dtos = window;
        attr.max_recv_iov = attr.max_request_iov = 1;
        attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        program::must("dat_ep_create", dat_ep_create(adapter_.ia(), adapter_.pz(), receives_,
                                                     requests_, connections_, &attr, &ep));
        for (int i = 0; i < receives_per_peer; ++i)
            post_receive(ep);
        return ep;
    }
    void post_receive(DAT_EP_HANDLE ep)
    {
        DAT_LMR_TRIPLET local = slot(message_size);
        program::must("dat_ep_post_recv",
                      dat_ep_post_recv(ep, 1, &local, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    DAT_LMR_TRIPLET slot(std::size_t at) const
    {
        return {reinterpret_cast<DAT_VADDR>(bytes_.data() + at), message_size, context_};
    }
    void await_established(patience &p)
    {
        DAT_EVENT event;
        p.progress();
        while (!take(connections_, event))
            p.spin();
        if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
            program::fail_connection(event.event_number);
    }
    static bool take(DAT_EVD_HANDLE evd, DAT_EVENT &event)
    {
        const DAT_RETURN code = dat_evd_dequeue(evd, &event);
        if (code != DAT_SUCCESS && DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY)
            program::fail("dat_evd_dequeue", code);
        if (code == DAT_SUCCESS && event.event_number == DAT_DTO_COMPLETION_EVENT &&
            event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
            throw program::failure("a message failed");
        return code == DAT_SUCCESS;
    }

    dat_adapter &adapter_;
    std::vector<std::byte> bytes_;
    DAT_EVD_HANDLE receives_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections_ = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr_ = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context_ = 0;
    std::vector<DAT_EP_HANDLE> endpoints_;
};

struct invitation {
    sockaddr_storage address;
    DAT_CONN_QUAL qualifier;
};

/// The passive side: returns every message until the control connection says to stop.
void echo(channel &leader, const options &o)
{
    dat_adapter adapter(o.adapter);
    patience p(leader, limit);
    for (const std::uint32_t count : o.counts) {
        dat_listener listener(adapter, 0);
        crowd all(adapter, count);
        leader.send(invitation{adapter.address(), listener.qualifier()});
        for (std::size_t i = 0; i < count; ++i)
            all.accept(i, listener.next_request(p), p);
        auto left = leader.receive<std::uint64_t>(limit);
        leader.send('r');
        p.progress();
        while (left != 0) {
            while (all.take_sent()) {
            }
            if (DAT_EP_HANDLE ep = all.take_message()) {
                all.send(ep);
                --left;
                p.progress();
            } else {
                p.spin();
            }
        }
        (void)leader.receive<char>(limit); // it has all that we sent
    }
}

struct row {
    std::uint32_t count;
    double bytes, all_us, one_us;
};

/// Microseconds per message, there and back being two.
double exchange(crowd &all, std::size_t used, std::uint32_t messages, patience &p)
{
    std::uint32_t sent = 0, answered = 0;
    const auto in_flight = static_cast<std::uint32_t>(std::min<std::size_t>(used, window));
    const auto start = clock::now();
    p.progress();
    while (answered < messages) {
        while (sent < messages && sent - answered < in_flight)
            all.send(all.endpoint(sent++ % used));
        while (all.take_sent()) {
        }
        if (all.take_message() != DAT_HANDLE_NULL) {
            ++answered;
            p.progress();
        } else {
            p.spin();
        }
    }
    return seconds(clock::now() - start).count() * 1e6 / (2.0 * messages);
}

row measure(channel &peer, dat_adapter &adapter, std::uint32_t count, const options &o)
{
    patience p(peer, limit);
    const auto to = peer.receive<invitation>(limit);
    malloc_trim(0); // what the crowd before has freed is not ours
    const double before = private_bytes();
    crowd all(adapter, count);
    for (std::size_t i = 0; i < count; ++i)
        all.connect(i, to.address, to.qualifier, p);
    const std::uint32_t messages = std::max(o.messages, 2 * count);
    const std::uint32_t warm_up = 2 * count;
    peer.send(std::uint64_t{warm_up} + std::uint64_t{2 * o.rounds} * messages);
    (void)peer.receive<char>(limit);
    exchange(all, count, warm_up, p);
    const double bytes = (private_bytes() - before) / count;
    std::vector<double> turns, one;
    for (std::uint32_t i = 0; i < o.rounds; ++i) {
        turns.push_back(exchange(all, count, messages, p));
        one.push_back(exchange(all, 1, messages, p));
    }
    peer.send('d');
    return {count, bytes, median(turns), median(one)};
}

int run(const options &o)
{
    auto [child, peer] = forked_peer::start([&](channel &leader) { echo(leader, o); });
    dat_adapter adapter(o.adapter);
    std::printf("%11s %16s %22s %22s\n", "connections", "memory of each", "message, all in turn",
                "message, others idle");
    program::json rows = program::json::array();
    for (const std::uint32_t count : o.counts) {
        const row r = measure(peer, adapter, count, o);
        std::printf("%11u %12.1f KiB %19.2f us %19.2f us\n", r.count, r.bytes / 1024, r.all_us,
                    r.one_us);
        std::fflush(stdout);
        rows.push_back({{"connections", r.count},
                        {"bytes_each", r.bytes},
                        {"message_all_us", r.all_us},
                        {"message_one_us", r.one_us}});
    }
    child.ended_well(limit);
    if (!o.json.empty())
        program::write_json(
            o.json,
            {{"adapter", o.adapter}, {"origin", program::origin_json()}, {"results", rows}});
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("many-endpoints",
                               "Cost of additional endpoints, in memory and in time");
    line.positional("adapter", o.adapter, "adapter name in dat.conf",
                    program::command_line::presence::required);
    line.sizes("--connections", o.counts, 20'000, "numbers of connections to measure with");
    line.number("--messages", o.messages, 100u, 10'000'000u, "messages per measurement");
    line.number("--rounds", o.rounds, 1u, 1000u, "measurements; the median is reported");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "many-endpoints: %s\n", e.what());
        return 1;
    }
}
