// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Interface adapters: opening, attributes, closing.
#include "harness/support.hpp"

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
    SUBCASE("PZ, LMR, RMR")
    {
        const DAT_PZ_HANDLE pz = make_pz(ia);
        CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use));
        MUST(dat_pz_free(pz));
    }
    SUBCASE("EVD")
    {
        const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_DTO_FLAG);
        CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use));
        MUST(dat_evd_free(evd));
    }
    SUBCASE("CNO")
    {
        const DAT_CNO_HANDLE cno = make_cno(ia);
        CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use));
        MUST(dat_cno_free(cno));
    }
    SUBCASE("EP without anything else")
    {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        MUST(dat_ep_create(ia.handle, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                           DAT_HANDLE_NULL, nullptr, &ep));
        CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use));
        MUST(dat_ep_free(ep));
    }
    SUBCASE("PSP")
    {
        listener at(ia);
        CHECK(same_code(ia.close(DAT_CLOSE_GRACEFUL_FLAG), in_use));
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

} // namespace conformance
