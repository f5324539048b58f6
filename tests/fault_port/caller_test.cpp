// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// This program is the common layer over the wrapped software HCA, and breaks the contract in each
// way that the wrapper sees. Each breach runs in a child, which the wrapper aborts.
#include "port.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dapl::DAPL_TRANSPORT {

namespace core {
class adapter {};
class endpoint {};
class service_point {};
class evd {
public:
    std::function<void()> completed = [] {};
};
} // namespace core

template <>
bool dapls_cr_callback<transport::cr>(service_point &, transport::cr &, const cr_params &)
{
    return false;
}
void dapl_evd_dto_callback(evd &on)
{
    on.completed();
}
void dapl_evd_connection_callback(endpoint &, DAT_EVENT_NUMBER, const private_data &) {}
void dapl_datagram_peer_callback(datagram_peer &, DAT_EVENT_NUMBER, const private_data &,
                                 const datagram_address &)
{}
void dapl_srq_limit_callback(shared_recv_queue &) {}
void dapl_ep_watermark_callback(endpoint &) {}
void dapl_evd_cq_async_error_callback(evd &) {}
void dapl_evd_qp_async_error_callback(endpoint &) {}
void dapl_evd_un_async_error_callback(adapter &) {}

namespace {

void must(status done)
{
    if (!done.ok())
        ::_exit(3);
}

void sleep_briefly()
{
    ::usleep(1000);
}

/// An endpoint's objects, not connected. Leaves everything in place: its process ends.
struct world {
    adapter ia;
    endpoint ep;
    core::evd events;
    transport::hca hca;
    transport::pd pd;
    transport::cq cq;
    transport::qp qp;
    std::unique_ptr<transport::wr[]> requests{new transport::wr[8]};

