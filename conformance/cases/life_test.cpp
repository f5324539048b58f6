// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Coming and going: teardown while things fly, reopening, other processes, many endpoints.
#include "harness/support.hpp"

#include "dat_names.hpp"
#include "harness/holdings.hpp"
#include "harness/peer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace conformance {
namespace {

// ------------------------------------------------------------------------- what a process holds

/// A whole life: open, connect, move data, close, abruptly or after everything was freed.
void live_once(bool graceful)
{
    adapter ia;
    {
        connected_pair pair(ia);
        move_data(pair.active, pair.passive);
        if (!graceful) {
            MUST(ia.close(DAT_CLOSE_ABRUPT_FLAG));
            return;
        }
    }
    MUST(ia.close(DAT_CLOSE_GRACEFUL_FLAG));
}

// ----------------------------------------------------------------------------------------- peers

/// Accepts one connection and keeps receives posted until the test ends it.
int obedient(peer_link &link)
{
    adapter ia;
    test_endpoint own(ia, {.bytes = 1 << 20});
    listener at(ia);
    for (std::uint64_t i = 0; i < 8; ++i)
        MUST(own.recv(i * 64, 64, i));
    link.send(offer_of(ia, at.qualifier, &own.memory));
    MUST(dat_cr_accept(at.next_request(), own.ep, 0, nullptr));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    link.send(true);
    (void)link.receive<char>();
    return 0;
}
const role obedient_role("obedient", obedient);

/// Listens and never answers.
int mute(peer_link &link)
{
    adapter ia;
    listener at(ia);
    link.send(offer_of(ia, at.qualifier));
    (void)at.next_request();
    link.send(true);
    (void)link.receive<char>();
    return 0;
}
const role mute_role("mute", mute);

/// Connects to the address that the test sends.
int caller(peer_link &link)
{
    adapter ia;
    test_endpoint own(ia);
    offer there = link.receive<offer>();
    MUST(own.connect(there.to(), there.qualifier));
    link.send(true);
    (void)link.receive<char>();
    return 0;
}
const role caller_role("caller", caller);

/// Connects, and writes and sends without end.
int flood(peer_link &link)
{
    adapter ia;
    test_endpoint own(ia, {.bytes = 1 << 20});
    offer there = link.receive<offer>();
    MUST(own.connect(there.to(), there.qualifier));
    link.send(true);
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    link.send(true);
    for (;;) {
        there.memory.segment_length = 1 << 19;
        MUST(own.write(0, 1 << 19, there.memory));
        if (next_dto(own.request_evd).status != DAT_DTO_SUCCESS)
            return 0;
    }
}
const role flood_role("flood", flood);

/// Tells how many descriptors it was started with, and stays.
int heir(peer_link &link)
{
    link.send(what_we_hold().descriptors);
    (void)link.receive<char>();
    return 0;
}
const role heir_role("heir", heir);

/// Connects, and exits with everything open: receives posted, a write outstanding, threads that
/// wait.
int leaver(peer_link &link)
{
    auto &ia = *new adapter;
    auto &own = *new test_endpoint(ia, {.bytes = 1 << 20});
    offer there = link.receive<offer>();
    MUST(own.connect(there.to(), there.qualifier));
    link.send(true);
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(own.recv(0, 64));
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = own.recv_evd;
    const auto &in_evd = *new helper_thread([evd] {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        (void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
    });
    const auto &in_cno = *new helper_thread([cno] {
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        (void)dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &by);
    });
    in_evd.await_asleep();
    in_cno.await_asleep();
    MUST(own.write(0, 1 << 20, there.memory));
    link.send(true);
    std::exit(0);
}
const role leaver_role("leaver", leaver);

/// Opens and closes with a peer that dies; nothing may be left.
struct to_peer {
    explicit to_peer(const char *role_name) : peer(role_name), own(ia, {.bytes = 1 << 20})
    {
        there = peer.link->receive<offer>();
        MUST(own.connect(there.to(), there.qualifier));
    }
    void await_connection()
    {
        next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        (void)peer.link->receive<bool>();
    }
    peer_process peer;
    adapter ia;
    test_endpoint own;
    offer there{};
};

/// A peer that connects to us, and after whose end another can.
struct from_peer {
    explicit from_peer(const char *role_name) : own(ia, {.bytes = 1 << 20}), at(ia), peer(role_name)
    {
        peer.link->send(offer_of(ia, at.qualifier, &own.memory));
        (void)peer.link->receive<bool>();
        MUST(dat_cr_accept(at.next_request(), own.ep, 0, nullptr));
        next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    void connect_again()
    {
        MUST(dat_ep_reset(own.ep));
        test_endpoint fresh(ia);
        establish(fresh, own, at);
        move_data(fresh, own);
    }
    adapter ia;
    test_endpoint own;
    listener at;
    peer_process peer;
};

} // namespace

// --------------------------------------------------------------------------- closing adapters

TEST_CASE("LIFE-01: an abrupt close takes everything along" *
          hint("free objects in an order in which one still needs another"))
{
    adapter ia;
    test_endpoint alone(ia);
    connected_pair pair(ia);
    listener at(ia);
    test_endpoint asking(ia);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    (void)dat_rmr_create(alone.pz, &rmr); // ignores a refusal, which MEM-11 tests
    MUST(dat_rsp_create(ia.handle, unused_qualifier(ia), alone.ep, at.cr_evd, &rsp));
    MUST(asking.connect(ia.address(), at.qualifier));
    (void)at.next_request();
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, make_cno(ia));
    MUST(post_software(evd));
    for (std::uint64_t i = 0; i < 8; ++i)
        MUST(pair.passive.recv(0, 64, i));
    MUST(pair.active.send(0, 64));
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), bad_state(DAT_INVALID_STATE_IA_IN_USE)));
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
}

