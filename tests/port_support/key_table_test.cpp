// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "key_table.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <set>
#include <thread>
#include <vector>

using dapl::port_support::key_table;

namespace {

/// Its parts belong together.
struct region {
    std::uint64_t address;
    std::uint64_t length;
    std::uint64_t wide_key[2];
    std::uint16_t rights;
};

region make(std::uint64_t n)
{
    return {n, n + 1, {n + 2, n + 3}, static_cast<std::uint16_t>(n)};
}

bool is_whole(const region &r)
{
    return r.length == r.address + 1 && r.wide_key[0] == r.address + 2 &&
           r.wide_key[1] == r.address + 3 && r.rights == static_cast<std::uint16_t>(r.address);
}

} // namespace

TEST_SUITE("key_table")
{
    TEST_CASE("a key finds its entry until it is removed")
    {
        key_table<region> table;
        region found{};
        CHECK_FALSE(table.find(0, found));
        CHECK_FALSE(table.find(12345, found));
        CHECK_FALSE(table.remove(0));
        const std::uint32_t one = table.add(make(1));
        const std::uint32_t two = table.add(make(2));
        REQUIRE(one != 0);
        REQUIRE(two != 0);
        REQUIRE(one != two);
        REQUIRE(table.find(one, found));
        CHECK(found.address == 1);
        CHECK(is_whole(found));
        CHECK(table.remove(one));
        CHECK_FALSE(table.remove(one));
        CHECK_FALSE(table.find(one, found));
        REQUIRE(table.find(two, found));
        CHECK(found.address == 2);
    }

    TEST_CASE("a removed key does not come back soon")
    {
        key_table<region> table;
        std::set<std::uint32_t> seen;
        for (int i = 0; i < 200'000; ++i) {
            const std::uint32_t key = table.add(make(1));
            REQUIRE(key != 0);
            REQUIRE(seen.insert(key).second);
            REQUIRE(table.remove(key));
        }
    }

    TEST_CASE("it is full at its limit, and has room again after a removal")
    {
        auto table = std::make_unique<key_table<std::uint32_t>>();
        std::uint32_t last = 0;
        for (std::uint32_t i = 0; i < table->max_keys; ++i) {
            last = table->add(i);
            REQUIRE(last != 0);
        }
        CHECK(table->add(0) == 0);
        CHECK(table->remove(last));
        const std::uint32_t again = table->add(7);
        CHECK(again != 0);
        CHECK(again != last);
        std::uint32_t found = 0;
        CHECK_FALSE(table->find(last, found));
        CHECK(table->find(again, found));
        CHECK(found == 7);
    }

    TEST_CASE("readers see whole entries or none while others replace them")
    {
        key_table<region> table;
        std::atomic<std::uint32_t> current{table.add(make(0))};
        std::atomic<bool> stop{false};
        std::atomic<unsigned> wrong{0}, hits{0};
        std::vector<std::thread> readers;
        for (int i = 0; i < 3; ++i)
            readers.emplace_back([&] {
                region found{};
                while (!stop) {
                    if (!table.find(current.load(), found))
                        continue;
                    ++hits;
                    wrong += is_whole(found) ? 0 : 1;
                }
            });
        for (std::uint64_t n = 1; n < 100'000 || hits == 0; ++n) {
            const std::uint32_t next = table.add(make(n * 10));
            const std::uint32_t before = current.exchange(next);
            REQUIRE(table.remove(before));
        }
        stop = true;
        for (std::thread &each : readers)
            each.join();
        CHECK(wrong == 0);
        CHECK(hits > 0);
    }
}
