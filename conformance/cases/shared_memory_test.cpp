// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Regions of memory that processes share, by a cookie that both know.
#include "harness/pages.hpp"
#include "harness/peer.hpp"
#include "harness/support.hpp"

#include <random>

namespace conformance {
namespace {

constexpr std::size_t shared_bytes = shared_pages::bytes;

using cookie_bytes = char[DAT_LMR_COOKIE_SIZE];

/// No other run of the suite has it.
struct fresh_cookie {
    fresh_cookie()
    {
        std::random_device random;
        for (char &byte : bytes)
            byte = static_cast<char>(random());
    }
    cookie_bytes bytes;
};

DEVICE_MEMORY void fill_shared(std::uint8_t *at, std::uint8_t value)
{
    for (std::size_t i = 0; i < shared_bytes; ++i)
        at[i] = static_cast<std::uint8_t>(value + i % 13);
}

DEVICE_MEMORY bool shared_holds(const std::uint8_t *at, std::uint8_t value)
{
    for (std::size_t i = 0; i < shared_bytes; ++i)
        if (at[i] != static_cast<std::uint8_t>(value + i % 13))
            return false;
    return true;
}

/// dat_lmr_create of shared memory, with everything right.
struct sharing {
    sharing(const adapter &on, DAT_PZ_HANDLE zone, std::uint8_t *at, const cookie_bytes &cookie)
        : ia(on), pz(zone)
    {
        std::memcpy(bytes, cookie, sizeof bytes);
        where.for_shared_memory.virtual_address = at;
        where.for_shared_memory.shared_memory_id = &bytes;
    }
    DAT_RETURN create(DAT_VLEN length = shared_bytes)
    {
        return dat_lmr_create(ia.handle, DAT_MEM_TYPE_SHARED_VIRTUAL, where, length, pz, all_rights,
                              DAT_VA_TYPE_VA, &lmr, &lmr_context, &rmr_context, nullptr, nullptr);
    }
    DAT_RETURN free() { return free_once(dat_lmr_free, lmr); }

