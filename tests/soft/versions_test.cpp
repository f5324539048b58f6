// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Editions of the wire that meet: what the first one sent is kept here, byte for byte.
#include "rig.hpp"
#include "wire/crc32c.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

namespace versions_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

using bytes = std::vector<std::uint8_t>;

// ----------------------------------------------------------------- recorded from the first edition

constexpr std::uint32_t first_number = 1000;

// The peer's numbers. A test's connection puts its own in their places.
constexpr std::uint32_t active_id = 0x3f520000;
constexpr std::uint32_t active_tag = 0x4f958b39;
constexpr std::uint32_t passive_id = 0xf13d0000;
constexpr std::uint32_t passive_tag = 0xd87a4dc7;
constexpr std::uint32_t token_id = 0xada209ee;
constexpr std::uint32_t token_tag = 0x8a516d37;

const char *const request = "01040000 00000000 00000000 3f520000 000003e8 00000001 000003e8"
                            "00000000 00000003 3f520000 4f958b39 000003e8 000005c0"
                            "00080008 00000003 616263";
const char *const retry = "010a0000 3f520000 4f958b39 ada209ee 8a516d37 00000000 00000000";
const char *const request_again = "01040000 ada209ee 8a516d37 3f520000 000003e8 00000001 000003e8"
                                  "00000000 00000003 3f520000 4f958b39 000003e8 000005c0"
                                  "00080008 00000003 616263";
const char *const accept = "01050000 3f520000 4f958b39 f13d0000 000003e8 000003e8 000003e9"
                           "f13d0000 d87a4dc7 000003e8 000005c0 00080008 00000002 6465";
const char *const accept_taken = "01020000 f13d0000 d87a4dc7 3f520000 000003e8 000003e8 000003e8"
                                 "00000000";
const char *const hello = "01010000 f13d0000 d87a4dc7 3f520000 000003e8 000003e8 000003e8"
                          "41430000 00000000 00000000 03e80000 000068656c6c6f";
const char *const hello_taken = "01020000 3f520000 4f958b39 f13d0000 000003e8 000003e9 000003e9"
                                "00000000";
const char *const probe = "01030000 f13d0000 d87a4dc7 3f520000 000003e9 000003e8 000003e8";
const char *const probe_taken = "01020000 3f520000 4f958b39 f13d0000 000003e8 000003ea 000003e9"
                                "00000000";
const char *const probe_back = "01030000 3f520000 4f958b39 f13d0000 000003e8 000003ea 000003e9";
const char *const probe_back_taken = "01020000 f13d0000 d87a4dc7 3f520000 000003ea 000003e9"
                                     "000003e8 00000000";
const char *const write = "01010000 f13d0000 d87a4dc7 3f520000 000003ea 000003e9 000003e8"
                          "c1402062 96920000 7f238bf3 601068656c6c6f";
const char *const write_taken = "01020000 3f520000 4f958b39 f13d0000 000003e9 000003eb 000003e9"
                                "00000000";
const char *const close = "01070000 f13d0000 d87a4dc7 3f520000 000003eb 000003e9 000003e8"
                          "0000ffff 00000000";
const char *const close_taken = "01080000 3f520000 4f958b39 f13d0000 000003e9 000003eb 000003e9";
const char *const reject = "01060000 3f520000 4f958b39 00000000 00000000 00000000 00000000"
                           "01000002 6e6f";
const char *const stray = "01030000 11121314 21222324 31323334 41424344 00000000 00000000";
const char *const reset = "01090000 31323334 21222324 11121314 41424344 00000000 00000000";

const char *const all_recorded[] = {
    request,     retry,      request_again,    accept, accept_taken, hello, hello_taken, probe,
    probe_taken, probe_back, probe_back_taken, write,  write_taken,  close, close_taken, reject,
    stray,       reset};

bytes of_text(const std::string &text)
{
    std::string digits;
    std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
                 [](char each) { return each != ' '; });
    bytes out;
    for (std::size_t i = 0; i < digits.size(); i += 2)
        out.push_back(static_cast<std::uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    return out;
}

