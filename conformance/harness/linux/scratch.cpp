// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/scratch.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace conformance {
namespace {

constexpr char scratch_name[] = "dapl-conformance-";

/// The folder, if it is ours and no process of the run that made it is left; the lock then.
int lock_scratch(const std::string &path)
{
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat now {};
    struct stat locked {};
    if (fd >= 0 && ::fstat(fd, &locked) == 0 && locked.st_uid == ::geteuid() &&
        ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::stat(path.c_str(), &now) == 0 &&
        now.st_ino == locked.st_ino)
        return fd;
    if (fd >= 0)
        ::close(fd);
    return -1;
}

void remove_what_killed_runs_left(const std::filesystem::path &in)
{
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(in, ignored)) {
        if (entry.path().filename().string().rfind(scratch_name, 0) != 0)
            continue;
        const int lock = lock_scratch(entry.path().string());
        if (lock < 0)
            continue;
        std::filesystem::remove_all(entry.path(), ignored);
        ::close(lock);
    }
}

} // namespace

scratch::scratch() : owner_(::getpid())
{
    std::error_code ignored;
    remove_what_killed_runs_left(std::filesystem::temp_directory_path(ignored));
    for (int i = 0; i < 3 && !make(); ++i)
        ;
    if (!path_.empty())
        ::setenv("TMPDIR", path_.c_str(), 1);
}

/// Another run may remove it before it is locked.
bool scratch::make()
{
    std::error_code ignored;
    const auto where =
        std::filesystem::temp_directory_path(ignored) / (std::string(scratch_name) + "XXXXXX");
    path_ = where.string();
    if (::mkdtemp(path_.data()) == nullptr)
        path_.clear();
    else if ((lock_ = lock_scratch(path_)) < 0)
        ::rmdir(std::exchange(path_, {}).c_str());
    return lock_ >= 0;
}

scratch::~scratch()
{
    std::error_code ignored;
    if (!path_.empty() && owner_ == ::getpid())
        std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0)
        ::close(lock_);
}

} // namespace conformance