TEST_CASE("LIFE-02: threads that wait are sent home by an abrupt close" *
          hint("leave waiters asleep on an object that no longer exists"))
{
    for (unsigned flags :
         {DAT_EVD_SOFTWARE_FLAG | 0u, DAT_EVD_DTO_FLAG | 0u, DAT_EVD_CONNECTION_FLAG | 0u}) {
        CAPTURE(flags);
        adapter ia;
        const DAT_EVD_HANDLE evd = make_evd(ia, flags);
        const DAT_CNO_HANDLE cno = make_cno(ia);
        DAT_RETURN evd_code = DAT_SUCCESS;
        DAT_RETURN cno_codes[] = {DAT_SUCCESS, DAT_SUCCESS};
        DAT_EVENT event{};
        helper_thread evd_waiter([&] { evd_code = wait_event(evd, event); });
        const auto wait = [cno](DAT_RETURN &code) {
            DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
            code = dat_cno_wait(cno, microseconds(patience), &by);
        };
        helper_thread one([&] { wait(cno_codes[0]); });
        helper_thread two([&] { wait(cno_codes[1]); });
        for (const helper_thread *waiter : {&evd_waiter, &one, &two})
            waiter->await_asleep();
        CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
        evd_waiter.join();
        one.join();
        two.join();
        CHECK(same_code(evd_code, error(DAT_ABORT)));
        CHECK(same_code(cno_codes[0], bad_state(DAT_INVALID_STATE_CNO_DEAD)));
        CHECK(same_code(cno_codes[1], bad_state(DAT_INVALID_STATE_CNO_DEAD)));
    }
}

TEST_CASE("LIFE-03: a close with transfers on their way" *
          hint("free memory and queues while the device still writes to them"))
{
    adapter other;
    for (int round = 0; round < 20; ++round) {
        adapter ia;
        connected_pair pair(ia, other, {.bytes = 4 << 20});
        constexpr std::size_t size = 4 << 20;
        for (std::uint64_t i = 0; i < 4; ++i)
            MUST(pair.active.write(0, size, pair.passive.memory.remote(0, size), i));
        MUST(pair.passive.write(0, size, pair.active.memory.remote(0, size)));
        MUST(pair.passive.read(0, size, pair.active.memory.remote(0, size)));
        std::this_thread::sleep_for(std::chrono::microseconds(round * 200));
        CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
        CHECK(ends_connection(next_event(pair.passive.connect_evd).event_number));
        CHECK(collect(pair.passive.request_evd, 2).size() == 2);
    }
}