std::uint32_t word(const bytes &in, std::size_t at)
{
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
        value = value << 8 | in.at(at + i);
    return value;
}

void set_number(bytes &in, std::size_t at, std::uint64_t value, std::size_t size = 4)
{
    for (std::size_t i = size; i-- != 0; value >>= 8)
        in.at(at + i) = static_cast<std::uint8_t>(value);
}

// Offsets of fields.
constexpr std::size_t to_at = 4, tag_at = 8, from_at = 12, psn_at = 16, ack_at = 20, credit_at = 24;
constexpr std::size_t qualifier_at = 28, request_id_at = 36, request_tag_at = 40;
constexpr std::size_t accept_id_at = 28, accept_tag_at = 32;
constexpr std::size_t stag_at = 30, offset_at = 34;

/// Recorded datagrams, with the numbers of a connection of the test.
class recording {
public:
    std::map<std::uint32_t, std::uint32_t> numbers;
    std::uint32_t qualifier = 3;

    bytes operator()(const char *recorded) const
    {
        bytes out = of_text(recorded);
        const bool asks = out[1] == static_cast<std::uint8_t>(packet_kind::request);
        const std::size_t end = std::min<std::size_t>(out.size() / 4 * 4, request_tag_at + 4);
        for (std::size_t at = to_at; at < end; at += 4)
            if (const auto found = numbers.find(word(out, at)); found != numbers.end())
                set_number(out, at, found->second);
        if (asks)
            set_number(out, qualifier_at, qualifier, 8);
        return out;
    }
};

/// A socket of a peer that is played by the test.
class played {
public:
    played(inproc_network &network, const net_address &host, std::uint16_t port = 0)
        : network_(network)
    {
        net_address at = host;
        at.set_port(port);
        REQUIRE(io_.open(network, at));
    }
    void send(const net_address &to, const bytes &datagram)
    {
        out_packet out;
        out.begin();
        out.add(datagram.data(), datagram.size());
        REQUIRE(network_.deliver(io_.address(), to, out));
    }
    /// The next datagram; empty when none comes in time.
    bytes next(std::chrono::milliseconds time = patience)
    {
        in_packets got;
        if (!becomes_true([&] { return io_.receive(&got, 1) != 0; }, time))
            return {};
        from = got.from;
        return {got.bytes, got.bytes + got.size};
    }
    /// The next of this kind; others are passed over.
    bytes next(packet_kind kind)
    {
        bytes got;
        (void)becomes_true([&] {
            got = next(0ms);
            return !got.empty() && got[1] == static_cast<std::uint8_t>(kind);
        });
        return got;
    }
    /// Waits for exactly these bytes. Earlier packets may be repeated first.
    bool gets(const bytes &wanted)
    {
        return becomes_true([&] { return next(0ms) == wanted; });
    }
    const net_address &address() const { return io_.address(); }
    net_address from; ///< sender of the latest datagram

private:
    inproc_network &network_;
    inproc_io io_;
};

settings of_fixed_start(inproc_network &network, bool checksum)
{
    settings how = inside(network);
    how.fixed_start = true;
    how.first_number = first_number;
    how.checksum = checksum;
    return how;
}

/// The datagram in version 2.
bytes checked(bytes in)
{
    in[0] = checked_version;
    in.resize(in.size() + checksum_size);
    const std::size_t size = in.size() - checksum_size;
    set_number(in, size, crc32c(in.data(), size));
    return in;
}

bytes written(const base_header &base)
{
    bytes out(base_size);
    CHECK(write_retry(out.data(), base) == base_size);
    return out;
}

/// The retry of a listener that speaks these.
bytes retry_with(const recording &as, version_set versions)
{
    const bytes first = as(retry);
    return written({packet_kind::retry, 0, word(first, to_at), word(first, tag_at),
                    word(first, from_at), word(first, psn_at), versions, 0});
}

} // namespace

TEST_SUITE_BEGIN("versions");

