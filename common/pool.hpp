// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Type-stable storage: a slot that held an object of a type never holds anything else until the
// adapter closes, so that a stale handle meets a dead mark instead of foreign memory. The slot
// freed first is used again first, which keeps dead marks around as long as possible.
#pragma once

#include "object.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

template <class T>
class pool {
    union slot {
        slot() {}
        ~slot() {}
        T live;
        struct {
            alignas(object) std::byte header[sizeof(object)];
            slot *next_free;
        } dead;
    };
    struct slab {
        slab *next = nullptr;
        std::size_t used = 0; // slots handed out at least once
        slot slots[T::slab_size];
    };

public:
    pool() = default;
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool()
    {
        while (slabs_ != nullptr)
            delete std::exchange(slabs_, slabs_->next);
    }

    /// Null when out of memory.
    template <class... Arguments>
    T *make(Arguments &&...arguments)
    {
        slot *place = take_slot();
        if (place == nullptr)
            return nullptr;
        ++live_;
        return ::new (&place->live) T(std::forward<Arguments>(arguments)...);
    }

    void destroy(T *victim)
    {
        // What an object begins with has nothing to destroy and stays readable behind a stale
        // handle; the build tells the compiler that memory outlives its objects here
        // (-fno-lifetime-dse).
        static_assert(std::is_trivially_destructible_v<object>);
        victim->alive.store(mark::dead);
        auto *place = reinterpret_cast<slot *>(victim);
        std::destroy_at(victim);
        place->dead.next_free = nullptr;
        (oldest_free_ == nullptr ? oldest_free_ : newest_free_->dead.next_free) = place;
        newest_free_ = place;
        --live_;
    }

    std::size_t live() const { return live_; }

    /// Visits every live object; the visitor may destroy the one it is shown.
    template <class Visitor>
    void for_each(Visitor &&visit)
    {
        for (slab *s = slabs_; s != nullptr; s = s->next)
            for (std::size_t i = 0; i < s->used; ++i)
                if (auto *o = reinterpret_cast<object *>(&s->slots[i]); o->kind() != mark::dead)
                    visit(static_cast<T &>(*o));
    }

private:
    slot *take_slot()
    {
        if (oldest_free_ != nullptr)
            return std::exchange(oldest_free_, oldest_free_->dead.next_free);
        if (slabs_ == nullptr || slabs_->used == T::slab_size) {
            auto *fresh = new (std::nothrow) slab;
            if (fresh == nullptr)
                return nullptr;
            fresh->next = std::exchange(slabs_, fresh);
        }
        return &slabs_->slots[slabs_->used++];
    }

    slab *slabs_ = nullptr;
    slot *oldest_free_ = nullptr;
    slot *newest_free_ = nullptr;
    std::size_t live_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
