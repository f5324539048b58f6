// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "osd_sharing.hpp"

#include "osd_descriptor.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace osd {

bool can_share()
{
    return true;
}

namespace {

unsigned long namespace_of(const char *file)
{
    struct stat info;
    return stat(file, &info) == 0 ? static_cast<unsigned long>(info.st_ino) : 0;
}

/// The folder in which the C library makes the files of shm_open.
constexpr char folder[] = "/dev/shm";
using path = char[192];

/// Processes that do not see one another's numbers and times have pages of their own.
void make_path(path &out, const char *name, unsigned choice)
{
    char more[16] = "";
    if (choice != 0)
        std::snprintf(more, sizeof more, ".%u", choice);
    std::snprintf(out, sizeof out, "%s/%s.%lu.%lu.%lu%s", folder, name,
                  static_cast<unsigned long>(geteuid()), namespace_of("/proc/self/ns/pid"),
                  namespace_of("/proc/self/ns/time"), more);
}

/// The file, if it belongs to the user. Every user can make one of this name, of any kind.
int open_own(const path &file, int more)
{
    const char *const name = file + sizeof folder - 1;
    const int found = beyond_standard(
        shm_open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | more, S_IRUSR | S_IWUSR));
    struct stat info;
    if (found < 0 || (fstat(found, &info) == 0 && info.st_uid == geteuid()))
        return found;
    ::close(found);
    errno = EACCES;
    return -1;
}

/// Whether something stands there that is not the user's, or no file. EINVAL: a folder.
bool is_taken(int error)
{
    return error == EACCES || error == EPERM || error == ELOOP || error == EINVAL ||
           error == ENXIO || error == EEXIST;
}

constexpr unsigned choices = 64;

/// Opens the user's file. A file has several names to try, since another user may have taken one:
/// returns the descriptor of the first that is the user's, or -1 and the reason in errno. `free` is
/// the first name that nobody has taken, `choices` if there is none.
int find_file(path &file, const char *name, unsigned &free)
{
    free = choices;
    for (unsigned choice = 0; choice < choices; ++choice) {
        make_path(file, name, choice);
        const int found = open_own(file, 0);
        if (found >= 0 || (errno != ENOENT && !is_taken(errno)))
            return found;
        if (errno == ENOENT && free == choices)
            free = choice;
    }
    errno = free < choices ? ENOENT : EEXIST;
    return -1;
}

/// Opens the file that all processes of the user come to, whichever names others have taken, or
/// given back since: a new file is made only if there is none under any name, and then looked for
/// again. Two processes can part only when they make the first one in the very moment in which
/// another user gives a name back; then they do not see that their lengths contradict.
int open_file(path &file, const char *name)
{
    for (unsigned attempt = 0; attempt < choices; ++attempt) {
        unsigned free = choices;
        const int found = find_file(file, name, free);
        if (found >= 0 || errno != ENOENT)
            return found;
        make_path(file, name, free);
        const int made = open_own(file, O_CREAT | O_EXCL);
        if (made < 0 && !is_taken(errno))
            return -1;
        if (made >= 0)
            ::close(made);
    }
    errno = EEXIST;
    return -1;
}

const char *why_not_opened(int error)
{
    return error == EEXIST ? "other users have taken all names for the file in /dev/shm"
                           : std::strerror(error);
}

const char *judge(const struct stat &info)
{
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1)
        return "the file in /dev/shm is no file of its own";
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "the file in /dev/shm is open to other users";
    return nullptr;
}

/// A process that exceeds its limit of the size of files is ended by a signal.
bool may_make(std::size_t size)
{
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

/// Gives an empty file all its pages before one is used: a process that finds no room for a page
/// when it writes is ended. A process that comes at this time, or after another was killed here,
/// gives the file this size, too.
const char *give_size(int file, std::size_t size)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return std::strerror(errno);
    const char *const wrong = judge(info);
    if (wrong != nullptr || info.st_size != 0)
        return wrong;
    if (!may_make(size))
        return std::strerror(EFBIG);
    while (fallocate(file, 0, 0, static_cast<off_t>(size)) != 0)
        if (errno != EINTR)
            return std::strerror(errno);
    return nullptr;
}

} // namespace

const char *shared_pages::open(const char *name, std::size_t size)
{
    const int file = open_file(file_, name);
    if (file < 0)
        return why_not_opened(errno);
    const char *wrong = give_size(file, size);
    if (wrong == nullptr)
        wrong = map(file, size, PROT_READ | PROT_WRITE);
    ::close(file);
    return wrong;
}

