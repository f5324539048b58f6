// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ledgers of hammer: the errors that they detect, and the orders that they must accept.
#include "ledger.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace stress;

namespace {

struct books : ledger {
    void post(std::uint32_t number, span when, bool suppressed = false)
    {
        entry one;
        one.number = number;
        one.suppressed = suppressed;
        one.posted = when;
        open(one);
        posted(number, when.ended);
    }
    finding take(std::uint32_t number, span when, bool success = true)
    {
        return back(number, when, success,
                    [this](const entry &each) { implied.push_back(each.number); });
    }
    std::vector<std::uint32_t> implied;
};

} // namespace

TEST_CASE("ledger: completions once and in order are accepted")
{
    books b;
    b.post(1, {10, 20});
    b.post(2, {30, 40});
    CHECK(b.open_count() == 2);
    CHECK(b.oldest() == 10);
    CHECK(!b.take(1, {50, 60}));
    CHECK(b.oldest() == 30);
    CHECK(!b.take(2, {70, 80}));
    CHECK(b.open_count() == 0);
    CHECK(b.oldest() == never);
}

TEST_CASE("ledger: a completion never posted, or a second one, is detected")
{
    books b;
    CHECK(b.take(7, {1, 2}));
    b.post(1, {10, 20});
    b.post(2, {30, 40});
    CHECK(!b.take(2, {50, 60}, false));
    CHECK(b.take(2, {61, 62}));
    CHECK(!b.take(1, {55, 65}));
    CHECK(b.take(1, {70, 80}));
    CHECK(b.take(2, {90, 95}));
}

TEST_CASE("ledger: a failed post does not complete")
{
    books b;
    b.post(1, {10, 20});
    b.withdraw(1);
    CHECK(b.open_count() == 0);
    CHECK(b.take(1, {50, 60}));
}

TEST_CASE("ledger: a completion after that of a later entry is detected")
{
    books b;
    b.post(1, {10, 20});
    b.post(2, {30, 40});
    CHECK(!b.take(2, {50, 60}));
    CHECK(b.take(1, {70, 80}));
}

TEST_CASE("ledger: calls that overlap have no order")
{
    SUBCASE("posts")
    {
        books b;
        b.post(1, {10, 35});
        b.post(2, {30, 40});
        CHECK(!b.take(2, {50, 60}));
        CHECK(!b.take(1, {70, 80}));
    }
    SUBCASE("takes")
    {
        books b;
        b.post(1, {10, 20});
        b.post(2, {30, 40});
        CHECK(!b.take(2, {50, 75}));
        CHECK(!b.take(1, {70, 80}));
    }
    SUBCASE("a post that has not returned")
    {
        books b;
        entry one;
        one.number = 1;
        one.posted.began = 10;
        b.open(one);
        b.post(2, {30, 40});
        CHECK(!b.take(2, {50, 60}));
        CHECK(!b.take(1, {70, 80}));
        b.posted(1, 90);
    }
}

TEST_CASE("ledger: a suppressed success is proved by what comes after it")
{
    books b;
    b.post(1, {10, 20}, true);
    b.post(2, {30, 40});
    b.post(3, {45, 48}, true);
    CHECK(b.open_count() == 3);
    CHECK(!b.take(2, {50, 60}));
    CHECK(b.implied == std::vector<std::uint32_t>{1});
    CHECK(b.open_count() == 1);
    CHECK(b.oldest() == never); // number 3 need not come
}

TEST_CASE("ledger: a signalled success that was suppressed is detected")
{
    books b;
    b.post(1, {10, 20}, true);
    CHECK(b.take(1, {50, 60}));
}

TEST_CASE("ledger: a failure of a suppressed one comes before what was posted after it")
{
    SUBCASE("which a slow thread may tell later")
    {
        books b;
        b.post(1, {10, 20}, true);
        b.post(2, {30, 40});
        CHECK(!b.take(2, {50, 60}, false));
        CHECK(!b.take(1, {45, 70}, false));
        CHECK(b.open_count() == 0);
    }
    SUBCASE("but not afterwards")
    {
        books b;
        b.post(1, {10, 20}, true);
        b.post(2, {30, 40});
        CHECK(!b.take(2, {50, 60}, false));
        CHECK(b.take(1, {65, 70}, false));
    }
}

TEST_CASE("ledger: a message that was overtaken is lost")
{
    books b;
    b.post(1, {10, 20});
    b.post(2, {15, 25});
    b.post(3, {30, 40});
    CHECK(b.overtaken().first == nullptr);
    CHECK(!b.take(2, {50, 60}));
    CHECK(b.overtaken().first == nullptr); // 1 and 2 have no order
    CHECK(!b.take(3, {70, 80}));
    REQUIRE(b.overtaken().first != nullptr);
    CHECK(b.overtaken().first->number == 1);
    CHECK(b.overtaken().second->number == 3);
}
