// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parts of the verbs port that need no device: how private data and qualifiers travel, adapter
// parameters, variables, the order of completions.
#include "internal.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace dapl::verbs {

/// No part here makes an upcall.
void dapl_evd_connection_callback(endpoint &, DAT_EVENT_NUMBER, const private_data &) {}

/// No CQ here has a consumer.
void vrb::cq::wake_sleepers() {}

} // namespace dapl::verbs

using namespace dapl::verbs;
using namespace dapl::verbs::vrb;

namespace {

constexpr DAT_CONN_QUAL small = 0xfedc;
constexpr DAT_CONN_QUAL large = 0x0123456789abfedc;

std::unique_ptr<hca> device(bool iwarp)
{
    auto made = std::make_unique<hca>();
    made->iwarp = iwarp;
    made->max_private_data = iwarp ? iwarp_data_size : ib_data_size;
    return made;
}

/// What the other side sees of a message: InfiniBand fills it up with zeros.
cm_event arrived(const hca &on, const cm_message &sent, std::uint8_t room)
{
    cm_event event{};
    event.param.conn.private_data_len = on.iwarp ? sent.size : room;
    event.param.conn.flow_control = sent.flow_control;
    REQUIRE(sent.size <= event.size());
    std::memcpy(event.bytes, sent.bytes, sent.size);
    return event;
}

std::string text(const private_data &data)
{
    return {static_cast<const char *>(data.bytes), data.size};
}

std::string data_of(std::size_t size, char first = 'a')
{
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
        data[i] = static_cast<char>(first + static_cast<char>(i));
    return data;
}

/// Sends a request's data as they travel, and checks the parsed ones.
void check_request(const hca &on, const std::string &data, DAT_CONN_QUAL qualifier)
{
    CAPTURE(data.size());
    const cm_message sent = request_message(on, {data.data(), data.size()}, qualifier);
    CHECK(sent.size <= (on.iwarp ? 255 : ib_data_size));
    DAT_CONN_QUAL high = 1;
    CHECK(text(read_request(on, arrived(on, sent, ib_data_size), high)) == data);
    CHECK(high == high_part(qualifier));
}

} // namespace

TEST_CASE("requests bring their private data and the whole qualifier, whatever both are")
{
    for (const bool iwarp : {false, true}) {
        CAPTURE(iwarp);
        const auto on = device(iwarp);
        for (const DAT_CONN_QUAL qualifier : {small, large}) {
            CAPTURE(qualifier);
            const std::size_t room = request_room(*on, qualifier);
            for (std::size_t size = 0; size <= room; ++size) {
                check_request(*on, data_of(size), qualifier);
                check_request(*on, data_of(size, 'Q'), qualifier);
                check_request(*on, std::string(size, '\0'), qualifier);
                check_request(*on, std::string(size, '\xff'), qualifier);
                if (size >= 2)
                    check_request(*on, "Q\xd2" + data_of(size - 2), qualifier);
            }
        }
    }
}

TEST_CASE("room for private data")
{
    CHECK(request_room(*device(false), small) == 56);
    CHECK(request_room(*device(false), large) == 49);
    CHECK(request_room(*device(true), small) == 240);
    CHECK(request_room(*device(true), large) == 240);
}

TEST_CASE("requests of other programs are taken as they are")
{
    const auto ib = device(false);
    cm_event event = arrived(*ib, {}, ib_data_size);
    DAT_CONN_QUAL high = 1;
    event.param.conn.flow_control = true;
    CHECK(read_request(*ib, event, high).size == ib_data_size);
    CHECK(high == 0);
    event.param.conn.flow_control = false;
    for (const unsigned char impossible : {56, 64, 127, 128 + 50, 255}) {
        event.bytes[ib_data_size - 1] = impossible;
        CHECK(read_request(*ib, event, high).size == ib_data_size);
        CHECK(high == 0);
    }
    const auto iwarp = device(true);
    std::memcpy(event.bytes, "Q\xd2", 2);
    event.param.conn.private_data_len = 7; // too short to be ours
    CHECK(read_request(*iwarp, event, high).size == 7);
    CHECK(high == 0);
}

TEST_CASE("accepts bring their private data")
{
    for (const bool iwarp : {false, true}) {
        const auto on = device(iwarp);
        for (std::size_t size = 0; size <= on->max_private_data; ++size) {
            const std::string data = data_of(size);
            const cm_message sent = accept_message(*on, {data.data(), data.size()});
            CHECK(text(read_accept(*on, arrived(*on, sent, 196))) == data);
        }
    }
}

