// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "looks.hpp"
#include "ranks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace ranks;

namespace {

const std::size_t transfer_sizes[] = {1,    2,    7,    8,    63,   255,   256,   257,
                                      4096, 8191, 8192, 8193, 8200, 65535, 65537, 300001};
constexpr std::size_t half = segment_size / 2;

enum class form { blocking, bulk, nb, nb_bulk, nbi, nbi_bulk };
constexpr form forms[] = {form::blocking, form::bulk, form::nb,
                          form::nb_bulk,  form::nbi,  form::nbi_bulk};

void put_as(form f, int rank, std::byte *to, std::byte *from, std::size_t bytes)
{
    dapl_am_handle handle = DAPL_AM_DONE;
    int status = DAPL_AM_OK;
    switch (f) {
    case form::blocking:
        status = dapl_am_put(rank, to, from, bytes);
        break;
    case form::bulk:
        status = dapl_am_put_bulk(rank, to, from, bytes);
        break;
    case form::nb:
        status = dapl_am_put_nb(rank, to, from, bytes, &handle);
        std::memset(from, 0xee, bytes); // the source is ours again
        dapl_am_wait(handle);
        break;
    case form::nb_bulk:
        status = dapl_am_put_nb_bulk(rank, to, from, bytes, &handle);
        while (dapl_am_try(handle) == DAPL_AM_NOT_READY) {
        }
        break;
    case form::nbi:
        status = dapl_am_put_nbi(rank, to, from, bytes);
        std::memset(from, 0xee, bytes);
        dapl_am_wait_nbi_puts();
        break;
    case form::nbi_bulk:
        status = dapl_am_put_nbi_bulk(rank, to, from, bytes);
        dapl_am_wait_nbi();
        break;
    }
    REQUIRE(status == DAPL_AM_OK);
}

void get_as(form f, int rank, std::byte *to, const std::byte *from, std::size_t bytes)
{
    dapl_am_handle handle = DAPL_AM_DONE;
    int status = DAPL_AM_OK;
    switch (f) {
    case form::blocking:
        status = dapl_am_get(rank, to, from, bytes);
        break;
    case form::bulk:
        status = dapl_am_get_bulk(rank, to, from, bytes);
        break;
    case form::nb:
        status = dapl_am_get_nb(rank, to, from, bytes, &handle);
        dapl_am_wait_all(&handle, 1);
        break;
    case form::nb_bulk:
        status = dapl_am_get_nb_bulk(rank, to, from, bytes, &handle);
        while (dapl_am_try_all(&handle, 1) == DAPL_AM_NOT_READY) {
        }
        break;
    case form::nbi:
        status = dapl_am_get_nbi(rank, to, from, bytes);
        dapl_am_wait_nbi_gets();
        break;
    case form::nbi_bulk:
        status = dapl_am_get_nbi_bulk(rank, to, from, bytes);
        while (dapl_am_try_nbi() == DAPL_AM_NOT_READY) {
        }
        break;
    }
    REQUIRE(status == DAPL_AM_OK);
}

} // namespace

TEST_CASE("every form of put and get moves every size, from and to any memory")
{
    std::vector<std::byte> outside(1 << 19);
    std::uint32_t seed = 1;
    for (const form f : forms)
        for (const std::size_t bytes : transfer_sizes)
            for (const bool inside : {false, true}) {
                ++seed;
                std::byte *local = inside ? mine() + half + 5 : outside.data() + 1;
                std::byte *remote = segment_of(next()) + 7;
                fill(local, bytes, me(), seed);
                put_as(f, next(), remote, local, bytes);
                std::memset(local, 0, bytes);
                get_as(f, next(), local, remote, bytes);
                CHECK(wrong(local, bytes, me(), seed) == 0);
                REQUIRE(barrier());
                CHECK(wrong(mine() + 7, bytes, previous(), seed) == 0);
                REQUIRE(barrier());
            }
}

