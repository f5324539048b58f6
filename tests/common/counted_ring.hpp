// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A ring of posted events and the word of its owner, for tests.
#pragma once

#include "core/posted_ring.hpp"
#include "fixture.hpp"

namespace test {

/// A ring as an EVD uses it: the owner's bits count what is there.
template <class T, class Threads>
struct counted_ring {
    using storage = typename posted_ring<T, Threads>::storage;

    explicit counted_ring(std::uint32_t length) { resize(length); }

    bool resize(std::uint32_t length)
    {
        storage other;
        REQUIRE(other.allocate(length));
        return ring.exchange_storage(other);
    }
    bool take(T &element)
    {
        if (word.load() == 0)
            return false;
        element = ring.front();
        ring.drop_front();
        word.fetch_sub(1);
        return true;
    }

    event_word<Threads> word{0};
    posted_ring<T, Threads> ring{word};
};

} // namespace test
