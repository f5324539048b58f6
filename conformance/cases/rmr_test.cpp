// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RMRs: windows that open a part of a region to a peer, and can be closed again.
#include "harness/support.hpp"

namespace conformance {

namespace {

constexpr std::size_t part_at = 1024; ///< start of the part that is opened
constexpr std::size_t part_size = 256;
constexpr auto may_read = DAT_MEM_PRIV_REMOTE_READ_FLAG;
constexpr auto may_write = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

/// Skips a case if the adapter lacks windows: MEM-11 and MEM-12 check the refusal.
#define NEED_WINDOWS(ia)                                                                           \
    do {                                                                                           \
        if (!has_windows(ia))                                                                      \
            NOT_CLAIMED("binding of RMRs");                                                        \
    } while (false)

bool has_windows(const adapter &ia)
{
    DAT_RMR_HANDLE probe = DAT_HANDLE_NULL;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    const DAT_RETURN code = ia.attr.max_rmrs == 0 ? not_supported : dat_rmr_create(pz, &probe);
    if (code != not_supported) {
        MUST(code);
        MUST(dat_rmr_free(probe));
    }
    MUST(dat_pz_free(pz));
    return code != not_supported;
}

/// A window of an endpoint's zone, bound through that endpoint.
class window {
public:
    explicit window(test_endpoint &of) : owner(of) { MUST(dat_rmr_create(of.pz, &rmr)); }
    window(const window &) = delete;
    window &operator=(const window &) = delete;
    ~window()
    {
        if (rmr != DAT_HANDLE_NULL)
            (void)free();
    }

