// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Rings of packets: every packet put in comes out, whatever the other side does.
#include "net/packet_ring.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>
#include <random>

namespace ring_suite {

using namespace soft_hca;

namespace {

using packet_bytes = std::vector<std::uint8_t>;

packet_bytes packet_of(std::uint32_t size, std::uint32_t seed)
{
    packet_bytes made(size);
    for (std::uint32_t i = 0; i < size; ++i)
        made[i] = static_cast<std::uint8_t>(i * 13 + seed);
    return made;
}

/// A ring with both of its sides.
struct whole_ring {
    whole_ring()
    {
        writers->begin();
        readers->begin();
        writer.open(*writers, *readers);
        reader.open(*readers, *writers);
    }
    bool put(const packet_bytes &what)
    {
        if (!writer.begin(static_cast<std::uint32_t>(what.size())))
            return false;
        const std::size_t first = what.size() / 3;
        writer.add(what.data(), first);
        writer.add(what.data() + first, what.size() - first);
        writer.put();
        return true;
    }
    packet_bytes take()
    {
        packet_bytes got(ring_file::largest);
        got.resize(reader.take(got.data()));
        reader.give_back();
        return got;
    }
    std::unique_ptr<ring_file> writers{new ring_file{}};
    std::unique_ptr<ring_file> readers{new ring_file{}};
    ring_writer writer;
    ring_reader reader;
};

} // namespace

TEST_SUITE_BEGIN("ring");

TEST_CASE("packets of all sizes come out as they went in, many times around")
{
    whole_ring r;
    for (std::uint32_t i = 0; i < 5000; ++i) {
        const std::uint32_t size = 1 + i * 37 % ring_file::largest;
        REQUIRE(r.put(packet_of(size, i)));
        REQUIRE(r.writers->has_packet(r.readers->taken.load()));
        REQUIRE(r.take() == packet_of(size, i));
        REQUIRE(!r.writers->has_packet(r.readers->taken.load()));
        REQUIRE(r.take().empty());
    }
}

TEST_CASE("a full ring takes no more, and loses nothing")
{
    whole_ring r;
    std::mt19937 random(3);
    std::uint32_t put = 0;
    std::uint32_t taken = 0;
    for (int round = 0; round < 50; ++round) {
        const auto size_of = [](std::uint32_t n) { return 1 + n * 97 % 3000; };
        while (r.put(packet_of(size_of(put), put)))
            ++put;
        CHECK(put > taken + 50);
        for (auto some = random() % (put - taken + 1); some != 0; --some, ++taken)
            REQUIRE(r.take() == packet_of(size_of(taken), taken));
    }
    CHECK(!r.put(packet_of(ring_file::largest + 1, 0)));
    CHECK(!r.put({}));
}

TEST_CASE("small packets fill a ring but for a line")
{
    whole_ring r;
    std::uint32_t put = 0;
    while (r.put(packet_of(60, put)))
        ++put;
    CHECK(put == ring_file::lines - 1);
    CHECK(r.take() == packet_of(60, 0));
    CHECK(r.put(packet_of(60, 0)));
    CHECK(!r.put(packet_of(60, 0)));
}

TEST_CASE("a packet that its writer did not finish is not there, and holds nothing up")
{
    whole_ring r;
    CHECK(r.writers->is_fresh());
    REQUIRE(r.writer.begin(1000));
    CHECK(r.take().empty());
    r.writer.add(packet_of(999, 0xff).data(), 999);
    CHECK(r.take().empty());
    CHECK(!r.writers->is_fresh());
    REQUIRE(r.put(packet_of(7, 3))); // takes the place of the abandoned packet
    CHECK(r.take() == packet_of(7, 3));
    CHECK(r.take().empty());
}

TEST_CASE("what a writer leaves in its ring comes out once")
{
    whole_ring r;
    for (auto &each : r.writers->ring)
        each.head.store(1);
    std::uint32_t packets = 0;
    while (packets <= ring_file::lines && r.take().size() == 1)
        ++packets;
    CHECK(packets == ring_file::lines);
    CHECK(r.reader.is_broken());
}

TEST_CASE("bytes of packets are not taken for the sizes of others")
{
    whole_ring r;
    std::mt19937 random(7);
    for (int i = 0; i < 3000; ++i) {
        const packet_bytes looks_like_sizes(4 + random() % 4000, 1);
        REQUIRE(r.put(looks_like_sizes));
        REQUIRE(r.take() == looks_like_sizes);
        REQUIRE(r.take().empty());
    }
}

TEST_CASE("bytes that look like heads of the next packets are taken for none, however they lie")
{
    whole_ring r;
    std::mt19937 random(11);
    std::uint32_t line = 0;
    std::uint32_t in_ring = 0;
    for (int i = 0; i < 20000; ++i) {
        // A packet whose lines all begin as a packet would there: this time round, or the next.
        const std::uint32_t size = 1 + random() % 1500;
        packet_bytes looks_like_heads(size);
        const std::uint32_t round = random() % 2 * ring_file::lines;
        for (std::uint32_t n = 1; n < ring_file::lines_for(size); ++n) {
            const std::uint32_t at = n * ring_file::line - sizeof(std::uint32_t);
            const std::uint32_t head = ring_file::head_of(line + n + round, 60);
            std::memcpy(&looks_like_heads[at], &head, std::min<std::size_t>(4, size - at));
        }
        if (r.put(looks_like_heads)) {
            line += ring_file::lines_for(size);
            ++in_ring;
        }
        // The reader is behind by nothing, or by a ring, and is never ahead.
        for (std::uint32_t some = random() % 3 == 0 ? in_ring : random() % 2; some != 0; --some)
            in_ring -= r.take().empty() ? 0 : 1;
        if (in_ring == 0)
            REQUIRE(r.take().empty());
        REQUIRE(!r.reader.is_broken());
    }
}

TEST_CASE("the lines of the next packets are cleared before they come, all around the ring")
{
    whole_ring r;
    std::uint32_t line = 0;
    std::uint32_t short_of = 0;
    for (int i = 0; i < 20000; ++i) {
        const packet_bytes small = packet_of(110, 0xff);
        REQUIRE(r.put(small));
        line += 2;
        for (std::uint32_t ahead = 0; ahead < 4; ++ahead)
            if (r.writers->ring[(line + ahead) % ring_file::lines].head.load() != 0)
                ++short_of;
        REQUIRE(r.take() == small);
    }
    // The writer looks what the reader has taken when it has no more lines.
    CHECK(short_of <= 20000 / (ring_file::lines / 2) * 4);
}

TEST_CASE("a writer that writes anything anywhere gets nothing but packets that are bounded")
{
    std::mt19937 random(1);
    for (unsigned round = 0; round < rig::rounds(200); ++round) {
        whole_ring r;
        std::uint32_t packets = 0;
        for (auto &each : r.writers->ring)
            each.head.store(random() % 8 != 0 ? random() % 300 : random());
        while (packets < 3 * ring_file::lines) {
            const packet_bytes got = r.take();
            REQUIRE(got.size() <= ring_file::largest);
            if (got.empty())
                break;
            ++packets;
        }
        if (r.reader.is_broken()) { // stays broken for good
            for (auto &each : r.writers->ring)
                each.head.store(1);
            CHECK(r.take().empty());
        }
    }
}

TEST_CASE("a reader that says anything does not make its writer leave the ring")
{
    whole_ring r;
    std::mt19937 random(5);
    for (int i = 0; i < 20'000; ++i) {
        r.readers->taken.store(random() % 2 == 0 ? random() : random() % (2 * ring_file::lines));
        (void)r.put(packet_of(1 + random() % 500, 0));
    }
    whole_ring full;
    while (full.put(packet_of(60, 0)))
        ;
    full.readers->taken.store(ring_file::lines); // one more than was put
    CHECK(!full.put(packet_of(60, 0)));
    full.readers->taken.store(UINT32_MAX);
    CHECK(!full.put(packet_of(60, 0)));
    full.readers->taken.store(1);
    CHECK(full.put(packet_of(60, 0)));
    full.readers->taken.store(0); // takes it back
    CHECK(!full.put(packet_of(60, 0)));
}

TEST_CASE("two threads")
{
    whole_ring r;
    const std::uint32_t packets = rig::rounds(50'000);
    std::thread writes([&] {
        for (std::uint32_t i = 0; i < packets; ++i)
            while (!r.put(packet_of(1 + i % 300, i)))
                std::this_thread::yield();
    });
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < packets; ++i) {
        packet_bytes got;
        while ((got = r.take()).empty())
            std::this_thread::yield();
        wrong += got == packet_of(1 + i % 300, i) ? 0 : 1;
    }
    writes.join();
    CHECK(wrong == 0);
    CHECK(r.take().empty());
}

TEST_CASE("what is put while its reader goes to sleep is seen by one of the two")
{
    whole_ring r;
    const std::uint32_t packets = rig::rounds(2'000);
    std::atomic<std::uint32_t> seen_by_writer{0}; // would go another way
    std::atomic<bool> over{false};
    r.readers->attention.store(ring_attention::awake);
    std::atomic<std::uint32_t> turn{0};
    std::uint32_t missed = 0;
    std::thread writes([&] {
        for (std::uint32_t i = 1; i <= packets; ++i) {
            while (turn.load() < i)
                std::this_thread::yield();
            REQUIRE(r.put(packet_of(8, i)));
            if (!r.writer.is_attended())
                seen_by_writer.store(i);
            turn.store(packets + 1 + i);
            while (turn.load() > packets)
                std::this_thread::yield();
        }
        over.store(true);
    });
    for (std::uint32_t i = 1; i <= packets; ++i) {
        turn.store(i);
        for (std::uint32_t wait = i % 64; wait != 0; --wait)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        r.readers->attention.store(ring_attention::asleep);
        const bool seen = r.writers->has_packet(r.readers->taken.load());
        while (turn.load() != packets + 1 + i)
            std::this_thread::yield();
        missed += seen || seen_by_writer.load() == i ? 0 : 1;
        CHECK(r.take() == packet_of(8, i));
        r.readers->attention.store(ring_attention::awake);
        turn.store(0);
    }
    writes.join();
    CHECK(over.load());
    CHECK(missed == 0);
}

TEST_SUITE_END();

} // namespace ring_suite
