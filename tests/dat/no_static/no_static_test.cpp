// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libdat2 built with -Dstatic_registry=false.
#include "adapters.hpp"

#include <doctest/doctest.h>

using namespace scenario;

namespace {

/// Keeps the library: without a reference the linker would leave it out.
[[gnu::used]] const DAT_PROVIDER_INIT_FUNC linked = &dat_provider_init;

} // namespace

TEST_CASE("without a static registry no dat.conf is read, whatever names it")
{
    const outcome result = run("broken\n" + line("s", STUB_PROVIDER), [] {
        DAT_IA_HANDLE ia;
        EXPECT_EQ(open("s", ia), not_found);
        DAT_COUNT count = 0;
        dat_registry_list_providers(0, &count, nullptr);
        EXPECT_EQ(count, 1);
    });
    CHECK(result.failures == "");
    CHECK(result.messages ==
          "libdat2: adapter 's' is unknown (no dat.conf read); known adapters: early\n");
}

TEST_CASE("without a static registry, what registers itself opens")
{
    const outcome result = run("", [] {
        const DAT_IA_HANDLE ia = opened("early");
        EXPECT_EQ(close(ia), DAT_SUCCESS);
    });
    CHECK(result.failures == "");
    CHECK(result.messages == "");
}