TEST_CASE("over siw, an accept tells a peer that asks for it where to write that it has the answer")
{
    const auto on = device(true);
    on->siw = true;
    const ready_place place{0x0123456789abcdef, 0x7654321};
    for (const DAT_CONN_QUAL qualifier : {small, large})
        for (std::size_t size = 0; size <= iwarp_data_size; ++size) {
            CAPTURE(size);
            const std::string data = data_of(size);
            check_request(*on, data, qualifier);
            const cm_message asked = request_message(*on, {data.data(), data.size()}, qualifier);
            CHECK(is_marked(*on, arrived(*on, asked, 0)) == (size <= 232 || qualifier == small));
            const cm_message sent = accept_message(*on, {data.data(), data.size()}, place);
            CHECK(sent.size <= 248);
            const cm_event event = arrived(*on, sent, 0);
            CHECK(text(read_accept(*on, event)) == data);
            const ready_place there = place_in(*on, event);
            CHECK(there.key == (size + 20 <= 248 ? place.key : 0));
            CHECK((there.key == 0 || there.address == place.address));
        }
}

TEST_CASE("over siw, requests and accepts of other programs are taken as they are")
{
    const auto on = device(true);
    on->siw = true;
    for (const std::size_t size : {0, 7, 8, 20, 64}) {
        cm_event event{};
        event.param.conn.private_data_len = static_cast<std::uint8_t>(size);
        DAT_CONN_QUAL high = 1;
        CHECK(read_request(*on, event, high).size == size);
        CHECK(read_accept(*on, event).size == size);
        CHECK_FALSE(is_marked(*on, event));
        CHECK(place_in(*on, event).key == 0);
    }
}

TEST_CASE("rejects say who rejected, and are told from others")
{
    for (const bool iwarp : {false, true}) {
        const auto on = device(iwarp);
        for (const reject_reason reason : {reject_reason::consumer, reject_reason::non_consumer}) {
            const std::string data = data_of(on->max_private_data);
            const cm_message sent = reject_message(reason, {data.data(), data.size()});
            const cm_event event = arrived(*on, sent, 148);
            private_data out;
            CHECK(read_reject(event, out) == reason);
            CHECK(text(out) == data);
        }
        private_data out;
        CHECK(read_reject(arrived(*on, {}, 148), out) == std::nullopt);
    }
}

TEST_CASE("adapter parameters")
{
    adapter_params read;
    CHECK(read.threads == 1);
    REQUIRE(read_params(" mlx5_0\t1 linger_ms=5 family=6 threads=4 ", read).ok());
    CHECK(std::string(read.device) == "mlx5_0");
    CHECK(read.port == 1);
    CHECK(read.linger_ms == 5);
    CHECK(read.family == 6);
    CHECK(read.threads == 4);
    REQUIRE(read_params("mlx5_1 2 cm=tcp tcp_interface=eth0 gid_index=3 sl=5", read).ok());
    CHECK(read.port == 2);
    CHECK(read.by_tcp);
    CHECK(std::string(read.tcp_interface) == "eth0");
    CHECK(read.gid_index == 3);
    CHECK(read.service_level == 5);
    REQUIRE(read_params("mlx5_1 cm=tcp cm=rdma tcp_interface=eth0", read).type() ==
            DAT_INVALID_PARAMETER);
    CHECK_FALSE(read.by_tcp);
    for (const char *wrong :
         {"rxe0 cm=", "rxe0 cm=udp", "rxe0 cm=tcp tcp_interface=", "rxe0 cm=tcp sl=16",
          "rxe0 tcp_interface=eth0", "", "  ", "rxe0 x", "rxe0 1 2", "rxe0 family=5",
          "rxe0 linger_ms=", "rxe0 linger_ms=-1", "rxe0 linger_ms=99999999999", "rxe0 threads=0",
          "rxe0 threads=17", "rxe0 no_such=1",
          "a_name_of_sixty_four_characters_is_longer_than_any_device_has_it_"}) {
        adapter_params ignored;
        CHECK_MESSAGE(read_params(wrong, ignored).type() == DAT_INVALID_PARAMETER, wrong);
    }
}

