// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Devices with a key: the packets that they exchange, and the attacks of strangers.
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace seal_suite {

using namespace rig;
using namespace std::chrono_literals;

namespace {

using bytes = std::vector<std::uint8_t>;

constexpr char key[] = "a key of tests, which is as long as one has to be";
constexpr char other_key[] = "another key of tests, also as long as it has to be";

settings with_key(settings how, const char *which = key)
{
    how.key.bytes = which;
    how.key.size = std::strlen(which);
    return how;
}

/// A datagram that went over a network.
struct captured {
    net_address from;
    net_address to;
    bytes what;
};

class tap {
public:
    explicit tap(inproc_network &network) : network_(network)
    {
        network.listen_in(
            [](void *self, const net_address &from, const net_address &to,
               const out_packet &packet) { static_cast<tap *>(self)->keep(from, to, packet); },
            this);
    }
    ~tap() { stop(); }
    void stop() { network_.listen_in(nullptr, nullptr); }
    std::vector<captured> all() const
    {
        const std::lock_guard hold(lock_);
        return all_;
    }
    void send(const captured &again)
    {
        out_packet out;
        out.begin();
        out.add(again.what.data(), again.what.size());
        (void)network_.deliver(again.from, again.to, out);
    }

private:
    void keep(const net_address &from, const net_address &to, const out_packet &packet)
    {
        captured one{from, to, flattened(packet)};
        const std::lock_guard hold(lock_);
        all_.push_back(std::move(one));
    }

    inproc_network &network_;
    mutable std::mutex lock_;
    std::vector<captured> all_;
};

bool contains(const bytes &where, const std::string &what)
{
    return std::search(where.begin(), where.end(), what.begin(), what.end()) != where.end();
}

sealed_header header_of(const bytes &datagram)
{
    sealed_header header;
    REQUIRE(read_sealed(datagram.data(), datagram.size(), header));
    return header;
}

struct sealed_pair {
    explicit sealed_pair(settings how = {}) : here(how), there(how) { REQUIRE(establish(a, b)); }
    host here;
    host there;
    end a{here};
    end b{there};
};

void end_of(sealed_pair &with)
{
    with.a.pair.disconnect(true);
    CHECK(is(with.a.next(), connection_event::disconnected));
    CHECK(is(with.b.next(), connection_event::disconnected));
}

void wait_until_quiet(end &a, end &b)
{
    CHECK(becomes_true([&] {
        const auto before = a.counts().packets_out + b.counts().packets_out;
        std::this_thread::sleep_for(30ms);
        return a.counts().packets_out + b.counts().packets_out == before;
    }));
}

} // namespace

TEST_SUITE_BEGIN("seal");

TEST_CASE("the replay window takes each number once, and none that is too old")
{
    replay_window window;
    std::set<std::uint64_t> came;
    std::mt19937 random(20261126);
    std::uint64_t front = 0;
    for (int i = 0; i < 200'000; ++i) {
        front += random() % 4 == 0 ? random() % (random() % 64 == 0 ? 5000 : 8) : 0;
        const std::uint64_t back = random() % (2 * replay_window::size);
        const std::uint64_t number = front > back ? front - back : front;
        const bool old = number < window.end() && window.end() - number > replay_window::size;
        REQUIRE(window.is_new(number) == (!old && came.count(number) == 0));
        if (!window.is_new(number))
            continue;
        window.mark(number);
        came.insert(number);
    }
    CHECK(replay_window::size >= 1024);
}

TEST_CASE("headers are read as they were written, and nothing else is")
{
    for (const bool handshake : {false, true}) {
        sealed_header header;
        header.handshake = handshake;
        header.kind = packet_kind::accept;
        header.to = 0x01020304;
        header.from = 0x11121314;
        header.number = 0x2122232425262728;
        header.odd_epoch = true;
        for (std::size_t i = 0; i < sizeof header.salt; ++i)
            header.salt[i] = static_cast<std::uint8_t>(0x40 + i);
        if (handshake)
            header.odd_epoch = false;
        std::uint8_t written[64] = {};
        const std::size_t size = write_sealed(written, header);
        CHECK(size == header.size());
        sealed_header again;
        REQUIRE(read_sealed(written, size, again));
        CHECK(again.handshake == handshake);
        CHECK(again.to == header.to);
        if (handshake) {
            CHECK(again.kind == header.kind);
            CHECK(again.from == header.from);
            CHECK(std::memcmp(again.salt, header.salt, sizeof again.salt) == 0);
        } else {
            CHECK(again.number == header.number);
            CHECK(again.odd_epoch);
        }
        for (std::size_t shorter = 0; shorter < size; ++shorter)
            CHECK_FALSE(read_sealed(written, shorter, again));
        for (unsigned kind = 1; kind < 256; ++kind) {
            written[1] = static_cast<std::uint8_t>(kind);
            const bool known = kind >= 4 && kind <= 10 && kind != 8 && kind != 9;
            CHECK(read_sealed(written, size, again) == (handshake && known));
        }
    }
}

TEST_CASE("without a key nothing that is sealed is parsed, nor what was inside")
{
    std::uint8_t inner[base_size];
    CHECK(write_base(inner, {packet_kind::probe, 0, 1, 2, 3, 4, 5, 6, sealed_version}) ==
          base_size);
    packet p;
    CHECK_FALSE(parse(inner, sizeof inner, p));
    CHECK(parse_opened(inner, sizeof inner, p));
    inner[0] = first_version;
    CHECK_FALSE(parse_opened(inner, sizeof inner, p));
}

namespace {

/// Both ends of a connection, without one.
struct two_seals {
    explicit two_seals(std::uint64_t renew_packets, std::uint32_t tag_there = 4)
    {
        key_settings how;
        how.bytes = key;
        how.size = sizeof key;
        how.renew_packets = renew_packets;
        REQUIRE(device.open(how) == 0);
        REQUIRE(a.open());
        REQUIRE(b.open());
        REQUIRE(a.agree(b.offer(), {1, 2}, {3, tag_there}, true));
        REQUIRE(b.agree(a.offer(), {3, 4}, {1, 2}, false));
    }
    static bytes sealed_by(connection_seal &from)
    {
        bytes out(sealed_overhead + base_size);
        REQUIRE(write_base(out.data() + sealed_overhead,
                           {packet_kind::probe, 0, 1, 2, 3, 4, 5, 6, sealed_version}) == base_size);
        REQUIRE(from.seal(out.data(), base_size, 1));
        return out;
    }
    static bool opens(connection_seal &with, bytes what)
    {
        packet p;
        return with.open_packet(what.data(), what.size(), header_of(what), p);
    }
    seal_device device;
    connection_seal a{device};
    connection_seal b{device};
};

} // namespace

TEST_CASE("keys are renewed when the peer has followed, and not before")
{
    two_seals with(4);
    const bytes early = with.sealed_by(with.a);
    for (int i = 0; i < 100; ++i)
        (void)with.sealed_by(with.a); // all are lost
    CHECK(with.a.epoch() == 1);
    const bytes late = with.sealed_by(with.a);
    CHECK(with.opens(with.b, late));
    CHECK(with.opens(with.b, early)); // was in flight when the epoch changed
    CHECK_FALSE(with.opens(with.b, early));
    CHECK_FALSE(with.opens(with.b, late));
    CHECK(with.b.epoch() == 0);
    CHECK(with.opens(with.a, with.sealed_by(with.b)));
    CHECK(with.b.epoch() == 1);
    CHECK(with.opens(with.b, with.sealed_by(with.a)));
    CHECK(with.a.epoch() == 2);
}

TEST_CASE("sides that do not mean the same connection, or direction, open nothing")
{
    two_seals same(100);
    const bytes own = same.sealed_by(same.a);
    CHECK_FALSE(same.opens(same.a, own)); // reflected
    CHECK(same.opens(same.b, own));
    two_seals other(100, 5);
    CHECK_FALSE(other.opens(other.b, other.sealed_by(other.a)));
    CHECK_FALSE(other.opens(other.b, own));
}

TEST_CASE("a child of the process that has the keys seals nothing, and its parent goes on")
{
    two_seals with(100);
    (void)with.sealed_by(with.a);
    const auto sealed_there = [&] {
        bytes out(sealed_overhead + base_size);
        const seal_offer offer;
        out_packet plain;
        sealed_handshake handshake;
        plain.begin();
        plain.add(out.data(), base_size);
        const bool of_connection = with.a.seal(out.data(), base_size, 1);
        const bool of_device =
            with.device.seal(plain, 1, 2, nullptr, seal_context(offer), handshake);
        return static_cast<int>(of_connection) + 2 * static_cast<int>(of_device);
    };
    CHECK(sealed_there() == 3);
    const pid_t forked = fork();
    if (forked == 0)
        _exit(sealed_there());
    int how = -1;
    REQUIRE(waitpid(forked, &how, 0) == forked);
    CHECK(how == 0);
    // As fork() does it, but none of what pthread_atfork() registered is called.
    const auto cloned = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (cloned == 0)
        _exit(sealed_there());
    REQUIRE(waitpid(cloned, &how, 0) == cloned);
    CHECK(how == 0);
    CHECK(with.opens(with.b, with.sealed_by(with.a)));
    CHECK(sealed_there() == 3);
}

TEST_CASE("everything is exchanged, over both networks and with both ciphers")
{
    for (const bool inside_process : {true, false})
        for (const bool aes : {true, false}) {
            CAPTURE(inside_process);
            CAPTURE(aes);
            inproc_network network;
            settings how = with_key(inside_process ? inside(network) : on_loopback());
            how.key.fast_aes = aes;
            sealed_pair with(how);
            exercise(with.a, with.b, 4);
            CHECK(with.a.counts().corrupt + with.b.counts().corrupt == 0);
            end_of(with);
        }
}

TEST_CASE("sides of which one has no AES agree on the other cipher")
{
    inproc_network network;
    settings how = with_key(inside(network));
    host here(how);
    how.key.fast_aes = false;
    host there(how);
    end a(here);
    end b(there);
    REQUIRE(establish(a, b));
    exercise(a, b, 2);
}

TEST_CASE("several threads, checksums and direct access are no matter")
{
    settings how = with_key(on_loopback());
    how.threads = 3;
    how.checksum = true;
    how.direct = true;
    SUBCASE("without rings") {}
    SUBCASE("with rings")
    {
        how.rings = true;
    }
    sealed_pair with(how);
    exercise(with.a, with.b, 8);
    CHECK(with.a.counts().corrupt + with.b.counts().corrupt == 0);
    end_of(with);
}

TEST_CASE("a bad network: everything arrives once")
{
    settings how = with_key(on_loopback());
    how.datagram = 1472;
    how.bad_network = {30, 30, 20, 0, 7};
    SUBCASE("that loses, reorders and duplicates") {}
    SUBCASE("that also inverts bits")
    {
        how.bad_network.corrupt = 30;
    }
    SUBCASE("while keys are renewed")
    {
        how.key.renew_packets = 50;
    }
    sealed_pair with(how);
    exercise(with.a, with.b, rounds(12));
    const auto counted = with.a.counts();
    if (how.bad_network.corrupt != 0)
        CHECK(counted.corrupt + with.b.counts().corrupt > 0);
    CHECK(counted.refused + counted.rules_broken == 0);
    end_of(with);
}

TEST_CASE("keys are renewed in both directions, under load and by time")
{
    inproc_network network;
    settings how = with_key(inside(network));
    SUBCASE("by packets")
    {
        how.key.renew_packets = 100;
    }
    SUBCASE("by time")
    {
        how.key.renew_ns = 1'000'000;
    }
    tap on(network);
    sealed_pair with(how);
    exercise(with.a, with.b, 40);
    std::set<std::tuple<std::uint16_t, bool>> seen; // epochs seen, by sender
    for (const captured &each : on.all())
        if (const sealed_header header = header_of(each.what); !header.handshake)
            seen.insert({each.from.port(), header.odd_epoch});
    CHECK(seen.size() == 4);
    CHECK(with.a.counts().corrupt + with.b.counts().corrupt == 0);
    end_of(with);
}

TEST_CASE("no key and nonce is used twice, whatever is sent again")
{
    inproc_network network;
    settings how = with_key(inside(network));
    how.bad_network = {50, 20, 0, 0, 3};
    how.key.renew_packets = 200;
    tap on(network);
    {
        sealed_pair with(how);
        exercise(with.a, with.b, 10);
        CHECK(with.a.resent() + with.b.resent() > 0);
        end_of(with);
    }
    std::set<std::pair<std::uint32_t, std::uint64_t>> numbers;
    std::set<bytes> salts;
    std::size_t packets = 0;
    for (const captured &each : on.all()) {
        const sealed_header header = header_of(each.what); // all are sealed
        if (header.handshake)
            CHECK(salts.insert(bytes(header.salt, header.salt + sizeof header.salt)).second);
        else
            CHECK(numbers.insert({header.to, header.number}).second);
        packets += header.handshake ? 0 : 1;
    }
    CHECK(packets > 100);
    CHECK(salts.size() >= 4); // request, retry, request, accept
}

TEST_CASE("neither payload nor private data can be read on the way")
{
    inproc_network network;
    tap on(network);
    host here(with_key(inside(network)));
    host there(with_key(inside(network)));
    end a(here);
    end b(there);
    const std::string asks = "private data of who asks";
    const std::string answers = "private data of who answers";
    const std::string payload = "payload for the peer alone";
    door at(there);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, asks.data(), asks.size()) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    CHECK(std::string(request->data, request->data + request->data_size) == asks);
    REQUIRE(b.pair.accept(*request, answers.data(), answers.size()) == queue_pair::start::begun);
    const auto event = a.next();
    REQUIRE(is(event, connection_event::established));
    CHECK(event->data == answers);
    std::memcpy(a.buffer.bytes.data(), payload.data(), payload.size());
    REQUIRE(a.write(0, payload.size(), b.buffer.remote(100, payload.size())));
    expect(a.sent(), work_status::success);
    CHECK(std::memcmp(b.buffer.bytes.data() + 100, payload.data(), payload.size()) == 0);
    CHECK(on.all().size() >= 5);
    for (const captured &each : on.all())
        for (const std::string &secret : {asks, answers, payload})
            CHECK_FALSE(contains(each.what, secret));
}