TEST_CASE("values of 1 to 8 bytes are put and got")
{
    std::byte *remote = segment_of(next());
    for (std::size_t bytes = 1; bytes <= 8; ++bytes) {
        const std::uint64_t value = 0x1122334455667788 + std::uint64_t(me());
        const std::uint64_t expected = bytes == 8 ? value : value & ((1ULL << 8 * bytes) - 1);
        std::uint64_t got = 0;
        dapl_am_handle handle;
        dapl_am_value_handle fetched;
        REQUIRE(dapl_am_put_val(next(), remote, value, bytes) == DAPL_AM_OK);
        REQUIRE(dapl_am_get_val(next(), remote, bytes, &got) == DAPL_AM_OK);
        CHECK(got == expected);
        REQUIRE(dapl_am_put_nb_val(next(), remote + 16, value, bytes, &handle) == DAPL_AM_OK);
        dapl_am_wait(handle);
        REQUIRE(dapl_am_put_nbi_val(next(), remote + 32, value, bytes) == DAPL_AM_OK);
        dapl_am_wait_nbi();
        for (const int at : {16, 32}) {
            REQUIRE(dapl_am_get_nb_val(next(), remote + at, bytes, &fetched) == DAPL_AM_OK);
            CHECK(dapl_am_wait_val(fetched) == expected);
        }
    }
    CHECK(dapl_am_put_val(next(), remote, 0, 9) == DAPL_AM_ERR_ARGUMENT);
    CHECK(dapl_am_put_val(next(), remote, 0, 0) == DAPL_AM_ERR_ARGUMENT);
    REQUIRE(barrier());
}

TEST_CASE("memset sets what it was asked to, and no more")
{
    for (const std::size_t bytes : {1UL, 100UL, 8192UL, 8193UL, 1000000UL})
        for (const int way : {0, 1, 2}) {
            std::memset(mine(), 0x11, bytes + 2);
            REQUIRE(barrier());
            std::byte *to = segment_of(next()) + 1;
            dapl_am_handle handle;
            if (way == 0) {
                REQUIRE(dapl_am_memset(next(), to, 0xab, bytes) == DAPL_AM_OK);
            } else if (way == 1) {
                REQUIRE(dapl_am_memset_nb(next(), to, 0xab, bytes, &handle) == DAPL_AM_OK);
                dapl_am_wait(handle);
            } else {
                REQUIRE(dapl_am_memset_nbi(next(), to, 0xab, bytes) == DAPL_AM_OK);
                dapl_am_wait_nbi_puts();
            }
            REQUIRE(barrier());
            std::size_t bad = 0;
            for (std::size_t i = 0; i < bytes; ++i)
                bad += mine()[i + 1] != std::byte{0xab};
            CHECK(bad == 0);
            CHECK(mine()[0] == std::byte{0x11});
            CHECK(mine()[bytes + 1] == std::byte{0x11});
            REQUIRE(barrier());
        }
}

TEST_CASE("transfers outside the segment of a rank are refused")
{
    std::byte *base = segment_of(next());
    std::byte local[16];
    CHECK(dapl_am_put(next(), base + segment_size - 8, local, 16) == DAPL_AM_ERR_RANGE);
    CHECK(dapl_am_get(next(), local, base - 1, 16) == DAPL_AM_ERR_RANGE);
    CHECK(dapl_am_memset(next(), base + segment_size, 0, 1) == DAPL_AM_ERR_RANGE);
    CHECK(dapl_am_put(next(), base, local, 0) == DAPL_AM_OK);
    CHECK(dapl_am_put(size(), base, local, 1) == DAPL_AM_ERR_RANK);
    REQUIRE(barrier());
}

TEST_CASE("a blocking put looks for nothing more once it is complete")
{
    constexpr unsigned puts = 400;
    unsigned late = 0;
    for (unsigned i = 0; i < puts; ++i) {
        REQUIRE(dapl_am_put_val(next(), segment_of(next()), i, 8) == DAPL_AM_OK);
        late += looks_in_vain() > 0;
    }
    // Now and then it looks for messages, and finds its completion there when it had to wait for
    // long. A receive thread takes completions, too.
    if (size() > 1 && !std::getenv("DAPL_AM_RECEIVE_THREAD"))
        CHECK(late <= puts / 2);
    REQUIRE(barrier());
}

