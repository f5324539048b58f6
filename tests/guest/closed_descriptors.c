/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program that has closed its standard descriptors, as daemons do: code that writes to them all
 * the same must not write to a file that a library has opened since.
 *
 * closed_descriptors ADAPTER own|foreign: what it needs is opened by the provider, or by a library
 * below it, too. */
#include "life.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum { most = 256 };

static int said_to; /* stands in for standard error */
static int all_are_own;
static unsigned wrong;
static char before[most];

/* A thread that opens a file gets the lowest descriptor that is free, and moves the file away. */
static int stays(int fd)
{
    int tries;
    for (tries = 0; tries < 1000 && fcntl(fd, F_GETFD) >= 0; ++tries)
        usleep(1000);
    return tries == 1000;
}

static void note(const char *what, int fd)
{
    char where[64];
    char file[PATH_MAX] = "nothing";
    sprintf(where, "/proc/self/fd/%d", fd);
    if (readlink(where, file, sizeof file - 1) >= 0 && !all_are_own &&
        strcmp(file, "/dev/null") == 0)
        return;
    if (!stays(fd))
        return;
    dprintf(said_to, "descriptor %d, %s: %s\n", fd, file, what);
    ++wrong;
}

static void look(void)
{
    int fd;
    for (fd = 0; fd < most; ++fd) {
        const int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || before[fd])
            continue;
        if (fd <= STDERR_FILENO)
            note("stands where programs write", fd);
        else if (all_are_own && (flags & FD_CLOEXEC) == 0)
            note("is inherited by what the program executes", fd);
    }
}

int main(int argc, char **argv)
{
    int fd;
    expect(argc == 3, "usage: closed_descriptors ADAPTER own|foreign");
    all_are_own = strcmp(argv[2], "own") == 0;
    said_to = fcntl(STDERR_FILENO, F_DUPFD, most);
    for (fd = STDERR_FILENO + 1; fd < most; ++fd)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    for (fd = 0; fd <= STDERR_FILENO; ++fd)
        close(fd);
    live(argv[1], look);
    return wrong != 0;
}
