// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "deadline_list.hpp"

#include <doctest/doctest.h>

using namespace dapl::DAPL_TRANSPORT;

namespace {

struct timed : deadline_link {};

} // namespace

TEST_SUITE("deadline_list")
{
    TEST_CASE("what is due comes out, once, and the rest says when")
    {
        deadline_list<timed> list;
        timed early, late;
        CHECK(list.next_due() == deadline_list<timed>::never);
        list.schedule(late, 200);
        list.schedule(early, 100);
        CHECK(list.next_due() == 100);
        CHECK(list.pop_due(99) == nullptr);
        CHECK(list.pop_due(100) == &early);
        CHECK_FALSE(early.is_scheduled());
        CHECK(list.pop_due(100) == nullptr);
        CHECK(list.next_due() == 200);
        late.cancel();
    }

    TEST_CASE("a deadline can be replaced and cancelled")
    {
        deadline_list<timed> list;
        timed item;
        list.schedule(item, 100);
        list.schedule(item, 50);
        CHECK(list.pop_due(50) == &item);
        list.schedule(item, 0);
        item.cancel();
        item.cancel();
        CHECK(list.pop_due(INT64_MAX) == nullptr);
    }
}
