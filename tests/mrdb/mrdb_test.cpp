// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tested.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

using namespace test;

namespace {

constexpr unsigned places = 32;
const status another_length = status::error(DAT_LENGTH_ERROR);
const status full = status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);

struct open_database {
    open_database() : db(of.name.c_str(), places) { REQUIRE(db.init() == nullptr); }
    ~open_database() { db.exit(); }
    fresh_database of;
    mrdb db;
};

mrdb::ticket must_insert(mrdb &db, const shared_name &name, DAT_VLEN length)
{
    mrdb::ticket made;
    REQUIRE(db.insert(name, length, made) == success);
    db.update(made);
    return made;
}

bool can_insert(mrdb &db, const shared_name &name, DAT_VLEN length)
{
    mrdb::ticket made;
    const bool inserted = db.insert(name, length, made).ok();
    if (inserted)
        db.dec(made);
    return inserted;
}

/// Does `work` in a child process, which then stays until it is killed. `work` answers whether all
/// went well.
template <class Work>
pid_t staying_child(Work work)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool well = work();
        (void)!write(ends[1], &well, 1);
        for (;;)
            pause();
    }
    bool well = false;
    REQUIRE(read(ends[0], &well, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    CHECK(well);
    return child;
}

void kill_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

bool is_mapped(const std::string &file)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find(file) != std::string::npos)
            return true;
    return false;
}

} // namespace

TEST_CASE("a name has one length, and as many owners as have updated")
{
    open_database o;
    const shared_name name = name_of("one");
    CHECK(same(o.db.query(name), 0, 0));
    mrdb::ticket first, second;
    REQUIRE(o.db.insert(name, 4096, first) == success);
    CHECK(same(o.db.query(name), 4096, 0));
    CHECK(o.db.insert(name, 8192, second) == another_length);
    o.db.update(first);
    CHECK(same(o.db.query(name), 4096, 1));
    REQUIRE(o.db.insert(name, 4096, second) == success);
    o.db.update(second);
    CHECK(same(o.db.query(name), 4096, 2));
    o.db.dec(first);
    CHECK(same(o.db.query(name), 4096, 1));
    CHECK_FALSE(can_insert(o.db, name, 8192));
    o.db.dec(second);
    CHECK(same(o.db.query(name), 0, 0));
    CHECK(can_insert(o.db, name, 8192));
    CHECK(o.db.sweep() == 0);
}

TEST_CASE("a name is all of the cookie, and the adapter")
{
    open_database o;
    char bytes[DAT_LMR_COOKIE_SIZE] = {};
    (void)must_insert(o.db, shared_name(bytes, "lo"), 4096);
    for (char &byte : bytes) {
        byte = 1;
        CHECK(can_insert(o.db, shared_name(bytes, "lo"), 8192));
        byte = 0;
    }
    CHECK(can_insert(o.db, shared_name(bytes, "lo-plain"), 8192));
    CHECK_FALSE(can_insert(o.db, shared_name(bytes, "lo"), 8192));
}

TEST_CASE("a record is taken off once")
{
    open_database o;
    const mrdb::ticket first = must_insert(o.db, name_of("one"), 4096);
    o.db.dec(first);
    const mrdb::ticket second = must_insert(o.db, name_of("two"), 4096);
    CHECK(second.place == first.place);
    o.db.dec(first); // the record is another's now
    o.db.dec({});
    CHECK(same(o.db.query(name_of("two")), 4096, 1));
    CHECK(o.db.sweep() == 1);
}

TEST_CASE("all who open it see the same, and it is mapped while they have it open")
{
    open_database o;
    {
        mrdb other(o.of.name.c_str(), places);
        REQUIRE(other.init() == nullptr);
        (void)must_insert(other, name_of("one"), 4096);
        other.exit();
    }
    CHECK(same(o.db.query(name_of("one")), 4096, 1));
    REQUIRE(o.db.init() == nullptr); // counted
    o.db.exit();
    CHECK(is_mapped(o.of.name));
    CHECK(same(o.db.query(name_of("one")), 4096, 1));
    o.db.exit();
    CHECK_FALSE(is_mapped(o.of.name));
    REQUIRE(o.db.init() == nullptr);
    CHECK(same(o.db.query(name_of("one")), 4096, 1));
}

TEST_CASE("a database of another size is not used, and nothing stays open")
{
    open_database o;
    mrdb other(o.of.name.c_str(), places + 1);
    CHECK(other.init() != nullptr);
    mrdb nowhere("no/such/name", places);
    CHECK(nowhere.init() != nullptr);
}

