// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys: hard to guess, dead when they are to be dead, and never good for a byte too many.
#include "device.hpp"
#include "memory_table.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <set>
#include <vector>

using namespace soft_hca;

namespace {

struct fixture {
    fixture()
    {
        REQUIRE(table.open(16));
        region.domain = &domain;
        region.address = 0x10000;
        region.length = 0x1000;
        region.rights = local_read | remote_write;
        key = table.insert(region);
        REQUIRE(key != 0);
    }
    access_fault look(std::uint32_t rights, std::uint64_t address, std::uint64_t length)
    {
        access_fault fault;
        (void)table.find(key, &domain, rights, address, length, fault);
        return fault;
    }
    memory_table table;
    protection_domain domain;
    protection_domain other;
    memory_region region;
    std::uint32_t key = 0;
};

} // namespace

TEST_SUITE_BEGIN("memory");

TEST_CASE_FIXTURE(fixture, "a reserved key is nobody else's and leads nowhere until it is used")
{
    const std::uint32_t mine = table.reserve();
    REQUIRE(mine != 0);
    std::deque<memory_region> others(1000); // the table grows
    for (memory_region &other : others)
        CHECK(table.insert(other) != mine);
    CHECK(table.by_key(mine) == nullptr);
    memory_region late;
    table.use(mine, late);
    CHECK(table.by_key(mine) == &late);
    CHECK(table.by_key(key) == &region);

    for (int i = 0; i < 100000; ++i) { // each slot many times over, if they were not given back
        const std::uint32_t unused = table.reserve();
        REQUIRE(unused != 0);
        table.give_back(unused);
    }
    CHECK(table.by_key(mine) == &late);
}

TEST_CASE_FIXTURE(fixture, "a region is found by its key, within its bounds and rights")
{
    CHECK(look(local_read, 0x10000, 0x1000) == access_fault::none);
    CHECK(look(remote_write, 0x10fff, 1) == access_fault::none);
    CHECK(look(local_read | remote_write, 0x10000, 0) == access_fault::none);
    CHECK(look(remote_read, 0x10000, 1) == access_fault::no_right);
    CHECK(look(local_read, 0x10000, 0x1001) == access_fault::out_of_bounds);
    CHECK(look(local_read, 0xffff, 2) == access_fault::out_of_bounds);
    CHECK(look(local_read, 0x11000, 1) == access_fault::out_of_bounds);
    access_fault fault;
    CHECK(table.find(key, &other, local_read, 0x10000, 1, fault) == nullptr);
    CHECK(fault == access_fault::other_domain);
    CHECK(table.find(0, &domain, 0, 0x10000, 1, fault) == nullptr);
    CHECK(table.find(key ^ 0x10000, &domain, 0, 0x10000, 1, fault) == nullptr);
    CHECK(fault == access_fault::no_such_key);
}

TEST_CASE_FIXTURE(fixture, "B6: a range around the end of the address space is refused")
{
    CHECK(look(local_read, ~std::uint64_t{0} - 31, 64) == access_fault::wraps);
    CHECK(look(local_read, 0x10000, ~std::uint64_t{0}) == access_fault::wraps);
    CHECK(look(local_read, ~std::uint64_t{0} - 0xffff + 1, 0x10000 + 0x10000) ==
          access_fault::wraps);
    CHECK(look(local_read, 0x10001, ~std::uint64_t{0} - 0x10001) == access_fault::out_of_bounds);
}

TEST_CASE_FIXTURE(fixture, "a removed key is dead, and its successor differs")
{
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 1000; ++i) {
        const std::uint32_t before = key;
        CHECK(table.remove(region));
        CHECK(!table.remove(region));
        CHECK(look(local_read, 0x10000, 1) == access_fault::no_such_key);
        key = table.insert(region);
        CHECK(key != before);
        seen.insert(key);
    }
    CHECK(seen.size() > 990);
}

TEST_CASE_FIXTURE(fixture, "the table grows, and every key stays good")
{
    std::deque<memory_region> many(5000);
    std::vector<std::uint32_t> keys;
    for (memory_region &each : many) {
        each.domain = &domain;
        each.length = 1;
        keys.push_back(table.insert(each));
    }
    CHECK(std::set<std::uint32_t>(keys.begin(), keys.end()).size() == many.size());
    for (std::size_t i = 0; i < many.size(); ++i)
        CHECK(table.by_key(keys[i]) == &many[i]);
    CHECK(look(local_read, 0x10000, 1) == access_fault::none);
    for (memory_region &each : many)
        CHECK(table.remove(each));
    for (std::uint32_t each : keys)
        CHECK(table.by_key(each) == nullptr);
}

TEST_CASE_FIXTURE(fixture, "B13: keys cannot be told from one another's")
{
    // The same memory registered again and again: neither equal nor near keys.
    std::deque<memory_region> many(200);
    std::uint32_t close = 0;
    std::uint32_t before = key;
    for (memory_region &each : many) {
        const std::uint32_t next = table.insert(each);
        close += next - before < 65536 || before - next < 65536 ? 1 : 0;
        before = next;
    }
    CHECK(close < 5);
}

TEST_SUITE_END();
