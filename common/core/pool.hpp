// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Type-stable storage: a slot that held an object of a type never holds anything else until the
// adapter closes, so that a stale handle meets a dead tag instead of foreign memory. The slot freed
// first is used again first, which keeps dead tags around as long as possible.
#pragma once

#include "dapl_debug.hpp"
#include "object.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

/// What lies ahead of an object in its slot and stays there while objects come and go: T::enduring,
/// where a type has one. Threads may use it when the object is no more. Objects are constructed and
/// destroyed while an `enduring::exclusion` keeps such threads out.
template <class T>
struct slot_of {
    struct enduring {
        struct exclusion {
            explicit exclusion(enduring &) {}
        };
    };
};
template <class T>
requires requires
{
    typename T::enduring;
}
struct slot_of<T> {
    using enduring = typename T::enduring;
};

/// The objects of one type. One class serves all types, so that the adapter, which owns the pools,
/// need not know them.
class object_pool {
    template <class T>
    struct slot {
        using enduring = typename slot_of<T>::enduring;

        static slot &holding(T &object)
        {
            constexpr std::size_t ahead = std::is_empty_v<enduring> ? 0 : sizeof(enduring);
            static_assert(alignof(T) >= alignof(enduring) && ahead % alignof(T) == 0);
            return *reinterpret_cast<slot *>(reinterpret_cast<std::byte *>(&object) - ahead);
        }

        [[no_unique_address]] enduring stays;
        alignas(T) std::byte memory[sizeof(T)];
        slot *next_free = nullptr;
    };
    struct slab_header {
        slab_header *next = nullptr;
        std::size_t used = 0; // slots handed out at least once
        void (*release)(slab_header *) = nullptr;
    };
    template <class T>
    struct slab : slab_header {
        slot<T> place[T::slab_size];
    };

public:
    object_pool() = default;
    object_pool(const object_pool &) = delete;
    object_pool &operator=(const object_pool &) = delete;
    ~object_pool()
    {
        while (slabs_ != nullptr) {
            slab_header *const last = std::exchange(slabs_, slabs_->next);
            last->release(last);
        }
    }

    /// Returns null when out of memory.
    template <class T, class... Arguments>
    T *make(Arguments &&...arguments)
    {
        slot<T> *place = take_slot<T>();
        if (place == nullptr)
            return nullptr;
        ++live_;
        const typename slot<T>::enduring::exclusion hold(place->stays);
        return ::new (place->memory) T(std::forward<Arguments>(arguments)...);
    }

    template <class T>
    void destroy(T &victim)
    {
        // What an object begins with has nothing to destroy and stays readable behind a stale
        // handle; the build tells the compiler that memory outlives its objects here
        // (-fno-lifetime-dse).
        static_assert(std::is_trivially_destructible_v<object>);
        victim.tag.store(mark::dead);
        slot<T> &place = slot<T>::holding(victim);
        {
            const typename slot<T>::enduring::exclusion hold(place.stays);
            std::destroy_at(&victim);
        }
        place.next_free = nullptr;
        if (oldest_free_ == nullptr)
            oldest_free_ = &place;
        else
            static_cast<slot<T> *>(newest_free_)->next_free = &place;
        newest_free_ = &place;
        --live_;
    }

    std::size_t live() const { return live_; }

    /// Visits every live object; the visitor may destroy the object that it gets.
    template <class T, class Visitor>
    void for_each(Visitor &&visit)
    {
        for (slab_header *s = slabs_; s != nullptr; s = s->next)
            for (std::size_t i = 0; i < s->used; ++i)
                if (auto *o =
                        reinterpret_cast<object *>(static_cast<slab<T> *>(s)->place[i].memory);
                    o->kind() != mark::dead)
                    visit(static_cast<T &>(*o));
    }

private:
    template <class T>
    slot<T> *take_slot()
    {
        if (auto *place = static_cast<slot<T> *>(oldest_free_); place != nullptr) {
            oldest_free_ = place->next_free;
            return place;
        }
        if (slabs_ == nullptr || slabs_->used == T::slab_size) {
            auto *fresh = new (std::nothrow) slab<T>;
            if (fresh == nullptr)
                return nullptr;
            dapl_log(DAPL_DBG_TYPE_UTIL, "pool %p: grows by %d objects of %zu bytes",
                     static_cast<void *>(this), static_cast<int>(T::slab_size), sizeof(T));
            fresh->release = [](slab_header *old) { delete static_cast<slab<T> *>(old); };
            fresh->next = std::exchange(slabs_, fresh);
        }
        return &static_cast<slab<T> *>(slabs_)->place[slabs_->used++];
    }

    slab_header *slabs_ = nullptr;
    void *oldest_free_ = nullptr; ///< slots of the type
    void *newest_free_ = nullptr;
    std::size_t live_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
