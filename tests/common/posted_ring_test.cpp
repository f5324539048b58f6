// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ring of posted events: by one thread, and by many at once.
#include "counted_ring.hpp"

using namespace test;

namespace {

using plain_ring = counted_ring<int, osd::real_threads>;

/// Post the numbers in this order, and take them in this order.
void fill(plain_ring &r, int from, int to)
{
    for (int i = from; i < to; ++i)
        REQUIRE(r.ring.post(i));
}
void check_next(plain_ring &r, int from, int to)
{
    for (int i = from; i < to; ++i) {
        int got = -1;
        REQUIRE(r.take(got));
        REQUIRE_EQ(got, i);
    }
}

} // namespace

TEST_SUITE_BEGIN("posted_ring");

TEST_CASE("elements come out in the order in which they were posted, and a full ring takes none")
{
    for (const std::uint32_t length : {1U, 3U, 4U, 9U}) {
        CAPTURE(length);
        plain_ring r(length);
        const int all = static_cast<int>(length);
        for (int turn = 0; turn < 20; ++turn) {
            fill(r, 0, all);
            CHECK(!r.ring.post(0));
            CHECK_EQ(r.word.load(), length);
            check_next(r, 0, 1);
            fill(r, all, all + 1);
            CHECK(!r.ring.post(0));
            check_next(r, 1, all + 1);
            CHECK_EQ(r.word.load(), 0);
        }
    }
}

TEST_CASE("a ring without storage takes nothing, and becomes one that does")
{
    event_word<> word(0);
    posted_ring<int> ring(word);
    CHECK(!ring.post(1));
    posted_ring<int>::storage more;
    REQUIRE(more.allocate(1));
    CHECK(ring.exchange_storage(more));
    CHECK(ring.post(1));
    CHECK_EQ(ring.front(), 1);
}

TEST_CASE("a resize keeps elements and marks, and is refused where more is there than fits")
{
    plain_ring r(4);
    for (int turn = 0; turn < 10; ++turn) { // the ring begins at another place each time
        fill(r, 0, 2);
        CHECK(r.ring.post(2, true));
        CHECK(!r.resize(2));
        CHECK(r.resize(3));
        CHECK(!r.ring.post(3));
        CHECK(r.resize(9));
        fill(r, 3, 9);
        CHECK(!r.ring.post(9));
        check_next(r, 0, 2);
        CHECK(r.ring.is_front_marked());
        check_next(r, 2, 3);
        CHECK(!r.ring.is_front_marked());
        check_next(r, 3, 9);
        CHECK(r.resize(4));
    }
}

TEST_CASE("a storage that was given up can come back with other elements in it")
{
    plain_ring r(8);
    fill(r, 0, 6);
    check_next(r, 0, 3);
    plain_ring::storage shorter;
    REQUIRE(shorter.allocate(4));
    REQUIRE(r.ring.exchange_storage(shorter));
    fill(r, 6, 7);
    REQUIRE(r.ring.exchange_storage(shorter));
    fill(r, 7, 11);
    CHECK(!r.ring.post(11));
    check_next(r, 3, 11);
}

TEST_CASE("only marked elements that are there can be changed, the latest first")
{
    plain_ring r(4);
    const auto change = [&r](int from, int to) {
        return r.ring.change_marked(
            [&](int &element) { return element == from && (element = to, true); });
    };
    CHECK(r.ring.post(1, true));
    CHECK(r.ring.post(2));
    CHECK(r.ring.post(1, true));
    CHECK(!change(2, 5));
    CHECK(change(1, 6));
    int got = 0;
    CHECK(r.take(got));
    CHECK_EQ(got, 1);
    CHECK(!change(1, 7)); // that was taken
    CHECK(r.take(got));
    CHECK(r.take(got));
    CHECK_EQ(got, 6);
}

TEST_CASE("what is known is so until the next is posted")
{
    plain_ring r(4);
    CHECK(!r.word.are_all_known());
    r.word.set_all_known();
    CHECK(r.word.are_all_known());
    fill(r, 0, 1);
    CHECK(!r.word.are_all_known());
    r.word.set_all_known();
    check_next(r, 0, 1);
    CHECK(r.resize(5));
    CHECK(r.word.are_all_known());
    CHECK_EQ(r.word.load(), 0);
}

TEST_CASE("the owner's bits do not disturb places")
{
    plain_ring r(2);
    r.word.fetch_or(0x80000000);
    for (int i = 0; i < 100; ++i) {
        fill(r, i, i + 1);
        r.word.fetch_and(~1U); // 1 less
        CHECK_EQ(r.word.load(), 0x80000000);
        r.word.fetch_add(1);
        check_next(r, i, i + 1);
    }
}

TEST_CASE("threads post beside resizes: each element once, those of a thread in their order")
{
    constexpr int posters = 4;
    const int each = rounds(20'000);
    counted_ring<std::pair<int, int>, osd::real_threads> r(7);
    std::vector<std::thread> threads;
    std::atomic<int> ended{0};
    for (int me = 0; me < posters; ++me)
        threads.emplace_back([&, me] {
            for (int i = 0; i < each;)
                if (r.ring.post({me, i}, i % 3 == 0))
                    ++i;
                else
                    osd::yield();
            ++ended;
        });
    std::vector<int> next(posters);
    int taken = 0;
    int wrong = 0;
    for (int turn = 0; taken != posters * each; ++turn) {
        std::pair<int, int> got;
        if (turn % 64 == 0)
            (void)r.resize(static_cast<std::uint32_t>(1 + turn / 64 % 13));
        if (!r.take(got)) {
            osd::yield();
            continue;
        }
        wrong += next[static_cast<std::size_t>(got.first)]++ == got.second ? 0 : 1;
        ++taken;
    }
    for (std::thread &thread : threads)
        thread.join();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(r.word.load(), 0);
}

TEST_SUITE_END();