    explicit world(bool concurrent_posts = false)
    {
        DAT_COUNT depth = 16;
        must(transport::dapls_ib_open_hca(hca, {"soft-lo-faults", "lo", &ia}));
        must(transport::dapls_ib_pd_alloc(hca, pd));
        must(transport::dapls_ib_cq_alloc(hca, cq, events, depth));
        must(make_qp(concurrent_posts));
        for (DAT_UINT32 at = 0; at < 8; ++at) {
            requests[at].operation = opcode::receive;
            requests[at].ring_place = at;
            requests[at].before = &requests[(at + 7) % 8];
            requests[at].after = &requests[(at + 1) % 8];
        }
    }
    status make_qp(bool concurrent_posts = false)
    {
        const qp_params wanted{
            .owner = &ep,
            .max_recv = 4,
            .max_send = 4,
            .max_recv_iov = 1,
            .max_send_iov = 1,
            .max_rdma_read_in = 0,
            .max_rdma_read_out = 0,
            .receiver = nullptr,
            .concurrent_posts = concurrent_posts,
        };
        return transport::dapls_ib_qp_alloc(pd, qp, &cq, &cq, nullptr, wanted);
    }
    status post_recv(int which = 0)
    {
        return transport::dapls_ib_post_recv(qp, requests[which], 0, nullptr);
    }
    status connect()
    {
        hca_attr about;
        transport::dapls_ib_query_hca(hca, about);
        return transport::dapls_ib_connect(qp, {about.address, 4711, 10'000'000, {}});
    }
    void free_qp() { transport::dapls_ib_qp_free(qp); }
    void free_all()
    {
        free_qp();
        transport::dapls_ib_cq_free(cq);
        transport::dapls_ib_pd_free(pd);
        transport::dapls_ib_close_hca(hca);
    }
};

/// Runs `in_object` in a thread and returns when it is inside of an operation on `object`.
template <class Object, class Do>
std::thread beside(const Object &object, Do in_object)
{
    std::thread other(in_object);
    while (!object.callers.is_used())
        sleep_briefly();
    return other;
}

/// What a process said that does this, and how it ended.
template <class Do>
std::string told(Do what, const char *plan = "any:1:slow=0")
{
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(pipe[1], STDERR_FILENO);
        ::close(pipe[0]);
        ::setenv("DAPL_FAULT", plan, 1);
        ::setenv("DAPL_FAULT_LOG", "/dev/null", 1);
        ::alarm(60);
        std::signal(SIGABRT, SIG_DFL); // doctest has a handler, and a report
        what();
        ::_exit(0);
    }
    ::close(pipe[1]);
    std::string text;
    char part[256];
    for (ssize_t got; (got = ::read(pipe[0], part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    ::close(pipe[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        return text + (WTERMSIG(status) == SIGABRT ? "aborted" : "ended by another signal");
    return text + "exit " + std::to_string(WEXITSTATUS(status));
}

/// Its line names operation, kind of object and rule.
bool breaks(const std::string &said, const char *operation, const char *kind, const char *rule)
{
    const std::string begin = std::string("contract broken by the caller of ") + operation + ": ";
    INFO(said);
    CHECK(said.starts_with(begin + kind));
    CHECK(said.find(rule) != std::string::npos);
    CHECK(said.ends_with("\naborted"));
    return said.starts_with(begin);
}

} // namespace

TEST_CASE("who keeps the contract is left alone")
{
    CHECK(told([] {
              world all;
              must(all.post_recv());
              all.free_qp();
              must(all.make_qp());
              must(all.post_recv());
              all.free_all();
          }) == "exit 0");
}

TEST_CASE("an operation on an object that was freed")
{
    CHECK(breaks(told([] {
                     world all;
                     all.free_qp();
                     (void)all.post_recv();
                 }),
                 "post_recv", "qp", "was freed before"));
    CHECK(breaks(told([] {
                     world all;
                     all.free_all();
                     (void)all.make_qp();
                 }),
                 "qp_alloc", "pd", "was freed before"));
    CHECK(breaks(told([] {
                     world all;
                     all.free_qp();
                     all.free_qp();
                 }),
                 "qp_free", "qp", "was freed before"));
}

TEST_CASE("an operation on an object that was not made, or whose making failed")
{
    CHECK(breaks(told([] {
                     world all;
                     transport::qp other;
                     transport::dapls_ib_disconnect_clean(other);
                 }),
                 "disconnect_clean", "qp", "was not made"));
    CHECK(breaks(told(
                     [] {
                         world all;
                         all.free_qp();
                         (void)all.make_qp();
                         (void)all.post_recv();
                     },
                     "qp_alloc:2:DAT_INSUFFICIENT_RESOURCES"),
                 "post_recv", "qp", "was not made"));
}

TEST_CASE("an object that is made again")
{
    CHECK(breaks(told([] { (void)world().make_qp(); }), "qp_alloc", "qp", "made again"));
}

TEST_CASE("an object that is freed while an operation uses it")
{
    CHECK(breaks(told(
                     [] {
                         world all;
                         beside(all.qp, [&] { (void)all.post_recv(); }).detach();
                         all.free_qp();
                     },
                     "post_recv:*:slow=30000"),
                 "qp_free", "qp", "another operation uses it"));
}

TEST_CASE("an object that is being freed")
{
    using faults::subject;
    const auto while_it_is = [](subject what, bool in_upcall) {
        return told([what, in_upcall] {
            int object = 0;
            faults::usage queue;
            queue.begin_making({subject::cq_alloc, "cq", &object});
            queue.end_making(true);
            queue.begin_freeing({subject::cq_free, "cq", &object});
            const faults::place at{what, "cq", &object};
            if (in_upcall && faults::may_run_beside_fence(what))
                queue.enter_beside_fence(at);
            else
                queue.enter(at);
        });
    };
    CHECK(while_it_is(subject::completion_notify, true) == "exit 0");
    CHECK(breaks(while_it_is(subject::completion_notify, false), "completion_notify", "cq",
                 "is being freed"));
    CHECK(breaks(while_it_is(subject::disconnect_clean, true), "disconnect_clean", "cq",
                 "is being freed"));
}

TEST_CASE("a second thread where one at a time may be")
{
    CHECK(breaks(told(
                     [] {
                         world all;
                         beside(all.qp, [&] { (void)all.post_recv(0); }).detach();
                         (void)all.post_recv(1);
                     },
                     "post_recv:1:slow=30000"),
                 "post_recv", "qp", "one thread at a time, and another is in post_recv"));
    CHECK(breaks(told([] {
                     world all;
                     beside(all.cq, [&] {
                         (void)transport::dapls_ib_cq_wait(all.cq, notify_on::any, 1,
                                                           osd::deadline::never());
                     }).detach();
                     completion done;
                     (void)transport::dapls_ib_completion_poll(all.cq, done);
                 }),
                 "completion_poll", "cq", "one thread at a time, and another is in cq_wait"));
    CHECK(breaks(told(
                     [] {
                         world all;
                         beside(all.qp, [&] { (void)all.connect(); }).detach();
                         transport::dapls_ib_disconnect(all.qp, DAT_CLOSE_ABRUPT_FLAG);
                     },
                     "connect:1:slow=30000"),
                 "disconnect", "qp", "one thread at a time, and another is in connect"));
}

TEST_CASE("threads that may be beside one another")
{
    CHECK(told(
              [] {
                  world all(true);
                  std::thread other = beside(all.qp, [&] { must(all.post_recv(0)); });
                  must(all.post_recv(1));
                  transport::dapls_ib_completion_notify(all.cq, notify_on::any);
                  transport::dapls_ib_disconnect_clean(all.qp);
                  other.join();
                  all.free_all();
              },
              "post_recv:1:slow=200") == "exit 0");
    CHECK(breaks(told(
                     [] {
                         world all(true);
                         transport::wr &send = all.requests[0];
                         send.operation = opcode::send;
                         beside(all.qp, [&] {
                             (void)transport::dapls_ib_post_send(all.qp, send, 0, nullptr, nullptr,
                                                                 DAT_COMPLETION_DEFAULT_FLAG);
                         }).detach();
                         (void)transport::dapls_ib_requests_done(all.qp, send, 1);
                     },
                     "post_send:1:slow=30000"),
                 "requests_done", "qp", "one thread at a time, and another is in post_send"));
}

TEST_CASE("what may block, inside an upcall")
{
    CHECK(breaks(told([] {
                     world all;
                     all.events.completed = [&] { all.free_qp(); };
                     must(all.post_recv());
                     transport::dapls_ib_completion_notify(all.cq, notify_on::any);
                     transport::dapls_ib_disconnect_clean(all.qp);
                     ::pause();
                 }),
                 "qp_free", "", "inside an upcall"));
}

} // namespace dapl::DAPL_TRANSPORT
