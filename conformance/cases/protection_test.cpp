// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory that posts may use: zones, rights and bounds of local memory, and segments; and the
// state of the memory when a connection ends.
#include "harness/support.hpp"

#include <map>

namespace conformance {
namespace {

enum class use { send, receive, write, read };
constexpr use all_uses[] = {use::send, use::receive, use::write, use::read};

/// Uses a local segment of the active side in a transfer that is right otherwise. What the post
/// answers, and its completion if that is a success.
DAT_RETURN use_segment(connected_pair &pair, DAT_LMR_TRIPLET local, use how,
                       DAT_DTO_COMPLETION_EVENT_DATA &done)
{
    test_endpoint &by = pair.active;
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    DAT_RETURN posted = DAT_SUCCESS;
    switch (how) {
    case use::send:
        MUST(pair.passive.recv(0, 64));
        posted = dat_ep_post_send(by.ep, 1, &local, cookie_of(1), flags);
        break;
    case use::receive:
        posted = dat_ep_post_recv(by.ep, 1, &local, cookie_of(1), flags);
        if (posted == DAT_SUCCESS)
            MUST(pair.passive.send(0, 64));
        break;
    case use::write:
        posted = dat_ep_post_rdma_write(by.ep, 1, &local, cookie_of(1), &there, flags);
        break;
    case use::read:
        posted = dat_ep_post_rdma_read(by.ep, 1, &local, cookie_of(1), &there, flags);
        break;
    }
    if (posted == DAT_SUCCESS)
        done = next_dto(how == use::receive ? by.recv_evd : by.request_evd);
    return posted;
}

/// Whether an operation is refused at once or by its completion.
bool refuses(connected_pair &pair, DAT_LMR_TRIPLET local, use how)
{
    DAT_DTO_COMPLETION_EVENT_DATA done{};
    const DAT_RETURN posted = use_segment(pair, local, how, done);
    return posted != DAT_SUCCESS ? (posted & DAT_CLASS_ERROR) != 0 : done.status != DAT_DTO_SUCCESS;
}

/// DAT wants these checks; not every transport has them.
void expect_refused(connected_pair &pair, const DAT_LMR_TRIPLET &local, use how)
{
    CAPTURE(how);
    const bool refused = refuses(pair, local, how);
    if (!refused && the_settings().promised("local_protection"))
        FAIL_CHECK("a request succeeds whose local memory may not be used so");
    else if (!refused)
        MESSAGE("this transport does not look at local contexts");
}

bool writes_memory(use how)
{
    return how == use::receive || how == use::read;
}

} // namespace

TEST_CASE("DTO-41: local memory of another zone is not used" *
          hint("find the region by its context, whatever zone it is in"))
{
    adapter ia;
    for (use how : all_uses) {
        connected_pair pair(ia);
        region elsewhere(ia, make_pz(ia), 4096);
        elsewhere.set_all(0xee);
        expect_refused(pair, elsewhere.local(0, 64), how);
        if (the_settings().promised("local_protection") && writes_memory(how))
            CHECK(elsewhere.bytes[0] == 0xee);
    }
}

TEST_CASE("DTO-42: local memory is used within its rights" *
          hint("register all memory with all local rights"))
{
    adapter ia;
    for (use how : all_uses) {
        connected_pair pair(ia);
        const auto rights =
            writes_memory(how) ? DAT_MEM_PRIV_LOCAL_READ_FLAG : DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
        region lacking(ia, pair.active.pz, 4096, rights);
        if (writes_memory(how)) // the right to read is given to all by many devices
            expect_refused(pair, lacking.local(0, 64), how);
        const auto enough =
            writes_memory(how) ? DAT_MEM_PRIV_LOCAL_WRITE_FLAG : DAT_MEM_PRIV_LOCAL_READ_FLAG;
        connected_pair fresh(ia);
        region sufficient(ia, fresh.active.pz, 4096, enough);
        CHECK_FALSE(refuses(fresh, sufficient.local(0, 64), how));
    }
}

TEST_CASE("DTO-43: a region that was freed is used no more" *
          hint("keep registrations in a cache, and let old contexts work"))
{
    adapter ia;
    for (use how : all_uses) {
        connected_pair pair(ia);
        region gone(ia, pair.active.pz, 4096);
        const DAT_LMR_TRIPLET local = gone.local(0, 64);
        gone.free();
        gone.set_all(0xee);
        expect_refused(pair, local, how);
        if (the_settings().promised("local_protection"))
            CHECK(gone.bytes[0] == 0xee);
    }
}

TEST_CASE("DTO-44: a local segment ends where its region does" *
          hint("look at the first byte of a segment only"))
{
    adapter ia;
    for (use how : all_uses) {
        connected_pair pair(ia);
        region outer(ia, pair.active.pz, 4096);
        std::vector<std::uint8_t> room(4096, 0xee);
        DAT_REGION_DESCRIPTION where{};
        where.for_va = room.data();
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        DAT_LMR_CONTEXT context = 0;
        MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, 1024, pair.active.pz,
                            all_rights, DAT_VA_TYPE_VA, &lmr, &context, nullptr, nullptr, nullptr));
        DAT_LMR_TRIPLET local{};
        local.virtual_address = reinterpret_cast<DAT_VADDR>(room.data() + 1024 - 32);
        local.segment_length = 64;
        local.lmr_context = context;
        expect_refused(pair, local, how);
        if (the_settings().promised("local_protection"))
            CHECK(room[1024] == 0xee);
        MUST(dat_lmr_free(lmr));
    }
}