namespace {

/// How often the thread of the library that serves connections went to sleep.
long sleeps_of_links()
{
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string word;
        std::ifstream(task.path() / "comm") >> word;
        if (word != "am-links")
            continue;
        std::ifstream status(task.path() / "status");
        while (status >> word)
            if (word == "voluntary_ctxt_switches:")
                break;
        long sleeps = -1;
        status >> sleeps;
        return sleeps;
    }
    return -1;
}

} // namespace

TEST_CASE("data that arrive do not wake the thread that serves connections")
{
    if (size() == 1)
        return;
    constexpr int gets = 1000;
    std::uint64_t value = 0;
    REQUIRE(dapl_am_get_val(next(), segment_of(next()), 8, &value) == DAPL_AM_OK);
    REQUIRE(barrier());
    const long before = sleeps_of_links();
    REQUIRE(before >= 0);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < gets; ++i)
        REQUIRE(dapl_am_get_val(next(), segment_of(next()), 8, &value) == DAPL_AM_OK);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    // It begins to wait ten times a second, and may be woken several times until it is left alone.
    CHECK(sleeps_of_links() - before <= gets / 10 + long(passed.count() * 10) * 16);
    REQUIRE(barrier());
}

TEST_CASE("a rank that does nothing but put, or get, runs handlers")
{
    constexpr int patience = 1'000'000;
    for (const bool gets : {false, true}) {
        expected_seed = 1;
        std::uint64_t value = 0;
        REQUIRE(barrier());
        REQUIRE(dapl_am_request_short(next(), count_request, 0, nullptr, 0) == DAPL_AM_OK);
        for (int i = 0; i < patience && counted.requests == 0; ++i)
            REQUIRE((gets ? dapl_am_get_val(next(), segment_of(next()), 8, &value)
                          : dapl_am_put_val(next(), segment_of(next()), value, 8)) == DAPL_AM_OK);
        CHECK(counted.requests == 1);
        REQUIRE(barrier());
        counted.requests = 0;
    }
}

TEST_CASE("what a put has written is there for a third rank, too")
{
    constexpr std::size_t bytes = 4 << 20, last = bytes - sizeof(std::uint64_t);
    const int third = (me() + 2) % size(); // next() puts to it
    for (std::uint64_t round = 1; round <= 30; ++round) {
        const form f = forms[round % std::size(forms)];
        std::memcpy(mine() + half + last, &round, sizeof round);
        expected_seed = 0;
        REQUIRE(barrier());
        put_as(f, next(), segment_of(next()), mine() + half, bytes);
        REQUIRE(dapl_am_request_short(previous(), count_request, 0, nullptr, 0) == DAPL_AM_OK);
        until([] { return counted.requests == 1; });
        counted.requests = 0;
        std::uint64_t there = 0;
        REQUIRE(dapl_am_get_val(third, segment_of(third) + last, sizeof there, &there) ==
                DAPL_AM_OK);
        CHECK(there == round);
        REQUIRE(barrier());
    }
}

TEST_CASE("several handles are waited for together, all or some")
{
    constexpr int count = 100;
    std::vector<dapl_am_handle> handles(count, DAPL_AM_DONE);
    fill(mine() + half, count * 100, me(), 77);
    for (int i = 0; i < count; ++i)
        REQUIRE(dapl_am_put_nb_bulk(next(), segment_of(next()) + i * 100, mine() + half + i * 100,
                                    100, &handles[std::size_t(i)]) == DAPL_AM_OK);
    auto left = [&] {
        int result = 0;
        for (const dapl_am_handle h : handles)
            result += h != DAPL_AM_DONE;
        return result;
    };
    while (left() > count / 2) {
        const int before = left();
        dapl_am_wait_some(handles.data(), handles.size());
        CHECK(left() < before);
    }
    dapl_am_wait_all(handles.data(), handles.size());
    CHECK(left() == 0);
    CHECK(dapl_am_try_some(handles.data(), handles.size()) == DAPL_AM_OK);
    dapl_am_wait_some(handles.data(), handles.size());
    REQUIRE(barrier());
    CHECK(wrong(mine(), count * 100, previous(), 77) == 0);
    REQUIRE(barrier());
}

