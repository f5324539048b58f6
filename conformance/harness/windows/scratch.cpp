// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/scratch.hpp"

#include "program/system.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <io.h>
#include <share.h>
#include <sys/stat.h>
#include <unistd.h>

namespace conformance {
namespace {

constexpr char scratch_name[] = "dapl-conformance-";
constexpr char lock_name[] = "in-use";

/// Opens the file that a living run keeps open for itself alone. Less than 0 if another has it.
int lock_scratch(const std::filesystem::path &folder)
{
    int lock = -1;
    (void)_wsopen_s(&lock, (folder / lock_name).c_str(), _O_CREAT | _O_RDWR | _O_NOINHERIT,
                    _SH_DENYRW, _S_IREAD | _S_IWRITE);
    return lock;
}

void remove_what_killed_runs_left(const std::filesystem::path &in)
{
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(in, ignored)) {
        if (entry.path().filename().string().rfind(scratch_name, 0) != 0)
            continue;
        const int lock = lock_scratch(entry.path());
        if (lock < 0)
            continue;
        _close(lock);
        std::filesystem::remove_all(entry.path(), ignored);
    }
}

} // namespace

scratch::scratch() : owner_(_getpid())
{
    std::error_code ignored;
    remove_what_killed_runs_left(std::filesystem::temp_directory_path(ignored));
    if (make())
        for (const char *name : {"TMP", "TEMP"})
            program::set_variable(name, path_);
}

bool scratch::make()
{
    std::error_code ignored;
    const auto where =
        std::filesystem::temp_directory_path(ignored) / (scratch_name + std::to_string(owner_));
    if (!std::filesystem::create_directory(where, ignored))
        return false;
    path_ = where.string();
    lock_ = lock_scratch(where);
    return lock_ >= 0;
}

/// A file that is open cannot be removed on this system.
scratch::~scratch()
{
    std::error_code ignored;
    if (lock_ >= 0)
        _close(lock_);
    if (!path_.empty() && owner_ == _getpid())
        std::filesystem::remove_all(path_, ignored);
}

} // namespace conformance
