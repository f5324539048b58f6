// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory for data too large for the stack of a consumer's thread, lent without a lock, a wait or an
// allocation. Who gets none does its work in smaller portions, on the stack.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

namespace soft_hca {

template <class Area>
class lent_areas {
    struct place {
        std::atomic<bool> taken{false};
        Area area;
    };

public:
    static constexpr unsigned count = 4;

    /// Holds one of the areas, or none, until the end of its life.
    class loan {
    public:
        loan() = default;
        explicit loan(place *taken) : place_(taken) {}
        loan(const loan &) = delete;
        loan &operator=(const loan &) = delete;
        ~loan()
        {
            if (place_ != nullptr)
                place_->taken.store(false, std::memory_order_release);
        }
        Area *get() const { return place_ != nullptr ? &place_->area : nullptr; }

    private:
        place *place_ = nullptr;
    };

    /// Without memory there is nothing to be lent, which makes large batches slower. The areas are
    /// not initialized: an area that is never used takes no memory.
    void open() { places_.reset(new (std::nothrow) place[count]); }

    loan borrow()
    {
        for (unsigned i = 0; places_ != nullptr && i < count; ++i) {
            place &each = places_[(first() + i) % count];
            if (!each.taken.load(std::memory_order_relaxed) &&
                !each.taken.exchange(true, std::memory_order_acquire))
                return loan(&each);
        }
        return {};
    }

private:
    /// Mostly another one for each thread, so that an area stays in the caches of one processor.
    static unsigned first()
    {
        constexpr unsigned smallest_stack_bits = 14;
        const char here = 0;
        const auto stack = reinterpret_cast<std::uintptr_t>(&here) >> smallest_stack_bits;
        return static_cast<unsigned>((stack * std::uint64_t{0x9e3779b97f4a7c15}) >> 32);
    }

    std::unique_ptr<place[]> places_;
};

} // namespace soft_hca
