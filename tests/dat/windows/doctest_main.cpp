// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <windows.h>

/// Runs the tests or, in their child, the one body that DAT_TEST_BODY names; see host.cpp.
int main(int argc, char **argv)
{
    const char *body = std::getenv("DAT_TEST_BODY");
    if (body == nullptr)
        return doctest::Context(argc, argv).run();
    const auto base = reinterpret_cast<std::uintptr_t>(GetModuleHandleA(nullptr));
    reinterpret_cast<void (*)()>(base + std::strtoull(body, nullptr, 10))();
    return 0;
}
