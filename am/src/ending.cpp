// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ending.hpp"

#include "dapl_am.h"
#include "service_thread.hpp"

#include <cstdlib>
#include <unistd.h>

namespace am {

int ending::open(const actions &what)
{
    actions_ = what;
    process_ = getpid();
    if (!start_service_thread(run_thread, this, &thread_))
        return DAPL_AM_ERR_RESOURCES;
    open_ = true;
    return DAPL_AM_OK;
}

void *ending::run_thread(void *self)
{
    ending &end = *static_cast<ending *>(self);
    while (sem_wait(&end.wake_) != 0 || !end.begun()) {
    }
    end.actions_.run(end.actions_.argument);
    return nullptr;
}

void ending::begin(int code)
{
    if (set_code(code))
        wake();
}

void ending::begin_for_other(int code)
{
    if (set_code(code))
        by_other_ = true;
    requested_ = true;
    wake();
}

void ending::begin_without_launcher()
{
    if (!open_)
        return;
    begin(1);
    wake(); // the end may have begun already, and wait for the launcher
}

void ending::exit(int code)
{
    if (!open_)
        std::exit(code);
    if (!is_of_this_process())
        _exit(code);
    (void)set_code(code);
    if (is_on_thread())
        actions_.finish(actions_.argument);
    wake();
    stand();
}

void ending::wake()
{
    begun_.store(true, std::memory_order_release);
    sem_post(&wake_);
}

void ending::stand()
{
    for (;;)
        pause();
}

bool ending::grant(int rank)
{
    int none = -1;
    return granted_.compare_exchange_strong(none, rank);
}

bool ending::set_code(int code)
{
    int none = no_code;
    return code_.compare_exchange_strong(none, code & 0xff);
}

bool ending::is_on_thread() const
{
    return open_ && pthread_equal(pthread_self(), thread_) != 0;
}

bool ending::is_of_this_process() const
{
    return process_ == getpid();
}

} // namespace am