TEST_CASE("an access region gathers implicit operations in one handle and does not nest")
{
    dapl_am_handle outer, handle;
    CHECK(dapl_am_end_region(&handle) == DAPL_AM_ERR_STATE);
    fill(mine() + half, 50 * 1000, me(), 78);
    REQUIRE(dapl_am_begin_region() == DAPL_AM_OK);
    CHECK(dapl_am_begin_region() == DAPL_AM_ERR_STATE);
    for (int i = 0; i < 50; ++i)
        REQUIRE(dapl_am_put_nbi_bulk(next(), segment_of(next()) + i * 1000,
                                     mine() + half + i * 1000, 1000) == DAPL_AM_OK);
    REQUIRE(dapl_am_end_region(&outer) == DAPL_AM_OK);
    // Another one while the first is in flight, and implicit operations beside both
    REQUIRE(dapl_am_begin_region() == DAPL_AM_OK);
    REQUIRE(dapl_am_put_nbi_val(next(), segment_of(next()) + 60000, 1, 8) == DAPL_AM_OK);
    REQUIRE(dapl_am_end_region(&handle) == DAPL_AM_OK);
    REQUIRE(dapl_am_put_nbi_val(next(), segment_of(next()) + 60008, 2, 8) == DAPL_AM_OK);
    dapl_am_wait(handle);
    dapl_am_wait_nbi();
    dapl_am_wait(outer);
    REQUIRE(barrier());
    CHECK(wrong(mine(), 50 * 1000, previous(), 78) == 0);
    REQUIRE(barrier());
}

namespace {

/// Random transfers to and from one part of the next rank's segment, many in flight at once, beside
/// a model of that part. Each rank owns one, so the model is right.
class random_transfers {
public:
    static constexpr std::size_t part = 1 << 18;
    static constexpr std::size_t longest = 20'000;

    explicit random_transfers(unsigned seed)
        : random_(seed), model_(part), outside_(slots * longest)
    {
        REQUIRE(dapl_am_memset(next(), base_, 0, part) == DAPL_AM_OK);
    }

    int begun() const { return begun_; }

    /// Begins one, or finishes some.
    void step()
    {
        const auto number = std::size_t(random_() % slots);
        transfer &t = transfers_[number];
        if (t.bytes > 0 || random_() % 16 == 0)
            return finish(random_() % 8 == 0 ? slots : number);
        const std::size_t bytes =
            random_() % 8 == 0 ? 1 + random_() % longest : 1 + random_() % 200;
        const std::size_t at = random_() % (part - bytes + 1);
        const kind what = kind(random_() % 4);
        if (overlaps(at, bytes, what == kind::get))
            return finish(slots);
        t = {what, bytes, at, memory_of(number), DAPL_AM_DONE, false};
        begin(t);
        ++begun_;
    }

    /// The end: all that is there is what the model says.
    std::size_t wrong_bytes()
    {
        finish(slots);
        std::vector<std::byte> there(part);
        REQUIRE(dapl_am_get(next(), there.data(), base_, part) == DAPL_AM_OK);
        for (std::size_t i = 0; i < part; ++i)
            wrong_ += there[i] != model_[i];
        return wrong_;
    }

private:
    static constexpr std::size_t slots = 12;
    enum class kind { put, put_again, get, memset };

    struct transfer {
        kind what = kind::put;
        std::size_t bytes = 0; ///< 0: none
        std::size_t at = 0;
        std::byte *memory = nullptr;
        dapl_am_handle handle = DAPL_AM_DONE;
        bool implicit = false;
    };