TEST_CASE("DTO-45: a remote region of another zone than its endpoint's is out of reach" *
          hint("find the region by its context, whatever zone it is in") * needs("remote_zones"))
{
    if (!the_settings().promised("local_protection"))
        NOT_CLAIMED("zones that keep remote contexts apart; see --promise local_protection");
    adapter ia;
    for (bool reading : {false, true}) {
        CAPTURE(reading);
        connected_pair pair(ia);
        region elsewhere(ia, make_pz(ia), 4096);
        pair.active.memory.fill(0, 64, 5);
        const std::vector<std::uint8_t> before = elsewhere.bytes;
        const DAT_RMR_TRIPLET there = elsewhere.remote(0, 64);
        MUST(reading ? pair.active.read(0, 64, there, 4) : pair.active.write(0, 64, there, 4));
        conformance::expect_refused(pair.active, pair.passive, reading, 4);
        CHECK(elsewhere.bytes == before);
    }
}

TEST_CASE("DTO-51: a request that the peer refuses for its memory is REMOTE_ACCESS" *
          hint("translate the peer's refusal into a failure of the transport, or into a flush") *
          needs("acknowledged"))
{
    if (!acknowledged())
        NOT_CLAIMED(
            "requests that complete when the peer has answered; see --promise acknowledged");
    adapter ia;
    for (bool reading : {false, true})
        for (int what : {0, 1, 2}) {
            CAPTURE(reading);
            CAPTURE(what);
            connected_pair pair(ia);
            test_endpoint &by = pair.active;
            region lacking(ia, pair.passive.pz, 4096,
                           reading ? DAT_MEM_PRIV_REMOTE_WRITE_FLAG
                                   : DAT_MEM_PRIV_REMOTE_READ_FLAG);
            const std::size_t end = pair.passive.memory.bytes.size();
            DAT_RMR_TRIPLET there = pair.passive.memory.remote(end - 32, 64);
            if (what == 1)
                there = lacking.remote(0, 64);
            if (what == 2)
                there.rmr_context ^= 0x5a5a5a;
            MUST(reading ? by.read(0, 64, there, 4) : by.write(0, 64, there, 4));
            MUST(by.write(0, 64, pair.passive.memory.remote(0, 64), 5));
            const auto refused = next_dto(by.request_evd);
            CHECK(refused.user_cookie.as_64 == 4);
            CHECK(refused.status == DAT_DTO_ERR_REMOTE_ACCESS);
            const auto behind = next_dto(by.request_evd);
            CHECK(behind.user_cookie.as_64 == 5);
            CHECK(behind.status == DAT_DTO_ERR_FLUSHED);
            expect_broken(by, pair.passive, true);
        }
}

TEST_CASE("DTO-52: local memory that may not be used is refused at once, or LOCAL_PROTECTION" *
          hint("report it as the peer's refusal, or as a flush") * needs("local_protection"))
{
    if (!the_settings().promised("local_protection"))
        NOT_CLAIMED("contexts of local segments that are checked; see --promise local_protection");
    adapter ia;
    for (use how : all_uses) {
        CAPTURE(how);
        connected_pair pair(ia);
        test_endpoint &by = pair.active;
        DAT_LMR_TRIPLET local = by.memory.local(0, 64);
        local.lmr_context ^= 0x5a5a5a;
        DAT_DTO_COMPLETION_EVENT_DATA done{};
        const DAT_RETURN posted = use_segment(pair, local, how, done);
        if (posted != DAT_SUCCESS) {
            CHECK((same_type(posted, DAT_PROTECTION_VIOLATION) ||
                   same_type(posted, DAT_PRIVILEGES_VIOLATION) ||
                   same_type(posted, DAT_INVALID_PARAMETER)));
            CHECK(by.state() == DAT_EP_STATE_CONNECTED);
            continue;
        }
        CHECK(done.user_cookie.as_64 == 1);
        CHECK(done.status == DAT_DTO_ERR_LOCAL_PROTECTION);
        expect_broken(by, pair.passive, true);
    }
}

