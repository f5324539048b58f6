// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_descriptor.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace osd {

/// By system calls: close() is a cancellation point.
int beyond_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const long beyond = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno == EINVAL ? EMFILE : errno; // the limit is not above
    (void)syscall(SYS_close, fd);
    errno = error;
    return static_cast<int>(beyond);
}

/// Another thread may open or close some meanwhile: what is opened here takes a free one, and is
/// closed if that is not a standard one.
void occupy_standard()
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (fcntl(fd, F_GETFD) < 0) {
            const long opened =
                syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
            if (opened > STDERR_FILENO)
                (void)syscall(SYS_close, opened);
        }
}

bool event_descriptor::open()
{
    fd_ = beyond_standard(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return is_open();
}

void event_descriptor::close()
{
    if (is_open())
        ::close(fd_);
    fd_ = -1;
}

void event_descriptor::raise()
{
    if (is_open())
        (void)::eventfd_write(fd_, 1);
}

void event_descriptor::lower()
{
    eventfd_t count = 0;
    if (is_open())
        (void)::eventfd_read(fd_, &count); // fails when it was not raised
}

} // namespace osd
