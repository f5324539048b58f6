// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

namespace osd {

void *library_open(const char *path, char *error, std::size_t error_size)
{
    // RTLD_GLOBAL: providers built elsewhere find the registry's symbols through one another.
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
        std::snprintf(error, error_size, "%s", dlerror());
    return library;
}

void *library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void library_close(void *library)
{
    dlclose(library);
}

void *library_hold(const void *address)
{
    Dl_info found;
    if (dladdr(address, &found) == 0)
        return nullptr;
    return dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

const char *library_advice()
{
    return "ldd shows what it lacks, dat.conf where it is looked for";
}

char *environment(const char *name)
{
    const char *value = secure_getenv(name);
    return value != nullptr ? strdup(value) : nullptr;
}

bool config_path(unsigned choice, const char *name, char *path, std::size_t size)
{
    const char *const folders[] = {OSD_SYSCONFDIR, "/etc"};
    const bool etc_only = std::strcmp(OSD_SYSCONFDIR, "/etc") == 0;
    if (choice >= (etc_only ? 1 : 2))
        return false;
    const int length = std::snprintf(path, size, "%s/%s", folders[choice], name);
    return static_cast<std::size_t>(length) < size;
}

namespace {

char *read_all(int fd, std::size_t limit, std::size_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return nullptr;
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) > limit) {
        errno = S_ISREG(info.st_mode) ? EFBIG : S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        return nullptr;
    }
    const auto expected = static_cast<std::size_t>(info.st_size);
    auto *text = static_cast<char *>(std::malloc(expected + 1));
    if (text == nullptr)
        return nullptr;
    std::size_t have = 0;
    while (have < expected) {
        const ssize_t got = read(fd, text + have, expected - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            std::free(text);
            return nullptr;
        }
        if (got == 0)
            break;
        have += static_cast<std::size_t>(got);
    }
    text[have] = '\0';
    *size = have;
    return text;
}

} // namespace

char *read_file(const char *path, std::size_t limit, std::size_t *size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return nullptr;
    char *text = read_all(fd, limit, size);
    const int cause = errno;
    close(fd);
    errno = cause;
    return text;
}

void log_line(unsigned destinations, const char *identity, const char *text)
{
    if ((destinations & log_stdout) != 0) {
        std::printf("%s: %s\n", identity, text);
        std::fflush(stdout);
    }
    if ((destinations & log_syslog) != 0)
        syslog(LOG_USER | LOG_DEBUG, "%s: %s", identity, text);
    if ((destinations & log_stderr) != 0)
        std::fprintf(stderr, "%s: %s\n", identity, text);
}

} // namespace osd
