// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Behaviour that our libdat2 and the field's must share; built against either. The field's reads
// dat.conf when the program starts, so all scenarios share field.conf.
#include "adapters.hpp"

#include <cstdint>
#include <doctest/doctest.h>

using namespace scenario;

namespace {

void check(const outcome &result)
{
    CHECK(result.failures == "");
    CHECK(result.status == 0);
}

} // namespace

namespace {

void open_translate_close(const char *name)
{
    const DAT_IA_HANDLE ia = opened(name);
    EXPECT(reinterpret_cast<std::uintptr_t>(ia) == 1);
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    EXPECT_EQ(dat_pz_create(ia, &pz), DAT_SUCCESS);
    DAT_PZ_PARAM param{};
    EXPECT_EQ(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS);
    EXPECT(param.ia_handle == ia);
    EXPECT_EQ(dat_pz_free(pz), DAT_SUCCESS);
    EXPECT_EQ(close(ia), DAT_SUCCESS);
    EXPECT_EQ(close(ia), bad_ia);
    EXPECT_EQ(seen("fini", name), 1);
    EXPECT(!is_mapped("stub_"));
}

} // namespace

TEST_CASE("an adapter opens, translates its handle, closes and is gone")
{
    check(run_as_is([] { open_translate_close("linked"); }));
    check(run_as_is([] { open_translate_close("unlinked"); }));
}

TEST_CASE("the next line with the same key is tried, another key is not")
{
    check(run_as_is([] {
        open_translate_close("chained");
        DAT_IA_HANDLE ia;
        EXPECT_EQ(open("safe", ia), not_found);
        EXPECT_EQ(open_as("linked", ia, 2, 1, DAT_FALSE), not_found);
        EXPECT_EQ(open("other", ia), not_found);
        EXPECT_EQ(open("comment", ia), not_found);
        EXPECT_EQ(open("#comment", ia), not_found);
    }));
}

TEST_CASE("an init that does not register, and an open that fails, have their codes")
{
    check(run_as_is([] {
        DAT_IA_HANDLE ia;
        EXPECT_EQ(open("silent", ia), not_found);
        EXPECT_EQ(open("failing", ia), code(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    }));
}

TEST_CASE("extension calls reach the provider with their arguments")
{
    check(run_as_is([] {
        int doubled = 0;
        EXPECT_EQ(dat_extension_op(reinterpret_cast<DAT_HANDLE>(1), 1), code(DAT_NOT_IMPLEMENTED));
        const DAT_IA_HANDLE ia = opened("extending");
        EXPECT_EQ(dat_extension_op(ia, 1, 21, &doubled), DAT_SUCCESS);
        EXPECT_EQ(doubled, 42);
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    }));
}

TEST_CASE("a query by name reaches the provider with its arguments")
{
    check(run_as_is([] {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_IA_ATTR attributes{};
        EXPECT_EQ(dat_extension_op(nullptr, DAT_OPEN_EXTENSION_BASE, "extending", &ia,
                                   DAT_IA_FIELD_ALL, &attributes, DAT_UINT64{0}, nullptr),
                  DAT_SUCCESS);
        EXPECT_EQ(attributes.extension_supported, DAT_EXTENSION_IB);
        EXPECT_EQ(dat_extension_op(ia, DAT_CLOSE_EXTENSION_BASE), DAT_SUCCESS);
        EXPECT_EQ(seen("close_query", "extending"), 1);
    }));
}