TEST_CASE("what is replayed changes nothing, during a connection and after it")
{
    inproc_network network;
    tap on(network);
    host here(with_key(inside(network)));
    host there(with_key(inside(network)));
    end a(here);
    end b(there);
    door at(there);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, "x", 1) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    REQUIRE(is(a.next(), connection_event::established));
    REQUIRE(is(b.next(), connection_event::established));
    a.buffer.fill(0, 5000, 1);
    for (int i = 0; i < 20; ++i) {
        REQUIRE(b.receive(0, 5000));
        REQUIRE(a.send(0, 5000));
        expect(a.sent(), work_status::success);
        expect(b.received(), work_status::success);
    }
    REQUIRE(a.fetch_add(6000, b.buffer.remote(8000, 8), 1));
    expect(a.sent(), work_status::success);
    wait_until_quiet(a, b);

    const bytes memory = b.buffer.bytes;
    const auto before = b.counts();
    const std::vector<captured> recorded = on.all();
    on.stop();
    REQUIRE(b.receive(0, 5000));
    for (const captured &each : recorded)
        on.send(each);
    CHECK(at.next(50ms) == nullptr); // no second request
    CHECK(b.received(50ms) == std::nullopt);
    CHECK(b.buffer.bytes == memory);
    CHECK(a.next(0ms) == std::nullopt);
    CHECK(b.next(0ms) == std::nullopt);
    CHECK(b.counts().duplicates == before.duplicates);

    REQUIRE(a.send(0, 5000)); // it still works
    expect(a.sent(), work_status::success);
    expect(b.received(), work_status::success);
    a.pair.disconnect(true);
    CHECK(is(a.next(), connection_event::disconnected));
    CHECK(is(b.next(), connection_event::disconnected));
    for (const captured &each : recorded)
        on.send(each);
    CHECK(at.next(50ms) == nullptr);
    CHECK(a.next(0ms) == std::nullopt);
    CHECK(b.next(0ms) == std::nullopt);
}

