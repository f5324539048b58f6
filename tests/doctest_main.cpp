// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <doctest/doctest.h>

int main(int argc, char **argv)
{
    return doctest::Context(argc, argv).run();
}
