// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection zones, local and remote memory regions.
#include "harness/support.hpp"

#include "harness/pages.hpp"

namespace conformance {
namespace {

constexpr std::size_t size = 4096;

/// lmr_create with everything right, to be spoilt one argument at a time.
struct registration {
    explicit registration(adapter &on) : ia(on), pz(make_pz(on)), bytes(size)
    {
        where.for_va = bytes.data();
    }
    DAT_RETURN create()
    {
        return dat_lmr_create(ia.handle, static_cast<DAT_MEM_TYPE>(type), where, length, pz,
                              static_cast<DAT_MEM_PRIV_FLAGS>(rights),
                              static_cast<DAT_VA_TYPE>(va_type), out, &lmr_context, &rmr_context,
                              &registered, &address);
    }

    adapter &ia;
    DAT_PZ_HANDLE pz;
    std::vector<std::uint8_t> bytes;
    unsigned type = DAT_MEM_TYPE_VIRTUAL; // an integer, since illegal types are passed too
    DAT_REGION_DESCRIPTION where{};
    DAT_VLEN length = size;
    unsigned rights = DAT_MEM_PRIV_ALL_FLAG;
    unsigned va_type = DAT_VA_TYPE_VA;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE *out = &lmr;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN registered = 0;
    DAT_VADDR address = 0;
};

/// An error by which a device refuses memory.
bool refuses_memory(DAT_RETURN code)
{
    const unsigned type = DAT_GET_TYPE(code);
    const bool known = type == DAT_PROTECTION_VIOLATION || type == DAT_PRIVILEGES_VIOLATION ||
                       type == DAT_INVALID_PARAMETER || type == DAT_INVALID_ADDRESS ||
                       type == DAT_INSUFFICIENT_RESOURCES;
    return known && (code & DAT_CLASS_ERROR) != 0;
}

DAT_VADDR address_of(const void *where)
{
    return reinterpret_cast<DAT_VADDR>(where);
}

} // namespace

TEST_CASE("MEM-01: zones check their arguments and query returns their adapter" *
          hint("check the handle only, or report no adapter in dat_pz_query"))
{
    adapter ia;
    CHECK(same_code(dat_pz_create(ia.handle, nullptr), bad_arg(2)));
    const DAT_PZ_HANDLE pz = make_pz(ia);
    DAT_PZ_PARAM param{};
    CHECK(same_code(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS));
    CHECK(param.ia_handle == ia.handle);
    CHECK(same_code(dat_pz_query(pz, DAT_PZ_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_pz_query(pz, static_cast<DAT_PZ_PARAM_MASK>(2), &param), bad_arg(2)));
    CHECK(same_code(dat_pz_free(pz), DAT_SUCCESS));
}

TEST_CASE("MEM-02: a zone that an EP, LMR or RMR refers to is PZ_IN_USE" *
          hint("free the zone below its objects, or answer with a bare INVALID_STATE"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_PZ_IN_USE);
    const DAT_PZ_HANDLE pz = make_pz(ia);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (dat_rmr_create(pz, &rmr) == DAT_SUCCESS) { // MEM-11 wants that
        CHECK(same_code(dat_pz_free(pz), in_use));
        MUST(dat_rmr_free(rmr));
    }
    {
        region memory(ia, pz, 64);
        CHECK(same_code(dat_pz_free(pz), in_use));
    }
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    MUST(dat_ep_create(ia.handle, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, nullptr,
                       &ep));
    CHECK(same_code(dat_pz_free(pz), in_use));
    MUST(dat_ep_free(ep));
    CHECK(same_code(dat_pz_free(pz), DAT_SUCCESS));
}

TEST_CASE("MEM-03: lmr_create checks its arguments" *
          hint("leave the checks to the device and answer INTERNAL_ERROR"))
{
    adapter ia;
    registration r(ia);
    DAT_RETURN expected = DAT_SUCCESS;
    SUBCASE("memory type")
    {
        r.type = 7;
        expected = bad_arg(2);
    }
    SUBCASE("privileges")
    {
        r.rights = 0x800;
        expected = bad_arg(6);
    }
    SUBCASE("kind of address")
    {
        r.va_type = 9;
        expected = bad_arg(7);
    }
    SUBCASE("out pointer")
    {
        r.out = nullptr;
        expected = bad_arg(8);
    }
    SUBCASE("length 0")
    {
        r.length = 0;
        expected = error(DAT_LENGTH_ERROR);
    }
    SUBCASE("source region")
    {
        r.type = DAT_MEM_TYPE_LMR;
        r.where.for_lmr_handle = r.pz;
        expected = bad_handle(DAT_INVALID_HANDLE_LMR);
    }
    SUBCASE("zone")
    {
        r.pz = DAT_HANDLE_NULL;
        expected = bad_handle(DAT_INVALID_HANDLE_PZ);
    }
    r.lmr = ia.async; // anything but null
    r.lmr_context = 77;
    r.address = 78;
    CHECK(same_code(r.create(), expected));
    CHECK(r.lmr == ia.async);
    CHECK(r.lmr_context == 77);
    CHECK(r.address == 78);
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), bad_state(DAT_INVALID_STATE_IA_IN_USE)));
}

