// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verbs port on a device that has what no device of the virtual machine has, and that fails
// when it is told to.
//
//   stand_in_test LIBRARY [doctest's options]
#include "harness/support.hpp"
#include "stand_in/stand_in.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace conformance;

namespace {

constexpr const char *ia_name = "verbs-stand-in";

/// Writes a dat.conf with adapters that differ by their parameters. False if it cannot.
bool write_registry(const std::string &path, const std::string &library)
{
    const std::pair<const char *, const char *> lines[] = {
        {"", ""},
        {"-vector2", "vector=2"},
        {"-vector9", "vector=9"},
        {"-inline0", "inline=0"},
        {"-odp", "odp=1"},
        {"-relaxed", "relaxed_ordering=1"},
        {"-tos", "tos_low_latency=104"},
        {"-tcp", "cm=tcp sl=3"},
        {"-tcp-nowhere", "cm=tcp tcp_interface=192.0.2.77"},
        {"-tcp-gid1", "cm=tcp tcp_interface=lo gid_index=1"},
        {"-tcp-gid7", "cm=tcp tcp_interface=lo gid_index=7"},
        {"-tcp-lo", "cm=tcp tcp_interface=lo tos_premium=72"},
    };
    std::FILE *file = std::fopen(path.c_str(), "w");
    if (file == nullptr)
        return false;
    for (const auto &[suffix, params] : lines)
        std::fprintf(file, "%s%s u2.0 nonthreadsafe default %s dapl.2.0 \"standin0 1 %s\" \"\"\n",
                     ia_name, suffix, library.c_str(), params);
    return std::fclose(file) == 0;
}

std::string named(const char *suffix)
{
    return ia_name + std::string(suffix);
}

/// Sends the log elsewhere while it lives.
class log_of_now {
public:
    log_of_now() : error_output_(::dup(STDERR_FILENO)), instead_(std::tmpfile())
    {
        REQUIRE(instead_ != nullptr);
        ::dup2(::fileno(instead_), STDERR_FILENO);
    }
    log_of_now(const log_of_now &) = delete;
    log_of_now &operator=(const log_of_now &) = delete;
    ~log_of_now()
    {
        (void)end();
        std::fclose(instead_);
    }
    std::string end()
    {
        if (error_output_ >= 0) {
            ::dup2(error_output_, STDERR_FILENO);
            ::close(error_output_);
            error_output_ = -1;
        }
        return text();
    }
    std::string text() const
    {
        std::string log(65'536, ' ');
        const ssize_t size = ::pread(::fileno(instead_), log.data(), log.size(), 0);
        log.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
        return log;
    }

private:
    int error_output_;
    std::FILE *instead_;
};

/// Returns the log of an adapter of this name that cannot be opened.
std::string refusal_of(const char *suffix)
{
    log_of_now log;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    CHECK(same_type(open_adapter(named(suffix), &async, &ia), DAT_INVALID_PARAMETER));
    return log.end();
}

} // namespace

// ---------------------------------------------------------------------------- vectors

namespace {

std::size_t processors()
{
    return static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

} // namespace

TEST_CASE("EVDs made by one thread have different completion vectors")
{
    adapter ia;
    const std::size_t before = stand_in::vectors_in_use().size();
    for (int i = 0; i < 4; ++i)
        (void)make_evd(ia, DAT_EVD_DTO_FLAG);
    const std::vector<int> all = stand_in::vectors_in_use();
    const std::set<int> used(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    // Where /sys is missing, as in some containers, all vectors count as near.
    CHECK(used.size() >= std::min<std::size_t>(4, processors()));
}

TEST_CASE("the vector of an EVD that is freed is given to the next")
{
    adapter ia;
    DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
    std::set<int> used;
    for (int round = 0; round < 8; ++round) {
        MUST(dat_evd_free(evd));
        evd = make_evd(ia, DAT_EVD_DTO_FLAG);
        used.insert(stand_in::vectors_in_use().back());
    }
    CHECK(used.size() <= processors());
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("vector=: all EVDs have that one")
{
    adapter ia(named("-vector2"));
    const std::size_t before = stand_in::vectors_in_use().size();
    for (int i = 0; i < 4; ++i)
        (void)make_evd(ia, DAT_EVD_DTO_FLAG);
    const std::vector<int> all = stand_in::vectors_in_use();
    for (std::size_t i = before; i < all.size(); ++i)
        CHECK(all[i] == 2);
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("vector=: a vector that the device has not is refused, and the log says which it has")
{
    const std::string log = refusal_of("-vector9");
    INFO(log);
    CHECK(log.find("vector=9") != std::string::npos);
    CHECK(log.find("0 to 3") != std::string::npos);
}

// ---------------------------------------------------------------------------- memory

namespace {

/// Memory that devices read and processors do not, as a GPU's may be. It is here while this lives.
class device_memory {
public:
    static constexpr std::size_t size = 4096;

    device_memory()
        : address_(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          behind_(size, 'd')
    {
        REQUIRE(address_ != MAP_FAILED);
        stand_in::add_device_memory(address_, size, behind_.data());
    }
    device_memory(const device_memory &) = delete;
    device_memory &operator=(const device_memory &) = delete;
    ~device_memory()
    {
        stand_in::forget_device_memory();
        ::munmap(address_, size);
    }
    void *address() const { return address_; }

private:
    void *address_;
    std::vector<char> behind_;
};

/// Registers memory for everything; the triplet of its first 16 bytes.
DAT_LMR_TRIPLET registered(adapter &ia, DAT_PZ_HANDLE pz, void *address, std::size_t size)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_va = address;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET at{};
    DAT_RMR_CONTEXT remote = 0;
    DAT_VLEN length = 0;
    MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, size, pz, DAT_MEM_PRIV_ALL_FLAG,
                        DAT_VA_TYPE_VA, &lmr, &at.lmr_context, &remote, &length,
                        &at.virtual_address));
    at.segment_length = 16;
    return at;
}

} // namespace

TEST_CASE("memory that no processor reads is sent all the same, and only by the device")
{
    adapter ia;
    connected_pair pair(ia);
    const device_memory gpu;
    std::size_t before = stand_in::inline_posts();
    move_data(pair.active, pair.passive);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() > before);
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);

