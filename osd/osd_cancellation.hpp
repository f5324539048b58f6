// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Cancellation of a consumer's threads, where the system has it (pthread_cancel).
//
// A thread may be cancelled while it sleeps in a wait, and at no other place of a call: locks and
// claims would stay held. So a call holds cancellation back from beginning to end, a wait lets it
// act around the system call that sleeps, and each layer that a wait has entered names what puts
// its state right.
#pragma once

#include "native_cancellation.hpp"
#include "osd_annotations.hpp"

namespace osd {

/// The calling thread cannot be cancelled while this exists. Cheap, for calls that do not sleep.
class cancellation_hold {
public:
    cancellation_hold() = default;
    cancellation_hold(const cancellation_hold &) = delete;
    cancellation_hold &operator=(const cancellation_hold &) = delete;

private:
    native::cancellation_hold held_;
};

/// Limits cancellation in a call that waits: it acts at a cancellation_point, if the consumer has
/// it enabled. Use it for variables of the waiting function only.
class cancellable_wait {
public:
    cancellable_wait();
    cancellable_wait(const cancellable_wait &) = delete;
    cancellable_wait &operator=(const cancellable_wait &) = delete;
    ~cancellable_wait();

private:
    [[maybe_unused]] native::cancellation_hold held_;
    [[maybe_unused]] int type_ = 0;
    [[maybe_unused]] bool outermost_ = false;
};

void run_with_undo(void (*body)(void *), void (*undo)(void *), void *both);
void run_cancellable(void (*body)(void *), void *argument);
void run_cancellable_at_once(void (*body)(void *), void *argument);

/// Calls `body`. If the thread is cancelled in it, or leaves it by pthread_exit in a signal
/// handler, `undo` runs in its place, after the undo of what `body` had entered itself. No
/// destructor runs then.
template <class Body, class Undo>
void undo_if_cancelled(Body &&body, Undo &&undo) OSD_UNCHECKED // they may need locks of the caller
{
    struct both {
        Body &body;
        Undo &undo;
    } calls{body, undo};
    run_with_undo([](void *self) OSD_UNCHECKED { static_cast<both *>(self)->body(); },
                  [](void *self) OSD_UNCHECKED { static_cast<both *>(self)->undo(); }, &calls);
}

/// Calls `sleep`, which calls one function of the C library that is a cancellation point.
template <class Sleep>
void cancellation_point(Sleep &&sleep)
{
    run_cancellable([](void *self) { (*static_cast<Sleep *>(self))(); }, &sleep);
}

/// A cancellation point for a system call that has no such function in the C library: the thread
/// may be cancelled at any instruction of `sleep`.
template <class Sleep>
void raw_cancellation_point(Sleep &&sleep)
{
    run_cancellable_at_once([](void *self) { (*static_cast<Sleep *>(self))(); }, &sleep);
}

} // namespace osd
