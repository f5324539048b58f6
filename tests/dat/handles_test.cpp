// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Handles: which values are taken for handles, and what a provider gets to see.
#include "adapters.hpp"

#include <cstdint>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace scenario;

namespace {

const std::string stub = STUB_PROVIDER;

void check(const outcome &result)
{
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(result.messages == "");
}

DAT_HANDLE number(std::uintptr_t value)
{
    return reinterpret_cast<DAT_HANDLE>(value);
}

/// What no object can be: null, small numbers, odd addresses, addresses no process has.
const std::uintptr_t no_objects[] = {
    0,
    1,
    2,
    63,
    64,
    4096,
    65535,
    65537,
    0x12341,
    0x12342,
    0x12344,
    ~std::uintptr_t{0},
    ~std::uintptr_t{7},
    std::uintptr_t{1} << 63,
};

void expect_all_refused(DAT_HANDLE h)
{
    const auto bad = [](unsigned subtype) { return code(DAT_INVALID_HANDLE, subtype); };
    EXPECT_EQ(dat_ep_free(h), bad(DAT_INVALID_HANDLE_EP));
    EXPECT_EQ(dat_ep_post_send(h, 0, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG),
              bad(DAT_INVALID_HANDLE_EP));
    EXPECT_EQ(dat_evd_dequeue(h, nullptr), bad(DAT_INVALID_HANDLE_EVD_REQUEST));
    EXPECT_EQ(dat_evd_wait(h, 0, 1, nullptr, nullptr), bad(DAT_INVALID_HANDLE_EVD_REQUEST));
    EXPECT_EQ(dat_pz_free(h), bad(DAT_INVALID_HANDLE_PZ));
    EXPECT_EQ(dat_lmr_free(h), bad(DAT_INVALID_HANDLE_LMR));
    EXPECT_EQ(dat_rmr_free(h), bad(DAT_INVALID_HANDLE_RMR));
    EXPECT_EQ(dat_rmr_create(h, nullptr), bad(DAT_INVALID_HANDLE_PZ));
    EXPECT_EQ(dat_psp_free(h), bad(DAT_INVALID_HANDLE_PSP));
    EXPECT_EQ(dat_rsp_free(h), bad(DAT_INVALID_HANDLE_RSP));
    EXPECT_EQ(dat_csp_free(h), bad(DAT_INVALID_HANDLE_CSP));
    EXPECT_EQ(dat_cr_accept(h, nullptr, 0, nullptr), bad(DAT_INVALID_HANDLE_CR));
    EXPECT_EQ(dat_cno_free(h), bad(DAT_INVALID_HANDLE_CNO));
    EXPECT_EQ(dat_srq_free(h), bad(DAT_INVALID_HANDLE_SRQ));
}

void expect_no_adapter(DAT_IA_HANDLE h)
{
    DAT_HANDLE out = DAT_HANDLE_NULL;
    EXPECT_EQ(dat_pz_create(h, &out), bad_ia);
    EXPECT_EQ(dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr), bad_ia);
    EXPECT_EQ(dat_psp_create(h, 1, nullptr, DAT_PSP_CONSUMER_FLAG, nullptr), bad_ia);
    EXPECT_EQ(close(h), bad_ia);
    EXPECT(out == DAT_HANDLE_NULL);
}

} // namespace

TEST_CASE("what cannot be an object is an invalid handle with the subtype of the call")
{
    check(run("", [] {
        for (std::uintptr_t value : no_objects) {
            expect_all_refused(number(value));
            expect_no_adapter(number(value));
            DAT_CONTEXT context;
            DAT_HANDLE_TYPE type;
            EXPECT_EQ(dat_get_consumer_context(number(value), &context),
                      code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
            EXPECT_EQ(dat_set_consumer_context(number(value), {}),
                      code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
            EXPECT_EQ(dat_get_handle_type(number(value), &type),
                      code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
        }
    }));
}

TEST_CASE("the address of a handle that was never set is no handle")
{
    check(run("", [] {
        DAT_HANDLE forgotten = DAT_HANDLE_NULL;
        expect_all_refused(&forgotten);
    }));
}

TEST_CASE("an adapter is no object, and an object no adapter")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        expect_all_refused(ia);
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
        expect_no_adapter(pz);
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

TEST_CASE("a closed adapter is none, nor soon another one")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE first = opened("s");
        EXPECT_EQ(close(first), DAT_SUCCESS);
        expect_no_adapter(first);
        const DAT_IA_HANDLE second = opened("s");
        EXPECT(second != first);
        expect_no_adapter(first);
        EXPECT_EQ(close(second), DAT_SUCCESS);
    }));
}

