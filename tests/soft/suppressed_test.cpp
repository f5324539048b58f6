// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// [nth_signal] A consumer that suppresses every success gets room for more.
//
//   suppressed_test ADAPTER [--threadsafe] [doctest's options]
//
// On the software HCA, and on the devices of the virtual machine.
#include "harness/support.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

using namespace conformance;

namespace {

constexpr std::size_t bytes = 64;

/// Writes to the peer's memory by a queue of known depth.
struct writer {
    explicit writer(connected_pair &pair)
        : from(pair.active), to(pair.passive.memory.remote(0, bytes)),
          depth(ep_param(from.ep).ep_attr.max_request_dtos)
    {}
    DAT_RETURN write(DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG,
                     std::uint64_t cookie = 7)
    {
        return from.write(0, bytes, to, cookie, flags);
    }
    /// Nothing but a want of room is an answer.
    bool writes_within(milliseconds time)
    {
        DAT_RETURN answer = DAT_SUCCESS;
        const bool done = becomes_true(
            [&] {
                answer = write();
                return DAT_GET_TYPE(answer) != DAT_INSUFFICIENT_RESOURCES;
            },
            time);
        return done && answer == DAT_SUCCESS;
    }
    test_endpoint &from;
    const DAT_RMR_TRIPLET to;
    const DAT_COUNT depth;
};

} // namespace

TEST_CASE("a consumer that suppresses every success gets room again, time after time")
{
    adapter ia;
    connected_pair pair(ia);
    writer w(pair);
    for (DAT_COUNT i = 0; i < 20 * w.depth; ++i)
        REQUIRE(w.writes_within(patience));
    CHECK(stays_empty(w.from.request_evd, milliseconds(20)));
}

TEST_CASE("a success that is not suppressed keeps its place until it is taken, and those behind it")
{
    adapter ia;
    connected_pair pair(ia);
    writer w(pair);
    for (int round = 0; round < 5; ++round) {
        REQUIRE(w.writes_within(patience));
        MUST(w.write(DAT_COMPLETION_DEFAULT_FLAG, 8));
        DAT_COUNT more = 0;
        while (w.writes_within(milliseconds(500))) // the port may get no processor for some time
            REQUIRE(++more < w.depth);
        CHECK(more >= w.depth - 2);
        const DAT_DTO_COMPLETION_EVENT_DATA taken = next_dto(w.from.request_evd);
        CHECK(taken.status == DAT_DTO_SUCCESS);
        CHECK(taken.user_cookie.as_64 == 8);
        REQUIRE(w.writes_within(patience));
    }
    CHECK(stays_empty(w.from.request_evd, milliseconds(20)));
}

TEST_CASE("a suppressed request that is flushed makes a completion")
{
    adapter ia;
    connected_pair pair(ia);
    writer w(pair);
    for (DAT_COUNT i = 0; i < 3 * w.depth; ++i)
        REQUIRE(w.writes_within(patience));
    MUST(w.from.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    next_connection(w.from.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    drain(w.from.request_evd, milliseconds(20));
    for (std::uint64_t i = 0; i < 3; ++i) {
        MUST(w.write(DAT_COMPLETION_SUPPRESS_FLAG, 100 + i));
        const DAT_DTO_COMPLETION_EVENT_DATA told = next_dto(w.from.request_evd);
        CHECK(told.status == DAT_DTO_ERR_FLUSHED);
        CHECK(told.user_cookie.as_64 == 100 + i);
    }
}

TEST_CASE("threads that post at once and suppress every success get room, each")
{
    if (!the_settings().thread_safe)
        return;
    adapter ia;
    connected_pair pair(ia);
    writer w(pair);
    std::atomic<int> stuck{0};
    std::vector<std::unique_ptr<helper_thread>> threads;
    for (int i = 0; i < 4; ++i)
        threads.push_back(std::make_unique<helper_thread>([&] {
            for (DAT_COUNT n = 0; n < 10 * w.depth; ++n)
                stuck += !w.writes_within(patience);
        }));
    for (auto &each : threads)
        each->join();
    CHECK(stuck == 0);
    CHECK(stays_empty(w.from.request_evd, milliseconds(20)));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: suppressed_test ADAPTER [--threadsafe] [doctest's options]\n");
        return 2;
    }
    the_settings().ia = argv[1];
    the_settings().thread_safe = argc > 2 && std::strcmp(argv[2], "--threadsafe") == 0;
    doctest::Context context(argc - 1, argv + 1);
    return context.run();
}