    DAT_RETURN free() { return free_once(dat_rmr_free, rmr); }
    DAT_RETURN post_bind(const region &to, std::size_t offset, std::size_t length,
                         unsigned rights = may_read | may_write, std::uint64_t cookie = 0,
                         unsigned flags = DAT_COMPLETION_DEFAULT_FLAG)
    {
        const DAT_LMR_TRIPLET part = to.local(offset, length);
        return dat_rmr_bind(rmr, to.lmr, &part, static_cast<DAT_MEM_PRIV_FLAGS>(rights),
                            DAT_VA_TYPE_VA, owner.ep, cookie_of(cookie),
                            static_cast<DAT_COMPLETION_FLAGS>(flags), &context);
    }
    DAT_RETURN post_unbind()
    {
        const DAT_LMR_TRIPLET nothing{};
        return dat_rmr_bind(rmr, DAT_HANDLE_NULL, &nothing, DAT_MEM_PRIV_NONE_FLAG, DAT_VA_TYPE_VA,
                            owner.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG, nullptr);
    }
    void expect_bound(std::uint64_t cookie = 0, int status = DAT_RMR_BIND_SUCCESS)
    {
        const DAT_EVENT event = next_event(owner.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        const auto &done = event.event_data.rmr_completion_event_data;
        CHECK(done.rmr_handle == rmr);
        CHECK(done.user_cookie.as_64 == cookie);
        CHECK(done.status == status);
    }
    void bind(const region &to, std::size_t offset, std::size_t length,
              unsigned rights = may_read | may_write)
    {
        MUST(post_bind(to, offset, length, rights));
        expect_bound();
    }
    /// What a peer addresses by the context as it is now.
    DAT_RMR_TRIPLET remote(const region &in, std::size_t offset, std::size_t length) const
    {
        DAT_RMR_TRIPLET there = in.remote(offset, length);
        there.rmr_context = context;
        return there;
    }

    test_endpoint &owner;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

/// The passive side opens a part of its memory.
struct lender {
    explicit lender(adapter &ia) : pair(ia), opened(pair.passive), there(pair.passive.memory) {}

    void write_there(const DAT_RMR_TRIPLET &target, unsigned seed)
    {
        pair.active.memory.fill(0, part_size, seed);
        MUST(pair.active.write(0, part_size, target, 3));
        const auto done = next_dto(pair.active.request_evd);
        CHECK(done.status == DAT_DTO_SUCCESS);
        CHECK(becomes_true([&] { return there.holds(part_at, part_size, seed); }));
    }
    void expect_dead(const DAT_RMR_TRIPLET &target)
    {
        const std::vector<std::uint8_t> before = there.bytes;
        pair.active.memory.fill(0, part_size, 77);
        MUST(pair.active.write(0, part_size, target, 4));
        expect_refused(pair.active, pair.passive, false, 4);
        CHECK(there.bytes == before);
    }

    connected_pair pair;
    window opened;
    region &there;
};

DAT_RETURN query_rmr(const window &w, DAT_RMR_PARAM &param, unsigned mask = DAT_RMR_FIELD_ALL)
{
    return dat_rmr_query(w.rmr, static_cast<DAT_RMR_PARAM_MASK>(mask), &param);
}

constexpr unsigned all_but_part = DAT_RMR_FIELD_ALL & ~unsigned{DAT_RMR_FIELD_LMR_TRIPLET};

} // namespace

TEST_CASE("RMR-01: the context may be sent at once, and opens what was bound" *
          hint("make the context when the bind is done, not when it is posted") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    test_endpoint &peer = f.pair.active;
    MUST(peer.recv(0, sizeof(DAT_RMR_TRIPLET)));
    MUST(f.opened.post_bind(f.there, part_at, part_size, may_read | may_write, 5));
    CHECK(f.opened.context != 0);
    CHECK(f.opened.context != f.there.rmr_context);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    std::memcpy(f.there.bytes.data(), &open, sizeof open);
    MUST(f.pair.passive.send(0, sizeof open, 6)); // follows the bind
    f.opened.expect_bound(5);
    CHECK(next_dto(f.pair.passive.request_evd).user_cookie.as_64 == 6);
    CHECK(next_dto(peer.recv_evd).status == DAT_DTO_SUCCESS);
    DAT_RMR_TRIPLET told;
    std::memcpy(&told, peer.memory.bytes.data(), sizeof told);
    f.write_there(told, 9);
    MUST(peer.read(4096, part_size, told, 7));
    CHECK(next_dto(peer.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(peer.memory.holds(4096, part_size, 9));
}

TEST_CASE("RMR-02: a bind checks its arguments" *
          hint("bind beyond the region, or with more rights than it has") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    region read_only(ia, f.pair.passive.pz, 4096,
                     static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG | may_read));
    region foreign(ia, f.pair.active.pz, 4096);
    test_endpoint &own = f.pair.passive;
    const DAT_LMR_TRIPLET good = f.there.local(0, 64);
    const auto bind = [&](DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr, const DAT_LMR_TRIPLET *part,
                          unsigned rights, int va_type, DAT_EP_HANDLE ep, unsigned flags) {
        DAT_RMR_CONTEXT context = 77;
        const DAT_RETURN code =
            dat_rmr_bind(rmr, lmr, part, static_cast<DAT_MEM_PRIV_FLAGS>(rights),
                         static_cast<DAT_VA_TYPE>(va_type), ep, cookie_of(0),
                         static_cast<DAT_COMPLETION_FLAGS>(flags), &context);
        CHECK(context == 77);
        return code;
    };
    const DAT_RMR_HANDLE rmr = f.opened.rmr;
    const DAT_LMR_HANDLE lmr = f.there.lmr;
    constexpr unsigned none = DAT_COMPLETION_DEFAULT_FLAG;
    CHECK(same_code(bind(own.ep, lmr, &good, may_read, DAT_VA_TYPE_VA, own.ep, none),
                    bad_handle(DAT_INVALID_HANDLE_RMR)));
    CHECK(same_code(bind(rmr, own.pz, &good, may_read, DAT_VA_TYPE_VA, own.ep, none),
                    bad_handle(DAT_INVALID_HANDLE_LMR)));
    CHECK(same_code(bind(rmr, lmr, &good, may_read, DAT_VA_TYPE_VA, own.pz, none),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(bind(rmr, lmr, nullptr, may_read, DAT_VA_TYPE_VA, own.ep, none), bad_arg(3)));
    CHECK(same_code(bind(rmr, lmr, &good, 0x8000, DAT_VA_TYPE_VA, own.ep, none), bad_arg(4)));
    CHECK(same_code(bind(rmr, lmr, &good, may_read, 7, own.ep, none), bad_arg(5)));
    CHECK(same_code(bind(rmr, lmr, &good, may_read, DAT_VA_TYPE_VA, own.ep, 0x8000), bad_arg(8)));
    CHECK(same_code(dat_rmr_bind(rmr, lmr, &good, may_read, DAT_VA_TYPE_VA, own.ep, cookie_of(0),
                                 DAT_COMPLETION_DEFAULT_FLAG, nullptr),
                    bad_arg(9)));

    DAT_LMR_TRIPLET part = f.there.local(f.there.bytes.size() - 32, 64);
    CHECK(same_code(bind(rmr, lmr, &part, may_read, DAT_VA_TYPE_VA, own.ep, none), bad_arg(3)));
    part = f.there.local(0, 64);
    part.virtual_address -= 32;
    CHECK(same_code(bind(rmr, lmr, &part, may_read, DAT_VA_TYPE_VA, own.ep, none), bad_arg(3)));
    part = read_only.local(0, 64); // belongs to another region
    CHECK(same_code(bind(rmr, lmr, &part, may_read, DAT_VA_TYPE_VA, own.ep, none), bad_arg(3)));

    CHECK(same_code(bind(rmr, read_only.lmr, &part, may_write, DAT_VA_TYPE_VA, own.ep, none),
                    error(DAT_PRIVILEGES_VIOLATION)));
    part = foreign.local(0, 64);
    CHECK(same_code(bind(rmr, foreign.lmr, &part, may_read, DAT_VA_TYPE_VA, own.ep, none),
                    error(DAT_PROTECTION_VIOLATION)));
    CHECK(same_code(bind(rmr, lmr, &good, may_read, DAT_VA_TYPE_VA, f.pair.active.ep, none),
                    error(DAT_PROTECTION_VIOLATION)));
    CHECK(stays_empty(own.request_evd, milliseconds(1)));
    DAT_RMR_PARAM param;
    CHECK(same_code(query_rmr(f.opened, param), bad_arg(2))); // nothing was bound
}

TEST_CASE("RMR-03: a new bind ends the context before" * hint("let both contexts live, or none") *
          needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET before = f.opened.remote(f.there, part_at, part_size);
    f.write_there(before, 1);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET after = f.opened.remote(f.there, part_at, part_size);
    CHECK(after.rmr_context != before.rmr_context);
    f.write_there(after, 2);
    f.expect_dead(before);
}

TEST_CASE("RMR-04: a bind of length 0 closes the window" *
          hint("refuse it, or leave the context alive") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    f.write_there(open, 1);
    MUST(f.opened.post_unbind());
    f.opened.expect_bound();
    DAT_RMR_PARAM param;
    CHECK(same_code(query_rmr(f.opened, param), bad_arg(2)));
    MUST(query_rmr(f.opened, param, all_but_part));
    CHECK(param.rmr_context == 0);
    f.expect_dead(open);
}

TEST_CASE("RMR-05: the context of a freed RMR is dead at once" *
          hint("refuse to free an RMR that is bound, or free it later") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    f.write_there(open, 1);
    CHECK(same_code(f.opened.free(), DAT_SUCCESS));
    f.expect_dead(open);
}

TEST_CASE("RMR-06: a window opens what was bound, and no more" *
          hint("give the region's bounds to its windows") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    SUBCASE("beyond its end")
    {
        f.opened.bind(f.there, part_at, part_size);
        f.expect_dead(f.opened.remote(f.there, part_at + 1, part_size));
    }
    SUBCASE("before its beginning")
    {
        f.opened.bind(f.there, part_at, part_size);
        f.expect_dead(f.opened.remote(f.there, part_at - 1, part_size));
    }
}

TEST_CASE("RMR-07: a region that a window is bound to is in use until it is bound to no more" *
          hint("forget the binding, and leave a window on memory that is gone") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    region other(ia, f.pair.passive.pz, 4096);
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_LMR_IN_USE);
    MUST(f.opened.post_bind(other, 0, 64));
    CHECK(same_code(dat_lmr_free(other.lmr), in_use)); // holds from the post on
    f.opened.expect_bound();
    CHECK(same_code(dat_lmr_free(other.lmr), in_use));
    SUBCASE("it is bound to another")
    {
        f.opened.bind(f.there, part_at, part_size);
    }
    SUBCASE("it is bound to another, without an event")
    {
        MUST(f.opened.post_bind(f.there, part_at, part_size, may_read, 0,
                                DAT_COMPLETION_SUPPRESS_FLAG));
        MUST(f.pair.active.recv(0, 8));
        MUST(f.pair.passive.send(0, 8)); // after it completes, the bind has been processed
        CHECK(next_dto(f.pair.passive.request_evd).operation == DAT_DTO_SEND);
    }
    SUBCASE("it is bound to nothing")
    {
        MUST(f.opened.post_unbind());
        f.opened.expect_bound();
    }
    SUBCASE("it is freed")
    {
        MUST(f.opened.free());
    }
    other.free();
    CHECK(other.lmr == DAT_HANDLE_NULL);
}

TEST_CASE("RMR-08: query returns what an RMR is bound to" *
          hint("return what it was created with, or the region's own context") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    f.opened.bind(f.there, part_at, part_size, may_write);
    DAT_RMR_PARAM param;
    MUST(query_rmr(f.opened, param));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.pz_handle == f.pair.passive.pz);
    CHECK(param.lmr_triplet.virtual_address == f.there.local(part_at, part_size).virtual_address);
    CHECK(param.lmr_triplet.segment_length == part_size);
    CHECK(param.lmr_triplet.lmr_context == f.there.lmr_context);
    CHECK(param.mem_priv == may_write);
    CHECK(param.rmr_context == f.opened.context);
    CHECK(param.va_type == DAT_VA_TYPE_VA);
}

TEST_CASE("RMR-09: a bind needs an endpoint that is or was connected, and is flushed with it" *
          hint("bind without a connection, or leave open what they report as flushed") *
          needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    test_endpoint idle(ia);
    window early(idle);
    CHECK(same_code(early.post_bind(idle.memory, 0, 64),
                    bad_state(DAT_INVALID_STATE_EP_UNCONNECTED)));

    lender f(ia);
    f.opened.bind(f.there, part_at, part_size);
    MUST(f.pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(f.pair.passive, f.pair.active);
    region other(ia, f.pair.passive.pz, 4096);
    MUST(f.opened.post_bind(other, 0, 64, may_read, 8));
    f.opened.expect_bound(8, DAT_DTO_ERR_FLUSHED);
    DAT_RMR_PARAM param;
    CHECK(same_code(query_rmr(f.opened, param), bad_arg(2)));
    MUST(f.opened.free());
    other.free();
    CHECK(other.lmr == DAT_HANDLE_NULL);
}

TEST_CASE("RMR-10: a bind whose success is suppressed is done in its turn, without an event" *
          hint("complete it with an event, or lose it") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    MUST(f.opened.post_bind(f.there, part_at, part_size, may_read | may_write, 1,
                            DAT_COMPLETION_SUPPRESS_FLAG));
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    MUST(f.pair.active.recv(0, 8));
    MUST(f.pair.passive.send(0, 8, 2));
    CHECK(next_dto(f.pair.passive.request_evd).user_cookie.as_64 == 2);
    f.write_there(open, 3);
    CHECK(stays_empty(f.pair.passive.request_evd, milliseconds(1)));
}

TEST_CASE("RMR-11: an endpoint whose request EVD takes no binds cannot bind" *
          hint("deliver the event to an EVD that did not ask for it") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    endpoint_options plain;
    plain.one_dto_evd = true; // made for DTOs alone
    connected_pair pair(ia, plain);
    window w(pair.passive);
    CHECK(same_code(w.post_bind(pair.passive.memory, 0, 64),
                    bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST)));
    CHECK(stays_empty(pair.passive.request_evd, milliseconds(1)));
}

TEST_CASE("RMR-12: windows are bound and freed while a peer writes through them" *
          hint("race a bind against a peer's access, or leak windows") * needs("rmr_bind"))
{
    adapter ia;
    adapter other;
    NEED_WINDOWS(ia);
    connected_pair pair(other, ia);
    region &there = pair.passive.memory;
    for (unsigned round = 0; round < 500; ++round) {
        window w(pair.passive);
        w.bind(there, part_at, part_size);
        const DAT_RMR_TRIPLET open = w.remote(there, part_at, part_size);
        pair.active.memory.fill(0, part_size, round);
        MUST(pair.active.write(0, part_size, open));
        MUST(pair.active.read(4096, part_size, open));
        for (int i = 0; i < 2; ++i)
            CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
        CHECK(pair.active.memory.holds(4096, part_size, round));
    }
}

TEST_CASE("RMR-13: a window gives the rights that it was bound with, and no others" *
          hint("give the region's rights to its windows") * needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    SUBCASE("writes where it may be read")
    {
        f.opened.bind(f.there, part_at, part_size, may_read);
        f.expect_dead(f.opened.remote(f.there, part_at, part_size));
    }
    SUBCASE("reads where it may be written")
    {
        f.opened.bind(f.there, part_at, part_size, may_write);
        const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
        f.write_there(open, 1);
        MUST(f.pair.active.read(4096, part_size, open, 4));
        expect_refused(f.pair.active, f.pair.passive, true, 4);
    }
}

TEST_CASE("RMR-14: an RMR can be bound again after a flushed bind" *
          hint("count its keys where the device does not, so that later binds fail") *
          needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    test_endpoint &own = f.pair.passive;
    DAT_RMR_TRIPLET nothing = f.pair.active.memory.remote(0, 64);
    nothing.rmr_context ^= 0x5a5a0000;
    f.opened.bind(f.there, part_at, part_size);
    for (int round = 0; round < 3; ++round) {
        MUST(own.read(4096, 64, nothing, 1)); // fails, and the bind that waits for it is not done
        MUST(f.opened.post_bind(f.there, part_at, part_size, may_read | may_write, 2,
                                DAT_COMPLETION_BARRIER_FENCE_FLAG));
        CHECK(next_dto(own.request_evd).status != DAT_DTO_SUCCESS);
        f.opened.expect_bound(2, DAT_DTO_ERR_FLUSHED);
        for (test_endpoint *each : {&f.pair.active, &own}) {
            CHECK(ends_connection(next_event(each->connect_evd).event_number));
            MUST(dat_ep_reset(each->ep));
        }
        establish(f.pair.active, own);
        f.opened.bind(f.there, part_at, part_size);
        f.write_there(f.opened.remote(f.there, part_at, part_size), 10 + round);
    }
}

// ------------------------------------------------------------------------------ calls of DAT 2.0

namespace {

DAT_RETURN send_invalidating(const test_endpoint &from, DAT_RMR_CONTEXT key, std::uint64_t cookie,
                             DAT_BOOLEAN invalidate = DAT_TRUE)
{
    auto *call = optional_call<decltype(dat_ep_post_send_with_invalidate)>(
        "dat_ep_post_send_with_invalidate");
    if (call == nullptr)
        return not_supported;
    DAT_LMR_TRIPLET local = from.memory.local(0, 64);
    return call(from.ep, 1, &local, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG, invalidate,
                key);
}

DAT_RETURN read_to(const test_endpoint &by, const DAT_RMR_TRIPLET &to, const DAT_RMR_TRIPLET &from,
                   std::uint64_t cookie)
{
    auto *call =
        optional_call<decltype(dat_ep_post_rdma_read_to_rmr)>("dat_ep_post_rdma_read_to_rmr");
    return call == nullptr
               ? not_supported
               : call(by.ep, &to, cookie_of(cookie), &from, DAT_COMPLETION_DEFAULT_FLAG);
}

/// REG-09 checks the refusal.
#define NEED(code, what)                                                                           \
    do {                                                                                           \
        const DAT_RETURN answer = (code);                                                          \
        if (refused(answer))                                                                       \
            NOT_CLAIMED(what);                                                                     \
        MUST(answer);                                                                              \
    } while (false)

/// One more endpoint in the zone of another, connected to a peer of its own.
struct endpoint_sharing {
    explicit endpoint_sharing(test_endpoint &like) : peer(like.ia)
    {
        MUST(dat_ep_create(like.ia.handle, like.pz, like.recv_evd, like.request_evd,
                           like.connect_evd, nullptr, &ep));
        listener at(like.ia);
        MUST(peer.connect(like.ia.address(), at.qualifier));
        MUST(dat_cr_accept(at.next_request(), ep, 0, nullptr));
        next_connection(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_connection(like.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    endpoint_sharing(const endpoint_sharing &) = delete;
    endpoint_sharing &operator=(const endpoint_sharing &) = delete;
    ~endpoint_sharing() { (void)dat_ep_free(ep); }

    test_endpoint peer;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

/// A window of the narrow scope.
void narrow(window &of)
{
    MUST(of.free());
    of.rmr = make_narrow_rmr(of.owner);
}

void make_closable(window &of)
{
    MUST(of.free());
    of.rmr = make_closable_rmr(of.owner);
}

} // namespace

TEST_CASE("RMR-15: a message invalidates the receiver's RMR, and its completion names the context" *
          hint("complete it as a plain receive, or leave the context alive") *
          needs("send_with_invalidate"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    make_closable(f.opened);
    test_endpoint &to = f.pair.passive;
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    MUST(to.recv(0, 64, 11));
    f.pair.active.memory.fill(0, 64, 3);
    NEED(send_invalidating(f.pair.active, open.rmr_context, 12), "sends that invalidate");
    const auto sent = next_dto(f.pair.active.request_evd);
    CHECK(sent.status == DAT_DTO_SUCCESS);
    CHECK(sent.operation == DAT_DTO_SEND);
    CHECK(sent.user_cookie.as_64 == 12);
    CHECK(sent.transfered_length == 64);
    const auto got = next_dto(to.recv_evd);
    CHECK(got.status == DAT_DTO_SUCCESS);
    CHECK(got.operation == DAT_DTO_RECEIVE_WITH_INVALIDATE);
    CHECK(got.rmr_context == open.rmr_context);
    CHECK(got.user_cookie.as_64 == 11);
    CHECK(got.transfered_length == 64);
    CHECK(to.memory.holds(0, 64, 3));
    DAT_RMR_PARAM param;
    CHECK(same_code(query_rmr(f.opened, param), bad_arg(2))); // bound to nothing
    f.opened.bind(f.there, part_at, part_size);               // binds it again
    f.write_there(f.opened.remote(f.there, part_at, part_size), 4);
    f.expect_dead(open);
}

TEST_CASE("RMR-16: a region is free once a message has invalidated what was bound to it" *
          hint("count the window as bound until its owner binds it again") *
          needs("send_with_invalidate"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    make_closable(f.opened);
    region part(ia, f.pair.passive.pz, 4096);
    f.opened.bind(part, 0, 64);
    CHECK(same_type(dat_lmr_free(part.lmr), DAT_INVALID_STATE));
    MUST(f.pair.passive.recv(0, 64));
    NEED(send_invalidating(f.pair.active, f.opened.context, 1), "sends that invalidate");
    CHECK(next_dto(f.pair.passive.recv_evd).operation == DAT_DTO_RECEIVE_WITH_INVALIDATE);
    CHECK(same_code(free_once(dat_lmr_free, part.lmr), success));
    CHECK(same_code(f.opened.free(), success));
}

TEST_CASE("RMR-17: without its flag a send with invalidate is a plain send" *
          hint("invalidate whatever the flag says") * needs("send_with_invalidate"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    make_closable(f.opened);
    f.opened.bind(f.there, part_at, part_size);
    MUST(f.pair.passive.recv(0, 64));
    NEED(send_invalidating(f.pair.active, f.opened.context, 1, DAT_FALSE), "sends that invalidate");
    CHECK(next_dto(f.pair.active.request_evd).status == DAT_DTO_SUCCESS);
    const auto got = next_dto(f.pair.passive.recv_evd);
    CHECK(got.operation == DAT_DTO_RECEIVE);
    CHECK(got.rmr_context == 0);
    f.write_there(f.opened.remote(f.there, part_at, part_size), 5);
}

TEST_CASE("RMR-18: a message cannot invalidate what is no RMR of the receiver's zone" *
          hint("deliver it and ignore the context, or take a region's away") *
          needs("send_with_invalidate"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    connected_pair with_stranger(ia); // has another zone
    window elsewhere(with_stranger.passive);
    make_closable(elsewhere);
    elsewhere.bind(with_stranger.passive.memory, part_at, part_size);
    for (const int which : {0, 1, 2}) {
        CAPTURE(which);
        lender f(ia);
        make_closable(f.opened);
        f.opened.bind(f.there, part_at, part_size);
        const DAT_RMR_CONTEXT key = which == 0   ? f.opened.context ^ 0x00ff0000
                                    : which == 1 ? f.there.rmr_context
                                                 : elsewhere.context;
        MUST(f.pair.passive.recv(0, 64, 8));
        NEED(send_invalidating(f.pair.active, key, 9), "sends that invalidate");
        expect_refused(f.pair.active, f.pair.passive, false, 9);
        const auto got = next_dto(f.pair.passive.recv_evd);
        CHECK(got.status != DAT_DTO_SUCCESS);
        CHECK(got.user_cookie.as_64 == 8);
        DAT_RMR_PARAM param;
        CHECK(same_code(query_rmr(f.opened, param), success)); // bound as before
    }
    with_stranger.active.memory.fill(0, part_size, 6);
    MUST(with_stranger.active.write(
        0, part_size, elsewhere.remote(with_stranger.passive.memory, part_at, part_size)));
    CHECK(next_dto(with_stranger.active.request_evd).status == DAT_DTO_SUCCESS);
}

TEST_CASE("RMR-19: an RDMA read goes into memory that an RMR names" *
          hint("look the context up among the LMRs only, or read as much as there is room") *
          needs("rdma_read_to_rmr"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia); // its window is where the read goes to
    test_endpoint &by = f.pair.passive;
    region &from = f.pair.active.memory;
    f.opened.bind(f.there, part_at, part_size, may_write);
    from.fill(0, part_size, 7);
    f.there.fill(part_at, part_size, 1);
    NEED(read_to(by, f.opened.remote(f.there, part_at, part_size), from.remote(0, 100), 5),
         "RDMA reads into an RMR");
    const auto done = next_dto(by.request_evd);
    CHECK(done.status == DAT_DTO_SUCCESS);
    CHECK(done.operation == DAT_DTO_RDMA_READ);
    CHECK(done.transfered_length == 100);
    CHECK(done.user_cookie.as_64 == 5);
    CHECK(std::memcmp(&f.there.bytes[part_at], from.bytes.data(), 100) == 0);
    region was(ia, by.pz, 8192);
    was.fill(part_at, part_size, 1);
    CHECK(std::memcmp(&f.there.bytes[part_at + 100], &was.bytes[part_at + 100], part_size - 100) ==
          0);
    const DAT_RMR_TRIPLET whole = f.there.remote(0, 64); // an LMR has such a context too
    MUST(read_to(by, whole, from.remote(0, 64), 6));
    CHECK(next_dto(by.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(std::memcmp(f.there.bytes.data(), from.bytes.data(), 64) == 0);
}

TEST_CASE("RMR-20: a read goes nowhere that its RMR does not open" *
          hint("take the rights and bounds of the region that the window is bound to") *
          needs("rdma_read_to_rmr"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    for (const int which : {0, 1, 2, 3}) {
        CAPTURE(which);
        lender f(ia);
        test_endpoint &by = f.pair.passive;
        f.opened.bind(f.there, part_at, part_size, which == 0 ? may_read : may_write);
        DAT_RMR_TRIPLET to = f.opened.remote(f.there, part_at, part_size);
        if (which == 1)
            to.virtual_address += 1;
        if (which == 2) {
            MUST(f.opened.post_unbind());
            f.opened.expect_bound();
        }
        if (which == 3)
            to.rmr_context ^= 0x00ff0000;
        f.pair.active.memory.fill(0, part_size, 7);
        const std::vector<std::uint8_t> before = f.there.bytes;
        NEED(read_to(by, to, f.pair.active.memory.remote(0, part_size), 5),
             "RDMA reads into an RMR");
        const auto done = next_dto(by.request_evd);
        CHECK(done.status == DAT_DTO_ERR_LOCAL_PROTECTION);
        CHECK(done.operation == DAT_DTO_RDMA_READ);
        expect_broken(by, f.pair.active, true);
        CHECK(f.there.bytes == before);
    }
}

TEST_CASE("RMR-21: an RMR made for an endpoint opens to the peer of that endpoint alone" *
          hint("open it through every endpoint of the zone") * needs("rmr_create_for_ep"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    if (!has_narrow_windows(ia))
        NOT_CLAIMED("RMRs of one endpoint");
    CHECK(ia.provider.rmr_scope_supported != DAT_RMR_SCOPE_PZ);
    for (const bool for_one : {false, true}) {
        CAPTURE(for_one);
        lender f(ia);
        if (for_one)
            narrow(f.opened);
        DAT_RMR_PARAM param;
        MUST(query_rmr(f.opened, param, all_but_part));
        CHECK(param.rmr_scope == (for_one ? DAT_RMR_SCOPE_EP : DAT_RMR_SCOPE_PZ));
        endpoint_sharing other(f.pair.passive);
        f.opened.bind(f.there, part_at, part_size);
        const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
        f.write_there(open, 1);
        const std::vector<std::uint8_t> before = f.there.bytes;
        other.peer.memory.fill(0, part_size, 9);
        MUST(other.peer.write(0, part_size, open, 4));
        if (for_one) {
            const auto done = next_dto(other.peer.request_evd);
            if (done.status == DAT_DTO_SUCCESS && acknowledged())
                FAIL_CHECK("a write through another connection's window succeeds");
            CHECK(ends_connection(next_event(other.peer.connect_evd).event_number));
            CHECK(f.there.bytes == before);
            f.write_there(open, 2); // it is still open where it was bound
        } else {
            CHECK(next_dto(other.peer.request_evd).status == DAT_DTO_SUCCESS);
        }
    }
}

TEST_CASE("RMR-22: an RMR made for an endpoint is closed with the connection it was bound on" *
          hint("open it to the next peer of the endpoint") * needs("rmr_create_for_ep"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    if (!has_narrow_windows(ia))
        NOT_CLAIMED("RMRs of one endpoint");
    lender f(ia);
    narrow(f.opened);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    f.write_there(open, 1);
    MUST(f.pair.passive.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    expect_disconnected(f.pair.passive, f.pair.active);
    for (test_endpoint *each : {&f.pair.passive, &f.pair.active})
        MUST(dat_ep_reset(each->ep));
    establish(f.pair.active, f.pair.passive);
    f.expect_dead(open);
}

TEST_CASE("RMR-23: the calls that DAT 2.0 added check their arguments" *
          hint("refuse before they look, or post what cannot be right") *
          needs("send_with_invalidate"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &own = pair.active;
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    const auto no_flags = static_cast<DAT_COMPLETION_FLAGS>(0x8000);
    const DAT_DTO_COOKIE cookie = cookie_of(0);
    DAT_LMR_TRIPLET local = own.memory.local(0, 64);
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    const DAT_RMR_TRIPLET here = own.memory.remote(0, 63);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (find_symbol("dat_rmr_create_for_ep") == nullptr)
        NOT_CLAIMED("the calls of DAT 2.0, in libdat2");
    if (auto *call = optional_call<decltype(dat_ep_post_send_with_invalidate)>(
            "dat_ep_post_send_with_invalidate")) {
        CHECK(same_code(call(own.pz, 1, &local, cookie, flags, DAT_TRUE, 1),
                        bad_handle(DAT_INVALID_HANDLE_EP)));
        CHECK(same_code(call(own.ep, -1, &local, cookie, flags, DAT_TRUE, 1), bad_arg(2)));
        CHECK(same_code(call(own.ep, 1, nullptr, cookie, flags, DAT_TRUE, 1), bad_arg(3)));
        CHECK(same_code(call(own.ep, 1, &local, cookie, no_flags, DAT_TRUE, 1), bad_arg(5)));
    }
    if (auto *call =
            optional_call<decltype(dat_ep_post_rdma_read_to_rmr)>("dat_ep_post_rdma_read_to_rmr")) {
        CHECK(same_code(call(own.pz, &here, cookie, &there, flags),
                        bad_handle(DAT_INVALID_HANDLE_EP)));
        CHECK(same_code(call(own.ep, nullptr, cookie, &there, flags), bad_arg(2)));
        CHECK(same_code(call(own.ep, &here, cookie, nullptr, flags), bad_arg(4)));
        CHECK(same_code(call(own.ep, &here, cookie, &there, no_flags), bad_arg(5)));
        CHECK(same_code(call(own.ep, &here, cookie, &there, flags), error(DAT_LENGTH_ERROR)));
    }
    if (auto *call = optional_call<decltype(dat_rmr_create_for_ep)>("dat_rmr_create_for_ep")) {
        CHECK(same_code(call(own.ep, &rmr), bad_handle(DAT_INVALID_HANDLE_PZ)));
        CHECK(same_code(call(own.pz, nullptr), bad_arg(2)));
    }
    CHECK(rmr == DAT_HANDLE_NULL);
    CHECK(stays_empty(own.request_evd, milliseconds(1)));
    move_data(own, pair.passive); // the connection is whole
}

TEST_CASE(
    "RMR-24: a bind through an endpoint that is being connected is refused, and binds nothing" *
    hint("look at no state but unconnected, or keep the bind until the connection is there") *
    needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    const auto refused_by = [](test_endpoint &own, unsigned subtype) {
        window w(own);
        CHECK(same_code(w.post_bind(own.memory, 0, 64), bad_state(subtype)));
        CHECK(w.context == 0);
        DAT_RMR_PARAM param;
        CHECK(same_code(query_rmr(w, param), bad_arg(2)));
        MUST(dat_rmr_free(w.rmr));
        w.rmr = DAT_HANDLE_NULL;
        own.memory.free(); // no window holds it
        CHECK(stays_empty(own.request_evd, milliseconds(1)));
    };
    test_endpoint own(ia);
    SUBCASE("it is reserved")
    {
        DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
        MUST(dat_rsp_create(ia.handle, unused_qualifier(ia), own.ep, evd, &rsp));
        refused_by(own, DAT_INVALID_STATE_EP_RESERVED);
        MUST(dat_rsp_free(rsp));
    }
    SUBCASE("it has asked")
    {
        listener at(ia);
        MUST(own.connect(ia.address(), at.qualifier));
        const DAT_CR_HANDLE request = at.next_request();
        refused_by(own, DAT_INVALID_STATE_EP_ACTCONNPENDING);
        MUST(dat_cr_reject(request, 0, nullptr));
    }
    SUBCASE("a request has brought it")
    {
        listener at(ia, DAT_PSP_PROVIDER_FLAG);
        test_endpoint from(ia);
        MUST(from.connect(ia.address(), at.qualifier));
        const DAT_CR_HANDLE request = at.next_request();
        DAT_CR_PARAM cr{};
        MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &cr));
        MUST(own.free_ep());
        own.ep = cr.local_ep_handle;
        DAT_EP_PARAM wanted{};
        wanted.pz_handle = own.pz;
        wanted.request_evd_handle = own.request_evd;
        MUST(dat_ep_modify(own.ep, DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE,
                           &wanted));
        refused_by(own, DAT_INVALID_STATE_EP_TENTCONNPENDING);
        MUST(dat_cr_reject(request, 0, nullptr)); // takes the endpoint along
        own.ep = DAT_HANDLE_NULL;
    }
}

TEST_CASE("RMR-25: a region below a window is kept, and freed after it is out of a peer's reach" *
          hint("look at the context when the request is posted, or when its first packet comes") *
          needs("rmr_bind"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    region lent(ia, f.pair.passive.pz, part_size);
    const std::vector<std::uint8_t> before = lent.copy();
    f.opened.bind(lent, 0, part_size);
    f.pair.active.memory.fill(0, part_size, 5);
    MUST(f.pair.active.send(0, 64, 1)); // waits for a receive, and so does what is behind it
    MUST(f.pair.active.write(0, part_size, f.opened.remote(lent, 0, part_size), 2));
    CHECK(same_code(dat_lmr_free(lent.lmr), bad_state(DAT_INVALID_STATE_LMR_IN_USE)));
    MUST(f.opened.free());
    lent.free();
    (void)f.pair.passive.recv(0, 64, 1);
    CHECK(next_dto(f.pair.active.request_evd).user_cookie.as_64 == 1);
    const auto done = next_dto(f.pair.active.request_evd);
    CHECK(done.user_cookie.as_64 == 2);
    CHECK((done.status != DAT_DTO_SUCCESS || !acknowledged()));
    CHECK(ends_connection(next_event(f.pair.active.connect_evd).event_number));
    CHECK(ends_connection(next_event(f.pair.passive.connect_evd).event_number));
    CHECK(lent.copy() == before);
}

TEST_CASE("RMR-26: a message closes an RMR of the zone's scope, or fails and leaves it bound" *
          hint("deliver the message and leave the context alive") * needs("send_with_invalidate"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    lender f(ia);
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET open = f.opened.remote(f.there, part_at, part_size);
    MUST(f.pair.passive.recv(0, 64, 8));
    NEED(send_invalidating(f.pair.active, open.rmr_context, 9), "sends that invalidate");
    const auto got = next_dto(f.pair.passive.recv_evd);
    CHECK(got.user_cookie.as_64 == 8);
    CHECK(next_dto(f.pair.active.request_evd).user_cookie.as_64 == 9);
    DAT_RMR_PARAM param;
    if (got.status == DAT_DTO_SUCCESS) {
        CHECK(got.operation == DAT_DTO_RECEIVE_WITH_INVALIDATE);
        CHECK(got.rmr_context == open.rmr_context);
        CHECK(same_code(query_rmr(f.opened, param), bad_arg(2)));
        f.expect_dead(open);
    } else {
        CHECK(ends_connection(next_event(f.pair.active.connect_evd).event_number));
        CHECK(ends_connection(next_event(f.pair.passive.connect_evd).event_number));
        CHECK(same_code(query_rmr(f.opened, param), success));
    }
}

TEST_CASE("RMR-27: an RMR made for an endpoint is bound again, also through another endpoint" *
          hint("fail a bind of a window that is open, or leave its old context alive") *
          needs("rmr_create_for_ep"))
{
    adapter ia;
    NEED_WINDOWS(ia);
    if (!has_narrow_windows(ia))
        NOT_CLAIMED("RMRs of one endpoint");
    lender f(ia);
    narrow(f.opened);
    const auto open = [&f] { return f.opened.remote(f.there, part_at, part_size); };
    f.opened.bind(f.there, part_at, part_size);
    const DAT_RMR_TRIPLET first = open();
    for (std::uint64_t i = 0; i < 3; ++i)
        MUST(f.opened.post_bind(f.there, part_at, part_size, may_read | may_write, i));
    for (std::uint64_t i = 0; i < 3; ++i)
        f.opened.expect_bound(i);
    CHECK(open().rmr_context != first.rmr_context);
    f.write_there(open(), 1);
    for (int i = 0; i < 2; ++i) {
        MUST(f.opened.post_unbind());
        f.opened.expect_bound();
    }
    f.opened.bind(f.there, part_at, part_size);
    f.write_there(open(), 2);
    {
        endpoint_sharing other(f.pair.passive);
        const DAT_LMR_TRIPLET part = f.there.local(part_at, part_size);
        MUST(dat_rmr_bind(f.opened.rmr, f.there.lmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                          DAT_VA_TYPE_VA, other.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG,
                          &f.opened.context));
        f.opened.expect_bound();
        other.peer.memory.fill(0, part_size, 3);
        MUST(other.peer.write(0, part_size, open(), 4));
        CHECK(next_dto(other.peer.request_evd).status == DAT_DTO_SUCCESS);
        CHECK(becomes_true([&] { return f.there.holds(part_at, part_size, 3); }));
    }
    f.opened.bind(f.there, part_at, part_size); // the other endpoint is gone
    f.write_there(open(), 5);
    f.expect_dead(first);
}

} // namespace conformance