TEST_CASE("DTO-46: the segments of a post belong to the consumer again when it returns" *
          hint("keep a pointer to the array until the work request is processed"))
{
    adapter ia;
    if (ia.provider.iov_ownership_on_return != DAT_IOV_CONSUMER)
        NOT_CLAIMED("segments that are the consumer's after a post");
    connected_pair pair(ia);
    test_endpoint &from = pair.active;
    test_endpoint &to = pair.passive;
    constexpr std::uint64_t messages = 12;
    from.memory.fill(0, messages * 512, 6);
    DAT_LMR_TRIPLET local{};
    for (std::uint64_t i = 0; i < messages; ++i) {
        local = to.memory.local(i * 512, 512);
        MUST(dat_ep_post_recv(to.ep, 1, &local, cookie_of(i), DAT_COMPLETION_DEFAULT_FLAG));
        local = {};
    }
    for (std::uint64_t i = 0; i < messages; ++i) {
        local = from.memory.local(i * 512, 512);
        MUST(dat_ep_post_send(from.ep, 1, &local, cookie_of(i), DAT_COMPLETION_DEFAULT_FLAG));
        local = {};
    }
    for (std::uint64_t i = 0; i < messages; ++i) {
        CHECK(next_dto(to.recv_evd).status == DAT_DTO_SUCCESS);
        CHECK(next_dto(from.request_evd).status == DAT_DTO_SUCCESS);
    }
    CHECK(to.memory.holds(0, messages * 512, 6));
}

TEST_CASE("DTO-47: segments of more than 4 GiB together are refused at once" *
          hint("add the lengths in 32 bits"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &by = pair.active;
    DAT_LMR_TRIPLET large = by.memory.local(0, 64);
    large.segment_length = 0xffffffc0;
    DAT_LMR_TRIPLET local[] = {large, by.memory.local(0, 128)}; // 64 in 32 bits
    DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    const auto expect_refused = [](DAT_RETURN code) {
        const unsigned type = DAT_GET_TYPE(code);
        CHECK_MESSAGE(((code & DAT_CLASS_ERROR) != 0 &&
                       (type == DAT_LENGTH_ERROR || type == DAT_INVALID_PARAMETER)),
                      code_name(code));
    };
    if (ep_param(by.ep).ep_attr.max_request_iov < 2)
        NOT_CLAIMED("requests of two segments");
    MUST(pair.passive.recv(0, 64));
    expect_refused(dat_ep_post_send(by.ep, 2, local, cookie_of(1), flags));
    expect_refused(dat_ep_post_rdma_write(by.ep, 2, local, cookie_of(1), &there, flags));
    CHECK(stays_empty(by.request_evd, milliseconds(1)));
    CHECK(by.state() == DAT_EP_STATE_CONNECTED);
}

TEST_CASE("DTO-48: messages before a graceful disconnect are there, however late one looks" *
          hint("drop what was received and not taken when the connection ends"))
{
    adapter ia;
    connected_pair pair(ia);
    constexpr std::uint64_t messages = 6;
    for (std::uint64_t i = 0; i < messages; ++i)
        MUST(pair.passive.recv(i * 64, 64, i));
    pair.active.memory.fill(0, 64, 3);
    for (std::uint64_t i = 0; i < messages - 1; ++i)
        MUST(pair.active.send(0, 64, i));
    MUST(pair.active.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
    expect_disconnected(pair.active, pair.passive);
    for (std::uint64_t i = 0; i < messages; ++i) {
        const auto got = next_dto(pair.passive.recv_evd);
        CHECK(got.user_cookie.as_64 == i);
        const bool sent = i < messages - 1;
        CHECK(got.status == (sent ? DAT_DTO_SUCCESS : DAT_DTO_ERR_FLUSHED));
        if (sent)
            CHECK(pair.passive.memory.holds(i * 64, 64, 3));
    }
}

TEST_CASE("DTO-49: what a sender posts while the connection ends comes back, each once" *
          hint("lose requests that are posted while the queue is flushed, or flush them twice"))
{
    adapter ia;
    adapter other;
    for (int round = 0; round < 25; ++round) {
        CAPTURE(round);
        connected_pair pair(ia, other);
        const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
        std::uint64_t posted = 0;
        std::map<std::uint64_t, int> seen;
        std::atomic<bool> ended{false};
        helper_thread sender([&] {
            std::uint64_t behind = 0;
            while (behind < 8) {
                DAT_EVENT event{};
                if (pair.active.write(0, 64, there, posted) == DAT_SUCCESS)
                    ++posted;
                while (dat_evd_dequeue(pair.active.request_evd, &event) == DAT_SUCCESS)
                    ++seen[event.event_data.dto_completion_event_data.user_cookie.as_64];
                behind += ended ? 1 : 0;
            }
        });
        std::this_thread::sleep_for(std::chrono::microseconds(round * 40));
        MUST(pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        CHECK(ends_connection(next_event(pair.active.connect_evd).event_number));
        ended = true;
        sender.join();
        while (seen.size() < posted) {
            const auto late = collect(pair.active.request_evd, posted - seen.size());
            if (late.empty())
                break;
            for (const DAT_EVENT &event : late)
                ++seen[event.event_data.dto_completion_event_data.user_cookie.as_64];
        }
        CHECK(seen.size() == posted);
        for (const auto &each : seen)
            CHECK(each.second == 1);
    }
}

} // namespace conformance
