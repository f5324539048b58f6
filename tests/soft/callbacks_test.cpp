// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// [cqeh_domains] Which thread calls the agents of CNOs. The adapters have two threads.
#include <dat2/udat.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace {

using namespace std::chrono_literals;

/// An EVD whose CNO has an agent.
struct watched {
    watched(DAT_IA_HANDLE ia)
    {
        REQUIRE(dat_cno_create(ia, {this, called}, &cno) == DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia, 8, cno, DAT_EVD_DTO_FLAG, &evd) == DAT_SUCCESS);
    }
    static void called(DAT_PVOID of, DAT_EVD_HANDLE)
    {
        static_cast<watched *>(of)->by = std::this_thread::get_id();
    }
    std::thread::id caller() const
    {
        for (int i = 0; i < 20'000 && by.load() == std::thread::id(); ++i)
            std::this_thread::sleep_for(1ms);
        return by;
    }
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    std::atomic<std::thread::id> by{};
};

struct adapter {
    explicit adapter(const char *name)
    {
        char writable[32];
        std::strcpy(writable, name);
        REQUIRE(dat_ia_open(writable, 8, &async, &ia) == DAT_SUCCESS);
        REQUIRE(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE,
                             nullptr) == DAT_SUCCESS);
        REQUIRE(dat_pz_create(ia, &pz) == DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connect) ==
                DAT_SUCCESS);
        DAT_LMR_CONTEXT local{};
        DAT_VLEN size{};
        DAT_VADDR at{};
        REQUIRE(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, {.for_va = memory}, sizeof memory, pz,
                               DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_VA_TYPE_VA, &lmr, &local, nullptr,
                               &size, &at) == DAT_SUCCESS);
        segment = {at, sizeof memory, local};
    }
    ~adapter() { dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }

    /// Has a receive flushed there: its endpoint connects to a qualifier without a listener.
    void complete_one(DAT_EVD_HANDLE on)
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        REQUIRE(dat_ep_create(ia, pz, on, on, connect, nullptr, &ep) == DAT_SUCCESS);
        REQUIRE(dat_ep_post_recv(ep, 1, &segment, {}, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS);
        REQUIRE(dat_ep_connect(ep, attr.ia_address_ptr, 1, 10'000'000, 0, nullptr,
                               DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
    }

    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connect = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    char memory[64] = {};
    DAT_LMR_TRIPLET segment{};
};

bool two_threads_call(const char *name)
{
    adapter a(name);
    watched first(a.ia);
    watched second(a.ia);
    for (watched *each : {&first, &second})
        a.complete_one(each->evd);
    REQUIRE(first.caller() != std::thread::id());
    REQUIRE(second.caller() != std::thread::id());
    CHECK(first.caller() != std::this_thread::get_id());
    return first.caller() != second.caller();
}

/// An EVD whose agent always brings about its next call: it posts a receive that is flushed.
struct restless {
    explicit restless(adapter &a) : segment(a.segment)
    {
        REQUIRE(dat_cno_create(a.ia, {this, called}, &cno) == DAT_SUCCESS);
        REQUIRE(dat_evd_create(a.ia, 8, cno, DAT_EVD_DTO_FLAG, &evd) == DAT_SUCCESS);
        a.complete_one(evd);
    }
    /// Returns when the agent is called no more.
    ~restless()
    {
        stop = true;
        for (int i = 0; i < 20'000 && !over; ++i)
            std::this_thread::sleep_for(1ms);
    }

    static void called(DAT_PVOID of, DAT_EVD_HANDLE evd)
    {
        restless &self = *static_cast<restless *>(of);
        ++self.calls;
        (void)dat_cno_modify_agent(self.cno, {of, called});
        DAT_EVENT event;
        const bool goes_on = !self.stop && std::chrono::steady_clock::now() < self.end;
        if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS && goes_on)
            (void)dat_ep_post_recv(event.event_data.dto_completion_event_data.ep_handle, 1,
                                   &self.segment, {}, DAT_COMPLETION_DEFAULT_FLAG);
        if (!goes_on)
            self.over = true;
    }
    bool is_called() const
    {
        for (int i = 0; i < 20'000 && calls < 1000; ++i)
            std::this_thread::sleep_for(1ms);
        return calls >= 1000;
    }

    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET segment;
    std::atomic<unsigned> calls{0};
    std::atomic<bool> stop{false};
    std::atomic<bool> over{false};
    const std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + 30s;
};

} // namespace

TEST_CASE("a request arrives though an agent keeps the adapter's thread busy")
{
    adapter a("threads-plain");
    restless agent(a);
    REQUIRE(agent.is_called());
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    REQUIRE(dat_evd_create(a.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests) == DAT_SUCCESS);
    REQUIRE(dat_psp_create_any(a.ia, &qualifier, requests, DAT_PSP_CONSUMER_FLAG, &psp) ==
            DAT_SUCCESS);
    REQUIRE(dat_ep_create(a.ia, a.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, a.connect, nullptr, &ep) ==
            DAT_SUCCESS);
    REQUIRE(dat_ep_connect(ep, a.attr.ia_address_ptr, qualifier, 20'000'000, 0, nullptr,
                           DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
    DAT_EVENT event;
    DAT_COUNT more = 0;
    CHECK(dat_evd_wait(requests, 10'000'000, 1, &event, &more) == DAT_SUCCESS);
}

TEST_CASE("a wait in a CNO expires though the agent of another is called all the time")
{
    adapter a("threads");
    restless agent(a);
    REQUIRE(agent.is_called());
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    REQUIRE(dat_cno_create(a.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno) == DAT_SUCCESS);
    for (int i = 0; i < 100; ++i)
        CHECK(DAT_GET_TYPE(dat_cno_wait(cno, 10'000, &by)) == DAT_QUEUE_EMPTY);
    CHECK(std::chrono::steady_clock::now() < agent.end);
}

TEST_CASE("with cqeh_domains the agents of two EVDs are called by two threads")
{
    CHECK(two_threads_call("threads"));
}

TEST_CASE("without cqeh_domains one thread calls them all")
{
    CHECK_FALSE(two_threads_call("threads-plain"));
}