    const adapter &ia;
    DAT_PZ_HANDLE pz;
    cookie_bytes bytes;
    DAT_REGION_DESCRIPTION where{};
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
};

/// Writes a pattern through the region's remote context.
DAT_DTO_COMPLETION_STATUS write_through(connected_pair &pair, const sharing &region,
                                        std::uint8_t value)
{
    fill_shared(pair.active.memory.bytes.data(), value);
    DAT_RMR_TRIPLET there{};
    there.virtual_address =
        reinterpret_cast<DAT_VADDR>(region.where.for_shared_memory.virtual_address);
    there.segment_length = shared_bytes;
    there.rmr_context = region.rmr_context;
    MUST(pair.active.write(0, shared_bytes, there, value));
    return next_dto(pair.active.request_evd).status;
}

/// Sends it through the local one.
void send_from(connected_pair &pair, const sharing &region)
{
    DAT_LMR_TRIPLET from{};
    from.virtual_address =
        reinterpret_cast<DAT_VADDR>(region.where.for_shared_memory.virtual_address);
    from.segment_length = shared_bytes;
    from.lmr_context = region.lmr_context;
    MUST(pair.active.recv(0, shared_bytes));
    MUST(dat_ep_post_send(pair.passive.ep, 1, &from, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
    CHECK(next_dto(pair.active.recv_evd).status == DAT_DTO_SUCCESS);
    CHECK(next_dto(pair.passive.request_evd).status == DAT_DTO_SUCCESS);
}

/// What the other process shall do with the memory.
struct sharing_order {
    enum { connect, share, write, free } what;
    DAT_VLEN length;
    cookie_bytes cookie;
};

struct introduction {
    char file[40];
};

/// Child process: executes orders of its parent. It shares one region at a time. An order to write
/// through the region needs an order to connect before it.
int sharer(peer_link &link)
{
    adapter ia;
    const shared_pages memory(link.receive<introduction>().file);
    std::unique_ptr<connected_pair> pair;
    std::unique_ptr<sharing> mine;
    for (;;) {
        const sharing_order next = link.receive<sharing_order>();
        DAT_RETURN code = DAT_SUCCESS;
        if (next.what == sharing_order::connect) {
            pair = std::make_unique<connected_pair>(ia);
        } else if (next.what == sharing_order::share) {
            const DAT_PZ_HANDLE pz = pair != nullptr ? pair->passive.pz : make_pz(ia);
            mine = std::make_unique<sharing>(ia, pz, memory.at, next.cookie);
            code = mine->create(next.length);
        } else if (next.what == sharing_order::write) {
            code = write_through(*pair, *mine, static_cast<std::uint8_t>(next.length));
        } else {
            code = mine->free();
        }
        link.send(code);
    }
}
const role sharer_role("sharer", sharer);

/// The other process.
class companion {
public:
    explicit companion(const shared_pages &memory) : peer("sharer")
    {
        introduction of{};
        std::memcpy(of.file, memory.name, sizeof of.file);
        peer.link->send(of);
    }
    DAT_RETURN connect() { return obey(sharing_order::connect, 0, {}); }
    DAT_RETURN share(const fresh_cookie &cookie, DAT_VLEN length = shared_bytes)
    {
        return obey(sharing_order::share, length, cookie.bytes);
    }
    DAT_RETURN write(std::uint8_t value) { return obey(sharing_order::write, value, {}); }
    DAT_RETURN free() { return obey(sharing_order::free, 0, {}); }

    peer_process peer;

private:
    DAT_RETURN obey(decltype(sharing_order::what) what, DAT_VLEN length, const cookie_bytes &cookie)
    {
        sharing_order next{what, length, {}};
        std::memcpy(next.cookie, cookie, sizeof next.cookie);
        peer.link->send(next);
        return peer.link->receive<DAT_RETURN>();
    }
};

/// Whether the case ends here, as not claimed.
bool lacks_sharing(const adapter &ia)
{
    if ((ia.provider.lmr_mem_types_supported & DAT_MEM_TYPE_SHARED_VIRTUAL) != 0)
        return false;
    tell_not_claimed("shared memory regions"); // MEM-04 has the refusal
    return true;
}

} // namespace

TEST_CASE("MEM-26: processes share memory by a cookie, and each moves data through its region" *
          hint("take the cookie for the address, or the region of one process for the other's"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie cookie;
    connected_pair pair(ia);
    sharing mine(ia, pair.passive.pz, memory.at, cookie.bytes);
    companion other(memory);
    MUST(other.connect());
    MUST(other.share(cookie));
    CHECK(same_code(mine.create(), DAT_SUCCESS));
    MUST(other.write(3));
    CHECK(becomes_true([&] { return shared_holds(memory.at, 3); }));
    send_from(pair, mine);
    CHECK(shared_holds(pair.active.memory.bytes.data(), 3));
    CHECK(write_through(pair, mine, 90) == DAT_DTO_SUCCESS);
    CHECK(becomes_true([&] { return shared_holds(memory.at, 90); }));
    CHECK(same_code(mine.free(), DAT_SUCCESS));
    MUST(other.write(40)); // its region is its own
    CHECK(becomes_true([&] { return shared_holds(memory.at, 40); }));
    MUST(other.free());
}

TEST_CASE("MEM-27: query tells of shared memory what it was registered with" *
          hint("keep the consumer's pointer to the cookie, which is gone by then"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie cookie;
    sharing mine(ia, make_pz(ia), memory.at, cookie.bytes);
    MUST(mine.create(4096));
    std::memset(mine.bytes, 0, sizeof mine.bytes);
    DAT_LMR_PARAM param{};
    MUST(dat_lmr_query(mine.lmr, DAT_LMR_FIELD_ALL, &param));
    CHECK(param.mem_type == DAT_MEM_TYPE_SHARED_VIRTUAL);
    CHECK(param.region_desc.for_shared_memory.virtual_address == memory.at);
    REQUIRE(param.region_desc.for_shared_memory.shared_memory_id != nullptr);
    CHECK(std::memcmp(param.region_desc.for_shared_memory.shared_memory_id, cookie.bytes,
                      sizeof cookie.bytes) == 0);
    CHECK(param.length == 4096);
    CHECK(param.pz_handle == mine.pz);
    CHECK(param.mem_priv == all_rights);
    CHECK(param.lmr_context == mine.lmr_context);
    CHECK(param.rmr_context == mine.rmr_context);
    CHECK(param.registered_address <= reinterpret_cast<DAT_VADDR>(memory.at));
    CHECK(param.registered_size >= 4096);
    CHECK(same_code(mine.free(), DAT_SUCCESS));
}

TEST_CASE("MEM-28: a cookie stands for one length, until the last region with it is freed" *
          hint("forget a cookie with its first region, or with the first of two processes"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie cookie;
    sharing mine(ia, make_pz(ia), memory.at, cookie.bytes);
    sharing again(ia, mine.pz, memory.at, cookie.bytes);
    companion other(memory);
    const DAT_RETURN another_length = error(DAT_LENGTH_ERROR);
    MUST(mine.create(8192));
    CHECK(same_code(other.share(cookie, 4096), another_length));
    CHECK(same_code(again.create(12288), another_length));
    MUST(other.share(cookie, 8192));
    MUST(again.create(8192));
    MUST(mine.free());
    MUST(again.free());
    CHECK(same_code(mine.create(4096), another_length)); // it is the other's still
    MUST(other.free());
    CHECK(same_code(mine.create(4096), DAT_SUCCESS));
    CHECK(same_code(other.share(cookie, 8192), another_length));
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS)); // frees it as well
    CHECK(same_code(other.share(cookie, 12288), DAT_SUCCESS));
    MUST(other.free());
}

TEST_CASE("MEM-29: a process that is killed leaves its cookies to the living" *
          hint("count regions, where only a process that lives takes its own off"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie theirs;
    const fresh_cookie both;
    sharing mine(ia, make_pz(ia), memory.at, both.bytes);
    sharing inherited(ia, mine.pz, memory.at, theirs.bytes);
    MUST(mine.create(8192));
    {
        companion other(memory);
        MUST(other.share(both, 8192));
        MUST(other.share(theirs, 8192));
        CHECK(same_code(inherited.create(4096), error(DAT_LENGTH_ERROR)));
        other.peer.kill_hard();
    }
    CHECK(same_code(inherited.create(4096), DAT_SUCCESS));
    const shared_pages next;
    companion later(next);
    CHECK(same_code(later.share(both, 4096), error(DAT_LENGTH_ERROR))); // mine is not lost
    CHECK(same_code(later.share(both, 8192), DAT_SUCCESS));
    CHECK(same_code(later.share(theirs, 4096), DAT_SUCCESS));
    MUST(mine.free());
    MUST(inherited.free());
}

TEST_CASE("MEM-30: a shared region that is freed twice is taken off its cookie once" *
          hint("count a free that they refuse"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie cookie;
    sharing mine(ia, make_pz(ia), memory.at, cookie.bytes);
    sharing again(ia, mine.pz, memory.at, cookie.bytes);
    MUST(mine.create(8192));
    MUST(again.create(8192));
    const DAT_LMR_HANDLE stale = mine.lmr;
    MUST(mine.free());
    CHECK(same_code(dat_lmr_free(stale), bad_handle(DAT_INVALID_HANDLE_LMR)));
    CHECK(same_code(dat_lmr_free(stale), bad_handle(DAT_INVALID_HANDLE_LMR)));
    CHECK(same_code(mine.create(4096), error(DAT_LENGTH_ERROR)));
    MUST(again.free());
    CHECK(same_code(mine.create(4096), DAT_SUCCESS));
    MUST(mine.free());
}

TEST_CASE("MEM-31: a cookie is 40 bytes of any value, and has to be there" *
          hint("read it as text, up to the first zero, or through a null pointer"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const shared_pages memory;
    const fresh_cookie cookie;
    sharing mine(ia, make_pz(ia), memory.at, cookie.bytes);
    sharing like(ia, mine.pz, memory.at, cookie.bytes);
    const region usual(ia, mine.pz, 64);
    mine.where.for_shared_memory.shared_memory_id = nullptr;
    CHECK(same_code(mine.create(), bad_arg(3)));
    CHECK(mine.lmr == DAT_HANDLE_NULL);
    mine.where.for_shared_memory.shared_memory_id = &mine.bytes;
    mine.where.for_shared_memory.virtual_address = nullptr;
    CHECK(same_code(mine.create(), bad_arg(3)));
    mine.where.for_shared_memory.virtual_address = memory.at;
    CHECK(same_code(mine.create(0), error(DAT_LENGTH_ERROR)));

    MUST(mine.create(8192));
    SUBCASE("the last byte tells two apart")
    {
        like.bytes[DAT_LMR_COOKIE_SIZE - 1] ^= 1;
        CHECK(same_code(like.create(4096), DAT_SUCCESS));
    }
    SUBCASE("and so does one behind a zero")
    {
        MUST(mine.free());
        mine.bytes[0] = like.bytes[0] = 0;
        MUST(mine.create(8192));
        like.bytes[20] ^= 1;
        CHECK(same_code(like.create(4096), DAT_SUCCESS));
    }
    SUBCASE("zeros are a cookie")
    {
        // Others may use it, so there is no saying which length it has.
        std::memset(like.bytes, 0, sizeof like.bytes);
        const DAT_RETURN code = like.create(4096);
        CHECK_MESSAGE((code == DAT_SUCCESS || code == error(DAT_LENGTH_ERROR)), code_name(code));
    }
    if (like.lmr != DAT_HANDLE_NULL)
        MUST(like.free());
    MUST(mine.free());
}

TEST_CASE("MEM-32: memory that the system does not share is not registered as shared" *
          hint("believe the consumer, whose processes then have a region each"))
{
    adapter ia;
    if (lacks_sharing(ia))
        return;
    const fresh_cookie cookie;
    const auto page = page_size();
    const pages some(4, page_kind::part_shared);
    sharing mine(ia, make_pz(ia), some.at, cookie.bytes);
    const region usual(ia, mine.pz, 64);
    const DAT_RETURN not_shared = error(DAT_INVALID_STATE);
    CHECK(same_code(mine.create(4 * page), not_shared));
    CHECK(same_code(mine.create(2 * page + 1), not_shared));
    CHECK(mine.lmr == DAT_HANDLE_NULL);
    CHECK(same_code(mine.create(2 * page), DAT_SUCCESS)); // the cookie was not taken
    MUST(mine.free());
    std::vector<std::uint8_t> own(page);
    mine.where.for_shared_memory.virtual_address = own.data();
    CHECK(same_code(mine.create(page), not_shared));
}

} // namespace conformance