TEST_CASE("handles of adapters are small numbers from 1, however many there are")
{
    check(run(line("s", stub), [] {
        std::vector<DAT_IA_HANDLE> all;
        for (std::uintptr_t i = 1; i <= 200; ++i) {
            all.push_back(opened("s"));
            EXPECT(all.back() == number(i));
        }
        for (std::size_t i = 0; i < all.size(); i += 2)
            EXPECT_EQ(close(all[i]), DAT_SUCCESS);
        for (std::size_t i = 0; i < all.size(); i += 2)
            EXPECT(opened("s") != DAT_HANDLE_NULL);
        for (std::size_t i = 1; i < all.size(); i += 2) {
            DAT_HANDLE_TYPE type;
            EXPECT_EQ(dat_get_handle_type(all[i], &type), DAT_SUCCESS);
            EXPECT_EQ(type, DAT_HANDLE_TYPE_IA);
        }
    }));
}

TEST_CASE("a provider translates its pointer to the consumer's handle and back")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s"), other = opened("s");
        for (DAT_IA_HANDLE handle : {ia, other}) {
            DAT_IA_HANDLE pointer = DAT_HANDLE_NULL, back = DAT_HANDLE_NULL;
            EXPECT_EQ(dats_get_ia_handle(handle, &pointer), DAT_SUCCESS);
            EXPECT(reinterpret_cast<std::uintptr_t>(pointer) > 65535);
            EXPECT_EQ(dats_get_ia_handle(pointer, &back), DAT_SUCCESS);
            EXPECT(back == handle);
            expect_no_adapter(pointer); // it is the provider's, not the consumer's
        }
        DAT_IA_HANDLE kept = &kept;
        for (std::uintptr_t value : no_objects) {
            if (number(value) != ia && number(value) != other)
                EXPECT_EQ(dats_get_ia_handle(number(value), &kept), bad_ia);
        }
        EXPECT_EQ(dats_get_ia_handle(&kept, &kept), bad_ia);
        EXPECT(kept == &kept);
        EXPECT_EQ(dats_get_ia_handle(ia, nullptr), code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        EXPECT_EQ(close(ia), DAT_SUCCESS);
        EXPECT_EQ(close(other), DAT_SUCCESS);
    }));
}

TEST_CASE("contexts and types work for adapters and objects alike")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
        for (DAT_HANDLE handle : {ia, pz}) {
            DAT_CONTEXT set{}, got{};
            set.as_ptr = handle;
            EXPECT_EQ(dat_set_consumer_context(handle, set), DAT_SUCCESS);
            EXPECT_EQ(dat_get_consumer_context(handle, &got), DAT_SUCCESS);
            EXPECT(got.as_ptr == handle);
            DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CR;
            EXPECT_EQ(dat_get_handle_type(handle, &type), DAT_SUCCESS);
            EXPECT_EQ(type, handle == ia ? DAT_HANDLE_TYPE_IA : DAT_HANDLE_TYPE_PZ);
        }
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

TEST_CASE("arguments arrive in their places, however many they are")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        DAT_REGION_DESCRIPTION region{};
        region.for_va = &region;
        DAT_VLEN length = 0;
        DAT_VADDR address = 0;
        EXPECT_EQ(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, 77, nullptr,
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, nullptr, nullptr, nullptr,
                                 &length, &address),
                  DAT_SUCCESS);
        EXPECT_EQ(length, 77);
        EXPECT(address == reinterpret_cast<DAT_VADDR>(&region));
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