TEST_CASE("MEM-04: zero-based and shared memory that are not offered are MODEL_NOT_SUPPORTED" *
          hint("take a kind of memory that they do not know for plain virtual memory") *
          needs("zb_or_shared_memory"))
{
    adapter ia;
    if (ia.attr.zb_supported == DAT_FALSE) {
        registration r(ia);
        r.va_type = DAT_VA_TYPE_ZB;
        CHECK(same_code(r.create(), not_supported));
    }
    if ((ia.provider.lmr_mem_types_supported & DAT_MEM_TYPE_SHARED_VIRTUAL) == 0) {
        registration r(ia);
        r.type = DAT_MEM_TYPE_SHARED_VIRTUAL;
        CHECK(same_code(r.create(), not_supported));
        NOT_CLAIMED("shared memory regions");
    }
}

TEST_CASE(
    "MEM-05: the registered range covers the requested one, and query returns both" *
    hint(
        "report the page-rounded range as the one asked for, or a registered size that is smaller"))
{
    adapter ia;
    registration r(ia);
    MUST(r.create());
    CHECK(r.address <= address_of(r.bytes.data()));
    CHECK(r.address + r.registered >= address_of(r.bytes.data()) + size);
    DAT_LMR_PARAM param{};
    CHECK(same_code(dat_lmr_query(r.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.mem_type == DAT_MEM_TYPE_VIRTUAL);
    CHECK(param.region_desc.for_va == r.bytes.data());
    CHECK(param.length == size);
    CHECK(param.pz_handle == r.pz);
    CHECK(param.mem_priv == DAT_MEM_PRIV_ALL_FLAG);
    CHECK(param.va_type == DAT_VA_TYPE_VA);
    CHECK(param.lmr_context == r.lmr_context);
    CHECK(param.rmr_context == r.rmr_context);
    CHECK(param.registered_size == r.registered);
    CHECK(param.registered_address == r.address);
    CHECK(same_code(dat_lmr_query(r.lmr, DAT_LMR_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_lmr_query(r.lmr, static_cast<DAT_LMR_PARAM_MASK>(0x800), &param),
                    bad_arg(2)));
    CHECK(same_code(dat_lmr_free(r.lmr), DAT_SUCCESS));
}

TEST_CASE("MEM-06: with a remote privilege there is a remote context, and without there is none" *
          hint("hand out a remote context although no remote right was given, or none ever"))
{
    adapter ia;
    for (unsigned rights : {0x00u, 0x01u, 0x10u, 0x11u, 0x02u, 0x20u, 0x33u}) {
        CAPTURE(rights);
        registration r(ia);
        r.rights = rights;
        MUST(r.create());
        CHECK((r.rmr_context == 0) == ((rights & 0x22) == 0));
        MUST(dat_lmr_free(r.lmr));
    }
}

TEST_CASE("MEM-07: contexts, length and address of a new region may go untold" *
          hint("write through null OUT pointers"))
{
    adapter ia;
    registration r(ia);
    const region usual(ia, r.pz, size);
    CHECK(same_code(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, r.where, size, r.pz, all_rights,
                                   DAT_VA_TYPE_VA, &r.lmr, nullptr, nullptr, nullptr, nullptr),
                    DAT_SUCCESS));
    CHECK(same_code(dat_lmr_free(r.lmr), DAT_SUCCESS));
}

namespace {

/// Makes many regions and expects that no two have equal contexts.
std::vector<std::unique_ptr<region>> expect_distinct(const adapter &ia, DAT_PZ_HANDLE pz,
                                                     DAT_UINT32 region::*context)
{
    std::vector<std::unique_ptr<region>> regions;
    for (int i = 0; i < 64; ++i) {
        regions.push_back(std::make_unique<region>(ia, pz, 128));
        for (std::size_t j = 0; j + 1 < regions.size(); ++j)
            CHECK(*regions[j].*context != *regions.back().*context);
    }
    return regions;
}

} // namespace

TEST_CASE("MEM-08: remote contexts of living regions differ" *
          hint("use an index as context that two regions share"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    (void)expect_distinct(ia, pz, &region::rmr_context);
}

TEST_CASE("MEM-09: a region made from another moves the same memory" *
          hint("do not know DAT_MEM_TYPE_LMR, or register the wrong range for it"))
{
    adapter ia;
    if ((ia.provider.lmr_mem_types_supported & DAT_MEM_TYPE_LMR) == 0)
        NOT_CLAIMED("regions made from others"); // IA-26 has the refusal
    connected_pair pair(ia);
    registration r(ia);
    r.pz = pair.passive.pz;
    r.type = DAT_MEM_TYPE_LMR;
    r.where.for_lmr_handle = pair.passive.memory.lmr;
    r.length = pair.passive.memory.bytes.size();
    MUST(r.create());
    pair.active.memory.fill(0, size, 3);
    const DAT_RMR_TRIPLET to{address_of(pair.passive.memory.bytes.data()), size, r.rmr_context};
    MUST(pair.active.write(0, size, to));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(becomes_true([&] { return pair.passive.memory.holds(0, size, 3); }));
    CHECK(same_code(dat_lmr_free(r.lmr), DAT_SUCCESS));
    move_data(pair.active, pair.passive);
}

TEST_CASE("MEM-10: sync accepts segments of a region and refuses others" *
          hint("look at the handle only, not at the segments"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_LMR_TRIPLET good = own.memory.local(16, 64);
    CHECK(same_code(dat_lmr_sync_rdma_read(ia.handle, &good, 1), DAT_SUCCESS));
    CHECK(same_code(dat_lmr_sync_rdma_write(ia.handle, &good, 1), DAT_SUCCESS));
    CHECK(same_code(dat_lmr_sync_rdma_read(ia.handle, nullptr, 0), DAT_SUCCESS));
    CHECK(same_type(dat_lmr_sync_rdma_read(ia.handle, nullptr, 1), DAT_INVALID_PARAMETER));
    CHECK(same_type(dat_lmr_sync_rdma_write(ia.handle, nullptr, 1), DAT_INVALID_PARAMETER));
    DAT_LMR_TRIPLET outside = own.memory.local(own.memory.bytes.size() - 8, 64);
    CHECK(same_type(dat_lmr_sync_rdma_read(ia.handle, &outside, 1), DAT_INVALID_PARAMETER));
    CHECK(same_type(dat_lmr_sync_rdma_write(ia.handle, &outside, 1), DAT_INVALID_PARAMETER));
}

TEST_CASE("MEM-11: query returns no triplet for an RMR that is not bound" *
          hint("answer success with a triplet of zeros"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    CHECK(same_code(dat_rmr_create(pz, nullptr), bad_arg(2)));
    MUST(dat_rmr_create(pz, &rmr));
    DAT_RMR_PARAM param{};
    constexpr auto rest =
        static_cast<DAT_RMR_PARAM_MASK>(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET);
    CHECK(same_code(dat_rmr_query(rmr, rest, &param), DAT_SUCCESS));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.pz_handle == pz);
    CHECK(same_code(dat_rmr_query(rmr, rest, nullptr), bad_arg(3)));
    CHECK(same_code(dat_rmr_query(rmr, static_cast<DAT_RMR_PARAM_MASK>(0x80), &param), bad_arg(2)));
    CHECK(same_code(dat_rmr_query(rmr, DAT_RMR_FIELD_LMR_TRIPLET, &param), bad_arg(2)));
    CHECK(same_code(dat_rmr_free(rmr), DAT_SUCCESS));
}

TEST_CASE("MEM-12: a bind completes with success, or is MODEL_NOT_SUPPORTED" *
          hint("answer another code, or touch the context of a bind they refuse") *
          needs("rmr_bind"))
{
    adapter ia;
    connected_pair pair(ia);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    MUST(dat_rmr_create(pair.active.pz, &rmr));
    const DAT_LMR_TRIPLET part = pair.active.memory.local(0, 64);
    const DAT_RMR_COOKIE cookie{};
    DAT_RMR_CONTEXT context = 77;
    const DAT_RETURN code =
        dat_rmr_bind(rmr, pair.active.memory.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                     DAT_VA_TYPE_VA, pair.active.ep, cookie, DAT_COMPLETION_DEFAULT_FLAG, &context);
    if (!refused(code)) {
        const DAT_EVENT event = next_event(pair.active.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        CHECK(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS);
        MUST(dat_rmr_free(rmr));
        return;
    }
    CHECK(context == 77);
    CHECK(stays_empty(pair.active.request_evd, milliseconds(1)));
    MUST(dat_rmr_free(rmr));
    NOT_CLAIMED("binding of RMRs");
}

TEST_CASE("MEM-13: regions can be registered and freed thousands of times" *
          hint("leak device registrations, or run into a limit because they are freed late"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    for (int i = 0; i < 3000; ++i)
        region memory(ia, pz, 4096);
    MUST(dat_pz_free(pz));
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("MEM-14: memory that is not there is not registered" *
          hint("look at the memory when a peer writes to it, if then"))
{
    adapter ia;
    registration r(ia);
    const region usual(ia, r.pz, size);
    pages some(5);
    some.remove(3, 1);
    r.where.for_va = some.at;
    SUBCASE("a hole inside")
    {
        r.length = 5 * some.page;
    }
    SUBCASE("a hole at the end")
    {
        r.length = 3 * some.page + 1;
    }
    SUBCASE("a hole at the beginning")
    {
        r.where.for_va = some.at + 3 * some.page;
        r.length = 2 * some.page;
    }
    SUBCASE("nothing at all")
    {
        r.where.for_va = some.at + 3 * some.page + 64;
        r.length = 64;
    }
    for (unsigned rights : {0x11u, 0x33u, 0x03u}) {
        CAPTURE(rights);
        r.rights = rights;
        const DAT_RETURN code = r.create();
        if (!refuses_memory(code))
            FAIL_CHECK("registering such memory answers ", code_name(code));
        CHECK(r.lmr == DAT_HANDLE_NULL);
    }
    r.where.for_va = some.at; // the memory beside it is accepted
    r.length = 3 * some.page;
    CHECK(same_code(r.create(), DAT_SUCCESS));
}

TEST_CASE("MEM-15: the rights of a region are those of its memory at most" *
          hint("let peers write to read-only memory, or refuse it to those who only read"))
{
    adapter ia;
    registration r(ia);
    const region usual(ia, r.pz, size);
    const pages constant(2, page_kind::read_only);
    r.where.for_va = constant.at;
    r.length = constant.length;
    for (unsigned rights : {0x11u, 0x21u, 0x13u, 0x33u}) {
        CAPTURE(rights);
        r.rights = rights;
        const DAT_RETURN code = r.create();
        if (!refuses_memory(code))
            FAIL_CHECK("registering such memory answers ", code_name(code));
        CHECK(r.lmr == DAT_HANDLE_NULL);
    }
    for (unsigned rights : {0x01u, 0x03u}) {
        CAPTURE(rights);
        r.rights = rights;
        CHECK(same_code(r.create(), DAT_SUCCESS));
        MUST(dat_lmr_free(r.lmr));
        r.lmr = DAT_HANDLE_NULL;
    }
}

TEST_CASE("MEM-16: what is mapped behind the end of a file is not registered" *
          hint("believe the mapping, and die by SIGBUS when a peer writes"))
{
    adapter ia;
    registration r(ia);
    std::size_t length = 0;
    r.where.for_va = map_without_memory(length);
    REQUIRE(r.where.for_va != nullptr);
    r.length = length;
    const DAT_RETURN code = r.create();
    CHECK_MESSAGE(refuses_memory(code), code_name(code));
    CHECK(r.lmr == DAT_HANDLE_NULL);
    r.rights = 0x03;
    const DAT_RETURN to_read = r.create();
    CHECK_MESSAGE(refuses_memory(to_read), code_name(to_read));
    CHECK(r.lmr == DAT_HANDLE_NULL);
}

TEST_CASE("MEM-17: what is unmapped while registered ends no process, and loses no operation" *
          hint("store or load there themselves, and die by the signal") * needs("unmapped_memory"))
{
    if (!the_settings().promised("unmapped_memory")) // DAT leaves it to consumers
        NOT_CLAIMED("memory that is unmapped while registered; see --promise unmapped_memory");
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &by = pair.active;
    test_endpoint &owner = pair.passive;
    registration r(ia);
    pages leaving(16);
    r.pz = owner.pz;
    r.where.for_va = leaving.at;
    r.length = leaving.length;
    MUST(r.create());
    DAT_LMR_TRIPLET local{};
    local.virtual_address = address_of(leaving.at);
    local.segment_length = static_cast<DAT_SEG_LENGTH>(leaving.length);
    local.lmr_context = r.lmr_context;
    DAT_RMR_TRIPLET remote{};
    remote.virtual_address = local.virtual_address;
    remote.segment_length = local.segment_length;
    remote.rmr_context = r.rmr_context;
    DAT_EVD_HANDLE completes = by.request_evd;
    SUBCASE("written to by the peer")
    {
        leaving.remove(1, 15);
        MUST(by.write(0, leaving.length, remote, 7));
    }
    SUBCASE("read by the peer")
    {
        leaving.remove(1, 15);
        MUST(by.read(0, leaving.length, remote, 7));
    }
    SUBCASE("where a message is received")
    {
        MUST(dat_ep_post_recv(owner.ep, 1, &local, cookie_of(7), DAT_COMPLETION_DEFAULT_FLAG));
        leaving.remove(1, 15);
        MUST(by.send(0, leaving.length, 7));
        (void)next_dto(by.request_evd); // completes with any status
        completes = owner.recv_evd;
    }
    SUBCASE("from where a message is sent")
    {
        MUST(by.recv(0, leaving.length));
        leaving.remove(1, 15);
        MUST(dat_ep_post_send(owner.ep, 1, &local, cookie_of(7), DAT_COMPLETION_DEFAULT_FLAG));
        completes = owner.request_evd;
    }
    SUBCASE("where a read puts what it has read")
    {
        leaving.remove(1, 15);
        const DAT_RMR_TRIPLET from = by.memory.remote(0, leaving.length);
        MUST(dat_ep_post_rdma_read(owner.ep, 1, &local, cookie_of(7), &from,
                                   DAT_COMPLETION_DEFAULT_FLAG));
        completes = owner.request_evd;
    }
    if (the_settings().promised("unmapped_messages")) {
        // Programs that poll are served in calls of their own.
        const auto polls = [](DAT_EVD_HANDLE evd, milliseconds time) {
            DAT_EVENT event{};
            const auto until = std::chrono::steady_clock::now() + time;
            while (std::chrono::steady_clock::now() < until)
                if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
                    return event.event_data.dto_completion_event_data.user_cookie.as_64;
            return DAT_UINT64{0};
        };
        local.virtual_address += leaving.length / 2;
        local.segment_length = 64;
        SUBCASE("where a short message is received")
        {
            CHECK(polls(owner.recv_evd, milliseconds(20)) == 0);
            MUST(dat_ep_post_recv(owner.ep, 1, &local, cookie_of(8), DAT_COMPLETION_DEFAULT_FLAG));
            leaving.remove(1, 15);
            MUST(by.send(0, 64, 7));
            CHECK(polls(owner.recv_evd, patience) == 8);
            completes = by.request_evd;
        }
        SUBCASE("from where a short message is sent")
        {
            CHECK(polls(owner.recv_evd, milliseconds(20)) == 0);
            MUST(by.recv(0, 64));
            leaving.remove(1, 15);
            MUST(dat_ep_post_send(owner.ep, 1, &local, cookie_of(7), DAT_COMPLETION_DEFAULT_FLAG));
            completes = owner.request_evd;
        }
    }
    CHECK(next_dto(completes).user_cookie.as_64 == 7);
    CHECK(stays_empty(completes));
    MUST(dat_lmr_free(r.lmr));
    connected_pair others(ia);
    move_data(others.active, others.passive);
}

// ------------------------------------------------------------------------------- many regions

TEST_CASE("MEM-18: memory at address 0, or beyond the address space, is refused" *
          hint("add address and length, and look at what is left of the sum"))
{
    adapter ia;
    registration r(ia);
    r.where.for_va = nullptr;
    CHECK_MESSAGE(refuses_memory(r.create()), "address 0");
    r.where.for_va = reinterpret_cast<void *>(~std::uintptr_t{4095});
    r.length = 8192; // wraps
    const DAT_RETURN wraps = r.create();
    CHECK_MESSAGE((refuses_memory(wraps) || same_type(wraps, DAT_LENGTH_ERROR)), code_name(wraps));
    CHECK(r.lmr == DAT_HANDLE_NULL);
}

TEST_CASE("MEM-19: a region is not longer than memory or the adapter's limit" *
          hint("cut the length down to 32 bits, and register what is left of it"))
{
    adapter ia;
    registration r(ia);
    for (const DAT_VLEN length : {(DAT_VLEN{1} << 32) + size, DAT_VLEN{1} << 44, DAT_VLEN{1} << 47,
                                  ~DAT_VLEN{0}, ~DAT_VLEN{0} - size}) {
        CAPTURE(length);
        r.length = length;
        const DAT_RETURN code = r.create();
        CHECK_MESSAGE((refuses_memory(code) || same_type(code, DAT_LENGTH_ERROR)), code_name(code));
        CHECK(r.lmr == DAT_HANDLE_NULL);
    }
    r.length = size;
    MUST(r.create());
    CHECK(r.registered >= size);
}

TEST_CASE("MEM-20: a region that is made from none is INVALID_HANDLE/LMR" *
          hint("read the bounds of what was freed, or of another kind of object"))
{
    adapter ia;
    if ((ia.provider.lmr_mem_types_supported & DAT_MEM_TYPE_LMR) == 0)
        NOT_CLAIMED("regions made from others");
    registration r(ia);
    auto gone = std::make_unique<region>(ia, r.pz, size);
    const DAT_LMR_HANDLE stale = gone->lmr;
    gone.reset();
    r.type = DAT_MEM_TYPE_LMR;
    for (DAT_HANDLE wrong :
         {stale, r.pz, DAT_HANDLE_NULL, reinterpret_cast<DAT_HANDLE>(std::uintptr_t{63})}) {
        CAPTURE(wrong);
        r.where.for_lmr_handle = wrong;
        CHECK(same_code(r.create(), bad_handle(DAT_INVALID_HANDLE_LMR)));
        CHECK(r.lmr == DAT_HANDLE_NULL);
    }
}

TEST_CASE("MEM-21: a region made from another has its own life and its own rights" *
          hint("share contexts with the region it was made from, or end with it"))
{
    adapter ia;
    if ((ia.provider.lmr_mem_types_supported & DAT_MEM_TYPE_LMR) == 0)
        NOT_CLAIMED("regions made from others");
    connected_pair pair(ia);
    auto source = std::make_unique<region>(ia, pair.passive.pz, size);
    registration r(ia);
    r.pz = pair.passive.pz;
    r.type = DAT_MEM_TYPE_LMR;
    r.where.for_lmr_handle = source->lmr;
    r.rights = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG;
    MUST(r.create());
    CHECK(r.lmr_context != source->lmr_context);
    CHECK(r.rmr_context != source->rmr_context);
    DAT_LMR_PARAM param{};
    MUST(dat_lmr_query(r.lmr, DAT_LMR_FIELD_ALL, &param));
    CHECK(param.mem_type == DAT_MEM_TYPE_LMR);
    CHECK(param.mem_priv == r.rights);
    CHECK(param.pz_handle == r.pz);
    CHECK(param.length == size);
    CHECK(param.lmr_context == r.lmr_context);
    source->fill(0, size, 7);
    DAT_RMR_TRIPLET there = source->remote(0, size);
    there.rmr_context = r.rmr_context;
    CHECK(same_code(dat_lmr_free(source->lmr), DAT_SUCCESS)); // its memory stays
    source->lmr = DAT_HANDLE_NULL;
    MUST(pair.active.read(0, size, there, 1));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    CHECK(pair.active.memory.holds(0, size, 7));
    const std::vector<std::uint8_t> before = source->bytes;
    pair.active.memory.fill(0, size, 8);
    MUST(pair.active.write(0, size, there, 2)); // the window does not have this right
    expect_refused(pair.active, pair.passive, false, 2);
    CHECK(source->bytes == before);
    MUST(dat_lmr_free(r.lmr));
}

TEST_CASE("MEM-22: regions over the same memory live and end each for itself" *
          hint("keep one registration for a range, and let the last or the first free end it"))
{
    adapter ia;
    connected_pair pair(ia);
    std::vector<std::uint8_t> shared(size);
    constexpr int number = 6;
    registration *regions[number] = {};
    std::vector<std::unique_ptr<registration>> owned;
    for (int i = 0; i < number; ++i) {
        owned.push_back(std::make_unique<registration>(ia));
        regions[i] = owned.back().get();
        regions[i]->pz = pair.passive.pz;
        regions[i]->where.for_va = shared.data() + i * 64;
        regions[i]->length = size - static_cast<std::size_t>(i) * 128;
        MUST(regions[i]->create());
    }
    const auto write_through = [&](const registration &by, std::uint8_t value) {
        std::memset(pair.active.memory.bytes.data(), value, 64);
        DAT_RMR_TRIPLET there{};
        there.virtual_address = address_of(by.where.for_va);
        there.segment_length = 64;
        there.rmr_context = by.rmr_context;
        MUST(pair.active.write(0, 64, there, value));
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
        const auto *first = static_cast<const std::uint8_t *>(by.where.for_va);
        CHECK(becomes_true([&] { return first[0] == value && first[63] == value; }));
    };
    std::uint8_t value = 1;
    for (int freed : {3, 0, 5, 1, 4, 2}) {
        for (registration *each : regions)
            if (each->lmr != DAT_HANDLE_NULL)
                write_through(*each, value++);
        CHECK(same_code(free_once(dat_lmr_free, regions[freed]->lmr), DAT_SUCCESS));
    }
}

TEST_CASE("MEM-23: local contexts of living regions differ, and a freed one is not used at once" *
          hint("give out the context of the region that was freed last"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    auto regions = expect_distinct(ia, pz, &region::lmr_context);
    const DAT_LMR_CONTEXT local = regions.back()->lmr_context;
    const DAT_RMR_CONTEXT remote = regions.back()->rmr_context;
    regions.pop_back();
    const region next(ia, pz, 128);
    CHECK(next.rmr_context != remote);
    if (the_settings().promised("local_protection"))
        CHECK(next.lmr_context != local);
}

TEST_CASE(
    "MEM-24: sync refuses contexts that are unknown, of a freed region, or of another adapter" *
    hint("look for a region of this address, whatever its context"))
{
    adapter ia;
    adapter other;
    test_endpoint own(ia);
    test_endpoint foreign(other);
    auto gone = std::make_unique<region>(ia, own.pz, 256);
    const DAT_LMR_TRIPLET stale = gone->local(0, 64);
    gone->free();
    DAT_LMR_TRIPLET unknown = own.memory.local(0, 64);
    unknown.lmr_context ^= 0x5a5a5a;
    for (const DAT_LMR_TRIPLET &wrong : {stale, unknown}) {
        DAT_LMR_TRIPLET segments[] = {own.memory.local(0, 64), wrong};
        for (DAT_VLEN number : {DAT_VLEN{1}, DAT_VLEN{2}}) {
            CAPTURE(number);
            DAT_LMR_TRIPLET *first = number == 1 ? segments + 1 : segments;
            CHECK(
                same_type(dat_lmr_sync_rdma_read(ia.handle, first, number), DAT_INVALID_PARAMETER));
            CHECK(same_type(dat_lmr_sync_rdma_write(ia.handle, first, number),
                            DAT_INVALID_PARAMETER));
        }
    }
    DAT_LMR_TRIPLET elsewhere = foreign.memory.local(0, 64);
    CHECK(same_type(dat_lmr_sync_rdma_read(ia.handle, &elsewhere, 1), DAT_INVALID_PARAMETER));
    CHECK(same_code(dat_lmr_sync_rdma_read(other.handle, &elsewhere, 1), DAT_SUCCESS));
}

TEST_CASE("MEM-25: regions are made, used and freed by threads beside a connection" *
          hint("change the table of contexts below those who look into it"))
{
    adapter ia;
    connected_pair pair(ia);
    std::atomic<int> failures{0};
    std::atomic<bool> stopping{false};
    std::vector<std::unique_ptr<helper_thread>> threads;
    for (int t = 0; t < 3; ++t)
        threads.push_back(std::make_unique<helper_thread>([&] {
            std::vector<std::uint8_t> bytes(size);
            DAT_REGION_DESCRIPTION where{};
            where.for_va = bytes.data();
            while (!stopping) {
                DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
                failures += dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, size,
                                           pair.passive.pz, all_rights, DAT_VA_TYPE_VA, &lmr,
                                           nullptr, nullptr, nullptr, nullptr) == DAT_SUCCESS
                                ? 0
                                : 1;
                failures += dat_lmr_free(lmr) == DAT_SUCCESS ? 0 : 1;
            }
        }));
    const set_at_end stop{stopping};
    for (unsigned round = 0; round < 200; ++round) {
        region lent(ia, pair.passive.pz, size);
        pair.active.memory.fill(0, size, round);
        MUST(pair.active.write(0, size, lent.remote(0, size), round));
        CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
        CHECK(becomes_true([&] { return lent.holds(0, size, round); }));
    }
    stopping = true;
    threads.clear();
    CHECK(failures == 0);
}

} // namespace conformance