TEST_CASE("what the first edition sent is read, every one")
{
    for (const char *const each : all_recorded) {
        CAPTURE(each);
        const bytes in = of_text(each);
        packet p;
        CHECK(parse(in.data(), in.size(), p));
    }
}

namespace {

/// A listener of this edition, asked by the test.
struct listening_fixture {
    explicit listening_fixture(bool checksum = false)
        : there(of_fixed_start(network, checksum)), b(there), at(there)
    {
        as.qualifier = static_cast<std::uint32_t>(at.number);
    }
    const net_address &listener() { return at.socket->io->address(); }
    /// Sends the first request, and takes the token of the answer.
    bytes ask()
    {
        peer.send(listener(), as(request));
        bytes got = peer.next(packet_kind::retry);
        REQUIRE(got.size() == base_size);
        as.numbers[token_id] = word(got, from_at);
        as.numbers[token_tag] = word(got, psn_at);
        return got;
    }
    void send(const char *recorded) { peer.send(b.pair.shard->io().address(), as(recorded)); }

    inproc_network network;
    host there;
    end b;
    door at;
    played peer{network, there.hca.settings().address};
    recording as;
};

} // namespace

TEST_CASE_FIXTURE(listening_fixture, "first edition asks: each answer is what it expects")
{
    bytes got = ask();
    CHECK(word(got, ack_at) != 0); // the first edition does not look at these two
    set_number(got, ack_at, 0);
    set_number(got, credit_at, 0);
    CHECK(got == as(retry));

    REQUIRE(b.receive(0, 100));
    peer.send(listener(), as(request_again));
    inbound_request *const asked = at.next();
    REQUIRE(asked != nullptr);
    CHECK(std::string(asked->data, asked->data + asked->data_size) == "abc");
    REQUIRE(b.pair.accept(*asked, "de", 2) == queue_pair::start::begun);
    got = peer.next(packet_kind::accept);
    REQUIRE(got.size() > accept_tag_at + 4);
    as.numbers[passive_id] = word(got, accept_id_at);
    as.numbers[passive_tag] = word(got, accept_tag_at);
    CHECK(got == as(accept));
    CHECK(peer.from == b.pair.shard->io().address());

    send(accept_taken);
    CHECK(is(b.next(), connection_event::established));
    send(hello);
    const auto message = b.received();
    REQUIRE(message.has_value());
    CHECK(message->length == 5);
    CHECK(std::memcmp(b.buffer.bytes.data(), "hello", 5) == 0);
    CHECK(peer.gets(as(hello_taken)));
    send(probe);
    CHECK(peer.gets(as(probe_taken)));
    CHECK(peer.gets(as(probe_back)));
    send(probe_back_taken);

    bytes access = as(write);
    const remote_segment target = b.buffer.remote(100, 5);
    set_number(access, stag_at, target.key);
    set_number(access, offset_at, target.address, 8);
    peer.send(b.pair.shard->io().address(), access);
    CHECK(peer.gets(as(write_taken)));
    CHECK(std::memcmp(b.buffer.bytes.data() + 100, "hello", 5) == 0);

    send(close);
    CHECK(peer.gets(as(close_taken)));
    CHECK(is(b.next(), connection_event::disconnected));
}

TEST_CASE_FIXTURE(listening_fixture, "first edition asks: it is rejected, and reset, as it was")
{
    ask();
    peer.send(listener(), as(request_again));
    inbound_request *const asked = at.next();
    REQUIRE(asked != nullptr);
    there.hca.listening.reject(*asked, reject_code::consumer, "no", 2);
    CHECK(peer.gets(as(reject)));
    peer.send(b.pair.shard->io().address(), of_text(stray));
    CHECK(peer.gets(of_text(reset)));
}

