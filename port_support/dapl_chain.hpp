// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Intrusive lists: the links are parts of the elements, so that inserting never allocates.
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
    /// Pops where there is an element.
    void drop() { head_ = head_->next; }

    /// Inserts in order: before the first element for which before(item, element).
    template <class Before>
    void insert(T &item, Before before)
    {
        T **place = &head_;
        while (*place != nullptr && !before(item, **place))
            place = &(*place)->next;
        item.next = *place;
        *place = &item;
        if (item.next == nullptr)
            tail_ = &item;
    }

    T *front() { return head_; }
    const T *front() const { return head_; }

private:
    T *head_ = nullptr;
    T *tail_ = nullptr;
};

/// A link of a doubly linked list; is_unlinked() until it is inserted.
struct list_link {
    list_link *next = this;
    list_link *previous = this;

    list_link() = default;
    list_link(const list_link &) = delete;
    list_link &operator=(const list_link &) = delete;

    bool is_unlinked() const { return next == this; }

    void insert_before(list_link &place)
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

/// A doubly linked list of elements of type T, linked through their base class Tag, which is
/// derived from list_link.
template <class T, class Tag>
class list {
public:
    bool empty() const { return head_.is_unlinked(); }
    void push(T &item) { static_cast<Tag &>(item).insert_before(head_); }
    T *front() { return empty() ? nullptr : from(head_.next); }
    /// The element after `item`, or null.
    T *after(T &item)
    {
        list_link *next = static_cast<Tag &>(item).next;
        return next == &head_ ? nullptr : from(next);
    }

private:
    static T *from(list_link *link) { return static_cast<T *>(static_cast<Tag *>(link)); }

    list_link head_;
};

} // namespace dapl::DAPL_TRANSPORT
