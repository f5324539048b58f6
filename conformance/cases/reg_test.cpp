// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The registry as consumers see it, messages, and calls that a provider does not offer.
#include "harness/support.hpp"

#include <dat2/dat_registry.h>

#include <algorithm>
#include <set>

namespace conformance {
namespace {

std::vector<DAT_PROVIDER_INFO> listed()
{
    std::vector<DAT_PROVIDER_INFO> entries;
    MUST(list_registry(entries));
    return entries;
}

bool is_ours(const DAT_PROVIDER_INFO &entry)
{
    return entry.ia_name == the_settings().ia &&
           (entry.is_thread_safe != DAT_FALSE) == the_settings().thread_safe;
}

std::string major_of(DAT_RETURN code)
{
    const char *major = "?";
    const char *minor = "?";
    CHECK(same_code(dat_strerror(code, &major, &minor), DAT_SUCCESS));
    return major;
}

std::string minor_of(DAT_RETURN code)
{
    const char *major = "?";
    const char *minor = "?";
    CHECK(same_code(dat_strerror(code, &major, &minor), DAT_SUCCESS));
    return minor;
}

} // namespace

TEST_CASE("REG-01: the list of providers holds the adapter under test" *
          hint("leave out an adapter whose library has not been loaded yet"))
{
    const auto entries = listed();
    const auto found = std::find_if(entries.begin(), entries.end(), is_ours);
    REQUIRE(found != entries.end());
    CHECK(found->dapl_version_major == 2);
    CHECK(found->dapl_version_minor == 0);
}

TEST_CASE("REG-02: the list of providers checks its arguments" *
          hint("belong to a registry that writes through null pointers"))
{
    DAT_COUNT number = -1;
    DAT_PROVIDER_INFO entry{};
    DAT_PROVIDER_INFO *list[] = {&entry};
    DAT_PROVIDER_INFO *holes[] = {nullptr};
    CHECK(same_code(dat_registry_list_providers(1, nullptr, list), bad_arg(2)));
    CHECK(same_code(dat_registry_list_providers(1, &number, nullptr), bad_arg(3)));
    CHECK(same_code(dat_registry_list_providers(1, &number, holes), bad_arg(3)));
}

TEST_CASE("REG-03: a list that is too short still returns the number of entries" *
          hint("belong to a registry that reports what it wrote instead of what there is"))
{
    DAT_COUNT number = -1;
    CHECK(same_code(dat_registry_list_providers(0, &number, nullptr), bad_arg(1)));
    CHECK(number > 0);
    DAT_COUNT again = -1;
    std::vector<DAT_PROVIDER_INFO> entries(static_cast<std::size_t>(number) + 1);
    std::vector<DAT_PROVIDER_INFO *> pointers;
    for (DAT_PROVIDER_INFO &entry : entries)
        pointers.push_back(&entry);
    CHECK(same_code(dat_registry_list_providers(number + 1, &again, pointers.data()), DAT_SUCCESS));
    CHECK(again == number);
    for (std::size_t i = 0; i < entries.size(); ++i)
        CHECK((entries[i].ia_name[0] != 0) == (i < static_cast<std::size_t>(number)));
}

TEST_CASE("REG-04: a list that is too short is filled as far as it goes" *
          hint("belong to a registry that fails, or writes behind the list"))
{
    DAT_COUNT number = 0;
    DAT_PROVIDER_INFO entries[2];
    std::memset(entries, 0x5a, sizeof entries);
    DAT_PROVIDER_INFO *list[] = {&entries[0], &entries[1]};
    CHECK(same_code(dat_registry_list_providers(1, &number, list), DAT_SUCCESS));
    CHECK(std::strlen(entries[0].ia_name) > 0);
    CHECK(entries[1].ia_name[0] == 0x5a);
    CHECK(number == 1);
}

TEST_CASE("REG-05: strerror has the identifier of every type and subtype" *
          hint("belong to a registry whose table of names has gaps"))
{
    CHECK(major_of(DAT_SUCCESS) == "DAT_SUCCESS");
    CHECK(minor_of(DAT_SUCCESS).empty());
    CHECK(major_of(error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED)) ==
          "DAT_INVALID_STATE");
    CHECK(minor_of(error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED)) ==
          "DAT_INVALID_STATE_EP_CONNECTED");
    CHECK(major_of(DAT_QUEUE_EMPTY) == "DAT_QUEUE_EMPTY");
    CHECK(major_of(DAT_NOT_IMPLEMENTED) == "DAT_NOT_IMPLEMENTED");
    CHECK(major_of(error(DAT_NOT_IMPLEMENTED)) == "DAT_NOT_IMPLEMENTED");
    std::set<std::string> names;
    for (unsigned type = DAT_ABORT; type <= DAT_COMM_NOT_SUPPORTED; type += DAT_ABORT)
        CHECK(names.insert(major_of(error(type))).second);
    for (unsigned sub = DAT_SUB_INTERRUPTED; sub <= DAT_THREAD_SAFETY_NOT_FOUND; ++sub)
        CHECK(names.insert(minor_of(error(DAT_INVALID_STATE, sub))).second);
}