namespace {

/// An end of this edition that connects to a listener which the test plays.
struct asking_fixture {
    explicit asking_fixture(bool checksum = false)
        : here(of_fixed_start(network, checksum)), a(here)
    {
        as.qualifier = listener.address().port();
    }
    void connect(const std::string &data = "abc")
    {
        REQUIRE(a.pair.connect(listener.address(), as.qualifier, data.data(), data.size()) ==
                queue_pair::start::begun);
        const bytes got = listener.next(packet_kind::request);
        REQUIRE(got.size() >= base_size + request_size);
        as.numbers[active_id] = word(got, request_id_at);
        as.numbers[active_tag] = word(got, request_tag_at);
        CHECK(got == as(request));
    }
    void send(const bytes &datagram) { peer.send(a.pair.shard->io().address(), datagram); }

    inproc_network network;
    host here;
    end a;
    played listener{network, here.hca.settings().address};
    played peer{network, here.hca.settings().address};
    recording as;
};

} // namespace

TEST_CASE_FIXTURE(asking_fixture, "first edition listens: each request and datagram is as it was")
{
    connect();
    send(as(retry));
    CHECK(listener.gets(as(request_again)));
    send(as(accept));
    const auto event = a.next();
    REQUIRE(is(event, connection_event::established));
    CHECK(event->data == "de");
    CHECK(peer.gets(as(accept_taken)));
    std::memcpy(a.buffer.bytes.data(), "hello", 5);
    REQUIRE(a.send(0, 5));
    CHECK(peer.gets(as(hello)));
    send(as(hello_taken));
    const auto done = a.sent();
    REQUIRE(done.has_value());
    CHECK(done->status == work_status::success);
    a.pair.disconnect(false);
    bytes wanted = as(close); // the number follows one message
    set_number(wanted, psn_at, first_number + 1);
    set_number(wanted, ack_at, first_number);
    CHECK(peer.gets(wanted));
    send(as(close_taken));
    CHECK(is(a.next(), connection_event::disconnected));
}

TEST_CASE_FIXTURE(asking_fixture, "first edition listens: its rejection is understood")
{
    connect();
    send(as(retry));
    CHECK(listener.gets(as(request_again)));
    send(as(reject));
    const auto event = a.next();
    REQUIRE(is(event, connection_event::rejected));
    CHECK(event->data == "no");
}

TEST_CASE_FIXTURE(asking_fixture, "a later edition listens: the newest that both speak is used")
{
    connect();
    send(retry_with(as, set_of(1) | set_of(9) | set_of(31)));
    CHECK(listener.gets(as(request_again)));
    send(as(accept));
    CHECK(is(a.next(), connection_event::established));
}

TEST_CASE_FIXTURE(asking_fixture, "a later edition listens that shares no version: refused")
{
    connect();
    send(retry_with(as, set_of(9)));
    CHECK(is(a.next(), connection_event::refused));
}

TEST_CASE_FIXTURE(asking_fixture, "a retry whose versions are malformed is not taken")
{
    connect();
    bytes wrong = retry_with(as, set_of(1));
    SUBCASE("a version that does not exist")
    {
        wrong = retry_with(as, set_of(0) | set_of(1));
    }
    SUBCASE("one bit of the versions")
    {
        wrong[ack_at + 3] ^= 4;
    }
    SUBCASE("one bit of the token")
    {
        wrong[from_at] ^= 4;
    }
    SUBCASE("one bit of the checksum")
    {
        wrong[credit_at] ^= 4;
    }
    SUBCASE("a checksum of no versions")
    {
        wrong = retry_with(as, 0);
    }
    send(wrong);
    CHECK(listener.gets(as(request))); // it is repeated, without a token
    send(retry_with(as, set_of(1)));
    CHECK(listener.gets(as(request_again)));
}

namespace {

/// A request of a version that does not exist yet, with as much that is unknown as may be.
bytes of_later_version(bytes in)
{
    in[0] = 200;
    set_number(in, 2, 0xffff, 2);
    set_number(in, ack_at, 0x12345678);
    std::fill(in.begin() + request_tag_at + 4, in.end(), std::uint8_t{0xee});
    return in;
}

} // namespace

