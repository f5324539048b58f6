// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ends of programs: memory is freed under posted operations, and connections fail or are closed
// while much is outstanding.
#include "harness/support.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>

namespace conformance {
namespace {

constexpr DAT_CLOSE_FLAGS both_ways[] = {DAT_CLOSE_GRACEFUL_FLAG, DAT_CLOSE_ABRUPT_FLAG};

bool is_about_connection(const DAT_EVENT &event)
{
    return event.event_number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
           event.event_number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

/// The next event about the connection, past completions.
DAT_EVENT next_end(DAT_EVD_HANDLE evd, const place &where = place::current())
{
    DAT_EVENT event = next_event(evd, "end of the connection", where);
    while (!is_about_connection(event))
        event = next_event(evd, "end of the connection", where);
    return event;
}

/// No further event about the connection comes.
void expect_no_further_end(DAT_EVD_HANDLE evd)
{
    const auto rest = drain(evd);
    CHECK(std::none_of(rest.begin(), rest.end(), is_about_connection));
}

/// An endpoint whose completions and connection events are all in one EVD.
void merge(test_endpoint &own)
{
    const DAT_EVD_HANDLE merged = make_evd(own.ia, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    MUST(own.free_ep());
    own.recv_evd = own.request_evd = own.connect_evd = merged;
    MUST(dat_ep_create(own.ia.handle, own.pz, merged, merged, merged, nullptr, &own.ep));
}

bool can_merge(const adapter &ia)
{
    return ia.provider.evd_stream_merging_supported[2][3] != DAT_FALSE;
}

/// A message that is too long for its receive, so that the connection fails.
void fail(test_endpoint &sender, test_endpoint &receiver)
{
    MUST(receiver.recv(0, 64, 1));
    MUST(sender.send(0, 100, 2));
}

/// Waits for a while for the failure to be seen, which a device may show by a completion only.
void await_failure(test_endpoint &failing, bool polls)
{
    if (polls)
        CHECK(next_event(failing.recv_evd, DAT_DTO_COMPLETION_EVENT)
                  .event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS);
    else
        (void)becomes_true([&] { return failing.state() == DAT_EP_STATE_DISCONNECTED; }, a_while);
}

endpoint_options deep_ends(adapter &ia, DAT_EP_ATTR &attr)
{
    const test_endpoint usual(ia);
    attr = ep_param(usual.ep).ep_attr;
    attr.max_request_dtos = std::min<DAT_COUNT>(64, ia.attr.max_dto_per_ep);
    endpoint_options options;
    options.attr = &attr;
    options.bytes = 256 * 1024;
    return options;
}

/// Whether all that a receive was given is as it was.
void expect_untouched(const region &gone, const std::vector<std::uint8_t> &before)
{
    CHECK(gone.copy() == before);
}

void expect_refused_receive(const DAT_DTO_COMPLETION_EVENT_DATA &done, std::uint64_t cookie)
{
    CHECK(done.user_cookie.as_64 == cookie);
    CHECK(done.status != DAT_DTO_SUCCESS);
    if (the_settings().promised("local_protection"))
        CHECK(done.status == DAT_DTO_ERR_LOCAL_PROTECTION);
}

/// Spins until a message has come as far as this byte, or for a second.
void await_byte(const region &into, std::size_t offset, std::uint8_t value)
{
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const volatile std::uint8_t &byte = into.bytes[offset];
    while (byte != value && std::chrono::steady_clock::now() < until) {
    }
}

/// One byte of each page, the last one first: a copy of all would take as long as the message.
std::vector<std::uint8_t> sample_of(const region &memory)
{
    constexpr std::size_t page = 4096;
    std::vector<std::uint8_t> sample(memory.bytes.size() / page);
    for (std::size_t i = sample.size(); i != 0; --i)
        sample[i - 1] = memory.bytes[i * page - 1];
    return sample;
}

DAT_RETURN recv_into(test_endpoint &own, const DAT_LMR_TRIPLET &where, std::uint64_t cookie)
{
    DAT_LMR_TRIPLET segment = where;
    return dat_ep_post_recv(own.ep, 1, &segment, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

constexpr std::uint8_t as_posted = 0x11;   ///< fills memory that requests use
constexpr std::uint8_t after_free = 0xdd;  ///< overwrites that memory after its free
constexpr std::uint8_t not_written = 0x5a; ///< fills memory that requests are to write

DAT_RETURN send_from(test_endpoint &own, DAT_LMR_TRIPLET from, std::uint64_t cookie)
{
    return dat_ep_post_send(own.ep, 1, &from, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

/// Two connected endpoints. A message without a receive, and a request behind it that uses memory
/// of the sender, which is freed then: the request is held up until let_go().
struct held_up {
    enum { message = 1, held = 2 };

    held_up(adapter &ia, std::size_t size) : pair(ia, options(size)), gone(ia, by.pz, size)
    {
        gone.set_all(as_posted);
        to.memory.set_all(not_written);
        MUST(by.send(0, 64, message));
    }
    /// The consumer uses the memory for something else.
    void free_memory()
    {
        gone.free();
        gone.set_all(after_free);
    }
    /// Returns how the request behind the message ends.
    DAT_DTO_COMPLETION_EVENT_DATA let_go()
    {
        // A transport without flow control has ended the connection: receives come back flushed.
        (void)to.recv(to.memory.bytes.size() - 64, 64, message);
        CHECK(next_dto(by.request_evd).user_cookie.as_64 == message);
        const auto done = next_dto(by.request_evd);
        CHECK(done.user_cookie.as_64 == held);
        CHECK(stays_empty(by.request_evd, milliseconds(1)));
        return done;
    }
    /// The request has failed because of its memory, and ends the connection.
    void expect_lost(const DAT_DTO_COMPLETION_EVENT_DATA &done)
    {
        CHECK(done.status != DAT_DTO_SUCCESS);
        if (the_settings().promised("local_protection"))
            CHECK(done.status == DAT_DTO_ERR_LOCAL_PROTECTION);
        expect_broken(by, to, done.status == DAT_DTO_ERR_LOCAL_PROTECTION);
    }
    bool peer_has_seen(std::uint8_t value) const
    {
        const std::vector<std::uint8_t> there = to.memory.copy();
        return std::find(there.begin(), there.end(), value) != there.end();
    }

    static endpoint_options options(std::size_t size)
    {
        endpoint_options roomy;
        roomy.bytes = size + 64;
        return roomy;
    }

    connected_pair pair;
    test_endpoint &by = pair.active;
    test_endpoint &to = pair.passive;
    region gone;
};

/// Sizes of messages: within one packet, in several, and more than a socket or a path holds.
std::vector<std::size_t> sizes_to_hold_up(const adapter &ia)
{
    constexpr std::size_t much = 16 * 1024 * 1024;
    return {64, 30000, std::min<std::size_t>(much, ia.attr.max_message_size)};
}

} // namespace

TEST_CASE("CONN-33: a disconnect is answered by DISCONNECTED, also if the connection has failed" *
          hint("leave BROKEN as the only event: programs that wait for DISCONNECTED never end"))
{
    adapter ia;
    for (bool merged : {false, true})
        for (bool polls : {false, true})
            for (DAT_CLOSE_FLAGS how : both_ways) {
                CAPTURE(merged);
                CAPTURE(polls);
                CAPTURE(how);
                if (merged && !can_merge(ia))
                    continue;
                test_endpoint one(ia);
                test_endpoint other(ia);
                for (test_endpoint *side : {&one, &other})
                    if (merged)
                        merge(*side);
                establish(one, other);
                fail(one, other);
                await_failure(other, polls);
                CHECK(same_code(one.disconnect(how), DAT_SUCCESS));
                CHECK(same_code(other.disconnect(how), DAT_SUCCESS));
                for (test_endpoint *side : {&one, &other}) {
                    const DAT_EVENT end = next_end(side->connect_evd);
                    CHECK(same_event(end.event_number, DAT_CONNECTION_EVENT_DISCONNECTED));
                    CHECK(end.event_data.connect_event_data.ep_handle == side->ep);
                    CHECK(side->state() == DAT_EP_STATE_DISCONNECTED);
                    expect_no_further_end(side->connect_evd);
                }
            }
}

TEST_CASE("CONN-34: a disconnect after the end of the connection was taken brings no other" *
          hint("answer each disconnect with an event, or refuse it"))
{
    adapter ia;
    for (DAT_CLOSE_FLAGS how : both_ways) {
        CAPTURE(how);
        connected_pair pair(ia);
        fail(pair.active, pair.passive);
        (void)next_dto(pair.active.request_evd);
        await_failure(pair.passive, true);
        CHECK(same_event(next_end(pair.passive.connect_evd).event_number,
                         DAT_CONNECTION_EVENT_BROKEN));
        CHECK(ends_connection(next_end(pair.active.connect_evd).event_number));
        for (test_endpoint *side : {&pair.active, &pair.passive}) {
            CHECK(same_code(side->disconnect(how), DAT_SUCCESS));
            CHECK(stays_empty(side->connect_evd));
        }
    }
}

TEST_CASE("CONN-35: a disconnect with much outstanding is answered by DISCONNECTED" *
          hint("report what the disconnect has cut off as a failure of the connection"))
{
    adapter ia;
    constexpr int rounds = 4;
    constexpr std::size_t size = 128 * 1024;
    DAT_EP_ATTR attr{};
    const endpoint_options deep = deep_ends(ia, attr);
    for (int round = 0; round < rounds; ++round)
        for (DAT_CLOSE_FLAGS how : both_ways)
            for (bool receiver : {false, true}) {
                CAPTURE(round);
                CAPTURE(how);
                CAPTURE(receiver); // it disconnects, whom the others write to
                connected_pair pair(ia, deep);
                const auto number = static_cast<std::uint64_t>(attr.max_request_dtos) * 15 / 16;
                const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, size);
                for (std::uint64_t i = 0; i < number; ++i)
                    MUST(pair.active.write(0, size, there, i));
                test_endpoint &closing = receiver ? pair.passive : pair.active;
                test_endpoint &peer = receiver ? pair.active : pair.passive;
                CHECK(same_code(closing.disconnect(how), DAT_SUCCESS));
                for (std::uint64_t i = 0; i < number; ++i)
                    CHECK(poll_dto(pair.active.request_evd).user_cookie.as_64 == i);
                CHECK(same_event(next_end(closing.connect_evd).event_number,
                                 DAT_CONNECTION_EVENT_DISCONNECTED));
                CHECK(ends_connection(next_end(peer.connect_evd).event_number));
                for (test_endpoint *side : {&closing, &peer})
                    CHECK(stays_empty(side->connect_evd, milliseconds(5)));
            }
}

TEST_CASE("MEM-33: nothing is received into memory that was freed since the receive was posted" *
          hint("look at the local context when a receive is posted, and not when a message comes"))
{
    adapter ia;
    for (bool early : {false, true})
        for (std::size_t size : {std::size_t{64}, std::size_t{30000}}) {
            CAPTURE(early); // memory is freed before the connection
            CAPTURE(size);
            test_endpoint from(ia);
            test_endpoint to(ia);
            region gone(ia, to.pz, size);
            gone.set_all(0xee);
            const std::vector<std::uint8_t> before = gone.copy();
            if (!early)
                establish(from, to);
            MUST(recv_into(to, gone.local(0, size), 5));
            gone.free();
            if (early)
                establish(from, to);
            MUST(from.send(0, size, 6));
            expect_refused_receive(next_dto(to.recv_evd), 5);
            (void)next_dto(from.request_evd);
            expect_broken(to, from, true);
            expect_untouched(gone, before);
        }
}

TEST_CASE("MEM-34: a receive whose memory was freed keeps its place among the others" *
          hint("take it out of the queue: the message for it goes into the next, or it never "
               "completes"))
{
    adapter ia;
    constexpr std::size_t size = 64;
    for (bool arrives : {false, true}) {
        CAPTURE(arrives);
        connected_pair pair(ia);
        test_endpoint &to = pair.passive;
        region gone(ia, to.pz, 3 * size);
        region used(ia, to.pz, size);
        gone.set_all(0xee);
        const std::vector<std::uint8_t> before = gone.copy();
        DAT_LMR_TRIPLET parts[] = {to.memory.local(4096, size), gone.local(0, size)};
        MUST(recv_into(to, used.local(0, size), 0));
        MUST(to.recv(0, size, 1));
        MUST(dat_ep_post_recv(to.ep, 2, parts, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG));
        MUST(to.recv(2 * size, size, 3));
        MUST(recv_into(to, gone.local(size, size), 4));
        pair.active.memory.fill(0, 2 * size, 7);
        MUST(pair.active.send(0, size, 0));
        CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
        used.free(); // its receive has completed
        gone.free();
        MUST(pair.active.send(0, size, 1));
        const auto second = next_dto(to.recv_evd);
        CHECK(second.status == DAT_DTO_SUCCESS);
        CHECK(second.user_cookie.as_64 == 1);
        CHECK(to.memory.holds(0, size, 7));
        if (arrives) {
            MUST(pair.active.send(0, 2 * size, 2));
            expect_refused_receive(next_dto(to.recv_evd), 2);
            expect_broken(to, pair.active, true);
        } else {
            MUST(to.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
            expect_disconnected(to, pair.active);
        }
        for (std::uint64_t i = arrives ? 3 : 2; i <= 4; ++i) {
            const auto flushed = next_dto(to.recv_evd);
            CHECK(flushed.status == DAT_DTO_ERR_FLUSHED);
            CHECK(flushed.user_cookie.as_64 == i);
        }
        CHECK(stays_empty(to.recv_evd, milliseconds(5)));
        expect_untouched(gone, before);
    }
}

TEST_CASE("MEM-35: a message that is coming in writes nothing more once its memory was freed" *
          hint("let what has begun go on after dat_lmr_free has returned"))
{
    adapter ia;
    adapter other;
    constexpr std::size_t rounds = 10;
    constexpr std::uint8_t sent = 7;
    const std::size_t size = std::min<std::size_t>(16 * 1024 * 1024, ia.attr.max_message_size);
    endpoint_options roomy;
    roomy.bytes = size;
    for (std::size_t round = 0; round < rounds; ++round) {
        CAPTURE(round);
        connected_pair pair(other, ia, roomy);
        region gone(ia, pair.passive.pz, size);
        pair.active.memory.set_all(sent);
        MUST(recv_into(pair.passive, gone.local(0, size), 5));
        MUST(pair.active.send(0, size, 6));
        await_byte(gone, size * round / rounds / 2, sent);
        gone.free();
        const std::vector<std::uint8_t> after = sample_of(gone);
        const auto done = next_dto(pair.passive.recv_evd);
        CHECK(done.user_cookie.as_64 == 5);
        (void)next_dto(pair.active.request_evd);
        if (done.status == DAT_DTO_SUCCESS) {
            CHECK(std::count(after.begin(), after.end(), sent) == std::ssize(after));
        } else {
            expect_broken(pair.passive, pair.active, true);
        }
        CHECK(sample_of(gone) == after);
    }
}

TEST_CASE("MEM-36: a send takes nothing from its memory that came there after it was freed" *
          hint("read the memory of a request that is held up, or of its repetition, without a look "
               "at its context"))
{
    adapter ia;
    for (std::size_t size : sizes_to_hold_up(ia)) {
        CAPTURE(size);
        held_up both(ia, size);
        MUST(send_from(both.by, both.gone.local(0, size), held_up::held));
        both.free_memory();
        MUST(both.to.recv(size, 64, held_up::message));
        (void)both.to.recv(0, size, held_up::held);
        CHECK(next_dto(both.by.request_evd).user_cookie.as_64 == held_up::message);
        const auto sent = next_dto(both.by.request_evd);
        CHECK(sent.user_cookie.as_64 == held_up::held);
        CHECK(next_dto(both.to.recv_evd).user_cookie.as_64 == held_up::message);
        if (sent.status != DAT_DTO_SUCCESS) {
            both.expect_lost(sent);
        } else { // it had left before its memory was freed
            const auto arrived = next_dto(both.to.recv_evd);
            CHECK((arrived.status == DAT_DTO_SUCCESS || !acknowledged()));
            CHECK((arrived.transfered_length == size || arrived.status != DAT_DTO_SUCCESS));
        }
        CHECK_FALSE(both.peer_has_seen(after_free));
    }
}

TEST_CASE("MEM-37: an RDMA read writes nothing into memory that was freed since it was posted" *
          hint("look at the context of the sink when the read is posted, and not when data come"))
{
    adapter ia;
    for (std::size_t size : sizes_to_hold_up(ia)) {
        CAPTURE(size);
        held_up both(ia, size);
        both.to.memory.set_all(as_posted);
        DAT_LMR_TRIPLET sink = both.gone.local(0, size);
        const DAT_RMR_TRIPLET from = both.to.memory.remote(0, size);
        MUST(dat_ep_post_rdma_read(both.by.ep, 1, &sink, cookie_of(held_up::held), &from,
                                   DAT_COMPLETION_DEFAULT_FLAG));
        both.free_memory();
        both.expect_lost(both.let_go());
        CHECK(std::count(both.gone.bytes.begin(), both.gone.bytes.end(), after_free) ==
              std::ssize(both.gone.bytes));
    }
}

TEST_CASE("MEM-38: an RDMA write takes nothing from its memory that came there after it was freed" *
          hint("read the memory of a request that is held up, or of its repetition, without a look "
               "at its context"))
{
    adapter ia;
    for (std::size_t size : sizes_to_hold_up(ia)) {
        CAPTURE(size);
        held_up both(ia, size);
        DAT_LMR_TRIPLET source = both.gone.local(0, size);
        const DAT_RMR_TRIPLET there = both.to.memory.remote(0, size);
        MUST(dat_ep_post_rdma_write(both.by.ep, 1, &source, cookie_of(held_up::held), &there,
                                    DAT_COMPLETION_DEFAULT_FLAG));
        both.free_memory();
        const auto done = both.let_go();
        if (done.status != DAT_DTO_SUCCESS) {
            both.expect_lost(done);
        } else if (!acknowledged()) { // the connection may have ended before the write came
            (void)becomes_true([&] { return both.to.memory.bytes[size - 1] == as_posted; },
                               a_while);
        } else { // it had left before its memory was freed
            CHECK(becomes_true([&] { return both.to.memory.bytes[size - 1] == as_posted; }));
            CHECK(std::count(both.to.memory.bytes.begin(), both.to.memory.bytes.end(), as_posted) ==
                  static_cast<std::ptrdiff_t>(size));
        }
        CHECK_FALSE(both.peer_has_seen(after_free));
    }
}

TEST_CASE("MEM-39: a write that is held up reaches no region that its owner has freed" *
          hint("look at the context when the request is posted, or when its first packet comes"))
{
    adapter ia;
    for (bool reading : {false, true}) {
        CAPTURE(reading);
        constexpr std::size_t size = 30000;
        held_up both(ia, size);
        region lent(ia, both.to.pz, size);
        lent.set_all(not_written);
        const DAT_RMR_TRIPLET there = lent.remote(0, size);
        MUST(reading ? both.by.read(0, size, there, held_up::held)
                     : both.by.write(0, size, there, held_up::held));
        lent.free();
        lent.set_all(after_free);
        const auto done = both.let_go();
        CHECK((done.status != DAT_DTO_SUCCESS || (!reading && !acknowledged())));
        CHECK(ends_connection(next_end(both.by.connect_evd).event_number));
        CHECK(ends_connection(next_end(both.to.connect_evd).event_number));
        CHECK(std::count(lent.bytes.begin(), lent.bytes.end(), after_free) ==
              std::ssize(lent.bytes));
        CHECK(std::find(both.by.memory.bytes.begin(), both.by.memory.bytes.end(), after_free) ==
              both.by.memory.bytes.end());
    }
}

TEST_CASE("MEM-40: a zone outlives the endpoint, however its memory was freed and its connection "
          "ended" *
          hint("free a zone below an endpoint whose connection has ended"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_PZ_IN_USE);
    for (bool breaks : {false, true}) {
        CAPTURE(breaks);
        const DAT_PZ_HANDLE zone = make_pz(ia);
        test_endpoint peer(ia);
        test_endpoint own(ia);
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        MUST(own.free_ep());
        MUST(dat_ep_create(ia.handle, zone, own.recv_evd, own.request_evd, own.connect_evd, nullptr,
                           &ep));
        own.ep = ep;
        establish(peer, own);
        region gone(ia, zone, 64);
        MUST(recv_into(own, gone.local(0, 64), 5));
        CHECK(same_code(dat_pz_free(zone), in_use));
        gone.free();
        CHECK(same_code(dat_pz_free(zone), in_use)); // the endpoint alone uses it
        if (breaks) {
            MUST(peer.send(0, 64, 6));
            expect_refused_receive(next_dto(own.recv_evd), 5);
            (void)next_end(own.connect_evd);
        } else {
            MUST(own.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
            expect_disconnected(own, peer);
            CHECK(next_dto(own.recv_evd).status == DAT_DTO_ERR_FLUSHED);
        }
        CHECK(same_code(dat_pz_free(zone), in_use));
        CHECK(own.state() == DAT_EP_STATE_DISCONNECTED);
        MUST(own.free_ep());
        CHECK(same_code(dat_pz_free(zone), success));
    }
}

// ------------------------------------------------------------------------- a device that fails

namespace {

/// Makes the device fail, and tells how late waits ended after that. The measure is the time that
/// programs take to start at this moment, as the command does that makes the device fail: a busy
/// machine is given more.
class failing_device {
public:
    using clock = std::filesystem::file_time_type::clock;

    failing_device() : told_(std::filesystem::temp_directory_path() / "dapl-device-failed")
    {
        std::filesystem::remove(told_);
        starts_ = start_programs();
    }
    failing_device(const failing_device &) = delete;
    failing_device &operator=(const failing_device &) = delete;
    ~failing_device() { std::filesystem::remove(told_); }

    /// The command may last as long as the adapter is open.
    void fail()
    {
        const std::string command =
            "{ { " + the_settings().fail_device + "\n}; : > '" + told_.string() + "'; } &";
        REQUIRE(std::system(command.c_str()) == 0);
    }
    /// Notes that a wait has ended. Any thread.
    void wait_ended()
    {
        const std::lock_guard hold(lock_);
        last_ = clock::now();
        first_ = first_ == clock::time_point{} ? last_ : first_;
    }
    /// All waits have ended.
    void expect_timely_ends()
    {
        constexpr int most = 50;
        clock::time_point known = first_;
        std::error_code none;
        if (const auto ended = std::filesystem::last_write_time(told_, none); !none)
            known = std::min(known, ended);
        const auto measure = (starts_ + start_programs()) / (2 * programs);
        const double late =
            static_cast<double>((last_ - known).count()) / static_cast<double>(measure.count());
        CAPTURE(late);
        CHECK(late < most);
    }

private:
    static constexpr int programs = 5;
    static clock::duration start_programs()
    {
        const auto begun = clock::now();
        for (int i = 0; i < programs; ++i)
            REQUIRE(std::system(":") == 0);
        return clock::now() - begun;
    }

    const std::filesystem::path told_; ///< file that is there once the command has ended
    clock::duration starts_{};
    std::mutex lock_;
    clock::time_point first_{};
    clock::time_point last_{};
};

/// Writes to the peer all the time until the connection has ended; each write comes back once.
void write_until_the_end(connected_pair &pair, failing_device &device)
{
    constexpr std::size_t most = 16;
    std::uint64_t posted = 0;
    std::multiset<std::uint64_t> seen;
    const auto take = [&] {
        DAT_EVENT event{};
        while (dat_evd_dequeue(pair.active.request_evd, &event) == DAT_SUCCESS)
            seen.insert(event.event_data.dto_completion_event_data.user_cookie.as_64);
    };
    CHECK(becomes_true([&] {
        if (posted - seen.size() < most &&
            pair.active.write(0, 4096, pair.passive.memory.remote(0, 4096), posted) == DAT_SUCCESS)
            ++posted;
        take();
        return pair.active.state() == DAT_EP_STATE_DISCONNECTED;
    }));
    CHECK(becomes_true([&] {
        take();
        return seen.size() >= posted;
    }));
    device.wait_ended();
    CHECK(stays_empty(pair.active.request_evd));
    CHECK(seen.size() == posted);
    CHECK(std::set<std::uint64_t>(seen.begin(), seen.end()).size() == posted);
}

/// The receive with this cookie comes back, and with nothing in it.
void expect_flushed(DAT_EVD_HANDLE evd, std::uint64_t cookie)
{
    const DAT_DTO_COMPLETION_EVENT_DATA done = next_dto(evd);
    CHECK(done.status == DAT_DTO_ERR_FLUSHED);
    CHECK(done.user_cookie.as_64 == cookie);
}

} // namespace

TEST_CASE("LIFE-28: a device that fails breaks connections, flushes what is posted, ends waits" *
          hint("expect the device to flush and to tell the peers, which it does no more") *
          needs("alone"))
{
    if (the_settings().fail_device.empty())
        NOT_CLAIMED("a device that fails; see --fail-device");
    failing_device device;
    adapter ia;
    adapter other;
    connected_pair busy(ia, other);
    connected_pair quiet(other, ia);
    endpoint_options notified;
    notified.cno = make_cno(ia);
    test_endpoint calling(ia, notified);
    test_endpoint called(other);
    establish(calling, called);
    test_endpoint idle(ia);
    listener at(ia);
    for (std::uint64_t i = 0; i < 3; ++i) {
        MUST(quiet.passive.recv(i * 64, 64, i));
        MUST(calling.recv(i * 64, 64, i));
    }
    helper_thread at_evd([&] {
        DAT_EVENT first{};
        DAT_COUNT more = 0;
        CHECK(dat_evd_wait(quiet.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &first, &more) ==
              DAT_SUCCESS);
        device.wait_ended();
        CHECK(first.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    });
    helper_thread at_cno([&] { // which the connect may have triggered
        DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
        DAT_EVENT first{};
        do
            CHECK(dat_cno_wait(notified.cno, DAT_TIMEOUT_INFINITE, &which) == DAT_SUCCESS);
        while (dat_evd_dequeue(calling.recv_evd, &first) != DAT_SUCCESS);
        device.wait_ended();
        CHECK(first.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    });
    at_evd.await_asleep();
    at_cno.await_asleep();

    device.fail();
    write_until_the_end(busy, device);
    for (test_endpoint *side :
         {&busy.active, &busy.passive, &quiet.active, &quiet.passive, &calling, &called}) {
        next_connection(side->connect_evd, DAT_CONNECTION_EVENT_BROKEN);
        CHECK(stays_empty(side->connect_evd, milliseconds(1)));
    }
    at_evd.join();
    at_cno.join();
    device.expect_timely_ends();
    for (std::uint64_t i = 1; i < 3; ++i) {
        expect_flushed(calling.recv_evd, i);
        expect_flushed(quiet.passive.recv_evd, i);
    }
    for (adapter *each : {&ia, &other})
        CHECK(same_event(next_event(each->async).event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC));

    expect_rest();

    // Calls answer.
    if (idle.connect(ia.address(), at.qualifier) == DAT_SUCCESS)
        CHECK(next_event(idle.connect_evd).event_number != DAT_CONNECTION_EVENT_ESTABLISHED);
    (void)dat_ep_reset(busy.active.ep);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    (void)dat_evd_create(ia.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd);
    at.free();
    CHECK(same_code(other.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
}

} // namespace conformance