TEST_CASE("LIFE-04: a close while connections come and go" *
          hint("let events of the connection manager arrive after the adapter is gone"))
{
    adapter other;
    listener at(other);
    for (int round = 0; round < 20; ++round) {
        test_endpoint to(other);
        adapter ia;
        test_endpoint from(ia);
        MUST(from.connect(other.address(), at.qualifier));
        const DAT_CR_HANDLE request = at.next_request();
        helper_thread accepting([&] { (void)dat_cr_accept(request, to.ep, 0, nullptr); });
        std::this_thread::sleep_for(std::chrono::microseconds(round * 30));
        CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
        accepting.join();
        CHECK(becomes_true([&] { return to.state() == DAT_EP_STATE_DISCONNECTED; }));
    }
}

TEST_CASE("LIFE-05: endpoints freed with transfers on their way leave their memory alone" *
          hint("give up an endpoint without stopping its transfers first"))
{
    adapter ia;
    adapter other;
    for (int round = 0; round < 20; ++round) {
        constexpr std::size_t size = 2 << 20;
        connected_pair pair(ia, other, {.bytes = size});
        for (std::uint64_t i = 0; i < 4; ++i) {
            MUST(pair.passive.recv(0, size, i));
            MUST(pair.active.send(0, size, i));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(round * 100));
        MUST((round % 2 == 0 ? pair.active : pair.passive).free_ep());
        // A device that still writes to this memory is detected by the comparison.
        auto &bytes = (round % 2 == 0 ? pair.active : pair.passive).memory.bytes;
        std::fill(bytes.begin(), bytes.end(), std::uint8_t{0x77});
        std::this_thread::sleep_for(milliseconds(2));
        CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0x77; }));
    }
}

TEST_CASE("LIFE-06: objects freed by another thread while their callbacks run" *
          hint("have no fence between freeing an object and its callbacks"))
{
    adapter ia;
    adapter other;
    for (int round = 0; round < 50; ++round) {
        connected_pair pair(ia, other);
        helper_thread cutting([&] { (void)pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG); });
        std::this_thread::sleep_for(std::chrono::microseconds(round * 10));
        CHECK(same_code(pair.active.free_ep(), DAT_SUCCESS));
    }
}

// ------------------------------------------------------------------------------------- reopening

TEST_CASE("LIFE-07: the provider's library vanishes with its last adapter" *
          hint("leave a thread, a thread-local destructor or an extra reference, which keep the "
               "library in memory"))
{
    {
        adapter of_cases_before; // they may have sent waiters home, see LIFE-20
    }
    const auto before = mapped_libraries();
    for (const std::string &name : before)
        CHECK_MESSAGE(name.find("libdapl") == std::string::npos, name);
    std::set<std::string> during;
    {
        adapter one;
        adapter two;
        during = mapped_libraries();
        MUST(one.close(DAT_CLOSE_ABRUPT_FLAG));
        connected_pair pair(two); // the other one still works
        move_data(pair.active, pair.passive);
    }
    std::set<std::string> provider;
    for (const std::string &name : during)
        if (name.find("libdapl") != std::string::npos && before.count(name) == 0)
            provider.insert(name);
    CHECK(!provider.empty());
    for (const std::string &name : mapped_libraries())
        CHECK(provider.count(name) == 0);
}

TEST_CASE("LIFE-08: 50 rounds of open, use and close grow nothing" *
          hint("leak a descriptor, a thread or memory in each open and close"))
{
    allow_seconds(300); // providers that fill tens of megabytes for an adapter take their time
    for (int warm_up = 0; warm_up < 5; ++warm_up)
        live_once(warm_up % 2 == 0);
    const holdings before = what_we_hold();
    for (int round = 0; round < 50; ++round)
        live_once(round % 2 == 0);
    const holdings after = what_we_hold_at_rest(before);
    MESSAGE("descriptors ", before.descriptors, " -> ", after.descriptors, ", threads ",
            before.threads, " -> ", after.threads, ", mappings ", before.mappings, " -> ",
            after.mappings, ", resident KiB ", before.resident_kib, " -> ", after.resident_kib);
    CHECK(after.descriptors <= before.descriptors);
    CHECK(after.threads <= before.threads);
    if (instrumented())
        return;
    CHECK(after.mappings <= before.mappings + 4);
    CHECK(after.resident_kib <= before.resident_kib + resident_slack_kib);
}