TEST_CASE("requests that are replayed when they were forgotten reach no consumer")
{
    inproc_network network;
    tap on(network);
    host here(with_key(inside(network)));
    host there(with_key(inside(network)));
    door at(there);
    {
        end a(here);
        REQUIRE(a.pair.connect(there.hca.settings().address, at.number, "x", 1) ==
                queue_pair::start::begun);
        inbound_request *const request = at.next();
        REQUIRE(request != nullptr);
        there.hca.listening.reject(*request, reject_code::consumer, nullptr, 0);
        REQUIRE(is(a.next(), connection_event::rejected));
    }
    const std::vector<captured> recorded = on.all();
    on.stop();
    const auto until = std::chrono::steady_clock::now() + 4s;
    bool again = false;
    while (!again && std::chrono::steady_clock::now() < until) {
        for (const captured &each : recorded)
            on.send(each);
        again = at.next(100ms) != nullptr;
    }
    CHECK_FALSE(again);
    CHECK(becomes_true([&] { return !there.hca.listening.remembers(); }));
}

namespace {

/// Sends variants of each captured datagram to `target`, each differing in one bit.
void send_altered(tap &by, const std::vector<captured> &recorded)
{
    std::mt19937 random(5);
    for (const captured &each : recorded)
        for (std::size_t i = 0; i < each.what.size() && i < 64; ++i) {
            captured altered = each;
            const std::size_t at = i < 60 ? i : random() % each.what.size();
            altered.what[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
            by.send(altered);
        }
}

} // namespace

TEST_CASE("altered and forged packets do not end a connection")
{
    inproc_network network;
    tap on(network);
    sealed_pair with(with_key(inside(network)));
    exercise(with.a, with.b, 1);
    wait_until_quiet(with.a, with.b);
    const std::vector<captured> recorded = on.all();
    on.stop();
    send_altered(on, recorded);
    // All that an attacker could know: ids, tags, numbers.
    const auto address = [](end &of) { return of.pair.shard->io().address(); };
    const struct {
        end &from, &to;
    } ways[] = {{with.a, with.b}, {with.b, with.a}};
    for (const auto &way : ways)
        for (const std::uint8_t version : {first_version, checked_version, sealed_version})
            for (unsigned kind = 1; kind <= 10; ++kind) {
                way.to.pair.enter();
                const peer_path &path = way.to.pair.connection().path();
                base_header base{static_cast<packet_kind>(kind), 0, path.id(), path.tag(),
                                 path.header(packet_kind::ack, 0).to};
                way.to.pair.leave();
                base.version = version;
                std::uint8_t body[close_size];
                out_packet out;
                out.begin();
                out.add(out.header, write_base(out.header, base));
                if (base.kind == packet_kind::close)
                    out.add(body, write_close(body, {}));
                complete(out, version);
                (void)network.deliver(address(way.from), address(way.to), out);
            }
    CHECK(with.a.next(50ms) == std::nullopt);
    CHECK(with.b.next(0ms) == std::nullopt);
    exercise(with.a, with.b, 1);
    end_of(with);
}

TEST_CASE("the network's word that a port is closed does not end a connection")
{
    inproc_network network;
    sealed_pair with(with_key(inside(network)));
    tap on(network);
    REQUIRE(with.b.receive(0, 100));
    REQUIRE(with.a.send(0, 100));
    expect(with.a.sent(), work_status::success);
    expect(with.b.received(), work_status::success);
    const std::vector<captured> recorded = on.all();
    on.stop();
    REQUIRE_FALSE(recorded.empty());
    for (const captured &each : recorded) {
        icmp_error error;
        error.to = each.to;
        error.why = send_result::refused;
        error.size = std::min(sizeof error.bytes, each.what.size());
        std::memcpy(error.bytes, each.what.data(), error.size);
        for (end *of : {&with.a, &with.b}) {
            of->pair.enter();
            base_header quoted; // right in every field that is known
            quoted.from = of->pair.connection().path().id();
            quoted.tag = of->pair.connection().path().header(packet_kind::data, 0).tag;
            of->pair.connection().on_icmp_error(error, quoted, osd::now_ns());
            of->pair.leave();
        }
    }
    CHECK(with.a.next(20ms) == std::nullopt);
    exercise(with.a, with.b, 1);
}

TEST_CASE("connecting to a closed port is refused, as without a key")
{
    settings how = with_key(on_loopback());
    how.connect_retry_ms = 100;
    host here(how);
    end a(here);
    REQUIRE(a.pair.connect(here.hca.settings().address, free_number(here), nullptr, 0) ==
            queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::refused));
}

