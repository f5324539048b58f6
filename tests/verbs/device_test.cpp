// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tests beyond the conformance suite, on a device of the virtual machine: shared receive queues,
// immediate data, atomics, IPv6, tuning, and failures of networks and devices.
//
//   device_test ADAPTER DEVICE [doctest's options]
//
// The adapter ADAPTER-v6 is this device by its IPv6 address, ADAPTER-threads has two threads for
// callbacks.
#include "harness/support.hpp"

#include <dat2/dat_ib_extensions.h>

#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <set>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace conformance;

namespace {

std::string device_name;

bool on_siw()
{
    return device_name.rfind("siw", 0) == 0;
}

/// Sets a variable and restores it; values are read when an adapter opens.
struct variable {
    variable(const char *n, const char *value) : name(n) { ::setenv(name, value, 1); }
    ~variable() { ::unsetenv(name); }
    const char *name;
};

// -------------------------------------------------------------------------- calls of the port

std::atomic<bool> hold_connects{false};
std::atomic<int> connects{0};
std::atomic<int> destroyed_qps{0};

/// Holds rdma_connect back while it lives.
struct held_connects {
    held_connects() { hold_connects = true; }
    ~held_connects() { hold_connects = false; }
};

std::string failing; ///< the call that fails, and its errno
int failure = 0;

bool fails(const char *call)
{
    if (failing != call)
        return false;
    errno = failure;
    return true;
}

/// Makes a call of verbs fail with this errno while it lives; tells the log then.
class failing_call {
public:
    failing_call(const char *call, int error)
        : error_output_(::dup(STDERR_FILENO)), instead_(std::tmpfile())
    {
        REQUIRE(instead_ != nullptr);
        ::dup2(::fileno(instead_), STDERR_FILENO);
        failure = error;
        failing = call;
    }
    failing_call(const failing_call &) = delete;
    failing_call &operator=(const failing_call &) = delete;
    ~failing_call()
    {
        (void)end();
        std::fclose(instead_);
    }
    std::string end()
    {
        failing.clear();
        if (error_output_ >= 0) {
            ::dup2(error_output_, STDERR_FILENO);
            ::close(error_output_);
            error_output_ = -1;
        }
        std::rewind(instead_);
        std::string log;
        for (int c = std::fgetc(instead_); c != EOF; c = std::fgetc(instead_))
            log += static_cast<char>(c);
        return log;
    }

private:
    int error_output_;
    std::FILE *instead_;
};

template <class Function>
Function *real(const char *name)
{
    return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

} // namespace

struct rdma_cm_id;
struct rdma_conn_param;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_cq;
struct ibv_mr;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_qp_init_attr;
struct ibv_srq;
struct ibv_srq_init_attr;

// The port's calls lead here: the program's symbols come before the libraries'.
extern "C" {
[[gnu::visibility("default")]] int rdma_connect(rdma_cm_id *, rdma_conn_param *);
[[gnu::visibility("default")]] int ibv_destroy_qp(ibv_qp *);
[[gnu::visibility("default")]] ibv_comp_channel *ibv_create_comp_channel(ibv_context *);
[[gnu::visibility("default")]] ibv_cq *ibv_create_cq(ibv_context *, int, void *, ibv_comp_channel *,
                                                     int);
[[gnu::visibility("default")]] int ibv_resize_cq(ibv_cq *, int);
[[gnu::visibility("default")]] ibv_qp *ibv_create_qp(ibv_pd *, ibv_qp_init_attr *);
[[gnu::visibility("default")]] int ibv_modify_qp(ibv_qp *, ibv_qp_attr *, int);
[[gnu::visibility("default")]] ibv_srq *ibv_create_srq(ibv_pd *, ibv_srq_init_attr *);
[[gnu::visibility("default")]] ibv_mr *ibv_reg_mr_iova2(ibv_pd *, void *, std::size_t,
                                                        std::uint64_t, unsigned);

int rdma_connect(rdma_cm_id *id, rdma_conn_param *wanted)
{
    ++connects;
    while (hold_connects)
        ::usleep(1000);
    return real<decltype(rdma_connect)>("rdma_connect")(id, wanted);
}

int ibv_destroy_qp(ibv_qp *handle)
{
    ++destroyed_qps;
    return real<decltype(ibv_destroy_qp)>("ibv_destroy_qp")(handle);
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *device)
{
    return fails("ibv_create_comp_channel")
               ? nullptr
               : real<decltype(ibv_create_comp_channel)>("ibv_create_comp_channel")(device);
}

ibv_cq *ibv_create_cq(ibv_context *device, int entries, void *of, ibv_comp_channel *channel, int at)
{
    return fails("ibv_create_cq")
               ? nullptr
               : real<decltype(ibv_create_cq)>("ibv_create_cq")(device, entries, of, channel, at);
}

int ibv_resize_cq(ibv_cq *handle, int entries)
{
    return fails("ibv_resize_cq") ? failure
                                  : real<decltype(ibv_resize_cq)>("ibv_resize_cq")(handle, entries);
}

ibv_qp *ibv_create_qp(ibv_pd *domain, ibv_qp_init_attr *wanted)
{
    return fails("ibv_create_qp") ? nullptr
                                  : real<decltype(ibv_create_qp)>("ibv_create_qp")(domain, wanted);
}

int ibv_modify_qp(ibv_qp *handle, ibv_qp_attr *wanted, int mask)
{
    return fails("ibv_modify_qp")
               ? failure
               : real<decltype(ibv_modify_qp)>("ibv_modify_qp")(handle, wanted, mask);
}

ibv_srq *ibv_create_srq(ibv_pd *domain, ibv_srq_init_attr *wanted)
{
    return fails("ibv_create_srq")
               ? nullptr
               : real<decltype(ibv_create_srq)>("ibv_create_srq")(domain, wanted);
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *domain, void *at, std::size_t size, std::uint64_t as, unsigned may)
{
    return fails("ibv_reg_mr")
               ? nullptr
               : real<decltype(ibv_reg_mr_iova2)>("ibv_reg_mr_iova2")(domain, at, size, as, may);
}
}

namespace {

// ---------------------------------------------------------------------------- shared receives

/// Endpoints that draw from one queue, each connected to an end of its own.
struct pond {
    explicit pond(adapter &on, DAT_COUNT depth = 8, DAT_COUNT low = DAT_SRQ_LW_DEFAULT)
        : ia(on), pz(make_pz(on)), recv_evd(make_evd(on, DAT_EVD_DTO_FLAG)),
          request_evd(make_evd(on, DAT_EVD_DTO_FLAG)),
          connect_evd(make_evd(on, DAT_EVD_CONNECTION_FLAG)), memory(on, pz, 4096)
    {
        DAT_SRQ_ATTR attr{depth, 1, low};
        MUST(dat_srq_create(ia.handle, pz, &attr, &srq));
    }
    ~pond() { CHECK(dat_srq_free(srq) == DAT_SUCCESS); }

