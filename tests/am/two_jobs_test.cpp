// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Two ranks of a job in one process. Each is an object, so they need no launcher and no process of
// their own.
#include "job.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int ranks = 2;
constexpr int greeting = 1, answer = 2;
constexpr std::size_t segment_size = 1 << 16;

/// The values that ranks publish, and the exchanges in which they wait for each other.
class meeting {
public:
    void publish(int rank, const char *key, const void *data, std::size_t size)
    {
        const std::lock_guard guard(lock_);
        const auto *bytes = static_cast<const char *>(data);
        values_[{rank, key}].assign(bytes, bytes + size);
    }
    int lookup(int rank, const char *key, void *data, std::size_t size)
    {
        const std::lock_guard guard(lock_);
        const std::vector<char> &found = values_[{rank, key}];
        if (found.size() != size)
            return DAPL_AM_ERR_LAUNCHER;
        std::memcpy(data, found.data(), size);
        return DAPL_AM_OK;
    }
    void wait_for_all()
    {
        std::unique_lock guard(lock_);
        const int round = come_++ / ranks;
        changed_.notify_all();
        changed_.wait(guard, [&] { return come_ / ranks > round; });
    }

private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::map<std::pair<int, std::string>, std::vector<char>> values_;
    int come_ = 0;
};

class local_launcher final : public am::launcher {
public:
    local_launcher(meeting &where, int rank, int on_this_host) : meeting_(where)
    {
        rank_ = rank;
        size_ = ranks;
        local_size_ = on_this_host;
    }

    int start() override { return DAPL_AM_OK; }
    int publish(const char *key, const void *data, std::size_t size) override
    {
        meeting_.publish(rank_, key, data, size);
        return DAPL_AM_OK;
    }
    int exchange(const char *, unsigned) override
    {
        meeting_.wait_for_all();
        return DAPL_AM_OK;
    }
    int lookup(int rank, const char *key, void *data, std::size_t size, unsigned) override
    {
        return meeting_.lookup(rank, key, data, size);
    }
    void leave() override {}
    void abort(int, const char *) override {}

private:
    meeting &meeting_;
};

struct seen {
    std::atomic<int> greetings{0};
    std::atomic<int> answers{0};
    std::atomic<int> from{-1};
};

void on_greeting(dapl_am_token *token, void *, std::size_t, int, const std::int32_t *,
                 void *context)
{
    auto &counted = *static_cast<seen *>(context);
    counted.from = dapl_am_token_rank(token);
    ++counted.greetings;
    CHECK(dapl_am_reply_short(token, answer, 0, nullptr) == DAPL_AM_OK);
}

void on_answer(dapl_am_token *, void *, std::size_t, int, const std::int32_t *, void *context)
{
    ++static_cast<seen *>(context)->answers;
}

/// A rank with what its handlers have seen. Its threads use it until the process ends.
struct member {
    member(meeting &where, int rank, int on_this_host = ranks)
        : starter(where, rank, on_this_host), own(end, starter)
    {}

    void join()
    {
        DAPL_AM_OPTIONS options{};
        options.size = sizeof options;
        options.adapter = "soft-lo";
        DAPL_AM_HANDLER table[] = {
            {greeting, DAPL_AM_SHORT | DAPL_AM_REQUEST, 0, on_greeting, &counted, "greeting"},
            {answer, DAPL_AM_SHORT | DAPL_AM_REPLY, 0, on_answer, &counted, "answer"}};
        REQUIRE(own.open(&options) == DAPL_AM_OK);
        REQUIRE(own.serve() == DAPL_AM_OK);
        REQUIRE(own.attach(table, std::size(table), segment_size) == DAPL_AM_OK);
    }
    int put(int rank, const void *local, std::size_t size)
    {
        void *remote = reinterpret_cast<void *>(own.context().peer_of_rank(rank).memory.base);
        return own.transfers().run_blocking([&](dapl_am_op &op) {
            return own.transfers().put(rank, remote, local, size, op, am::local_memory::lent);
        });
    }
    int greet(int rank)
    {
        return own.requests().send(
            rank,
            am::message::make(am::category::short_message, greeting, nullptr, nullptr, 0, nullptr),
            0, 0);
    }
    int pass_barrier()
    {
        int status = own.barriers().notify(7, 0);
        if (status != DAPL_AM_OK)
            return status;
        do {
            (void)own.progress().poll();
            status = own.barriers().finish(7, 0);
        } while (status == DAPL_AM_NOT_READY);
        return status;
    }
    std::uint64_t requests()
    {
        DAPL_AM_COUNTERS counters{};
        own.fill(counters);
        return counters.requests;
    }

    am::ending end;
    local_launcher starter;
    am::job own;
    seen counted;
};

/// Runs something as each rank, on a thread of its own.
template <typename Work>
void run_as_each(member *const (&members)[ranks], Work work)
{
    std::thread other([&] { work(*members[1]); });
    work(*members[0]);
    other.join();
}

} // namespace

/// AM_ADAPTER: the adapter that all ranks are to take; none if it is not set.
TEST_CASE("ranks on several hosts take one adapter, which is at no loopback address")
{
    static meeting where;
    static member *const members[ranks] = {new member(where, 0, 1), new member(where, 1, 1)};
    const char *const wanted = std::getenv("AM_ADAPTER");
    run_as_each(members, [wanted](member &m) {
        const int status = m.own.open(nullptr);
        CHECK(status == (wanted != nullptr ? DAPL_AM_OK : DAPL_AM_ERR_ADAPTER));
        CHECK(std::string(m.own.context().adapter) == (wanted != nullptr ? wanted : ""));
    });
}

TEST_CASE("two jobs of one process are ranks of each other")
{
    static meeting where;
    static member *const members[ranks] = {new member(where, 0), new member(where, 1)};
    run_as_each(members, [](member &m) { m.join(); });

    std::vector<std::byte> sent(20'000, std::byte{0x5a});
    CHECK(members[0]->put(1, sent.data(), sent.size()) == DAPL_AM_OK);
    const auto base = members[1]->own.context().own_segment.base;
    CHECK(std::memcmp(reinterpret_cast<const void *>(base), sent.data(), sent.size()) == 0);

    CHECK(members[0]->greet(1) == DAPL_AM_OK);
    while (members[0]->counted.answers == 0)
        for (member *m : members)
            (void)m->own.progress().poll();
    CHECK(members[1]->counted.greetings == 1);
    CHECK(members[1]->counted.from == 0);
    CHECK(members[0]->counted.greetings == 0);

    run_as_each(members, [](member &m) { CHECK(m.pass_barrier() == DAPL_AM_OK); });
    CHECK(members[0]->requests() > members[1]->requests());
    // The job of the process itself is a third one, which has not begun.
    CHECK(dapl_am_poll() == DAPL_AM_ERR_STATE);
}
