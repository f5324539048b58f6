// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lists whose links are members of what is listed, so that listing never allocates.
#pragma once

namespace dapl::DAPL_TRANSPORT {

/// First in, first out, singly linked through T::next.
template <class T>
class fifo {
public:
    bool empty() const { return head_ == nullptr; }

    void push(T &item)
    {
        item.next = nullptr;
        (head_ == nullptr ? head_ : tail_->next) = &item;
        tail_ = &item;
    }

    T *pop()
    {
        T *item = head_;
        if (item != nullptr)
            head_ = item->next;
        return item;
    }

    /// Keeps the list sorted: `item` goes before the first element for which before(item, it).
    template <class Before>
    void insert(T &item, Before before)
    {
        T **at = &head_;
        while (*at != nullptr && !before(item, **at))
            at = &(*at)->next;
        item.next = *at;
        *at = &item;
        if (item.next == nullptr)
            tail_ = &item;
    }

    const T *front() const { return head_; }

private:
    T *head_ = nullptr;
    T *tail_ = nullptr;
};

/// A place in a ring; alone until it is linked.
struct link {
    link *next = this;
    link *previous = this;

    link() = default;
    link(const link &) = delete;
    link &operator=(const link &) = delete;

    bool alone() const { return next == this; }

    void insert_before(link &place)
    {
        next = &place;
        previous = place.previous;
        previous->next = this;
        place.previous = this;
    }

    void unlink()
    {
        previous->next = next;
        next->previous = previous;
        next = previous = this;
    }
};

/// Elements of type T, linked through a base class T::Tag derived from link.
template <class T, class Tag>
class ring {
public:
    bool empty() const { return head_.alone(); }
    void push(T &item) { static_cast<Tag &>(item).insert_before(head_); }
    T *front() { return empty() ? nullptr : from(head_.next); }
    /// The element after `item`, or null.
    T *after(T &item)
    {
        link *at = static_cast<Tag &>(item).next;
        return at == &head_ ? nullptr : from(at);
    }

private:
    static T *from(link *at) { return static_cast<T *>(static_cast<Tag *>(at)); }

    link head_;
};

} // namespace dapl::DAPL_TRANSPORT