TEST_CASE("a full database says so, and takes the places of the dead first")
{
    open_database o;
    const mrdb::ticket mine = must_insert(o.db, name_of("mine"), 4096);
    const pid_t child = staying_child([&] {
        mrdb::ticket each;
        for (unsigned i = 0; i < places - 1; ++i)
            if (o.db.insert(name_of(std::to_string(i).c_str()), 4096, each) != success)
                return false;
        return o.db.insert(name_of("more"), 4096, each) == full;
    });
    mrdb::ticket made;
    CHECK(o.db.insert(name_of("more"), 4096, made) == full);
    CHECK(made.state == 0);
    o.db.dec(mine);
    CHECK(can_insert(o.db, name_of("more"), 4096));
    (void)must_insert(o.db, name_of("mine"), 4096);
    CHECK(o.db.insert(name_of("more"), 4096, made) == full);
    kill_child(child);
    for (int i = 0; i < 1000 && !can_insert(o.db, name_of("more"), 4096); ++i)
        usleep(5000); // it looks for the dead once a second
    (void)must_insert(o.db, name_of("more"), 4096);
    CHECK(o.db.sweep() == 2);
    CHECK(same(o.db.query(name_of("mine")), 4096, 1));
}

TEST_CASE("in vain, the places of the dead are looked for once a second")
{
    open_database o;
    const pid_t child = staying_child([&] {
        for (unsigned i = 0; i < places; ++i)
            (void)must_insert(o.db, name_of(std::to_string(i).c_str()), 4096);
        return true;
    });
    mrdb::ticket made;
    const auto began = std::chrono::steady_clock::now();
    CHECK(o.db.insert(name_of("more"), 4096, made) == full);
    kill_child(child); // a look would see that it is dead
    const status again = o.db.insert(name_of("more"), 4096, made);
    if (std::chrono::steady_clock::now() - began < std::chrono::milliseconds(900))
        CHECK(again == full);
    for (int i = 0; i < 1000 && !can_insert(o.db, name_of("more"), 4096); ++i)
        usleep(5000);
    CHECK(can_insert(o.db, name_of("more"), 4096));
}

TEST_CASE("a database that was cut off is not touched any more, and does not end the process")
{
    open_database o;
    mrdb::ticket mine = must_insert(o.db, name_of("mine"), 4096);
    for (const auto &each : std::filesystem::directory_iterator("/dev/shm"))
        if (each.path().filename().string().rfind(o.of.name + ".", 0) == 0)
            std::filesystem::resize_file(each.path(), 0);
    CHECK_FALSE(o.db.is_whole());
    mrdb::ticket made;
    CHECK(o.db.insert(name_of("more"), 4096, made) == full);
    CHECK(same(o.db.query(name_of("mine")), 0, 0));
    o.db.update(mine);
    o.db.dec(mine);
    CHECK(o.db.sweep() == 0);
}

TEST_CASE("the records of dead processes do not count, zombies or not")
{
    open_database o;
    const mrdb::ticket shared = must_insert(o.db, name_of("shared"), 4096);
    const pid_t child = staying_child([&] {
        (void)must_insert(o.db, name_of("shared"), 4096);
        (void)must_insert(o.db, name_of("theirs"), 4096);
        return true;
    });
    CHECK(same(o.db.query(name_of("shared")), 4096, 2));
    CHECK_FALSE(can_insert(o.db, name_of("theirs"), 8192));
    kill(child, SIGSTOP);
    CHECK_FALSE(can_insert(o.db, name_of("theirs"), 8192)); // it may go on
    kill(child, SIGKILL);
    for (int i = 0; i < 1000 && o.db.query(name_of("shared")).owners != 1; ++i)
        usleep(5000);
    CHECK(can_insert(o.db, name_of("theirs"), 8192));
    waitpid(child, nullptr, 0);
    CHECK(same(o.db.query(name_of("theirs")), 0, 0));
    CHECK_FALSE(can_insert(o.db, name_of("shared"), 8192));
    o.db.dec(shared);
    CHECK(can_insert(o.db, name_of("shared"), 8192));
    CHECK(o.db.sweep() == 0);
}

TEST_CASE("who opens a database removes what the dead have left")
{
    fresh_database of;
    {
        mrdb db(of.name.c_str(), places);
        kill_child(staying_child([&] {
            return db.init() == nullptr && must_insert(db, name_of("one"), 4096).state != 0;
        }));
    }
    mrdb db(of.name.c_str(), places);
    REQUIRE(db.init() == nullptr);
    const mrdb::ticket first = must_insert(db, name_of("two"), 4096);
    CHECK(first.place == 0);
    db.exit();
}

TEST_CASE("a process that has become another program has left")
{
    open_database o;
    const pid_t child = staying_child([&] {
        (void)must_insert(o.db, name_of("one"), 4096);
        signal(SIGALRM, [](int) { execl("/bin/sleep", "sleep", "1000", nullptr); });
        ualarm(50000, 0);
        return true;
    });
    for (int i = 0; i < 1000 && !can_insert(o.db, name_of("one"), 8192); ++i)
        usleep(5000);
    CHECK(kill(child, 0) == 0);
    CHECK(can_insert(o.db, name_of("one"), 8192));
    kill_child(child);
}

