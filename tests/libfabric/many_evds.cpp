// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// many-evds: a thousand EVDs on one adapter, each of an endpoint of its own, and a waiter that a
// message wakes at each of them after it has fallen asleep there.
#include "program/failure.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <netinet/in.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using program::must;

constexpr std::size_t count = 1000;
constexpr rlim_t descriptors = 8192; ///< three for each EVD, and one for each endpoint
constexpr DAT_TIMEOUT patience_us = 60'000'000;
constexpr int skipped = 77;

bool raise_limit()
{
    rlimit allowed{};
    getrlimit(RLIMIT_NOFILE, &allowed);
    if (allowed.rlim_cur >= descriptors)
        return true;
    allowed.rlim_cur = descriptors;
    return setrlimit(RLIMIT_NOFILE, &allowed) == 0;
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    must("dat_evd_wait", dat_evd_wait(evd, patience_us, 1, &event, &more));
    return event;
}

class crowd {
public:
    explicit crowd(const std::string &adapter)
    {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        must("dat_ia_open", dat_ia_open(const_cast<char *>(adapter.c_str()), 8, &async, &ia_));
        must("dat_ia_query", dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &attr_, 0, nullptr));
        must("dat_pz_create", dat_pz_create(ia_, &pz_));
        make_memory();
        requests_ = make_evd(2 * count, DAT_EVD_DTO_FLAG);
        connections_ = make_evd(4 * count, DAT_EVD_CONNECTION_FLAG); // with their ends
        arrivals_ = make_evd(64, DAT_EVD_CR_FLAG);
        must("dat_psp_create_any",
             dat_psp_create_any(ia_, &qualifier_, arrivals_, DAT_PSP_CONSUMER_FLAG, &listener_));
    }
    ~crowd() { dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG); }
    crowd(const crowd &) = delete;

    DAT_COUNT most_evds() const { return attr_.max_evds; }

    void add()
    {
        DAT_EVD_HANDLE evd = make_evd(4, DAT_EVD_DTO_FLAG);
        DAT_EP_HANDLE receiver = make_endpoint(evd), sender = make_endpoint(requests_);
        DAT_LMR_TRIPLET to{memory_at_, 4, context_};
        must("dat_ep_post_recv",
             dat_ep_post_recv(receiver, 1, &to, {}, DAT_COMPLETION_DEFAULT_FLAG));
        must("dat_ep_connect",
             dat_ep_connect(sender, attr_.ia_address_ptr, qualifier_, patience_us, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        DAT_CR_HANDLE request = next_event(arrivals_).event_data.cr_arrival_event_data.cr_handle;
        must("dat_cr_accept", dat_cr_accept(request, receiver, 0, nullptr));
        for (int end = 0; end < 2; ++end)
            if (const DAT_EVENT event = next_event(connections_);
                event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
                program::fail_connection(event.event_number);
        evds_.push_back(evd);
        senders_.push_back(sender);
    }
    void send(std::size_t i)
    {
        DAT_LMR_TRIPLET from{memory_at_, 4, context_};
        must("dat_ep_post_send",
             dat_ep_post_send(senders_[i], 1, &from, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    void await_message(std::size_t i)
    {
        const auto &done = next_event(evds_[i]).event_data.dto_completion_event_data;
        if (done.status != DAT_DTO_SUCCESS)
            throw program::failure("a receive failed");
    }

private:
    DAT_EVD_HANDLE make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags)
    {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        must("dat_evd_create", dat_evd_create(ia_, length, DAT_HANDLE_NULL, flags, &evd));
        return evd;
    }
    DAT_EP_HANDLE make_endpoint(DAT_EVD_HANDLE receives)
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        must("dat_ep_create",
             dat_ep_create(ia_, pz_, receives, requests_, connections_, nullptr, &ep));
        return ep;
    }
    void make_memory()
    {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes_;
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        DAT_RMR_CONTEXT remote = 0;
        DAT_VLEN length = 0;
        must("dat_lmr_create", dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region, sizeof bytes_, pz_,
                                              DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                              &context_, &remote, &length, &memory_at_));
    }

    char bytes_[4] = {};
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr_{};
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context_ = 0;
    DAT_VADDR memory_at_ = 0;
    DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL, connections_ = DAT_HANDLE_NULL,
                   arrivals_ = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE listener_ = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier_ = 0;
    std::vector<DAT_EVD_HANDLE> evds_;
    std::vector<DAT_EP_HANDLE> senders_;
};

/// Waits at one EVD after the other.
class waiter {
public:
    explicit waiter(crowd &c) : thread_([this, &c] { run(c); }) {}
    ~waiter() { thread_.join(); }

    bool has_failed() const { return failed_; }
    /// Whether the thread sleeps in its wait at EVD number `i`.
    bool sleeps_at(std::size_t i) const
    {
        if (begun_ != i + 1)
            return false;
        std::ifstream file("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
        const std::string line{std::istreambuf_iterator<char>(file), {}};
        const std::size_t name_end = line.rfind(')');
        return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
    }
    std::size_t woken() const { return woken_; }

private:
    void run(crowd &c)
    {
        id_ = gettid();
        try {
            for (std::size_t i = 0; i < count; ++i) {
                begun_ = i + 1;
                c.await_message(i);
                woken_ = i + 1;
            }
        } catch (const std::exception &e) {
            std::fprintf(stderr, "many-evds: wait %zu: %s\n", woken_.load(), e.what());
            failed_ = true;
        }
    }

    std::atomic<pid_t> id_{0};
    std::atomic<std::size_t> begun_{0}, woken_{0};
    std::atomic<bool> failed_{false};
    std::thread thread_; ///< the last member: it uses the others
};

template <class Condition>
void wait_until(const waiter &w, Condition condition)
{
    while (!condition() && !w.has_failed())
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

int run(const std::string &adapter)
{
    if (!raise_limit()) {
        std::printf("skipped: this user may have fewer than %ju descriptors (ulimit -Hn)\n",
                    static_cast<std::uintmax_t>(descriptors));
        return skipped;
    }
    crowd all(adapter);
    if (all.most_evds() < static_cast<DAT_COUNT>(count))
        throw program::failure("max_evds of the adapter is below a thousand");
    for (std::size_t i = 0; i < count; ++i)
        all.add();
    waiter w(all);
    for (std::size_t i = 0; i < count && !w.has_failed(); ++i) {
        wait_until(w, [&] { return w.sleeps_at(i); });
        all.send(i);
        wait_until(w, [&] { return w.woken() > i; });
    }
    std::printf("%zu of %zu waits at EVDs were ended by a message\n", w.woken(), count);
    return w.has_failed() ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc == 2 ? argv[1] : "ofi-lo");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "many-evds: %s\n", e.what());
        return 1;
    }
}