    DAT_EP_HANDLE connect(test_endpoint &from)
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        MUST(dat_ep_create_with_srq(ia.handle, pz, recv_evd, request_evd, connect_evd, srq, nullptr,
                                    &ep));
        listener at(ia);
        MUST(from.connect(ia.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), ep, 0, nullptr));
        next_connection(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        return ep;
    }
    DAT_RETURN post(std::uint64_t slot)
    {
        DAT_LMR_TRIPLET at = memory.local(slot * 64, 64);
        return dat_srq_post_recv(srq, 1, &at, cookie_of(slot));
    }

    adapter &ia;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE recv_evd;
    DAT_EVD_HANDLE request_evd;
    DAT_EVD_HANDLE connect_evd;
    region memory;
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("shared receives are named after the endpoint that took them")
{
    adapter ia;
    test_endpoint one(ia);
    test_endpoint two(ia);
    pond from(ia);
    const DAT_EP_HANDLE first = from.connect(one);
    const DAT_EP_HANDLE second = from.connect(two);
    for (std::uint64_t round = 0; round < 20; ++round) {
        test_endpoint &by = round % 2 == 0 ? one : two;
        const std::uint64_t slot = round % 8;
        MUST(from.post(slot));
        by.memory.fill(0, 64, static_cast<unsigned>(round));
        MUST(by.send(0, 64, round));
        const auto got = next_dto(from.recv_evd);
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(got.ep_handle == (round % 2 == 0 ? first : second));
        CHECK(got.user_cookie.as_64 == slot);
        CHECK(got.transfered_length == 64);
        CHECK(from.memory.holds(slot * 64, 64, static_cast<unsigned>(round)));
        CHECK(next_dto(by.request_evd).status == DAT_DTO_SUCCESS);
    }
    MUST(dat_ep_free(first));
    MUST(dat_ep_free(second));
}

TEST_CASE("an endpoint that is freed leaves the shared queue to the others")
{
    adapter ia;
    test_endpoint one(ia);
    test_endpoint two(ia);
    pond from(ia, 4);
    const DAT_EP_HANDLE first = from.connect(one);
    const DAT_EP_HANDLE second = from.connect(two);
    for (std::uint64_t slot = 0; slot < 4; ++slot)
        MUST(from.post(slot));
    CHECK(same_type(from.post(5), DAT_INSUFFICIENT_RESOURCES));
    MUST(one.send(0, 64));
    MUST(one.send(0, 64));
    CHECK(next_dto(one.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(one.request_evd).status == DAT_DTO_SUCCESS);
    MUST(dat_ep_free(first)); // two of its completions were not polled
    CHECK(stays_empty(from.recv_evd));
    CHECK(from.post(0) == DAT_SUCCESS); // they are free again
    CHECK(from.post(1) == DAT_SUCCESS);
    CHECK(same_type(from.post(2), DAT_INSUFFICIENT_RESOURCES));
    for (int message = 0; message < 4; ++message) {
        MUST(two.send(0, 64));
        const auto got = next_dto(from.recv_evd);
        CHECK(got.status == DAT_DTO_SUCCESS);
        CHECK(got.ep_handle == second);
    }
    MUST(dat_ep_free(second));
}

TEST_CASE("few shared receives left are reported once")
{
    adapter ia;
    test_endpoint one(ia);
    pond from(ia, 8, 4);
    const DAT_EP_HANDLE ep = from.connect(one);
    for (std::uint64_t slot = 0; slot < 8; ++slot)
        MUST(from.post(slot));
    for (int message = 0; message < 6; ++message) {
        MUST(one.send(0, 64));
        CHECK(next_dto(from.recv_evd).status == DAT_DTO_SUCCESS);
    }
    const DAT_EVENT told = next_event(ia.async);
    CHECK(told.event_number == DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
    CHECK(told.event_data.asynch_error_event_data.reason == DAT_SRQ_LOW_WATERMARK_EVENT);
    CHECK(told.event_data.asynch_error_event_data.dat_handle == from.srq);
    CHECK(stays_empty(ia.async));
    MUST(dat_ep_free(ep));
}

TEST_CASE("a shared receive queue grows, or says that it cannot")
{
    adapter ia;
    pond from(ia, 4);
    const DAT_RETURN grown = dat_srq_resize(from.srq, 64);
    if (on_siw()) {
        CHECK(same_code(grown, not_supported));
        return;
    }
    MUST(grown);
    for (std::uint64_t slot = 0; slot < 64; ++slot)
        MUST(from.post(slot));
    CHECK(same_type(from.post(0), DAT_INSUFFICIENT_RESOURCES));
}

// ---------------------------------------------------------------------------- completion queues

TEST_CASE("an EVD grows as far as its CQ can, and is what it was where that cannot")
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_EVD_HANDLE evd = pair.passive.recv_evd;
    MUST(pair.passive.recv(0, 64, 7));
    MUST(pair.active.send(0, 64));
    CHECK(same_code(dat_evd_resize(evd, 4096), success));
    const DAT_RETURN code = dat_evd_resize(evd, 20'000);
    if (on_siw())
        CHECK(same_type(code, DAT_INSUFFICIENT_RESOURCES));
    else
        CHECK(same_code(code, success));
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
    CHECK(param.evd_qlen == (on_siw() ? 4096 : 20'000));
    CHECK(next_dto(evd).user_cookie.as_64 == 7);
    move_data(pair.active, pair.passive);
}

// ---------------------------------------------------------------------------- callback threads

namespace {

using thread_id = std::atomic<std::thread::id>;

void note_caller(DAT_PVOID by, DAT_EVD_HANDLE)
{
    *static_cast<thread_id *>(by) = std::this_thread::get_id();
}

/// An agent that does not return until it is released.
struct held_agent {
    std::atomic<bool> called{false};
    std::atomic<bool> release{false};

    static void call(DAT_PVOID of, DAT_EVD_HANDLE)
    {
        auto &held = *static_cast<held_agent *>(of);
        held.called = true;
        while (!held.release)
            ::usleep(1000);
    }
};

/// The threads that call the agents of four EVDs, each with a CNO of its own.
std::set<std::thread::id> threads_that_call(const std::string &name)
{
    thread_id callers[4]{};
    std::set<std::thread::id> seen;
    adapter ia(name);
    for (thread_id &by : callers) {
        connected_pair pair(ia);
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        MUST(dat_cno_create(ia.handle, {&by, note_caller}, &cno));
        MUST(dat_evd_modify_cno(pair.passive.recv_evd, cno));
        MUST(pair.passive.recv(0, 64));
        MUST(pair.active.send(0, 64));
        CHECK(becomes_true([&] { return by.load() != std::thread::id(); }));
        CHECK(poll_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
        seen.insert(by);
    }
    CHECK(seen.count(std::this_thread::get_id()) == 0);
    return seen;
}

} // namespace

TEST_CASE("[cqeh_domains] as many threads call agents as the adapter is to have")
{
    CHECK(threads_that_call(the_settings().ia).size() == 1);
    CHECK(threads_that_call(the_settings().ia + "-threads").size() == CALLBACK_THREADS);
}

TEST_CASE("[cqeh_domains] a slow agent holds up those of its own thread only")
{
    if (CALLBACK_THREADS < 2)
        return;
    held_agent held;
    thread_id other{};
    adapter ia(the_settings().ia + "-threads");
    connected_pair slow(ia);
    connected_pair quick(ia);
    DAT_CNO_HANDLE slow_cno = DAT_HANDLE_NULL;
    DAT_CNO_HANDLE quick_cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, {&held, held_agent::call}, &slow_cno));
    MUST(dat_cno_create(ia.handle, {&other, note_caller}, &quick_cno));
    MUST(dat_evd_modify_cno(slow.passive.recv_evd, slow_cno));
    MUST(dat_evd_modify_cno(quick.passive.recv_evd, quick_cno));
    for (connected_pair *each : {&slow, &quick})
        MUST(each->passive.recv(0, 64));
    MUST(slow.active.send(0, 64));
    CHECK(becomes_true([&] { return held.called.load(); }));
    CHECK(quick.active.send(0, 64) == DAT_SUCCESS);
    CHECK(becomes_true([&] { return other.load() != std::thread::id(); }));
    held.release = true;
    CHECK(poll_dto(slow.passive.recv_evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("[cqeh_domains] a wait in a CNO is for the EVDs of all threads")
{
    adapter ia(the_settings().ia + "-threads");
    const DAT_CNO_HANDLE cno = make_cno(ia);
    connected_pair one(ia);
    connected_pair two(ia);
    for (connected_pair *each : {&one, &two})
        MUST(dat_evd_modify_cno(each->passive.recv_evd, cno));
    for (int round = 0; round < 50; ++round) {
        CAPTURE(round);
        connected_pair &pair = round % 3 == 0 ? one : two;
        MUST(pair.passive.recv(0, 64));
        helper_thread sender([&] {
            ::usleep(20'000); // longer than a wait looks before it sleeps
            CHECK(pair.active.send(0, 64) == DAT_SUCCESS);
        });
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        MUST(dat_cno_wait(cno, DAT_TIMEOUT{20'000'000}, &by));
        CHECK(by == pair.passive.recv_evd);
        CHECK(poll_dto(by).status == DAT_DTO_SUCCESS);
        sender.join();
        CHECK(poll_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
}

// ---------------------------------------------------------------------------- extensions

TEST_CASE("a write with immediate data takes a receive, or is refused")
{
    adapter ia;
    connected_pair pair(ia);
    pair.active.memory.fill(0, 256, 3);
    DAT_LMR_TRIPLET from = pair.active.memory.local(0, 256);
    DAT_RMR_TRIPLET to = pair.passive.memory.remote(1024, 256);
    MUST(pair.passive.recv(0, 64, 7));
    const DAT_RETURN posted = dat_ib_post_rdma_write_immed(
        pair.active.ep, 1, &from, cookie_of(1), &to, 0x12345678, DAT_COMPLETION_DEFAULT_FLAG);
    if (on_siw()) {
        CHECK(same_code(posted, error(DAT_NOT_IMPLEMENTED)));
        return;
    }
    MUST(posted);
    const DAT_EVENT sent = next_event(pair.active.request_evd);
    CHECK(static_cast<int>(sent.event_number) == DAT_IB_DTO_EVENT);
    const DAT_EVENT got = next_event(pair.passive.recv_evd);
    CHECK(static_cast<int>(got.event_number) == DAT_IB_DTO_EVENT);
    CHECK(got.event_data.dto_completion_event_data.user_cookie.as_64 == 7);
    DAT_IB_EXTENSION_EVENT_DATA more{};
    std::memcpy(&more, got.event_extension_data, sizeof more);
    CHECK(more.type == DAT_IB_RDMA_WRITE_IMMED_DATA);
    CHECK(more.val.immed.data == 0x12345678);
    CHECK(pair.passive.memory.holds(1024, 256, 3));
}

TEST_CASE("atomics change the peer's word and bring back what it was, or are refused")
{
    adapter ia;
    connected_pair pair(ia);
    const auto rights = static_cast<DAT_MEM_PRIV_FLAGS>(
        DAT_MEM_PRIV_ALL_FLAG | (on_siw() ? 0 : DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
    region lent(ia, pair.passive.pz, 4096, rights);
    region back(ia, pair.active.pz, 4096);
    auto *word = reinterpret_cast<std::uint64_t *>(lent.bytes.data());
    const auto *old = reinterpret_cast<const std::uint64_t *>(back.bytes.data());
    *word = 40;
    DAT_LMR_TRIPLET to = back.local(0, 8);
    DAT_RMR_TRIPLET at = lent.remote(0, 8);
    const DAT_RETURN posted = dat_ib_post_fetch_and_add(pair.active.ep, 2, &to, cookie_of(1), &at,
                                                        DAT_COMPLETION_DEFAULT_FLAG);
    if (on_siw()) {
        CHECK(same_code(posted, error(DAT_NOT_IMPLEMENTED)));
        return;
    }
    MUST(posted);
    (void)next_event(pair.active.request_evd);
    CHECK(*word == 42);
    CHECK(*old == 40);
    for (const std::uint64_t expected : {42u, 1u}) { // equal, then not
        MUST(dat_ib_post_cmp_and_swap(pair.active.ep, 42, 1, &to, cookie_of(2), &at,
                                      DAT_COMPLETION_DEFAULT_FLAG));
        (void)next_event(pair.active.request_evd);
        CHECK(*old == expected);
        CHECK(*word == 1);
    }
}

// ---------------------------------------------------------------------------- addresses

TEST_CASE("IPv6")
{
    adapter ia(the_settings().ia + "-v6");
    CHECK(ia.address()->sa_family == AF_INET6);
    adapter other(the_settings().ia + "-v6");
    connected_pair pair(ia, other);
    move_data(pair.active, pair.passive);
    move_data(pair.passive, pair.active, 2);
    MUST(pair.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    expect_disconnected(pair.active, pair.passive);
}

TEST_CASE("an address of the other family is refused")
{
    adapter ia;
    adapter other(the_settings().ia + "-v6");
    test_endpoint from(ia);
    CHECK(same_type(from.connect(other.address(), 4711), DAT_INVALID_ADDRESS));
}

// With IPv4 the kernel takes every address for one on the link, as the interface is given.
TEST_CASE("no way to an address: UNREACHABLE, and the endpoint can be used anew")
{
    adapter ia(the_settings().ia + "-v6");
    test_endpoint from(ia);
    sockaddr_in6 nowhere{};
    nowhere.sin6_family = AF_INET6;
    inet_pton(AF_INET6, "2001:db8::1", &nowhere.sin6_addr);
    MUST(from.connect(reinterpret_cast<DAT_SOCK_ADDR *>(&nowhere), 4711));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
    MUST(dat_ep_reset(from.ep));
    test_endpoint to(ia);
    establish(from, to);
    move_data(from, to);
}

TEST_CASE("an address without a host: TIMED_OUT when the caller's timeout has passed")
{
    adapter ia;
    test_endpoint from(ia);
    sockaddr_in silent{};
    std::memcpy(&silent, ia.address(), sizeof silent);
    silent.sin_addr.s_addr = htonl(ntohl(silent.sin_addr.s_addr) + 76);
    const auto began = std::chrono::steady_clock::now();
    MUST(from.connect(reinterpret_cast<DAT_SOCK_ADDR *>(&silent), 4711, milliseconds(1000)));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    CHECK(std::chrono::steady_clock::now() - began < milliseconds(10'000));
    MUST(from.free_ep());
}

TEST_CASE(
    "siw: a request that is not answered within 10 seconds: TIMED_OUT, before the caller's timeout")
{
    if (!on_siw())
        return;
    adapter ia;
    listener at(ia);
    test_endpoint own(ia);
    MUST(own.connect(ia.address(), at.qualifier, std::chrono::minutes(10)));
    const DAT_CR_HANDLE request = at.next_request();
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    MUST(dat_cr_reject(request, 0, nullptr));
}

TEST_CASE("a peer that ends the connection at once: ESTABLISHED all the same, and then the end")
{
    adapter ia;
    adapter other;
    test_endpoint from(ia);
    test_endpoint to(other);
    listener at(other);
    for (int round = 0; round < 200; ++round) {
        CAPTURE(round);
        MUST(from.connect(other.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        MUST(from.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        next_connection(to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_connection(to.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(from.ep));
        MUST(dat_ep_reset(to.ep));
    }
}

// ---------------------------------------------------------------------------- tuning

TEST_CASE("connections stand with the variables at their limits")
{
    const variable set[] = {{"DAPL_MAX_INLINE", "0"},        {"DAPL_ACK_TIMER", "31"},
                            {"DAPL_ACK_RETRY", "0"},         {"DAPL_RNR_TIMER", "1"},
                            {"DAPL_CM_ARP_TIMEOUT_MS", "1"}, {"DAPL_CM_TOS", "255"}};
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("out of range, variables are left out")
{
    const variable set[] = {{"DAPL_MAX_INLINE", "4097"},
                            {"DAPL_ACK_TIMER", "32"},
                            {"DAPL_RNR_RETRY", "-1"},
                            {"DAPL_ACK_RETRY", "many"},
                            {"DAPL_CM_TOS", "256"}};
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("DAPL_RNR_RETRY: how long a message waits for a receive")
{
    if (on_siw())
        return; // iWARP does not wait
    const variable retry("DAPL_RNR_RETRY", "0");
    const variable counts("DAPL_COUNTERS", "1");
    adapter ia;
    connected_pair pair(ia);
    MUST(pair.active.send(0, 64, 1));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_ERR_RECEIVER_NOT_READY);
    next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    // rxe counts that in a file; an adapter that is opened now begins at 0.
    const auto given_up = [](const adapter &of) {
        DAT_UINT64 value = 0;
        MUST(dat_ib_query_counters(of.handle, DCNT_IA_DIAG_ERR_SQ_RREE, &value, 0));
        return value;
    };
    CHECK(becomes_true([&] { return given_up(ia) == 1; }));
    adapter later;
    CHECK(given_up(later) == 0);
}

// ---------------------------------------------------------------------------- what goes wrong

namespace {

/// The cookies of the operations that have come back.
std::multiset<std::uint64_t> cookies_of(DAT_EVD_HANDLE evd)
{
    std::multiset<std::uint64_t> seen;
    for (const DAT_EVENT &event : drain(evd, milliseconds(300)))
        seen.insert(event.event_data.dto_completion_event_data.user_cookie.as_64);
    return seen;
}

} // namespace

TEST_CASE("a full CQ: EVD_OVERFLOW, the connection is BROKEN, and what is lost was lost once")
{
    const DAT_COUNT requests = on_siw() ? 12'000 : 500; // siw has CQs with room to grow
    adapter ia;
    DAT_EP_ATTR attr = ep_param(test_endpoint(ia).ep).ep_attr;
    attr.max_request_dtos = requests;
    endpoint_options options;
    options.attr = &attr;
    options.qlen = 8; // the port's CQ is somewhat larger
    test_endpoint from(ia, options);
    test_endpoint to(ia);
    establish(from, to);
    DAT_COUNT posted = 0;
    while (posted < requests && from.write(0, 8, to.memory.remote(0, 8),
                                           static_cast<std::uint64_t>(posted)) == DAT_SUCCESS)
        ++posted;
    const DAT_EVENT told = next_event(ia.async);
    CHECK(same_event(told.event_number, DAT_ASYNC_ERROR_EVD_OVERFLOW));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    const auto seen = cookies_of(from.request_evd);
    for (DAT_COUNT i = 0; i < posted; ++i)
        CHECK(seen.count(static_cast<std::uint64_t>(i)) <= 1);
    MUST(from.free_ep());
    MUST(to.free_ep());
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
}

// When rxe of Linux 6.1 sends both again, it finds the memory gone, and completes neither.
TEST_CASE("a disconnect brings back what the device does not, once")
{
    for (DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
        CAPTURE(how);
        adapter ia;
        connected_pair pair(ia);
        test_endpoint &own = pair.active;
        region gone(ia, own.pz, 4096);
        DAT_LMR_TRIPLET from = gone.local(0, 4096);
        MUST(own.send(0, 64, 1)); // waits for a receive
        MUST(dat_ep_post_send(own.ep, 1, &from, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG));
        gone.free();
        std::this_thread::sleep_for(a_while);
        (void)pair.passive.recv(0, 64, 3); // its connection may have ended
        MUST(own.disconnect(how));
        CHECK(ends_connection(next_event(own.connect_evd).event_number));
        CHECK(ends_connection(next_event(pair.passive.connect_evd).event_number));
        CHECK(cookies_of(own.request_evd) == std::multiset<std::uint64_t>{1, 2});
        CHECK(cookies_of(pair.passive.recv_evd) == std::multiset<std::uint64_t>{3});
        CHECK(stays_empty(own.connect_evd));
    }
}

// rxe flushes receives after ibv_modify_qp has returned: a queue pair that is kept would complete
// receives that were reported as flushed.
TEST_CASE("an attempt that is given up during rdma_connect leaves no queue pair behind")
{
    if (on_siw()) {
        MESSAGE("not tested: an iWARP kernel destroys it when the connect ends");
        return;
    }
    adapter ia;
    listener at(ia);
    test_endpoint own(ia);
    MUST(own.recv(0, 64, 1));
    {
        const int before = connects;
        const held_connects held;
        MUST(own.connect(ia.address(), at.qualifier));
        CHECK(becomes_true([&] { return connects > before; }));
        const int destroyed = destroyed_qps;
        CHECK(own.disconnect(DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
        CHECK(destroyed_qps.load() == destroyed + 1);
    }
    CHECK(next_dto(own.recv_evd).status == DAT_DTO_ERR_FLUSHED);
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    MUST(dat_ep_reset(own.ep));
    MUST(own.recv(0, 64, 2));
    CHECK(stays_empty(own.recv_evd));
}

namespace {

/// The only line that the port logs when this call fails.
template <class Call>
std::string logged_when(const char *call, int error, DAT_RETURN_TYPE wanted, Call make)
{
    failing_call now(call, error);
    const DAT_RETURN got = make();
    const std::string log = now.end();
    INFO(call);
    INFO(log);
    CHECK(same_type(got, wanted));
    CHECK(log.find('\n') == log.size() - 1);
    CHECK(log.find(call) != std::string::npos);
    return log;
}

} // namespace

TEST_CASE("a call that the device refuses for lack of memory is named, and the limit of locking it")
{
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
    rlimit little = before;
    little.rlim_cur = 64 * 1024;
    REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &little) == 0);
    const std::string limit = "Cannot allocate memory; 64 KiB of memory may be locked "
                              "(RLIMIT_MEMLOCK, ulimit -l)";
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
    const auto names_the_limit = [&](const char *call, auto make) {
        const std::string log = logged_when(call, ENOMEM, DAT_INSUFFICIENT_RESOURCES, make);
        INFO(log);
        CHECK(log.find(limit) != std::string::npos);
    };
    names_the_limit("ibv_create_cq", [&] {
        DAT_EVD_HANDLE more = DAT_HANDLE_NULL;
        return dat_evd_create(ia.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &more);
    });
    names_the_limit("ibv_create_qp", [&] {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        return dat_ep_create(ia.handle, pz, evd, evd, DAT_HANDLE_NULL, nullptr, &ep);
    });
    names_the_limit("ibv_create_srq", [&] {
        DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
        return dat_srq_create(ia.handle, pz, &attr, &srq);
    });
    names_the_limit("ibv_reg_mr", [&] {
        static char bytes[4096];
        DAT_REGION_DESCRIPTION where{};
        where.for_va = bytes;
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        DAT_LMR_CONTEXT context = 0;
        DAT_RMR_CONTEXT remote = 0;
        DAT_VLEN length = 0;
        DAT_VADDR address = 0;
        return dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, sizeof bytes, pz,
                              DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &context, &remote,
                              &length, &address);
    });
    REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &before) == 0);
}

TEST_CASE("of several calls that make an EVD or an endpoint, the one that failed is named")
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
    const std::string channel =
        logged_when("ibv_create_comp_channel", EMFILE, DAT_INSUFFICIENT_RESOURCES, [&] {
            DAT_EVD_HANDLE more = DAT_HANDLE_NULL;
            return dat_evd_create(ia.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &more);
        });
    CHECK(channel.find("RLIMIT_NOFILE") != std::string::npos);
    CHECK(channel.find("ibv_create_cq") == std::string::npos);
    const std::string modify = logged_when("ibv_modify_qp", EIO, DAT_INTERNAL_ERROR, [&] {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        return dat_ep_create(ia.handle, pz, evd, evd, DAT_HANDLE_NULL, nullptr, &ep);
    });
    CHECK(modify.find("ibv_create_qp") == std::string::npos);
}

namespace {

/// How many identifiers of the connection manager this process has in the kernel.
std::size_t identifiers()
{
    std::FILE *list = ::popen("rdma resource show cm_id", "r");
    REQUIRE(list != nullptr);
    const std::string mine = " pid " + std::to_string(::getpid()) + " ";
    std::size_t count = 0;
    char line[512];
    while (std::fgets(line, sizeof line, list) != nullptr)
        count += std::string(line).find(mine) != std::string::npos ? 1 : 0;
    CHECK(::pclose(list) == 0);
    return count;
}

} // namespace

TEST_CASE("connections leave no identifier behind, whichever side ends them")
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    listener at(ia);
    const std::size_t before = identifiers();
    REQUIRE(before > 0); // the listener's
    for (int round = 0; round < 100; ++round) {
        establish(from, to, at);
        MUST((round % 2 == 0 ? from : to).disconnect(DAT_CLOSE_ABRUPT_FLAG));
        for (test_endpoint *side : {&from, &to})
            next_connection(side->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(from.ep));
        MUST(dat_ep_reset(to.ep));
    }
    CHECK(becomes_true([&] { return identifiers() <= before; }));
}

// Last: the device is gone for this process.
TEST_CASE("removal: connections are BROKEN, the adapter failed, and everything can be closed")
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    listener at(ia);
    test_endpoint idle(ia);

    // One waits for receives at an EVD, one at a CNO.
    connected_pair quiet(other, ia);
    endpoint_options notified;
    notified.cno = make_cno(ia);
    test_endpoint calling(ia, notified);
    test_endpoint called(other);
    establish(calling, called);
    for (std::uint64_t i = 0; i < 3; ++i) {
        MUST(quiet.passive.recv(i * 64, 64, i));
        MUST(calling.recv(i * 64, 64, i));
    }
    helper_thread waiter([&] {
        DAT_EVENT first{};
        DAT_COUNT more = 0;
        CHECK(dat_evd_wait(quiet.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &first, &more) ==
              DAT_SUCCESS);
        const DAT_DTO_COMPLETION_EVENT_DATA &taken = first.event_data.dto_completion_event_data;
        CHECK(taken.status == DAT_DTO_ERR_FLUSHED);
        CHECK(taken.user_cookie.as_64 == 0);
    });
    helper_thread at_cno([&] { // which the connect may have triggered
        DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
        DAT_EVENT first{};
        do
            CHECK(dat_cno_wait(notified.cno, DAT_TIMEOUT_INFINITE, &which) == DAT_SUCCESS);
        while (dat_evd_dequeue(calling.recv_evd, &first) != DAT_SUCCESS);
    });
    waiter.await_asleep();
    at_cno.await_asleep();

    CHECK(std::system(("exec rdma link delete " + device_name + " &").c_str()) == 0);

    // Traffic until it ends.
    std::uint64_t posted = 0;
    std::multiset<std::uint64_t> seen;
    DAT_EVENT event{};
    CHECK(becomes_true([&] {
        if (posted - seen.size() < 16 &&
            pair.active.write(0, 4096, pair.passive.memory.remote(0, 4096), posted) == DAT_SUCCESS)
            ++posted;
        while (dat_evd_dequeue(pair.active.request_evd, &event) == DAT_SUCCESS)
            seen.insert(event.event_data.dto_completion_event_data.user_cookie.as_64);
        return pair.active.state() == DAT_EP_STATE_DISCONNECTED;
    }));
    seen.merge(cookies_of(pair.active.request_evd));
    CHECK(seen.size() == posted);
    for (std::uint64_t i = 0; i < posted; ++i)
        CHECK(seen.count(i) == 1);
    for (test_endpoint *side :
         {&pair.active, &pair.passive, &quiet.active, &quiet.passive, &calling, &called}) {
        const DAT_EVENT ended = next_event(side->connect_evd);
        CHECK(ends_connection(ended.event_number));
        CHECK(stays_empty(side->connect_evd));
    }
    waiter.join();
    at_cno.join();
    CHECK(cookies_of(quiet.passive.recv_evd) == std::multiset<std::uint64_t>{1, 2});
    CHECK(cookies_of(calling.recv_evd) == std::multiset<std::uint64_t>{1, 2});
    for (adapter *each : {&ia, &other}) {
        bool failed = false;
        for (const DAT_EVENT &told : drain(each->async, milliseconds(300)))
            failed |= told.event_number == DAT_ASYNC_ERROR_IA_CATASTROPHIC;
        CHECK(failed);
    }
    if (idle.connect(ia.address(), at.qualifier) == DAT_SUCCESS)
        CHECK(next_event(idle.connect_evd).event_number != DAT_CONNECTION_EVENT_ESTABLISHED);
    at.free();
    CHECK(same_code(other.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE again = DAT_HANDLE_NULL;
    CHECK(open_adapter(the_settings().ia, &async, &again) != DAT_SUCCESS);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        std::fprintf(stderr, "usage: device_test ADAPTER DEVICE [doctest's options]\n");
        return 2;
    }
    the_settings().ia = argv[1];
    device_name = argv[2];
    doctest::Context context(argc - 2, argv + 2);
    return context.run();
}
