// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Interface adapters: opening, attributes, closing.
#include "harness/support.hpp"

#include "harness/pages.hpp"
#include "program/sockets.hpp"
#include "program/system.hpp"

#include <cstdio>

namespace conformance {
namespace {

const DAT_RETURN not_found = error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
const DAT_HANDLE untouched = reinterpret_cast<DAT_HANDLE>(0xabcdef0);

} // namespace

TEST_CASE("IA-01: open wants a name of at most 255 characters" *
          hint("copy the name into a fixed buffer without a look at its length"))
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = untouched;
    CHECK(same_code(dat_ia_openv(nullptr, 8, &async, &ia, 2, 0, DAT_FALSE), bad_arg(1)));
    CHECK(same_code(open_adapter(std::string(256, 'x'), &async, &ia), bad_arg(1)));
    CHECK(same_code(open_adapter(std::string(5000, 'x'), &async, &ia), bad_arg(1)));
    CHECK(same_code(open_adapter(std::string(255, 'x'), &async, &ia), not_found));
    CHECK(ia == untouched);
}

TEST_CASE("IA-02: open checks its pointers and the queue length, and leaves OUT values alone" *
          hint("write the OUT handles before the open has succeeded"))
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = untouched;
    const std::string &name = the_settings().ia;
    CHECK(same_code(open_adapter(name, &async, nullptr), bad_handle(DAT_INVALID_HANDLE_IA)));
    CHECK(same_code(open_adapter(name, &async, &ia, 0), bad_arg(2)));
    CHECK(same_code(open_adapter(name, &async, &ia, -1), bad_arg(2)));
    CHECK(same_code(open_adapter(name, nullptr, &ia), bad_arg(3)));
    CHECK(async == DAT_HANDLE_NULL);
    CHECK(ia == untouched);
}

TEST_CASE("IA-03: what is no asynchronous EVD is INVALID_HANDLE/EVD_ASYNC" *
          hint("take any EVD of the consumer's for the asynchronous one"))
{
    adapter other;
    DAT_IA_HANDLE ia = untouched;
    const DAT_EVD_HANDLE no_async = make_evd(other, DAT_EVD_SOFTWARE_FLAG);
    const DAT_EVD_HANDLE stale = make_evd(other, DAT_EVD_SOFTWARE_FLAG);
    MUST(dat_evd_free(stale));
    for (DAT_EVD_HANDLE given : {DAT_EVD_ASYNC_EXISTS, no_async, stale, make_pz(other)}) {
        CAPTURE(given);
        DAT_EVD_HANDLE async = given;
        CHECK(same_code(open_adapter(the_settings().ia, &async, &ia),
                        bad_handle(DAT_INVALID_HANDLE_EVD_ASYNC)));
        CHECK(async == given);
        CHECK(ia == untouched);
    }
}

TEST_CASE("IA-04: an unknown name or version is PROVIDER_NOT_FOUND/NAME_NOT_REGISTERED" *
          hint("belong to a registry that matches names by prefix, or ignores the version"))
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = untouched;
    auto *name = const_cast<char *>(the_settings().ia.c_str());
    CHECK(same_code(open_adapter("no such adapter", &async, &ia), not_found));
    CHECK(same_code(open_adapter("", &async, &ia), not_found));
    CHECK(same_code(dat_ia_openv(name, 8, &async, &ia, 1, 2, DAT_FALSE), not_found));
    CHECK(same_code(dat_ia_openv(name, 8, &async, &ia, 2, 1, DAT_FALSE), not_found));
    CHECK(ia == untouched);
}

TEST_CASE("IA-05: query returns name, address and limits of the adapter" *
          hint("leave attributes zero or uninitialised, the address above all"))
{
    adapter ia;
    const DAT_IA_ATTR &attr = ia.attr;
    CHECK(std::strlen(attr.adapter_name) > 0);
    CHECK(std::strlen(attr.vendor_name) > 0);
    if (attr.max_eps == 0)
        (void)make_pz(ia); // an adapter without endpoints has no zones, and needs no limits
    REQUIRE(attr.ia_address_ptr != nullptr);
    const int family = attr.ia_address_ptr->sa_family;
    CHECK((family == AF_INET || family == AF_INET6));
    CHECK(attr.max_eps > 0);
    CHECK(attr.max_dto_per_ep > 0);
    CHECK(attr.max_evds > 0);
    CHECK(attr.max_evd_qlen > 0);
    CHECK(attr.max_iov_segments_per_dto > 0);
    CHECK(attr.max_lmrs > 0);
    CHECK(attr.max_lmr_block_size > 0);
    CHECK(attr.max_lmr_virtual_address > 0);
    CHECK(attr.max_pzs > 0);
    CHECK(attr.max_message_size > 0);
    CHECK(attr.max_rdma_size > 0);
    CHECK(attr.max_iov_segments_per_rdma_read > 0);
    CHECK(attr.max_iov_segments_per_rdma_write > 0);
    CHECK(attr.max_rdma_read_per_ep_in >= 0);
    CHECK(attr.max_rdma_read_per_ep_out >= 0);
    CHECK((attr.num_transport_attr == 0 || attr.transport_attr != nullptr));
    CHECK((attr.num_vendor_attr == 0 || attr.vendor_attr != nullptr));
}