TEST_CASE("REG-06: strerror refuses unknown words and tolerates null pointers" *
          hint("belong to a registry that indexes its table without a check"))
{
    const char *major = nullptr;
    const char *minor = nullptr;
    CHECK(DAT_GET_TYPE(dat_strerror(error(0x00180000), &major, &minor)) == DAT_INVALID_PARAMETER);
    CHECK(DAT_GET_TYPE(dat_strerror(error(DAT_INVALID_STATE, 104), &major, &minor)) ==
          DAT_INVALID_PARAMETER);
    CHECK(same_code(dat_strerror(DAT_SUCCESS, nullptr, nullptr), DAT_SUCCESS));
    CHECK(same_code(dat_strerror(error(DAT_ABORT), &major, nullptr), DAT_SUCCESS));
    CHECK(same_code(dat_strerror(error(DAT_ABORT), nullptr, &minor), DAT_SUCCESS));
}

TEST_CASE("REG-07: an extension operation without extensions is NOT_IMPLEMENTED" *
          hint("answer success, or leave the extension entry null and crash") * needs("extensions"))
{
    adapter ia;
    test_endpoint own(ia);
    if (ia.attr.extension_supported != DAT_EXTENSION_NONE) {
        MESSAGE("this adapter has extensions");
        return;
    }
    CHECK(same_code(dat_extension_op(own.ep, 0), error(DAT_NOT_IMPLEMENTED)));
    CHECK(same_code(dat_extension_op(ia.handle, 4), error(DAT_NOT_IMPLEMENTED)));
    NOT_CLAIMED("extensions");
}

