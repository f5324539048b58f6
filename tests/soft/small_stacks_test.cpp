// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How much stack the calls take of the thread that makes them: docs/design/threads.md.
#include <dat2/udat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <initializer_list>
#include <netinet/in.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr DAT_TIMEOUT patience_us = 60'000'000;
constexpr std::size_t kilobytes = 1024;
constexpr std::size_t buffer_size = 1024 * kilobytes;

/// A thread on memory of our own. Below it is a page that nobody may touch.
class painted_thread {
public:
    explicit painted_thread(std::size_t size) : size_(size)
    {
        guard_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        memory_ = static_cast<std::uint8_t *>(mmap(nullptr, guard_ + size_, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(memory_ != MAP_FAILED);
        REQUIRE(mprotect(memory_, guard_, PROT_NONE) == 0);
    }
    painted_thread(const painted_thread &) = delete;
    painted_thread &operator=(const painted_thread &) = delete;
    ~painted_thread() { munmap(memory_, guard_ + size_); }

    void run(const std::function<void()> &body)
    {
        body_ = &body;
        pthread_attr_t how;
        REQUIRE(pthread_attr_init(&how) == 0);
        REQUIRE(pthread_attr_setstack(&how, memory_ + guard_, size_) == 0);
        pthread_t made;
        REQUIRE(pthread_create(&made, &how, enter, this) == 0);
        REQUIRE(pthread_join(made, nullptr) == 0);
        pthread_attr_destroy(&how);
    }
    /// The stack used in the latest run, below the frame that called its body.
    std::size_t used() const { return used_; }

private:
    static constexpr std::uint8_t paint = 0xa5;

    static void *enter(void *self)
    {
        auto *const me = static_cast<painted_thread *>(self);
        std::uint8_t here = 0;
        std::uint8_t *const bottom = me->memory_ + me->guard_;
        constexpr std::size_t own = 512; // frames of this function and of memset
        const std::size_t below = static_cast<std::size_t>(&here - bottom) - own;
        std::memset(bottom, paint, below);
        (*me->body_)();
        std::size_t untouched = 0;
        while (untouched < below && bottom[untouched] == paint)
            ++untouched;
        me->used_ = below + own - untouched;
        return nullptr;
    }

    std::uint8_t *memory_ = nullptr;
    std::size_t guard_ = 0;
    std::size_t size_;
    std::size_t used_ = 0;
    const std::function<void()> *body_ = nullptr;
};

/// One side of a connection.
struct side {
    void open(const char *adapter)
    {
        ok(dat_ia_open(const_cast<char *>(adapter), 8, &async, &ia));
        ok(dat_pz_create(ia, &pz));
        ok(dat_evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connections));
        ok(dat_evd_create(ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests));
        ok(dat_evd_create(ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &done));
        ok(dat_ep_create(ia, pz, done, done, connections, nullptr, &ep));
        DAT_REGION_DESCRIPTION where{};
        where.for_va = buffer.data();
        ok(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, buffer_size, pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &lmr, &local, &remote, nullptr, nullptr));
    }
    void close()
    {
        ok(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
        ok(dat_ep_free(ep));
        ok(dat_lmr_free(lmr));
        ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    }
    DAT_LMR_TRIPLET segment(std::size_t size)
    {
        return {reinterpret_cast<std::uintptr_t>(buffer.data()), static_cast<DAT_SEG_LENGTH>(size),
                local};
    }
    void receive(std::size_t size)
    {
        DAT_LMR_TRIPLET into = segment(size);
        ok(dat_ep_post_recv(ep, 1, &into, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    void send(std::size_t size)
    {
        DAT_LMR_TRIPLET from = segment(size);
        ok(dat_ep_post_send(ep, 1, &from, {}, DAT_COMPLETION_DEFAULT_FLAG));
    }
    void write(const side &to, std::size_t size)
    {
        DAT_LMR_TRIPLET from = segment(size);
        const DAT_RMR_TRIPLET there{reinterpret_cast<std::uintptr_t>(to.buffer.data()),
                                    static_cast<DAT_SEG_LENGTH>(size), to.remote};
        ok(dat_ep_post_rdma_write(ep, 1, &from, {}, &there, DAT_COMPLETION_DEFAULT_FLAG));
    }
    void read(const side &of, std::size_t size)
    {
        DAT_LMR_TRIPLET into = segment(size);
        const DAT_RMR_TRIPLET there{reinterpret_cast<std::uintptr_t>(of.buffer.data()),
                                    static_cast<DAT_SEG_LENGTH>(size), of.remote};
        ok(dat_ep_post_rdma_read(ep, 1, &into, {}, &there, DAT_COMPLETION_DEFAULT_FLAG));
    }
    void wait(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted)
    {
        DAT_EVENT event;
        DAT_COUNT more = 0;
        ok(dat_evd_wait(evd, patience_us, 1, &event, &more));
        bad += event.event_number != wanted;
        if (wanted == DAT_CONNECTION_REQUEST_EVENT)
            request = event.event_data.cr_arrival_event_data.cr_handle;
        if (wanted == DAT_DTO_COMPLETION_EVENT)
            bad += event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS;
    }
    void dequeue()
    {
        DAT_EVENT event;
        while (dat_evd_dequeue(done, &event) != DAT_SUCCESS) {
        }
        bad += event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS;
    }
    /// What doctest does would take more of the stack than the calls.
    void ok(DAT_RETURN how) { bad += how != DAT_SUCCESS; }

    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE done = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CR_HANDLE request = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT remote = 0;
    std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(buffer_size);
    int bad = 0;
};

struct step {
    const char *what;
    bool on_data_path;
    std::function<void()> make;
};

/// All that two sides do in their lives.
struct lives {
    explicit lives(const char *adapter)
    {
        steps = {
            {"dat_ia_open …", false, [=, this] { passive.open(adapter), active.open(adapter); }},
            {"dat_psp_create_any", false,
             [this] {
                 passive.ok(dat_psp_create_any(passive.ia, &qualifier, passive.requests,
                                               DAT_PSP_CONSUMER_FLAG, &passive.psp));
             }},
            {"dat_ep_post_recv", true,
             [this] {
                 for (int i = 0; i < messages; ++i)
                     passive.receive(buffer_size);
             }},
            {"dat_ep_connect", false,
             [this] {
                 sockaddr_in to{};
                 to.sin_family = AF_INET;
                 to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
                 active.ok(dat_ep_connect(active.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&to),
                                          qualifier, patience_us, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                          DAT_CONNECT_DEFAULT_FLAG));
             }},
            {"dat_cr_accept", false,
             [this] {
                 passive.wait(passive.requests, DAT_CONNECTION_REQUEST_EVENT);
                 passive.ok(dat_cr_accept(passive.request, passive.ep, 0, nullptr));
             }},
            {"dat_evd_wait for a connection", true,
             [this] {
                 passive.wait(passive.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
                 active.wait(active.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
             }},
            {"dat_ep_post_send, small", true, [this] { active.send(64); }},
            {"dat_evd_wait", true, [this] { take(); }},
            {"dat_ep_post_send, large", true, [this] { active.send(buffer_size); }},
            {"dat_evd_wait", true, [this] { take(); }},
            {"dat_ep_post_send, many", true,
             [this] {
                 for (int i = 2; i < messages; ++i)
                     active.send(8 * kilobytes);
             }},
            {"dat_evd_dequeue", true,
             [this] {
                 for (int i = 2; i < messages; ++i)
                     passive.dequeue(), active.dequeue();
             }},
            {"dat_ep_post_rdma_write", true, [this] { active.write(passive, buffer_size); }},
            {"dat_evd_wait", true, [this] { active.wait(active.done, DAT_DTO_COMPLETION_EVENT); }},
            {"dat_ep_post_rdma_read", true, [this] { active.read(passive, buffer_size); }},
            {"dat_evd_wait", true, [this] { active.wait(active.done, DAT_DTO_COMPLETION_EVENT); }},
            {"dat_ia_close …", false, [this] { active.close(), passive.close(); }},
        };
    }
    void take()
    {
        passive.wait(passive.done, DAT_DTO_COMPLETION_EVENT);
        active.wait(active.done, DAT_DTO_COMPLETION_EVENT);
    }
    int bad() const { return active.bad + passive.bad; }

    static constexpr int messages = 14; ///< fewer than an endpoint takes by default
    side active;
    side passive;
    DAT_CONN_QUAL qualifier = 0;
    std::vector<step> steps;
};

std::size_t smallest_stack()
{
    return static_cast<std::size_t>(std::max(16384L, sysconf(_SC_THREAD_STACK_MIN)));
}

constexpr const char *adapters[] = {"soft-lo", "soft-udp", "soft-checked"};

} // namespace

TEST_CASE("a call takes little of the stack, one on the data path less")
{
    for (const char *adapter : adapters) {
        CAPTURE(adapter);
        lives both(adapter);
        painted_thread thread(256 * kilobytes);
        for (const step &each : both.steps) {
            thread.run(each.make);
            MESSAGE(std::string(adapter), ": ", std::string(each.what), ": ", thread.used(),
                    " bytes");
            // The C library's frames, and the test's own, count as well.
            CHECK(thread.used() <= (each.on_data_path ? 6 : 12) * kilobytes);
            REQUIRE(both.bad() == 0);
        }
    }
}

TEST_CASE("a line in the log fits the smallest stack")
{
    painted_thread thread(smallest_stack());
    DAT_RETURN how = DAT_SUCCESS;
    thread.run([&how] {
        char name[] = "no-such-adapter";
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        how = dat_ia_open(name, 8, &async, &ia);
    });
    CHECK(DAT_GET_TYPE(how) == DAT_PROVIDER_NOT_FOUND);
}

TEST_CASE("threads with the smallest stacks connect, post, wait and dequeue")
{
    for (const char *adapter : adapters) {
        CAPTURE(adapter);
        lives both(adapter);
        painted_thread thread(smallest_stack());
        for (const step &each : both.steps) {
            CAPTURE(each.what);
            thread.run(each.make);
            REQUIRE(both.bad() == 0);
        }
    }
}
