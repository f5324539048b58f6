// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_cancellation.hpp"

#include <poll.h>

namespace osd {

namespace {

/// Whether the calling thread is inside a DAT wait, and a cancellable one.
enum class in : unsigned char { no_wait, wait, cancellable_wait };
thread_local in state = in::no_wait;

/// pthread_cancel checks the state and type of the target first and then sends it a signal, which
/// takes effect if the target is inside a cancellation point of the C library when it arrives, even
/// if cancellation is disabled by then. A pending signal is delivered before this returns.
void await_signal()
{
    (void)poll(nullptr, 0, 0);
}

void set_type(int type)
{
    pthread_setcanceltype(type, nullptr);
}

void set_state(int wanted)
{
    pthread_setcancelstate(wanted, nullptr);
}

} // namespace

cancellable_wait::cancellable_wait() : outermost_(state == in::no_wait)
{
    if (!outermost_)
        return;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type_);
    state = held_.was_enabled() ? in::cancellable_wait : in::wait;
    if (type_ == PTHREAD_CANCEL_ASYNCHRONOUS)
        cancellation_point([] { await_signal(); });
}

cancellable_wait::~cancellable_wait()
{
    if (!outermost_)
        return;
    state = in::no_wait;
    if (type_ == PTHREAD_CANCEL_ASYNCHRONOUS)
        set_type(type_);
}

void run_with_undo(void (*body)(void *), void (*undo)(void *), void *both)
{
    if (state == in::no_wait)
        return body(both);
    pthread_cleanup_push(undo, both);
    body(both);
    pthread_cleanup_pop(0);
}

void run_cancellable(void (*body)(void *), void *argument)
{
    if (state != in::cancellable_wait)
        return body(argument);
    set_state(PTHREAD_CANCEL_ENABLE);
    body(argument);
    set_state(PTHREAD_CANCEL_DISABLE);
}

void run_cancellable_at_once(void (*body)(void *), void *argument)
{
    if (state != in::cancellable_wait)
        return body(argument);
    set_state(PTHREAD_CANCEL_ENABLE);
    set_type(PTHREAD_CANCEL_ASYNCHRONOUS);
    body(argument);
    set_type(PTHREAD_CANCEL_DEFERRED);
    await_signal();
    set_state(PTHREAD_CANCEL_DISABLE);
}

} // namespace osd