TEST_CASE("a forked child has none of its parent's records")
{
    open_database o;
    const mrdb::ticket mine = must_insert(o.db, name_of("one"), 4096);
    const pid_t child = staying_child([&] {
        o.db.dec(mine);
        const bool left = same(o.db.query(name_of("one")), 4096, 1);
        (void)must_insert(o.db, name_of("one"), 4096);
        o.db.exit();
        return left;
    });
    CHECK(same(o.db.query(name_of("one")), 4096, 2));
    o.db.dec(mine);
    CHECK(same(o.db.query(name_of("one")), 4096, 1));
    kill_child(child);
    CHECK(same(o.db.query(name_of("one")), 0, 0));
}

TEST_CASE("who looks sees each region and whether its process lives, and changes nothing")
{
    open_database o;
    (void)must_insert(o.db, name_of("mine"), 4096);
    const pid_t child = staying_child([&] {
        mrdb::ticket made;
        const bool well = o.db.insert(name_of("lost"), 77, made).ok();
        return well && o.db.insert(name_of("mine"), 4096, made).ok();
    });
    kill_child(child);
    mrdb viewed(o.of.name.c_str(), places);
    REQUIRE(viewed.view() == nullptr);
    for (int times = 0; times < 2; ++times) {
        std::vector<mrdb::region> seen;
        mrdb::region each;
        for (std::uint32_t place = 0; place < places + 1; ++place)
            if (viewed.look(place, each))
                seen.push_back(each);
        REQUIRE(seen.size() == 3);
        const auto is_of = [](const mrdb::region &one, const char *name, DAT_VLEN length) {
            return std::ranges::equal(one.name.word, name_of(name).word) && one.length == length;
        };
        CHECK(is_of(seen[0], "mine", 4096));
        CHECK(seen[0].process == static_cast<std::uint32_t>(getpid()));
        CHECK(seen[0].is_registered);
        CHECK_FALSE(seen[0].is_owner_gone);
        CHECK(is_of(seen[1], "lost", 77));
        CHECK(is_of(seen[2], "mine", 4096));
        for (const mrdb::region &lost : {seen[1], seen[2]}) {
            CHECK(lost.process == static_cast<std::uint32_t>(child));
            CHECK_FALSE(lost.is_registered);
            CHECK(lost.is_owner_gone);
        }
    }
}

TEST_CASE("who looks at a database that is not there, or cut off, sees no regions")
{
    fresh_database of;
    mrdb viewed(of.name.c_str(), places);
    mrdb::region region;
    REQUIRE(viewed.view() == nullptr);
    CHECK_FALSE(viewed.look(0, region));
    for (const auto &each : std::filesystem::directory_iterator("/dev/shm"))
        CHECK(each.path().filename().string().rfind(of.name + ".", 0) != 0);

    mrdb db(of.name.c_str(), places);
    REQUIRE(db.init() == nullptr);
    (void)must_insert(db, name_of("one"), 4096);
    REQUIRE(viewed.view() == nullptr);
    CHECK(viewed.look(0, region));
    for (const auto &each : std::filesystem::directory_iterator("/dev/shm"))
        if (each.path().filename().string().rfind(of.name + ".", 0) == 0)
            std::filesystem::resize_file(each.path(), 8);
    CHECK_FALSE(viewed.look(0, region));
    CHECK_FALSE(viewed.is_whole());
    db.exit();
}

TEST_CASE("of those who want a name for different lengths at once, one gets it")
{
    open_database o;
    constexpr unsigned contenders = 3;
    const unsigned rounds = 1500;
    std::atomic<unsigned> arrived{0};
    std::atomic<unsigned> won[2] = {};
    std::atomic<unsigned> wrong{0};
    const auto meet = [&](unsigned times) {
        arrived.fetch_add(1);
        while (arrived.load() < times * contenders)
            std::this_thread::yield();
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < contenders; ++t)
        threads.emplace_back([&, t] {
            for (unsigned round = 0; round < rounds; ++round) {
                meet(3 * round + 1);
                mrdb::ticket made;
                const status code = o.db.insert(name_of("one"), 4096 * (t + 1), made);
                if (code.ok())
                    won[round % 2].fetch_add(1);
                else if (code != another_length)
                    wrong.fetch_add(1);
                meet(3 * round + 2);
                if (t == 0 && won[round % 2].exchange(0) != 1)
                    wrong.fetch_add(1);
                o.db.dec(made);
                meet(3 * round + 3);
            }
        });
    for (std::thread &each : threads)
        each.join();
    CHECK(wrong.load() == 0);
    CHECK(o.db.sweep() == 0);
}

TEST_CASE("of those who want a name for one length at once, all get it")
{
    open_database o;
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (unsigned round = 0; round < 2000; ++round) {
                mrdb::ticket made;
                if (!o.db.insert(name_of("one"), 4096, made).ok())
                    refused.fetch_add(1);
                o.db.update(made);
                o.db.dec(made);
            }
        });
    for (std::thread &each : threads)
        each.join();
    CHECK(refused.load() == 0);
    CHECK(o.db.sweep() == 0);
}
