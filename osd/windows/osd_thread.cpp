// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_thread.hpp"

#include <cstdio>
#include <process.h>

// Windows has it since 10 1607; the headers of Debian 12 lack it.
extern "C" __declspec(dllimport) HRESULT WINAPI SetThreadDescription(HANDLE, PCWSTR);

namespace osd {

bool thread::start(const char *name, void (*body)(void *), void *argument)
{
    std::snprintf(name_, sizeof name_, "%s", name);
    body_ = body;
    argument_ = argument;
    // CreateThread would not do: the body calls the C library.
    native_ = reinterpret_cast<HANDLE>(_beginthreadex(nullptr, 0, enter, this, 0, nullptr));
    running_ = native_ != nullptr;
    return running_;
}

native::thread_result thread::enter(void *self)
{
    auto *me = static_cast<thread *>(self);
    me->self_.store(native::current_thread());
    wchar_t name[sizeof name_];
    if (MultiByteToWideChar(CP_UTF8, 0, me->name_, -1, name, sizeof name_) != 0)
        SetThreadDescription(GetCurrentThread(), name);
    me->body_(me->argument_);
    return 0;
}

void thread::join()
{
    if (running_) {
        WaitForSingleObject(native_, INFINITE);
        CloseHandle(native_);
    }
    self_.store(native::thread_id{});
    running_ = false;
}

void thread::leave()
{
    if (running_)
        CloseHandle(native_);
    running_ = false;
}

long process_id()
{
    return static_cast<long>(GetCurrentProcessId());
}

bool call_in_forked_children(void (*)())
{
    return true;
}

long thread_id()
{
    return static_cast<long>(GetCurrentThreadId());
}

void yield()
{
    SwitchToThread();
}

/// The system's shortest sleep is one of its ticks.
void backoff::pause()
{
    if (yields_ < most_yields) {
        ++yields_;
        return yield();
    }
    Sleep(1);
}

/// Has fewer levels: any number of steps is one. No thread inherits a priority.
bool raise_priority(unsigned steps)
{
    return steps != 0 && SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_ABOVE_NORMAL) != 0;
}

} // namespace osd
