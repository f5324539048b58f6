// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A hostile peer of the software HCA inside a host, of the same user, puts any packet into its
// ring, and stores anything anywhere in the ring and on the board that it shares. Our process goes
// on, stores in posted receives only, and serves its other connections.
#define DOCTEST_CONFIG_IMPLEMENT
#include "rig.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/stat.h>

namespace {

using namespace rig;

constexpr std::size_t receives_end = 64 * 1024; ///< receives are posted in front
constexpr std::size_t sends_begin = 80 * 1024;
constexpr end_options small{.bytes = 128 * 1024};
constexpr std::chrono::seconds held_up{10};

void must(bool holds)
{
    if (!holds)
        std::abort();
}

/// The rest of an input.
struct words {
    const std::uint8_t *at;
    std::size_t left;

    std::uint8_t byte() { return left == 0 ? 0 : (--left, *at++); }
    std::uint32_t word()
    {
        std::uint32_t value = byte();
        for (int i = 0; i < 3; ++i)
            value = value << 8 | byte();
        return value;
    }
    bytes_view take(std::size_t wanted)
    {
        const std::size_t size = std::min(wanted, left);
        const bytes_view taken{at, size};
        at += size;
        left -= size;
        return taken;
    }
};

/// Returns the place where this process has mapped a file for writing.
void *writable_mapping(waitable file)
{
    struct stat about {};
    must(fstat(static_cast<int>(file), &about) == 0);
    std::ifstream maps("/proc/self/maps");
    std::string range, rights, offset, device, name;
    for (ino_t number = 0; maps >> range >> rights >> offset >> device >> number;) {
        std::getline(maps, name);
        if (rights == "rw-s" && number == about.st_ino)
            return reinterpret_cast<void *>(std::stoull(range, nullptr, 16));
    }
    return nullptr;
}

/// Stores a part of the input somewhere in a file.
void store_anywhere(void *file, std::size_t size, words &input)
{
    const std::uint32_t where = input.word();
    const bytes_view what = input.take(1 + input.byte() % 64);
    if (file != nullptr && what.size != 0)
        std::memcpy(static_cast<std::uint8_t *>(file) + where % (size - what.size), what.at,
                    what.size);
}

/// A hostile device and its victim, which has an honest connection, too.
class scene {
public:
    scene()
    {
        must(establish(c_, d_));
        d_.buffer.fill(0, 64, 7);
        pass();
    }
    void attack(words input)
    {
        end a(hostile_, small), b(victim_, small);
        must(establish(a, b));
        std::fill(b.buffer.bytes.begin(), b.buffer.bytes.end(), std::uint8_t{0x5a});
        for (std::size_t i = 0; i < 8; ++i)
            must(b.receive(i * 8192, 8192));
        ring_path *const ring = ring_of(a, b);
        while (input.left != 0)
            act(input, a, b, ring);
        for (int i = 0; i < 20; ++i)
            poll(b);
        must(std::all_of(b.buffer.bytes.begin() + receives_end, b.buffer.bytes.end(),
                         [](std::uint8_t each) { return each == 0x5a; }));
        pass();
    }

private:
    static settings settings_of()
    {
        settings how = with_rings();
        how.fixed_start = true;
        how.first_number = 100;
        return how;
    }
    static void poll(end &one)
    {
        (void)one.receive_queue.progress();
        completion_record done;
        while (one.receive_queue.pop(done) || one.send_queue.pop(done)) {
        }
    }
    /// The ring from the hostile end, once the victim looks at it.
    static ring_path *ring_of(end &a, end &b)
    {
        for (int i = 0; i < 20'000; ++i) {
            poll(a);
            poll(b);
            a.pair.enter();
            ring_path *const there = a.pair.connection().path().ring();
            a.pair.leave();
            if (there != nullptr)
                return there;
        }
        return nullptr;
    }
    void act(words &input, end &a, end &b, ring_path *ring)
    {
        switch (input.byte() % 10) {
        case 0:
            return put_packet(input, a, ring);
        case 1:
            return put_bytes(input, ring);
        case 2:
            return store_anywhere(file_of(ring), sizeof(ring_file), input);
        case 3:
            return store_anywhere(board_, sizeof(direct_board) - sizeof(life_mark), input);
        case 4:
            (void)b.send(sends_begin, input.word() % 40'000);
            return;
        case 5:
            (void)b.receive(0, input.word() % receives_end);
            return;
        case 6:
            return poll(a);
        case 8:
            return store_head(input, file_of(ring));
        case 9:
            return store_state(input, file_of(ring));
        default:
            return poll(b);
        }
    }
    static ring_file *file_of(const ring_path *ring)
    {
        return ring == nullptr ? nullptr : static_cast<ring_file *>(writable_mapping(ring->file()));
    }
    /// Stores the head of a packet, of any size, into a line that the victim will look at.
    static void store_head(words &input, ring_file *file)
    {
        const std::uint32_t line = input.byte() % 128;
        const std::uint32_t size = input.word();
        if (file != nullptr)
            file->ring[line].head.store((line & 1) != 0 ? size : size & 0xffff);
    }
    /// Stores what the hostile side says of itself as a reader.
    static void store_state(words &input, ring_file *file)
    {
        const std::uint8_t which = input.byte() % 3;
        const std::uint32_t value = input.word();
        if (file == nullptr)
            return;
        if (which == 0)
            file->taken.store(value);
        else if (which == 1)
            file->attention.store(static_cast<ring_attention>(value % 4));
        else
            file->used.store(value);
    }
    /// A packet that has the secrets of the connection, with numbers near the next ones.
    static void put_packet(words &input, end &a, ring_path *ring)
    {
        a.pair.enter();
        const bool is_there = ring != nullptr && a.pair.connection().current().connected();
        if (is_there) {
            const auto kind = static_cast<packet_kind>(input.byte() % 15);
            base_header base = a.pair.connection().path().header(kind, 98 + input.byte() % 16);
            base.flags = input.byte();
            base.ack = 98 + input.byte() % 16;
            base.credit = input.byte();
            const bytes_view body = input.take(input.byte());
            out_packet out;
            out.begin();
            out.add(out.header, write_base(out.header, base));
            if (body.size != 0)
                out.add(body.at, body.size);
            (void)ring->send_one(out);
        }
        a.pair.leave();
    }
    static void put_bytes(words &input, ring_path *ring)
    {
        const bytes_view body = input.take(input.byte());
        if (ring == nullptr || body.size == 0)
            return;
        out_packet out;
        out.begin();
        out.add(body.at, body.size);
        (void)ring->send_one(out);
    }
    void pass()
    {
        must(c_.receive(0, 64) && d_.send(0, 64));
        const auto came = c_.received(held_up);
        must(came.has_value() && came->status == work_status::success);
        must(c_.buffer.holds(0, 64, 7));
        const auto went = d_.sent(held_up);
        must(went.has_value() && went->status == work_status::success);
        c_.requests.clear();
        d_.requests.clear();
    }

    host hostile_{settings_of()};
    direct_board *const board_ =
        own_boards().front(); ///< the hostile device's, which is the only one by now
    host victim_{settings_of()};
    host honest_{settings_of()};
    end c_{victim_};
    end d_{honest_};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *input, std::size_t size)
{
    static doctest::Context fails_outside_of_cases;
    static scene *const everything = [] {
        fails_outside_of_cases.setAsDefaultForAssertsOutOfTestCases();
        fails_outside_of_cases.setAssertHandler([](const doctest::AssertData &) { std::abort(); });
        return new scene;
    }();
    everything->attack({input, size});
    return 0;
}