TEST_CASE("a listener that is gone, one that rejects, and none behind the qualifier")
{
    inproc_network network;
    settings how = with_key(inside(network));
    host here(how);
    host there(how);
    door at(there);
    end a(here);
    end b(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    there.hca.listening.reject(*request, reject_code::consumer, "no", 2);
    const auto event = a.next();
    REQUIRE(is(event, connection_event::rejected));
    CHECK(event->data == "no");
    REQUIRE(b.pair.connect(there.hca.settings().address, at.number + 0x10000, nullptr, 0) ==
            queue_pair::start::begun);
    CHECK(is(b.next(), connection_event::refused));
}

TEST_CASE("an attempt that is given up: its accept fails")
{
    inproc_network network;
    settings how = with_key(inside(network));
    host here(how);
    host there(how);
    door at(there);
    end a(here);
    end b(there);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    a.pair.disconnect(false);
    std::this_thread::sleep_for(20ms); // the listener gets to know
    REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(b.next(), connection_event::accept_failed));
}

TEST_CASE("keys that differ, or one side without: never connected")
{
    inproc_network network;
    const settings plain = inside(network);
    settings ours = plain;
    settings theirs = plain;
    bool refused = false;
    SUBCASE("another key")
    {
        ours = with_key(plain);
        theirs = with_key(plain, other_key);
    }
    SUBCASE("only the listener has one")
    {
        theirs = with_key(plain);
        refused = true;
    }
    SUBCASE("only the listener has one, and there are checksums")
    {
        ours.checksum = true;
        theirs = with_key(plain);
        refused = true;
    }
    SUBCASE("only who connects has one")
    {
        ours = with_key(plain);
    }
    const int wants_key = troubles[static_cast<int>(key_trouble::wants_key)];
    const int other = troubles[static_cast<int>(key_trouble::other_key)];
    host here(ours);
    host there(theirs);
    door at(there);
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    CHECK(becomes_true([&] { return troubles[static_cast<int>(key_trouble::other_key)] > other; }));
    CHECK(at.next(300ms) == nullptr);
    CHECK_FALSE(there.hca.listening.remembers());
    if (refused) {
        CHECK(is(a.next(), connection_event::refused));
        CHECK(troubles[static_cast<int>(key_trouble::wants_key)] == wants_key + 1);
    } else {
        CHECK(a.next(0ms) == std::nullopt);
        a.pair.disconnect(false); // ends it as the consumer does after its time limit
    }
}

