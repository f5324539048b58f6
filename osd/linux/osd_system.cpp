// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_system.hpp"

#include "osd_errno.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <memory>
#include <new>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

namespace osd {

namespace {

/// The addresses of all loaded objects. The table is too large for the stacks of small threads.
class loaded_objects {
public:
    void look() { dl_iterate_phdr(&note, this); }
    bool hold(std::uintptr_t address) const
    {
        for (std::size_t i = 0; i < count_; ++i)
            if (address - objects_[i].begin < objects_[i].size)
                return true;
        return overflowed_;
    }

private:
    struct object {
        std::uintptr_t begin;
        std::uintptr_t size;
    };
    static constexpr std::size_t most = 512;

    static int note(dl_phdr_info *info, std::size_t, void *self)
    {
        std::uintptr_t begin = UINTPTR_MAX;
        std::uintptr_t end = 0;
        for (unsigned i = 0; i < info->dlpi_phnum; ++i)
            if (const auto &each = info->dlpi_phdr[i]; each.p_type == PT_LOAD) {
                begin = std::min<std::uintptr_t>(begin, each.p_vaddr);
                end = std::max<std::uintptr_t>(end, each.p_vaddr + each.p_memsz);
            }
        static_cast<loaded_objects *>(self)->add({info->dlpi_addr + begin, end - begin});
        return 0;
    }
    void add(const object &found)
    {
        if (count_ == most)
            overflowed_ = true;
        else
            objects_[count_++] = found;
    }

    object objects_[most];
    std::size_t count_ = 0;
    bool overflowed_ = false;
};

std::uintptr_t handler_of(const struct sigaction &action)
{
    return reinterpret_cast<std::uintptr_t>(action.sa_handler);
}

bool is_function(std::uintptr_t handler)
{
    return handler != reinterpret_cast<std::uintptr_t>(SIG_DFL) &&
           handler != reinterpret_cast<std::uintptr_t>(SIG_IGN);
}

/// The program's dispositions of signals. Constructors and destructors of libraries change them:
/// libinfinipath, which comes with libfabric, changes SIGINT and SIGTERM among others. The table is
/// too large for small stacks as well.
class signal_dispositions {
public:
    signal_dispositions()
    {
        for (int signal = 1; signal < NSIG; ++signal)
            known_[signal] = sigaction(signal, nullptr, &actions_[signal]) == 0;
    }
    /// Undoes the changes for which this is true, of the handler now and that before.
    template <class Predicate>
    void restore_if(Predicate &&undoes) const
    {
        for (int signal = 1; signal < NSIG; ++signal) {
            struct sigaction now {};
            if (!known_[signal] || sigaction(signal, nullptr, &now) != 0)
                continue;
            const std::uintptr_t before = handler_of(actions_[signal]);
            if (handler_of(now) != before && undoes(handler_of(now), before))
                (void)sigaction(signal, &actions_[signal], nullptr);
        }
    }

private:
    struct sigaction actions_[NSIG] {};
    bool known_[NSIG] = {};
};

} // namespace

/// Another thread of the program may change a disposition at the same time. That disposition names
/// no function of a library that this call loads.
void *library_open(const char *path, char *error, std::size_t error_size)
{
    const std::unique_ptr<signal_dispositions> before(new (std::nothrow) signal_dispositions);
    const std::unique_ptr<loaded_objects> others(new (std::nothrow) loaded_objects);
    if (before == nullptr || others == nullptr) {
        std::snprintf(error, error_size, "%s", std::strerror(ENOMEM));
        return nullptr;
    }
    others->look();
    // RTLD_GLOBAL: providers built elsewhere find the registry's symbols through one another.
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    before->restore_if(
        [&](std::uintptr_t now, std::uintptr_t) { return is_function(now) && !others->hold(now); });
    if (library == nullptr)
        std::snprintf(error, error_size, "%s", dlerror());
    return library;
}

void *library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

/// Closes a library. Its destructors put back the dispositions at its load, though these may have
/// changed since. Without memory to note the present dispositions, the library stays.
void library_close(void *library)
{
    const std::unique_ptr<signal_dispositions> before(new (std::nothrow) signal_dispositions);
    const std::unique_ptr<loaded_objects> left(new (std::nothrow) loaded_objects);
    if (before == nullptr || left == nullptr)
        return;
    dlclose(library);
    left->look();
    before->restore_if([&](std::uintptr_t, std::uintptr_t former) {
        return !is_function(former) || left->hold(former);
    });
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

bool is_privileged()
{
    return getauxval(AT_SECURE) != 0;
}

char *environment(const char *name)
{
    const char *value = secure_getenv(name);
    return value != nullptr ? copy_text(value) : nullptr;
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

bool is_trusted(const struct stat &info)
{
    return (info.st_uid == 0 || info.st_uid == geteuid()) &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

char *read_all(int fd, std::size_t limit, std::size_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return nullptr;
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) > limit) {
        errno = S_ISREG(info.st_mode) ? EFBIG : S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        return nullptr;
    }
    if (is_privileged() && !is_trusted(info)) {
        errno = EPERM;
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

namespace {

/// One system call, so that lines of several processes do not mix. fprintf(3) would take 8 KiB of
/// the stack, since the stream has no buffer.
void write_error_line(const char *identity, const char *text)
{
    const auto part = [](const char *of) { return iovec{const_cast<char *>(of), std::strlen(of)}; };
    const iovec parts[] = {part(identity), part(": "), part(text), part("\n")};
    const ssize_t written = writev(fileno(stderr), parts, 4);
    (void)written;
}

} // namespace

void log_line(unsigned destinations, const char *identity, const char *text)
{
    if ((destinations & log_stdout) != 0) {
        std::printf("%s: %s\n", identity, text);
        std::fflush(stdout);
    }
    if ((destinations & log_syslog) != 0)
        syslog(LOG_USER | LOG_DEBUG, "%s: %s", identity, text);
    if ((destinations & log_stderr) != 0)
        write_error_line(identity, text);
}

error_text::error_text(int error)
{
    std::snprintf(text, sizeof text, "%s", std::strerror(error));
}

limit_text::limit_text(int error)
{
    rlimit now{};
    if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &now) == 0)
        std::snprintf(text, sizeof text,
                      "; %llu descriptors may be open (RLIMIT_NOFILE, ulimit -n)",
                      static_cast<unsigned long long>(now.rlim_cur));
    else if (error == EAGAIN && ::getrlimit(RLIMIT_NPROC, &now) == 0 &&
             now.rlim_cur != RLIM_INFINITY)
        std::snprintf(text, sizeof text,
                      "; this user may have %llu threads (RLIMIT_NPROC, ulimit -u), or fewer in a "
                      "container (pids.max)",
                      static_cast<unsigned long long>(now.rlim_cur));
    else if (error == EAGAIN)
        std::snprintf(text, sizeof text,
                      "; no more threads: pids.max of the container, or kernel.threads-max");
}

limit_text limit_text::of_locking(int error)
{
    limit_text made(error);
    rlimit now{};
    if (error == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &now) == 0 && now.rlim_cur != RLIM_INFINITY)
        std::snprintf(made.text, sizeof made.text,
                      "; %llu KiB of memory may be locked (RLIMIT_MEMLOCK, ulimit -l)",
                      static_cast<unsigned long long>(now.rlim_cur / 1024));
    return made;
}

} // namespace osd