    DAT_LMR_TRIPLET from = registered(ia, pair.active.pz, gpu.address(), gpu.size);
    before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(dat_ep_post_send(pair.active.ep, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(pair.passive.recv_evd).transfered_length == 16);
    CHECK(pair.passive.memory.bytes[0] == 'd');
    CHECK(pair.passive.memory.bytes[15] == 'd');
    CHECK(stand_in::inline_posts() == before);

    // A reset makes a new queue pair.
    MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    MUST(dat_ep_reset(pair.active.ep));
    MUST(dat_ep_reset(pair.passive.ep));
    establish(pair.active, pair.passive);
    MUST(pair.passive.recv(0, 64));
    MUST(dat_ep_post_send(pair.active.ep, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(stand_in::inline_posts() == before);
}

TEST_CASE("memory of another zone does not keep short messages from travelling inside requests")
{
    adapter ia;
    connected_pair pair(ia);
    const device_memory gpu;
    (void)registered(ia, make_pz(ia), gpu.address(), gpu.size);
    const std::size_t before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() == before + 1);
}

TEST_CASE("inline=0: nothing travels inside requests")
{
    adapter ia(named("-inline0"));
    connected_pair pair(ia);
    const std::size_t before = stand_in::inline_posts();
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 16));
    CHECK(stand_in::inline_posts() == before);
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("odp=, relaxed_ordering=: rights of regions, off unless asked for")
{
    constexpr unsigned on_demand = 1 << 6, relaxed = 1 << 20; // IBV_ACCESS_*
    const std::pair<const char *, unsigned> adapters[] = {
        {"", 0}, {"-odp", on_demand}, {"-relaxed", relaxed}};
    for (const auto &[suffix, rights] : adapters) {
        const std::string name = named(suffix);
        INFO(name);
        adapter ia(name);
        connected_pair pair(ia);
        CHECK((stand_in::rights_of_regions().back() & (on_demand | relaxed)) == rights);
        move_data(pair.active, pair.passive);
    }
}

TEST_CASE("odp=1 is refused where the device has no paging on demand")
{
    stand_in::device().on_demand_paging = false;
    const std::string log = refusal_of("-odp");
    stand_in::device().on_demand_paging = true;
    INFO(log);
    CHECK(log.find("odp=1") != std::string::npos);
}

// ---------------------------------------------------------------- quality of service

namespace {

/// Connects with this quality. The event that this ends with.
DAT_EVENT_NUMBER outcome_of_connect(adapter &ia, DAT_QOS qos)
{
    listener at(ia);
    test_endpoint from(ia);
    MUST(dat_ep_connect(from.ep, ia.address(), at.qualifier, 10'000'000, 0, nullptr, qos,
                        DAT_CONNECT_DEFAULT_FLAG));
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    if (dat_evd_wait(at.cr_evd, 300'000, 1, &event, &more) == DAT_SUCCESS)
        MUST(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    MUST(dat_evd_wait(from.connect_evd, 10'000'000, 1, &event, &more));
    return event.event_number;
}

} // namespace

TEST_CASE("a quality of service is the class of the route, as the parameters have it")
{
    for (const auto &[suffix, low_latency] : {std::pair("", 0x48), std::pair("-tos", 0x68)}) {
        CAPTURE(suffix);
        adapter ia(named(suffix));
        CHECK(outcome_of_connect(ia, DAT_QOS_LOW_LATENCY) == DAT_CONNECTION_EVENT_PEER_REJECTED);
        CHECK(stand_in::class_of_newest_route() == low_latency);
        CHECK(outcome_of_connect(ia, DAT_QOS_PREMIUM) == DAT_CONNECTION_EVENT_PEER_REJECTED);
        CHECK(stand_in::class_of_newest_route() == 0xb8);
        CHECK(outcome_of_connect(ia, DAT_QOS_BEST_EFFORT) == DAT_CONNECTION_EVENT_PEER_REJECTED);
        CHECK(stand_in::class_of_newest_route() == 0);
    }
}

TEST_CASE("a class that the connection manager refuses ends the attempt, not the quality")
{
    stand_in::device().traffic_classes = false;
    {
        adapter ia;
        CHECK(outcome_of_connect(ia, DAT_QOS_ECONOMY) == DAT_CONNECTION_EVENT_UNREACHABLE);
        CHECK(outcome_of_connect(ia, DAT_QOS_BEST_EFFORT) == DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    stand_in::device().traffic_classes = true;
}

// ---------------------------------------------------------------------------- cm=tcp

namespace {

/// Makes the device a RoCE device while it lives.
struct ethernet {
    ethernet() { stand_in::device().ethernet = true; }
    ~ethernet() { stand_in::device().ethernet = false; }
};

} // namespace

TEST_CASE("cm=tcp: connections are made without an identifier of rdma_cm, on the service level")
{
    adapter ia(named("-tcp-lo"));
    const std::size_t before = stand_in::identifiers();
    connected_pair pair(ia);
    CHECK(stand_in::identifiers() == before);
    move_data(pair.active, pair.passive);
    move_data(pair.passive, pair.active);
    CHECK_FALSE(stand_in::newest_way().by_gid); // one subnet
    CHECK(stand_in::newest_way().path_mtu == 5);
    MUST(pair.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

TEST_CASE("cm=tcp on InfiniBand: who wants a quality of service is refused, as nobody chooses it")
{
    adapter ia(named("-tcp-lo"));
    CHECK(ia.provider.dat_qos_supported == DAT_QOS_BEST_EFFORT);
    test_endpoint from(ia);
    CHECK(same_type(dat_ep_connect(from.ep, ia.address(), 4711, 10'000'000, 0, nullptr,
                                   DAT_QOS_PREMIUM, DAT_CONNECT_DEFAULT_FLAG),
                    DAT_MODEL_NOT_SUPPORTED));
}

TEST_CASE("cm=tcp on RoCE: the GID is the adapter's address in RoCE v2, or the one asked for")
{
    const ethernet roce;
    for (const auto &each : {std::pair("-tcp", 2), std::pair("-tcp-gid1", 1)}) {
        CAPTURE(each.first);
        adapter ia(named(each.first)); // without tcp_interface, the interface of the device
        connected_pair pair(ia);
        move_data(pair.active, pair.passive);
        CHECK(stand_in::newest_way().by_gid);
        CHECK(stand_in::newest_way().gid_index == each.second);
    }
    CHECK(stand_in::newest_way().service_level == 0);
    adapter ia(named("-tcp"));
    connected_pair pair(ia);
    CHECK(stand_in::newest_way().service_level == 3);
}

TEST_CASE("cm=tcp on RoCE: both sides have the traffic class that the active one asked for")
{
    const ethernet roce;
    const std::size_t before = stand_in::ways_of_class(72);
    adapter ia(named("-tcp-lo"));
    listener at(ia);
    test_endpoint from(ia);
    test_endpoint to(ia);
    MUST(dat_ep_connect(from.ep, ia.address(), at.qualifier, 10'000'000, 0, nullptr,
                        DAT_QOS_PREMIUM, DAT_CONNECT_DEFAULT_FLAG));
    MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_connection(to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    CHECK(stand_in::ways_of_class(72) == before + 2);
}

TEST_CASE("cm=tcp: addresses and GIDs that are not there are refused, and the log names them")
{
    CHECK(refusal_of("-tcp-nowhere").find("192.0.2.77") != std::string::npos);
    CHECK(refusal_of("-tcp-gid7").find("gid_index") != std::string::npos);
}

namespace {

/// Asks for a connection with a description of 32 bytes that begins with these. The socket.
int ask_by_tcp(DAT_CONN_QUAL qualifier, char edition, char layer)
{
    std::string request("DAT\xc3\x01\x01\x20", 7); // a request of tcp_cm
    request.resize(16, '\0');
    for (int shift = 56; shift >= 0; shift -= 8)
        request += static_cast<char>(qualifier >> shift);
    request += {edition, layer};
    request += std::string(30, '\x01');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(qualifier));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(::connect(socket, reinterpret_cast<sockaddr *>(&to), sizeof to) == 0);
    REQUIRE(::send(socket, request.data(), request.size(), 0) ==
            static_cast<ssize_t>(request.size()));
    return socket;
}

} // namespace

TEST_CASE("cm=tcp: a peer of another edition or kind of network is not connected to")
{
    constexpr char edition = 1, infiniband = 1, ethernet_too = 2;
    adapter ia(named("-tcp-lo"));
    listener at(ia);
    for (const auto &[first, second] : {std::pair<char, char>(edition + 1, infiniband),
                                        std::pair<char, char>(edition, ethernet_too)}) {
        const int socket = ask_by_tcp(at.qualifier, first, second);
        test_endpoint accepting(ia);
        MUST(dat_cr_accept(at.next_request(), accepting.ep, 0, nullptr));
        char answer = 0;
        CHECK(::recv(socket, &answer, 1, 0) <= 0);
        next_connection(accepting.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        ::close(socket);
    }
    connected_pair pair(ia); // others are
    move_data(pair.active, pair.passive);
}

// ---------------------------------------------------------------------------- windows

namespace {

/// An RMR for the peer of one endpoint.
class peer_window {
public:
    explicit peer_window(test_endpoint &of) : owner_(of)
    {
        MUST(dat_rmr_create_for_ep(of.pz, &rmr_));
    }
    peer_window(const peer_window &) = delete;
    peer_window &operator=(const peer_window &) = delete;
    ~peer_window() { (void)dat_rmr_free(rmr_); }

    DAT_RETURN post_bind(std::uint64_t cookie)
    {
        const DAT_LMR_TRIPLET part = owner_.memory.local(0, 64);
        DAT_RMR_CONTEXT context = 0;
        return dat_rmr_bind(rmr_, owner_.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                            DAT_VA_TYPE_VA, owner_.ep, cookie_of(cookie),
                            DAT_COMPLETION_DEFAULT_FLAG, &context);
    }
    void expect_bound(std::uint64_t cookie)
    {
        const DAT_EVENT event = next_event(owner_.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        CHECK(event.event_data.rmr_completion_event_data.user_cookie.as_64 == cookie);
        CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
    }

private:
    test_endpoint &owner_;
    DAT_RMR_HANDLE rmr_ = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("RMRs for one endpoint are refused where the device lacks windows of type 2")
{
    stand_in::device().windows_of_one_peer = false;
    adapter ia;
    stand_in::device().windows_of_one_peer = true;
    connected_pair pair(ia);
    CHECK(ia.provider.rmr_scope_supported == DAT_RMR_SCOPE_PZ);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    CHECK(refused(dat_rmr_create_for_ep(pair.active.pz, &rmr)));
    DAT_LMR_TRIPLET local = pair.active.memory.local(0, 64);
    CHECK(refused(dat_ep_post_send_with_invalidate(pair.active.ep, 1, &local, cookie_of(1),
                                                   DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, 1)));
    MUST(dat_rmr_create(pair.active.pz, &rmr));
    MUST(dat_rmr_free(rmr));
    move_data(pair.active, pair.passive);
}

TEST_CASE("a queue pair goes with its connection, though a window is open to the peer")
{
    adapter ia;
    connected_pair pair(ia);
    peer_window opened(pair.active);
    const std::size_t before = stand_in::queue_pairs();
    for (std::uint64_t round = 0; round < 3; ++round) {
        MUST(opened.post_bind(round));
        opened.expect_bound(round);
        MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(pair.active.ep));
        MUST(dat_ep_reset(pair.passive.ep));
        CHECK(stand_in::queue_pairs() == before);
        establish(pair.active, pair.passive);
    }
    move_data(pair.active, pair.passive);
}

TEST_CASE("as many binds of one window can be outstanding as an endpoint has requests")
{
    adapter ia;
    test_endpoint sender(ia);
    DAT_EP_PARAM param = ep_param(sender.ep);
    param.ep_attr.max_request_dtos = 8;
    endpoint_options few;
    few.attr = &param.ep_attr;
    connected_pair pair(ia, few);
    peer_window opened(pair.active);
    MUST(pair.active.send(0, 64, 0)); // the peer has no receive
    for (std::uint64_t i = 1; i < 8; ++i)
        MUST(opened.post_bind(i));
    MUST(pair.passive.recv(0, 64));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    for (std::uint64_t i = 1; i < 8; ++i)
        opened.expect_bound(i);
}

// ---------------------------------------------------------------------------- connections

TEST_CASE("connections that the peer has ended leave no identifier behind")
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    const std::size_t before = stand_in::identifiers();
    for (int round = 0; round < 20; ++round) {
        establish(from, to);
        MUST(from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        next_connection(to.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(from.ep));
        MUST(dat_ep_reset(to.ep));
    }
    CHECK(becomes_true([&] { return stand_in::identifiers() <= before; }));
}

// ---------------------------------------------------------------------------- failures

namespace {

/// Lets the device fail, and brings it back at the end.
struct failure {
    failure() { stand_in::fail(); }
    ~failure() { stand_in::restore(); }
};

std::multiset<std::uint64_t> cookies(DAT_EVD_HANDLE evd, std::size_t count)
{
    std::multiset<std::uint64_t> seen;
    while (seen.size() < count)
        seen.insert(next_dto(evd).user_cookie.as_64);
    return seen;
}

std::multiset<std::uint64_t> all_of(std::uint64_t count)
{
    std::multiset<std::uint64_t> made;
    for (std::uint64_t i = 0; i < count; ++i)
        made.insert(i);
    return made;
}

} // namespace

namespace {

void fail_and_reopen(const std::string &name)
{
    adapter ia(name);
    connected_pair pair(ia);
    test_endpoint idle(ia);
    listener at(ia);
    MUST(idle.recv(0, 64, 7));
    for (std::uint64_t i = 0; i < 5; ++i) {
        MUST(pair.passive.recv(i * 64, 64, i));
        MUST(idle.recv(i * 64, 64, i));
    }
    for (std::uint64_t i = 0; i < 3; ++i)
        MUST(pair.passive.send(0, 64, i)); // the peer has no receive
    DAT_EVENT taken{};
    DAT_COUNT more = 0;
    helper_thread waiter([&] {
        CHECK(dat_evd_wait(pair.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &taken, &more) ==
              DAT_SUCCESS);
    });
    failure now;
    waiter.join();
    CHECK(taken.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    CHECK(taken.event_data.dto_completion_event_data.user_cookie.as_64 == 0);
    CHECK(same_event(next_event(ia.async).event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC));
    for (test_endpoint *side : {&pair.active, &pair.passive})
        next_connection(side->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    CHECK(cookies(pair.passive.recv_evd, 4) == std::multiset<std::uint64_t>{1, 2, 3, 4});
    CHECK(cookies(pair.passive.request_evd, 3) == all_of(3));
    CHECK(cookies(idle.recv_evd, 6) == std::multiset<std::uint64_t>{0, 1, 2, 3, 4, 7});

    // Calls answer at once.
    MUST(idle.connect(ia.address(), at.qualifier));
    next_connection(idle.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    CHECK(dat_evd_create(ia.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd) != DAT_SUCCESS);
    CHECK(dat_ep_reset(pair.active.ep) != DAT_SUCCESS);
    {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_IA_HANDLE other = DAT_HANDLE_NULL;
        CHECK(open_adapter(name, &async, &other) != DAT_SUCCESS);
    }
    stand_in::restore();
    {
        adapter again(name); // while the failed one is open
        connected_pair good(again);
        move_data(good.active, good.passive);
    }
    at.free();
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    adapter again(name);
    connected_pair good(again);
    move_data(good.active, good.passive);
}

} // namespace

TEST_CASE("a failed device: connections are BROKEN, everything comes back, the adapter opens again")
{
    for (const char *suffix : {"", "-tcp-lo"}) {
        CAPTURE(suffix);
        fail_and_reopen(named(suffix));
    }
}

namespace {

/// Requests or receives of one queue, numbered by their cookies.
struct tally {
    std::uint64_t posted = 0;
    std::multiset<std::uint64_t> seen;

    void note(DAT_RETURN code) { posted += code == DAT_SUCCESS ? 1 : 0; }
    void take(DAT_EVD_HANDLE evd)
    {
        DAT_EVENT event{};
        while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
            seen.insert(event.event_data.dto_completion_event_data.user_cookie.as_64);
    }
    void expect_all(DAT_EVD_HANDLE evd)
    {
        CHECK(becomes_true([&] {
            take(evd);
            return seen.size() >= posted;
        }));
        CHECK(stays_empty(evd, milliseconds(1)));
        CHECK(seen == all_of(posted));
    }
};

/// Two endpoints, of which one connects to the other, on a device that fails at a moment chosen
/// before.
class unlucky_pair {
public:
    unlucky_pair(adapter &ia, unsigned moment)
        : ia_(ia), from_(ia), to_(ia), at_(ia), moment_(moment)
    {}

    void run(std::mt19937 &chance)
    {
        pass();
        connect();
        while (now_ <= moment_)
            step(chance());
        end(from_);
        if (accepted_)
            end(to_);
        requests_.expect_all(from_.request_evd);
        receives_.expect_all(to_.recv_evd);
        MUST(from_.free_ep());
        MUST(to_.free_ep());
    }

private:
    void pass()
    {
        if (now_++ == moment_)
            stand_in::fail();
    }
    void connect()
    {
        receive();
        MUST(from_.connect(ia_.address(), at_.qualifier));
        pass();
        DAT_EVENT request{};
        const milliseconds time = moment_ < 2 ? a_while : patience;
        const bool asked = wait_event(at_.cr_evd, request, time) == DAT_SUCCESS;
        pass();
        accepted_ = asked && dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle,
                                           to_.ep, 0, nullptr) == DAT_SUCCESS;
        pass();
        if (moment_ < now_)
            return;
        next_connection(from_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_connection(to_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    void step(unsigned what)
    {
        if (what % 4 == 0)
            receive();
        else if (what % 4 == 1)
            requests_.take(from_.request_evd);
        else
            requests_.note(from_.send(0, 64, requests_.posted));
        if (now_ == moment_ && what % 3 == 0)
            (void)from_.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
        pass();
    }
    void receive() { receives_.note(to_.recv(0, 64, receives_.posted)); }
    static void end(test_endpoint &side)
    {
        DAT_EVENT event = next_event(side.connect_evd);
        if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
            event = next_event(side.connect_evd);
        CHECK(event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED);
        CHECK(stays_empty(side.connect_evd, milliseconds(1)));
    }

    adapter &ia_;
    test_endpoint from_;
    test_endpoint to_;
    listener at_;
    const unsigned moment_;
    unsigned now_ = 0;
    bool accepted_ = false;
    tally requests_;
    tally receives_;
};

} // namespace

TEST_CASE("a device that fails at any moment: each request comes back once, each connection ends")
{
    std::mt19937 chance(4711);
    for (int round = 0; round < 200; ++round) {
        CAPTURE(round);
        adapter ia(named(round % 2 == 0 ? "" : "-tcp-lo"));
        {
            unlucky_pair pair(ia, chance() % 24);
            pair.run(chance);
        }
        CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
        stand_in::restore();
    }
}

TEST_CASE("a CQ that cannot be armed: who waits sleeps in between, and gets what comes")
{
    constexpr DAT_TIMEOUT while_us = 300'000;
    adapter ia;
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 64, 1));
    struct muted {
        muted() { stand_in::let_arm(false); }
        ~muted() { stand_in::let_arm(true); }
    } now;
    log_of_now log;
    const std::size_t before = stand_in::times_armed();
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    CHECK(same_code(dat_evd_wait(pair.passive.recv_evd, while_us, 1, &event, &more),
                    DAT_TIMEOUT_EXPIRED));
    const std::size_t times = stand_in::times_armed() - before;
    CHECK(times > 0);
    CHECK(times < 200); // a waiter that does not sleep tries thousands of times
    std::thread sender([&] {
        std::this_thread::sleep_for(a_while);
        MUST(pair.active.send(0, 64, 2));
    });
    CHECK(dat_evd_wait(pair.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more) ==
          DAT_SUCCESS);
    sender.join();
    const std::string text = log.end();
    INFO(text);
    CHECK(text.find("ibv_req_notify_cq failed") != std::string::npos);
    CHECK(text.find("ibv_req_notify_cq failed") == text.rfind("ibv_req_notify_cq failed"));
}

namespace {

/// A thread that sends so many messages, each when the one before has been received.
class slow_sender {
public:
    slow_sender(connected_pair &pair, int count) : thread_([&pair, count] { run(pair, count); }) {}
    ~slow_sender() { thread_.join(); }

private:
    static void run(connected_pair &pair, int count)
    {
        for (int i = 0; i < count; ++i) {
            std::this_thread::sleep_for(a_while / 4);
            MUST(pair.active.send(0, 8, 1));
        }
    }
    std::thread thread_;
};

/// Waits for so many messages that come one by one; returns how many events its CQ has made.
std::size_t events_of_a_wait(connected_pair &pair, int messages)
{
    for (int i = 0; i < messages; ++i)
        MUST(pair.passive.recv(0, 64, 1));
    const std::size_t before = stand_in::cq_events();
    const slow_sender sender(pair, messages);
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    MUST(dat_evd_wait(pair.passive.recv_evd, DAT_TIMEOUT_INFINITE, messages, &event, &more));
    CHECK(more == messages - 1);
    while (dat_evd_dequeue(pair.passive.recv_evd, &event) == DAT_SUCCESS) {
    }
    return stand_in::cq_events() - before;
}

struct device_settings {
    ~device_settings() { stand_in::device() = before; }
    const stand_in::settings before = stand_in::device();
};

} // namespace

TEST_CASE("a wait for several messages is woken once where the device moderates its CQs")
{
    const device_settings restored;
    std::uint16_t most = 512;
    std::size_t events = 1;
    SUBCASE("for all of them") {}
    SUBCASE("for as many as the device can count, and then for the rest")
    {
        most = 4;
        events = 2;
    }
    SUBCASE("by each of them where it does not")
    {
        most = 0;
        events = 6;
    }
    SUBCASE("by each of them where it counts no further than one")
    {
        most = 1;
        events = 6;
    }
    stand_in::device().most_moderated = most;
    adapter ia;
    connected_pair pair(ia);
    CHECK(events_of_a_wait(pair, 6) == events);
    CHECK(events_of_a_wait(pair, 1) == 1);
    CHECK(events_of_a_wait(pair, 6) == events);
}

TEST_CASE("a CNO is triggered by the first message after a wait for several")
{
    adapter ia;
    connected_pair pair(ia);
    CHECK(events_of_a_wait(pair, 6) == 1);
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, cno));
    MUST(dat_evd_set_unwaitable(pair.passive.recv_evd));
    MUST(pair.passive.recv(0, 64, 1));
    const slow_sender sender(pair, 1);
    DAT_EVD_HANDLE from = DAT_HANDLE_NULL;
    CHECK(dat_cno_wait(cno, 20'000'000, &from) == DAT_SUCCESS);
    CHECK(from == pair.passive.recv_evd);
    MUST(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
    MUST(dat_cno_free(cno));
}

TEST_CASE("moderation that the device refuses is logged once, and waits go on without")
{
    adapter ia;
    connected_pair pair(ia);
    struct refused {
        refused() { stand_in::let_moderate(false); }
        ~refused() { stand_in::let_moderate(true); }
    } now;
    log_of_now log;
    CHECK(events_of_a_wait(pair, 3) == 3);
    CHECK(events_of_a_wait(pair, 3) == 3);
    const std::string text = log.end();
    INFO(text);
    CHECK(text.find("ibv_modify_cq failed") != std::string::npos);
    CHECK(text.find("ibv_modify_cq failed") == text.rfind("ibv_modify_cq failed"));
}

TEST_CASE("a shared receive queue that fails breaks its connections, and no others")
{
    adapter ia;
    connected_pair other(ia);
    const DAT_PZ_HANDLE pz = make_pz(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
    const DAT_EVD_HANDLE connect_evd = make_evd(ia, DAT_EVD_CONNECTION_FLAG);
    DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    MUST(dat_srq_create(ia.handle, pz, &attr, &srq));
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    MUST(dat_ep_create_with_srq(ia.handle, pz, evd, evd, connect_evd, srq, nullptr, &ep));
    test_endpoint peer(ia);
    listener at(ia);
    MUST(peer.connect(ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), ep, 0, nullptr));
    next_connection(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_connection(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    stand_in::fail_newest_srq();
    next_connection(connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    CHECK(ends_connection(next_event(peer.connect_evd).event_number));
    move_data(other.active, other.passive);
    MUST(dat_ep_free(ep));
    MUST(dat_srq_free(srq));
}

TEST_CASE("a port that goes down, comes up or gets another address is logged")
{
    const std::pair<int, const char *> events[] = {
        {10, "port 1 is down"}, {9, "port 1 is up"}, {18, "port 1 has another address"}};
    adapter ia;
    connected_pair pair(ia);
    for (const auto &[type, text] : events) {
        const std::string line = text;
        INFO(line);
        log_of_now log;
        stand_in::raise_port_event(type);
        CHECK(becomes_true([&] { return log.text().find(line) != std::string::npos; }));
    }
    move_data(pair.active, pair.passive);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: stand_in_test LIBRARY [doctest's options]\n");
        return 2;
    }
    const std::string registry = "/tmp/stand-in-" + std::to_string(::getpid()) + ".conf";
    ::setenv("DAT_OVERRIDE", registry.c_str(), 1);
    ::setenv("DAPL_DBG_TYPE", "0x3", 1); // errors and warnings
    the_settings().ia = ia_name;
    doctest::Context context(argc - 1, argv + 1);
    const int result = write_registry(registry, argv[1]) ? context.run() : 2;
    ::unlink(registry.c_str());
    return result;
}
