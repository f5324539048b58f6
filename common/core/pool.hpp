// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Type-stable storage: a slot that held an object of a type never holds anything else until the
// adapter closes, so that a stale handle meets a dead tag instead of foreign memory. The slot freed
// first is used again first, which keeps dead tags around as long as possible.
#pragma once

#include "object.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::core {

/// The objects of one type. It is the same class for all types, so that the adapter, which owns the
/// pools, need not know them.
class object_pool {
    /// The beginning of a slot whose object was destroyed.
    struct free_slot {
        alignas(object) std::byte header[sizeof(object)];
        free_slot *next;
    };
    template <class T>
    struct slots {
        alignas(T) alignas(free_slot)
            std::byte memory[sizeof(T) > sizeof(free_slot) ? sizeof(T) : sizeof(free_slot)];
    };
    struct slab_header {
        slab_header *next = nullptr;
        std::size_t used = 0; // slots handed out at least once
        void (*release)(slab_header *) = nullptr;
    };
    template <class T>
    struct slab : slab_header {
        slots<T> place[T::slab_size];
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

    /// Null when out of memory.
    template <class T, class... Arguments>
    T *make(Arguments &&...arguments)
    {
        void *place = take_slot<T>();
        if (place == nullptr)
            return nullptr;
        ++live_;
        return ::new (place) T(std::forward<Arguments>(arguments)...);
    }

    template <class T>
    void destroy(T &victim)
    {
        // What an object begins with has nothing to destroy and stays readable behind a stale
        // handle; the build tells the compiler that memory outlives its objects here
        // (-fno-lifetime-dse).
        static_assert(std::is_trivially_destructible_v<object>);
        victim.tag.store(mark::dead);
        auto *place = reinterpret_cast<free_slot *>(&victim);
        std::destroy_at(&victim);
        place->next = nullptr;
        (oldest_free_ == nullptr ? oldest_free_ : newest_free_->next) = place;
        newest_free_ = place;
        --live_;
    }

    std::size_t live() const { return live_; }

    /// Visits every live object; the visitor may destroy the one it is shown.
    template <class T, class Visitor>
    void for_each(Visitor &&visit)
    {
        for (slab_header *s = slabs_; s != nullptr; s = s->next)
            for (std::size_t i = 0; i < s->used; ++i)
                if (auto *o = reinterpret_cast<object *>(&static_cast<slab<T> *>(s)->place[i]);
                    o->kind() != mark::dead)
                    visit(static_cast<T &>(*o));
    }

private:
    template <class T>
    void *take_slot()
    {
        if (oldest_free_ != nullptr)
            return std::exchange(oldest_free_, oldest_free_->next);
        if (slabs_ == nullptr || slabs_->used == T::slab_size) {
            auto *fresh = new (std::nothrow) slab<T>;
            if (fresh == nullptr)
                return nullptr;
            fresh->release = [](slab_header *old) { delete static_cast<slab<T> *>(old); };
            fresh->next = std::exchange(slabs_, fresh);
        }
        return &static_cast<slab<T> *>(slabs_)->place[slabs_->used++];
    }

    slab_header *slabs_ = nullptr;
    free_slot *oldest_free_ = nullptr;
    free_slot *newest_free_ = nullptr;
    std::size_t live_ = 0;
};

} // namespace dapl::DAPL_TRANSPORT::core
