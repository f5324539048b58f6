// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "service_thread.hpp"

#include "report.hpp"

#include <signal.h>

namespace am {

namespace {

constexpr int taken_signals[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

} // namespace

bool start_service_thread(void *(*body)(void *), void *argument, pthread_t *started)
{
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (const int number : taken_signals)
        sigdelset(&blocked, number);
    pthread_t thread{};
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error =
        pthread_create(started != nullptr ? started : &thread, nullptr, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) {
        report("pthread_create failed with error %d", error);
        return false;
    }
    pthread_detach(started != nullptr ? *started : thread);
    return true;
}

} // namespace am