TEST_CASE("LIFE-09: an open adapter has no more after 200 connections than after 20" *
          hint("keep something of every connection until the adapter closes"))
{
    adapter ia;
    adapter other;
    const auto connect = [&](int times) {
        for (int i = 0; i < times; ++i) {
            connected_pair pair(ia, other);
            move_data(pair.active, pair.passive);
        }
    };
    connect(20);
    // What the other side still has to notice, it notices soon.
    std::this_thread::sleep_for(a_while);
    const holdings before = what_we_hold();
    connect(200);
    const holdings after = what_we_hold_at_rest(before);
    CHECK(after.descriptors <= before.descriptors + 2);
    CHECK(after.threads <= before.threads);
    if (!instrumented())
        CHECK(after.resident_kib <= before.resident_kib + resident_slack_kib);
}

// --------------------------------------------------------------------------------- processes

TEST_CASE("LIFE-10: a forked child that exits does no damage" *
          hint("close the parent's connections in an exit handler of the child"))
{
    if (!processes_are_copied)
        NOT_CLAIMED("copied processes: this system has no fork");
    for (bool normally : {true, false}) {
        CAPTURE(normally);
        adapter ia;
        connected_pair pair(ia);
        move_data(pair.active, pair.passive);
        const int status = status_of_copy([normally] {
            if (normally)
                std::exit(0); // runs what a library does at the end
            return 0;
        });
        if (!instrumented())
            CHECK(status == 0);
        move_data(pair.active, pair.passive, 2);
        move_data(pair.passive, pair.active, 3);
        MUST(pair.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
        expect_disconnected(pair.active, pair.passive);
    }
}

TEST_CASE("LIFE-24: a forked child that closes what it has inherited does no damage" *
          hint("stop threads, remove descriptors or end connections of the parent in the child, "
               "which has the memory and the descriptors but no threads"))
{
    if (!processes_are_copied)
        NOT_CLAIMED("copied processes: this system has no fork");
    adapter ia;
    connected_pair pair(ia);
    listener at(ia);
    move_data(pair.active, pair.passive);
    std::this_thread::sleep_for(a_while);   // no thread holds a lock that the child inherits
    const int status = status_of_copy([&] { // ends its objects like an exit handler of the program
        at.free();
        (void)pair.active.free_ep();
        (void)dat_evd_free(pair.active.recv_evd);
        (void)ia.close(DAT_CLOSE_ABRUPT_FLAG);
        return 0;
    });
    if (status != 0 && !instrumented())
        FAIL_CHECK("the child does not end: it waits for threads that it has not, or crashes");
    test_endpoint from(ia);
    test_endpoint to(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    DAT_EVENT event{};
    if (wait_event(at.cr_evd, event) != DAT_SUCCESS)
        GIVE_UP("the child has taken a listener of its parent along");
    MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, to.ep, 0, nullptr));
    await_established(from, to);
    if (!stays_empty(pair.passive.connect_evd) || pair.active.state() != DAT_EP_STATE_CONNECTED)
        GIVE_UP("the child has ended a connection of its parent");
    move_data(pair.active, pair.passive, 2);
    move_data(pair.passive, pair.active, 3);
}

TEST_CASE("LIFE-25: an adapter that is idle uses no processor" *
          hint("have a thread that looks again and again, instead of one that sleeps"))
{
    adapter ia;
    connected_pair pair(ia);
    listener at(ia);
    MUST(pair.passive.recv(0, 64));
    move_data(pair.passive, pair.active);
    expect_rest();
}

