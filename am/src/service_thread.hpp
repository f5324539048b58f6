// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Threads of the library, which run until the process ends.
#pragma once

#include <pthread.h>

namespace am {

/// Starts a detached thread that takes SIGQUIT and the signals of crashes only. False when the
/// system has none left, which is reported.
bool start_service_thread(void *(*body)(void *), void *argument, pthread_t *started = nullptr);

} // namespace am