TEST_CASE("IA-06: the provider has the adapter's name, version 2.0 and the line's thread safety" *
          hint("register under one name and report another: the registry then cannot close them"))
{
    adapter ia;
    const DAT_PROVIDER_ATTR &provider = ia.provider;
    CHECK(provider.provider_name == the_settings().ia);
    CHECK(provider.dapl_version_major == 2);
    CHECK(provider.dapl_version_minor == 0);
    CHECK((provider.is_thread_safe != DAT_FALSE) == the_settings().thread_safe);
    CHECK(provider.max_private_data_size >= 64);
    CHECK(provider.optimal_buffer_alignment > 0);
    CHECK((provider.lmr_mem_types_supported & ~3u) == 0);
    CHECK((provider.num_provider_specific_attr == 0 || provider.provider_specific_attr != nullptr));
    for (DAT_COUNT i = 0; i < provider.num_provider_specific_attr; ++i) {
        CHECK(provider.provider_specific_attr[i].name != nullptr);
        CHECK(provider.provider_specific_attr[i].value != nullptr);
    }
}

TEST_CASE("IA-07: every boolean of the attributes is one, whatever the buffer held" *
          hint("fill the structure field by field and forget some"))
{
    adapter ia;
    alignas(DAT_PROVIDER_ATTR) unsigned char buffer[sizeof(DAT_PROVIDER_ATTR)];
    std::memset(buffer, 0x5a, sizeof buffer);
    auto &p = *reinterpret_cast<DAT_PROVIDER_ATTR *>(buffer);
    MUST(dat_ia_query(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &p));
    for (DAT_BOOLEAN value :
         {p.is_thread_safe, p.supports_multipath, p.srq_supported, p.srq_ep_pz_difference_supported,
          p.lmr_sync_req, p.dto_async_return_guaranteed, p.rdma_write_for_rdma_read_req,
          p.rdma_read_lmr_rmr_context_exposure, p.is_signal_safe, p.ha_supported})
        CHECK((value == DAT_FALSE || value == DAT_TRUE));
    for (const auto &row : p.evd_stream_merging_supported)
        for (DAT_BOOLEAN value : row)
            CHECK((value == DAT_FALSE || value == DAT_TRUE));
    CHECK(p.srq_watermarks_supported != 0x5a5a5a5a);
    CHECK(p.srq_info_supported != 0x5a5a5a5a);
    CHECK(p.ep_recv_info_supported != 0x5a5a5a5a);
    CHECK(p.ha_loadbalancing <= 2);
}

TEST_CASE("IA-08: query refuses masks with unknown bits and masks without a structure" *
          hint("ignore unknown mask bits, or dereference the null structure"))
{
    adapter ia;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    const DAT_IA_HANDLE h = ia.handle;
    CHECK(same_code(dat_ia_query(h, nullptr, DAT_IA_FIELD_ALL + 1, &attr, 0, nullptr), bad_arg(3)));
    CHECK(same_code(dat_ia_query(h, nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr), bad_arg(4)));
    CHECK(same_code(dat_ia_query(h, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL + 1, &provider),
                    bad_arg(5)));
    CHECK(same_code(dat_ia_query(h, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr),
                    bad_arg(6)));
}

TEST_CASE("IA-09: query works without anything asked, and names the asynchronous EVD" *
          hint("insist on all three OUT arguments"))
{
    adapter ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    CHECK(same_code(dat_ia_query(ia.handle, nullptr, 0, nullptr, 0, nullptr), DAT_SUCCESS));
    CHECK(same_code(dat_ia_query(ia.handle, &async, 0, nullptr, 0, nullptr), DAT_SUCCESS));
    CHECK(same_code(dat_ia_query(ia.handle, nullptr, 0, &attr, 0, nullptr), DAT_SUCCESS));
    CHECK(async == ia.async);
    CHECK(async != DAT_HANDLE_NULL);
}

