// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cm_frame.hpp"

#include <cstring>
#include <doctest/doctest.h>

using namespace dapl::DAPL_TRANSPORT;

TEST_SUITE("cm_frame")
{
    TEST_CASE("private data and a qualifier arrive as they were sent")
    {
        const cm_frame sent(cm_frame_header::request, {"hello", 5}, 0x0123'4567'89ab'cdef);
        private_data data;
        const cm_frame_header *header = parse_frame(sent.bytes, sent.size, data);
        REQUIRE(header != nullptr);
        CHECK(header->kind == cm_frame_header::request);
        CHECK(qualifier_of(*header) == 0x0123'4567'89ab'cdef);
        REQUIRE(data.size == 5);
        CHECK(std::memcmp(data.bytes, "hello", 5) == 0);
    }

    TEST_CASE("what another program sent is no message")
    {
        private_data data{"x", 1};
        CHECK(parse_frame(nullptr, 0, data) == nullptr);
        CHECK(data.size == 0);
        cm_frame sent(cm_frame_header::accept, {"data", 4});
        CHECK(parse_frame(sent.bytes, sent.size - 1, data) == nullptr); // shorter than it says
        sent.bytes[0] ^= 1;
        CHECK(parse_frame(sent.bytes, sent.size, data) == nullptr);
    }
}