    std::byte *memory_of(std::size_t slot)
    {
        return (random_() % 2 ? mine() + half : outside_.data()) + slot * longest;
    }

    /// Whether a transfer overlaps one in flight: the result is undefined, unless both are gets.
    bool overlaps(std::size_t at, std::size_t bytes, bool get) const
    {
        for (const transfer &t : transfers_)
            if (t.bytes > 0 && at < t.at + t.bytes && t.at < at + bytes &&
                !(get && t.what == kind::get))
                return true;
        return false;
    }

    void begin(transfer &t)
    {
        std::byte *to = base_ + t.at;
        const int way = int(random_() % 4);
        const bool region = random_() % 8 == 0;
        t.implicit = way >= 2;
        if (region && t.implicit)
            REQUIRE(dapl_am_begin_region() == DAPL_AM_OK);
        int status = DAPL_AM_OK;
        if (t.what == kind::get) {
            status = way == 0   ? dapl_am_get_nb(next(), t.memory, to, t.bytes, &t.handle)
                     : way == 1 ? dapl_am_get_nb_bulk(next(), t.memory, to, t.bytes, &t.handle)
                     : way == 2 ? dapl_am_get_nbi(next(), t.memory, to, t.bytes)
                                : dapl_am_get_nbi_bulk(next(), t.memory, to, t.bytes);
        } else if (t.what == kind::memset) {
            const auto value = int(random_() & 0xff);
            std::memset(model_.data() + t.at, value, t.bytes);
            status = t.implicit ? dapl_am_memset_nbi(next(), to, value, t.bytes)
                                : dapl_am_memset_nb(next(), to, value, t.bytes, &t.handle);
        } else {
            for (std::size_t b = 0; b < t.bytes; ++b)
                t.memory[b] = std::byte(random_() >> 8);
            std::memcpy(model_.data() + t.at, t.memory, t.bytes);
            status = way == 0   ? dapl_am_put_nb(next(), to, t.memory, t.bytes, &t.handle)
                     : way == 1 ? dapl_am_put_nb_bulk(next(), to, t.memory, t.bytes, &t.handle)
                     : way == 2 ? dapl_am_put_nbi(next(), to, t.memory, t.bytes)
                                : dapl_am_put_nbi_bulk(next(), to, t.memory, t.bytes);
            if (way == 0 || way == 2)
                std::memset(t.memory, 0xee, t.bytes); // the source is ours again
        }
        REQUIRE(status == DAPL_AM_OK);
        if (region && t.implicit) {
            REQUIRE(dapl_am_end_region(&t.handle) == DAPL_AM_OK);
            t.implicit = false;
        }
    }

    /// Synchronizes one transfer, or all: an implicit transfer takes all implicit transfers along.
    void finish(std::size_t slot)
    {
        const bool implicit = slot == slots || transfers_[slot].implicit;
        if (implicit)
            dapl_am_wait_nbi();
        for (std::size_t i = 0; i < slots; ++i) {
            transfer &t = transfers_[i];
            if (t.bytes == 0 || !(i == slot || slot == slots || (implicit && t.implicit)))
                continue;
            if (!t.implicit)
                dapl_am_wait(t.handle);
            if (t.what == kind::get)
                wrong_ += std::memcmp(t.memory, model_.data() + t.at, t.bytes) != 0;
            t.bytes = 0;
        }
    }

    std::mt19937 random_;
    std::vector<std::byte> model_, outside_;
    std::byte *base_ = segment_of(next());
    transfer transfers_[slots];
    int begun_ = 0;
    std::size_t wrong_ = 0;
};

} // namespace

TEST_CASE("random puts and gets, many in flight, leave what a model says")
{
    const char *wanted = std::getenv("AM_RANDOM_TRANSFERS");
    const int count = wanted ? std::atoi(wanted) : 20000;
    REQUIRE(barrier());
    random_transfers transfers(unsigned(me()) + 5);
    while (transfers.begun() < count)
        transfers.step();
    CHECK(transfers.wrong_bytes() == 0);
    REQUIRE(barrier());
}