TEST_CASE("IA-10: the asynchronous EVD can be queried and waited on, but not freed" *
          hint("let the consumer free the EVD that the adapter owns"))
{
    adapter ia;
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(ia.async, DAT_EVD_FIELD_ALL, &param));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.evd_flags == DAT_EVD_ASYNC_FLAG);
    CHECK(param.evd_qlen >= 64);
    CHECK(stays_empty(ia.async, milliseconds(1)));
    CHECK(same_code(dat_evd_free(ia.async), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
}

TEST_CASE("IA-11: close refuses other flags and leaves the adapter open" *
          hint("take every other flag as abrupt, and close"))
{
    adapter ia;
    CHECK(same_code(ia.close(static_cast<DAT_CLOSE_FLAGS>(2)), bad_arg(2)));
    CHECK(same_code(ia.close(static_cast<DAT_CLOSE_FLAGS>(-1)), bad_arg(2)));
    make_pz(ia);
    CHECK(same_code(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
}

TEST_CASE("IA-12: a graceful close is refused while an object of any type is left" *
          hint("count some types of objects only"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_IA_IN_USE);
    const auto expect_in_use = [&] { CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use)); };
    SUBCASE("PZ")
    {
        const DAT_PZ_HANDLE pz = make_pz(ia);
        expect_in_use();
        MUST(dat_pz_free(pz));
    }
    SUBCASE("EVD")
    {
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
        expect_in_use();
        MUST(dat_evd_free(evd));
    }
    SUBCASE("CNO")
    {
        const DAT_CNO_HANDLE cno = make_cno(ia);
        expect_in_use();
        MUST(dat_cno_free(cno));
    }
    SUBCASE("EP without anything else")
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        MUST(dat_ep_create(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                           DAT_HANDLE_NULL, nullptr, &ep));
        expect_in_use();
        MUST(dat_ep_free(ep));
    }
    SUBCASE("PSP")
    {
        listener at(ia);
        expect_in_use();
    }
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("IA-13: a graceful close succeeds once everything of a connection was freed" *
          hint("keep references after their objects are gone, so a clean adapter does not close"))
{
    adapter ia;
    {
        connected_pair pair(ia);
        move_data(pair.active, pair.passive);
    }
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("IA-14: one adapter can be opened twice at once, each instance with its own objects" *
          hint("keep one adapter per device, so the second close closes both"))
{
    adapter one;
    adapter two;
    CHECK(one.handle != two.handle);
    CHECK(one.async != two.async);
    connected_pair pair(one, two);
    move_data(pair.active, pair.passive);
    DAT_PZ_PARAM param{};
    MUST(dat_pz_query(pair.passive.pz, DAT_PZ_FIELD_ALL, &param));
    CHECK(param.ia_handle == two.handle);
}

TEST_CASE("IA-15: an instance can share the asynchronous EVD of another" *
          hint("always make their own asynchronous EVD and ignore the one passed in"))
{
    adapter owner;
    {
        adapter guest(owner.async);
        CHECK(guest.async == owner.async);
        DAT_EVD_HANDLE told = DAT_HANDLE_NULL;
        MUST(dat_ia_query(guest.handle, &told, 0, nullptr, 0, nullptr));
        CHECK(told == owner.async);
        CHECK(same_code(guest.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
    }
    CHECK(stays_empty(owner.async, milliseconds(1)));
    adapter guest(owner.async);
    CHECK(same_code(owner.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
    make_pz(guest); // survives the owner of its asynchronous EVD
    CHECK(same_code(guest.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS));
}

// ------------------------------------------------------------------------- what keeps them open

TEST_CASE("IA-16: a graceful close is refused for an object whose own objects are all in use" *
          hint("count what the consumer can free at once, and miss what hangs on other objects"))
{
    adapter ia;
    const DAT_RETURN in_use = bad_state(DAT_INVALID_STATE_IA_IN_USE);
    const auto expect_in_use = [&] { CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use)); };
    const DAT_PZ_HANDLE pz = make_pz(ia);
    SUBCASE("LMR")
    {
        region memory(ia, pz, 4096);
        expect_in_use();
        CHECK(same_code(dat_lmr_free(memory.lmr), DAT_SUCCESS));
        memory.lmr = DAT_HANDLE_NULL;
    }
    SUBCASE("RMR")
    {
        DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
        if (dat_rmr_create(pz, &rmr) == DAT_SUCCESS) { // MEM-11 wants that
            expect_in_use();
            CHECK(same_code(dat_rmr_free(rmr), DAT_SUCCESS));
        }
    }
    SUBCASE("RSP")
    {
        test_endpoint own(ia);
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
        DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
        MUST(dat_rsp_create(ia.handle, unused_qualifier(ia), own.ep, evd, &rsp));
        expect_in_use();
        CHECK(same_code(dat_rsp_free(rsp), DAT_SUCCESS));
        MUST(dat_evd_free(evd));
    }
    SUBCASE("SRQ")
    {
        DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
        if (ia.provider.srq_supported != DAT_FALSE) {
            MUST(dat_srq_create(ia.handle, pz, &attr, &srq));
            expect_in_use();
            CHECK(same_code(dat_srq_free(srq), DAT_SUCCESS));
        }
    }
    SUBCASE("a request that was not answered")
    {
        test_endpoint from(ia);
        auto at = std::make_unique<listener>(ia);
        MUST(from.connect(ia.address(), at->qualifier));
        const DAT_CR_HANDLE request = at->next_request();
        MUST(free_once(dat_psp_free, at->psp));
        expect_in_use();
        CHECK(same_code(dat_cr_reject(request, 0, nullptr), DAT_SUCCESS));
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
        MUST(dat_evd_free(at->cr_evd));
    }
    expect_in_use();
    MUST(dat_pz_free(pz));
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

TEST_CASE("IA-17: a close that was refused has changed nothing" *
          hint("stop listening, or wake waiters, before they know that the close is refused"))
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    listener at(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event{};
    DAT_RETURN code = DAT_ABORT;
    helper_thread waiter([&] { code = wait_event(evd, event); });
    waiter.await_asleep();
    MUST(to.recv(0, 64, 5));
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), bad_state(DAT_INVALID_STATE_IA_IN_USE)));
    CHECK_FALSE(waiter.finished());
    establish(from, to, at);
    MUST(from.send(0, 64));
    CHECK(next_dto(to.recv_evd).user_cookie.as_64 == 5);
    MUST(post_software(evd));
    waiter.join();
    CHECK(same_code(code, DAT_SUCCESS));
}

// -------------------------------------------------------------------------- asynchronous events

TEST_CASE("IA-18: the length of an asynchronous EVD counts only where one is made" *
          hint("check the length first, although it is that of an EVD which is there"))
{
    adapter owner;
    for (DAT_COUNT qlen : {0, -1}) {
        CAPTURE(qlen);
        DAT_EVD_HANDLE async = owner.async;
        DAT_IA_HANDLE guest = untouched;
        CHECK(same_code(open_adapter(the_settings().ia, &async, &guest, qlen), DAT_SUCCESS));
        CHECK(async == owner.async);
        if (guest != untouched)
            MUST(dat_ia_close(guest, DAT_CLOSE_GRACEFUL_FLAG));
    }
}

TEST_CASE("IA-19: an asynchronous EVD longer than the adapter's limit is INSUFFICIENT_RESOURCES" *
          hint("shorten the queue silently, or leave the adapter half open"))
{
    adapter other;
    if (other.attr.max_evd_qlen == INT32_MAX)
        NOT_CLAIMED("a limit for the length of EVDs");
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = untouched;
    CHECK(same_code(open_adapter(the_settings().ia, &async, &ia, other.attr.max_evd_qlen + 1),
                    error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD)));
    CHECK(async == DAT_HANDLE_NULL);
    CHECK(ia == untouched);
}

TEST_CASE("IA-20: the asynchronous EVD of another device is INVALID_HANDLE/EVD_ASYNC" *
          hint("take any asynchronous EVD, also that of a device which cannot report to it") *
          needs("several_adapters"))
{
    const auto other = adapter_of_other_name();
    if (other == nullptr)
        NOT_CLAIMED("a second adapter in the registry");
    if (std::string(other->attr.vendor_name) == adapter().attr.vendor_name)
        NOT_CLAIMED("a second device in the registry");
    DAT_EVD_HANDLE async = other->async;
    DAT_IA_HANDLE ia = untouched;
    CHECK(same_code(open_adapter(the_settings().ia, &async, &ia),
                    bad_handle(DAT_INVALID_HANDLE_EVD_ASYNC)));
    CHECK(async == other->async);
    CHECK(ia == untouched);
}

TEST_CASE("IA-21: asynchronous events of an instance arrive where it shares its EVD" *
          hint("report to the EVD of the instance's own, which it does not have"))
{
    adapter owner;
    adapter guest(owner.async);
    test_endpoint one(guest);
    test_endpoint other(guest);
    const DAT_EVD_HANDLE tiny = make_evd(guest, DAT_EVD_CONNECTION_FLAG, 1);
    DAT_EVD_PARAM param{};
    MUST(dat_evd_query(tiny, DAT_EVD_FIELD_ALL, &param));
    if (param.evd_qlen != 1)
        NOT_CLAIMED("an EVD of one event: queues are longer than asked for");
    for (test_endpoint *side : {&one, &other}) {
        MUST(side->free_ep());
        MUST(dat_ep_create(guest.handle, side->pz, side->recv_evd, side->request_evd, tiny, nullptr,
                           &side->ep));
    }
    listener at(guest);
    MUST(one.connect(guest.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), other.ep, 0, nullptr));
    const DAT_EVENT told = next_event(owner.async, DAT_ASYNC_ERROR_EVD_OVERFLOW);
    CHECK(told.evd_handle == owner.async);
    CHECK(told.event_data.asynch_error_event_data.dat_handle == tiny);
    MUST(one.free_ep());
    MUST(other.free_ep());
}

