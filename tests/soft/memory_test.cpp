// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys: hard to guess, dead when they are to be dead, and never good for a byte too many.
#include "rig.hpp"

#include <doctest/doctest.h>

#include <set>

namespace memory_suite {

using namespace rig;

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
        return table.check_access(key, &domain, rights, address, length).fault();
    }
    memory_table table;
    protection_domain domain;
    protection_domain other;
    memory_region region;
    std::uint32_t key = 0;
};

/// A window of a region, bound to one part and then to another.
struct bound {
    bound() { bind(); }
    ~bound() { h.hca.free_window(window); }
    void bind()
    {
        request r{};
        r.kind = work::bind;
        r.binding.window = window;
        r.binding.target = &whole.region;
        large = !large;
        r.window_rights = large ? remote_read : remote_write;
        r.remote = {base + (large ? 512 * 1024 : 0), large ? 256u * 1024 : 64u, 0};
        REQUIRE(h.hca.windows.prepare(r));
        key = r.remote.key;
        REQUIRE(h.hca.windows.execute(r, 1));
    }
    bool may(std::uint32_t rights, std::uint64_t offset, std::uint32_t size)
    {
        return bool(h.hca.memory.check_access(key, &h.domain, rights, base + offset, size));
    }
    host h{on_loopback()};
    memory whole{h, 1 << 20, local_read | local_write};
    const std::uint64_t base = reinterpret_cast<std::uintptr_t>(whole.bytes.data());
    memory_region *window = h.hca.make_window(h.domain);
    std::atomic<std::uint32_t> key{0};
    bool large = true;
};

} // namespace

TEST_SUITE_BEGIN("memory");

TEST_CASE_FIXTURE(fixture,
                  "a reserved key is given out once, and refers to nothing until it is used")
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
    CHECK(table.check_access(key, &other, local_read, 0x10000, 1).fault() ==
          access_fault::other_domain);
    CHECK(table.check_access(0, &domain, 0, 0x10000, 1).fault() == access_fault::no_such_key);
    CHECK(table.check_access(key ^ 0x10000, &domain, 0, 0x10000, 1).fault() ==
          access_fault::no_such_key);
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
    // One memory is registered again and again: its keys are neither equal nor near.
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

TEST_CASE("a window is not bound anew before those who use it are done")
{
    bound b;
    std::atomic<bool> anew{false};
    std::optional<grant> used(
        b.h.hca.memory.check_access(b.key, &b.h.domain, remote_write, b.base, 64));
    REQUIRE(bool(*used));
    std::thread binder([&] {
        b.bind();
        anew = true;
    });
    CHECK(becomes_true([&] { return b.window->key.load() == 0; })); // other threads see it gone
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(!anew);
    used.reset();
    CHECK(becomes_true([&] { return anew.load(); }));
    binder.join();
    CHECK(b.may(remote_read, 512 * 1024, 4096));
}

TEST_CASE("no access is granted by two bindings of a window together")
{
    bound b;
    std::atomic<bool> enough{false};
    unsigned long good = 0, torn = 0;
    std::thread reader([&] {
        while (!enough.load(std::memory_order_relaxed)) {
            good += b.may(remote_write, 0, 64) ? 1 : 0;
            torn += b.may(remote_write, 128, 4096) ? 1 : 0;        // lies in neither part
            torn += b.may(remote_write, 512 * 1024, 4096) ? 1 : 0; // a right of the other
        }
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::chrono::steady_clock::now() < until)
        for (int i = 0; i < 1000; ++i)
            b.bind();
    enough = true;
    reader.join();
    CHECK(good > 0);
    CHECK(torn == 0);
}

TEST_SUITE_END();

} // namespace memory_suite
