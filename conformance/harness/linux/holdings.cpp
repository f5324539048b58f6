// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/holdings.hpp"

#include <cstdlib>
#include <dirent.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace conformance {

namespace fs = std::filesystem;

namespace {

std::size_t mappings()
{
    std::size_t number = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        ++number;
    return number;
}

/// Pages with freed memory alone go back to the system first. malloc() keeps them otherwise while
/// something small behind them is in use, such as a connection request that may be repeated.
std::size_t resident_kib()
{
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0)
            return std::strtoul(line.c_str() + 6, nullptr, 10);
    return 0;
}

/// The number of entries of a folder, "." and ".." included.
std::size_t entries_in(const char *folder)
{
    std::size_t number = 0;
    DIR *open = ::opendir(folder);
    while (open != nullptr && ::readdir(open) != nullptr)
        ++number;
    if (open != nullptr)
        ::closedir(open);
    return number;
}

} // namespace

std::size_t open_all_descriptors()
{
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur;
}

holdings what_we_hold()
{
    return {entries_in("/proc/self/fd"), entries_in("/proc/self/task"), mappings(), resident_kib()};
}

belongings what_is_held()
{
    belongings held;
    std::error_code gone; // descriptors of the listing itself, and threads that exit during it
    for (const auto &each : fs::directory_iterator("/proc/self/fd", gone)) {
        const auto target = fs::read_symlink(each.path(), gone);
        if (!gone && target.string().find("/proc/") != 0)
            held.descriptors.push_back(target.string());
    }
    for (const auto &each : fs::directory_iterator("/proc/self/task", gone)) {
        std::string name;
        std::getline(std::ifstream(each.path() / "comm") >> std::ws, name);
        held.threads.push_back(name);
    }
    return held;
}

std::set<std::string> mapped_libraries()
{
    std::set<std::string> names;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (const auto at = line.find('/');
            at != std::string::npos && line.find(".so") != std::string::npos)
            names.insert(line.substr(at));
    return names;
}

namespace {

/// Whether another thread of this process runs, or would if a processor were free.
bool another_runs()
{
    const std::string own = std::to_string(::gettid());
    std::error_code gone; // threads that exit during it
    for (const auto &each : std::filesystem::directory_iterator("/proc/self/task", gone)) {
        std::string stat;
        std::getline(std::ifstream(each.path() / "stat"), stat);
        const std::size_t name_end = stat.rfind(')');
        if (each.path().filename() != own && name_end != std::string::npos &&
            stat.compare(name_end, 3, ") R") == 0)
            return true;
    }
    return false;
}

} // namespace

int looks_with_running_threads(int looks, milliseconds pause)
{
    int seen = 0;
    for (int i = 0; i < looks; ++i) {
        std::this_thread::sleep_for(pause);
        seen += another_runs() ? 1 : 0;
    }
    return seen;
}

} // namespace conformance
