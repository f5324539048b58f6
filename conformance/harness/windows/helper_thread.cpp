// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Windows has no signals that interrupt a thread, cancels none, and copies no process.
// Another thread, such as a debugger's, holds a thread up there by suspending it.
#include "harness/helper_thread.hpp"

#include "harness/events.hpp"

#include <windows.h>

namespace conformance {

const bool waits_are_interrupted = false;
const bool threads_are_cancelled = false;
const bool processes_are_copied = false;

namespace {

HANDLE handle_of(std::intptr_t id)
{
    return reinterpret_cast<HANDLE>(id);
}

std::uint64_t time_used(std::intptr_t id)
{
    FILETIME unused[2];
    ULARGE_INTEGER kernel{};
    ULARGE_INTEGER user{};
    FILETIME times[2]{};
    GetThreadTimes(handle_of(id), &unused[0], &unused[1], &times[0], &times[1]);
    kernel.LowPart = times[0].dwLowDateTime;
    kernel.HighPart = times[0].dwHighDateTime;
    user.LowPart = times[1].dwLowDateTime;
    user.HighPart = times[1].dwHighDateTime;
    return kernel.QuadPart + user.QuadPart;
}

} // namespace

void catch_signal(signal_kind) {}

/// Returns a handle to the calling thread that others can use; it lasts as long as the process.
std::intptr_t helper_thread::own_id()
{
    HANDLE made = nullptr;
    DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &made, 0, FALSE,
                    DUPLICATE_SAME_ACCESS);
    return reinterpret_cast<std::intptr_t>(made);
}

/// Windows does not tell what a thread waits for. A thread counts as asleep here when it uses no
/// time in a while.
bool helper_thread::asleep() const
{
    const std::uint64_t before = time_used(*id_);
    std::this_thread::sleep_for(milliseconds(20));
    return time_used(*id_) == before;
}

bool helper_thread::gone() const
{
    return *id_ != 0 && WaitForSingleObject(handle_of(*id_), 0) == WAIT_OBJECT_0;
}

void helper_thread::cancel() {}

bool helper_thread::disturb(signal_kind)
{
    if (!hold_up())
        return finished();
    std::this_thread::sleep_for(milliseconds(1));
    let_go();
    return true;
}

bool helper_thread::hold_up()
{
    return *id_ != 0 && SuspendThread(handle_of(*id_)) != static_cast<DWORD>(-1);
}

void helper_thread::let_go()
{
    ResumeThread(handle_of(*id_));
}

void accept_cancellation(cancel_type) {}

int status_of_copy(const std::function<int()> &)
{
    return -1;
}

} // namespace conformance