TEST_CASE("variables are read within their ranges, and left out beyond")
{
    const struct {
        const char *name;
        std::uint32_t adapter_params::*value;
        const char *good;
        std::uint32_t is;
        const char *bad;
    } table[] = {
        {"DAPL_MAX_INLINE", &adapter_params::max_inline, "4096", 4096, "4097"},
        {"DAPL_ACK_TIMER", &adapter_params::ack_timer, "0x1f", 31, "32"},
        {"DAPL_ACK_RETRY", &adapter_params::ack_retry, "0", 0, "8"},
        {"DAPL_RNR_TIMER", &adapter_params::rnr_timer, "31", 31, "-1"},
        {"DAPL_RNR_RETRY", &adapter_params::rnr_retry, "3", 3, "3x"},
        {"DAPL_CM_ARP_TIMEOUT_MS", &adapter_params::arp_timeout_ms, "1", 1, "0"},
        {"DAPL_CM_ARP_RETRY_COUNT", &adapter_params::arp_retry, "100", 100, "101"},
        {"DAPL_CM_ROUTE_TIMEOUT_MS", &adapter_params::route_timeout_ms, "600000", 600'000, " 1"},
        {"DAPL_CM_ROUTE_RETRY_COUNT", &adapter_params::route_retry, "0", 0, "many"},
        {"DAPL_CM_TOS", &adapter_params::type_of_service, "255", 255, "18446744073709551616"},
    };
    const adapter_params defaults;
    const auto read = [] {
        adapter_params params;
        read_environment(params);
        return params;
    };
    for (const auto &row : table) {
        CAPTURE(row.name);
        ::setenv(row.name, row.good, 1);
        CHECK(read().*row.value == row.is);
        for (const char *bad : {row.bad, ""}) {
            ::setenv(row.name, bad, 1);
            CHECK(read().*row.value == defaults.*row.value);
        }
        ::unsetenv(row.name);
    }
}

namespace {

/// A CQ of a device that completes when the test says so, and requests of two queue pairs.
struct late_reads {
    late_reads()
    {
        device.ops.poll_cq = poll;
        handle.context = &device;
        handle.cq_context = &queue;
        queue.handle = &handle;
    }
    static int poll(ibv_cq *, int most, ibv_wc *entries)
    {
        int count = 0;
        while (count < most && !completed.empty()) {
            entries[count++] = completed.front();
            completed.erase(completed.begin());
        }
        return count;
    }
    wr &post(wr *&last, opcode operation)
    {
        wr &made = *posted.emplace_back(std::make_unique<wr>());
        made.operation = operation;
        made.before = last;
        made.finished = false;
        last = &made;
        return made;
    }
    void complete(const wr &w, std::uint32_t by = 1, ibv_wc_status status = IBV_WC_SUCCESS)
    {
        ibv_wc entry{};
        entry.wr_id = reinterpret_cast<std::uint64_t>(&w);
        entry.qp_num = by;
        entry.status = status;
        completed.push_back(entry);
    }
    /// The completions taken, each noted as the port does.
    std::vector<const wr *> taken(int most = 16)
    {
        std::vector<const wr *> all;
        ibv_wc entries[16];
        for (int got = 0; (got = poll_in_order(&handle, most, entries)) != 0;)
            for (int i = 0; i < got; ++i) {
                request_of(entries[i]).finished = true;
                all.push_back(&request_of(entries[i]));
                latest = entries[i];
            }
        return all;
    }
    static inline std::vector<ibv_wc> completed;
    ibv_context device{};
    ibv_cq handle{};
    cq queue;
    std::vector<std::unique_ptr<wr>> posted;
    wr *first = nullptr, *second = nullptr;
    ibv_wc latest{};
};

using all_of = std::vector<const wr *>;

} // namespace

TEST_CASE("siw: what has overtaken an RDMA read is held back until that has come back")
{
    late_reads t;
    wr &before = t.post(t.first, opcode::rdma_write);
    wr &read = t.post(t.first, opcode::rdma_read);
    wr &suppressed = t.post(t.first, opcode::rdma_write); // never completes by itself
    wr &write = t.post(t.first, opcode::rdma_write);
    wr &later_read = t.post(t.first, opcode::rdma_read);
    wr &last = t.post(t.first, opcode::send);
    for (const wr *each : {&before, &write, &last})
        t.complete(*each);
    CHECK(t.taken() == all_of{&before});
    t.complete(read);
    CHECK(t.taken() == all_of{&read, &write});
    t.complete(later_read);
    CHECK(t.taken() == all_of{&later_read, &last});
    CHECK(!suppressed.finished);
    CHECK(t.taken().empty());
}

TEST_CASE("siw: neither receives nor other queue pairs wait for an RDMA read")
{
    late_reads t;
    wr &read = t.post(t.first, opcode::rdma_read);
    wr &write = t.post(t.first, opcode::rdma_write);
    wr &other = t.post(t.second, opcode::send);
    wr receive;
    receive.operation = opcode::receive;
    receive.before = &read;
    receive.finished = false;
    t.complete(write, 1, IBV_WC_WR_FLUSH_ERR);
    t.complete(other, 2);
    t.complete(receive, 1);
    CHECK(t.taken() == all_of{&other, &receive});
    t.complete(read, 1, IBV_WC_WR_FLUSH_ERR);
    CHECK(t.taken() == all_of{&read, &write});
    CHECK(t.latest.status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("siw: an RDMA read that is flushed twice comes back once")
{
    late_reads t;
    wr &write = t.post(t.first, opcode::rdma_write);
    wr &read = t.post(t.first, opcode::rdma_read);
    wr &last = t.post(t.first, opcode::rdma_write);
    SUBCASE("in the middle of a batch")
    {
        t.complete(write);
    }
    SUBCASE("behind what it has to wait for")
    {
        write.finished = true;
        t.complete(last, 1, IBV_WC_WR_FLUSH_ERR);
    }
    t.complete(read, 1, IBV_WC_WR_FLUSH_ERR);
    t.complete(read, 1, IBV_WC_WR_FLUSH_ERR);
    if (!write.finished)
        t.complete(last, 1, IBV_WC_WR_FLUSH_ERR);
    const auto all = t.taken();
    CHECK(std::count(all.begin(), all.end(), &read) == 1);
    CHECK(all.back() == &last);
    CHECK(t.taken().empty());
}

TEST_CASE("siw: what was held back keeps its status, and is forgotten with its queue pair")
{
    late_reads t;
    wr &read = t.post(t.first, opcode::rdma_read);
    wr &write = t.post(t.first, opcode::rdma_write);
    wr &other_read = t.post(t.second, opcode::rdma_read);
    wr &other = t.post(t.second, opcode::rdma_write);
    t.complete(write, 1);
    t.complete(other, 2, IBV_WC_LOC_PROT_ERR);
    CHECK(t.taken().empty());
    forget_behind_read(t.queue, 1);
    read.finished = write.finished = true; // marks both as flushed
    t.complete(other_read, 2);
    CHECK(t.taken() == all_of{&other_read, &other});
    CHECK(t.latest.status == IBV_WC_LOC_PROT_ERR);
    CHECK(t.latest.qp_num == 2);
}

TEST_CASE("siw: what is held back keeps neither another queue pair's nor later batches")
{
    late_reads t;
    wr &read = t.post(t.first, opcode::rdma_read);
    wr &write = t.post(t.first, opcode::rdma_write);
    wr &other_read = t.post(t.second, opcode::rdma_read);
    wr &other = t.post(t.second, opcode::rdma_write);
    wr &last = t.post(t.second, opcode::send);
    t.complete(write, 1);
    t.complete(other, 2);
    CHECK(t.taken().empty());
    t.complete(other_read, 2);
    t.complete(last, 2);
    CHECK(t.taken() == all_of{&other_read, &other, &last});
    wr receive;
    receive.operation = opcode::receive;
    t.complete(read, 1);
    t.complete(receive, 2);
    t.latest.byte_len = 0;
    late_reads::completed.back().byte_len = 77;
    CHECK(t.taken() == all_of{&read, &write, &receive});
    CHECK(t.latest.byte_len == 77);
}

// ---------------------------------------------------------------------------- vectors

TEST_CASE("lists of processors")
{
    CHECK(read_processors("").none());
    CHECK(read_processors("\n").none());
    CHECK(read_processors("3\n").to_ulong() == 0b1000);
    CHECK(read_processors("0-2,5\n").to_ulong() == 0b100111);
    CHECK(read_processors("0-2,x").to_ulong() == 0b111);
    CHECK(read_processors("9-8").none());
    CHECK(read_processors("5000").none());
}

namespace {

/// Eight processors, of which the last four are on the device's node.
struct machine {
    explicit machine(std::uint32_t vectors, std::uint32_t fixed = completion_vectors::spread)
    {
        REQUIRE(all.open(vectors, fixed));
        all.place(read_processors("0-7"), read_processors("4-7"));
    }
    std::vector<std::uint32_t> take(unsigned processor, int count)
    {
        std::vector<std::uint32_t> taken;
        for (int i = 0; i < count; ++i)
            taken.push_back(all.take(processor));
        return taken;
    }
    completion_vectors all;
};

using numbers = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("a CQ gets the vector of its thread's processor, others the next of that node")
{
    machine of(8);
    CHECK(of.take(6, 5) == numbers{2, 3, 0, 1, 2});
    CHECK(of.take(1, 5) == numbers{5, 6, 7, 4, 5});
}

TEST_CASE("a vector that nobody uses any more comes before those in use")
{
    machine of(8);
    CHECK(of.take(4, 4) == numbers{0, 1, 2, 3});
    of.all.give_back(2);
    CHECK(of.take(4, 2) == numbers{2, 0});
}

TEST_CASE("with fewer vectors than processors, with more, with one")
{
    machine few(2);
    CHECK(few.take(7, 3) == numbers{1, 0, 1});
    CHECK(few.take(0, 2) == numbers{0, 0}); // no vector is of its node
    machine some(6);
    CHECK(some.take(3, 3) == numbers{5, 4, 5});
    machine many(64);
    CHECK(many.take(4, 5) == numbers{0, 1, 2, 3, 0});
    machine one(0);
    CHECK(one.take(5, 2) == numbers{0, 0});
    CHECK(one.take(5000, 1) == numbers{0});
}

TEST_CASE("where it is not known which processors there are, all vectors are used")
{
    completion_vectors blind;
    REQUIRE(blind.open(3, completion_vectors::spread));
    CHECK(blind.take(7) == 1);
    CHECK(blind.take(7) == 2);
    CHECK(blind.take(7) == 0);
}

TEST_CASE("one vector for all, if that is wanted")
{
    machine of(8, 3);
    CHECK(of.take(6, 3) == numbers{3, 3, 3});
}

// --------------------------------------------------------------------------- counters

namespace {

/// The folder of a port, as in sysfs.
struct port_folder {
    port_folder()
    {
        for (const char *each : {"counters", "hw_counters"})
            std::filesystem::create_directories(path / each);
    }
    ~port_folder() { std::filesystem::remove_all(path); }
    void write(const char *file, const char *text) const { std::ofstream(path / file) << text; }

    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("port-" + std::to_string(getpid()));
};

} // namespace

TEST_CASE("counters of a device are those of its driver's files, from when it was opened")
{
    const port_folder port;
    port.write("counters/port_rcv_errors", "7\n");
    port.write("counters/port_xmit_wait", "123456789012\n");
    port.write("hw_counters/resp_remote_access_errors", "5\n");
    port_counters counters;
    counters.open(port.path.c_str());
    port.write("counters/port_rcv_errors", "9\n");
    port.write("counters/port_xmit_wait", "123456789112\n");
    port.write("hw_counters/resp_remote_access_errors", "6\n");
    port.write("hw_counters/retry_rnr_exceeded_err", "1\n");
    device_counters now;
    counters.read(now);
    CHECK(now[DCNT_IA_LNK_ERR_RCV] == 2);
    CHECK(now[DCNT_IA_LNK_WARN_XMT_WAIT] == 100);
    CHECK(now[DCNT_IA_DIAG_ERR_RQ_RAE] == 1);
    CHECK(now[DCNT_IA_DIAG_ERR_SQ_RREE] == 1);
    CHECK(now[DCNT_IA_DIAG_ERR_SQ_RAE] == 0);
    // Somebody has set the port's counters to 0.
    port.write("counters/port_rcv_errors", "3\n");
    now = {};
    counters.read(now);
    CHECK(now[DCNT_IA_LNK_ERR_RCV] == 3);
}

TEST_CASE("a device without such files counts nothing")
{
    port_counters counters;
    counters.open("/no/such/port");
    device_counters now;
    counters.read(now);
    for (int each = device_counters::first; each < DCNT_IA_ALL_COUNTERS; ++each)
        CHECK(now[each] == 0);
}
