// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Data transfers: how posted operations complete, also when the connection ends.
#include "harness/support.hpp"

#include "harness/peer.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

namespace conformance {
namespace {

std::vector<DAT_LMR_TRIPLET> slices(const region &memory, std::size_t offset, std::size_t each,
                                    std::size_t number)
{
    std::vector<DAT_LMR_TRIPLET> made;
    for (std::size_t i = 0; i < number; ++i)
        made.push_back(memory.local(offset + i * each, each));
    return made;
}

DAT_RETURN post_send(test_endpoint &by, std::vector<DAT_LMR_TRIPLET> &iov, std::uint64_t cookie = 0)
{
    return dat_ep_post_send(by.ep, static_cast<DAT_COUNT>(iov.size()), iov.data(),
                            cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN post_recv(test_endpoint &by, std::vector<DAT_LMR_TRIPLET> &iov, std::uint64_t cookie = 0)
{
    return dat_ep_post_recv(by.ep, static_cast<DAT_COUNT>(iov.size()), iov.data(),
                            cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

/// Expects a successful completion. DTO-39 looks at its operation: one deviation shall be one
/// failed case.
void expect_success(DAT_EVD_HANDLE evd, std::uint64_t cookie, std::size_t length)
{
    const auto done = next_dto(evd);
    CHECK(done.status == DAT_DTO_SUCCESS);
    CHECK(done.user_cookie.as_64 == cookie);
    CHECK(done.transfered_length == length);
}

/// Every cookie from 0 to number - 1 once, none of them a success where `flushed`.
void expect_each_once(const std::vector<DAT_EVENT> &events, std::uint64_t number, bool flushed)
{
    std::multiset<std::uint64_t> seen;
    for (const DAT_EVENT &event : events) {
        CHECK(same_event(event.event_number, DAT_DTO_COMPLETION_EVENT));
        const auto &done = event.event_data.dto_completion_event_data;
        seen.insert(done.user_cookie.as_64);
        if (flushed)
            CHECK(done.status == DAT_DTO_ERR_FLUSHED);
    }
    CHECK_MESSAGE(seen.size() == number, seen.size(), " completions came of ", number,
                  " posted operations");
    for (std::uint64_t i = 0; i < number; ++i)
        CHECK_MESSAGE(seen.count(i) == 1, "operation ", i, " completed ", seen.count(i), " times");
}

/// Big enough to be on their way when something happens to the connection.
endpoint_options large_ends()
{
    endpoint_options options;
    options.bytes = 8 * 1024 * 1024;
    return options;
}

} // namespace

TEST_CASE("DTO-01: a message arrives whole, with cookies and lengths on both sides" *
          hint("mix up the cookies, or report the length posted instead of the one received"))
{
    adapter ia;
    connected_pair pair(ia);
    std::uint64_t cookie = 0xfedcba9876543210;
    for (std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{65},
                             std::size_t{4096}, std::size_t{16384}, std::size_t{32768}}) {
        CAPTURE(size);
        pair.active.memory.fill(0, size, static_cast<unsigned>(size));
        MUST(pair.passive.recv(0, 32768, cookie + 1));
        MUST(pair.active.send(0, size, cookie));
        expect_success(pair.active.request_evd, cookie, size);
        expect_success(pair.passive.recv_evd, cookie + 1, size);
        CHECK(pair.passive.memory.holds(0, size, static_cast<unsigned>(size)));
        cookie += 2;
    }
}

TEST_CASE("DTO-02: the completion names endpoint and EVD" *
          hint("leave endpoint or EVD of the event unset"))
{
    adapter ia;
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 64));
    const DAT_EVENT sent = next_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
    const DAT_EVENT received = next_event(pair.passive.recv_evd, DAT_DTO_COMPLETION_EVENT);
    CHECK(sent.evd_handle == pair.active.request_evd);
    CHECK(sent.event_data.dto_completion_event_data.ep_handle == pair.active.ep);
    CHECK(received.evd_handle == pair.passive.recv_evd);
    CHECK(received.event_data.dto_completion_event_data.ep_handle == pair.passive.ep);
}

TEST_CASE("DTO-03: empty messages, with no segment or with one of length 0" *
          hint("refuse zero segments, or post a segment of length 0 that the device cannot take"))
{
    adapter ia;
    connected_pair pair(ia);
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    MUST(dat_ep_post_recv(pair.passive.ep, 0, nullptr, cookie_of(1), flags));
    MUST(dat_ep_post_send(pair.active.ep, 0, nullptr, cookie_of(2), flags));
    expect_success(pair.active.request_evd, 2, 0);
    expect_success(pair.passive.recv_evd, 1, 0);
    MUST(pair.passive.recv(0, 64, 3));
    MUST(dat_ep_post_send(pair.active.ep, 0, nullptr, cookie_of(4), flags));
    expect_success(pair.active.request_evd, 4, 0);
    expect_success(pair.passive.recv_evd, 3, 0);
    // The other fields of a segment of length 0 are not looked at.
    DAT_LMR_TRIPLET nothing{0, 0, 0};
    MUST(dat_ep_post_recv(pair.passive.ep, 1, &nothing, cookie_of(5), flags));
    MUST(dat_ep_post_send(pair.active.ep, 1, &nothing, cookie_of(6), flags));
    expect_success(pair.active.request_evd, 6, 0);
    expect_success(pair.passive.recv_evd, 5, 0);
    const DAT_RMR_TRIPLET remote = pair.passive.memory.remote(0, 64);
    MUST(dat_ep_post_rdma_write(pair.active.ep, 0, nullptr, cookie_of(7), &remote, flags));
    expect_success(pair.active.request_evd, 7, 0);
}

TEST_CASE("DTO-04: as many segments as the endpoint allows are gathered and scattered" *
          hint("advertise more segments than the queue pair is created with"))
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_EP_ATTR attr = ep_param(pair.active.ep).ep_attr;
    const auto out = static_cast<std::size_t>(attr.max_request_iov);
    const auto in = static_cast<std::size_t>(attr.max_recv_iov);
    const std::size_t total = out * 96;
    auto from = slices(pair.active.memory, 0, 96, out);
    auto to = slices(pair.passive.memory, 0, (total + in - 1) / in, in);
    pair.active.memory.fill(0, total, 4);
    MUST(post_recv(pair.passive, to, 1));
    MUST(post_send(pair.active, from, 2));
    expect_success(pair.active.request_evd, 2, total);
    expect_success(pair.passive.recv_evd, 1, total);
    CHECK(pair.passive.memory.holds(0, total, 4));
}

TEST_CASE("DTO-05: segments are taken in the order given" *
          hint("build the scatter list in another order, or sort it by address"))
{
    adapter ia;
    connected_pair pair(ia);
    if (ep_param(pair.active.ep).ep_attr.max_request_iov < 2)
        return;
    pair.active.memory.fill(0, 300, 6);
    std::vector<DAT_LMR_TRIPLET> from{pair.active.memory.local(200, 100),
                                      pair.active.memory.local(0, 200)};
    MUST(pair.passive.recv(0, 300));
    MUST(post_send(pair.active, from));
    CHECK(next_dto(pair.passive.recv_evd).transfered_length == 300);
    const auto *got = pair.passive.memory.bytes.data();
    CHECK(std::memcmp(got, pair.active.memory.bytes.data() + 200, 100) == 0);
    CHECK(std::memcmp(got + 100, pair.active.memory.bytes.data(), 200) == 0);
}

TEST_CASE("DTO-06: posts check their arguments, and nothing completes" *
          hint("check arguments after a slot was taken, so that a refused post completes later"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &by = pair.active;
    const DAT_EP_ATTR attr = ep_param(by.ep).ep_attr;
    const auto too_many =
        static_cast<std::size_t>(std::max(attr.max_request_iov, attr.max_recv_iov)) + 1;
    auto iov = slices(by.memory, 0, 8, too_many);
    const DAT_RMR_TRIPLET remote = pair.passive.memory.remote(0, 8 * too_many);
    const auto bad_flags = static_cast<DAT_COMPLETION_FLAGS>(0x1000);
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    const DAT_DTO_COOKIE none{};
    for (DAT_COUNT n : {static_cast<DAT_COUNT>(too_many), -1}) {
        CAPTURE(n);
        CHECK(same_code(dat_ep_post_send(by.ep, n, iov.data(), none, flags), bad_arg(2)));
        CHECK(same_code(dat_ep_post_recv(by.ep, n, iov.data(), none, flags), bad_arg(2)));
        CHECK(same_code(dat_ep_post_rdma_write(by.ep, n, iov.data(), none, &remote, flags),
                        bad_arg(2)));
        CHECK(same_code(dat_ep_post_rdma_read(by.ep, n, iov.data(), none, &remote, flags),
                        bad_arg(2)));
    }
    CHECK(same_code(dat_ep_post_send(by.ep, 1, nullptr, none, flags), bad_arg(3)));
    CHECK(same_code(dat_ep_post_recv(by.ep, 1, nullptr, none, flags), bad_arg(3)));
    CHECK(same_code(dat_ep_post_rdma_write(by.ep, 1, nullptr, none, &remote, flags), bad_arg(3)));
    CHECK(same_code(dat_ep_post_rdma_read(by.ep, 1, nullptr, none, &remote, flags), bad_arg(3)));
    CHECK(
        same_code(dat_ep_post_rdma_write(by.ep, 1, iov.data(), none, nullptr, flags), bad_arg(5)));
    CHECK(same_code(dat_ep_post_rdma_read(by.ep, 1, iov.data(), none, nullptr, flags), bad_arg(5)));
    CHECK(
        same_type(dat_ep_post_send(by.ep, 1, iov.data(), none, bad_flags), DAT_INVALID_PARAMETER));
    CHECK(
        same_type(dat_ep_post_recv(by.ep, 1, iov.data(), none, bad_flags), DAT_INVALID_PARAMETER));
    CHECK(same_type(dat_ep_post_recv(by.ep, 1, iov.data(), none, DAT_COMPLETION_SUPPRESS_FLAG),
                    DAT_INVALID_PARAMETER));
    CHECK(same_type(dat_ep_post_rdma_write(by.ep, 1, iov.data(), none, &remote, bad_flags),
                    DAT_INVALID_PARAMETER));
    CHECK(stays_empty(by.request_evd, milliseconds(20)));
    CHECK(stays_empty(by.recv_evd, milliseconds(1)));
    move_data(pair.active, pair.passive);
}

TEST_CASE("DTO-07: RDMA segments whose lengths do not fit are LENGTH_ERROR" *
          hint("leave the length check to the device, which breaks the connection"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &by = pair.active;
    const region &there = pair.passive.memory;
    CHECK(same_code(by.write(0, 65, there.remote(0, 64)), error(DAT_LENGTH_ERROR)));
    CHECK(same_code(by.read(0, 63, there.remote(0, 64)), error(DAT_LENGTH_ERROR)));
    MUST(by.write(0, 64, there.remote(0, 65), 1));
    expect_success(by.request_evd, 1, 64);
    MUST(by.read(0, 65, there.remote(0, 64), 2));
    const auto done = next_dto(by.request_evd);
    CHECK(done.status == DAT_DTO_SUCCESS);
    CHECK(done.user_cookie.as_64 == 2);
}

TEST_CASE("DTO-08: an RDMA write changes the target and no memory next to it" *
          hint("add the offset of the segment twice, or round the length up"))
{
    adapter ia;
    connected_pair pair(ia);
    for (std::size_t size :
         {std::size_t{1}, std::size_t{64}, std::size_t{5000}, std::size_t{40000}}) {
        CAPTURE(size);
        auto &there = pair.passive.memory.bytes;
        pair.passive.memory.set_all(0xee);
        pair.active.memory.fill(0, size, 8);
        MUST(pair.active.write(0, size, pair.passive.memory.remote(1000, size), size));
        expect_success(pair.active.request_evd, size, size);
        CHECK(becomes_true([&] { return pair.passive.memory.holds(1000, size, 8); }));
        CHECK(there[999] == 0xee);
        CHECK(there[1000 + size] == 0xee);
    }
    CHECK(stays_empty(pair.passive.recv_evd, milliseconds(1)));
    CHECK(stays_empty(pair.passive.request_evd, milliseconds(1)));
}

TEST_CASE("DTO-09: an RDMA read fetches memory while the peer makes no call" *
          hint("need progress by the target's calls: no thread drives the connection there"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    for (std::size_t size :
         {std::size_t{1}, std::size_t{64}, std::size_t{5000}, std::size_t{40000}}) {
        CAPTURE(size);
        auto &here = pair.active.memory.bytes;
        pair.active.memory.set_all(0xee);
        pair.passive.memory.fill(1000, size, 5);
        MUST(pair.active.read(500, size, pair.passive.memory.remote(1000, size), size));
        expect_success(pair.active.request_evd, size, size);
        CHECK(pair.active.memory.holds(500, size, 5));
        CHECK(here[499] == 0xee);
        CHECK(here[500 + size] == 0xee);
    }
}

TEST_CASE("DTO-10: RDMA gathers and scatters its local segments" *
          hint("use the first local segment only"))
{
    adapter ia;
    connected_pair pair(ia);
    const DAT_EP_ATTR attr = ep_param(pair.active.ep).ep_attr;
    const auto writes =
        static_cast<std::size_t>(std::min(attr.max_request_iov, attr.max_rdma_write_iov));
    const auto reads =
        static_cast<std::size_t>(std::min(attr.max_request_iov, attr.max_rdma_read_iov));
    auto from = slices(pair.active.memory, 0, 100, writes);
    pair.active.memory.fill(0, writes * 100, 2);
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(64, writes * 100);
    MUST(dat_ep_post_rdma_write(pair.active.ep, static_cast<DAT_COUNT>(writes), from.data(),
                                cookie_of(1), &there, DAT_COMPLETION_DEFAULT_FLAG));
    expect_success(pair.active.request_evd, 1, writes * 100);
    CHECK(becomes_true([&] { return pair.passive.memory.holds(64, writes * 100, 2); }));
    pair.passive.memory.fill(0, reads * 100, 3);
    auto to = slices(pair.active.memory, 4096, 100, reads);
    const DAT_RMR_TRIPLET source = pair.passive.memory.remote(0, reads * 100);
    MUST(dat_ep_post_rdma_read(pair.active.ep, static_cast<DAT_COUNT>(reads), to.data(),
                               cookie_of(2), &source, DAT_COMPLETION_DEFAULT_FLAG));
    expect_success(pair.active.request_evd, 2, reads * 100);
    CHECK(pair.active.memory.holds(4096, reads * 100, 3));
}

TEST_CASE("DTO-11: what an RDMA write wrote is there when a later message is received" *
          hint("let a send overtake an earlier write, on another path or queue"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    constexpr std::size_t size = 20000;
    for (unsigned round = 0; round < 300; ++round) {
        from.memory.fill(0, size, round);
        MUST(to.recv(32768, 16));
        MUST(from.write(0, size, to.memory.remote(0, size), 1, DAT_COMPLETION_SUPPRESS_FLAG));
        MUST(from.send(0, 16, 2));
        CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
        CHECK(to.memory.holds(0, size, round));
        expect_success(from.request_evd, 2, 16);
    }
}

TEST_CASE("DTO-12: a suppressed success is silent, and later completions prove it" *
          hint("report suppressed successes, or leak the slots that they held"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    const DAT_COUNT depth = ep_param(from.ep).ep_attr.max_request_dtos;
    for (int round = 0; round < 20; ++round) {
        for (DAT_COUNT i = 1; i < depth; ++i)
            MUST(from.write(0, 64, pair.passive.memory.remote(0, 64), 7,
                            DAT_COMPLETION_SUPPRESS_FLAG));
        MUST(from.write(0, 64, pair.passive.memory.remote(0, 64), 8));
        expect_success(from.request_evd, 8, 64);
    }
    CHECK(stays_empty(from.request_evd, milliseconds(20)));
}

TEST_CASE("DTO-13: the requests of an endpoint complete in the order posted, reads among them" *
          hint("report reads out of order, when their data arrives"))
{
    adapter ia;
    endpoint_options large;
    large.bytes = 128 * 1024; // each has a place of its own: they are on their way together
    connected_pair pair(ia, large);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    for (int round = 0; round < 100; ++round) {
        for (std::uint64_t i = 0; i < 3; ++i)
            MUST(to.recv(70000, 64));
        MUST(from.read(0, 30000, to.memory.remote(0, 30000), 0));
        MUST(from.send(50000, 16, 1));
        MUST(from.write(60000, 30000, to.memory.remote(30000, 30000), 2));
        MUST(from.send(50000, 16, 3));
        MUST(from.read(50016, 8, to.memory.remote(0, 8), 4));
        MUST(from.read(30000, 20000, to.memory.remote(0, 20000), 5));
        MUST(from.send(50000, 16, 6));
        for (std::uint64_t i = 0; i <= 6; ++i) {
            const auto done = next_dto(from.request_evd);
            CHECK(done.user_cookie.as_64 == i);
            CHECK(done.status == DAT_DTO_SUCCESS);
        }
        for (int i = 0; i < 3; ++i)
            CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
    }
}

TEST_CASE("DTO-14: messages arrive in the order sent, into the receives in the order posted" *
          hint("use several paths or buffers without ordering them"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    const auto depth = static_cast<std::uint64_t>(ep_param(to.ep).ep_attr.max_recv_dtos);
    for (int round = 0; round < 20; ++round) {
        for (std::uint64_t i = 0; i < depth; ++i)
            MUST(to.recv(i * 64, 64, i));
        for (std::uint64_t i = 0; i < depth; ++i) {
            from.memory.bytes[i * 64] = static_cast<std::uint8_t>(i);
            MUST(from.send(i * 64, 1 + i, i));
        }
        for (std::uint64_t i = 0; i < depth; ++i) {
            expect_success(to.recv_evd, i, 1 + i);
            CHECK(to.memory.bytes[i * 64] == i);
            CHECK(next_dto(from.request_evd).user_cookie.as_64 == i);
        }
    }
}

TEST_CASE("DTO-15: more requests than the endpoint takes are INSUFFICIENT_RESOURCES" *
          hint("block, overflow the queue, or answer INTERNAL_ERROR"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    const DAT_COUNT depth = ep_param(from.ep).ep_attr.max_request_dtos;
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    for (int round = 0; round < 3; ++round) {
        for (DAT_COUNT i = 0; i < depth; ++i)
            MUST(from.write(0, 64, there, static_cast<std::uint64_t>(i)));
        // No completion was taken, so all requests still count as outstanding.
        CHECK(same_type(from.write(0, 64, there, 99), DAT_INSUFFICIENT_RESOURCES));
        for (DAT_COUNT i = 0; i < depth; ++i)
            expect_success(from.request_evd, static_cast<std::uint64_t>(i), 64);
    }
    CHECK(stays_empty(from.request_evd, milliseconds(20)));
}

TEST_CASE("DTO-16: more receives than the endpoint takes are INSUFFICIENT_RESOURCES" *
          hint("block, overflow the queue, or answer INTERNAL_ERROR"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &to = pair.passive;
    const DAT_COUNT depth = ep_param(to.ep).ep_attr.max_recv_dtos;
    for (DAT_COUNT i = 0; i < depth; ++i)
        MUST(to.recv(0, 64));
    CHECK(same_type(to.recv(0, 64), DAT_INSUFFICIENT_RESOURCES));
    MUST(pair.active.send(0, 64));
    (void)next_dto(to.recv_evd);
    CHECK(same_code(to.recv(0, 64), DAT_SUCCESS));
    CHECK(same_type(to.recv(0, 64), DAT_INSUFFICIENT_RESOURCES));
}

TEST_CASE("DTO-17: a message too long for its receive is LOCAL_LENGTH, and breaks both sides" *
          hint("deliver a truncated message as success, or keep the connection"))
{
    adapter ia;
    for (std::size_t size : {std::size_t{64}, std::size_t{30000}}) {
        CAPTURE(size);
        connected_pair pair(ia);
        MUST(pair.passive.recv(0, size - 1, 5));
        pair.passive.memory.bytes[size - 1] = 0xee;
        MUST(pair.active.send(0, size, 6));
        const auto received = next_dto(pair.passive.recv_evd);
        CHECK(received.status == DAT_DTO_ERR_LOCAL_LENGTH);
        CHECK(received.user_cookie.as_64 == 5);
        CHECK(pair.passive.memory.bytes[size - 1] == 0xee);
        expect_broken(pair.passive, pair.active, true);
    }
}

TEST_CASE("DTO-18: the sender of a message too long for its receive learns of it as an error" *
          hint("complete a send when it left, and never report the error"))
{
    adapter ia;
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 8));
    MUST(pair.active.send(0, 64, 6));
    (void)next_dto(pair.passive.recv_evd);
    const auto sent = next_dto(pair.active.request_evd);
    CHECK(sent.user_cookie.as_64 == 6);
    if (sent.status == DAT_DTO_SUCCESS && !acknowledged())
        MESSAGE("this transport completes a send before the peer has taken it");
    else
        CHECK(sent.status != DAT_DTO_SUCCESS);
}

TEST_CASE("DTO-19: RDMA to memory that is not lent fails, and breaks the connection" *
          hint("write it nevertheless, or report no error because completion is local"))
{
    adapter ia;
    connected_pair pair(ia);
    const region &there = pair.passive.memory;
    const std::vector<std::uint8_t> before = there.bytes;
    DAT_RMR_TRIPLET target = there.remote(0, 64);
    bool reading = false;
    SUBCASE("write with an unknown context")
    {
        target.rmr_context ^= 0x5a5a5a;
    }
    SUBCASE("read with an unknown context")
    {
        target.rmr_context ^= 0x5a5a5a;
        reading = true;
    }
    SUBCASE("write with context 0")
    {
        target.rmr_context = 0;
    }
    SUBCASE("write over the end")
    {
        target = there.remote(there.bytes.size() - 32, 64);
    }
    SUBCASE("read over the end")
    {
        target = there.remote(there.bytes.size() - 32, 64);
        reading = true;
    }
    SUBCASE("write before the beginning")
    {
        target.virtual_address -= 32;
    }
    SUBCASE("write far away")
    {
        target.virtual_address += 1u << 30;
    }
    pair.active.memory.fill(0, 64, 1);
    MUST(reading ? pair.active.read(0, 64, target, 4) : pair.active.write(0, 64, target, 4));
    expect_refused(pair.active, pair.passive, reading, 4);
    CHECK(there.bytes == before);
}

TEST_CASE("DTO-50: short transfers across the end of a page bring every byte" *
          hint("copy short payloads in two parts and take the wrong length for the first"))
{
    constexpr std::size_t page = 4096;
    adapter ia;
    connected_pair pair(ia);
    region &ours = pair.active.memory;
    region &theirs = pair.passive.memory;
    const auto first_end = [](const region &of) {
        return page - reinterpret_cast<std::uintptr_t>(of.bytes.data()) % page;
    };
    const std::size_t our_end = first_end(ours) + page;
    const std::size_t their_end = first_end(theirs) + page;
    unsigned seed = 0;
    for (const std::size_t length : {2, 8, 17, 29, 32, 33, 48, 64, 65})
        for (const std::size_t before : {std::size_t{1}, length / 4, length / 2, length - 1}) {
            CAPTURE(length);
            CAPTURE(before);
            const std::size_t here = our_end - before;
            const std::size_t there = their_end - before;
            const auto prepare = [&](region &from, std::size_t at) {
                ours.set_all(0xee);
                theirs.set_all(0xdd);
                from.fill(at, length, ++seed);
            };
            prepare(theirs, there);
            MUST(pair.active.read(here, length, theirs.remote(there, length)));
            CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
            CHECK(ours.holds(here, length, seed));
            prepare(ours, here);
            MUST(pair.active.write(here, length, theirs.remote(there, length)));
            CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
            MUST(pair.passive.recv(2 * page + their_end, length)); // ends the write
            MUST(pair.active.send(here, length));
            CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
            CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
            CHECK(theirs.holds(there, length, seed));
            CHECK(theirs.holds(2 * page + their_end, length, seed));
        }
}

TEST_CASE("DTO-20: RDMA beyond the rights of the region fails" *
          hint("register all memory with all rights and check nothing"))
{
    adapter ia;
    connected_pair pair(ia);
    unsigned rights = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
    bool reading = false;
    SUBCASE("write without the right to")
    {
        rights |= DAT_MEM_PRIV_REMOTE_READ_FLAG;
    }
    SUBCASE("read without the right to")
    {
        rights |= DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
        reading = true;
    }
    region lent(ia, pair.passive.pz, 4096, static_cast<DAT_MEM_PRIV_FLAGS>(rights));
    pair.active.memory.fill(0, 64, 1);
    const std::vector<std::uint8_t> before = lent.bytes;
    const DAT_RMR_TRIPLET target = lent.remote(0, 64);
    MUST(reading ? pair.active.read(0, 64, target) : pair.active.write(0, 64, target));
    expect_refused(pair.active, pair.passive, reading, 0);
    CHECK(lent.bytes == before);
}

TEST_CASE("DTO-21: the context of a freed region is dead" *
          hint("reuse or cache registrations, so the old context still works"))
{
    adapter ia;
    connected_pair pair(ia);
    auto lent = std::make_unique<region>(ia, pair.passive.pz, 4096);
    const DAT_RMR_TRIPLET target = lent->remote(0, 64);
    pair.active.memory.fill(0, 64, 21);
    MUST(pair.active.write(0, 64, target));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(becomes_true([&] { return lent->holds(0, 64, 21); })); // the data may come later
    const std::vector<std::uint8_t> before = lent->copy();
    pair.active.memory.fill(0, 64, 77);
    lent->free();
    MUST(pair.active.write(0, 64, target, 3));
    expect_refused(pair.active, pair.passive, false, 3);
    CHECK(lent->copy() == before);
}

TEST_CASE("DTO-22: a local segment that is not in its region never succeeds" *
          hint("do not look at the local context: the data moves from memory outside the region"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &by = pair.active;
    region small(ia, by.pz, 16);
    DAT_LMR_TRIPLET local = by.memory.local(0, 64);
    SUBCASE("unknown context")
    {
        local.lmr_context ^= 0x5a5a5a;
    }
    SUBCASE("a region elsewhere")
    {
        local.lmr_context = small.lmr_context;
    }
    MUST(pair.passive.recv(0, 64));
    const DAT_RETURN posted =
        dat_ep_post_send(by.ep, 1, &local, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG);
    const bool refused =
        posted != DAT_SUCCESS || next_dto(by.request_evd).status != DAT_DTO_SUCCESS;
    if (the_settings().promised("local_protection"))
        CHECK(refused);
    else if (!refused)
        MESSAGE("this transport does not look at local contexts");
}

TEST_CASE("DTO-23: everything posted completes once when the connection ends, on both sides" *
          hint("lose what the device flushes after the disconnect event, or report it twice"))
{
    adapter ia;
    for (DAT_CLOSE_FLAGS how : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
        CAPTURE(how);
        connected_pair pair(ia);
        const auto depth =
            static_cast<std::uint64_t>(ep_param(pair.active.ep).ep_attr.max_recv_dtos);
        for (std::uint64_t i = 0; i < depth; ++i) {
            MUST(pair.active.recv(0, 64, i));
            MUST(pair.passive.recv(0, 64, i));
        }
        MUST(pair.active.disconnect(how));
        for (test_endpoint *side : {&pair.active, &pair.passive}) {
            next_connection(side->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
            expect_each_once(collect(side->recv_evd, depth), depth, true);
            CHECK(stays_empty(side->request_evd, milliseconds(1)));
        }
    }
}

TEST_CASE("DTO-24: outstanding requests complete once when the connection breaks" *
          hint("drop outstanding requests when the connection breaks"))
{
    adapter ia;
    adapter other;
    for (int round = 0; round < 6; ++round) {
        CAPTURE(round);
        connected_pair pair(ia, other, large_ends());
        constexpr std::uint64_t number = 9;
        constexpr std::size_t size = 4 * 1024 * 1024;
        for (std::uint64_t i = 0; i < number; i += 3) {
            MUST(pair.active.write(0, size, pair.passive.memory.remote(0, size), i));
            MUST(pair.active.read(0, size, pair.passive.memory.remote(0, size), i + 1));
            MUST(pair.active.send(0, size, i + 2)); // finds no receive
        }
        std::this_thread::sleep_for(milliseconds(round));
        MUST((round % 2 == 0 ? pair.active : pair.passive).disconnect(DAT_CLOSE_ABRUPT_FLAG));
        expect_each_once(collect(pair.active.request_evd, number), number, false);
    }
}

TEST_CASE("DTO-25: suppressed requests complete with an event when they are flushed" *
          hint("drop the error completions of suppressed requests together with the successes"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other, large_ends());
    constexpr std::size_t size = 8 * 1024 * 1024;
    constexpr std::uint64_t number = 6;
    for (std::uint64_t i = 0; i < number; ++i)
        MUST(pair.active.send(0, size, i, DAT_COMPLETION_SUPPRESS_FLAG)); // finds no receive
    MUST(pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    auto events = collect(pair.active.request_evd, 1); // a provider may suppress either success
    while (!events.empty() &&
           events.back().event_data.dto_completion_event_data.user_cookie.as_64 != number - 1) {
        const auto more = collect(pair.active.request_evd, 1);
        if (more.empty())
            break;
        events.insert(events.end(), more.begin(), more.end());
    }
    CHECK(events.size() <= number);
    CHECK(!events.empty());
    std::uint64_t last = 0;
    for (const DAT_EVENT &event : events) {
        const auto &done = event.event_data.dto_completion_event_data;
        CHECK(done.status != DAT_DTO_SUCCESS);
        CHECK(done.user_cookie.as_64 >= last);
        last = done.user_cookie.as_64;
    }
    CHECK(last == number - 1);
}

TEST_CASE("DTO-26: what is posted to a disconnected endpoint completes as flushed" *
          hint("refuse the post, or accept it and never complete it"))
{
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
    MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(pair.active, pair.passive);
    for (test_endpoint *side : {&pair.active, &pair.passive}) {
        const DAT_RMR_TRIPLET there = pair.active.memory.remote(0, 64);
        CHECK(same_code(side->send(0, 64, 0), DAT_SUCCESS));
        CHECK(same_code(side->write(0, 64, there, 1), DAT_SUCCESS));
        CHECK(same_code(side->read(0, 64, there, 2), DAT_SUCCESS));
        CHECK(same_code(side->send(0, 64, 3, DAT_COMPLETION_SUPPRESS_FLAG), DAT_SUCCESS));
        expect_each_once(collect(side->request_evd, 4), 4, true);
        CHECK(same_code(side->recv(0, 64, 0), DAT_SUCCESS));
        expect_each_once(collect(side->recv_evd, 1), 1, true);
    }
}

TEST_CASE("DTO-27: after ep_free and after ep_reset no completion comes any more" *
          hint("deliver completions that were polled before the endpoint went"))
{
    adapter ia;
    for (bool resets : {false, true}) {
        CAPTURE(resets);
        connected_pair pair(ia);
        for (std::uint64_t i = 0; i < 8; ++i)
            MUST(pair.active.recv(0, 64, i));
        if (resets) {
            MUST(pair.active.disconnect(DAT_CLOSE_ABRUPT_FLAG));
            next_connection(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
            MUST(dat_ep_reset(pair.active.ep));
        } else {
            MUST(pair.active.free_ep());
        }
        const auto late = drain(pair.active.recv_evd);
        if (!resets)
            CHECK(late.empty());
        for (const DAT_EVENT &event : late) // events that were queued already
            CHECK(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED);
        if (!resets)
            continue;
        CHECK(stays_empty(pair.active.recv_evd));
        next_connection(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        MUST(dat_ep_reset(pair.passive.ep));
        establish(pair.active, pair.passive);
        move_data(pair.passive, pair.active);
    }
}

TEST_CASE("DTO-28: receives posted before connecting take the first messages" *
          hint("drop or reorder receives that were posted before the queue pair was connected"))
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    for (std::uint64_t i = 0; i < 4; ++i)
        MUST(to.recv(i * 64, 64, i));
    establish(from, to);
    for (std::uint64_t i = 0; i < 4; ++i)
        MUST(from.send(0, 64));
    for (std::uint64_t i = 0; i < 4; ++i)
        expect_success(to.recv_evd, i, 64);
}

TEST_CASE("DTO-29: a message that finds no receive waits for one, or ends the connection" *
          hint("drop the message silently, or leave the write behind it until the consumer polls"))
{
    adapter ia;
    connected_pair pair(ia);
    region &target = pair.passive.memory;
    for (unsigned round = 0; round < 10; ++round) {
        pair.active.memory.fill(64, 64, round);
        MUST(pair.active.send(0, 64, 1));
        MUST(pair.active.write(64, 64, target.remote(64, 64), 2));
        std::this_thread::sleep_for(milliseconds(round == 0 ? 100 : 5));
        const DAT_RETURN posted = pair.passive.recv(0, 64, 3);
        if (pair.active.state() != DAT_EP_STATE_CONNECTED) {
            CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_ERR_RECEIVER_NOT_READY);
            break;
        }
        MUST(posted);
        CHECK(becomes_true([&] { return target.holds(64, 64, round); })); // no dequeue moves it
        expect_success(pair.passive.recv_evd, 3, 64);
        expect_success(pair.active.request_evd, 1, 64);
        expect_success(pair.active.request_evd, 2, 64);
    }
}

TEST_CASE("DTO-30: sends and receives can complete in one EVD" *
          hint("distinguish sends and receives by their EVD"))
{
    adapter ia;
    endpoint_options options;
    options.one_dto_evd = true;
    connected_pair pair(ia, options);
    for (int round = 0; round < 50; ++round) {
        MUST(pair.passive.recv(0, 64, 1));
        MUST(pair.active.recv(0, 64, 2));
        MUST(pair.active.send(0, 64, 3));
        MUST(pair.passive.send(0, 64, 4));
        for (test_endpoint *side : {&pair.active, &pair.passive}) {
            std::set<std::uint64_t> cookies;
            for (int i = 0; i < 2; ++i)
                cookies.insert(next_dto(side->recv_evd).user_cookie.as_64);
            CHECK(cookies == (side == &pair.active ? std::set<std::uint64_t>{2, 3}
                                                   : std::set<std::uint64_t>{1, 4}));
        }
    }
}

TEST_CASE(
    "DTO-31: large transfers arrive whole, by message, write and read" *
    hint("cut transfers at the transport's largest message without splitting or refusing them"))
{
    adapter ia;
    adapter other;
    // ThreadSanitizer suppresses a report for each word that a library without instrumentation
    // copies from one thread to another: half a MiB takes 3 s, an eighth 0.4 s, nothing without.
    const std::size_t size = (thread_sanitized() ? 1 : 64) * 128 * 1024;
    connected_pair pair(ia, other, large_ends());
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    from.memory.fill(0, size, 1);
    MUST(to.recv(0, size));
    MUST(from.send(0, size, 1));
    expect_success(to.recv_evd, 0, size);
    expect_success(from.request_evd, 1, size);
    CHECK(to.memory.holds(0, size, 1));
    from.memory.fill(0, size, 2);
    MUST(from.write(0, size, to.memory.remote(0, size), 2));
    expect_success(from.request_evd, 2, size);
    CHECK(becomes_true([&] { return to.memory.holds(0, size, 2); }));
    to.memory.fill(0, size, 3);
    MUST(from.read(0, size, to.memory.remote(0, size), 3));
    expect_success(from.request_evd, 3, size);
    CHECK(from.memory.holds(0, size, 3));
}

TEST_CASE(
    "DTO-32: both directions at once, thousands of messages, none lost or changed" *
    hint("run out of buffers or credits under load and then lose or repeat messages, or report "
         "the length of another"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    constexpr unsigned messages = 3000;
    constexpr std::size_t size = 512;
    const auto length_of = [](unsigned number) { return std::size_t{number} * 7 % size + 1; };
    test_endpoint *sides[] = {&pair.active, &pair.passive};
    unsigned received[] = {0, 0};
    for (test_endpoint *side : sides)
        for (std::uint64_t i = 0; i < 8; ++i)
            MUST(side->recv(32768 + i * size, size, i));
    unsigned outstanding[] = {0, 0};
    unsigned sent[] = {0, 0};
    const auto expect = [](bool right, const char *otherwise) {
        if (!right)
            GIVE_UP(otherwise);
    };
    const auto step = [&] {
        for (int s : {0, 1}) {
            DAT_EVENT event{};
            const auto &done = event.event_data.dto_completion_event_data;
            // No more on the way than the peer has receives.
            while (sent[s] < messages && outstanding[s] == 0 && sent[s] < received[1 - s] + 8) {
                const std::size_t length = length_of(sent[s]);
                sides[s]->memory.fill(0, length, sent[s]);
                MUST(sides[s]->send(0, length, sent[s]++));
                ++outstanding[s];
            }
            while (dat_evd_dequeue(sides[s]->request_evd, &event) == DAT_SUCCESS) {
                expect(done.status == DAT_DTO_SUCCESS, "a send failed");
                expect(done.user_cookie.as_64 == sent[s] - 1, "a send has another cookie");
                expect(done.transfered_length == length_of(sent[s] - 1),
                       "a send has another length");
                --outstanding[s];
            }
            while (dat_evd_dequeue(sides[s]->recv_evd, &event) == DAT_SUCCESS) {
                const std::size_t length = length_of(received[s]);
                const auto slot = done.user_cookie.as_64;
                expect(done.status == DAT_DTO_SUCCESS, "a receive failed");
                expect(slot == received[s] % 8, "a message came into another receive");
                expect(done.transfered_length == length, "a message has another length");
                expect(sides[s]->memory.holds(32768 + slot * size, length, received[s]),
                       "a message was lost or changed");
                ++received[s];
                MUST(sides[s]->recv(32768 + slot * size, size, slot));
            }
        }
        return received[0] == messages && received[1] == messages;
    };
    // The peer sleeps in between. A slow system takes longer than the patience for all of them.
    for (bool done = false; !done;) {
        const unsigned before = received[0] + received[1];
        const bool some_came = becomes_true([&] {
            for (int i = 0; i < 1000 && !done; ++i)
                done = step();
            return received[0] + received[1] != before;
        });
        if (!some_came)
            GIVE_UP("no message arrives any more");
        std::this_thread::sleep_for(milliseconds(1));
    }
}

// -------------------------------------------------------------------------- spinning on memory

namespace {

constexpr std::size_t spin_size = 4096;

/// Polls until the last byte has the value of the round; returns how many bytes before it were
/// late.
DEVICE_MEMORY std::size_t late_bytes(const volatile std::uint8_t *memory, std::uint8_t round)
{
    const auto until = std::chrono::steady_clock::now() + patience;
    for (unsigned spins = 0; memory[spin_size - 1] != round; ++spins)
        if (spins % 4096 == 0 && std::chrono::steady_clock::now() > until)
            GIVE_UP("the last byte never came");
    std::atomic_signal_fence(std::memory_order_acquire); // the case is about the writer's order
    std::size_t late = 0;
    for (std::size_t i = 0; i < spin_size; ++i)
        late += memory[i] == round ? 0 : 1;
    return late;
}

void report_late(unsigned late_rounds, unsigned rounds)
{
    if (the_settings().promised("final_byte_last"))
        CHECK(late_rounds == 0);
    else
        MESSAGE("final byte before others in ", late_rounds, " of ", rounds, " writes");
}

/// Lends memory, spins on it, and answers each round with the number of late bytes.
int spin(peer_link &link)
{
    adapter ia;
    test_endpoint own(ia);
    listener at(ia);
    link.send(offer_of(ia, at.qualifier, &own.memory));
    MUST(dat_cr_accept(at.next_request(), own.ep, 0, nullptr));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    link.send(true);
    while (const auto round = link.receive<std::uint8_t>())
        link.send(late_bytes(own.memory.bytes.data(), round));
    return 0;
}
const role spin_role("spin", spin);

} // namespace

TEST_CASE("DTO-33: a consumer that only spins on memory sees what is written, in one process" *
          hint("need calls of the consumer for progress: spinning on memory never sees the data"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    unsigned late = 0;
    constexpr unsigned rounds = 200;
    for (unsigned round = 1; round <= rounds; ++round) {
        pair.active.memory.set_all(static_cast<std::uint8_t>(round));
        MUST(pair.active.write(0, spin_size, pair.passive.memory.remote(0, spin_size), round));
        late += late_bytes(pair.passive.memory.bytes.data(), static_cast<std::uint8_t>(round)) != 0;
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    }
    report_late(late, rounds);
}

TEST_CASE("DTO-34: a consumer that only spins on memory sees what is written, in two processes" *
          hint("need calls of the consumer for progress: spinning on memory never sees the data"))
{
    adapter ia;
    test_endpoint own(ia);
    peer_process peer("spin");
    offer there = peer.link->receive<offer>();
    MUST(own.connect(there.to(), there.qualifier));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    (void)peer.link->receive<bool>();
    unsigned late = 0;
    constexpr unsigned rounds = 200;
    for (unsigned round = 1; round <= rounds; ++round) {
        own.memory.set_all(static_cast<std::uint8_t>(round));
        there.memory.segment_length = spin_size;
        peer.link->send(static_cast<std::uint8_t>(round));
        MUST(own.write(0, spin_size, there.memory, round));
        late += peer.link->receive<std::size_t>() != 0;
        CHECK(next_dto(own.request_evd).status == DAT_DTO_SUCCESS);
    }
    peer.link->send(std::uint8_t{0});
    CHECK(peer.await_exit() == 0);
    report_late(late, rounds);
}

TEST_CASE("DTO-35: solicited and fenced requests complete as others do" *
          hint("pass flags on that the transport refuses"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    MUST(pair.passive.recv(0, 64));
    MUST(from.read(0, 64, pair.passive.memory.remote(0, 64), 1));
    MUST(from.send(0, 64, 2,
                   DAT_COMPLETION_SOLICITED_WAIT_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG));
    expect_success(from.request_evd, 1, 64);
    expect_success(from.request_evd, 2, 64);
    CHECK(next_dto(pair.passive.recv_evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("DTO-36: a fenced request sees what an earlier read has brought" *
          hint("ignore the fence on a transport that reorders after reads"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    constexpr std::size_t size = 16384;
    for (unsigned round = 0; round < 100; ++round) {
        to.memory.fill(0, size, round);
        MUST(from.read(0, size, to.memory.remote(0, size), 1));
        MUST(from.write(0, size, to.memory.remote(32768, size), 2,
                        DAT_COMPLETION_BARRIER_FENCE_FLAG));
        expect_success(from.request_evd, 1, size);
        expect_success(from.request_evd, 2, size);
        REQUIRE(becomes_true([&] { return to.memory.holds(32768, size, round); }));
    }
}

TEST_CASE("DTO-37: one thread may send while another posts receives on the same endpoint" *
          hint("share one lock-free slot counter between sends and receives"))
{
    adapter ia;
    adapter other;
    connected_pair pair(ia, other);
    move_data(pair.active, pair.passive);
    test_endpoint *sides[] = {&pair.active, &pair.passive};
    constexpr unsigned messages = 2000;
    std::atomic<unsigned> posted[2] = {0, 0};
    std::atomic<unsigned> failures{0};
    std::atomic<unsigned> lost{0};
    std::vector<std::unique_ptr<helper_thread>> threads;
    for (int s : {0, 1}) {
        threads.push_back(std::make_unique<helper_thread>([&, s] {
            DAT_EVENT event{};
            for (unsigned taken = 0; taken < messages && failures + lost == 0; ++taken) {
                while (posted[s] < messages && posted[s] < taken + 8) {
                    failures += sides[s]->recv(0, 64) == DAT_SUCCESS ? 0 : 1;
                    ++posted[s];
                }
                lost += is_woken(sides[s]->recv_evd, event) ? 0 : 1;
            }
        }));
        threads.push_back(std::make_unique<helper_thread>([&, s] {
            DAT_EVENT event{};
            for (unsigned sent = 0; sent < messages && failures + lost == 0; ++sent) {
                becomes_true([&] { return posted[1 - s] > sent; });
                failures += sides[s]->send(4096, 64) == DAT_SUCCESS ? 0 : 1;
                lost += is_woken(sides[s]->request_evd, event) ? 0 : 1;
            }
        }));
    }
    for (auto &each : threads)
        each->join();
    CHECK(failures == 0);
    if (lost != 0)
        FAIL_CHECK("nothing woke a waiter for a completion: a notification is lost");
}

TEST_CASE("DTO-38: on a thread-safe adapter many threads post to one endpoint and share an EVD" *
          hint("leave out the locks on the thread-safe line as well") * needs("threadsafe"))
{
    if (!the_settings().thread_safe)
        NOT_CLAIMED("thread safety on this line of dat.conf; see --threadsafe");
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    constexpr unsigned each = 500;
    constexpr unsigned threads = 8;
    std::atomic<unsigned> completed{0};
    std::vector<std::atomic<unsigned>> came_back(each * threads);
    std::atomic<unsigned> failures{0};
    std::vector<std::unique_ptr<helper_thread>> running;
    for (unsigned t = 0; t < threads; ++t)
        running.push_back(std::make_unique<helper_thread>([&, t] {
            const DAT_RMR_TRIPLET there = pair.passive.memory.remote(t * 64, 64);
            for (unsigned posted = 0; posted < each || completed < each * threads;) {
                DAT_EVENT event{};
                if (posted < each) {
                    const DAT_RETURN code = from.write(t * 64, 64, there, t * each + posted);
                    posted += code == DAT_SUCCESS ? 1 : 0;
                    const bool legal =
                        code == DAT_SUCCESS || DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES;
                    failures += legal ? 0 : 1;
                }
                if (dat_evd_dequeue(from.request_evd, &event) == DAT_SUCCESS) {
                    const auto &done = event.event_data.dto_completion_event_data;
                    failures += done.status == DAT_DTO_SUCCESS ? 0 : 1;
                    if (done.user_cookie.as_64 < came_back.size())
                        ++came_back[done.user_cookie.as_64];
                    ++completed;
                }
            }
        }));
    for (auto &thread : running)
        thread->join();
    CHECK(failures == 0);
    CHECK(completed == each * threads);
    CHECK(std::all_of(came_back.begin(), came_back.end(), [](auto &times) { return times == 1; }));
    CHECK(stays_empty(from.request_evd, milliseconds(1)));
}

TEST_CASE("DTO-39: a completion says which operation it was" *
          hint("leave the field that DAT 2.0 added unset"))
{
    adapter ia;
    connected_pair pair(ia);
    MUST(pair.passive.recv(0, 64));
    MUST(pair.active.send(0, 64));
    CHECK(next_dto(pair.active.request_evd).operation == DAT_DTO_SEND);
    CHECK(next_dto(pair.passive.recv_evd).operation == DAT_DTO_RECEIVE);
    MUST(pair.active.write(0, 64, pair.passive.memory.remote(0, 64)));
    CHECK(next_dto(pair.active.request_evd).operation == DAT_DTO_RDMA_WRITE);
    MUST(pair.active.read(0, 64, pair.passive.memory.remote(0, 64)));
    CHECK(next_dto(pair.active.request_evd).operation == DAT_DTO_RDMA_READ);
}

TEST_CASE(
    "DTO-40: an RDMA read brings what the remote segment has, and leaves longer local segments "
    "as they are behind it" *
    hint("read as many bytes as the local segments have room for"))
{
    adapter ia;
    connected_pair pair(ia);
    constexpr std::size_t there = 64;
    constexpr std::size_t room = 4096;
    auto &here = pair.active.memory.bytes;
    pair.active.memory.set_all(0xee);
    pair.passive.memory.fill(0, there, 5);
    MUST(pair.active.read(0, room, pair.passive.memory.remote(0, there), 1));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(pair.active.memory.holds(0, there, 5));
    for (std::size_t i = there; i < room; ++i)
        REQUIRE(here[i] == 0xee);
}

TEST_CASE("DTO-53: an RDMA operation has no more segments than its endpoint's attributes say" *
          hint("compare with max_request_iov only"))
{
    adapter ia;
    test_endpoint like(ia);
    DAT_EP_ATTR attr = ep_param(like.ep).ep_attr;
    if (attr.max_request_iov < 2)
        NOT_CLAIMED("requests of two segments");
    attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
    test_endpoint own(ia, {.attr = &attr});
    test_endpoint peer(ia);
    establish(own, peer);
    auto two = slices(own.memory, 0, 100, 2);
    const DAT_RMR_TRIPLET there = peer.memory.remote(0, 200);
    const auto expected = error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    CHECK(same_code(dat_ep_post_rdma_write(own.ep, 2, two.data(), cookie_of(1), &there,
                                           DAT_COMPLETION_DEFAULT_FLAG),
                    expected));
    CHECK(same_code(dat_ep_post_rdma_read(own.ep, 2, two.data(), cookie_of(2), &there,
                                          DAT_COMPLETION_DEFAULT_FLAG),
                    expected));
    MUST(peer.recv(1000, 200));
    MUST(dat_ep_post_send(own.ep, 2, two.data(), cookie_of(3), DAT_COMPLETION_DEFAULT_FLAG));
    expect_success(own.request_evd, 3, 200);
    MUST(own.write(0, 100, peer.memory.remote(0, 100), 4));
    expect_success(own.request_evd, 4, 100);
}

namespace {

/// The quickest of several calls: at least one is not held up by other processes.
template <class Call>
double quickest_us(Call call)
{
    constexpr int rounds = 8;
    auto quickest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < rounds; ++i) {
        const auto began = std::chrono::steady_clock::now();
        MUST(call());
        quickest = std::min(quickest, std::chrono::steady_clock::now() - began);
    }
    return std::chrono::duration<double, std::micro>(quickest).count();
}

} // namespace

TEST_CASE("DTO-54: a post returns at once, and so does a dequeue that finds nothing" *
          hint("sleep, or wait for the device or the peer, in an operation of the data path"))
{
    adapter ia;
    connected_pair pair(ia);
    const double most_us = instrumented() ? 20'000 : 2'000;
    const auto expect_quick = [=](const char *call, double took) {
        if (took > most_us)
            FAIL_CHECK(std::string(call), " waits: the quickest of 8 took ", took, " us");
    };
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    DAT_EVENT event{};
    expect_quick("dat_ep_post_recv()", quickest_us([&] { return pair.passive.recv(4096, 64); }));
    expect_quick("dat_ep_post_send()", quickest_us([&] { return pair.active.send(0, 64); }));
    CHECK(collect(pair.active.request_evd, 8).size() == 8);
    CHECK(collect(pair.passive.recv_evd, 8).size() == 8);
    expect_quick("dat_ep_post_rdma_write()",
                 quickest_us([&] { return pair.active.write(0, 64, there); }));
    CHECK(collect(pair.active.request_evd, 8).size() == 8);
    expect_quick("dat_ep_post_rdma_read()",
                 quickest_us([&] { return pair.active.read(64, 64, there); }));
    CHECK(collect(pair.active.request_evd, 8).size() == 8);
    expect_quick("dat_evd_dequeue()", quickest_us([&] {
                     const DAT_RETURN code = dat_evd_dequeue(pair.passive.recv_evd, &event);
                     return DAT_GET_TYPE(code) == DAT_QUEUE_EMPTY ? 0u : code;
                 }));
}

TEST_CASE("DTO-55: messages that wait for receives hold up no other connection" *
          hint("keep what finds no receive in buffers that all connections share"))
{
    adapter ia;
    adapter other;
    constexpr std::size_t connections = 20;
    constexpr std::size_t messages = 16; // what an endpoint takes by default
    std::vector<std::unique_ptr<connected_pair>> waiting;
    for (std::size_t i = 0; i < connections; ++i)
        waiting.push_back(std::make_unique<connected_pair>(ia, other));
    connected_pair aside(ia, other);
    for (const auto &pair : waiting)
        for (std::size_t i = 0; i < messages; ++i)
            MUST(pair->active.send(0, 1024, i));
    std::this_thread::sleep_for(a_while);
    for (unsigned round = 0; round < 10; ++round) {
        move_data(aside.active, aside.passive, round);
        move_data(aside.passive, aside.active, round);
        MUST(aside.active.write(0, 1000, aside.passive.memory.remote(8192, 1000), 1));
        MUST(aside.active.read(8192, 1000, aside.passive.memory.remote(8192, 1000), 2));
        expect_success(aside.active.request_evd, 1, 1000);
        expect_success(aside.active.request_evd, 2, 1000);
    }
    for (const auto &pair : waiting) {
        if (pair->active.state() != DAT_EP_STATE_CONNECTED ||
            pair->passive.state() != DAT_EP_STATE_CONNECTED)
            continue; // a transport may end the connection
        for (std::size_t i = 0; i < messages; ++i)
            MUST(pair->passive.recv(0, 1024, i));
        for (std::size_t i = 0; i < messages; ++i)
            expect_success(pair->passive.recv_evd, i, 1024);
        for (std::size_t i = 0; i < messages; ++i)
            expect_success(pair->active.request_evd, i, 1024);
    }
}

} // namespace conformance