TEST_CASE("IA-22: an asynchronous EVD of the consumer's own serves an adapter, and is freed after" *
          hint("claim the stream in the matrix and refuse the EVD, or free it with the adapter"))
{
    adapter owner;
    DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
    const DAT_RETURN code =
        dat_evd_create(owner.handle, 8, DAT_HANDLE_NULL, DAT_EVD_ASYNC_FLAG, &made);
    if (owner.provider.evd_stream_merging_supported[5][5] == DAT_FALSE) {
        CHECK(same_code(code, bad_arg(4)));
        NOT_CLAIMED("asynchronous EVDs made by dat_evd_create");
    }
    CHECK(same_code(code, DAT_SUCCESS));
    DAT_IA_HANDLE guest = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE given = made;
    MUST(open_adapter(the_settings().ia, &given, &guest));
    DAT_EVD_HANDLE told = DAT_HANDLE_NULL;
    MUST(dat_ia_query(guest, &told, 0, nullptr, 0, nullptr));
    CHECK(told == made);
    CHECK(same_code(dat_evd_free(made), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
    MUST(dat_ia_close(guest, DAT_CLOSE_GRACEFUL_FLAG));
    CHECK(same_code(dat_evd_free(made), DAT_SUCCESS));
}

TEST_CASE("IA-23: an asynchronous EVD cannot be freed, whether instances share it or not" *
          hint("free it once the instance that made it agrees"))
{
    adapter owner;
    {
        adapter guest(owner.async);
        CHECK(same_code(dat_evd_free(owner.async), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
    }
    CHECK(same_code(dat_evd_free(owner.async), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
    CHECK(stays_empty(owner.async, milliseconds(1)));
}

// ----------------------------------------------------------------------------------- attributes

namespace {

/// What a query tells into memory that held `paint` before.
struct told_attributes {
    told_attributes(const adapter &ia, unsigned char paint)
    {
        std::memset(memory, paint, sizeof memory);
        MUST(dat_ia_query(ia.handle, nullptr, DAT_IA_FIELD_ALL, &attr(), DAT_PROVIDER_FIELD_ALL,
                          &provider()));
    }
    DAT_IA_ATTR &attr() { return *reinterpret_cast<DAT_IA_ATTR *>(memory); }
    DAT_PROVIDER_ATTR &provider()
    {
        return *reinterpret_cast<DAT_PROVIDER_ATTR *>(memory + sizeof(DAT_IA_ATTR));
    }
    alignas(DAT_IA_ATTR) unsigned char memory[sizeof(DAT_IA_ATTR) + sizeof(DAT_PROVIDER_ATTR)];
};

} // namespace

TEST_CASE("IA-24: a query writes every attribute, whatever the buffer held before" *
          hint("fill the structures field by field and forget some"))
{
    static_assert(sizeof(DAT_IA_ATTR) % alignof(DAT_PROVIDER_ATTR) == 0);
    adapter ia;
    told_attributes one(ia, 0x5a);
    told_attributes two(ia, 0xa5);
    const DAT_IA_ATTR &a = one.attr();
    const DAT_IA_ATTR &b = two.attr();
    CHECK(std::strcmp(a.adapter_name, b.adapter_name) == 0);
    CHECK(std::strcmp(a.vendor_name, b.vendor_name) == 0);
    CHECK(a.hardware_version_major == b.hardware_version_major);
    CHECK(a.hardware_version_minor == b.hardware_version_minor);
    CHECK(a.firmware_version_major == b.firmware_version_major);
    CHECK(a.firmware_version_minor == b.firmware_version_minor);
    CHECK(a.ia_address_ptr == b.ia_address_ptr);
    CHECK(a.max_eps == b.max_eps);
    CHECK(a.max_dto_per_ep == b.max_dto_per_ep);
    CHECK(a.max_rdma_read_per_ep_in == b.max_rdma_read_per_ep_in);
    CHECK(a.max_rdma_read_per_ep_out == b.max_rdma_read_per_ep_out);
    CHECK(a.max_evds == b.max_evds);
    CHECK(a.max_evd_qlen == b.max_evd_qlen);
    CHECK(a.max_iov_segments_per_dto == b.max_iov_segments_per_dto);
    CHECK(a.max_lmrs == b.max_lmrs);
    CHECK(a.max_lmr_block_size == b.max_lmr_block_size);
    CHECK(a.max_lmr_virtual_address == b.max_lmr_virtual_address);
    CHECK(a.max_pzs == b.max_pzs);
    CHECK(a.max_message_size == b.max_message_size);
    CHECK(a.max_rdma_size == b.max_rdma_size);
    CHECK(a.max_rmrs == b.max_rmrs);
    CHECK(a.max_rmr_target_address == b.max_rmr_target_address);
    CHECK(a.max_srqs == b.max_srqs);
    CHECK(a.max_ep_per_srq == b.max_ep_per_srq);
    CHECK(a.max_recv_per_srq == b.max_recv_per_srq);
    CHECK(a.max_iov_segments_per_rdma_read == b.max_iov_segments_per_rdma_read);
    CHECK(a.max_iov_segments_per_rdma_write == b.max_iov_segments_per_rdma_write);
    CHECK(a.max_rdma_read_in == b.max_rdma_read_in);
    CHECK(a.max_rdma_read_out == b.max_rdma_read_out);
    CHECK(a.max_rdma_read_per_ep_in_guaranteed == b.max_rdma_read_per_ep_in_guaranteed);
    CHECK(a.max_rdma_read_per_ep_out_guaranteed == b.max_rdma_read_per_ep_out_guaranteed);
    CHECK(a.extension_supported == b.extension_supported);
    CHECK(a.extension_version == b.extension_version);
    CHECK(a.num_transport_attr == b.num_transport_attr);
    CHECK(a.transport_attr == b.transport_attr);
    CHECK(a.num_vendor_attr == b.num_vendor_attr);
    CHECK(a.vendor_attr == b.vendor_attr);
    const DAT_PROVIDER_ATTR &p = one.provider();
    const DAT_PROVIDER_ATTR &q = two.provider();
    CHECK(std::strcmp(p.provider_name, q.provider_name) == 0);
    CHECK(p.provider_version_major == q.provider_version_major);
    CHECK(p.provider_version_minor == q.provider_version_minor);
    CHECK(p.lmr_mem_types_supported == q.lmr_mem_types_supported);
    CHECK(p.iov_ownership_on_return == q.iov_ownership_on_return);
    CHECK(p.dat_qos_supported == q.dat_qos_supported);
    CHECK(p.completion_flags_supported == q.completion_flags_supported);
    CHECK(p.max_private_data_size == q.max_private_data_size);
    CHECK(p.ep_creator == q.ep_creator);
    CHECK(p.pz_support == q.pz_support);
    CHECK(p.optimal_buffer_alignment == q.optimal_buffer_alignment);
    CHECK(p.srq_watermarks_supported == q.srq_watermarks_supported);
    CHECK(p.srq_info_supported == q.srq_info_supported);
    CHECK(p.ep_recv_info_supported == q.ep_recv_info_supported);
    CHECK(p.rmr_scope_supported == q.rmr_scope_supported);
    CHECK(p.ha_loadbalancing == q.ha_loadbalancing);
    CHECK(p.num_provider_specific_attr == q.num_provider_specific_attr);
    CHECK(p.provider_specific_attr == q.provider_specific_attr);
}

TEST_CASE("IA-25: two instances of one adapter tell the same attributes" *
          hint("take off what other instances use, or count instances in the limits"))
{
    adapter one;
    connected_pair busy(one);
    adapter two;
    CHECK(std::strcmp(one.attr.adapter_name, two.attr.adapter_name) == 0);
    CHECK(one.attr.max_eps == two.attr.max_eps);
    CHECK(one.attr.max_evds == two.attr.max_evds);
    CHECK(one.attr.max_lmrs == two.attr.max_lmrs);
    CHECK(one.attr.max_pzs == two.attr.max_pzs);
    CHECK(one.attr.max_dto_per_ep == two.attr.max_dto_per_ep);
    CHECK(one.attr.max_message_size == two.attr.max_message_size);
    CHECK(one.provider.max_private_data_size == two.provider.max_private_data_size);
    const bool six = one.address()->sa_family == AF_INET6;
    CHECK(std::memcmp(one.address(), two.address(), six ? 28 : 16) == 0);
}

TEST_CASE("IA-26: the memory types that the provider names are those that it registers" *
          hint("name types of memory that are refused, or refuse some without a proper code"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    region source(ia, pz, 4096);
    struct kind {
        DAT_MEM_TYPE type;
        DAT_REGION_DESCRIPTION where;
    };
    DAT_REGION_DESCRIPTION virtual_memory{};
    virtual_memory.for_va = source.bytes.data();
    DAT_REGION_DESCRIPTION of_region{};
    of_region.for_lmr_handle = source.lmr;
    char cookie[DAT_LMR_COOKIE_SIZE] = {};
    std::snprintf(cookie, sizeof cookie, "IA-26 of process %d", program::process_id());
    DAT_REGION_DESCRIPTION shared{};
    const pages of_all(1, page_kind::shared);
    shared.for_shared_memory.virtual_address = of_all.at;
    shared.for_shared_memory.shared_memory_id = &cookie;
    for (const kind &each :
         {kind{DAT_MEM_TYPE_VIRTUAL, virtual_memory}, kind{DAT_MEM_TYPE_LMR, of_region},
          kind{DAT_MEM_TYPE_SHARED_VIRTUAL, shared}}) {
        CAPTURE(each.type);
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        const DAT_RETURN code =
            dat_lmr_create(ia.handle, each.type, each.where, 4096, pz, all_rights, DAT_VA_TYPE_VA,
                           &lmr, nullptr, nullptr, nullptr, nullptr);
        // DAT_MEM_TYPE_VIRTUAL is 0, and always there.
        if (each.type == DAT_MEM_TYPE_VIRTUAL ||
            (ia.provider.lmr_mem_types_supported & each.type) != 0)
            CHECK(same_code(code, DAT_SUCCESS));
        else
            CHECK(same_code(code, not_supported));
        if (code == DAT_SUCCESS)
            MUST(dat_lmr_free(lmr));
    }
}

TEST_CASE("IA-27: endpoints of the provider's making are there as the attribute says" *
          hint("name what the consumer wants to read, whatever dat_psp_create does"))
{
    adapter ia;
    const bool never = ia.provider.ep_creator == DAT_PSP_CREATES_EP_NEVER;
    const bool always = ia.provider.ep_creator == DAT_PSP_CREATES_EP_ALWAYS;
    // An adapter that cannot listen is not judged.
    const listener at(ia, always ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    const auto create = [&](DAT_PSP_FLAGS flags) {
        const DAT_RETURN code = dat_psp_create_any(ia.handle, &qualifier, evd, flags, &psp);
        if (code == DAT_SUCCESS)
            MUST(dat_psp_free(psp));
        return code;
    };
    CHECK(same_code(create(DAT_PSP_PROVIDER_FLAG), never ? not_supported : success));
    CHECK(same_code(create(DAT_PSP_CONSUMER_FLAG), always ? not_supported : success));
}

TEST_CASE("IA-28: an endpoint moves messages of as many segments as the adapter's limit" *
          hint("tell a limit that endpoints are refused for, or that their queues do not have"))
{
    adapter ia;
    DAT_EP_ATTR attr = ep_param(test_endpoint(ia).ep).ep_attr;
    const DAT_COUNT most = ia.attr.max_iov_segments_per_dto;
    attr.max_recv_iov = attr.max_request_iov = most;
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    endpoint_options options;
    options.attr = &attr;
    connected_pair pair(ia, options);
    constexpr std::size_t each = 32;
    std::vector<DAT_LMR_TRIPLET> from;
    std::vector<DAT_LMR_TRIPLET> to;
    for (DAT_COUNT i = 0; i < most; ++i) {
        // Every other piece, so that no two can be joined.
        from.push_back(pair.active.memory.local(2 * each * static_cast<std::size_t>(i), each));
        to.push_back(pair.passive.memory.local(2 * each * static_cast<std::size_t>(i), each));
    }
    pair.active.memory.fill(0, 2 * each * from.size(), 9);
    pair.passive.memory.set_all(0xee);
    constexpr auto flags = DAT_COMPLETION_DEFAULT_FLAG;
    MUST(dat_ep_post_recv(pair.passive.ep, most, to.data(), cookie_of(1), flags));
    MUST(dat_ep_post_send(pair.active.ep, most, from.data(), cookie_of(2), flags));
    CHECK(next_dto(pair.active.request_evd).status == DAT_DTO_SUCCESS);
    const DAT_VLEN arrived = next_dto(pair.passive.recv_evd).transfered_length;
    if (arrived != each * from.size())
        FAIL_CHECK(arrived, " bytes arrive of ", most, " segments of ", each, " bytes");
    const auto &sent = pair.active.memory.bytes;
    const auto &got = pair.passive.memory.bytes;
    for (std::size_t i = 0; i < 2 * each * from.size(); ++i)
        REQUIRE(got[i] == (i / each % 2 == 0 ? sent[i] : 0xee));
}

namespace {

/// Objects of a kind, made until the adapter has no more.
struct limited {
    const char *kind;
    DAT_COUNT most; ///< limit by its attributes
    std::function<DAT_RETURN()> make;
};

constexpr DAT_COUNT within_reach = 4096;

} // namespace

TEST_CASE("IA-31: an adapter makes no more objects of a kind than it says" *
          hint("tell limits of the device, and leave it to the device to keep them") *
          needs("small_limits"))
{
    adapter ia;
    const DAT_PZ_HANDLE pz = make_pz(ia);
    std::vector<std::uint8_t> bytes(4096);
    DAT_REGION_DESCRIPTION where{};
    where.for_va = bytes.data();
    DAT_SRQ_ATTR few{1, 1, DAT_SRQ_LW_DEFAULT};
    DAT_HANDLE made = DAT_HANDLE_NULL; // freed with the adapter
    const limited limits[] = {
        {"endpoints", ia.attr.max_eps,
         [&] {
             return dat_ep_create(ia.handle, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                                  nullptr, &made);
         }},
        {"EVDs", ia.attr.max_evds,
         [&] { return dat_evd_create(ia.handle, 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &made); }},
        {"regions", ia.attr.max_lmrs,
         [&] {
             return dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, bytes.size(), pz,
                                   all_rights, DAT_VA_TYPE_VA, &made, nullptr, nullptr, nullptr,
                                   nullptr);
         }},
        {"shared queues", ia.provider.srq_supported != DAT_FALSE ? ia.attr.max_srqs : INT32_MAX,
         [&] { return dat_srq_create(ia.handle, pz, &few, &made); }},
        {"windows", ia.attr.max_rmrs != 0 ? ia.attr.max_rmrs : INT32_MAX,
         [&] { return dat_rmr_create(pz, &made); }},
        {"zones", ia.attr.max_pzs, [&] { return dat_pz_create(ia.handle, &made); }},
    };
    bool judged = false;
    for (const limited &each : limits) {
        if (each.most > within_reach)
            continue;
        CAPTURE(std::string(each.kind));
        DAT_COUNT number = 0;
        DAT_RETURN code = DAT_SUCCESS;
        while (number <= each.most && (code = each.make()) == DAT_SUCCESS)
            ++number;
        if (code == not_supported)
            continue;
        judged = true;
        CHECK(number <= each.most);
        CHECK(same_type(code, DAT_INSUFFICIENT_RESOURCES));
    }
    if (!judged)
        NOT_CLAIMED("limits that can be reached");
}

TEST_CASE("IA-32: the address of an adapter is one of this host's, and always the same" *
          hint("tell a wildcard, or what the host's name resolves to"))
{
    adapter ia;
    if (ia.attr.max_eps == 0)
        (void)make_pz(ia); // an adapter without endpoints has no zones, and needs no address
    const sockaddr *told = ia.address();
    REQUIRE(told != nullptr);
    const bool four = told->sa_family == AF_INET;
    REQUIRE((four || told->sa_family == AF_INET6));
    const std::size_t size = four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    sockaddr_storage address{};
    std::memcpy(&address, told, size);
    auto &v4 = reinterpret_cast<sockaddr_in &>(address);
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address);
    (four ? v4.sin_port : v6.sin6_port) = 0;
    if (four)
        CHECK(v4.sin_addr.s_addr != INADDR_ANY);
    else
        CHECK(!IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr));
    const program::socket here = program::socket::open(told->sa_family, SOCK_DGRAM);
    REQUIRE(here.is_open()); // only an address of this host can be bound to
    CHECK(here.bind(reinterpret_cast<const sockaddr *>(&address), size));
    const adapter again;
    CHECK(std::memcmp(again.address(), told, size) == 0);
}

// ------------------------------------------------------------------------------------- threads

TEST_CASE("IA-29: adapters are opened and closed by several threads at once" *
          hint("load, count or unload the library without a lock, and lose an instance"))
{
    {
        adapter once;
        DAT_PZ_HANDLE zone = DAT_HANDLE_NULL;
        MUST(dat_pz_create(once.handle, &zone));
        MUST(dat_pz_free(zone));
    }
    constexpr int rounds = 12;
    std::atomic<int> failures{0};
    {
        std::vector<std::unique_ptr<helper_thread>> threads;
        for (int t = 0; t < 3; ++t)
            threads.push_back(std::make_unique<helper_thread>([&] {
                for (int round = 0; round < rounds; ++round) {
                    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
                    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
                    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
                    if (open_adapter(the_settings().ia, &async, &ia) != DAT_SUCCESS) {
                        ++failures;
                        continue;
                    }
                    failures += dat_pz_create(ia, &pz) == DAT_SUCCESS ? 0 : 1;
                    failures += dat_pz_free(pz) == DAT_SUCCESS ? 0 : 1;
                    failures += dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS ? 0 : 1;
                }
            }));
    }
    CHECK(failures == 0);
    adapter ia;
    connected_pair pair(ia);
    move_data(pair.active, pair.passive);
}

TEST_CASE("IA-30: calls that DAT calls safe are, on an adapter that is not thread-safe" *
          hint("leave out every lock where the line of dat.conf says nonthreadsafe"))
{
    adapter ia;
    {
        test_endpoint what_it_needs(ia);
        listener at(ia);
    }
    constexpr int rounds = 40;
    std::atomic<int> failures{0};
    const auto expect = [&failures](DAT_RETURN code) { failures += code == DAT_SUCCESS ? 0 : 1; };
    const auto live = [&] {
        for (int round = 0; round < rounds; ++round) {
            DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
            DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
            DAT_EVD_HANDLE dto = DAT_HANDLE_NULL;
            DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
            DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
            DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
            DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
            DAT_CONN_QUAL qualifier = 0;
            DAT_EP_STATE state{};
            DAT_PZ_PARAM zone{};
            DAT_PSP_PARAM point{};
            char bytes[64] = {};
            DAT_REGION_DESCRIPTION where{};
            where.for_va = bytes;
            expect(dat_pz_create(ia.handle, &pz));
            expect(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &zone));
            expect(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
            expect(dat_evd_create(ia.handle, 16, cno, DAT_EVD_DTO_FLAG, &dto));
            expect(dat_evd_create(ia.handle, 16, cno, DAT_EVD_CR_FLAG, &requests));
            expect(dat_evd_disable(dto));
            expect(dat_evd_set_unwaitable(dto));
            expect(dat_evd_clear_unwaitable(dto));
            expect(dat_evd_enable(dto));
            expect(dat_ep_create(ia.handle, pz, dto, dto, DAT_HANDLE_NULL, nullptr, &ep));
            expect(dat_ep_get_status(ep, &state, nullptr, nullptr));
            expect(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, sizeof bytes, pz,
                                  all_rights, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr, nullptr,
                                  nullptr));
            expect(
                dat_psp_create_any(ia.handle, &qualifier, requests, DAT_PSP_CONSUMER_FLAG, &psp));
            expect(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &point));
            failures += point.conn_qual == qualifier && zone.ia_handle == ia.handle ? 0 : 1;
            expect(dat_ia_query(ia.handle, nullptr, 0, nullptr, 0, nullptr));
            // Each frees its own.
            expect(dat_psp_free(psp));
            expect(dat_lmr_free(lmr));
            expect(dat_ep_free(ep));
            expect(dat_evd_free(requests));
            expect(dat_evd_free(dto));
            expect(dat_cno_free(cno));
            expect(dat_pz_free(pz));
        }
    };
    {
        std::vector<std::unique_ptr<helper_thread>> threads;
        for (int t = 0; t < 4; ++t)
            threads.push_back(std::make_unique<helper_thread>(live));
    }
    CHECK(failures == 0);
    CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS));
}

} // namespace conformance