TEST_CASE("a function the provider does not have is a model not supported")
{
    check(run(line("s", stub), [] {
        const DAT_IA_HANDLE ia = opened("s");
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
        const DAT_RETURN unsupported = code(DAT_MODEL_NOT_SUPPORTED);
        EXPECT_EQ(dat_rmr_create_for_ep(pz, nullptr), unsupported);
        EXPECT_EQ(dat_cno_fd_create(ia, nullptr, nullptr), unsupported);
        EXPECT_EQ(dat_csp_create(ia, nullptr, nullptr, nullptr, nullptr), unsupported);
        EXPECT_EQ(dat_srq_create(ia, pz, nullptr, nullptr), unsupported);
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

// --- Extensions ----------------------------------------------------------------------------------

TEST_CASE("extension calls are not implemented until an adapter that has some is open")
{
    check(run(line("s", stub) + line("x", stub, "extends"), [] {
        const DAT_RETURN off = code(DAT_NOT_IMPLEMENTED);
        int doubled = 0;
        EXPECT_EQ(dat_extension_op(nullptr, 1), code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
        EXPECT_EQ(dat_extension_op(number(1), 1), off);
        const DAT_IA_HANDLE s = opened("s");
        EXPECT_EQ(dat_extension_op(s, 1, 21, &doubled), off);
        const DAT_IA_HANDLE x = opened("x");
        EXPECT_EQ(dat_extension_op(s, 1, 21, &doubled), off); // its provider has none
        EXPECT_EQ(dat_extension_op(x, 1, 21, &doubled), DAT_SUCCESS);
        EXPECT_EQ(doubled, 42);
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        EXPECT_EQ(dat_pz_create(x, &pz), DAT_SUCCESS);
        EXPECT_EQ(dat_extension_op(pz, 1, 4, &doubled), DAT_QUEUE_EMPTY);
        EXPECT_EQ(doubled, 8);
        EXPECT_EQ(dat_extension_op(number(60), 1), bad_ia);
        EXPECT_EQ(dat_extension_op(number(0x12341), 1),
                  code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
        EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
        EXPECT_EQ(close(x), DAT_SUCCESS);
        EXPECT_EQ(dat_extension_op(s, 1, 21, &doubled), off);
        EXPECT_EQ(close(s), DAT_SUCCESS);
    }));
}

TEST_CASE("a query opens by name without an adapter, and its close lets the library go")
{
    const outcome result = run(line("s", stub) + line("x", stub, "extends"), [] {
        const auto open_query = [](const char *name, DAT_IA_HANDLE *ia, DAT_IA_ATTR *attributes) {
            return dat_extension_op(nullptr, DAT_OPEN_EXTENSION_BASE, name, ia, DAT_IA_FIELD_ALL,
                                    attributes, DAT_UINT64{0}, nullptr);
        };
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_IA_ATTR attributes{};
        EXPECT_EQ(open_query(nullptr, &ia, &attributes),
                  code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
        EXPECT_EQ(open_query("none", &ia, &attributes), not_found);
        EXPECT_EQ(open_query("s", &ia, &attributes), code(DAT_NOT_IMPLEMENTED));
        EXPECT_EQ(open_query("x", nullptr, &attributes), bad_ia);
        EXPECT(!is_mapped("stub_provider"));

        EXPECT_EQ(open_query("x", &ia, &attributes), DAT_SUCCESS);
        EXPECT_EQ(attributes.extension_supported, DAT_EXTENSION_IB);
        EXPECT(is_mapped("stub_provider"));
        expect_no_adapter(ia);
        EXPECT_EQ(dat_extension_op(&ia, DAT_CLOSE_EXTENSION_BASE), bad_ia);
        EXPECT_EQ(dat_extension_op(nullptr, DAT_CLOSE_EXTENSION_BASE), bad_ia);
        EXPECT_EQ(dat_extension_op(ia, DAT_CLOSE_EXTENSION_BASE), DAT_SUCCESS);
        EXPECT_EQ(dat_extension_op(ia, DAT_CLOSE_EXTENSION_BASE), bad_ia);
        EXPECT(!is_mapped("stub_provider"));
    });
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(lines_with(result.messages, "") == 1); // the line is about "none"
}
