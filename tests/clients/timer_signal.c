/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Preloaded into clients: a signal each millisecond, as under a sampling profiler. Its handler has
 * SA_RESTART and does nothing. DAPL_TEST_TIMER is "prof", for SIGPROF by processor
 * time, or "real", for SIGALRM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static void nothing(int number)
{
    (void)number;
}

__attribute__((constructor)) static void start(void)
{
    const char *which = getenv("DAPL_TEST_TIMER");
    const int prof = which != NULL && strcmp(which, "prof") == 0;
    struct sigaction action;
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    memset(&action, 0, sizeof action);
    action.sa_handler = nothing;
    action.sa_flags = SA_RESTART;
    sigaction(prof ? SIGPROF : SIGALRM, &action, NULL);
    setitimer(prof ? ITIMER_PROF : ITIMER_REAL, &timer, NULL);
}

/* A signal ends sleep(3) early. dtest sleeps until its peer has posted receives, without which an
 * iWARP connection breaks: so its sleeps are as long as without signals. */
unsigned int sleep(unsigned int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    return 0;
}