/// A file without a size is one that its maker has not filled yet: nothing is in it.
const char *shared_pages::view(const char *name, std::size_t size)
{
    unsigned free = 0;
    const int file = find_file(file_, name, free);
    if (file < 0)
        return errno == ENOENT ? nullptr : why_not_opened(errno);
    struct stat info;
    const bool is_empty = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
    const char *const wrong = is_empty ? nullptr : map(file, size, PROT_READ);
    ::close(file);
    return wrong;
}

const char *shared_pages::map(int file, std::size_t size, int rights)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return std::strerror(errno);
    if (const char *wrong = judge(info); wrong != nullptr)
        return wrong;
    if (info.st_size != static_cast<off_t>(size))
        return "the file in /dev/shm has another size";
    void *const there = mmap(nullptr, size, rights, MAP_SHARED, file, 0);
    if (there == MAP_FAILED)
        return std::strerror(errno);
    address_ = there;
    size_ = size;
    inode_ = info.st_ino;
    return nullptr;
}

void shared_pages::close()
{
    if (address_ != nullptr)
        munmap(address_, size_);
    address_ = nullptr;
}

/// A file that was removed keeps its pages.
bool shared_pages::is_whole() const
{
    struct stat info;
    return stat(file_, &info) != 0 || info.st_ino != inode_ ||
           info.st_size >= static_cast<off_t>(size_);
}

const char *offered_pages::open(const char *name, std::size_t size)
{
    if (!may_make(size))
        return std::strerror(EFBIG);
    file_ = beyond_standard(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    size_ = size;
    // The pages are taken now: a process that finds no room for one when it writes is ended.
    const bool is_made = file_ >= 0 && fallocate(file_, 0, 0, static_cast<off_t>(size)) == 0 &&
                         fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    void *const there =
        is_made ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0) : MAP_FAILED;
    if (there == MAP_FAILED) {
        const char *const why = std::strerror(errno);
        close();
        return why;
    }
    address_ = there;
    return nullptr;
}

void offered_pages::close()
{
    if (address_ != nullptr)
        munmap(address_, size_);
    if (file_ >= 0)
        ::close(file_);
    address_ = nullptr;
    file_ = -1;
}

namespace {

/// What /proc tells of a process.
struct life {
    char state = 0;
    std::uint64_t threads = 0;
    std::uint64_t start = 0; ///< start in ticks since the system's
    std::uint64_t stack = 0; ///< stack address at its start: exec chooses another place. 0 when not
                             ///< told
};

/// Whether /proc numbers processes as this process sees them.
bool knows_us()
{
    char number[16] = {};
    return readlink("/proc/self", number, sizeof number - 1) > 0 && std::atol(number) == getpid();
}

/// Fields of /proc/<number>/stat, as proc(5) counts them. The name, which is the second, may
/// contain anything.
bool parse_life(const char *text, life &out)
{
    constexpr int state = 3, threads = 20, start = 22, stack = 28;
    const char *at = std::strrchr(text, ')');
    for (int field = state; at != nullptr && field <= stack; ++field) {
        at = std::strchr(at, ' ');
        if (at == nullptr)
            return false;
        ++at;
        if (field == state)
            out.state = *at;
        else if (field == threads)
            out.threads = std::strtoull(at, nullptr, 10);
        else if (field == start)
            out.start = std::strtoull(at, nullptr, 10);
        else if (field == stack)
            out.stack = std::strtoull(at, nullptr, 10);
    }
    return at != nullptr;
}

bool read_life(long process, life &out)
{
    char text[1024];
    std::snprintf(text, sizeof text, "/proc/%ld/stat", process);
    const int file = knows_us() ? open(text, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return false;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return parse_life(text, out);
}

/// The start of a process in 24 bits; never 0.
std::uint32_t short_start(const life &of)
{
    const auto bits = static_cast<std::uint32_t>(of.start & 0xffffff);
    return bits != 0 ? bits : 1;
}

/// Whether a process has ended. A process whose first thread has ended is a zombie, too, while
/// others run.
bool has_ended(const life &of)
{
    return (of.state == 'Z' || of.state == 'X') && of.threads <= 1;
}

} // namespace

process_identity this_process()
{
    process_identity self;
    self.number = static_cast<std::uint32_t>(getpid());
    life mine;
    if (read_life(getpid(), mine)) {
        self.start = short_start(mine);
        self.image = mine.stack;
    }
    return self;
}

bool is_gone(const process_identity &process)
{
    const auto number = static_cast<pid_t>(process.number);
    if (kill(number, 0) != 0 && errno == ESRCH)
        return true;
    life now;
    if (!read_life(number, now))
        return false;
    return has_ended(now) || (process.start != 0 && process.start != short_start(now)) ||
           (process.image != 0 && now.stack != 0 && process.image != now.stack);
}

} // namespace osd