TEST_CASE_FIXTURE(listening_fixture,
                  "a later edition asks: it hears what is spoken here, and is served")
{
    const bytes later = of_later_version(as(request));
    peer.send(listener(), later);
    const bytes got = peer.next();
    packet p;
    REQUIRE(parse(got.data(), got.size(), p));
    CHECK(p.base.kind == packet_kind::retry);
    CHECK(p.base.to == active_id);
    CHECK(p.base.tag == active_tag);
    CHECK((versions_in(p.base) & set_of(1)) != 0);
    CHECK(got.size() < later.size());
    CHECK_FALSE(there.hca.listening.remembers());
    as.numbers[token_id] = p.base.from;
    as.numbers[token_tag] = p.base.psn;
    peer.send(listener(), as(request_again));
    CHECK(at.next() != nullptr);
}

TEST_CASE_FIXTURE(listening_fixture, "strangers of later versions cost no state, and draw little")
{
    constexpr std::uint32_t strangers = 1000;
    std::size_t asked = 0;
    std::size_t answered = 0;
    for (std::uint32_t i = 1; i <= strangers; ++i) {
        as.numbers[active_id] = i;
        const bytes later = of_later_version(as(request));
        asked += later.size();
        peer.send(listener(), later);
        const bytes got = peer.next();
        REQUIRE(!got.empty());
        answered += got.size();
    }
    CHECK(answered == strangers * base_size);
    CHECK(answered < asked);
    CHECK_FALSE(there.hca.listening.remembers());
    CHECK(at.next(0ms) == nullptr);
}

TEST_CASE_FIXTURE(listening_fixture, "of later versions only whole requests are answered")
{
    const bytes later = of_later_version(as(request));
    std::vector<bytes> wrong;
    wrong.emplace_back(later.begin(), later.begin() + base_size + request_size - 1);
    wrong.push_back(later);
    wrong.back()[request_id_at] ^= 1; // differs from the base header
    for (const unsigned kind : {0u, 1u, 2u, 3u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 255u}) {
        wrong.push_back(later);
        wrong.back()[1] = static_cast<std::uint8_t>(kind);
    }
    wrong.push_back(later);
    wrong.back()[0] = 0;
    for (const bytes &each : wrong)
        peer.send(listener(), each);
    peer.send(listener(), as(request)); // served after them
    CHECK(peer.next().at(1) == static_cast<std::uint8_t>(packet_kind::retry));
    CHECK(peer.next(50ms).empty());
    CHECK_FALSE(there.hca.listening.remembers());

    // Where a connection's datagrams go, nothing of a later version is answered.
    for (std::size_t kind = 0; kind < 12; ++kind) {
        bytes in = later;
        in[1] = static_cast<std::uint8_t>(kind);
        peer.send(b.pair.shard->io().address(), in);
    }
    CHECK(peer.next(50ms).empty());
}

TEST_CASE("this edition with itself, with checksums and without")
{
    for (const bool ours : {false, true})
        for (const bool theirs : {false, true}) {
            CAPTURE(ours);
            CAPTURE(theirs);
            inproc_network network;
            settings how = inside(network);
            how.checksum = ours;
            host here(how);
            how.checksum = theirs;
            host there(how);
            end a(here);
            end b(there);
            REQUIRE(establish(a, b));
            exercise(a, b, 4);
            CHECK(a.counts().corrupt + b.counts().corrupt == 0);
            a.pair.disconnect(true);
            CHECK(is(a.next(), connection_event::disconnected));
            CHECK(is(b.next(), connection_event::disconnected));
        }
}

namespace {

struct checked_listening_fixture : listening_fixture {
    checked_listening_fixture() : listening_fixture(true) {}
};

struct checked_asking_fixture : asking_fixture {
    checked_asking_fixture() : asking_fixture(true) {}
};

} // namespace