TEST_CASE("a stranger gets no answer but what is spoken here, which is shorter than its question")
{
    inproc_network network;
    settings strange = with_key(inside(network), other_key);
    host there(with_key(inside(network)));
    door at(there);
    bytes sealed;
    {
        tap on(network);
        host here(strange);
        end a(here);
        REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
                queue_pair::start::begun);
        CHECK(at.next(50ms) == nullptr);
        REQUIRE(becomes_true([&] { return !on.all().empty(); }));
        for (const captured &each : on.all())
            CHECK(each.to.port() == at.number); // nothing comes back
        sealed = on.all().front().what;
        a.pair.disconnect(false);
    }
    host here(inside(network));
    tap on(network);
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::refused));
    std::size_t asked = 0, answered = 0; // more than once on a busy machine
    for (const captured &each : on.all())
        (each.to.port() == at.number ? asked : answered) += each.what.size();
    CHECK(answered > 0);
    CHECK(answered < asked);
}

TEST_CASE("forged answers do not end an attempt")
{
    inproc_network network;
    host here(with_key(inside(network)));
    host there(with_key(inside(network)));
    door at(there);
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    inbound_request *const request = at.next();
    REQUIRE(request != nullptr);
    for (const std::uint8_t version : {first_version, checked_version, sealed_version})
        for (const packet_kind kind : {packet_kind::reject, packet_kind::accept, packet_kind::retry,
                                       packet_kind::reset, packet_kind::close}) {
            const handshake &hello = request->hello; // an attacker does not know the tag
            const base_header base{kind, 0, hello.id, hello.tag, 1, 0, 0, 0, version};
            std::uint8_t body[accept_size];
            out_packet out;
            out.begin();
            if (kind == packet_kind::retry)
                out.add(out.header, write_retry(out.header, {kind, 0, hello.id, hello.tag, 1, 1,
                                                             set_of(first_version), 0}));
            else
                out.add(out.header, write_base(out.header, base));
            if (kind == packet_kind::reject)
                out.add(body, write_reject(body, reject_code::no_listener, nullptr, 0));
            else if (kind == packet_kind::accept)
                out.add(body, write_accept(body, {0, 1, 2, 3, 1472, 1, 1}, nullptr, 0));
            else if (kind == packet_kind::close)
                out.add(body, write_close(body, {}));
            complete(out, version);
            net_address listener = there.hca.settings().address;
            listener.set_port(static_cast<std::uint16_t>(at.number));
            CHECK(network.deliver(listener, a.pair.shard->io().address(), out));
        }
    CHECK(a.next(50ms) == std::nullopt);
    end b(there);
    REQUIRE(b.pair.accept(*request, nullptr, 0) == queue_pair::start::begun);
    CHECK(is(a.next(), connection_event::established));
    CHECK(is(b.next(), connection_event::established));
}

TEST_CASE("a request that was diverted to another listener is not served there")
{
    inproc_network network;
    tap on(network);
    settings how = with_key(inside(network));
    host here(how);
    host there(how);
    door at(there);
    end a(here);
    REQUIRE(a.pair.connect(there.hca.settings().address, at.number, nullptr, 0) ==
            queue_pair::start::begun);
    REQUIRE(at.next() != nullptr);
    const std::vector<captured> recorded = on.all();
    on.stop();
    host elsewhere(how);
    door other(elsewhere);
    for (captured each : recorded) {
        each.to.set_port(static_cast<std::uint16_t>(other.number));
        on.send(each);
    }
    CHECK(other.next(50ms) == nullptr);
    CHECK(a.next(0ms) == std::nullopt); // nobody has refused the request in the listener's name
    a.pair.disconnect(false);
}

TEST_CASE("a key without its library: the device does not open")
{
    settings how = with_key(on_loopback());
    how.key.library = "libcrypto-which-is-not-there.so";
    device hca;
    CHECK(hca.open(how, upcall_table) == ENOSYS);
    hca.close();
}

TEST_SUITE_END();

} // namespace seal_suite
