// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Regions: what of shared memory is left when the port refuses it, and how they are found by their
// contexts.
#include "fixture.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace test;

namespace {

constexpr DAT_VLEN page = 4096;

struct shared_region {
    explicit shared_region(const char *what)
    {
        std::snprintf(cookie, sizeof cookie, "%s of process %d", what, ::getpid());
        where.for_shared_memory.virtual_address =
            ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        where.for_shared_memory.shared_memory_id = &cookie;
    }
    ~shared_region() { ::munmap(where.for_shared_memory.virtual_address, 4 * page); }
    DAT_RETURN create(consumer &c, DAT_PZ_HANDLE pz, DAT_VLEN length)
    {
        return c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_SHARED_VIRTUAL, where, length, pz,
                                   DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr,
                                   nullptr, nullptr);
    }
    char cookie[DAT_LMR_COOKIE_SIZE] = {};
    DAT_REGION_DESCRIPTION where{};
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
};

/// Whether this process has the database open.
bool database_is_open()
{
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("/dapl-mrdb-") != std::string::npos)
            return true;
    return false;
}

std::size_t count_of(const std::string &text, const char *what)
{
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++found;
    return found;
}

/// Does `work` in a child process that has a /dev/shm of its own; false where there is none to
/// have.
template <class Work>
bool in_own_shared_memory(Work work)
{
    constexpr int cannot = 77;
    const pid_t child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) != 0)
            ::_exit(cannot);
        ::_exit(work() ? 0 : 1);
    }
    int ended = 0;
    REQUIRE_EQ(::waitpid(child, &ended, 0), child);
    REQUIRE(WIFEXITED(ended));
    CHECK((WEXITSTATUS(ended) == 0 || WEXITSTATUS(ended) == cannot));
    return WEXITSTATUS(ended) != cannot;
}

/// Checks a condition in a child process.
bool expect(bool is_so, const char *what)
{
    if (!is_so)
        std::fprintf(stderr, "not so: %s\n", what);
    return is_so;
}

const DAT_RETURN no_room = error_code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);

bool fill_database_and_register()
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    constexpr unsigned places = 4096;
    mrdb all("dapl-mrdb-1", places);
    bool well = expect(all.init() == nullptr, "there is a database");
    shared_region held("held");
    must(held.create(c, pz, page));
    for (unsigned i = 1; i < places; ++i) {
        mrdb::ticket made;
        char cookie[DAT_LMR_COOKIE_SIZE] = {};
        std::snprintf(cookie, sizeof cookie, "%u", i);
        well &= all.insert(shared_name(cookie, "lo"), page, made).ok();
    }
    well = expect(well, "it has room for so many");

    shared_region one("full");
    debug_mask = DAPL_DBG_TYPE_ERR;
    constexpr int attempts = 500;
    const auto began = std::chrono::steady_clock::now();
    std::string said = standard_error_of([&] {
        for (int i = 0; i < attempts; ++i)
            well &= one.create(c, pz, page) == no_room;
    });
    const auto took = std::chrono::steady_clock::now() - began;
    const std::size_t lines = count_of(said, "the database is full, with 4096 regions");
    well &= expect(lines > 0 && count_of(said, "\n") == lines, "each line says that it is full");
    well &= expect(lines <= 10 * static_cast<std::size_t>(2 + took / std::chrono::seconds(1)),
                   "there are ten lines in a second");

    for (const auto &file : std::filesystem::directory_iterator("/dev/shm"))
        std::filesystem::resize_file(file.path(), page);
    for (int i = 0; i < 2000 && count_of(said, "has cut off the file") == 0; ++i) {
        said = standard_error_of([&] { well &= one.create(c, pz, page) == no_room; });
        ::usleep(5000);
    }
    must(c.v.lmr_free_func(held.lmr));
    return expect(count_of(said, "has cut off the file") != 0,
                  "it says that the file was cut off") &&
           expect(well, "no region is registered");
}

} // namespace

TEST_SUITE_BEGIN("lmr");

TEST_CASE("what there is no room for in the database is refused, and a few lines say why")
{
    if (!in_own_shared_memory(fill_database_and_register))
        MESSAGE("skipped: this user cannot have a /dev/shm of its own");
}

TEST_CASE("the database of shared memory is open while there is a region of it, and only then")
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    shared_region one("one"), two("two");
    DAT_LMR_HANDLE usual = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION where{};
    where.for_va = one.where.for_shared_memory.virtual_address;
    must(c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, page, pz, DAT_MEM_PRIV_ALL_FLAG,
                             DAT_VA_TYPE_VA, &usual, nullptr, nullptr, nullptr, nullptr));
    CHECK_FALSE(database_is_open());
    must(one.create(c, pz, page));
    must(two.create(c, pz, page));
    CHECK(database_is_open());
    must(c.v.lmr_free_func(one.lmr));
    CHECK(database_is_open());
    SUBCASE("freed")
    {
        must(c.v.lmr_free_func(two.lmr));
    }
    SUBCASE("closed with the adapter")
    {
        must(c.close(DAT_CLOSE_ABRUPT_FLAG));
    }
    CHECK_FALSE(database_is_open());
}

TEST_CASE("what the port refuses leaves its cookie free")
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    shared_region one("refused");
    lab::fail(lab::op::mr_register, error_code(DAT_PROTECTION_VIOLATION));
    CHECK_EQ(one.create(c, pz, page), error_code(DAT_PROTECTION_VIOLATION));
    CHECK_FALSE(database_is_open());
    must(one.create(c, pz, 2 * page));
    shared_region other("refused");
    CHECK_EQ(other.create(c, pz, page), error_code(DAT_LENGTH_ERROR));
    CHECK(database_is_open());
    must(c.v.lmr_free_func(one.lmr));
    CHECK_FALSE(database_is_open());
}

TEST_CASE("a region is found by its context as fast among many as among few")
{
    consumer c;
    const DAT_PZ_HANDLE pz = c.make_pz();
    static char bytes[64];
    std::vector<DAT_LMR_TRIPLET> segments;
    std::vector<DAT_LMR_HANDLE> regions;
    const auto make = [&](std::size_t number) {
        while (regions.size() < number) {
            DAT_REGION_DESCRIPTION where{};
            where.for_va = bytes;
            DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
            DAT_LMR_TRIPLET segment{};
            must(c.v.lmr_create_func(c.ia, DAT_MEM_TYPE_VIRTUAL, where, sizeof bytes, pz,
                                     DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made,
                                     &segment.lmr_context, nullptr, nullptr,
                                     &segment.virtual_address));
            segment.segment_length = sizeof bytes;
            regions.push_back(made);
            segments.push_back(segment);
        }
    };
    // The best of some, for a busy machine.
    const auto time_of = [&] {
        auto best = std::chrono::steady_clock::duration::max();
        for (int i = 0; i < 20; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            for (std::size_t n = 0; n < 400; ++n)
                must(c.v.lmr_sync_rdma_read_func(c.ia, &segments[n * 7919 % segments.size()], 1));
            best = std::min(best, std::chrono::steady_clock::now() - begin);
        }
        return best;
    };
    make(10);
    const auto few = time_of();
    make(1000);
    CHECK(time_of() < 4 * few); // 100 times as many
    for (std::size_t i = 0; i < regions.size(); i += 2)
        must(c.v.lmr_free_func(regions[i]));
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const DAT_RETURN code = c.v.lmr_sync_rdma_write_func(c.ia, &segments[i], 1);
        CHECK_EQ(DAT_GET_TYPE(code), i % 2 == 0 ? DAT_INVALID_PARAMETER : DAT_SUCCESS);
    }
}

TEST_SUITE_END();