TEST_CASE("REG-21: arguments are checked before the answer MODEL_NOT_SUPPORTED" *
          hint("refuse a call that they do not offer without a look at its arguments"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_SRQ_ATTR attr{16, 1, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    const DAT_RETURN no_zone = bad_handle(DAT_INVALID_HANDLE_PZ);
    CHECK(same_code(dat_srq_create(ia.handle, own.recv_evd, &attr, &srq), no_zone));
    CHECK(same_code(dat_srq_create(ia.handle, own.pz, nullptr, &srq), bad_arg(3)));
    CHECK(same_code(dat_srq_create(ia.handle, own.pz, &attr, nullptr), bad_arg(4)));
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK(same_code(dat_ep_create_with_srq(ia.handle, own.recv_evd, own.recv_evd, own.request_evd,
                                           own.connect_evd, DAT_HANDLE_NULL, nullptr, &ep),
                    no_zone));
    DAT_REGION_DESCRIPTION region{};
    region.for_va = own.memory.bytes.data();
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    CHECK(same_type(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, region, 0, own.pz,
                                   DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB, &lmr, nullptr, nullptr,
                                   nullptr, nullptr),
                    DAT_LENGTH_ERROR));
}

TEST_CASE("REG-08: shared receive queues that are not offered are MODEL_NOT_SUPPORTED" *
          hint("leave the entries of the vector null, or answer success without an SRQ") *
          needs("srq"))
{
    adapter ia;
    test_endpoint own(ia);
    if (ia.provider.srq_supported != DAT_FALSE) {
        MESSAGE("this adapter has shared receive queues");
        return;
    }
    DAT_SRQ_ATTR attr{16, 1, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    CHECK(same_code(dat_srq_create(ia.handle, own.pz, &attr, &srq), not_supported));
    CHECK(srq == DAT_HANDLE_NULL);
    CHECK(ia.attr.max_srqs == 0);
    CHECK(ia.provider.srq_watermarks_supported == 0);
    CHECK(same_code(dat_ep_set_watermark(own.ep, 1, 2), not_supported));
    CHECK(same_code(dat_ep_set_watermark(own.pz, 1, 2), bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_ep_set_watermark(own.ep, -2, 2), bad_arg(2)));
    NOT_CLAIMED("shared receive queues");
}

TEST_CASE("REG-09: what DAT 2.0 added works, or is MODEL_NOT_SUPPORTED and leaves no trace" *
          hint("leave the new entries of the vector null: the call crashes"))
{
    adapter ia;
    connected_pair pair(ia);
    test_endpoint &own = pair.active;
    const DAT_DTO_COOKIE cookie{};
    DAT_HANDLE out = DAT_HANDLE_NULL;
    const DAT_RMR_TRIPLET here = own.memory.remote(0, 64);
    const DAT_RMR_TRIPLET there = pair.passive.memory.remote(0, 64);
    if (find_symbol("dat_rmr_create_for_ep") == nullptr)
        NOT_CLAIMED("the calls of DAT 2.0, in libdat2");
    if (auto *call = optional_call<decltype(dat_rmr_create_for_ep)>("dat_rmr_create_for_ep")) {
        const DAT_RETURN code = call(own.pz, &out);
        CHECK(refused(code) == (ia.provider.rmr_scope_supported == DAT_RMR_SCOPE_PZ));
        CHECK((code == DAT_SUCCESS) == (out != DAT_HANDLE_NULL));
        if (code == DAT_SUCCESS)
            MUST(dat_rmr_free(out));
    }
    if (auto *call = optional_call<decltype(dat_ep_post_send_with_invalidate)>(
            "dat_ep_post_send_with_invalidate")) {
        MUST(pair.passive.recv(0, 64));
        const DAT_RETURN code =
            call(own.ep, 0, nullptr, cookie, DAT_COMPLETION_DEFAULT_FLAG, DAT_FALSE, 0);
        CHECK((code == DAT_SUCCESS || refused(code)));
        if (code == DAT_SUCCESS)
            CHECK(next_dto(own.request_evd).status == DAT_DTO_SUCCESS);
    }
    if (auto *call =
            optional_call<decltype(dat_ep_post_rdma_read_to_rmr)>("dat_ep_post_rdma_read_to_rmr")) {
        const DAT_RETURN code = call(own.ep, &here, cookie, &there, DAT_COMPLETION_DEFAULT_FLAG);
        CHECK((code == DAT_SUCCESS || refused(code)));
        if (code == DAT_SUCCESS)
            CHECK(next_dto(own.request_evd).status == DAT_DTO_SUCCESS);
    }
    CHECK(stays_empty(own.request_evd, milliseconds(1)));
}

TEST_CASE("REG-10: adapters answer whether one can stand in for the other" *
          hint("leave the entry of the vector null, or refuse to answer") * needs("ha_related"))
{
    using ask = decltype(dat_registry_providers_related);
    auto *related = optional_call<ask>("dat_registry_providers_related");
    if (related == nullptr)
        NOT_CLAIMED("relations of adapters");
    adapter ia;
    std::string own = the_settings().ia;
    char none[] = "no-such-adapter";
    auto answer = static_cast<DAT_HA_RELATIONSHIP>(77);
    CHECK(same_code(related(nullptr, own.data(), &answer), bad_arg(1)));
    CHECK(same_code(related(own.data(), nullptr, &answer), bad_arg(2)));
    CHECK(same_code(related(own.data(), own.data(), nullptr), bad_arg(3)));
    CHECK(same_type(related(own.data(), none, &answer), DAT_PROVIDER_NOT_FOUND));
    CHECK(answer == 77);
    const DAT_RETURN code = related(own.data(), own.data(), &answer);
    if (code == DAT_SUCCESS && answer == DAT_HA_UNKNOWN)
        NOT_CLAIMED("relations of adapters");
    CHECK(same_code(code, success));
    CHECK(answer == (ia.provider.ha_supported != DAT_FALSE ? DAT_HA_TRUE : DAT_HA_FALSE));

    DAT_IA_HANDLE inside = DAT_HANDLE_NULL; // the call of the provider itself
    MUST(dats_get_ia_handle(ia.handle, &inside));
    DAT_BOOLEAN stands_in = DAT_TRUE;
    const DAT_NAME_PTR other = own.data();
    CHECK(same_code(DAT_IA_HA_RELATED(inside, nullptr, &stands_in), bad_arg(2)));
    CHECK(same_code(DAT_IA_HA_RELATED(inside, other, nullptr), bad_arg(3)));
    CHECK(same_code(DAT_IA_HA_RELATED(inside, other, &stands_in), success));
    CHECK(stands_in == ia.provider.ha_supported);
}

TEST_CASE("REG-11: strerror has each identifier as the headers spell it" *
          hint("belong to a registry whose table is out of step with the headers"))
{
    struct named {
        DAT_RETURN code;
        const char *major;
        const char *minor;
    };
    const auto type_of = [](unsigned type, const char *name) {
        return named{error(type), name, ""};
    };
    const auto subtype_of = [](unsigned subtype, const char *name) {
        return named{error(DAT_INVALID_STATE, subtype), "DAT_INVALID_STATE", name};
    };
#define TYPE(name) type_of(name, #name)
#define SUBTYPE(name) subtype_of(name, #name)
    const std::vector<named> table{
        TYPE(DAT_ABORT),
        TYPE(DAT_CONN_QUAL_IN_USE),
        TYPE(DAT_INSUFFICIENT_RESOURCES),
        TYPE(DAT_INTERNAL_ERROR),
        TYPE(DAT_INVALID_HANDLE),
        TYPE(DAT_INVALID_PARAMETER),
        TYPE(DAT_INVALID_STATE),
        TYPE(DAT_LENGTH_ERROR),
        TYPE(DAT_MODEL_NOT_SUPPORTED),
        TYPE(DAT_PROVIDER_NOT_FOUND),
        TYPE(DAT_PRIVILEGES_VIOLATION),
        TYPE(DAT_PROTECTION_VIOLATION),
        TYPE(DAT_QUEUE_EMPTY),
        TYPE(DAT_QUEUE_FULL),
        TYPE(DAT_TIMEOUT_EXPIRED),
        TYPE(DAT_PROVIDER_ALREADY_REGISTERED),
        TYPE(DAT_PROVIDER_IN_USE),
        TYPE(DAT_INVALID_ADDRESS),
        TYPE(DAT_INTERRUPTED_CALL),
        TYPE(DAT_CONN_QUAL_UNAVAILABLE),
        TYPE(DAT_PORT_IN_USE),
        TYPE(DAT_COMM_NOT_SUPPORTED),
        TYPE(DAT_NOT_IMPLEMENTED),
        SUBTYPE(DAT_SUB_INTERRUPTED),
        SUBTYPE(DAT_RESOURCE_MEMORY),
        SUBTYPE(DAT_RESOURCE_DEVICE),
        SUBTYPE(DAT_RESOURCE_TEP),
        SUBTYPE(DAT_RESOURCE_TEVD),
        SUBTYPE(DAT_RESOURCE_PROTECTION_DOMAIN),
        SUBTYPE(DAT_RESOURCE_MEMORY_REGION),
        SUBTYPE(DAT_RESOURCE_SRQ),
        SUBTYPE(DAT_INVALID_HANDLE_IA),
        SUBTYPE(DAT_INVALID_HANDLE_EP),
        SUBTYPE(DAT_INVALID_HANDLE_LMR),
        SUBTYPE(DAT_INVALID_HANDLE_RMR),
        SUBTYPE(DAT_INVALID_HANDLE_PZ),
        SUBTYPE(DAT_INVALID_HANDLE_PSP),
        SUBTYPE(DAT_INVALID_HANDLE_RSP),
        SUBTYPE(DAT_INVALID_HANDLE_CR),
        SUBTYPE(DAT_INVALID_HANDLE_CNO),
        SUBTYPE(DAT_INVALID_HANDLE_EVD_CR),
        SUBTYPE(DAT_INVALID_HANDLE_EVD_REQUEST),
        SUBTYPE(DAT_INVALID_HANDLE_EVD_RECV),
        SUBTYPE(DAT_INVALID_HANDLE_EVD_CONN),
        SUBTYPE(DAT_INVALID_HANDLE_EVD_ASYNC),
        SUBTYPE(DAT_INVALID_HANDLE_SRQ),
        SUBTYPE(DAT_INVALID_HANDLE_CSP),
        SUBTYPE(DAT_INVALID_ARG1),
        SUBTYPE(DAT_INVALID_ARG5),
        SUBTYPE(DAT_INVALID_ARG10),
        SUBTYPE(DAT_INVALID_STATE_EP_UNCONNECTED),
        SUBTYPE(DAT_INVALID_STATE_EP_ACTCONNPENDING),
        SUBTYPE(DAT_INVALID_STATE_EP_PASSCONNPENDING),
        SUBTYPE(DAT_INVALID_STATE_EP_TENTCONNPENDING),
        SUBTYPE(DAT_INVALID_STATE_EP_CONNECTED),
        SUBTYPE(DAT_INVALID_STATE_EP_DISCONNECTED),
        SUBTYPE(DAT_INVALID_STATE_EP_RESERVED),
        SUBTYPE(DAT_INVALID_STATE_EP_COMPLPENDING),
        SUBTYPE(DAT_INVALID_STATE_EP_DISCPENDING),
        SUBTYPE(DAT_INVALID_STATE_EP_NOTREADY),
        SUBTYPE(DAT_INVALID_STATE_CNO_IN_USE),
        SUBTYPE(DAT_INVALID_STATE_CNO_DEAD),
        SUBTYPE(DAT_INVALID_STATE_EVD_UNWAITABLE),
        SUBTYPE(DAT_INVALID_STATE_EVD_IN_USE),
        SUBTYPE(DAT_INVALID_STATE_IA_IN_USE),
        SUBTYPE(DAT_INVALID_STATE_LMR_IN_USE),
        SUBTYPE(DAT_INVALID_STATE_PZ_IN_USE),
        SUBTYPE(DAT_INVALID_STATE_SRQ_IN_USE),
        SUBTYPE(DAT_PRIVILEGES_READ),
        SUBTYPE(DAT_PROTECTION_RDMA_WRITE),
        SUBTYPE(DAT_INVALID_ADDRESS_UNSUPPORTED),
        SUBTYPE(DAT_INVALID_ADDRESS_UNREACHABLE),
        SUBTYPE(DAT_INVALID_ADDRESS_MALFORMED),
        SUBTYPE(DAT_NAME_NOT_REGISTERED),
        SUBTYPE(DAT_MAJOR_NOT_FOUND),
        SUBTYPE(DAT_MINOR_NOT_FOUND),
        SUBTYPE(DAT_THREAD_SAFETY_NOT_FOUND),
    };
#undef TYPE
#undef SUBTYPE
    for (const named &each : table) {
        CHECK(major_of(each.code) == each.major);
        CHECK(minor_of(each.code) == each.minor);
        CHECK(major_of(each.code & ~DAT_CLASS_ERROR) == each.major); // bare
    }
}

TEST_CASE("REG-12: messages and the list of providers are the same for threads that ask at once" *
          hint("belong to a registry that keeps its answer in one place for all"))
{
    const auto before = listed();
    std::atomic<int> failures{0};
    {
        std::vector<std::unique_ptr<helper_thread>> threads;
        for (int t = 0; t < 4; ++t)
            threads.push_back(std::make_unique<helper_thread>([&, t] {
                std::vector<DAT_PROVIDER_INFO> entries;
                const DAT_RETURN code = error(t % 2 == 0 ? DAT_ABORT : DAT_QUEUE_FULL);
                const std::string expected = t % 2 == 0 ? "DAT_ABORT" : "DAT_QUEUE_FULL";
                for (int round = 0; round < 200; ++round) {
                    const char *major = "";
                    const char *minor = "";
                    failures += list_registry(entries) == DAT_SUCCESS ? 0 : 1;
                    failures += entries.size() == before.size() ? 0 : 1;
                    for (std::size_t i = 0; i < std::min(entries.size(), before.size()); ++i)
                        failures += std::strcmp(entries[i].ia_name, before[i].ia_name) == 0 ? 0 : 1;
                    (void)dat_strerror(code, &major, &minor);
                    failures += expected == major ? 0 : 1;
                }
            }));
    }
    CHECK(failures == 0);
}

TEST_CASE("REG-13: extension operations check what they are asked of" *
          hint("follow a handle that is none to its provider") * needs("extensions"))
{
    adapter ia;
    test_endpoint own(ia);
    if (ia.attr.extension_supported == DAT_EXTENSION_NONE)
        NOT_CLAIMED("extensions"); // REG-07 has the refusals
    CHECK(same_type(dat_extension_op(DAT_HANDLE_NULL, 0), DAT_INVALID_HANDLE));
    CHECK(same_type(dat_extension_op(reinterpret_cast<DAT_HANDLE>(std::uintptr_t{4095}), 0),
                    DAT_INVALID_HANDLE));
    for (const int unknown : {30, 100, 0x4321}) {
        CAPTURE(unknown);
        CHECK(same_code(dat_extension_op(own.ep, unknown), error(DAT_NOT_IMPLEMENTED)));
        CHECK(same_code(dat_extension_op(ia.handle, unknown), error(DAT_NOT_IMPLEMENTED)));
    }
    CHECK(stays_empty(own.request_evd, milliseconds(1)));
}

namespace {

int opens = 0;

DAT_RETURN count_open(DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *)
{
    ++opens;
    return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

} // namespace

TEST_CASE("REG-14: a provider that adds itself is opened by its name, until it takes itself out" *
          hint("open what dat.conf names only, or keep a vector that is gone"))
{
    auto *add = optional_call<decltype(dat_registry_add_provider)>("dat_registry_add_provider");
    auto *remove =
        optional_call<decltype(dat_registry_remove_provider)>("dat_registry_remove_provider");
    if (add == nullptr || remove == nullptr)
        NOT_CLAIMED("providers that add themselves, in libdat2");
    adapter ia; // keeps an adapter of another provider open meanwhile
    char name[] = "provider-of-the-suite";
    DAT_PROVIDER mine{};
    mine.device_name = name;
    mine.ia_open_func = count_open;
    DAT_PROVIDER_INFO info{};
    std::strcpy(info.ia_name, name);
    info.dapl_version_major = DAT_VERSION_MAJOR;
    info.dapl_version_minor = DAT_VERSION_MINOR;
    info.is_thread_safe = the_settings().thread_safe ? DAT_TRUE : DAT_FALSE;
    const auto open = [&] {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_IA_HANDLE opened = DAT_HANDLE_NULL;
        return open_adapter(name, &async, &opened);
    };
    CHECK(same_type(open(), DAT_PROVIDER_NOT_FOUND));
    for (int round = 0; round < 2; ++round) {
        CAPTURE(round);
        opens = 0;
        MUST(add(&mine, &info));
        CHECK(same_code(add(&mine, &info), error(DAT_PROVIDER_ALREADY_REGISTERED)));
        CHECK(same_code(open(), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE)));
        CHECK(opens == 1);
        MUST(remove(&mine, &info));
        CHECK(same_type(open(), DAT_PROVIDER_NOT_FOUND));
        CHECK(opens == 1);
        const DAT_RETURN again = remove(&mine, &info); // either not found, or no provider
        CHECK((DAT_GET_TYPE(again) == DAT_PROVIDER_NOT_FOUND ||
               DAT_GET_TYPE(again) == DAT_INVALID_PARAMETER));
    }
}

TEST_CASE("REG-15: adding and removing a provider check their arguments" *
          hint("read the entry before it is known to be there"))
{
    auto *add = optional_call<decltype(dat_registry_add_provider)>("dat_registry_add_provider");
    auto *remove =
        optional_call<decltype(dat_registry_remove_provider)>("dat_registry_remove_provider");
    if (add == nullptr || remove == nullptr)
        NOT_CLAIMED("providers that add themselves, in libdat2");
    DAT_PROVIDER mine{};
    DAT_PROVIDER_INFO info{};
    std::strcpy(info.ia_name, "provider-of-the-suite");
    CHECK(same_code(add(nullptr, &info), bad_arg(1)));
    CHECK(same_code(remove(nullptr, &info), bad_arg(1)));
    CHECK(same_code(add(&mine, nullptr), bad_arg(2)));
    CHECK(same_code(remove(&mine, nullptr), bad_arg(2)));
}

} // namespace conformance
