// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "operations.hpp"

#include <new>

namespace am {

dapl_am_op *operations::take()
{
    const osd::lock_guard guard(lock_);
    dapl_am_op *op = free_ops_;
    if (op == nullptr)
        return new (std::nothrow) dapl_am_op;
    free_ops_ = op->next;
    return op;
}

void operations::give(dapl_am_op *op)
{
    const osd::lock_guard guard(lock_);
    op->next = free_ops_;
    free_ops_ = op;
}

void operations::keep_for_another(void *ops)
{
    auto *kept = static_cast<implicit_ops *>(ops);
    operations &owner = kept->owner;
    const osd::lock_guard guard(owner.lock_);
    kept->next = owner.free_threads_;
    owner.free_threads_ = kept;
}

/// Makes the key of the thread-specific data once. False if the system refuses it: a process has a
/// limited number.
bool operations::make_key()
{
    const osd::lock_guard guard(lock_);
    if (key_state_ == key_state::none)
        key_state_ =
            pthread_key_create(&key_, keep_for_another) == 0 ? key_state::made : key_state::refused;
    return key_state_ == key_state::made;
}

/// Passes over entries that still count operations of a thread that has ended. Null without memory.
implicit_ops *operations::add_thread()
{
    const osd::lock_guard guard(lock_);
    for (implicit_ops **link = &free_threads_; *link != nullptr; link = &(*link)->next) {
        implicit_ops *found = *link;
        if (found->puts.is_done() && found->gets.is_done()) {
            *link = found->next;
            found->region = nullptr;
            return found;
        }
    }
    return new (std::nothrow) implicit_ops(*this);
}

implicit_ops *operations::of_thread()
{
    if (key_state_.load(std::memory_order_acquire) != key_state::made && !make_key())
        return nullptr;
    auto *ops = static_cast<implicit_ops *>(pthread_getspecific(key_));
    if (ops != nullptr) [[likely]]
        return ops;
    ops = add_thread();
    if (ops == nullptr || pthread_setspecific(key_, ops) == 0)
        return ops;
    keep_for_another(ops);
    return nullptr;
}

} // namespace am