TEST_CASE_FIXTURE(checked_listening_fixture, "first edition asks one with checksums: version 1")
{
    const bytes got = ask();
    CHECK(word(got, ack_at) == (set_of(1) | set_of(2)));
    peer.send(listener(), as(request_again));
    inbound_request *const asked = at.next();
    REQUIRE(asked != nullptr);
    REQUIRE(b.receive(0, 100));
    REQUIRE(b.pair.accept(*asked, "de", 2) == queue_pair::start::begun);
    const bytes answer = peer.next(packet_kind::accept);
    REQUIRE(answer.size() > accept_tag_at + 4);
    as.numbers[passive_id] = word(answer, accept_id_at);
    as.numbers[passive_tag] = word(answer, accept_tag_at);
    CHECK(answer == as(accept));
    send(accept_taken);
    CHECK(is(b.next(), connection_event::established));
    send(hello);
    CHECK(b.received().has_value());
    CHECK(peer.gets(as(hello_taken)));
}

TEST_CASE_FIXTURE(checked_asking_fixture, "first edition listens to one with checksums: version 1")
{
    connect();
    send(as(retry));
    CHECK(listener.gets(as(request_again)));
    send(as(accept));
    CHECK(is(a.next(), connection_event::established));
    CHECK(peer.gets(as(accept_taken)));
    REQUIRE(a.send(0, 5));
    CHECK(peer.next(packet_kind::data).at(0) == first_version);
}

TEST_CASE_FIXTURE(checked_asking_fixture,
                  "with checksums each datagram is as before, and they behind")
{
    connect();
    send(retry_with(as, set_of(1) | set_of(2) | set_of(7)));
    CHECK(listener.gets(checked(as(request_again))));
    send(checked(as(accept)));
    CHECK(is(a.next(), connection_event::established));
    CHECK(peer.gets(checked(as(accept_taken))));
    std::memcpy(a.buffer.bytes.data(), "hello", 5);
    REQUIRE(a.send(0, 5));
    CHECK(peer.gets(checked(as(hello))));

    bytes wrong = checked(as(hello_taken));
    wrong[ack_at + 3] ^= 1;
    send(wrong);
    CHECK(becomes_true([&] { return a.counts().corrupt == 1; }));
    send(as(hello_taken)); // has another version than the connection
    CHECK(a.sent(20ms) == std::nullopt);
    send(checked(as(hello_taken)));
    CHECK(a.sent().has_value());
}

TEST_CASE_FIXTURE(checked_listening_fixture,
                  "with checksums strangers are answered in their version")
{
    ask();
    peer.send(listener(), checked(as(request_again)));
    inbound_request *const asked = at.next();
    REQUIRE(asked != nullptr);
    there.hca.listening.reject(*asked, reject_code::consumer, "no", 2);
    CHECK(peer.gets(checked(as(reject))));
    peer.send(b.pair.shard->io().address(), checked(of_text(stray)));
    CHECK(peer.gets(checked(of_text(reset))));
    as.qualifier += 0x10000;
    as.numbers[active_id] = 7;
    peer.send(listener(), checked(as(request_again)));
    const bytes got = peer.next(packet_kind::reject);
    CHECK(got.size() == base_size + reject_size + checksum_size);
    CHECK(got[0] == checked_version);
}

TEST_CASE_FIXTURE(listening_fixture, "who has checksums off says so to a request that has one")
{
    ask();
    peer.send(listener(),
              checked(as(request_again))); // has a valid token
    const bytes got = peer.next(packet_kind::retry);
    packet p;
    REQUIRE(parse(got.data(), got.size(), p));
    CHECK(versions_in(p.base) == set_of(1));
    CHECK(at.next(20ms) == nullptr);
    CHECK_FALSE(there.hca.listening.remembers());
    peer.send(listener(), as(request_again));
    CHECK(at.next() != nullptr);
}

TEST_CASE_FIXTURE(checked_asking_fixture,
                  "a listener that does not answer a later version is asked anew")
{
    connect();
    send(retry_with(as, set_of(1) | set_of(2)));
    CHECK(listener.gets(checked(as(request_again))));
    CHECK(listener.gets(as(request))); // meanwhile it was replaced by the first edition
    send(as(retry));
    CHECK(listener.gets(as(request_again)));
    send(as(accept));
    CHECK(is(a.next(), connection_event::established));
}

TEST_SUITE_END();

} // namespace versions_suite
