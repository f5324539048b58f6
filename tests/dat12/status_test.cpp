// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Return codes as DAT 1.2 documents them, from providers that have habits of their own.
#include "status.hpp"

#include <doctest/doctest.h>
#include <initializer_list>

namespace {

using namespace dat12;

constexpr DAT_RETURN errors = DAT_CLASS_ERROR;

TEST_CASE("what is no failure is bare, whatever the provider adds")
{
    for (DAT_RETURN type : {DAT_QUEUE_EMPTY, DAT_TIMEOUT_EXPIRED, DAT_INTERRUPTED_CALL}) {
        CAPTURE(type);
        CHECK(to_one(type) == type);
        CHECK(to_one(errors | type) == type);
        CHECK(to_one(errors | type | DAT_RESOURCE_MEMORY) == type);
    }
    CHECK(to_one(DAT_SUCCESS) == DAT_SUCCESS);
}

TEST_CASE("an error has the error class, whatever the provider leaves out")
{
    CHECK(to_one(DAT_CONN_QUAL_IN_USE) == (errors | v1::DAT_CONN_QUAL_IN_USE));
    CHECK(to_one(DAT_INVALID_STATE) == (errors | v1::DAT_INVALID_STATE));
    CHECK(to_one(errors | DAT_INVALID_PARAMETER | DAT_INVALID_ARG3) ==
          (errors | v1::DAT_INVALID_PARAMETER | v1::DAT_INVALID_ARG3));
}

TEST_CASE("codes of DAT 2.0 alone become the nearest one of DAT 1.2")
{
    CHECK(to_one(errors | DAT_PORT_IN_USE) == (errors | v1::DAT_CONN_QUAL_IN_USE));
    CHECK(to_one(DAT_COMM_NOT_SUPPORTED) == (errors | v1::DAT_MODEL_NOT_SUPPORTED));
    CHECK(to_one(DAT_NOT_IMPLEMENTED) == (errors | v1::DAT_NOT_IMPLEMENTED));
    CHECK(to_one(errors | DAT_INVALID_STATE | DAT_INVALID_STATE_SRQ_SHUTDOWN) ==
          (errors | v1::DAT_INVALID_STATE | v1::DAT_INVALID_STATE_SRQ_ERROR));
    CHECK(to_one(errors | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_CSP) ==
          (errors | v1::DAT_INVALID_HANDLE));
}

} // namespace
