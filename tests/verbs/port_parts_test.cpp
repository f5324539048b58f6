// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parts of the verbs port that need no device: how private data and qualifiers travel, adapter
// parameters, variables.
#include "internal.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>

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

/// As the requests of a consumer travel, and what comes out.
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
    for (const char *wrong :
         {"", "  ", "rxe0 x", "rxe0 1 2", "rxe0 family=5", "rxe0 linger_ms=", "rxe0 linger_ms=-1",
          "rxe0 linger_ms=99999999999", "rxe0 threads=0", "rxe0 threads=17", "rxe0 no_such=1",
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
