// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A provider the program is linked with registers before main.
#include "adapters.hpp"

#include <doctest/doctest.h>

using namespace scenario;

namespace {

/// Keeps the library: without a reference the linker would leave it out.
[[gnu::used]] const DAT_PROVIDER_INIT_FUNC linked = &dat_provider_init;

} // namespace

TEST_CASE("what registered before main opens without a line in dat.conf, and stays when closed")
{
    const outcome result = run("", [] {
        for (int i = 0; i < 2; ++i) {
            const DAT_IA_HANDLE ia = opened("early");
            EXPECT_EQ(close(ia), DAT_SUCCESS);
        }
        EXPECT(is_mapped("stub_early"));
        EXPECT_EQ(seen("fini", "early"), 0);
        DAT_COUNT count = 0;
        dat_registry_list_providers(0, &count, nullptr);
        EXPECT_EQ(count, 1);
    });
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(result.messages == "");
}

TEST_CASE("it takes precedence over a line of dat.conf with the same key")
{
    const outcome result = run(line("early", "/nowhere.so"), [] { opened("early"); });
    CHECK(result.failures == "");
    CHECK(result.status == 0);
    CHECK(result.messages == "");
}