TEST_CASE("LIFE-27: a forked child posts nothing on what it has inherited" *
          hint("send in the child what the parent's peer then takes for the parent's next message; "
               "with encryption both are sealed with the same key and number"))
{
    if (!processes_are_copied)
        NOT_CLAIMED("copied processes: this system has no fork");
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
    std::this_thread::sleep_for(a_while); // no thread holds a lock that the child inherits
    const int status =
        status_of_copy([&] { return pair.active.send(0, 8, 99) != DAT_SUCCESS ? 0 : 1; });
    if (status != 0 && !instrumented())
        FAIL_CHECK("the child's post is not refused, or does not return");
    move_data(pair.active, pair.passive, 2);
    move_data(pair.passive, pair.active, 3);
    MUST(pair.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    expect_disconnected(pair.active, pair.passive);
}

TEST_CASE("LIFE-26: an adapter whose peer is stopped uses no processor" *
          hint("ask it for receives, or for progress, again and again"))
{
    to_peer t("obedient");
    t.await_connection();
    for (int i = 0; i < 12; ++i) // it has posted eight receives
        MUST(t.own.send(0, 64));
    std::this_thread::sleep_for(milliseconds(50));
    t.peer.stop();
    MUST(t.own.write(0, 1 << 20, t.there.memory));
    std::this_thread::sleep_for(milliseconds(100));
    expect_rest();
}

TEST_CASE("LIFE-22: a program that is started inherits nothing of an adapter" *
          hint("open descriptors without close-on-exec, so that a port or a connection outlives "
               "them") *
          needs("private_descriptors"))
{
    if (!the_settings().promised("private_descriptors")) // a library below may open some
        NOT_CLAIMED(
            "descriptors that no other program inherits; see --promise private_descriptors");
    std::size_t before = 0;
    {
        peer_process peer("heir");
        before = peer.link->receive<std::size_t>();
        peer.link->send('q');
        CHECK(peer.await_exit() == 0);
    }
    adapter ia;
    adapter other;
    auto at = std::make_unique<listener>(ia);
    connected_pair pair(ia, other);
    move_data(pair.active, pair.passive);
    peer_process peer("heir");
    CHECK(peer.link->receive<std::size_t>() == before);
    const DAT_CONN_QUAL qualifier = at->qualifier;
    at.reset(); // frees the port, although that program runs
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    CHECK(same_code(dat_psp_create(ia.handle, qualifier, make_evd(ia, DAT_EVD_CR_FLAG),
                                   DAT_PSP_CONSUMER_FLAG, &psp),
                    DAT_SUCCESS));
    move_data(pair.passive, pair.active, 2);
    MUST(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    CHECK(ends_connection(next_event(pair.passive.connect_evd).event_number));
    peer.link->send('q');
    CHECK(peer.await_exit() == 0);
}

TEST_CASE("LIFE-23: a process that exits with everything open ends, and its peers are told" *
          hint("wait in a destructor for threads, transfers or the consumer's goodbye"))
{
    from_peer t("leaver");
    for (std::uint64_t i = 0; i < 4; ++i)
        MUST(t.own.recv(0, 64, i));
    (void)t.peer.link->receive<bool>();
    const int status = t.peer.await_exit();
    if (!instrumented()) // a sanitizer may complain of threads that still run
        CHECK(status == 0);
    CHECK(status != -1);
    CHECK(ends_connection(next_event(t.own.connect_evd).event_number));
    CHECK(collect(t.own.recv_evd, 4).size() == 4);
    CHECK(stays_empty(t.own.connect_evd, milliseconds(20)));
    t.connect_again();
}

TEST_CASE("LIFE-11: two processes connect, move data both ways and part" *
          hint("pass addresses or contexts that mean something in one process only"))
{
    to_peer t("obedient");
    t.await_connection();
    test_endpoint &own = t.own;
    own.memory.fill(0, 50000, 4);
    t.there.memory.segment_length = 50000;
    MUST(own.write(0, 50000, t.there.memory, 1));
    MUST(own.read(100'000, 50000, t.there.memory, 2));
    MUST(own.send(0, 64, 3));
    for (std::uint64_t i = 1; i <= 3; ++i) {
        const auto done = next_dto(own.request_evd);
        CHECK(done.user_cookie.as_64 == i);
        CHECK(done.status == DAT_DTO_SUCCESS);
    }
    CHECK(own.memory.holds(100'000, 50000, 4));
    t.peer.link->send('q');
    CHECK(t.peer.await_exit() == 0);
    CHECK(ends_connection(next_event(own.connect_evd).event_number));
}

TEST_CASE("LIFE-12: a peer killed while connected: the connection ends, everything completes once" *
          hint("wait for the peer's goodbye and never notice that it is gone"))
{
    to_peer t("obedient");
    t.await_connection();
    for (std::uint64_t i = 0; i < 8; ++i)
        MUST(t.own.recv(0, 64, i));
    t.peer.kill_hard();
    CHECK(ends_connection(next_event(t.own.connect_evd).event_number));
    CHECK(t.own.state() == DAT_EP_STATE_DISCONNECTED);
    const auto flushed = collect(t.own.recv_evd, 8);
    CHECK(flushed.size() == 8);
    for (const DAT_EVENT &event : flushed)
        CHECK(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
    CHECK(stays_empty(t.own.connect_evd));
    CHECK(same_code(dat_ep_reset(t.own.ep), DAT_SUCCESS));
    test_endpoint fresh(t.ia);
    establish(t.own, fresh);
    move_data(t.own, fresh);
}

TEST_CASE("LIFE-13: a peer killed during transfers to it: every request completes once" *
          hint("lose requests whose acknowledgement never comes, or report them twice"))
{
    for (int round = 0; round < 3; ++round) {
        to_peer t("obedient");
        t.await_connection();
        constexpr std::size_t size = 1 << 20;
        helper_thread killer([&] {
            std::this_thread::sleep_for(milliseconds(5 + round * 10));
            t.peer.kill_hard();
        });
        std::uint64_t posted = 0;
        std::uint64_t completed = 0;
        bool failed = false;
        while (!failed) {
            for (; posted < completed + 8; ++posted)
                if (const DAT_RETURN code = posted % 2 == 0
                                                ? t.own.write(0, size, t.there.memory, posted)
                                                : t.own.read(0, size, t.there.memory, posted);
                    code != DAT_SUCCESS) {
                    CHECK(same_type(code, DAT_INVALID_STATE));
                    break;
                }
            const auto done = next_dto(t.own.request_evd);
            CHECK(done.user_cookie.as_64 == completed++);
            failed = done.status != DAT_DTO_SUCCESS;
        }
        killer.join();
        completed += collect(t.own.request_evd, posted - completed).size();
        CHECK(completed == posted);
        CHECK(ends_connection(next_event(t.own.connect_evd).event_number));
        CHECK(stays_empty(t.own.connect_evd, milliseconds(30)));
        CHECK(same_code(t.own.free_ep(), DAT_SUCCESS));
    }
}

TEST_CASE("LIFE-14: a peer killed while it writes to us: the connection ends" *
          hint("notice a dead peer only when they send something themselves"))
{
    from_peer t("flood");
    (void)t.peer.link->receive<bool>();
    for (std::uint64_t i = 0; i < 4; ++i)
        MUST(t.own.recv(0, 64, i));
    std::this_thread::sleep_for(milliseconds(30));
    t.peer.kill_hard();
    CHECK(ends_connection(next_event(t.own.connect_evd).event_number));
    CHECK(collect(t.own.recv_evd, 4).size() == 4);
    t.connect_again();
}

TEST_CASE("LIFE-15: a peer killed before it answers: the attempt fails" *
          hint("wait for ever for the answer of a dead peer"))
{
    to_peer t("mute");
    (void)t.peer.link->receive<bool>();
    CHECK(t.own.state() == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    t.peer.kill_hard();
    const DAT_EVENT event = next_event(t.own.connect_evd);
    CAPTURE(std::string(dat::event_name(event.event_number)));
    CHECK((event.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED ||
           event.event_number == DAT_CONNECTION_EVENT_UNREACHABLE ||
           event.event_number == DAT_CONNECTION_EVENT_TIMED_OUT));
    CHECK(t.own.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(stays_empty(t.own.connect_evd));
    CHECK(same_code(dat_ep_reset(t.own.ep), DAT_SUCCESS));
}

TEST_CASE("LIFE-16: a peer killed before we accept: success, then ACCEPT_COMPLETION_ERROR" *
          hint("report ESTABLISHED, or nothing at all, after the accept of a dead peer's request"))
{
    adapter ia;
    test_endpoint own(ia);
    listener at(ia);
    peer_process peer("caller");
    peer.link->send(offer_of(ia, at.qualifier));
    (void)peer.link->receive<bool>();
    const DAT_CR_HANDLE request = at.next_request();
    peer.kill_hard();
    std::this_thread::sleep_for(milliseconds(50));
    CHECK(same_code(dat_cr_accept(request, own.ep, 0, nullptr), DAT_SUCCESS));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    CHECK(own.state() == DAT_EP_STATE_DISCONNECTED);
    MUST(dat_ep_reset(own.ep));
    test_endpoint fresh(ia);
    establish(fresh, own, at);
}

TEST_CASE("LIFE-17: a peer that writes past the end of the address space does no damage" *
          hint("add address and length without a look at the overflow"))
{
    to_peer t("obedient");
    t.await_connection();
    t.there.memory.virtual_address = ~DAT_VADDR{0} - 31;
    t.there.memory.segment_length = 64;
    if (t.own.write(0, 64, t.there.memory) == DAT_SUCCESS)
        (void)next_event(t.own.connect_evd);
    std::this_thread::sleep_for(a_while);
    t.peer.link->send('q');
    CHECK(t.peer.await_exit() == 0);
}

// ---------------------------------------------------------------------------------------- many

TEST_CASE(
    "LIFE-18: 500 endpoints on one adapter connect to 500 of another, move data and close" *
    hint("use a descriptor or a thread for each endpoint, or search lists that grow with them"))
{
    (void)open_all_descriptors();
    allow_seconds(300);

    constexpr std::size_t number = 500;
    adapter one;
    adapter other;
    listener at(other, DAT_PSP_CONSUMER_FLAG, 1024);
    endpoint_options small;
    small.bytes = 8192;
    std::vector<std::unique_ptr<test_endpoint>> from;
    std::vector<std::unique_ptr<test_endpoint>> to;
    for (std::size_t i = 0; i < number; ++i) { // before any request: siw wants it answered in 10 s
        from.push_back(std::make_unique<test_endpoint>(one, small));
        to.push_back(std::make_unique<test_endpoint>(other, small));
    }
    for (std::size_t i = 0; i < number; ++i)
        MUST(from[i]->connect(other.address(), at.qualifier, milliseconds(100'000),
                              std::to_string(i)));
    std::vector<test_endpoint *> partner(number);
    for (std::size_t i = 0; i < number; ++i) {
        const DAT_CR_HANDLE request = at.next_request();
        DAT_CR_PARAM param{};
        MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
        partner.at(std::stoul(std::string(static_cast<const char *>(param.private_data),
                                          static_cast<std::size_t>(param.private_data_size)))) =
            to[i].get();
        MUST(dat_cr_accept(request, to[i]->ep, 0, nullptr));
    }
    for (std::size_t i = 0; i < number; ++i) {
        REQUIRE(partner[i] != nullptr);
        await_established(*from[i], *partner[i]);
    }
    for (std::size_t i = 0; i < number; ++i) {
        move_data(*from[i], *partner[i], static_cast<unsigned>(i));
        move_data(*partner[i], *from[i], static_cast<unsigned>(i) + 7);
    }
    for (std::size_t i = 0; i < number; i += 2)
        MUST(from[i]->disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    for (std::size_t i = 0; i < number; i += 2)
        next_connection(partner[i]->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    from.clear();
    to.clear();
    at.free();
    CHECK(same_code(one.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
    CHECK(same_code(other.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("LIFE-19: every adapter of the registry is open at once and moves data" *
          hint("export symbols that clash with those of another provider in the process"))
{
    std::vector<DAT_PROVIDER_INFO> entries;
    MUST(list_registry(entries));
    struct opened {
        std::unique_ptr<adapter> ia;
        std::unique_ptr<connected_pair> pair;
    };
    std::vector<opened> all;
    const settings ours = the_settings();
    for (const DAT_PROVIDER_INFO &entry : entries) {
        the_settings().ia = entry.ia_name;
        the_settings().thread_safe = entry.is_thread_safe != DAT_FALSE;
        CAPTURE(the_settings().ia);
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        if (open_adapter(the_settings().ia, &async, &ia) != DAT_SUCCESS)
            continue; // a device that this machine does not have
        MUST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
        opened each;
        each.ia = std::make_unique<adapter>();
        each.pair = std::make_unique<connected_pair>(*each.ia);
        all.push_back(std::move(each));
    }
    the_settings() = ours;
    for (unsigned round = 0; round < 20; ++round)
        for (opened &each : all) {
            move_data(each.pair->active, each.pair->passive, round);
            move_data(each.pair->passive, each.pair->active, round + 1);
        }
    MESSAGE(all.size(), " adapters were open at once");
    CHECK(!all.empty());
    while (!all.empty()) { // the remaining connections keep working
        all.front().pair.reset();
        CHECK(same_code(all.front().ia->close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
        all.erase(all.begin());
        for (opened &each : all)
            move_data(each.pair->active, each.pair->passive, 5);
    }
}

TEST_CASE("LIFE-20: a provider that sent waiters home vanishes when it was opened once more" *
          hint("keep the library for ever, for the sake of threads that may still be leaving it"))
{
    {
        adapter ia;
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
        DAT_EVENT event{};
        helper_thread waiter([&] { (void)wait_event(evd, event); });
        waiter.await_asleep();
        MUST(ia.close(DAT_CLOSE_ABRUPT_FLAG));
        waiter.join();
    }
    {
        adapter again;
        MUST(again.close(DAT_CLOSE_GRACEFUL_FLAG));
    }
    for (const std::string &name : mapped_libraries())
        CHECK_MESSAGE(name.find("libdapl") == std::string::npos, name);
}

namespace {

enum class wait_in { dto_evd, connection_evd, cno };

/// Closes an adapter below a waiter that is held up, by a signal handler where there are any, and a
/// waiter that is not. Null, or the failure as text.
const char *close_past_waiter(wait_in what)
{
    adapter ia;
    const DAT_CNO_HANDLE cno = make_cno(ia);
    const DAT_EVD_HANDLE evd = make_evd(
        ia, what == wait_in::connection_evd ? DAT_EVD_CONNECTION_FLAG : DAT_EVD_DTO_FLAG, 8, cno);
    DAT_RETURN code = DAT_SUCCESS;
    helper_thread waiter([&] {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        code = what == wait_in::cno ? dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &by)
                                    : dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
    });
    waiter.await_asleep();
    const DAT_EVD_HANDLE later = make_evd(ia, DAT_EVD_DTO_FLAG, 8);
    helper_thread other([&] {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        (void)dat_evd_wait(later, DAT_TIMEOUT_INFINITE, 1, &event, &more);
    });
    other.await_asleep();
    if (!waiter.hold_up())
        return "the waiter cannot be held up";
    const DAT_RETURN closed = ia.close(DAT_CLOSE_ABRUPT_FLAG);
    const bool other_left = becomes_true([&] { return other.finished(); });
    waiter.let_go();
    if (closed != DAT_SUCCESS)
        return "the close fails";
    if (!other_left)
        return "another waiter does not return";
    if (!becomes_true([&] { return waiter.finished(); }))
        return "the waiter does not return";
    return code == DAT_SUCCESS ? "the waiter returns with success" : nullptr;
}

/// What such a waiter may still use stays open: that is for a process of its own.
int close_past_waiters(peer_link &)
{
    for (const wait_in what : {wait_in::dto_evd, wait_in::connection_evd, wait_in::cno})
        if (const char *wrong = close_past_waiter(what); wrong != nullptr) {
            std::fprintf(stderr, "%s (%d)\n", wrong, static_cast<int>(what));
            return 1;
        }
    adapter again; // the provider works as before
    connected_pair pair(again);
    move_data(pair.active, pair.passive);
    return 0;
}
const role close_past_waiters_role("close-past-waiters", close_past_waiters);

} // namespace

TEST_CASE(
    "LIFE-21: an abrupt close does not block forever on a waiter that does not return" *
    hint("wait without a bound for a thread that is held up in a signal handler, or free what "
         "it still uses"))
{
    peer_process peer("close-past-waiters");
    CHECK(peer.await_exit() == 0);
}

} // namespace conformance
